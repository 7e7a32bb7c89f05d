"""The Redis store: expiry, indexes, event loops, and other data on the same server.

The contract that it shares with the other stores is tested in test_contract.py.
"""

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from argstream import Deny, errors
from argstream.errors import RunNotFoundError, StoreError, UsageError
from argstream.runs import Record, RedisStore, RunInfo
from tests.runs import redis_server
from tests.runs.records import Writer, begin_run, requested
from tests.runs.redis_server import error_of, execute, new_prefix, opened, shared_server
from tests.runs.stores import Place, follow_all, store_test, wait_until

STORES = ["redis"]


def ids(runs: Sequence[RunInfo]) -> list[str]:
    return [info.run_id for info in runs]


async def following(store: RedisStore, run_id: str = "run-1") -> "asyncio.Task[list[Record]]":
    task = asyncio.create_task(follow_all(store, run_id))
    await wait_until(lambda: run_id in store._tails.watched())
    await asyncio.sleep(0.02)
    return task


@store_test
async def test_finished_run_expires_after_its_ttl() -> None:
    async with opened(ttl=0.3) as store:
        writer, lease, _ = await begin_run(store, "over")
        await begin_run(store, "open")
        assert set(ids(await store.runs())) == {"over", "open"}
        await store.append(lease, writer.completed())
        while ids(await store.runs()) != ["open"]:
            await asyncio.sleep(0.02)
        for attempt in (store.info("over"), store.read("over"), anext(store.follow("over"))):
            with pytest.raises(RunNotFoundError):
                await attempt
        assert await store.delete_older_than(0) == 0


@store_test
async def test_conversation_of_expired_runs_is_gone() -> None:
    async with opened(ttl=0.05) as store:
        writer, lease, _ = await begin_run(store)
        assert [talk.conversation_id for talk in await store.conversations()] == ["s"]
        await store.append(lease, writer.completed())
        await asyncio.sleep(0.1)
        with pytest.raises(errors.ConversationNotFoundError):
            await store.rename_conversation("s", "Mine")
        assert await store.conversations(deleted=True) == []


@store_test
async def test_no_concurrent_change_is_lost(store: RedisStore, other: RedisStore) -> None:
    """Each change replaces the state that it has read, unless another change came first."""
    calls = [f"c{number}" for number in range(20)]
    writer, lease, records = await begin_run(store, "run-1", *map(requested, calls))

    async def write() -> None:
        for number in range(100):
            records.extend(more := writer.texts(str(number)))
            await store.append(lease, more)

    decisions = [
        (store if number % 2 else other).decide("run-1", {call: Deny(call)})
        for number, call in enumerate(calls)
    ]
    await asyncio.gather(write(), *decisions, *(store.renew(lease, 30) for _ in range(10)))
    commands = await other.commands("run-1")
    assert commands.decisions == {call: Deny(call) for call in calls}
    assert await other.read("run-1") == records
    assert (await other.info("run-1")).seq == len(records)


@pytest.mark.parametrize("way", ["listed", "listed for its user", "expired", "deleted"])
@store_test
async def test_expired_or_deleted_run_leaves_no_keys(way: str) -> None:
    """The server has dropped an expired run, so its index entries cannot be derived from it."""
    prefix = new_prefix()
    async with opened(ttl=None if way == "deleted" else 0.05, prefix=prefix) as store:
        writer = Writer("{run}", conversation_id="{talk}", user="{ada}")
        lease = await store.create(writer.started(), "me", 30)
        assert len(await keys_of(prefix)) > 4
        await store.append(lease, writer.completed())
        while way != "deleted" and f"{prefix}:{{%7Brun%7D}}:run".encode() in await keys_of(prefix):
            await asyncio.sleep(0.02)
        match way:
            case "listed":
                await store.runs()
            case "listed for its user":
                await store.runs(user="{ada}")
            case "expired":
                await store.delete_older_than(0)
            case _:
                await store.delete("{run}")
        assert await keys_of(prefix) == []


