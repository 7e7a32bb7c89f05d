"""A tool runs once, in the event loop or in a thread, and not after its timeout or a stop."""

import asyncio
import contextvars
import functools
import os
import re
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import anyio.abc
import msgspec
import pytest
from pydantic import BaseModel

from argstream.agent.tools import Tool, ToolContext, failure_message, tool
from argstream.errors import ToolError, UsageError
from argstream.events import ToolCallCompleted, to_json
from tests.agent.tools.calling import Consumer, run

pytestmark = pytest.mark.anyio


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


def in_both(function: Callable[[], Any]) -> list[Callable[..., Any]]:

    def in_thread() -> Any:
        return function()

    async def in_loop() -> Any:
        return function()

    return [in_thread, in_loop]


async def test_async_tool_runs_in_the_loop_and_sync_tool_in_a_thread() -> None:
    def where() -> list[Any]:
        return [threading.current_thread() is threading.main_thread(), VARIABLE.get()]

    VARIABLE.set("set")
    in_thread, in_loop = in_both(where)
    assert (await run(in_thread)) == [False, "set"]
    assert (await run(in_loop)) == [True, "set"]


async def test_awaitable_of_a_sync_wrapper_is_awaited() -> None:
    async def hello(name: str) -> str:
        return f"hello {name}"

    @functools.wraps(hello)
    def wrapper(name: str) -> Awaitable[str]:
        return hello(name)

    assert (await run(wrapper, name="you")) == "hello you"


async def test_output_keeps_its_order_in_the_loop_and_in_threads() -> None:
    async def in_loop(context: ToolContext) -> None:
        context.output("a")
        context.output("")
        context.output("b\ud800")

    def in_thread(context: ToolContext) -> None:
        context.output("a")
        worker = threading.Thread(target=context.output, args=("b\ud800",))
        worker.start()
        worker.join()

    for function in (in_loop, in_thread):
        output: list[str] = []
        await run(function, output)
        assert output == ["a", "b\ufffd"]


@tool
def floods(context: ToolContext) -> str:
    for _ in range(200):
        context.output("x")
    return "done"


@tool
def floods_by_yielding() -> Generator[str, None, str]:
    for _ in range(200):
        yield "x"
    return "done"


@tool
async def floods_in_loop() -> AsyncIterator[str]:
    for _ in range(200):
        yield "x"


@pytest.mark.parametrize("flood", [floods, floods_by_yielding, floods_in_loop])
async def test_tool_waits_until_its_consumer_has_room_and_can_be_cancelled(flood: Tool) -> None:
    threads = threading.active_count()
    consumer = Consumer()
    task = await consumer.start(flood)
    await asyncio.sleep(0.02)
    assert consumer.output == ["x"]
    assert not task.done()
    consumer.has_room.set()
    await task
    assert consumer.output == ["x"] * 200

    task = await Consumer().start(flood)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    while threading.active_count() > threads:
        await asyncio.sleep(0.001)


async def letters_async(word: str) -> AsyncIterator[str]:
    for letter in word:
        await asyncio.sleep(0)
        yield letter


def async_letters(word: str) -> AsyncIterator[str]:
    return letters_async(word)


def letters_sync(word: str) -> Iterator[str]:
    yield from word


def letters_counted(word: str) -> Generator[str, None, int]:
    yield from word
    return len(word)


@pytest.mark.parametrize(
    ("function", "result"),
    [(letters_async, "abc"), (letters_sync, "abc"), (async_letters, "abc"), (letters_counted, 3)],
)
async def test_generator_yields_output_and_has_a_result(function: Any, result: Any) -> None:
    output: list[str] = []
    assert (await run(function, output, word="abc")) == result
    assert output == ["a", "b", "c"]


async def test_output_that_is_no_text_raises_and_closes_a_generator() -> None:
    closed = []

    async def write(context: ToolContext) -> None:
        context.output(b"bytes")  # type: ignore[arg-type]  # on purpose

    def sync_numbers() -> Iterator[int]:
        try:
            yield 1
        finally:
            closed.append("sync")

    async def async_numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            closed.append("async")

    with pytest.raises(UsageError, match="takes a str, not bytes"):
        await run(write)
    for function in (sync_numbers, async_numbers):
        with pytest.raises(UsageError, match="Yield str, or return the result"):
            await run(function)
    assert closed == ["sync", "async"]


class Point(BaseModel):
    x: int


@dataclass
class Pair:
    left: object


