"""A store in memory, for tests and for runs that need not survive their process."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from argstream.errors import RunNotFoundError
from argstream.runs._batches import Batch, Filter, run_exists
from argstream.runs._hub import Page
from argstream.runs._records import ConversationInfo, Lease, Record, from_json, to_json
from argstream.runs._store import Now, Store, StoredRun

__all__ = ["MemoryStore"]

_Answer = TypeVar("_Answer")


class _Run(Struct):
    state: StoredRun
    log: list[Record | bytes]
    """Deltas as objects, other records as JSON, so that callers share no mutable value with it."""


class MemoryStore(Store):
    """Keeps runs in memory until the process ends.

    Threads, event loops and agents of this process may share it. ``clock`` replaces the clocks in
    tests.
    """

    def __init__(self, *, clock: Callable[[], float] | None = None) -> None:
        super().__init__()
        self._now = partial(Now.here, clock)
        self._lock = threading.Lock()
        self._kept: dict[str, _Run] = {}
        self._rows: dict[tuple[str, str], ConversationInfo] = {}  # by user and ID

    async def _create(self, make: Callable[[Now], StoredRun], batch: Batch) -> None:
        self._check_open()
        with self._lock:
            if batch.run_id in self._kept:
                raise run_exists(batch.run_id)
            run = make(self._now())
            self._kept[batch.run_id] = _Run(run, list(_kept(batch)))
            key = run.user, run.conversation_id
            known = self._rows.get(key)
            if known is None:
                known = ConversationInfo(
                    run.conversation_id, run.user, run.title, run.created, run.created
                )
            self._rows[key] = replace(known, updated=run.created, deleted_at=None)

    async def _change(
        self, run_id: str, change: Callable[[StoredRun, Now], _Answer], *, is_durable: bool = True
    ) -> _Answer:
        with self._lock:
            return change(self._run(run_id).state, self._now())

    async def _append(self, lease: Lease, batch: Batch) -> None:
        with self._lock:
            run = self._run(batch.run_id)
            if run.state.append(lease, batch, partial(_lines, run, batch), self._now):
                run.log += _kept(batch)
                self._report_written(batch)  # while locked, so that batches are reported in order

    async def _load(self, run_id: str) -> tuple[StoredRun, Now]:
        with self._lock:
            return _copied(self._run(run_id).state), self._now()

    async def _list(self, wanted: Filter, limit: int | None) -> tuple[Sequence[StoredRun], Now]:
        self._check_open()
        now = self._now()
        oldest = None if wanted.older_than is None else now.wall - wanted.older_than
        with self._lock:
            states = [run.state for run in self._kept.values()]
            found = [
                _copied(state)
                for state in states
                if wanted.matches(state.status, state.conversation_id, state.user)
                and (oldest is None or state.updated <= oldest)
            ]
        found.sort(key=lambda state: (state.updated, state.run_id), reverse=True)
        return found[:limit], now

    async def _page(self, run_id: str, after: int, limit: int) -> Page:
        with self._lock:
            log = self._run(run_id).log
            page, is_more = log[after : after + limit], after + limit < len(log)
        return [from_json(one) if isinstance(one, bytes) else one for one in page], is_more

    async def _delete(
        self, run_ids: Sequence[str], allow: Callable[[StoredRun, Now], bool]
    ) -> list[str]:
        self._check_open()
        now, deleted = self._now(), []
        with self._lock:
            for run_id in run_ids:
                if (run := self._kept.get(run_id)) is not None and allow(run.state, now):
                    del self._kept[run_id]
                    deleted.append(run_id)
            left = {(run.state.user, run.state.conversation_id) for run in self._kept.values()}
            self._rows = {key: row for key, row in self._rows.items() if key in left}
        return deleted

    async def _conversations(
        self, user: str | None, limit: int | None, *, deleted: bool
    ) -> list[ConversationInfo]:
        self._check_open()
        with self._lock:
            found = [
                row
                for row in self._rows.values()
                if user in (None, row.user) and (deleted or row.deleted_at is None)
            ]
        found.sort(key=lambda row: (row.updated, row.conversation_id), reverse=True)
        return found[:limit]

    async def _change_conversation(
        self, conversation_id: str, user: str, changes: Mapping[str, Any]
    ) -> bool:
        self._check_open()
        with self._lock:
            row = self._rows.get((user, conversation_id))
            if row is not None:
                self._rows[user, conversation_id] = replace(row, **changes)
            return row is not None

    async def _aclose(self) -> None:
        pass

    def _run(self, run_id: str) -> _Run:
        self._check_open()
        if run_id not in self._kept:
            raise RunNotFoundError(run_id)
        return self._kept[run_id]


def _copied(state: StoredRun) -> StoredRun:
    return replace(state, pending=dict(state.pending), decisions=dict(state.decisions))


def _kept(batch: Batch) -> Sequence[Record | bytes]:
    if batch.is_durable:
        return batch.lines
    # Argument events are computed, not stored.
    return [replace(record, arguments=None) for record in batch.records]


def _lines(run: _Run, batch: Batch) -> list[bytes]:
    there = run.log[batch.first - 1 : batch.last]
    return [one if isinstance(one, bytes) else to_json(one) for one in there]
