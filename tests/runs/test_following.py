"""Following a run: never a gap, a double or a reordering, whatever the moment."""

import asyncio
import gc
import random
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import pytest

from argstream import Approve, Deny
from argstream.errors import StoreFailure, UnknownRun
from argstream.events import RunResumed, RunSnapshot, SeenCall, TextDelta, ToolCallStarted
from argstream.runs import (
    Claim,
    Posts,
    Record,
    Store,
)
from tests.runs.records import SECONDS, Writer, asked, begun, decided, folded, paused
from tests.runs.stores import Place, all_of, story, until


def watched(store: Store) -> list[str]:
    """The runs that the store still thinks somebody follows."""
    runs: list[str] = cast("Any", store)._tails.watched()
    return runs


async def fail(work: "asyncio.Task[object]") -> BaseException | None:
    await asyncio.wait([work])
    return work.exception()


# One follower


@story
async def test_a_follower_gets_what_is_there_and_what_comes_until_the_run_is_over(
    store: Store,
) -> None:
    writer, claim, records = await begun(store, "run-1", TextDelta("a", 0))
    following = asyncio.create_task(all_of(store))
    ahead = asyncio.create_task(all_of(store, after=4))
    too_far_ahead = asyncio.create_task(all_of(store, after=99))
    for text in "bcd":
        more = writer.texts(text, text)
        await store.append(claim, more)
        records += more
        await asyncio.sleep(0.001)
    end = writer.completed()
    await store.append(claim, end)
    assert await following == await all_of(store) == records + end
    assert await ahead == await all_of(store, after=4) == (records + end)[4:]
    assert await too_far_ahead == await all_of(store, after=99) == []
    assert await all_of(store, after=len(records) + 1) == []


@story
async def test_a_follower_waits_while_a_run_is_paused(store: Store) -> None:
    writer, _, records = await begun(store, "run-1", asked(), paused())
    following = asyncio.create_task(all_of(store))
    await asyncio.sleep(0.05)
    assert not following.done()
    claim = await store.claim("run-1", "you", SECONDS)
    more = [*writer.records(RunResumed("run-1")), *writer.completed()]
    await store.append(claim, more)
    assert await following == records + more


@story
async def test_a_slow_follower_reads_what_it_has_missed_from_the_store(store: Store) -> None:
    writer, claim, records = await begun(store)
    async with aclosing(store.follow("run-1")) as following:
        seen = [await anext(following)]
        for _ in range(7):
            more = writer.texts(*map(str, range(400)))
            await store.append(claim, more)
            records += more
        end = writer.completed()
        await store.append(claim, end)
        seen += [record async for record in following]
    assert seen == records + end


@story
async def test_large_records_are_not_kept_for_who_is_slow(store: Store) -> None:
    writer, claim, records = await begun(store)
    async with aclosing(store.follow("run-1", 1)) as following:
        first = asyncio.ensure_future(anext(following))
        for _ in range(12):
            more = writer.texts("x" * 1_000_000)
            await store.append(claim, more)
            records += more
        seen = [await first]
        await store.append(claim, writer.completed())
        seen += [record async for record in following]
    assert seen[:-1] == records[1:]


@story
async def test_what_is_written_elsewhere_is_heard_of_soon(store: Store, other: Store) -> None:
    writer, claim, _ = await begun(store)
    async with aclosing(other.follow("run-1", 1)) as following:
        delays: list[float] = []
        for text in "abcde":
            waiting = asyncio.ensure_future(anext(following))
            await asyncio.sleep(0.03)
            (record,) = written = writer.texts(text)
            await store.append(claim, written)
            start = time.perf_counter()
            assert await waiting == record
            delays.append(time.perf_counter() - start)
    assert sorted(delays)[2] < 0.1  # the machine may be busy; 25 ms are meant


# The end of following


@pytest.mark.parametrize("way", ["deleted", "expired"])
@story
async def test_a_follower_of_a_run_that_is_gone_hears_of_it(
    place: Place, store: Store, other: Store, way: str
) -> None:
    claim = await store.begin(Writer(time=place.now() - 100).started(), "me", SECONDS)
    here = asyncio.create_task(all_of(store))
    there = asyncio.create_task(all_of(other))
    listening = asyncio.create_task(anext(_changes(other)))
    await until(lambda: bool(watched(store) and watched(other)))
    await asyncio.sleep(0.05)
    await store.release(claim)
    if way == "deleted":
        await store.delete("run-1")
    else:
        assert await store.expire(50, unfinished=True) == 1
    for following in (here, there, listening):
        assert isinstance(await fail(following), UnknownRun)


