"""From bytes to events and to readers in linear time and little memory, whatever the chunks."""

import asyncio
import collections
import json
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import pytest

from argstream import stream
from argstream.testing import cut
from tests.growth import BOUND, cost_ratio, growth
from tests.provider_streams import (
    anthropic_call,
    block_delta,
    block_start,
    block_stop,
    chat_call,
    chunk,
    entry,
    input_json,
    message_end,
    message_start,
    responses_call,
    sse,
    tool_calls,
    tool_use,
)
from tests.streaming.faces import each
from tests.turns import STREAMED, Streamed

pytestmark = pytest.mark.timing


def pieces(characters: int) -> Sequence[str]:
    text = json.dumps({"path": "a.py", "content": "def f(x):\n    return x\n" * (characters // 24)})
    return cut(text, [4])


@pytest.mark.parametrize("turn", STREAMED, ids=attrgetter("protocol"))
@pytest.mark.parametrize("size", [7, 300, 65536])
def test_the_cost_is_linear_in_the_length_of_the_arguments(turn: Streamed, size: int) -> None:
    def job(characters: int) -> Callable[[], object]:
        chunks = cut(turn.body(*pieces(characters)), [size])

        def read() -> None:
            for _ in stream(chunks):
                pass

        return read

    assert growth(job, 50_000 if size > 100 else 12_000) <= BOUND


@pytest.mark.parametrize("turn", STREAMED[1:], ids=attrgetter("protocol"))
def test_a_delta_costs_at_most_twice_what_one_of_anthropic_does(turn: Streamed) -> None:
    deltas = pieces(40_000)

    def job(streamed: Streamed) -> Callable[[], object]:
        body = streamed.body(*deltas)
        return lambda: collections.deque(stream([body]), maxlen=0)

    assert cost_ratio(job(turn), job(STREAMED[0]), bound=2) <= 2


def test_a_resend_that_is_never_closed_is_linear_in_what_was_sent() -> None:
    """Deep in the second reading, too."""

    def job(characters: int) -> Callable[[], object]:
        text = json.dumps({"a": "x" * characters})
        payloads = chat_call(text, *cut(text, [4]))

        def read() -> None:
            for _ in stream(payloads):
                pass

        return read

    assert growth(job, 20_000) <= BOUND


def test_pieces_before_their_item_are_linear() -> None:
    """Of a server that says what they are of only at the end."""

    def job(characters: int) -> Callable[[], object]:
        payloads = responses_call(*pieces(characters))
        payloads.pop(1)
        return lambda: collections.deque(stream(payloads), maxlen=0)

    assert growth(job, 40_000) <= BOUND


def many(kind: str, count: int) -> Sequence[object]:
    """A lot of something that is usually rare."""
    match kind:
        case "calls, then payloads that cannot be read":
            opened = [tool_use(n, id_=f"c{n}") for n in range(count)]
            return [message_start(), *opened, *[{**input_json(0, ""), "delta": 3}] * count]
        case "calls of chat":
            entries = [tool_calls(entry("{}", index=n, id=f"c{n}", name="f")) for n in range(count)]
            return [*entries, chunk(finish="length")]
        case "blocks":
            texts = [block_start(n, "text", text="x") for n in range(count)]
            return [message_start(), *texts, *message_end()]
        case "citations":
            cited = [block_delta(0, "citations_delta", citation={"a": 1})] * count
            return [message_start(), block_start(0, "text"), *cited, block_stop(0), *message_end()]
        case "reasoning details":
            details = [{"type": "text", "index": 0, "text": "x" * 50}]
            return [chunk(reasoning_details=details)] * count + [chunk(finish="stop")]
        case "chunks of nothing before the first":
            return [b""] * count + [b"\n"] * count + [b"data: [DONE]\n\n"]
        case _:
            raise AssertionError(kind)


@pytest.mark.parametrize(
    "kind",
    [
        *("calls, then payloads that cannot be read", "calls of chat", "blocks", "citations"),
        *("reasoning details", "chunks of nothing before the first"),
    ],
)
def test_the_cost_is_linear_in_how_many_there_are(kind: str) -> None:
    def job(count: int) -> Callable[[], object]:
        items = many(kind, count)

        def read() -> None:
            for _ in stream(items):
                pass

        return read

    assert growth(job, 20_000 if kind in ("reasoning details", "citations") else 4_000) <= BOUND


def test_an_open_call_takes_at_most_four_bytes_a_character() -> None:
    characters = 1_000_000
    piece = "x" * 50

    def chunks() -> Iterator[bytes]:
        start, text, *_ = [sse([payload]) for payload in anthropic_call('{"content": "')[1:]]
        yield start
        yield text
        yield from [sse(anthropic_call(piece)[2:3])] * (characters // len(piece))

    tracemalloc.start()
    try:
        events = stream(chunks())
        highest = 0
        for _ in events:
            pass
        highest = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(events.calls[0].raw) > characters
    assert highest <= 4 * characters + 500_000


def test_events_that_nobody_keeps_are_not_kept() -> None:
    """A stream of text for hours, without a call."""
    piece = sse([{"type": "content_block_delta", "index": 0, "delta": {"type": "ping"}}])
    tracemalloc.start()
    try:
        for _ in stream([piece] * 100_000, "anthropic"):
            pass
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()


def chunks_of(characters: int) -> list[bytes]:
    return [sse([payload]) for payload in anthropic_call(*pieces(characters))]


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
def test_the_cost_of_readers_is_linear(read: Callable[[list[bytes]], None]) -> None:
    """A string that a reader holds on to would be copied at every piece."""

    def job(characters: int) -> Callable[[], object]:
        items = chunks_of(characters)
        return lambda: read(items)

    assert growth(job, 40_000) <= BOUND


@pytest.mark.parametrize(("read", "bound"), [(read_argument, 1.3), (read_text, 1.6)])
def test_a_reader_costs_little_more_than_a_loop(
    read: Callable[[list[bytes]], None], bound: float
) -> None:
    items = chunks_of(50_000)
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
