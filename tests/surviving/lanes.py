"""Several runs at once: most of their time they wait for the claim of a process that was killed."""

import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Lock
from types import TracebackType
from typing import Self, TypeVar

from tests.surviving.zygote import Zygote

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
