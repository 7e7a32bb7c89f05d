"""Hears that the process is to end, from whoever serves the app.

A server such as uvicorn waits for its connections before it tells an app that it ends; but a stream
goes on until it is told. So signals are heard here as well: what is done about them is added to
what the server does.
"""

import asyncio
import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Final, NamedTuple

__all__ = ["Endings"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_Handler = Callable[[int, FrameType | None], object]


class _Heard(NamedTuple):
    """A handler of ours, and that which it was added to."""

    handler: _Handler
    before: _Handler


class Endings:
    """Calls somebody in the event loop when the process is told to end."""

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told
        self._heard: dict[int, _Heard] = {}

    def listen(self) -> None:
        """Begin to hear signals, if the event loop that runs is in the thread that gets them."""
        if self._heard or threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            before = signal.getsignal(number)
            if callable(before):  # otherwise the process just ends, and nobody waits for anything
                handler = partial(self._hear, loop, before)
                self._heard[number] = _Heard(handler, before)
                signal.signal(number, handler)

    def _hear(
        self,
        loop: asyncio.AbstractEventLoop,
        before: _Handler,
        number: int,
        frame: FrameType | None,
    ) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._told)
        before(number, frame)

    def forget(self) -> None:
        """Hear them no more."""
        for number, (handler, before) in self._heard.items():
            if signal.getsignal(number) is handler:  # otherwise others have taken it over
                signal.signal(number, before)
        self._heard.clear()
