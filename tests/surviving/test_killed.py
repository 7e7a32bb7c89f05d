"""kill -9 at every write of a run: nothing is lost, nothing is done twice, and it finishes.

Every tenth point, or all with ``ARGSTREAM_HYPOTHESIS=soak``.
"""

import os
import random
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path

import pytest

from tests.stores.redis_server import new_prefix, shared_server
from tests.surviving.attempts import Attempt, Kill
from tests.surviving.checks import check
from tests.surviving.lanes import Lanes
from tests.surviving.parts import Place
from tests.surviving.zygote import Zygote

IS_SOAK = os.environ.get("ARGSTREAM_HYPOTHESIS") == "soak"
STEP = 1 if IS_SOAK else 10
LEAST_POINTS = {"sqlite": 120, "redis": 40}
"""How many there are at least: fewer, if the store is slow, since then more is written at once."""

pytestmark = pytest.mark.hypothesis  # so that `make soak` has all of them


class Trials:
    """Runs of one story, in stores of one kind."""

    def __init__(self, lanes: Lanes, kind: str, story: str, directory: Path) -> None:
        self._lanes = lanes
        self._kind = kind
        self._story = story
        self._directory = directory
        shared_server()  # before several threads ask for it

    def survive(self, kills: Iterable[Sequence[Kill]]) -> int:
        """Play the story with each of these kills, until it is over before; say how often."""
        return self._lanes.each(lambda zygote, some: self._play(zygote, some) >= len(some), kills)

    def _play(self, zygote: Zygote, kills: Sequence[Kill]) -> int:
        """Play the story with these kills, and say how many processes were killed."""
        directory = self._directory / "-".join(map(str, kills))
        directory.mkdir()
        is_redis = self._kind == "redis"
        place = Place(shared_server().url, new_prefix()) if is_redis else Place(str(directory / "db"))
        attempt = Attempt(zygote, place, directory, self._story)
        decides_in_store = sum(map(int, kills)) // STEP % 2 == 0
        try:
            attempt.play(kills, decides_in_store=decides_in_store)
            check(attempt)
        except BaseException as error:
            error.add_note(f"{attempt}")
            raise
        return attempt.kills


@pytest.fixture(params=["sqlite", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("story", ["letters", "drafts", "stopped"])
def test_a_run_survives_a_kill_at_any_write(
    kind: str, story: str, lanes: Lanes, tmp_path: Path
) -> None:
    trials = Trials(lanes, kind, story, tmp_path)
    survived = trials.survive([point] for point in count(1, STEP))
    assert survived * STEP >= LEAST_POINTS[kind]
