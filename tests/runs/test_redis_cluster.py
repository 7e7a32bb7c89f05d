"""A Redis cluster: runs in all slots, indexes that are repaired, slots that move, and lost nodes.

The contract that it shares with the other stores is tested in test_contract.py, and ``kill -9`` of
processes in tests/surviving.
"""

import asyncio
import os
import time
from typing import Any

import pytest
from redis.crc import key_slot

from argstream.errors import RunBusyError, StoreError, UsageError
from argstream.events import RunStarted, ToolExecutionStarted
from argstream.runs import ConversationInfo, Lease, Record, RedisStore
from argstream.runs.redis import _Entry
from tests.runs import redis_server
from tests.runs.records import SECONDS, Writer, begin_run, contiguous
from tests.runs.redis_server import RedisServer, error_of, execute, opened, shared_cluster
from tests.runs.stores import Place, follow_all, store_test

STORES = ["cluster"]
IS_SOAK = os.environ.get("ARGSTREAM_HYPOTHESIS") == "soak"
RUNS = 12
LOSSES = 20 if IS_SOAK else 1


@store_test
async def test_runs_and_indexes_are_spread_over_all_nodes(store: RedisStore, place: Place) -> None:
    for number in range(150):
        writer = Writer(f"run-{number}", conversation_id=f"talk-{number}", user=f"user-{number}")
        await store.create(writer.started(), "me", SECONDS)
    nodes = await shared_cluster().keys_of(place.prefix)
    for ending in (b":run", b":log", b":conversation", b":user", b":unfinished"):
        counts = [sum(key.endswith(ending) for key in keys) for keys in nodes]
        assert len(counts) == 3
        assert min(counts) > sum(counts) / 6, (ending, counts)
    assert len(await store.runs(status="running")) == 150


# Indexes: a process that dies leaves them behind its run, and the next list repairs them.


def skip(store: RedisStore, *names: str) -> None:
    """Let the process die, as it were, before it does this with the indexes."""

    async def skipped(*_: Any) -> None:
        return None

    for name in names:
        setattr(store._index, name, skipped)


async def index_keys(place: Place) -> list[bytes]:
    nodes = await shared_cluster().keys_of(place.prefix)
    return sorted(key for keys in nodes for key in keys if b":void:" not in key)


@store_test
async def test_entry_of_a_run_that_was_never_created_is_removed(
    store: RedisStore, other: RedisStore, place: Place
) -> None:
    async def die(*_: Any, **__: Any) -> Any:
        raise StoreError("died")

    store._run = die  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="died"):
        await store.create(Writer(user="ada").started(), "me", SECONDS)
    assert len(await index_keys(place)) == 5  # four indexes and the conversation
    assert await other.runs(conversation_id="s") == []
    assert await index_keys(place) == []


@store_test
async def test_run_is_listed_though_its_entry_was_removed_before_it_was_created(
    store: RedisStore, other: RedisStore
) -> None:
    """A list may come between the entry and the run. Then the entry is added again."""
    add, added = store._index.add, []

    async def add_then_list(*given: Any) -> list[Any]:
        added.append(given)
        answers = await add(*given)
        if len(added) < 3:
            assert await other.runs() == []
        return answers

    store._index.add = add_then_list  # type: ignore[assignment]
    await store.create(Writer(user="ada").started(), "me", SECONDS)
    assert len(added) == 3
    for wanted in ({"status": "running"}, {"user": "ada"}, {"conversation_id": "s"}, {}):
        assert len(await other.runs(**wanted)) == 1, wanted  # type: ignore[arg-type]


@store_test
async def test_run_that_ended_is_removed_from_the_unfinished_ones(
    store: RedisStore, other: RedisStore, place: Place
) -> None:
    writer, lease, _ = await begin_run(store)
    skip(store, "finalize")
    await store.append(lease, writer.completed())
    assert any(key.endswith(b":unfinished") for key in await index_keys(place))
    assert await other.runs(status="running") == []
    assert not any(key.endswith(b":unfinished") for key in await index_keys(place))
    skip(store, "remove")
    await store.delete("run-1")
    assert await index_keys(place) != []
    assert await other.delete_older_than(0) == 0
    assert await index_keys(place) == []


@store_test
async def test_lost_entries_are_added_again_by_the_next_driver(
    store: RedisStore, other: RedisStore, place: Place
) -> None:
    """A failover may lose the entries of a run. It is unlisted until a process continues it."""
    writer, lease, _ = await begin_run(store)
    await store.release(lease)
    await store._index.remove([await entry_of(place)])
    assert await other.runs() == []
    lease = await other.acquire("run-1", "you", SECONDS)
    await other.append(lease, writer.texts("a"))
    assert len(await store.runs(status="running")) == 1


