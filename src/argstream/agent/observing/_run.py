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
        self._batch: deque[Event] = deque()  # fetched, and not told yet
        # Nothing that the run needs may refer to this: who drops it has left the run.
        self._generator: weakref.ref[AsyncGenerator[Event, None]] | None = None

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

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        """Give the events. Who drops this, by leaving a loop, has stopped the run."""
        generator = None if self._generator is None else self._generator()
        if generator is None:
            generator = _events(self._drive, self._batch)
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

    def __iter__(self) -> Iterator[Event]:
        """Follow the run where there is no event loop: one of our own reads it, in a thread."""
        if self._drive.has_begun:
            raise UsageError("somebody follows this run already, or has")
        with closing(LoopThread(self.aclose)) as loop:
            while loop.call(self._fetch):
                while self._batch:
                    yield self._batch.popleft()

    async def _fetch(self) -> bool:
        return await _fetch(self._drive, self._batch)

    def wait(self) -> RunResult:
        """Wait until it has ended, and give its result."""
        for _ in self:
            pass
        return self._outcome()


async def _events(drive: Drive, batch: deque[Event]) -> AsyncGenerator[Event, None]:
    try:
        while await _fetch(drive, batch):
            while batch:
                yield batch.popleft()
    finally:
        await drive.close(_NOBODY)


async def _fetch(drive: Drive, batch: deque[Event]) -> bool:
    drive.start()
    batch.extend(await drive.outbox.fetch())
    return bool(batch)
