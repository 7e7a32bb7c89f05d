"""Runs that are stopped, left, or followed slowly: at any moment, nothing goes on behind them."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable

import pytest

from argstream.agent import Agent, AgentRun, Approval, Approve, Conversation, Deny, Streamed, tool
from argstream.errors import TextInterrupted, UsageError
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunCompleted,
    RunStopped,
    TextDelta,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    TurnCompleted,
)
from argstream.models import CallTool, ModelRequest, Reply, ScriptedModel
from argstream.runs import Record
from tests.agent.following import add, complete, events_of, one, only, stopped_at
from tests.agent.histories import check_told, results_of
from tests.agent.ordering import check_order
from tests.provider_streams import (
    Payload,
    block_delta,
    block_start,
    block_stop,
    input_json,
    message_end,
    message_start,
    sse,
    tool_use,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("after", [TextDelta, ToolCallStarted, ToolExecutionStarted])
async def test_a_run_can_be_stopped_from_outside_at_any_time(after: type[Event]) -> None:
    was_cancelled: list[bool] = []

    async def sleep() -> None:
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            was_cancelled.append(True)
            raise

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
async def test_to_leave_an_async_loop_stops_the_run_too(way: str) -> None:
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
    assert (len(ticks) - before) == 0


def test_a_program_ends_although_somebody_holds_a_run_that_was_left() -> None:
    code = """
from argstream import Agent, ScriptedModel
from argstream.models import CallTool
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


async def test_a_tool_may_close_its_own_run() -> None:
    runs: list[AgentRun] = []

    async def suicide() -> None:
        await runs[0].aclose()
        await asyncio.sleep(20)

    runs.append(Agent(ScriptedModel(CallTool("suicide")), [suicide]).run_stream("Go"))
    assert isinstance([event async for event in runs[0]][-1], RunStopped)


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


async def test_a_slow_reader_holds_the_model_back_instead_of_memory() -> None:
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

    async with Agent(model).run_stream("Go") as run:
        await anext(run)
        await anext(run)
        await asyncio.sleep(0.1)
    assert 0 < written < 1000


def test_the_sync_face_does_not_wait_for_a_thread_that_a_tool_left_behind() -> None:
    @tool(timeout=0.1)
    async def slow() -> None:
        await asyncio.to_thread(time.sleep, 3)

    start = time.perf_counter()
    Agent(ScriptedModel(CallTool("slow"), "Oh."), [slow]).run("Go")
    assert time.perf_counter() - start < 2


def test_two_iterators_do_not_share_a_run() -> None:
    run = Agent(ScriptedModel("Hello", delay=0.01)).run_stream("Go")
    first, second = iter(run), iter(run)
    assert next(first).type == "run_started"
    with pytest.raises(UsageError, match="already being followed"):
        next(second)
    assert [event.type for event in first][-1] == "run_completed"


# The order of events in real runs, where it was once broken


STREAMED = ("note",)


# A model that gives much at once, as one chunk of a network does


def write(path: str) -> str:
    return path


@tool(requires_confirmation=True)
def send(path: str) -> str:
    return path


def at_once(*turns: list[Payload]) -> Callable[[ModelRequest], AsyncIterator[bytes]]:
    """A model whose answers come in one piece each."""
    rest = iter(turns)

    async def model(request: ModelRequest) -> AsyncIterator[bytes]:  # noqa: ARG001 - a script
        yield sse(next(rest))

    return model


def words(count: int) -> list[Payload]:
    deltas = [block_delta(0, "text_delta", text="x")] * count
    return [block_start(0, "text", text=""), *deltas, block_stop(0)]


def calling(index: int, name: str, *pieces: str) -> list[Payload]:
    deltas = [input_json(index, piece) for piece in pieces]
    return [tool_use(index, name, f"toolu_{index}"), *deltas, block_stop(index)]


def test_what_is_read_after_a_stop_is_not_run_nor_asked_about_and_history_says_so() -> None:
    turn = [
        message_start(),
        *words(400),
        *calling(1, "write", '{"path": "a"}'),
        *calling(2, "send", '{"path": "a"}'),
        *message_end(),
    ]
    conversation = Conversation()
    run = Agent(at_once(turn), [write, send]).run_stream("Go", conversation)
    events = stopped_at(run, TextDelta)
    check_order(events)
    assert not only(events, ApprovalRequested)
    assert not only(events, ToolExecutionStarted)
    assert isinstance(events[-1], RunStopped)
    check_told(conversation.messages, events)
    results = [part for message in conversation.messages for part in results_of(message)]
    assert all(result.failed for result in results)


def test_a_message_after_the_end_of_the_turn_runs_nothing() -> None:
    """Its own end may be one that forbids it, or never come (invariant 8)."""
    ran: list[str] = []

    def write(path: str) -> None:
        ran.append(path)

    first = [message_start(), *calling(1, "write", '{"path": "a"}'), *message_end()]
    second = [message_start("msg_2"), *calling(2, "write", '{"path": "b"}')]
    last = [message_start("msg_3"), *words(1), *message_end("end_turn")]
    events = events_of(Agent(at_once([*first, *second, *message_end("refusal")], last), [write]))
    assert ran == ["a"]
    check_order(events)


# Streamed tools


async def test_a_streamed_tool_that_returns_before_a_stop_has_its_end_after_its_verdict() -> None:
    async def note(text: Streamed[str]) -> str:  # noqa: ARG001 - it does not want to know
        return "seen enough"

    model = ScriptedModel(CallTool("note", {"text": "x" * 400}), delay=0.002)
    run = Agent(model, [note]).run_stream("Go")
    events: list[Event] = []
    async for event in run:
        events.append(event)
        has_begun = bool(only(events, ToolExecutionStarted))
        if has_begun and isinstance(event, ToolArgsDelta) and event.delta == "xxxx":
            run.stop("enough")
    check_order(events, streamed=STREAMED)
    assert only(events, ToolCallFailed)


async def test_a_streamed_tool_that_works_on_after_its_text_is_cancelled_by_a_stop() -> None:
    was_cancelled: list[bool] = []

    async def note(text: Streamed[str]) -> None:
        await text.read()
        try:
            await asyncio.sleep(3)
        except (asyncio.CancelledError, TextInterrupted):
            was_cancelled.append(True)
            raise

    run = Agent(ScriptedModel(CallTool("note", {"text": "x" * 40}), delay=0.001), [note])
    events: list[Event] = []
    async for event in (followed := run.run_stream("Go")):
        events.append(event)
        if isinstance(event, TurnCompleted):
            await asyncio.sleep(0.05)  # it has read its text
            followed.stop("enough")
    check_order(events, streamed=STREAMED)
    assert was_cancelled == [True]


# Decisions at unexpected moments


async def test_who_decides_while_an_approver_is_asked_is_heard_first() -> None:
    async def approve(request: ApprovalRequested) -> Approval:
        await asyncio.sleep(0.02)
        return Deny(f"too late for {request.name}")

    async def wait() -> None:
        await asyncio.sleep(0.05)

    model = ScriptedModel(Reply(CallTool("send", {"path": "a"}), CallTool("wait")), "Sent.")
    run = Agent(model, [send, wait], approver=approve).run_stream("Go")
    events: list[Event] = []
    async for event in run:
        events.append(event)
        if isinstance(event, ApprovalRequested):
            run.decide(event.call_id, Approve())
    check_order(events)
    assert one(events, ApprovalDecided).decision == "approved"
    assert one(events, RunCompleted).result == "Sent."
