"""Runs with a log: what is written, who may go on with them, decide in them and stop them.

That they survive the end of a process is shown with real ones in ``tests/surviving``.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from argstream.agent import Agent, AgentRun, Approve, Conversation, Deny, tool
from argstream.agent._listening import PASSING
from argstream.clients import CallTool, Reply, ScriptedModel
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
    RunSnapshot,
    RunStarted,
    RunStopped,
    ToolArgsCompleted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolExecutionStarted,
    TurnCompleted,
    TurnStarted,
)
from argstream.history import ResultPart
from argstream.log import Claim, Record, Store, merged
from argstream.policy import Policy, Rule
from argstream.stores import MemoryStore, SqliteStore
from tests.agent.following import Effects, complete, mailing, one, only, send, steps
from tests.agent.histories import check_history
from tests.agent.ordering import check_order

Story = Callable[[Store], Awaitable[None]]


@pytest.fixture(params=["memory", "sqlite"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Story], None]:
    """Give what plays a story with a store that is open meanwhile."""

    def playing(story: Story) -> None:
        async def opened() -> None:
            is_memory = request.param == "memory"
            store = MemoryStore() if is_memory else SqliteStore(tmp_path / "runs.db")
            async with aclosing(store):
                await story(store)

        complete(opened)

    return playing


async def logged(store: Store, run: AgentRun) -> list[Event]:
    return [record.event for record in await store.read(run.run_id)]


async def told(run: AgentRun) -> list[Event]:
    return [event async for event in run]


class Slow:
    """A tool that runs until it is let go, or ended."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()
        self.times = 0

    async def wait(self) -> str:
        """Wait for somebody."""
        self.times += 1
        self.started.set()
        await self.may_end.wait()
        return "waited"


@asynccontextmanager
async def cut_off(run: AgentRun, slow: Slow) -> AsyncIterator[str]:
    """Follow a run until its tool runs, and then have whoever drives it go away at once."""
    following = asyncio.create_task(told(run))
    await slow.started.wait()
    await drop(following)
    yield run.run_id


async def drop(following: "asyncio.Task[list[Event]]") -> None:
    """Cancel a task that follows a run, as a program does that shuts down."""
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following


# What is written


def test_the_log_is_what_was_told_without_views_and_with_neighbours_merged(
    play: Callable[[Story], None],
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


def test_what_was_told_is_in_the_log_by_then(play: Callable[[Story], None]) -> None:
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


def test_a_tool_runs_when_it_is_written_that_it_does(play: Callable[[Story], None]) -> None:
    async def story(store: Store) -> None:
        found: list[list[Event]] = []

        async def look() -> str:
            found.append(await logged(store, run))
            return "looked"

        run = Agent(ScriptedModel(CallTool("look", {}), "."), [look], store=store).run_stream("Go")
        await run
        assert isinstance(found[0][-1], ToolExecutionStarted)

    play(story)


def test_who_joins_late_gets_a_snapshot_and_what_follows(play: Callable[[Story], None]) -> None:
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


def test_a_paused_run_goes_on_with_another_agent(play: Callable[[Story], None]) -> None:
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
    play: Callable[[Story], None],
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
    play: Callable[[Story], None],
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
    play: Callable[[Story], None],
) -> None:
    async def story(store: Store) -> None:
        slow = Slow()
        first, _ = mailing(send(), Reply(CallTool("wait", {})), store=store)
        first = Agent(first.model, [*_tools_of(first), slow.wait], store=store)
        paused = await first.run_stream("Go")
        always = {paused.pending[0].call_id: Approve(always="session")}
        async with cut_off(first.resume(paused, always), slow) as run_id:
            second, effects = mailing(send("bob"), store=store)
            second = Agent(second.model, [*_tools_of(second), slow.wait], store=store)
            result = await second.resume(run_id)
        assert [request.name for request in result.pending] == ["send"]
        assert effects.seen == []

    play(story)


def _tools_of(agent: Agent) -> list[Any]:
    return list(agent._setting.tools._tools.values())


def test_a_run_that_needs_a_tool_is_not_taken_up_without_it(play: Callable[[Story], None]) -> None:
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


def test_to_deny_a_call_one_needs_no_tool(play: Callable[[Story], None]) -> None:
    async def story(store: Store) -> None:
        first, _ = mailing(send(), store=store)
        paused = await first.run_stream("Go")
        other = Agent(ScriptedModel("Then not."), [], store=store)
        result = await other.resume(paused, {paused.pending[0].call_id: Deny()})
        assert result.text == "Then not."

    play(story)


def test_what_the_rules_of_now_forbid_does_not_run(play: Callable[[Story], None]) -> None:
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
    play: Callable[[Story], None],
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
    play: Callable[[Story], None],
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


