"""The SDKs of Anthropic and OpenAI read the answers and recordings of the mock provider."""

import asyncio
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any

import httpx2
import pytest

from argstream import UsageError, stream
from argstream.events import TurnCompleted
from argstream.history import CallPart, TextPart, ThinkingPart
from argstream.models import CallTool, Say, Think
from argstream.recording import Recorder, Request, Response
from argstream.testing import Cut, ErrorEvent, Malformed, MockProvider, Reply, Slow, Split
from tests.provider_streams import anthropic_call, sse
from tests.support.provider_rules import signature
from tests.testing.posting import post

ARGUMENTS = {"path": "a.txt", "content": 'é "quoted"\n😀\\', "mode": 420, "tags": ["x", None]}
SCRIPT = Reply(
    Think("They want a file – a small one."),
    Say("I write it: 😀."),
    CallTool("write_file", ARGUMENTS),
    CallTool("list_files", {}, call_id="call_7"),
)
CALLS = [("write_file", ARGUMENTS), ("list_files", {})]
MESSAGES: Any = [{"role": "user", "content": "Write a file."}]
ANTHROPIC: Any = {"model": "claude-mock", "max_tokens": 1000, "messages": MESSAGES}
CHAT: Any = {"model": "gpt-mock", "messages": MESSAGES}
RESPONSES: Any = {"model": "gpt-mock", "input": "Write a file."}
create_ssl_context = cache(httpx2.create_ssl_context)  # it takes longer than most tests here


def broken() -> tuple[type[Exception], ...]:
    """While it streams, Anthropic's client lets through what its HTTP library raises."""
    import anthropic
    import openai

    return (anthropic.APIConnectionError, openai.APIConnectionError, httpx2.RemoteProtocolError)


def client_of(sdk: str, url: str, kind: str = "", api_key: str = "any") -> Any:
    """Create a client of an SDK, which is imported only where it is used."""
    module = import_module(sdk)
    name, path = {"anthropic": ("Anthropic", ""), "openai": ("OpenAI", "/v1")}[sdk]
    http = getattr(module, f"Default{kind}HttpxClient")(verify=create_ssl_context())
    create = getattr(module, f"{kind}{name}")
    return create(base_url=url + path, api_key=api_key, max_retries=0, http_client=http)


anthropic_client = partial(client_of, "anthropic")
openai_client = partial(client_of, "openai")


@contextmanager
def clients(provider: MockProvider) -> Iterator[tuple[Any, Any]]:
    with anthropic_client(provider.url) as claude, openai_client(provider.url) as gpt:
        yield claude, gpt


@dataclass(frozen=True)
class Ask:
    """A way to use an SDK. The answer that it has assembled is read by ``stream()``."""

    api: str
    is_streamed: bool = False

    def __call__(self, provider: MockProvider) -> TurnCompleted:
        with clients(provider) as (claude, gpt):
            match self.api:
                case "messages":
                    answer = self._ask(claude.messages, "get_final_message", **ANTHROPIC)
                case "chat":
                    usage = {"stream_options": {"include_usage": True}} if self.is_streamed else {}
                    body = {**CHAT, **usage}
                    answer = self._ask(gpt.chat.completions, "get_final_completion", **body)
                case _:
                    answer = self._ask(gpt.responses, "get_final_response", **RESPONSES)
        last = list(stream(answer))[-1]
        assert isinstance(last, TurnCompleted)
        return last

    def _ask(self, resource: Any, final: str, **body: Any) -> Any:
        if not self.is_streamed:
            return resource.create(**body)
        with resource.stream(**body) as events:
            return getattr(events, final)()


STOPS = {"messages": "tool_use", "chat": "tool_calls", "responses": "completed"}
STREAMED = [Ask(api, is_streamed=True) for api in STOPS]
WHOLE = [Ask(api) for api in STOPS]


def calls_in(turn: TurnCompleted) -> list[tuple[str, Any]]:
    return [
        (part.name, part.arguments) for part in turn.message.parts if isinstance(part, CallPart)
    ]


@pytest.mark.parametrize("ask", [*STREAMED, *WHOLE])
def test_sdk_assembles_the_scripted_reply(ask: Ask) -> None:
    with MockProvider(SCRIPT) as provider:
        turn = ask(provider)
        provider.check()
    thinking, text, *_, last = turn.message.parts
    assert isinstance(thinking, ThinkingPart)
    assert isinstance(text, TextPart)
    assert isinstance(last, CallPart)
    assert (thinking.text, text.text) == ("They want a file – a small one.", "I write it: 😀.")
    assert ask.api != "messages" or (thinking.item or {})["signature"] == signature(thinking.text)
    assert last.call_id == "call_7"
    assert (calls_in(turn), turn.stop_reason) == (CALLS, STOPS[ask.api])
    assert (turn.usage.input_tokens, (turn.usage.output_tokens or 0) > 30) == (100, True)
    assert [request.is_streamed for request in provider.requests] == [ask.is_streamed]


