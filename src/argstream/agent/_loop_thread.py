"""An event loop in a thread, for those who have none: the sync face of a run."""

import asyncio
import atexit
import contextvars
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Final, TypeVar

__all__ = ["LoopThread"]

Answer = TypeVar("Answer")

_AT_EXIT: Final = 5.0
"""How long the program's end waits for a run that somebody left behind, in seconds."""


class LoopThread:
    """Runs coroutines for one thread that waits for them.

    The thread is a daemon: a loop that somebody has left, and still refers to, must not keep the
    program from ending. It is given the chance to end in order.
    """

    def __init__(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """Begin; ``last`` is what has to be done in the loop before it ends."""
        self._last = last
        self._is_closed = False
        self._variables = contextvars.copy_context()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="argstream: run", daemon=True)
        self._thread.start()
        atexit.register(self._close_at_exit)

    def call(self, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Have something done in the loop, and wait for it."""
        return self._begin(work).result()

    def wait_for(self, answer: Awaitable[Answer]) -> Answer:
        """Have something awaited in the loop."""
        return self.call(lambda: answer)

    def close(self) -> None:
        """Do what has to be done last, and end the loop; once."""
        if self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self._close_at_exit)
        try:
            if self._last is not None:
                self.call(self._last)
        finally:
            self._end()
            self._thread.join()

    def _close_at_exit(self) -> None:
        self._is_closed = True
        try:
            if self._last is not None:
                self._begin(self._last).result(_AT_EXIT)
        except TimeoutError:
            return  # the thread ends with the program
        self._end()
        self._thread.join(_AT_EXIT)

    def _begin(self, work: Callable[[], Awaitable[Answer]]) -> Future[Answer]:
        async def with_variables() -> Answer:
            task = self._loop.create_task(_awaited(work), context=self._variables.copy())
            return await task

        return asyncio.run_coroutine_threadsafe(with_variables(), self._loop)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()


async def _awaited(work: Callable[[], Awaitable[Answer]]) -> Answer:
    return await work()
