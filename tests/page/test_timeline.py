"""The page's waterfall and replay compute the same times as ``argstream inspect``."""

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from argstream import events as ev
from argstream import server
from argstream.runs import SnapshotBuilder, with_arguments
from argstream.terminal.timeline import Timeline, conclusion, name_of, silence
from argstream.terminal.waterfall import Axis
from tests.chance_runs import runs
from tests.page.recorded import frames_of, records_of
from tests.server.nodes import examples_of, run_node_on

FOLDER = Path(server.__file__).parent / "static" / "page"
SCRIPT = Path(__file__).parent / "node" / "timeline.mjs"
# Seconds between two events are multiples of this. None of them is half-way between two texts for a
# duration, where Python and JavaScript round differently.
TICK = 0.01373

Timed = list[tuple[float, ev.Event]]
_VIEWS = (ev.ArgumentStarted, ev.ArgumentDelta, ev.ArgumentCompleted)  # not stored in a log


def computed(**given: Any) -> list[Any]:
    """Run the modules of the page in Node."""
    return run_node_on(str(SCRIPT), {"folder": FOLDER.as_uri(), **given})


@st.composite
def timed_runs(draw: st.DrawFn) -> Timed:
    """Generate a run with pauses between its events."""
    events = [event for event in draw(runs()) if not isinstance(event, _VIEWS)]
    pauses = st.lists(st.integers(0, 400), min_size=len(events), max_size=len(events))
    return list(zip(accumulate(TICK * pause for pause in draw(pauses)), events, strict=True))


@pytest.mark.hypothesis
def test_times_are_those_of_the_terminal() -> None:
    given = examples_of(timed_runs())
    results = computed(runs=[frames_of(timed) for timed in given])
    for timed, run in zip(given, results, strict=True):
        deep = deep_timeline(timed)
        view = SnapshotBuilder()
        for _, event in timed:
            view.take(event)
        blocks = view.snapshot().blocks
        assert run["now"] == pytest.approx(deep.now.at, abs=1e-5)
        assert run["silence"] == pytest.approx(silence(deep), abs=1e-4)
        assert run["conclusion"] == conclusion(deep)
        assert numbers(run["turns"]) == numbers(turns_of(timed))
        assert run["placed"] == len(blocks) == run["words"] + len(run["calls"])
        for call, expected in zip(run["calls"], calls_of(blocks, deep), strict=True):
            assert {name: numbers(call[name]) for name in expected} == expected
            assert all(0 <= begin <= end <= run["now"] for begin, end in call["bars"])


def deep_timeline(timed: Timed) -> Timeline:
    """Return the terminal's timeline, computed from Unix times as in frames."""
    timeline = Timeline(is_deep=True)
    times = (record.time for record in records_of(timed))
    now = 0.0
    for event in with_arguments(event for _, event in timed):
        now = now if isinstance(event, _VIEWS) else next(times)
        timeline.note(event, now)
    return timeline


def turns_of(timed: Timed) -> list[list[Any]]:
    """Return turn, attempt, start and end of each turn."""
    turns: list[list[Any]] = []
    records = records_of(timed)
    for record in records:
        at, event = round(record.time - records[0].time, 6), record.event
        if isinstance(event, ev.TurnStarted):
            turns.append([event.turn, event.attempt, at, None])
        elif isinstance(event, ev.TurnCompleted) and event.parent_id is None:
            if not turns or turns[-1][3] is not None:  # not all agents report it
                turns.append([len(turns) + 1, 1, turns[-1][3] if turns else 0.0, None])
            turns[-1][3] = at
    return turns


def calls_of(blocks: Sequence[ev.BlockSnapshot], deep: Timeline) -> list[dict[str, Any]]:
    seen = [block for block in blocks if isinstance(block, ev.CallSnapshot)]
    return [
        {
            "id": call.call_id,
            "name": call.name,
            "started": numbers(call.started.at),
            "last": numbers(call.last.at),
            "ended": _at(call.ended),
            "verdict": call.verdict,
            "asked": _at(call.asked),
            "decided": _at(call.decided),
            "decision": call.decision,
            "executed": [numbers(moment.at) for moment in call.executed],
            "interruptions": call.interruptions,
            "finished": _at(call.finished),
            "isLost": block.is_lost,
            "arguments": [
                [list(one.path), name_of(one.path), numbers(one.seen.at), _at(one.settled)]
                for one in call.arguments.values()
            ],
        }
        for block, call in zip(seen, deep.calls, strict=True)
    ]


def _at(moment: Any) -> Any:
    return None if moment is None else numbers(moment.at)


def numbers(value: Any) -> Any:
    """Round all numbers of a value."""
    if isinstance(value, list):
        return [numbers(one) for one in value]
    return round(value, 4) if isinstance(value, float) else value


_ticks = st.lists(st.tuples(st.floats(1e-4, 2e5), st.integers(1, 12)), min_size=20, max_size=30)


@pytest.mark.hypothesis
def test_ticks_are_those_of_the_terminal() -> None:
    given = list(chain.from_iterable(examples_of(_ticks)))
    axes = [{"stretches": [[0, length]], "most": most, "times": []} for length, most in given]
    for axis, (length, most) in zip(computed(axes=axes), given, strict=True):
        ticks = Axis([(0.0, length)], "seconds").ticks(most)
        assert axis["labels"] == [label for _, label in ticks]


_stretches = st.lists(
    st.tuples(st.floats(0, 1e4), st.floats(0, 100)).map(lambda one: [one[0], one[0] + one[1]]),
    max_size=6,
)


@pytest.mark.hypothesis
def test_axis_is_monotonic_and_omits_long_pauses() -> None:
    some = chain.from_iterable(examples_of(st.lists(_stretches, min_size=4, max_size=8)))
    given = [[[0.0, 5e-324]], [[0.0, 2.2e-308]], [[3.0, 3.0]], *some]
    times = [0.0, *(index * 77.7 for index in range(1, 140))]
    axes = [{"stretches": stretches, "most": 5, "times": times} for stretches in given]
    for axis, stretches in zip(computed(axes=axes), given, strict=True):
        places = axis["places"]
        assert all(0 <= place <= 100 for place in places)
        assert all(before <= after + 1e-9 for before, after in pairwise(places))
        drawn = Axis([(begin, end) for begin, end in stretches], "seconds")
        left = sum(end - begin for begin, end in drawn.gaps if end - begin > 1)
        assert axis["left"] <= left + 1e-6


def test_long_pauses_of_a_replay_are_shortened() -> None:
    (result,) = computed(schedules=[[100.0, 100.5, 103.5, 103.0, 103.25, 903.25]])
    assert result["recorded"] == [0, 0.5, 3.5, 3.5, 3.75, 803.75]
    assert result["shortened"] == [0, 0.5, 2.5, 2.5, 2.75, 4.75]
    assert result["counts"] == [1, 2, 4, 4, 5, 6]
    assert (result["seconds"], result["saved"]) == (4.75, 799.0)
