"""The file of the SQLite store: how it is opened, what is in it, what can be wrong with it.

Nothing here opens the file but SQLite. When a process closes any file, it loses all locks that it
has on that, whoever of its parts took them; other processes would think that nobody uses the
database, and take its log away.
"""

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection
from tempfile import mkstemp
from typing import Final, NamedTuple
from urllib.parse import quote

from argstream.errors import StoreFailure, UsageError

__all__ = ["SOMEBODYS", "UNFINISHED", "Opened", "check_path", "failure", "open_file"]

_APPLICATION_ID: Final = 0x61726773  # "args": so that `file` and we can tell what it is
_VERSION: Final = 2
_CHECKPOINT_PAGES: Final = 10_000
"""After how many pages SQLite's own log is moved into the database, which waits for the disk: where
much is written, by default that would be several times a second."""
UNFINISHED: Final = "status IN ('running', 'paused')"
SOMEBODYS: Final = "user <> ''"
_INDEXES: Final = (
    "CREATE INDEX runs_by_session ON runs (session_id)",
    # Nothing that changes with each record, which would make all writing slower.
    f"CREATE INDEX runs_by_user ON runs (user, session_id) WHERE {SOMEBODYS}",
    f"CREATE INDEX runs_unfinished ON runs (status) WHERE {UNFINISHED}",
)
_SCHEMA: Final = (
    """
    CREATE TABLE runs (
        key INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL UNIQUE,
        session_id TEXT NOT NULL,
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
        user TEXT NOT NULL DEFAULT '',
        posts_version INTEGER NOT NULL
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
_FROM_VERSION: Final[Mapping[object, tuple[str, ...]]] = {
    _VERSION: (),
    1: (
        # With a default: an older program that has the file open goes on writing to it.
        "ALTER TABLE runs ADD COLUMN user TEXT NOT NULL DEFAULT ''",
        *_INDEXES[1:],
        f"PRAGMA user_version = {_VERSION}",
    ),
}
"""What makes the newest schema of an older one."""


class _Place(NamedTuple):
    """Which file is at a path."""

    device: int
    number: int


class Opened:
    """A connection to the file, and which file that was."""

    def __init__(self, path: Path, connection: Connection, database: _Place) -> None:
        self.connection = connection
        log = _log(path)
        self._places = {path: database, log: _place(log)}

    def check(self) -> None:
        """See that what is written will be found by others: not if the file was taken away."""
        for path, place in self._places.items():
            if _place(path) != place:
                raise StoreFailure(
                    f"the file {str(path)!r} was deleted, or another was put in its place, while "
                    "it was in use: what was not acknowledged is not stored"
                )


def _log(path: Path) -> Path:
    """Where SQLite first writes what changes."""
    return path.with_name(f"{path.name}-wal")


def _place(path: Path) -> _Place:
    try:
        found = path.stat()
    except FileNotFoundError:
        return _Place(-1, -1)
    return _Place(found.st_dev, found.st_ino)


def check_path(path: Path) -> Path:
    """See that a file can be at this path."""
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


def open_file(path: Path, busy_seconds: float) -> Opened:
    """Open the file, or make it."""
    connection = None
    try:
        _make(path)
        before = _place(path)
        # It must not be made here: others could read it. Their logs hold what people wrote.
        address = f"file:{quote(os.fsencode(path))}?mode=rw"
        connection = sqlite3.connect(address, uri=True, timeout=busy_seconds, isolation_level=None)
        _prepare(connection, path, busy_seconds)
        opened = Opened(path, connection, before)
        opened.check()
    except (sqlite3.Error, OSError, StoreFailure) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, StoreFailure):
            raise
        raise failure(path, error) from error
    return opened


def _make(path: Path) -> None:
    """Make an empty file for its owner's eyes only, if there is none; SQLite's others follow it."""
    has_log = _log(path).exists()  # it is made after what is in the file, so look there first
    if has_log and not (path.exists() and path.stat().st_size):
        raise StoreFailure(
            f"the store {str(path)!r} cannot be used: it is empty or gone, but the log of what was "
            f"in it is there. Put the file back, or delete {str(_log(path))!r}"
        )
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            raise StoreFailure(f"the store {str(path)!r} cannot be used: it is no file")
        return
    # The name is given to a file that nobody has open: see above.
    number, name = mkstemp(prefix=".argstream-", dir=path.parent)
    os.close(number)
    try:
        with suppress(FileExistsError):  # somebody else has just made it
            os.link(name, path)
    finally:
        Path(name).unlink()


def _prepare(connection: Connection, path: Path, busy_seconds: float) -> None:
    if _kind(connection) != (_APPLICATION_ID, _VERSION):
        _create(connection, path)
    # SQLite does not wait by itself for who writes when it is to change this.
    mode = _patiently(lambda: _value(connection, "PRAGMA journal_mode = WAL"), busy_seconds)
    if mode != "wal":
        raise StoreFailure(
            f"{str(path)!r} is on a file system that cannot do what SQLite needs (WAL): put it on "
            "a local disk"
        )
    _kind(connection)  # so that the log is there, too
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")


def _create(connection: Connection, path: Path) -> None:
    """Make the tables, if there is nothing yet, or what is missing in those of an older version."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Only now nobody else can make them.
        for statement in _missing(connection, path):
            connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # it is not, if the disk is full
            connection.execute("ROLLBACK")
        raise


def _missing(connection: Connection, path: Path) -> tuple[str, ...]:
    """Give what makes our tables of what there is; raises if that is something else."""
    application, version = _kind(connection)
    if application == _APPLICATION_ID:
        if version in _FROM_VERSION:
            return _FROM_VERSION[version]
        raise StoreFailure(
            f"{str(path)!r} has version {version} of the schema, and this argstream knows "
            f"{_VERSION}: use the newer argstream"
        )
    if application or version or _value(connection, "SELECT count(*) FROM sqlite_master"):
        raise StoreFailure(f"{str(path)!r} is a database of another program: name another file")
    return _SCHEMA


def _kind(connection: Connection) -> tuple[object, object]:
    return (
        _value(connection, "PRAGMA application_id"),
        _value(connection, "PRAGMA user_version"),
    )


def _value(connection: Connection, statement: str) -> object:
    return connection.execute(statement).fetchone()[0]


def _patiently(work: Callable[[], object], seconds: float) -> object:
    """Try again while others have the file."""
    end = time.monotonic() + seconds
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname[:11] != "SQLITE_BUSY" or time.monotonic() > end:
                raise
        time.sleep(0.01)


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


def failure(path: Path, error: sqlite3.Error | OSError) -> StoreFailure:
    """Say in plain words what is wrong with the file."""
    if isinstance(error, OSError):
        return StoreFailure(f"the store {str(path)!r} cannot be used: {error.strerror}")
    name = getattr(error, "sqlite_errorname", "")
    # A name may tell more: SQLITE_IOERR_WRITE.
    reason = _REASONS.get("_".join(name.split("_")[:2]), "SQLite says")
    return StoreFailure(f"the store {str(path)!r} cannot be used: {reason} ({error})")
