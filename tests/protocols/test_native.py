"""The native format: frames fold to the state of the log, whenever a viewer joins."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from argstream import events as ev
from argstream.history import CallPart, Message, OpaquePart, TextPart
from argstream.protocols.native import Frame, NativeEncoder
from argstream.runs import RunView, with_arguments
from tests.chance_runs import runs
from tests.protocols.reading import in_portions, read, records_of, snapshot_of

decode = msgspec.json.Decoder(Frame).decode
START = ev.RunStarted("run_1", "Go")
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
    known = [record for portion in portions[:place] for record in portion]
    encoder = NativeEncoder()
    before = [encoder.take(portion) for portion in portions[:place]]
    opening = encoder.opening(snapshot_of(known))
    after = [encoder.take(portion) for portion in portions[place:]]

    view, whole = RunView(), RunView()
    seqs = []
    for frame in frames(opening.data + b"".join(written.data for written in after)):
        view.take(frame.event)
        seqs.append(frame.seq)
    for record in records:
        whole.take(record.event)
    # Items of the provider stay on the server. Everything else is the same.
    seen, logged = (msgspec.structs.replace(one.snapshot(), history=()) for one in (view, whole))
    assert seen == logged
    assert seqs == sorted(set(seqs))
    everything = b"".join(written.data for written in (*before, *after))
    expected = [str(record.seq) for portion in portions for record in portion]
    assert [event.id for event in read(everything)] == expected


@given(events=runs(crashes=False), cuts=cuts_of_records)
def test_frames_carry_the_argument_events(events: list[ev.Event], cuts: list[int]) -> None:
    portions = in_portions(records_of(events), cuts)
    encoder = NativeEncoder()
    written = [frame for portion in portions for frame in frames(encoder.take(portion).data)]
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
        assert [decode(line)] == frames(streamed.take([record]).data)


def opening_of(*events: ev.Event) -> Frame:
    [frame] = frames(NativeEncoder().opening(snapshot_of(records_of(events))).data)
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
    assert (frame.session_id, frame.agent) == ("talk_1", "agent")
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
    written = encoder.take(records).data + encoder.opening(snapshot_of(records)).data
    assert b"c2VjcmV0" not in written
    started, completed, snapshot = frames(written)
    assert isinstance(completed.event, ev.TurnCompleted)
    assert completed.event.message.parts == ()  # it was sent in pieces
    for event in (started.event, snapshot.event):
        assert isinstance(event, ev.RunStarted | ev.RunSnapshot)
        assert [type(part) for part in event.history[0].parts] == [TextPart, CallPart]


def test_history_can_be_omitted() -> None:
    before = Message(role="user", parts=(TextPart(text="before"),))
    records = records_of([ev.RunStarted("run_1", "Go", (before,)), ev.TextDelta("Hi", 0)])
    encoder = NativeEncoder(with_history=False)
    written = encoder.take(records).data + encoder.opening(snapshot_of(records)).data
    assert b"before" not in written
    started, _, snapshot = frames(written)
    assert isinstance(started.event, ev.RunStarted)
    assert isinstance(snapshot.event, ev.RunSnapshot)
    assert started.event.prompt == snapshot.event.prompt == "Go"


def test_stream_ends_with_the_run() -> None:
    encoder = NativeEncoder()
    first, last = records_of([START, ev.RunCompleted("done")])
    assert not encoder.take([first]).ends
    assert encoder.take([last]).ends
    assert encoder.opening(snapshot_of([first, last])).ends
