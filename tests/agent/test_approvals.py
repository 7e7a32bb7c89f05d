"""A person is asked: what may be decided, by whom, until when, and what then runs."""

import asyncio
import threading
import time
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
from argstream.clients import CallTool, Reply, ScriptedModel
from argstream.errors import UsageError
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunCompleted,
    RunPaused,
    RunResumed,
    RunStopped,
    ToolArgsCompleted,
    ToolCallCompleted,
    ToolExecutionStarted,
    to_json,
)
from argstream.history import ResultPart
from argstream.log import Record
from argstream.policy import Policy
from tests.agent.following import (
    Effects,
    add,
    complete,
    events_of,
    follow,
    mailing,
    one,
    only,
    send,
    steps,
)


def result_of(model: object, request: int = 1) -> ResultPart:
    assert isinstance(model, ScriptedModel)
    part = model.requests[request].messages[-1].parts[-1]
    assert isinstance(part, ResultPart)
    return part


def resumed(agent: Agent, paused: RunResult | RunPaused | AgentRun, decision: Approval) -> AgentRun:
    """Go on with a run that has paused: with a decision on the first call that waits."""
    return agent.resume(paused, {paused.pending[0].call_id: decision})


# Who is asked, and when


def test_a_call_that_must_be_confirmed_pauses_the_run_with_its_whole_arguments() -> None:
    agent, effects = mailing(send())
    events = events_of(agent)
    assert steps(events) == [
        "run_started",
        "turn_started",
        "tool_call_started",
        "tool_args_completed",
        "approval_requested",
        "turn_completed",
        "run_paused",
    ]
    assert one(events, RunPaused).pending == (one(events, ApprovalRequested),)
    assert one(events, ApprovalRequested).arguments == {"to": "ada"}
    assert effects.seen == []


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


def test_calls_that_need_no_approval_run_while_others_wait() -> None:
    agent, effects = mailing(Reply(send(), CallTool("write", {"path": "a"})), "Done.")
    events = events_of(agent)
    assert effects.seen == [("write", {"path": "a", "content": ""})]
    assert steps(events)[-1] == "run_paused"
    assert one(events, ToolCallCompleted).name == "write"


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
    ("arguments", "message"),
    [
        ({"to": 7}, "not valid"),
        ({}, "not valid"),
        ({"to": object()}, "no JSON"),
        ({"to": float("nan")}, "no JSON"),
    ],
)
def test_edits_that_do_not_fit_are_refused_and_nothing_is_lost(
    arguments: dict[str, Any], message: str
) -> None:
    agent, effects = mailing(send(), "Sent.")
    paused = agent.run("Go")
    call_id = paused.pending[0].call_id
    with pytest.raises(UsageError, match=message):
        agent.resume(paused, {call_id: Approve(arguments=arguments)}).wait()
    assert agent.resume(paused, {call_id: Approve()}).wait().text == "Sent."
    assert effects.seen == [("send", {"to": "ada"})]


def test_edits_that_the_policy_denies_are_refused() -> None:
    effects = Effects()
    policy = Policy.from_toml(
        'default = "ask"\n[[rules]]\ntool = "send"\naction = "deny"\n'
        'argument = "to"\nprefix = "boss"\n'
    )
    agent = Agent(ScriptedModel(send()), [effects.send], policy=policy)
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


def test_a_decision_is_used_once() -> None:
    agent, effects = mailing(Reply(send("ada"), send("bob")), "Sent.")
    paused = agent.run("Go")
    decisions = {paused.pending[0].call_id: Approve()}
    agent.resume(paused, decisions).wait()
    with pytest.raises(UsageError, match="decided already"):
        agent.resume(paused, decisions).wait()
    assert effects.seen == [("send", {"to": "ada"})]


def test_a_decision_on_what_nobody_asked_is_refused() -> None:
    agent, _ = mailing(send(), "Sent.")
    paused = agent.run("Go")
    with pytest.raises(UsageError, match=f"waiting are: {paused.pending[0].call_id}"):
        agent.resume(paused, {"call_x": Approve()}).wait()
    with pytest.raises(UsageError, match="waits for decisions"):
        agent.resume("run_x", {}).wait()


def test_a_decision_with_the_digest_of_something_else_is_refused() -> None:
    agent, _ = mailing(Reply(send("ada"), send("bob")), "Sent.")
    paused = agent.run("Go")
    first, second = paused.pending
    with pytest.raises(UsageError, match="digest"):
        agent.resume(paused, {first.call_id: Approve(digest=second.digest)}).wait()


def test_all_decisions_count_or_none() -> None:
    agent, effects = mailing(Reply(send("ada"), send("bob")), "Sent.")
    paused = agent.run("Go")
    good, bad = (request.call_id for request in paused.pending)
    with pytest.raises(UsageError):
        agent.resume(paused, {good: Approve(), bad: Approve(arguments={"to": 1})}).wait()
    assert effects.seen == []
    assert len(agent.resume(paused, {}).wait().pending) == 2


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


