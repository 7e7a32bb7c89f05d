"""What else is on a Redis server: other databases and prefixes, and what no store has written."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.crc import key_slot

from argstream.errors import StoreFailure, UnknownRun
from argstream.runs import Posts, Record, RedisStore
from tests.runs.records import Writer, begun, contiguous
from tests.runs.redis_server import RedisServer, new_prefix, shared_server
from tests.runs.redis_stores import failing, opened, raw
from tests.runs.stores import Place, all_of, story

STORES = ["redis"]

IDS = ["a}:{b", "{a}", "}{", "%7Ba%7D", "100%", "a:b", "\n", "é 🙂", "*[?]"]


def following(store: RedisStore, run_id: str = "run-1") -> "asyncio.Task[list[Record]]":
    return asyncio.create_task(all_of(store, run_id))


# Databases and prefixes


@story
async def test_runs_of_other_databases_are_others() -> None:
    """They may have the same id, and the server tells of them on channels that all can hear."""
    prefix = new_prefix()
    address = shared_server().url
    async with (
        opened(address, prefix=prefix) as store,
        opened(address.replace("db=0", "db=1"), prefix=prefix) as other,
    ):
        writer, claim, _ = await begun(store)
        stranger, theirs, _ = await begun(other)
        followed = following(store)
        await asyncio.sleep(0.02)
        await other.append(theirs, stranger.texts("a secret"))
        await other.append(theirs, stranger.completed())
        await other.delete("run-1")
        await asyncio.sleep(0.02)
        await store.append(claim, writer.texts("mine"))
        await store.append(claim, writer.completed())
        assert await followed == await store.read("run-1")


@story
async def test_no_id_of_a_run_leads_to_another_prefix() -> None:
    prefix = new_prefix()
    async with (
        opened(prefix=prefix) as store,
        opened(prefix=f"{prefix}:{{tenant}}") as other,
    ):
        await begun(other, "secret")
        forged = "tenant}:{secret"
        for attempt in (store.read(forged), store.stop(forged), store.info(forged)):
            with pytest.raises(UnknownRun):
                await attempt
        await begun(store, forged)
        assert len(await other.runs()) == len(await store.runs()) == 1


@story
async def test_any_text_can_be_the_id_of_a_run(store: RedisStore) -> None:
    for run_id in IDS:
        writer, claim, _ = await begun(store, run_id)
        followed = following(store, run_id)
        await asyncio.sleep(0.01)
        await store.append(claim, writer.completed())
        assert contiguous(await followed)
    assert {info.run_id for info in await store.runs()} == set(IDS)


@pytest.mark.parametrize("prefix", ["{p}", "p"])
def test_the_keys_of_a_run_are_in_one_slot_of_a_cluster(prefix: str) -> None:
    store = RedisStore("redis://localhost", prefix=prefix)
    for run_id in IDS:
        run, log, index, news, *_ = store._keys.all_of(run_id)
        same = [run, log, news, *([index] if prefix == "{p}" else [])]
        assert len({key_slot(key) for key in same}) == 1, run_id


# Runs that get the name of one that is no more


@story
async def test_records_of_a_run_that_got_the_name_are_not_taken_for_those_of_the_old_one(
    store: RedisStore, other: RedisStore, place: Place
) -> None:
    """Though nobody was told that the old one is gone."""
    await begun(store)
    followed = following(other)
    await asyncio.sleep(0.02)
    await raw(
        shared_server(), "DEL", f"{place.prefix}:{{run-1}}:run", f"{place.prefix}:{{run-1}}:log"
    )
    writer, claim, _ = await begun(store)
    await store.append(claim, writer.texts("another's"))
    with pytest.raises(UnknownRun):
        await followed


# What no store would say


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"x\nfoo\nbar",
        b"gone",
        b"posts\nIDENTITY\nnone\n{}",
        b"\nIDENTITY\n" + b"9" * 5_000,
        b"\nIDENTITY\n2\n{}",
        b"\nIDENTITY\n2\n\xff",
        b"\xff",
    ],
)
@story
async def test_who_follows_goes_on_whatever_is_published(said: bytes) -> None:
    prefix = new_prefix()
    async with (
        opened(prefix=prefix) as store,
        opened(prefix=prefix) as other,
        Redis.from_url(shared_server().url, protocol=2) as client,
    ):
        writer, claim, _ = await begun(store)
        followed = following(other)
        await asyncio.sleep(0.02)
        identity = await client.hget(f"{prefix}:{{run-1}}:run", "begun")
        assert isinstance(identity, bytes)
        told = said.replace(b"IDENTITY", identity)
        assert await client.publish(f"{prefix}:{{run-1}}:news:0", told) == 1
        await asyncio.sleep(0.02)
        await store.append(claim, writer.texts("a"))
        await store.append(claim, writer.completed())
        async with asyncio.timeout(5):
            assert await followed == await store.read("run-1")


@story
async def test_who_follows_is_told_if_nobody_can_listen_any_more(
    monkeypatch: pytest.MonkeyPatch, store: RedisStore, other: RedisStore
) -> None:
    """Whatever the reason may be; and who follows anew is heard again."""
    writer, claim, _ = await begun(store)
    with monkeypatch.context() as broken:
        broken.setattr(other, "_heard", _unexpected)
        followed = following(other)
        async with asyncio.timeout(5):
            with pytest.raises(StoreFailure, match="KeyError: 'unexpected'"):
                await followed
    followed = following(other)
    await asyncio.sleep(0.02)
    await store.append(claim, writer.completed())
    assert contiguous(await followed)


@story
async def test_an_event_loop_that_cannot_listen_any_more_does_not_fail_the_others(
    monkeypatch: pytest.MonkeyPatch, store: RedisStore, other: RedisStore
) -> None:
    writer, claim, _ = await begun(store)
    followed = following(other)
    await asyncio.sleep(0.02)
    with monkeypatch.context() as broken:
        broken.setattr(other, "_heard", _unexpected)
        with pytest.raises(StoreFailure, match="unexpected"):
            await asyncio.to_thread(asyncio.run, all_of(other))
    await store.append(claim, writer.completed())
    async with asyncio.timeout(5):
        assert contiguous(await followed)


def _unexpected(*_: Any) -> None:
    raise KeyError("unexpected")


@story
async def test_who_follows_a_run_that_the_server_has_lost_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server does not say so."""
    monkeypatch.setattr("argstream.runs.redis._BEAT", 0.1)
    with RedisServer() as server:
        async with opened(server.url) as store:
            await begun(store)
            followed = following(store)
            posts = store.posts("run-1")
            await anext(posts)
            await asyncio.sleep(0.05)
            await raw(server, "FLUSHALL")
            async with asyncio.timeout(5):
                for waits in (followed, _anext(posts)):
                    with pytest.raises(UnknownRun):
                        await waits


