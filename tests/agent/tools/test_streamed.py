"""A ``Streamed`` text reaches its tool while it is written, and ends regularly or raises."""

import asyncio
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from argstream.agent.tools import Streamed, TextFeed, Tool, tool
from argstream.assembly import Reinterpretation
from argstream.errors import TextInterruptedError, UsageError
from argstream.testing import chunkings
from tests.agent.tools.calling import context_for, run
from tests.provider_streams import anthropic_call, chat_call, fed, only_call, open_call

pytestmark = pytest.mark.anyio


CUT = TextInterruptedError("the call was cut", verdict="truncated")


@tool
async def read_async(text: Streamed[str]) -> list[str]:
    return [piece async for piece in text]


@tool
def read_sync(text: Streamed[str]) -> list[str]:
    return list(text)


READERS: list[Tool] = [read_async, read_sync]


def reading(each: Callable[[str], object], *, is_async: bool) -> Tool:

    @tool
    async def in_loop(text: Streamed[str]) -> None:
        async for piece in text:
            await asyncio.to_thread(each, piece)

    @tool
    def in_thread(text: Streamed[str]) -> None:
        for piece in text:
            each(piece)

    return in_loop if is_async else in_thread


def executing(reader: Tool, feed: TextFeed) -> "asyncio.Task[Any]":
    bound = reader.bind_early(open_call('{"text": "'), feed)
    assert bound is not None
    return asyncio.create_task(reader.execute(bound, context_for(reader.name)))


async def started(reader: Tool, feed: TextFeed) -> "asyncio.Task[Any]":
    task = executing(reader, feed)
    await asyncio.sleep(0.01)
    return task


@pytest.mark.parametrize("is_async", [True, False])
async def test_each_piece_is_read_as_it_is_written(is_async: bool) -> None:
    seen: list[str] = []
    feed = TextFeed()
    task = executing(reading(seen.append, is_async=is_async), feed)
    for count, piece in enumerate(["a", "b", "c"], 1):
        feed.add(piece)
        while len(seen) < count:
            await asyncio.sleep(0.001)
    assert seen == ["a", "b", "c"]
    assert not task.done(), "it does not know yet whether the text ends regularly"
    feed.finish()
    await task


@pytest.mark.parametrize("reader", READERS)
async def test_text_that_is_there_already_is_one_piece(reader: Tool) -> None:
    feed = TextFeed()
    for piece in ("a", "", "b", "c"):
        feed.add(piece)
    feed.finish()
    feed.add("too late")
    assert (await executing(reader, feed)) == ["abc"]
    assert (await run(reader, text="abc")) == ["abc"]
    assert (await run(reader, text="")) == []


async def test_tool_can_be_called_directly() -> None:
    assert read_sync(Streamed.of("a", "b")) == ["ab"]
    assert (await read_async(Streamed.of())) == []


async def test_each_loop_starts_at_the_beginning() -> None:
    @tool
    async def twice(text: Streamed[str]) -> list[Any]:
        first = await anext(aiter(text))
        again = [piece async for piece in text]
        return [first, again, await text.read(), text.so_far]

    @tool
    def twice_sync(text: Streamed[str]) -> list[Any]:
        first = next(iter(text))
        return [first, list(text), text.read_blocking(), text.so_far]

    for function in (twice, twice_sync):
        assert (await run(function, text="abc")) == ["abc", ["abc"], "abc", "abc"]


async def test_sync_loop_in_the_event_loop_raises_instead_of_blocking() -> None:
    @tool
    async def blocks(text: Streamed[str]) -> list[str]:
        return list(text)

    with pytest.raises(UsageError, match="'async for' in an async tool"):
        await executing(blocks, TextFeed())


async def test_sync_tool_can_read_in_its_own_event_loop() -> None:
    @tool
    def own_loop(text: Streamed[str]) -> str:
        return asyncio.run(text.read())

    feed = TextFeed()
    task = await started(own_loop, feed)
    feed.add("a")
    await asyncio.sleep(0.01)
    feed.finish()
    assert (await task) == "a"


@pytest.mark.bulk
def test_text_in_small_pieces_takes_the_memory_of_a_text() -> None:
    feed = TextFeed()
    tracemalloc.start()
    try:
        for number in range(20_000):
            feed.add(f"{number:04}"[-4:])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(feed.so_far) == 80_000
    assert held < 150_000


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("has_begun", [False, True])
async def test_interruption_wakes_a_waiting_reader(reader: Tool, has_begun: bool) -> None:
    feed = TextFeed()
    task = await started(reader, feed)
    if has_begun:
        feed.add("half of")
        await asyncio.sleep(0.01)
    feed.interrupt(CUT)
    with pytest.raises(TextInterruptedError, match="the call was cut") as raised:
        await asyncio.wait_for(task, 5)
    assert raised.value.verdict == "truncated"


