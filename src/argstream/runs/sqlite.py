"""A store in an SQLite file: for one machine, and any number of processes on it."""

import asyncio
import os
import sqlite3
import stat
import threading
import time
import weakref
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from sqlite3 import Connection
from tempfile import mkstemp
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from argstream.errors import ArgstreamError, RunNotFoundError, StoreError, UsageError
from argstream.runs._batches import Batch, Wanted, begun_already
from argstream.runs._hub import Page, Tails
from argstream.runs._records import Commands, Lease, RunInfo
from argstream.runs._store import FIRST_TOKEN, Store, StoredRun

__all__ = ["SqliteStore"]

_APPLICATION_ID: Final = 0x61726773  # "args": so that `file` and we can tell what it is
_VERSION: Final = 4
_CHECKPOINT_PAGES: Final = 10_000
"""After how many pages SQLite's own log is moved into the database, which waits for the disk: where
much is written, by default that would be several times a second."""
_UNFINISHED: Final = "status IN ('running', 'paused')"
_SOMEBODYS: Final = "user <> ''"
_INDEXES: Final = (
    "CREATE INDEX runs_by_conversation ON runs (conversation_id)",
    # Nothing that changes with each record, which would make all writing slower.
    f"CREATE INDEX runs_by_user ON runs (user, conversation_id) WHERE {_SOMEBODYS}",
    f"CREATE INDEX runs_unfinished ON runs (status) WHERE {_UNFINISHED}",
)
_SCHEMA: Final = (
    """
    CREATE TABLE runs (
        key INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL UNIQUE,
        conversation_id TEXT NOT NULL,
        agent TEXT NOT NULL,
        status TEXT NOT NULL,
        seq INTEGER NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        token INTEGER NOT NULL,
        owner TEXT,
        until REAL NOT NULL,
        lasts REAL NOT NULL,
        pending TEXT NOT NULL,
        decisions TEXT NOT NULL,
        stop_reason TEXT,
        user TEXT NOT NULL,
        commands_version INTEGER NOT NULL
    )
    """,
    *_INDEXES,
    """
    CREATE TABLE records (
        run INTEGER NOT NULL REFERENCES runs (key),
        seq INTEGER NOT NULL,
        line BLOB NOT NULL,
        PRIMARY KEY (run, seq)
    ) WITHOUT ROWID
    """,
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_VERSION}",
)
_LOOK_SECONDS: Final = 0.02
_FEW: Final = 2
_MANY: Final = 8
_GATHERING: Final = 0.01
"""For how many seconds the writer waits for more after a large round."""
_GLANCE: Final = 0.003
_MAX_GROUP: Final = 1_000
_AT_ONCE: Final = 500
_REASONS: Final = {
    "SQLITE_BUSY": "another process has it locked, for longer than we wait",
    "SQLITE_LOCKED": "another process has it locked, for longer than we wait",
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "it may only be read",
    "SQLITE_PERM": "we may not use it",
    "SQLITE_NOTADB": "it is no SQLite database",
    "SQLITE_CORRUPT": "it is damaged",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_IOERR": "the disk does not work",
}
_COLUMNS: Final = StoredRun.__struct_fields__
_JSON: Final = {"pending": dict[str, str], "decisions": dict[str, str | None]}
_NAMES: Final = ", ".join(_COLUMNS)
_INSERT: Final = (
    f"INSERT INTO runs ({_NAMES}) VALUES ({', '.join('?' * len(_COLUMNS))}) RETURNING key"  # noqa: S608 - our own names
)
_UPDATE: Final = f"UPDATE runs SET ({_NAMES}) = ({', '.join('?' * len(_COLUMNS))}) WHERE key = ?"  # noqa: S608 - as above
_GROW: Final = (
    "UPDATE runs SET seq = ?, updated = ? "
    "WHERE run_id = ? AND token = ? AND seq = ? AND status IN ('running', 'paused') RETURNING key"
)
_GROW_ALL: Final = (
    "UPDATE runs SET seq = new.seq, updated = new.updated "
    "FROM (SELECT column1 AS seq, column2 AS updated, column3 AS run_id, column4 AS token, "
    "column5 AS before FROM (VALUES {})) AS new "
    "WHERE runs.run_id = new.run_id AND runs.token = new.token AND runs.seq = new.before "
    "AND runs.status IN ('running', 'paused')"
)
_WRITE: Final = (
    "INSERT INTO records (run, seq, line) SELECT column1, column2, column3 FROM (VALUES {}) "
    "WHERE column1 IS NOT NULL"
)
_WRITE_ALL: Final = (
    "INSERT INTO records (run, seq, line) SELECT runs.key, new.column2, new.column3 "
    "FROM (VALUES {}) AS new JOIN runs ON runs.run_id = new.column1"
)
_ROWS_AT_ONCE: Final = 512
_PAGE_BYTES: Final = 4_000_000

