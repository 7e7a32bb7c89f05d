"""kill -9 at every write of a run: nothing is lost, nothing is done twice, and it finishes.

Every tenth point, or all with ``ARGSTREAM_HYPOTHESIS=soak``.
"""

import random
from itertools import count
from pathlib import Path

import pytest

from tests.surviving.lanes import Lanes
from tests.surviving.trials import IS_SOAK, Trials

STEP = 1 if IS_SOAK else 10
POINTS = {"sqlite": 120, "redis": 40}
"""How many there are at least: fewer, if the store is slow, since then more is written at once."""

pytestmark = pytest.mark.hypothesis  # so that `make soak` has all of them


def test_a_run_survives_a_kill_at_any_write(kind: str, lanes: Lanes, tmp_path: Path) -> None:
    trials = Trials(lanes, kind, "letters", tmp_path)
    trials.survive([point] for point in count(1, STEP))
    assert sum(trials.cut_off) * STEP >= POINTS[kind]


@pytest.mark.parametrize("story", ["drafts", "stopped"])
def test_so_does_one_whose_tool_has_begun_early_and_one_that_is_stopped(
    kind: str, story: str, lanes: Lanes, tmp_path: Path
) -> None:
    step = 3 * STEP if STEP > 1 else 1
    trials = Trials(lanes, kind, story, tmp_path)
    trials.survive([point] for point in count(2, step))
    assert sum(trials.cut_off) * step >= POINTS[kind]


def test_who_goes_on_with_a_run_may_be_killed_too(kind: str, lanes: Lanes, tmp_path: Path) -> None:
    chance = random.Random(7)
    most = 3 * POINTS[kind]
    pairs = [[chance.randint(1, most), chance.randint(1, most)] for _ in range(150)]
    trials = Trials(lanes, kind, "letters", tmp_path)
    trials.survive(pairs if IS_SOAK else pairs[:6])
    assert max(trials.cut_off) == 2


def test_a_run_survives_a_kill_at_any_moment(kind: str, lanes: Lanes, tmp_path: Path) -> None:
    chance = random.Random(7)
    moments = [[chance.uniform(0, 0.3), chance.uniform(0, 0.3)] for _ in range(150)]
    trials = Trials(lanes, kind, "letters", tmp_path)
    trials.survive(moments if IS_SOAK else moments[:6])
    assert sum(trials.cut_off) > 0