@pytest.mark.parametrize("version", ["", "3", "5"])
@store_test
async def test_run_of_another_format_can_only_be_deleted(version: str) -> None:
    prefix = new_prefix()
    key = f"{prefix}:{{other}}:run"
    async with opened(prefix=prefix) as store:
        writer, lease, _ = await begin_run(store, "other")
        change = ["HSET", key, "format", version] if version else ["HDEL", key, "format"]
        await execute(shared_server(), *change)
        for attempt in (
            store.info("other"),
            store.read("other"),
            store.renew(lease, 9),
            store.append(lease, writer.texts("a")),
        ):
            with pytest.raises(StoreError, match=rf"format {version or 1}, .* reads format 4"):
                await attempt
        assert await store.runs() == []  # and a warning in the log
        await store.delete("other")
        assert await store.runs() == []
        assert await keys_of(prefix) == []


async def keys_of(prefix: str) -> list[bytes]:
    keys: list[bytes] = await execute(shared_server(), "KEYS", f"{prefix}:*")
    return [key for key in keys if b":void:" not in key]


@store_test
async def test_listing_a_few_runs_reads_only_those(store: RedisStore) -> None:
    for number in range(30):
        user = "ada" if number % 10 == 0 else "bob"
        writer = Writer(f"run-{number}", conversation_id=f"talk-{number // 3}", user=user)
        started = writer.started()
        await store.create(started + (writer.completed() if number else []), "me", 30)
    read: list[int] = []
    look_at = store._index._load_listed

    async def counted(entries: Sequence[Any]) -> Any:
        read.append(len(entries))
        return await look_at(entries)

    store._index._load_listed = counted  # type: ignore[assignment]
    assert len(await store.runs(user="ada")) == 3
    assert len(await store.runs(conversation_id="talk-2")) == 3
    assert len(await store.runs(conversation_id="talk-0", user="ada")) == 1
    assert len(await store.runs(status="running")) == 1
    assert len(await store.runs(conversation_id="talk-2", limit=1)) == 1
    assert read == [3, 3, 1, 1, 1]


@store_test
async def test_list_is_complete_though_runs_change_meanwhile(store: RedisStore) -> None:
    """Runs are read in pages. Between two pages some are deleted, and one is written to."""
    writers = [Writer(f"run-{number:03}", time=1.0 + number) for number in range(450)]
    leases = [await store.create(writer.started(), "me", 30) for writer in writers]
    all_ids = [writer.run_id for writer in writers]
    assert ids(await store.runs()) == all_ids[::-1]
    assert ids(await store.runs(limit=300)) == all_ids[:-301:-1]
    look_at = store._index._load_listed

    async def read_then_change(entries: Sequence[Any]) -> Any:
        found = await look_at(entries)
        while len(leases) > 300:
            await store.release(leases[-1])
            await store.delete(leases.pop().run_id)
        writers[0].time = 1_000.0
        await store.append(leases[0], writers[0].texts("a"))
        return found

    store._index._load_listed = read_then_change  # type: ignore[assignment]
    assert set(ids(await store.runs())) >= {lease.run_id for lease in leases}


@store_test
async def test_expired_runs_do_not_hide_older_ones_from_a_list() -> None:
    async with opened(ttl=0.02) as store:
        for number in range(260):
            is_over = number >= 30
            writer = Writer(f"run-{number}", time=2.0 if is_over else 1.0)
            started = writer.started()
            await store.create(started + (writer.completed() if is_over else []), "me", 30)
        await asyncio.sleep(0.04)
        assert len(await store.runs()) == 30


