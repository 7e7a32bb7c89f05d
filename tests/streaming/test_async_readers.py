"""Readers in several tasks: one who is cancelled harms nobody, one who is slow loses nothing."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from argstream import AsyncEventStream, stream
from argstream.errors import ArgumentUnavailable, UsageError
from argstream.streaming import AsyncCallReader
from tests.provider_streams import anthropic_call, input_json, tool_use, types
from tests.streaming.faces import AsyncSource, settle
from tests.streaming.test_readers import TWO


class Stepped:
    """A source that gives an item only when the test says so, and notes all that is done to it."""

    def __init__(self, items: list[Any]) -> None:
        self._items = items
        self._steps = asyncio.Semaphore(0)
        self.given = 0
        self.asked = 0
        self.closed = False
        self.interrupted = False
        self.tasks: set[object] = set()

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self._steps.release()

    async def __aiter__(self) -> AsyncIterator[Any]:
        self.tasks.add(asyncio.current_task())
        try:
            for item in self._items:
                self.asked += 1
                await self._steps.acquire()
                self.tasks.add(asyncio.current_task())
                self.given += 1
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


PIECES = ['{"path": "a.py", ', '"content": "im', "port", ' os"', ', "edits": [{"a": 1}', ", 2]}"]
TURN = anthropic_call(*PIECES)


# Several at once


async def test_several_arguments_are_awaited_at_once() -> None:
    async with stream(AsyncSource(TURN)) as events:
        call = await first(events)
        found = await asyncio.gather(
            call.argument("edits"),
            call.argument("content"),
            call.argument("path"),
            call.arguments(),
            call.argument("path"),
            call.argument("mode"),
            return_exceptions=True,
        )
    arguments = {"path": "a.py", "content": "import os", "edits": [{"a": 1}, 2]}
    assert found[:5] == [arguments["edits"], "import os", "a.py", arguments, "a.py"]
    assert isinstance(found[5], ArgumentUnavailable)


async def test_each_reader_of_one_text_gets_all_of_it() -> None:
    async def whole(pieces: AsyncIterator[str]) -> str:
        return "".join([piece async for piece in pieces])

    async with stream(AsyncSource(TURN)) as events:
        call = await first(events)
        found = await asyncio.gather(*[whole(call.text("content")) for _ in range(5)])
    assert found == ["import os"] * 5


async def test_what_settles_is_told_at_once_though_others_wait_for_more() -> None:
    source = Stepped(TURN)
    async with stream(source) as events:
        source.step(2)
        call = await first(events)
        whole = asyncio.create_task(call.arguments())
        path = asyncio.create_task(call.argument("path"))
        await settle()
        assert not path.done()
        source.step()
        await settle()
        assert path.done()
        assert not whole.done()
        source.step(len(TURN))
        await whole


async def test_a_source_that_never_waits_does_not_run_ahead_of_those_who_read() -> None:
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


# Whoever is cancelled


async def test_a_timeout_on_a_step_does_not_end_the_iteration() -> None:
    source = Stepped(TURN)
    async with stream(source) as events:
        calls = events.live_calls()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(calls), 0.01)
        source.step(4)
        call = await anext(calls)
        pieces, items = call.text("content"), call.items("edits")
        read = [await anext(pieces)]
        for iterator in (pieces, items, calls):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(iterator), 0.01)
        source.step(len(TURN))
        read += [piece async for piece in pieces]
        assert read == ["im", "port", " os"]
        assert [item async for item in items] == [{"a": 1}, 2]
        assert [call async for call in calls] == []


@pytest.mark.parametrize("steps", range(len(TURN) + 2))
async def test_cancelling_at_any_moment_loses_nothing_and_repeats_nothing(steps: int) -> None:
    """Also when the answer is there, but the one who waited has not run since."""
    source = Stepped(TURN)
    async with stream(source) as events:
        source.step(2)
        call = await first(events)
        read: list[str] = []
        pieces = call.text("content")

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
        source.step(len(TURN))
        await reading()
        assert "".join(read) == "import os"


async def test_one_who_is_cancelled_does_not_hold_up_the_others() -> None:
    source = Stepped(TURN)
    async with stream(source) as events:
        source.step(2)
        call = await first(events)
        waiting = [asyncio.create_task(call.argument("content")) for _ in range(3)]
        await settle()
        waiting[0].cancel()
        await settle()
        source.step(len(TURN))
        assert await asyncio.gather(*waiting[1:]) == ["import os"] * 2
        assert waiting[0].cancelled()


# Early close


async def test_leaving_ends_those_who_wait_with_a_clear_error() -> None:
    source = Stepped(TURN)
    async with stream(source) as events:
        source.step(4)
        call = await first(events)
        assert await call.argument("path") == "a.py"

        async def rest() -> list[str]:
            return [piece async for piece in call.text("content")]

        async def calls() -> list[AsyncCallReader]:
            return [call async for call in events.live_calls()]

        waiting = [
            asyncio.create_task(call.argument("content")),
            asyncio.create_task(call.arguments()),
            asyncio.create_task(rest()),
        ]
        others = asyncio.create_task(calls())
        await settle()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(error).partition(": ")[2] for error in found] == [
        "the call is aborted (reading was stopped)",
        "the call is aborted (reading was stopped); it has 'path', 'content'",
        "the call is aborted (reading was stopped)",
    ]
    assert [call.name for call in await others] == ["write"]
    assert await call.argument("path") == "a.py"
    assert source.closed
    assert source.interrupted


async def test_a_source_that_swallows_the_cancellation_is_closed_too() -> None:
    async def stubborn() -> AsyncIterator[Any]:
        for item in TURN[:3]:
            yield item
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            yield TURN[3]
        await asyncio.sleep(3600)

    async with stream(stubborn()) as events:
        call = await first(events)
        waiting = asyncio.create_task(call.arguments())
        await settle()
    with pytest.raises(ArgumentUnavailable, match="aborted"):
        await waiting


async def test_what_a_source_says_to_being_closed_is_raised_to_the_one_who_closes_it() -> None:
    class Unclosable:
        async def __aenter__(self) -> AsyncSource:
            return AsyncSource(TURN)

        async def __aexit__(self, *_: object) -> None:
            raise OSError("cannot be closed")

    events = stream(Unclosable())
    call = await first(events)
    with pytest.raises(OSError, match="cannot be closed"):
        await events.aclose()
    assert call.verdict == "aborted"


async def test_a_stream_that_nobody_holds_any_more_is_closed_in_silence() -> None:
    for steps in (2, 3):  # idle, and in the middle of fetching
        source = Stepped(TURN)
        source.step(steps)
        async for call in stream(source).live_calls():
            if steps == 3:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(call.argument("content"), 0.01)
            break
        del call
        gc.collect()
        await settle()
        assert source.closed
        assert source.interrupted


async def test_a_reader_keeps_its_stream_alive() -> None:
    call = await first(stream(AsyncSource(TURN)))
    gc.collect()
    await settle()
    assert await call.argument("content") == "import os"
    assert await call.argument("path") == "a.py"


def test_an_event_loop_that_ends_with_a_stream_still_open_is_quiet(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> AsyncEventStream:
        events = stream(AsyncSource(TURN))
        await first(events)
        return events

    events = asyncio.run(main())
    assert [call.verdict for call in events.calls] == ["aborted"]
    del events
    gc.collect()
    assert caplog.records == []


# Slow consumers


async def test_nothing_is_fetched_but_for_someone_who_waits() -> None:
    source = Stepped(TURN)
    source.step(len(TURN))
    async with stream(source) as events:
        call = await first(events)
        await settle()
        assert source.asked == 2
        pieces = call.text("content")
        assert await anext(pieces) == "im"
        await settle()
        assert source.asked == 4
        assert await anext(pieces) == "port"
        await settle()
        assert source.asked == 5


# Beside a loop over the events


async def test_a_loop_in_one_task_and_readers_in_others_see_everything() -> None:
    expected = [event async for event in stream(AsyncSource(TWO))]
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
                tasks.create_task(handle(events.live_call(event.call_id)))
            await asyncio.sleep(0.001)
    assert seen == expected
    assert read == {"read": "a.py", "write": "b"}


async def test_a_loop_may_wait_for_tasks_that_read() -> None:
    """Which would be a deadlock if only the loop fetched."""
    seen = []
    async with stream(AsyncSource(TURN)) as events:
        async for event in events:
            seen.append(event)
            if event.type == "tool_call_started":
                call = events.live_call(event.call_id)
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(call.argument("path"))
                    tasks.create_task(call.argument("content"))
    assert seen == [event async for event in stream(AsyncSource(TURN))]


async def test_a_reader_that_comes_while_the_loop_fetches_waits_for_it() -> None:
    source = Stepped(TURN)
    events = stream(source)
    seen: list[Any] = []

    async def loop() -> None:
        async for event in events:
            seen.append(event)
            if event.type == "argument_delta":
                await asyncio.sleep(3600)

    looping = asyncio.create_task(loop())
    source.step(2)
    await settle()
    call = events.live_call("toolu_1")
    path = asyncio.create_task(call.argument("path"))
    content = asyncio.create_task(call.argument("content"))
    await settle()
    assert source.asked == 3
    source.step()  # for the loop, which then stands still
    assert await path == "a.py"
    source.step(len(TURN))
    assert await content == "import os"
    assert types(seen)[-1] == "argument_delta"
    looping.cancel()
    await asyncio.wait([looping])
    await events.aclose()


async def test_cancelling_the_loop_ends_the_stream_also_for_readers() -> None:
    """As ever: a loop that is cancelled closes its source."""
    for with_reader in (False, True):
        source = Stepped(TURN)
        events = stream(source)

        async def loop(events: AsyncEventStream = events) -> None:
            async for _ in events:
                pass

        looping = asyncio.create_task(loop())
        source.step(3)
        await settle()
        call = events.live_call("toolu_1")
        waiting = asyncio.create_task(call.argument("content"))
        await settle()
        if with_reader:
            source.step()
            await settle()
        looping.cancel()
        await asyncio.wait([looping])
        with pytest.raises(ArgumentUnavailable, match="aborted"):
            await waiting
        assert source.closed


@pytest.mark.parametrize("with_reader", [False, True])
async def test_closing_ends_a_loop_in_another_task_that_fetches(with_reader: bool) -> None:
    source = Stepped(TURN)
    events = stream(source)
    looping = asyncio.create_task(types_of(events))
    source.step(3)
    await settle()
    call = events.live_call("toolu_1")
    waiting = asyncio.create_task(call.argument("content")) if with_reader else None
    await settle()
    await asyncio.gather(events.aclose(), events.aclose())
    assert (await looping)[-1] == "argument_completed"
    assert looping.cancelling() == 0
    assert (call.verdict, source.closed, source.interrupted) == ("aborted", True, True)
    assert source.tasks == {looping}
    if waiting is not None:
        with pytest.raises(ArgumentUnavailable, match="reading was stopped"):
            await waiting


async def types_of(events: AsyncEventStream) -> list[str]:
    return [event.type async for event in events]


async def test_closing_ends_a_loop_in_another_task_that_is_busy() -> None:
    class SlowToClose(Stepped):
        async def aclose(self) -> None:
            await settle()
            self.closed = True

    for with_reader in (False, True):
        source = SlowToClose(TURN)
        source.step(3)
        events = stream(source)
        read: list[str] = []

        async def loop(events: AsyncEventStream = events, read: list[str] = read) -> None:
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


async def test_a_loop_that_is_cancelled_while_it_is_closed_is_cancelled() -> None:
    source = Stepped(TURN)
    events = stream(source)
    looping = asyncio.create_task(types_of(events))
    source.step(3)
    await settle()
    closing = asyncio.create_task(events.aclose())
    await asyncio.sleep(0)
    looping.cancel()
    await closing
    await asyncio.wait([looping])
    assert looping.cancelled()
    assert source.closed


@pytest.mark.parametrize("with_reader", [False, True])
@pytest.mark.parametrize("error", [OSError("cannot be closed"), None])
async def test_closing_ends_a_loop_whatever_the_source_makes_of_it(
    error: Exception | None, with_reader: bool
) -> None:
    async def stubborn() -> AsyncIterator[Any]:
        for item in TURN[:3]:
            yield item
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if error is not None:
                raise error from None
        for item in TURN[3:]:
            yield item

    events = stream(stubborn())
    if with_reader:
        events.live_calls()
    looping = asyncio.create_task(types_of(events))
    await settle()
    if error is None:
        await events.aclose()
    else:
        with pytest.raises(OSError, match="cannot be closed"):
            await events.aclose()
    assert (await looping)[-1] == "argument_completed"
    assert looping.cancelling() == 0
    assert [call.verdict for call in events.calls] == ["aborted"]


async def test_who_waits_does_not_wait_for_the_source_to_close() -> None:
    class Hanging(Stepped):
        async def aclose(self) -> None:
            await asyncio.sleep(3600)

    source = Hanging(TURN)
    source.step(2)
    events = stream(source)
    call = await first(events)
    waiting = asyncio.create_task(call.argument("content"))
    await settle()
    closing = asyncio.create_task(events.aclose())
    with pytest.raises(ArgumentUnavailable, match="reading was stopped"):
        await waiting
    assert not closing.done()
    closing.cancel()
    for task in asyncio.all_tasks():
        if task.get_name() == "argstream reader":
            task.cancel()


async def test_a_failure_of_the_source_reaches_everybody() -> None:
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
async def test_a_cancellation_that_is_the_sources_own_is_a_failure_of_it(loops: bool) -> None:
    async def source() -> AsyncIterator[Any]:
        for item in TURN[:3]:
            yield item
        inner = asyncio.create_task(asyncio.sleep(3600))
        inner.cancel()
        await inner

    async with stream(source()) as events:
        if loops:
            looping = asyncio.create_task(types_of(events))
            await asyncio.wait([looping])
        calls = events.live_calls()
        call = await anext(calls)
        assert await call.argument("path") == "a.py"
        for ask in (call.argument("content"), call.arguments(), anext(calls)):
            with pytest.raises(asyncio.CancelledError):
                await ask


async def test_a_task_that_somebody_else_cancels_leaves_nobody_waiting() -> None:
    """As a program does that ends all its tasks."""
    source = Stepped(TURN)
    events = stream(source)
    looping = asyncio.create_task(types_of(events))
    source.step(3)
    await settle()
    waiting = asyncio.create_task(events.live_call("toolu_1").argument("content"))
    await settle()
    for task in asyncio.all_tasks():
        if task.get_name() == "argstream reader":
            task.cancel()
    with pytest.raises(ArgumentUnavailable, match="reading was stopped"):
        await waiting
    assert (await looping)[-1] == "argument_completed"
    assert source.closed


# What it needs


async def test_one_task_works_with_the_source_from_its_start_to_its_end() -> None:
    """A cancel scope, of anyio for instance, must be left where it was entered."""

    async def scoped() -> AsyncIterator[Any]:
        with anyio.CancelScope():
            for item in TURN:
                await anyio.sleep(0)
                yield item

    async with stream(scoped()) as events:
        call = await first(events)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(call.argument("mode"), 0)
        assert await asyncio.create_task(call.argument("path")) == "a.py"
    source = Stepped(TURN)
    source.step(len(TURN))
    async with stream(source) as events:
        call = await first(events)
        await asyncio.create_task(call.arguments())
        assert [call async for call in events.live_calls()] != []
    assert len(source.tasks) == 1


async def test_a_loop_that_begins_after_live_calls_leaves_the_source_to_the_task() -> None:
    """So a source that holds a cancel scope, or a context, is read by one task."""
    span: ContextVar[str] = ContextVar("span")

    async def scoped() -> AsyncIterator[Any]:
        token = span.set("in it")
        async with anyio.create_task_group(), asyncio.timeout(60):
            for item in TURN:
                await anyio.sleep(0)
                yield item
        span.reset(token)

    async with stream(scoped()) as events:
        events.live_calls()
        seen = []
        async for event in events:
            seen.append(event)
            if event.type == "tool_call_started":
                assert await events.live_call(event.call_id).argument("path") == "a.py"
    assert seen == [event async for event in stream(AsyncSource(TURN))]


def test_another_event_loop_is_refused_and_spoils_nothing() -> None:
    with asyncio.Runner() as one, asyncio.Runner() as other:
        events = stream(AsyncSource(TURN))
        call = one.run(first(events))
        for ask in (call.argument("content"), events.aclose()):
            with pytest.raises(UsageError, match="read a stream in one event loop"):
                other.run(ask)
        assert one.run(call.argument("content")) == "import os"
        one.run(events.aclose())


def test_without_asyncio_it_says_what_is_missing() -> None:
    async def source() -> AsyncIterator[Any]:
        yield TURN[0]

    waiting = anext(stream(source()).live_calls())
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


async def test_a_call_in_a_later_turn_is_found_by_its_id() -> None:
    later = [tool_use(0, "again", id_="toolu_1"), input_json(0, '{"b": 2, "c"')]
    payloads = [*anthropic_call('{"a": 1}'), TURN[0], *later]
    async with stream(AsyncSource(payloads)) as events:
        live = events.live_calls()
        calls = [await anext(live), await anext(live)]
        assert [await calls[0].argument("a"), await calls[1].argument("b")] == [1, 2]
        assert events.live_call("toolu_1").name == "again"
