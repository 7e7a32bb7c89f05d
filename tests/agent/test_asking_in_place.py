"""Somebody is asked while the run goes on: by an approver, or by whoever follows it."""

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from argstream.agent import (
    Agent,
    Approval,
    Approve,
    Deny,
    tool,
)
from argstream.clients import CallTool, Reply, ScriptedModel
from argstream.errors import UsageError
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunStopped,
    ToolArgsCompleted,
    ToolCallFailed,
    ToolExecutionStarted,
    TurnCompleted,
)
from argstream.stores import MemoryStore
from tests.agent.following import (
    Effects,
    complete,
    events_of,
    mailing,
    one,
    only,
    send,
    stopped_at,
)
from tests.agent.logged_runs import Slow, tools_of
from tests.agent.ordering import check_order


async def never(request: ApprovalRequested) -> Approval:
    """An approver who takes too long."""
    await asyncio.sleep(20)
    return Approve(reason=request.name)


def answering(answer: Approval) -> Callable[[ApprovalRequested], Approval]:
    return lambda request: answer  # noqa: ARG005 - always the same


@pytest.mark.parametrize("is_async", [False, True])
def test_an_approver_is_asked_in_place(is_async: bool) -> None:
    asked: list[str] = []

    def approve(request: ApprovalRequested) -> Approval:
        asked.append(request.name)
        return Approve()

    async def approve_async(request: ApprovalRequested) -> Approval:
        return approve(request)

    approver = approve_async if is_async else approve
    agent, effects = mailing(send(), "Sent.", approver=approver)
    events = events_of(agent)
    assert asked == ["send"]
    assert effects.seen == [("send", {"to": "ada"})]
    assert not only(events, RunPaused)
    assert one(events, RunCompleted).result == "Sent."


def test_an_approver_that_waits_does_not_hold_up_other_runs() -> None:
    def approve(request: ApprovalRequested) -> Approval:
        time.sleep(0.2)
        return Deny(request.name)

    agent, _ = mailing(*[send()] * 8, *["Sent."] * 8, approver=approve)

    async def several() -> float:
        start = time.perf_counter()
        await asyncio.gather(*(agent.run_async("Go") for _ in range(8)))
        return time.perf_counter() - start

    assert complete(several) < 1.2


def test_it_can_be_approved_while_other_calls_of_the_turn_are_written() -> None:
    calls = Reply(send(), CallTool("write", {"path": "a", "content": "x" * 400}))
    effects = Effects()
    tools = [tool(requires_confirmation=True)(effects.send), effects.write]
    model = ScriptedModel(calls, "Done.", delay=0.002)
    agent = Agent(model, tools, approver=answering(Approve()))
    events = events_of(agent)
    kinds = [type(event) for event in events]
    decided = kinds.index(ApprovalDecided)
    written = [n for n, kind in enumerate(kinds) if kind is ToolArgsCompleted][1]
    assert decided < written < kinds.index(TurnCompleted) < kinds.index(ToolExecutionStarted)


def test_without_an_approver_a_run_can_be_decided_on_while_it_goes_on() -> None:
    agent, effects = mailing(Reply(send(), CallTool("write", {"path": "a"})), "Done.")

    async def deciding() -> list[Event]:
        run, events = agent.run_stream("Go"), []
        async for event in run:
            events.append(event)
            if isinstance(event, ApprovalRequested):
                run.decide(event.call_id, Approve())
                with pytest.raises(UsageError, match="decided already"):
                    run.decide(event.call_id, Deny())
        return events

    events = complete(deciding)
    assert not only(events, RunPaused)
    assert len(effects.seen) == 2


def with_approver(answer: Any, *, is_async: bool) -> Callable[[ApprovalRequested], Any]:
    """Return an approver that returns this, or raises it if it is an exception."""

    def approve(_: ApprovalRequested) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def approve_async(request: ApprovalRequested) -> Any:
        return approve(request)

    return approve_async if is_async else approve


