"""The points at which a process may be killed: just before and just after each of its writes.

A write is what is handed to the medium of a store: a statement to SQLite, a command to Redis. What
a tool does to the world is one, too. Points are counted in the whole process, whatever its thread.
"""

import signal
import sqlite3
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from redis.asyncio.connection import AbstractConnection

LOOKS: Final = ("PRAGMA data_version", "SELECT run_id, seq, posts_version")
"""How a store sees, every few milliseconds, whether others have written."""
AROUND_TRANSACTIONS: Final = ("PRAGMA synchronous", "BEGIN IMMEDIATE", "COMMIT")
"""What a store says when it does not hold the file, or is about to, or has just let go of it."""


class Points:
    """Counts the points that are passed, and at one of them sends its own process a signal.

    One that is only suspended there must not keep what others need: then points count at which it
    is at rest, with no file locked and no tool at work.
    """

    def __init__(
        self,
        at: int | None = None,
        signal_: int = signal.SIGKILL,
        note: Callable[[str], None] = print,
    ) -> None:
        self.passed = 0
        self._at = at
        self._signal = signal_
        self._note = note
        self._lock = threading.Lock()

    def reach(self, point: str, *, is_at_rest: bool = False) -> None:
        if self._signal == signal.SIGSTOP and not is_at_rest:
            return
        with self._lock:
            self.passed += 1
            if self.passed == self._at:
                self._note(f"{self.passed}: {point}")
                # To this thread: it is stopped before it does anything else.
                signal.pthread_kill(threading.get_ident(), self._signal)


def watch_sqlite(points: Points) -> None:
    """Have points at all that this process writes to SQLite files."""

    class Watched(sqlite3.Connection):
        """A connection whose statements are points."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._reads = False  # whether it is in a transaction that only reads
            self.set_trace_callback(self._before)

        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            return self._watched(super().execute, sql, *args)

        def executemany(self, sql: str, *args: Any) -> sqlite3.Cursor:
            return self._watched(super().executemany, sql, *args)

        def _watched(
            self, execute: Callable[..., sqlite3.Cursor], sql: str, *args: Any
        ) -> sqlite3.Cursor:
            self._reads = sql == "BEGIN" or self._reads
            cursor = execute(sql, *args)
            self._reach(f"after {sql}")
            self._reads = self._reads and sql not in ("COMMIT", "ROLLBACK")
            return cursor

        def _before(self, sql: str) -> None:  # for each row if there are many
            self._reach(f"before {sql}")

        def _reach(self, point: str) -> None:
            sql = point.split(" ", 1)[1]
            is_at_rest = sql.startswith(AROUND_TRANSACTIONS) and not self.in_transaction
            if not (self._reads or sql.startswith(LOOKS)):
                points.reach(" ".join(point.split())[:200], is_at_rest=is_at_rest)

    sqlite3.connect = partial(sqlite3.connect, factory=Watched)  # type: ignore[assignment] # the same, but for that


def watch_redis(points: Points) -> None:
    """Have points at all that this process sends to Redis servers."""
    send = AbstractConnection.send_packed_command

    async def watched(
        self: AbstractConnection, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        said = b"".join(command) if isinstance(command, list) else command
        points.reach(f"before {_in_words(said)}", is_at_rest=True)
        await send(self, command, check_health)
        points.reach(f"after {_in_words(said)}", is_at_rest=True)

    AbstractConnection.send_packed_command = watched  # type: ignore[method-assign] # to see all of it


def _in_words(command: object) -> str:
    """Say what is sent: the script, if it is one, and its last argument."""
    assert isinstance(command, bytes)
    words = command.split(b"\r\n")[2::2]
    return b" ".join([words[0], words[-1]]).decode(errors="replace")[:200]
