"""The fixture ``store`` runs a test with each kind of store."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from argstream.runs import MemoryStore, SqliteStore, Store


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    is_memory = request.param == "memory"
    async with aclosing(MemoryStore() if is_memory else SqliteStore(tmp_path / "runs.db")) as store:
        yield store
