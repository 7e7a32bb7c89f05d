"""Many runs of one story, in stores of one kind, each cut off in another way, several at once."""

import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self, TypeVar

from tests.runs.redis_server import new_prefix, shared_server
from tests.surviving.attempts import Attempt, Kill
from tests.surviving.checks import check, check_woken
from tests.surviving.parts import Place
from tests.surviving.zygote import Zygote

IS_SOAK = os.environ.get("ARGSTREAM_HYPOTHESIS") == "soak"
Given = TypeVar("Given")

MOST_PROBLEMS = 5
MOST_IDLE = 3
"""How often there must have been nothing to do before it is believed."""


class Lanes:
    """Runs that go on side by side, each with the processes of one zygote."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._stack = ExitStack()
        self._zygotes: list[Zygote] = []

    def __enter__(self) -> Self:
        self._zygotes = [self._stack.enter_context(Zygote()) for _ in range(self._number)]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def each(
        self,
        work: Callable[[Sequence[Zygote], Given], bool],
        given: Iterable[Given],
        width: int = 1,
    ) -> None:
        """Do something with each of these, until there is nothing left to do.

        ``work`` is given so many zygotes, and says whether there was something to do. All that goes
        wrong is told together; if that is much, it is enough.
        """
        waiting = iter(given)
        guard = Lock()
        problems: list[str] = []
        idle: list[Given] = []

        def go_on(zygotes: Sequence[Zygote]) -> None:
            while len(idle) < MOST_IDLE and len(problems) < MOST_PROBLEMS:
                with guard:
                    one = next(waiting, None)
                if one is None:
                    return
                try:
                    if not work(zygotes, one):
                        idle.append(one)
                except Exception:  # noqa: BLE001 - it is told below
                    problems.append(f"{one}: {traceback.format_exc()}")

        groups = [self._zygotes[at : at + width] for at in range(0, len(self._zygotes), width)]
        with ThreadPoolExecutor(len(groups)) as pool:
            for group in groups:
                pool.submit(go_on, group)
        told = "\n".join(problems)
        assert not problems, f"{len(problems)} or more went wrong:\n{told}"


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
