"""The newest records that followers share, at moments that no store lets a test choose."""

import asyncio
from typing import Any

import pytest

from argstream.errors import StoreError
from argstream.events import TextDelta
from argstream.runs import MemoryStore, Record, from_json, to_json
from argstream.runs._hub import Budget, Page, Tail, Tails
from tests.runs.records import begin_run

pytestmark = pytest.mark.anyio


def line(seq: int, size: int = 1) -> bytes:
    return to_json(Record(seq, 1.0, "run-1", "s", "agent", TextDelta("x" * size, 0)))


def seqs(tail: Tail, after: int) -> list[int]:
    return [record.seq for record in tail.after(after) or []]


class Log:
    """A log whose readers wait at a gate. Its first record is known."""

    def __init__(self, count: int, *, is_open: bool = False) -> None:
        self.lines = [line(seq) for seq in range(1, count + 1)]
        self.reads = 0
        self.gate = asyncio.Event()
        if is_open:
            self.gate.set()
        self.tail = Tail("run-1", self.read)
        self.tail.followers = 1
        self.tail.begin(1)

    async def read(self, _run_id: str, after: int, _limit: int) -> Page:
        self.reads += 1
        records = [from_json(line) for line in self.lines[after:]]
        await self.gate.wait()
        return records, False

    def push(self, first: int, last: int) -> None:
        self.tail.push(first, self.lines[first - 1 : last])

    async def followed(self, after: int = 1) -> list[int]:
        await self.tail.wait_for_records(after)
        return seqs(self.tail, after)

    async def followers(self, count: int, after: int = 1) -> "list[asyncio.Task[list[int]]]":
        tasks = [asyncio.create_task(self.followed(after)) for _ in range(count)]
        await settled()
        return tasks


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_pushed_records_need_no_reading() -> None:
    log = Log(5)
    (waiting,) = await log.followers(1)
    log.push(2, 3)
    assert await waiting == [2, 3]
    log.push(2, 4)  # a batch that is known in part
    assert seqs(log.tail, 1) == [2, 3, 4]
    assert log.reads == 0


async def test_one_follower_reads_for_all() -> None:
    log = Log(3)
    waiting = await log.followers(10)
    log.tail.mark_stale()
    log.tail.mark_stale()
    await settled()
    log.gate.set()
    assert await asyncio.gather(*waiting) == [[2, 3]] * 10
    assert log.reads == 1


async def test_another_follower_reads_if_the_reader_is_cancelled() -> None:
    log = Log(3)
    waiting = await log.followers(3)
    log.tail.mark_stale()
    for count in (1, 2):
        await settled()
        assert log.reads == count
        next(task for task in waiting if not task.cancelled() and is_reading(task)).cancel()
    await settled()
    log.gate.set()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert [outcome for outcome in done if isinstance(outcome, list)] == [[2, 3]]


def is_reading(task: "asyncio.Task[list[int]]") -> bool:
    awaited: Any = task.get_coro()
    while awaited is not None and getattr(awaited, "__name__", "") != "read":
        awaited = getattr(awaited, "cr_await", None)
    return awaited is not None


async def test_another_follower_reads_if_the_chosen_one_is_cancelled_first() -> None:
    log = Log(3, is_open=True)
    waiting: list[Any] = [*await log.followers(3)]
    log.tail.mark_stale()
    assert waiting[-1]._fut_waiter.done()  # woken, and has not run yet
    waiting.pop().cancel()
    assert await asyncio.gather(*waiting) == [[2, 3]] * 2


async def test_reader_that_was_served_meanwhile_leaves_the_rest_to_another() -> None:
    """A record comes while the first follower reads, too late for that read."""
    log = Log(3)
    log.tail.mark_stale()
    (near,) = await log.followers(1)
    (far,) = await log.followers(1, after=3)
    log.push(2, 3)
    log.lines.append(line(4))
    log.tail.mark_stale()
    await settled()
    log.gate.set()
    assert await near == [2, 3]
    assert await far == [4]


async def unread(*_: object) -> Page:
    raise AssertionError("nothing is to be read")


def test_tail_is_bounded_by_number_and_size() -> None:
    tail = Tail("run-1", unread)
    tail.followers = 1
    tail.begin(0)
    for first in range(1, 5_000, 10):
        tail.push(first, [line(seq) for seq in range(first, first + 10)])
    assert tail.last == 5_000
    assert tail.after(2_900) is None
    assert seqs(tail, 4_200) == list(range(4_201, 4_701))
    tail.push(5_001, [line(5_001, 9_000_000)])
    assert tail.after(4_999) is None
    assert seqs(tail, 5_000) == [5_001]


def test_tails_together_stay_within_their_budget() -> None:
    budget = Budget(100_000)
    tails = [Tail("run-1", unread, budget) for _ in range(50)]
    for tail in tails:
        tail.followers = 1
        tail.begin(0)
        for seq in range(1, 11):
            tail.push(seq, [line(seq, 1_000)])
    assert 30 < sum(len(tail._records) for tail in tails) < 100
    assert all(tail.last == 10 for tail in tails)
    for tail in tails:
        tail.drop_records()
    tails[0].push(11, [line(11, 1_000)])
    assert seqs(tails[0], 10) == [11]


async def test_waiting_follower_is_served_though_the_budget_is_spent() -> None:
    budget = Budget(1_000)
    budget.spend(5_000)
    tail = Tail("run-1", unread, budget)
    tail.followers = 1
    tail.begin(0)
    waiting = asyncio.create_task(tail.wait_for_records(0))
    await asyncio.sleep(0)
    tail.push(1, [line(1, 10)])
    await waiting
    assert seqs(tail, 0) == [1]


def test_idle_event_loop_has_one_wakeup_pending() -> None:
    store = MemoryStore()
    idle = asyncio.new_event_loop()
    writer, lease, records = asyncio.run(begin_run(store))
    following = store.follow("run-1")
    assert idle.run_until_complete(anext(following)) == records[0]

    async def write() -> None:
        batches = [*(writer.texts("x" * 10_000) for _ in range(100)), writer.completed()]
        for batch in batches:
            records.extend(batch)
            await store.append(lease, batch)

    asyncio.run(write())
    (tail,) = store._tails._tails["run-1"].values()
    assert tail.undelivered is not None
    assert sum(len(stored) for _, stored in tail.undelivered.pushes) < 10
    assert len(idle._ready) == 1  # type: ignore[attr-defined] # its scheduled callbacks

    async def rest() -> list[Record]:
        return [record async for record in following]

    assert idle.run_until_complete(asyncio.wait_for(rest(), 10)) == records[1:]
    idle.close()


def test_leaving_after_a_failure_does_not_unsubscribe_newer_followers() -> None:
    heard: list[str] = []
    tails = Tails(unread, lambda _: heard.append("watch"), lambda _: heard.append("leave"))

    async def follow() -> None:
        with tails.watch("run-1"):
            with tails.watch("run-1"):
                tails.fail(lambda: StoreError("out of order"))
            new = tails.watch("run-1")
        assert heard == ["watch", "watch"]
        new.close()

    asyncio.run(follow())
    assert heard == ["watch", "watch", "leave"]
    assert tails.watched() == []
