"""Several runs at once: most of their time they wait for the claim of a process that was killed."""

import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from types import TracebackType
from typing import Self, TypeVar

from tests.surviving.zygote import Zygote

Given = TypeVar("Given")

MOST_TOLD = 5


class Lanes:
    """Runs that go on side by side, each with the processes of one zygote."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._stack = ExitStack()
        self._free: SimpleQueue[Zygote] = SimpleQueue()

    def __enter__(self) -> Self:
        for _ in range(self._number):
            self._free.put(self._stack.enter_context(Zygote()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def each(self, work: Callable[[Zygote, Given], None], given: Iterable[Given]) -> None:
        """Do something with each of these; all that goes wrong is told together."""

        def problem_with(one: Given) -> str:
            zygote = self._free.get()
            try:
                work(zygote, one)
            except Exception:  # noqa: BLE001 - it is told below
                return f"{one}: {traceback.format_exc()}"
            else:
                return ""
            finally:
                self._free.put(zygote)

        with ThreadPoolExecutor(self._number) as pool:
            problems = [problem for problem in pool.map(problem_with, given) if problem]
        told = "\n".join(problems[:MOST_TOLD])
        assert not problems, f"{len(problems)} went wrong, of which the first are:\n{told}"