@pytest.mark.parametrize("is_async", [True, False])
async def test_interruption_reaches_a_busy_tool_at_its_next_read(is_async: bool) -> None:
    busy, go_on = threading.Event(), threading.Event()

    def work(piece: str) -> None:
        assert piece == "a"
        busy.set()
        go_on.wait(5)

    feed = TextFeed()
    feed.add("a")
    task = executing(reading(work, is_async=is_async), feed)
    await asyncio.to_thread(busy.wait, 5)
    feed.add("must not be read")
    feed.interrupt(CUT)
    go_on.set()
    with pytest.raises(TextInterruptedError):
        await task


async def test_tool_is_not_called_if_its_text_was_interrupted_before() -> None:
    called: list[str] = []

    @tool
    async def in_loop(text: Streamed[str]) -> None:  # noqa: ARG001 - on purpose
        called.append("async")

    @tool
    def in_thread(text: Streamed[str]) -> None:  # noqa: ARG001 - on purpose
        called.append("sync")

    for reader in (in_loop, in_thread):
        feed = TextFeed()
        task = executing(reader, feed)
        feed.interrupt(CUT)
        with pytest.raises(TextInterruptedError, match="the call was cut"):
            await task
    assert called == []


@pytest.mark.parametrize("way", ["timeout", "stop"])
async def test_timeout_and_stop_abort_the_text_that_a_thread_reads(way: str) -> None:
    ended: list[str] = []
    go_on, over = threading.Event(), threading.Event()

    @tool(timeout=0.05 if way == "timeout" else None)
    def slow(text: Streamed[str]) -> None:
        if way == "stop":
            go_on.wait(5)
        try:
            text.read_blocking()
        except TextInterruptedError as interruption:
            ended.append(interruption.verdict)
        over.set()

    feed = TextFeed()
    task = await started(slow, feed)
    if way == "stop":
        feed.add("all")
        feed.finish()
        task.cancel()
    with pytest.raises(TimeoutError if way == "timeout" else asyncio.CancelledError):
        await task
    go_on.set()
    assert await asyncio.to_thread(over.wait, 5)
    assert ended == ["aborted"]


@tool
async def write(path: str, content: Streamed[str]) -> str:
    return f"{path}: {await content.read()}"


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("", False),
        ('{"path": "a', False),
        ('{"path": "a"', True),
        ('{"path": "a", "content": "b', True),
        ('{"content": "b", "pa', False),
        ('{"content": "b", "path": "a"', True),
        ('{"path": 5', False),
        ('{"path": 5, "content": "', False),
        ('{"path": "a"}', True),
    ],
)
def test_tool_starts_when_its_other_arguments_are_valid(text: str, starts: bool) -> None:
    bound = write.bind_early(open_call(text), TextFeed())
    assert (bound is not None) is starts
    if bound is not None:
        assert bound.arguments["path"] == "a"


def test_chunking_does_not_change_when_the_tool_starts() -> None:
    text = '{"path": "\\u00e9", "content": "x"}'
    for name, chunks in chunkings(text):
        assembler = fed(anthropic_call()[:2])
        read = 0
        for chunk in chunks:
            for payload in anthropic_call(chunk)[2:3]:
                assembler.feed(payload)
            read += len(chunk)
            bound = write.bind_early(assembler.calls[0], TextFeed())
            assert (bound is not None) is (read >= text.index(",")), name


def test_tool_waits_for_arguments_with_a_default() -> None:
    @tool
    async def write(path: str, content: Streamed[str], mode: str = "w") -> None: ...

    feed = TextFeed()
    assert write.bind_early(open_call('{"path": "a", "content": "b"'), feed) is None
    assert write.bind_early(open_call('{"path": "a", "mode": "x", "content": "'), feed) is not None
    assert write.bind('{"path": "a", "content": "b"}').arguments["mode"] == "w"


def test_tool_does_not_start_for_an_invalid_or_reinterpreted_call() -> None:
    for text in ('{"path": "a", "content": "b', '{"path": "a", "content": 01'):
        call = only_call(anthropic_call(text))
        assert call.verdict in ("truncated", "malformed")
        assert write.bind_early(call, TextFeed()) is None
    assembler = fed(chat_call("{}", '{"path": "a", "content": "')[:3])
    assert assembler.calls[0].in_doubt
    assert write.bind_early(assembler.calls[0], TextFeed()) is None
    call = open_call('{"path": "a", "content": "')
    reinterpretations: list[Reinterpretation] = ["cumulative", "restated", "split_name"]
    for call.reinterpreted in reinterpretations:
        assert write.bind_early(call, TextFeed()) is None


def test_early_arguments_are_copies() -> None:
    @tool
    async def write(options: dict[str, Any], content: Streamed[str]) -> None: ...

    call = open_call('{"options": {"a": [1]}, "content": "')
    call.partial["options"]["a"].append("of a hook")
    bound = write.bind_early(call, TextFeed())
    assert bound is not None
    assert bound.arguments["options"] == {"a": [1]}
    bound.arguments["options"]["a"].append("of the tool")
    assert call.partial["options"] == {"a": [1, "of a hook"]}