async def _changes(store: Store) -> AsyncGenerator[Posts, None]:
    """What is posted, but for what was when one began to listen."""
    listening = store.posts("run-1")
    async with aclosing(listening):
        await anext(listening)
        async for posts in listening:
            yield posts


@story
async def test_followers_of_a_store_that_is_closed_hear_of_it(store: Store) -> None:
    await begun(store)
    following = asyncio.create_task(all_of(store))
    listening = asyncio.create_task(anext(_changes(store)))
    await asyncio.sleep(0.05)
    await store.aclose()
    assert isinstance(await fail(following), StoreFailure)
    assert isinstance(await fail(listening), StoreFailure)


@story
async def test_a_follower_that_is_cancelled_or_dropped_leaves_nothing_behind(store: Store) -> None:
    writer, claim, records = await begun(store)
    tasks = [asyncio.create_task(all_of(store)) for _ in range(10)]
    dropped = store.follow("run-1")
    listening = store.posts("run-1")
    assert await anext(dropped) == records[0]
    assert await anext(listening) == Posts()
    stays = asyncio.create_task(all_of(store))
    await asyncio.sleep(0.02)
    await store.append(claim, writer.texts("a"))
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    end = writer.completed()
    await store.append(claim, end)
    assert (await stays)[-1:] == end
    del dropped, listening
    gc.collect()
    await until(lambda: not watched(store))


@story
async def test_of_many_who_wait_any_can_be_cancelled_at_any_moment(
    store: Store, other: Store
) -> None:
    """One of them reads for all: when he goes, another must."""
    writer, claim, _ = await begun(store)
    following = [asyncio.create_task(all_of(other)) for _ in range(30)]
    await until(lambda: bool(watched(other)))
    for number, task in enumerate(following[:-1]):
        await asyncio.sleep(0.0005 * (number % 7))
        await store.append(claim, writer.texts("a"))
        task.cancel()
    await store.append(claim, writer.completed())
    assert len(await following[-1]) == writer.seq


# Snapshots


@story
async def test_a_snapshot_tells_all_up_to_the_last_record(store: Store) -> None:
    writer, claim, records = await begun(store, session_id="talk")
    for text in ("a", "b"):
        more = writer.texts(*[text] * 700)
        await store.append(claim, more)
        records += more
        snapshot = await store.snapshot("run-1")
        assert snapshot.event == folded(records)
        assert snapshot == Record(
            records[-1].seq, records[-1].time, "run-1", "talk", "agent", snapshot.event
        )


@story
async def test_snapshots_of_many_runs_are_right_in_any_order(store: Store) -> None:
    """Only of a few of them is it remembered how far they were folded."""
    runs = [await begun(store, f"run-{number}") for number in range(30)]
    for text in ("a", "b"):
        for writer, claim, records in runs:
            more = writer.texts(f"{writer.run_id} {text}")
            await store.append(claim, more)
            records.extend(more)
        for writer, _, records in runs:
            assert (await store.snapshot(writer.run_id)).event == folded(records)


@story
async def test_who_joins_gets_a_snapshot_and_what_follows_it(store: Store) -> None:
    writer, claim, records = await begun(store, "run-1", TextDelta("a", 0))
    async with aclosing(store.join("run-1")) as joining:
        first = await anext(joining)
        assert first.event == folded(records)
        more = [*writer.texts("b"), *writer.completed()]
        await store.append(claim, more)
        assert [record async for record in joining] == more
    (only,) = [record async for record in store.join("run-1")]
    assert only.event == folded(records + more)


@story
async def test_a_snapshot_is_one_s_own(store: Store) -> None:
    await begun(store, "run-1", ToolCallStarted("c1", 0, "send"), asked())
    for _ in range(2):
        snapshot = await store.snapshot("run-1")
        assert isinstance(snapshot.event, RunSnapshot)
        (call,) = snapshot.event.blocks
        assert isinstance(call, SeenCall)
        assert call.request is not None
        assert call.request.arguments == {"to": ["ada"]}
        call.request.arguments["to"].append("eve")