def test_always_for_this_rule_holds_for_what_that_rule_asks_about() -> None:
    effects = Effects()
    policy = Policy.from_toml(
        'default = "ask"\n'
        '[[rules]]\nname = "mail"\ntool = "send"\naction = "ask"\n'
        '[[rules]]\nname = "files"\ntool = "write"\naction = "ask"\n'
    )
    replies = (send("ada"), Reply(send("bob"), CallTool("write", {"path": "a"})))
    agent = Agent(ScriptedModel(*replies), [effects.send, effects.write], policy=policy)
    paused = agent.run("Go")
    again = resumed(agent, paused, Approve(always="rule")).wait()
    assert [request.name for request in again.pending] == ["write"]
    assert [to["to"] for _, to in effects.seen] == ["ada", "bob"]


def test_always_for_a_rule_needs_a_rule() -> None:
    agent, _ = mailing(send())
    paused = agent.run("Go")
    with pytest.raises(UsageError, match='always="session"'):
        resumed(agent, paused, Approve(always="rule")).wait()


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


def test_a_resumed_run_says_so() -> None:
    agent, _ = mailing(send(), "Sent.")
    run = agent.run_stream("Go")
    paused = one(follow(run), RunPaused)
    events = follow(agent.resume(run, {paused.pending[0].call_id: Deny()}))
    assert events[0] == RunResumed(run.run_id)
    assert not only(events, ApprovalRequested)


# A run that has paused


def test_a_run_that_paused_and_is_stopped_by_itself_is_gone() -> None:
    agent, _ = mailing(send(), "Fine.")
    conversation = Conversation()
    run = agent.run_stream("Go", conversation)
    follow(run)
    run.stop("never mind")
    assert conversation.run_id is None
    with pytest.raises(UsageError, match="waits for decisions"):
        agent.resume(run, {}).wait()


def test_who_leaves_before_the_pause_was_told_has_stopped_the_run() -> None:
    agent, _ = mailing(send(), "Fine.")
    conversation = Conversation()

    async def leaving() -> None:
        async with agent.run_stream("Go", conversation) as run:
            await anext(run)
            await asyncio.sleep(0.05)  # it has paused by now

    complete(leaving)
    assert conversation.run_id is None
    assert agent.run("Again", conversation).text == "Fine."


def test_decisions_count_when_the_run_goes_on_not_before() -> None:
    agent, effects = mailing(send(), "Fine.")
    paused = agent.run("Go")
    call_id = paused.pending[0].call_id
    forgotten = agent.resume(paused, {call_id: Approve()})
    assert agent.resume(paused, {call_id: Deny()}).wait().text == "Fine."
    with pytest.raises(UsageError, match="waits for decisions"):
        forgotten.wait()
    assert effects.seen == []


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


def test_always_for_a_rule_does_not_answer_for_the_tool_itself() -> None:
    effects = Effects()
    policy = Policy.from_toml('default = "allow"\n[[rules]]\nname = "mail"\naction = "ask"\n')
    confirmed = tool(requires_confirmation=True)(effects.send)
    agent = Agent(ScriptedModel(send("ada"), send("bob")), [confirmed], policy=policy)
    paused = agent.run("Go")
    again = resumed(agent, paused, Approve(always="rule")).wait()
    assert again.pending[0].arguments == {"to": "bob"}


def test_edits_that_the_tools_own_policy_denies_are_refused() -> None:
    effects = Effects()
    own = Policy.from_toml(
        'default = "ask"\n[[rules]]\naction = "deny"\nargument = "to"\nprefix = "boss"\n'
    )
    agent = Agent(ScriptedModel(send()), [tool(requires_confirmation=own)(effects.send)])
    paused = agent.run("Go")
    with pytest.raises(UsageError, match="not valid"):
        resumed(agent, paused, Approve(arguments={"to": "boss"})).wait()


@pytest.mark.parametrize("always", [True, "forever"])
def test_always_is_one_of_two_words(always: Any) -> None:
    agent, _ = mailing(send())
    paused = agent.run("Go")
    with pytest.raises(UsageError, match='"session" or "rule"'):
        resumed(agent, paused, Approve(always=always)).wait()


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


def test_a_decision_on_a_run_that_has_paused_says_where_it_belongs() -> None:
    agent, _ = mailing(send(), "Sent.")

    async def slowly() -> None:
        run = agent.run_stream("Go")
        async for event in run:
            if isinstance(event, ApprovalRequested):
                await asyncio.sleep(0.05)
                with pytest.raises(UsageError, match=r"Agent\.resume"):
                    run.decide(event.call_id, Approve())
        assert agent.resume(run, {run.pending[0].call_id: Approve()}) is not None

    complete(slowly)


def test_the_hook_hears_of_a_paused_run_that_is_stopped() -> None:
    heard: list[Event] = []

    async def hear(record: Record) -> None:
        heard.append(record.event)

    agent, _ = mailing(send(), on_event=hear)
    agent.stop(agent.run("Go"))
    assert isinstance(heard[-1], RunStopped)


def test_a_hook_that_fails_when_a_paused_run_is_stopped_leaves_no_thread() -> None:
    async def hear(record: Record) -> None:
        if isinstance(record.event, RunStopped):
            raise OSError("the disk is full")

    agent, _ = mailing(send(), on_event=hear)
    paused, before = agent.run("Go"), threading.active_count()
    with pytest.raises(OSError, match="the disk is full"):
        agent.stop(paused)
    assert threading.active_count() <= before


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
