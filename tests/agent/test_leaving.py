"""Runs that are stopped, left, or read slowly: nothing continues in the background."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from argstream import events as ev
from argstream.agent import Agent, Approve, Conversation, Run, Streamed, tool
from argstream.errors import TextInterruptedError, UsageError
from argstream.events import Event, RunStopped, TextDelta, ToolExecutionStarted
from argstream.models import CallTool, ModelRequest, Reply, ScriptedModel
from argstream.runs import MemoryStore, Record
from tests import provider_streams as ps
from tests.agent.following import Effects, Slow, add, collect, complete, events_of, one, only
from tests.agent.histories import results_of
from tests.agent.ordering import check_order
from tests.provider_streams import Payload

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("after", [TextDelta, ev.ToolCallStarted, ToolExecutionStarted])
async def test_run_can_be_stopped_at_any_time(after: type[Event]) -> None:
    conversation, slow = Conversation(), Slow()
    model = ScriptedModel(Reply("I sleep.", CallTool("wait")), "Never", delay=0.01)
    run = Agent(model, [slow.wait]).run_stream("Go", conversation)

    async def stop(_: object) -> None:
        if after is ToolExecutionStarted:
            await slow.started.wait()
        run.stop("enough")

    events = await collect(run, after, stop)
    assert conversation.run_id is None
    assert one(events, RunStopped).reason == "enough"
    assert isinstance(events[-1], RunStopped)
    assert len(only(events, ev.ToolCallStarted)) == len(only(events, ev.ToolCallFailed))
    assert slow.cancelled == (after is ToolExecutionStarted)


async def test_run_can_be_stopped_before_it_begins_and_from_a_callback() -> None:
    agent = Agent(ScriptedModel(Reply("Hello, " * 100), repeat=True, delay=0.01))
    run = agent.run_stream("Go")
    run.stop("changed my mind")
    assert one(await collect(run), RunStopped).reason == "changed my mind"
    run = agent.run_stream("Go")
    asyncio.get_running_loop().call_later(0.05, run.stop, "by a signal")
    assert one(await collect(run), RunStopped).reason == "by a signal"
    stored = Agent(ScriptedModel("Hi"), store=MemoryStore()).run_stream("Go")
    stored.stop("not needed")
    assert isinstance(await stored.finished(None), RunStopped)  # driven without a consumer


@pytest.mark.parametrize("way", ["break", "raise", "cancel"])
async def test_leaving_an_async_loop_stops_the_run(way: str) -> None:
    slow, over = Slow(), asyncio.Event()
    received: list[Event] = []

    def note(record: Record) -> None:
        received.append(record.event)
        if isinstance(record.event, RunStopped):
            over.set()

    async def following() -> None:
        agent = Agent(ScriptedModel(CallTool("wait"), "Never"), [slow.wait], on_event=note)
        async for event in agent.run_stream("Go"):
            if isinstance(event, ToolExecutionStarted):
                await slow.started.wait()
                if way == "raise":
                    raise ValueError
                if way == "cancel":
                    await asyncio.sleep(20)
                break

    task = asyncio.create_task(following())
    await slow.started.wait()
    if way == "cancel":
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    del task
    await over.wait()
    assert slow.cancelled == 1
    assert isinstance(received[-1], RunStopped)


def test_leaving_a_sync_loop_stops_the_run_and_frees_the_conversation() -> None:
    conversation, slow = Conversation(), Slow()
    agent = Agent(ScriptedModel(CallTool("wait"), "Never", "Again"), [slow.wait])
    for event in agent.run("Go", conversation, stream=True):
        if isinstance(event, ToolExecutionStarted):
            while not slow.started.is_set():
                time.sleep(0.001)
            break
    assert slow.cancelled == 1
    assert conversation.run_id is None
    assert len(results_of(conversation.messages[-1])) == 1


def test_program_ends_while_a_run_and_the_thread_of_its_tool_go_on() -> None:
    code = """
from argstream import Agent, ScriptedModel
from argstream.models import CallTool
import time

def sleep() -> None:
    time.sleep(30)

events = Agent(ScriptedModel(CallTool("sleep")), [sleep]).run("Go", stream=True)
while (kind := next(events).type) != "tool_execution_started":
    pass
print(kind)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert (done.stdout, done.stderr) == ("tool_execution_started\n", "")


async def test_tool_can_close_its_own_run() -> None:
    runs: list[Run] = []

    async def close() -> None:
        await runs[0].aclose()
        await asyncio.sleep(20)

    runs.append(Agent(ScriptedModel(CallTool("close")), [close]).run_stream("Go"))
    assert isinstance((await collect(runs[0]))[-1], RunStopped)


def test_run_that_ends_with_its_event_loop_leaves_a_usable_conversation() -> None:
    conversation = Conversation()
    agent = Agent(ScriptedModel(CallTool("wait"), "Again"), [Slow().wait])
    runs: list[Run] = []

    async def leave() -> None:
        runs.append(agent.run_stream("Go", conversation))
        async for event in runs[0]:
            if isinstance(event, ToolExecutionStarted):
                return

    asyncio.run(leave())
    assert conversation.run_id is None
    assert agent.run("Again", conversation).text == "Again"


def test_call_being_written_when_its_event_loop_stops_is_aborted() -> None:
    events: list[Event] = []
    model = ScriptedModel(CallTool("add", {"a": 1, "b": 2}), delay=0.01)
    agent = Agent(model, [add], on_event=lambda record: events.append(record.event))
    run = agent.run_stream("Go")

    async def leave() -> None:
        async for event in run:
            if isinstance(event, ev.ToolCallStarted):
                asyncio.get_running_loop().stop()
                await asyncio.sleep(20)

    with pytest.raises(RuntimeError, match="Event loop stopped"):
        asyncio.run(leave())
    assert one(events, ev.ToolArgsInvalid).verdict == "aborted"
    assert one(events, ev.ToolCallFailed).error == "the call was cancelled: the run was interrupted"
    assert run.result.tools[0].verdict == "aborted"


