"""A store in memory: for tests, and for programs whose runs end with them."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct

from argstream.errors import UnknownRun
from argstream.runs._batches import Batch, Wanted, begun_already
from argstream.runs._hub import Page
from argstream.runs._records import Claim, Posts, RunInfo
from argstream.runs._store import FIRST_TOKEN, BaseStore, RunState

__all__ = ["MemoryStore"]


class _Run(Struct):
    state: RunState
    lines: list[bytes]
    """Encoded, so that callers share no value with the store."""


class MemoryStore(BaseStore):
    """Keeps runs in this process, as long as that lives. Thread-safe.

    ``clock`` returns the time in seconds since 1970.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Run] = {}

    async def _begin(self, batch: Batch, owner: str, seconds: float) -> Claim:
        with self._lock:
            if batch.run_id in self._kept:
                raise begun_already(batch.run_id)
            state = RunState.begun(batch, owner, seconds, self._clock())
            self._kept[batch.run_id] = _Run(state, list(batch.lines))
            return Claim(batch.run_id, owner, FIRST_TOKEN)

    async def _claim(self, run_id: str, owner: str, seconds: float) -> Claim:
        with self._run(run_id) as run:
            return run.state.claim(owner, seconds, self._clock())

    async def _renew(self, claim: Claim, seconds: float) -> None:
        with self._run(claim.run_id) as run:
            run.state.renew(claim, seconds, self._clock())

    async def _release(self, claim: Claim) -> None:
        with self._lock:
            if run := self._kept.get(claim.run_id):
                run.state.release(claim)

    async def _append(self, claim: Claim, batch: Batch) -> None:
        with self._run(batch.run_id) as run:
            there = run.lines[batch.first - 1 : batch.last]
            if run.state.append(claim, batch, lambda: there, self._clock()):
                run.lines += batch.lines
                self._written(batch)  # in here, so that a later batch is not reported before
        await asyncio.sleep(0)  # lets followers run, as they do while a disk works

    async def _reopen(self, claim: Claim, call_id: str) -> None:
        with self._run(claim.run_id) as run:
            run.state.check(claim, self._clock())
            run.state.reopen(call_id)
        self._tails.posts_changed(claim.run_id)

    async def _page(self, run_id: str, after: int, limit: int) -> Page:
        with self._run(run_id) as run:
            return run.lines[after : after + limit], after + limit < len(run.lines)

    async def _decide(self, run_id: str, decisions: Mapping[str, tuple[bytes, str]]) -> None:
        with self._run(run_id) as run:
            run.state.decide(decisions)
        self._tails.posts_changed(run_id)

    async def _stop(self, run_id: str, reason: str) -> None:
        with self._run(run_id) as run:
            run.state.stop(reason)
        self._tails.posts_changed(run_id)

    async def _posts(self, run_id: str) -> Posts | None:
        with self._run(run_id) as run:
            return run.state.posts()

    async def _info(self, run_id: str) -> RunInfo:
        with self._run(run_id) as run:
            return run.state.info(self._clock())

    async def _runs(self, wanted: Wanted, limit: int | None) -> list[RunInfo]:
        with self._lock:
            now = self._clock()
            states = [run.state for run in self._kept.values()]
            found = [one for one in states if wanted.fits(one.status, one.session_id, one.user)]
            found.sort(key=lambda state: (state.updated, state.run_id), reverse=True)
            return [state.info(now) for state in found[:limit]]

    async def _delete(self, run_id: str) -> None:
        with self._run(run_id) as run:
            run.state.check_deletable(self._clock())
            del self._kept[run_id]

    async def _expire(self, seconds: float, *, unfinished: bool) -> list[str]:
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
                raise UnknownRun(run_id)
            yield self._kept[run_id]
