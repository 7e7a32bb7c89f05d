"""Opening a store by a path or an address, and what the package exports."""

import subprocess
import sys
from pathlib import Path

import pytest

import argstream.runs
from argstream.errors import MissingExtraError, UsageError
from argstream.runs import MemoryStore, RedisStore, open_store

CLUSTER = "redis+cluster://:canary@one,two:7000"


def test_address_of_a_cluster_names_several_nodes() -> None:
    store = open_store(CLUSTER)
    assert repr(store) == "<RedisStore at one,two:7000, prefix 'argstream'>"
    with pytest.raises(UsageError, match="only database 0, not 1"):
        open_store(f"{CLUSTER}/1")


def test_open_store_accepts_paths_addresses_and_stores(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    assert isinstance(open_store("memory:"), MemoryStore)
    for where in (path, str(path), f"sqlite:{path}"):
        assert repr(open_store(where)) == f"<SqliteStore {str(path)!r}>"
    for where in ("redis://localhost:1", "rediss://localhost:1", "unix:///nowhere", CLUSTER):
        assert isinstance(open_store(where), RedisStore)
    store = MemoryStore()
    assert open_store(store) is store


NO_STORE = ["", " ", "sqlite:", ":memory:", "http://localhost", "postgres://db", "sqlite:///x", 7]
WITH_PASSWORD = [
    *("postgres://me:canary@db/runs", "sqlite://me:canary@db", "REDIS://:canary@db"),
    *("redis:/:canary@db/0", "redis:canary@db", "http://db?password=canary"),
    *("redis://:canary@db:port", b"redis://:canary@db", "redis://:canary/9@h", "redis://h:port/0"),
    *("redis://:p@canary/9@h", "redis://:p@canary?9@h", "redis://:p@canary#9@h"),
    *(
        "unix://:p@h/canary@/path",
        "redis+cluster://:p@canary/9@h",
        "redis+cluster://:canary@h:port",
    ),
]


@pytest.mark.parametrize("where", [*NO_STORE, *WITH_PASSWORD])
def test_invalid_address_raises_without_repeating_a_password(where: str) -> None:
    with pytest.raises(UsageError, match="redis://HOST:PORT") as raised:
        open_store(where)
    assert "canary" not in str(raised.value)
    assert raised.value.__cause__ is None
    if str(where).startswith(("redis://", "redis+cluster://", "unix://")):
        assert "percent-encode" in str(raised.value)


def test_missing_redis_extra_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    monkeypatch.delitem(sys.modules, "argstream.runs.redis", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[redis\]'"):
        open_store("redis://localhost")


def test_stores_are_imported_on_first_use() -> None:
    code = (
        "import sys, argstream.runs; stores = ('memory', 'redis', 'sqlite'); "
        "names = [*(f'argstream.runs.{name}' for name in stores), 'redis', 'sqlite3']; "
        "print([name for name in names if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert set(argstream.runs.__all__) <= set(dir(argstream.runs))
    with pytest.raises(AttributeError, match="no attribute 'MangoStore'"):
        argstream.runs.MangoStore  # type: ignore[attr-defined]  # noqa: B018 - it raises