# Posts


@story
async def test_a_driver_hears_what_is_posted_until_the_run_is_over(
    store: Store, other: Store
) -> None:
    writer, claim, _ = await begun(store, "run-1", asked("c1"), asked("c2"))
    async with aclosing(store.posts("run-1")) as listening:
        assert await anext(listening) == Posts()
        await other.decide("run-1", {"c1": Approve()})
        assert (await anext(listening)).decisions == {"c1": Approve()}
        async with aclosing(store.posts("run-1")) as later:
            assert (await anext(later)).decisions == {"c1": Approve()}
        await store.append(claim, writer.records(decided("c1")))
        assert await anext(listening) == Posts()
        await store.decide("run-1", {"c2": Deny()})
        assert (await anext(listening)).decisions == {"c2": Deny()}
        await store.reopen(claim, "c2")
        assert await anext(listening) == Posts()
        await other.stop("run-1", "enough")
        assert await anext(listening) == Posts(stop_reason="enough")
        await store.append(claim, writer.completed())
        assert [posts async for posts in listening] == []


# Many followers


async def written(store: Store, claim: Claim, writer: Writer, random: random.Random) -> None:
    """Write a run, in batches and with breaks of any length."""
    while writer.seq < 600:
        await store.append(claim, writer.texts(*map(str, range(random.randint(1, 12)))))
        await asyncio.sleep(random.choice([0, 0, 0.001, 0.005]))
    await store.append(claim, writer.completed())


@pytest.mark.bulk
@story
async def test_a_thousand_followers_that_come_at_any_moment_see_exactly_the_log(
    store: Store,
) -> None:
    chance = random.Random(7)
    writer, claim, _ = await begun(store)

    async def follower() -> None:
        await asyncio.sleep(chance.random() * 0.4)
        after = chance.randint(0, writer.seq + 5)
        seen = await all_of(store, after=after)
        log = await store.read("run-1", after)
        assert seen == log

    async def joiner() -> None:
        await asyncio.sleep(chance.random() * 0.4)
        async with aclosing(store.join("run-1")) as joining:
            snapshot = await anext(joining)
            tail = [record async for record in joining]
        assert [record.seq for record in tail] == list(range(snapshot.seq + 1, writer.seq + 1))
        assert isinstance(snapshot.event, RunSnapshot)
        whole.add(folded([snapshot, *tail]).blocks)

    whole: set[object] = set()
    await asyncio.gather(
        written(store, claim, writer, chance),
        *(follower() if number % 4 else joiner() for number in range(1_000)),
    )
    assert whole == {folded(await store.read("run-1")).blocks}
    assert not watched(store)


@story
async def test_followers_in_other_threads_see_the_log_too(store: Store) -> None:
    chance = random.Random(8)
    writer, claim, _ = await begun(store)
    seen: list[list[Record]] = []

    def elsewhere() -> None:
        async def both() -> None:
            seen.extend(await asyncio.gather(all_of(store), all_of(store, after=1)))

        asyncio.run(both())

    threads = [threading.Thread(target=elsewhere) for _ in range(3)]
    for thread in threads:
        thread.start()
    await written(store, claim, writer, chance)
    for thread in threads:
        await asyncio.to_thread(thread.join)
    log = await store.read("run-1")
    assert sorted(map(len, seen)) == [len(log) - 1] * 3 + [len(log)] * 3
    assert all(records == log[-len(records) :] for records in seen)


@pytest.mark.parametrize(
    "place", ["memory", "sqlite"], indirect=True
)  # a connection to Redis belongs to a loop
@story
async def test_followers_whose_loop_was_closed_under_them_harm_nobody(store: Store) -> None:
    writer, claim, records = await begun(store)
    abandoned = store.follow("run-1")

    def crash() -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(anext(abandoned))
        loop.close()

    await asyncio.to_thread(crash)
    stays = asyncio.create_task(all_of(store))
    await asyncio.sleep(0.02)
    end = writer.completed()
    await store.append(claim, end)
    assert await stays == records + end
