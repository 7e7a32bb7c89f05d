"""stream(): what may be given to it, how it ends, and what happens when the source does not."""

import asyncio
import gc
import io
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from ag_ui.core import RunStartedEvent, ToolCallStartEvent
from ag_ui.encoder import EventEncoder
from anthropic.types import Message
from langchain_core.messages import AIMessage, HumanMessage

from argstream import EventStream, StreamFailure, UsageError, stream
from argstream.events import Event, StreamFailed, ToolArgsInvalid
from argstream.testing import at_every_place, chunkings, cut
from tests.provider_streams import anthropic_call, chat_call, joined, sse, types
from tests.providers.test_bedrock import in_bytes
from tests.streaming.faces import AsyncSource, Source, collect, each
from tests.turns import aws_event

TURN = anthropic_call('{"path": "/t', 'mp"}')
BODY = sse(TURN)
EXPECTED = joined(stream([BODY]))


class Sse(SimpleNamespace):
    """What httpx-sse and others make of an event."""


# What may be given


def named(source: Any) -> str:
    """Name a source in the same way in every process."""
    return "" if isinstance(source, io.IOBase | memoryview) else str(source)[:30]


@pytest.mark.parametrize(
    "source",
    [
        BODY,
        BODY.decode(),
        bytearray(BODY),
        memoryview(BODY),
        [BODY],
        [bytearray(BODY)],
        BODY.decode().splitlines(keepends=True),
        BODY.decode().splitlines(),
        BODY.splitlines(),
        cut(BODY, [3]),
        [b"", BODY[:9], b"", BODY[9:], b""],
        [b"\n", b" ", BODY],
        [b"\xef\xbb\xbf" + BODY],
        BODY.replace(b"\n", b"\r\n"),
        BODY.replace(b"\n", b"\r"),
        io.BytesIO(BODY),
        TURN,
        [json.dumps(payload) for payload in TURN],
        ["\n".join(json.dumps(payload) for payload in TURN)],
        [json.dumps(payload).encode() for payload in TURN],
        [line for line in BODY.decode().splitlines() if line],
        [line for line in BODY.splitlines(keepends=True) if line.strip()],
        [line for line in BODY.decode().splitlines() if line.startswith("data:")],
        [": OPENROUTER PROCESSING", "", *BODY.decode().splitlines()],
        [OrderedDict(payload) for payload in TURN],
        [MappingProxyType(payload) for payload in TURN],
        [Sse(event=payload["type"], data=json.dumps(payload)) for payload in TURN],
        [SimpleNamespace(**payload) for payload in TURN],
    ],
    ids=lambda source: f"{type(source).__name__} {named(source)!r}",
)
def test_every_form_gives_the_same_events(source: Any) -> None:
    events = stream(source)
    assert isinstance(events, EventStream)
    assert joined(events) == EXPECTED
    assert events.protocol == "anthropic"
    assert [call.arguments for call in events.calls] == [{"path": "/tmp"}]
    if isinstance(source, list):
        again = asyncio.run(collect(stream(each(source))))
        assert joined(again) == EXPECTED


CHAT = chat_call('{"path": "/t', 'mp"}')
CHAT_BODY = sse(CHAT, done=True)
NO_BLANK_LINES = {
    "chat": CHAT_BODY.replace(b"\n\n", b"\n"),
    "chat without a last line end": CHAT_BODY.replace(b"\n\n", b"\n").rstrip(),
    "chat with CRLF": CHAT_BODY.replace(b"\n\n", b"\r\n"),
    "chat without spaces": CHAT_BODY.replace(b"\n\n", b"\n").replace(b"data: ", b"data:"),
    "anthropic, with event names": BODY.replace(b"\n\n", b"\n"),
}


