"""Readers cost little time beside the events, and no memory beside the value."""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from argstream import stream
from argstream.testing import cut
from tests.growth import BOUND, cost_ratio, growth
from tests.providers import anthropic_call, sse

pytestmark = pytest.mark.timing


def chunks(characters: int) -> list[bytes]:
    text = json.dumps({"path": "a.py", "content": "def f(x):\n    return x\n" * (characters // 24)})
    return [sse([payload]) for payload in anthropic_call(*cut(text, [4]))]


async def each(items: list[Any]) -> AsyncIterator[Any]:
    for item in items:
        await asyncio.sleep(0)
        yield item


def read_text(items: list[bytes]) -> None:
    for call in stream(items).live_calls():
        for _ in call.text("content"):
            pass


def read_argument(items: list[bytes]) -> None:
    for call in stream(items).live_calls():
        call.argument("content")


def read_async(items: list[bytes]) -> None:
    async def text(call: Any) -> None:
        async for _ in call.text("content"):
            pass

    async def run() -> None:
        async with stream(each(items)) as events, asyncio.TaskGroup() as tasks:
            async for call in events.live_calls():
                tasks.create_task(text(call))
                tasks.create_task(call.argument("content"))

    asyncio.run(run())


def loop(items: list[bytes]) -> None:
    for _ in stream(items):
        pass


@pytest.mark.parametrize("read", [read_text, read_argument, read_async])
def test_the_cost_is_linear(read: Callable[[list[bytes]], None]) -> None:
    """A string that a reader holds on to would be copied at every piece."""

    def job(characters: int) -> Callable[[], object]:
        items = chunks(characters)
        return lambda: read(items)

    assert growth(job, 40_000) <= BOUND


@pytest.mark.parametrize(("read", "bound"), [(read_argument, 1.3), (read_text, 1.6)])
def test_a_reader_costs_little_more_than_a_loop(
    read: Callable[[list[bytes]], None], bound: float
) -> None:
    items = chunks(50_000)
    assert cost_ratio(lambda: read(items), lambda: loop(items), bound) <= bound


def test_readers_take_no_memory_beside_the_value() -> None:
    """Be they asked or not: nothing is queued, and no string is copied."""
    characters = 1_000_000
    piece = "x" * 50

    def source() -> Iterator[bytes]:
        yield from [sse([payload]) for payload in anthropic_call('{"content": "')[:3]]
        yield from [sse(anthropic_call(piece)[2:3])] * (characters // len(piece))
        yield sse(anthropic_call('"}')[2:3])

    tracemalloc.start()
    try:
        events = stream(source())
        call = next(events.live_calls())
        unread = [call.text("content") for _ in range(100)]
        slow = call.text("content")
        next(slow)
        for _ in call.text("content"):
            pass
        highest = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert highest <= 4 * characters + 500_000
    assert len(next(slow)) == characters - 50
    assert {len(next(text)) for text in unread} == {characters}
