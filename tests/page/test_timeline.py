"""What the page's timeline and replay compute from a log."""

import json
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from argstream import events as ev
from argstream import server
from argstream.runs import Record, RunState
from argstream.terminal.waterfall import Axis
from tests.chance_runs import runs
from tests.page.recorded import frames_of
from tests.runs.fixture_runs import FILE
from tests.server.nodes import examples_of, run_node_on

FOLDER = Path(server.__file__).parent / "static"
SCRIPT = Path(__file__).parent / "node" / "timeline.mjs"
FIXTURES = {run["name"]: run["frames"] for run in json.loads(FILE.read_text("utf-8"))}
TICK = 0.25  # seconds, which a binary number holds exactly

Timed = list[tuple[float, ev.Event]]


def computed(**given: Any) -> list[Any]:
    """Run the modules of the page in Node."""
    return run_node_on(str(SCRIPT), {"folder": FOLDER.as_uri(), **given})


@st.composite
def timed_runs(draw: st.DrawFn) -> Timed:
    """Generate a run with pauses between its events."""
    events = [event for event in draw(runs()) if not event.is_computed]
    pauses = st.lists(st.integers(0, 400), min_size=len(events), max_size=len(events))
    return list(zip(accumulate(TICK * pause for pause in draw(pauses)), events, strict=True))


@pytest.mark.hypothesis
def test_every_block_has_a_row_and_bars_lie_inside_the_run() -> None:
    given = examples_of(timed_runs())
    for timed, run in zip(given, computed(runs=[*map(frames_of, given)]), strict=True):
        records = (Record(seq, *one) for seq, one in enumerate(map(_fields, timed), 1))
        state = RunState.from_records(records)
        first = timed[0][0]
        assert run["now"] == state.time - first
        rows = run["rows"]
        assert len([row for row in rows if row["depth"] == 1]) == len(state.blocks)
        assert [row["label"] for row in rows if row["depth"] == 0] == turns_of(state)
        bars = [bar for row in rows for bar in row["bars"]]
        assert all(0 <= bar["begin"] <= bar["end"] <= run["now"] for bar in bars)


def _fields(timed: tuple[float, ev.Event]) -> tuple[Any, ...]:
    at, event = timed
    return at, "run_1", "talk", "", event


def turns_of(state: RunState) -> list[str]:
    labels = (f"Turn {one.turn}, attempt {one.attempt}" for one in state.turn_times)
    return [label.removesuffix(", attempt 1") for label in labels]


ROWS = {
    "text": "Turn 1| Text| Text",
    "nested arguments that are cut inside an escape": (
        'Turn 1| write|  path|  lines|   [0]|   [1]|    x|    [""]|   [2]|   [3]|  n|  e'
    ),
    "free-text calls": "Turn 1| apply_patch (custom)|  (text)| python (code)|  (text)",
    # Those that the model wrote, and not those that a person edited.
    "an approval with edited arguments": (
        "Turn 1| write|  path|  text|  tags|   [0]|   [1]|Turn 2| Text"
    ),
    "a lost turn whose numbers and IDs are used again": (
        "Turn 1| Thinking| Text| write|  path|Turn 1, attempt 2| Text| send|  to|"
        "Turn 1, attempt 3| send|  to| Text|Turn 2| Text"
    ),
    "a sub-agent": (
        "Turn 1| Text| task|  prompt|  Text|  Thinking|  read|   path|  Text|Turn 2| Text"
    ),
    "an observed run that pauses, and goes on meanwhile": (
        "Turn 1| Text| Bash|  command| Read|  path|Turn 2| Text"
    ),
    # No event reports the start of its turn, and it has not ended.
    "a call whose name comes in pieces": "Turn 1| write_file|  a| get_time",
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_a_run(name: str) -> None:
    [run] = computed(runs=[FIXTURES[name]])
    assert [" " * row["depth"] + row["label"] for row in run["rows"]] == ROWS[name].split("|")


@pytest.mark.parametrize(
    ("name", "label", "text"),
    [
        ("nested arguments that are cut inside an escape", "path", "aéb"),
        ("nested arguments that are cut inside an escape", "lines", "4 values"),
        ("nested arguments that are cut inside an escape", "n", "-1500"),
        ("nested arguments that are cut inside an escape", "write", "ran 0.8 s"),
        ("invalid calls", "write", "invalid JSON"),
        ("an approval with edited arguments", "write", "approved with edits, ran 0.3 s"),
        ("a denied call", "send", "waited 5.5 s for approval: denied, failed"),
        ("an approved call that was not started", "send", "for approval: approved"),
        ("a lost turn whose numbers and IDs are used again", "write", "never completed, retried"),
        ("a lost turn whose numbers and IDs are used again", "Turn 1", "interrupted, retried"),
        ("a crash that interrupts a tool", "build", "tool interrupted, ran 0.3 s"),
        ("a crash that interrupts a tool", "send", "tool interrupted, failed"),
        ("an observed run that pauses, and goes on meanwhile", "Bash", "approved, ran 0.5 s"),
        ("free-text calls", "python (code)", "writing"),
        ("a stopped run", "write", "stopped"),
    ],
)
def test_target_and_note_of_a_row(name: str, label: str, text: str) -> None:
    [run] = computed(runs=[FIXTURES[name]])
    row = next(row for row in run["rows"] if row["label"] == label)
    assert text in f"{row['target']}: {row['note']}"


def test_path_is_written_as_in_code() -> None:
    paths = [["a"], ["a", 0, "b_1"], ["a.b"], ["a", "", "é"], ['"]']]
    names = ["a", "a[0].b_1", '["a.b"]', 'a[""].é', '["\\"]"]']
    assert computed(paths=paths) == [names]


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
    assert result == {"counts": [1, 2, 2, 5, 5, 6], "seconds": 4.75}
