"""A person is asked: what may be decided, by whom, until when, and what then runs."""

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from argstream.agent import (
    Agent,
    AgentRun,
    Approval,
    Approve,
    Conversation,
    Deny,
    RunResult,
    tool,
)
from argstream.agent.approvals import digest_of
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
    ToolCallCompleted,
    ToolCallFailed,
    ToolExecutionStarted,
    TurnCompleted,
    to_json,
)
from argstream.history import ResultPart
from argstream.models import CallTool, Reply, ScriptedModel
from argstream.policy import Policy
from argstream.runs import MemoryStore, Record
from tests.agent.following import (
    Effects,
    Slow,
    add,
    events_of,
    follow,
    mailing,
    one,
    only,
    send,
    steps,
    stopped_at,
)
from tests.agent.ordering import check_order

pytestmark = pytest.mark.anyio


def result_of(model: object, request: int = 1) -> ResultPart:
    assert isinstance(model, ScriptedModel)
    part = model.requests[request].messages[-1].parts[-1]
    assert isinstance(part, ResultPart)
    return part


def resumed(agent: Agent, paused: RunResult | RunPaused | AgentRun, decision: Approval) -> AgentRun:
    """Go on with a run that has paused: with a decision on the first call that waits."""
    return agent.resume(paused, {paused.pending[0].call_id: decision})


# Who is asked, and when


def test_a_policy_asks_and_says_which_rule() -> None:
    policy = Policy.from_toml(
        '[[rules]]\nname = "outside"\ntool = "send"\naction = "ask"\n'
        'reason = "mail leaves the house"\n'
    )
    effects = Effects()
    events = events_of(Agent(ScriptedModel(send()), [effects.send], policy=policy))
    request = one(events, ApprovalRequested)
    assert (request.rule, request.reason) == ("outside", "mail leaves the house")
    assert effects.seen == []


@pytest.mark.parametrize("action", ["allow", "ask"])
def test_the_log_of_a_run_does_not_repeat_the_policy_decision(action: str) -> None:
    policy = Policy.from_toml(f'default = "{action}"')
    events = events_of(Agent(ScriptedModel(send(), "Sent."), [Effects().send], policy=policy))
    completed = one(events, ToolArgsCompleted)
    assert completed.policy_decision is None
    assert b"policy_decision" not in to_json(completed)


def test_a_tool_may_have_a_policy_of_its_own() -> None:
    effects = Effects()
    asks = Policy.from_toml(
        'default = "allow"\n[[rules]]\ntool = "send"\naction = "ask"\n'
        'argument = "to"\nprefix = "boss"\n'
    )
    guarded = tool(requires_confirmation=asks)(effects.send)
    agent = Agent(ScriptedModel(send("ada"), send("boss")), [guarded])
    events = events_of(agent)
    assert effects.seen == [("send", {"to": "ada"})]
    assert one(events, RunPaused).pending[0].arguments == {"to": "boss"}


def test_the_digest_is_of_run_call_tool_and_exact_text() -> None:
    agent, _ = mailing(CallTool("send", '{"to":  "ada"}'))
    run = agent.run_stream("Go")
    request = one(follow(run), ApprovalRequested)
    assert request.digest == digest_of(run.run_id, request.call_id, "send", '{"to":  "ada"}')
    assert request.digest != digest_of(run.run_id, request.call_id, "send", '{"to": "ada"}')
    assert digest_of("ab", "c", "d", "e") != digest_of("a", "bc", "d", "e")


# Decisions on a run that has paused


def test_what_is_approved_runs_and_the_run_goes_on() -> None:
    agent, effects = mailing(send(), "Sent.")
    paused = one(events_of(agent), RunPaused)
    events = follow(resumed(agent, paused, Approve()))
    assert steps(events) == [
        "run_resumed",
        "approval_decided",
        "tool_execution_started",
        "tool_call_completed",
        "turn_started",
        "turn_completed",
        "run_completed",
    ]
    assert effects.seen == [("send", {"to": "ada"})]


def test_what_is_denied_does_not_run_and_the_model_is_told_why() -> None:
    agent, effects = mailing(send(), "All right.")
    paused = agent.run("Go")
    result = resumed(agent, paused, Deny("not on sundays")).wait()
    assert effects.seen == []
    assert result.text == "All right."
    assert "not on sundays" in result_of(agent.model).result
    assert result_of(agent.model).failed


