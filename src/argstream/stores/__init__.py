"""Where runs are kept: in memory, in an SQLite file, in Redis.

``open_store`` takes what a person writes down, such as ``runs.db`` or ``redis://localhost``. All
stores keep the one contract of ``argstream.log.Store``.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from argstream.errors import UsageError
from argstream.log import Store

if TYPE_CHECKING:
    from argstream.stores.memory import MemoryStore
    from argstream.stores.redis import RedisStore
    from argstream.stores.sqlite import SqliteStore

__all__ = ["MemoryStore", "RedisStore", "SqliteStore", "open_store"]

_MODULES: Final = {"MemoryStore": "memory", "RedisStore": "redis", "SqliteStore": "sqlite"}
_REDIS: Final = ("redis://", "rediss://", "unix://")
_MISTYPED: Final = ("redis:", "rediss:", "unix:")
_HOW: Final = "give the path of an SQLite file, redis://HOST:PORT/0, or memory:"


def open_store(where: str | Path | Store) -> Store:
    """Open the store that is meant: a path, a URL, ``memory:``, or a store that is open already.

    >>> open_store("memory:")  # doctest: +ELLIPSIS
    <argstream.stores.memory.MemoryStore object at 0x...>
    """
    if isinstance(where, Path):
        return _open_file(where)
    if not isinstance(where, str):
        if hasattr(where, "follow") and hasattr(where, "append"):
            return where
        raise UsageError(f"an object of the type {type(where).__name__!r} is no store: {_HOW}")
    if where == "memory:":
        from argstream.stores.memory import MemoryStore  # noqa: PLC0415 - only what is used

        return MemoryStore()
    if where.startswith(_REDIS):
        from argstream.stores.redis import RedisStore  # noqa: PLC0415 - needs an extra

        return RedisStore.from_url(where)
    path = where.removeprefix("sqlite:")
    if not path.strip() or path == ":memory:":
        raise UsageError(f"{where!r} names no store: {_HOW}")
    if path.startswith(("//", *_MISTYPED)) or "://" in path:
        # It is not repeated: such addresses hold passwords.
        raise UsageError(f"this is the address of no store: {_HOW}")
    return _open_file(Path(path))


def _open_file(path: Path) -> Store:
    from argstream.stores.sqlite import SqliteStore  # noqa: PLC0415 - as above

    return SqliteStore(path)


if not TYPE_CHECKING:  # a visible __getattr__ would make every misspelt name valid

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
