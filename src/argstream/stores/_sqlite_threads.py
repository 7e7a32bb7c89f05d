"""The threads of the SQLite store: one that writes, for all runs at once, and one that reads.

All that waits when the writer is free goes into one transaction: so each waits for about two
commits, however many are at work. What fails by the rules of the store fails alone; such a job has
changed nothing, since it checks before it writes. If anything else goes wrong, each of them is
tried again by itself.

The writer also looks whether another process has written, as long as anybody here wants to know.
"""

import asyncio
import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from sqlite3 import Connection
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct

from argstream.errors import ArgstreamError, StoreFailure, UsageError
from argstream.log import Claim
from argstream.stores._batches import Batch
from argstream.stores._sqlite_file import Opened, failure, open_file
from argstream.stores._sqlite_lookout import Lookout
from argstream.stores._sqlite_rows import grow_all

__all__ = ["Reader", "Writer"]

_Answer = TypeVar("_Answer")
_LOOK_SECONDS: Final = 0.02
_FEW: Final = 2
_MANY: Final = 8
_GATHERING: Final = 0.01
"""How long the writer waits for more, in seconds, if there was much the last time."""
_GLANCE: Final = 0.003
_MAX_GROUP: Final = 1_000


Growth: TypeAlias = tuple[Claim, Batch]
"""Records that merely make the log of a run longer."""


class _Job(Struct, eq=False):
    work: Callable[[Connection], Any]
    loop: AbstractEventLoop
    future: Future[Any]
    is_durable: bool
    tell: Callable[[Any], None] | None
    """Is told the answer before who asked, in the thread and in the order of the commits."""
    growth: Growth | None = None
    """What is to be written, if nothing else is to be done: it can be written with others."""
    answer: Any = None
    error: Exception | None = None


class _Order(Enum):
    WAKE = auto()
    END = auto()


