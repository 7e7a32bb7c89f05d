"""Following a run: no gap, no duplicate and no reordering, whenever a follower starts or leaves."""

import asyncio
import gc
import random
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import pytest

from argstream import Approve, Deny
from argstream.errors import RunNotFoundError, StoreError
from argstream.events import CallSnapshot, RunResumed, RunSnapshot, TextDelta, ToolCallStarted
from argstream.runs import Commands, Lease, Record, RunState, Store
from tests.runs.records import SECONDS, Writer, begin_run, decided, folded, paused, requested
from tests.runs.stores import Place, follow_all, store_test, wait_until, without_redis


def watched(store: Store) -> list[str]:
    runs: list[str] = cast("Any", store)._tails.watched()
    return runs


async def following_tasks(store: Store, count: int) -> "list[asyncio.Task[list[Record]]]":
    tasks = [asyncio.create_task(follow_all(store)) for _ in range(count)]
    await wait_until(lambda: bool(watched(store)))
    return tasks


async def later_posts(store: Store) -> AsyncGenerator[Commands, None]:
    async with aclosing(store.watch_commands("run-1")) as listening:
        await anext(listening)
        async for commands in listening:
            yield commands


@store_test
async def test_follower_gets_old_and_new_records_until_the_run_is_over(store: Store) -> None:
    """It waits while the run is paused."""
    writer, lease, records = await begin_run(store, "run-1", TextDelta("a", 0))
    starts = (0, 4, 99)
    following = [asyncio.create_task(follow_all(store, after=after)) for after in starts]
    for text in "bcd":
        records += (more := writer.texts(text, text))
        await store.append(lease, more)
        await asyncio.sleep(0.001)
    records += (rest := writer.records(requested(), paused()))
    await store.append(lease, rest)
    await asyncio.sleep(0.05)
    assert not any(task.done() for task in following)
    lease = await store.acquire("run-1", "you", SECONDS)
    records += (end := [*writer.records(RunResumed("run-1")), *writer.completed()])
    await store.append(lease, end)
    for after, task in zip(starts, following, strict=True):
        assert await task == await follow_all(store, after=after) == records[after:]
    assert await follow_all(store, after=len(records)) == []


@pytest.mark.parametrize(("count", "text"), [(400, "x"), (1, "x" * 1_000_000)])
@store_test
async def test_slow_follower_reads_from_the_store(store: Store, count: int, text: str) -> None:
    """More records, and larger ones, than are kept in memory for followers."""
    writer, lease, records = await begin_run(store)
    async with aclosing(store.follow("run-1")) as following:
        seen = [await anext(following)]
        for _ in range(6):
            records += (more := writer.texts(*[text] * count))
            await store.append(lease, more)
        records += (end := writer.completed())
        await store.append(lease, end)
        seen += [record async for record in following]
    assert seen == records


@pytest.mark.parametrize("way", ["deleted", "expired", "closed"])
@store_test
async def test_deletion_and_closing_fail_followers(
    place: Place, store: Store, other: Store, way: str
) -> None:
    lease = await store.create(Writer(time=place.now() - 100).started(), "me", SECONDS)
    (here,), (there,) = await following_tasks(store, 1), await following_tasks(other, 1)
    listening = asyncio.ensure_future(anext(later_posts(other)))
    await asyncio.sleep(0.05)
    await store.release(lease)
    match way:
        case "deleted":
            await store.delete("run-1")
        case "expired":
            assert await store.delete_older_than(50, unfinished=True) == 1
        case _:
            await store.aclose()
            await other.aclose()
    for following in (here, there, listening):
        with pytest.raises(StoreError if way == "closed" else RunNotFoundError):
            await following


@store_test
async def test_any_run_id_can_be_followed_in_another_process(store: Store, other: Store) -> None:
    for run_id in ("a\0b", '"\\\n{}%', "\u2028\U0001f600"):
        writer, lease, _ = await begin_run(store, run_id)
        following = asyncio.create_task(follow_all(other, run_id, 1))
        await wait_until(lambda: bool(watched(other)))
        await asyncio.sleep(0.05)
        await store.append(lease, records := writer.texts("\0"))
        await store.append(lease, end := writer.completed())
        assert await following == records + end


@store_test
async def test_cancelled_and_dropped_followers_are_unregistered(store: Store) -> None:
    writer, lease, records = await begin_run(store)
    dropped, listening = store.follow("run-1"), store.watch_commands("run-1")
    assert await anext(dropped) == records[0]
    assert await anext(listening) == Commands()
    stays, *tasks = await following_tasks(store, 11)
    await store.append(lease, writer.texts("a"))
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await store.append(lease, end := writer.completed())
    assert (await stays)[-1:] == end
    del dropped, listening
    gc.collect()
    await wait_until(lambda: not watched(store))


@without_redis  # a connection to Redis belongs to one event loop
@store_test
async def test_followers_of_a_closed_event_loop_do_not_disturb_others(store: Store) -> None:
    writer, lease, records = await begin_run(store)
    abandoned = store.follow("run-1")

    def crash() -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(anext(abandoned))
        loop.close()

    await asyncio.to_thread(crash)
    (stays,) = await following_tasks(store, 1)
    await store.append(lease, end := writer.completed())
    assert await stays == records + end


