"""AG-UI: what a client is told does not depend on when it comes, nor on how it is collected."""

from collections.abc import Iterable

from ag_ui.core import Event as AgUiEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from argstream import events as ev
from argstream.protocols import Written
from argstream.protocols.ag_ui import AgUiEncoder, Version
from argstream.runs import Record
from tests.chance_runs import claude_code, logged_runs
from tests.protocols.reading import in_portions, read, records_of, snapshot_of


def as_told(events: Iterable[ev.Event], cuts: Iterable[int]) -> list[list[Record]]:
    """Cut what happens into portions, as a channel does: also after each pause."""
    records = records_of(events)
    pauses = [record.seq for record in records if isinstance(record.event, ev.RunPaused)]
    return in_portions(records, [*cuts, *pauses])


@st.composite
def observed_runs(draw: st.DrawFn) -> list[ev.Event]:
    """A run of Claude Code in which a person is asked about some calls, while others go on."""
    told: list[ev.Event] = []
    asked: set[str] = set()
    for event in claude_code():
        match event:
            case ev.ToolArgsCompleted(call_id=call_id, name=name) if draw(st.booleans()):
                told += [event, ev.ApprovalRequested(call_id, name, {}, f"d {call_id}", "why")]
                asked.add(call_id)
                continue
            case ev.ToolCallCompleted(call_id=call_id, name=name) if call_id in asked:
                told.append(ev.ApprovalDecided(call_id, name, "approved"))
                asked.discard(call_id)
            case _:
                pass
        told.append(event)
    return told


agent_runs = logged_runs()
schema: TypeAdapter[AgUiEvent] = TypeAdapter(AgUiEvent)
versions = st.sampled_from(["0.0.59", "1.0"])
cuts = st.lists(st.integers(0, 10_000), max_size=6)


@given(
    events=st.one_of(agent_runs, observed_runs()),
    version=versions,
    cuts=cuts,
    place=st.integers(0, 10_000),
)
def test_an_encoder_that_begins_anywhere_goes_on_with_the_same_bytes(
    events: list[ev.Event], version: Version, cuts: list[int], place: int
) -> None:
    portions = as_told(events, cuts)
    place %= len(portions) + 1
    early = AgUiEncoder("thread", "ask", version)
    for portion in portions[:place]:
        early.take(portion)
    late = AgUiEncoder("thread", "ask", version)
    if place:
        late.begin(snapshot_of([record for portion in portions[:place] for record in portion]))

    assert [late.take(portion) for portion in portions[place:]] == [
        early.take(portion) for portion in portions[place:]
    ]
    assert late.interval == early.interval


@given(events=st.one_of(agent_runs, observed_runs()), version=versions, cuts=cuts)
def test_a_stream_begins_and_ends_as_the_protocol_wants_it(
    events: list[ev.Event], version: Version, cuts: list[int]
) -> None:
    encoder = AgUiEncoder("thread", "ask", version)
    written = [encoder.take(portion) for portion in as_told(events, cuts)]
    for stream in streams_of(written):
        events_read = [event.data for event in read(stream)]
        for event in events_read:
            schema.validate_python(event)
        kinds = [event["type"] for event in events_read]
        assert kinds[0] == "RUN_STARTED"
        assert "RUN_STARTED" not in kinds[1:]
        assert not {"RUN_FINISHED", "RUN_ERROR"} & set(kinds[:-1])


def streams_of(written: list[Written]) -> list[bytes]:
    """Part what was written where a stream ends."""
    streams = [b""]
    for chunk in written:
        streams[-1] += chunk.data
        if chunk.ends:
            streams.append(b"")
    return [stream for stream in streams if stream]
