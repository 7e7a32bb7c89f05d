"""The stores, opened for a test. All implement the same contract."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from argstream.runs import MemoryStore, Record, RedisStore, SqliteStore, Store
from tests.runs.redis_server import new_prefix, shared_cluster, shared_server

KINDS = ("memory", "sqlite", "redis", "cluster")
# For tests that set the clock, or share a store among event loops as Redis cannot.
without_redis = pytest.mark.parametrize("place", ["memory", "sqlite"], indirect=True)


class Place:
    """Where stores of one test keep their runs: a file, a prefix in Redis, or memory."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.path = directory / "runs.db"
        self.prefix = new_prefix()
        self._ahead = 0.0

    def open(self) -> Store:
        match self.kind:
            case "memory":
                return MemoryStore(clock=self.now)
            case "sqlite":
                return SqliteStore(self.path, clock=self.now)
            case "redis":
                return RedisStore(shared_server().url, prefix=self.prefix)
            case _:
                return RedisStore(shared_cluster().url, prefix=self.prefix)

    @property
    def has_own_clock(self) -> bool:
        return self.kind in ("redis", "cluster")

    def now(self) -> float:
        return time.time() + self._ahead

    async def advance(self, seconds: float) -> None:
        """Move the clock. Redis has its own clock, so there the test sleeps."""
        if self.has_own_clock:
            await asyncio.sleep(seconds)
        else:
            self._ahead += seconds


def store_test(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test of a coroutine function.

    Its parameters ``store`` and ``other`` are two stores at the fixture ``place``, as two processes
    have them. In memory both are the same. All other parameters are fixtures.
    """
    names = [*inspect.signature(test).parameters]
    fixtures = dict.fromkeys([*(name for name in names if name not in ("store", "other")), "place"])

    @wraps(test)
    def run(**given: Any) -> None:
        async def opened() -> None:
            async with AsyncExitStack() as stack:
                store = other = await stack.enter_async_context(aclosing(given["place"].open()))
                if "other" in names and given["place"].kind != "memory":
                    other = await stack.enter_async_context(aclosing(given["place"].open()))
                known = {**given, "store": store, "other": other}
                await asyncio.wait_for(test(**{name: known[name] for name in names}), 30)

        asyncio.run(opened())

    kind = inspect.Parameter.KEYWORD_ONLY
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # pytest reads it
        [inspect.Parameter(name, kind) for name in fixtures]
    )
    return run


async def follow_all(store: Store, run_id: str = "run-1", after: int = 0) -> list[Record]:
    return [record async for record in store.follow(run_id, after)]


async def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.002)
