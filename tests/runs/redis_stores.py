"""Stores on a Redis server, and what no store would say to one."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from argstream.errors import StoreFailure
from argstream.runs.redis import RedisStore
from tests.runs.redis_server import RedisServer, new_prefix, shared_server


@asynccontextmanager
async def opened(url: str = "", **options: Any) -> AsyncIterator[RedisStore]:
    """A store of its own on the shared server, or on another one."""
    options = {"prefix": new_prefix(), **options}
    store = RedisStore(url or shared_server().url, **options)
    try:
        yield store
    finally:
        await store.aclose()


async def raw(server: RedisServer, *command: str) -> Any:
    """Say something to a server that no store would say."""
    async with Redis.from_url(server.url, protocol=2) as client:
        return await client.execute_command(*command)  # type: ignore[no-untyped-call] # so it is


async def failing(attempt: Awaitable[Any]) -> str:
    """Have something fail, and give what is said of it: also of what caused it."""
    with pytest.raises(StoreFailure) as caught:
        await attempt
    assert caught.value.__cause__ is not None
    return f"{caught.value} / {caught.value.__cause__!s}"
