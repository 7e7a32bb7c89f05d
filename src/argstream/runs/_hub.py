"""The newest records of a run, shared by its followers in one event loop.

Each batch is read and decoded once for all of them. A follower that is behind the records that are
kept here reads from the store until it has caught up. There is no background task: one of the
waiting followers reads for all, and if it is cancelled, the next one does. No event loop waits for
another.

The memory of all tails of a store is bounded. An event loop that is blocked has only one pending
callback, however much was written.
"""

import asyncio
import threading
from asyncio import AbstractEventLoop, Future
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

from msgspec import Struct, field

from argstream._asyncio import current_loop
from argstream.errors import RunNotFoundError, StoreError
from argstream.events import RunSnapshot
from argstream.runs._batches import records_of
from argstream.runs._records import Record, size_of
from argstream.runs._state import RunState

PAGE: Final = 500  # how many records are read at once
_KEPT: Final = 2_000
_KEPT_BYTES: Final = 8_000_000
_KEPT_IN_ALL: Final = 32_000_000
_KEPT_STATES: Final = 16
_RECORD_BYTES: Final = 500  # the approximate size of a record without its text
_MAX_UNDELIVERED: Final = 64_000

Page = tuple[Sequence[Record], bool]
"""Records, and whether there are more."""
ReadPage = Callable[[str, int, int], Awaitable[Page]]
"""Reads records of a run: its ID, after which seq, and how many at most."""


class Budget:
    """Bounds the bytes that all tails of a store keep together. Thread-safe."""

    def __init__(self, size: int = _KEPT_IN_ALL) -> None:
        self._left = size
        # Garbage collection may end a follower at any moment.
        self._lock = threading.RLock()

    def spend(self, size: int) -> bool:
        """Count bytes that are kept (or released: negative). Return True if they are too many."""
        with self._lock:
            self._left -= size
            return self._left < 0


Stored = Sequence[Record] | Sequence[bytes]
"""New records of a run: objects if this process wrote them, JSON if another did."""


class Undelivered(Struct):
    """Notifications for a tail whose event loop has not run since."""

    pushes: list[tuple[int, Stored]] = field(default_factory=list)
    size: int = 0
    is_stale: bool = False
    has_commands: bool = False
    failure: Callable[[], Exception] | None = None

    def push(self, first: int, stored: Stored) -> None:
        """Keep records up to a limit. Beyond it, only note that the store has more."""
        self.size += sum(len(one) if isinstance(one, bytes) else size_of(one) for one in stored)
        if self.size > _MAX_UNDELIVERED:
            self.pushes.clear()
            self.is_stale = True
        else:
            self.pushes.append((first, stored))


Receive = Callable[[Sequence[Record]], None]


class _Waiting(Struct):
    """A follower that waits for a record after ``seq``."""

    seq: int
    receive: Receive | None


