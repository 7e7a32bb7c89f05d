"""Gives a test of runs with a log the stores, one after the other."""

from contextlib import aclosing
from pathlib import Path

import pytest

from argstream.stores import MemoryStore, SqliteStore
from tests.agent.following import complete
from tests.agent.logged_runs import Play, Story


@pytest.fixture(params=["memory", "sqlite"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Give what plays a story with a store that is open meanwhile."""

    def playing(story: Story) -> None:
        async def opened() -> None:
            is_memory = request.param == "memory"
            store = MemoryStore() if is_memory else SqliteStore(tmp_path / "runs.db")
            async with aclosing(store):
                await story(store)

        complete(opened)

    return playing
