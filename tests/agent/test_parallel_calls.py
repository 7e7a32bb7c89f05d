"""``Agent(max_parallel_calls=…)`` bounds how many tools of a run execute at once."""

import asyncio
import threading
from typing import Any

import pytest

from argstream.agent import Agent, Approve, Streamed, tool
from argstream.clients import CallTool, Reply, ScriptedModel
from argstream.errors import UsageError
from argstream.events import (
    Event,
    RunStopped,
    ToolCallCompleted,
    ToolCallFailed,
    ToolExecutionStarted,
    TurnCompleted,
)
from argstream.stores import MemoryStore
from tests.agent.following import complete, events_of, follow, one, only
from tests.agent.histories import results_of
from tests.agent.logged_runs import Slow, cut_off, told
from tests.agent.ordering import check_order
from tests.agent.tools.isolated_tools import add as isolated_add


def sync_add(a: int, b: int) -> int:
    return a + b


async def async_add(a: int, b: int) -> int:
    return a + b


def adding(name: str, calls: int) -> ScriptedModel:
    return ScriptedModel(Reply(*(CallTool(name, {"a": n, "b": 0}) for n in range(calls))), "Done.")


def most_at_once(events: list[Event]) -> int:
    running = most = 0
    for event in events:
        running += isinstance(event, ToolExecutionStarted)
        running -= isinstance(event, ToolCallCompleted | ToolCallFailed)
        most = max(most, running)
    return most


@pytest.mark.parametrize(
    "add", [sync_add, async_add, isolated_add], ids=["thread", "loop", "process"]
)
@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_tools_run_at_once_than_the_limit(add: Any, limit: int) -> None:
    model = adding(add.__name__, 5)
    events = events_of(Agent(model, [add], max_parallel_calls=limit))
    check_order(events)
    assert most_at_once(events) <= limit
    started = [event.call_id for event in only(events, ToolExecutionStarted)]
    assert len(started) == 5
    results = results_of(model.requests[1].messages[-1])
    assert [part.result for part in results] == [0, 1, 2, 3, 4], "in the order of the calls"
    assert [part.call_id for part in results] == started, "they start in order"


def test_tools_run_at_once_up_to_the_limit() -> None:
    together = threading.Barrier(3)

    def meet(a: int, b: int) -> int:
        together.wait(20)
        return a + b

    events = events_of(Agent(adding("meet", 6), [meet], max_parallel_calls=3))
    assert len(only(events, ToolCallCompleted)) == 6


def test_the_default_limit_is_32() -> None:
    running = most = 0

    async def count(a: int, b: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return a + b

    events = events_of(Agent(adding("count", 100), [count]))
    assert len(only(events, ToolCallCompleted)) == 100
    assert most == 32


def test_stop_ends_waiting_calls_that_never_started() -> None:
    async def play() -> list[Event]:
        slow = Slow()
        model = ScriptedModel(Reply(*[CallTool("wait", {})] * 3), "Done.")
        run = Agent(model, [slow.wait], max_parallel_calls=1).run_stream("Go")
        events = []
        async for event in run:
            events.append(event)
            if isinstance(event, ToolExecutionStarted):
                run.stop("enough")
        assert slow.times <= 1
        return events

    events = complete(play)
    check_order(events)
    assert len(only(events, ToolExecutionStarted)) == 1
    assert len(only(events, ToolCallFailed)) == 3
    assert isinstance(events[-1], RunStopped)


def test_calls_that_waited_when_the_process_died_run_in_the_next_one() -> None:
    async def play() -> None:
        store, slow = MemoryStore(), Slow()
        model = ScriptedModel(Reply(*[CallTool("wait", {})] * 3), "Done.")
        agent = Agent(model, [slow.wait], store=store, max_parallel_calls=1)
        async with cut_off(agent.run_stream("Go"), slow) as run_id:
            slow.may_end.set()
            await told(agent.resume(run_id))
        events = [record.event for record in await store.read(run_id)]
        check_order(events)
        started = [event.call_id for event in only(events, ToolExecutionStarted)]
        assert len(started) == len(set(started)) == 3
        assert slow.times == 3
        assert one(events, ToolCallFailed).call_id == started[0], "it was interrupted"

    complete(play)


def test_call_that_is_approved_late_waits_for_a_free_place() -> None:
    model = adding("send", 3)
    agent = Agent(
        model, [tool(name="send", requires_confirmation=True)(async_add)], max_parallel_calls=1
    )
    run = agent.run_stream("Go")
    events = follow(run)
    resumed = agent.resume(run, {request.call_id: Approve() for request in run.pending})
    events += follow(resumed)
    check_order(events)
    assert most_at_once(events) == 1
    assert len(only(events, ToolCallCompleted)) == 3


def test_streamed_tool_without_a_free_place_starts_after_the_turn() -> None:
    async def note(title: str, text: Streamed[str]) -> str:
        return title + await text.read()

    calls = [CallTool("note", {"title": str(n), "text": "some text"}) for n in range(3)]
    events = events_of(Agent(ScriptedModel(Reply(*calls), "Done."), [note], max_parallel_calls=1))
    check_order(events, streamed=("note",))
    assert most_at_once(events) == 1
    results = [event.result for event in only(events, ToolCallCompleted)]
    assert results == ["0some text", "1some text", "2some text"]
    starts = [
        place for place, event in enumerate(events) if isinstance(event, ToolExecutionStarted)
    ]
    end_of_turn = next(
        place for place, event in enumerate(events) if isinstance(event, TurnCompleted)
    )
    assert [place < end_of_turn for place in starts] == [True, False, False]


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "3", None])
def test_limit_must_be_a_positive_integer(limit: Any) -> None:
    with pytest.raises(
        UsageError, match="max_parallel_calls must be an integer of at least 1, not"
    ):
        Agent(ScriptedModel("Hi."), max_parallel_calls=limit)
