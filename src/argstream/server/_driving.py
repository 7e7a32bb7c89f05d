"""The tasks that drive the runs of this process, and a look-out for those that others have left.

A run is left when its process ends in the midst of it, or between a decision and what follows from
it. What is known of runs is in the store: of several processes that find one that was left, the
claim lets one go on with it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from argstream.errors import ArgstreamError, RunTaken
from argstream.events import ApprovalRequested, Event, RunFailed, RunPaused, RunSnapshot
from argstream.log import RunInfo, Store
from argstream.sanitise import visible_line
from argstream.server.drivers import DrivenRun, Driver
from argstream.snapshot_events import pending_of

__all__ = ["Driving"]

_AFTER_EXPIRY: Final = 0.05
"""How long after a request has expired its run goes on: the clocks of others may be behind."""
_PAUSED_EACH: Final = 6
"""Of how many looks one is for runs that wait for a person as well."""
_PAUSED_AT_ONCE: Final = 1_000
"""How many of these are looked at, the newest first."""

logger = logging.getLogger("argstream.server")


class Driving:
    """Has runs go on, in tasks of their own."""

    def __init__(self, driver: Driver, look_out_seconds: float, max_running: int) -> None:
        self._driver = driver
        self._max_running = max_running
        self._look_out_seconds = look_out_seconds
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by the ids of their runs
        self._expiring: dict[str, asyncio.Task[None]] = {}
        self._look_out: asyncio.Task[None] | None = None
        self._paused_at: dict[str, int] = {}  # the seq at which a run that waits was looked at
        self._is_closed = False

    @property
    def _store(self) -> Store:
        return self._driver.store

    @property
    def is_full(self) -> bool:
        """Whether as many runs are driven here as may be."""
        return len(self._tasks) >= self._max_running

    async def begin(self, run: DrivenRun, rested: Callable[[], None]) -> None:
        """Drive a run to its end or pause, and return when its beginning is in the store."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._drive(run, begun)
        self._tasks[run.run_id].add_done_callback(lambda _: rested())
        await begun

    async def go_on(self, run_id: str) -> None:
        """Go on with a run, if nobody drives it; who does has heard of what was posted.

        If there are too many, the look-out comes back to it.
        """
        info = await self._store.info(run_id)
        if info.is_over or info.owner is not None or not self._is_ours(info):
            return
        if self.is_full or self._is_closed:
            return
        run = self._driver.resume(run_id)
        if run is not None:
            self._drive(run)
        elif info.is_abandoned:
            await self._driver.stop(run_id, "the process that ran it has ended")

    def _drive(self, run: DrivenRun, begun: "asyncio.Future[None] | None" = None) -> None:
        self._tasks[run.run_id] = asyncio.create_task(self._driven(run, begun))

    async def _driven(self, run: DrivenRun, begun: "asyncio.Future[None] | None") -> None:
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
            self._tasks.pop(run.run_id, None)
            if begun is not None:
                begun.cancel()  # does nothing if it is done
        match last:
            case RunPaused(pending=pending):
                await self._quietly(run.run_id, pending)
            case RunFailed(code=code, message=message):
                logger.warning("run %s: failed: %s: %s", run.run_id, code, visible_line(message))
            case _:
                pass

    # Runs that wait for a person

    async def _quietly(self, run_id: str, pending: Iterable[ApprovalRequested]) -> None:
        try:
            await self._wait_for_person(run_id, pending)
        except ArgstreamError as error:
            _report(run_id, error)

    async def _wait_for_person(self, run_id: str, pending: Iterable[ApprovalRequested]) -> None:
        """See to it that a run goes on that has paused: now, if somebody was quicker than that."""
        posts = await self._store.posted(run_id)
        if posts.decisions or posts.stop_reason is not None:
            await self.go_on(run_id)
            return
        times = [request.expires_at for request in pending if request.expires_at is not None]
        if times and run_id not in self._expiring:
            task = asyncio.create_task(self._expire(run_id, min(times)))
            self._expiring[run_id] = task
            task.add_done_callback(lambda _: self._expiring.pop(run_id, None))

    async def _expire(self, run_id: str, moment: float) -> None:
        await asyncio.sleep(max(moment - time.time(), 0.0) + _AFTER_EXPIRY)
        try:
            await self.go_on(run_id)
        except ArgstreamError as error:
            _report(run_id, error)

    # What others have left

    def look_out(self) -> None:
        """Begin to look for runs that nobody drives."""
        if self._look_out is None:
            self._look_out = asyncio.create_task(self._keep_looking())

    async def _keep_looking(self) -> None:
        number = 0
        while True:
            try:
                await self._look_for_abandoned()
                if number % _PAUSED_EACH == 0:
                    await self._look_at_paused()
            except ArgstreamError as error:
                logger.warning("cannot look for runs that nobody drives: %s", error)
            number += 1
            await asyncio.sleep(self._look_out_seconds)

    async def _look_for_abandoned(self) -> None:
        for info in await self._store.runs(status="running"):
            if info.is_abandoned and self._is_ours(info):
                logger.info("run %s: nobody drives it, so it goes on here", info.run_id)
                try:
                    await self.go_on(info.run_id)
                except ArgstreamError as error:
                    _report(info.run_id, error)

    async def _look_at_paused(self) -> None:
        paused = await self._store.runs(status="paused", limit=_PAUSED_AT_ONCE)
        known, self._paused_at = self._paused_at, {}
        for info in paused:
            if self._is_ours(info):
                self._paused_at[info.run_id] = info.seq
                is_known = known.get(info.run_id) == info.seq
                # Requests that expire were noted when it was looked at first.
                pending = [] if is_known else await self._pending(info.run_id)
                await self._quietly(info.run_id, pending)

    async def _pending(self, run_id: str) -> list[ApprovalRequested]:
        snapshot = (await self._store.snapshot(run_id)).event
        return list(pending_of(snapshot)) if isinstance(snapshot, RunSnapshot) else []

    def _is_ours(self, info: RunInfo) -> bool:
        return info.agent == self._driver.name and info.run_id not in self._tasks

    async def aclose(self) -> None:
        """Leave the runs to others: what has happened is in the store."""
        self._is_closed = True
        tasks = [*self._tasks.values(), *self._expiring.values()]
        if self._look_out is not None:
            tasks.append(self._look_out)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _report(run_id: str, error: Exception) -> None:
    if isinstance(error, RunTaken):
        logger.debug("run %s: another process was quicker", run_id)
    elif isinstance(error, ArgstreamError):
        logger.warning("run %s: cannot go on: %s", run_id, error)
    else:
        logger.error("run %s: cannot go on", run_id, exc_info=error)
