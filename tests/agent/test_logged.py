"""Runs with a log: what is written, and who may go on with them.

That they survive the end of a process is shown with real ones in ``tests/surviving``.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

from argstream.agent import Agent, Approve, Conversation, Deny, tool
from argstream.errors import (
    AlreadyDecided,
    RunTaken,
    StoreFailure,
    UnknownRun,
    UsageError,
)
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunCompleted,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStopped,
    ToolCallCompleted,
    ToolCallFailed,
    ToolExecutionStarted,
    TurnStarted,
)
from argstream.history import ResultPart, TextPart
from argstream.models import CallTool, Reply, ScriptedModel
from argstream.policy import Policy, Rule
from argstream.runs import (
    Claim,
    MemoryStore,
    Posts,
    Record,
    Store,
    is_stored,
)
from tests.agent.following import (
    Effects,
    Hasty,
    Slow,
    begun,
    complete,
    cut_off,
    drop,
    logged,
    mailing,
    merged,
    one,
    only,
    send,
    steps,
    told,
)
from tests.agent.histories import check_history
from tests.agent.ordering import check_order

pytestmark = pytest.mark.anyio


# What is written


async def test_the_log_is_what_was_told_without_views_and_with_neighbours_merged(
    store: Store,
) -> None:
    agent, _ = mailing(CallTool("write", {"path": "a.txt", "content": "x" * 500}), "Done.")
    run = Agent(agent.model, [Effects().write], store=store).run_stream("Go")
    events = await told(run)
    assert merged(await logged(store, run)) == merged(events)
    records = await store.read(run.run_id)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert {(record.run_id, record.session_id) for record in records} == {
        (run.run_id, run.conversation.id)
    }
    check_order(await logged(store, run))


# Another agent goes on


async def test_a_paused_run_goes_on_with_another_agent(store: Store) -> None:
    first, _ = mailing(send(), store=store)
    conversation = Conversation()
    paused = await first.run_stream("Go", conversation)
    second, effects = mailing("Sent.", store=store)
    run = second.resume(paused.run_id, {paused.pending[0].call_id: Approve()})
    events = await told(run)
    assert steps(events)[:4] == [
        "run_resumed",
        "approval_decided",
        "tool_execution_started",
        "tool_call_completed",
    ]
    assert effects.seen == [("send", {"to": "ada"})]
    assert run.result.text == "Sent."
    assert [use.tool_name for use in run.result.tools] == ["send"]
    assert run.conversation.id == conversation.id
    check_order(await logged(store, run))
    check_history(run.conversation.messages, is_over=True)


async def test_a_conversation_goes_on_after_a_run_that_ended_elsewhere(
    store: Store,
) -> None:
    first, _ = mailing(send(), "Again.", store=store)
    conversation = Conversation()
    paused = await first.run_stream("Go", conversation)
    second, _ = mailing("Sent.", store=store)
    await second.resume(paused, {paused.pending[0].call_id: Approve()})
    with pytest.raises(UsageError, match="is over: it has completed"):
        await first.resume(paused)
    assert (await first.run_stream("And now?", conversation)).text == "Again."
    check_history(conversation.messages, is_over=True)


async def test_always_is_not_taken_over_by_another_agent_whose_rules_may_be_others(
    store: Store,
) -> None:
    slow = Slow()
    first, _ = mailing(send(), Reply(CallTool("wait", {})), more=[slow.wait], store=store)
    paused = await first.run_stream("Go")
    always = {paused.pending[0].call_id: Approve(always="session")}
    async with cut_off(first.resume(paused, always), slow) as run_id:
        second, effects = mailing(send("bob"), more=[slow.wait], store=store)
        result = await second.resume(run_id)
    assert [request.name for request in result.pending] == ["send"]
    assert effects.seen == []


async def test_a_run_that_needs_a_tool_is_not_taken_up_without_it(store: Store) -> None:
    first, _ = mailing(send(), store=store)
    paused = await first.run_stream("Go")
    (call_id,) = (request.call_id for request in paused.pending)
    other = Agent(ScriptedModel("."), [], store=store)
    with pytest.raises(UsageError, match="does not have: send"):
        await other.resume(paused, {call_id: Approve()})
    assert not (await store.posted(paused.run_id)).decisions, "nothing was decided"
    edit = {call_id: Approve(arguments={"to": "bob"})}
    await store.decide(paused.run_id, edit)
    with pytest.raises(UsageError, match="does not have: send"):
        await other.resume(paused)
    assert (await store.posted(paused.run_id)).decisions == edit, "it waits for who can use it"
    assert (await store.info(paused.run_id)).owner is None, "others can go on with it"


async def test_to_deny_a_call_one_needs_no_tool(store: Store) -> None:
    first, _ = mailing(send(), store=store)
    paused = await first.run_stream("Go")
    other = Agent(ScriptedModel("Then not."), [], store=store)
    result = await other.resume(paused, {paused.pending[0].call_id: Deny()})
    assert result.text == "Then not."


async def test_what_the_rules_of_now_forbid_does_not_run(store: Store) -> None:
    first, _ = mailing(send(), store=store)
    paused = await first.run_stream("Go")
    strict = Policy([Rule("deny", tool="send", reason="no mail today")])
    second, effects = mailing("Oh.", store=store, policy=strict)
    run = second.resume(paused, {paused.pending[0].call_id: Approve()})
    failed = one(await told(run), ToolCallFailed)
    assert "no mail today" in failed.error
    assert effects.seen == []


# A conversation, as the store has it


async def test_a_conversation_is_found_by_its_id_and_whose_it_is(store: Store) -> None:
    agent, _ = mailing("Hello, Ada.", "Hello, Bob.", "Again.", store=store)
    await agent.run_stream("I am Ada", Conversation(id="talk", user="ada"))
    await agent.run_stream("I am Bob", Conversation(id="talk", user="bob"))
    other, _ = mailing("Ada.", store=store)
    conversation = await other.conversation("talk", user="ada")
    assert (conversation.id, conversation.user, conversation.run_id) == ("talk", "ada", None)
    assert _texts(conversation) == ["I am Ada", "Hello, Ada."]
    await other.run_stream("Who am I?", conversation)
    found = await agent.conversation("talk", user="ada")
    assert _texts(found) == ["I am Ada", "Hello, Ada.", "Who am I?", "Ada."]
    assert (await agent.conversation("talk")).is_fresh, "nobody's in particular"
    assert found.numbering == conversation.numbering
    check_history(found.messages, is_over=True)


async def test_a_conversation_says_which_of_its_runs_is_not_over(store: Store) -> None:
    agent, _ = mailing("Hi.", send(), "Sent.", "More.", store=store)
    await agent.run_stream("Hello", Conversation(id="talk"))
    paused = await agent.run_stream("Send it", await agent.conversation("talk"))
    conversation = await agent.conversation("talk")
    assert conversation.run_id == paused.run_id
    assert _texts(conversation) == ["Hello", "Hi."], "what was said before it"
    with pytest.raises(UsageError, match="has a run that is not over"):
        await agent.run_stream("More", conversation)
    await agent.resume(paused, {paused.pending[0].call_id: Approve()})
    assert (await agent.run_stream("More", conversation)).text == "More."
    check_history(conversation.messages, is_over=True)


async def test_a_conversation_goes_on_whatever_became_of_its_newest_run(store: Store) -> None:
    agent, _ = mailing("Hi.", send(), store=store, max_turns=1)
    await agent.run_stream("Hello", Conversation(id="talk"))
    paused = await agent.run_stream("Send it", await agent.conversation("talk"))
    await agent.stop_async(paused.run_id, "enough")
    stopped = await agent.conversation("talk")
    assert stopped.run_id is None
    assert _texts(stopped)[:3] == ["Hello", "Hi.", "Send it"]
    check_history(stopped.messages, is_over=True)


async def test_a_conversation_that_is_not_there_is_a_new_one(store: Store) -> None:
    agent, _ = mailing("Hi.", store=store)
    conversation = await agent.conversation("talk", user="ada")
    assert (conversation.id, conversation.user, conversation.is_fresh) == ("talk", "ada", True)
    with pytest.raises(UsageError, match="not empty"):
        await agent.conversation("")
    assert agent.store is store


def _texts(conversation: Conversation) -> list[str]:
    parts = [part for message in conversation.messages for part in message.parts]
    return [part.text for part in parts if isinstance(part, TextPart)]


# Beginning


async def test_who_waits_for_the_beginning_of_a_run_misses_nothing_of_it(store: Store) -> None:
    shown: list[Record] = []
    agent, _ = mailing("Done.", store=store, on_event=shown.append)
    run = agent.run_stream("Go")
    with pytest.raises(UnknownRun):
        await store.info(run.run_id)
    await run.begun()
    assert (await store.info(run.run_id)).seq >= 1
    assert shown == []
    with pytest.raises(UsageError, match="already"):
        await run.begun()
    events = await asyncio.create_task(told(run))
    assert events == [record.event for record in shown]
    stored = [record for record in shown if is_stored(record.event)]
    assert stored == await store.read(run.run_id)


async def test_a_run_that_cannot_begin_says_so_to_who_waits_for_that(store: Store) -> None:
    agent, _ = mailing(send(), "Sent.", store=store)
    paused = await agent.run_stream("Go")
    claim = await store.claim(paused.run_id, "another", 30)
    run = agent.resume(paused, {paused.pending[0].call_id: Approve()})
    with pytest.raises(RunTaken):
        await run.begun()
    await store.release(claim)
    await run.begun()
    assert one(await logged(store, run), RunResumed).cause == "pause"
    assert steps(await told(run))[:2] == ["run_resumed", "approval_decided"]
    with pytest.raises(UsageError, match="is over"):
        await agent.resume(paused).begun()


async def test_a_run_whose_beginning_was_waited_for_is_left_as_any_other(store: Store) -> None:
    slow = Slow()
    agent = Agent(ScriptedModel(CallTool("wait", {}), repeat=True), [slow.wait], store=store)
    dropped, closed = agent.run_stream("Go"), agent.run_stream("Go")
    await dropped.begun()
    await closed.begun()
    run_ids = [dropped.run_id, closed.run_id]
    del dropped
    await closed.aclose()
    for run_id in run_ids:
        *_, last = [record.event async for record in store.follow(run_id)]
        assert isinstance(last, RunStopped)


# After a crash


async def test_a_tool_that_was_running_is_reported_and_not_run_again(
    store: Store,
) -> None:
    slow = Slow()
    first = Agent(ScriptedModel(CallTool("wait", {})), [slow.wait], store=store)
    async with cut_off(first.run_stream("Go"), slow) as run_id:
        assert (await store.info(run_id)).is_abandoned
        model = ScriptedModel("I see.")
        run = Agent(model, [slow.wait], store=store).resume(run_id)
        events = await told(run)
    resumed = one(events, RunResumed)
    failed = one(events, ToolCallFailed)
    assert (resumed.cause, resumed.interrupted) == ("crash", (failed.call_id,))
    assert "not known what it has done" in failed.error
    (result,) = model.requests[0].messages[-1].parts
    assert isinstance(result, ResultPart)
    assert (result.result, result.failed) == (failed.error, True)
    assert slow.times == 1
    check_order(await logged(store, run))


async def test_a_tool_that_is_idempotent_runs_again_with_the_same_key(
    store: Store,
) -> None:
    slow = Slow()
    again = tool(idempotent=True)(slow.wait)
    first_try = Agent(ScriptedModel(CallTool("wait", {})), [again], store=store)
    async with cut_off(first_try.run_stream("Go"), slow) as run_id:
        slow.may_end.set()
        run = Agent(ScriptedModel("Done."), [again], store=store).resume(run_id)
        assert one(await told(run), ToolCallCompleted).result == "waited"
    first, second = only(await logged(store, run), ToolExecutionStarted)
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.idempotency_key == second.idempotency_key
    check_order(await logged(store, run), idempotent=("wait",))


async def test_a_turn_that_was_cut_off_begins_again_and_says_so(store: Store) -> None:
    first = Agent(_hanging, [], store=store)
    run = first.run_stream("Go")
    following = asyncio.create_task(told(run))
    await begun(store, run)
    async for record in store.follow(run.run_id):
        if record.event.type == "text_delta":
            break
    await drop(following)
    second = Agent(ScriptedModel("All of it."), [], store=store).resume(run.run_id)
    events = await told(second)
    assert [event.type for event in events[:2]] == ["run_resumed", "turn_started"]
    assert one(events, TurnStarted) == TurnStarted(1, 2)
    assert second.result.text == "All of it."
    assert len(second.result.messages) == 2, "what was cut off is not a part of it"


async def _hanging(request: object) -> AsyncIterator[object]:  # noqa: ARG001 - says the same to all
    yield {"type": "message_start", "message": {"id": "m", "content": []}}
    yield {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    }
    yield {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "Half of"},
    }
    await asyncio.sleep(60)


# Two at once


async def test_a_run_that_somebody_drives_is_not_taken_up(store: Store) -> None:
    slow = Slow()
    agent = Agent(ScriptedModel(CallTool("wait", {}), "Done."), [slow.wait], store=store)
    run = agent.run_stream("Go")
    driving = asyncio.create_task(told(run))
    await slow.started.wait()
    other = Agent(ScriptedModel("."), [slow.wait], store=store)
    with pytest.raises(RunTaken, match="is driven by"):
        await other.resume(run.run_id, wait=0.1)
    slow.may_end.set()
    assert isinstance((await driving)[-1], RunCompleted)


async def test_who_lost_the_run_to_another_stops_and_is_told(store: Store) -> None:
    slow = Slow()
    first = Agent(
        ScriptedModel(CallTool("wait", {}), "Done."),
        [slow.wait],
        store=store,
        claim_seconds=0.3,
    )
    run = first.run_stream("Go")
    driving = asyncio.create_task(told(run))
    await slow.started.wait()
    info = await store.info(run.run_id)
    await store.release(Claim(run.run_id, info.owner or "", 1))  # as if it had lapsed
    second = Agent(ScriptedModel("I see."), [slow.wait], store=store)
    resuming = second.resume(run.run_id, wait=5)
    taking = asyncio.create_task(told(resuming))
    with pytest.raises(RunTaken):
        await driving
    await taking
    assert resuming.result.text == "I see."
    check_order(await logged(store, run))


# Deciding in a run with a log: anybody may, and the first one counts


# Deciding


async def test_anybody_can_decide_while_the_run_goes_on(store: Store) -> None:
    slow = Slow()
    calls = Reply(send(), CallTool("wait", {}))
    agent, effects = mailing(calls, "Done.", more=[slow.wait], store=store)
    run = agent.run_stream("Go")
    driving = asyncio.create_task(told(run))
    await slow.started.wait()
    (call_id,) = (request.call_id for request in run.pending)
    await store.decide(run.run_id, {call_id: Approve(reason="fine")})
    with pytest.raises(AlreadyDecided):
        await store.decide(run.run_id, {call_id: Deny()})
    while run.pending:
        await asyncio.sleep(0.002)
    slow.may_end.set()
    decided = one(await driving, ApprovalDecided)
    assert (decided.decision, decided.reason) == ("approved", "fine")
    assert effects.seen == [("send", {"to": "ada"})]


async def test_what_was_decided_while_a_run_paused_keeps_it_going() -> None:
    store = Hasty()
    agent, effects = mailing(send(), "Sent.", store=store)
    run = agent.run_stream("Go")
    events = await told(run)
    assert run.result.outcome == "completed"
    assert effects.seen == [("send", {"to": "ada"})]
    at = steps(events).index("run_paused")
    assert steps(events)[at + 1 : at + 3] == ["run_resumed", "approval_decided"]
    check_order(await logged(store, run))


async def test_an_edit_that_does_not_fit_is_taken_back_so_that_somebody_can_decide_anew(
    store: Store,
) -> None:
    agent, effects = mailing(send(), "Sent.", store=store)
    paused = await agent.run_stream("Go")
    (call_id,) = (request.call_id for request in paused.pending)
    await store.decide(paused.run_id, {call_id: Approve(arguments={"to": 5})})
    again = await agent.resume(paused)
    assert again.is_paused
    await store.decide(paused.run_id, {call_id: Approve(arguments={"to": "bob"})})
    await agent.resume(paused)
    assert effects.seen == [("send", {"to": "bob"})]


async def test_an_approver_decides_where_all_others_do(store: Store) -> None:
    async def too_slow(request: ApprovalRequested) -> Any:
        await store.decide(run.run_id, {request.call_id: Deny("another was quicker")})
        return Approve()

    agent, effects = mailing(send(), "Oh.", store=store, approver=too_slow)
    run = agent.run_stream("Go")
    decided = one(await told(run), ApprovalDecided)
    assert (decided.decision, decided.reason) == ("denied", "another was quicker")
    assert effects.seen == []


async def test_a_decision_that_came_in_time_counts_when_the_run_goes_on_later(
    store: Store,
) -> None:
    agent, effects = mailing(send(), "Sent.", store=store, approval_timeout=0.1)
    paused = await agent.run_stream("Go")
    await store.decide(paused.run_id, {paused.pending[0].call_id: Approve()})
    await asyncio.sleep(0.15)
    await agent.resume(paused)
    assert effects.seen == [("send", {"to": "ada"})]


async def test_who_is_told_of_a_request_can_decide_on_it_before_the_run_rests(
    store: Store,
) -> None:
    agent, effects = mailing(send(), "Sent.", store=store)
    run = agent.run_stream("Go")
    async for event in run:
        if isinstance(event, ApprovalRequested):
            run.decide(event.call_id, Approve())
    assert run.result.outcome == "completed"
    assert effects.seen == [("send", {"to": "ada"})]
    check_order(await logged(store, run))


class Slowly(MemoryStore):
    """A store that takes its time."""

    async def append(self, claim: Claim, records: Sequence[Record]) -> None:
        await asyncio.sleep(0.02)
        await super().append(claim, records)


@pytest.mark.parametrize("in_thread", [False, True])
async def test_what_is_pending_before_it_is_written_can_be_decided_on(in_thread: bool) -> None:
    agent, effects = mailing(send(), "Sent.", store=Slowly())
    run = agent.run_stream("Go")
    driving = asyncio.create_task(told(run))
    while not run.pending:
        await asyncio.sleep(0.001)
    call_id = run.pending[0].call_id
    if in_thread:
        await asyncio.to_thread(run.decide, call_id, Approve())
    else:
        run.decide(call_id, Approve())
    await driving
    assert run.result.outcome == "completed"
    assert effects.seen == [("send", {"to": "ada"})]


async def test_an_approval_waits_for_who_has_the_tool(store: Store) -> None:
    slow = Slow()
    confirmed = tool(requires_confirmation=True)(slow.wait)
    first, _ = mailing(Reply(send(), CallTool("wait", {})), more=[confirmed], store=store)
    paused = await first.run_stream("Go")
    mail, wait = (request.call_id for request in paused.pending)
    without_mail = Agent(ScriptedModel("."), [confirmed], store=store)
    run = without_mail.resume(paused, {wait: Approve()})
    driving = asyncio.create_task(told(run))
    await slow.started.wait()
    await store.decide(paused.run_id, {mail: Approve()})
    slow.may_end.set()
    assert isinstance((await driving)[-1], RunPaused)
    last, effects = mailing("Sent.", store=store)
    await last.resume(paused.run_id)
    assert effects.seen == [("send", {"to": "ada"})]


async def test_who_was_asked_in_place_is_asked_again_if_anothers_edit_was_taken_back(
    store: Store,
) -> None:
    asked: list[str] = []

    async def approve(request: ApprovalRequested) -> Any:
        asked.append(request.call_id)
        if len(asked) == 1:  # somebody else is quicker, with what does not fit
            bad = {request.call_id: Approve(arguments={"to": 5})}
            await store.decide(run.run_id, bad)
        return Approve()

    agent, effects = mailing(send(), "Sent.", store=store, approver=approve)
    run = agent.run_stream("Go")
    await run
    assert len(asked) == 2
    assert effects.seen == [("send", {"to": "ada"})]


# Whether something could be decided


async def test_what_cannot_be_decided_is_said_before_anything_is(store: Store) -> None:
    agent, effects = mailing(send(), store=store)
    paused = await agent.run_stream("Go")
    (request,) = paused.pending
    log = await store.read(paused.run_id)
    rule = Rule("deny", argument="to", when=lambda to: to == "eve", reason="no mail to eve")
    strict = Policy([rule])
    other, _ = mailing("Sent.", store=store, policy=strict)
    for decision, why in (
        (Approve(arguments={"to": 5}), "are not valid"),
        (Approve(arguments={"to": "eve"}), "no mail to eve"),
        (Approve(digest="another"), "digest"),
        (Approve(always="rule"), "no rule"),
        (True, "Approve"),
    ):
        with pytest.raises(UsageError, match=why):
            await other.check(paused.run_id, {request.call_id: decision})  # type: ignore[dict-item]  # one of them
    with pytest.raises(UsageError, match="no approval was requested"):
        await other.check(paused, {"c9": Deny()})
    with pytest.raises(UnknownRun):
        await other.check("run_none", {request.call_id: Deny()})
    await other.check(paused, {request.call_id: Approve(arguments={"to": "bob"})})
    await other.check(paused, {request.call_id: Approve(digest=request.digest)})
    assert await store.read(paused.run_id) == log
    assert await store.posted(paused.run_id) == Posts()
    assert effects.seen == []


async def test_that_somebody_was_quicker_is_said_before_anything_is_decided(store: Store) -> None:
    agent, _ = mailing(Reply(send(), send("bob")), send("eve"), store=store)
    paused = await agent.run_stream("Go")
    ada, bob = (request.call_id for request in paused.pending)
    await store.decide(paused.run_id, {ada: Deny("no")})
    with pytest.raises(AlreadyDecided):
        await agent.check(paused, {ada: Approve(), bob: Approve()})
    await agent.check(paused, {ada: Deny("no"), bob: Approve()})
    paused = await agent.resume(paused, {bob: Approve()})
    for call_id in (ada, bob):
        with pytest.raises(AlreadyDecided):
            await agent.check(paused, {call_id: Approve()})
    await agent.stop_async(paused)
    with pytest.raises(UsageError, match="is over"):
        await agent.check(paused, {paused.pending[0].call_id: Approve()})


async def test_it_can_be_said_while_another_drives_the_run(store: Store) -> None:
    slow = Slow()
    calls = Reply(send(), CallTool("wait", {}))
    run = mailing(calls, "Done.", more=[slow.wait], store=store)[0].run_stream("Go")
    driving = asyncio.create_task(told(run))
    await slow.started.wait()
    (call_id,) = (request.call_id for request in run.pending)
    other, _ = mailing(store=store)
    await other.check(run.run_id, {call_id: Approve(arguments={"to": "bob"})})
    with pytest.raises(UsageError, match="not valid"):
        await other.check(run.run_id, {call_id: Approve(arguments={})})
    await run.aclose()
    await driving


async def test_without_a_store_it_is_said_of_runs_that_wait() -> None:
    agent, _ = mailing(send(), "Sent.")
    paused = await agent.run_stream("Go")
    (call_id,) = (request.call_id for request in paused.pending)
    await agent.check(paused, {call_id: Approve()})
    with pytest.raises(UsageError, match="not valid"):
        await agent.check(paused, {call_id: Approve(arguments={"to": 5})})
    await agent.resume(paused, {call_id: Approve()})
    with pytest.raises(UsageError, match="no run"):
        await agent.check(paused, {call_id: Approve()})


# Going on with what was decided in the store


# Always, for a rule


_NETWORK = '[[rules]]\nname = "network"\ntool = "fetch"\naction = "ask"\n'


def fetching(store: Store, rules: str, *urls: str) -> Agent:
    def fetch(url: str) -> str:
        return url

    model = ScriptedModel(*(CallTool("fetch", {"url": url}) for url in urls), "Done.")
    policy = Policy.from_toml(f'default = "allow"\n{rules}')
    return Agent(model, [fetch], policy=policy, store=store)


@pytest.mark.parametrize(
    ("rules", "asks_again"),
    [
        (_NETWORK, False),
        (f'[[rules]]\nname = "secrets"\ntool = "read"\naction = "deny"\n{_NETWORK}', False),
        (f'{_NETWORK}argument = "url"\nprefix = "https:"\n', True),
        (f'{_NETWORK}reason = "it costs money"\n', True),
    ],
    ids=["unchanged", "another rule was added", "other condition", "other reason"],
)
async def test_grant_for_a_rule_holds_after_the_policy_was_loaded_anew_if_the_rule_is_the_same(
    store: Store, rules: str, asks_again: bool
) -> None:
    first = fetching(store, _NETWORK, "https://docs.python.org")
    paused = await first.run_stream("Go")
    assert paused.pending[0].rule == "network"
    second = fetching(store, rules, "https://evil.example")
    run = second.resume(paused.run_id, {paused.pending[0].call_id: Approve(always="rule")})
    events = await told(run)
    assert one(events, ApprovalDecided).always == (None if asks_again else "rule")
    asked = [request.arguments["url"] for request in run.pending]
    assert asked == (["https://evil.example"] if asks_again else [])


async def test_grant_for_an_unnamed_rule_does_not_pass_to_another_rule_in_its_position(
    store: Store,
) -> None:
    docs = '[[rules]]\naction = "ask"\nargument = "url"\nprefix = "https://docs"\n'
    anything = '[[rules]]\naction = "ask"\nargument = "url"\nprefix = "https:"\n'
    first = fetching(store, docs, "https://docs.python.org")
    paused = await first.run_stream("Go")
    assert paused.pending[0].rule == "rule 1"
    second = fetching(store, anything, "https://evil.example")
    run = second.resume(paused.run_id, {paused.pending[0].call_id: Approve(always="rule")})
    await told(run)
    assert [request.rule for request in run.pending] == ["rule 1"]


# The end of a run with a log: anybody may stop it; stores that fail, and wrong use


# Stopping


async def test_a_stop_while_a_run_pauses_counts_more_than_a_decision() -> None:
    class Undecided(Hasty):
        async def append(self, claim: Claim, records: Sequence[Record]) -> None:
            await super().append(claim, records)
            if any(isinstance(record.event, RunPaused) for record in records):
                await self.stop(claim.run_id, "no, rather not")

    agent, effects = mailing(send(), store=Undecided())
    events = await told(agent.run_stream("Go"))
    assert isinstance(events[-1], RunStopped)
    assert effects.seen == []


async def test_who_sees_a_pause_can_go_on_at_once(store: Store) -> None:
    first, _ = mailing(send(), store=store)
    second, effects = mailing("Sent.", store=store)
    run = first.run_stream("Go")
    driving = asyncio.create_task(told(run))
    await begun(store, run)
    async for record in store.follow(run.run_id):
        if isinstance(record.event, RunPaused):
            (call_id,) = (request.call_id for request in record.event.pending)
            await second.resume(run.run_id, {call_id: Approve()})
    await driving
    assert effects.seen == [("send", {"to": "ada"})]


async def test_a_paused_run_can_be_stopped_by_itself_in_an_event_loop(
    store: Store,
) -> None:
    heard: list[Event] = []
    agent, _ = mailing(send(), store=store, on_event=lambda record: heard.append(record.event))
    run = agent.run_stream("Go")
    await run
    events = run.stop("enough")
    assert [event.type for event in events] == [
        "approval_decided",
        "tool_call_failed",
        "run_stopped",
    ]
    assert (await logged(store, run))[-3:] == events
    assert (await store.info(run.run_id)).status == "stopped"
    assert run.conversation.run_id is None
    assert isinstance(heard[-1], RunPaused)


async def test_a_stop_after_a_crash_says_what_may_have_been_done(store: Store) -> None:
    slow = Slow()
    agent = Agent(ScriptedModel(CallTool("wait", {})), [slow.wait], store=store)
    async with cut_off(agent.run_stream("Go"), slow) as run_id:
        failed = one(await agent.stop_async(run_id, "enough"), ToolCallFailed)
    assert "not known what it has done" in failed.error


async def test_a_conversation_goes_on_though_its_run_was_deleted(store: Store) -> None:
    agent, _ = mailing(send(), "Hello.", store=store)
    conversation = Conversation()
    paused = await agent.run_stream("Go", conversation)
    await store.delete(paused.run_id)
    with pytest.raises(UnknownRun):
        await agent.resume(paused)
    assert (await agent.run_stream("Again", conversation)).text == "Hello."


async def test_anybody_can_stop_a_run(store: Store) -> None:
    slow = Slow()
    agent = Agent(ScriptedModel(CallTool("wait", {})), [slow.wait], store=store)
    run = agent.run_stream("Go")
    driving = asyncio.create_task(told(run))
    await slow.started.wait()
    await store.stop(run.run_id, "enough")
    events = await driving
    assert isinstance(events[-1], RunStopped)
    assert events[-1].reason == "enough"
    check_order(await logged(store, run))


async def test_a_stop_is_written_down_before_anything_follows_from_it(
    store: Store,
) -> None:
    found: list[str | None] = []

    async def wait() -> None:
        """Wait for the end."""
        try:
            await asyncio.sleep(60)
        finally:
            with anyio.CancelScope(shield=True):
                found.append((await store.posted(run.run_id)).stop_reason)

    run = Agent(ScriptedModel(CallTool("wait", {})), [wait], store=store).run_stream("Go")
    async for event in run:
        if isinstance(event, ToolExecutionStarted):
            await asyncio.sleep(0.01)
            run.stop("enough")
    assert found == ["enough"]
    assert run.result.outcome == "stopped"


async def test_a_paused_run_is_stopped_for_good(store: Store) -> None:
    agent, effects = mailing(send(), store=store)
    conversation = Conversation()
    paused = await agent.run_stream("Go", conversation)
    events = await agent.stop_async(paused, "never mind")
    assert [event.type for event in events] == [
        "approval_decided",
        "tool_call_failed",
        "run_stopped",
    ]
    assert (await store.info(paused.run_id)).status == "stopped"
    with pytest.raises(UsageError, match="is over"):
        await agent.resume(paused)
    assert conversation.run_id is None
    check_history(conversation.messages, is_over=True)
    assert effects.seen == []


async def test_a_stop_that_was_asked_for_while_nobody_drove_the_run_ends_it(
    store: Store,
) -> None:
    agent, effects = mailing(send(), store=store)
    paused = await agent.run_stream("Go")
    await store.stop(paused.run_id, "enough")
    run = agent.resume(paused, {paused.pending[0].call_id: Approve()})
    assert isinstance((await told(run))[-1], RunStopped)
    assert effects.seen == []


async def test_who_leaves_the_loop_has_stopped_the_run_but_not_one_that_has_paused(
    store: Store,
) -> None:
    agent, _ = mailing(send(), "Hello.", store=store)
    async with aclosing(aiter(run := agent.run_stream("Go"))) as events:
        async for event in events:
            if isinstance(event, ApprovalRequested):
                break
    assert (await store.info(run.run_id)).status in ("stopped", "paused")
    async with aclosing(aiter(run := agent.run_stream("Go"))) as events:
        await anext(events)
    assert (await store.info(run.run_id)).status == "stopped"


# Without an event loop, and wrong use


def test_runs_with_a_log_need_no_event_loop(tmp_path: Path) -> None:
    agent, effects = mailing(send(), "Sent.", store=tmp_path / "runs.db")
    paused = agent.run("Go")
    other, effects = mailing("Sent.", store=tmp_path / "runs.db")
    events = list(other.resume(paused, {paused.pending[0].call_id: Approve()}))
    assert isinstance(events[-1], RunCompleted)
    assert effects.seen == [("send", {"to": "ada"})]


def test_a_paused_run_is_stopped_without_an_event_loop(tmp_path: Path) -> None:
    agent, _ = mailing(send(), store=tmp_path / "runs.db")
    paused = agent.run("Go")
    assert isinstance(agent.stop(paused, "enough")[-1], RunStopped)

    async def stopping() -> None:
        with pytest.raises(UsageError, match=r"await agent\.stop_async"):
            agent.stop(paused)

    complete(stopping)


async def test_a_store_that_fails_ends_the_run_here_and_nothing_untrue_is_told() -> None:
    store, slow = MemoryStore(), Slow()
    agent = Agent(ScriptedModel(CallTool("wait", {}), "Done."), [slow.wait], store=store)
    seen: list[Event] = []

    async def following() -> None:
        async for event in agent.run_stream("Go"):
            seen.append(event)  # noqa: PERF401 - what was seen before the failure counts

    driving = asyncio.create_task(following())
    await slow.started.wait()
    await store.aclose()
    slow.may_end.set()
    with pytest.raises(StoreFailure):
        await driving
    assert isinstance(seen[-1], ToolExecutionStarted), "a result that is not kept is not told"


async def test_a_prompt_with_half_a_character_is_mended_and_written() -> None:
    store = MemoryStore()
    result = mailing("Hello.", store=store)[0].run("caf\ud800")
    (record, *_) = await store.read(result.run_id)
    assert isinstance(record.event, RunStarted)
    assert record.event.prompt == "caf\ufffd"


class Away(MemoryStore):
    """A store that cannot be reached."""

    async def begin(self, records: Sequence[Record], owner: str, seconds: float) -> Claim:
        raise StoreFailure(f"nobody answers {owner} in {seconds} s, about {len(records)} records")


def test_a_run_that_could_not_be_written_down_leaves_its_conversation_as_it_was() -> None:
    conversation = Conversation()
    with pytest.raises(StoreFailure, match="nobody answers"):
        Agent(ScriptedModel("Hello."), store=Away()).run("Go", conversation)
    assert conversation.messages == ()
    assert Agent(ScriptedModel("Hello.")).run("Go", conversation).text == "Hello."


async def test_a_run_inside_of_one_that_is_stopped_is_stopped_with_it(store: Store) -> None:
    slow = Slow()
    inner = Agent(ScriptedModel(CallTool("wait", {})), [slow.wait], store=store, name="inner")

    async def ask() -> str:
        """Ask another agent."""
        return (await inner.run_async("Go")).text

    outer = Agent(ScriptedModel(CallTool("ask", {})), [ask], store=store).run_stream("Go")
    driving = asyncio.create_task(told(outer))
    await slow.started.wait()
    outer.stop("enough")
    await driving
    assert {info.status for info in await store.runs()} == {"stopped"}


async def test_a_renewal_while_the_end_is_written_does_no_harm() -> None:
    class Eager(MemoryStore):
        async def append(self, claim: Claim, records: Sequence[Record]) -> None:
            await super().append(claim, records)
            await asyncio.sleep(0.05)  # the answer takes longer than a renewal

    agent = Agent(ScriptedModel("Hello."), store=Eager(), claim_seconds=0.06)
    assert (await agent.run_async("Go")).text == "Hello."


async def test_who_is_cancelled_while_a_run_begins_leaves_no_claim() -> None:
    class Slowly(MemoryStore):
        async def begin(self, records: Sequence[Record], owner: str, seconds: float) -> Claim:
            claim = await super().begin(records, owner, seconds)
            await asyncio.sleep(0.05)
            return claim

    store, conversation = Slowly(), Conversation()
    agent = Agent(ScriptedModel("Hello."), store=store)
    following = asyncio.create_task(told(agent.run_stream("Go", conversation)))
    while not await store.runs():
        await asyncio.sleep(0.001)
    await drop(following)
    (info,) = await store.runs()
    assert (info.status, info.owner) == ("running", None)
    assert conversation.run_id == info.run_id, "it can be resumed, and blocks until it is"


async def test_an_old_run_does_not_take_a_conversation_back(store: Store) -> None:
    agent = Agent(ScriptedModel("One.", "Two."), store=store)
    conversation = Conversation()
    first = await agent.run_async("one", conversation)
    await agent.run_async("two", conversation)
    with pytest.raises(UsageError, match="is over"):
        await agent.resume(first)
    assert len(conversation.messages) == 4
