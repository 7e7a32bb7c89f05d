"""The three stores, opened for a test: each keeps the one contract."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from argstream.log import Record, Store
from argstream.stores import MemoryStore, RedisStore, SqliteStore
from tests.stores.redis_server import new_prefix, shared_server

KINDS = ("memory", "sqlite", "redis")


class Place:
    """Somewhere to keep runs: a file, a prefix on a server, or nothing but memory."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self._path = directory / "runs.db"
        self._prefix = new_prefix()
        self._ahead = 0.0
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """The store that is open for the test."""
        assert self._store is not None
        return self._store

    def open(self) -> Store:
        """Open a store at this place."""
        match self.kind:
            case "memory":
                return MemoryStore(clock=self.now)
            case "sqlite":
                return SqliteStore(self._path, clock=self.now)
            case _:
                return RedisStore(shared_server().url, prefix=self._prefix)

    @asynccontextmanager
    async def elsewhere(self) -> AsyncIterator[Store]:
        """Give a second store at this place, as another process has it."""
        if self.kind == "memory":  # there is only the one
            yield self.store
            return
        async with aclosing(self.open()) as other:
            yield other

    def now(self) -> float:
        return time.time() + self._ahead

    async def later(self, seconds: float) -> None:
        """Let time go by; only the server of Redis cannot be told that it has."""
        if self.kind == "redis":
            await asyncio.sleep(seconds)
        else:
            self._ahead += seconds

    def play(self, story: Callable[["Place"], Awaitable[None]]) -> None:
        """Play something with a store that is open meanwhile."""

        async def opened() -> None:
            async with aclosing(self.open()) as self._store:
                await asyncio.wait_for(story(self), 30)

        asyncio.run(opened())


def contract(story: Callable[[Place], Awaitable[None]]) -> Callable[[Place], None]:
    """Make a test of a story: it is played with each of the stores."""

    def test(place: Place) -> None:
        place.play(story)

    test.__name__ = story.__name__
    return test


async def all_of(store: Store, run_id: str = "run-1", after: int = 0) -> list[Record]:
    """Follow a run to its end."""
    return [record async for record in store.follow(run_id, after)]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to come true; the test's own limit is the limit."""
    while not condition():
        await asyncio.sleep(0.002)
