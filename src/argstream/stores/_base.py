"""What all stores share: their checks, following a run, snapshots of it, hearing what was posted.

A store is made of a few primitives, those methods here that are abstract. It tells what happens, as
soon as it is stored and from whichever thread: ``_written``, ``_posted_to`` and ``_forgotten`` if
it knows what has happened, ``_may_have_grown`` and ``_posted_to`` if something may have, in another
process perhaps. Too many of these do no harm. ``_watch`` and ``_unwatch`` say for which runs
anybody in this process wants to know.

The rules that a store keeps, in the order in which it looks:

- ``_begin``: a run that is there already is a ``UsageError``. The first token is 1.
- ``_claim``: ``UnknownRun``; ``RunTaken`` while any claim is good, whoever has it. The token is one
  higher than the last.
- ``_renew``, ``_append``, ``_reopen``: ``UnknownRun``; ``RunTaken`` (``lost``) if the token is not
  the newest. One that is, but has run out, may go on.
- ``_begin``, ``_append``: a batch after which the run has paused, or is over, gives the claim up.
- ``_release``: if the token is the newest, nobody has the run, and the token grows by one, so that
  it is lost. Else nothing. ``UnknownRun`` is let be too.
- ``_append``: if the log has just these records already, to the byte, nothing is done, whatever the
  claim. If it has others under their seqs, it is a ``UsageError``; so it is if the run is over, or
  the batch does not begin right after the last record. (``other_record``, ``run_is_over``, ``gap``)
- For each in ``batch.asked``, in their order: a digest makes the call pending; what was decided
  before is dropped unless the same digest was pending. None ends that: it is decided on, for good,
  and what waited in ``posted`` is gone.
- ``_decide``: ``UnknownRun``; then for each call, in their order: ``AlreadyDecided`` if there is a
  decision, used or not; ``UsageError`` if the run is over or the call is not pending
  (``nobody_is_asked``), or a digest was given and is another (``other_request``). All or none.
- ``_stop``: ``UnknownRun``; ``UsageError`` if the run is over (``run_is_over``); a second stop is
  let be.
- ``_page``, ``_info``, ``_posts``: ``UnknownRun``. ``_posts`` gives None once the run is over.
- ``_delete``: ``UnknownRun``; ``RunTaken`` while a claim is good and the run is not over.
- ``_runs``: newest ``updated`` first, then the higher ``run_id``.
- ``_expire``: runs that are over with ``updated <= now - seconds``; with ``unfinished`` also
  others, if no claim on them is good. Gives their ids.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack
from typing import Self

from argstream.decisions import Decisions
from argstream.errors import StoreFailure, UnknownRun, UsageError
from argstream.events import RunStatus
from argstream.log import Claim, Posts, Record, RunInfo
from argstream.stores._batches import ENDS, Batch, approvals_to_json, batch_of, records_of
from argstream.stores._checks import (
    Wanted,
    age,
    claimed,
    id_of,
    limited,
    name_of,
    place,
    span,
    text,
    wanted,
)
from argstream.stores._tails import PAGE, Page, Tail, Tails
from argstream.stores._views import Views

__all__ = ["BaseStore"]


class BaseStore(ABC):
    """A store, but for where it keeps the logs."""

    def __init__(self) -> None:
        self._tails = Tails(self._page_of, self._watch, self._unwatch)
        self._views = Views(self._page_of)
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.aclose()

    # Primitives

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
        """Give records after a seq, at most so many, and whether there are more.

        They may be fewer, if they are large, but at least one if there is one.
        """

    @abstractmethod
    async def _decide(self, run_id: str, decisions: Mapping[str, tuple[bytes, str]]) -> None:
        """Take decisions, each as it is stored, with the digest that was given, which may be ""."""

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
        """Hear that somebody in this event loop begins to follow a run, or to listen to it.

        From now on the store tells of what happens. If that takes a moment to set up, it says
        ``_may_have_grown`` and ``_posted_to`` when it is done.
        """

    def _unwatch(self, run_id: str) -> None:  # noqa: B027 - as above
        """Hear that the last one in this event loop has left."""

    # What has happened, from any thread

    def _written(self, batch: Batch) -> None:
        """Tell what was written, after it is stored and in the order in which it is."""
        self._tails.push(batch.run_id, batch.first, batch.lines)
        if batch.changes_posts:
            self._tails.posts_changed(batch.run_id)

    def _may_have_grown(self, run_id: str) -> None:
        self._tails.stale(run_id)

    def _posted_to(self, run_id: str) -> None:
        self._tails.posts_changed(run_id)

    def _forgotten(self, run_id: str) -> None:
        self._views.forget(run_id)
        self._tails.forget(run_id)

    # Who drives a run

    async def begin(self, records: Sequence[Record], owner: str, seconds: float) -> Claim:
        """Make a run of its first records, with a claim on it: all of it, or nothing."""
        self._check_open()
        batch = batch_of(id_of(records[0].run_id) if records else "", records)
        if batch.first != 1:
            raise UsageError(f"the first record of a run has the seq 1, not {batch.first}")
        claim = await self._begin(batch, name_of(owner), span(seconds))
        self._tails.begun(batch.run_id, batch.created)
        return claim

    async def claim(self, run_id: str, owner: str, seconds: float) -> Claim:
        """Claim a run, for so many seconds; raises ``RunTaken`` while somebody else has it."""
        self._check_open()
        return await self._claim(id_of(run_id), name_of(owner), span(seconds))

    async def renew(self, claim: Claim, seconds: float) -> None:
        """Keep a claim, for so many seconds from now; raises ``RunTaken`` if it was lost."""
        self._check_open()
        await self._renew(claimed(claim), span(seconds))

    async def release(self, claim: Claim) -> None:
        """Give up a claim: anybody may claim the run at once. One that was lost is let be."""
        self._check_open()
        await self._release(claimed(claim))

    async def append(self, claim: Claim, records: Sequence[Record]) -> None:
        """Write records, all of them or none, and return when they are there."""
        self._check_open()
        await self._append(claimed(claim), batch_of(claim.run_id, records))

    async def reopen(self, claim: Claim, call_id: str) -> None:
        """Take a decision back that cannot be used, so that somebody can decide anew."""
        self._check_open()
        await self._reopen(claimed(claim), text(call_id, "the id of a call"))

    # Who follows it

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Record]:
        """Give the records after a seq: all there are, or so many."""
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
        """Give the records after a seq, those to come too, until the run is over."""
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
        """Begin to watch a run, as it is now."""
        while True:
            tail = watch.enter_context(self._tails.watching(run_id))
            info = await self._info(run_id)
            if tail.is_of(info.created):
                return tail, info
            # Others hold on to a run that had this name before.
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
        """Give records of the run that was created then, and not of one that has its name now."""
        page = await self._page(run_id, after, limit)
        if created not in (None, (await self._info(run_id)).created):
            raise UnknownRun(run_id)
        return page

    async def snapshot(self, run_id: str) -> Record:
        """Give the run as far as it has come: a ``RunSnapshot`` under the last seq."""
        self._check_open()
        return await self._views.snapshot(await self._info(id_of(run_id)))

    async def join(self, run_id: str) -> AsyncGenerator[Record, None]:
        """Give a snapshot, and then what follows it, until the run is over."""
        snapshot = await self.snapshot(run_id)
        yield snapshot
        rest = self.follow(run_id, snapshot.seq)
        try:
            async for record in rest:
                yield record
        finally:
            await rest.aclose()

    # Anybody

    async def decide(self, run_id: str, decisions: Decisions) -> None:
        """Decide on calls that somebody is asked about: on all of them, or none."""
        self._check_open()
        await self._decide(id_of(run_id), approvals_to_json(decisions))

    async def stop(self, run_id: str, reason: str = "") -> None:
        """Ask for the end of a run. Who drives it ends it; the first reason counts."""
        self._check_open()
        await self._stop(id_of(run_id), text(reason, "the reason of a stop"))

    async def posted(self, run_id: str) -> Posts:
        """Give what was posted and waits for who drives the run."""
        self._check_open()
        return await self._posts(id_of(run_id)) or Posts()

    async def posts(self, run_id: str) -> AsyncGenerator[Posts, None]:
        """Give what was posted, now and whenever that has changed, until the run is over."""
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
        """Say what is known of a run."""
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
        """List runs, those with the newest records first."""
        self._check_open()
        return await self._runs(wanted(status, session_id, user), limited(limit))

    async def delete(self, run_id: str) -> None:
        """Forget a run; raises ``RunTaken`` while somebody drives it."""
        self._check_open()
        await self._delete(id_of(run_id))
        self._forgotten(run_id)

    async def expire(self, seconds: float, *, unfinished: bool = False) -> int:
        """Forget the runs that have been over for so long, and say how many these were."""
        self._check_open()
        expired = await self._expire(age(seconds), unfinished=unfinished)
        for run_id in expired:
            self._forgotten(run_id)
        return len(expired)

    async def aclose(self) -> None:
        """Close what is open; those who follow are told that it is closed (``StoreFailure``)."""
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