def test_a_turn_that_was_cut_off_begins_again_and_says_so(play: Callable[[Story], None]) -> None:
    async def story(store: Store) -> None:
        first = Agent(_hanging, [], store=store)
        run = first.run_stream("Go")
        following = asyncio.create_task(told(run))
        await _begun(store, run)
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


async def _begun(store: Store, run: AgentRun) -> None:
    while run.run_id not in [info.run_id for info in await store.runs()]:
        await asyncio.sleep(0.005)


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


def test_a_run_that_somebody_drives_is_not_taken_up(play: Callable[[Story], None]) -> None:
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


def test_who_lost_the_run_to_another_stops_and_is_told(play: Callable[[Story], None]) -> None:
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


# Deciding


def test_anybody_can_decide_while_the_run_goes_on(play: Callable[[Story], None]) -> None:
    async def story(store: Store) -> None:
        slow = Slow()
        agent, effects = mailing(Reply(send(), CallTool("wait", {})), "Done.", store=store)
        agent = Agent(agent.model, [*_tools_of(agent), slow.wait], store=store)
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

    play(story)


class Hasty(MemoryStore):
    """A store in which somebody decides at the very moment at which a run pauses."""

    async def append(self, claim: Claim, records: Sequence[Record]) -> None:
        await super().append(claim, records)
        for record in records:
            if isinstance(record.event, RunPaused):
                (call_id,) = (request.call_id for request in record.event.pending)
                await self.decide(claim.run_id, {call_id: Approve()})


def test_what_was_decided_while_a_run_paused_keeps_it_going() -> None:
    async def story() -> None:
        store = Hasty()
        agent, effects = mailing(send(), "Sent.", store=store)
        run = agent.run_stream("Go")
        events = await told(run)
        assert run.result.outcome == "completed"
        assert effects.seen == [("send", {"to": "ada"})]
        at = steps(events).index("run_paused")
        assert steps(events)[at + 1 : at + 3] == ["run_resumed", "approval_decided"]
        check_order(await logged(store, run))

    complete(story)


def test_an_edit_that_does_not_fit_is_taken_back_so_that_somebody_can_decide_anew(
    play: Callable[[Story], None],
) -> None:
    async def story(store: Store) -> None:
        agent, effects = mailing(send(), "Sent.", store=store)
        paused = await agent.run_stream("Go")
        (call_id,) = (request.call_id for request in paused.pending)
        await store.decide(paused.run_id, {call_id: Approve(arguments={"to": 5})})
        again = await agent.resume(paused)
        assert again.is_paused
        await store.decide(paused.run_id, {call_id: Approve(arguments={"to": "bob"})})
        await agent.resume(paused)
        assert effects.seen == [("send", {"to": "bob"})]

    play(story)


def test_a_second_decision_loses_and_the_run_stays_as_it_is(play: Callable[[Story], None]) -> None:
    async def story(store: Store) -> None:
        agent, effects = mailing(send(), "Oh.", store=store)
        paused = await agent.run_stream("Go")
        (call_id,) = (request.call_id for request in paused.pending)
        await store.decide(paused.run_id, {call_id: Deny("no")})
        with pytest.raises(AlreadyDecided):
            await agent.resume(paused, {call_id: Approve()})
        result = await agent.resume(paused, {call_id: Deny("no")})
        assert result.outcome == "completed"
        assert effects.seen == []

    play(story)


def test_decide_from_a_thread_waits_until_it_counts(play: Callable[[Story], None]) -> None:
    async def story(store: Store) -> None:
        slow = Slow()
        agent, effects = mailing(Reply(send(), CallTool("wait", {})), "Done.", store=store)
        agent = Agent(agent.model, [*_tools_of(agent), slow.wait], store=store)
        run = agent.run_stream("Go")
        driving = asyncio.create_task(told(run))
        await slow.started.wait()
        (call_id,) = (request.call_id for request in run.pending)
        await asyncio.to_thread(run.decide, call_id, Approve())
        posted = await store.posted(run.run_id)
        assert call_id in posted.decisions or not run.pending
        slow.may_end.set()
        await driving
        assert effects.seen == [("send", {"to": "ada"})]

    play(story)


def test_an_approver_decides_where_all_others_do(play: Callable[[Story], None]) -> None:
    async def story(store: Store) -> None:
        async def too_slow(request: ApprovalRequested) -> Any:
            await store.decide(run.run_id, {request.call_id: Deny("another was quicker")})
            return Approve()

        agent, effects = mailing(send(), "Oh.", store=store, approver=too_slow)
        run = agent.run_stream("Go")
        decided = one(await told(run), ApprovalDecided)
        assert (decided.decision, decided.reason) == ("denied", "another was quicker")
        assert effects.seen == []

    play(story)


def test_what_nobody_decides_in_time_expires(play: Callable[[Story], None]) -> None:
    async def story(store: Store) -> None:
        async def never(request: ApprovalRequested) -> Any:  # noqa: ARG001 - whatever it is
            await asyncio.sleep(60)

        agent, effects = mailing(send(), "Oh.", store=store, approver=never, approval_timeout=0.05)
        events = await told(agent.run_stream("Go"))
        assert one(events, ApprovalDecided).decision == "expired"
        assert effects.seen == []

    play(story)


