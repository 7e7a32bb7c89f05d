"""kill -9 at the writes of a run: nothing is lost, nothing is done twice, and the run finishes.

Kills at every thirtieth write or fewer, with all variants over SQLite and one over Redis.
``make soak-properties`` (ARGSTREAM_HYPOTHESIS=soak) kills at every write over both.
"""

import os
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor as Pool
from pathlib import Path

import pytest

from tests.surviving.attempts import Attempts, process_pool, take_over
from tests.surviving.checks import check, check_continued

IS_SOAK = os.environ.get("ARGSTREAM_HYPOTHESIS") == "soak"
STEP, LARGER_STEP = (1, 1) if IS_SOAK else (30, 60)
# On a slow machine a run has more points, since its lease is renewed more often.
MOST = 100_000 if IS_SOAK else 240
SAMPLES = 150 if IS_SOAK else 3
# A lower bound of the number of kill points. A slow store has fewer, since it writes more at once.
POINTS = {"sqlite": 120, "redis": 40}
# The same for suspensions, which happen only between transactions: there are about 60 such points,
# and fewer on a slow machine.
SUSPENSIONS = 21

# make soak-properties runs tests with this mark. A busy machine may need minutes.
pytestmark = [pytest.mark.hypothesis, pytest.mark.timeout(0 if IS_SOAK else 300)]
all_kinds = pytest.mark.parametrize("kind", ["sqlite", "redis"] if IS_SOAK else ["sqlite"])


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with process_pool() as pool:
        yield pool


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_run_survives_a_kill_at_any_write(pool: Pool, kind: str, tmp_path: Path) -> None:
    attempts = Attempts(pool, kind, "letters", tmp_path)
    assert attempts.play_every(range(1, MOST, STEP), check) >= POINTS[kind]


@all_kinds
@pytest.mark.parametrize("story", ["decided", "stopped", "drafts"])
def test_variants_survive_a_kill(pool: Pool, story: str, kind: str, tmp_path: Path) -> None:
    """With decisions while it goes on, with a stop, and with a tool that begins early."""
    attempts = Attempts(pool, kind, story, tmp_path)
    assert attempts.play_every(range(2, MOST, LARGER_STEP), check) >= POINTS[kind]


@all_kinds
def test_run_survives_kills_of_two_processes(pool: Pool, kind: str, tmp_path: Path) -> None:
    """At two of the points, and at any two moments."""
    chance, most = random.Random(7), 2 * POINTS[kind]
    points = [[chance.randint(1, most), chance.randint(1, most)] for _ in range(SAMPLES)]
    moments = [[chance.uniform(0, 0.3), chance.uniform(0, 0.3)] for _ in range(SAMPLES)]
    attempts = Attempts(pool, kind, "letters", tmp_path)
    assert max(attempt.kills for attempt in attempts.play(points, check)) == 2
    assert max(attempt.kills for attempt in attempts.play(moments, check)) > 0


@all_kinds
def test_process_does_nothing_after_it_lost_its_lease(
    pool: Pool, kind: str, tmp_path: Path
) -> None:
    attempts = Attempts(pool, kind, "letters", tmp_path)
    points = range(1, MOST) if IS_SOAK else range(9, 61, 7)
    assert attempts.play_every(points, check_continued, take_over) >= SUSPENSIONS
