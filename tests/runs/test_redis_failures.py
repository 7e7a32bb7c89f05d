"""A Redis server that does not do what it should: what is said of it, and what is not."""

import asyncio
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from argstream.errors import StoreFailure, UsageError
from argstream.runs import RedisStore
from tests.runs.records import begun, contiguous
from tests.runs.redis_server import RedisServer, shared_server
from tests.runs.redis_stores import failing, opened, raw
from tests.runs.stores import Place, all_of, story

STORES = ["redis"]

SECRET = "s3cret-canary"


@pytest.fixture(scope="module")
def locked() -> Iterator[RedisServer]:
    """A server that wants a password, on a port."""
    with RedisServer(tcp=True, requirepass=SECRET) as server:
        yield server


@story
async def test_a_password_is_in_no_error_and_no_representation(locked: RedisServer) -> None:
    right = f"redis://:{SECRET}@127.0.0.1:{locked.port}"
    async with opened(right) as store:
        await begun(store)
        assert SECRET not in f"{store!r} {store}"
    wrong = f"redis://:{SECRET}-not@127.0.0.1:{locked.port}"
    async with opened(wrong) as store:
        said = await failing(begun(store))
        assert "another name or password" in said
        assert str(locked.port) in said
        assert SECRET not in said
    nobody = f"redis://:{SECRET}@127.0.0.1:1"
    async with opened(nobody, patience=0.1) as store:
        said = await failing(begun(store))
        assert "127.0.0.1:1: it cannot be reached" in said
        assert SECRET not in said


@pytest.mark.parametrize(
    "address",
    [
        "localhost:6379",
        f"http://:{SECRET}@h",
        f"redis://:{SECRET}/9@h",
        f"redis://:p@{SECRET}/9@h",
        f"redis://:p@{SECRET}?9@h",
        f"redis://:p@{SECRET}#9@h",
        f"unix://:p@h/{SECRET}@/path",
        "redis://h:port/0",
        "",
    ],
)
def test_what_is_no_address_is_refused_without_repeating_it(address: str) -> None:
    with pytest.raises(UsageError, match="write redis://HOST:PORT") as caught:
        RedisStore(address)
    assert "percent-encoded" in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@story
async def test_a_password_may_have_any_character_in_it_if_these_are_encoded() -> None:
    password = "s@ek/r?e#t:%"
    with RedisServer(tcp=True, requirepass=password) as server:
        address = f"redis://:{quote(password, safe='')}@127.0.0.1:{server.port}/0"
        async with opened(address) as store:
            await begun(store)
            assert repr(store).startswith(f"<RedisStore at 127.0.0.1:{server.port}, ")


@story
async def test_a_server_without_the_password_says_so_to_who_follows(locked: RedisServer) -> None:
    async with opened(f"redis://127.0.0.1:{locked.port}") as store:
        assert "password" in await failing(all_of(store))


@story
async def test_a_user_who_may_not_do_what_is_needed_is_told(locked: RedisServer) -> None:
    await raw(locked, "ACL", "SETUSER", "guest", "on", f">{SECRET}", "~*", "+@read")
    async with opened(f"redis://guest:{SECRET}@127.0.0.1:{locked.port}") as store:
        said = await failing(begun(store))
        assert "change its ACL" in said
        assert SECRET not in said


@story
async def test_a_hash_of_something_else_is_told(store: RedisStore, place: Place) -> None:
    await raw(shared_server(), "HSET", f"{place.prefix}:{{run-1}}:run", "mine", "1")
    with pytest.raises(StoreFailure, match="something else"):
        await store.info("run-1")


@story
async def test_a_server_without_memory_is_told_and_nothing_is_half_written() -> None:
    with RedisServer() as server:
        async with opened(server.url) as store:
            writer, claim, records = await begun(store)
            await raw(server, "CONFIG", "SET", "maxmemory", "1")
            more = writer.texts("a", "b")
            assert "out of memory" in await failing(store.append(claim, more))
            await raw(server, "CONFIG", "SET", "maxmemory", "0")
            assert await store.read("run-1") == records
            await store.append(claim, more)


@story
async def test_a_replica_can_be_read_and_says_where_to_write() -> None:
    with RedisServer() as server:
        async with opened(server.url, prefix="p") as store:
            writer, claim, records = await begun(store)
            await raw(server, "REPLICAOF", "127.0.0.1", "1")
            said = await failing(store.append(claim, writer.texts("a")))
            assert "give the address of the primary" in said
            assert await store.read("run-1") == records


@story
async def test_a_log_that_the_server_threw_away_is_a_failure_and_not_an_empty_log() -> None:
    async with opened(prefix="thrown") as store:
        await begun(store)
        await raw(shared_server(), "DEL", "thrown:{run-1}:log")
        with pytest.raises(StoreFailure, match="maxmemory-policy"):
            await store.read("run-1")


@story
async def test_a_cluster_needs_a_prefix_that_keeps_all_in_one_slot() -> None:
    with RedisServer(tcp=True, cluster_enabled="yes") as server:
        await raw(server, "CLUSTER", "ADDSLOTS", *map(str, range(16_384)))
        while b"cluster_state:ok" not in await raw(server, "CLUSTER", "INFO"):
            await asyncio.sleep(0.01)
        async with opened(server.url, prefix="p") as store:
            assert "such as '{argstream}'" in await failing(begun(store))
        async with opened(server.url, prefix="{p}") as store:
            writer, claim, _ = await begun(store)
            followed = asyncio.create_task(all_of(store))
            await store.append(claim, writer.completed())
            assert contiguous(await followed)
            assert [info.run_id for info in await store.runs()] == ["run-1"]
