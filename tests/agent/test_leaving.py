"""Runs that are stopped, left, or followed slowly: at any moment, nothing goes on behind them."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import pytest

from argstream.agent import Agent, AgentRun, Conversation, tool
from argstream.clients import CallTool, ModelRequest, Reply, ScriptedModel
from argstream.errors import UsageError
from argstream.events import (
    Event,
    RunStopped,
    TextDelta,
    ToolArgsInvalid,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolOutputDelta,
)
from argstream.log import Record
from tests.agent.following import Effects, add, complete, one, only
from tests.agent.histories import results_of
from tests.providers import anthropic_call, message_end, message_start


@pytest.mark.parametrize("after", [TextDelta, ToolCallStarted, ToolExecutionStarted])
def test_a_run_can_be_stopped_from_outside_at_any_time(after: type[Event]) -> None:
    was_cancelled: list[bool] = []

    async def sleep() -> None:
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            was_cancelled.append(True)
            raise

    async def stopped() -> list[Event]:
        conversation = Conversation()
        model = ScriptedModel(Reply("I sleep.", CallTool("sleep")), "Never", delay=0.01)
        run = Agent(model, [sleep]).run_stream("Go", conversation)
        events = []
        async for event in run:
            events.append(event)
            if isinstance(event, after):
                await asyncio.sleep(0.05 * (after is ToolExecutionStarted))  # it has begun
                run.stop("enough")
        assert conversation.run_id is None
        return events

    events = complete(stopped)
    assert one(events, RunStopped).reason == "enough"
    assert isinstance(events[-1], RunStopped)
    started = only(events, ToolCallStarted)
    assert len(started) == len(only(events, ToolCallFailed))
    assert was_cancelled == [True] * (after is ToolExecutionStarted)


def test_to_leave_the_loop_stops_the_run_and_frees_the_conversation() -> None:
    was_cancelled: list[bool] = []

    async def sleep() -> None:
        try:
            await asyncio.sleep(20)
        finally:
            was_cancelled.append(True)

    conversation = Conversation()
    agent = Agent(ScriptedModel(CallTool("sleep"), "Never", "Again"), [sleep])
    for event in agent.run("Go", conversation, stream=True):
        if isinstance(event, ToolExecutionStarted):
            break
    assert was_cancelled == [True]
    assert conversation.run_id is None
    assert len(results_of(conversation.messages[-1])) == 1


@pytest.mark.parametrize("way", ["break", "raise", "cancel"])
def test_to_leave_an_async_loop_stops_the_run_too(way: str) -> None:
    ticks: list[int] = []

    async def tick() -> None:
        for number in range(100):
            ticks.append(number)
            await asyncio.sleep(0.01)

    async def following(agent: Agent) -> None:
        async for event in agent.run_stream("Go"):
            if isinstance(event, ToolExecutionStarted):
                await asyncio.sleep(0.03)
                if way == "raise":
                    raise ValueError("of the one who follows")
                if way == "cancel":
                    await asyncio.sleep(20)
                break

    async def leaving() -> int:
        heard: list[Record] = []
        model = ScriptedModel(CallTool("tick"), "Never")
        task = asyncio.create_task(following(Agent(model, [tick], on_event=heard.append)))
        await asyncio.wait([task], timeout=0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        del task
        await asyncio.sleep(0.02)
        before = len(ticks)
        await asyncio.sleep(0.05)
        assert isinstance(heard[-1].event, RunStopped)
        return len(ticks) - before

    assert complete(leaving) == 0


def test_a_program_ends_although_somebody_holds_a_run_that_was_left() -> None:
    code = """
from argstream import Agent, ScriptedModel
from argstream.clients import CallTool
import time

def sleep() -> None:
    time.sleep(30)

events = Agent(ScriptedModel(CallTool("sleep")), [sleep]).run("Go", stream=True)
print(next(events).type)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert (done.stdout, done.stderr) == ("run_started\n", "")


def test_a_run_can_be_stopped_before_it_begins_and_from_a_callback() -> None:
    async def before() -> list[Event]:
        run = Agent(ScriptedModel("Hello")).run_stream("Go")
        run.stop("changed my mind")
        return [event async for event in run]

    async def from_a_callback() -> list[Event]:
        run = Agent(ScriptedModel(Reply("Hello, " * 100), delay=0.01)).run_stream("Go")
        asyncio.get_running_loop().call_later(0.05, run.stop, "by a signal")
        return [event async for event in run]

    assert one(complete(before), RunStopped).reason == "changed my mind"
    assert one(complete(from_a_callback), RunStopped).reason == "by a signal"