def test_ids_and_usage_differ_between_turns_and_repeat_in_the_next_run() -> None:
    def ask_twice() -> list[tuple[str, str, int]]:
        with MockProvider(SCRIPT) as provider, anthropic_client(provider.url) as client:
            messages: list[Any] = [client.messages.create(**ANTHROPIC) for _ in range(2)]
        return [(m.id, m.content[2].id, m.usage.input_tokens) for m in messages]

    first, second = ask_twice()
    assert all(one != other for one, other in zip(first, second, strict=True))
    assert ask_twice() == [first, second]


@pytest.mark.parametrize(
    ("stop", "reasons"),
    [
        ("end_turn", ("end_turn", "stop", "completed")),
        ("length", ("max_tokens", "length", "max_output_tokens")),
        ("content_filter", ("refusal", "content_filter", "content_filter")),
    ],
)
def test_stop_reason_is_translated_for_each_api(stop: Any, reasons: tuple[str, ...]) -> None:
    script = Reply(Think("Hm"), "Hello", CallTool("f"), stop=stop)
    with MockProvider(script) as provider, clients(provider) as (claude, gpt):
        assert tuple(ask(provider).stop_reason for ask in WHOLE) == reasons
        sources = [
            claude.messages.create(**ANTHROPIC, stream=True),
            gpt.chat.completions.create(**CHAT, stream=True),
            gpt.responses.create(**RESPONSES, stream=True),
        ]
        ends = [list(stream(source))[-1] for source in sources]
        assert tuple(getattr(end, "stop_reason", None) for end in ends) == reasons


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
def test_stream_reads_every_sdk_object(open_stream: Callable[[Any, Any], Any]) -> None:
    async def read(provider: MockProvider) -> Any:
        async with (
            anthropic_client(provider.url, "Async") as claude,
            openai_client(provider.url, "Async") as gpt,
        ):
            events = stream(open_stream(claude, gpt))
            return events, [event.type async for event in events]

    with MockProvider(SCRIPT) as provider, clients(provider) as (claude, gpt):
        events = stream(open_stream(claude, gpt))
        types = [event.type for event in events]
        async_events, async_types = asyncio.run(read(provider))
    assert types == async_types
    assert types[-1] == "turn_completed"
    for calls in (events.calls, async_events.calls):
        assert [(call.name, call.arguments) for call in calls] == CALLS
        assert {call.verdict for call in calls} == {"complete"}


@pytest.mark.parametrize("ask", [*STREAMED, *WHOLE])
def test_fault_raises_in_the_sdk(ask: Ask) -> None:
    import anthropic
    import openai

    cuts = [Cut(at) for at in (0, 700, "call", 1_000_000)]
    for fault in cuts if ask.is_streamed else [Cut(100)]:
        with MockProvider(SCRIPT, faults=[Split((50,)), fault]) as provider:
            if ask.api == "chat" and fault.at == 1_000_000:
                ask(provider)  # this client reads no further than [DONE]
            else:
                with pytest.raises(broken()):
                    ask(provider)
    for at in (2, "call"):
        error = ErrorEvent(at, message="too much")
        with (
            MockProvider(SCRIPT, faults=[error]) as provider,
            pytest.raises((anthropic.APIStatusError, openai.APIError), match="too much"),
        ):
            ask(provider)
    malformed = (ValueError, anthropic.APIError, openai.APIError)
    with MockProvider(SCRIPT, faults=[Malformed()]) as provider, pytest.raises(malformed):
        ask(provider)


@pytest.mark.parametrize(
    ("ask", "faults"),
    [
        (STREAMED[0], [Slow(before=0.2)]),
        (STREAMED[1], [Slow(total=0.2)]),
        (STREAMED[2], [Slow(between=0.2 / 40)]),
        (STREAMED[0], [Slow(total=0.2), Split()]),  # pauses are between events, not chunks
        (WHOLE[0], [Slow(total=0.2)]),
    ],
)
def test_slow_answer_takes_its_time(ask: Ask, faults: list[Any]) -> None:
    with MockProvider(SCRIPT, faults=faults) as provider:
        start = time.monotonic()
        assert calls_in(ask(provider)) == CALLS
        assert 0.19 <= time.monotonic() - start < 10


