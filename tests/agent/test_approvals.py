"""Approvals: which calls need one, which decisions are valid, and what runs afterwards."""

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from argstream import events as ev
from argstream.agent import Agent, Approval, Approve, Conversation, Deny, tool
from argstream.agent.approvals import digest_of
from argstream.errors import UsageError
from argstream.events import ApprovalDecided, ApprovalRequested, ApprovalScope, Event, RunPaused
from argstream.history import ResultPart
from argstream.models import CallTool, Reply, ScriptedModel
from argstream.policy import Policy
from argstream.runs import MemoryStore, Record
from tests.agent import following
from tests.agent.following import Effects, events_of, follow, mailing, one, only, resumed, send
from tests.agent.ordering import check_order

pytestmark = pytest.mark.anyio

SENT = [("send", {"to": "ada"})]
ASK = 'default = "allow"\n[[rules]]\naction = "ask"\n'
BOSS = 'tool = "send"\nargument = "to"\nprefix = "boss"\n'


def result_of(model: object) -> ResultPart:
    assert isinstance(model, ScriptedModel)
    part = model.requests[1].messages[-1].parts[-1]
    assert isinstance(part, ResultPart)
    return part


def test_tool_can_have_its_own_policy() -> None:
    effects = Effects()
    rules = f'{ASK}{BOSS}[[rules]]\naction = "deny"\nreason = "No"\nargument = "to"\nequals = "eve"'
    guarded = tool(requires_confirmation=Policy.from_toml(rules))(effects.send)
    model, allows = ScriptedModel(send("ada"), send("eve"), send("boss")), 'default = "allow"'
    events = events_of(Agent(model, [guarded], policy=Policy.from_toml(allows)))
    assert effects.seen == SENT
    assert one(events, ev.ToolCallFailed).error.startswith("the call was not run: No")
    assert one(events, RunPaused).pending[0].arguments == {"to": "boss"}
    for completed in only(events, ev.ToolArgsCompleted):  # of the allowed and of the pending call
        assert completed.policy_decision is None
        assert b"policy_decision" not in ev.to_json(completed)


def test_digest_covers_run_call_tool_and_exact_text() -> None:
    agent, _ = mailing(CallTool("send", '{"to":  "ada"}'))
    run = agent.run_stream("Go")
    request = one(follow(run), ApprovalRequested)
    assert request.digest == digest_of(run.run_id, request.call_id, "send", '{"to":  "ada"}')
    assert request.digest != digest_of(run.run_id, request.call_id, "send", '{"to": "ada"}')
    assert digest_of("ab", "c", "d", "e") != digest_of("a", "bc", "d", "e")


def test_denied_call_does_not_run_and_the_model_gets_the_reason() -> None:
    agent, effects = mailing(send(), "All right.")
    result = resumed(agent, agent.run("Go"), Deny("not on sundays")).wait()
    assert effects.seen == []
    assert result.text == "All right."
    assert result_of(agent.model).result == "the call was not run: it was denied: not on sundays"
    assert (result_of(agent.model).failed, result_of(agent.model).note) == (True, "")


def test_edited_arguments_run_and_are_recorded_beside_those_of_the_model() -> None:
    agent, effects = mailing(send(), "Sent.")
    paused = agent.run("Go")
    run = resumed(agent, paused, Approve(arguments={"to": "bob"}))
    events = follow(run)
    assert effects.seen == [("send", {"to": "bob"})]
    decided = one(events, ApprovalDecided)
    assert (decided.decision, decided.edited_arguments) == ("edited", {"to": "bob"})
    assert one(events, ev.ToolCallCompleted).arguments == {"to": "bob"}
    assert paused.pending[0].arguments == {"to": "ada"}
    assert '{"to": "bob"}' in result_of(agent.model).note
    assert run.result.tools[0].tool_args == {"to": "bob"}


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (Approve(arguments={"to": 7}), "not valid"),
        (Approve(arguments={}), "not valid"),
        (Approve(arguments={"to": object()}), "not valid JSON"),
        (Approve(arguments={"to": float("nan")}), "not valid JSON"),
        (Approve(digest="of another call"), "digest"),
        (Approve(always="rule"), 'always="conversation"'),
        (Approve(always="forever"), '"rule" or "conversation"'),  # type: ignore[arg-type]  # wrong
        (Approve(always=True), '"rule" or "conversation"'),  # type: ignore[arg-type]  # wrong
        (True, "Approve"),
    ],
)
@pytest.mark.parametrize("store", [None, "memory:"])
def test_call_stays_pending_after_an_invalid_decision(
    decision: Any, message: str, store: str | None
) -> None:
    agent, effects = mailing(send(), "Sent.", store=store)
    paused = agent.run("Go")
    with pytest.raises(UsageError, match=message):
        resumed(agent, paused, decision).wait()
    call_id = paused.pending[0].call_id
    with pytest.raises(UsageError, match=message):
        following.complete(lambda: agent.check(paused, {call_id: decision}))
    following.complete(lambda: agent.check(paused, {call_id: Approve()}))
    assert resumed(agent, paused, Approve()).wait().text == "Sent."
    assert effects.seen == SENT
    with pytest.raises(UsageError, match="has ended" if store else "is not paused"):
        following.complete(lambda: agent.check(paused, {call_id: Approve()}))


