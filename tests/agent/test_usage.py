"""The usage of a run includes turns that were denied, stopped or cut off."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import pytest

from argstream import Usage
from argstream.agent import Agent
from argstream.agent._restoring import restore
from argstream.agent._state import RunState
from argstream.agent._toolbox import Toolbox
from argstream.agent.observing import observe
from argstream.clients import CallTool, ModelRequest, ScriptedModel
from argstream.errors import RunFailure
from argstream.events import (
    RunCompleted,
    RunFailed,
    RunStarted,
    RunStopped,
    ToolCallStarted,
    TurnCompleted,
    from_json,
)
from argstream.history import Message
from argstream.policy import Policy, Rule
from argstream.snapshots import RunView
from argstream.stores import MemoryStore
from tests.agent.following import add, complete, events_of, one, only, stopped_at
from tests.claude_agent import init, streamed
from tests.providers import Payload, anthropic_call, message_start

Model: TypeAlias = Callable[[ModelRequest], AsyncIterator[Payload]]

COUNTS = {"input_tokens": 472, "cache_read_input_tokens": 100, "output_tokens": 1}
REPORTED = Usage(input_tokens=572, output_tokens=1, cache_read_tokens=100)
STARTED = [message_start(usage=COUNTS), *anthropic_call('{"a": 1')[1:3]]


async def cut_off(_: ModelRequest) -> AsyncIterator[Payload]:
    for payload in STARTED:
        yield payload


async def broken(_: ModelRequest) -> AsyncIterator[Payload]:
    for payload in STARTED:
        yield payload
    raise ConnectionResetError


async def stuck(_: ModelRequest) -> AsyncIterator[Payload]:
    for payload in STARTED:
        yield payload
    await asyncio.Event().wait()


def logged_usage(store: MemoryStore, run_id: str) -> Usage:
    """The usage of a run as its log has it."""
    view = RunView()
    for record in complete(lambda: store.read(run_id)):
        view.take(record.event)
    return view.snapshot().usage


def test_usage_of_a_denied_turn_is_part_of_the_run() -> None:
    denying = Policy([Rule("deny", tool="add")], default="allow")
    model = ScriptedModel(CallTool("add", {"a": 1, "b": 2}), "I may not.")
    events = events_of(Agent(model, [add], policy=denying))
    first, second = only(events, TurnCompleted)
    assert (first.stop_reason, first.usage) == ("rejected", Usage(100, 1))
    assert one(events, RunCompleted).usage == first.usage + second.usage


@pytest.mark.parametrize(
    ("model", "error"), [(cut_off, RunFailure), (broken, ConnectionResetError)]
)
def test_failed_run_has_the_usage_of_the_turn_that_was_cut_off(
    model: Model, error: type[Exception]
) -> None:
    store = MemoryStore()
    run = Agent(model, store=store).run_stream("Go")
    with pytest.raises(error):
        run.wait()
    assert run.result.usage == REPORTED
    assert logged_usage(store, run.run_id) == REPORTED


def test_stopped_run_has_the_usage_of_the_turn_that_was_stopped() -> None:
    store = MemoryStore()
    run = Agent(stuck, store=store).run_stream("Go")
    events = stopped_at(run, ToolCallStarted)
    assert one(events, RunStopped).usage == run.result.usage == REPORTED
    assert logged_usage(store, run.run_id) == REPORTED


def test_run_that_is_left_has_the_usage_of_the_turn_that_was_left() -> None:
    run = Agent(stuck).run_stream("Go")

    async def leave() -> None:
        async for event in run:
            if isinstance(event, ToolCallStarted):
                break

    complete(leave)
    assert run.result.usage == REPORTED


def test_usage_of_a_run_that_ended_is_restored_from_its_log() -> None:
    store = MemoryStore()
    run = Agent(stuck, store=store).run_stream("Go")
    stopped_at(run, ToolCallStarted)
    records = complete(lambda: store.read(run.run_id))
    state = RunState(run.run_id, set())
    restore(state, [record.event for record in records], Toolbox([], None))
    assert state.usage == REPORTED


def test_observed_run_has_the_usage_of_the_turn_that_was_cut_off() -> None:
    async def lines() -> AsyncIterator[Payload]:
        for line in [init(), *streamed(*STARTED)]:
            yield line

    async def observed() -> tuple[Usage, Usage]:
        run = observe(lines(), store=MemoryStore(), prompt="Go")
        events = [event async for event in run]
        return one(events, RunFailed).usage, run.result.usage

    assert complete(observed) == (REPORTED, REPORTED)


def test_log_without_usage_at_its_end_has_the_sum_of_its_turns() -> None:
    """As written before the end of a failed or stopped run had its usage."""
    old = b'{"type":"run_stopped","reason":"enough","run_id":"r"}'
    view = RunView()
    turn = TurnCompleted("end_turn", Message(role="assistant", parts=()), Usage(3, 4))
    for event in (RunStarted("r", "Go"), turn, from_json(old)):
        view.take(event)
    assert view.snapshot().usage == Usage(3, 4)
