"""A store in an SQLite file: for one machine, and any number of processes on it."""

import asyncio
import logging
import os
import sqlite3
import stat
import threading
import time
import weakref
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from sqlite3 import Connection
from tempfile import mkstemp
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from argstream.errors import ArgstreamError, RunNotFoundError, StoreError, UsageError
from argstream.runs._batches import Batch, Filter, records_of, run_exists, store_is_closed
from argstream.runs._hub import Page, Tails
from argstream.runs._records import ConversationInfo, Lease
from argstream.runs._store import Now, Store, StoredRun
from argstream.sanitise import visible_line

__all__ = ["SqliteStore"]

logger: Final = logging.getLogger("argstream.runs")

_APPLICATION_ID: Final = 0x61726773  # "args": identifies the file, also for `file`
_VERSION: Final = 6
_CHECKPOINT_PAGES: Final = 10_000
"""After how many pages SQLite moves its write-ahead log into the database. Each move waits for the
disk. With the default of 1,000 pages, that happens several times a second in a busy store."""
_UNFINISHED: Final = "status IN ('running', 'paused')"
_HAS_USER: Final = "user <> ''"
_SCHEMA: Final = (
    """
    CREATE TABLE runs (
        key INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL UNIQUE,
        conversation_id TEXT NOT NULL,
        user TEXT NOT NULL,
        status TEXT NOT NULL,
        seq INTEGER NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        token INTEGER NOT NULL,
        commands_version INTEGER NOT NULL,
        state TEXT NOT NULL
    )
    """,
    "CREATE INDEX runs_by_conversation ON runs (conversation_id)",
    # No index has a column that changes with each record. That would make all writes slower.
    f"CREATE INDEX runs_by_user ON runs (user, conversation_id) WHERE {_HAS_USER}",
    f"CREATE INDEX runs_unfinished ON runs (status) WHERE {_UNFINISHED}",
    """
    CREATE TABLE conversations (
        conversation_id TEXT NOT NULL,
        user TEXT NOT NULL,
        title TEXT NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        deleted_at REAL,
        PRIMARY KEY (user, conversation_id)
    ) WITHOUT ROWID
    """,
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
_POLL_SECONDS: Final = 0.02
_GROUPED: Final = 4
_WAIT_FOR_MORE: Final = 0.003
"""Seconds that the writer waits for more jobs if its last transaction had several of them. 200 runs
with 20 deltas per second each took 0.5 cores instead of 1."""
_MAX_GROUP: Final = 1_000
_REASONS: Final = {
    "SQLITE_BUSY": "another process has locked it for longer than busy_seconds",
    "SQLITE_LOCKED": "another process has locked it for longer than busy_seconds",
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "it is read-only. Make the file and its folder writable",
    "SQLITE_PERM": "permission denied",
    "SQLITE_NOTADB": "it is not an SQLite database. Use another file",
    "SQLITE_CORRUPT": "it is damaged",
    "SQLITE_CANTOPEN": "it cannot be opened. Check the permissions of the file and its folder",
    "SQLITE_IOERR": "the disk failed",
}
_COLUMNS: Final = (
    "run_id, conversation_id, user, status, seq, created, updated, token, commands_version"
)
"""Fields of a ``StoredRun`` that statements use. The column ``state`` has all fields, in JSON.
Deltas change ``seq`` and ``updated`` only in their columns."""
_FIELDS: Final = _COLUMNS.split(", ")
_MARKS: Final = ", ".join("?" * (len(_FIELDS) + 1))
_INSERT: Final = f"INSERT INTO runs ({_COLUMNS}, state) VALUES ({_MARKS}) RETURNING key"  # noqa: S608 - our own names
_UPDATE: Final = f"UPDATE runs SET ({_COLUMNS}, state) = ({_MARKS}) WHERE key = ?"  # noqa: S608 - as above
_CONVERSATION_COLUMNS: Final = ", ".join(ConversationInfo.__struct_fields__)
_ADD_CONVERSATION: Final = (
    "INSERT INTO conversations (conversation_id, user, title, created, updated) "
    "VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET updated = excluded.updated, deleted_at = NULL"
)
_DROP_CONVERSATION: Final = (
    "DELETE FROM conversations WHERE (user, conversation_id) = (?, ?) AND NOT EXISTS "
    "(SELECT 1 FROM runs WHERE runs.user = conversations.user "
    "AND runs.conversation_id = conversations.conversation_id)"
)
_GROW: Final = (
    "UPDATE runs SET seq = ?, updated = ? "
    "WHERE run_id = ? AND token = ? AND seq = ? AND status IN ('running', 'paused') RETURNING key"
)
# One statement for all records. Each statement releases the GIL, and a busy thread may then keep it
# for up to 5 ms. Next to such a thread, 100 statements took 80 ms, and this one 2 ms.
_WRITE: Final = (
    "INSERT INTO records (run, seq, line) SELECT ?, ? + key, CAST(value AS BLOB) FROM json_each(?)"
)
_PAGE_BYTES: Final = 4_000_000

_Answer = TypeVar("_Answer")
_decoder: Final = msgspec.json.Decoder(StoredRun)
_FileId = tuple[int, int] | None
"""The device and the inode of the file at a path; None if there is no file."""


class SqliteStore(Store):
    """Keeps runs in a file. If the file does not exist, it is created for its owner only.

    Other processes on the same machine may use the same file. Followers receive what they write
    after about 25 milliseconds. ``busy_seconds`` is how long to wait while another process has
    locked the file. Leases expire by a clock of the machine that cannot be set. In tests, ``clock``
    replaces it and the time of day.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        busy_seconds: float = 10.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__()
        self._path = _check_path(Path(path))
        self._now = partial(Now.here, clock)  # the processes of one machine share its clocks
        has_existed = threading.Event()
        self._writer = _Worker(self._path, busy_seconds, has_existed, self._tails)
        self._reader = _Worker(self._path, busy_seconds, has_existed)
        self._finalizer = weakref.finalize(self, _end, self._writer, self._reader)

    def __repr__(self) -> str:
        return f"<SqliteStore {str(self._path)!r}>"

    def _watch(self, run_id: str) -> None:
        self._writer.wake()

    async def _create(self, make: Callable[[Now], StoredRun], batch: Batch) -> None:
        def create(connection: Connection) -> None:
            if _find(connection, batch.run_id) is not None:
                raise run_exists(batch.run_id)
            run = make(self._now())
            ((key,),) = connection.execute(_INSERT, _row(run)).fetchall()
            _write(connection, key, batch)
            row = run.conversation_id, run.user, run.title, run.created, run.created
            connection.execute(_ADD_CONVERSATION, row)

        await self._writer.run(create, is_durable=True, makes_file=True)

    async def _change(
        self, run_id: str, change: Callable[[StoredRun, Now], _Answer], *, is_durable: bool = True
    ) -> _Answer:
        def work(connection: Connection) -> _Answer:
            key, run = _get(connection, run_id)
            answer = change(run, self._now())
            connection.execute(_UPDATE, (*_row(run), key))
            return answer

        return await self._writer.run(work, is_durable=is_durable)

    async def _append(self, lease: Lease, batch: Batch) -> None:
        def append(connection: Connection) -> bool:
            key = _grow(connection, lease, batch)
            if key is None:
                key, state = _get(connection, batch.run_id)
                found = partial(_stored_lines, connection, key, batch)
                if not state.append(lease, batch, found, self._now):
                    return False
                connection.execute(_UPDATE, (*_row(state), key))
            _write(connection, key, batch)
            return True

        def on_commit(is_new: bool) -> None:  # noqa: FBT001 - the result of append
            if is_new:
                self._report_written(batch)

        await self._writer.run(append, is_durable=batch.is_durable, on_commit=on_commit)

    async def _load(self, run_id: str) -> tuple[StoredRun, Now]:
        run = await self._reader.run(lambda connection: _get(connection, run_id)[1])
        return run, self._now()

    async def _list(self, wanted: Filter, limit: int | None) -> tuple[Sequence[StoredRun], Now]:
        now = self._now()
        found = await self._reader.run(
            lambda connection: _newest(connection, wanted, limit, now.wall)
        )
        return found, now

    async def _page(self, run_id: str, after: int, limit: int) -> Page:
        return await self._reader.run(lambda connection: _page(connection, run_id, after, limit))

    async def _delete(
        self, run_ids: Sequence[str], allow: Callable[[StoredRun, Now], bool]
    ) -> list[str]:
        def delete(connection: Connection) -> list[str]:
            now = self._now()
            found = filter(None, (_find(connection, run_id) for run_id in run_ids))
            allowed = [(key, run) for key, run in found if allow(run, now)]
            for key, run in allowed:
                connection.execute("DELETE FROM records WHERE run = ?", (key,))
                connection.execute("DELETE FROM runs WHERE key = ?", (key,))
                connection.execute(_DROP_CONVERSATION, (run.user, run.conversation_id))
            return [run.run_id for _, run in allowed]

        return await self._writer.run(delete, is_durable=True)

    async def _conversations(
        self, user: str | None, limit: int | None, *, deleted: bool
    ) -> list[ConversationInfo]:
        where = ["TRUE" if deleted else "deleted_at IS NULL"]
        where += [] if user is None else ["user = ?"]
        statement = (
            f"SELECT {_CONVERSATION_COLUMNS} FROM conversations WHERE {' AND '.join(where)} "  # noqa: S608 - our own names
            "ORDER BY updated DESC, conversation_id DESC LIMIT ?"
        )
        values = [*([] if user is None else [user]), -1 if limit is None else limit]
        return await self._reader.run(
            lambda connection: [_conversation(row) for row in connection.execute(statement, values)]
        )

    async def _change_conversation(
        self, conversation_id: str, user: str, changes: Mapping[str, Any]
    ) -> bool:
        names = ", ".join(f"{name} = ?" for name in changes)
        statement = f"UPDATE conversations SET {names} WHERE user = ? AND conversation_id = ?"  # noqa: S608 - our own names
        values = (*changes.values(), user, conversation_id)
        return await self._writer.run(
            lambda connection: connection.execute(statement, values).rowcount > 0, is_durable=True
        )

    async def _aclose(self) -> None:
        self._finalizer()
        loop = asyncio.get_running_loop()
        for worker in (self._writer, self._reader):
            await loop.run_in_executor(None, worker.join)


def _end(*workers: "_Worker") -> None:
    for worker in workers:
        worker.end()


class _Opened(NamedTuple):
    """A connection, and the identities of the files that it uses."""

    connection: Connection
    file_ids: Mapping[Path, _FileId]

    def check(self) -> None:
        """Raise ``StoreError`` if the file was deleted or replaced. Writes would be lost then."""
        for path, place in self.file_ids.items():
            if _file_id(path) != place:
                raise _deleted(path)


def _deleted(path: Path) -> StoreError:
    return StoreError(
        f"the file {str(path)!r} was deleted or replaced while it was in use. Writes that were not "
        "acknowledged are not stored"
    )


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _file_id(path: Path) -> _FileId:
    with suppress(FileNotFoundError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None


def _check_path(path: Path) -> Path:
    try:
        if path.is_dir():
            raise UsageError(f"{str(path)!r} is a directory. Pass the path of a file in it")
        if "\0" in str(path):
            raise UsageError(f"{str(path)!r} is not a valid file name")
        # The path stays valid if the process changes its working directory.
        path = Path(os.path.realpath(path))
        if not path.parent.is_dir():
            raise UsageError(f"cannot create {str(path)!r}: no directory {str(path.parent)!r}")
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{str(path)!r} is not a usable path: {error}") from error
    return path


def _open_file(path: Path, busy_seconds: float) -> _Opened:
    connection = None
    try:
        _make(path)
        before = _file_id(path)
        # SQLite must not create the file: other users could read it.
        address = f"file:{quote(os.fsencode(path))}?mode=rw"
        connection = sqlite3.connect(address, uri=True, timeout=busy_seconds, isolation_level=None)
        _prepare(connection, path, busy_seconds)
        opened = _Opened(connection, {path: before, _log(path): _file_id(_log(path))})
        opened.check()
    except (sqlite3.Error, OSError, StoreError) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, StoreError):
            raise
        raise _failure(path, error) from error
    return opened


def _make(path: Path) -> None:
    """Create an empty file for its owner only, if there is none. SQLite copies its mode."""
    has_log = _log(path).exists()  # checked first, because it is created after the file has content
    if has_log and not (path.exists() and path.stat().st_size):
        raise StoreError(
            f"the store {str(path)!r} cannot be used: it is empty or missing, but its write-ahead "
            f"log exists. Restore the file, or delete {str(_log(path))!r}"
        )
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            raise StoreError(f"the store {str(path)!r} cannot be used: it is not a regular file")
        return
    # Linked, not created in place: closing the file would release SQLite's locks of this process.
    number, name = mkstemp(prefix=".argstream-", dir=path.parent)
    os.close(number)
    try:
        with suppress(FileExistsError):  # another process has just created it
            os.link(name, path)
    finally:
        Path(name).unlink()


def _prepare(connection: Connection, path: Path, busy_seconds: float) -> None:
    if _file_format(connection) != (_APPLICATION_ID, _VERSION):
        _create(connection, path)
    end, mode = time.monotonic() + busy_seconds, None
    while mode is None:  # SQLite does not wait for a lock when the journal mode changes
        try:
            mode = _value(connection, "PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname[:11] != "SQLITE_BUSY" or time.monotonic() > end:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise StoreError(
            f"the file system of {str(path)!r} does not support SQLite's WAL mode. Put the file "
            "on a local disk"
        )
    _file_format(connection)  # creates the write-ahead log
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")


def _create(connection: Connection, path: Path) -> None:
    with _transaction(connection, path, "BEGIN IMMEDIATE"):
        application, version = file_format = _file_format(connection)
        if file_format == (_APPLICATION_ID, _VERSION):
            return
        if application == _APPLICATION_ID:
            raise StoreError(
                f"{str(path)!r} has format {version} of another version of argstream; this one "
                f"reads format {_VERSION}. Name a new file, or use the other version"
            )
        if application or version or _value(connection, "SELECT count(*) FROM sqlite_master"):
            raise StoreError(f"{str(path)!r} is a database of another program. Use another file")
        for statement in _SCHEMA:
            connection.execute(statement)


@contextmanager
def _transaction(connection: Connection, path: Path, begin: str) -> Iterator[None]:
    """Run the block in a transaction. Raises ``StoreError`` if the transaction cannot begin."""
    try:
        connection.execute(begin)
    except sqlite3.Error as error:
        raise _failure(path, error) from error
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # if the disk is full, SQLite has rolled back already
            connection.execute("ROLLBACK")
        raise


def _file_format(connection: Connection) -> tuple[object, object]:
    return (_value(connection, "PRAGMA application_id"), _value(connection, "PRAGMA user_version"))


def _value(connection: Connection, statement: str) -> object:
    return connection.execute(statement).fetchone()[0]


def _failure(path: Path, error: sqlite3.Error | OSError) -> StoreError:
    if isinstance(error, OSError):
        return StoreError(f"the store {str(path)!r} cannot be used: {error.strerror}")
    name = getattr(error, "sqlite_errorname", "")
    # Extended names have a suffix, such as SQLITE_IOERR_WRITE.
    kind = "_".join(name.split("_")[:2])
    reason = _REASONS.get(kind, "SQLite failed")
    return StoreError(f"the store {str(path)!r} cannot be used: {reason} ({error})")


def _find(connection: Connection, run_id: str) -> tuple[int, StoredRun] | None:
    statement = "SELECT key, seq, updated, state FROM runs WHERE run_id = ?"
    row = connection.execute(statement, (run_id,)).fetchone()
    return None if row is None else (row[0], _state(*row[1:]))


def _get(connection: Connection, run_id: str) -> tuple[int, StoredRun]:
    if (found := _find(connection, run_id)) is None:
        raise RunNotFoundError(run_id)
    return found


def _newest(
    connection: Connection, wanted: Filter, limit: int | None, now: float
) -> list[StoredRun]:
    """Return the wanted runs, those with the newest records first.

    A condition repeats that of its partial index. Otherwise SQLite does not use the index.
    """
    conditions = {
        "status = ?": wanted.status,
        "conversation_id = ?": wanted.conversation_id,
        "user = ?": wanted.user,
        "updated <= ?": None if wanted.older_than is None else now - wanted.older_than,
    }
    used = {condition: value for condition, value in conditions.items() if value is not None}
    where = list(used)
    if wanted.status in ("running", "paused"):
        where.append(_UNFINISHED)
    if wanted.user:
        where.append(_HAS_USER)
    matches = " AND ".join(where) or "TRUE"
    rows = connection.execute(
        f"SELECT run_id, seq, updated, state FROM runs WHERE {matches} "  # noqa: S608 - as above
        "ORDER BY updated DESC, run_id DESC LIMIT ?",
        (*used.values(), -1 if limit is None else limit),
    )
    found: list[StoredRun] = []
    for run_id, *row in rows:
        try:
            found.append(_state(*row))
        except StoreError as error:  # it must not hide the others, for example from recovery
            logger.warning("run %r is left out of a list: %s", run_id, visible_line(str(error)))
    return found


def _row(run: StoredRun) -> list[Any]:
    return [*(getattr(run, name) for name in _FIELDS), msgspec.json.encode(run).decode()]


def _state(seq: object, updated: object, state: Any) -> StoredRun:
    try:
        run = _decoder.decode(state)
        # A column can have a value of any type, whatever its declaration.
        run.seq, run.updated = msgspec.convert((seq, updated), tuple[int, float])
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError) as error:
        raise StoreError(f"the store has a run that cannot be read: {error}") from error
    return run


def _conversation(row: Sequence[object]) -> ConversationInfo:
    values = dict(zip(ConversationInfo.__struct_fields__, row, strict=True))
    try:
        return msgspec.convert(values, ConversationInfo)
    except msgspec.MsgspecError as error:
        raise StoreError(f"the store has a conversation that cannot be read: {error}") from error


def _grow(connection: Connection, lease: Lease, batch: Batch) -> int | None:
    """Write the new length of the log, if the batch changes nothing else.

    Return the key of the run's row; None if the rules must be applied.
    """
    values = batch.last, batch.updated, lease.run_id, lease.token, batch.first - 1
    rows = connection.execute(_GROW, values).fetchall() if batch.only_grows else []
    return rows[0][0] if rows else None


def _write(connection: Connection, key: int, batch: Batch) -> None:
    lines = msgspec.json.encode([line.decode() for line in batch.lines])
    connection.execute(_WRITE, (key, batch.first, lines.decode()))


def _stored_lines(connection: Connection, key: int, batch: Batch) -> list[bytes]:
    statement = "SELECT line FROM records WHERE run = ? AND seq BETWEEN ? AND ? ORDER BY seq"
    return [line for (line,) in connection.execute(statement, (key, batch.first, batch.last))]


def _page(connection: Connection, run_id: str, after: int, limit: int) -> Page:
    run = connection.execute("SELECT key FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if run is None:
        raise RunNotFoundError(run_id)
    rows = connection.execute(
        "SELECT CAST(line AS BLOB) FROM records WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?",
        (run[0], after, limit + 1),
    )
    lines: list[bytes] = []
    size = 0
    for (line,) in rows:
        if len(lines) == limit or size > _PAGE_BYTES:
            rows.close()
            return records_of(run_id, lines, after), True
        lines.append(line)
        size += len(line)
    return records_of(run_id, lines, after), False


class _Job(Struct, eq=False):
    work: Callable[[Connection], Any]
    future: Future[Any]
    is_durable: bool
    makes_file: bool
    """Whether it creates the file again if it was deleted. Otherwise it fails."""
    on_commit: Callable[[Any], None] | None
    """Called with the result in the thread, in the order of commits, before the caller gets it."""
    answer: Any = None
    error: Exception | None = None


_Done = tuple[Future[Any], Any, Exception | None]


class _Worker:
    """A thread with a connection of its own. All jobs that wait are run in one transaction.

    The worker with tails is the writer. It also polls for writes of other processes. A worker holds
    no strong reference to the store, so its thread ends when the store is garbage-collected.
    """

    def __init__(
        self,
        path: Path,
        busy_seconds: float,
        has_existed: threading.Event,
        tails: Tails | None = None,
    ) -> None:
        self._is_writer = tails is not None
        self._tails: Callable[[], Tails | None]
        self._tails = (lambda: None) if tails is None else weakref.ref(tails)
        self._path = path
        self._busy_seconds = busy_seconds
        self._has_existed = has_existed  # set when a worker of the store has opened the file
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()  # None wakes the thread
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process: int | None = None  # the PID that the thread belongs to
        self._refusal: str | None = None  # why there can be no more jobs
        # These are used only by the thread.
        self._open: _Opened | None = None
        self._last_count = 0  # the number of jobs in the last round
        self._is_durable: bool | None = None  # whether commits wait for the disk
        self._polled_at = 0.0
        self._version: int | None = None  # of the file, at the last poll
        self._known: dict[str, tuple[int, int] | None] = {}
        """The last seqs of the watched runs, and the versions of their commands."""

    async def run(
        self,
        work: Callable[[Connection], _Answer],
        *,
        is_durable: bool = False,
        makes_file: bool = False,
        on_commit: Callable[[_Answer], None] | None = None,
    ) -> _Answer:
        """Run a function with the connection in the thread, and return its result."""
        future: Future[_Answer] = asyncio.get_running_loop().create_future()
        self._put(_Job(work, future, is_durable, makes_file, on_commit))
        return await future

    def wake(self) -> None:
        """Make the thread check again how long it may sleep."""
        self._put(None)

    def end(self) -> None:
        """Make the thread end after all queued jobs."""
        if self._process not in (None, os.getpid()):
            return  # after a fork, the thread and perhaps the lock belong to the parent
        with self._guard:
            self._refusal = str(store_is_closed())
            self._queue.put(None)

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _put(self, item: _Job | None) -> None:
        if self._process not in (None, os.getpid()):
            raise StoreError(
                f"the store {str(self._path)!r} was opened before this process was forked. Open it "
                "again here"
            )
        with self._guard:
            if self._refusal is not None:
                raise StoreError(self._refusal)
            if self._thread is None:
                self._process = os.getpid()
                # A daemon, so that a program that does not close the store can end.
                self._thread = threading.Thread(target=self._work, name="argstream", daemon=True)
                self._thread.start()
            self._queue.put(item)

    def _work(self) -> None:
        jobs: list[_Job] = []
        try:
            while self._refusal is None or not self._queue.empty():
                if jobs := self._next():
                    self._try(self._do, jobs)
                    _answer(jobs)
                self._poll_if_due()
            self._close()
        except BaseException as error:  # noqa: BLE001 - raised for all callers, also later ones
            self._fail(error, jobs)

    def _fail(self, error: BaseException, jobs: list[_Job]) -> None:
        """Raise the error for all callers that wait, because the thread ends."""
        message = f"the store {str(self._path)!r} has broken down ({error!r}). Open it again"
        with self._guard:
            self._refusal = message
            while not self._queue.empty():
                jobs += filter(None, [self._queue.get_nowait()])
        for job in jobs:
            job.error = StoreError(message)
            job.error.__cause__ = error
        _answer(jobs)
        self._fail_followers(message)

    def _next(self) -> list[_Job]:
        if self._is_writer and self._last_count >= _GROUPED:
            time.sleep(_WAIT_FOR_MORE)
        items: list[_Job | None] = []
        with suppress(Empty):
            items.append(self._queue.get(timeout=_POLL_SECONDS if self._watched() else None))
            while len(items) < _MAX_GROUP:
                items.append(self._queue.get_nowait())
        jobs = [item for item in items if item is not None]
        self._last_count = len(jobs)
        return jobs

    def _try(self, do: Callable[[Sequence[_Job]], None], jobs: Sequence[_Job]) -> None:
        try:
            do(jobs)
        except Exception as error:  # noqa: BLE001 - the callers get it
            for job in jobs:
                job.error = self._as_error(error)
            self._close()  # the next job opens the file again: it may have been repaired

    def _as_error(self, error: Exception) -> Exception:
        match error:
            case sqlite3.Error():
                return _failure(self._path, error)
            case StoreError():
                return StoreError(*error.args)
            case UnicodeEncodeError():
                return UsageError(f"{error.object!r} cannot be stored: it is not valid Unicode")
            case _:
                return error

    def _opened(self, jobs: Sequence[_Job] = ()) -> _Opened:
        if self._open is None:
            is_gone = self._has_existed.is_set() and not self._path.exists()
            if is_gone and not any(job.makes_file for job in jobs):
                raise _deleted(self._path)
            self._open = _open_file(self._path, self._busy_seconds)
            self._is_durable, self._version = None, None  # both are of a connection
            self._has_existed.set()
        return self._open

    def _close(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened.connection.close()

    def _transaction(self, jobs: Sequence[_Job]) -> None:
        """Run jobs in one transaction. If it raises, none of them is done."""
        opened = self._opened(jobs)
        is_durable = any(job.is_durable for job in jobs)
        if is_durable is not self._is_durable:
            level = "FULL" if is_durable else "NORMAL"
            opened.connection.execute(f"PRAGMA synchronous = {level}")
            self._is_durable = is_durable
        begin = "BEGIN IMMEDIATE" if self._is_writer else "BEGIN"
        with _transaction(opened.connection, self._path, begin):
            for job in jobs:
                try:
                    job.answer, job.error = job.work(opened.connection), None
                except ArgstreamError as error:
                    job.answer, job.error = None, error
            opened.check()

    def _do(self, jobs: Sequence[_Job]) -> None:
        try:
            self._transaction(jobs)
        except StoreError:  # the transaction could not begin, or the file is gone
            raise
        except Exception:  # noqa: BLE001 - the job that fails gets the error when it runs alone
            for job in jobs:
                self._try(self._transaction, [job])
        for job in jobs:
            if job.on_commit is not None and job.error is None:
                job.on_commit(job.answer)

    def _watched(self) -> list[str]:
        tails = self._tails()
        return [] if tails is None else tails.watched()

    def _poll_if_due(self) -> None:
        now = time.monotonic()
        if now - self._polled_at < _POLL_SECONDS or not self._watched():
            return
        self._polled_at = now
        try:
            opened = self._opened()
            opened.check()
            self._poll(opened.connection)
        except Exception as error:  # noqa: BLE001 - followers get it; writing continues
            known = self._as_error(error)
            unknown = f"the store {str(self._path)!r} cannot be read: {error!r}"
            self._fail_followers(str(known) if isinstance(known, StoreError) else unknown)
            self._close()

    def _poll(self, connection: Connection) -> None:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if (tails := self._tails()) is None:
            return
        watched = tails.watched()
        if version == self._version and all(run_id in self._known for run_id in watched):
            return
        self._version = version
        rows = connection.execute(
            "SELECT run_id, seq, commands_version FROM runs "  # noqa: S608 - only question marks
            f"WHERE run_id IN ({', '.join('?' * len(watched))})",
            watched,
        )
        versions = {run_id: (seq, commands) for run_id, seq, commands in rows}
        for run_id in watched:
            # A deleted run is noticed by the followers that read it.
            if run_id not in self._known or versions.get(run_id) != self._known[run_id]:
                tails.mark_stale(run_id)
                tails.commands_changed(run_id)
        self._known = {run_id: versions.get(run_id) for run_id in watched}

    def _fail_followers(self, message: str) -> None:
        if (tails := self._tails()) is not None:
            tails.fail(partial(StoreError, message))


def _answer(jobs: list[_Job]) -> None:
    done = [(job.future, job.answer, job.error) for job in jobs]
    jobs.clear()  # they may refer to the store, which can be collected once the callers go on
    by_loop: dict[AbstractEventLoop, list[_Done]] = {}
    for one in done:
        by_loop.setdefault(one[0].get_loop(), []).append(one)
    for loop, results in by_loop.items():
        with suppress(RuntimeError):  # in a closed loop no task waits for the answer
            loop.call_soon_threadsafe(_set_results, results)


def _set_results(results: Iterable[_Done]) -> None:
    for future, answer, error in results:
        if future.done():
            continue  # the caller was cancelled
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(answer)