@pytest.mark.parametrize("is_of_tool", [False, True])
def test_edit_that_a_policy_denies_raises(is_of_tool: bool) -> None:
    effects = Effects()
    policy = Policy.from_toml(f'default = "ask"\n[[rules]]\naction = "deny"\n{BOSS}')
    given = tool(requires_confirmation=policy)(effects.send) if is_of_tool else effects.send
    agent = Agent(ScriptedModel(send()), [given], policy=None if is_of_tool else policy)
    with pytest.raises(UsageError, match="not valid"):
        resumed(agent, agent.run("Go"), Approve(arguments={"to": "boss"})).wait()


def test_decision_for_an_unknown_call_or_run_raises() -> None:
    agent, _ = mailing(send(), "Sent.")
    paused = agent.run("Go")
    with pytest.raises(UsageError, match=f"Pending: {paused.pending[0].call_id!r}$"):
        agent.resume(paused, {"call_x": Approve()}).wait()
    with pytest.raises(UsageError, match="is not paused"):
        agent.resume("run_x", {}).wait()


async def test_leaving_a_run_before_its_pause_was_read_stops_it() -> None:
    agent, _ = mailing(send(), "Fine.")
    conversation = Conversation()
    async with agent.run_stream("Go", conversation) as run:
        await anext(run)
        while not run.pending:
            await asyncio.sleep(0.001)
    assert conversation.run_id is None
    assert agent.run("Again", conversation).text == "Fine."


async def test_decide_on_a_paused_run_raises_and_names_resume() -> None:
    agent, _ = mailing(send(), "Sent.")
    run = agent.run_stream("Go")
    await run
    with pytest.raises(UsageError, match=r"Agent\.resume"):
        run.decide(run.pending[0].call_id, Approve())
    assert (await resumed(agent, run, Approve())).text == "Sent."


def test_session_grant_covers_the_tool_in_this_conversation_only() -> None:
    agent, effects = mailing(send("ada"), send("bob"), "Sent.", send("eve"), "Sent.", send("joe"))
    conversation = Conversation()
    paused = agent.run("Go", conversation)
    events = follow(resumed(agent, paused, Approve(always="conversation")))
    assert one(events, ApprovalDecided).always == "conversation"
    assert [arguments["to"] for _, arguments in effects.seen] == ["ada", "bob"]
    assert agent.run("Go on", conversation).outcome == "completed"
    assert agent.run("Go").is_paused
    assert [arguments["to"] for _, arguments in effects.seen] == ["ada", "bob", "eve"]


def test_rule_grant_covers_that_rule_of_that_policy_only() -> None:
    ran: list[str] = []

    def guarded(name: str) -> object:
        def run() -> None:
            ran.append(name)

        return tool(name=name, requires_confirmation=Policy.from_toml(ASK))(run)

    model = ScriptedModel(CallTool("list"), CallTool("delete"))
    agent = Agent(model, [guarded("list"), guarded("delete")])
    again = resumed(agent, agent.run("Go"), Approve(always="rule")).wait()
    assert ran == ["list"]
    assert [request.name for request in again.pending] == ["delete"]


def test_rule_grant_covers_only_the_rule_that_was_shown() -> None:
    effects = Effects()
    policy, own = (
        Policy.from_toml(f'{ASK}name = "{name}"\nreason = "it is {name}"')
        for name in ("mail", "outside")
    )
    guarded = tool(requires_confirmation=own)(effects.send)
    agent = Agent(ScriptedModel(send("ada"), send("bob")), [guarded], policy=policy)
    paused = agent.run("Go")
    assert (paused.pending[0].rule, paused.pending[0].reason) == ("mail", "it is mail")
    (request,) = resumed(agent, paused, Approve(always="rule")).wait().pending
    assert (request.rule, request.arguments) == ("outside", {"to": "bob"})


