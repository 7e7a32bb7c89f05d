"""The log of a run that this process drives, and the lease on it.

The driver renews its lease several times in the time for which it is valid. If the lease expires,
another process may take the run over, and this one can neither write nor begin anything more.
Nothing is acted on before it is written (invariant 11).
"""

import asyncio
import os
import socket
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Final

import anyio
from msgspec.structs import replace

from argstream.errors import LeaseLostError, RunBusyError, UsageError
from argstream.events import ArgumentEvent, Event, ToolArgsDelta
from argstream.runs._records import Lease, Record, releases_lease
from argstream.runs._store import Store

_RENEWALS: Final = 3  # per duration of a lease
_ANSWER: Final = 5.0  # seconds that a cancelled task waits for the lease that it asked for
_LOOK_AGAIN: Final = 0.05  # seconds between two looks at the lease of another process


class RunPosition:
    """Assigns ``seq`` and time to the next records of a run, with or without a store."""

    def __init__(self, run_id: str, conversation_id: str, agent: str) -> None:
        self.run_id = run_id
        self.conversation_id = conversation_id
        self.agent = agent
        self.seq: int = 0
        self.latest: float = 0.0  # the time of the last record; the times never decrease

    def stamp(self, events: Sequence[Event]) -> list[Record]:
        """Return the events as the next records. Does not advance the position.

        An event that a log does not keep carries the ``seq`` of the record before it.
        """
        self.latest = max(time.time(), self.latest)
        seq, records = self.seq, []
        for event in events:
            if not event.is_computed:
                seq += 1
            records.append(
                Record(seq, self.latest, self.run_id, self.conversation_id, self.agent, event)
            )
        return records

    def next(self, event: Event) -> Record:
        """Return the event as the next record, and advance the position."""
        if (now := time.time()) > self.latest:
            self.latest = now
        if not event.is_computed:
            self.seq += 1
        return Record(self.seq, self.latest, self.run_id, self.conversation_id, self.agent, event)

    def advance(self, records: Sequence[Record]) -> None:
        """Continue after these records."""
        if records:
            self.seq = records[-1].seq


class RunLog:
    """Writes the log of one run, for as long as this process holds its lease."""

    def __init__(self, store: Store, position: RunPosition, seconds: float) -> None:
        self.store = store
        self.run_id: str = position.run_id
        self._position = position
        self._seconds = seconds  # for which a lease is valid
        self._lease: Lease | None = None
        # An append may release the lease that a renewal would renew.
        self._one_at_a_time = anyio.Lock(fast_acquire=True)

    @property
    def has_begun(self) -> bool:
        return self._position.seq > 0 or self._lease is not None

    async def take_up(self, wait: float) -> list[Record]:
        """Acquire the lease and read the log. Raises RunBusyError after ``wait`` seconds."""
        await self._acquired(wait)
        records = await self.store.read(self.run_id)
        self._position.advance(records)
        self._position.latest = records[-1].time
        self._position.conversation_id = records[-1].conversation_id
        return records

    async def _acquired(self, wait: float) -> Lease:
        end = anyio.current_time() + wait
        while True:
            try:
                return await self._surely(self.store.acquire(self.run_id, _owner(), self._seconds))
            except RunBusyError:
                if anyio.current_time() >= end:
                    raise
            await anyio.sleep(_LOOK_AGAIN)

    async def write(self, events: Sequence[Event]) -> list[Record]:
        """Write events and return their records, which are durable by then."""
        now, stamped = time.time(), self._position.stamp(events)
        records = _stored(stamped)
        if not records:
            return stamped
        async with self._one_at_a_time:
            lease = await self._written(records)
            self._position.advance(records)
            if releases_lease(record.event for record in records):
                self._lease = None  # the write released it
            elif time.time() - now > self._seconds:
                # This process was suspended for so long that another may have taken the run over,
                # and have reported what this one was about to do as interrupted.
                await self.store.renew(lease, self._seconds)
        return stamped

    async def _written(self, records: list[Record]) -> Lease:
        if not self.has_begun:
            return await self._surely(self.store.create(records, _owner(), self._seconds))
        lease = self._lease or await self._reacquired()
        await self.store.append(lease, records)
        return lease

    async def _surely(self, asking: Coroutine[Any, Any, Lease]) -> Lease:
        """Wait for a lease. A task that is cancelled meanwhile keeps it, and can release it."""
        task = asyncio.ensure_future(asking)
        task.add_done_callback(self._renew_lease)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task], timeout=_ANSWER)
            raise

    def _renew_lease(self, task: "asyncio.Future[Lease]") -> None:
        if not task.cancelled() and task.exception() is None:
            self._lease = task.result()

    async def keep_lease(self) -> None:
        """Renew the lease while there is one. Raises LeaseLostError if it was lost."""
        while True:
            await anyio.sleep(self._seconds / _RENEWALS)
            async with self._one_at_a_time:
                if self._lease is not None:
                    await self.store.renew(self._lease, self._seconds)

    async def reacquire(self) -> bool:
        """Acquire the lease again after a pause. False if another process has resumed the run."""
        try:
            await self._reacquired()
        except RunBusyError:
            return False
        return True

    async def _reacquired(self) -> Lease:
        lease = await self._surely(self.store.acquire(self.run_id, _owner(), self._seconds))
        if (await self.store.info(self.run_id)).seq != self._position.seq:
            await self.release()
            raise LeaseLostError(self.run_id)
        return lease

    async def release(self) -> None:
        if self._lease is not None:
            await self.store.release(self._lease)
            self._lease = None

    async def reopen(self, call_id: str) -> None:
        """Remove a decision that cannot be used, so that the call can be decided again."""
        if self._lease is not None:
            await self.store.reopen(self._lease, call_id)


def _stored(stamped: Sequence[Record]) -> list[Record]:
    """Return the records that a log keeps, those of argument text with their argument events."""
    records: list[Record] = []
    arguments: list[ArgumentEvent] = []
    for record in reversed(stamped):
        event = record.event
        if isinstance(event, ArgumentEvent):
            arguments.append(event)
        elif isinstance(event, ToolArgsDelta):
            records.append(replace(record, arguments=tuple(reversed(arguments))))
            arguments.clear()
        else:
            records.append(record)
    return records[::-1]


def _owner() -> str:
    # Shown to users, so that they find the process.
    return f"{socket.gethostname()}, process {os.getpid()}"


def check_seconds(option: str, seconds: float | None) -> None:
    if seconds is not None and seconds <= 0:
        raise UsageError(f"{option} must be more than 0 seconds, not {seconds}")
