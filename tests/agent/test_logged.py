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
    UnknownRun,
    UsageError,
)
from argstream.events import (
    Event,
    RunCompleted,
    RunResumed,
    RunSnapshot,
    RunStopped,
    ToolCallCompleted,
    ToolCallFailed,
    ToolExecutionStarted,
    TurnStarted,
)
from argstream.history import ResultPart, TextPart
from argstream.log import Claim, Record, Store, is_stored, merged
from argstream.policy import Policy, Rule
from tests.agent.following import Effects, complete, mailing, one, only, send, steps
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


def test_a_run_is_of_the_user_of_its_conversation_whoever_goes_on_with_it(play: Play) -> None:
    async def story(store: Store) -> None:
        first, _ = mailing(send(), store=store)
        paused = await first.run_stream("Go", Conversation(id="talk", user="ada"))
        assert (await store.info(paused.run_id)).user == "ada"
        second, _ = mailing("Sent.", "More.", store=store)
        run = second.resume(paused.run_id, {paused.pending[0].call_id: Approve()})
        await run
        assert (run.conversation.id, run.conversation.user) == ("talk", "ada")
        await second.run_stream("More", run.conversation)
        assert len(await store.runs(user="ada", session_id="talk")) == 2

    play(story)


# A conversation, as the store has it


def test_a_conversation_is_found_by_its_id_and_whose_it_is(play: Play) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_a_conversation_says_which_of_its_runs_is_not_over(play: Play) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_a_conversation_goes_on_whatever_became_of_its_newest_run(play: Play) -> None:
    async def story(store: Store) -> None:
        agent, _ = mailing("Hi.", send(), store=store, max_turns=1)
        await agent.run_stream("Hello", Conversation(id="talk"))
        paused = await agent.run_stream("Send it", await agent.conversation("talk"))
        await agent.stop_async(paused.run_id, "enough")
        stopped = await agent.conversation("talk")
        assert stopped.run_id is None
        assert _texts(stopped)[:3] == ["Hello", "Hi.", "Send it"]
        check_history(stopped.messages, is_over=True)

    play(story)


def test_a_conversation_that_is_not_there_is_a_new_one(play: Play) -> None:
    async def story(store: Store) -> None:
        agent, _ = mailing("Hi.", store=store)
        conversation = await agent.conversation("talk", user="ada")
        assert (conversation.id, conversation.user, conversation.is_fresh) == ("talk", "ada", True)
        with pytest.raises(UsageError, match="not empty"):
            await agent.conversation("")
        assert agent.store is store

    play(story)


def test_without_a_store_there_is_no_conversation_to_be_found() -> None:
    agent, _ = mailing("Hi.")
    assert agent.store is None
    with pytest.raises(UsageError, match="no store"):
        complete(lambda: agent.conversation("talk"))


def _texts(conversation: Conversation) -> list[str]:
    parts = [part for message in conversation.messages for part in message.parts]
    return [part.text for part in parts if isinstance(part, TextPart)]


# Beginning


def test_who_waits_for_the_beginning_of_a_run_misses_nothing_of_it(play: Play) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_a_run_that_cannot_begin_says_so_to_who_waits_for_that(play: Play) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_a_run_whose_beginning_was_waited_for_is_left_as_any_other(play: Play) -> None:
    async def story(store: Store) -> None:
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
