"""Ctrl-C, also for who waits at that very moment.

Python looks for a signal between two steps of a program. If it comes just before a wait begins, or
where an exception is dropped, the wait goes on as if nothing had happened. So the waits of the
commands end when a signal has left its mark in a pipe.
"""

import os
import signal
from select import select
from types import TracebackType
from typing import NoReturn, Self

__all__ = ["Interruptions"]


class Interruptions:
    """Waits that Ctrl-C ends, as KeyboardInterrupt, whenever it came since the ``with``."""

    def __enter__(self) -> Self:
        self._arrived, self._told = os.pipe()
        os.set_blocking(self._told, False)
        self._before = signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        signal.set_wakeup_fd(self._before)
        os.close(self._arrived)
        os.close(self._told)

    def wait_for(self, file: int) -> None:
        """Wait until this can be read."""
        self._wait([file, self._arrived])

    def sleep(self, seconds: float) -> None:
        """Wait for so long."""
        self._wait([self._arrived], seconds)

    def wait(self) -> NoReturn:
        """Wait for nothing else."""
        self._wait([self._arrived])
        raise AssertionError("what ends this is an exception")

    def _wait(self, files: list[int], seconds: float | None = None) -> None:
        ready, _, _ = select(files, [], [], seconds)
        if self._arrived in ready:
            raise KeyboardInterrupt
