"""What those share who follow one run in one event loop: its newest records, and being woken.

Each batch is read and decoded once for all of them. Who has fallen behind what is kept here reads
from the store until he has caught up. There is no task behind it: of those who wait, one reads for
all, and when he is cancelled the next one does. So there is nothing to end, and no event loop waits
for what another one does.

Those who do not fetch cost little, however many they are: what all tails of a store keep together
is bounded, and a loop that does not run has one note waiting for it, not all that was written.
"""

import asyncio
import threading
from asyncio import AbstractEventLoop, Future
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from argstream.errors import StoreFailure, UnknownRun
from argstream.log import Record
from argstream.stores._batches import ENDS, records_of
from argstream.stores._bounds import Budget, Unheard

__all__ = ["PAGE", "Page", "ReadPage", "Tail", "Tails"]

PAGE: Final = 500
"""How many records are read at once."""
_KEPT: Final = 1_000
_KEPT_BYTES: Final = 4_000_000
_RECORD_BYTES: Final = 500
"""What a record takes besides its text, about."""

Page = tuple[Sequence[bytes], bool]
"""Records as they are stored, and whether there are more."""
ReadPage = Callable[[str, float | None, int, int], Awaitable[Page]]
"""Reads from a run that was created then: after a seq, so many."""


class Tail:
    """The newest records of a run, for all who follow it in one event loop: belongs to that."""

    def __init__(self, run_id: str, read: ReadPage, budget: Budget | None = None) -> None:
        self.run_id = run_id
        self.created: float | None = None
        """When the run was; None before it is known. Another one may get the name of this one."""
        self.watchers = 0
        self.unheard: Unheard | None = None
        self.is_over = False
        """Whether ``last`` is the record that ends the run."""
        self.last: int | None = None
        """The seq of the newest record that is known; None before any is."""
        self.posts_version = 0
        """Another whenever what was posted may have changed."""
        self._read = read
        self._budget = budget or Budget()
        self._records: list[Record] = []  # up to the last, without gaps
        self._sizes: list[int] = []
        self._bytes = 0
        self._waiting: set[Future[None]] = set()
        self._listening: set[Future[None]] = set()
        self._is_stale = False
        self._is_reading = False
        self._failure: Callable[[], Exception] | None = None

    # What there is to hear

    def is_of(self, created: float) -> bool:
        """Say whether this is about the run that was created then."""
        if self.created is None:
            self.created = created
        return self.created == created

    def hear(self, news: Unheard) -> None:
        """Take all that has happened since the loop ran last."""
        for first, lines in news.pushes:
            self.push(first, lines)
        if news.is_stale:
            self.stale()
        if news.has_posts:
            self.posts_changed()
        if news.failure is not None:
            self.fail(news.failure)

    def begin(self, seq: int) -> None:
        """Take note that the store has records up to this one."""
        if self.last is None:
            self.last = seq
        elif seq > self.last:
            self._is_stale = True

    def push(self, first: int, lines: Sequence[bytes]) -> None:
        """Take records that have just been stored."""
        if self.last is None or first > self.last + 1:
            self.stale()
        elif first + len(lines) - 1 > self.last:
            try:
                self._take(lines[self.last + 1 - first :])
            except StoreFailure:
                self.stale()  # who reads it from the store is told what is wrong with it

    def stale(self) -> None:
        """Take note that the store may have more than is known here."""
        self._is_stale = True
        if not self._is_reading:
            self._wake_one()

    def posts_changed(self) -> None:
        """Take note that what was posted may have changed."""
        self.posts_version += 1
        _wake(self._listening)

    def fail(self, failure: Callable[[], Exception]) -> None:
        """Tell all that nothing more will come, and why."""
        self._failure = failure
        _wake(self._waiting)
        _wake(self._listening)

    # Who follows

    def after(self, seq: int) -> list[Record] | None:
        """Give what is known after a seq, at most a page; None if it must be read."""
        if self.last is None or seq >= self.last:
            return []
        start = seq - (self.last - len(self._records))
        return None if start < 0 else self._records[start : start + PAGE]

    async def grown(self, seq: int) -> None:
        """Return when there is a record after this seq, or the run is over."""
        while (
            self._failure is None and not self.is_over and (self.last is None or self.last <= seq)
        ):
            if self._is_stale and not self._is_reading:
                await self._advance()
            else:
                await self._wait()
        self._check()

    async def posted(self, version: int) -> None:
        """Return when what was posted may have changed since it had this version."""
        while self._failure is None and self.posts_version == version:
            await _signal(self._listening)
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure()

    # One reads for all

    async def _advance(self) -> None:
        self._is_reading, self._is_stale = True, False
        is_read = False
        try:
            after = self.last or 0
            lines, is_more = await self._read(self.run_id, self.created, after, PAGE)
            self._is_stale = self._is_stale or is_more
            # What was pushed while this was read is there already.
            self._take(lines[(self.last or 0) - after :])
            is_read = True
        finally:
            self._is_reading = False
            if not is_read:
                self._is_stale = True  # the next one sees for himself why it does not work
            if self._is_stale:
                self._wake_one()

    async def _wait(self) -> None:
        try:
            await _signal(self._waiting)
        except asyncio.CancelledError:
            if self._is_stale and not self._is_reading:
                self._wake_one()  # it may have been him who was to read
            raise

    def _take(self, lines: Sequence[bytes]) -> None:
        """Keep records that come after the last, and wake who waits for them."""
        if not lines:
            return
        records = records_of(self.run_id, lines, self.last or 0)
        self.last = records[-1].seq
        self.is_over = isinstance(records[-1].event, ENDS)
        self._keep(records, [len(line) + _RECORD_BYTES for line in lines])
        _wake(self._waiting)

    def _keep(self, records: list[Record], sizes: list[int]) -> None:
        if self._budget.spend(sum(sizes)):
            # Those before are in the store, for who has not fetched them; these, too, if none does.
            self.let_go()
            if not (self._waiting or self._is_reading):
                self._budget.spend(-sum(sizes))
                return
        self._records += records
        self._sizes += sizes
        self._bytes += sum(sizes)
        if len(self._records) > 2 * _KEPT or self._bytes > 2 * _KEPT_BYTES:
            self._trim()

    def _trim(self) -> None:
        """Let the oldest go, so that what is kept is not much, nor is each record moved often."""
        kept, size = 1, self._sizes[-1]
        for one in reversed(self._sizes[:-1]):
            if kept == _KEPT or size + one > _KEPT_BYTES:
                break
            kept, size = kept + 1, size + one
        del self._records[:-kept], self._sizes[:-kept]
        self._budget.spend(size - self._bytes)
        self._bytes = size

    def let_go(self) -> None:
        """Keep nothing: who wants a record reads it."""
        self._budget.spend(-self._bytes)
        self._records, self._sizes, self._bytes = [], [], 0

    def _wake_one(self) -> None:
        while self._waiting:
            woken = self._waiting.pop()
            if not woken.done():
                woken.set_result(None)
                return