async def test_slow_consumer_slows_the_model_down() -> None:
    written = 0

    async def model(_: ModelRequest) -> AsyncIterator[object]:
        nonlocal written
        yield ps.message_start()
        while written < 10_000:
            written += 1
            yield ps.block_delta(0, "text_delta", text="x")
        for payload in ps.message_end("end_turn"):
            yield payload

    async with Agent(model).run_stream("Go") as run:
        await anext(run)
        await anext(run)
        before = -1
        while written > before:
            before = written
            await asyncio.sleep(0.02)
    assert 0 < written < 1000


def test_sync_run_does_not_wait_for_a_thread_that_a_tool_left_behind() -> None:
    release = threading.Event()
    ended: list[bool] = []

    @tool(timeout=0.05)
    async def slow() -> None:
        await asyncio.to_thread(lambda: ended.append(release.wait(20)))

    Agent(ScriptedModel(CallTool("slow"), "Oh."), [slow]).run("Go")
    assert ended == []
    release.set()


def test_run_has_one_consumer() -> None:
    run = Agent(ScriptedModel("Hello", delay=0.01)).run_stream("Go")
    first, second = iter(run), iter(run)
    assert next(first).type == "run_started"
    for also in (lambda: next(second), lambda: complete(lambda: collect(run))):
        with pytest.raises(UsageError, match="already has a consumer"):
            also()
    assert [event.type for event in first][-1] == "run_completed"
    assert (list(run), complete(lambda: collect(run))) == ([], [])


async def test_run_has_one_consumer_in_an_event_loop() -> None:
    run = Agent(ScriptedModel("Hello", delay=0.01)).run_stream("Go")
    first = asyncio.ensure_future(collect(run))
    await asyncio.sleep(0)
    with pytest.raises(UsageError, match="already has a consumer"):
        await run
    assert isinstance((await first)[-1], ev.RunCompleted)


def calling(index: int, path: str) -> list[Payload]:
    text = ps.input_json(index, f'{{"path": "{path}"}}')
    return [ps.tool_use(index, "write", f"toolu_{index}"), text, ps.block_stop(index)]


def test_calls_of_a_second_message_in_one_chunk_do_not_run() -> None:
    """Its own end may forbid them, or never come (invariant 8)."""
    effects = Effects()
    first = [ps.message_start(), *calling(1, "a"), *ps.message_end()]
    second = [ps.message_start("msg_2"), *calling(2, "b"), *ps.message_end("refusal")]
    last = [ps.message_start("msg_3"), *ps.message_end("end_turn")]
    responses = [[ps.sse([*first, *second])], [ps.sse(last)]]
    events = events_of(Agent(lambda _: responses.pop(0), [effects.write]))
    assert [arguments["path"] for _, arguments in effects.seen] == ["a"]
    check_order(events)


async def test_stop_cancels_a_streamed_tool_that_has_read_its_text() -> None:
    has_read = asyncio.Event()
    was_cancelled: list[bool] = []

    async def note(text: Streamed[str]) -> None:
        await text.read()
        has_read.set()
        try:
            await asyncio.sleep(20)
        except (asyncio.CancelledError, TextInterruptedError):
            was_cancelled.append(True)
            raise

    model = ScriptedModel(CallTool("note", {"text": "x" * 40}), delay=0.001)
    run = Agent(model, [note]).run_stream("Go")

    async def stop(_: Event) -> None:
        await has_read.wait()
        run.stop("enough")

    events = await collect(run, ev.TurnCompleted, stop)
    check_order(events, streamed=("note",))
    assert was_cancelled == [True]


async def test_tool_that_a_decision_has_started_can_close_its_run() -> None:
    @tool(requires_confirmation=True)
    async def leave() -> str:
        """Close the run."""
        await run.aclose()
        return "closed"

    slow = Slow()
    model = ScriptedModel(Reply(CallTool("leave", {}), CallTool("wait", {})))
    run = Agent(model, [leave, slow.wait]).run_stream("Go")
    async for event in run:
        if isinstance(event, ToolExecutionStarted) and event.name == "wait":
            run.decide(run.pending[0].call_id, Approve())
    assert run.result.outcome == "stopped"


@pytest.mark.parametrize("store", [None, "memory:"])
async def test_model_that_swallows_a_cancellation_is_stopped(
    store: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("argstream.agent._driver._CANCEL_AGAIN", 0.01)

    async def model(_: ModelRequest) -> AsyncIterator[Payload]:
        yield ps.message_start()
        yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)

    run = Agent(model, store=store).run_stream("Go")
    asyncio.get_running_loop().call_later(0.05, run.stop, "enough")
    assert (await run).outcome == "stopped"


async def test_records_of_a_run_that_has_a_consumer_are_refused() -> None:
    run = Agent(ScriptedModel("Hello.")).run_stream("Go")
    async for event in run:
        assert not isinstance(event, Record)
        with pytest.raises(UsageError, match="consumer"):
            aiter(run.records())


def test_run_whose_event_loop_is_idle_stops_when_the_loop_runs_again() -> None:
    run = Agent(ScriptedModel("Hello.", delay=0.01)).run_stream("Go")
    with asyncio.Runner() as runner:
        runner.run(run.begun())
        run.stop("enough")

        async def rest() -> list[Event]:
            return [event async for event in run]

        assert one(runner.run(rest()), RunStopped).reason == "enough"
