"""The end of a run with a log: anybody may stop it; stores that fail, and wrong use."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

from argstream.agent import Agent, Approve, Conversation
from argstream.clients import CallTool, ScriptedModel
from argstream.errors import (
    RunTaken,
    StoreFailure,
    UnknownRun,
    UsageError,
)
from argstream.events import (
    ApprovalRequested,
    Event,
    RunCompleted,
    RunPaused,
    RunStarted,
    RunStopped,
    ToolArgsCompleted,
    ToolCallFailed,
    ToolExecutionStarted,
    TurnCompleted,
)
from argstream.log import Claim, Record, Store
from argstream.stores import MemoryStore
from tests.agent.following import Effects, complete, mailing, one, send
from tests.agent.histories import check_history
from tests.agent.logged_runs import Hasty, Play, Slow, begun, cut_off, drop, logged, told
from tests.agent.ordering import check_order

# Stopping


@pytest.mark.parametrize("moment", [ToolArgsCompleted, TurnCompleted, ToolExecutionStarted])
def test_nothing_begins_after_a_stop(play: Play, moment: type[Event]) -> None:
    async def story(store: Store) -> None:
        effects, was_stopped = Effects(), False
        model = ScriptedModel(CallTool("write", {"path": "a"}), "Done.")
        run = Agent(model, [effects.write], store=store).run_stream("Go")
        async for event in run:
            if isinstance(event, moment) and not was_stopped:
                was_stopped = not effects.seen
                run.stop("enough")
        assert not (was_stopped and effects.seen)
        assert isinstance((await logged(store, run))[-1], RunStopped | RunCompleted)

    play(story)


def test_a_stop_while_a_run_pauses_counts_more_than_a_decision() -> None:
    class Undecided(Hasty):
        async def append(self, claim: Claim, records: Sequence[Record]) -> None:
            await super().append(claim, records)
            if any(isinstance(record.event, RunPaused) for record in records):
                await self.stop(claim.run_id, "no, rather not")

    async def story() -> None:
        agent, effects = mailing(send(), store=Undecided())
        events = await told(agent.run_stream("Go"))
        assert isinstance(events[-1], RunStopped)
        assert effects.seen == []

    complete(story)


def test_who_sees_a_pause_can_go_on_at_once(play: Play) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_a_paused_run_can_be_stopped_by_itself_in_an_event_loop(
    play: Play,
) -> None:
    async def story(store: Store) -> None:
        agent, _ = mailing(send(), store=store)
        run = agent.run_stream("Go")
        await run
        run.stop("enough")
        while (await store.info(run.run_id)).status == "paused":
            await asyncio.sleep(0.002)
        assert (await store.info(run.run_id)).status == "stopped"

    play(story)


def test_a_stop_after_a_crash_says_what_may_have_been_done(play: Play) -> None:
    async def story(store: Store) -> None:
        slow = Slow()
        agent = Agent(ScriptedModel(CallTool("wait", {})), [slow.wait], store=store)
        async with cut_off(agent.run_stream("Go"), slow) as run_id:
            failed = one(await agent.stop_async(run_id, "enough"), ToolCallFailed)
        assert "not known what it has done" in failed.error

    play(story)


def test_a_conversation_goes_on_though_its_run_was_deleted(play: Play) -> None:
    async def story(store: Store) -> None:
        agent, _ = mailing(send(), "Hello.", store=store)
        conversation = Conversation()
        paused = await agent.run_stream("Go", conversation)
        await store.delete(paused.run_id)
        with pytest.raises(UnknownRun):
            await agent.resume(paused)
        assert (await agent.run_stream("Again", conversation)).text == "Hello."

    play(story)


def test_a_task_that_is_cancelled_leaves_its_run_to_others(play: Play) -> None:
    async def story(store: Store) -> None:
        slow = Slow()
        agent = Agent(ScriptedModel(CallTool("wait", {}), "."), [slow.wait], store=store)
        async with cut_off(agent.run_stream("Go"), slow) as run_id:
            info = await store.info(run_id)
            assert (info.status, info.owner) == ("running", None)
            assert (await agent.resume(run_id)).text == "."

    play(story)


def test_anybody_can_stop_a_run(play: Play) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_a_stop_is_written_down_before_anything_follows_from_it(
    play: Play,
) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_a_paused_run_is_stopped_for_good(play: Play) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_a_stop_that_was_asked_for_while_nobody_drove_the_run_ends_it(
    play: Play,
) -> None:
    async def story(store: Store) -> None:
        agent, effects = mailing(send(), store=store)
        paused = await agent.run_stream("Go")
        await store.stop(paused.run_id, "enough")
        run = agent.resume(paused, {paused.pending[0].call_id: Approve()})
        assert isinstance((await told(run))[-1], RunStopped)
        assert effects.seen == []

    play(story)


def test_who_leaves_the_loop_has_stopped_the_run_but_not_one_that_has_paused(
    play: Play,
) -> None:
    async def story(store: Store) -> None:
        agent, _ = mailing(send(), "Hello.", store=store)
        async with aclosing(aiter(run := agent.run_stream("Go"))) as events:
            async for event in events:
                if isinstance(event, ApprovalRequested):
                    break
        assert (await store.info(run.run_id)).status in ("stopped", "paused")
        async with aclosing(aiter(run := agent.run_stream("Go"))) as events:
            await anext(events)
        assert (await store.info(run.run_id)).status == "stopped"

    play(story)


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


def test_a_run_that_is_not_there_is_told() -> None:
    agent, _ = mailing(store=MemoryStore())
    with pytest.raises(UnknownRun, match="has no run 'run_x'"):
        agent.resume("run_x").wait()


@pytest.mark.parametrize("store", [5, "", "https://example.com/runs"])
def test_what_is_no_store_is_told(store: Any) -> None:
    with pytest.raises(UsageError, match="give the path of an SQLite file"):
        Agent(ScriptedModel("."), store=store)


def test_a_store_that_fails_ends_the_run_here_and_nothing_untrue_is_told() -> None:
    async def story() -> None:
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

    complete(story)


def test_a_prompt_with_half_a_character_is_mended_and_written() -> None:
    store = MemoryStore()
    result = mailing("Hello.", store=store)[0].run("caf\ud800")
    (record, *_) = complete(lambda: store.read(result.run_id))
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


def test_who_could_not_resume_can_try_again(play: Play) -> None:
    async def story(store: Store) -> None:
        agent, effects = mailing(send(), "Sent.", store=store)
        paused = await agent.run_stream("Go")
        claim = await store.claim(paused.run_id, "somebody", 60)
        run = agent.resume(paused, {paused.pending[0].call_id: Approve()})
        with pytest.raises(RunTaken, match="somebody"):
            await run
        await store.release(claim)
        assert (await run).outcome == "completed"
        assert effects.seen == [("send", {"to": "ada"})]

    play(story)


def test_to_leave_at_a_pause_does_not_stop_a_run_that_goes_on_since() -> None:
    async def story() -> None:
        store = Hasty()
        agent, effects = mailing(send(), "Sent.", store=store)
        async with aclosing(aiter(run := agent.run_stream("Go"))) as events:
            async for event in events:
                if isinstance(event, RunPaused):
                    break
        assert (await store.info(run.run_id)).status != "stopped"
        if not (await store.info(run.run_id)).is_over:
            await agent.resume(run.run_id)
        assert len(effects.seen) <= 1

    complete(story)


def test_a_run_inside_of_one_that_is_stopped_is_stopped_with_it(play: Play) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_a_renewal_while_the_end_is_written_does_no_harm() -> None:
    class Eager(MemoryStore):
        async def append(self, claim: Claim, records: Sequence[Record]) -> None:
            await super().append(claim, records)
            await asyncio.sleep(0.05)  # the answer takes longer than a renewal

    async def story() -> None:
        agent = Agent(ScriptedModel("Hello."), store=Eager(), claim_seconds=0.06)
        assert (await agent.run_async("Go")).text == "Hello."

    complete(story)


def test_who_is_cancelled_while_a_run_begins_leaves_no_claim() -> None:
    class Slowly(MemoryStore):
        async def begin(self, records: Sequence[Record], owner: str, seconds: float) -> Claim:
            claim = await super().begin(records, owner, seconds)
            await asyncio.sleep(0.05)
            return claim

    async def story() -> None:
        store, conversation = Slowly(), Conversation()
        agent = Agent(ScriptedModel("Hello."), store=store)
        following = asyncio.create_task(told(agent.run_stream("Go", conversation)))
        while not await store.runs():
            await asyncio.sleep(0.001)
        await drop(following)
        (info,) = await store.runs()
        assert (info.status, info.owner) == ("running", None)
        assert conversation.run_id == info.run_id, "it can be resumed, and blocks until it is"

    complete(story)


def test_an_old_run_does_not_take_a_conversation_back(play: Play) -> None:
    async def story(store: Store) -> None:
        agent = Agent(ScriptedModel("One.", "Two."), store=store)
        conversation = Conversation()
        first = await agent.run_async("one", conversation)
        await agent.run_async("two", conversation)
        with pytest.raises(UsageError, match="is over"):
            await agent.resume(first)
        assert len(conversation.messages) == 4

    play(story)
