"""What those share who follow one run in one event loop: its newest records, and being woken.

Each batch is read and decoded once for all of them. Who has fallen behind what is kept here reads
from the store until he has caught up. There is no task behind it: of those who wait, one reads for
all, and when he is cancelled the next one does. So there is nothing to end, and no event loop waits
for what another one does.
"""

import asyncio
import threading
from asyncio import AbstractEventLoop, Future
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from argstream.errors import StoreFailure, UnknownRun
from argstream.log import Record
from argstream.stores._batches import ENDS, records_of

__all__ = ["PAGE", "Page", "Tail", "Tails"]

PAGE: Final = 500
"""How many records are read at once."""
_KEPT: Final = 1_000
_KEPT_BYTES: Final = 4_000_000

Page = tuple[Sequence[bytes], bool]
"""Records as they are stored, and whether there are more."""
ReadPage = Callable[[str, int, int], Awaitable[Page]]


class Tail:
    """The newest records of a run, for all who follow it in one event loop: belongs to that."""

    def __init__(self, run_id: str, read: ReadPage) -> None:
        self.run_id = run_id
        self.watchers = 0
        self.is_over = False
        """Whether ``last`` is the record that ends the run."""
        self.last: int | None = None
        """The seq of the newest record that is known; None before any is."""
        self.posts_version = 0
        """Another whenever what was posted may have changed."""
        self._read = read
        self._records: list[Record] = []  # up to the last, without gaps
        self._sizes: list[int] = []
        self._bytes = 0
        self._waiting: set[Future[None]] = set()
        self._listening: set[Future[None]] = set()
        self._is_stale = False
        self._is_reading = False
        self._failure: Callable[[], Exception] | None = None

    # What there is to hear

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
            lines, is_more = await self._read(self.run_id, after, PAGE)
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
        records = records_of(lines, self.last or 0)
        self._records += records
        self._sizes += map(len, lines)
        self.last = records[-1].seq
        self.is_over = isinstance(records[-1].event, ENDS)
        self._bytes += sum(map(len, lines))
        if len(self._records) > 2 * _KEPT or self._bytes > 2 * _KEPT_BYTES:
            self._trim()
        _wake(self._waiting)

    def _trim(self) -> None:
        """Let the oldest go, so that what is kept is not much, nor is each record moved often."""
        kept, size = 1, self._sizes[-1]
        for one in reversed(self._sizes[:-1]):
            if kept == _KEPT or size + one > _KEPT_BYTES:
                break
            kept, size = kept + 1, size + one
        del self._records[:-kept], self._sizes[:-kept]
        self._bytes = size

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
        self._lock = threading.Lock()
        self._tails: dict[str, dict[AbstractEventLoop, Tail]] = {}

    @contextmanager
    def watching(self, run_id: str) -> Iterator[Tail]:
        """Give the tail of a run for this event loop, which hears of all that comes from now on."""
        loop = asyncio.get_running_loop()
        with self._lock:
            tail = self._tails.setdefault(run_id, {}).get(loop)
            if tail is None:
                tail = self._tails[run_id][loop] = Tail(run_id, self._read)
            tail.watchers += 1
        try:
            if tail.watchers == 1:
                self._watch(run_id)
            yield tail
        finally:
            tail.watchers -= 1
            if not tail.watchers:
                self._drop(run_id, loop, tail)
                self._unwatch(run_id)

    def push(self, run_id: str, first: int, lines: Sequence[bytes]) -> None:
        """Tell all who follow a run what has just been stored."""
        self._tell(run_id, lambda tail: tail.push(first, lines))

    def stale(self, run_id: str) -> None:
        """Tell all who follow a run that there may be more."""
        self._tell(run_id, Tail.stale)

    def posts_changed(self, run_id: str) -> None:
        """Tell all who listen to a run that something may have been posted."""
        self._tell(run_id, Tail.posts_changed)

    def forget(self, run_id: str) -> None:
        """Tell all who follow a run that it is no more."""
        self._tell(run_id, lambda tail: tail.fail(lambda: UnknownRun(run_id)))
        with self._lock:
            self._tails.pop(run_id, None)  # a run that is given the same name is another

    def fail(self, failure: Callable[[], Exception]) -> None:
        """Tell all who follow any run that nothing more will come, and why."""
        for run_id in self.watched():
            self._tell(run_id, lambda tail: tail.fail(failure))

    def watched(self) -> list[str]:
        """Name the runs that somebody follows."""
        with self._lock:
            return list(self._tails)

    def _tell(self, run_id: str, what: Callable[[Tail], None]) -> None:
        with self._lock:
            tails = list(self._tails.get(run_id, {}).items())
        for loop, tail in tails:
            try:
                loop.call_soon_threadsafe(what, tail)
            except RuntimeError:  # the loop was closed, and those in it never got to leave
                self._drop(run_id, loop, tail)

    def _drop(self, run_id: str, loop: AbstractEventLoop, tail: Tail) -> None:
        with self._lock:
            tails = self._tails.get(run_id, {})
            if tails.get(loop) is tail:
                del tails[loop]
                if not tails:
                    del self._tails[run_id]
