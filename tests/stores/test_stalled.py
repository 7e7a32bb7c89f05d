"""Those who follow and do not fetch: what they cost, and what they keep from others."""

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from argstream.errors import StoreFailure
from argstream.events import TextDelta
from argstream.log import Record, to_json
from argstream.stores import MemoryStore
from argstream.stores._bounds import Budget
from argstream.stores._tails import Page, Tail, Tails
from tests.stores.records import begun
from tests.stores.stores import Place, all_of


def line(seq: int, size: int) -> bytes:
    return to_json(Record(seq, 1.0, "run-1", "s", "agent", TextDelta("x" * size, 0)))


async def unread(*_: object) -> Page:
    raise AssertionError("nobody reads")


def kept(tail: Tail) -> int:
    return len(tail._records)


def test_tails_together_keep_no_more_than_their_budget() -> None:
    budget = Budget(100_000)
    tails = [Tail("run-1", unread, budget) for _ in range(50)]
    for tail in tails:
        tail.begin(0)
        for seq in range(1, 11):
            tail.push(seq, [line(seq, 1_000)])
    assert 30 < sum(map(kept, tails)) < 100
    assert all(tail.last == 10 for tail in tails)
    for tail in tails:
        tail.let_go()
    tails[0].push(11, [line(11, 1_000)])
    assert kept(tails[0]) == 1


def test_who_waits_gets_what_comes_though_the_budget_is_spent() -> None:
    async def story() -> None:
        budget = Budget(1_000)
        budget.spend(5_000)
        tail = Tail("run-1", unread, budget)
        tail.begin(0)
        waiting = asyncio.create_task(tail.grown(0))
        await asyncio.sleep(0)
        tail.push(1, [line(1, 10)])
        await waiting
        assert [record.seq for record in tail.after(0) or []] == [1]

    asyncio.run(asyncio.wait_for(story(), 5))


def test_a_loop_that_does_not_run_has_one_note_waiting() -> None:
    store = MemoryStore()
    idle = asyncio.new_event_loop()
    writer, claim, records = asyncio.run(begun(store))
    following = store.follow("run-1")
    assert idle.run_until_complete(anext(following)) == records[0]

    async def written() -> None:
        for _ in range(100):
            records.extend(more := writer.texts("x" * 10_000))
            await store.append(claim, more)
        records.extend(end := writer.completed())
        await store.append(claim, end)

    asyncio.run(written())
    (tail,) = store._tails._tails["run-1"].values()
    assert tail.unheard is not None
    assert sum(len(one) for _, lines in tail.unheard.pushes for one in lines) < 100_000
    assert len(idle._ready) == 1  # type: ignore[attr-defined] # what it has to do

    async def rest() -> list[Record]:
        return [record async for record in following]

    assert idle.run_until_complete(asyncio.wait_for(rest(), 10)) == records[1:]
    idle.close()


# Failures that pass


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_after_a_failure_who_comes_anew_finds_that_it_works_again(
    kind: str, tmp_path: Path
) -> None:
    async def story(place: Place) -> None:
        writer, claim, records = await begun(place.store)
        stalled = place.store.follow("run-1")
        await anext(stalled)
        follower = asyncio.create_task(all_of(place.store))
        await asyncio.sleep(0.02)
        place.store._tails.fail(lambda: StoreFailure("out of order"))  # type: ignore[attr-defined] # as the store does
        with pytest.raises(StoreFailure, match="out of order"):
            await follower
        again = asyncio.create_task(all_of(place.store))
        async with aclosing(place.store.posts("run-1")) as listening:
            await anext(listening)
            heard = asyncio.create_task(anext(listening))
            await asyncio.sleep(0.02)
            await place.store.stop("run-1", "enough")
            assert (await heard).stop_reason == "enough"
        with pytest.raises(StoreFailure, match="out of order"):
            await anext(stalled)
        await place.store.append(claim, end := writer.completed())
        assert await again == records + end

    Place(kind, tmp_path).play(story)


def test_what_fails_in_one_event_loop_fails_there_only() -> None:
    async def story() -> None:
        store = MemoryStore()
        writer, claim, records = await begun(store)
        here = asyncio.create_task(all_of(store))
        await asyncio.sleep(0.01)

        async def elsewhere() -> None:
            there = asyncio.create_task(all_of(store))
            await asyncio.sleep(0.01)
            store._tails.fail_here(lambda: StoreFailure("out of order"))
            with pytest.raises(StoreFailure, match="out of order"):
                await there

        await asyncio.to_thread(asyncio.run, elsewhere())
        await store.append(claim, end := writer.completed())
        assert await here == records + end

    asyncio.run(asyncio.wait_for(story(), 10))


def test_who_leaves_after_a_failure_does_not_take_the_news_from_who_came_since() -> None:
    async def story() -> None:
        heard: list[str] = []
        tails = Tails(unread, lambda _: heard.append("watch"), lambda _: heard.append("leave"))
        with tails.watching("run-1"):
            with tails.watching("run-1"):
                tails.fail(lambda: StoreFailure("out of order"))
            new = tails.watching("run-1")
            new.__enter__()
        assert heard == ["watch", "watch"]
        new.__exit__(None, None, None)
        assert heard == ["watch", "watch", "leave"]
        assert tails.watched() == []

    asyncio.run(story())


def test_a_follower_that_is_forgotten_when_its_loop_is_gone_makes_no_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noise: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", noise.append)
    store = MemoryStore()
    left: list[str] = []

    def unwatch(run_id: str) -> None:
        asyncio.get_running_loop()
        left.append(run_id)

    store._tails._unwatch = unwatch
    asyncio.run(begun(store))
    loop = asyncio.new_event_loop()
    following: AsyncGenerator[Record, None] = store.follow("run-1")
    loop.run_until_complete(anext(following))
    loop.close()
    gone = weakref.ref(following)
    thread = threading.Thread(target=gc.collect)
    del following
    thread.start()
    thread.join()
    assert gone() is None
    assert noise == []
    assert store._tails.watched() == []
    assert left == []