def test_edited_arguments_run_and_are_recorded_beside_the_models() -> None:
    agent, effects = mailing(send(), "Sent.")
    paused = agent.run("Go")
    run = resumed(agent, paused, Approve(arguments={"to": "bob"}))
    events = follow(run)
    assert effects.seen == [("send", {"to": "bob"})]
    decided = one(events, ApprovalDecided)
    assert (decided.decision, decided.edited_arguments) == ("edited", {"to": "bob"})
    assert one(events, ToolCallCompleted).arguments == {"to": "bob"}
    assert paused.pending[0].arguments == {"to": "ada"}
    assert '{"to": "bob"}' in result_of(agent.model).note
    assert run.result.tools[0].tool_args == {"to": "bob"}


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (Approve(arguments={"to": 7}), "not valid"),
        (Approve(arguments={}), "not valid"),
        (Approve(arguments={"to": object()}), "no JSON"),
        (Approve(arguments={"to": float("nan")}), "no JSON"),
        (Approve(digest="of another call"), "digest"),
        (Approve(always="rule"), 'always="session"'),
        (Approve(always="forever"), '"session" or "rule"'),  # type: ignore[arg-type]  # wrong
        (Approve(always=True), '"session" or "rule"'),  # type: ignore[arg-type]  # wrong
    ],
)
def test_decisions_that_cannot_be_used_are_refused_and_nothing_is_lost(
    decision: Approve, message: str
) -> None:
    agent, effects = mailing(send(), "Sent.")
    paused = agent.run("Go")
    with pytest.raises(UsageError, match=message):
        resumed(agent, paused, decision).wait()
    assert resumed(agent, paused, Approve()).wait().text == "Sent."
    assert effects.seen == [("send", {"to": "ada"})]


@pytest.mark.parametrize("is_of_tool", [False, True])
def test_edits_that_a_policy_denies_are_refused(is_of_tool: bool) -> None:
    effects = Effects()
    policy = Policy.from_toml(
        'default = "ask"\n[[rules]]\ntool = "send"\naction = "deny"\n'
        'argument = "to"\nprefix = "boss"\n'
    )
    given = tool(requires_confirmation=policy)(effects.send) if is_of_tool else effects.send
    agent = Agent(ScriptedModel(send()), [given], policy=None if is_of_tool else policy)
    paused = agent.run("Go")
    with pytest.raises(UsageError, match="not valid"):
        resumed(agent, paused, Approve(arguments={"to": "boss"})).wait()


def test_some_decided_keeps_the_rest_pending_and_no_call_runs_twice() -> None:
    agent, effects = mailing(Reply(send("ada"), send("bob"), send("eve")), "Sent.")
    paused = agent.run("Go")
    first, second, third = (request.call_id for request in paused.pending)
    again = agent.resume(paused, {second: Approve()}).wait()
    assert again.is_paused
    assert [request.call_id for request in again.pending] == [first, third]
    assert effects.seen == [("send", {"to": "bob"})]
    last = agent.resume(again, {third: Deny(), first: Approve()}).wait()
    assert last.outcome == "completed"
    assert effects.seen == [("send", {"to": "bob"}), ("send", {"to": "ada"})]


def test_a_decision_on_what_nobody_asked_is_refused() -> None:
    agent, _ = mailing(send(), "Sent.")
    paused = agent.run("Go")
    with pytest.raises(UsageError, match=f"pending: {paused.pending[0].call_id}"):
        agent.resume(paused, {"call_x": Approve()}).wait()
    with pytest.raises(UsageError, match="waits for decisions"):
        agent.resume("run_x", {}).wait()


def test_a_paused_run_can_be_stopped_and_its_conversation_goes_on() -> None:
    agent, effects = mailing(send(), "Fine.")
    conversation = Conversation()
    paused = agent.run("Go", conversation)
    with pytest.raises(UsageError, match="resume or stop"):
        agent.run("And?", conversation)
    events = agent.stop(paused, "never mind")
    assert steps(events) == ["approval_decided", "tool_call_failed", "run_stopped"]
    assert agent.run("And?", conversation).text == "Fine."
    assert effects.seen == []


# Always


def test_always_for_this_session_asks_no_more_for_this_tool() -> None:
    agent, effects = mailing(send("ada"), send("bob"), "Sent.", send("eve"), "Sent.")
    conversation = Conversation()
    paused = agent.run("Go", conversation)
    decision = Approve(always="session")
    events = follow(resumed(agent, paused, decision))
    assert one(events, ApprovalDecided).always == "session"
    assert [to["to"] for _, to in effects.seen] == ["ada", "bob"]
    assert agent.run("Go on", conversation).outcome == "completed"


def test_always_for_this_session_ends_with_the_conversation() -> None:
    agent, effects = mailing(send("ada"), "Sent.", send("eve"))
    paused = agent.run("Go")
    resumed(agent, paused, Approve(always="session")).wait()
    assert agent.run("Go").is_paused
    assert effects.seen == [("send", {"to": "ada"})]


