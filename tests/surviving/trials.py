"""Many runs of one story, in stores of one kind, each cut off in another way."""

import os
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path

from tests.stores.redis_server import new_prefix, shared_server
from tests.surviving.attempts import Attempt, Kill
from tests.surviving.checks import check, check_woken
from tests.surviving.lanes import Lanes
from tests.surviving.parts import Place
from tests.surviving.zygote import Zygote

IS_SOAK = os.environ.get("ARGSTREAM_HYPOTHESIS") == "soak"


def place_in(kind: str, directory: Path) -> Place:
    """A store of its own."""
    if kind == "redis":
        return Place(shared_server().url, new_prefix())
    return Place(str(directory / "runs.db"))


class Trials:
    """Plays them, in several lanes."""

    def __init__(self, lanes: Lanes, kind: str, story: str, directory: Path) -> None:
        self._lanes = lanes
        self._kind = kind
        self._story = story
        self._directory = directory
        self._numbers = count(1)
        self.cut_off: list[int] = []
        """For each run, how many of its processes were killed."""
        shared_server()  # it is started once, before several threads ask for it

    def survive_points(self, start: int, step: int) -> None:
        """Play the story with a kill at each point, by steps, until there are no more; check it."""
        self._lanes.each(self._survives, ([point] for point in count(start, step)))

    def survive(self, kills: Iterable[Sequence[Kill]]) -> None:
        """Play the story with each of these kills, and check it."""

        def survives(zygotes: Sequence[Zygote], some: Sequence[Kill]) -> bool:
            self._survives(zygotes, some)
            return True

        self._lanes.each(survives, kills)

    def _survives(self, zygotes: Sequence[Zygote], kills: Sequence[Kill]) -> bool:
        """Play it once; say whether anybody was killed before it was over."""
        attempt = self._attempt(zygotes, kills)
        with attempt.told_with_errors():
            attempt.play(kills, decides_in_store=sum(map(int, kills)) % 4 < 2)
            check(attempt)
        self.cut_off.append(attempt.kills)
        return attempt.kills > 0

    def take_over(self, start: int, step: int) -> None:
        """Suspend a process at each point, by steps, while others end its run; then wake it."""

        def stands_aside(zygotes: Sequence[Zygote], point: int) -> bool:
            attempt = self._attempt(zygotes, [point])
            with attempt.told_with_errors():
                suspension = attempt.suspend(point, zygotes[1])
                if suspension is not None:
                    check(attempt)
                    check_woken(attempt, suspension)
            self.cut_off.append(suspension is not None)
            return attempt.outside.reached(1) != ""

        self._lanes.each(stands_aside, count(start, step), width=2)

    def _attempt(self, zygotes: Sequence[Zygote], names: Iterable[object]) -> Attempt:
        directory = self._directory / "-".join(map(str, [next(self._numbers), *names]))
        directory.mkdir()
        return Attempt(zygotes[0], place_in(self._kind, directory), directory, self._story)
