"""The tasks that drive the runs of this process, each to its end or its pause."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final

from argstream.errors import ArgstreamError, RunTaken
from argstream.events import ApprovalRequested, Event, RunFailed, RunPaused
from argstream.log import RunInfo, Store
from argstream.sanitise import visible_line
from argstream.server.drivers import DrivenRun, Driver

__all__ = ["Driving", "reported"]

_AFTER_EXPIRY: Final = 0.05
"""How long after a request has expired its run goes on: the clocks of others may be behind."""

logger = logging.getLogger("argstream.server")


class Driving:
    """Has runs go on, in tasks of their own."""

    def __init__(self, driver: Driver, max_running: int) -> None:
        self._driver = driver
        self._max_running = max_running
        self._driven: set[str] = set()  # the ids of runs
        self._expiring: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def _store(self) -> Store:
        return self._driver.store

    @property
    def is_full(self) -> bool:
        """Whether as many runs are driven here as may be."""
        return len(self._driven) >= self._max_running

    def is_ours(self, info: RunInfo) -> bool:
        """Say whether a run is one of our agent that is not driven here already."""
        return info.agent == self._driver.name and info.run_id not in self._driven

    async def begin(self, run: DrivenRun, rested: Callable[[], None]) -> None:
        """Drive a run, and return when its beginning is in the store.

        ``rested`` is called when it is over, has paused, or could not be begun.
        """
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._drive(run, begun).add_done_callback(lambda _: rested())
        await begun

    async def go_on(self, run_id: str) -> None:
        """Go on with a run, if nobody drives it; who does has heard of what was posted.

        If there are too many, the look-out comes back to it.
        """
        info = await self._store.info(run_id)
        if info.is_over or info.owner is not None or not self.is_ours(info):
            return
        if self.is_full or self._is_closed:
            return
        run = self._driver.resume(info)
        if run is not None:
            _ = self._drive(run, None)
        elif info.is_abandoned:
            await self._driver.stop(run_id, "the process that ran it has ended")

    def _drive(self, run: DrivenRun, begun: "asyncio.Future[None] | None") -> "asyncio.Task[None]":
        self._driven.add(run.run_id)
        return self._do(self._follow(run, begun))

    def _do(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _follow(self, run: DrivenRun, begun: "asyncio.Future[None] | None") -> None:
        last: Event | None = None
        try:
            async for event in run:
                last = event
                if begun is not None and not begun.done():
                    begun.set_result(None)  # what is told is in the store
        except Exception as error:  # noqa: BLE001 - told to who waits, or logged
            if begun is not None and not begun.done():
                begun.set_exception(error)
            else:
                _report(run.run_id, error)
        finally:
            self._driven.discard(run.run_id)
            if begun is not None:
                begun.cancel()  # does nothing if it is done
        match last:
            case RunPaused(pending=pending):
                # Who decided while this task was about to end has left it to this task.
                await reported(run.run_id, self.go_on_if_posted(run.run_id))
                self.expect(run.run_id, pending)
            case RunFailed(code=code, message=message):
                logger.warning("run %s: failed: %s: %s", run.run_id, code, visible_line(message))
            case _:
                pass

    async def go_on_if_posted(self, run_id: str) -> None:
        """Go on with a run that waits for a person, if somebody has decided."""
        if (await self._store.info(run_id)).has_posts:
            await self.go_on(run_id)

    def expect(self, run_id: str, pending: Iterable[ApprovalRequested]) -> None:
        """See to it that a run that waits for a person goes on when it has waited long enough."""
        times = [request.expires_at for request in pending if request.expires_at is not None]
        if times and run_id not in self._expiring:
            self._expiring.add(run_id)
            self._do(self._expire(run_id, min(times))).add_done_callback(
                lambda _: self._expiring.discard(run_id)
            )

    async def _expire(self, run_id: str, moment: float) -> None:
        await asyncio.sleep(max(moment - time.time(), 0.0) + _AFTER_EXPIRY)
        await reported(run_id, self.go_on(run_id))

    def open(self) -> None:
        """Go on with runs, again perhaps."""
        self._is_closed = False

    async def aclose(self) -> None:
        """Leave the runs to others: what has happened is in the store."""
        self._is_closed = True
        here = asyncio.get_running_loop()
        tasks = [task for task in self._tasks if task.get_loop() is here]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._tasks.clear()  # of an event loop that has ended before, there is nothing to end


async def reported(run_id: str, work: Awaitable[None]) -> bool:
    """Do something for a run; log why it does not go on, if that fails, and give False."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 - logged; the look-out comes back to it
        _report(run_id, error)
        return False
    return True


def _report(run_id: str, error: Exception) -> None:
    """Log why a run does not go on."""
    if isinstance(error, RunTaken):
        logger.debug("run %s: another process was quicker", run_id)
    elif isinstance(error, ArgstreamError):
        logger.warning("run %s: cannot go on: %s", run_id, error)
    else:
        logger.error("run %s: cannot go on", run_id, exc_info=error)
