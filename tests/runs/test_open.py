"""What a person may write down for a store."""

import subprocess
import sys
from pathlib import Path

import pytest

import argstream.runs
from argstream.errors import MissingExtra, UsageError
from argstream.runs import MemoryStore, RedisStore, open_store


def test_a_store_is_opened_by_what_is_written_down(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    assert isinstance(open_store("memory:"), MemoryStore)
    for where in (path, str(path), f"sqlite:{path}"):
        assert repr(open_store(where)) == f"<SqliteStore {str(path)!r}>"
    for where in ("redis://localhost:1", "rediss://localhost:1", "unix:///nowhere"):
        assert isinstance(open_store(where), RedisStore)
    store = MemoryStore()
    assert open_store(store) is store


@pytest.mark.parametrize(
    "where",
    ["", " ", "sqlite:", ":memory:", "http://localhost", "postgres://db/runs", "sqlite:///x.db", 7],
)
def test_what_names_no_store_is_refused_with_what_would(where: str) -> None:
    with pytest.raises(UsageError, match="give the path of an SQLite file, redis://"):
        open_store(where)


@pytest.mark.parametrize(
    "where",
    [
        "postgres://me:canary@db/runs",
        "sqlite://me:canary@db",
        "REDIS://:canary@db",
        "redis:/:canary@db/0",
        "redis:canary@db",
        "http://db?password=canary",
        "redis://:canary@db:port",
        b"redis://:canary@db",
    ],
)
def test_an_address_is_not_repeated_since_it_may_hold_a_password(where: str) -> None:
    with pytest.raises(UsageError, match="redis://HOST:PORT") as raised:
        open_store(where)
    assert "canary" not in str(raised.value)


def test_without_the_extra_redis_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    monkeypatch.delitem(sys.modules, "argstream.runs.redis", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[redis\]'"):
        open_store("redis://localhost")


def test_stores_are_loaded_when_they_are_used() -> None:
    code = (
        "import sys, argstream.runs; stores = ('memory', 'redis', 'sqlite'); "
        "names = [*(f'argstream.runs.{name}' for name in stores), 'redis', 'sqlite3']; "
        "print([name for name in names if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_all_names_what_is_there() -> None:
    assert set(argstream.runs.__all__) <= set(dir(argstream.runs))
    for name in argstream.runs.__all__:
        assert getattr(argstream.runs, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'MangoStore'"):
        argstream.runs.MangoStore  # type: ignore[attr-defined]  # noqa: B018 - that it raises
