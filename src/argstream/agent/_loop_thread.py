"""An event loop in a thread, for those who have none: the sync face of a run."""

import asyncio
import atexit
import contextvars
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import closing
from typing import Final, NamedTuple, TypeVar

from argstream.errors import UsageError

__all__ = ["LoopThread", "run_alone"]

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
        future = self._begin(work)
        try:
            answer = future.result()
        except BaseException:
            future.cancel()  # of who is interrupted while he waits; otherwise it is over
            raise
        if isinstance(answer, _Exit):
            raise answer.error
        return answer

    def wait_for(self, answer: Awaitable[Answer]) -> Answer:
        """Have something awaited in the loop."""
        return self.call(lambda: answer)

    def close(self) -> None:
        """Do what has to be done last, and end the loop; once."""
        if self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self._close_at_exit)
        if threading.current_thread() is self._thread:  # a garbage collection that came there
            self._begin(self._finish)
            return
        try:
            self.call(self._finish)
        finally:
            self._thread.join()

    def _close_at_exit(self) -> None:
        self._is_closed = True
        try:
            self._begin(self._finish).result(_AT_EXIT)
        except TimeoutError:
            return  # the thread ends with the program
        self._thread.join(_AT_EXIT)

    async def _finish(self) -> None:
        try:
            if self._last is not None:
                await self._last()
        finally:
            self._loop.call_soon(self._loop.stop)

    def _begin(self, work: Callable[[], Awaitable[Answer]]) -> "Future[Answer | _Exit]":
        async def with_variables() -> Answer | _Exit:
            task = self._loop.create_task(_awaited(work), context=self._variables.copy())
            return await task

        return asyncio.run_coroutine_threadsafe(with_variables(), self._loop)

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()  # it does not wait for threads that a tool has left behind


def run_alone(work: Callable[[], Awaitable[Answer]], instead: str) -> Answer:
    """Run something async to its end where there is no event loop; ``instead`` is for others."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with closing(LoopThread()) as loop:
            return loop.call(work)
    raise UsageError(f"an event loop is running here: use {instead}")


class _Exit(NamedTuple):
    """What ends a program, on its way to the thread that waits."""

    error: SystemExit | KeyboardInterrupt


async def _awaited(work: Callable[[], Awaitable[Answer]]) -> Answer | _Exit:
    try:
        return await work()
    except (SystemExit, KeyboardInterrupt) as error:
        return _Exit(error)  # raised in a task, it would end the loop and not the program
