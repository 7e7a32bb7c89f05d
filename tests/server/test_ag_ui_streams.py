"""Streams of chance runs, as the published AG-UI clients read them: both, in one Node process."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from argstream.events import Event
from argstream.protocols import Written
from argstream.protocols.ag_ui import AgUiEncoder, Version
from argstream.runs import Record
from tests.protocols.reading import snapshot_of
from tests.protocols.test_ag_ui_properties import (
    agent_runs,
    as_told,
    observed_runs,
    streams_of,
)
from tests.server.nodes import run_node

USER = {"id": "said", "role": "user", "content": "Go"}
KNOWN = json.dumps([USER]).encode()


class _Case(NamedTuple):
    events: list[Event]
    cuts: list[int]
    place: int


def chance_cases() -> list[_Case]:
    """Give runs by chance, cut somewhere: collected first, since a Node for each is too slow."""
    cases: list[_Case] = []

    @settings(phases=[Phase.generate], database=None)
    @given(
        events=st.one_of(agent_runs, agent_runs, observed_runs()),
        cuts=st.lists(st.integers(0, 10_000), min_size=3, max_size=8),
        place=st.integers(0, 10_000),
    )
    def collect(events: list[Event], cuts: list[int], place: int) -> None:
        cases.append(_Case(events, cuts, place))

    collect()
    return cases


def read_by_clients(
    folder: Path, readings: Sequence[tuple[Version, list[bytes]]]
) -> list[dict[str, Any]]:
    """Have each list of streams read by an agent that has said one thing."""
    file = folder / "streams.jsonl"
    lines = [
        {"version": version, "messages": [USER], "streams": [stream.decode() for stream in streams]}
        for version, streams in readings
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return run_node("ag_ui_streams.mjs", str(file))


def told(
    encoder: AgUiEncoder, case: _Case, version: Version, start: int = 0, end: int | None = None
) -> list[Written]:
    """Give what is told of some portions: after each stream the client asks with all it has."""
    portions = as_told(case.events, case.cuts)
    written: list[Written] = []
    for place, portion in enumerate(portions[start:end], start + 1):
        written.append(encoder.take(portion))
        if written[-1].ends:
            encoder = AgUiEncoder("thread", "ask", version, KNOWN)
            encoder.begin(so_far(portions, place))
    return written


def so_far(portions: Sequence[Sequence[Record]], place: int) -> Record:
    return snapshot_of([record for portion in portions[:place] for record in portion])


def whole(case: _Case, version: Version) -> list[bytes]:
    """Give the streams of one who sees the run from its beginning."""
    return streams_of(told(AgUiEncoder("thread", "ask", version, KNOWN), case, version))


def cut_and_joined_again(case: _Case, version: Version) -> list[bytes]:
    """Give those of one whose connection is cut somewhere, and who then comes again."""
    portions = as_told(case.events, case.cuts)
    place = 1 + case.place % len(portions)
    encoder = AgUiEncoder("thread", "ask", version, KNOWN)
    before = streams_of(told(encoder, case, version, end=place))
    encoder = AgUiEncoder("thread", "ask", version, KNOWN)
    encoder.begin(so_far(portions, place))
    opening = encoder.opening(so_far(portions, place))
    if opening.ends:
        encoder = AgUiEncoder("thread", "ask", version, KNOWN)
        encoder.begin(so_far(portions, place))
    return [*before, *streams_of([opening, *told(encoder, case, version, place)])]


def test_both_clients_take_every_stream_and_see_the_same_whenever_they_come(tmp_path: Path) -> None:
    cases = chance_cases()
    versions: list[Version] = ["0.0.59", "1.0"]
    readings = [
        (version, make(case, version))
        for case in cases
        for version in versions
        for make in (whole, cut_and_joined_again)
    ]
    results = read_by_clients(tmp_path, readings)
    assert len(results) == 4 * len(cases)
    for number, (one, other) in enumerate(zip(results[::2], results[1::2], strict=True)):
        case = cases[number // 2]
        for result in (one, other):
            assert result["error"] is None, case
            assert result["warnings"] == [], case
        assert other["messages"] == one["messages"], case
        assert other["interrupts"] == one["interrupts"], case
        assert other["ends"][-1:] == one["ends"][-1:], case
