"""What must not leave a terminal without its cursor: Ctrl-Z, SIGTERM, and an end without a close.

Signals are only taken in the main thread, and only those that nobody else handles; afterwards they
are as they were. A forked child has them from its parent, and does nothing with the terminal.
"""

import atexit
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

__all__ = ["Interruptions"]


def _known(*names: str) -> tuple[signal.Signals, ...]:
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))  # not on Windows


_ENDING: Final = _known("SIGTERM", "SIGHUP", "SIGQUIT")
_STOPPING: Final = _known("SIGTSTP")
_GOING_ON: Final = _known("SIGCONT")


class Interruptions:
    """Calls ``leave`` before the process ends or stops, and ``come_back`` when it goes on."""

    def __init__(self, leave: Callable[[], None], come_back: Callable[[], None]) -> None:
        self._leave = leave
        self._come_back = come_back
        self._process = os.getpid()
        self._taken: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {}

    def begin(self) -> None:
        """Take the signals that have no handler yet."""
        atexit.register(self._on_exit)
        for signals, handler in (
            (_ENDING, self._on_end),
            (_STOPPING, self._on_stop),
            (_GOING_ON, self._on_going_on),
        ):
            for number in signals:
                if _is_free(number):
                    signal.signal(number, handler)
                    self._taken[number] = handler

    def end(self) -> None:
        """Put everything back, but for what others have changed since."""
        atexit.unregister(self._on_exit)
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._taken.items():
                if signal.getsignal(number) == handler:
                    signal.signal(number, signal.SIG_DFL)
            self._taken.clear()

    def _is_ours(self) -> bool:
        return os.getpid() == self._process

    def _on_exit(self) -> None:
        if self._is_ours():
            self._leave()

    def _on_end(self, number: int, _: FrameType | None) -> None:
        if self._is_ours():
            self._leave()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    def _on_stop(self, number: int, _: FrameType | None) -> None:
        if self._is_ours():
            self._leave()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)  # it stands still here until it is told to go on
        signal.signal(number, self._on_stop)
        if self._is_ours():
            self._come_back()

    def _on_going_on(self, _number: int, _: FrameType | None) -> None:
        if self._is_ours():
            self._come_back()


def _is_free(number: signal.Signals) -> bool:
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(number) is signal.SIG_DFL
