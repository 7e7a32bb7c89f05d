"""The newest records that followers share: each moment at which something can come in between."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from argstream.errors import StoreFailure
from argstream.events import TextDelta
from argstream.log import Record, to_json
from argstream.stores._tails import Page, Tail


class Log:
    """A log whose readers wait until they are let go."""

    def __init__(self, count: int, page: int = 100) -> None:
        self.lines = [
            to_json(Record(seq, 1.0, "run-1", "s", "agent", TextDelta("x", 0)))
            for seq in range(1, count + 1)
        ]
        self.page = page
        self.reads = 0
        self.is_broken = False
        self.gate = asyncio.Event()
        self.tail = Tail("run-1", self.read)

    async def read(self, _run_id: str, _created: float | None, after: int, _limit: int) -> Page:
        self.reads += 1
        lines = self.lines[after : after + self.page]
        await self.gate.wait()
        if self.is_broken:
            raise StoreFailure("broken")
        return lines, after + self.page < len(self.lines)

    def push(self, first: int, last: int) -> None:
        self.tail.push(first, self.lines[first - 1 : last])

    def follower(self, after: int) -> "asyncio.Task[list[int]]":
        async def seqs() -> list[int]:
            await self.tail.grown(after)
            return [record.seq for record in self.tail.after(after) or []]

        return asyncio.create_task(seqs())


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def story(tell: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def test() -> None:
        asyncio.run(asyncio.wait_for(tell(), 5))

    test.__name__ = tell.__name__
    return test


@story
async def test_what_is_pushed_needs_no_reading() -> None:
    log = Log(3)
    log.tail.begin(1)
    waiting = log.follower(1)
    await settled()
    log.push(2, 3)
    assert await waiting == [2, 3]
    assert log.reads == 0


@story
async def test_what_is_pushed_while_it_is_read_comes_once() -> None:
    log = Log(4)
    log.tail.begin(1)
    waiting = log.follower(1)
    log.tail.stale()
    await settled()
    assert log.reads == 1
    log.push(2, 3)
    log.gate.set()
    await waiting
    await settled()
    assert [record.seq for record in log.tail.after(1) or []] == [2, 3, 4]


@story
async def test_of_a_batch_that_is_known_in_part_the_rest_is_taken() -> None:
    log = Log(5)
    log.tail.begin(1)
    log.push(2, 3)
    log.push(2, 5)
    assert [record.seq for record in log.tail.after(1) or []] == [2, 3, 4, 5]


@story
async def test_what_a_push_skips_is_read() -> None:
    log = Log(5)
    log.gate.set()
    log.tail.begin(1)
    waiting = log.follower(1)
    await settled()
    log.push(4, 5)
    assert await waiting == [2, 3, 4, 5]


@story
async def test_what_is_pushed_before_anything_is_known_is_read() -> None:
    log = Log(2)
    log.gate.set()
    log.push(1, 2)
    assert await log.follower(0) == [1, 2]


@story
async def test_who_knows_of_more_has_it_read() -> None:
    log = Log(3)
    log.gate.set()
    log.tail.begin(1)
    log.tail.begin(3)
    assert await log.follower(1) == [2, 3]


@story
async def test_one_reads_for_all() -> None:
    log = Log(3)
    log.tail.begin(1)
    waiting = [log.follower(1) for _ in range(10)]
    await settled()
    log.tail.stale()
    log.tail.stale()
    await settled()
    log.gate.set()
    assert await asyncio.gather(*waiting) == [[2, 3]] * 10
    assert log.reads == 1


@story
async def test_when_who_reads_for_all_is_cancelled_another_reads() -> None:
    log = Log(3)
    log.tail.begin(1)
    waiting = [log.follower(1) for _ in range(3)]
    await settled()
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


@story
async def test_who_is_cancelled_when_it_was_for_him_to_read_leaves_it_to_another() -> None:
    log = Log(3)
    log.gate.set()
    log.tail.begin(1)
    waiting = [log.follower(1) for _ in range(3)]
    await settled()
    log.tail.stale()
    chosen, *others = sorted(waiting, key=lambda task: not _is_woken(task))
    assert [_is_woken(task) for task in (chosen, *others)] == [True, False, False]
    chosen.cancel()
    assert await asyncio.gather(*others) == [[2, 3]] * 2


def _is_woken(task: Any) -> bool:
    """Whether what a task waits for is there, and it has not heard of it yet."""
    return bool(task._fut_waiter.done())


@story
async def test_who_gets_what_he_waits_for_while_he_reads_leaves_the_rest_to_another() -> None:
    """Somebody waits for a record that came while the first one read, too late for that."""
    log = Log(3)
    log.tail.begin(1)
    near = log.follower(1)
    log.tail.stale()
    await settled()
    far = log.follower(3)
    await settled()
    log.push(2, 3)
    log.lines.append(to_json(Record(4, 1.0, "run-1", "s", "agent", TextDelta("y", 0))))
    log.tail.stale()
    await settled()
    log.gate.set()
    assert await near == [2, 3]
    assert await far == [4]


@story
async def test_a_log_of_many_pages_is_read_to_its_end() -> None:
    log = Log(50, page=7)
    log.gate.set()
    log.tail.begin(1)
    log.tail.stale()
    assert await log.follower(49) == [50]
    assert log.reads == 7


@story
async def test_each_hears_what_is_wrong_with_the_store() -> None:
    log = Log(3)
    log.is_broken = True
    log.gate.set()
    log.tail.begin(1)
    waiting = [log.follower(1) for _ in range(5)]
    await settled()
    log.tail.stale()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["broken"] * 5
    log.is_broken = False
    assert await log.follower(1) == [2, 3]


@story
async def test_what_is_kept_is_bounded_by_its_number_and_its_size() -> None:
    log = Log(5_000)
    log.tail.begin(0)
    for first in range(1, 5_000, 10):
        log.push(first, first + 9)
    assert log.tail.last == 5_000
    assert log.tail.after(2_900) is None
    assert [record.seq for record in log.tail.after(4_200) or []] == list(range(4_201, 4_701))
    large = to_json(Record(5_001, 1.0, "run-1", "s", "agent", TextDelta("x" * 9_000_000, 0)))
    log.tail.push(5_001, [large])
    assert log.tail.after(4_999) is None
    assert len(log.tail.after(5_000) or []) == 1


@story
async def test_a_record_that_cannot_be_read_is_told_to_who_waits() -> None:
    log = Log(3)
    log.lines[2] = b"{"
    log.gate.set()
    log.tail.begin(1)
    waiting = log.follower(1)
    await settled()
    log.push(2, 3)
    with pytest.raises(StoreFailure, match="cannot be read"):
        await waiting
