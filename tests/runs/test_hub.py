"""The newest records that followers share: what comes in between, and followers that do not fetch.

Each test chooses the moment at which something happens, which no store lets one choose.
"""

import asyncio
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import wraps
from typing import Any, cast

import pytest

from argstream.errors import StoreFailure
from argstream.events import TextDelta
from argstream.runs import MemoryStore, Record, Store, to_json
from argstream.runs._hub import Budget, Page, Tail, Tails
from tests.runs.records import begun
from tests.runs.stores import all_of, story


def moment(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 5))

    return run


def line(seq: int, size: int = 1) -> bytes:
    return to_json(Record(seq, 1.0, "run-1", "s", "agent", TextDelta("x" * size, 0)))


def seqs(tail: Tail, after: int) -> list[int]:
    return [record.seq for record in tail.after(after) or []]


class Log:
    """A log whose readers wait until they are let go. Its first record is known."""

    def __init__(self, count: int, *, is_open: bool = False) -> None:
        self.lines = [line(seq) for seq in range(1, count + 1)]
        self.reads = 0
        self.is_broken = False
        self.gate = asyncio.Event()
        if is_open:
            self.gate.set()
        self.tail = Tail("run-1", self.read)
        self.tail.begin(1)

    async def read(self, _run_id: str, _created: float | None, after: int, _limit: int) -> Page:
        self.reads += 1
        lines = self.lines[after:]
        await self.gate.wait()
        if self.is_broken:
            raise StoreFailure("broken")
        return lines, False

    def push(self, first: int, last: int) -> None:
        self.tail.push(first, self.lines[first - 1 : last])

    async def followed(self, after: int = 1) -> list[int]:
        await self.tail.grown(after)
        return seqs(self.tail, after)

    async def followers(self, count: int, after: int = 1) -> "list[asyncio.Task[list[int]]]":
        tasks = [asyncio.create_task(self.followed(after)) for _ in range(count)]
        await settled()
        return tasks


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


# Reading and being told at once


@moment
async def test_pushed_records_need_no_reading() -> None:
    log = Log(5)
    (waiting,) = await log.followers(1)
    log.push(2, 3)
    assert await waiting == [2, 3]
    log.push(2, 5)  # of a batch that is known in part, the rest is taken
    assert seqs(log.tail, 1) == [2, 3, 4, 5]
    assert log.reads == 0


@moment
async def test_records_that_are_pushed_while_they_are_read_come_once() -> None:
    log = Log(4)
    log.tail.stale()
    (waiting,) = await log.followers(1)
    assert log.reads == 1
    log.push(2, 3)
    log.gate.set()
    await waiting
    await settled()
    assert seqs(log.tail, 1) == [2, 3, 4]


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("first", [4, 5])
def test_what_a_push_skips_is_read(first: int, is_known: bool) -> None:
    @moment
    async def run() -> None:
        log = Log(5, is_open=True)
        if not is_known:
            log.tail.last = None
        (waiting,) = await log.followers(1)
        log.push(first, 5)
        assert (await waiting)[-4:] == [2, 3, 4, 5]

    run()


@moment
async def test_a_push_that_cannot_be_decoded_is_reported_to_the_follower() -> None:
    log = Log(3, is_open=True)
    log.lines[2] = b"{"
    (waiting,) = await log.followers(1)
    log.push(2, 3)
    with pytest.raises(StoreFailure, match="cannot be read"):
        await waiting


@moment
async def test_one_reads_for_all() -> None:
    log = Log(3)
    waiting = await log.followers(10)
    log.tail.stale()
    log.tail.stale()
    await settled()
    log.gate.set()
    assert await asyncio.gather(*waiting) == [[2, 3]] * 10
    assert log.reads == 1


@moment
async def test_when_the_reader_is_cancelled_another_follower_reads() -> None:
    log = Log(3)
    waiting = await log.followers(3)
    log.tail.stale()
    for count in (1, 2):
        await settled()
        assert log.reads == count
        reading = next(task for task in waiting if not task.cancelled() and _is_in(task, "read"))
        reading.cancel()
    await settled()
    log.gate.set()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert [outcome for outcome in done if isinstance(outcome, list)] == [[2, 3]]


def _is_in(task: "asyncio.Task[list[int]]", name: str) -> bool:
    """Whether a task is in a function of this name now."""
    awaited: Any = task.get_coro()
    while awaited is not None:
        if getattr(awaited, "__name__", "") == name:
            return True
        awaited = getattr(awaited, "cr_await", None)
    return False


@moment
async def test_when_the_chosen_reader_is_cancelled_before_it_reads_another_reads() -> None:
    log = Log(3, is_open=True)
    waiting = await log.followers(3)
    log.tail.stale()
    chosen, *others = sorted(waiting, key=lambda task: not _is_woken(task))
    assert [_is_woken(task) for task in (chosen, *others)] == [True, False, False]
    chosen.cancel()
    assert await asyncio.gather(*others) == [[2, 3]] * 2


def _is_woken(task: Any) -> bool:
    """Whether what a task waits for is there, and it has not run since."""
    return bool(task._fut_waiter.done())


