"""From bytes to events and to readers in linear time and little memory, in any chunking."""

import asyncio
import json
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import pytest

from argstream import stream
from argstream.testing import cut
from tests import provider_streams as api
from tests.growth import BOUND, cost_ratio, growth
from tests.provider_streams import anthropic_call, block_start, chat_call, chunk, message_start, sse
from tests.streaming.faces import each
from tests.turns import STREAMED, Streamed

pytestmark = pytest.mark.timing


def pieces(characters: int, size: int = 4) -> Sequence[str]:
    text = json.dumps({"path": "a.py", "content": "def f(x):\n    return x\n" * (characters // 24)})
    return cut(text, [size])


def loop(items: Any) -> None:
    deque(stream(items), maxlen=0)


def read_text(items: Any) -> None:
    for call in stream(items).live_calls():
        deque(call.text("content"), maxlen=0)


def read_argument(items: Any) -> None:
    for call in stream(items).live_calls():
        call.argument("content")


def read_async(items: Any) -> None:
    async def text(call: Any) -> None:
        async for _ in call.text("content"):
            pass

    async def run() -> None:
        async with stream(each(items)) as events, asyncio.TaskGroup() as tasks:
            async for call in events.live_calls():
                tasks.create_task(text(call))
                tasks.create_task(call.argument("content"))

    asyncio.run(run())


def is_linear(make: Callable[[int], Any], size: int, read: Callable[[Any], None] = loop) -> bool:
    def job(size: int) -> Callable[[], object]:
        items = make(size)
        return lambda: read(items)

    return growth(job, size) <= BOUND


@pytest.mark.parametrize("turn", STREAMED, ids=attrgetter("protocol"))
@pytest.mark.parametrize(("chunk_size", "characters"), [(7, 12_000), (65536, 32_000)])
def test_cost_is_linear_in_the_length_of_the_arguments(
    turn: Streamed, chunk_size: int, characters: int
) -> None:
    # Longer pieces cost less, and show as well whether the text before them is copied.
    assert is_linear(lambda size: cut(turn.body(*pieces(size, 16)), [chunk_size]), characters)


@pytest.mark.parametrize("turn", STREAMED[1:], ids=attrgetter("protocol"))
def test_delta_costs_at_most_twice_that_of_anthropic(turn: Streamed) -> None:
    bodies = [[streamed.body(*pieces(10_000))] for streamed in (turn, STREAMED[0])]
    assert cost_ratio(lambda: loop(bodies[0]), lambda: loop(bodies[1]), bound=2) <= 2


def unreadable_payloads_after_calls(count: int) -> Sequence[object]:
    opened = [api.tool_use(n, id_=f"c{n}") for n in range(count)]
    return [message_start(), *opened, *[{**api.input_json(0, ""), "delta": 3}] * count]


def calls_of_chat(count: int) -> Sequence[object]:
    entries = [api.tool_calls(api.entry("{}", index=n, id=f"c{n}", name="f")) for n in range(count)]
    return [*entries, chunk(finish="length")]


def blocks(count: int) -> Sequence[object]:
    texts = [block_start(n, "text", text="x") for n in range(count)]
    return [message_start(), *texts, *api.message_end()]


def citations(count: int) -> Sequence[object]:
    cited = [api.block_delta(0, "citations_delta", citation={"a": 1})] * count
    return [message_start(), block_start(0, "text"), *cited, api.block_stop(0), *api.message_end()]


def reasoning_details(count: int) -> Sequence[object]:
    details = [{"type": "text", "index": 0, "text": "x" * 50}]
    return [chunk(reasoning_details=details)] * count + [chunk(finish="stop")]


def empty_chunks_before_the_first(count: int) -> Sequence[object]:
    return [b""] * count + [b"\n"] * count + [b"data: [DONE]\n\n"]


def resend_that_is_never_closed(characters: int) -> Sequence[object]:
    text = json.dumps({"a": "x" * characters})
    return chat_call(text, *cut(text, [4]))


def pieces_before_their_item(characters: int) -> Sequence[object]:
    first, _, *rest = api.responses_call(*pieces(characters))
    return [first, *rest]


@pytest.mark.parametrize(
    ("make_items", "size"),
    [
        (unreadable_payloads_after_calls, 2_000),
        (calls_of_chat, 1_500),
        (blocks, 2_000),
        (citations, 10_000),
        (reasoning_details, 5_000),
        (empty_chunks_before_the_first, 4_000),
        (resend_that_is_never_closed, 10_000),
        (pieces_before_their_item, 20_000),
    ],
)
def test_cost_is_linear_in_what_is_usually_rare(
    make_items: Callable[[int], Sequence[object]], size: int
) -> None:
    assert is_linear(make_items, size)


def chunks_of(characters: int, size: int = 32) -> list[bytes]:
    return [sse([payload]) for payload in anthropic_call(*pieces(characters, size))]


@pytest.mark.parametrize("read", [read_text, read_argument, read_async])
def test_cost_of_readers_is_linear(read: Callable[[Any], None]) -> None:
    """A string to which a reader keeps a reference would be copied at every piece."""
    assert is_linear(chunks_of, 50_000, read)


@pytest.mark.parametrize(("read", "bound"), [(read_argument, 1.3), (read_text, 1.6)])
def test_reader_costs_little_more_than_a_loop(read: Callable[[Any], None], bound: float) -> None:
    items = chunks_of(20_000, size=4)
    assert cost_ratio(lambda: read(items), lambda: loop(items), bound) <= bound


@pytest.mark.parametrize("with_readers", [False, True])
def test_open_call_takes_at_most_four_bytes_per_character(with_readers: bool) -> None:
    """Also with readers, used or not: nothing is queued, and no string is copied."""
    characters, piece = 200_000, "x" * 50

    def source() -> Iterator[bytes]:
        yield from [sse([payload]) for payload in anthropic_call('{"content": "')[:3]]
        yield from [sse(anthropic_call(piece)[2:3])] * (characters // len(piece))
        yield sse(anthropic_call('"}')[2:3])

    readers: list[Iterator[str]] = []
    tracemalloc.start()
    try:
        events = stream(source())
        if with_readers:
            call = next(events.live_calls())
            readers = [call.text("content") for _ in range(100)]
            next(readers[0])
            deque(call.text("content"), maxlen=0)
        else:
            deque(events, maxlen=0)
        highest = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(events.calls[0].raw) > characters
    assert highest <= 4 * characters + 100_000
    lengths = [len(next(text)) for text in readers]
    assert lengths[:1] == [characters - 50] * with_readers
    assert lengths[1:] == [characters] * 99 * with_readers


def test_yielded_events_are_not_kept() -> None:
    """A stream of text for hours, without a call."""
    piece = sse([{"type": "content_block_delta", "index": 0, "delta": {"type": "ping"}}])
    tracemalloc.start()
    try:
        for _ in stream([piece] * 5_000, "anthropic"):
            pass
        assert tracemalloc.get_traced_memory()[0] < 250_000
    finally:
        tracemalloc.stop()