def test_what_has_come_when_a_run_is_stopped_is_not_acted_on() -> None:
    effects = Effects()

    async def stopping() -> list[Event]:
        gate = asyncio.get_running_loop().create_future()

        async def model() -> AsyncIterator[object]:
            await gate
            for payload in anthropic_call('{"path": "a"}'):
                yield payload

        run = Agent(model(), [effects.write]).run_stream("Go")
        events = []

        def at_once() -> None:
            gate.set_result(None)
            run.stop()

        asyncio.get_running_loop().call_later(0.02, at_once)
        async for event in run:
            events.append(event)  # noqa: PERF401 - as it comes
        return events

    events = complete(stopping)
    assert isinstance(events[-1], RunStopped)
    assert not only(events, ToolExecutionStarted)
    assert effects.seen == []


def test_a_tool_may_close_its_own_run() -> None:
    runs: list[AgentRun] = []

    async def suicide() -> None:
        await runs[0].aclose()
        await asyncio.sleep(20)

    async def following() -> list[Event]:
        runs.append(Agent(ScriptedModel(CallTool("suicide")), [suicide]).run_stream("Go"))
        return [event async for event in runs[0]]

    assert isinstance(complete(following)[-1], RunStopped)


def test_who_is_cut_off_by_the_end_of_its_event_loop_leaves_a_conversation_that_goes_on() -> None:
    async def sleep() -> None:
        await asyncio.sleep(20)

    conversation = Conversation()
    agent = Agent(ScriptedModel(CallTool("sleep"), "Again"), [sleep])
    runs: list[AgentRun] = []

    async def lost() -> None:
        runs.append(agent.run_stream("Go", conversation))
        async for event in runs[0]:
            if isinstance(event, ToolExecutionStarted):
                return

    asyncio.run(lost())
    assert conversation.run_id is None
    assert agent.run("Again", conversation).text == "Again"


def test_a_call_that_was_being_written_when_its_event_loop_ended_is_aborted() -> None:
    events: list[Event] = []
    model = ScriptedModel(CallTool("add", {"a": 1, "b": 2}), delay=0.01)
    agent = Agent(model, [add], on_event=lambda record: events.append(record.event))
    run = agent.run_stream("Go")

    async def lost() -> None:
        async for event in run:
            if isinstance(event, ToolCallStarted):
                asyncio.get_running_loop().stop()
                await asyncio.sleep(20)

    with pytest.raises(RuntimeError, match="Event loop stopped"):
        asyncio.run(lost())
    assert one(events, ToolArgsInvalid).verdict == "aborted"
    assert run.result.tools[0].verdict == "aborted"


def test_output_waits_for_a_slow_reader() -> None:
    said = 0

    async def chatter() -> AsyncIterator[str]:
        nonlocal said
        for _ in range(10_000):
            said += 1
            yield "word "

    async def slow() -> None:
        async with Agent(ScriptedModel(CallTool("chatter"), "Done."), [chatter]).run_stream(
            "Go"
        ) as run:
            async for event in run:
                if isinstance(event, ToolOutputDelta):
                    break
            await asyncio.sleep(0.1)
            assert said < 1000

    complete(slow)


def test_a_slow_reader_holds_the_model_back_instead_of_memory() -> None:
    written = 0

    async def model(request: ModelRequest) -> AsyncIterator[object]:  # noqa: ARG001 - a script
        async def payloads() -> AsyncIterator[object]:
            nonlocal written
            yield message_start()
            for _ in range(10_000):
                written += 1
                delta = {"type": "text_delta", "text": "x"}
                yield {"type": "content_block_delta", "index": 0, "delta": delta}
            for payload in message_end("end_turn"):
                yield payload

        return payloads()

    async def slow() -> None:
        async with Agent(model).run_stream("Go") as run:
            await anext(run)
            await anext(run)
            await asyncio.sleep(0.1)

    complete(slow)
    assert 0 < written < 1000


def test_the_sync_face_does_not_wait_for_a_thread_that_a_tool_left_behind() -> None:
    @tool(timeout=0.1)
    async def slow() -> None:
        await asyncio.to_thread(time.sleep, 3)

    start = time.perf_counter()
    Agent(ScriptedModel(CallTool("slow"), "Oh."), [slow]).run("Go")
    assert time.perf_counter() - start < 2


def test_a_run_that_somebody_follows_cannot_be_waited_for_elsewhere() -> None:
    async def following() -> None:
        async with Agent(ScriptedModel(Reply("Hello"), delay=0.01)).run_stream("Go") as run:
            await anext(run)
            with pytest.raises(UsageError, match="follows this run already"):
                run.wait()

    complete(following)


def test_two_iterators_do_not_share_a_run() -> None:
    run = Agent(ScriptedModel("Hello", delay=0.01)).run_stream("Go")
    first, second = iter(run), iter(run)
    assert next(first).type == "run_started"
    with pytest.raises(UsageError, match="follows this run already"):
        next(second)
    assert [event.type for event in first][-1] == "run_completed"
