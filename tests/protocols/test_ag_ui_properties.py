"""AG-UI streams of random runs: the same for early and late clients, and however records are cut.

The published clients, 1.0 and 0.0.59, read the streams in one Node process.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ag_ui.core import Event as AgUiEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from argstream import events as ev
from argstream.protocols import Written
from argstream.protocols.ag_ui import AgUiEncoder, Version
from argstream.runs import Record
from tests.chance_runs import logged_runs, observed_runs
from tests.protocols.reading import in_portions, read, records_of, snapshot_of
from tests.server.nodes import examples_of, run_node_on

USER = {"id": "said", "role": "user", "content": "Go"}
VERSIONS: tuple[Version, ...] = ("0.0.59", "1.0")


def portions_of(events: Iterable[ev.Event], cuts: Iterable[int]) -> list[list[Record]]:
    """Cut a run into portions, as a channel does: also after each pause."""
    records = records_of(events)
    pauses = [record.seq for record in records if isinstance(record.event, ev.RunPaused)]
    return in_portions(records, [*cuts, *pauses])


class Case(NamedTuple):
    events: list[ev.Event]
    cuts: list[int]
    place: int


cases = st.builds(
    Case,
    st.one_of(logged_runs(), logged_runs(), observed_runs()),
    st.lists(st.integers(0, 10_000), max_size=8),
    st.integers(0, 10_000),
)
schema: TypeAdapter[AgUiEvent] = TypeAdapter(AgUiEvent)


def streams_of(written: Iterable[Written]) -> list[bytes]:
    streams = [b""]
    for chunk in written:
        streams[-1] += chunk.data
        if chunk.ends:
            streams.append(b"")
    return [stream for stream in streams if stream]


def snapshot_before(portions: Sequence[Sequence[Record]], place: int) -> ev.RunSnapshot:
    return snapshot_of([record for portion in portions[:place] for record in portion])


@given(case=cases, version=st.sampled_from(VERSIONS))
def test_encoder_continues_a_snapshot_with_the_same_bytes(case: Case, version: Version) -> None:
    portions = portions_of(case.events, case.cuts)
    place = case.place % (len(portions) + 1)
    early, late = (AgUiEncoder("thread", "ask", version) for _ in range(2))
    for portion in portions[:place]:
        early.encode(portion)
    if place:
        late.begin(snapshot_before(portions, place))
    rest = portions[place:]
    assert [late.encode(portion) for portion in rest] == [early.encode(portion) for portion in rest]
    assert late.interval == early.interval


@given(case=cases, version=st.sampled_from(VERSIONS))
def test_streams_are_valid_and_have_one_start_and_one_end(case: Case, version: Version) -> None:
    encoder = AgUiEncoder("thread", "ask", version)
    for stream in streams_of(map(encoder.encode, portions_of(case.events, case.cuts))):
        events = [event.data for event in read(stream)]
        for event in events:
            schema.validate_python(event)
        kinds = [event["type"] for event in events]
        assert kinds[0] == "RUN_STARTED"
        assert "RUN_STARTED" not in kinds[1:]
        assert not {"RUN_FINISHED", "RUN_ERROR"} & set(kinds[:-1])


def streams_for(case: Case, version: Version, *, is_cut: bool) -> list[bytes]:
    """The streams of a client that follows the whole run, or is cut off once and comes back.

    After each stream, the client asks again with all messages that it has.
    """
    portions = portions_of(case.events, case.cuts)
    cut = 1 + case.place % len(portions) if is_cut else 0

    def encoder_at(place: int) -> AgUiEncoder:
        encoder = AgUiEncoder("thread", "ask", version, json.dumps([USER]).encode())
        if place:
            encoder.begin(snapshot_before(portions, place))
        return encoder

    def written(start: int, end: int, encoder: AgUiEncoder) -> Iterable[Written]:
        for place, portion in enumerate(portions[start:end], start + 1):
            yield (chunk := encoder.encode(portion))
            if chunk.ends:
                encoder = encoder_at(place)

    before = streams_of(written(0, cut, encoder_at(0)))
    encoder = encoder_at(cut)
    if not cut:
        return streams_of(written(0, len(portions), encoder))
    opening = encoder.replay()
    after = written(cut, len(portions), encoder_at(cut) if opening.ends else encoder)
    return [*before, *streams_of([opening, *after])]


def test_published_clients_end_with_the_same_state_whenever_they_join() -> None:
    drawn = examples_of(cases)
    readings: list[dict[str, Any]] = []
    for case in drawn:
        for version in VERSIONS:
            for is_cut in (False, True):
                streams = [one.decode() for one in streams_for(case, version, is_cut=is_cut)]
                readings.append({"version": version, "messages": [USER], "streams": streams})
    results = run_node_on("ag_ui_streams.mjs", readings)
    assert len(results) == 4 * len(drawn)
    for number, (early, late) in enumerate(zip(results[::2], results[1::2], strict=True)):
        case = drawn[number // 2]
        for result in (early, late):
            assert (result["error"], result["warnings"]) == (None, []), case
        assert late["messages"] == early["messages"], case
        assert late["interrupts"] == early["interrupts"], case
        assert late["ends"][-1:] == early["ends"][-1:], case
