"""Readers in several tasks: cancelling one harms no other, and a slow one loses nothing."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from argstream import AsyncEventStream, stream
from argstream.errors import ArgumentUnavailableError, UsageError
from argstream.streaming import AsyncCallReader
from tests.provider_streams import anthropic_call, input_json, tool_use, types
from tests.streaming.faces import AsyncSource, collect, settle
from tests.streaming.test_readers import TWO

PIECES = ['{"path": "a.py", ', '"content": "im', "port", ' os"', ', "edits": [{"a": 1}', ", 2]}"]
TURN = anthropic_call(*PIECES)
ARGUMENTS = {"path": "a.py", "content": "import os", "edits": [{"a": 1}, 2]}


class Stepped:
    """A source that yields an item for each step that the test allows."""

    def __init__(self, steps: int) -> None:
        self._steps = asyncio.Semaphore(steps)
        self.asked = 0
        self.closed = False
        self.interrupted = False
        self.tasks: set[object] = set()

    def step(self, count: int = len(TURN)) -> None:
        for _ in range(count):
            self._steps.release()

    async def __aiter__(self) -> AsyncIterator[Any]:
        self.tasks.add(asyncio.current_task())
        try:
            for item in TURN:
                self.asked += 1
                await self._steps.acquire()
                self.tasks.add(asyncio.current_task())
                yield item
        except BaseException:
            self.interrupted = True
            raise
        finally:
            self.tasks.add(asyncio.current_task())

    async def aclose(self) -> None:
        self.closed = True


async def first(events: AsyncEventStream) -> AsyncCallReader:
    return await anext(events.live_calls())


async def cancelled(awaitable: Awaitable[object]) -> None:
    """Await in a task that is cancelled when all tasks wait."""

    async def run() -> None:
        await awaitable

    task = asyncio.create_task(run())
    await settle()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def read_in_a_loop(
    source: Stepped,
) -> tuple[AsyncEventStream, "asyncio.Task[list[Any]]", AsyncCallReader]:
    """Start a loop in a task of its own, and return when it waits for the source."""
    events = stream(source)
    looping = asyncio.create_task(collect(events))
    await settle()
    return events, looping, events.live_call("toolu_1")


def cancel_tasks_of_argstream() -> None:
    for task in asyncio.all_tasks():
        if task.get_name() == "argstream reader":
            task.cancel()


async def test_several_readers_each_get_all_of_it() -> None:
    async def text() -> str:
        return "".join([piece async for piece in call.text("content")])

    async with stream(AsyncSource(TURN)) as events:
        call = await first(events)
        names = ("edits", "content", "path", "path")
        *found, missing = await asyncio.gather(
            *(call.argument(name) for name in names),
            *(text() for _ in range(5)),
            call.arguments(),
            call.argument("mode"),
            return_exceptions=True,
        )
    assert found == [*(ARGUMENTS[name] for name in names), *["import os"] * 5, ARGUMENTS]
    assert isinstance(missing, ArgumentUnavailableError)


async def test_source_that_never_waits_does_not_run_ahead_of_readers() -> None:
    given = 0

    async def source() -> AsyncIterator[Any]:
        nonlocal given
        for item in TURN:
            given += 1
            yield item

    async with stream(source()) as events:
        call = await first(events)
        whole = asyncio.create_task(call.arguments())
        assert await call.argument("path") == "a.py"
        assert given == 3
        assert [piece async for piece in call.text("content")] == ["im", "port", " os"]
        await whole


async def test_items_are_fetched_only_for_a_waiting_reader() -> None:
    source = Stepped(len(TURN))
    async with stream(source) as events:
        call = await first(events)
        await settle()
        assert source.asked == 2
        pieces = call.text("content")
        for piece, asked in (("im", 4), ("port", 5)):
            assert await anext(pieces) == piece
            await settle()
            assert source.asked == asked


async def test_cancelled_step_does_not_end_the_iteration() -> None:
    source = Stepped(0)
    async with stream(source) as events:
        calls = events.live_calls()
        await cancelled(anext(calls))
        source.step(4)
        call = await anext(calls)
        pieces, items = call.text("content"), call.items("edits")
        read = [await anext(pieces)]
        for iterator in (pieces, items, calls):
            await cancelled(anext(iterator))
        source.step()
        read += [piece async for piece in pieces]
        assert read == ["im", "port", " os"]
        assert [item async for item in items] == [{"a": 1}, 2]
        assert [call async for call in calls] == []


@pytest.mark.parametrize("steps", range(len(TURN) + 2))
async def test_cancelling_at_any_moment_loses_and_repeats_nothing(steps: int) -> None:
    """Also when the value is there, but the waiting task has not run since."""
    source = Stepped(2)
    async with stream(source) as events:
        read: list[str] = []
        pieces = (await first(events)).text("content")

        async def reading() -> None:
            async for piece in pieces:
                read.append(piece)  # noqa: PERF401 - each at once

        for rounds in range(12):
            task = asyncio.create_task(reading())
            source.step(1 if rounds < steps else 0)
            for _ in range(rounds % 7):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        source.step()
        await reading()
        assert "".join(read) == "import os"


async def test_cancelled_reader_does_not_hold_up_others() -> None:
    source = Stepped(2)
    async with stream(source) as events:
        call = await first(events)
        waiting = [asyncio.create_task(call.argument("content")) for _ in range(2)]
        await cancelled(call.argument("content"))
        source.step()
        assert await asyncio.gather(*waiting) == ["import os"] * 2


async def test_closing_ends_waiting_readers_with_an_error() -> None:
    async def rest() -> list[str]:
        return [piece async for piece in call.text("content")]

    async def calls() -> list[AsyncCallReader]:
        return [call async for call in events.live_calls()]

    source = Stepped(4)
    async with stream(source) as events:
        call = await first(events)
        assert await call.argument("path") == "a.py"
        asked = (call.argument("content"), call.arguments(), rest(), calls())
        waiting = asyncio.gather(*asked, return_exceptions=True)
        await settle()
    *errors, others = await waiting
    stopped = "the call is aborted (reading was stopped)"
    found = [str(error).partition(": ")[2] for error in errors]
    assert found == [stopped, f"{stopped}; the call has 'path', 'content'", stopped]
    assert [call.name for call in others] == ["write"]
    assert await call.argument("path") == "a.py"
    assert source.closed
    assert source.interrupted


@pytest.mark.parametrize("steps", [2, 3], ids=["idle", "fetching"])
async def test_stream_without_references_is_closed(steps: int) -> None:
    source = Stepped(steps)
    async for call in stream(source).live_calls():
        if steps == 3:
            await cancelled(call.argument("content"))
        break
    del call
    gc.collect()
    await settle()
    assert source.closed
    assert source.interrupted


async def test_reader_keeps_its_stream_alive() -> None:
    call = await first(stream(AsyncSource(TURN)))
    gc.collect()
    await settle()
    assert await call.argument("content") == "import os"
    assert await call.argument("path") == "a.py"


async def test_waiting_reader_does_not_wait_for_the_source_to_close() -> None:
    class Hanging(Stepped):
        async def aclose(self) -> None:
            await asyncio.Event().wait()

    events = stream(Hanging(2))
    call = await first(events)
    waiting = asyncio.create_task(call.argument("content"))
    await settle()
    closing = asyncio.create_task(events.aclose())
    with pytest.raises(ArgumentUnavailableError, match="reading was stopped"):
        await waiting
    assert not closing.done()
    closing.cancel()
    cancel_tasks_of_argstream()


async def test_loop_and_tasks_that_read_see_everything() -> None:
    """Also if the loop waits for such a task. It would be a deadlock if only the loop fetched."""
    read = {}

    async def handle(call: AsyncCallReader) -> None:
        read[call.name] = await call.argument("path")
        await call.arguments()

    seen = []
    events = stream(AsyncSource(TWO))
    async with events, asyncio.TaskGroup() as tasks:
        async for event in events:
            seen.append(event)
            if event.type == "tool_call_started":
                task = tasks.create_task(handle(events.live_call(event.call_id)))
                if event.name == "write":
                    await task
            await settle()
    assert seen == await collect(stream(AsyncSource(TWO)))
    assert read == {"read": "a.py", "write": "b"}


async def test_reader_waits_while_the_loop_fetches() -> None:
    source = Stepped(2)
    events = stream(source)
    seen: list[Any] = []

    async def loop() -> None:
        async for event in events:
            seen.append(event)
            if event.type == "argument_delta":
                await asyncio.Event().wait()

    looping = asyncio.create_task(loop())
    await settle()
    call = events.live_call("toolu_1")
    path = asyncio.create_task(call.argument("path"))
    content = asyncio.create_task(call.argument("content"))
    await settle()
    assert source.asked == 3
    source.step(1)  # for the loop, which then stands still
    assert await path == "a.py"
    source.step()
    assert await content == "import os"
    assert types(seen)[-1] == "argument_delta"
    looping.cancel()
    await asyncio.wait([looping])
    await events.aclose()


@pytest.mark.parametrize("reader", ["none", "waits", "fetches"])
async def test_cancelling_the_loop_closes_the_source_for_readers_too(reader: str) -> None:
    source = Stepped(3)
    _, looping, call = await read_in_a_loop(source)
    waiting = None if reader == "none" else asyncio.create_task(call.argument("content"))
    await settle()
    if reader == "fetches":
        source.step(1)
        await settle()
    looping.cancel()
    await asyncio.wait([looping])
    assert looping.cancelled()
    if waiting is not None:
        with pytest.raises(ArgumentUnavailableError, match="aborted"):
            await waiting
    assert call.verdict == "aborted"
    assert source.closed


@pytest.mark.parametrize("with_reader", [False, True])
async def test_closing_ends_a_loop_that_fetches_in_another_task(with_reader: bool) -> None:
    source = Stepped(3)
    events, looping, call = await read_in_a_loop(source)
    waiting = asyncio.create_task(call.argument("content")) if with_reader else None
    await settle()
    await asyncio.gather(events.aclose(), events.aclose())
    assert types(await looping)[-1] == "argument_completed"
    assert looping.cancelling() == 0
    assert (call.verdict, source.closed, source.interrupted) == ("aborted", True, True)
    assert source.tasks == {looping}
    if waiting is not None:
        with pytest.raises(ArgumentUnavailableError, match="reading was stopped"):
            await waiting


@pytest.mark.parametrize("with_reader", [False, True])
async def test_closing_ends_a_busy_loop_in_another_task(with_reader: bool) -> None:
    class SlowToClose(Stepped):
        async def aclose(self) -> None:
            await settle()
            self.closed = True

    source = SlowToClose(3)
    events = stream(source)
    read: list[str] = []

    async def loop() -> None:
        async for event in events:
            read.append(event.type)
            await asyncio.sleep(0)

    looping = asyncio.create_task(loop())
    while "argument_started" not in read:
        await asyncio.sleep(0)
    if with_reader:
        await events.live_call("toolu_1").argument("path")
    await events.aclose()
    await looping
    assert source.closed


async def test_loop_cancelled_during_close_is_cancelled() -> None:
    source = Stepped(3)
    events, looping, _ = await read_in_a_loop(source)
    closing = asyncio.create_task(events.aclose())
    await asyncio.sleep(0)
    looping.cancel()
    await closing
    await asyncio.wait([looping])
    assert looping.cancelled()
    assert source.closed


@pytest.mark.parametrize("consumer", ["loop", "loop after live_calls", "reader"])
@pytest.mark.parametrize("error", [OSError("cannot be closed"), None])
async def test_closing_ends_a_source_that_resists(error: Exception | None, consumer: str) -> None:
    async def stubborn() -> AsyncIterator[Any]:
        for item in TURN[:3]:
            yield item
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if error is not None:
                raise error from None
        for item in TURN[3:]:
            yield item

    events = stream(stubborn())
    calls = None if consumer == "loop" else events.live_calls()
    if consumer == "reader" and calls is not None:
        waiting: asyncio.Task[Any] = asyncio.create_task((await anext(calls)).arguments())
    else:
        waiting = asyncio.create_task(collect(events))
    await settle()
    (raised,) = await asyncio.gather(events.aclose(), return_exceptions=True)
    if consumer == "reader":
        with pytest.raises(ArgumentUnavailableError, match="aborted"):
            await waiting
    else:
        assert types(await waiting)[-1] == "argument_completed"
    assert raised is error
    assert waiting.cancelling() == 0
    assert [call.verdict for call in events.calls] == ["aborted"]


async def test_failure_of_the_source_is_raised_to_all() -> None:
    failure = ConnectionResetError("gone")
    events = stream(AsyncSource(TURN[:4], failure))

    async def loop() -> None:
        async for event in events:
            if event.type == "tool_call_started":
                await events.live_call("toolu_1").argument("path")

    async def calls() -> None:
        async for call in events.live_calls():
            await call.arguments()

    found = await asyncio.gather(loop(), calls(), return_exceptions=True)
    assert list(found) == [failure, failure]
    with pytest.raises(ConnectionResetError):
        await calls()


@pytest.mark.parametrize("loops", [False, True])
async def test_cancellation_by_the_source_itself_is_its_failure(loops: bool) -> None:
    async def source() -> AsyncIterator[Any]:
        for item in TURN[:3]:
            yield item
        inner = asyncio.create_task(asyncio.Event().wait())
        inner.cancel()
        await inner

    async with stream(source()) as events:
        if loops:
            await asyncio.wait([asyncio.create_task(collect(events))])
        calls = events.live_calls()
        call = await anext(calls)
        assert await call.argument("path") == "a.py"
        for ask in (call.argument("content"), call.arguments(), anext(calls)):
            with pytest.raises(asyncio.CancelledError):
                await ask


async def test_cancelling_the_task_of_argstream_leaves_nothing_waiting() -> None:
    """As a program does that cancels all tasks at its end."""
    source = Stepped(3)
    _, looping, call = await read_in_a_loop(source)
    waiting = asyncio.create_task(call.argument("content"))
    await settle()
    cancel_tasks_of_argstream()
    with pytest.raises(ArgumentUnavailableError, match="reading was stopped"):
        await waiting
    assert types(await looping)[-1] == "argument_completed"
    assert source.closed


@pytest.mark.parametrize("loops", [False, True])
async def test_one_task_uses_the_source_from_start_to_end(loops: bool) -> None:
    """A cancel scope, a task group and a context variable must be left where they were entered."""
    span: ContextVar[str] = ContextVar("span")

    async def scoped() -> AsyncIterator[Any]:
        token = span.set("in it")
        async with anyio.create_task_group(), asyncio.timeout(60):
            for item in TURN:
                await anyio.sleep(0)
                yield item
        span.reset(token)

    async with stream(scoped()) as events:
        calls = events.live_calls()
        if loops:
            seen = []
            async for event in events:
                seen.append(event)
                if event.type == "tool_call_started":
                    assert await events.live_call(event.call_id).argument("path") == "a.py"
            assert seen == await collect(stream(AsyncSource(TURN)))
        else:
            call = await anext(calls)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(call.argument("mode"), 0)
            assert await asyncio.create_task(call.argument("path")) == "a.py"
            await asyncio.create_task(call.arguments())
            assert [call async for call in calls] == []


def test_second_event_loop_raises_and_spoils_nothing() -> None:
    with asyncio.Runner() as one, asyncio.Runner() as other:
        events = stream(AsyncSource(TURN))
        call = one.run(first(events))
        for ask in (call.argument("content"), events.aclose()):
            with pytest.raises(UsageError, match="Read a stream in one event loop"):
                other.run(ask)
        assert one.run(call.argument("content")) == "import os"
        one.run(events.aclose())


def test_readers_without_asyncio_raise() -> None:
    waiting = anext(stream(AsyncSource(TURN)).live_calls())
    with pytest.raises(UsageError, match="the readers of an async stream need asyncio"):
        waiting.__await__().send(None)


def test_sync_readers_do_not_load_asyncio() -> None:
    code = (
        "import sys; from argstream import stream; "
        f"print([call.argument('path') for call in stream({TURN}).live_calls()]);"
        "print('asyncio' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["['a.py']", "False"]


async def test_newest_call_with_an_id_is_returned() -> None:
    later = [tool_use(0, "again", id_="toolu_1"), input_json(0, '{"b": 2, "c"')]
    async with stream(AsyncSource([*anthropic_call('{"a": 1}'), TURN[0], *later])) as events:
        live = events.live_calls()
        calls = [await anext(live), await anext(live)]
        assert [await calls[0].argument("a"), await calls[1].argument("b")] == [1, 2]
        assert events.live_call("toolu_1").name == "again"