_Answer = TypeVar("_Answer")
_Height = tuple[float, int, int]
"""When a run was created, how far it has come, and what version of its commands there is."""
_Growth: TypeAlias = tuple[Lease, Batch]
"""Records that merely make the log of a run longer."""


class SqliteStore(Store):
    """Keeps runs in a file. If the file does not exist, it is created for its owner only.

    Other processes on the same machine may use the same file. What they write is noticed within
    about 25 milliseconds. ``busy_seconds`` is how long to wait while another process has the file
    locked; ``clock`` returns the time in seconds since 1970.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        busy_seconds: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._path = _check_path(Path(path))
        self._clock = clock
        self._writer = _Writer(self._path, busy_seconds, _Lookout(self._tails))
        self._reader = _Reader(self._path, busy_seconds)
        self._finalizer = weakref.finalize(self, _end, self._writer, self._reader)

    def __repr__(self) -> str:
        return f"<SqliteStore {str(self._path)!r}>"

    def _watch(self, run_id: str) -> None:
        self._writer.wake()

    async def _create(self, batch: Batch, owner: str, seconds: float) -> Lease:
        state = StoredRun.created_with(batch, owner, seconds, self._clock())

        def create(connection: Connection) -> Lease:
            if _find(connection, batch.run_id) is not None:
                raise begun_already(batch.run_id)
            _write(connection, _insert(connection, state), batch)
            return Lease(batch.run_id, owner, FIRST_TOKEN)

        return await self._writer.run(create, is_durable=True)

    async def _acquire(self, run_id: str, owner: str, seconds: float) -> Lease:
        return await self._change(
            run_id, lambda state: state.acquire(owner, seconds, self._clock())
        )

    async def _renew(self, lease: Lease, seconds: float) -> None:
        await self._change(
            lease.run_id,
            lambda state: state.renew(lease, seconds, self._clock()),
            is_durable=False,
        )

    async def _release(self, lease: Lease) -> None:
        def release(connection: Connection) -> None:
            if (found := _find(connection, lease.run_id)) and found[1].release(lease):
                _save(connection, *found)

        await self._writer.run(release)

    async def _append(self, lease: Lease, batch: Batch) -> None:
        def append(connection: Connection) -> bool:
            key = _try_to_grow(connection, lease, batch)
            if key is None:
                key, state = _get(connection, batch.run_id)
                found = partial(_there, connection, key, batch)
                if not state.append(lease, batch, found, self._clock()):
                    return False
                _save(connection, key, state)
            _write(connection, key, batch)
            return True

        def tell(is_new: bool) -> None:  # noqa: FBT001 - the answer of the other
            if is_new:
                self._written(batch)

        growth = (lease, batch) if _merely_grows(batch) else None
        await self._writer.run(append, is_durable=batch.is_durable, tell=tell, growth=growth)

    async def _reopen(self, lease: Lease, call_id: str) -> None:
        def reopen(state: StoredRun) -> None:
            state.check(lease, self._clock())
            state.reopen(call_id)

        await self._change(lease.run_id, reopen)
        self._tails.commands_changed(lease.run_id)

    async def _page(self, run_id: str, after: int, limit: int) -> Page:
        return await self._reader.run(lambda connection: _page(connection, run_id, after, limit))

    async def _decide(self, run_id: str, decisions: Mapping[str, tuple[bytes, str]]) -> None:
        await self._change(run_id, lambda state: state.decide(decisions))
        self._tails.commands_changed(run_id)

    async def _stop(self, run_id: str, reason: str) -> None:
        await self._change(run_id, lambda state: state.stop(reason))
        self._tails.commands_changed(run_id)

    async def _commands(self, run_id: str) -> Commands | None:
        return await self._reader.run(
            lambda connection: _get(connection, run_id)[1].watch_commands()
        )

    async def _info(self, run_id: str) -> RunInfo:
        def info(connection: Connection) -> RunInfo:
            return _get(connection, run_id)[1].info(self._clock())

        return await self._reader.run(info)

    async def _runs(self, wanted: Wanted, limit: int | None) -> list[RunInfo]:
        def runs(connection: Connection) -> list[RunInfo]:
            now = self._clock()
            return [state.info(now) for state in _newest(connection, wanted, limit)]

        return await self._reader.run(runs)

    async def _delete(self, run_id: str) -> None:
        def delete(connection: Connection) -> None:
            _get(connection, run_id)[1].check_deletable(self._clock())
            _drop(connection, run_id)

        await self._writer.run(delete, is_durable=True)

    async def _delete_older_than(self, seconds: float, *, unfinished: bool) -> list[str]:
        def expire(connection: Connection) -> list[str]:
            now = self._clock()
            before = now - seconds
            expired = [
                state.run_id
                for state in _states(connection, "WHERE updated <= ?", (before,))
                if state.has_expired(before, now, unfinished=unfinished)
            ]
            for run_id in expired:
                _drop(connection, run_id)
            return expired

        return await self._writer.run(expire, is_durable=True)

    async def _aclose(self) -> None:
        self._finalizer()
        loop = asyncio.get_running_loop()
        for worker in (self._writer, self._reader):
            await loop.run_in_executor(None, worker.join)

    async def _change(
        self, run_id: str, change: Callable[[StoredRun], _Answer], *, is_durable: bool = True
    ) -> _Answer:
        def work(connection: Connection) -> _Answer:
            key, state = _get(connection, run_id)
            answer = change(state)
            _save(connection, key, state)
            return answer

        return await self._writer.run(work, is_durable=is_durable)


def _end(*workers: "_Worker") -> None:
    for worker in workers:
        worker.end()


class _Place(NamedTuple):
    """Which file is at a path."""

    device: int
    number: int


class _Opened:
    """A connection to the file, and which file that was."""

    def __init__(self, path: Path, connection: Connection, database: _Place) -> None:
        self.connection = connection
        log = _log(path)
        self._places = {path: database, log: _place(log)}

    def check(self) -> None:
        """Check that others will find what is written: not if the file was taken away."""
        for path, place in self._places.items():
            if _place(path) != place:
                raise StoreError(
                    f"the file {str(path)!r} was deleted, or another was put in its place, while "
                    "it was in use: what was not acknowledged is not stored"
                )


def _log(path: Path) -> Path:
    """Return where SQLite first writes what changes."""
    return path.with_name(f"{path.name}-wal")


def _place(path: Path) -> _Place:
    try:
        found = path.stat()
    except FileNotFoundError:
        return _Place(-1, -1)
    return _Place(found.st_dev, found.st_ino)


def _check_path(path: Path) -> Path:
    try:
        if path.is_dir():
            raise UsageError(f"{str(path)!r} is a directory: name a file in it")
        if "\0" in str(path):
            raise UsageError(f"{str(path)!r} cannot be the name of a file")
        # What the process does later in another directory must not lead to another file.
        path = Path(os.path.realpath(path))
        if not path.parent.is_dir():
            raise UsageError(f"{str(path)!r} cannot be: there is no directory {str(path.parent)!r}")
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{str(path)!r} cannot be the path of a store: {error}") from error
    return path


def _open_file(path: Path, busy_seconds: float) -> _Opened:
    connection = None
    try:
        _make(path)
        before = _place(path)
        # SQLite must not create it: others could read it, and logs hold what people wrote.
        address = f"file:{quote(os.fsencode(path))}?mode=rw"
        connection = sqlite3.connect(address, uri=True, timeout=busy_seconds, isolation_level=None)
        _prepare(connection, path, busy_seconds)
        opened = _Opened(path, connection, before)
        opened.check()
    except (sqlite3.Error, OSError, StoreError) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, StoreError):
            raise
        raise _failure(path, error) from error
    return opened


def _make(path: Path) -> None:
    """Create an empty file for its owner only, if there is none. SQLite's other files follow it."""
    has_log = _log(path).exists()  # it is made after what is in the file, so look there first
    if has_log and not (path.exists() and path.stat().st_size):
        raise StoreError(
            f"the store {str(path)!r} cannot be used: it is empty or gone, but the log of what was "
            f"in it is there. Put the file back, or delete {str(_log(path))!r}"
        )
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            raise StoreError(f"the store {str(path)!r} cannot be used: it is no file")
        return
    # The name is given to a file that no process has open: see above.
    number, name = mkstemp(prefix=".argstream-", dir=path.parent)
    os.close(number)
    try:
        with suppress(FileExistsError):  # another process has just made it
            os.link(name, path)
    finally:
        Path(name).unlink()


