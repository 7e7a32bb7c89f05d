"""The real clients of Anthropic and OpenAI talk to the mock provider, and believe it."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from argstream import stream
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


def options(url: str, client: Any) -> dict[str, Any]:
    return {"base_url": url, "api_key": "any", "max_retries": 0, "http_client": client(verify=SSL)}


def anthropic_client(provider: MockProvider) -> anthropic.Anthropic:
    return anthropic.Anthropic(**options(provider.anthropic_url, anthropic.DefaultHttpxClient))


def async_anthropic_client(provider: MockProvider) -> anthropic.AsyncAnthropic:
    client = anthropic.DefaultAsyncHttpxClient
    return anthropic.AsyncAnthropic(**options(provider.anthropic_url, client))


def openai_client(provider: MockProvider) -> openai.OpenAI:
    return openai.OpenAI(**options(provider.openai_url, openai.DefaultHttpxClient))


def async_openai_client(provider: MockProvider) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(**options(provider.openai_url, openai.DefaultAsyncHttpxClient))


@contextmanager
def clients(provider: MockProvider) -> Iterator[tuple[Any, Any]]:
    with anthropic_client(provider) as claude, openai_client(provider) as gpt:
        yield claude, gpt


def in_each_api(claude: Any, gpt: Any) -> list[Any]:
    """Ask for a stream of each API."""
    return [
        claude.messages.create(**ANTHROPIC, stream=True),
        gpt.chat.completions.create(**CHAT, stream=True),
        gpt.responses.create(**RESPONSES, stream=True),
    ]


@dataclass
class Seen:
    """What a client made of an answer, in the same form for all."""

    thinking: str
    text: str
    calls: list[tuple[str, Any]]
    stop: str | None
    tokens: tuple[int, int]


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
        (usage.prompt_tokens, usage.completion_tokens),
    )


def seen_response(response: Any) -> Seen:
    items = response.output
    return Seen(
        "".join(item.summary[0].text for item in items if item.type == "reasoning"),
        response.output_text,
        [(item.name, json.loads(item.arguments)) for item in items if item.type == "function_call"],
        response.incomplete_details.reason if response.incomplete_details else response.status,
        (response.usage.input_tokens, response.usage.output_tokens),
    )


@dataclass(frozen=True)
class Ask:
    """A way in which the clients can be used."""

    api: str
    is_streamed: bool = False
    is_async: bool = False

    def __call__(self, provider: MockProvider) -> Seen:
        seen: dict[str, Callable[[Any], Seen]] = {
            "messages": seen_message,
            "chat": seen_completion,
            "responses": seen_response,
        }
        answer = asyncio.run(self._ask_async(provider)) if self.is_async else self._ask(provider)
        return seen[self.api](answer)

    def _ask(self, provider: MockProvider) -> Any:
        make = anthropic_client if self.api == "messages" else openai_client
        with make(provider) as client:
            resource, body, final = self._parts(client)
            if not self.is_streamed:
                return resource.create(**body)
            with resource.stream(**body) as events:
                return getattr(events, final)()

    async def _ask_async(self, provider: MockProvider) -> Any:
        make: Any = async_anthropic_client if self.api == "messages" else async_openai_client
        async with make(provider) as client:
            resource, body, final = self._parts(client)
            if not self.is_streamed:
                return await resource.create(**body)
            async with resource.stream(**body) as events:
                return await getattr(events, final)()

    def _parts(self, client: Any) -> tuple[Any, dict[str, Any], str]:
        match self.api:
            case "messages":
                return client.messages, ANTHROPIC, "get_final_message"
            case "chat":
                usage = {"stream_options": {"include_usage": True}} if self.is_streamed else {}
                return client.chat.completions, {**CHAT, **usage}, "get_final_completion"
            case _:
                return client.responses, RESPONSES, "get_final_response"


STOPS = {"messages": "tool_use", "chat": "tool_calls", "responses": "completed"}
ONE_OF_EACH = [Ask(api, is_streamed=True) for api in STOPS]
STREAMED = [*ONE_OF_EACH, *(replace(ask, is_async=True) for ask in ONE_OF_EACH)]
WHOLE = [replace(ask, is_streamed=False) for ask in STREAMED]
ask_messages_stream = ONE_OF_EACH[0]


class TestAnswers:
    @pytest.mark.parametrize("ask", [*STREAMED, *WHOLE])
    def test_a_client_assembles_what_the_script_says(self, ask: Ask) -> None:
        with MockProvider(SCRIPT) as provider:
            seen = ask(provider)
            provider.check()
        assert seen.thinking == "They want a file – a small one."
        assert seen.text == "I write it: 😀."
        assert seen.calls == [("write_file", ARGUMENTS), ("list_files", {})]
        assert seen.stop == STOPS[ask.api]
        (request,) = provider.requests
        assert request.is_streamed == ask.is_streamed
        assert seen.tokens[0] == 100
        assert seen.tokens[1] > 30

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
            lambda claude, _: claude.messages.stream(**ANTHROPIC),
            lambda claude, _: claude.messages.create(**ANTHROPIC, stream=True),
            lambda claude, _: claude.messages.create(**ANTHROPIC),
            lambda _, gpt: gpt.chat.completions.stream(**CHAT),
            lambda _, gpt: gpt.chat.completions.create(**CHAT, stream=True),
            lambda _, gpt: gpt.chat.completions.create(**CHAT),
            lambda _, gpt: gpt.responses.stream(**RESPONSES),
            lambda _, gpt: gpt.responses.create(**RESPONSES, stream=True),
            lambda _, gpt: gpt.responses.create(**RESPONSES),
        ],
    )
    def test_the_calls_are_complete(self, open_stream: Callable[[Any, Any], Any]) -> None:
        with MockProvider(SCRIPT) as provider, clients(provider) as (claude, gpt):
            events = stream(open_stream(claude, gpt))
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
        with MockProvider(script) as provider, clients(provider) as (claude, gpt):
            for source in in_each_api(claude, gpt):
                events = stream(source)
                assert list(events)
                (call,) = events.calls
                assert (call.verdict, call.raw) == (verdict, arguments)


class TestStops:
    @pytest.mark.parametrize(
        ("stop", "reasons"),
        [
            ("end_turn", ("end_turn", "stop", "completed")),
            ("max_tokens", ("max_tokens", "length", "max_output_tokens")),
            ("refusal", ("refusal", "content_filter", "content_filter")),
        ],
    )
    def test_each_api_says_it_in_its_own_words(self, stop: Any, reasons: tuple[str, ...]) -> None:
        script = Reply(Think("Hm"), "Hello", CallTool("f"), stop=stop)
        with MockProvider(script) as provider, clients(provider) as (claude, gpt):
            assert tuple(Ask(api)(provider).stop for api in STOPS) == reasons
            ends = [list(stream(source))[-1] for source in in_each_api(claude, gpt)]
            assert tuple(getattr(end, "stop_reason", None) for end in ends) == reasons


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
            clients(provider) as (claude, gpt),
        ):
            with pytest.raises(of_anthropic, match="on request") as caught:
                claude.messages.create(**ANTHROPIC, stream=streamed)
            assert caught.value.status_code == status  # type: ignore[attr-defined]
            with pytest.raises(of_openai, match="on request"):
                gpt.chat.completions.create(**CHAT, stream=streamed)
            with pytest.raises(of_openai, match="on request"):
                gpt.responses.create(**RESPONSES, stream=streamed)
            provider.check()

    def test_a_client_that_is_told_to_retries(self) -> None:
        faults = [Status(429, retry_after=0.01), Status(500, retry_after=0.01)]
        script = [*(Reply(faults=[fault]) for fault in faults), SCRIPT]
        with MockProvider(script) as provider, anthropic_client(provider) as client:
            retrying = client.with_options(max_retries=2)
            seen = seen_message(retrying.messages.create(**ANTHROPIC))
        assert seen.calls[0] == ("write_file", ARGUMENTS)
        assert [request.status for request in provider.requests] == [429, 500, 200]

    @pytest.mark.parametrize("ask", STREAMED)
    @pytest.mark.parametrize("at", [0, 1, 700, "call", 1_000_000])
    def test_a_cut_is_a_broken_connection(self, ask: Ask, at: Any) -> None:
        with MockProvider(SCRIPT, faults=[Cut(at)]) as provider:
            if ask.api == "chat" and at == 1_000_000:
                ask(provider)  # this client reads no further than [DONE]
                return
            with pytest.raises(BROKEN):
                ask(provider)

    @pytest.mark.parametrize("ask", WHOLE)
    def test_a_cut_is_one_for_a_whole_answer_too(self, ask: Ask) -> None:
        with MockProvider(SCRIPT, faults=[Cut(100)]) as provider, pytest.raises(BROKEN):
            ask(provider)

    def test_a_call_that_is_cut_never_completes(self) -> None:
        with (
            MockProvider(SCRIPT, faults=[Cut("call")]) as provider,
            clients(provider) as (claude, gpt),
        ):
            for source in in_each_api(claude, gpt):
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

    @pytest.mark.parametrize("ask", [*STREAMED, *WHOLE])
    def test_malformed_json_is_what_the_client_chokes_on(self, ask: Ask) -> None:
        expected = (ValueError, anthropic.APIError, openai.APIError)
        with MockProvider(SCRIPT, faults=[Malformed()]) as provider, pytest.raises(expected):
            ask(provider)

    @pytest.mark.bulk
    @pytest.mark.parametrize(
        "split", [Split(), Split((3, 1)), Split((40,), seed=1), Split((40,), seed=2)]
    )
    @pytest.mark.parametrize("ask", [*ONE_OF_EACH, WHOLE[0], STREAMED[4]])
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

    @pytest.mark.parametrize("ask", WHOLE[:3])
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
            assert WHOLE[1](provider).calls[0] == ("write_file", ARGUMENTS)
            time.sleep(0.05)
        assert capfd.readouterr().err == ""

    def test_many_clients_are_served_at_once(self) -> None:
        async def ask_all(provider: MockProvider) -> list[Any]:
            async with async_anthropic_client(provider) as client:
                asked = [
                    asyncio.create_task(client.messages.create(**ANTHROPIC)) for _ in range(10)
                ]
                await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
                assert len(provider.requests) == 10  # all of them, before the first is answered
                return await asyncio.gather(*asked)

        with MockProvider(SCRIPT, faults=[Slow(before=1)]) as provider:
            messages = asyncio.run(ask_all(provider))
        assert len({message.id for message in messages}) == 10


class TestTurns:
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