@store_test
async def test_snapshot_folds_all_records(store: Store) -> None:
    """Also of many runs in turn. The store caches the snapshots of a few."""
    runs = [await begin_run(store, f"run-{number}", conversation_id="talk") for number in range(30)]
    for text in ("a", "b"):
        for writer, lease, records in runs:
            count = 700 if writer.run_id == "run-0" else 1
            await store.append(lease, more := writer.texts(*[f"{writer.run_id} {text}"] * count))
            records.extend(more)
        for writer, _, records in runs:
            snapshot = await store.snapshot(writer.run_id)
            assert snapshot == folded(records)
            assert (snapshot.seq, snapshot.time) == (records[-1].seq, records[-1].time)
            assert (snapshot.conversation_id, snapshot.agent) == ("talk", "agent")


@store_test
async def test_join_yields_a_snapshot_and_the_records_after_it(store: Store) -> None:
    writer, lease, records = await begin_run(store, "run-1", TextDelta("a", 0))
    async with aclosing(store.watch("run-1")) as joining:
        first = await anext(joining)
        assert first == folded(records)
        more = [*writer.texts("b"), *writer.completed()]
        await store.append(lease, more)
        assert [record async for record in joining] == more
    (only,) = [record async for record in store.watch("run-1")]
    assert only == folded(records + more)


@store_test
async def test_snapshots_are_independent_copies(store: Store) -> None:
    await begin_run(store, "run-1", ToolCallStarted("c1", 0, "send"), requested())
    for _ in range(2):
        snapshot = await store.snapshot("run-1")
        (call,) = snapshot.blocks
        assert isinstance(call, CallSnapshot)
        assert call.request is not None
        assert call.request.arguments == {"to": ["ada"]}
        call.request.arguments["to"].append("eve")


@store_test
async def test_driver_receives_commands_until_the_run_is_over(store: Store, other: Store) -> None:
    writer, lease, _ = await begin_run(store, "run-1", requested("c1"), requested("c2"))
    async with aclosing(store.watch_commands("run-1")) as listening:
        assert await anext(listening) == Commands()
        await other.decide("run-1", {"c1": Approve()})
        assert (await anext(listening)).decisions == {"c1": Approve()}
        async with aclosing(store.watch_commands("run-1")) as second:
            assert (await anext(second)).decisions == {"c1": Approve()}
        await store.append(lease, writer.records(decided("c1")))
        await store.decide("run-1", {"c2": Deny()})
        assert (await anext(listening)).decisions == {"c2": Deny()}
        await store.reopen(lease, "c2")
        assert await anext(listening) == Commands()
        await other.stop("run-1", "enough")
        assert await anext(listening) == Commands(stop_reason="enough")
        rest = asyncio.ensure_future(anext(listening, None))
        await store.append(lease, writer.records(requested("c3"), decided("c3")))
        await store.reopen(lease, "c3")
        await asyncio.sleep(0.05)
        assert not rest.done(), "only changes are sent"
        await store.append(lease, writer.completed())
        assert await rest is None


async def write_run(store: Store, lease: Lease, writer: Writer, random: random.Random) -> None:
    while writer.seq < 300:
        await store.append(lease, writer.texts(*map(str, range(random.randint(1, 12)))))
        await asyncio.sleep(random.choice([0, 0, 0.001, 0.002]))
    await store.append(lease, writer.completed())


@pytest.mark.bulk
@store_test
async def test_followers_that_start_at_any_moment_see_exactly_the_log(store: Store) -> None:
    chance = random.Random(7)
    writer, lease, _ = await begin_run(store)
    views: set[object] = set()

    async def follower() -> None:
        await asyncio.sleep(chance.random() * 0.1)
        after = chance.randint(0, writer.seq + 5)
        seen = await follow_all(store, after=after)
        assert seen == await store.read("run-1", after)

    async def joiner() -> None:
        await asyncio.sleep(chance.random() * 0.1)
        async with aclosing(store.watch("run-1")) as joining:
            snapshot = await anext(joining)
            assert isinstance(snapshot, RunSnapshot)
            state = RunState.from_snapshot(snapshot)
            async for record in joining:
                assert isinstance(record, Record)
                assert record.seq == state.seq + 1
                state.apply_record(record)
        assert state.seq == writer.seq
        views.add(state.snapshot().blocks)

    await asyncio.gather(
        write_run(store, lease, writer, chance),
        *(follower() if number % 4 else joiner() for number in range(80)),
    )
    assert views == {folded(await store.read("run-1")).blocks}
    assert not watched(store)


@store_test
async def test_one_store_serves_several_event_loops(store: Store) -> None:
    """Threads with a loop each write a run of their own, and follow that of the main thread."""
    writer, lease, _ = await begin_run(store)
    seen: list[list[Record]] = []

    async def work(number: int) -> None:
        own, own_claim, _ = await begin_run(store, f"own-{number}")
        following = asyncio.gather(follow_all(store), follow_all(store, after=1))
        await write_run(store, own_claim, own, random.Random(number))
        assert len(await store.read(own.run_id)) == own.seq
        seen.extend(await following)

    threads = [threading.Thread(target=asyncio.run, args=(work(number),)) for number in range(3)]
    for thread in threads:
        thread.start()
    await write_run(store, lease, writer, random.Random(8))
    for thread in threads:
        await asyncio.to_thread(thread.join)
    log = await store.read("run-1")
    assert sorted(map(len, seen)) == [len(log) - 1] * 3 + [len(log)] * 3
    assert all(records == log[-len(records) :] for records in seen)