@pytest.mark.parametrize("body", NO_BLANK_LINES.values(), ids=NO_BLANK_LINES)
def test_data_lines_without_blank_lines_between_them_are_separate_events(body: bytes) -> None:
    expected = joined(stream([BODY if b"event:" in body else CHAT_BODY]))
    for name, chunks in chunkings(body):
        events = stream(chunks)
        assert joined(events) == expected, name
        assert [call.arguments for call in events.calls] == [{"path": "/tmp"}], name


def test_without_blank_lines_events_come_when_their_line_ends() -> None:
    body = NO_BLANK_LINES["chat"]
    taken: list[bytes] = []

    def chunks() -> Iterator[bytes]:
        for line in [body[:20], body[20:40], *body[40:].splitlines(keepends=True)]:
            taken.append(line)
            yield line

    lines = {event.type: len(taken) for event in stream(chunks())}
    # The first payload waits for the next line, every other one only for its own end.
    assert lines["tool_call_started"] == 4
    assert lines["argument_started"] == 4
    assert lines["argument_completed"] == 5
    assert lines["tool_args_completed"] == 6


def test_a_json_document_over_several_data_lines_is_one_event() -> None:
    pretty = [json.dumps(payload, indent=2).splitlines() for payload in CHAT]
    body = "".join("".join(f"data: {line}\n" for line in lines) + "\n" for lines in pretty)
    for name, chunks in chunkings(body.encode()):
        events = stream(chunks)
        assert joined(events) == joined(stream([sse(CHAT)])), name


def test_a_file_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "turn.sse"
    path.write_bytes(BODY)
    with path.open("rb") as file:
        assert joined(stream(file)) == EXPECTED
    with path.open() as file:
        assert joined(stream(file)) == EXPECTED


def test_one_payload_is_a_stream_of_one() -> None:
    assert types(stream(MESSAGE)) == ["turn_completed"]


def test_a_context_manager_is_entered_and_left() -> None:
    class Manager:
        state = "new"

        def __enter__(self) -> list[bytes]:
            self.state = "entered"
            return [BODY]

        def __exit__(self, *_: object) -> None:
            self.state = "left"

    manager = Manager()
    assert joined(stream(manager)) == EXPECTED
    assert manager.state == "left"
    manager = Manager()
    events = stream(manager)
    next(events)
    assert manager.state == "entered"
    events.close()
    assert manager.state == "left"


MESSAGE: Any = {"type": "message", "content": [], "stop_reason": "end_turn"}


async def test_an_awaitable_is_awaited() -> None:
    async def request(answer: Any) -> Any:
        return answer

    assert joined(await collect(stream(request(each([BODY]))))) == EXPECTED
    usage = {"input_tokens": 1, "output_tokens": 1}
    more = {"id": "m", "model": "x", "role": "assistant", "stop_sequence": None, "usage": usage}
    whole = Message.model_validate({**MESSAGE, **more})
    assert types(await collect(stream(request(whole)))) == ["turn_completed"]
    with pytest.raises(UsageError, match="cannot read a int"):
        await collect(stream(request(3)))


@pytest.mark.bulk
@pytest.mark.parametrize(
    "body",
    [
        b":: hi\n\n" + BODY,
        b":{x}\n\n" + BODY,
        b"\xef\xbb\xbf" + BODY,
        b"\xef\xbb\xbf" + "\n".join(json.dumps(payload) for payload in TURN).encode(),
        b"\n\n\n" + BODY,
    ],
)
def test_how_a_stream_begins_does_not_depend_on_its_chunks(body: bytes) -> None:
    for chunks in ([body], cut(body, [1]), *at_every_place(body[:40] + body[40:])):
        assert joined(stream(chunks)) == EXPECTED, chunks[:2]


def test_an_error_body_that_is_spread_over_lines_is_read() -> None:
    body = json.dumps({"error": {"message": "no key", "type": "auth"}}, indent=2).encode()
    assert list(stream([body[:10], body[10:]])) == [StreamFailed("auth", "no key")]