async def _anext(posts: AsyncGenerator[Posts, None]) -> Posts:
    return await anext(posts)


# Keys of something else


@story
async def test_an_index_of_something_else_leaves_nothing_half_written(
    store: RedisStore, place: Place
) -> None:
    writer, claim, records = await begun(store)
    await raw(shared_server(), "DEL", f"{place.prefix}:runs")
    await raw(shared_server(), "SET", f"{place.prefix}:runs", "mine")
    more = writer.texts("a", "b")
    for attempt in (store.append(claim, more), begun(store, "run-2")):
        assert "give the store a prefix of its own" in await failing(attempt)
    assert await store.read("run-1") == records
    with pytest.raises(UnknownRun):
        await store.info("run-2")
    await raw(shared_server(), "DEL", f"{place.prefix}:runs")
    await store.append(claim, more)
    await begun(store, "run-2")
    assert len(await store.runs()) == 2


@pytest.mark.parametrize(
    "name", ["whose", "unfinished", "{s}:session", "{ada}:user", "{run-1}:log", "{run-1}:run"]
)
@story
async def test_a_key_of_something_else_leaves_nothing_half_written(
    name: str, store: RedisStore, place: Place
) -> None:
    await raw(shared_server(), "SET", f"{place.prefix}:{name}", "mine")
    beginning = store.begin(Writer(user="ada").started(), "me", 30)
    assert "give the store a prefix of its own" in await failing(beginning)
    assert await raw(shared_server(), "KEYS", f"{place.prefix}:*") == [
        f"{place.prefix}:{name}".encode()
    ]


def test_what_is_no_run_is_not_listed_and_hides_no_run(caplog: pytest.LogCaptureFixture) -> None:
    async def attempt() -> None:
        prefix = new_prefix()
        async with opened(prefix=prefix) as store, Redis.from_url(shared_server().url) as client:
            over = Writer(time=1.0)
            await store.begin([*over.started(), *over.completed()], "me", 30)
            odd = ["\udcff\udcfe", "foreign", "number", "text"]
            names = {name.encode("utf-8", "surrogateescape"): 2.0 for name in odd}
            await client.zadd(f"{prefix}:runs", names)
            await client.hset(f"{prefix}:{{foreign}}:run", "a", "b")
            for field in ("session", "agent", "status", "seq", "created", "updated"):
                await client.hset(f"{prefix}:{{number}}:run", field, "x")
            await client.set(f"{prefix}:{{text}}:run", "mine")
            assert [info.run_id for info in await store.runs()] == ["run-1"]
            for run_id in ("foreign", "number", "text"):
                with pytest.raises(StoreFailure, match="something else"):
                    await store.info(run_id)

    with caplog.at_level(logging.WARNING, "argstream.runs"):
        asyncio.run(attempt())
    for name in (r"\xff\xfe", "'foreign'", "'number'", "'text'"):
        assert name in caplog.text
