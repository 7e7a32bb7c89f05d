"""The log of a run that this process drives, and the lease on it.

The driver renews its lease three times per lease duration. If the lease expires,
another process may take the run over, and this one can neither write nor begin anything more.
Nothing is acted on before it is written (invariant 11).
"""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from argstream.errors import LeaseLostError, RunBusyError, UsageError
from argstream.events import Event, ToolArgsDelta
from argstream.runs._hub import Watch
from argstream.runs._records import Commands, Launch, Lease, Owner, Record, releases_lease
from argstream.runs._store import Now, Store

_RENEWALS: Final = 3  # per duration of a lease
_ANSWER: Final = 5.0  # seconds that a cancelled task waits for the lease that it asked for
_RETRY_INTERVAL: Final = 0.05  # seconds between two attempts to acquire a lease


@dataclass(eq=False)
class RunLog:
    """Writes the log of one run, for as long as this process holds its lease."""

    store: Store
    run_id: str
    conversation_id: str
    agent: str
    seconds: float  # for which a lease is valid
    launch: Launch | None = None
    latest: float = 0.0  # the time of the last record; the times never decrease
    may_have_commands: bool = True  # commands may have been sent
    _seq: int = 0  # of the last record
    _lease: Lease | None = None
    _valid_until: float = 0.0  # when the lease expires at the earliest
    _watch: Watch | None = None  # of commands
    _is_due: bool = False  # the lease must be renewed
    _timer: asyncio.TimerHandle | None = None
    _wake: Callable[[], None] = lambda: None

    @property
    def has_begun(self) -> bool:
        return self._seq > 0 or self._lease is not None

    def _stored_records(self, events: Sequence[Event]) -> list[Record]:
        """Return the records to store. That of a delta carries the events computed from it."""
        self.latest = max(time.time(), self.latest)
        ids = self.latest, self.run_id, self.conversation_id, self.agent
        seq, count, kept = self._seq, len(events), list[Record]()
        for start, event in enumerate(events, 1):
            if event.is_computed:
                continue
            seq += 1
            views: Any = None
            if type(event) is ToolArgsDelta:
                end = start
                while end < count and events[end].is_computed:
                    end += 1
                views = tuple(events[start:end])
            kept.append(Record(seq, *ids, event, views))
        return kept

    def _consumer_records(self, events: Sequence[Event], kept: Sequence[Record]) -> list[Record]:
        """Return a record for each event.

        An event that is not stored carries the ``seq`` of the record before it.
        """
        ids = self.latest, self.run_id, self.conversation_id, self.agent
        seq = kept[0].seq - 1 if kept else self._seq
        records: list[Record] = []
        for event in events:
            seq += not event.is_computed
            records.append(Record(seq, *ids, event))
        return records

    async def read(self) -> list[Record]:
        records = await self.store.read(self.run_id, self._seq)
        if records:
            last = records[-1]
            self._seq, self.latest = last.seq, last.time
            self.conversation_id = last.conversation_id
        return records

    async def acquire(self, wait: float = 0.0) -> bool:
        """Acquire the lease. Return True if the log has records that are not known here.

        Raises RunBusyError if another process holds the lease for more than ``wait`` seconds.
        """
        end = time.monotonic() + wait
        while True:
            asking = self.store.acquire(self.run_id, Owner.here(), self.seconds)
            try:
                return (await self._await_lease(asking)).seq != self._seq
            except RunBusyError:
                if time.monotonic() >= end:
                    raise
            await asyncio.sleep(_RETRY_INTERVAL)

    async def write(self, events: Sequence[Event]) -> list[Record]:
        """Write events and return their records, which are durable by then."""
        kept = self._stored_records(events)
        records = self._consumer_records(events, kept)
        if not kept:
            return records
        lease = await self._written(kept)
        self._seq = kept[-1].seq
        if releases_lease(record.event for record in kept):
            self._lease = None  # the write released it
        elif Now.here().lease > self._valid_until:
            # This process was suspended for so long that another may have taken the run over, and
            # have reported what this one was about to do as interrupted.
            await self._renew(lease)
        return records

    async def write_deltas(self, deltas: Sequence[Event], *, are_read: bool) -> list[Record]:
        """Write deltas. Return a record for each event if ``are_read``, else those of the log."""
        if self._lease is None:
            return await self.write(deltas)
        kept = self._stored_records(deltas)
        records = self._consumer_records(deltas, kept) if are_read else kept
        if kept:
            await self.store.append_deltas(self._lease, kept)
            self._seq = kept[-1].seq
        return records

    async def _written(self, records: list[Record]) -> Lease:
        if not self.has_begun:
            creating = self.store.create(records, Owner.here(), self.seconds, self.launch)
            return await self._await_lease(creating)
        if self._lease is None:
            await self.reacquire()
        lease = cast("Lease", self._lease)
        await self.store.append(lease, records)
        return lease

    async def _await_lease(self, asking: Coroutine[Any, Any, Lease]) -> Lease:
        """Wait for a lease. A task that is cancelled meanwhile keeps it, and can release it."""
        self._valid_until = Now.here().lease + self.seconds
        task = asyncio.ensure_future(asking)
        task.add_done_callback(self._keep_lease)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task], timeout=_ANSWER)
            raise

    def _keep_lease(self, task: "asyncio.Future[Lease]") -> None:
        if not task.cancelled() and task.exception() is None:
            self._lease = task.result()

    async def renew_if_due(self) -> None:
        """Renew the lease, if it is time. Raises LeaseLostError if it was lost."""
        if self._is_due:
            self._is_due = False
            self._schedule()
            if self._lease is not None:
                await self._renew(self._lease)

    async def _renew(self, lease: Lease) -> None:
        now = Now.here().lease
        await self.store.renew(lease, self.seconds)
        self._valid_until = now + self.seconds

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self.seconds / _RENEWALS, self._become_due)

    def _become_due(self) -> None:
        self._is_due = True
        self._wake()

    async def reacquire(self) -> None:
        """Acquire the lease again after a pause.

        Raises RunBusyError if another process has resumed the run.
        """
        if await self.acquire():
            await self.release()
            raise LeaseLostError(self.run_id)

    async def commands(self) -> Commands:
        self._listen()
        self.may_have_commands = False
        return await self.store.commands(self.run_id)

    def start(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` when the lease must be renewed, and when commands may have been sent."""
        self._wake = wake
        self._listen()
        self._schedule()
        if self.may_have_commands:
            wake()

    def _listen(self) -> None:
        if self._watch is not None and self._watch.tail.has_failed:
            self._watch.close()
            self._watch = None
        if self._watch is None:
            self._watch = self.store.on_commands(self.run_id, self._commands_changed)

    def _commands_changed(self) -> None:
        self.may_have_commands = True
        self._wake()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._timer is not None:
            self._timer.cancel()

    async def release(self) -> None:
        if self._lease is not None:
            await self.store.release(self._lease)
            self._lease = None

    async def reopen(self, call_id: str) -> None:
        """Remove a decision that cannot be used, so that the call can be decided again."""
        if self._lease is not None:
            await self.store.reopen(self._lease, call_id)


def check_seconds(option: str, seconds: object) -> None:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < cast("float", seconds) < math.inf:
        raise UsageError(f"{option} must be a number of seconds greater than 0, not {seconds!r}")


def check_count(option: str, count: object) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise UsageError(f"{option} must be an int of at least 1, not {count!r}")
