"""Hears what other processes write to the same SQLite file."""

import weakref
from collections.abc import Callable
from sqlite3 import Connection
from typing import Final

from argstream.stores._tails import Tails

__all__ = ["Lookout"]

_AT_ONCE: Final = 500

_Height = tuple[float, int, int]
"""When a run was created, how far it has come, and what version of its posts there is."""


class Lookout:
    """Tells those who follow runs that there is more: of what this process did not write itself.

    It does not keep the store alive: one that nobody has any more ends its threads.
    """

    def __init__(self, tails: Tails) -> None:
        self._tails = weakref.ref(tails)
        self._version: int | None = None
        self._known: dict[str, _Height | None] = {}

    def begin_anew(self) -> None:
        """Hear that the next look is over another connection: what the last one saw tells nothing.

        Each connection counts by itself what others change.
        """
        self._version = None

    def is_wanted(self) -> bool:
        """Say whether anybody waits for something."""
        tails = self._tails()
        return tails is not None and bool(tails.watched())

    def look(self, connection: Connection) -> None:
        """See what has changed, and tell. Only commits of other connections than this count."""
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
                tails.posts_changed(run_id)
        self._known = {run_id: known.get(run_id) for run_id in watched}

    def fail(self, failure: Callable[[], Exception]) -> None:
        """Tell all that nobody can look any more, and why."""
        if (tails := self._tails()) is not None:
            tails.fail(failure)


def _heights(connection: Connection, run_ids: list[str]) -> dict[str, _Height]:
    heights: dict[str, _Height] = {}
    for start in range(0, len(run_ids), _AT_ONCE):
        some = run_ids[start : start + _AT_ONCE]
        rows = connection.execute(
            "SELECT run_id, created, seq, posts_version FROM runs "  # noqa: S608 - nothing but marks
            f"WHERE run_id IN ({', '.join('?' * len(some))})",
            some,
        )
        heights |= {run_id: (created, seq, posts) for run_id, created, seq, posts in rows}
    return heights
