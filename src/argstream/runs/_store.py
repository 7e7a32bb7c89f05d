"""The contract of stores: ``StoredRun`` has the rules of a run, ``Store`` what backends share.

A backend implements ten methods. It stores ``StoredRun`` values and lines of JSON, and applies the
rules to them atomically. It reports changes as soon as they are stored, from any thread. If it
knows what changed, it calls ``_report_written`` or ``_report_deleted``. If something may have
changed, perhaps in another process, it calls ``_tails.mark_stale`` and ``_tails.commands_changed``.
Extra calls are harmless.

The rules:

- A run that exists cannot be created again (``UsageError``). The first token of a run is 1.
- ``acquire`` raises ``RunBusyError`` while a lease is valid, also one of the same owner. A lease is
  valid until it expires by the store's clock, or until its owner is known to be dead: a process of
  this host that has ended. Each token is higher than the last.
- ``renew``, ``append`` and ``reopen`` raise ``LeaseLostError`` if the token is not the newest. A
  lease that has expired can still be used for them until another process acquires one.
- Records that pause or end the run release the lease. ``release`` increases the token, so that the
  lease can no longer be used. It ignores a lost lease and an unknown run.
- ``append`` ignores records that the log already has, byte for byte, whatever the lease. So a
  writer that does not know whether its write succeeded may repeat it. It raises ``UsageError`` if
  the log has other records with these seqs, if the run is over, or if the batch does not follow
  directly after the last record.
- A request makes its call pending. An earlier decision is dropped unless the same digest was
  pending. After ``ApprovalDecided``, the call cannot be decided again, and its waiting decision is
  removed.
- ``decide``: for each call, in order: ``AlreadyDecidedError`` if there is a decision, used or not;
  ``UsageError`` if the run is over, the call is not pending, or the digest is another. All or none.
- ``stop``: ``UsageError`` if the run is over. A second stop does nothing.
- ``delete``: ``RunBusyError`` while a lease is valid and the run is not over.
- Lists have the newest ``updated`` first, then the higher ID.
"""

import asyncio
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from textwrap import shorten
from typing import Any, Final, NamedTuple, Self, TypeVar

from msgspec import Struct

from argstream.errors import (
    AlreadyDecidedError,
    ConversationNotFoundError,
    LeaseLostError,
    RunBusyError,
    RunNotFoundError,
    StoreError,
    UsageError,
)
from argstream.events import RunSnapshot, RunStatus
from argstream.runs._batches import (
    Batch,
    Filter,
    batch_of,
    checked_age,
    checked_filter,
    checked_id,
    checked_lease,
    checked_limit,
    checked_owner,
    checked_seconds,
    checked_seq,
    checked_text,
    checked_user,
    decode_commands,
    delta_batch,
    encode_decisions,
    run_is_over,
    store_is_closed,
)
from argstream.runs._hub import PAGE, Page, Receive, Snapshots, Tails, Watch
from argstream.runs._records import (
    Commands,
    ConversationInfo,
    Decisions,
    Launch,
    Lease,
    Owner,
    Record,
    RunInfo,
)

_Answer = TypeVar("_Answer")

FIRST_TOKEN: Final = 1
_TOKENS: Final = 2**20
_PROMPT_CHARACTERS: Final = 200
_TITLE_CHARACTERS: Final = 80
_BOOT_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)
"""Unlike the monotonic clock, it advances while the machine is suspended. Only on Linux."""


class Now(NamedTuple):
    """The time, by the clocks of a store."""

    wall: float  # Unix time
    lease: float  # the clock of leases, with an arbitrary zero

    @classmethod
    def here(cls, clock: Callable[[], float] | None = None) -> "Now":
        """Return the time of this machine. Leases expire by a clock that cannot be set.

        ``clock`` replaces both clocks in tests.
        """
        if clock is not None:
            return cls(clock(), clock())
        boot = time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)
        return cls(time.time(), boot)


