"""A tool runs once, to its end, and no longer than it may: in the event loop or in a thread."""

import asyncio
import contextvars
import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import anyio.abc
import msgspec
import pytest
from pydantic import BaseModel

from argstream.agent.tools import Tool, ToolContext, failure_words, tool
from argstream.errors import ToolFailure, UsageError
from argstream.events import ToolCallCompleted, to_json
from tests.agent.tools.calling import context_for, run

pytestmark = pytest.mark.anyio


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


# Where a tool runs


def test_an_async_tool_runs_in_the_event_loop_and_a_sync_one_in_a_thread() -> None:
    async def here() -> bool:
        return threading.current_thread() is threading.main_thread()

    def there() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert asyncio.run(run(here)) is True
    assert asyncio.run(run(there)) is False


async def test_a_thread_has_the_context_variables_of_the_run() -> None:
    def read() -> str:
        return VARIABLE.get()

    VARIABLE.set("set")
    assert (await run(read)) == "set"


async def test_what_a_sync_wrapper_returns_is_awaited() -> None:
    def logged(function: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Awaitable[str]:
            return function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    async def hello(name: str) -> str:
        return f"hello {name}"

    assert (await run(hello, name="you")) == "hello you"


async def test_the_context_says_whose_call_it_is() -> None:
    @tool(name="asked")
    def who(context: ToolContext) -> list[Any]:
        return [context.run_id, context.call_id, context.name, context.idempotency_key]

    assert (await run(who)) == ["run-1", "call-1", "asked", "key-1"]


# What it says


def test_output_comes_in_order_from_the_loop_and_from_threads() -> None:
    async def here(context: ToolContext) -> None:
        context.output("a")
        context.output("")
        context.output("b\ud800")

    def there(context: ToolContext) -> None:
        context.output("a")
        worker = threading.Thread(target=context.output, args=("b\ud800",))
        worker.start()
        worker.join()

    for function in (here, there):
        said: list[str] = []
        asyncio.run(run(function, said))
        assert said == ["a", "b\ufffd"]


def test_output_is_text() -> None:
    async def say(context: ToolContext) -> None:
        context.output(b"bytes")  # type: ignore[arg-type]  # on purpose

    with pytest.raises(UsageError, match="takes a str, not bytes"):
        asyncio.run(run(say))


class Reader:
    """Somebody who follows, and has no room until he says so."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.has_room = asyncio.Event()

    async def room(self) -> None:
        await self.has_room.wait()

    def start(self, given: Tool) -> "asyncio.Task[Any]":
        context = ToolContext("r", "c", given.name, "k", self.said.append, self.room)
        return asyncio.create_task(given.execute(given.bind(""), context))


@tool
def floods(context: ToolContext) -> str:
    for _ in range(1000):
        context.output("x")
    return "done"


@tool
def floods_by_yielding() -> Generator[str, None, str]:
    for _ in range(1000):
        yield "x"
    return "done"


@tool
async def floods_in_loop() -> AsyncIterator[str]:
    for _ in range(1000):
        yield "x"


@pytest.mark.parametrize("flood", [floods, floods_by_yielding, floods_in_loop])
async def test_a_tool_waits_until_who_follows_has_room(flood: Tool) -> None:
    reader = Reader()
    task = reader.start(flood)
    while not reader.said:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.02)
    assert reader.said == ["x"]
    assert not task.done()
    reader.has_room.set()
    await task
    assert reader.said == ["x"] * 1000


@pytest.mark.parametrize("flood", [floods, floods_by_yielding, floods_in_loop])
async def test_a_tool_that_waits_for_room_can_be_stopped(flood: Tool) -> None:
    before = threading.active_count()
    task = Reader().start(flood)
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        await asyncio.sleep(0.001)
    assert threading.active_count() == before


def async_letters(word: str) -> AsyncIterator[str]:
    async def letters() -> AsyncIterator[str]:
        for letter in word:
            yield letter

    return letters()


async def letters_async(word: str) -> AsyncIterator[str]:
    for letter in word:
        await asyncio.sleep(0)
        yield letter


def letters_sync(word: str) -> Iterator[str]:
    yield from word


@pytest.mark.parametrize("function", [letters_async, letters_sync, async_letters])
async def test_what_a_generator_yields_is_output_and_all_of_it_is_the_result(function: Any) -> None:
    said: list[str] = []
    assert (await run(function, said, word="abc")) == "abc"
    assert said == ["a", "b", "c"]


async def test_what_a_generator_returns_is_its_result() -> None:
    def count() -> Generator[str, None, int]:
        yield "one "
        return 1

    said: list[str] = []
    assert (await run(count, said)) == 1
    assert said == ["one "]


def test_a_generator_yields_text_and_is_closed_if_it_does_not() -> None:
    closed = []

    def numbers() -> Iterator[int]:
        try:
            yield 1
        finally:
            closed.append("sync")

    async def more() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            closed.append("async")

    for function in (numbers, more):
        with pytest.raises(UsageError, match="yielded int, but what a tool yields is text"):
            asyncio.run(run(function))
    assert closed == ["sync", "async"]


# What comes of it


class Text(str):
    __slots__ = ()


class Size(IntEnum):
    BIG = 3


class Point(BaseModel):
    x: int


@dataclass
class Pair:
    left: object


class Record(msgspec.Struct):
    name: str


class Odd:
    def __str__(self) -> str:
        return "odd"


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        (None, None),
        (Text("text"), "text"),
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
        ({Size.BIG: Size.BIG}, {"3": 3}),
        (datetime(2026, 3, 4, tzinfo=UTC), "2026-03-04T00:00:00Z"),
        ([timedelta(1), Decimal("1.50"), UUID(int=1)], ["P1D", "1.50", str(UUID(int=1))]),
        (Path("/srv") / "x", "/srv/x"),
        ({"odd": Odd()}, {"odd": "odd"}),
        (10**30, 10**30),
    ],
)
def test_a_result_is_jsonable_data(returned: Any, result: Any) -> None:
    def give() -> Any:
        return returned

    async def give_async() -> Any:
        return returned

    for function in (give, give_async):
        found = asyncio.run(run(function))
        assert (found, type(found)) == (result, type(result))
        to_json(ToolCallCompleted("c", "n", {}, found))  # an event can carry it


async def test_a_result_shares_nothing_with_what_the_tool_keeps() -> None:
    kept = {"a": [1]}

    def give() -> Any:
        return kept

    found = await run(give)
    kept["a"].append(2)
    assert found == {"a": [1]}


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


class Broken:
    def __str__(self) -> str:
        raise KeyError("no text")


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "returned",
    [nested(100_000), CIRCLE, Broken(), 10**5000],
    ids=["deep", "circle", "broken", "long"],
)
def test_a_result_that_cannot_be_told_is_a_failure_that_says_that_it_has_run(returned: Any) -> None:
    def give() -> Any:
        return returned

    with pytest.raises(ToolFailure, match="give has run, but what it returned cannot be written"):
        asyncio.run(run(give))


# What goes wrong in it


def test_what_a_tool_raises_is_raised() -> None:
    def sync() -> None:
        raise FileNotFoundError(2, "No such file", "x")

    async def in_loop() -> None:
        raise FileNotFoundError(2, "No such file", "x")

    for function in (sync, in_loop):
        with pytest.raises(FileNotFoundError) as raised:
            asyncio.run(run(function))
        words = "FileNotFoundError: [Errno 2] No such file: 'x'"
        assert failure_words(raised.value) == words


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (StopIteration(), "StopIteration"),
        (KeyboardInterrupt(), "end the program: KeyboardInter"),
    ],
)
async def test_what_no_coroutine_should_raise_is_a_failure_of_a_tool_in_a_thread(
    error: BaseException, told: str
) -> None:
    def sync() -> None:
        raise error

    with pytest.raises(ToolFailure) as raised:
        await run(sync)
    assert told in failure_words(raised.value)


@pytest.mark.parametrize("ending", [SystemExit(3), asyncio.CancelledError(), GeneratorExit()])
def test_a_tool_cannot_end_the_program_nor_look_like_a_cancelled_run(
    ending: BaseException,
) -> None:
    def sync() -> None:
        raise ending

    async def in_loop() -> None:
        raise ending

    async def survives(function: object) -> str:
        try:
            await run(function)
        except ToolFailure as failure:
            await asyncio.sleep(0)
            return str(failure)
        return "nothing was raised"

    for function in (sync, in_loop):
        told = asyncio.run(survives(function))
        assert "tried to end the program" in told or "was cancelled by something in it" in told


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
def test_a_tool_that_cancels_itself_ends_nothing_else(function: object) -> None:
    async def main() -> str:
        async with anyio.create_task_group() as tasks:  # as a runner has one
            try:
                await run(function)
            except ToolFailure as failure:
                await anyio.sleep(0.01)  # whoever runs it goes on
                assert not tasks.cancel_scope.cancel_called
                return str(failure)
        return "nothing was raised"

    assert "was cancelled by something in it" in asyncio.run(main())


def test_a_run_that_is_cancelled_with_its_tool_is_cancelled() -> None:
    async def waits() -> None:
        await asyncio.sleep(10)

    async def main() -> None:
        task = asyncio.create_task(run(waits))
        await asyncio.sleep(0.01)
        for one in asyncio.all_tasks() - {asyncio.current_task()}:  # as at the end of a loop
            one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_ctrl_c_reaches_the_program_while_an_async_tool_runs() -> None:
    async def press() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(10)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run(press))


def test_failures_are_told_in_few_words() -> None:
    assert failure_words(ValueError()) == "ValueError"
    assert failure_words(TimeoutError("too long")) == "too long"
    assert failure_words(TimeoutError()) == "TimeoutError"
    group = ExceptionGroup("two", [ValueError("a"), KeyError("b")])
    assert failure_words(group) == "two (2 sub-exceptions): ValueError: a; KeyError: 'b'"
    assert len(failure_words(ValueError("x" * 100_000))) < 5_000
    assert failure_words(ValueError("\ud800")) == "ValueError: \ufffd"
    assert "cannot be had" in failure_words(ValueError(Broken()))


# Time, and who stops it: "tool runs on after time-out or stop" of the threats


def growing(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


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


async def grow_stubbornly(path: str) -> str:
    """Does not take one cancellation for an answer."""
    try:
        await grow_async(path)
    except asyncio.CancelledError:
        await grow_async(path)
    return "never"


@pytest.mark.parametrize("way", ["time", "stop"])
@pytest.mark.parametrize("function", [grow_async, grow_generator, grow_stubbornly])
async def test_an_async_tool_has_no_effects_after_its_time_or_a_stop(
    function: Callable[..., Any], way: str, tmp_path: Path
) -> None:
    target = tmp_path / "file"
    given = tool(timeout=0.05 if way == "time" else None)(function)
    task = asyncio.create_task(run(given, path=str(target)))
    while not growing(target):
        await asyncio.sleep(0.001)
    if way == "stop":
        task.cancel()
    with pytest.raises(TimeoutError if way == "time" else asyncio.CancelledError):
        await task
    before = growing(target)
    await asyncio.sleep(0.05)
    assert growing(target) == before


async def test_a_thread_is_told_and_its_result_and_output_are_dropped() -> None:
    release = threading.Event()
    told: list[bool] = []

    @tool(timeout=0.05)
    def stuck(context: ToolContext) -> str:
        told.append(context.cancelled)
        release.wait(10)
        told.append(context.cancelled)
        context.output("too late")
        release.clear()
        return "too late"

    said: list[str] = []
    with pytest.raises(TimeoutError):
        await run(stuck, said)
    release.set()
    while release.is_set():
        await asyncio.sleep(0.001)
    assert said == []
    assert told == [False, True]


def test_a_generator_in_a_thread_ends_at_its_next_text() -> None:
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
        asyncio.run(run(endless))
    assert closed.wait(5)


async def test_threads_that_never_end_take_no_place_from_others() -> None:
    release = threading.Event()

    @tool(timeout=0.1)
    def stuck() -> None:
        release.wait(30)

    def quick() -> str:
        return "done"

    stopped = await asyncio.gather(*(run(stuck) for _ in range(150)), return_exceptions=True)
    assert all(isinstance(one, TimeoutError) for one in stopped)
    try:
        assert (await asyncio.wait_for(run(quick), 5)) == "done"
    finally:
        release.set()


def test_a_thread_that_never_ends_does_not_hold_up_the_end_of_the_program() -> None:
    program = """
import asyncio, time
from argstream.agent.tools import tool
from argstream.agent.tools import ToolContext

@tool(timeout=0.05)
def stuck():
    time.sleep(1000)

async def main():
    try:
        await stuck.execute(stuck.bind(""), ToolContext("r", "c", "stuck", "k", print))
    except TimeoutError as error:
        print(error)

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout == "stuck was stopped: it took longer than 0.05 s\n"


def test_a_time_out_of_the_tools_own_is_not_ours() -> None:
    @tool(timeout=5)
    async def impatient() -> None:
        raise TimeoutError("the server did not answer")

    with pytest.raises(TimeoutError, match="the server did not answer"):
        asyncio.run(run(impatient))


def test_a_tool_that_takes_being_cancelled_for_its_end_has_still_timed_out() -> None:
    @tool(timeout=0.02)
    async def shrugs() -> str:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return "whatever"
        return ""

    @tool(timeout=0.02)
    async def falls_over() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            raise OSError("cleaning up failed")

    for function in (shrugs, falls_over):
        with pytest.raises(TimeoutError, match="was stopped"):
            asyncio.run(run(function))


async def test_a_bound_call_is_executed_once() -> None:
    @tool
    async def once() -> None: ...

    bound = once.bind(json.dumps({}))
    await once.execute(bound, context_for("once"))
    with pytest.raises(UsageError, match="bind the text anew"):
        await once.execute(bound, context_for("once"))
