"""The three stores, opened for a test: each keeps the one contract."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from functools import wraps
from pathlib import Path
from typing import Any

from argstream.runs import MemoryStore, Record, RedisStore, SqliteStore, Store
from tests.runs.redis_server import new_prefix, shared_server

KINDS = ("memory", "sqlite", "redis")


class Place:
    """Somewhere to keep runs: a file, a prefix on a server, or nothing but memory."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.path = directory / "runs.db"
        self.prefix = new_prefix()
        self._ahead = 0.0

    def open(self) -> Store:
        """Open a store at this place."""
        match self.kind:
            case "memory":
                return MemoryStore(clock=self.now)
            case "sqlite":
                return SqliteStore(self.path, clock=self.now)
            case _:
                return RedisStore(shared_server().url, prefix=self.prefix)

    def now(self) -> float:
        return time.time() + self._ahead

    async def later(self, seconds: float) -> None:
        """Let time go by; only the server of Redis cannot be told that it has."""
        if self.kind == "redis":
            await asyncio.sleep(seconds)
        else:
            self._ahead += seconds


def story(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test of a coroutine function.

    Its parameters ``store`` and ``other`` are two stores at the fixture ``place``, as two processes
    have them (in memory there is only one). All other parameters are fixtures.
    """
    signature = inspect.signature(test)
    names = [*signature.parameters]
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
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # pytest looks for it
        [inspect.Parameter(name, kind) for name in fixtures]
    )
    return run


async def all_of(store: Store, run_id: str = "run-1", after: int = 0) -> list[Record]:
    """Follow a run to its end."""
    return [record async for record in store.follow(run_id, after)]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to come true; the test's own limit is the limit."""
    while not condition():
        await asyncio.sleep(0.002)
