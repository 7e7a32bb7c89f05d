"""Encoders: what all formats have in common, the native format, and the bridge of source 004."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Generator
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream import events as ev
from argstream import stream
from argstream.errors import UsageError
from argstream.history import CallPart, Message, OpaquePart, TextPart
from argstream.protocols import CloseReason, Encoder, ag_ui, ai_sdk, converse, native
from argstream.protocols.ag_ui import AgUiEncoder
from argstream.protocols.ai_sdk import AiSdkEncoder
from argstream.protocols.converse import ConverseEncoder
from argstream.protocols.native import Frame, NativeEncoder
from argstream.runs import RunState, joined, with_arguments
from tests.chance_runs import runs
from tests.protocols.reading import in_portions, read, records_of, snapshot_of
from tests.provider_streams import anthropic_call

START = ev.RunStarted("run_1", "Go")
ENCODERS = [
    (NativeEncoder(), b"; reconnect"),
    (ConverseEncoder("run_1", "talk_1"), b"; follow the run by its id"),
    (AiSdkEncoder("run_1"), b"; resume the stream"),
    (AgUiEncoder("thread", "ask"), b"; send the request again to follow the run"),
]
NASTY = "data: x\r\n\r\nid: 99\n\nevent: y\u2028\u2029\x85\x00\ufeff: data: [DONE]\rz"


@pytest.mark.parametrize(("encoder", "how"), ENCODERS)
@pytest.mark.parametrize("why", ["shutdown", "behind", "failure"])
def test_close_reason_says_how_to_reconnect(encoder: Encoder, how: bytes, why: CloseReason) -> None:
    written = encoder.close_reason(why)
    assert how in written
    assert written.endswith(b"\n\n")
    last = written.split(b"\n\n")[-2]
    match encoder:
        case NativeEncoder():
            assert written.startswith(b"retry: 1000\n: ")
        case AiSdkEncoder():
            assert last == b"data: [DONE]"
        case ConverseEncoder():
            error, done = read(written)
            assert error.data["error"]["code"] == why
            assert done.data["done"]["status"] == "running"
        case _:
            [error] = read(written)
            assert (error.data["type"], error.data["code"]) == ("RUN_ERROR", why)


@pytest.mark.parametrize("encoder", [encoder for encoder, _ in ENCODERS])
@pytest.mark.parametrize(("text", "shown"), [(NASTY, NASTY), ("a\ud800", "a\ufffd")])
def test_any_text_can_be_sent(encoder: Encoder, text: str, shown: str) -> None:
    """A text cannot end its frame, and a lone surrogate, which has no bytes, is replaced."""
    encoder, tree, name = copy.deepcopy(encoder), {text: [text]}, ("c1", "write")
    events: list[ev.Event] = [
        *(ev.RunStarted("run_1", text), ev.ThinkingCompleted(text, 0), ev.TextDelta(text, 1)),
        *(WRITE, ev.ToolArgsDelta(*name, text), ev.ToolArgsCompleted(*name, tree, text=text)),
        *(ev.ApprovalRequested(*name, tree, text, text), ev.RunPaused("run_1", ())),
        *(ev.RunResumed("run_1"), ev.ApprovalDecided(*name, "edited", text, tree)),
        *(ev.ToolOutputDelta(*name, text), ev.ToolCallCompleted(*name, tree, {text: tree})),
        ev.RunFailed(text, text),
    ]
    written = encoder.encode(records_of(events)).data + encoder.replay().data
    values = _values([event.data for event in read(written.replace(b"data: [DONE]\n\n", b""))])
    assert shown in values
    assert {shown: [shown]} in values


def _values(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value, *(one for part in inner for one in _values(part))]


# The native format

decode = msgspec.json.Decoder(Frame).decode
cuts_of_records = st.lists(st.integers(0, 10_000), max_size=6)


def frames(written: bytes) -> list[Frame]:
    return [decode(json.dumps(event.data)) for event in read(written)]


@given(events=runs(), cuts=cuts_of_records, join=st.integers(0, 10_000))
def test_viewer_that_joins_at_any_time_sees_the_state_of_the_log(
    events: list[ev.Event], cuts: list[int], join: int
) -> None:
    records = records_of(events)
    portions = in_portions(records, cuts)
    place = join % (len(portions) + 1)
    encoder = NativeEncoder()
    before = [encoder.encode(portion) for portion in portions[:place]]
    opening = encoder.replay()
    after = [encoder.encode(portion) for portion in portions[place:]]

    start, *rest = frames(opening.data + b"".join(written.data for written in after))
    assert start.snapshot is not None
    state = RunState.from_snapshot(start.snapshot)
    for frame in rest:
        assert frame.event is not None
        state.apply(frame.event, frame.time)
    # Items of the provider stay on the server. Everything else is the same.
    seqs = [frame.seq for frame in (start, *rest)]
    last = {"history": (), "seq": 0, "conversation_id": "", "agent": ""}
    seen = msgspec.structs.replace(state.snapshot(), **last)
    joined = [record for portion in portions for record in portion]
    assert seen == msgspec.structs.replace(snapshot_of(joined), **last)
    assert seqs == sorted(set(seqs))
    everything = b"".join(written.data for written in (*before, *after))
    assert [event.id for event in read(everything)] == [str(record.seq) for record in joined]


@given(events=runs(crashes=False), cuts=cuts_of_records)
def test_frames_carry_the_argument_events(events: list[ev.Event], cuts: list[int]) -> None:
    portions = in_portions(records_of(events), cuts)
    encoder = NativeEncoder()
    written = [frame for portion in portions for frame in frames(encoder.encode(portion).data)]
    kinds = (ev.ArgumentStarted, ev.ArgumentDelta, ev.ArgumentCompleted)
    stored = [record.event for portion in portions for record in portion]
    expected = [event for event in with_arguments(stored) if isinstance(event, kinds)]
    assert [view for frame in written for view in frame.arguments] == expected


@given(events=runs())
def test_log_line_equals_the_frame(events: list[ev.Event]) -> None:
    streamed, lined = NativeEncoder(), NativeEncoder()
    for record in records_of(events):
        line = lined.line(record)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert [decode(line)] == frames(streamed.encode([record]).data)


def opening_of(*events: ev.Event) -> Frame:
    encoder = NativeEncoder()
    encoder.begin(snapshot_of(records_of(events)))
    [frame] = frames(encoder.replay().data)
    return frame


def test_snapshot_carries_incomplete_arguments_but_not_lost_ones() -> None:
    call = ev.ToolCallStarted("c1", 0, "write")
    delta = ev.ToolArgsDelta("c1", "write", '{"path": "a.txt", "content": "hel')
    frame = opening_of(START, call, delta)
    assert [(view.type, getattr(view, "path", None)) for view in frame.arguments] == [
        ("argument_started", ("path",)),
        ("argument_delta", ("path",)),
        ("argument_completed", ("path",)),
        ("argument_started", ("content",)),
        ("argument_delta", ("content",)),
    ]
    assert frame.snapshot is not None
    assert (frame.snapshot.conversation_id, frame.snapshot.agent) == ("talk_1", "agent")
    again = (ev.TurnStarted(1, 2), ev.ToolCallStarted("c1", 0, "list"))
    assert [*opening_of(START, ev.TurnStarted(1), call, delta, *again).arguments] == []


def test_items_of_the_provider_are_not_sent() -> None:
    item = {"signature": "c2VjcmV0"}
    fields: Any = {"kind": "function", "arguments": {}, "raw": "{}", "verdict": "complete"}
    call = CallPart(call_id="c0", name="add", item=item, **fields)
    parts = (TextPart(text="Hi", item=item), call, OpaquePart(item=item))
    message = Message(role="assistant", parts=parts)
    start = ev.RunStarted("run_1", "Go", (message,))
    records = records_of([start, ev.TurnCompleted("end_turn", message)])
    encoder = NativeEncoder()
    written = encoder.encode(records).data + encoder.replay().data
    assert b"c2VjcmV0" not in written
    started, completed, snapshot = frames(written)
    assert isinstance(completed.event, ev.TurnCompleted)
    assert completed.event.message.parts == ()  # it was sent in pieces
    for one in (started.event, snapshot.snapshot):
        assert isinstance(one, ev.RunStarted | ev.RunSnapshot)
        assert [type(part) for part in one.history[0].parts] == [TextPart, CallPart]


def test_history_can_be_omitted() -> None:
    before = Message(role="user", parts=(TextPart(text="before"),))
    records = records_of([ev.RunStarted("run_1", "Go", (before,)), ev.TextDelta("Hi", 0)])
    encoder = NativeEncoder(with_history=False)
    written = encoder.encode(records).data + encoder.replay().data
    assert b"before" not in written
    started, _, snapshot = frames(written)
    assert isinstance(started.event, ev.RunStarted)
    assert snapshot.snapshot is not None
    assert started.event.prompt == snapshot.snapshot.prompt == "Go"


def test_stream_ends_with_the_run() -> None:
    encoder = NativeEncoder()
    first, last = records_of([START, ev.RunCompleted("done")])
    assert not encoder.encode([first]).ends
    assert encoder.encode([last]).ends
    assert encoder.replay().ends


# The bridge of source 004

KEYS = {
    *("text", "thinking", "tool_start", "tool_delta", "block", "invalid", "tool_result"),
    *("error", "done"),
}
WRITE = ev.ToolCallStarted("c1", 0, "write")
SEND = ev.ApprovalRequested("c1", "send", {"to": "ada"}, "d1gest", "it sends")
DONE = {"conversation": "talk_1", "run": "run_1"}


def conversed(*, with_deltas: bool = False) -> ConverseEncoder:
    return ConverseEncoder("run_1", "talk_1", with_deltas=with_deltas)


def objects(*events: ev.Event, with_deltas: bool = False) -> list[Any]:
    written = conversed(with_deltas=with_deltas).encode(joined(records_of(events)))
    return [event.data for event in read(written.data)]


@given(events=runs(), cuts=st.lists(st.integers(0, 10_000), max_size=5))
def test_objects_have_one_key_and_calls_start_first(
    events: list[ev.Event], cuts: list[int]
) -> None:
    bridge = conversed(with_deltas=True)
    started: set[str] = set()
    for portion in in_portions(records_of(events), cuts):
        for [(key, value)] in (event.data.items() for event in read(bridge.encode(portion).data)):
            assert key in KEYS
            if key == "tool_start":
                started.add(value["id"])
            elif key in ("block", "invalid", "tool_delta"):
                assert value["id"] in started


@given(events=runs(crashes=False), place=st.integers(0, 10_000))
def test_late_client_receives_the_same(events: list[ev.Event], place: int) -> None:
    records = records_of(events)
    cut = 1 + place % len(records)
    late = conversed()
    late.begin(snapshot_of(records[:cut]))
    written = late.replay().data + late.encode(records[cut:]).data
    assert _summary(written) == _summary(conversed().encode(records).data)


def _summary(written: bytes) -> Any:
    """The texts, and the ends of calls by their ids. Snapshots group them by block."""
    texts: dict[str, str] = {"text": "", "thinking": ""}
    calls = set()
    for event in read(written):
        [(key, value)] = event.data.items()
        if key in texts:
            texts[key] += value
        elif key in ("tool_start", "block", "invalid", "tool_result"):
            calls.add((key, value["id"]))
    return {key: sorted(text) for key, text in texts.items()}, calls


def test_call_from_its_start_to_its_result() -> None:
    call = (
        *(START, ev.ThinkingDelta("hm", 0), ev.TextDelta("I write.", 1), WRITE),
        ev.ToolArgsDelta("c1", "write", '{"path": "a", "content": "one\\n'),
        ev.ToolArgsDelta("c1", "write", 'two"}'),
        ev.ToolArgsCompleted("c1", "write", {"path": "a", "content": "one\ntwo"}),
        ev.ToolCallCompleted("c1", "write", {}, {"written": 7}),
        ev.RunCompleted("done"),
    )
    assert objects(*call) == [
        {"thinking": "hm"},
        {"text": "I write."},
        {"tool_start": {"id": "c1", "name": "write"}},
        {"block": {"id": "c1", "name": "write", "input": {"path": "a", "content": "one\ntwo"}}},
        {"tool_result": {"id": "c1", "name": "write", "output": {"written": 7}}},
        {"done": DONE | {"status": "completed"}},
    ]
    deltas = [one["tool_delta"] for one in objects(*call, with_deltas=True) if "tool_delta" in one]
    assert deltas == [
        {"id": "c1", "path": ["path"], "text": "a"},
        {"id": "c1", "path": ["content"], "text": "one\ntwo"},
    ]


def test_rejected_call_has_a_reason() -> None:
    error = ev.ArgumentsError("schema", "must be a number", 6, ("a",), "type")
    rejected = ev.ToolArgsInvalid("c1", "add", "rejected", '{"a": "x', error)
    failed = ev.ToolCallFailed("c1", "add", "must be a number")
    _, invalid, result = objects(START, ev.ToolCallStarted("c1", 0, "add"), rejected, failed)
    call = {"id": "c1", "name": "add"}
    reason = {"reason": "schema", "message": "must be a number", "path": ["a"]}
    assert invalid == {"invalid": call | {"verdict": "rejected"} | reason}
    assert result == {"tool_result": call | {"error": "must be a number"}}


def test_every_end_sends_done_and_a_failure_sends_the_error_first() -> None:
    assert objects(START, ev.RunStopped("enough")) == [{"done": DONE | {"status": "stopped"}}]
    assert objects(START, ev.RunFailed("max_turns", "too many")) == [
        {"error": {"code": "max_turns", "message": "too many"}},
        {"done": DONE | {"status": "failed"}},
    ]


def test_paused_run_ends_its_stream_with_the_pending_requests() -> None:
    call = (WRITE, ev.ToolArgsCompleted("c1", "send", {"to": "ada"}), SEND)
    written = conversed().encode(records_of([START, *call, ev.RunPaused("run_1", (SEND,))]))
    assert written.ends
    about = {"id": "c1", "name": "send", "input": {"to": "ada"}}
    pending = [about | {"digest": "d1gest", "reason": "it sends"}]
    done = DONE | {"status": "paused", "pending": pending}
    assert read(written.data)[-1].data["done"] == done


def test_observed_run_that_waits_ends_its_stream_for_early_and_late_clients() -> None:
    bridge, late = conversed(), conversed()
    start = ev.RunStarted("run_1", "Go", mode="observed")
    call = (WRITE, ev.ToolArgsCompleted("c1", "send", {}), SEND)
    paused = ev.RunPaused("run_1", (SEND,), keeps_lease=True)
    resumed = (ev.RunResumed("run_1"), ev.ToolCallFailed("c1", "send", "given up"))
    records = records_of([start, *call, paused, *resumed])
    early = bridge.encode(records[:5])
    late.begin(snapshot_of(records[:5]))
    replay = late.replay()
    assert early.ends
    assert replay.ends
    done = read(replay.data)[-1].data["done"]
    assert [one["digest"] for one in done["pending"]] == ["d1gest"]
    assert done == read(early.data)[-1].data["done"]
    assert not bridge.encode(records[5:]).ends


def test_each_turn_of_a_stream_is_a_step_of_the_ai_sdk() -> None:
    """Otherwise the client takes a call of an earlier turn for one that it has to answer."""
    message = Message(role="assistant", parts=())
    turns: list[ev.Event] = [
        *(ev.ToolCallStarted("c", 0, "add"), ev.ToolArgsCompleted("c", "add", {})),
        *(ev.TurnCompleted("tool_use", message), ev.ToolCallCompleted("c", "add", {}, 3)),
        *(ev.TextDelta("Done.", 1), ev.TurnCompleted("end_turn", message)),
    ]
    written = b"".join(ai_sdk.encode(turns))
    kinds = [one.data["type"] for one in read(written.replace(b"data: [DONE]\n\n", b""))]
    assert kinds.count("start-step") == kinds.count("finish-step") == 2
    assert kinds.index("tool-output-available") < kinds.index("finish-step")


def test_observed_run_is_one_stream_without_a_server() -> None:
    request = ev.ApprovalRequested("c", "send", {}, "digest", "why")
    paused = ev.RunPaused("r", (request,), keeps_lease=True)
    events: list[ev.Event] = [
        ev.RunStarted("r", "Go", mode="observed"),
        *(ev.ToolCallStarted("c", 0, "send"), ev.ToolArgsCompleted("c", "send", {})),
        *(request, paused, ev.RunResumed("r"), ev.ApprovalDecided("c", "send", "approved")),
        *(ev.ToolCallCompleted("c", "send", {}, 1), ev.RunCompleted("done", run_id="r")),
    ]
    for encode, end in (
        (ai_sdk.encode, b'"type":"finish"'),
        (ag_ui.encode, b'"RUN_FINISHED"'),
        (converse.encode, b'{"done":'),
    ):
        assert b"".join(encode(events)).count(end) == 1


# Streams without a server

ENCODE = [ai_sdk.encode, ag_ui.encode, converse.encode, native.encode]


class Source:
    """The payloads of a call, and then an exception if there is one. It notes its close."""

    def __init__(self, error: Exception | None = None) -> None:
        self.is_closed = False
        self._error = error

    def sync(self) -> Generator[object, None, None]:
        try:
            yield from anthropic_call('{"path": "a"}')[: 3 if self._error else None]
            if self._error is not None:
                raise self._error
        finally:
            self.is_closed = True

    async def asynchronous(self) -> AsyncIterator[object]:
        payloads = self.sync()
        try:
            for payload in payloads:
                yield payload
        finally:
            payloads.close()


def encoded(encode: Any, source: Any, written: list[bytes] | None = None) -> bytes:
    """Encode a sync or an async stream. What was written before an exception is kept."""
    chunks = encode(stream(source))
    written = [] if written is None else written

    async def collect() -> None:
        if hasattr(chunks, "__aiter__"):
            async for chunk in chunks:
                written.append(chunk)
        else:
            written.extend(chunks)

    asyncio.run(collect())
    return b"".join(written)


@pytest.mark.parametrize(
    "encode", [ai_sdk.encode, partial(ag_ui.encode, thread_id="t", run_id="r")]
)
def test_sync_and_async_streams_are_the_same_bytes(encode: Any) -> None:
    whole = b"".join(encode(stream(Source().sync())))
    assert encoded(encode, Source().sync()) == encoded(encode, Source().asynchronous()) == whole


@pytest.mark.parametrize("encode", ENCODE)
def test_closing_early_closes_the_source(encode: Any) -> None:
    async def close_early() -> None:
        source = Source()
        chunks = encode(stream(source.asynchronous()))
        assert await anext(chunks)
        assert not source.is_closed
        await chunks.aclose()
        assert source.is_closed  # the event loop would close it at its end

    asyncio.run(close_early())
    source = Source()
    chunks = encode(stream(source.sync()))
    assert next(chunks)
    assert not source.is_closed
    chunks.close()
    assert source.is_closed


FAILED = "the model failed with OSError"


@pytest.mark.parametrize(
    ("encode", "last"),
    [
        (ai_sdk.encode, {"type": "error", "errorText": f"{FAILED} (model_failed)"}),
        (ag_ui.encode, {"type": "RUN_ERROR", "code": "model_failed", "message": FAILED}),
    ],
)
def test_exception_is_raised_after_the_client_was_told(encode: Any, last: Any) -> None:
    for is_async in (False, True):
        source, written = Source(OSError("the password is hunter-two")), list[bytes]()
        with pytest.raises(OSError, match="hunter-two"):
            encoded(encode, source.asynchronous() if is_async else source.sync(), written)
        assert b"hunter-two" not in b"".join(written)
        *_, result, error = read(b"".join(written).removesuffix(b"data: [DONE]\n\n"))
        assert encode is not ag_ui.encode or result.data["type"] == "TOOL_CALL_RESULT"
        assert error.data == last


@pytest.mark.parametrize("encode", ENCODE)
def test_what_cannot_be_encoded_is_refused(encode: Any) -> None:
    with pytest.raises(UsageError, match=r"needs the events of stream\(\) or a run, not 5"):
        encode(5)
    result = ev.ToolCallCompleted("c1", "write", {}, object())
    for items, message in (
        (["text"], "needs events, not 'text'"),
        ([ev.RunResumed("r")], "resumed"),
        ([WRITE, result], "type object is unsupported: convert it to JSON values first"),
    ):
        with pytest.raises(UsageError, match=message):
            list(encode(items))
