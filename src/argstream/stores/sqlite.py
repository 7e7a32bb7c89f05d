"""A store in an SQLite file: for one machine, and any number of processes on it."""

import asyncio
import time
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import TypeVar

from argstream.log import Claim, Posts, RunInfo
from argstream.stores._base import BaseStore
from argstream.stores._batches import Batch
from argstream.stores._checks import Wanted
from argstream.stores._refusals import begun_already
from argstream.stores._sqlite_file import check_path
from argstream.stores._sqlite_lookout import Lookout
from argstream.stores._sqlite_rows import (
    drop,
    find,
    get,
    insert,
    merely_grows,
    newest,
    page,
    save,
    states,
    there,
    try_to_grow,
    write,
)
from argstream.stores._sqlite_threads import Reader, Writer
from argstream.stores._state import FIRST_TOKEN, RunState
from argstream.stores._tails import Page

__all__ = ["SqliteStore"]

_Answer = TypeVar("_Answer")


class SqliteStore(BaseStore):
    """Keeps runs in a file, which is made if it is not there, for its owner's eyes only.

    Other processes may use the same file, on the same machine; what they write is heard of within
    about 25 milliseconds. ``busy_seconds`` is how long to wait for one that holds the file locked;
    ``clock`` says what time it is, in seconds since 1970.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        busy_seconds: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._path = check_path(Path(path))
        self._clock = clock
        self._writer = Writer(self._path, busy_seconds, Lookout(self._tails))
        self._reader = Reader(self._path, busy_seconds)
        self._finalizer = weakref.finalize(self, _end, self._writer, self._reader)

    def __repr__(self) -> str:
        return f"<SqliteStore {str(self._path)!r}>"

    def _watch(self, run_id: str) -> None:  # noqa: ARG002 - it looks for all
        self._writer.wake()

    # Who drives a run

    async def _begin(self, batch: Batch, owner: str, seconds: float) -> Claim:
        state = RunState.begun(batch, owner, seconds, self._clock())

        def begin(connection: Connection) -> Claim:
            if find(connection, batch.run_id) is not None:
                raise begun_already(batch.run_id)
            write(connection, insert(connection, state), batch)
            return Claim(batch.run_id, owner, FIRST_TOKEN)

        return await self._writer.run(begin, is_durable=True)

    async def _claim(self, run_id: str, owner: str, seconds: float) -> Claim:
        return await self._change(run_id, lambda state: state.claim(owner, seconds, self._clock()))

    async def _renew(self, claim: Claim, seconds: float) -> None:
        await self._change(
            claim.run_id,
            lambda state: state.renew(claim, seconds, self._clock()),
            is_durable=False,
        )

    async def _release(self, claim: Claim) -> None:
        def release(connection: Connection) -> None:
            if (found := find(connection, claim.run_id)) and found[1].release(claim):
                save(connection, *found)

        await self._writer.run(release)

    async def _append(self, claim: Claim, batch: Batch) -> None:
        def append(connection: Connection) -> bool:
            key = try_to_grow(connection, claim, batch)
            if key is None:
                key, state = get(connection, batch.run_id)
                found = partial(there, connection, key, batch)
                if not state.append(claim, batch, found, self._clock()):
                    return False
                save(connection, key, state)
            write(connection, key, batch)
            return True

        def tell(is_new: bool) -> None:  # noqa: FBT001 - the answer of the other
            if is_new:
                self._written(batch)

        growth = (claim, batch) if merely_grows(batch) else None
        await self._writer.run(append, is_durable=batch.is_durable, tell=tell, growth=growth)

    async def _reopen(self, claim: Claim, call_id: str) -> None:
        def reopen(state: RunState) -> None:
            state.check(claim, self._clock())
            state.reopen(call_id)

        await self._change(claim.run_id, reopen)
        self._posted_to(claim.run_id)

    # Who follows it

    async def _page(self, run_id: str, after: int, limit: int) -> Page:
        return await self._reader.run(lambda connection: page(connection, run_id, after, limit))

    # Anybody

    async def _decide(self, run_id: str, decisions: Mapping[str, tuple[bytes, str]]) -> None:
        await self._change(run_id, lambda state: state.decide(decisions))
        self._posted_to(run_id)

    async def _stop(self, run_id: str, reason: str) -> None:
        await self._change(run_id, lambda state: state.stop(reason))
        self._posted_to(run_id)

    async def _posts(self, run_id: str) -> Posts | None:
        return await self._reader.run(lambda connection: get(connection, run_id)[1].posts())

    async def _info(self, run_id: str) -> RunInfo:
        def info(connection: Connection) -> RunInfo:
            return get(connection, run_id)[1].info(self._clock())

        return await self._reader.run(info)

    async def _runs(self, wanted: Wanted, limit: int | None) -> list[RunInfo]:
        def runs(connection: Connection) -> list[RunInfo]:
            now = self._clock()
            return [state.info(now) for state in newest(connection, wanted, limit)]

        return await self._reader.run(runs)

    async def _delete(self, run_id: str) -> None:
        def delete(connection: Connection) -> None:
            get(connection, run_id)[1].check_deletable(self._clock())
            drop(connection, run_id)

        await self._writer.run(delete, is_durable=True)

    async def _expire(self, seconds: float, *, unfinished: bool) -> list[str]:
        def expire(connection: Connection) -> list[str]:
            now = self._clock()
            before = now - seconds
            expired = [
                state.run_id
                for state in states(connection, "WHERE updated <= ?", (before,))
                if state.has_expired(before, now, unfinished=unfinished)
            ]
            for run_id in expired:
                drop(connection, run_id)
            return expired

        return await self._writer.run(expire, is_durable=True)

    async def _aclose(self) -> None:
        self._finalizer()
        loop = asyncio.get_running_loop()
        for worker in (self._writer, self._reader):
            await loop.run_in_executor(None, worker.join)

    async def _change(
        self, run_id: str, change: Callable[[RunState], _Answer], *, is_durable: bool = True
    ) -> _Answer:
        def work(connection: Connection) -> _Answer:
            key, state = get(connection, run_id)
            answer = change(state)
            save(connection, key, state)
            return answer

        return await self._writer.run(work, is_durable=is_durable)


def _end(*workers: Reader | Writer) -> None:
    for worker in workers:
        worker.end()