@pytest.mark.parametrize("slow", [Slow(before=60), Slow(between=60)])
def test_stop_does_not_wait_for_a_slow_answer(slow: Slow) -> None:
    threads = threading.active_count()
    provider = MockProvider(SCRIPT, faults=[slow]).start()
    failures: list[BaseException] = []

    def ask() -> None:
        with pytest.raises(broken()) as caught:
            STREAMED[0](provider)
        failures.append(caught.value)

    asking = threading.Thread(target=ask)
    asking.start()
    while not provider.requests:
        time.sleep(0.005)
    start = time.monotonic()
    provider.stop()
    assert time.monotonic() - start < 20
    asking.join(20)
    assert len(failures) == 1
    assert threading.active_count() == threads


def test_early_leave_is_reported_and_disturbs_no_other(capfd: pytest.CaptureFixture[str]) -> None:
    with MockProvider(SCRIPT, faults=[Slow(between=0.01)]) as provider:
        with (
            anthropic_client(provider.url) as client,
            client.messages.stream(**ANTHROPIC) as events,
        ):
            next(iter(events))
        assert calls_in(WHOLE[1](provider)) == CALLS
        while not provider.hang_ups:
            time.sleep(0.005)
        ((sent, whole),) = provider.hang_ups
    assert 0 < sent < whole
    assert capfd.readouterr().err == ""


# Files of ``argstream record``: status, type, cut and times are replayed too

BODY = sse(anthropic_call('{"a": "é"}'))


def recorded(
    *chunks: tuple[float, bytes],
    path: str = "/v1/messages",
    status: int = 200,
    type_: str = "text/event-stream",
    ending: Any = "orderly",
) -> bytes:
    file, now = io.BytesIO(), 0.0
    request = Request("POST", f"https://x.example{path}") if path else None
    response = Response(status, {"content-type": type_}) if path else None
    recorder = Recorder(file, clock=lambda: now, request=request, response=response)
    for now, data in chunks:  # noqa: B007, read by the clock
        recorder.write(data)
    recorder.close(ending)
    return file.getvalue()


def events_of(provider: MockProvider) -> list[object]:
    with anthropic_client(provider.url) as client:
        return list(stream(client.messages.create(**ANTHROPIC, stream=True)))


@pytest.mark.parametrize("path", ["", "/v1/messages"])
@pytest.mark.parametrize("faults", [(), (Split((5,)),)])
def test_recording_is_served_with_its_bytes_and_type(path: str, faults: tuple[Split, ...]) -> None:
    type_ = "text/event-stream; charset=x"
    recording = recorded((0.1, BODY[:33]), (0.2, BODY[33:]), path=path, type_=type_)
    with MockProvider.replaying(recording, faults=faults) as provider:
        assert events_of(provider) == list(stream([BODY]))
        _, headers, body = post(provider, "/v1/messages", streamed=True)
    assert body == BODY
    assert headers["content-type"] == (type_ if path else "text/event-stream; charset=utf-8")


def test_recorded_error_raises_again() -> None:
    import anthropic

    error = {"type": "error", "error": {"type": "rate_limit_error", "message": "slowly"}}
    recording = recorded((0.1, json.dumps(error).encode()), status=429, type_="application/json")
    with (
        MockProvider.replaying(recording) as provider,
        pytest.raises(anthropic.RateLimitError, match=r"429.*slowly"),
    ):
        events_of(provider)


def test_recorded_cut_breaks_the_connection_again() -> None:
    recording = recorded((0.1, BODY[:-70]), ending="cut")
    with MockProvider.replaying(recording) as provider, pytest.raises(broken()):
        events_of(provider)


def test_times_are_kept_with_timed() -> None:
    with MockProvider.replaying(recorded((0.1, BODY[:33]), (0.5, BODY[33:])), timed=True) as slow:
        start = time.monotonic()
        assert events_of(slow) == list(stream([BODY]))
        assert time.monotonic() - start >= 0.5
    with MockProvider.replaying(recorded((600.0, BODY))) as provider:  # by default, no pauses
        assert events_of(provider) == list(stream([BODY]))
    with pytest.raises(UsageError, match="timed needs a recording of argstream"):
        MockProvider.replaying(BODY, timed=True)
    with pytest.raises(UsageError, match="timed and faults cannot be combined"):
        MockProvider.replaying(recorded((0, BODY)), timed=True, faults=[Cut()])


def test_unknown_api_is_served_for_any_request() -> None:
    lines = b'{"candidates": []}\n{"candidates": []}\n'
    path, type_ = "/v1beta/models/g:streamGenerateContent", "application/x-ndjson"
    recording = recorded((0.1, lines[:20]), (0.2, lines[20:]), path=path, type_=type_)
    with MockProvider.replaying(recording) as provider:
        _, headers, body = post(provider, "/anything?key=x", b"whatever", headers={})
        provider.check()
    assert (body, headers["content-type"]) == (lines, type_)