class Tail:
    """The newest records of a run, for its followers in one event loop. Belongs to that loop."""

    def __init__(self, run_id: str, read: ReadPage, budget: Budget | None = None) -> None:
        self.run_id = run_id
        self.loop: Any = current_loop()
        self.followers: int = 0  # watchers that read the records, which are kept only for them
        self.undelivered: Undelivered | None = None
        self.is_over: bool = False  # whether ``last`` is the record that ends the run
        self.last: int | None = None  # the seq of the newest known record
        self._read = read
        self._budget = budget or Budget()
        self._records: list[Record] = []  # up to the last, without gaps
        self._bytes = 0
        self._waiting: dict[Future[None], _Waiting] = {}
        self.listeners: list[Callable[[], None]] = []  # called when commands may have changed
        self._is_stale = False
        self._is_reading = False
        self._failure: Callable[[], Exception] | None = None

    @property
    def is_watched(self) -> bool:
        return self.followers > 0 or bool(self.listeners)

    def begin(self, seq: int) -> None:
        """Note that the store has records up to this one."""
        if self.last is None:
            self.last = seq
        elif seq > self.last:
            self._is_stale = True

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def push(self, first: int, stored: Stored) -> None:
        """Add records that have just been stored."""
        if self.last is None or first > self.last + 1:
            self.mark_stale()
        elif first + len(stored) - 1 > self.last:
            try:
                new: Any = stored[self.last + 1 - first :]  # all of one kind
                is_decoded = isinstance(new[0], Record)
                self._add(new if is_decoded else records_of(self.run_id, new, self.last))
            except StoreError:
                self.mark_stale()  # the follower reads it from the store, which raises the error

    def mark_stale(self) -> None:
        """Note that the store may have more than is known here."""
        self._is_stale = True
        if not self._is_reading:
            self._wake()

    def commands_changed(self) -> None:
        for notify in tuple(self.listeners):
            notify()

    def fail(self, failure: Callable[[], Exception]) -> None:
        self._failure = failure
        self._wake()
        self.commands_changed()

    def after(self, seq: int) -> Sequence[Record] | None:
        """Return the known records after a seq, at most a page; None if they must be read."""
        if self.last is None or seq >= self.last:
            return []
        start = seq - (self.last - len(self._records))
        return None if start < 0 else self._records[start : start + PAGE]

    async def wait_for_records(self, seq: int, receive: Receive | None = None) -> int:
        """Wait for a record after this seq, or for the end of the run.

        ``receive`` gets records as soon as they are added if they directly follow its last one and
        do not end the run. Then the waiting continues. Return the seq of the last one that it got.
        """
        waiting = _Waiting(seq, receive)
        while (
            self._failure is None
            and not self.is_over
            and (self.last is None or self.last <= waiting.seq)
        ):
            if self._is_stale and not self._is_reading:
                await self._advance()
                continue
            woken: Future[None] = self.loop.create_future()
            self._waiting[woken] = waiting
            try:
                await woken
            finally:
                del self._waiting[woken]
        self.check()
        return waiting.seq

    def check(self) -> None:
        """Raise the error that ended the followers, if one did."""
        if self._failure is not None:
            raise self._failure()

    async def _advance(self) -> None:
        self._is_reading, self._is_stale = True, False
        try:
            after = self.last or 0
            records, is_more = await self._read(self.run_id, after, PAGE)
            self._is_stale = self._is_stale or is_more
            # Records that were pushed while this was read are already kept.
            self._add(records[(self.last or 0) - after :])
        except BaseException:
            self._is_stale = True  # the next follower tries, and gets the error
            raise
        finally:
            self._is_reading = False
            if self._is_stale:
                self._wake()

    def _add(self, records: Sequence[Record]) -> None:
        if not records:
            return
        self.last = records[-1].seq
        self.is_over = records[-1].event.ends_run
        if self.followers > self._hand_out(records):
            self._keep(records, sum([size_of(record) + _RECORD_BYTES for record in records]))
        elif self._records:
            self.drop_records()

    def _hand_out(self, records: Sequence[Record]) -> int:
        """Pass records to the followers that wait. Return how many received them at once."""
        received = 0
        for woken, waiting in self._waiting.items():
            if waiting.receive is None or waiting.seq != records[0].seq - 1 or self.is_over:
                _wake(woken)
            else:
                waiting.seq = records[-1].seq
                waiting.receive(records)
                received += 1
        return received

    def _keep(self, records: Sequence[Record], size: int) -> None:
        are_too_many = len(self._records) + len(records) > _KEPT or self._bytes + size > _KEPT_BYTES
        is_budget_spent = self._budget.spend(size)
        if are_too_many or is_budget_spent:
            self.drop_records()
        if is_budget_spent and not (self._waiting or self._is_reading):
            self._budget.spend(-size)  # no follower waits for these
            return
        self._records += records
        self._bytes += size

    def drop_records(self) -> None:
        self._budget.spend(-self._bytes)
        self._records, self._bytes = [], 0

    def _wake(self) -> None:
        """Wake the followers that wait. If records must be read, the first one reads for all."""
        for woken in self._waiting:
            _wake(woken)