def _prepare(connection: Connection, path: Path, busy_seconds: float) -> None:
    if _kind(connection) != (_APPLICATION_ID, _VERSION):
        _create(connection, path)
    # SQLite does not wait by itself for who writes when it is to change this.
    mode = _patiently(lambda: _value(connection, "PRAGMA journal_mode = WAL"), busy_seconds)
    if mode != "wal":
        raise StoreError(
            f"{str(path)!r} is on a file system that cannot do what SQLite needs (WAL): put it on "
            "a local disk"
        )
    _kind(connection)  # so that the log is there, too
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")


def _create(connection: Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Only now no other process can create them.
        for statement in _missing(connection, path):
            connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # it is not, if the disk is full
            connection.execute("ROLLBACK")
        raise


def _missing(connection: Connection, path: Path) -> tuple[str, ...]:
    """Return the statements that create our tables; none if they exist. Raises for other tables."""
    application, version = _kind(connection)
    if application == _APPLICATION_ID and version == _VERSION:
        return ()
    if application == _APPLICATION_ID:
        raise StoreError(
            f"{str(path)!r} has format {version} of another version of argstream; this one reads "
            f"format {_VERSION}. Name a new file, or use the other version"
        )
    if application or version or _value(connection, "SELECT count(*) FROM sqlite_master"):
        raise StoreError(f"{str(path)!r} is a database of another program: name another file")
    return _SCHEMA


def _kind(connection: Connection) -> tuple[object, object]:
    return (
        _value(connection, "PRAGMA application_id"),
        _value(connection, "PRAGMA user_version"),
    )


def _value(connection: Connection, statement: str) -> object:
    return connection.execute(statement).fetchone()[0]


def _patiently(work: Callable[[], object], seconds: float) -> object:
    """Retry while other processes have the file locked."""
    end = time.monotonic() + seconds
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname[:11] != "SQLITE_BUSY" or time.monotonic() > end:
                raise
        time.sleep(0.01)


def _failure(path: Path, error: sqlite3.Error | OSError) -> StoreError:
    if isinstance(error, OSError):
        return StoreError(f"the store {str(path)!r} cannot be used: {error.strerror}")
    name = getattr(error, "sqlite_errorname", "")
    # A name may tell more: SQLITE_IOERR_WRITE.
    reason = _REASONS.get("_".join(name.split("_")[:2]), "SQLite says")
    return StoreError(f"the store {str(path)!r} cannot be used: {reason} ({error})")


def _find(connection: Connection, run_id: str) -> tuple[int, StoredRun] | None:
    """Return a run and the key of its row."""
    row = connection.execute(
        f"SELECT key, {_NAMES} FROM runs WHERE run_id = ?",  # noqa: S608 - as above
        (run_id,),
    ).fetchone()
    return None if row is None else (row[0], _state(row[1:]))


def _get(connection: Connection, run_id: str) -> tuple[int, StoredRun]:
    if (found := _find(connection, run_id)) is None:
        raise RunNotFoundError(run_id)
    return found


def _states(connection: Connection, rest: str, values: Sequence[Any]) -> list[StoredRun]:
    rows = connection.execute(f"SELECT {_NAMES} FROM runs {rest}", values)  # noqa: S608 - as above
    return [_state(row) for row in rows]


def _newest(connection: Connection, wanted: Wanted, limit: int | None) -> list[StoredRun]:
    """Return the wanted runs, those with the newest records first.

    There is a condition only for what is asked, and it repeats that of the index: otherwise SQLite
    does not use the index.
    """
    conditions = {
        "status = ?": wanted.status,
        "conversation_id = ?": wanted.conversation_id,
        "user = ?": wanted.user,
    }
    asked = {condition: value for condition, value in conditions.items() if value is not None}
    where = list(asked)
    if wanted.status in ("running", "paused"):
        where.append(_UNFINISHED)
    if wanted.user:
        where.append(_SOMEBODYS)
    return _states(
        connection,
        f"{'WHERE ' if where else ''}{' AND '.join(where)} "
        "ORDER BY updated DESC, run_id DESC LIMIT ?",
        (*asked.values(), -1 if limit is None else limit),
    )


def _insert(connection: Connection, state: StoredRun) -> int:
    ((key,),) = connection.execute(_INSERT, _row(state)).fetchall()
    return int(key)


def _save(connection: Connection, key: int, state: StoredRun) -> None:
    connection.execute(_UPDATE, (*_row(state), key))


def _drop(connection: Connection, run_id: str) -> None:
    connection.execute(
        "DELETE FROM records WHERE run = (SELECT key FROM runs WHERE run_id = ?)", (run_id,)
    )
    connection.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))


