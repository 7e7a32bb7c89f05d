"""What the followers of a run in one event loop share: its newest records and notifications.

Each batch is read and decoded once for all of them. A follower that has fallen behind what is kept
here reads from the store until it has caught up. There is no background task: of the followers that
wait, one reads for all, and when it is cancelled the next one does. So there is nothing to end, and
no event loop waits for what another one does.

Followers that do not fetch cost little, however many they are: what all tails of a store keep
together is bounded, and an event loop that does not run has one note waiting for it, not all that
was written.
"""

import asyncio
import threading
from asyncio import AbstractEventLoop, Future
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from msgspec import Struct, field
from msgspec.structs import replace

from argstream.errors import RunNotFoundError, StoreError
from argstream.events import ArgumentEvent, RunSnapshot
from argstream.runs._batches import records_of
from argstream.runs._records import Record, RunInfo
from argstream.runs._state import RunState

PAGE: Final = 500
"""How many records are read at once."""
_KEPT: Final = 1_000
_KEPT_BYTES: Final = 4_000_000
_KEPT_BY_ALL: Final = 32_000_000
_KEPT_STATES: Final = 16
_RECORD_BYTES: Final = 500  # what a record takes besides its text, about
_UNHEARD_BYTES: Final = 64_000

Page = tuple[Sequence[bytes], bool]
"""Records as they are stored, and whether there are more."""
ReadPage = Callable[[str, float | None, int, int], Awaitable[Page]]
"""Reads from a run that was created then: after a seq, so many."""


class Budget:
    """What all tails of a store may keep together, in bytes. Thread-safe."""

    def __init__(self, size: int = _KEPT_BY_ALL) -> None:
        self._left = size
        # Garbage collection may end a follower at any moment.
        self._lock = threading.RLock()

    def spend(self, size: int) -> bool:
        """Count bytes that are kept, or let go. Return True if it is too much in all."""
        with self._lock:
            self._left -= size
            return self._left < 0


Arguments = Sequence[tuple[ArgumentEvent, ...] | None]
"""The argument events of records that this process wrote; empty if another did."""


class Unheard(Struct):
    """What a tail has not been told yet, because its event loop has not run since."""

    pushes: list[tuple[int, Sequence[bytes], Arguments]] = field(default_factory=list)
    size: int = 0
    is_stale: bool = False
    has_commands: bool = False
    failure: Callable[[], Exception] | None = None

    def push(self, first: int, lines: Sequence[bytes], arguments: Arguments) -> None:
        """Keep records while they are few; after that, only note that the store has more."""
        self.size += sum(map(len, lines))
        if self.size > _UNHEARD_BYTES:
            self.pushes.clear()
            self.is_stale = True
        else:
            self.pushes.append((first, lines, arguments))


class Tail:
    """The newest records of a run, for its followers in one event loop. Belongs to that loop."""

    def __init__(self, run_id: str, read: ReadPage, budget: Budget | None = None) -> None:
        self.run_id = run_id
        self.created: float | None = None  # another run may get the name of this one
        self.watchers = 0
        self.unheard: Unheard | None = None
        self.is_over = False  # whether ``last`` is the record that ends the run
        self.last: int | None = None  # the seq of the newest known record
        self.commands_version = 0
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

    def is_of(self, created: float) -> bool:
        if self.created is None:
            self.created = created
        return self.created == created

    def hear(self, news: Unheard) -> None:
        for push in news.pushes:
            self.push(*push)
        if news.is_stale:
            self.stale()
        if news.has_commands:
            self.commands_changed()
        if news.failure is not None:
            self.fail(news.failure)

    def begin(self, seq: int) -> None:
        """Note that the store has records up to this one."""
        if self.last is None:
            self.last = seq
        elif seq > self.last:
            self._is_stale = True

    def push(self, first: int, lines: Sequence[bytes], arguments: Arguments = ()) -> None:
        """Add records that have just been stored."""
        if self.last is None or first > self.last + 1:
            self.stale()
        elif first + len(lines) - 1 > self.last:
            try:
                new = self.last + 1 - first
                self._take(lines[new:], arguments[new:])
            except StoreError:
                self.stale()  # reading it from the store tells the follower what is wrong

    def stale(self) -> None:
        """Note that the store may have more than is known here."""
        self._is_stale = True
        if not self._is_reading:
            self._wake_one()

    def commands_changed(self) -> None:
        self.commands_version += 1
        _wake(self._listening)

    def fail(self, failure: Callable[[], Exception]) -> None:
        self._failure = failure
        _wake(self._waiting)
        _wake(self._listening)

    def after(self, seq: int) -> list[Record] | None:
        """Return the known records after a seq, at most a page; None if they must be read."""
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

    async def commands(self, version: int) -> None:
        """Return when the commands of the run may have changed since this version."""
        while self._failure is None and self.commands_version == version:
            await _signal(self._listening)
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure()

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
                self._is_stale = True  # the next one finds out why it does not work
            if self._is_stale:
                self._wake_one()

    async def _wait(self) -> None:
        try:
            await _signal(self._waiting)
        except asyncio.CancelledError:
            if self._is_stale and not self._is_reading:
                self._wake_one()  # this may have been the one that was to read
            raise

    def _take(self, lines: Sequence[bytes], arguments: Arguments = ()) -> None:
        if not lines:
            return
        records = records_of(self.run_id, lines, self.last or 0)
        if any(events is not None for events in arguments):
            known = zip(records, arguments, strict=True)
            records = [replace(record, arguments=events) for record, events in known]
        self.last = records[-1].seq
        self.is_over = records[-1].event.ends_run
        self._keep(records, [len(line) + _RECORD_BYTES for line in lines])
        _wake(self._waiting)

    def _keep(self, records: list[Record], sizes: list[int]) -> None:
        if self._budget.spend(sum(sizes)):
            # Earlier records are in the store, and these too, if no follower waits for them.
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
        """Drop the oldest records, rarely enough that each is not moved often."""
        kept, size = 1, self._sizes[-1]
        for one in reversed(self._sizes[:-1]):
            if kept == _KEPT or size + one > _KEPT_BYTES:
                break
            kept, size = kept + 1, size + one
        del self._records[:-kept], self._sizes[:-kept]
        self._budget.spend(size - self._bytes)
        self._bytes = size

    def let_go(self) -> None:
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