class _Worker(ABC):
    """A thread with a connection of its own, which does one thing after the other."""

    def __init__(self, path: Path, busy_seconds: float) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._queue: SimpleQueue[_Job | _Order] = SimpleQueue()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process: int | None = None  # that of the thread
        self._is_ended = False
        self._death: str | None = None  # what the thread died of
        self._open: Opened | None = None  # the thread's alone

    async def run(
        self,
        work: Callable[[Connection], _Answer],
        *,
        is_durable: bool = False,
        tell: Callable[[_Answer], None] | None = None,
        growth: Growth | None = None,
    ) -> _Answer:
        """Have something done with the connection, and give what comes of it."""
        loop = asyncio.get_running_loop()
        future: Future[_Answer] = loop.create_future()
        self._put(_Job(work, loop, future, is_durable, tell, growth))
        return await future

    def wake(self) -> None:
        """Have the thread see anew how long it may sleep."""
        self._put(_Order.WAKE)

    def end(self) -> None:
        """Have the thread end once all is done that waits."""
        if self._process not in (None, os.getpid()):
            return  # the thread is the parent's, and so may be the lock
        with self._guard:
            self._is_ended = True
            self._queue.put(_Order.END)

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self._thread is not None:
            self._thread.join()

    def _put(self, item: _Job | _Order) -> None:
        if self._process not in (None, os.getpid()):
            raise StoreFailure(
                f"the store {str(self._path)!r} was opened in the process that this one was forked "
                "from: open it anew here"
            )
        with self._guard:
            if self._death is not None:
                raise StoreFailure(self._death)
            if self._is_ended:
                raise StoreFailure("the store is closed: open it anew")
            if self._thread is None:
                self._process = os.getpid()
                # A program that forgets to close the store can end: what was answered is stored.
                self._thread = threading.Thread(target=self._work, name="argstream", daemon=True)
                self._thread.start()
            self._queue.put(item)

    # In the thread

    def _work(self) -> None:
        jobs: list[_Job] = []
        try:
            is_ended = False
            while not is_ended:
                items = self._next()
                is_ended = _Order.END in items
                if jobs := [item for item in items if isinstance(item, _Job)]:
                    self._try(jobs)
                    _answer(jobs)
                    jobs = []
                self._between()
            self._close()
        except BaseException as error:  # noqa: BLE001 - all who wait, or come later, are told
            self._die(error, jobs)

    def _die(self, error: BaseException, jobs: list[_Job]) -> None:
        """See that nobody waits for ever for a thread that is no more."""
        death = f"the store {str(self._path)!r} has broken down ({error!r}): open it anew"
        with self._guard:
            self._death = death
            while not self._queue.empty():
                item = self._queue.get_nowait()
                jobs += [item] if isinstance(item, _Job) else []
        for job in jobs:
            job.error = StoreFailure(death)
            job.error.__cause__ = error
        _answer(jobs)

    def _next(self) -> list[_Job | _Order]:
        """Wait for something to do, and take all there is."""
        items: list[_Job | _Order] = []
        with suppress(Empty):
            items.append(self._queue.get(timeout=self._patience()))
            while len(items) < _MAX_GROUP:
                items.append(self._queue.get_nowait())
        return items

    def _try(self, jobs: Sequence[_Job]) -> None:
        try:
            self._do(jobs)
        except Exception as error:  # noqa: BLE001 - who asked gets it
            for job in jobs:
                job.error = self._as_error(error)
            self._close()  # whatever it was, the next one begins anew: the file may be mended

    def _as_error(self, error: Exception) -> Exception:
        """Say what went wrong, anew for each who asked."""
        match error:
            case sqlite3.Error():
                return failure(self._path, error)
            case StoreFailure():
                return StoreFailure(*error.args)
            case UnicodeEncodeError():
                return UsageError(f"{error.object!r} cannot be stored: it is no Unicode text")
            case _:
                return error

    def _as_failure(self, error: Exception) -> StoreFailure:
        told = self._as_error(error)
        if isinstance(told, StoreFailure):
            return told
        return StoreFailure(f"the store {str(self._path)!r} cannot be looked at: {error!r}")

    def _opened(self) -> Opened:
        if self._open is None:
            self._open = open_file(self._path, self._busy_seconds)
        return self._open

    def _close(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened.connection.close()

    def _transaction(self, begin: str, jobs: Sequence[_Job]) -> None:
        """Do some jobs all together; raises if that does not work, and then none is done."""
        opened = self._opened()
        connection = opened.connection
        try:
            connection.execute(begin)
        except sqlite3.Error as error:
            raise failure(self._path, error) from error
        try:
            for job in self._left(connection, jobs):
                try:
                    job.answer, job.error = job.work(connection), None
                except ArgstreamError as error:
                    job.answer, job.error = None, error
            opened.check()
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # it is not, if the disk is full
                connection.execute("ROLLBACK")
            raise

    def _left(self, connection: Connection, jobs: Sequence[_Job]) -> Sequence[_Job]:  # noqa: ARG002 - for the writer
        """Do what can be done with few statements, and give what is left to do."""
        return jobs

    def _alone(self, begin: str, job: _Job) -> None:
        try:
            self._transaction(begin, [job])
        except Exception as error:  # noqa: BLE001 - as above
            job.error = self._as_error(error)
            self._close()

    @abstractmethod
    def _do(self, jobs: Sequence[_Job]) -> None: ...

    def _patience(self) -> float | None:
        """Say how long to wait for something to do."""
        return None

    def _between(self) -> None:  # noqa: B027 - only the writer has more to do
        """Do what else there is to do."""


class Reader(_Worker):
    """Reads, each time from what is stored at one moment."""

    def _do(self, jobs: Sequence[_Job]) -> None:
        for job in jobs:
            self._alone("BEGIN", job)


class _InTheWay(Exception):  # noqa: N818 - it never gets out of here
    """Not all can be written together: each must be looked at."""


class Writer(_Worker):
    """Writes what all want to have written, and looks out for what other processes write."""

    def __init__(self, path: Path, busy_seconds: float, lookout: Lookout) -> None:
        super().__init__(path, busy_seconds)
        self._lookout = lookout
        self._looked = 0.0
        self._last = 0  # how much was written at once
        self._is_durable: bool | None = None

    def _do(self, jobs: Sequence[_Job]) -> None:
        try:
            self._transaction("BEGIN IMMEDIATE", jobs)
        except StoreFailure:  # it could not even begin, or the file is gone: so it is for each
            raise
        except Exception:  # noqa: BLE001 - who makes it fail fails again, and gets to know
            for job in jobs:
                self._alone("BEGIN IMMEDIATE", job)
        for job in jobs:
            if job.tell is not None and job.error is None:
                job.tell(job.answer)

    def _transaction(self, begin: str, jobs: Sequence[_Job]) -> None:
        self._set_durability(is_durable=any(job.is_durable for job in jobs))
        super()._transaction(begin, jobs)

    def _left(self, connection: Connection, jobs: Sequence[_Job]) -> Sequence[_Job]:
        """Write what makes logs longer, of all runs at once.

        Each statement lets other threads run, and if these are busy that takes its time. Those that
        wait here at the same moment may be done in any order.
        """
        growing = {job.growth[0].run_id: job for job in jobs if job.growth is not None}
        if len(growing) < _FEW:
            return jobs
        growths = [job.growth for job in growing.values() if job.growth is not None]
        if not grow_all(connection, growths):
            raise _InTheWay
        done = {id(job) for job in growing.values()}
        for job in growing.values():
            job.answer, job.error = True, None
        return [job for job in jobs if id(job) not in done]

    def _next(self) -> list[_Job | _Order]:
        """Where much is written, wait a moment for more: it is cheaper together."""
        if self._last >= _MANY:
            self._gather()
        items = super()._next()
        self._last = len(items)
        return items

    def _gather(self) -> None:
        """Wait for more; not long if all who wrote the last time are here again at once.

        A look takes the interpreter away from who makes the work, so there is only one.
        """
        time.sleep(_GLANCE)
        if self._queue.qsize() < self._last:
            time.sleep(_GATHERING - _GLANCE)

    def _close(self) -> None:
        self._is_durable = None
        self._lookout.begin_anew()
        super()._close()

    def _set_durability(self, *, is_durable: bool) -> None:
        """Have a commit wait for the disk, or not: that can be changed between transactions."""
        if is_durable is not self._is_durable:
            level = "FULL" if is_durable else "NORMAL"
            self._opened().connection.execute(f"PRAGMA synchronous = {level}")
            self._is_durable = is_durable

    def _patience(self) -> float | None:
        return _LOOK_SECONDS if self._lookout.is_wanted() else None

    def _between(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS or not self._lookout.is_wanted():
            return
        self._looked = now
        try:
            opened = self._opened()
            opened.check()
            self._lookout.look(opened.connection)
        except Exception as error:  # noqa: BLE001 - who follows gets it; writing goes on
            self._lookout.fail(partial(self._as_failure, error))
            self._close()

    def _die(self, error: BaseException, jobs: list[_Job]) -> None:
        super()._die(error, jobs)
        self._lookout.fail(partial(StoreFailure, self._death))


def _answer(jobs: Sequence[_Job]) -> None:
    by_loop: dict[AbstractEventLoop, list[_Job]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, done in by_loop.items():
        # A loop that was closed has nobody in it who could still want the answer.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, done)


def _settle(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue  # who asked was cancelled
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.answer)