def test_a_multi_line_text_that_is_cut_is_no_line() -> None:
    """A chunk that begins like a line, and whose next one does too, but which is not whole."""
    body = sse(chat_call(json.dumps({"a": "data: {x}"})), done=True)
    for chunks in at_every_place(body):
        events = stream(chunks)
        list(events)
        assert [call.arguments for call in events.calls] == [{"a": "data: {x}"}], chunks


@pytest.mark.parametrize("source", [3, None, object()])
def test_what_cannot_be_read_is_refused_with_what_can(source: Any) -> None:
    with pytest.raises(UsageError, match="give it an SDK's stream, an HTTP response"):
        list(stream(source))
    with pytest.raises(UsageError, match="cannot read an item of type"):
        list(stream([source]))


def test_an_unknown_protocol_or_quirk_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="there are: auto, anthropic"):
        stream([], protocol="claude")  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="there are: cumulative"):
        stream([], quirks=["twice"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="collection of names"):
        stream([], quirks="cumulative")  # type: ignore[arg-type]


def test_what_is_no_stream_is_told_with_how_it_begins() -> None:
    (event,) = list(stream([b"<html>\n<body>502 Bad Gateway</body>\n"]))
    assert isinstance(event, StreamFailed)
    assert event.code == "not_a_stream"
    assert "<html>" in event.message


UI_MESSAGES: list[dict[str, Any]] = [
    {"type": "start", "messageId": "msg_1"},
    {"type": "start-step"},
    {"type": "tool-input-start", "toolCallId": "call_1", "toolName": "write"},
    {"type": "tool-input-delta", "toolCallId": "call_1", "inputTextDelta": '{"a": 1}'},
    {"type": "finish-step"},
    {"type": "finish"},
]
AI_SDK = "the AI SDK's UI message stream, an output format for front ends"
ANSWER = AIMessage("Hello", id="msg_1")
OTHER_FORMATS: dict[str, tuple[list[Any], str]] = {
    "AI SDK": ([sse(UI_MESSAGES, done=True)], AI_SDK),
    "AI SDK, dicts": (UI_MESSAGES, AI_SDK),
    "AI SDK, joined late": (UI_MESSAGES[2:], AI_SDK),
    "AG-UI": (
        [
            EventEncoder().encode(RunStartedEvent(thread_id="thread_1", run_id="run_1")),
            EventEncoder().encode(
                ToolCallStartEvent(tool_call_id="call_1", tool_call_name="write")
            ),
        ],
        "AG-UI events, an output format for front ends",
    ),
    "AG-UI, objects": ([RunStartedEvent(thread_id="thread_1", run_id="run_1")], "AG-UI events"),
    'LangGraph, stream_mode="updates"': (
        [{"agent": {"messages": [ANSWER]}}],
        'Use stream_mode="messages"',
    ),
    'LangGraph, stream_mode="values"': (
        [{"messages": [HumanMessage("Hi")]}, {"messages": [HumanMessage("Hi"), ANSWER]}],
        'Use stream_mode="messages"',
    ),
    "pydantic-ai": (
        [SimpleNamespace(index=0, part=SimpleNamespace(content=""), event_kind="part_start")],
        "pydantic-ai events. Pass the model provider's own stream",
    ),
}


@pytest.mark.parametrize(("source", "message"), OTHER_FORMATS.values(), ids=OTHER_FORMATS)
def test_a_format_of_no_provider_is_named(source: list[Any], message: str) -> None:
    events = stream(source)
    (event,) = list(events)
    assert isinstance(event, StreamFailed)
    assert (event.code, event.retryable) == ("unknown_protocol", False)
    assert message in event.message
    assert events.calls == []


def test_a_format_of_no_provider_is_named_at_its_first_event_and_not_read_further() -> None:
    source = (payload for payload in [*UI_MESSAGES, *UI_MESSAGES])
    assert types(list(stream(source))) == ["stream_failed"]
    with pytest.raises(StopIteration):
        next(source)  # the generator was closed
    body = sse(UI_MESSAGES, done=True)
    for name, chunks in chunkings(body):
        (event,) = list(stream(chunks))
        assert isinstance(event, StreamFailed), name
        assert AI_SDK in event.message, name


@pytest.mark.parametrize("source", [[], [b""], [b"\n\n"], ["", ""]])
def test_nothing_is_told_too(source: list[Any]) -> None:
    (event,) = list(stream(source))
    assert isinstance(event, StreamFailed)
    assert event.code == "empty"


def test_a_broken_event_stream_costs_the_open_calls_and_is_one_failure() -> None:
    garbage = b"\x00\x00\x00\x10garbage that is long enough"
    whole = b"".join(aws_event("chunk", in_bytes(payload)) for payload in TURN[:3])
    events = stream([whole, garbage, garbage])
    failures = [event for event in events if isinstance(event, StreamFailed)]
    assert [failure.code for failure in failures] == ["broken_stream"]
    assert [call.verdict for call in events.calls] == ["truncated"]


# How it ends


PIECES = [sse([payload]) for payload in TURN]


def test_closing_early_closes_the_source_and_aborts_what_is_open() -> None:
    source = Source(PIECES)
    events = stream(source)
    next(event for event in events if event.type == "argument_delta")
    events.close()
    assert source.closed
    assert [call.verdict for call in events.calls] == ["aborted"]
    assert list(events) == []


def test_a_source_is_closed_unless_it_was_read_to_its_end() -> None:
    unread, left, read = (Source(PIECES) for _ in range(3))
    with stream(unread):
        pass
    for event in stream(left):
        if event.type == "tool_call_started":
            break
    gc.collect()
    with stream(read) as events:
        list(events)
    assert (unread.closed, left.closed, read.closed) == (True, True, False)


def test_an_exception_of_the_source_comes_after_the_verdicts_unchanged() -> None:
    """Invariant 9."""
    error = ConnectionResetError("gone")
    source = Source(PIECES[:3], error)
    seen: list[Event] = []
    with pytest.raises(ConnectionResetError) as raised:
        seen.extend(stream(source))
    assert raised.value is error
    assert source.closed
    invalid = seen[-1]
    assert isinstance(invalid, ToolArgsInvalid)
    assert (invalid.verdict, invalid.raw) == ("truncated", '{"path": "/t')
    assert "ConnectionResetError" in invalid.error.message


class Unclosable(Source):
    def close(self) -> None:
        super().close()
        raise OSError("cannot be closed")


def test_an_interrupt_is_not_held_up() -> None:
    source = Unclosable(PIECES[:3], KeyboardInterrupt())
    events = stream(source)
    with pytest.raises(KeyboardInterrupt):
        for _ in events:
            pass
    assert source.closed
    assert [call.verdict for call in events.calls] == ["aborted"]


async def test_async_streams_end_like_sync_ones() -> None:
    early = AsyncSource(PIECES)
    async with stream(early) as events:
        async for event in events:
            if event.type == "argument_delta":
                break
    assert early.closed
    assert [call.verdict for call in events.calls] == ["aborted"]

    unread = AsyncSource(PIECES)
    await stream(unread).aclose()
    assert unread.closed
    await stream(each(PIECES)).aclose()

    finished = AsyncSource(PIECES)
    async with stream(finished) as events:
        assert (await anext(events)).type == "tool_call_started"
        assert joined(await collect(events)) == EXPECTED[1:]
        assert events.protocol == "anthropic"
    assert not finished.closed

    events = stream(AsyncSource(PIECES[:3], ConnectionResetError("gone")))
    with pytest.raises(ConnectionResetError):
        await collect(events)
    assert [call.verdict for call in events.calls] == ["truncated"]


async def test_a_cancelled_task_closes_its_source() -> None:
    class Endless(AsyncSource):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in PIECES[:3]:
                yield piece
            await asyncio.sleep(3600)

    source = Endless([])
    events = stream(source)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(collect(events), 0.01)
    assert source.closed
    assert [call.verdict for call in events.calls] == ["aborted"]


GEMINI = [
    {"candidates": [{"content": {"parts": [{"text": "hi"}]}}], "responseId": "r"},
    {
        "candidates": [
            {
                "content": {"parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]},
                "finishReason": "STOP",
            }
        ],
        "responseId": "r",
    },
]


@pytest.mark.parametrize(
    "source",
    [
        [json.dumps(GEMINI, indent=2)],
        json.dumps(GEMINI, indent=2).split("\n"),  # as iter_lines() gives it
        [json.dumps(GEMINI)],
        json.dumps(GEMINI, indent=2).encode(),
        [GEMINI],
    ],
    ids=["pretty", "lines", "compact", "bytes", "list"],
)
def test_an_array_of_payloads_is_read_in_every_form(source: object) -> None:
    events = stream(source)  # type: ignore[call-overload]
    assert types(events)[-2:] == ["tool_args_completed", "turn_completed"]
    assert events.protocol == "gemini"


def test_lines_of_an_array_are_read_as_they_come() -> None:
    lines = json.dumps(GEMINI, indent=2).split("\n")
    events = stream(lines[: len(lines) // 2])
    assert next(events).type == "text_delta"


def test_usage_alone_does_not_tell_which_protocol_it_is() -> None:
    session = [
        {"usageMetadata": {"promptTokenCount": 5}},
        {"toolCall": {"functionCalls": [{"id": "x", "name": "f", "args": {"a": 1}}]}},
        {"serverContent": {"turnComplete": True}},
    ]
    events = stream(session)
    assert types(events)[-1] == "turn_completed"
    assert [call.arguments for call in events.calls] == [{"a": 1}]


async def test_what_only_seems_to_be_sync_is_read_with_async_for() -> None:
    """aiobotocore's streams have an ``__iter__`` that says that it is not implemented."""

    class Stream:
        def __iter__(self) -> Iterator[object]:
            raise NotImplementedError

        def __aiter__(self) -> AsyncIterator[object]:
            return each(TURN)

    source: Any
    for source in (Stream(), {"ResponseMetadata": {}, "stream": Stream()}):
        assert types(await collect(stream(source))) == types(stream(TURN))


# Failures, for those who do not match the event

OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("items", "code"),
    [
        ([b"hello"], "not_a_stream"),
        ([], "empty"),
        (anthropic_call('{"path": "a.py"')[:3], "truncated"),
        ([OVERLOADED], "overloaded_error"),
    ],
)
def test_raise_for_failure_raises_what_the_event_says(
    items: list[Any], code: str, is_async: bool
) -> None:
    if is_async:
        events: Any = stream(each(items))
        told = asyncio.run(collect(events))
    else:
        events = stream(items)
        told = list(events)
    (failed,) = [event for event in told if isinstance(event, StreamFailed)]
    with pytest.raises(StreamFailure) as caught:
        events.raise_for_failure()
    error = caught.value
    assert error.code == failed.code == code
    assert (error.message, error.retryable) == (failed.message, failed.retryable)


def test_raise_for_failure_does_nothing_without_a_failure() -> None:
    events = stream(TURN)
    events.raise_for_failure()  # nothing has been read
    list(events)
    events.raise_for_failure()


def test_failure_is_known_while_the_stream_goes_on() -> None:
    items = anthropic_call('{"path": "a.py"}')
    events = stream([*items[:2], OVERLOADED, *items[2:]])
    assert next(events).type == "tool_call_started"
    events.raise_for_failure()
    for event in events:
        if isinstance(event, StreamFailed):
            break
    with pytest.raises(StreamFailure, match="overloaded_error"):
        events.raise_for_failure()


async def test_the_wrong_kind_of_loop_says_what_to_use() -> None:
    events: Any = stream(each([]))
    with pytest.raises(TypeError, match='use "async for"'):
        list(events)
    events = stream([])
    with pytest.raises(TypeError, match='use "for"'):
        await collect(events)
    assert types(events) == ["stream_failed"]
