"""Our own format: what a viewer is told folds to what the log says, whenever he comes."""

import json

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
VIEWS = (ev.ArgumentStarted, ev.ArgumentDelta, ev.ArgumentCompleted)


def frames(written: bytes) -> list[Frame]:
    return [decode(json.dumps(event.data)) for event in read(written)]


@given(
    events=runs(), cuts=st.lists(st.integers(0, 10_000), max_size=6), join=st.integers(0, 10_000)
)
def test_who_comes_at_any_moment_sees_the_run_as_it_is(
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

    view = RunView()
    seqs = []
    for frame in frames(opening.data + b"".join(written.data for written in after)):
        view.take(frame.event)
        seqs.append(frame.seq)
    whole = RunView()
    for record in records:
        whole.take(record.event)
    assert without_items(view.snapshot()) == without_items(whole.snapshot())
    assert seqs == sorted(set(seqs))
    everything = b"".join(written.data for written in (*before, *after))
    assert [event.id for event in read(everything)] == [
        str(record.seq) for portion in portions for record in portion
    ]


def without_items(snapshot: ev.RunSnapshot) -> ev.RunSnapshot:
    """Provider's own forms stay on the server; for the rest nothing may differ."""
    return msgspec.structs.replace(snapshot, history=(), blocks=snapshot.blocks)


@given(events=runs(crashes=False), cuts=st.lists(st.integers(0, 10_000), max_size=6))
def test_frames_carry_what_their_text_says_of_the_arguments(
    events: list[ev.Event], cuts: list[int]
) -> None:
    portions = in_portions(records_of(events), cuts)
    encoder = NativeEncoder()
    told = [
        view
        for portion in portions
        for frame in frames(encoder.take(portion).data)
        for view in frame.arguments
    ]
    joined = [record.event for portion in portions for record in portion]
    assert told == [event for event in with_arguments(joined) if isinstance(event, VIEWS)]


def test_a_snapshot_carries_what_is_known_of_arguments_that_are_not_whole() -> None:
    events: list[ev.Event] = [
        ev.RunStarted("run_1", "Go"),
        ev.ToolCallStarted("c1", 0, "write"),
        ev.ToolArgsDelta("c1", "write", '{"path": "a.txt", "content": "hel'),
    ]
    [frame] = frames(NativeEncoder().opening(snapshot_of(records_of(events))).data)
    assert [(view.type, getattr(view, "path", None)) for view in frame.arguments] == [
        ("argument_started", ("path",)),
        ("argument_delta", ("path",)),
        ("argument_completed", ("path",)),
        ("argument_started", ("content",)),
        ("argument_delta", ("content",)),
    ]
    assert (frame.session_id, frame.agent) == ("talk_1", "agent")


def test_a_snapshot_says_nothing_of_arguments_that_were_lost() -> None:
    write: list[ev.Event] = [
        ev.ToolCallStarted("c1", 0, "write"),
        ev.ToolArgsDelta("c1", "write", '{"path": "a'),
    ]
    again = ev.ToolCallStarted("c1", 0, "list")
    events: list[ev.Event] = [
        ev.RunStarted("run_1", "Go"),
        ev.TurnStarted(1),
        *write,
        ev.TurnStarted(1, 2),
    ]
    [frame] = frames(NativeEncoder().opening(snapshot_of(records_of([*events, again]))).data)
    assert [*frame.arguments] == []


def test_what_only_its_provider_understands_stays_here() -> None:
    secret = {"signature": "c2VjcmV0"}
    call = CallPart(
        call_id="c0",
        name="add",
        kind="function",
        arguments={},
        raw="{}",
        verdict="complete",
        item=secret,
    )
    message = Message(
        role="assistant", parts=(TextPart(text="Hi", item=secret), call, OpaquePart(item=secret))
    )
    records = records_of(
        [ev.RunStarted("run_1", "Go", (message,)), ev.TurnCompleted("end_turn", message)]
    )
    encoder = NativeEncoder()
    written = encoder.take(records).data + encoder.opening(snapshot_of(records)).data
    assert b"c2VjcmV0" not in written
    started, completed, snapshot = frames(written)
    assert isinstance(completed.event, ev.TurnCompleted)
    assert completed.event.message.parts == ()  # it was told piece by piece
    for told in (started.event, snapshot.event):
        assert isinstance(told, ev.RunStarted | ev.RunSnapshot)
        assert [type(part) for part in told.history[0].parts] == [TextPart, CallPart]


def test_what_was_said_before_is_left_out_for_who_does_not_want_it() -> None:
    said = Message(role="user", parts=(TextPart(text="before"),))
    records = records_of([ev.RunStarted("run_1", "Go", (said,)), ev.TextDelta("Hi", 0)])
    encoder = NativeEncoder(with_history=False)
    written = encoder.take(records).data + encoder.opening(snapshot_of(records)).data
    assert b"before" not in written
    started, _, snapshot = frames(written)
    assert isinstance(started.event, ev.RunStarted)
    assert isinstance(snapshot.event, ev.RunSnapshot)
    assert started.event.prompt == snapshot.event.prompt == "Go"


@given(events=runs())
def test_a_line_says_what_a_frame_says(events: list[ev.Event]) -> None:
    streamed, lined = NativeEncoder(), NativeEncoder()
    for record in records_of(events):
        line = lined.line(record)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert [decode(line)] == frames(streamed.take([record]).data)


def test_the_stream_ends_with_the_run_and_not_before() -> None:
    encoder = NativeEncoder()
    first, last = records_of([ev.RunStarted("run_1", "Go"), ev.RunCompleted("done")])
    assert not encoder.take([first]).ends
    assert encoder.take([last]).ends
    assert encoder.opening(snapshot_of([first, last])).ends