async def _signal(waiting: set[Future[None]]) -> None:
    woken: Future[None] = asyncio.get_running_loop().create_future()
    waiting.add(woken)
    try:
        await woken
    finally:
        waiting.discard(woken)


def _wake(waiting: set[Future[None]]) -> None:
    for woken in waiting:
        if not woken.done():
            woken.set_result(None)
    waiting.clear()


class Tails:
    """The tails of a store, one for each run and event loop. May be used from any thread."""

    def __init__(
        self, read: ReadPage, watch: Callable[[str], None], unwatch: Callable[[str], None]
    ) -> None:
        self._read = read
        self._watch = watch
        self._unwatch = unwatch
        self._budget = Budget()
        # The collector of garbage may end a follower at any moment, in any thread.
        self._lock = threading.RLock()
        self._tails: dict[str, dict[AbstractEventLoop, Tail]] = {}

    @contextmanager
    def watching(self, run_id: str) -> Iterator[Tail]:
        """Give the tail of a run for this event loop, which hears of all that comes from now on."""
        loop = asyncio.get_running_loop()
        with self._lock:
            tail = self._tails.setdefault(run_id, {}).get(loop)
            if tail is None:
                tail = self._tails[run_id][loop] = Tail(run_id, self._read, self._budget)
            tail.watchers += 1
        try:
            if tail.watchers == 1:
                self._watch(run_id)
            yield tail
        finally:
            with self._lock:
                tail.watchers -= 1
                is_last = not tail.watchers
            if is_last:
                tail.let_go()
                self._leave(run_id, loop, tail)

    def _leave(self, run_id: str, loop: AbstractEventLoop, tail: Tail) -> None:
        self._drop(run_id, loop, tail)
        with self._lock:
            if loop in self._tails.get(run_id, {}):
                return  # there is a new one, after this one has failed
        if _running_loop() is loop:
            self._unwatch(run_id)
        else:  # it was forgotten, not ended; if the loop is closed there is nothing left to end
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._unwatch, run_id)

    def push(self, run_id: str, first: int, lines: Sequence[bytes]) -> None:
        """Tell all who follow a run what has just been stored."""
        self._tell(self._of(run_id), lambda news: news.push(first, lines))

    def stale(self, run_id: str) -> None:
        """Tell all who follow a run that there may be more."""

        def note(news: Unheard) -> None:
            news.is_stale = True

        self._tell(self._of(run_id), note)

    def posts_changed(self, run_id: str) -> None:
        """Tell all who listen to a run that something may have been posted."""

        def note(news: Unheard) -> None:
            news.has_posts = True

        self._tell(self._of(run_id), note)

    def forget(self, run_id: str) -> None:
        """Tell all who follow a run that it is no more; one that gets its name is another."""
        self._end(self._of(run_id), lambda: UnknownRun(run_id))

    def begun(self, run_id: str, created: float) -> None:
        """Tell those who follow another run that had this name before that it is no more."""
        known = (None, created)
        others = [found for found in self._of(run_id) if found[1].created not in known]
        self._end(others, lambda: UnknownRun(run_id))

    def fail(self, failure: Callable[[], Exception]) -> None:
        """Tell all who follow any run that nothing more will come, and why.

        Who comes after that finds out for himself whether it works again.
        """
        self._end(self._all(), failure)

    def fail_here(self, failure: Callable[[], Exception]) -> None:
        """Tell this to those in this event loop only."""
        here = _running_loop()
        self._end([found for found in self._all() if found[0] is here], failure)

    def watched(self) -> list[str]:
        """Name the runs that somebody follows."""
        with self._lock:
            return list(self._tails)

    def _of(self, run_id: str) -> "list[_Found]":
        with self._lock:
            return list(self._tails.get(run_id, {}).items())

    def _all(self) -> "list[_Found]":
        with self._lock:
            return [found for run_id in list(self._tails) for found in self._of(run_id)]

    def _end(self, tails: "list[_Found]", failure: Callable[[], Exception]) -> None:
        def note(news: Unheard) -> None:
            news.failure = failure

        for loop, tail in tails:
            self._drop(tail.run_id, loop, tail)
        self._tell(tails, note)

    def _tell(self, tails: "Iterable[_Found]", note: Callable[[Unheard], None]) -> None:
        for loop, tail in tails:
            with self._lock:
                is_told = tail.unheard is not None
                tail.unheard = tail.unheard or Unheard()
                note(tail.unheard)
            if is_told:
                continue
            try:
                loop.call_soon_threadsafe(self._deliver, tail)
            except RuntimeError:  # the loop was closed, and those in it never got to leave
                self._drop(tail.run_id, loop, tail)

    def _deliver(self, tail: Tail) -> None:
        with self._lock:
            news, tail.unheard = tail.unheard, None
        if news is not None:
            tail.hear(news)

    def _drop(self, run_id: str, loop: AbstractEventLoop, tail: Tail) -> None:
        with self._lock:
            tails = self._tails.get(run_id, {})
            if tails.get(loop) is tail:
                del tails[loop]
                if not tails:
                    del self._tails[run_id]


_Found = tuple[AbstractEventLoop, Tail]


def _running_loop() -> AbstractEventLoop | None:
    """Give the event loop that this is in; None if it is in none: garbage is collected anywhere."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