def _wake(waiting: Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


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

    def watch(self, run_id: str, notify: Callable[[], None] | None = None) -> "Watch":
        """Watch a run in this event loop, to be notified of commands or to read its records."""
        loop = asyncio.get_running_loop()
        with self._lock:
            tail = self._tails.setdefault(run_id, {}).get(loop)
            if tail is None:
                tail = self._tails[run_id][loop] = Tail(run_id, self._read, self._budget)
            is_first = not tail.is_watched
            if notify is None:
                tail.followers += 1
            else:
                tail.listeners.append(notify)
        watch = Watch(self, tail, notify)
        if is_first:
            try:
                self._watch(run_id)
            except BaseException:
                watch.close()
                raise
        return watch

    def end(self, watch: "Watch") -> None:
        tail = watch.tail
        with self._lock:
            if watch.is_closed:
                return
            watch.is_closed = True
            if watch.notify is None:
                tail.followers -= 1
            else:
                tail.listeners.remove(watch.notify)
            if tail.is_watched:
                return
            tail.drop_records()
            self._drop(tail)
            if tail.loop in self._tails.get(tail.run_id, {}):
                return  # this tail failed, and another has replaced it
        if current_loop() is tail.loop:
            self._unwatch(tail.run_id)
        else:  # garbage collection ended the follower, perhaps in another thread
            with suppress(RuntimeError):
                tail.loop.call_soon_threadsafe(self._unwatch, tail.run_id)

    def push(self, run_id: str, first: int, stored: Stored) -> None:
        """Pass stored records to the followers of a run, at once in the running event loop."""
        if run_id not in self._tails:
            return
        here = current_loop()
        for tail in self._of(run_id):
            if tail.loop is here and tail.undelivered is None:
                tail.push(first, stored)
            else:
                self._notify([tail], (first, stored))

    def mark_stale(self, run_id: str) -> None:
        self._notify(self._of(run_id), is_stale=True)

    def commands_changed(self, run_id: str) -> None:
        self._notify(self._of(run_id), has_commands=True)

    def forget(self, run_id: str) -> None:
        """End all followers of a deleted run."""
        self._end(self._of(run_id), lambda: RunNotFoundError(run_id))

    def fail(self, failure: Callable[[], Exception], loop: AbstractEventLoop | None = None) -> None:
        """End all followers with an error, or those in one event loop. New followers try again."""
        with self._lock:
            tails = [tail for tails in self._tails.values() for tail in tails.values()]
        self._end([tail for tail in tails if loop in (None, tail.loop)], failure)

    def watched(self) -> list[str]:
        with self._lock:
            return list(self._tails)

    def _of(self, run_id: str) -> list[Tail]:
        with self._lock:
            return list(self._tails.get(run_id, {}).values())

    def _end(self, tails: list[Tail], failure: Callable[[], Exception]) -> None:
        for tail in tails:
            self._drop(tail)
        self._notify(tails, failure=failure)

    def _notify(
        self, tails: Iterable[Tail], push: tuple[int, Stored] | None = None, **changes: Any
    ) -> None:
        for tail in tails:
            with self._lock:
                is_notified = tail.undelivered is not None
                tail.undelivered = tail.undelivered or Undelivered()
                for name, value in changes.items():
                    setattr(tail.undelivered, name, value)
                if push is not None:
                    tail.undelivered.push(*push)
            if is_notified:
                continue
            try:
                tail.loop.call_soon_threadsafe(self._deliver, tail)
            except RuntimeError:  # the loop was closed before its followers had left
                self._drop(tail)

    def _deliver(self, tail: Tail) -> None:
        with self._lock:
            news, tail.undelivered = tail.undelivered or Undelivered(), None
        for push in news.pushes:
            tail.push(*push)
        if news.is_stale:
            tail.mark_stale()
        if news.has_commands:
            tail.commands_changed()
        if news.failure is not None:
            tail.fail(news.failure)

    def _drop(self, tail: Tail) -> None:
        with self._lock:
            tails = self._tails.get(tail.run_id, {})
            if tails.get(tail.loop) is tail:
                del tails[tail.loop]
                if not tails:
                    del self._tails[tail.run_id]


@dataclass(eq=False)
class Watch(AbstractContextManager[Tail]):
    """A watcher of a run, until it is closed or dropped."""

    tails: Tails
    tail: Tail
    notify: Callable[[], None] | None  # called when commands may have changed; None: a follower
    is_closed: bool = False

    def __enter__(self) -> Tail:
        return self.tail

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        self.tails.end(self)


class Snapshots:
    """Creates snapshots, and keeps the states of the newest few. Thread-safe."""

    def __init__(self, read: ReadPage) -> None:
        self._read = read
        self._guard = threading.Lock()
        self._kept: OrderedDict[str, RunState] = OrderedDict()
        self._locks: WeakValueDictionary[tuple[str, int], asyncio.Lock] = WeakValueDictionary()

    async def snapshot(self, run_id: str) -> RunSnapshot:
        is_more = True
        with self._guard:
            lock = self._locks.setdefault((run_id, id(asyncio.get_running_loop())), asyncio.Lock())
        # One at a time: if many viewers connect at once, only the first reads the log.
        async with lock:
            with self._guard:
                state = self._kept.pop(run_id, None)  # so that no other thread changes it
            state = state or RunState(arguments="off")
            while is_more:
                records, is_more = await self._read(run_id, state.seq, PAGE)
                for record in records:
                    state.apply_record(record)
                if is_more:
                    await asyncio.sleep(0)  # a long log must not block the event loop
            snapshot = state.snapshot()
            with self._guard:
                self._kept[run_id] = state
                while len(self._kept) > _KEPT_STATES:
                    self._kept.popitem(last=False)
            return snapshot

    def forget(self, run_id: str) -> None:
        with self._guard:
            self._kept.pop(run_id, None)
