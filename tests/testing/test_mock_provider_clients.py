"""The real clients of Anthropic and OpenAI talk to the mock provider, and believe it."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from argstream import UsageError, stream
from argstream.testing import (
    CallTool,
    Cut,
    ErrorEvent,
    Fault,
    Malformed,
    MockProvider,
    Reply,
    Say,
    Slow,
    Split,
    Status,
    Think,
)

ARGUMENTS = {"path": "a.txt", "content": 'é "quoted"\n😀\\', "mode": 420, "tags": ["x", None]}
SCRIPT = Reply(
    Think("They want a file – a small one."),
    Say("I write it: 😀."),
    CallTool("write_file", ARGUMENTS),
    CallTool("list_files", {}),
)
MESSAGES: Any = [{"role": "user", "content": "Write a file."}]
ANTHROPIC: Any = {"model": "claude-mock", "max_tokens": 1000, "messages": MESSAGES}
SCHEMA: Any = {"type": "object", "properties": {}}
CHAT: Any = {"model": "gpt-mock", "messages": MESSAGES}
RESPONSES: Any = {"model": "gpt-mock", "input": "Write a file."}
# While it streams, Anthropic's client lets through what its HTTP library raises.
BROKEN = (anthropic.APIConnectionError, openai.APIConnectionError, httpx2.RemoteProtocolError)


# To make one takes longer than most tests here.
SSL = httpx2.create_ssl_context()


def anthropic_client(provider: MockProvider, max_retries: int = 0) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        base_url=provider.anthropic_url,
        api_key="any",
        max_retries=max_retries,
        http_client=anthropic.DefaultHttpxClient(verify=SSL),
    )


def async_anthropic_client(provider: MockProvider) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        base_url=provider.anthropic_url,
        api_key="any",
        max_retries=0,
        http_client=anthropic.DefaultAsyncHttpxClient(verify=SSL),
    )


def openai_client(provider: MockProvider) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=provider.openai_url,
        api_key="any",
        max_retries=0,
        http_client=openai.DefaultHttpxClient(verify=SSL),
    )


def async_openai_client(provider: MockProvider) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=provider.openai_url,
        api_key="any",
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(verify=SSL),
    )


@dataclass
class Seen:
    """What a client made of an answer, in the same form for all."""

    thinking: str
    text: str
    calls: list[tuple[str, Any]]
    stop: str | None
    tokens: tuple[int, int] | None


def seen_message(message: Any) -> Seen:
    blocks = message.content
    return Seen(
        "".join(block.thinking for block in blocks if block.type == "thinking"),
        "".join(block.text for block in blocks if block.type == "text"),
        [(block.name, block.input) for block in blocks if block.type == "tool_use"],
        message.stop_reason,
        (message.usage.input_tokens, message.usage.output_tokens),
    )


def seen_completion(completion: Any) -> Seen:
    (choice,) = completion.choices
    usage = completion.usage
    return Seen(
        choice.message.reasoning_content,
        choice.message.content,
        [
            (call.function.name, json.loads(call.function.arguments))
            for call in choice.message.tool_calls
        ],
        choice.finish_reason,
        (usage.prompt_tokens, usage.completion_tokens) if usage else None,
    )


def seen_response(response: Any) -> Seen:
    items = response.output
    return Seen(
        "".join(item.summary[0].text for item in items if item.type == "reasoning"),
        response.output_text,
        [(item.name, json.loads(item.arguments)) for item in items if item.type == "function_call"],
        response.status,
        (response.usage.input_tokens, response.usage.output_tokens),
    )


def ask_messages(provider: MockProvider) -> Seen:
    with anthropic_client(provider) as client:
        return seen_message(client.messages.create(**ANTHROPIC))


def ask_messages_stream(provider: MockProvider) -> Seen:
    with anthropic_client(provider) as client, client.messages.stream(**ANTHROPIC) as events:
        return seen_message(events.get_final_message())


def ask_messages_create_stream(provider: MockProvider) -> Seen:
    with anthropic_client(provider) as client:
        events = list(client.messages.create(**ANTHROPIC, stream=True))
    seen = Seen("", "", [], None, None)
    texts: dict[int, str] = {}
    names: dict[int, str] = {}
    for event in events:
        match event.type:
            case "message_start":
                seen.tokens = (event.message.usage.input_tokens, 0)
            case "content_block_start" if event.content_block.type == "tool_use":
                names[event.index] = event.content_block.name
                assert event.content_block.input == {}
            case "content_block_delta":
                delta = event.delta
                if delta.type == "text_delta":
                    seen.text += delta.text
                elif delta.type == "thinking_delta":
                    seen.thinking += delta.thinking
                elif delta.type == "input_json_delta":
                    texts[event.index] = texts.get(event.index, "") + delta.partial_json
            case "message_delta":
                assert seen.tokens is not None
                seen.stop = event.delta.stop_reason
                seen.tokens = (seen.tokens[0], event.usage.output_tokens)
    assert events[-1].type == "message_stop"
    seen.calls = [(names[index], json.loads(texts[index])) for index in names]
    return seen


def ask_messages_async(provider: MockProvider) -> Seen:
    async def ask() -> Any:
        async with async_anthropic_client(provider) as client:
            return await client.messages.create(**ANTHROPIC)

    return seen_message(asyncio.run(ask()))


def ask_messages_stream_async(provider: MockProvider) -> Seen:
    async def ask() -> Any:
        async with (
            async_anthropic_client(provider) as client,
            client.messages.stream(**ANTHROPIC) as events,
        ):
            return await events.get_final_message()

    return seen_message(asyncio.run(ask()))


def ask_chat(provider: MockProvider) -> Seen:
    with openai_client(provider) as client:
        return seen_completion(client.chat.completions.create(**CHAT))


def ask_chat_stream(provider: MockProvider) -> Seen:
    options: Any = {"include_usage": True}
    with (
        openai_client(provider) as client,
        client.chat.completions.stream(**CHAT, stream_options=options) as events,
    ):
        return seen_completion(events.get_final_completion())


def fold_chunks(chunks: list[Any]) -> Seen:
    seen = Seen("", "", [], None, None)
    calls: list[list[str]] = []
    for chunk in chunks:
        if chunk.usage is not None:
            seen.tokens = (chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
        for choice in chunk.choices:
            seen.text += choice.delta.content or ""
            seen.thinking += getattr(choice.delta, "reasoning_content", "")
            seen.stop = choice.finish_reason or seen.stop
            for call in choice.delta.tool_calls or ():
                if call.id:
                    assert call.index == len(calls)
                    calls.append([call.function.name, ""])
                calls[call.index][1] += call.function.arguments
    seen.calls = [(name, json.loads(text)) for name, text in calls]
    return seen


def ask_chat_create_stream(provider: MockProvider) -> Seen:
    with openai_client(provider) as client:
        return fold_chunks(list(client.chat.completions.create(**CHAT, stream=True)))


def ask_chat_async(provider: MockProvider) -> Seen:
    async def ask() -> Any:
        async with async_openai_client(provider) as client:
            return await client.chat.completions.create(**CHAT)

    return seen_completion(asyncio.run(ask()))


def ask_chat_stream_async(provider: MockProvider) -> Seen:
    options: Any = {"include_usage": True}

    async def ask() -> list[Any]:
        async with async_openai_client(provider) as client:
            chunks = await client.chat.completions.create(
                **CHAT, stream=True, stream_options=options
            )
            return [chunk async for chunk in chunks]

    return fold_chunks(asyncio.run(ask()))


def ask_responses(provider: MockProvider) -> Seen:
    with openai_client(provider) as client:
        return seen_response(client.responses.create(**RESPONSES))


def ask_responses_stream(provider: MockProvider) -> Seen:
    with openai_client(provider) as client, client.responses.stream(**RESPONSES) as events:
        return seen_response(events.get_final_response())


def ask_responses_create_stream(provider: MockProvider) -> Seen:
    with openai_client(provider) as client:
        events: list[Any] = list(client.responses.create(**RESPONSES, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    seen = seen_response(events[-1].response)
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == seen.text
    return seen


def ask_responses_async(provider: MockProvider) -> Seen:
    async def ask() -> Any:
        async with async_openai_client(provider) as client:
            return await client.responses.create(**RESPONSES)

    return seen_response(asyncio.run(ask()))


def ask_responses_stream_async(provider: MockProvider) -> Seen:
    async def ask() -> Any:
        async with (
            async_openai_client(provider) as client,
            client.responses.stream(**RESPONSES) as events,
        ):
            return await events.get_final_response()

    return seen_response(asyncio.run(ask()))


Ask = Callable[[MockProvider], Seen]

STREAMED: list[Ask] = [
    ask_messages_stream,
    ask_messages_create_stream,
    ask_messages_stream_async,
    ask_chat_stream,
    ask_chat_create_stream,
    ask_chat_stream_async,
    ask_responses_stream,
    ask_responses_create_stream,
    ask_responses_stream_async,
]
WHOLE: list[Ask] = [
    ask_messages,
    ask_messages_async,
    ask_chat,
    ask_chat_async,
    ask_responses,
    ask_responses_async,
]
ONE_OF_EACH: list[Ask] = [ask_messages_stream, ask_chat_stream, ask_responses_stream]
STOPS = {"messages": "tool_use", "chat": "tool_calls", "responses": "completed"}


def api_of(ask: Ask) -> str:
    return ask.__name__.split("_")[1]


class TestAnswers:
    @pytest.mark.parametrize("ask", [*STREAMED, *WHOLE])
    def test_a_client_assembles_what_the_script_says(self, ask: Ask) -> None:
        with MockProvider(SCRIPT) as provider:
            seen = ask(provider)
            provider.check()
        assert seen.thinking == "They want a file – a small one."
        assert seen.text == "I write it: 😀."
        assert seen.calls == [("write_file", ARGUMENTS), ("list_files", {})]
        assert seen.stop == STOPS[api_of(ask)]
        (request,) = provider.requests
        assert request.is_streamed == (ask in STREAMED)
        if seen.tokens is not None:
            assert seen.tokens[0] == 100
            assert seen.tokens[1] > 30
        else:
            assert ask is ask_chat_create_stream, "usage was not asked for there"

    @pytest.mark.parametrize("ask", ONE_OF_EACH)
    @pytest.mark.parametrize("piece_size", [1, 3, 10_000])
    def test_the_size_of_pieces_changes_nothing(self, ask: Ask, piece_size: int) -> None:
        with MockProvider(Reply(*SCRIPT.parts, piece_size=piece_size)) as provider:
            assert ask(provider).calls[0] == ("write_file", ARGUMENTS)

    def test_ids_and_usage_differ_from_turn_to_turn_and_not_from_run_to_run(self) -> None:
        def ask_twice() -> list[tuple[str, str, int]]:
            with MockProvider(SCRIPT) as provider, anthropic_client(provider) as client:
                messages: list[Any] = [client.messages.create(**ANTHROPIC) for _ in range(2)]
            return [(m.id, m.content[2].id, m.usage.input_tokens) for m in messages]

        first, second = ask_twice()
        assert all(one != other for one, other in zip(first, second, strict=True))
        assert ask_twice() == [first, second]

    def test_an_id_of_the_script_is_kept(self) -> None:
        script = Reply(CallTool("now", call_id="call_7"))
        with MockProvider(script) as provider, openai_client(provider) as client:
            response: Any = client.responses.create(**RESPONSES)
        assert response.output[0].call_id == "call_7"

    def test_thinking_carries_a_signature(self) -> None:
        with MockProvider(SCRIPT) as provider, anthropic_client(provider) as client:
            whole: Any = client.messages.create(**ANTHROPIC)
            with client.messages.stream(**ANTHROPIC) as events:
                streamed: Any = events.get_final_message()
        assert whole.content[0].signature
        assert whole.content[0].signature == streamed.content[0].signature


async def all_of(make: Callable[[], Any]) -> tuple[list[str], list[Any]]:
    events = stream(make())
    types = [event.type async for event in events]
    return types, events.calls


class TestArgstream:
    @pytest.mark.parametrize(
        "open_stream",
        [
            lambda client: client.messages.stream(**ANTHROPIC),
            lambda client: client.messages.create(**ANTHROPIC, stream=True),
            lambda client: client.messages.create(**ANTHROPIC),
        ],
    )
    def test_the_calls_of_anthropic_are_complete(self, open_stream: Callable[[Any], Any]) -> None:
        with MockProvider(SCRIPT) as provider, anthropic_client(provider) as client:
            events = stream(open_stream(client))
            types = [event.type for event in events]
        assert types[-1] == "turn_completed"
        assert [(call.name, call.arguments, call.verdict) for call in events.calls] == [
            ("write_file", ARGUMENTS, "complete"),
            ("list_files", {}, "complete"),
        ]

    @pytest.mark.parametrize(
        "open_stream",
        [
            lambda client: client.chat.completions.stream(**CHAT),
            lambda client: client.chat.completions.create(**CHAT, stream=True),
            lambda client: client.chat.completions.create(**CHAT),
            lambda client: client.responses.stream(**RESPONSES),
            lambda client: client.responses.create(**RESPONSES, stream=True),
            lambda client: client.responses.create(**RESPONSES),
        ],
    )
    def test_the_calls_of_openai_are_complete(self, open_stream: Callable[[Any], Any]) -> None:
        with MockProvider(SCRIPT) as provider, openai_client(provider) as client:
            events = stream(open_stream(client))
            types = [event.type for event in events]
        assert types[-1] == "turn_completed"
        assert [(call.name, call.arguments, call.verdict) for call in events.calls] == [
            ("write_file", ARGUMENTS, "complete"),
            ("list_files", {}, "complete"),
        ]

    def test_the_calls_of_async_clients_are_complete(self) -> None:
        async def run(provider: MockProvider) -> list[Any]:
            async with (
                async_anthropic_client(provider) as claude,
                async_openai_client(provider) as gpt,
            ):
                return [
                    await all_of(lambda: claude.messages.stream(**ANTHROPIC)),
                    await all_of(lambda: gpt.chat.completions.create(**CHAT, stream=True)),
                    await all_of(lambda: gpt.responses.create(**RESPONSES, stream=True)),
                ]

        with MockProvider(SCRIPT) as provider:
            for types, calls in asyncio.run(run(provider)):
                assert types[-1] == "turn_completed"
                assert [call.arguments for call in calls] == [ARGUMENTS, {}]

    @pytest.mark.parametrize(
        ("arguments", "stop", "verdict"),
        [
            ('{"path": "a.txt", "content": "hel', "max_tokens", "truncated"),
            ('{"path": 0755}', "tool_use", "malformed"),
        ],
    )
    def test_what_is_wrong_with_a_call_is_seen_in_every_api(
        self, arguments: str, stop: Any, verdict: str
    ) -> None:
        script = Reply(CallTool("write_file", arguments), stop=stop)
        with (
            MockProvider(script) as provider,
            anthropic_client(provider) as claude,
            openai_client(provider) as gpt,
        ):
            sources: list[Any] = [
                claude.messages.create(**ANTHROPIC, stream=True),
                gpt.chat.completions.create(**CHAT, stream=True),
                gpt.responses.create(**RESPONSES, stream=True),
            ]
            for source in sources:
                events = stream(source)
                assert list(events)
                (call,) = events.calls
                assert (call.verdict, call.raw) == (verdict, arguments)


class TestStops:
    @pytest.mark.parametrize(
        ("stop", "reasons"),
        [
            ("end_turn", ("end_turn", "stop", "completed", None)),
            ("max_tokens", ("max_tokens", "length", "incomplete", "max_output_tokens")),
            ("refusal", ("refusal", "content_filter", "incomplete", "content_filter")),
        ],
    )
    @pytest.mark.parametrize("streamed", [False, True])
    def test_each_api_says_it_in_its_own_words(
        self, stop: Any, reasons: tuple[str, ...], streamed: bool
    ) -> None:
        with (
            MockProvider(Reply("Hello", stop=stop)) as provider,
            anthropic_client(provider) as claude,
            openai_client(provider) as gpt,
        ):
            message: Any = claude.messages.create(**ANTHROPIC)
            completion: Any = gpt.chat.completions.create(**CHAT)
            response: Any = gpt.responses.create(**RESPONSES)
            reason = completion.choices[0].finish_reason
            if streamed:
                with claude.messages.stream(**ANTHROPIC) as events:
                    message = events.get_final_message()
                chunks: Any = list(gpt.chat.completions.create(**CHAT, stream=True))
                reason = chunks[-1].choices[0].finish_reason
                response = list(gpt.responses.create(**RESPONSES, stream=True))[-1].response
        details = response.incomplete_details
        told = (message.stop_reason, reason, response.status, details and details.reason)
        assert told == reasons


class TestFaults:
    @pytest.mark.parametrize(
        ("status", "of_anthropic", "of_openai"),
        [
            (401, anthropic.AuthenticationError, openai.AuthenticationError),
            (429, anthropic.RateLimitError, openai.RateLimitError),
            (500, anthropic.InternalServerError, openai.InternalServerError),
            (529, anthropic.APIStatusError, openai.InternalServerError),
        ],
    )
    @pytest.mark.parametrize("streamed", [False, True])
    def test_a_status_is_the_clients_exception(
        self,
        status: int,
        of_anthropic: type[Exception],
        of_openai: type[Exception],
        streamed: bool,
    ) -> None:
        with (
            MockProvider(Reply("never seen", faults=[Status(status, "on request")])) as provider,
            anthropic_client(provider) as claude,
            openai_client(provider) as gpt,
        ):
            with pytest.raises(of_anthropic, match="on request") as caught:
                claude.messages.create(**ANTHROPIC, stream=streamed)
            assert caught.value.status_code == status  # type: ignore[attr-defined]
            with pytest.raises(of_openai, match="on request"):
                gpt.chat.completions.create(**CHAT, stream=streamed)
            with pytest.raises(of_openai, match="on request"):
                gpt.responses.create(**RESPONSES, stream=streamed)
            provider.check()

    def test_overloaded_has_anthropics_type(self) -> None:
        with (
            MockProvider(SCRIPT, faults=[Status(529)]) as provider,
            anthropic_client(provider) as client,
            pytest.raises(anthropic.APIStatusError) as caught,
        ):
            client.messages.create(**ANTHROPIC)
        assert caught.value.body["error"]["type"] == "overloaded_error"  # type: ignore[index]

    def test_a_client_that_is_told_to_retries(self) -> None:
        faults = [Status(429, retry_after=0.01), Status(500, retry_after=0.01)]
        script = [*(Reply(faults=[fault]) for fault in faults), SCRIPT]
        with MockProvider(script) as provider, anthropic_client(provider, 2) as client:
            seen = seen_message(client.messages.create(**ANTHROPIC))
        assert seen.calls[0] == ("write_file", ARGUMENTS)
        assert [request.status for request in provider.requests] == [429, 500, 200]

    @pytest.mark.parametrize("at", [0, 1, 700, "call", 1_000_000])
    def test_a_cut_is_a_broken_connection(self, at: Any) -> None:
        with MockProvider(SCRIPT, faults=[Cut(at)]) as provider:
            for ask in (ask_messages_stream, ask_messages_create_stream, ask_messages_stream_async):
                with pytest.raises(BROKEN):
                    ask(provider)
            for ask in (
                ask_chat_stream_async,
                ask_responses_create_stream,
                ask_responses_stream_async,
            ):
                if ask is ask_chat_stream_async and at == 1_000_000:
                    ask(provider)  # this client reads no further than [DONE]
                    continue
                with pytest.raises(BROKEN):
                    ask(provider)

    @pytest.mark.parametrize("ask", WHOLE)
    def test_a_cut_is_one_for_a_whole_answer_too(self, ask: Ask) -> None:
        with MockProvider(SCRIPT, faults=[Cut(100)]) as provider, pytest.raises(BROKEN):
            ask(provider)

    def test_a_call_that_is_cut_never_completes(self) -> None:
        with (
            MockProvider(SCRIPT, faults=[Cut("call")]) as provider,
            anthropic_client(provider) as claude,
            openai_client(provider) as gpt,
        ):
            sources: list[Any] = [
                claude.messages.create(**ANTHROPIC, stream=True),
                gpt.chat.completions.create(**CHAT, stream=True),
                gpt.responses.create(**RESPONSES, stream=True),
            ]
            for source in sources:
                events = stream(source)
                with pytest.raises(BROKEN):
                    list(events)
                (call,) = events.calls
                assert call.verdict == "truncated"
                assert call.raw.startswith('{"path": "a.txt"')

    @pytest.mark.parametrize("ask", [*STREAMED, *WHOLE])
    @pytest.mark.parametrize("at", [2, "call"])
    def test_an_error_event_is_raised_by_the_client(self, ask: Ask, at: Any) -> None:
        errors = (anthropic.APIStatusError, openai.APIError)
        with (
            MockProvider(SCRIPT, faults=[ErrorEvent(at, message="too much")]) as provider,
            pytest.raises(errors, match="too much"),
        ):
            ask(provider)

    def test_an_error_event_fails_the_stream_of_argstream(self) -> None:
        with (
            MockProvider(SCRIPT, faults=[ErrorEvent(message="too much")]) as provider,
            httpx2.Client(headers={"x-api-key": "any", "anthropic-version": "1"}) as client,
            client.stream(
                "POST", f"{provider.url}/v1/messages", json={**ANTHROPIC, "stream": True}
            ) as response,
        ):
            *_, last = stream(response)
        assert last.type == "stream_failed"
        assert "too much" in str(last)

    @pytest.mark.parametrize("ask", [*STREAMED, *WHOLE])
    def test_malformed_json_is_what_the_client_chokes_on(self, ask: Ask) -> None:
        expected = (ValueError, anthropic.APIError, openai.APIError)
        with MockProvider(SCRIPT, faults=[Malformed()]) as provider, pytest.raises(expected):
            ask(provider)

    @pytest.mark.bulk
    @pytest.mark.parametrize(
        "split", [Split(), Split((3, 1)), Split((40,), seed=1), Split((40,), seed=2)]
    )
    @pytest.mark.parametrize("ask", [*ONE_OF_EACH, ask_messages, ask_chat_stream_async])
    def test_bytes_may_be_split_anywhere(self, ask: Ask, split: Split) -> None:
        with MockProvider(SCRIPT, faults=[split]) as provider:
            assert ask(provider).calls[0] == ("write_file", ARGUMENTS)

    def test_faults_can_be_combined(self) -> None:
        faults: list[Fault] = [Split((5,)), Slow(between=0.0001), Cut("call")]
        with MockProvider(SCRIPT, faults=faults) as provider, pytest.raises(BROKEN):
            ask_messages_stream(provider)


class TestTime:
    @pytest.mark.parametrize("slow", [Slow(before=0.2), Slow(total=0.2), Slow(between=0.2 / 40)])
    @pytest.mark.parametrize("ask", ONE_OF_EACH)
    def test_a_slow_answer_takes_its_time(self, ask: Ask, slow: Slow) -> None:
        with MockProvider(SCRIPT, faults=[slow]) as provider:
            start = time.monotonic()
            assert ask(provider).calls[0] == ("write_file", ARGUMENTS)
            assert time.monotonic() - start >= 0.19

    def test_events_come_one_by_one_and_not_together_at_the_end(self) -> None:
        with (
            MockProvider(Reply("abcdefgh"), faults=[Slow(between=0.05)]) as provider,
            anthropic_client(provider) as client,
        ):
            times = [time.monotonic() for _ in client.messages.create(**ANTHROPIC, stream=True)]
        assert times[-1] - times[0] > 0.15

    def test_splitting_adds_no_pauses(self) -> None:
        faults: list[Fault] = [Slow(total=0.2), Split()]
        start = time.monotonic()
        with MockProvider(SCRIPT, faults=faults) as provider:
            assert ask_messages_stream(provider).calls[0] == ("write_file", ARGUMENTS)
        assert 0.19 <= time.monotonic() - start < 3

    @pytest.mark.parametrize("ask", [ask_messages, ask_chat, ask_responses])
    def test_a_whole_answer_can_be_slow_too(self, ask: Ask) -> None:
        with MockProvider(SCRIPT, faults=[Slow(total=0.1)]) as provider:
            start = time.monotonic()
            ask(provider)
            assert time.monotonic() - start >= 0.1

    def test_a_wait_that_is_too_long_is_the_clients_timeout(self) -> None:
        with (
            MockProvider(SCRIPT, faults=[Slow(before=30)]) as provider,
            anthropic_client(provider) as client,
            pytest.raises(anthropic.APITimeoutError),
        ):
            client.with_options(timeout=0.1).messages.create(**ANTHROPIC)

    @pytest.mark.parametrize("slow", [Slow(before=60), Slow(between=60)])
    def test_stopping_does_not_wait_for_a_slow_answer(self, slow: Slow) -> None:
        threads = threading.active_count()
        provider = MockProvider(SCRIPT, faults=[slow]).start()
        failures: list[BaseException] = []

        def ask() -> None:
            with pytest.raises(BROKEN) as caught:
                ask_messages_stream(provider)
            failures.append(caught.value)

        asking = threading.Thread(target=ask)
        asking.start()
        while not provider.requests:
            time.sleep(0.005)
        start = time.monotonic()
        provider.stop()
        assert time.monotonic() - start < 1
        asking.join(5)
        assert len(failures) == 1
        assert threading.active_count() == threads

    def test_a_client_that_leaves_early_disturbs_nobody(
        self, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with MockProvider(SCRIPT, faults=[Slow(between=0.01)]) as provider:
            with (
                anthropic_client(provider) as client,
                client.messages.stream(**ANTHROPIC) as events,
            ):
                next(iter(events))
            assert ask_chat(provider).calls[0] == ("write_file", ARGUMENTS)
            time.sleep(0.05)
        assert capfd.readouterr().err == ""

    def test_many_clients_are_served_at_once(self) -> None:
        async def ask_all(provider: MockProvider) -> list[Any]:
            async with async_anthropic_client(provider) as client:
                asked: list[Awaitable[Any]] = [
                    client.messages.create(**ANTHROPIC) for _ in range(10)
                ]
                return await asyncio.gather(*asked)

        start = time.monotonic()
        with MockProvider(SCRIPT, faults=[Slow(before=0.2)]) as provider:
            messages = asyncio.run(ask_all(provider))
        assert time.monotonic() - start < 1.5
        assert len({message.id for message in messages}) == 10


class TestRecordings:
    @pytest.mark.parametrize("ask", ONE_OF_EACH)
    @pytest.mark.parametrize("form", ["events", "lines"])
    def test_a_client_believes_a_recording_too(self, ask: Ask, form: str) -> None:
        with MockProvider(SCRIPT) as provider:
            ask(provider)
            (asked,) = provider.requests
            headers = {"authorization": "Bearer any", "anthropic-version": "1"}
            recorded = httpx2.post(
                provider.url + asked.path, json=asked.body, headers=headers, verify=SSL
            ).content
        if form == "lines":
            lines = recorded.splitlines(keepends=True)
            payloads = (line.removeprefix(b"data: ") for line in lines if line.startswith(b"data"))
            recorded = b"".join(payloads)
        with MockProvider.replaying(recorded) as provider:
            seen = ask(provider)
        assert seen.text == "I write it: 😀."
        assert seen.calls == [("write_file", ARGUMENTS), ("list_files", {})]


class TestTurns:
    def test_an_agents_loop_runs_through_with_anthropic(self) -> None:
        tools = [{"name": name, "input_schema": SCHEMA} for name in ("write_file", "list_files")]
        body: Any = {**ANTHROPIC, "tools": tools}
        with (
            MockProvider([SCRIPT, Reply("Done.")]) as provider,
            anthropic_client(provider) as client,
        ):
            message: Any = client.messages.create(**body)
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": "ok"}
                for block in message.content
                if block.type == "tool_use"
            ]
            history: Any = [
                *MESSAGES,
                {"role": "assistant", "content": message.content},
                {"role": "user", "content": results},
            ]
            last: Any = client.messages.create(**{**body, "messages": history})
            provider.check()
        assert last.content[0].text == "Done."

    def test_an_agents_loop_runs_through_with_chat(self) -> None:
        with MockProvider([SCRIPT, Reply("Done.")]) as provider, openai_client(provider) as client:
            completion: Any = client.chat.completions.create(**CHAT)
            message = completion.choices[0].message
            results = [
                {"role": "tool", "tool_call_id": call.id, "content": "ok"}
                for call in message.tool_calls
            ]
            history: Any = [*MESSAGES, message, *results]
            last: Any = client.chat.completions.create(**{**CHAT, "messages": history})
            provider.check()
        assert last.choices[0].message.content == "Done."

    @pytest.mark.parametrize("remembered", [False, True])
    def test_an_agents_loop_runs_through_with_responses(self, remembered: bool) -> None:
        with MockProvider([SCRIPT, Reply("Done.")]) as provider, openai_client(provider) as client:
            response: Any = client.responses.create(**RESPONSES)
            results: list[Any] = [
                {"type": "function_call_output", "call_id": item.call_id, "output": "ok"}
                for item in response.output
                if item.type == "function_call"
            ]
            if remembered:
                last = client.responses.create(
                    model="m", previous_response_id=response.id, input=results
                )
            else:
                last = client.responses.create(model="m", input=[*response.output, *results])
            provider.check()
        assert last.output_text == "Done."

    def test_a_result_for_no_call_is_refused_and_told(self) -> None:
        history: Any = [
            *MESSAGES,
            {"role": "assistant", "content": [{"type": "text", "text": "Hm."}]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "toolu_9", "content": "ok"}],
            },
        ]
        with MockProvider(SCRIPT) as provider:
            with (
                anthropic_client(provider) as client,
                pytest.raises(anthropic.BadRequestError, match="toolu_9"),
            ):
                client.messages.create(**{**ANTHROPIC, "messages": history})
            with pytest.raises(UsageError, match=r"request 1, POST /v1/messages: .*toolu_9"):
                provider.check()

    def test_a_script_that_is_over_says_so(self) -> None:
        with MockProvider([SCRIPT]) as provider, openai_client(provider) as client:
            client.responses.create(**RESPONSES)
            with pytest.raises(openai.BadRequestError, match="the script is over after 1"):
                client.responses.create(**RESPONSES)

    def test_a_script_may_start_again(self) -> None:
        with (
            MockProvider([Reply("one"), Reply("two")], repeat=True) as provider,
            openai_client(provider) as client,
        ):
            texts = [client.responses.create(**RESPONSES).output_text for _ in range(4)]
        assert texts == ["one", "two", "one", "two"]

    def test_a_wrong_base_url_is_explained(self) -> None:
        with MockProvider(SCRIPT) as provider:
            with (
                openai.OpenAI(base_url=provider.url, api_key="any") as client,
                pytest.raises(openai.NotFoundError, match="POST /v1/chat/completions"),
            ):
                client.chat.completions.create(**CHAT)
            with (
                anthropic.Anthropic(base_url=provider.openai_url, api_key="any") as claude,
                pytest.raises(anthropic.NotFoundError, match="POST /v1/messages"),
            ):
                claude.messages.create(**ANTHROPIC)
