"""Ctrl-C, SIGTERM and SIGHUP, for commands that run something: whatever comes, it ends in order.

The first one stops what runs as its own way of ending has it; the next one does not wait for that.
In both cases all ``with`` blocks are left, so that a terminal gets its cursor back and temporary
files are gone, and nothing that a tool has started runs on. SIGQUIT does not wait at all.
"""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, Self

from argstream.agent.tools.process_groups import kill_noted

__all__ = ["Stopping"]

_TAKEN: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")  # some systems do not have all of them
_AT_ONCE: Final = ("SIGQUIT",)
_PATIENCE: Final = 1.0
"""Seconds for the ``with`` blocks: who holds Ctrl-C down must not tear what puts things back."""


class Stopping:
    """Takes the signals between ``with`` and its end; those that are ignored, stay so.

    While nothing runs that could be stopped, a signal raises SystemExit with the usual status.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        """What to exit with, if a signal came: 128 and its number."""
        self._stop: Callable[[str], None] | None = None
        self._raise_in: asyncio.AbstractEventLoop | None = None
        self._raised_at = -_PATIENCE
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # no other can
            known = [getattr(signal, name) for name in _TAKEN if hasattr(signal, name)]
            for number in known:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                    self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def stops(self, stop: Callable[[str], None]) -> Iterator[None]:
        """Have the first signal call this, in this event loop, with a reason."""
        loop = asyncio.get_running_loop()

        def stop_soon(reason: str) -> None:
            loop.call_soon_threadsafe(stop, reason)

        self._stop, self._raise_in = stop_soon, loop
        try:
            yield
        finally:
            self._stop = self._raise_in = None

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self.status is None:
            self.status = 128 + number
            if self._stop is not None and name not in _AT_ONCE:
                self._stop("Ctrl-C" if name == "SIGINT" else name)
                return
        kill_noted()
        now = time.monotonic()
        if now - self._raised_at >= _PATIENCE:
            self._raise(now)

    def _raise(self, now: float) -> None:
        """Leave all ``with`` blocks: between two steps of the event loop, if it listens."""
        loop, self._raise_in = self._raise_in, None
        self._raised_at = now
        if loop is None:
            raise SystemExit(self.status)

        def leave() -> None:
            raise SystemExit(self.status)

        loop.call_soon_threadsafe(leave)
