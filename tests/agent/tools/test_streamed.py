"""A Streamed text reaches its tool while it is written, ends well or says that it did not."""

import asyncio
import threading
import tracemalloc
from typing import Any

import pytest

from argstream.agent.tools import Streamed, TextFeed, Tool, tool
from argstream.assembly import Assembler, Call, Reinterpretation
from argstream.errors import TextInterrupted, UsageError
from argstream.testing import chunkings
from tests.agent.tools.calling import context_for, run
from tests.provider_streams import anthropic_call, chat_call, only_call

pytestmark = pytest.mark.anyio


CUT = TextInterrupted("the call was cut", verdict="truncated")


@tool
async def read_async(text: Streamed[str]) -> list[str]:
    return [piece async for piece in text]


@tool
def read_sync(text: Streamed[str]) -> list[str]:
    return list(text)


READERS: list[Tool] = [read_async, read_sync]


async def started(reader: Tool, feed: TextFeed) -> "asyncio.Task[Any]":
    """Start a tool early, with nothing but its text, and let it begin to wait."""
    bound = reader.bind_early(open_call('{"text": "'), feed)
    assert bound is not None
    task = asyncio.create_task(reader.execute(bound, context_for(reader.name)))
    await asyncio.sleep(0.01)
    return task


def open_call(text: str) -> Call:
    """A call of which so much has come."""
    assembler = Assembler()
    for payload in anthropic_call(text)[:3]:
        assembler.feed(payload)
    return assembler.calls[0]


# Reading


@pytest.mark.parametrize("reader", READERS)
async def test_each_piece_comes_as_it_is_written(reader: Tool) -> None:
    seen: list[str] = []

    @tool
    async def in_loop(text: Streamed[str]) -> None:
        async for piece in text:
            seen.append(piece)  # noqa: PERF401 - to see it while it is read

    @tool
    def in_thread(text: Streamed[str]) -> None:
        for piece in text:
            seen.append(piece)  # noqa: PERF402 - the same

    feed = TextFeed()
    task = await started(in_loop if reader is read_async else in_thread, feed)
    for count, piece in enumerate(["a", "b", "c"], 1):
        feed.add(piece)
        while len(seen) < count:
            await asyncio.sleep(0.001)
    assert seen == ["a", "b", "c"]
    assert not task.done()  # whether it ends well is not known yet
    feed.finish()
    await task


@pytest.mark.parametrize("reader", READERS)
async def test_what_came_meanwhile_is_one_piece(reader: Tool) -> None:
    feed = TextFeed()
    bound = reader.bind_early(open_call('{"text": "'), feed)
    assert bound is not None
    for piece in ("a", "", "b", "c"):
        feed.add(piece)
    feed.finish()
    feed.add("too late")
    assert (await reader.execute(bound, context_for("read"))) == ["abc"]


@pytest.mark.parametrize("reader", READERS)
def test_a_text_that_is_there_already_is_read_in_the_same_way(reader: Tool) -> None:
    assert asyncio.run(run(reader, text="abc")) == ["abc"]
    assert asyncio.run(run(reader, text="")) == []


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_reader_that_waits_is_woken_by_an_interruption(
    reader: Tool, has_begun: bool
) -> None:
    feed = TextFeed()
    task = await started(reader, feed)
    if has_begun:
        feed.add("half of")
        await asyncio.sleep(0.01)
    feed.interrupt(CUT)
    with pytest.raises(TextInterrupted, match="the call was cut") as raised:
        await asyncio.wait_for(task, 5)
    assert raised.value.verdict == "truncated"


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_interruption_reaches_a_tool_at_its_next_read(is_async: bool) -> None:
    busy, go_on = threading.Event(), threading.Event()

    def work(piece: str) -> None:
        assert piece == "a"
        busy.set()
        go_on.wait(5)

    @tool
    async def in_loop(text: Streamed[str]) -> None:
        async for piece in text:
            await asyncio.to_thread(work, piece)

    @tool
    def in_thread(text: Streamed[str]) -> None:
        for piece in text:
            work(piece)

    feed = TextFeed()
    feed.add("a")
    task = await started(in_loop if is_async else in_thread, feed)
    await asyncio.to_thread(busy.wait, 5)
    feed.add("not to be read any more")
    feed.interrupt(CUT)
    go_on.set()
    with pytest.raises(TextInterrupted):
        await task


def test_each_loop_begins_at_the_beginning_and_read_gives_all() -> None:
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
        assert asyncio.run(run(function, text="abc")) == ["abc", ["abc"], "abc", "abc"]


async def test_a_plain_for_in_the_event_loop_is_refused_not_a_hang() -> None:
    @tool
    async def blocks(text: Streamed[str]) -> list[str]:
        return list(text)

    task = await started(blocks, TextFeed())
    with pytest.raises(UsageError, match="'async for' in an async tool"):
        await task


def test_a_sync_tool_may_read_in_an_event_loop_of_its_own() -> None:
    @tool
    def own_loop(text: Streamed[str]) -> str:
        return asyncio.run(text.read())

    async def main() -> Any:
        feed = TextFeed()
        task = await started(own_loop, feed)
        feed.add("a")
        await asyncio.sleep(0.01)
        feed.finish()
        return await asyncio.wait_for(task, 5)

    assert asyncio.run(main()) == "a"


async def test_a_tool_can_be_called_by_hand() -> None:
    assert read_sync(Streamed.of("a", "b")) == ["ab"]
    assert (await read_async(Streamed.of())) == []