@moment
async def test_a_reader_that_is_served_meanwhile_leaves_the_rest_to_another() -> None:
    """A record comes while the first one reads, too late for that."""
    log = Log(3)
    log.tail.stale()
    (near,) = await log.followers(1)
    (far,) = await log.followers(1, after=3)
    log.push(2, 3)
    log.lines.append(line(4))
    log.tail.stale()
    await settled()
    log.gate.set()
    assert await near == [2, 3]
    assert await far == [4]


@moment
async def test_each_follower_hears_what_is_wrong_with_the_store() -> None:
    log = Log(3, is_open=True)
    log.is_broken = True
    waiting = await log.followers(5)
    log.tail.stale()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["broken"] * 5
    log.is_broken = False
    assert await log.followed() == [2, 3]


# What is kept


async def unread(*_: object) -> Page:
    raise AssertionError("nothing is to be read")


def test_a_tail_is_bounded_by_number_and_size() -> None:
    tail = Tail("run-1", unread)
    tail.begin(0)
    for first in range(1, 5_000, 10):
        tail.push(first, [line(seq) for seq in range(first, first + 10)])
    assert tail.last == 5_000
    assert tail.after(2_900) is None
    assert seqs(tail, 4_200) == list(range(4_201, 4_701))
    tail.push(5_001, [line(5_001, 9_000_000)])
    assert tail.after(4_999) is None
    assert seqs(tail, 5_000) == [5_001]


def test_tails_together_keep_no_more_than_their_budget() -> None:
    budget = Budget(100_000)
    tails = [Tail("run-1", unread, budget) for _ in range(50)]
    for tail in tails:
        tail.begin(0)
        for seq in range(1, 11):
            tail.push(seq, [line(seq, 1_000)])
    assert 30 < sum(len(tail._records) for tail in tails) < 100
    assert all(tail.last == 10 for tail in tails)
    for tail in tails:
        tail.let_go()
    tails[0].push(11, [line(11, 1_000)])
    assert seqs(tails[0], 10) == [11]


@moment
async def test_a_waiting_follower_is_served_though_the_budget_is_spent() -> None:
    budget = Budget(1_000)
    budget.spend(5_000)
    tail = Tail("run-1", unread, budget)
    tail.begin(0)
    waiting = asyncio.create_task(tail.grown(0))
    await asyncio.sleep(0)
    tail.push(1, [line(1, 10)])
    await waiting
    assert seqs(tail, 0) == [1]


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


def out_of_order() -> StoreFailure:
    return StoreFailure("out of order")


@pytest.mark.parametrize("place", ["memory", "sqlite"], indirect=True)
@story
async def test_after_a_failure_new_followers_find_that_it_works_again(store: Store) -> None:
    writer, claim, records = await begun(store)
    stalled = store.follow("run-1")
    await anext(stalled)
    follower = asyncio.create_task(all_of(store))
    await asyncio.sleep(0.02)
    cast("Any", store)._tails.fail(out_of_order)
    with pytest.raises(StoreFailure, match="out of order"):
        await follower
    again = asyncio.create_task(all_of(store))
    async with aclosing(store.posts("run-1")) as listening:
        await anext(listening)
        heard = asyncio.create_task(anext(listening))
        await asyncio.sleep(0.02)
        await store.stop("run-1", "enough")
        assert (await heard).stop_reason == "enough"
    with pytest.raises(StoreFailure, match="out of order"):
        await anext(stalled)
    await store.append(claim, end := writer.completed())
    assert await again == records + end


@moment
async def test_a_failure_in_one_event_loop_stays_there() -> None:
    store = MemoryStore()
    writer, claim, records = await begun(store)
    here = asyncio.create_task(all_of(store))
    await asyncio.sleep(0.01)

    async def elsewhere() -> None:
        there = asyncio.create_task(all_of(store))
        await asyncio.sleep(0.01)
        store._tails.fail_here(out_of_order)
        with pytest.raises(StoreFailure, match="out of order"):
            await there

    await asyncio.to_thread(asyncio.run, elsewhere())
    await store.append(claim, end := writer.completed())
    assert await here == records + end


@moment
async def test_a_follower_that_leaves_after_a_failure_does_not_unsubscribe_newer_ones() -> None:
    heard: list[str] = []
    tails = Tails(unread, lambda _: heard.append("watch"), lambda _: heard.append("leave"))
    with tails.watching("run-1"):
        with tails.watching("run-1"):
            tails.fail(out_of_order)
        new = tails.watching("run-1")
        new.__enter__()
    assert heard == ["watch", "watch"]
    new.__exit__(None, None, None)
    assert heard == ["watch", "watch", "leave"]
    assert tails.watched() == []


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
    following = store.follow("run-1")
    loop.run_until_complete(anext(following))
    loop.close()
    gone = weakref.ref(following)
    thread = threading.Thread(target=gc.collect)
    del following
    thread.start()
    thread.join()
    assert gone() is None
    assert noise == left == store._tails.watched() == []
