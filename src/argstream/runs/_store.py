"""What all stores share: checks, following a run, snapshots, and listening to commands.

A store implements the abstract methods. It reports what happens as soon as it is stored, from any
thread: ``_written`` and ``_forgotten`` if it knows what has happened; ``_tails.stale`` and
``_tails.posts_changed`` if something may have, perhaps in another process. Reporting too often does
no harm. ``_watch`` and ``_unwatch`` say which runs have followers in this process.

The rules, in the order in which they are checked:

- ``_begin``: a run that exists is a ``UsageError``. The first token is 1.
- ``_claim``: ``UnknownRun``; ``RunTaken`` while any claim is good, also one of the same owner. The
  token is higher than the last.
- ``_renew``, ``_append``, ``_reopen``: ``UnknownRun``; ``RunTaken`` (``lost``) if the token is not
  the newest. A claim that has run out but was not taken over may go on.
- ``_begin``, ``_append``: a batch after which the run is paused or over gives up the claim.
- ``_release``: if the token is the newest, the run has no owner, and the token grows by one, so
  that the claim is lost. Otherwise it does nothing, also for an unknown run.
- ``_append``: if the log has exactly these records, to the byte, nothing is done, whatever the
  claim: a writer that does not know whether its write succeeded may repeat it. Other records under
  their seqs are a ``UsageError``; so is a run that is over, or a batch that does not begin right
  after the last record (``other_record``, ``run_is_over``, ``gap``).
- For each of ``batch.asked``, in order: a digest makes the call pending. An earlier decision is
  dropped unless the same digest was pending. None makes the call decided for good, and what waited
  in ``posted`` is gone.
- ``_decide``: ``UnknownRun``; then for each call, in order: ``AlreadyDecided`` if there is a
  decision, used or not; ``UsageError`` if the run is over or the call is not pending
  (``nobody_is_asked``), or a digest was given and is another (``other_request``). All or none.
- ``_stop``: ``UnknownRun``; ``UsageError`` if the run is over. A second stop does nothing.
- ``_page``, ``_info``, ``_posts``: ``UnknownRun``. ``_posts`` returns None once the run is over.
- ``_delete``: ``UnknownRun``; ``RunTaken`` while a claim is good and the run is not over.
- ``_runs``: newest ``updated`` first, then the higher ``run_id``.
- ``_expire``: runs that are over with ``updated <= now - seconds``; with ``unfinished`` also others
  without a good claim. Returns their IDs.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final, Self

from msgspec import Struct

from argstream.errors import AlreadyDecided, RunTaken, StoreFailure, UnknownRun, UsageError
from argstream.events import RunStatus
from argstream.runs._batches import (
    ENDS,
    Batch,
    Wanted,
    age,
    approvals_to_json,
    batch_of,
    claimed,
    gap,
    id_of,
    limited,
    lost,
    name_of,
    nobody_is_asked,
    other_record,
    other_request,
    place,
    posts_from_json,
    records_of,
    run_is_over,
    span,
    text,
    wanted,
)
from argstream.runs._hub import PAGE, Page, Tail, Tails, Views
from argstream.runs._records import Claim, Decisions, Posts, Record, RunInfo

FIRST_TOKEN: Final = 1


class BaseStore(ABC):
    """A store, except for where it keeps the logs. ``Store`` documents the public methods."""

    def __init__(self) -> None:
        self._tails = Tails(self._page_of, self._watch, self._unwatch)
        self._views = Views(self._page_of)
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.aclose()

    @abstractmethod
    async def _begin(self, batch: Batch, owner: str, seconds: float) -> Claim: ...

    @abstractmethod
    async def _claim(self, run_id: str, owner: str, seconds: float) -> Claim: ...

    @abstractmethod
    async def _renew(self, claim: Claim, seconds: float) -> None: ...

    @abstractmethod
    async def _release(self, claim: Claim) -> None: ...

    @abstractmethod
    async def _append(self, claim: Claim, batch: Batch) -> None: ...

    @abstractmethod
    async def _reopen(self, claim: Claim, call_id: str) -> None: ...

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
    async def _posts(self, run_id: str) -> Posts | None: ...

    @abstractmethod
    async def _info(self, run_id: str) -> RunInfo: ...

    @abstractmethod
    async def _runs(self, wanted: Wanted, limit: int | None) -> list[RunInfo]: ...

    @abstractmethod
    async def _delete(self, run_id: str) -> None: ...

    @abstractmethod
    async def _expire(self, seconds: float, *, unfinished: bool) -> list[str]: ...

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
        self._tails.push(batch.run_id, batch.first, batch.lines)
        if batch.changes_posts:
            self._tails.posts_changed(batch.run_id)

    def _forgotten(self, run_id: str) -> None:
        self._views.forget(run_id)
        self._tails.forget(run_id)

    async def begin(self, records: Sequence[Record], owner: str, seconds: float) -> Claim:
        self._check_open()
        batch = batch_of(id_of(records[0].run_id) if records else "", records)
        if batch.first != 1:
            raise UsageError(f"the first record of a run has the seq 1, not {batch.first}")
        claim = await self._begin(batch, name_of(owner), span(seconds))
        self._tails.begun(batch.run_id, batch.created)
        return claim

    async def claim(self, run_id: str, owner: str, seconds: float) -> Claim:
        self._check_open()
        return await self._claim(id_of(run_id), name_of(owner), span(seconds))

    async def renew(self, claim: Claim, seconds: float) -> None:
        self._check_open()
        await self._renew(claimed(claim), span(seconds))

    async def release(self, claim: Claim) -> None:
        self._check_open()
        await self._release(claimed(claim))

    async def append(self, claim: Claim, records: Sequence[Record]) -> None:
        self._check_open()
        await self._append(claimed(claim), batch_of(claim.run_id, records))

    async def reopen(self, claim: Claim, call_id: str) -> None:
        self._check_open()
        await self._reopen(claimed(claim), text(call_id, "the id of a call"))

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Record]:
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
                    if isinstance(record.event, ENDS):
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
            raise StoreFailure(
                f"the log of the run {info.run_id!r} has lost what came after {after}"
            )
        return records_of(info.run_id, lines, after)

    async def _page_of(self, run_id: str, created: float | None, after: int, limit: int) -> Page:
        """Return records of the run that was created then, not of one that has its name now."""
        page = await self._page(run_id, after, limit)
        if created not in (None, (await self._info(run_id)).created):
            raise UnknownRun(run_id)
        return page

    async def snapshot(self, run_id: str) -> Record:
        self._check_open()
        return await self._views.snapshot(await self._info(id_of(run_id)))

    async def join(self, run_id: str) -> AsyncGenerator[Record, None]:
        snapshot = await self.snapshot(run_id)
        yield snapshot
        rest = self.follow(run_id, snapshot.seq)
        try:
            async for record in rest:
                yield record
        finally:
            await rest.aclose()

    async def decide(self, run_id: str, decisions: Decisions) -> None:
        self._check_open()
        await self._decide(id_of(run_id), approvals_to_json(decisions))

    async def stop(self, run_id: str, reason: str = "") -> None:
        self._check_open()
        await self._stop(id_of(run_id), text(reason, "the reason of a stop"))

    async def posted(self, run_id: str) -> Posts:
        self._check_open()
        return await self._posts(id_of(run_id)) or Posts()

    async def posts(self, run_id: str) -> AsyncGenerator[Posts, None]:
        self._check_open()
        with ExitStack() as watch:
            tail, _ = await self._watched(id_of(run_id), watch)
            last: Posts | None = None
            while True:
                version = tail.posts_version
                posts = await self._posts(run_id)
                if posts is None:
                    return
                if posts != last:
                    yield posts
                last = posts
                await tail.posted(version)

    async def info(self, run_id: str) -> RunInfo:
        self._check_open()
        return await self._info(id_of(run_id))

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        session_id: str | None = None,
        user: str | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        self._check_open()
        return await self._runs(wanted(status, session_id, user), limited(limit))

    async def delete(self, run_id: str) -> None:
        self._check_open()
        await self._delete(id_of(run_id))
        self._forgotten(run_id)

    async def expire(self, seconds: float, *, unfinished: bool = False) -> int:
        self._check_open()
        expired = await self._expire(age(seconds), unfinished=unfinished)
        for run_id in expired:
            self._forgotten(run_id)
        return len(expired)

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._tails.fail(_closed)
        await self._aclose()

    def _check_open(self) -> None:
        if self._is_closed:
            raise _closed()


def _closed() -> StoreFailure:
    return StoreFailure("the store is closed: open it anew")


class RunState(Struct, kw_only=True):
    """A run without its records, and the rules by which it changes."""

    run_id: str
    session_id: str
    agent: str
    status: RunStatus
    seq: int
    created: float
    updated: float
    token: int
    owner: str | None  # of the last claim; None if it was given up
    until: float  # when that expires
    lasts: float  # for how many seconds it was given
    pending: dict[str, str]  # the digests of pending requests, by call
    decisions: dict[str, str | None]  # as JSON; None for those that were used
    stop_reason: str | None
    user: str
    posts_version: int  # changes whenever what was posted may have changed

    @classmethod
    def begun(cls, batch: Batch, owner: str, seconds: float, now: float) -> "RunState":
        state = cls(
            run_id=batch.run_id,
            session_id=batch.session_id,
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
            posts_version=0,
        )
        state._take(batch)
        return state

    @property
    def is_over(self) -> bool:
        return self.status not in ("running", "paused")

    def claim(self, owner: str, seconds: float, now: float) -> Claim:
        if self._is_driven(now):
            raise self._taken(now)
        self.token += 1
        self.owner = owner
        self._last_for(seconds, now)
        return Claim(self.run_id, owner, self.token)

    def renew(self, claim: Claim, seconds: float, now: float) -> None:
        self.check(claim, now)
        self._last_for(seconds, now)

    def _last_for(self, seconds: float, now: float) -> None:
        self.until, self.lasts = now + seconds, seconds

    def release(self, claim: Claim) -> bool:
        """Give up a claim. Return False if it was lost."""
        if claim.token != self.token:
            return False
        self._let_go()
        return True

    def _let_go(self) -> None:
        self.token += 1
        self.owner, self.until, self.lasts = None, 0.0, 0.0

    def check(self, claim: Claim, now: float) -> None:
        if claim.token != self.token:
            raise self._taken(now)

    def check_deletable(self, now: float) -> None:
        if self._is_driven(now) and not self.is_over:
            raise self._taken(now)

    def has_expired(self, before: float, now: float, *, unfinished: bool) -> bool:
        is_idle = self.is_over or (unfinished and not self._is_driven(now))
        return is_idle and self.updated <= before

    def _is_driven(self, now: float) -> bool:
        # If it seems to be good for much longer than it was given for, the clock was set back. A
        # living owner renews it; a dead one must not keep it until that time comes again.
        return self.owner is not None and 0 < self.until - now <= 2 * self.lasts

    def _taken(self, now: float) -> RunTaken:
        return lost(self.run_id, self.owner, self.until - now)

    def append(
        self, claim: Claim, batch: Batch, there: Callable[[], list[bytes]], now: float
    ) -> bool:
        """Apply a batch. Return False if its records are stored already.

        ``there`` reads what the log has in its place.
        """
        if batch.last <= self.seq and there() == batch.lines:
            return False
        self.check(claim, now)
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
        self.posts_version += batch.changes_posts
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
                raise AlreadyDecided(call_id)
            if self.is_over or call_id not in self.pending:
                raise nobody_is_asked(self.run_id, call_id)
            if digest and digest != self.pending[call_id]:
                raise other_request(call_id)
        for call_id, (line, _) in decisions.items():
            self.decisions[call_id] = line.decode()
        self.posts_version += 1

    def reopen(self, call_id: str) -> None:
        if self.decisions.get(call_id) is not None:
            del self.decisions[call_id]
            self.posts_version += 1

    def stop(self, reason: str) -> None:
        if self.is_over:
            raise run_is_over(self.run_id, self.status)
        if self.stop_reason is None:
            self.stop_reason = reason
            self.posts_version += 1

    def posts(self) -> Posts | None:
        """Return what waits for the driver of the run; None if the run is over."""
        if self.is_over:
            return None
        waiting = {call_id: line for call_id, line in self.decisions.items() if line is not None}
        return posts_from_json(waiting, self.stop_reason)

    def info(self, now: float) -> RunInfo:
        is_driven = self._is_driven(now)
        return RunInfo(
            run_id=self.run_id,
            session_id=self.session_id,
            agent=self.agent,
            status=self.status,
            seq=self.seq,
            created=self.created,
            updated=self.updated,
            owner=self.owner if is_driven else None,
            claimed_until=self.until if is_driven else None,
            pending=dict(self.pending),
            has_posts=self.posts() not in (None, Posts()),
            user=self.user,
        )