@pytest.mark.bulk
def test_a_text_in_small_pieces_takes_the_memory_of_a_text() -> None:
    feed = TextFeed()
    tracemalloc.start()
    try:
        for number in range(100_000):
            feed.add(f"{number:04}"[-4:])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(feed.so_far) == 400_000
    assert held < 600_000


# Its time, and a stop


async def test_the_time_of_a_tool_counts_from_its_start_and_wakes_a_thread_that_reads() -> None:
    ended: list[str] = []
    over = threading.Event()

    @tool(timeout=0.05)
    def waits(text: Streamed[str]) -> None:
        try:
            text.read_blocking()
        except TextInterrupted as interruption:
            ended.append(interruption.verdict)
        over.set()

    task = await started(waits, TextFeed())
    with pytest.raises(TimeoutError):
        await task
    assert over.wait(5)
    assert ended == ["aborted"]


async def test_a_thread_that_has_not_read_to_the_end_at_a_stop_must_undo() -> None:
    ended: list[str] = []
    go_on, over = threading.Event(), threading.Event()

    @tool
    def slow(text: Streamed[str]) -> None:
        go_on.wait(5)
        try:
            text.read_blocking()
        except TextInterrupted as interruption:
            ended.append(interruption.verdict)
        over.set()

    feed = TextFeed()
    feed.add("all")
    task = await started(slow, feed)
    feed.finish()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    assert over.wait(5)
    assert ended == ["aborted"]


# When it may start


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
def test_it_starts_when_all_else_has_settled_and_is_valid(text: str, starts: bool) -> None:
    bound = write.bind_early(open_call(text), TextFeed())
    assert (bound is not None) is starts
    if bound is not None:
        assert bound.arguments["path"] == "a"


def test_wherever_the_text_is_cut_it_starts_at_the_same_place() -> None:
    text = '{"path": "\\u00e9", "content": "x"}'
    place = text.index(",")
    for name, chunks in chunkings(text):
        assembler = Assembler()
        first, opened, *_ = anthropic_call()
        assembler.feed(first)
        assembler.feed(opened)
        read = 0
        for chunk in chunks:
            for payload in anthropic_call(chunk)[2:3]:
                assembler.feed(payload)
            read += len(chunk)
            bound = write.bind_early(assembler.calls[0], TextFeed())
            assert (bound is not None) is (read >= place), name


def test_an_argument_that_may_be_left_out_is_waited_for() -> None:
    @tool
    async def write(path: str, content: Streamed[str], mode: str = "w") -> None: ...

    feed = TextFeed()
    assert write.bind_early(open_call('{"path": "a", "content": "b"'), feed) is None
    assert write.bind_early(open_call('{"path": "a", "mode": "x", "content": "'), feed) is not None
    whole = only_call(anthropic_call('{"path": "a", "content": "b"}'))
    bound = write.bind_early(whole, feed)
    assert bound is not None
    assert bound.arguments["mode"] == "w"


def test_it_never_starts_while_the_text_may_be_meant_in_another_way() -> None:
    assembler = Assembler()
    for payload in chat_call("{}", '{"path": "a", "content": "')[:3]:
        assembler.feed(payload)
    (call,) = assembler.calls
    assert call.in_doubt
    assert write.bind_early(call, TextFeed()) is None


@pytest.mark.parametrize("how", ["cumulative", "restated"])
def test_it_never_starts_once_the_text_is_meant_in_another_way(how: Reinterpretation) -> None:
    call = open_call('{"path": "a", "content": "')
    call.reinterpreted = how
    assert write.bind_early(call, TextFeed()) is None
    call.reinterpreted = "split_name"
    assert write.bind_early(call, TextFeed()) is not None


def test_what_it_starts_with_is_nobody_elses() -> None:
    @tool
    async def write(options: dict[str, Any], content: Streamed[str]) -> None: ...

    call = open_call('{"options": {"a": [1]}, "content": "')
    call.partial["options"]["a"].append("of a hook")
    bound = write.bind_early(call, TextFeed())
    assert bound is not None
    assert bound.arguments["options"] == {"a": [1]}
    bound.arguments["options"]["a"].append("of the tool")
    assert call.partial["options"] == {"a": [1, "of a hook"]}


def test_it_is_not_called_if_the_text_was_interrupted_before() -> None:
    called: list[str] = []

    @tool
    async def in_loop(text: Streamed[str]) -> None:  # noqa: ARG001 - on purpose
        called.append("async")

    @tool
    def in_thread(text: Streamed[str]) -> None:  # noqa: ARG001 - on purpose
        called.append("sync")

    async def main(reader: Tool) -> None:
        feed = TextFeed()
        bound = reader.bind_early(open_call('{"text": "'), feed)
        assert bound is not None
        feed.interrupt(CUT)
        await reader.execute(bound, context_for(reader.name))

    for reader in (in_loop, in_thread):
        with pytest.raises(TextInterrupted, match="the call was cut"):
            asyncio.run(main(reader))
    assert called == []


@pytest.mark.parametrize("text", ['{"path": "a", "content": "b', '{"path": "a", "content": 01'])
def test_it_never_starts_once_the_call_is_not_valid(text: str) -> None:
    call = only_call(anthropic_call(text))
    assert call.verdict in ("truncated", "malformed")
    assert write.bind_early(call, TextFeed()) is None