_Found = tuple[AbstractEventLoop, Tail]


class Tails:
    """The tails of a store, one for each run and event loop. Thread-safe."""

    def __init__(
        self, read: ReadPage, watch: Callable[[str], None], unwatch: Callable[[str], None]
    ) -> None:
        self._read = read
        self._watch = watch
        self._unwatch = unwatch
        self._budget = Budget()
        # Garbage collection may end a follower at any moment, in any thread.
        self._lock = threading.RLock()
        self._tails: dict[str, dict[AbstractEventLoop, Tail]] = {}

    @contextmanager
    def watching(self, run_id: str) -> Iterator[Tail]:
        """Return the tail of a run for this event loop. It is told all that comes from now on."""
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

    def push(
        self, run_id: str, first: int, lines: Sequence[bytes], arguments: Arguments = ()
    ) -> None:
        self._tell(self._of(run_id), lambda news: news.push(first, lines, arguments))

    def stale(self, run_id: str) -> None:
        def note(news: Unheard) -> None:
            news.is_stale = True

        self._tell(self._of(run_id), note)

    def commands_changed(self, run_id: str) -> None:
        def note(news: Unheard) -> None:
            news.has_commands = True

        self._tell(self._of(run_id), note)

    def forget(self, run_id: str) -> None:
        """End all followers of a run that is gone. Another run may get its name."""
        self._end(self._of(run_id), lambda: RunNotFoundError(run_id))

    def begun(self, run_id: str, created: float) -> None:
        """End the followers of another run that had this name before."""
        known = (None, created)
        others = [found for found in self._of(run_id) if found[1].created not in known]
        self._end(others, lambda: RunNotFoundError(run_id))

    def fail(self, failure: Callable[[], Exception]) -> None:
        """End all followers with an error. New ones find out whether it works again."""
        self._end(self._all(), failure)

    def fail_here(self, failure: Callable[[], Exception]) -> None:
        """End the followers in this event loop only."""
        here = _running_loop()
        self._end([found for found in self._all() if found[0] is here], failure)

    def watched(self) -> list[str]:
        """Return the runs that have followers."""
        with self._lock:
            return list(self._tails)

    def _of(self, run_id: str) -> list[_Found]:
        with self._lock:
            return list(self._tails.get(run_id, {}).items())

    def _all(self) -> list[_Found]:
        with self._lock:
            return [found for run_id in list(self._tails) for found in self._of(run_id)]

    def _end(self, tails: list[_Found], failure: Callable[[], Exception]) -> None:
        def note(news: Unheard) -> None:
            news.failure = failure

        for loop, tail in tails:
            self._drop(tail.run_id, loop, tail)
        self._tell(tails, note)

    def _tell(self, tails: Iterable[_Found], note: Callable[[Unheard], None]) -> None:
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


def _running_loop() -> AbstractEventLoop | None:
    """Return the running event loop, or None: garbage is collected anywhere."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Kept(NamedTuple):
    state: RunState
    created: float  # tells the run from a deleted one that had its name


class Snapshots:
    """Creates snapshots, and keeps the states of the newest few. Thread-safe."""

    def __init__(self, read: ReadPage) -> None:
        self._read = read
        self._guard = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._locks: WeakValueDictionary[tuple[str, int], asyncio.Lock] = WeakValueDictionary()

    async def snapshot(self, info: RunInfo) -> RunSnapshot:
        # One at a time: if many viewers connect at once, only the first reads the log.
        lock = self._lock(info.run_id)
        async with lock:
            kept = self._borrow(info)
            await self._advance(kept, info.run_id)
            snapshot = kept.state.snapshot()
            self._give_back(info.run_id, kept)
            return snapshot

    def forget(self, run_id: str) -> None:
        with self._guard:
            self._kept.pop(run_id, None)

    async def _advance(self, kept: _Kept, run_id: str) -> None:
        state, is_more = kept.state, True
        while is_more:
            lines, is_more = await self._read(run_id, kept.created, state.seq, PAGE)
            for record in records_of(run_id, lines, state.seq):
                state.apply_record(record)
            if is_more:
                await asyncio.sleep(0)  # a long log must not hold up the others

    def _borrow(self, info: RunInfo) -> _Kept:
        """Remove a state from the cache, so that no other thread changes it."""
        with self._guard:
            kept = self._kept.pop(info.run_id, None)
        if kept is None or kept.created != info.created:
            kept = _Kept(RunState(arguments="off"), info.created)
        return kept

    def _give_back(self, run_id: str, kept: _Kept) -> None:
        with self._guard:
            self._kept[run_id] = kept
            while len(self._kept) > _KEPT_STATES:
                self._kept.popitem(last=False)

    def _lock(self, run_id: str) -> asyncio.Lock:
        key = (run_id, id(asyncio.get_running_loop()))
        with self._guard:
            lock = self._locks.get(key)
            if lock is None:
                lock = self._locks[key] = asyncio.Lock()
            return lock