def test_a_decision_that_came_in_time_counts_when_the_run_goes_on_later(
    play: Callable[[Story], None],
) -> None:
    async def story(store: Store) -> None:
        agent, effects = mailing(send(), "Sent.", store=store, approval_timeout=0.1)
        paused = await agent.run_stream("Go")
        await store.decide(paused.run_id, {paused.pending[0].call_id: Approve()})
        await asyncio.sleep(0.15)
        await agent.resume(paused)
        assert effects.seen == [("send", {"to": "ada"})]

    play(story)


def test_who_is_told_of_a_request_can_decide_on_it_before_the_run_rests(
    play: Callable[[Story], None],
) -> None:
    async def story(store: Store) -> None:
        agent, effects = mailing(send(), "Sent.", store=store)
        run = agent.run_stream("Go")
        async for event in run:
            if isinstance(event, ApprovalRequested):
                run.decide(event.call_id, Approve())
        assert run.result.outcome == "completed"
        assert effects.seen == [("send", {"to": "ada"})]
        check_order(await logged(store, run))

    play(story)


def test_what_is_pending_before_it_is_written_can_be_decided_on() -> None:
    class Slowly(MemoryStore):
        async def append(self, claim: Claim, records: Sequence[Record]) -> None:
            await asyncio.sleep(0.02)
            await super().append(claim, records)

    async def story() -> None:
        agent, effects = mailing(send(), "Sent.", store=Slowly())
        run = agent.run_stream("Go")
        driving = asyncio.create_task(told(run))
        while not run.pending:
            await asyncio.sleep(0.001)
        run.decide(run.pending[0].call_id, Approve())
        await driving
        assert run.result.outcome == "completed"
        assert effects.seen == [("send", {"to": "ada"})]

    complete(story)


# Stopping


@pytest.mark.parametrize("moment", [ToolArgsCompleted, TurnCompleted, ToolExecutionStarted])
def test_nothing_begins_after_a_stop(play: Callable[[Story], None], moment: type[Event]) -> None:
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


def test_who_sees_a_pause_can_go_on_at_once(play: Callable[[Story], None]) -> None:
    async def story(store: Store) -> None:
        first, _ = mailing(send(), store=store)
        second, effects = mailing("Sent.", store=store)
        run = first.run_stream("Go")
        driving = asyncio.create_task(told(run))
        await _begun(store, run)
        async for record in store.follow(run.run_id):
            if isinstance(record.event, RunPaused):
                (call_id,) = (request.call_id for request in record.event.pending)
                await second.resume(run.run_id, {call_id: Approve()})
        await driving
        assert effects.seen == [("send", {"to": "ada"})]

    play(story)


def test_a_paused_run_can_be_stopped_by_itself_in_an_event_loop(
    play: Callable[[Story], None],
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


def test_a_stop_after_a_crash_says_what_may_have_been_done(play: Callable[[Story], None]) -> None:
    async def story(store: Store) -> None:
        slow = Slow()
        agent = Agent(ScriptedModel(CallTool("wait", {})), [slow.wait], store=store)
        async with cut_off(agent.run_stream("Go"), slow) as run_id:
            failed = one(await agent.stop_async(run_id, "enough"), ToolCallFailed)
        assert "not known what it has done" in failed.error

    play(story)


def test_a_conversation_goes_on_though_its_run_was_deleted(play: Callable[[Story], None]) -> None:
    async def story(store: Store) -> None:
        agent, _ = mailing(send(), "Hello.", store=store)
        conversation = Conversation()
        paused = await agent.run_stream("Go", conversation)
        await store.delete(paused.run_id)
        with pytest.raises(UnknownRun):
            await agent.resume(paused)
        assert (await agent.run_stream("Again", conversation)).text == "Hello."

    play(story)


def test_a_task_that_is_cancelled_leaves_its_run_to_others(play: Callable[[Story], None]) -> None:
    async def story(store: Store) -> None:
        slow = Slow()
        agent = Agent(ScriptedModel(CallTool("wait", {}), "."), [slow.wait], store=store)
        async with cut_off(agent.run_stream("Go"), slow) as run_id:
            info = await store.info(run_id)
            assert (info.status, info.owner) == ("running", None)
            assert (await agent.resume(run_id)).text == "."

    play(story)


def test_anybody_can_stop_a_run(play: Callable[[Story], None]) -> None:
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
    play: Callable[[Story], None],
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


def test_a_paused_run_is_stopped_for_good(play: Callable[[Story], None]) -> None:
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
    play: Callable[[Story], None],
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
    play: Callable[[Story], None],
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


def test_who_could_not_resume_can_try_again(play: Callable[[Story], None]) -> None:
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
