"""The file of the SQLite store: how it is opened, what is in it, what can be wrong with it."""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from sqlite3 import Connection
from typing import Final

from argstream.errors import StoreFailure, UsageError

__all__ = ["check_path", "connect", "failure"]

_APPLICATION_ID: Final = 0x61726773  # "args": so that `file` and we can tell what it is
_VERSION: Final = 1
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
        pending TEXT NOT NULL,
        decisions TEXT NOT NULL,
        stop_reason TEXT,
        posts_version INTEGER NOT NULL
    )
    """,
    "CREATE INDEX runs_by_session ON runs (session_id)",
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


def check_path(path: Path) -> Path:
    """See that a file can be at this path."""
    if path.is_dir():
        raise UsageError(f"{str(path)!r} is a directory: name a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"{str(path)!r} cannot be: there is no directory {str(path.parent)!r}")
    # What the process does later in another directory must not lead to another file.
    return path.absolute()


def connect(path: Path, busy_seconds: float) -> Connection:
    """Open the file, or make it."""
    connection = None
    try:
        # The logs hold what people wrote. SQLite gives its other files the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None)
        _prepare(connection, path, busy_seconds)
    except (sqlite3.Error, OSError, StoreFailure) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, StoreFailure):
            raise
        raise failure(path, error) from error
    return connection


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


def _create(connection: Connection, path: Path) -> None:
    """Make the tables, if there is nothing yet."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Only now nobody else can make them.
        if _is_empty(connection, path):
            for statement in _SCHEMA:
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _is_empty(connection: Connection, path: Path) -> bool:
    """Say whether there are no tables yet; raises if there are other ones than ours."""
    application, version = _kind(connection)
    if (application, version) == (_APPLICATION_ID, _VERSION):
        return False
    if application == _APPLICATION_ID:
        raise StoreFailure(
            f"{str(path)!r} has version {version} of the schema, and this argstream knows "
            f"{_VERSION}: use the newer argstream"
        )
    if application or version or _value(connection, "SELECT count(*) FROM sqlite_master"):
        raise StoreFailure(f"{str(path)!r} is a database of another program: name another file")
    return True


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