def test_a_decision_on_a_paused_run_that_comes_too_late_is_none() -> None:
    agent, effects = mailing(send(), "Oh.", approval_timeout=0.05)
    paused = agent.run("Go")
    assert paused.pending[0].expires_at is not None
    time.sleep(0.1)
    events = follow(resumed(agent, paused, Approve()))
    assert one(events, ApprovalDecided).decision == "expired"
    assert effects.seen == []


# What was approved is what runs (invariant 12)


@pytest.mark.parametrize("kind", [ToolArgsCompleted, ApprovalRequested, ApprovalDecided])
def test_a_hook_cannot_change_what_runs(kind: type[Event]) -> None:
    def cunning(record: Record) -> None:
        event = record.event
        if isinstance(event, kind) and isinstance(event, ToolArgsCompleted | ApprovalRequested):
            assert isinstance(event.arguments, dict)
            event.arguments["to"] = "eve"
        if isinstance(event, kind) and isinstance(event, ApprovalDecided):
            assert event.edited_arguments is not None
            event.edited_arguments["to"] = "eve"

    agent, effects = mailing(send(), "Oh.", on_event=cunning)
    paused = agent.run("Go")
    edited = {"to": "bob"} if kind is ApprovalDecided else None
    call_id = paused.pending[0].call_id
    if kind is ApprovalRequested:
        with pytest.raises(UsageError, match="changed"):
            agent.resume(paused, {call_id: Approve()}).wait()
    else:
        agent.resume(paused, {call_id: Approve(arguments=edited)}).wait()
    assert ("send", {"to": "eve"}) not in effects.seen
    assert "eve" not in str(agent.model.requests)  # type: ignore[attr-defined]  # of a script


def test_a_tool_gets_arguments_that_nobody_else_has() -> None:
    given: list[Any] = []

    def keep(items: list[int]) -> str:
        given.append(items)
        items.append(4)
        return "kept"

    model = ScriptedModel(CallTool("keep", {"items": [1, 2, 3]}), "Done.")
    events = events_of(Agent(model, [keep, add]))
    assert given == [[1, 2, 3, 4]]
    assert one(events, ToolCallCompleted).arguments == {"items": [1, 2, 3]}
    assert one(events, ToolArgsCompleted).arguments == {"items": [1, 2, 3]}


# A run that has paused


def test_a_run_that_paused_and_is_stopped_by_itself_is_gone() -> None:
    agent, _ = mailing(send(), "Fine.")
    conversation = Conversation()
    run = agent.run_stream("Go", conversation)
    follow(run)
    events = run.stop("never mind")
    assert steps(events) == ["approval_decided", "tool_call_failed", "run_stopped"]
    assert conversation.run_id is None
    with pytest.raises(UsageError, match="waits for decisions"):
        agent.resume(run, {}).wait()


async def test_who_leaves_before_the_pause_was_told_has_stopped_the_run() -> None:
    agent, _ = mailing(send(), "Fine.")
    conversation = Conversation()
    async with agent.run_stream("Go", conversation) as run:
        await anext(run)
        await asyncio.sleep(0.05)  # it has paused by now
    assert conversation.run_id is None
    assert agent.run("Again", conversation).text == "Fine."


def test_always_for_a_rule_is_about_that_rule_of_that_policy() -> None:
    ran: list[str] = []

    def guarded(name: str) -> object:
        def run() -> None:
            ran.append(name)

        own = Policy.from_toml('default = "allow"\n[[rules]]\naction = "ask"\n')
        return tool(name=name, requires_confirmation=own)(run)

    agent = Agent(
        ScriptedModel(CallTool("list"), CallTool("delete")), [guarded("list"), guarded("delete")]
    )
    paused = agent.run("Go")
    again = resumed(agent, paused, Approve(always="rule")).wait()
    assert ran == ["list"]
    assert [request.name for request in again.pending] == ["delete"]


def test_approve_that_is_clicked_twice_counts_once_and_locks_nothing() -> None:
    agent, effects = mailing(send(), "Sent.", "Yes.")
    conversation = Conversation()
    paused = agent.run("Go", conversation)
    yes = {paused.pending[0].call_id: Approve()}
    first, again = agent.resume(paused, yes), agent.resume(paused, yes)
    assert first.wait().text == "Sent."
    with pytest.raises(UsageError, match="waits for decisions"):
        again.wait()
    assert effects.seen == [("send", {"to": "ada"})]
    assert agent.run("Go on", conversation).text == "Yes."


async def test_a_decision_on_a_run_that_has_paused_says_where_it_belongs() -> None:
    agent, _ = mailing(send(), "Sent.")
    run = agent.run_stream("Go")
    async for event in run:
        if isinstance(event, ApprovalRequested):
            await asyncio.sleep(0.05)
            with pytest.raises(UsageError, match=r"Agent\.resume"):
                run.decide(event.call_id, Approve())
    assert agent.resume(run, {run.pending[0].call_id: Approve()}) is not None


