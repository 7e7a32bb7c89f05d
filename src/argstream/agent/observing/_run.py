"""An observed run, to be followed with ``async for`` or ``for``, or to be waited for."""

import weakref
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing
from typing import Final

from argstream.agent._faces import FollowedRun
from argstream.agent._loop_thread import LoopThread
from argstream.agent.observing._drive import Drive
from argstream.agent.result import RunResult
from argstream.errors import RunFailure, UsageError
from argstream.events import ApprovalRequested, Event
from argstream.log import Record

__all__ = ["ObservedRun"]

_NOBODY: Final = "nobody follows the run any more"


class ObservedRun(FollowedRun):
    """One run of another agent: its events as they happen, and what came of it.

    It begins when it is first asked for an event, and ends with ``RunCompleted``, ``RunFailed`` or
    ``RunStopped``. To leave a loop over it stops it. Any number of others can follow it by the
    store.
    """

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._batch: deque[Record] = deque()  # fetched, but not consumed yet
        # Nothing that the run needs may refer to this: who drops it has left the run.
        self._generator: weakref.ref[AsyncGenerator[Event | Record, None]] | None = None

    @property
    def run_id(self) -> str:
        """What the run is called, in events and in the store."""
        return self._drive.observed.run_id

    @property
    def pending(self) -> tuple[ApprovalRequested, ...]:
        """What somebody must decide on, now: with ``Store.decide``, from any process."""
        return self._drive.asking.pending

    @property
    def result(self) -> RunResult:
        """What has come of it so far; all of it when the events are over."""
        return self._drive.observed.result

    def stop(self, reason: str = "") -> None:
        """End the run, from any thread: the agent is told, if it can be, and read no further."""
        self._drive.stop_soon(reason)

    # In an event loop

    def _iterate_async(self, *, records: bool) -> AsyncGenerator[Event | Record, None]:
        generator = None if self._generator is None else self._generator()
        if generator is None:
            generator = _items(self._drive, self._batch, records=records)
            self._generator = weakref.ref(generator)
        return generator

    async def aclose(self) -> None:
        """End the run, if it has not ended."""
        await self._drive.close(_NOBODY)

    def _outcome(self) -> RunResult:
        failure = self._drive.observed.failure
        if failure is not None:
            raise RunFailure(failure.code, failure.message, self.result)
        return self.result

    # Without one

    def _iterate(self, *, records: bool) -> Iterator[Event | Record]:
        if self._drive.has_begun:
            raise UsageError("somebody follows this run already, or has")
        with closing(LoopThread(self.aclose)) as loop:
            while loop.call(self._fetch):
                while self._batch:
                    record = self._batch.popleft()
                    yield record if records else record.event

    async def _fetch(self) -> bool:
        return await _fetch(self._drive, self._batch)

    def wait(self) -> RunResult:
        """Wait until it has ended, and give its result."""
        for _ in self:
            pass
        return self._outcome()


async def _items(
    drive: Drive, batch: deque[Record], *, records: bool
) -> AsyncGenerator[Event | Record, None]:
    try:
        while await _fetch(drive, batch):
            while batch:
                record = batch.popleft()
                yield record if records else record.event
    finally:
        await drive.close(_NOBODY)


async def _fetch(drive: Drive, batch: deque[Record]) -> bool:
    drive.start()
    batch.extend(await drive.outbox.fetch())
    return bool(batch)
