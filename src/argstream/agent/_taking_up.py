"""Goes on with a run that is in a store, whoever began it."""

import time
from collections.abc import Callable, Iterable

import anyio

from argstream.agent._deciding import usable_of
from argstream.agent._effects import Step
from argstream.agent._machine import Machine
from argstream.agent._run_log import RunLog
from argstream.agent.conversation import Conversation
from argstream.agent.observing._observed import Observed, is_observed, last_events
from argstream.decisions import Decisions
from argstream.errors import UnknownRun, UsageError
from argstream.events import Event, RunStarted
from argstream.log import Record, Store

__all__ = ["caught_up", "ended", "found", "refuse_if_over", "taken_up"]


async def taken_up(
    log: RunLog, machine: Machine, conversation: Conversation, given: Decisions, wait: float
) -> Step:
    """Claim a run, read it, and say how it goes on, with these decisions and those in the store."""
    try:
        await _read(log, machine, conversation, wait)
        return await _next_step(log, machine, given)
    except BaseException:
        await _release(log)
        raise


async def ended(
    log: RunLog, machine: Machine, conversation: Conversation, reason: str
) -> list[Record]:
    """End a run that no process drives, and return its last records."""
    try:
        told = await _read(log, machine, conversation, wait=0)
        run_id = machine.state.run_id
        events = (
            last_events(run_id, told, reason)
            if is_observed(told)
            else machine.abandoned(reason).events
        )
        return await log.write(events)
    finally:
        await _release(log)


async def _read(
    log: RunLog, machine: Machine, conversation: Conversation, wait: float
) -> list[Event]:
    try:
        records = await log.take_up(wait)
    except UnknownRun:
        conversation.forget(machine.state.run_id)
        raise
    told = [record.event for record in records]
    machine.restore(told)
    if conversation.is_fresh:
        conversation.id, conversation.user = records[-1].session_id, _user_of(told)
        conversation.messages = machine.state.history
    if machine.is_over:  # perhaps in another process
        conversation.go_on_after(machine.state.run_id, machine.final_messages)
    refuse_if_over(machine)
    return told


def refuse_if_over(machine: Machine) -> None:
    """Raise UsageError if nobody can go on with a run."""
    if machine.is_over:
        outcome = machine.state.status
        raise UsageError(f"the run {machine.state.run_id} is over: it has {outcome}")


def _user_of(told: Iterable[Event]) -> str:
    return next((event.user for event in told if isinstance(event, RunStarted)), "")


async def found(
    store: Store, make: Callable[[str], Machine], conversation: Conversation
) -> Conversation:
    """Give a conversation that has nothing in it yet what its newest run in the store says."""
    session_id, user = conversation.id, conversation.user
    while runs := await store.runs(session_id=session_id, user=user, limit=1):
        run_id, conversation.updated = runs[0].run_id, runs[0].updated
        try:
            told = [record.event for record in await store.read(run_id)]
        except UnknownRun:  # it was deleted meanwhile
            continue
        machine = make(run_id)
        machine.restore(told)
        if not machine.is_over:
            conversation.run_id, conversation.messages = run_id, machine.state.history
        elif is_observed(told):
            conversation.messages = Observed.of(run_id, told).result.messages
        else:
            conversation.messages = machine.final_messages
        break
    return conversation


async def caught_up(store: Store, machine: Machine, conversation: Conversation) -> None:
    """Have a conversation go on after its run, if that has ended in another process."""
    run_id = machine.state.run_id
    try:
        info = await store.info(run_id)
        records = await store.read(run_id) if info.is_over else []
    except UnknownRun:
        conversation.forget(run_id)
        return
    if records:
        machine.restore(record.event for record in records)
        conversation.go_on_after(run_id, machine.final_messages)


async def _next_step(log: RunLog, machine: Machine, given: Decisions) -> Step:
    if not machine.state.turns:
        raise UsageError(
            f"the run {machine.state.run_id} was only observed: its source is gone, so nobody can "
            "go on with it. Agent.stop_async ends it"
        )
    machine.check(given)
    posts = await log.posted()
    machine.require_tools({**posts.decisions, **given})
    if posts.stop_reason is not None:
        return machine.abandoned(posts.stop_reason)
    posted = await usable_of(log, machine, posts.decisions)
    fresh = {
        call_id: decision for call_id, decision in given.items() if posted.get(call_id) != decision
    }
    if fresh:
        await log.decide(fresh)
    decisions = {**posted, **given}
    now = time.time()
    if machine.is_paused:
        return machine.resumed(decisions, now, posts.times)
    return machine.recovered(decisions, now, posts.times)


async def _release(log: RunLog) -> None:
    with anyio.CancelScope(shield=True):
        await log.release()