@store_test
async def test_foreign_keys_are_logged_and_do_not_hide_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    prefix = new_prefix()
    with caplog.at_level(logging.WARNING, "argstream.runs"):
        async with opened(prefix=prefix) as store, Redis.from_url(shared_server().url) as client:
            over = Writer(time=1.0)
            await store.create([*over.started(), *over.completed()], "me", 30)
            odd = ["foreign", "number", "text"]
            entries = [b"\xff\xfe", *(f'["x","{name}","s",""]'.encode() for name in odd)]
            await client.zadd(f"{prefix}:{{0}}:runs", dict.fromkeys(entries, 2.0))
            await client.hset(f"{prefix}:{{foreign}}:run", "a", "b")
            for field in ("session", "agent", "status", "seq", "created", "updated"):
                await client.hset(f"{prefix}:{{number}}:run", field, "x")
            await client.set(f"{prefix}:{{text}}:run", "mine")
            assert ids(await store.runs()) == ["run-1"]
            for run_id in odd:
                with pytest.raises(StoreError, match=r"another type|Another program"):
                    await store.info(run_id)
            await client.hset(f"{prefix}:{{run-1}}:run", "seq", "x")
            with pytest.raises(StoreError, match="Another program"):
                await store.read("run-1")

    for name in (r"\xff\xfe", "'foreign'", "'number'", "'text'"):
        assert name in caplog.text


def test_closing_a_store_closes_it_in_every_event_loop() -> None:
    with redis_server.RedisServer() as server:
        store = RedisStore(server.url)
        follows, disconnected = threading.Event(), threading.Event()

        async def follow() -> None:
            await begin_run(store)
            records = store.follow("run-1")
            await anext(records)
            follows.set()
            with pytest.raises(StoreError, match="closed"):
                await anext(records)
            while b"name=argstream" in await execute(server, "CLIENT", "LIST"):
                await asyncio.sleep(0.005)
            disconnected.set()

        thread = threading.Thread(target=asyncio.run, args=(follow(),))
        thread.start()
        assert follows.wait(10)
        asyncio.run(store.aclose())
        assert disconnected.wait(10)
        thread.join()


def test_invalid_settings_raise() -> None:
    with pytest.raises(UsageError, match="not int"):
        RedisStore(6379)  # type: ignore[arg-type]
    values: dict[str, list[Any]] = {
        "prefix": ["", "\ud800"],
        "ttl": [0, float("inf"), float("nan"), 1e17],
        "patience": [0],
    }
    for name, invalid in values.items():
        for value in invalid:
            with pytest.raises(UsageError):
                RedisStore("redis://localhost", **{name: value})


@store_test
async def test_followers_of_an_event_loop_share_one_connection() -> None:
    with redis_server.RedisServer() as server:
        async with opened(server.url) as store:
            for number in range(20):
                await begin_run(store, f"run-{number}")
            waiting = [await following(store, f"run-{number % 20}") for number in range(40)]
            assert (await execute(server, "CLIENT", "LIST")).count(b"cmd=subscribe") == 1
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            while b"cmd=subscribe" in await execute(server, "CLIENT", "LIST"):
                await asyncio.sleep(0.005)


@store_test
async def test_very_large_records_are_followed(store: RedisStore, other: RedisStore) -> None:
    writer, lease, _ = await begin_run(store)
    followed = await following(other)
    for _ in range(3):
        await store.append(lease, writer.texts("x" * 3_000_000))
    await store.append(lease, writer.completed())
    assert await followed == await store.read("run-1")


@store_test
async def test_databases_do_not_see_each_others_runs() -> None:
    """The ids may be the same, and channels are shared by all databases of a server."""
    prefix = new_prefix()
    address = shared_server().url
    async with (
        opened(address, prefix=prefix) as store,
        opened(address.replace("db=0", "db=1"), prefix=prefix) as other,
    ):
        writer, lease, _ = await begin_run(store)
        stranger, theirs, _ = await begin_run(other)
        followed = await following(store)
        await other.append(theirs, stranger.texts("a secret"))
        await other.append(theirs, stranger.completed())
        await other.delete("run-1")
        await asyncio.sleep(0.02)
        await store.append(lease, writer.texts("mine"))
        await store.append(lease, writer.completed())
        assert await followed == await store.read("run-1")