def test_always_for_a_rule_grants_what_was_shown_and_no_more() -> None:
    effects = Effects()
    policy = Policy.from_toml('default = "allow"\n[[rules]]\nname = "mail"\naction = "ask"\n')
    own = Policy.from_toml('default = "allow"\n[[rules]]\nname = "outside"\naction = "ask"\n')
    guarded = tool(requires_confirmation=own)(effects.send)
    agent = Agent(ScriptedModel(send("ada"), send("bob")), [guarded], policy=policy)
    paused = agent.run("Go")
    assert paused.pending[0].rule == "mail"
    again = agent.resume(paused, {paused.pending[0].call_id: Approve(always="rule")}).wait()
    assert [(request.rule, request.arguments) for request in again.pending] == [
        ("outside", {"to": "bob"})
    ]


def test_what_was_granted_to_one_agent_is_not_granted_to_another() -> None:
    conversation = Conversation()
    ran: list[str] = []

    def asking(name: str) -> Agent:
        def run() -> None:
            ran.append(name)

        policy = Policy.from_toml('default = "allow"\n[[rules]]\naction = "ask"\n')
        return Agent(ScriptedModel(CallTool("run"), "Done."), [run], policy=policy)

    for always in ("rule", "session"):
        first, second = asking("first"), asking("second")
        paused = first.run("Go", conversation)
        decision = Approve(always=always)
        first.resume(paused, {paused.pending[0].call_id: decision}).wait()
        paused = second.run("Go", conversation)
        assert paused.is_paused
        second.stop(paused)
    assert ran == ["first", "first"]


def test_the_hook_hears_every_event_also_of_a_run_that_is_left() -> None:
    heard: list[Event] = []
    effects = Effects()
    model = ScriptedModel(CallTool("write", {"path": "a"}), CallTool("write", {"path": "b"}), "x")
    agent = Agent(model, [effects.write], on_event=lambda record: heard.append(record.event))
    for _ in agent.run("Go", stream=True):
        time.sleep(0.05)  # it goes on meanwhile
        break
    started = only(heard, ToolExecutionStarted)
    assert len(started) >= len(effects.seen) > 0
    assert isinstance(heard[-1], RunCompleted | RunStopped)


# Somebody is asked while the run goes on: by an approver, or by whoever follows it


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


async def test_without_an_approver_a_run_can_be_decided_on_while_it_goes_on() -> None:
    agent, effects = mailing(Reply(send(), CallTool("write", {"path": "a"})), "Done.")
    run, events = agent.run_stream("Go"), []
    async for event in run:
        events.append(event)
        if isinstance(event, ApprovalRequested):
            run.decide(event.call_id, Approve())
            with pytest.raises(UsageError, match="decided already"):
                run.decide(event.call_id, Deny())
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


async def test_failing_approver_cancels_the_tools_that_run() -> None:
    slow = Slow()

    async def approve(_: ApprovalRequested) -> Any:
        await slow.started.wait()
        return None

    events: list[Event] = []
    agent, effects = mailing(
        Reply(send(), CallTool("wait", {})),
        "Oh.",
        more=[slow.wait],
        approver=approve,
        on_event=lambda record: events.append(record.event),
    )
    with pytest.raises(UsageError, match="returned None"):
        await agent.run_async("Go")
    check_order(events)
    assert len(only(events, ToolCallFailed)) == 2
    assert effects.seen == []


@pytest.mark.parametrize(
    "answer", [Approve(arguments={"to": 1}), Approve(digest="of another call")]
)
def test_an_approver_whose_answer_cannot_be_used_denies(answer: Any) -> None:
    agent, effects = mailing(send(), "Oh.", approver=answering(answer))
    events = events_of(agent)
    assert effects.seen == []
    assert one(events, ApprovalDecided).decision == "denied"


@pytest.mark.parametrize("store", [None, "memory:"])
def test_what_nobody_decides_in_time_is_denied(store: str | None) -> None:
    agent, effects = mailing(send(), "Oh.", approver=never, approval_timeout=0.05, store=store)
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


async def test_who_decides_from_a_callback_of_the_event_loop_is_heard() -> None:
    agent, effects = mailing(Reply(send(), CallTool("write", {"path": "a"})), "Sent.")
    run = agent.run_stream("Go")
    async for event in run:
        if isinstance(event, ApprovalRequested):
            loop = asyncio.get_running_loop()
            loop.call_soon(run.decide, event.call_id, Approve())
            await asyncio.sleep(0)
    assert ("send", {"to": "ada"}) in effects.seen
