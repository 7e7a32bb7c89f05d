"""Runs with a log: what is written, and who may go on with them.

That they survive the end of a process is shown with real ones in ``tests/surviving``.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from argstream.agent import Agent, Approve, Conversation, Deny, tool
from argstream.agent._listening import PASSING
from argstream.clients import CallTool, Reply, ScriptedModel
from argstream.errors import (
    RunTaken,
    UsageError,
)
from argstream.events import (
    Event,
    RunCompleted,
    RunResumed,
    RunSnapshot,
    ToolCallCompleted,
    ToolCallFailed,
    ToolExecutionStarted,
    TurnStarted,
)
from argstream.history import ResultPart
from argstream.log import Claim, Store, merged
from argstream.policy import Policy, Rule
from tests.agent.following import Effects, mailing, one, only, send, steps
from tests.agent.histories import check_history
from tests.agent.logged_runs import Play, Slow, begun, cut_off, drop, logged, told, tools_of
from tests.agent.ordering import check_order

# What is written


def test_the_log_is_what_was_told_without_views_and_with_neighbours_merged(
    play: Play,
) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_what_was_told_is_in_the_log_by_then(play: Play) -> None:
    async def story(store: Store) -> None:
        agent, _ = mailing(Reply(send(), CallTool("write", {"path": "a"})), store=store)
        run, seen = agent.run_stream("Go"), 0
        async for event in run:
            if type(event) not in PASSING:
                seen += 1
                durable = [one for one in await logged(store, run) if type(one) not in PASSING]
                assert len(durable) >= seen
                assert durable[seen - 1] == event

    play(story)


def test_a_tool_runs_when_it_is_written_that_it_does(play: Play) -> None:
    async def story(store: Store) -> None:
        found: list[list[Event]] = []

        async def look() -> str:
            found.append(await logged(store, run))
            return "looked"

        run = Agent(ScriptedModel(CallTool("look", {}), "."), [look], store=store).run_stream("Go")
        await run
        assert isinstance(found[0][-1], ToolExecutionStarted)

    play(story)


def test_who_joins_late_gets_a_snapshot_and_what_follows(play: Play) -> None:
    async def story(store: Store) -> None:
        slow = Slow()
        model = ScriptedModel(CallTool("wait", {}), "Done.")
        run = Agent(model, [slow.wait], store=store).run_stream("Go")
        driving = asyncio.create_task(told(run))
        await slow.started.wait()
        joining = store.join(run.run_id)
        snapshot = await anext(joining)
        assert isinstance(snapshot.event, RunSnapshot)
        assert snapshot.event.status == "running"
        slow.may_end.set()
        rest = [record async for record in joining]
        await driving
        assert rest == (await store.read(run.run_id))[snapshot.seq :]

    play(story)


# Another agent goes on


def test_a_paused_run_goes_on_with_another_agent(play: Play) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_a_conversation_goes_on_after_a_run_that_ended_elsewhere(
    play: Play,
) -> None:
    async def story(store: Store) -> None:
        first, _ = mailing(send(), "Again.", store=store)
        conversation = Conversation()
        paused = await first.run_stream("Go", conversation)
        second, _ = mailing("Sent.", store=store)
        await second.resume(paused, {paused.pending[0].call_id: Approve()})
        with pytest.raises(UsageError, match="is over: it has completed"):
            await first.resume(paused)
        assert (await first.run_stream("And now?", conversation)).text == "Again."
        check_history(conversation.messages, is_over=True)

    play(story)


def test_an_edit_is_what_runs_elsewhere_and_the_model_is_told(
    play: Play,
) -> None:
    async def story(store: Store) -> None:
        first, _ = mailing(send(), store=store)
        paused = await first.run_stream("Go")
        await store.decide(
            paused.run_id, {paused.pending[0].call_id: Approve(arguments={"to": "bob"})}
        )
        second, effects = mailing("Sent.", store=store)
        await second.resume(paused.run_id)
        assert effects.seen == [("send", {"to": "bob"})]
        assert isinstance(second.model, ScriptedModel)
        (result,) = second.model.requests[0].messages[-1].parts
        assert isinstance(result, ResultPart)
        assert "changed the arguments" in result.note

    play(story)


def test_always_is_not_taken_over_by_another_agent_whose_rules_may_be_others(
    play: Play,
) -> None:
    async def story(store: Store) -> None:
        slow = Slow()
        first, _ = mailing(send(), Reply(CallTool("wait", {})), store=store)
        first = Agent(first.model, [*tools_of(first), slow.wait], store=store)
        paused = await first.run_stream("Go")
        always = {paused.pending[0].call_id: Approve(always="session")}
        async with cut_off(first.resume(paused, always), slow) as run_id:
            second, effects = mailing(send("bob"), store=store)
            second = Agent(second.model, [*tools_of(second), slow.wait], store=store)
            result = await second.resume(run_id)
        assert [request.name for request in result.pending] == ["send"]
        assert effects.seen == []

    play(story)


def test_a_run_that_needs_a_tool_is_not_taken_up_without_it(play: Play) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_to_deny_a_call_one_needs_no_tool(play: Play) -> None:
    async def story(store: Store) -> None:
        first, _ = mailing(send(), store=store)
        paused = await first.run_stream("Go")
        other = Agent(ScriptedModel("Then not."), [], store=store)
        result = await other.resume(paused, {paused.pending[0].call_id: Deny()})
        assert result.text == "Then not."

    play(story)


def test_what_the_rules_of_now_forbid_does_not_run(play: Play) -> None:
    async def story(store: Store) -> None:
        first, _ = mailing(send(), store=store)
        paused = await first.run_stream("Go")
        strict = Policy([Rule("deny", tool="send", reason="no mail today")])
        second, effects = mailing("Oh.", store=store, policy=strict)
        run = second.resume(paused, {paused.pending[0].call_id: Approve()})
        failed = one(await told(run), ToolCallFailed)
        assert "no mail today" in failed.error
        assert effects.seen == []

    play(story)


# After a crash


def test_a_tool_that_was_running_is_reported_and_not_run_again(
    play: Play,
) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_a_tool_that_is_idempotent_runs_again_with_the_same_key(
    play: Play,
) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_a_turn_that_was_cut_off_begins_again_and_says_so(play: Play) -> None:
    async def story(store: Store) -> None:
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

    play(story)


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


def test_a_run_that_somebody_drives_is_not_taken_up(play: Play) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_who_lost_the_run_to_another_stops_and_is_told(play: Play) -> None:
    async def story(store: Store) -> None:
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

    play(story)