class Record(msgspec.Struct):
    name: str


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        (None, None),
        (type("Text", (str,), {})("text"), "text"),
        ("a\ud800\udc00b\udc00", "a\U00010000b\ufffd"),
        ({"k\ud800": ["\udfff"]}, {"k\ufffd": ["\ufffd"]}),
        (b"caf\xc3\xa9", "café"),
        ([b"\xff"], ["_w=="]),
        ((1, 2.5, True), [1, 2.5, True]),
        ([float("nan"), float("-inf")], ["NaN", "-Infinity"]),
        ([float("nan"), b"\xff"], ["NaN", "_w=="]),
        ({"\ud800": float("inf")}, {"\ufffd": "Infinity"}),
        ([float("inf"), "\ud800"], ["Infinity", "\ufffd"]),
        (Point(x=1), {"x": 1}),
        (Pair(Record("n")), {"left": {"name": "n"}}),
        ({HTTPStatus.OK: HTTPStatus.OK}, {"200": 200}),
        (datetime(2026, 3, 4, tzinfo=UTC), "2026-03-04T00:00:00Z"),
        ([timedelta(1), Decimal("1.50"), UUID(int=1)], ["P1D", "1.50", str(UUID(int=1))]),
        (Path("/srv") / "x", "/srv/x"),
        ({"odd": Fraction(1, 2)}, {"odd": "1/2"}),
        (10**30, 10**30),
    ],
)
async def test_result_is_converted_to_json_data(returned: Any, result: Any) -> None:
    for function in in_both(lambda: returned):
        found = await run(function)
        assert (found, type(found)) == (result, type(result))
        to_json(ToolCallCompleted("c", "n", {}, found))  # an event can carry it


async def test_result_is_a_copy_of_the_tools_data() -> None:
    kept = {"a": [1]}
    found = await run(in_both(lambda: kept)[0])
    kept["a"].append(2)
    assert found == {"a": [1]}


class Broken:
    def __str__(self) -> str:
        raise KeyError("no text")


NESTED: list[Any] = functools.reduce(lambda inner, _: [inner], range(100_000), [])
CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "returned", [NESTED, CIRCLE, Broken(), 10**5000], ids=["deep", "circle", "broken", "long"]
)
async def test_result_that_is_no_json_fails_and_says_that_the_tool_has_run(returned: Any) -> None:
    def give() -> Any:
        return returned

    with pytest.raises(ToolError, match="give has run, but its result cannot be encoded as JSON"):
        await run(give)


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "message", "ways"),
    [
        (StopIteration(), "StopIteration", 1),  # a coroutine cannot raise these two
        (KeyboardInterrupt(), "end the program: KeyboardInter", 1),
        (SystemExit(3), "tried to end the program", 2),
        (asyncio.CancelledError(), "tried to end the program|was cancelled by something in it", 2),
        (GeneratorExit(), "tried to end the program", 2),
    ],
)
async def test_tool_can_neither_end_the_program_nor_cancel_its_run(
    error: BaseException, message: str, ways: int
) -> None:
    for function in in_both(raising(error))[:ways]:
        with pytest.raises(ToolError) as raised:
            await run(function)
        assert re.search(message, failure_message(raised.value))
        await asyncio.sleep(0)


async def cancels_its_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(10)


async def leaves_a_scope_open() -> None:
    scope = anyio.CancelScope()
    scope.__enter__()
    scope.cancel()
    await anyio.sleep(10)


async def cancels_itself_by_yielding() -> AsyncIterator[str]:
    await cancels_its_task()
    yield "never"


@pytest.mark.parametrize(
    "function", [cancels_its_task, leaves_a_scope_open, cancels_itself_by_yielding]
)
def test_tool_that_cancels_itself_cancels_nothing_else(function: object) -> None:
    async def main() -> str:
        async with anyio.create_task_group() as tasks:  # as a runner has one
            try:
                await run(function)
            except ToolError as failure:
                await anyio.sleep(0.01)
                assert not tasks.cancel_scope.cancel_called
                return str(failure)
        return "nothing was raised"

    assert "was cancelled by something in it" in asyncio.run(main())


def test_cancelling_all_tasks_cancels_the_run_of_a_tool() -> None:
    async def waits() -> None:
        started.set()
        await asyncio.sleep(10)

    async def main() -> None:
        task = asyncio.create_task(run(waits))
        await started.wait()
        for other in asyncio.all_tasks() - {asyncio.current_task()}:  # as at the end of a loop
            other.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    started = asyncio.Event()
    asyncio.run(main())


def test_ctrl_c_reaches_the_program_while_an_async_tool_runs() -> None:
    async def press() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(10)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run(press))


def test_failure_message_is_short_and_printable() -> None:
    group = ExceptionGroup("two", [ValueError("a"), KeyError("b")])
    for error, message in (
        (ValueError(), "ValueError"),
        (TimeoutError("too long"), "too long"),
        (TimeoutError(), "TimeoutError"),
        (ValueError("\ud800"), "ValueError: \ufffd"),
        (group, "two (2 sub-exceptions): ValueError: a; KeyError: 'b'"),
    ):
        assert failure_message(error) == message
    assert len(failure_message(ValueError("x" * 100_000))) < 5_000
    assert "cannot be had" in failure_message(ValueError(Broken()))


# Timeouts and stops (the threat "tool runs on after time-out or stop")


async def grow_async(path: str) -> None:
    while True:
        with Path(path).open("a") as file:
            file.write("x")
        await asyncio.sleep(0.001)


