"""Deciding in a run with a log: anybody may, and the first one counts."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from argstream.agent import Agent, Approve, Deny, tool
from argstream.clients import CallTool, Reply, ScriptedModel
from argstream.errors import AlreadyDecided, UnknownRun, UsageError
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    RunPaused,
)
from argstream.log import Claim, Posts, Record, Store
from argstream.policy import Policy, Rule
from argstream.stores import MemoryStore
from tests.agent.following import complete, mailing, one, send, steps
from tests.agent.logged_runs import Hasty, Play, Slow, logged, told, tools_of
from tests.agent.ordering import check_order

# Deciding


def test_anybody_can_decide_while_the_run_goes_on(play: Play) -> None:
    async def story(store: Store) -> None:
        slow = Slow()
        agent, effects = mailing(Reply(send(), CallTool("wait", {})), "Done.", store=store)
        agent = Agent(agent.model, [*tools_of(agent), slow.wait], store=store)
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
    play: Play,
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


def test_a_second_decision_loses_and_the_run_stays_as_it_is(play: Play) -> None:
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


def test_decide_from_a_thread_waits_until_it_counts(play: Play) -> None:
    async def story(store: Store) -> None:
        slow = Slow()
        agent, effects = mailing(Reply(send(), CallTool("wait", {})), "Done.", store=store)
        agent = Agent(agent.model, [*tools_of(agent), slow.wait], store=store)
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


def test_an_approver_decides_where_all_others_do(play: Play) -> None:
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


def test_what_nobody_decides_in_time_expires(play: Play) -> None:
    async def story(store: Store) -> None:
        async def never(request: ApprovalRequested) -> Any:  # noqa: ARG001 - whatever it is
            await asyncio.sleep(60)

        agent, effects = mailing(send(), "Oh.", store=store, approver=never, approval_timeout=0.05)
        events = await told(agent.run_stream("Go"))
        assert one(events, ApprovalDecided).decision == "expired"
        assert effects.seen == []

    play(story)


def test_a_decision_that_came_in_time_counts_when_the_run_goes_on_later(
    play: Play,
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
    play: Play,
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


class Slowly(MemoryStore):
    """A store that takes its time."""

    async def append(self, claim: Claim, records: Sequence[Record]) -> None:
        await asyncio.sleep(0.02)
        await super().append(claim, records)


@pytest.mark.parametrize("in_thread", [False, True])
def test_what_is_pending_before_it_is_written_can_be_decided_on(in_thread: bool) -> None:
    async def story() -> None:
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

    complete(story)


def test_an_approval_waits_for_who_has_the_tool(play: Play) -> None:
    async def story(store: Store) -> None:
        slow = Slow()
        first, _ = mailing(Reply(send(), CallTool("wait", {})), store=store)
        confirmed = tool(requires_confirmation=True)(slow.wait)
        first = Agent(first.model, [*tools_of(first), confirmed], store=store)
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

    play(story)


def test_who_was_asked_in_place_is_asked_again_if_anothers_edit_was_taken_back(play: Play) -> None:
    async def story(store: Store) -> None:
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

    play(story)


# Whether something could be decided


def test_what_cannot_be_decided_is_said_before_anything_is(play: Play) -> None:
    async def story(store: Store) -> None:
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
        with pytest.raises(UsageError, match="nobody was asked"):
            await other.check(paused, {"c9": Deny()})
        with pytest.raises(UnknownRun):
            await other.check("run_none", {request.call_id: Deny()})
        await other.check(paused, {request.call_id: Approve(arguments={"to": "bob"})})
        await other.check(paused, {request.call_id: Approve(digest=request.digest)})
        assert await store.read(paused.run_id) == log
        assert await store.posted(paused.run_id) == Posts()
        assert effects.seen == []

    play(story)


def test_that_somebody_was_quicker_is_said_before_anything_is_decided(play: Play) -> None:
    async def story(store: Store) -> None:
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

    play(story)


def test_it_can_be_said_while_another_drives_the_run(play: Play) -> None:
    async def story(store: Store) -> None:
        slow = Slow()
        agent, _ = mailing(Reply(send(), CallTool("wait", {})), "Done.", store=store)
        tools = [*tools_of(agent), slow.wait]
        run = Agent(agent.model, tools, store=store).run_stream("Go")
        driving = asyncio.create_task(told(run))
        await slow.started.wait()
        (call_id,) = (request.call_id for request in run.pending)
        other = Agent(ScriptedModel("."), tools, store=store)
        await other.check(run.run_id, {call_id: Approve(arguments={"to": "bob"})})
        with pytest.raises(UsageError, match="not valid"):
            await other.check(run.run_id, {call_id: Approve(arguments={})})
        await run.aclose()
        await driving

    play(story)


def test_who_does_not_have_the_tool_cannot_say_it(play: Play) -> None:
    async def story(store: Store) -> None:
        agent, _ = mailing(send(), store=store)
        paused = await agent.run_stream("Go")
        (call_id,) = (request.call_id for request in paused.pending)
        other = Agent(ScriptedModel("."), [], store=store)
        for decision in (Approve(), Approve(arguments={"to": "bob"})):
            with pytest.raises(UsageError, match="send"):
                await other.check(paused, {call_id: decision})
            with pytest.raises(UsageError, match="send"):
                await other.resume(paused, {call_id: decision})
        await other.check(paused, {call_id: Deny()})

    play(story)


def test_without_a_store_it_is_said_of_runs_that_wait() -> None:
    async def story() -> None:
        agent, _ = mailing(send(), "Sent.")
        paused = await agent.run_stream("Go")
        (call_id,) = (request.call_id for request in paused.pending)
        await agent.check(paused, {call_id: Approve()})
        with pytest.raises(UsageError, match="not valid"):
            await agent.check(paused, {call_id: Approve(arguments={"to": 5})})
        await agent.resume(paused, {call_id: Approve()})
        with pytest.raises(UsageError, match="no run"):
            await agent.check(paused, {call_id: Approve()})

    complete(story)


# Going on with what was decided in the store


@pytest.mark.parametrize("decided", [0, 1, 2])
def test_a_run_goes_on_as_far_as_was_decided(play: Play, decided: int) -> None:
    async def story(store: Store) -> None:
        agent, _ = mailing(Reply(send(), send("bob")), store=store)
        paused = await agent.run_stream("Go")
        calls = [request.call_id for request in paused.pending]
        await store.decide(paused.run_id, {call_id: Approve() for call_id in calls[:decided]})
        other, effects = mailing("Sent.", store=store)
        result = await other.resume(paused.run_id)
        assert [to["to"] for _, to in effects.seen] == ["ada", "bob"][:decided]
        assert [request.call_id for request in result.pending] == calls[decided:]
        assert result.outcome == ("completed" if decided == 2 else "paused")
        assert (await store.info(paused.run_id)).owner is None

    play(story)


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
def test_grant_for_a_rule_holds_after_the_policy_was_loaded_anew_if_the_rule_is_the_same(
    play: Play, rules: str, asks_again: bool
) -> None:
    async def story(store: Store) -> None:
        first = fetching(store, _NETWORK, "https://docs.python.org")
        paused = await first.run_stream("Go")
        assert paused.pending[0].rule == "network"
        second = fetching(store, rules, "https://evil.example")
        run = second.resume(paused.run_id, {paused.pending[0].call_id: Approve(always="rule")})
        events = await told(run)
        assert one(events, ApprovalDecided).always == (None if asks_again else "rule")
        asked = [request.arguments["url"] for request in run.pending]
        assert asked == (["https://evil.example"] if asks_again else [])

    play(story)


def test_grant_for_an_unnamed_rule_does_not_pass_to_another_rule_in_its_position(
    play: Play,
) -> None:
    async def story(store: Store) -> None:
        docs = '[[rules]]\naction = "ask"\nargument = "url"\nprefix = "https://docs"\n'
        anything = '[[rules]]\naction = "ask"\nargument = "url"\nprefix = "https:"\n'
        first = fetching(store, docs, "https://docs.python.org")
        paused = await first.run_stream("Go")
        assert paused.pending[0].rule == "rule 1"
        second = fetching(store, anything, "https://evil.example")
        run = second.resume(paused.run_id, {paused.pending[0].call_id: Approve(always="rule")})
        await told(run)
        assert [request.rule for request in run.pending] == ["rule 1"]

    play(story)