def test_grant_to_one_agent_does_not_hold_for_another() -> None:
    conversation = Conversation()
    ran: list[str] = []

    def asking(name: str) -> Agent:
        def run() -> None:
            ran.append(name)

        policy = Policy.from_toml(ASK)
        return Agent(ScriptedModel(CallTool("run"), "Done."), [run], policy=policy)

    scopes: tuple[ApprovalScope, ...] = ("rule", "conversation")
    for always in scopes:
        first, second = asking("first"), asking("second")
        resumed(first, first.run("Go", conversation), Approve(always=always)).wait()
        paused = second.run("Go", conversation)
        assert paused.is_paused
        second.stop(paused)
    assert ran == ["first", "first"]


# What was approved is what runs (invariant 12)


@pytest.mark.parametrize("kind", [ev.ToolArgsCompleted, ApprovalRequested, ApprovalDecided])
def test_hook_cannot_change_what_runs(kind: type[Event]) -> None:
    def change(record: Record) -> None:
        event = record.event
        if isinstance(event, kind) and isinstance(event, ev.ToolArgsCompleted | ApprovalRequested):
            assert isinstance(event.arguments, dict)
            event.arguments["to"] = "eve"
        if isinstance(event, kind) and isinstance(event, ApprovalDecided):
            assert event.edited_arguments is not None
            event.edited_arguments["to"] = "eve"

    agent, effects = mailing(send(), "Oh.", on_event=change)
    paused = agent.run("Go")
    if kind is ApprovalRequested:
        with pytest.raises(UsageError, match="changed"):
            resumed(agent, paused, Approve()).wait()
    else:
        edited = {"to": "bob"} if kind is ApprovalDecided else None
        resumed(agent, paused, Approve(arguments=edited)).wait()
    assert ("send", {"to": "eve"}) not in effects.seen
    assert "eve" not in str(agent.model.requests)  # type: ignore[attr-defined]  # of a script


def test_arguments_can_be_edited_in_the_request_itself() -> None:
    def edit(request: ApprovalRequested) -> Approve:
        request.arguments["to"] = "bob"
        return Approve(arguments=request.arguments)

    agent, effects = mailing(send(), "Sent.", approver=edit)
    assert agent.run("Go").text == "Sent."
    assert effects.seen == [("send", {"to": "bob"})]


def test_call_whose_request_was_changed_after_the_approval_does_not_run() -> None:
    requests: list[ApprovalRequested] = []

    def change(record: Record) -> None:
        requests.extend(only([record.event], ApprovalRequested))
        if isinstance(record.event, ApprovalDecided):
            requests[0].arguments["to"] = "eve"

    calls = Reply(send(), CallTool("write", {"path": "a", "content": "x" * 400}))
    approver = with_approver(Approve())
    agent, effects = mailing(calls, "Oh.", delay=0.002, approver=approver, on_event=change)
    failed = one(events_of(agent), ev.ToolCallFailed)
    assert "its arguments changed after approval was requested" in failed.error
    assert [name for name, _ in effects.seen] == ["write"]


async def never(request: ApprovalRequested) -> Approval:
    await asyncio.sleep(20)
    return Approve(reason=request.name)


def with_approver(answer: Any, *, is_async: bool = False) -> Callable[[ApprovalRequested], Any]:

    def approve(_: ApprovalRequested) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def approve_async(request: ApprovalRequested) -> Any:
        return approve(request)

    return approve_async if is_async else approve


def test_call_can_be_approved_while_later_calls_are_written() -> None:
    calls = Reply(send(), CallTool("write", {"path": "a", "content": "x" * 400}))
    agent, _ = mailing(calls, "Done.", delay=0.002, approver=with_approver(Approve()))
    events = events_of(agent)
    kinds = [type(event) for event in events]
    decided = kinds.index(ApprovalDecided)
    written = [n for n, kind in enumerate(kinds) if kind is ev.ToolArgsCompleted][1]
    assert decided < written < kinds.index(ev.TurnCompleted)
    assert kinds.index(ev.TurnCompleted) < kinds.index(ev.ToolExecutionStarted)


@pytest.mark.parametrize("way", ["directly", "callback"])
async def test_consumer_can_decide_while_the_run_goes_on(way: str) -> None:
    agent, effects = mailing(Reply(send(), CallTool("write", {"path": "a"})), "Done.")
    run = agent.run_stream("Go")

    async def decide(request: ApprovalRequested) -> None:
        if way == "callback":
            asyncio.get_running_loop().call_soon(run.decide, request.call_id, Approve())
            await asyncio.sleep(0)
        else:
            run.decide(request.call_id, Approve())
            with pytest.raises(UsageError, match="already has a decision"):
                run.decide(request.call_id, Deny())

    events = await following.collect(run, ApprovalRequested, decide)
    assert not only(events, RunPaused)
    assert len(effects.seen) == 2