@store_test
async def test_run_id_cannot_reach_into_another_prefix() -> None:
    prefix = new_prefix()
    async with opened(prefix=prefix) as store, opened(prefix=f"{prefix}:{{tenant}}") as other:
        await begin_run(other, "secret")
        forged = "tenant}:{secret"
        for attempt in (store.read(forged), store.stop(forged), store.info(forged)):
            with pytest.raises(RunNotFoundError):
                await attempt
        await begin_run(store, forged)
        assert len(await other.runs()) == len(await store.runs()) == 1


MESSAGES = [
    *(b"", b"x\nfoo\nbar", b"gone", b"commands\nnone\n{}", b"\xff"),
    *(b"\n" + b"9" * 5_000, b"\n2\n{}", b"\n2\n\xff"),
]


@store_test
async def test_follower_ignores_foreign_messages_on_its_channel(
    store: RedisStore, other: RedisStore, place: Place
) -> None:
    for number, message in enumerate(MESSAGES):
        run_id = f"run-{number}"
        writer, lease, _ = await begin_run(store, run_id)
        followed = await following(other, run_id)
        async with Redis.from_url(shared_server().url, protocol=2) as client:
            assert await client.publish(f"{place.prefix}:{{{run_id}}}:news:0", message) == 1
        await asyncio.sleep(0.02)
        await store.append(lease, writer.texts("a"))
        await store.append(lease, writer.completed())
        async with asyncio.timeout(5):
            assert await followed == await store.read(run_id), message


@store_test
async def test_deltas_are_published_only_while_another_store_follows(
    store: RedisStore, other: RedisStore, place: Place
) -> None:
    """A cluster forwards what is published to all its nodes."""
    writer, lease, _ = await begin_run(store)
    channel = f"{place.prefix}:{{run-1}}:news:0"
    async with Redis.from_url(shared_server().url) as client, client.pubsub() as heard:
        await heard.subscribe(channel)

        async def published() -> int:
            await store.append(lease, writer.texts("a"))
            await client.publish(channel, "marker")
            messages: list[Any] = []
            while b"marker" not in messages:
                found = await heard.get_message(ignore_subscribe_messages=True, timeout=1)
                messages += [found["data"]] if found else []
            return len(messages) - 1

        own = await following(store)
        assert await published() == 0
        theirs = await following(other)
        while await client.hget(f"{place.prefix}:{{run-1}}:run", "watcher") != b"*":
            await asyncio.sleep(0.005)
        assert await published() == 1
    await store.append(lease, writer.completed())
    assert await own == await theirs


@store_test
async def test_foreign_key_leaves_nothing_half_written(store: RedisStore, place: Place) -> None:
    for name in ("{s}:conversation", "{ada}:user", "{run-1}:log", "{run-1}:run"):
        key = f"{place.prefix}:{name}"
        await execute(shared_server(), "SET", key, "mine")
        beginning = store.create(Writer(user="ada").started(), "me", 30)
        assert "Pass a prefix that no other program uses" in await error_of(beginning)
        await execute(shared_server(), "DEL", key)
        assert await store.runs() == []
        assert await keys_of(place.prefix) == []
    writer, lease, records = await begin_run(store)
    await execute(shared_server(), "RENAME", f"{place.prefix}:{{run-1}}:log", "other")
    await execute(shared_server(), "SET", f"{place.prefix}:{{run-1}}:log", "mine")
    more = writer.texts("a", "b")
    assert "Pass a prefix" in await error_of(store.append(lease, more))
    await execute(shared_server(), "RENAME", "other", f"{place.prefix}:{{run-1}}:log")
    assert await store.read("run-1") == records
    await store.append(lease, more)
    assert len(await store.runs()) == 1