def _row(state: StoredRun) -> list[Any]:
    return [
        msgspec.json.encode(value).decode() if name in _JSON else value
        for name, value in zip(_COLUMNS, msgspec.structs.astuple(state), strict=True)
    ]


def _state(row: Sequence[Any]) -> StoredRun:
    fields = dict(zip(_COLUMNS, row, strict=True))
    for name, kind in _JSON.items():
        fields[name] = msgspec.json.decode(fields[name], type=kind)
    return StoredRun(**fields)


def _try_to_grow(connection: Connection, lease: Lease, batch: Batch) -> int | None:
    """Record a batch that changes nothing but the length of the log, as most do.

    Returns the key of the run's row; None if something is in the way.
    """
    if not _merely_grows(batch):
        return None
    rows = connection.execute(_GROW, _growth(lease, batch)).fetchall()
    return rows[0][0] if rows else None


def _merely_grows(batch: Batch) -> bool:
    return batch.status is None and not batch.asked


def _growth(lease: Lease, batch: Batch) -> tuple[Any, ...]:
    return batch.last, batch.updated, lease.run_id, lease.token, batch.first - 1


def _grow_all(connection: Connection, growths: Sequence[tuple[Lease, Batch]]) -> bool:
    """Write such batches of several runs. Return False if something is in the way of any.

    Then what was changed must be rolled back.
    """
    places = [_growth(lease, batch) for lease, batch in growths]
    grown = sum(
        connection.execute(statement, values).rowcount
        for statement, values in _in_few(_GROW_ALL, places)
    )
    if grown != len(growths):
        return False
    rows = [
        (batch.run_id, seq, line)
        for _, batch in growths
        for seq, line in enumerate(batch.lines, batch.first)
    ]
    for statement, values in _in_few(_WRITE_ALL, rows):
        connection.execute(statement, values)
    return True


