"""What all stores share: checks, following a run, snapshots, and listening to commands.

A store implements the abstract methods. It reports what happens as soon as it is stored, from any
thread: ``_written`` and ``_forgotten`` if it knows what has happened; ``_tails.stale`` and
``_tails.commands_changed`` if something may have, perhaps in another process. Reporting too often
does no harm. ``_watch`` and ``_unwatch`` say which runs have followers in this process.

The rules, in the order in which they are checked:

- ``_create``: a run that exists is a ``UsageError``. The first token is 1.
- ``_acquire``: ``RunNotFoundError``; ``RunBusyError`` while any lease is good, also one of the same
  owner. The token is higher than the last.
- ``_renew``, ``_append``, ``_reopen``: ``RunNotFoundError``; ``LeaseLostError`` if the token is not
  the newest. A lease that has run out but was not taken over may go on.
- ``_create``, ``_append``: a batch after which the run is paused or over gives up the lease.
- ``_release``: if the token is the newest, the run has no owner, and the token grows by one, so
  that the lease is lost. Otherwise it does nothing, also for an unknown run.
- ``_append``: if the log has exactly these records, to the byte, nothing is done, whatever the
  lease: a writer that does not know whether its write succeeded may repeat it. Other records under
  their seqs are a ``UsageError``; so is a run that is over, or a batch that does not begin right
  after the last record (``other_record``, ``run_is_over``, ``gap``).
- For each of ``batch.asked``, in order: a digest makes the call pending. An earlier decision is
  dropped unless the same digest was pending. None makes the call decided for good, and what waited
  in ``posted`` is gone.
- ``_decide``: ``RunNotFoundError``; then for each call, in order: ``AlreadyDecidedError`` if there
  is a decision, used or not; ``UsageError`` if the run is over or the call is not pending
  (``not_pending``), or a digest was given and is another (``other_request``). All or none.
- ``_stop``: ``RunNotFoundError``; ``UsageError`` if the run is over. A second stop does nothing.
- ``_page``, ``_info``, ``_commands``: ``RunNotFoundError``. ``_commands`` returns None once the run
  is over.
- ``_delete``: ``RunNotFoundError``; ``RunBusyError`` while a lease is good and the run is not over.
- ``_runs``: newest ``updated`` first, then the higher ``run_id``.
- ``_delete_older_than``: runs that are over with ``updated <= now - seconds``; with ``unfinished``
  also others without a good lease. Returns their IDs.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final, Self

from msgspec import Struct

from argstream.errors import (
    AlreadyDecidedError,
    LeaseLostError,
    RunBusyError,
    RunNotFoundError,
    StoreError,
    UsageError,
)
from argstream.events import RunSnapshot, RunStatus
from argstream.runs._batches import (
    Batch,
    Wanted,
    age,
    approvals_to_json,
    batch_of,
    checked_lease,
    commands_from_json,
    gap,
    id_of,
    limited,
    name_of,
    not_pending,
    other_record,
    other_request,
    place,
    records_of,
    run_is_over,
    span,
    text,
    wanted,
)
from argstream.runs._hub import PAGE, Page, Snapshots, Tail, Tails
from argstream.runs._records import Commands, Decisions, Lease, Record, RunInfo

FIRST_TOKEN: Final = 1


class Store(ABC):
    """Keeps the logs of runs. Every method may be called from any event loop, and concurrently.

    All raise ``StoreError`` if the store does not work, and ``RunNotFoundError`` for a run that it
    does not have. A subclass implements the methods that start with ``_``.
    """

    def __init__(self) -> None:
        self._tails = Tails(self._page_of, self._watch, self._unwatch)
        self._snapshots = Snapshots(self._page_of)
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.aclose()

    @abstractmethod
    async def _create(self, batch: Batch, owner: str, seconds: float) -> Lease: ...

    @abstractmethod
    async def _acquire(self, run_id: str, owner: str, seconds: float) -> Lease: ...

    @abstractmethod
    async def _renew(self, lease: Lease, seconds: float) -> None: ...

    @abstractmethod
    async def _release(self, lease: Lease) -> None: ...

    @abstractmethod
    async def _append(self, lease: Lease, batch: Batch) -> None: ...

    @abstractmethod
    async def _reopen(self, lease: Lease, call_id: str) -> None: ...

    @abstractmethod
    async def _page(self, run_id: str, after: int, limit: int) -> Page:
        """Return at most ``limit`` records after a seq, and whether there are more.

        May return fewer if they are large, but at least one if there is one.
        """

    @abstractmethod
    async def _decide(self, run_id: str, decisions: Mapping[str, tuple[bytes, str]]) -> None:
        """Store decisions: each encoded, with the digest that was given (may be "")."""

    @abstractmethod
    async def _stop(self, run_id: str, reason: str) -> None: ...

    @abstractmethod
    async def _commands(self, run_id: str) -> Commands | None: ...

    @abstractmethod
    async def _info(self, run_id: str) -> RunInfo: ...

    @abstractmethod
    async def _runs(self, wanted: Wanted, limit: int | None) -> list[RunInfo]: ...

    @abstractmethod
    async def _delete(self, run_id: str) -> None: ...

    @abstractmethod
    async def _delete_older_than(self, seconds: float, *, unfinished: bool) -> list[str]: ...

    @abstractmethod
    async def _aclose(self) -> None: ...

    def _watch(self, run_id: str) -> None:  # noqa: B027 - not every store need know
        """Called when the first follower or listener of a run comes, in its event loop.

        From then on the store reports what happens to the run. If that takes a moment to set up, it
        reports that something may have happened when it is done.
        """

    def _unwatch(self, run_id: str) -> None:  # noqa: B027 - as above
        """Called in the event loop when the last follower of a run has left."""

    def _written(self, batch: Batch) -> None:
        """Report records after they are stored, in the order in which they are."""
        self._tails.push(batch.run_id, batch.first, batch.lines, batch.arguments)
        if batch.changes_commands:
            self._tails.commands_changed(batch.run_id)

    def _forgotten(self, run_id: str) -> None:
        self._snapshots.forget(run_id)
        self._tails.forget(run_id)

    async def create(self, records: Sequence[Record], owner: str, seconds: float) -> Lease:
        """Create a run from its first records and acquire a lease on it, all or nothing."""
        self._check_open()
        batch = batch_of(id_of(records[0].run_id) if records else "", records)
        if batch.first != 1:
            raise UsageError(f"the first record of a run has the seq 1, not {batch.first}")
        lease = await self._create(batch, name_of(owner), span(seconds))
        self._tails.begun(batch.run_id, batch.created)
        return lease

    async def acquire(self, run_id: str, owner: str, seconds: float) -> Lease:
        """Acquire a lease for a number of seconds. Raises ``RunBusyError`` while one is valid."""
        self._check_open()
        return await self._acquire(id_of(run_id), name_of(owner), span(seconds))

    async def renew(self, lease: Lease, seconds: float) -> None:
        """Extend a lease, counted from now. Raises ``LeaseLostError`` if it was lost."""
        self._check_open()
        await self._renew(checked_lease(lease), span(seconds))

    async def release(self, lease: Lease) -> None:
        """Release a lease, so that another can be acquired at once. A lost lease is ignored.

        For a run that continues: when it pauses or ends, ``append`` releases the lease.
        """
        self._check_open()
        await self._release(checked_lease(lease))

    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        """Write records, all or none, and return when they are stored.

        They follow the last record without a gap. All up to the last one that is not a delta
        survive a crash of the machine; later ones survive a crash of the process. Records that are
        already stored are ignored, so a writer that does not know whether its write succeeded can
        repeat it. Raises ``LeaseLostError`` if the lease was lost, and ``UsageError`` for a gap
        or a run that is over.

        Records that pause or end the run release the lease: a follower that sees them can acquire
        one at once.
        """
        self._check_open()
        await self._append(checked_lease(lease), batch_of(lease.run_id, records))

    async def reopen(self, lease: Lease, call_id: str) -> None:
        """Remove a decision that cannot be used, so that the call can be decided again."""
        self._check_open()
        await self._reopen(checked_lease(lease), text(call_id, "the id of a call"))

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Record]:
        """Return the records after ``after``: all, or at most ``limit``."""
        self._check_open()
        run_id, after, wanted = id_of(run_id), place(after), limited(limit)
        records: list[Record] = []
        is_more = True
        while is_more and (wanted is None or len(records) < wanted):
            size = PAGE if wanted is None else min(PAGE, wanted - len(records))
            lines, is_more = await self._page(run_id, after + len(records), size)
            records += records_of(run_id, lines, after + len(records))
        return records

    async def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[Record, None]:
        """Yield the records after ``after``, and new ones as they come, until the run is over.

        Records that are not fetched wait in the store, not in memory.
        """
        self._check_open()
        run_id, after = id_of(run_id), place(after)
        with ExitStack() as watch:
            tail, info = await self._watched(run_id, watch)
            if info.is_over and after >= info.seq:
                return
            tail.begin(info.seq)
            while not (tail.is_over and tail.last is not None and after >= tail.last):
                records = tail.after(after)
                if records is None:
                    records = await self._old_page(info, after)
                for record in records:
                    after = record.seq
                    yield record
                    if record.event.ends_run:
                        return
                if not records:
                    await tail.grown(after)

    async def _watched(self, run_id: str, watch: ExitStack) -> tuple[Tail, RunInfo]:
        while True:
            tail = watch.enter_context(self._tails.watching(run_id))
            info = await self._info(run_id)
            if tail.is_of(info.created):
                return tail, info
            # Other followers here hold on to a run that had this name before.
            watch.close()
            self._tails.begun(run_id, info.created)

    async def _old_page(self, info: RunInfo, after: int) -> list[Record]:
        self._check_open()
        lines, _ = await self._page_of(info.run_id, info.created, after, PAGE)
        if not lines:
            raise StoreError(f"the log of the run {info.run_id!r} has lost what came after {after}")
        return records_of(info.run_id, lines, after)

    async def _page_of(self, run_id: str, created: float | None, after: int, limit: int) -> Page:
        """Return records of the run that was created then, not of one that has its name now."""
        page = await self._page(run_id, after, limit)
        if created not in (None, (await self._info(run_id)).created):
            raise RunNotFoundError(run_id)
        return page

    async def snapshot(self, run_id: str) -> RunSnapshot:
        """Return the run so far."""
        self._check_open()
        return await self._snapshots.snapshot(await self._info(id_of(run_id)))

    async def watch(self, run_id: str) -> AsyncGenerator[RunSnapshot | Record, None]:
        """Yield a snapshot, then the records that follow it, until the run is over."""
        snapshot = await self.snapshot(run_id)
        yield snapshot
        rest = self.follow(run_id, snapshot.seq)
        try:
            async for record in rest:
                yield record
        finally:
            await rest.aclose()

    async def decide(self, run_id: str, decisions: Decisions) -> None:
        """Decide on pending calls: on all of them, or on none.

        Raises ``AlreadyDecidedError`` if a call has a decision, and ``UsageError`` if a call is not
        pending or a digest is not that of its request. Only the tool knows whether edited arguments
        are valid: the driver removes a decision whose arguments are not (``reopen``).
        """
        self._check_open()
        await self._decide(id_of(run_id), approvals_to_json(decisions))

    async def stop(self, run_id: str, reason: str = "") -> None:
        """Ask the driver of a run to end it. The first reason counts.

        Raises ``UsageError`` if the run is over. A run without a driver ends when it is resumed:
        see ``Agent.stop``.
        """
        self._check_open()
        await self._stop(id_of(run_id), text(reason, "the reason of a stop"))

    async def commands(self, run_id: str) -> Commands:
        """Return the commands that wait for the driver."""
        self._check_open()
        return await self._commands(id_of(run_id)) or Commands()

    async def watch_commands(self, run_id: str) -> AsyncGenerator[Commands, None]:
        """Yield the waiting commands, and again after each change, until the run is over."""
        self._check_open()
        with ExitStack() as watch:
            tail, _ = await self._watched(id_of(run_id), watch)
            last: Commands | None = None
            while True:
                version = tail.commands_version
                commands = await self._commands(run_id)
                if commands is None:
                    return
                if commands != last:
                    yield commands
                last = commands
                await tail.commands(version)

    async def info(self, run_id: str) -> RunInfo:
        """Return a summary of a run."""
        self._check_open()
        return await self._info(id_of(run_id))

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        conversation_id: str | None = None,
        user: str | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        """List runs, those with the newest records first.

        ``None`` does not restrict. ``user=""`` selects runs without a user.
        """
        self._check_open()
        return await self._runs(wanted(status, conversation_id, user), limited(limit))

    async def delete(self, run_id: str) -> None:
        """Delete a run. Raises ``RunBusyError`` while it is driven."""
        self._check_open()
        await self._delete(id_of(run_id))
        self._forgotten(run_id)

    async def delete_older_than(self, seconds: float, *, unfinished: bool = False) -> int:
        """Delete runs that ended at least ``seconds`` ago, and return how many.

        ``unfinished`` also deletes runs that nothing was written to for so long, unless a process
        drives them.
        """
        self._check_open()
        expired = await self._delete_older_than(age(seconds), unfinished=unfinished)
        for run_id in expired:
            self._forgotten(run_id)
        return len(expired)

    async def aclose(self) -> None:
        """Close the store. Its followers get a ``StoreError``."""
        if self._is_closed:
            return
        self._is_closed = True
        self._tails.fail(_closed)
        await self._aclose()

    def _check_open(self) -> None:
        if self._is_closed:
            raise _closed()


def _closed() -> StoreError:
    return StoreError("the store is closed: open it anew")


class StoredRun(Struct, kw_only=True):
    """A run without its records, and the rules by which it changes."""

    run_id: str
    conversation_id: str
    agent: str
    status: RunStatus
    seq: int
    created: float
    updated: float
    token: int
    owner: str | None  # of the last lease; None if it was given up
    until: float  # when that expires
    lasts: float  # for how many seconds it was given
    pending: dict[str, str]  # the digests of pending requests, by call
    decisions: dict[str, str | None]  # as JSON; None for those that were used
    stop_reason: str | None
    user: str
    commands_version: int  # changes whenever what was posted may have changed

    @classmethod
    def created_with(cls, batch: Batch, owner: str, seconds: float, now: float) -> "StoredRun":
        state = cls(
            run_id=batch.run_id,
            conversation_id=batch.conversation_id,
            agent=batch.agent,
            status="running",
            seq=0,
            created=batch.created,
            updated=batch.updated,
            token=FIRST_TOKEN,
            owner=owner,
            until=now + seconds,
            lasts=seconds,
            pending={},
            decisions={},
            stop_reason=None,
            user=batch.user,
            commands_version=0,
        )
        state._take(batch)
        return state

    @property
    def is_over(self) -> bool:
        return self.status not in ("running", "paused")

    def acquire(self, owner: str, seconds: float, now: float) -> Lease:
        if self._is_driven(now):
            raise self._busy(now)
        self.token += 1
        self.owner = owner
        self._last_for(seconds, now)
        return Lease(self.run_id, owner, self.token)

    def renew(self, lease: Lease, seconds: float, now: float) -> None:
        self.check(lease, now)
        self._last_for(seconds, now)

    def _last_for(self, seconds: float, now: float) -> None:
        self.until, self.lasts = now + seconds, seconds

    def release(self, lease: Lease) -> bool:
        """Release a lease. Return False if it was lost."""
        if lease.token != self.token:
            return False
        self._let_go()
        return True

    def _let_go(self) -> None:
        self.token += 1
        self.owner, self.until, self.lasts = None, 0.0, 0.0

    def check(self, lease: Lease, now: float) -> None:
        if lease.token != self.token:
            raise LeaseLostError(self.run_id, self.owner or "", max(0.0, self.until - now))

    def check_deletable(self, now: float) -> None:
        if self._is_driven(now) and not self.is_over:
            raise self._busy(now)

    def has_expired(self, before: float, now: float, *, unfinished: bool) -> bool:
        is_idle = self.is_over or (unfinished and not self._is_driven(now))
        return is_idle and self.updated <= before

    def _is_driven(self, now: float) -> bool:
        # If it seems to be good for much longer than it was given for, the clock was set back. A
        # living owner renews it; a dead one must not keep it until that time comes again.
        return self.owner is not None and 0 < self.until - now <= 2 * self.lasts

    def _busy(self, now: float) -> RunBusyError:
        return RunBusyError(self.run_id, self.owner or "", max(0.0, self.until - now))

    def append(
        self, lease: Lease, batch: Batch, there: Callable[[], list[bytes]], now: float
    ) -> bool:
        """Apply a batch. Return False if its records are stored already.

        ``there`` reads what the log has in its place.
        """
        if batch.last <= self.seq and there() == batch.lines:
            return False
        self.check(lease, now)
        if batch.last <= self.seq:
            raise other_record(self.run_id, batch.first)
        if self.is_over:
            raise run_is_over(self.run_id, self.status)
        if batch.first != self.seq + 1:
            raise gap(self.run_id, self.seq, batch.first)
        self._take(batch)
        return True

    def _take(self, batch: Batch) -> None:
        self.seq, self.updated = batch.last, batch.updated
        self.status = batch.status or self.status
        self.commands_version += batch.changes_commands
        if batch.rests:
            self._let_go()
        for call_id, digest in batch.asked:
            if digest is None:
                self.pending.pop(call_id, None)
                self.decisions[call_id] = None
            elif self.pending.get(call_id) != digest:
                self.pending[call_id] = digest
                self.decisions.pop(call_id, None)

    def decide(self, decisions: Mapping[str, tuple[bytes, str]]) -> None:
        for call_id, (_, digest) in decisions.items():
            if call_id in self.decisions:
                raise AlreadyDecidedError(call_id)
            if self.is_over or call_id not in self.pending:
                raise not_pending(self.run_id, call_id)
            if digest and digest != self.pending[call_id]:
                raise other_request(call_id)
        for call_id, (line, _) in decisions.items():
            self.decisions[call_id] = line.decode()
        self.commands_version += 1

    def reopen(self, call_id: str) -> None:
        if self.decisions.get(call_id) is not None:
            del self.decisions[call_id]
            self.commands_version += 1

    def stop(self, reason: str) -> None:
        if self.is_over:
            raise run_is_over(self.run_id, self.status)
        if self.stop_reason is None:
            self.stop_reason = reason
            self.commands_version += 1

    def watch_commands(self) -> Commands | None:
        """Return what waits for the driver of the run; None if the run is over."""
        if self.is_over:
            return None
        waiting = {call_id: line for call_id, line in self.decisions.items() if line is not None}
        return commands_from_json(waiting, self.stop_reason)

    def info(self, now: float) -> RunInfo:
        is_driven = self._is_driven(now)
        return RunInfo(
            run_id=self.run_id,
            conversation_id=self.conversation_id,
            agent=self.agent,
            status=self.status,
            seq=self.seq,
            created=self.created,
            updated=self.updated,
            owner=self.owner if is_driven else None,
            leased_until=self.until or None,
            pending=dict(self.pending),
            has_commands=self.watch_commands() not in (None, Commands()),
            user=self.user,
        )
