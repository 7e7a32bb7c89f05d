"""kill -9 at every write of a run: nothing is lost, nothing is done twice, and it finishes.

At every twentieth, and fewer of the runs that differ in one thing; or at all of them, if the
environment says ``ARGSTREAM_HYPOTHESIS=soak``.
"""

import random
from pathlib import Path

import pytest

from tests.surviving.trials import IS_SOAK, Lanes, Trials

STEP, LARGER_STEP = (1, 1) if IS_SOAK else (20, 60)
SAMPLES = 150 if IS_SOAK else 3
POINTS = {"sqlite": 120, "redis": 40}
"""How many there are at least: fewer, if the store is slow, since then more is written at once."""

pytestmark = pytest.mark.hypothesis  # so that `make soak` has all of them


def test_a_run_survives_a_kill_at_any_write(kind: str, lanes: Lanes, tmp_path: Path) -> None:
    trials = Trials(lanes, kind, "letters", tmp_path)
    trials.survive_points(1, STEP)
    assert sum(trials.cut_off) * STEP >= POINTS[kind]


@pytest.mark.parametrize(
    "story",
    [
        pytest.param("decided", id="that-is-decided-in-while-it-goes-on"),
        pytest.param("stopped", id="that-is-stopped"),
        pytest.param("drafts", id="with-a-tool-that-begins-early"),
    ],
)
def test_so_does_a_run(story: str, kind: str, lanes: Lanes, tmp_path: Path) -> None:
    trials = Trials(lanes, kind, story, tmp_path)
    trials.survive_points(2, LARGER_STEP)
    assert sum(trials.cut_off) * LARGER_STEP >= POINTS[kind]


def test_who_goes_on_with_a_run_may_be_killed_too(kind: str, lanes: Lanes, tmp_path: Path) -> None:
    chance, most = random.Random(7), 2 * POINTS[kind]
    trials = Trials(lanes, kind, "letters", tmp_path)
    trials.survive([chance.randint(1, most), chance.randint(1, most)] for _ in range(SAMPLES))
    assert max(trials.cut_off) == 2


def test_a_run_survives_a_kill_at_any_moment(kind: str, lanes: Lanes, tmp_path: Path) -> None:
    chance = random.Random(7)
    trials = Trials(lanes, kind, "letters", tmp_path)
    trials.survive([chance.uniform(0, 0.3), chance.uniform(0, 0.3)] for _ in range(SAMPLES))
    assert max(trials.cut_off) > 0


def test_a_process_that_has_been_away_for_too_long_does_nothing_more(
    kind: str, lanes: Lanes, tmp_path: Path
) -> None:
    trials = Trials(lanes, kind, "letters", tmp_path)
    trials.take_over(STEP // 2 + 1, STEP)
    assert sum(trials.cut_off) * STEP >= 40