async def grow_generator(path: str) -> AsyncIterator[str]:
    while True:
        with Path(path).open("a") as file:
            file.write("x")
        yield "x"
        await asyncio.sleep(0.001)


async def grow_after_a_cancellation(path: str) -> str:
    try:
        await grow_async(path)
    except asyncio.CancelledError:
        await grow_async(path)
    return "never"


@pytest.mark.parametrize("way", ["time", "stop"])
@pytest.mark.parametrize("function", [grow_async, grow_generator, grow_after_a_cancellation])
async def test_async_tool_has_no_effects_after_its_timeout_or_a_stop(
    function: Callable[..., Any], way: str, tmp_path: Path
) -> None:
    target = tmp_path / "file"
    target.touch()
    given = tool(timeout=0.05 if way == "time" else None)(function)
    task = asyncio.create_task(run(given, path=str(target)))
    while not target.stat().st_size:
        await asyncio.sleep(0.001)
    if way == "stop":
        task.cancel()
    with pytest.raises(TimeoutError if way == "time" else asyncio.CancelledError):
        await task
    before = target.stat().st_size
    await asyncio.sleep(0.02)
    assert target.stat().st_size == before


@pytest.mark.parametrize("way", ["time", "stop"])
async def test_cancelled_tool_has_time_to_clean_up(way: str) -> None:
    events: list[object] = []

    @tool(timeout=0.05 if way == "time" else None)
    async def tidy(context: ToolContext) -> None:
        try:
            events.append("started")
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(0.02)
            events.append(context.cancelled)
            context.output("tidied up")

    output: list[str] = []
    task = asyncio.create_task(run(tidy, output))
    while not events:
        await asyncio.sleep(0.001)
    if way == "stop":
        task.cancel()
    with pytest.raises(TimeoutError if way == "time" else asyncio.CancelledError):
        await task
    assert (events, output) == (["started", True], ["tidied up"])


async def test_tool_that_ignores_cancellations_is_cancelled_until_it_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started, ignored = asyncio.Event(), list[int]()

    async def ignore() -> None:
        started.set()
        for number in range(3):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ignored.append(number)

    monkeypatch.setattr("argstream._asyncio._CLEANUP", 0.05)
    task = asyncio.create_task(run(ignore))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert ignored == [0, 1, 2]


async def test_second_cancellation_leaves_a_tool_the_time_to_clean_up() -> None:
    cleaned_up: list[bool] = []
    started = asyncio.Event()

    async def tidy() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.02)
            cleaned_up.append(True)

    task = asyncio.create_task(run(tidy))
    await started.wait()
    while not task.done():  # as a cancel scope of anyio does
        task.cancel()
        await asyncio.sleep(0)
    assert task.cancelled()
    assert cleaned_up == [True]


async def test_result_and_output_of_a_thread_after_its_timeout_are_dropped() -> None:
    release = threading.Event()
    cancelled: list[bool] = []

    @tool(timeout=0.05)
    def stuck(context: ToolContext) -> str:
        cancelled.append(context.cancelled)
        release.wait(10)
        cancelled.append(context.cancelled)
        context.output("too late")
        release.clear()
        return "too late"

    output: list[str] = []
    with pytest.raises(TimeoutError):
        await run(stuck, output)
    release.set()
    while release.is_set():
        await asyncio.sleep(0.001)
    assert output == []
    assert cancelled == [False, True]


async def test_generator_in_a_thread_ends_at_its_next_yield_after_a_timeout() -> None:
    closed = threading.Event()

    @tool(timeout=0.05)
    def endless() -> Iterator[str]:
        try:
            while True:
                time.sleep(0.002)
                yield "x"
        finally:
            closed.set()

    with pytest.raises(TimeoutError):
        await run(endless)
    assert await asyncio.to_thread(closed.wait, 5)


async def test_threads_that_never_end_leave_room_for_other_tools() -> None:
    release = threading.Event()

    @tool(timeout=0.05)
    def stuck() -> None:
        release.wait(30)

    stopped = await asyncio.gather(*(run(stuck) for _ in range(50)), return_exceptions=True)
    assert all(isinstance(error, TimeoutError) for error in stopped)
    try:
        assert (await asyncio.wait_for(run(in_both(lambda: "done")[0]), 20)) == "done"
    finally:
        release.set()


async def test_timeout_is_raised_although_the_tool_handles_its_cancellation() -> None:
    @tool(timeout=0.02)
    async def returns() -> str:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return "whatever"
        return ""

    @tool(timeout=0.02)
    async def fails() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            raise OSError("cleaning up failed")

    @tool(timeout=5)
    async def has_its_own() -> None:
        raise TimeoutError("the server did not answer")

    for function, message in (
        (returns, "returns was stopped: it took longer than 0.02 s"),
        (fails, "fails was stopped: it took longer than 0.02 s"),
        (has_its_own, "the server did not answer"),
    ):
        with pytest.raises(TimeoutError, match=message):
            await run(function)
