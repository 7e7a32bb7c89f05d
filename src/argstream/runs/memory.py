"""A store in memory: for tests, and for programs whose runs end with them."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct

from argstream.errors import RunNotFoundError
from argstream.runs._batches import Batch, Wanted, begun_already
from argstream.runs._hub import Page
from argstream.runs._records import Commands, Lease, RunInfo
from argstream.runs._store import FIRST_TOKEN, Store, StoredRun

__all__ = ["MemoryStore"]


class _Run(Struct):
    state: StoredRun
    lines: list[bytes]
    """Encoded, so that callers share no value with the store."""


class MemoryStore(Store):
    """Keeps runs in this process, as long as that lives. Thread-safe.

    ``clock`` returns the time in seconds since 1970.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Run] = {}

    async def _create(self, batch: Batch, owner: str, seconds: float) -> Lease:
        with self._lock:
            if batch.run_id in self._kept:
                raise begun_already(batch.run_id)
            state = StoredRun.created_with(batch, owner, seconds, self._clock())
            self._kept[batch.run_id] = _Run(state, list(batch.lines))
            return Lease(batch.run_id, owner, FIRST_TOKEN)

    async def _acquire(self, run_id: str, owner: str, seconds: float) -> Lease:
        with self._run(run_id) as run:
            return run.state.acquire(owner, seconds, self._clock())

    async def _renew(self, lease: Lease, seconds: float) -> None:
        with self._run(lease.run_id) as run:
            run.state.renew(lease, seconds, self._clock())

    async def _release(self, lease: Lease) -> None:
        with self._lock:
            if run := self._kept.get(lease.run_id):
                run.state.release(lease)

    async def _append(self, lease: Lease, batch: Batch) -> None:
        with self._run(batch.run_id) as run:
            there = run.lines[batch.first - 1 : batch.last]
            if run.state.append(lease, batch, lambda: there, self._clock()):
                run.lines += batch.lines
                self._written(batch)  # in here, so that a later batch is not reported before
        await asyncio.sleep(0)  # lets followers run, as they do while a disk works

    async def _reopen(self, lease: Lease, call_id: str) -> None:
        with self._run(lease.run_id) as run:
            run.state.check(lease, self._clock())
            run.state.reopen(call_id)
        self._tails.commands_changed(lease.run_id)

    async def _page(self, run_id: str, after: int, limit: int) -> Page:
        with self._run(run_id) as run:
            return run.lines[after : after + limit], after + limit < len(run.lines)

    async def _decide(self, run_id: str, decisions: Mapping[str, tuple[bytes, str]]) -> None:
        with self._run(run_id) as run:
            run.state.decide(decisions)
        self._tails.commands_changed(run_id)

    async def _stop(self, run_id: str, reason: str) -> None:
        with self._run(run_id) as run:
            run.state.stop(reason)
        self._tails.commands_changed(run_id)

    async def _commands(self, run_id: str) -> Commands | None:
        with self._run(run_id) as run:
            return run.state.watch_commands()

    async def _info(self, run_id: str) -> RunInfo:
        with self._run(run_id) as run:
            return run.state.info(self._clock())

    async def _runs(self, wanted: Wanted, limit: int | None) -> list[RunInfo]:
        with self._lock:
            now = self._clock()
            states = [run.state for run in self._kept.values()]
            found = [
                one for one in states if wanted.fits(one.status, one.conversation_id, one.user)
            ]
            found.sort(key=lambda state: (state.updated, state.run_id), reverse=True)
            return [state.info(now) for state in found[:limit]]

    async def _delete(self, run_id: str) -> None:
        with self._run(run_id) as run:
            run.state.check_deletable(self._clock())
            del self._kept[run_id]

    async def _delete_older_than(self, seconds: float, *, unfinished: bool) -> list[str]:
        with self._lock:
            now = self._clock()
            expired = [
                run_id
                for run_id, run in self._kept.items()
                if run.state.has_expired(now - seconds, now, unfinished=unfinished)
            ]
            for run_id in expired:
                del self._kept[run_id]
            return expired

    async def _aclose(self) -> None:
        with self._lock:
            self._kept.clear()

    @contextmanager
    def _run(self, run_id: str) -> Iterator[_Run]:
        with self._lock:
            if run_id not in self._kept:
                raise RunNotFoundError(run_id)
            yield self._kept[run_id]
