"""stream(): which sources it reads, how a stream ends, and failures of the source."""

import asyncio
import gc
import io
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from ag_ui.core import RunStartedEvent, ToolCallStartEvent
from ag_ui.encoder import EventEncoder
from langchain_core.messages import AIMessage, HumanMessage

from argstream import EventStream, StreamError, UsageError, stream
from argstream.events import Event, StreamFailed, ToolArgsInvalid
from argstream.testing import at_every_place, chunkings, cut
from tests.provider_streams import anthropic_call, chat_call, joined, outcomes, sse, types
from tests.streaming.faces import AsyncSource, Source, collect, each
from tests.turns import STREAMED

TURN = anthropic_call('{"path": "/t', 'mp"}')
BODY = sse(TURN)
LINES = BODY.decode().splitlines()
EXPECTED = joined(stream([BODY]))
ARGUMENTS = [{"path": "/tmp"}]
MESSAGE: Any = {"type": "message", "content": [], "stop_reason": "end_turn"}


def name_of(source: Any) -> str:
    """Name a source in the same way in every process."""
    shown = "" if isinstance(source, io.IOBase | memoryview) else str(source)[:30]
    return f"{type(source).__name__} {shown!r}"


@pytest.mark.parametrize(
    "source",
    [
        *(BODY, BODY.decode(), bytearray(BODY), memoryview(BODY), [BODY], [bytearray(BODY)]),
        *(BODY.decode().splitlines(keepends=True), LINES, BODY.splitlines(), cut(BODY, [3])),
        [b"", BODY[:9], b"", BODY[9:], b""],
        [b"\n", b" ", BODY],
        [b"\xef\xbb\xbf" + BODY],
        *(BODY.replace(b"\n", b"\r\n"), BODY.replace(b"\n", b"\r"), BODY.replace(b"\n\n", b"\n")),
        *(io.BytesIO(BODY), io.StringIO(BODY.decode()), TURN),
        [json.dumps(payload) for payload in TURN],
        ["\n".join(json.dumps(payload) for payload in TURN)],
        [json.dumps(payload).encode() for payload in TURN],
        [line for line in LINES if line],
        [line for line in BODY.splitlines(keepends=True) if line.strip()],
        [line for line in LINES if line.startswith("data:")],
        [": OPENROUTER PROCESSING", "", *LINES],
        [OrderedDict(payload) for payload in TURN],
        [MappingProxyType(payload) for payload in TURN],
        # As httpx-sse and others represent an event.
        [SimpleNamespace(event=payload["type"], data=json.dumps(payload)) for payload in TURN],
        [SimpleNamespace(**payload) for payload in TURN],
    ],
    ids=name_of,
)
def test_every_form_has_the_same_events(source: Any) -> None:
    events = stream(source)
    assert isinstance(events, EventStream)
    assert joined(events) == EXPECTED
    assert events.protocol == "anthropic"
    assert outcomes(events.calls) == ARGUMENTS
    if isinstance(source, list):
        assert joined(asyncio.run(collect(stream(each(source))))) == EXPECTED


def test_context_manager_is_entered_and_left() -> None:
    states: list[str] = []

    @contextmanager
    def manager() -> Iterator[list[bytes]]:
        states.append("entered")
        try:
            yield [BODY]
        finally:
            states.append("left")

    assert joined(stream(manager())) == EXPECTED
    assert states == ["entered", "left"]
    events = stream(manager())
    next(events)
    assert states[2:] == ["entered"]
    events.close()
    assert states[2:] == ["entered", "left"]


async def test_single_payload_and_awaitable_are_read() -> None:
    async def request(answer: Any) -> Any:
        return answer

    assert types(stream(MESSAGE)) == ["turn_completed"]
    assert joined(await collect(stream(request(each([BODY]))))) == EXPECTED
    usage = {"input_tokens": 1, "output_tokens": 1}
    more = {"id": "m", "model": "x", "role": "assistant", "stop_sequence": None, "usage": usage}
    from anthropic.types import Message

    whole = Message.model_validate({**MESSAGE, **more})
    assert types(await collect(stream(request(whole)))) == ["turn_completed"]
    with pytest.raises(UsageError, match="cannot read an object of type int"):
        await collect(stream(request(3)))


JSON_LINES = "\n".join(json.dumps(payload) for payload in TURN).encode()