class Store(ABC):
    """Keeps the logs of runs. Every method may be called from any event loop, and concurrently.

    All raise ``StoreError`` if the store does not work, and ``RunNotFoundError`` for a run that it
    does not have. A subclass implements the methods that start with ``_``.
    """

    def __init__(self) -> None:
        self._tails = Tails(self._page, self._watch, self._unwatch)
        self._snapshots = Snapshots(self._page)
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.aclose()

    @abstractmethod
    async def _create(self, make: "Callable[[Now], StoredRun]", batch: Batch) -> None:
        """Store a new run and its first records, and its conversation, with a title if it is new.

        Raises ``run_exists(…)`` if there is such a run.
        """

    @abstractmethod
    async def _change(
        self, run_id: str, change: "Callable[[StoredRun, Now], _Answer]", *, is_durable: bool = True
    ) -> _Answer:
        """Apply a change atomically. It may be called repeatedly, and may raise."""

    @abstractmethod
    async def _append(self, lease: Lease, batch: Batch) -> None:
        """Apply ``StoredRun.append`` and write the lines, atomically, then report them."""

    @abstractmethod
    async def _load(self, run_id: str) -> "tuple[StoredRun, Now]":
        """Return a run without its records, as it is now."""

    @abstractmethod
    async def _list(self, wanted: Filter, limit: int | None) -> "tuple[Sequence[StoredRun], Now]":
        """Return the wanted runs, those with the newest records first."""

    @abstractmethod
    async def _page(self, run_id: str, after: int, limit: int) -> Page:
        """Return at most ``limit`` records after a seq, and whether there are more.

        May return fewer if they are large, but at least one if there is one.
        """

    @abstractmethod
    async def _delete(
        self, run_ids: Sequence[str], allow: "Callable[[StoredRun, Now], bool]"
    ) -> list[str]:
        """Delete the runs that exist and that ``allow`` returns True for. Return their IDs.

        A conversation without runs is deleted too.
        """

    @abstractmethod
    async def _conversations(
        self, user: str | None, limit: int | None, *, deleted: bool
    ) -> list[ConversationInfo]:
        """Return the conversations of a user, or of all, the newest first."""

    @abstractmethod
    async def _change_conversation(
        self, conversation_id: str, user: str, changes: Mapping[str, Any]
    ) -> bool:
        """Change fields of a conversation. Return False if there is none."""

    @abstractmethod
    async def _aclose(self) -> None:
        """Close the store. From then on, the other methods raise ``store_is_closed()``."""

    def _watch(self, run_id: str) -> None:  # noqa: B027 - optional
        """Called in the event loop of the first follower or listener of a run.

        From then on, the store reports changes of the run. If the set-up is asynchronous, the store
        calls ``_tails.mark_stale`` when it is done.
        """

    def _unwatch(self, run_id: str) -> None:  # noqa: B027 - optional
        """Called in the event loop when the last follower of a run has left."""

    def _report_written(self, batch: Batch) -> None:
        """Report records after they are stored, in their order in the log."""
        self._tails.push(batch.run_id, batch.first, batch.as_stored())
        if batch.ends_run:
            self._tails.commands_changed(batch.run_id)

    def _report_deleted(self, run_id: str) -> None:
        self._snapshots.forget(run_id)
        self._tails.forget(run_id)

    async def create(
        self,
        records: Sequence[Record],
        owner: str | Owner,
        seconds: float,
        launch: Launch | None = None,
    ) -> Lease:
        """Create a run from its first records and acquire a lease on it, all or nothing.

        Its ID must be new, also after a run is deleted: followers do not tell two runs apart.
        ``launch`` is how the run can be resumed from a shell.
        """
        batch = batch_of(checked_id(records[0].run_id) if records else "", records)
        if batch.first != 1:
            raise UsageError(f"the first record of a run has the seq 1, not {batch.first}")
        process, lasts = checked_owner(owner), checked_seconds(seconds)

        def make(now: Now) -> StoredRun:
            return StoredRun.created_with(batch, process, lasts, launch or Launch(), now)

        await self._create(make, batch)
        return Lease(batch.run_id, process.name, FIRST_TOKEN, batch.last)

    async def acquire(self, run_id: str, owner: str | Owner, seconds: float) -> Lease:
        """Acquire a lease for a number of seconds. Raises ``RunBusyError`` while one is valid."""
        run_id, process, lasts = checked_id(run_id), checked_owner(owner), checked_seconds(seconds)
        return await self._change(run_id, lambda run, now: run.acquire(process, lasts, now))

    async def renew(self, lease: Lease, seconds: float) -> None:
        """Extend a lease, counted from now. Raises ``LeaseLostError`` if it was lost."""
        run_id, lasts = checked_lease(lease).run_id, checked_seconds(seconds)
        await self._change(run_id, lambda run, now: run.renew(lease, lasts, now), is_durable=False)

    async def release(self, lease: Lease) -> None:
        """Release a lease, so that another can be acquired at once. A lost lease is ignored.

        For a run that continues: when it pauses or ends, ``append`` releases the lease.
        """
        with suppress(RunNotFoundError):
            await self._change(
                checked_lease(lease).run_id, lambda run, _: run.release(lease), is_durable=False
            )

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
        await self._append(checked_lease(lease), batch_of(lease.run_id, records))

    async def append_deltas(self, lease: Lease, records: Sequence[Record]) -> None:
        """Write deltas that the driver of the run built. They are not checked again."""
        await self._append(lease, delta_batch(lease.run_id, records))

    async def reopen(self, lease: Lease, call_id: str) -> None:
        """Remove a decision that cannot be used, so that the call can be decided again."""
        call_id = checked_text(call_id, "the id of a call")
        run_id = checked_lease(lease).run_id
        await self._change(run_id, lambda run, now: run.reopen(lease, call_id, now))
        self._tails.commands_changed(run_id)

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Record]:
        """Return the records after ``after``: all, or at most ``limit``."""
        run_id, after, wanted = checked_id(run_id), checked_seq(after), checked_limit(limit)
        records: list[Record] = []
        is_more = True
        while is_more and (wanted is None or len(records) < wanted):
            size = PAGE if wanted is None else min(PAGE, wanted - len(records))
            page, is_more = await self._page(run_id, after + len(records), size)
            records += page
        return records

    async def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[Record, None]:
        """Yield the records after ``after``, and new ones as they come, until the run is over.

        Records that are not fetched wait in the store, not in memory.
        """
        async with aclosing(self.follow_pages(run_id, after)) as pages:
            async for page in pages:
                for record in page:
                    yield record

    async def follow_pages(
        self, run_id: str, after: int = 0, receive: Receive | None = None
    ) -> AsyncGenerator[Sequence[Record], None]:
        """Yield the records as ``follow`` does, but all that are there at once.

        ``receive`` gets records that arrive while the follower waits, which saves a turn of the
        event loop. Those that end the run or do not directly follow the last one are yielded.
        """
        run_id, after = checked_id(run_id), checked_seq(after)
        with self._tails.watch(run_id) as tail:
            run, _ = await self._load(run_id)
            if run.is_over and after >= run.seq:
                return
            tail.begin(run.seq)
            while not (tail.is_over and tail.last is not None and after >= tail.last):
                records = tail.after(after)
                if records is None:
                    records, _ = await self._page(run_id, after, PAGE)
                    if not records:
                        lost = f"the log of run {run_id!r} has lost its records after {after}"
                        raise StoreError(lost)
                if records:
                    yield records
                    after = records[-1].seq
                    if records[-1].event.ends_run:
                        return
                if tail.last is None or after >= tail.last:
                    after = await tail.wait_for_records(after, receive)

    async def snapshot(self, run_id: str) -> RunSnapshot:
        """Return the run so far."""
        return await self._snapshots.snapshot(checked_id(run_id))

    async def watch(self, run_id: str) -> AsyncGenerator[RunSnapshot | Record, None]:
        """Yield a snapshot, then the records that follow it, until the run is over."""
        snapshot = await self.snapshot(run_id)
        yield snapshot
        async with aclosing(self.follow(run_id, snapshot.seq)) as rest:
            async for record in rest:
                yield record

    async def decide(self, run_id: str, decisions: Decisions) -> None:
        """Decide on pending calls: on all of them, or on none.

        Raises ``AlreadyDecidedError`` if a call has a decision, and ``UsageError`` if a call is not
        pending or a digest is not that of its request. Only the tool knows whether edited arguments
        are valid: the driver removes a decision whose arguments are not (``reopen``).
        """
        encoded = encode_decisions(decisions)
        await self._change(checked_id(run_id), lambda run, _: run.decide(encoded))
        self._tails.commands_changed(run_id)

    async def stop(self, run_id: str, reason: str = "") -> None:
        """Ask the driver of a run to end it. The first reason counts.

        Raises ``UsageError`` if the run is over. A run without a driver ends when it is resumed:
        see ``Agent.stop``.
        """
        reason = checked_text(reason, "the reason of a stop")
        await self._change(checked_id(run_id), lambda run, _: run.stop(reason))
        self._tails.commands_changed(run_id)

    async def commands(self, run_id: str) -> Commands:
        """Return the commands that wait for the driver."""
        run, _ = await self._load(checked_id(run_id))
        return run.waiting_commands() or Commands()

    def on_commands(self, run_id: str, notify: Callable[[], None]) -> Watch:
        """Call a function in this event loop when commands of a run may have changed.

        It is also called if the store fails. Then it must be registered again.
        """
        self._check_open()
        return self._tails.watch(checked_id(run_id), notify)

    async def watch_commands(self, run_id: str) -> AsyncGenerator[Commands, None]:
        """Yield the waiting commands, and again when others were sent, until the run is over."""
        changed = asyncio.Event()
        last: Commands | None = None
        with self.on_commands(run_id, changed.set) as tail:
            while True:
                changed.clear()
                run, _ = await self._load(run_id)
                commands = run.waiting_commands()
                if commands is None:
                    return
                if commands != last:
                    yield commands
                last = commands
                await changed.wait()
                tail.check()

    async def info(self, run_id: str) -> RunInfo:
        """Return a summary of a run."""
        run, now = await self._load(checked_id(run_id))
        return run.info(now)

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
        only = checked_filter(status, conversation_id, user)
        found, now = await self._list(only, checked_limit(limit))
        return [run.info(now) for run in found]

    async def delete(self, run_id: str) -> None:
        """Delete a run. Raises ``RunBusyError`` while it is driven."""
        if not await self._delete([checked_id(run_id)], StoredRun.check_deletable):
            raise RunNotFoundError(run_id)
        self._report_deleted(run_id)

    async def delete_older_than(self, seconds: float, *, unfinished: bool = False) -> int:
        """Delete runs that ended at least ``seconds`` ago, and return how many.

        ``unfinished`` also deletes runs that nothing was written to for so long, unless a process
        drives them.
        """
        least = checked_age(seconds)
        found, _ = await self._list(Filter(None, None, None, older_than=least), None)

        def is_expired(run: StoredRun, now: Now) -> bool:
            return run.has_expired(now.wall - least, now, unfinished=unfinished)

        expired = await self._delete([run.run_id for run in found], is_expired) if found else []
        for run_id in expired:
            self._report_deleted(run_id)
        return len(expired)

    async def conversations(
        self, *, user: str | None = None, deleted: bool = False, limit: int | None = None
    ) -> list[ConversationInfo]:
        """List conversations, those with the newest run first.

        ``user`` is as in ``runs``. Those that were deleted are only listed with ``deleted``.
        """
        of_user = None if user is None else checked_user(user)
        return await self._conversations(of_user, checked_limit(limit), deleted=deleted)

    async def rename_conversation(self, id: str, title: str, *, user: str = "") -> None:
        """Set the title of a conversation. Raises ``ConversationNotFoundError``."""
        await self._update_conversation(id, user, {"title": checked_text(title, "the title")})

    async def delete_conversation(self, id: str, *, user: str = "") -> None:
        """Mark a conversation as deleted. Its runs stay until they are deleted."""
        await self._update_conversation(id, user, {"deleted_at": time.time()})

    async def restore_conversation(self, id: str, *, user: str = "") -> None:
        """Undo ``delete_conversation``."""
        await self._update_conversation(id, user, {"deleted_at": None})

    async def _update_conversation(self, id: str, user: str, changes: Mapping[str, Any]) -> None:
        conversation_id = checked_text(id, "the id of a conversation")
        if not await self._change_conversation(conversation_id, checked_user(user), changes):
            raise ConversationNotFoundError(id)

    async def aclose(self) -> None:
        """Close the store. Its followers get a ``StoreError``."""
        if self._is_closed:
            return
        self._is_closed = True
        self._tails.fail(store_is_closed)
        await self._aclose()

    def _check_open(self) -> None:
        if self._is_closed:
            raise store_is_closed()


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
    owner: Owner | None  # of the last lease; None if it was released
    until: float = 0.0  # when that lease expires, by the clock of leases
    leased_until: float | None = None  # the same in Unix time
    lasts: float = 0.0  # the duration of that lease in seconds
    pending: dict[str, str] = {}  # the digests of pending requests, by call
    decisions: dict[str, str | None] = {}  # as JSON; None for those that were used
    stop_reason: str | None = None
    user: str
    prompt: str = ""  # its first characters
    replaces: str = ""
    launch: Launch
    commands_version: int = 0  # changes whenever the waiting commands may have changed

    @classmethod
    def created_with(
        cls, batch: Batch, owner: Owner, seconds: float, launch: Launch, now: Now
    ) -> "StoredRun":
        run = cls(
            run_id=batch.run_id,
            conversation_id=batch.records[0].conversation_id,
            agent=batch.records[0].agent,
            status="running",
            seq=0,
            created=batch.records[0].time,
            updated=batch.updated,
            token=FIRST_TOKEN,
            owner=owner,
            user=batch.start.user,
            prompt=batch.start.prompt[:_PROMPT_CHARACTERS],
            replaces=batch.start.replaces,
            launch=launch,
        )
        run._extend(seconds, now)
        run._apply(batch)
        return run

    @property
    def is_over(self) -> bool:
        return self.status not in ("running", "paused")

    @property
    def title(self) -> str:
        """The title of a conversation that begins with this run."""
        lines = self.prompt.strip().splitlines()
        return shorten(lines[0], _TITLE_CHARACTERS, placeholder="…") if lines else ""

    def acquire(self, owner: Owner, seconds: float, now: Now) -> Lease:
        if self._is_driven(now):
            raise self._busy(now)
        # If a cluster loses a lease in a failover, the next lease has another token, so the process
        # that held the lost one is still fenced off.
        self.token += 1 + secrets.randbelow(_TOKENS)
        self.owner = owner
        self._extend(seconds, now)
        return Lease(self.run_id, owner.name, self.token, self.seq)

    def renew(self, lease: Lease, seconds: float, now: Now) -> None:
        if lease.token != self.token:
            raise self._lost(now)
        self._extend(seconds, now)

    def _extend(self, seconds: float, now: Now) -> None:
        self.until, self.lasts = now.lease + seconds, seconds
        self.leased_until = now.wall + seconds

    def release(self, lease: Lease) -> None:
        if lease.token == self.token:
            self._drop_lease()

    def _drop_lease(self) -> None:
        self.token += 1
        self.owner, self.leased_until, self.until, self.lasts = None, None, 0.0, 0.0

    def check_deletable(self, now: Now) -> bool:
        """Return True, or raise ``RunBusyError`` while the run is driven."""
        if self._is_driven(now) and not self.is_over:
            raise self._busy(now)
        return True

    def has_expired(self, before: float, now: Now, *, unfinished: bool) -> bool:
        is_idle = self.is_over or (unfinished and not self._is_driven(now))
        return is_idle and self.updated <= before

    @property
    def _owner_name(self) -> str:
        return "" if self.owner is None else self.owner.name

    def _is_driven(self, now: Now) -> bool:
        # A lease that seems to be valid for more than twice its duration means that the clock was
        # set back. It counts as expired, or the lease of a dead owner would last until then.
        is_valid = self.owner is not None and 0 < self.until - now.lease <= 2 * self.lasts
        return is_valid and self.owner is not None and not self.owner.is_dead

    def _lost(self, now: Now) -> LeaseLostError:
        return LeaseLostError(self.run_id, self._owner_name, max(0.0, self.until - now.lease))

    def _busy(self, now: Now) -> RunBusyError:
        return RunBusyError(self.run_id, self._owner_name, max(0.0, self.until - now.lease))

    def append(
        self, lease: Lease, batch: Batch, stored: Callable[[], list[bytes]], now: Callable[[], Now]
    ) -> bool:
        """Apply a batch. Return False if its records are stored already.

        ``stored`` reads the records that the log has with the seqs of the batch.
        """
        if batch.last <= self.seq and stored() == batch.lines:
            return False
        if lease.token != self.token:
            raise self._lost(now())
        if batch.last <= self.seq:
            raise UsageError(f"the run {self.run_id!r} has other records from seq {batch.first} on")
        if self.is_over:
            raise run_is_over(self.run_id, self.status)
        if batch.first != self.seq + 1:
            expected = self.seq + 1
            raise UsageError(f"run {self.run_id!r} expects seq {expected}, not {batch.first}")
        self._apply(batch)
        return True

    def _apply(self, batch: Batch) -> None:
        self.seq, self.updated = batch.last, batch.updated
        self.status = batch.status or self.status
        self.commands_version += batch.ends_run
        if batch.releases_lease:
            self._drop_lease()
        for call_id, digest in batch.approvals:
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
                where = f"in the run {self.run_id!r}"
                raise UsageError(f"no pending approval for call {call_id!r} {where}")
            if digest and digest != self.pending[call_id]:
                raise UsageError(
                    f"the digest does not match the request for call {call_id!r}. Read the request "
                    "again, then decide"
                )
        for call_id, (line, _) in decisions.items():
            self.decisions[call_id] = line.decode()
        self.commands_version += 1

    def reopen(self, lease: Lease, call_id: str, now: Now) -> None:
        if lease.token != self.token:
            raise self._lost(now)
        if self.decisions.get(call_id) is not None:
            del self.decisions[call_id]
            self.commands_version += 1

    def stop(self, reason: str) -> None:
        if self.is_over:
            raise run_is_over(self.run_id, self.status)
        if self.stop_reason is None:
            self.stop_reason = reason
            self.commands_version += 1

    def waiting_commands(self) -> Commands | None:
        """Return what waits for the driver of the run; None if the run is over."""
        if self.is_over:
            return None
        waiting = {call_id: line for call_id, line in self.decisions.items() if line is not None}
        return decode_commands(waiting, self.stop_reason)

    def info(self, now: Now) -> RunInfo:
        has_commands = self.stop_reason is not None or any(self.decisions.values())
        return RunInfo(
            **{name: getattr(self, name) for name in _SHARED_FIELDS},
            owner=self._owner_name if self._is_driven(now) else None,
            pending=dict(self.pending),
            has_commands=has_commands and not self.is_over,
        )


_SHARED_FIELDS: Final = [
    name
    for name in RunInfo.__struct_fields__
    if name in StoredRun.__struct_fields__ and name not in ("owner", "pending")
]