@pytest.mark.parametrize("has_store", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("answer", [None, True, False, "yes", Approve])
def test_approver_that_returns_no_decision_raises_to_the_developer(
    answer: Any, is_async: bool, has_store: bool
) -> None:
    approver = with_approver(answer, is_async=is_async)
    store = MemoryStore() if has_store else None
    events: list[Event] = []
    agent, effects = mailing(
        send(),
        "Oh.",
        approver=approver,
        store=store,
        on_event=lambda record: events.append(record.event),
    )
    told = f"the approver returned {answer!r} for send. It must return Approve(…) or Deny(…)"
    with pytest.raises(UsageError, match=re.escape(told)):
        agent.run("Go")
    assert effects.seen == []
    check_order(events)
    assert one(events, RunFailed).code == "approver_failed"
    assert one(events, RunFailed).message == told
    assert one(events, ApprovalDecided).decision == "withdrawn"
    assert isinstance(agent.model, ScriptedModel)
    assert len(agent.model.requests) == 1, "the model is told nothing"


@pytest.mark.parametrize("is_async", [False, True])
def test_exception_of_an_approver_is_raised_after_the_run_has_failed(is_async: bool) -> None:
    failure = OSError("the terminal is gone")
    events: list[Event] = []
    approver = with_approver(failure, is_async=is_async)
    agent, effects = mailing(
        send(), "Oh.", approver=approver, on_event=lambda record: events.append(record.event)
    )
    with pytest.raises(OSError, match="the terminal is gone") as caught:
        agent.run("Go")
    assert caught.value is failure
    assert effects.seen == []
    check_order(events)
    assert one(events, RunFailed).message == "the approver failed with OSError"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("is_async", [False, True])
def test_approver_can_end_the_program(error: BaseException, is_async: bool) -> None:
    agent, effects = mailing(send(), "Oh.", approver=with_approver(error, is_async=is_async))
    with pytest.raises(type(error)) as caught:
        agent.run("Go")
    assert caught.value is error
    assert effects.seen == []


def test_failing_approver_cancels_the_tools_that_run() -> None:
    async def play() -> None:
        slow = Slow()

        async def approve(_: ApprovalRequested) -> Any:
            await slow.started.wait()
            return None

        first, effects = mailing(Reply(send(), CallTool("wait", {})), "Oh.")
        events: list[Event] = []
        tools = [*tools_of(first), slow.wait]
        agent = Agent(
            first.model,
            tools,
            approver=approve,
            on_event=lambda record: events.append(record.event),
        )
        with pytest.raises(UsageError, match="returned None"):
            await agent.run_async("Go")
        check_order(events)
        assert len(only(events, ToolCallFailed)) == 2
        assert effects.seen == []

    complete(play)


@pytest.mark.parametrize(
    "answer", [Approve(arguments={"to": 1}), Approve(digest="of another call")]
)
def test_an_approver_whose_answer_cannot_be_used_denies(answer: Any) -> None:
    agent, effects = mailing(send(), "Oh.", approver=answering(answer))
    events = events_of(agent)
    assert effects.seen == []
    assert one(events, ApprovalDecided).decision == "denied"


def test_what_nobody_decides_in_time_is_denied() -> None:
    agent, effects = mailing(send(), "Oh.", approver=never, approval_timeout=0.05)
    events = events_of(agent)
    assert one(events, ApprovalDecided).decision == "expired"
    assert effects.seen == []
    assert one(events, RunCompleted).result == "Oh."


def test_a_run_that_is_stopped_asks_no_more() -> None:
    agent, effects = mailing(send(), "Oh.", approver=never)
    events = stopped_at(agent.run_stream("Go"), ApprovalRequested)
    assert one(events, ApprovalDecided).decision == "withdrawn"
    assert isinstance(events[-1], RunStopped)
    assert effects.seen == []


def test_who_changes_the_arguments_that_were_shown_gets_nothing_run() -> None:
    def cunning(request: ApprovalRequested) -> Approval:
        request.arguments["to"] = "eve"
        return Approve()

    agent, effects = mailing(send(), "Oh.", approver=cunning)
    events = events_of(agent)
    assert effects.seen == []
    assert one(events, ApprovalDecided).decision == "denied"


def test_an_approver_that_is_not_async_is_asked_one_thing_at_a_time() -> None:
    at_once, most = 0, 0

    def approve(request: ApprovalRequested) -> Approval:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        time.sleep(0.02)
        at_once -= 1
        return Deny(request.name)

    agent, _ = mailing(Reply(send("ada"), send("bob"), send("eve")), "Oh.", approver=approve)
    events = events_of(agent)
    assert most == 1
    assert len(only(events, ApprovalDecided)) == 3


def test_who_decides_from_a_callback_of_the_event_loop_is_heard() -> None:
    agent, effects = mailing(Reply(send(), CallTool("write", {"path": "a"})), "Sent.")

    async def deciding() -> list[Event]:
        events = []
        run = agent.run_stream("Go")
        async for event in run:
            events.append(event)
            if isinstance(event, ApprovalRequested):
                loop = asyncio.get_running_loop()
                loop.call_soon(run.decide, event.call_id, Approve())
                await asyncio.sleep(0)
        return events

    complete(deciding)
    assert ("send", {"to": "ada"}) in effects.seen


def test_a_run_that_is_stopped_while_somebody_is_asked_gives_its_result() -> None:
    async def never(request: ApprovalRequested) -> Approval:
        await asyncio.sleep(20)
        return Approve(reason=request.name)

    agent, effects = mailing(send(), "Oh.", approver=never)

    async def stopping() -> str:
        run = agent.run_stream("Go")
        asyncio.get_running_loop().call_later(0.05, run.stop, "closed")
        return (await run).outcome

    assert complete(stopping) == "stopped"
    assert effects.seen == []