async def entry_of(place: Place) -> _Entry:
    node = await shared_cluster().primary_of("run-1")
    identity = await execute(node, "HGET", f"{place.prefix}:{{run-1}}:run", "identity")
    return _Entry(identity.decode(), "run-1", "s", "")


@store_test
async def test_order_of_a_list_is_exact_while_runs_are_written(
    store: RedisStore, other: RedisStore
) -> None:
    """Deltas do not change the indexes, whose scores are up to a minute ahead."""
    writers = [Writer(f"run-{number:02}", time=100.0 + number) for number in range(30)]
    leases = [await store.create(writer.started(), "me", SECONDS) for writer in writers]
    for number in (3, 17, 8):
        writers[number].time = 150.0 - number
        await store.append(leases[number], writers[number].texts("a"))
    newest = ["run-03", "run-08", "run-17", "run-29", "run-28"]
    assert [info.run_id for info in await other.runs(limit=5)] == newest
    assert [info.run_id for info in await other.runs(status="running", limit=2)] == newest[:2]
    await store.append(leases[0], writers[0].completed())
    assert len(await other.runs(limit=100)) == 30


@store_test
async def test_delta_is_one_request(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, lease, _ = await begin_run(store)
    sent: list[str] = []
    send = store._calls._send

    async def counted(client: Any, command: Any) -> Any:
        sent.append(command.script)
        return await send(client, command)

    monkeypatch.setattr(store._calls, "_send", counted)
    for _ in range(20):
        await store.append_deltas(lease, writer.texts("a"))
    assert sent == ["append"] * 20


@store_test
async def test_run_is_written_and_read_while_its_slot_moves(
    store: RedisStore, other: RedisStore
) -> None:
    writer, lease, records = await begin_run(store)
    followed = asyncio.create_task(follow_all(other))
    slot = str(key_slot(b"run-1"))
    source = await shared_cluster().primary_of("run-1")
    target = next(node for node in shared_cluster().nodes[:3] if node is not source)
    names = [(await execute(node, "CLUSTER", "MYID")).decode() for node in (source, target)]

    async def append() -> None:
        more = writer.texts("a")
        await store.append(lease, more)
        records.extend(more)
        assert await other.read("run-1") == records

    try:
        await execute(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", names[0])
        await execute(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", names[1])
        await append()  # it is still there
        keys = await execute(source, "CLUSTER", "GETKEYSINSLOT", slot, "1000")
        where = ["127.0.0.1", str(target.port), "", "0", "5000", "KEYS"]
        await execute(source, "MIGRATE", *where, *(key.decode() for key in keys))
        await append()  # ASK
    finally:
        for node in (target, source):
            await execute(node, "CLUSTER", "SETSLOT", slot, "NODE", names[1])
    await append()  # MOVED
    await append()
    end = writer.completed()
    await store.append(lease, end)
    assert await followed == records + end


@store_test
async def test_wrong_kind_of_address_is_named() -> None:
    node = next(node for node in shared_cluster().nodes if node.port)
    async with opened(node.url) as store:
        message = await error_of(asyncio.gather(*(begin_run(store, f"run-{n}") for n in range(9))))
        assert "Use redis+cluster://" in message
    with RedisServer(tcp=True) as server:
        async with opened(server.url.replace("redis:", "redis+cluster:")) as store:
            assert "Use redis://" in await error_of(begin_run(store))


@pytest.mark.hypothesis
@pytest.mark.timeout(0 if IS_SOAK else 120)
def test_loss_of_a_primary_loses_no_state_change_and_no_run() -> None:
    """Writers and followers continue, and all runs are listed. `make soak` loses more nodes."""
    for _ in range(LOSSES):
        with redis_server.RedisCluster() as cluster:
            asyncio.run(write_through_a_loss(cluster))


async def write_through_a_loss(cluster: redis_server.RedisCluster) -> None:
    lost = asyncio.Event()

    async def drive(store: RedisStore, number: int) -> tuple[Writer, Lease, list[Record]]:
        writer, lease, acknowledged = await begin_run(store, f"run-{number}")
        steps = 0
        while not lost.is_set() or steps < 20:
            records = writer.records(ToolExecutionStarted("c1", "tool", str(steps)))
            await store.append(lease, records)
            acknowledged += records
            steps += 1
            await asyncio.sleep(0.005)
        return writer, lease, acknowledged

    options: dict[str, Any] = {"prefix": redis_server.new_prefix(), "patience": 30.0}
    async with opened(cluster.url, **options) as store, opened(cluster.url, **options) as other:
        driven = [asyncio.create_task(drive(store, number)) for number in range(RUNS)]
        while len(await other.runs()) < RUNS:
            await asyncio.sleep(0.01)
        followed = [asyncio.create_task(follow_all(other, f"run-{n}")) for n in range(RUNS)]
        primary = await cluster.primary_of("run-0")
        await asyncio.sleep(0.1)
        await asyncio.to_thread(primary.kill)
        while await cluster.primary_of("run-0") is primary:
            await asyncio.sleep(0.02)
        await begin_run(store, "late")  # wherever its entries are
        lost.set()
        ended = await asyncio.gather(*driven)
        assert {info.run_id for info in await other.runs(status="running")} == {
            "late",
            *(f"run-{number}" for number in range(RUNS)),
        }
        for writer, lease, acknowledged in ended:
            assert await other.read(writer.run_id) == acknowledged
            with pytest.raises(RunBusyError):
                await other.acquire(writer.run_id, "you", SECONDS)
            await store.append(lease, writer.completed())
        assert all(map(contiguous, await asyncio.gather(*followed)))


@store_test
async def test_state_change_waits_for_a_replica_but_not_for_ever(
    store: RedisStore, caplog: pytest.LogCaptureFixture
) -> None:
    writer, lease, _ = await begin_run(store)
    primary = await shared_cluster().primary_of("run-1")
    replica = (await execute(primary, "INFO", "replication"))["slave0"]["port"]
    [hanging] = [node for node in shared_cluster().nodes if node.port == replica]
    hanging.hang()
    try:
        began = time.monotonic()
        await store.append(lease, writer.texts("a delta does not wait"))
        assert "no replica has confirmed" not in caplog.text
        await store.append(lease, writer.records(ToolExecutionStarted("c1", "tool", "x")))
        assert time.monotonic() - began >= 1
        assert caplog.text.count("no replica has confirmed a write within 1 s") == 1
        await store.append(lease, writer.records(ToolExecutionStarted("c2", "tool", "x")))
        assert caplog.text.count("no replica has confirmed") == 1
    finally:
        hanging.wake()


@store_test
async def test_driver_of_a_lost_lease_cannot_write(store: RedisStore, place: Place) -> None:
    """Two leases that a failover made follow the same token are different leases."""
    writer, lease, _ = await begin_run(store)
    await store.release(lease)
    node = await shared_cluster().primary_of("run-1")
    key = f"{place.prefix}:{{run-1}}:run"
    before = await execute(node, "HGETALL", key)
    old = await store.acquire("run-1", "me", SECONDS)
    await execute(node, "HSET", key, *(word for pair in before.items() for word in pair))
    await store.acquire("run-1", "you", SECONDS)
    with pytest.raises(RunBusyError, match="you"):
        await store.append(old, writer.texts("a"))


@store_test
async def test_cluster_without_a_primary_fails_in_time() -> None:
    with RedisServer(tcp=True, cluster_enabled="yes") as server:
        await execute(server, "CLUSTER", "ADDSLOTS", *map(str, range(16_000)))
        url = server.url.replace("redis:", "redis+cluster:").removesuffix("/0")
        async with opened(url, patience=0.5) as store:
            assert "the cluster is down" in await error_of(begin_run(store))
    async with opened(url, patience=0.2) as store:
        assert "cannot be reached, tried for 0.2 s" in await error_of(begin_run(store))
    with pytest.raises(UsageError, match="only database 0"):
        RedisStore("redis+cluster://localhost:1/3")


@store_test
async def test_lost_row_of_a_conversation_is_written_again(
    store: RedisStore, other: RedisStore, place: Place
) -> None:
    for number, prompt in enumerate(("Find whales", "And dolphins"), 1):
        writer = Writer(f"run-{number}", conversation_id="talk", time=float(number), user="ada")
        started = writer.records(RunStarted(writer.run_id, prompt, user="ada"))
        await store.create(started, "me", SECONDS)
    listed = [ConversationInfo("talk", "ada", "Find whales", created=1.0, updated=2.0)]
    assert await other.conversations() == listed
    node = await shared_cluster().primary_of("talk")
    row = f"{place.prefix}:{{talk}}:about:ada"
    assert await execute(node, "DEL", row) == 1
    await other.delete_conversation("talk", user="ada")
    assert await store.conversations() == []
    await other.restore_conversation("talk", user="ada")
    assert await store.conversations(user="ada") == listed
    await execute(node, "HSET", row, "created", "x")  # by another program
    assert await store.conversations() == listed


@store_test
async def test_limited_list_of_conversations_is_that_of_the_newest(store: RedisStore) -> None:
    """Also if one conversation has many newer runs than the others."""
    for number in range(20):
        talk = "old" if number == 0 else "a" if number < 5 else "b"
        writer = Writer(f"run-{number}", conversation_id=talk, time=1.0 + number)
        await store.create(writer.started(), "me", SECONDS)
    for limit, expected in ((1, ["b"]), (2, ["b", "a"]), (3, ["b", "a", "old"])):
        found = await store.conversations(limit=limit)
        assert [talk.conversation_id for talk in found] == expected
