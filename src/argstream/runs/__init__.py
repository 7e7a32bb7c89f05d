"""Runs: records, ``RunState``, the store contract; memory, SQLite and Redis stores.

``open_store`` opens a store by its path or URL, such as ``runs.db`` or ``redis://localhost``. All
stores implement ``Store``. ``RunState`` is the state of a run, computed from its events.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from argstream._lazy import lazy_exports
from argstream.errors import UsageError
from argstream.runs._records import (
    Commands,
    ConversationInfo,
    Launch,
    Lease,
    Owner,
    Record,
    RunInfo,
    from_json,
    joined,
    merged,
    to_json,
)

if TYPE_CHECKING:
    from argstream.runs._state import Argument, Call, Change, RunState, TextBlock, with_arguments
    from argstream.runs._store import Store
    from argstream.runs.memory import MemoryStore
    from argstream.runs.redis import RedisStore
    from argstream.runs.sqlite import SqliteStore

__all__ = [
    "Argument",
    "Call",
    "Change",
    "Commands",
    "ConversationInfo",
    "Launch",
    "Lease",
    "MemoryStore",
    "Owner",
    "Record",
    "RedisStore",
    "RunInfo",
    "RunState",
    "SqliteStore",
    "Store",
    "TextBlock",
    "from_json",
    "joined",
    "merged",
    "open_store",
    "to_json",
    "with_arguments",
]

_HOMES: Final = {
    "_store": "Store",
    "_state": "Argument Call Change RunState TextBlock with_arguments",
    "memory": "MemoryStore",
    "redis": "RedisStore",
    "sqlite": "SqliteStore",
}
_REDIS: Final = ("redis://", "rediss://", "redis+cluster://", "rediss+cluster://", "unix://")
_MISTYPED: Final = ("redis:", "rediss:", "unix:")
_HOW: Final = (
    "pass the path of an SQLite file, redis://HOST:PORT/0, redis+cluster://HOST:PORT, or memory:"
)


def open_store(where: "str | Path | Store") -> "Store":
    """Open the store at a path or URL, or a new one for ``memory:``. Return an open store as it is.

    >>> open_store("memory:")  # doctest: +ELLIPSIS
    <argstream.runs.memory.MemoryStore object at 0x...>
    """
    if where == "memory:":
        from argstream.runs.memory import MemoryStore

        return MemoryStore()
    if isinstance(where, str):
        if where.startswith(_REDIS):
            from argstream.runs.redis import RedisStore

            return RedisStore(where)
        path = where.removeprefix("sqlite:")
        if not path.strip() or path == ":memory:":
            raise UsageError(f"{where!r} is not the path of a store: {_HOW}")
        if path.startswith(("//", *_MISTYPED)) or "://" in path:
            # The address is not shown: it may contain a password.
            raise UsageError(f"not the address of a store: {_HOW}")
        where = Path(path)
    if isinstance(where, Path):
        from argstream.runs.sqlite import SqliteStore

        return SqliteStore(where)
    if hasattr(where, "follow") and hasattr(where, "append"):
        return where
    raise UsageError(f"{type(where).__name__} is not a store: {_HOW}")


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOMES)