@pytest.mark.parametrize("start", [b":: hi\n\n", b":{x}\n\n", b"\xef\xbb\xbf", b"\n\n\n", b""])
def test_detection_does_not_depend_on_the_chunks(start: bytes) -> None:
    body = start + BODY if start else b"\xef\xbb\xbf" + JSON_LINES
    for chunks in ([body], cut(body, [1]), *([body[:at], body[at:]] for at in range(1, 60))):
        assert joined(stream(chunks)) == EXPECTED, chunks[:2]


def test_chunk_that_looks_like_a_line_is_not_taken_for_one() -> None:
    body = sse(chat_call(json.dumps({"a": "data: {x}"})), done=True)
    for chunks in at_every_place(body):
        events = stream(chunks)
        list(events)
        assert outcomes(events.calls) == [{"a": "data: {x}"}], chunks


GEMINI = [
    {"candidates": [{"content": {"parts": [part]}, **more}], "responseId": "r"}
    for part, more in (
        ({"text": "hi"}, {}),
        ({"functionCall": {"name": "f", "args": {"a": 1}}}, {"finishReason": "STOP"}),
    )
]
PRETTY = json.dumps(GEMINI, indent=2)


@pytest.mark.parametrize(
    "source",
    [[PRETTY], PRETTY.split("\n"), [json.dumps(GEMINI)], PRETTY.encode(), [GEMINI]],
    ids=["pretty", "lines", "compact", "bytes", "list"],
)
def test_array_of_payloads_is_read_in_every_form(source: Any) -> None:
    events = stream(source)
    assert types(events)[-2:] == ["tool_args_completed", "turn_completed"]
    assert events.protocol == "gemini"
    lines = PRETTY.split("\n")
    assert next(stream(lines[: len(lines) // 2])).type == "text_delta"  # as soon as it is there


def test_usage_alone_does_not_determine_the_protocol() -> None:
    events = stream([
        {"usageMetadata": {"promptTokenCount": 5}},
        {"toolCall": {"functionCalls": [{"id": "x", "name": "f", "args": {"a": 1}}]}},
        {"serverContent": {"turnComplete": True}},
    ])  # fmt: skip
    assert types(events)[-1] == "turn_completed"
    assert outcomes(events.calls) == [{"a": 1}]


async def test_source_whose_iter_is_not_implemented_is_read_with_async_for() -> None:
    """As the streams of aiobotocore."""

    class Stream:
        def __iter__(self) -> Iterator[object]:
            raise NotImplementedError

        def __aiter__(self) -> AsyncIterator[object]:
            return each(TURN)

    source: Any
    for source in (Stream(), {"ResponseMetadata": {}, "stream": Stream()}):
        assert types(await collect(stream(source))) == types(stream(TURN))


@pytest.mark.parametrize("source", [3, None, object()])
def test_unreadable_source_raises(source: Any) -> None:
    with pytest.raises(UsageError, match="Pass an SDK's stream, an HTTP response"):
        list(stream(source))
    with pytest.raises(UsageError, match="cannot read an item of type"):
        list(stream([source]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "claude"}, "Known protocols: auto, anthropic"),
        ({"quirks": ["twice"]}, "Known quirks: cumulative"),
        ({"quirks": "cumulative"}, "must be a collection"),
    ],
)
def test_unknown_protocol_or_quirk_raises_at_once(options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        stream([], **options)


async def test_wrong_kind_of_loop_raises() -> None:
    events: Any = stream(each([]))
    with pytest.raises(TypeError, match='use "async for"'):
        list(events)
    events = stream([])
    with pytest.raises(TypeError, match='use "for"'):
        await collect(events)
    assert types(events) == ["stream_failed"]


ERROR_BODY = json.dumps({"error": {"message": "no key", "type": "auth"}}, indent=2).encode()


@pytest.mark.parametrize(
    ("source", "code", "message"),
    [
        ([ERROR_BODY[:10], ERROR_BODY[10:]], "auth", "no key"),
        ([b"<html>\n<body>502 Bad Gateway</body>\n"], "not_a_stream", "<html>"),
        *((source, "empty", "") for source in ([], [b""], [b"\n\n"], ["", ""])),
        ([{"messageStop": {"stopReason": "tool_use"}}], "empty", "before a message began"),
    ],
)
def test_source_that_is_no_stream_is_a_failure(source: list[Any], code: str, message: str) -> None:
    (event,) = stream(source)
    assert isinstance(event, StreamFailed)
    assert event.specific_code == code
    assert message in event.message


def test_broken_event_stream_is_one_failure_and_truncates_the_open_call() -> None:
    (bedrock,) = (one for one in STREAMED if one.protocol == "bedrock-invoke")
    garbage = b"\x00\x00\x00\x10garbage that is long enough"
    events = stream([bedrock.wire(TURN[:3]), garbage, garbage])
    failures = [event.code for event in events if isinstance(event, StreamFailed)]
    assert failures == ["broken_stream"]
    assert outcomes(events.calls) == ["truncated"]


UI_MESSAGES: list[dict[str, Any]] = [
    {"type": "start", "messageId": "msg_1"},
    {"type": "start-step"},
    {"type": "tool-input-start", "toolCallId": "call_1", "toolName": "write"},
    {"type": "tool-input-delta", "toolCallId": "call_1", "inputTextDelta": '{"a": 1}'},
    {"type": "finish-step"},
    {"type": "finish"},
]
AI_SDK = "the AI SDK's UI message stream, an output format for front ends"
AG_UI = [
    RunStartedEvent(thread_id="thread_1", run_id="run_1"),
    ToolCallStartEvent(tool_call_id="call_1", tool_call_name="write"),
]
HI, ANSWER = HumanMessage("Hi"), AIMessage("Hello", id="msg_1")
LANGGRAPH_MODE = 'Use stream_mode="messages"'


@pytest.mark.parametrize(
    ("source", "message"),
    [
        *((chunks, AI_SDK) for _, chunks in chunkings(sse(UI_MESSAGES, done=True))),
        (UI_MESSAGES, AI_SDK),
        (UI_MESSAGES[2:], AI_SDK),  # joined late
        ([EventEncoder().encode(event) for event in AG_UI],
         "AG-UI events, an output format for front ends"),
        (AG_UI[:1], "AG-UI events"),
        ([{"agent": {"messages": [ANSWER]}}], LANGGRAPH_MODE),  # "updates"
        ([{"messages": [HI]}, {"messages": [HI, ANSWER]}], LANGGRAPH_MODE),  # "values"
    ],
)  # fmt: skip
def test_format_of_no_provider_is_named_and_not_read(source: list[Any], message: str) -> None:
    iterator = (item for item in [*source, *source])
    events = stream(iterator)
    (event,) = events
    assert isinstance(event, StreamFailed)
    assert (event.code, event.retryable) == ("unknown_protocol", False)
    assert message in event.message
    assert events.calls == []
    assert next(iterator, None) is None  # it was closed


PIECES = [sse([payload]) for payload in TURN]


def test_source_is_closed_unless_it_was_read_to_its_end() -> None:
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


def test_exception_of_the_source_is_raised_after_the_verdicts() -> None:
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


def test_interrupt_is_raised_although_closing_fails() -> None:
    class Unclosable(Source):
        def close(self) -> None:
            super().close()
            raise OSError("cannot be closed")

    source = Unclosable(PIECES[:3], KeyboardInterrupt())
    events = stream(source)
    with pytest.raises(KeyboardInterrupt):
        list(events)
    assert source.closed
    assert outcomes(events.calls) == ["aborted"]


async def test_async_source_is_closed_unless_it_was_read_to_its_end() -> None:
    unread, finished = AsyncSource(PIECES), AsyncSource(PIECES)
    await stream(unread).aclose()
    assert unread.closed
    await stream(each(PIECES)).aclose()
    async with stream(finished) as events:
        assert (await anext(events)).type == "tool_call_started"
        assert joined(await collect(events)) == EXPECTED[1:]
        assert events.protocol == "anthropic"
    assert not finished.closed


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}


@pytest.mark.parametrize(
    ("items", "code"),
    [([b"hello"], "not_a_stream"), (TURN[:3], "truncated"), ([OVERLOADED], "overloaded_error")],
)
async def test_raise_for_failure_raises_the_failed_event(items: list[Any], code: str) -> None:
    sync, asynchronous = stream(items), stream(each(items))
    for events, found in ((sync, list(sync)), (asynchronous, await collect(asynchronous))):
        failed = found[-1]
        assert isinstance(failed, StreamFailed)
        with pytest.raises(StreamError) as caught:
            events.raise_for_failure()
        error = caught.value
        assert error.code == failed.specific_code == code
        assert (error.message, error.retryable) == (failed.message, failed.retryable)


def test_raise_for_failure_does_nothing_before_a_failure() -> None:
    events = stream(TURN)
    events.raise_for_failure()
    list(events)
    events.raise_for_failure()
    events = stream([*TURN[:2], OVERLOADED, *TURN[2:]])
    assert next(events).type == "tool_call_started"
    events.raise_for_failure()
    next(event for event in events if isinstance(event, StreamFailed))
    with pytest.raises(StreamError, match="overloaded_error"):
        events.raise_for_failure()