def _write(connection: Connection, key: int, batch: Batch) -> None:
    """Write the records of a batch with as few statements as possible.

    Each statement lets another thread run, and a busy one takes its five milliseconds before it
    hands back.
    """
    rows = [(key, seq, line) for seq, line in enumerate(batch.lines, batch.first)]
    for statement, values in _in_few(_WRITE, rows):
        connection.execute(statement, values)


def _in_few(statement: str, rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield as few statements as possible for these rows, and few different ones.

    Rows are filled up to a power of two with nulls, which match nothing.
    """
    width = len(rows[0])
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[start : start + _ROWS_AT_ONCE]
        count = 1 << (len(some) - 1).bit_length()
        marks = ", ".join([f"({', '.join('?' * width)})"] * count)
        values: list[Any] = [one for row in some for one in row]
        values += [None] * (width * (count - len(some)))
        yield statement.format(marks), values


def _there(connection: Connection, key: int, batch: Batch) -> list[bytes]:
    """Return what the log has where a batch would go."""
    rows = connection.execute(
        "SELECT line FROM records WHERE run = ? AND seq BETWEEN ? AND ? ORDER BY seq",
        (key, batch.first, batch.last),
    )
    return [line for (line,) in rows]


def _page(connection: Connection, run_id: str, after: int, limit: int) -> Page:
    run = connection.execute("SELECT key FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if run is None:
        raise RunNotFoundError(run_id)
    rows = connection.execute(
        "SELECT line FROM records WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?",
        (run[0], after, limit + 1),
    )
    lines: list[bytes] = []
    size = 0
    for (line,) in rows:
        if len(lines) == limit or size > _PAGE_BYTES:
            rows.close()
            return lines, True
        lines.append(line)
        size += len(line)
    return lines, False


class _Lookout:
    """Tells followers about records that other processes wrote.

    It does not keep the store alive: one that is forgotten ends its threads.
    """

    def __init__(self, tails: Tails) -> None:
        self._tails = weakref.ref(tails)
        self._version: int | None = None
        self._known: dict[str, _Height | None] = {}

    def begin_anew(self) -> None:
        """Forget what the last connection saw: each one counts by itself what others change."""
        self._version = None

    def is_wanted(self) -> bool:
        tails = self._tails()
        return tails is not None and bool(tails.watched())

    def look(self, connection: Connection) -> None:
        """Check what has changed, and report it. Only commits of other connections count."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        tails = self._tails()
        if tails is None:
            return
        watched = tails.watched()
        if version == self._version and all(run_id in self._known for run_id in watched):
            return
        self._version = version
        known = _heights(connection, watched)
        for run_id in watched:
            # A run that is gone shows itself to who reads it.
            height = known.get(run_id)
            if height is not None:
                tails.begun(run_id, height[0])
            if height != self._known.get(run_id) or run_id not in self._known:
                tails.stale(run_id)
                tails.commands_changed(run_id)
        self._known = {run_id: known.get(run_id) for run_id in watched}

    def fail(self, failure: Callable[[], Exception]) -> None:
        if (tails := self._tails()) is not None:
            tails.fail(failure)


def _heights(connection: Connection, run_ids: list[str]) -> dict[str, _Height]:
    heights: dict[str, _Height] = {}
    for start in range(0, len(run_ids), _AT_ONCE):
        some = run_ids[start : start + _AT_ONCE]
        rows = connection.execute(
            "SELECT run_id, created, seq, commands_version FROM runs "  # noqa: S608 - nothing but marks
            f"WHERE run_id IN ({', '.join('?' * len(some))})",
            some,
        )
        heights |= {run_id: (created, seq, commands) for run_id, created, seq, commands in rows}
    return heights


class _Job(Struct, eq=False):
    work: Callable[[Connection], Any]
    loop: AbstractEventLoop
    future: Future[Any]
    is_durable: bool
    tell: Callable[[Any], None] | None
    """Called with the answer before the caller gets it, in the thread, in the order of commits."""
    growth: _Growth | None = None
    """What is to be written, if that is all that the job does: then it is written with others."""
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
        self._open: _Opened | None = None  # the thread's alone

    async def run(
        self,
        work: Callable[[Connection], _Answer],
        *,
        is_durable: bool = False,
        tell: Callable[[_Answer], None] | None = None,
        growth: _Growth | None = None,
    ) -> _Answer:
        """Run a function with the connection in the thread, and return its result."""
        loop = asyncio.get_running_loop()
        future: Future[_Answer] = loop.create_future()
        self._put(_Job(work, loop, future, is_durable, tell, growth))
        return await future

    def wake(self) -> None:
        """Make the thread check again how long it may sleep."""
        self._put(_Order.WAKE)

    def end(self) -> None:
        """Make the thread end once all that waits is done."""
        if self._process not in (None, os.getpid()):
            return  # the thread is the parent's, and so may be the lock
        with self._guard:
            self._is_ended = True
            self._queue.put(_Order.END)

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _put(self, item: _Job | _Order) -> None:
        if self._process not in (None, os.getpid()):
            raise StoreError(
                f"the store {str(self._path)!r} was opened in the process that this one was forked "
                "from: open it anew here"
            )
        with self._guard:
            if self._death is not None:
                raise StoreError(self._death)
            if self._is_ended:
                raise StoreError("the store is closed. Open a new one")
            if self._thread is None:
                self._process = os.getpid()
                # A program that forgets to close the store can end: what was answered is stored.
                self._thread = threading.Thread(target=self._work, name="argstream", daemon=True)
                self._thread.start()
            self._queue.put(item)

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
        """Answer all callers: none may wait for a thread that is gone."""
        death = f"the store {str(self._path)!r} has broken down ({error!r}): open it anew"
        with self._guard:
            self._death = death
            while not self._queue.empty():
                item = self._queue.get_nowait()
                jobs += [item] if isinstance(item, _Job) else []
        for job in jobs:
            job.error = StoreError(death)
            job.error.__cause__ = error
        _answer(jobs)

    def _next(self) -> list[_Job | _Order]:
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
        """Return a new exception for each caller."""
        match error:
            case sqlite3.Error():
                return _failure(self._path, error)
            case StoreError():
                return StoreError(*error.args)
            case UnicodeEncodeError():
                return UsageError(f"{error.object!r} cannot be stored: it is no Unicode text")
            case _:
                return error

    def _as_failure(self, error: Exception) -> StoreError:
        told = self._as_error(error)
        if isinstance(told, StoreError):
            return told
        return StoreError(f"the store {str(self._path)!r} cannot be looked at: {error!r}")

    def _opened(self) -> _Opened:
        if self._open is None:
            self._open = _open_file(self._path, self._busy_seconds)
        return self._open

    def _close(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened.connection.close()

    def _transaction(self, begin: str, jobs: Sequence[_Job]) -> None:
        """Run jobs in one transaction. If it raises, none of them is done."""
        opened = self._opened()
        connection = opened.connection
        try:
            connection.execute(begin)
        except sqlite3.Error as error:
            raise _failure(self._path, error) from error
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

    def _left(self, connection: Connection, jobs: Sequence[_Job]) -> Sequence[_Job]:
        """Do what can be done with few statements, and return what is left to do."""
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
        """Return for how many seconds to wait for a job."""
        return None

    def _between(self) -> None:  # noqa: B027 - only the writer has more to do
        """Do what else there is to do after each round of jobs."""


class _Reader(_Worker):
    """Reads, each time from what is stored at one moment."""

    def _do(self, jobs: Sequence[_Job]) -> None:
        for job in jobs:
            self._alone("BEGIN", job)


class _InTheWayError(Exception):
    """Not all batches can be written together: each must be looked at."""


class _Writer(_Worker):
    """Writes for all callers together, and looks for what other processes write."""

    def __init__(self, path: Path, busy_seconds: float, lookout: _Lookout) -> None:
        super().__init__(path, busy_seconds)
        self._lookout = lookout
        self._looked = 0.0
        self._last = 0  # how much was written at once
        self._is_durable: bool | None = None

    def _do(self, jobs: Sequence[_Job]) -> None:
        try:
            self._transaction("BEGIN IMMEDIATE", jobs)
        except StoreError:  # it could not even begin, or the file is gone: so it is for each
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
        """Write the batches that merely make logs longer, of all runs at once.

        Each statement lets other threads run, which takes its time if these are busy. Jobs that
        wait at the same moment may be done in any order.
        """
        growing = {job.growth[0].run_id: job for job in jobs if job.growth is not None}
        if len(growing) < _FEW:
            return jobs
        growths = [job.growth for job in growing.values() if job.growth is not None]
        if not _grow_all(connection, growths):
            raise _InTheWayError
        done = {id(job) for job in growing.values()}
        for job in growing.values():
            job.answer, job.error = True, None
        return [job for job in jobs if id(job) not in done]

    def _next(self) -> list[_Job | _Order]:
        """After a large round, wait a moment for more: it is cheaper together."""
        if self._last >= _MANY:
            self._gather()
        items = super()._next()
        self._last = len(items)
        return items

    def _gather(self) -> None:
        """Wait for more, but not long if all who wrote the last time are back at once.

        A look takes the interpreter away from the threads that make the work, so there is only one.
        """
        time.sleep(_GLANCE)
        if self._queue.qsize() < self._last:
            time.sleep(_GATHERING - _GLANCE)

    def _close(self) -> None:
        self._is_durable = None
        self._lookout.begin_anew()
        super()._close()

    def _set_durability(self, *, is_durable: bool) -> None:
        """Make commits wait for the disk, or not. This can change between transactions."""
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
        except Exception as error:  # noqa: BLE001 - followers get it; writing continues
            self._lookout.fail(partial(self._as_failure, error))
            self._close()

    def _die(self, error: BaseException, jobs: list[_Job]) -> None:
        super()._die(error, jobs)
        self._lookout.fail(partial(StoreError, self._death))


def _answer(jobs: Sequence[_Job]) -> None:
    by_loop: dict[AbstractEventLoop, list[_Job]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, done in by_loop.items():
        # In a closed loop no task waits for the answer.
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