@pytest.mark.parametrize("has_store", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("answer", [None, True, "yes", Approve])
def test_approver_that_returns_no_decision_raises_to_the_developer(
    answer: Any, is_async: bool, has_store: bool
) -> None:
    events: list[Event] = []
    agent, effects = mailing(
        *(send(), "Oh."),
        approver=with_approver(answer, is_async=is_async),
        store=MemoryStore() if has_store else None,
        on_event=lambda record: events.append(record.event),
    )
    message = f"the approver returned {answer!r} for send. It must return Approve(…) or Deny(…)"
    with pytest.raises(UsageError, match=re.escape(message)):
        agent.run("Go")
    assert effects.seen == []
    check_order(events)
    assert one(events, ev.RunFailed).code == "approver_failed"
    assert one(events, ev.RunFailed).message == message
    assert one(events, ApprovalDecided).decision == "withdrawn"
    assert isinstance(agent.model, ScriptedModel)
    assert len(agent.model.requests) == 1, "the model is not asked again"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", [OSError("gone"), SystemExit(3), KeyboardInterrupt()])
def test_exception_of_an_approver_is_raised(error: BaseException, is_async: bool) -> None:
    events: list[Event] = []
    approver = with_approver(error, is_async=is_async)
    agent, effects = mailing(
        send(), "Oh.", approver=approver, on_event=lambda record: events.append(record.event)
    )
    with pytest.raises(type(error)) as caught:
        agent.run("Go")
    assert caught.value is error
    assert effects.seen == []
    if isinstance(error, OSError):  # the others end the program
        check_order(events)
        assert one(events, ev.RunFailed).message == "the approver failed with OSError"


async def test_failing_approver_cancels_running_tools() -> None:
    slow = following.Slow()
    events: list[Event] = []

    async def approve(_: ApprovalRequested) -> Any:
        await slow.started.wait()
        return None

    agent, effects = mailing(
        *(Reply(send(), CallTool("wait", {})), "Oh."),
        more=[slow.wait],
        approver=approve,
        on_event=lambda record: events.append(record.event),
    )
    with pytest.raises(UsageError, match="returned None"):
        await agent.run_async("Go")
    check_order(events)
    withdrawn, _ = only(events, ev.ToolCallFailed)
    assert "returned None" in withdrawn.error
    assert effects.seen == []


@pytest.mark.parametrize("answer", [Approve(arguments={"to": 1}), Approve(digest="of another")])
def test_invalid_decision_of_an_approver_denies(answer: Any) -> None:
    agent, effects = mailing(send(), "Oh.", approver=with_approver(answer))
    assert one(events_of(agent), ApprovalDecided).decision == "denied"
    assert effects.seen == []


@pytest.mark.parametrize("store", [None, "memory:"])
def test_expired_approval_denies_the_call_and_a_stop_withdraws_it(store: str | None) -> None:
    agent, effects = mailing(send(), "Oh.", approver=never, approval_timeout=0.05, store=store)
    events = events_of(agent)
    assert one(events, ApprovalDecided).decision == "expired"
    assert one(events, ev.RunCompleted).result == "Oh."
    agent, stopped = mailing(send(), "Oh.", approver=never, store=store)
    events = following.stopped_at(agent.run_stream("Go"), ApprovalRequested)
    assert one(events, ApprovalDecided).decision == "withdrawn"
    assert isinstance(events[-1], ev.RunStopped)
    assert effects.seen == stopped.seen == []


def test_sync_approver_is_asked_about_one_call_at_a_time() -> None:
    at_once, most = 0, 0

    def approve(request: ApprovalRequested) -> Approval:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        time.sleep(0.02)
        at_once -= 1
        return Deny(request.name)

    agent, _ = mailing(Reply(send("ada"), send("bob"), send("eve")), "Oh.", approver=approve)
    assert len(only(events_of(agent), ApprovalDecided)) == 3
    assert most == 1


async def test_consumer_that_decides_before_the_approver_wins() -> None:
    async def approve(_: ApprovalRequested) -> Approval:
        await decided.wait()
        return Deny("too late")

    decided = asyncio.Event()
    agent, _ = mailing(send(), "Sent.", approver=approve)
    run = agent.run_stream("Go")

    def decide(request: ApprovalRequested) -> None:
        run.decide(request.call_id, Approve())
        decided.set()

    events = await following.collect(run, ApprovalRequested, decide)
    check_order(events)
    assert one(events, ApprovalDecided).decision == "approved"
    assert one(events, ev.RunCompleted).result == "Sent."
