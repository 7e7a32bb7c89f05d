"""A Redis server that goes away: it comes back, or stays away, or hangs."""

import asyncio
import os
import socket
import time
from typing import Any

import pytest

from argstream.errors import StoreFailure
from argstream.runs import Claim, Record, RedisStore
from tests.runs.records import Writer, begun, contiguous
from tests.runs.redis_server import RedisServer, shared_server
from tests.runs.redis_stores import opened, raw
from tests.runs.stores import all_of, story

STORES = ["redis"]

pytestmark = pytest.mark.hypothesis  # so that `make soak` runs them, at length
RECORDS = 5_000 if os.environ.get("ARGSTREAM_HYPOTHESIS") == "soak" else 300


def test_a_crash_of_the_server_loses_nothing_that_was_acknowledged() -> None:
    """With appendfsync always; writer and follower go on, without a gap or a double."""
    with RedisServer(appendonly="yes", appendfsync="always") as server:
        asyncio.run(_through_crashes(server))


async def _through_crashes(server: RedisServer) -> None:
    async with opened(server.url, prefix="p") as store, opened(server.url, prefix="p") as other:
        writer, claim, _ = await begun(store)
        written = asyncio.create_task(_write(store, writer, claim, RECORDS))
        followed = asyncio.create_task(all_of(other))
        while not written.done():
            await asyncio.sleep(0.1)
            server.kill()
            await asyncio.sleep(0.02)
            await asyncio.to_thread(server.start)
        acknowledged = await written
        async with asyncio.timeout(10):
            seen = await followed
        assert contiguous(seen)
        assert seen == await store.read("run-1")
        assert seen[1:-1] == acknowledged


async def _write(store: RedisStore, writer: Writer, claim: Claim, count: int) -> list[Record]:
    acknowledged = []
    for number in range(count):
        records = writer.texts(str(number))
        await store.append(claim, records)
        acknowledged += records
        await asyncio.sleep(0.001)
    await store.append(claim, writer.completed())
    return acknowledged


@story
async def test_a_server_that_stays_away_is_a_failure_within_the_time_limit() -> None:
    with RedisServer(tcp=True) as server:
        async with opened(server.url, patience=0.4) as store:
            _, claim, _ = await begun(store)
            followed = asyncio.create_task(all_of(store))
            listened = asyncio.create_task(_posts(store, "run-1"))
            await asyncio.sleep(0.05)
            server.kill()
            start = time.monotonic()
            for waits in (store.renew(claim, 30), followed, listened):
                with pytest.raises(StoreFailure, match=f"127.0.0.1:{server.port}.*0.4 s"):
                    await waits
            assert time.monotonic() - start < 3


@story
async def test_who_follows_anew_after_an_outage_is_not_told_of_that() -> None:
    """Also while somebody has not left yet who was told of it, or has not even asked."""
    with RedisServer(appendonly="yes", appendfsync="always") as server:
        async with (
            opened(server.url, prefix="p", patience=0.2) as store,
            opened(server.url, prefix="p") as other,
        ):
            writer, claim, _ = await begun(store)
            slow = store.follow("run-1")
            await anext(slow)
            followed = asyncio.create_task(all_of(store))
            await asyncio.sleep(0.05)
            server.kill()
            with pytest.raises(StoreFailure):
                await followed
            await asyncio.to_thread(server.start)
            followed = asyncio.create_task(all_of(store))
            posts = store.posts("run-1")
            await anext(posts)
            await other.stop("run-1", "enough")
            assert (await anext(posts)).stop_reason == "enough"
            await other.append(claim, writer.completed())
            assert contiguous(await followed)
            with pytest.raises(StoreFailure):
                await anext(slow)


async def _posts(store: RedisStore, run_id: str) -> list[Any]:
    return [posts async for posts in store.posts(run_id)]


@story
async def test_a_server_that_hangs_is_a_failure_within_the_time_limit() -> None:
    """It takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        async with opened(f"redis://127.0.0.1:{port}", patience=0.3) as store:
            start = time.monotonic()
            with pytest.raises(StoreFailure, match=r"has not answered for 0.3 s"):
                await store.info("run-1")
            assert time.monotonic() - start < 2


@story
async def test_who_follows_a_server_that_hangs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing happens on his connection: he must ask whether the server is still there."""
    monkeypatch.setattr("argstream.runs.redis._BEAT", 0.1)
    with RedisServer() as server:
        async with opened(server.url, patience=0.3) as store:
            await begun(store)
            followed = asyncio.create_task(all_of(store))
            await asyncio.sleep(0.5)
            assert not followed.done()  # it was quiet, but there
            server.hang()
            async with asyncio.timeout(10):
                with pytest.raises(StoreFailure, match=r"has not answered for 0.3 s"):
                    await followed


@story
async def test_who_follows_goes_on_when_only_his_own_connection_was_lost() -> None:
    """Also if that had been good for longer than the store is patient."""
    with RedisServer() as server:
        options = {"prefix": "p", "patience": 0.5}
        async with (
            opened(server.url, **options) as store,
            opened(server.url, **options) as other,
        ):
            writer, claim, _ = await begun(store)
            followed = asyncio.create_task(all_of(other))
            for seconds in (0.02, 0.02, 0.6):
                await asyncio.sleep(seconds)
                assert await raw(server, "CLIENT", "KILL", "TYPE", "pubsub") == 1
                await store.append(claim, writer.texts("a"))
            await store.append(claim, writer.completed())
            assert contiguous(await followed)


@story
async def test_scripts_that_the_server_forgot_are_sent_again(store: RedisStore) -> None:
    writer, claim, _ = await begun(store)
    await raw(shared_server(), "SCRIPT FLUSH")
    await store.append(claim, writer.texts("a"))
    assert (await store.info("run-1")).seq == 2
