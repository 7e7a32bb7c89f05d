"""Where records are kept while that is measured: the stores, and what these stand on by itself."""

import asyncio
import sqlite3
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    aclosing,
    asynccontextmanager,
    closing,
    contextmanager,
)
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

import redis.asyncio

from argstream import RunStarted
from argstream.log import Record, Store
from argstream.stores import open_store
from newer_python import ROOT

MEMORY, SQLITE = "memory", "SQLite"
REDIS, DURABLE_REDIS = "Redis", "Redis, appendfsync always"
BARE_SQLITE, BARE_SQLITE_THREAD = "sqlite3 by itself", "sqlite3 by itself, in a thread"
BARE_REDIS = "redis-py by itself"
BARE_DURABLE_REDIS = "redis-py by itself, appendfsync always"

CLAIM_SECONDS = 60.0

_ON_DISK = ROOT / ".venv"
"""Files go there, since a directory for temporary ones may be in memory."""
_numbers = count(1)


class Written(NamedTuple):
    """Records of a run that are written at once."""

    records: list[Record]
    lines: list[bytes]
    """The same as they are stored, for who knows nothing of records."""


Append: TypeAlias = Callable[[Written], Awaitable[None]]
Begin: TypeAlias = Callable[[str], Awaitable[Append]]
"""Begins a run of that name, and gives what writes to it."""


class Place(Protocol):
    """Somewhere to keep the records of runs."""

    @property
    def name(self) -> str:
        """What it is called in the tables."""
        ...

    def writing(self, *, durable: bool) -> AbstractAsyncContextManager[Begin]:
        """Open it for somebody who writes."""
        ...


@dataclass(frozen=True)
class StorePlace:
    """A store of argstream."""

    name: str
    where: Callable[[], str]
    """Says what to open: each time another file, if it is one."""

    def open(self) -> Store:
        """Open the store."""
        return open_store(self.where())

    @asynccontextmanager
    async def writing(
        self,
        *,
        durable: bool,  # noqa: ARG002 - a store sees by the records what must be
    ) -> AsyncGenerator[Begin, None]:
        """Open the store for somebody who writes."""
        async with aclosing(self.open()) as store:

            async def begin(run_id: str) -> Append:
                claim = await store.begin([first_record(run_id)], "benchmark", CLAIM_SECONDS)
                return lambda written: store.append(claim, written.records)

            yield begin


@dataclass(frozen=True)
class BareSqlite:
    """The same rows in the same kind of file, without a store: a commit for each batch.

    The event loop waits for the disk, unless it is done in a thread.
    """

    name: str
    directory: Path
    in_thread: bool = False

    @asynccontextmanager
    async def writing(self, *, durable: bool) -> AsyncGenerator[Begin, None]:
        """Open the file for somebody who writes."""
        connection = sqlite3.connect(
            new_file(self.directory), isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.execute(
            "CREATE TABLE records (run INTEGER NOT NULL, seq INTEGER NOT NULL, line BLOB NOT NULL, "
            "PRIMARY KEY (run, seq)) WITHOUT ROWID"
        )
        keys = count(1)
        loop = asyncio.get_running_loop()

        def write(key: int, written: Written) -> None:
            lines = enumerate(written.lines, written.records[0].seq)
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO records (run, seq, line) VALUES (?, ?, ?)",
                [(key, seq, line) for seq, line in lines],
            )
            connection.execute("COMMIT")

        with closing(connection), ThreadPoolExecutor(1) as thread:

            async def append(key: int, written: Written) -> None:
                if self.in_thread:
                    await loop.run_in_executor(thread, write, key, written)
                else:
                    write(key, written)

            async def begin(_: str) -> Append:
                return partial(append, next(keys))

            yield begin


@dataclass(frozen=True)
class BareRedis:
    """The same entries in a stream, without a store: XADD, several in one transaction."""

    name: str
    url: str

    @asynccontextmanager
    async def writing(
        self,
        *,
        durable: bool,  # noqa: ARG002 - that is for the server to say
    ) -> AsyncGenerator[Begin, None]:
        """Connect to the server for somebody who writes."""
        client = redis.asyncio.Redis.from_url(self.url)

        async def append(run_id: str, written: Written) -> None:
            first = written.records[0].seq
            if len(written.lines) == 1:
                await client.xadd(run_id, {b"record": written.lines[0]}, f"{first}-0")
                return
            async with client.pipeline() as pipeline:
                for seq, line in enumerate(written.lines, first):
                    _ = pipeline.xadd(run_id, {b"record": line}, f"{seq}-0")  # only queued
                await pipeline.execute()

        async def begin(run_id: str) -> Append:
            return partial(append, f"bare:{run_id}")

        try:
            yield begin
        finally:
            await client.aclose()


@dataclass(frozen=True)
class Places:
    """All of them, by their names."""

    stores: dict[str, StorePlace]
    bare: dict[str, Place]


@contextmanager
def opened_places() -> Iterator[Places]:
    """Make a directory, and start the servers that it takes."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_ON_DISK)))
        settings = {"appendonly": "yes", "appendfsync": "always", "dir": str(directory)}
        plain = stack.enter_context(_redis())
        durable = stack.enter_context(_redis(**settings))
        stores = [
            StorePlace(MEMORY, lambda: "memory:"),
            StorePlace(SQLITE, lambda: str(new_file(directory))),
            StorePlace(REDIS, lambda: plain),
            StorePlace(DURABLE_REDIS, lambda: durable),
        ]
        bare: list[Place] = [
            BareSqlite(BARE_SQLITE, directory),
            BareSqlite(BARE_SQLITE_THREAD, directory, in_thread=True),
            BareRedis(BARE_REDIS, plain),
            BareRedis(BARE_DURABLE_REDIS, durable),
        ]
        yield Places(
            {place.name: place for place in stores},
            {place.name: place for place in bare},
        )


@contextmanager
def _redis(**options: str) -> Iterator[str]:
    """Start a server as the tests have it, and say where it is."""
    sys.path.append(str(ROOT))
    from tests.stores.redis_server import RedisServer  # noqa: PLC0415 - found only from here on

    with RedisServer(tcp=False, **options) as server:
        yield server.url


def new_file(directory: Path) -> Path:
    """Give the path of a file that is not there yet."""
    return directory / f"{next(_numbers)}.db"


def new_run() -> str:
    """Give a name that no run has had."""
    return f"run-{next(_numbers)}"


def first_record(run_id: str) -> Record:
    """Give the record that a run begins with."""
    return Record(1, 0.0, run_id, "session", "agent", RunStarted(run_id, "Go"))
