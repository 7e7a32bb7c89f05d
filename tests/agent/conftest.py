"""The fixture ``store`` is a memory store, or an SQLite store in tests with that parameter."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from argstream.runs import MemoryStore, SqliteStore, Store


@pytest.fixture
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    is_sqlite = getattr(request, "param", "memory") == "sqlite"
    async with aclosing(SqliteStore(tmp_path / "runs.db") if is_sqlite else MemoryStore()) as store:
        yield store
