"""Runs with a store: what is written, and which process may drive, decide and stop.

``tests/surviving`` shows with real processes that such runs survive the end of one.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from argstream import errors
from argstream import events as ev
from argstream.agent import Agent, Approval, Approve, Conversation, Deny, Streamed, tool
from argstream.errors import AlreadyDecidedError, RunBusyError, StoreError, UsageError
from argstream.events import ApprovalDecided, ApprovalRequested, Event, RunPaused, RunStopped
from argstream.history import TextPart
from argstream.models import CallTool, Reply, Say, ScriptedModel
from argstream.policy import Policy, Rule
from argstream.runs import Commands, Lease, MemoryStore, Record, Store
from argstream.runs._batches import Batch
from tests.agent import following
from tests.agent.following import Slow, collect, logged, mailing, one, only, resumed, send, steps
from tests.agent.histories import check_history, results_of
from tests.agent.ordering import check_order

pytestmark = pytest.mark.anyio

with_each_store = pytest.mark.parametrize("store", ["memory", "sqlite"], indirect=True)
SENT = [("send", {"to": "ada"})]
WAIT = CallTool("wait", {})
STOPPED = ["approval_decided", "tool_call_failed", "run_stopped"]


def waiting(slow: Slow, *replies: object, **options: Any) -> Agent:
    return Agent(ScriptedModel(*(replies or [WAIT])), [slow.wait], **options)


@with_each_store
async def test_log_has_all_events_with_deltas_joined(store: Store) -> None:
    model = ScriptedModel(CallTool("write", {"path": "a.txt", "content": "x" * 500}), "Done.")
    run = Agent(model, [following.Effects().write], store=store).run_stream("caf\ud800")
    events = await collect(run)
    assert one(events, ev.RunStarted).prompt == "caf\ufffd", "lone surrogates are replaced"
    assert following.merged(await logged(store, run)) == following.merged(events)
    records = await store.read(run.run_id)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    ids = {(record.run_id, record.conversation_id) for record in records}
    assert ids == {(run.run_id, run.conversation.id)}
    check_order(await logged(store, run))


class SlowStore(MemoryStore):
    """Waits for so many seconds after it has created a run, and before and after it appends."""

    def __init__(self, create: float = 0.0, append: float = 0.0) -> None:
        super().__init__()
        self._seconds = (create, append)

    async def create(self, *run: Any) -> Lease:
        lease = await super().create(*run)
        await asyncio.sleep(self._seconds[0])
        return lease

    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        await asyncio.sleep(self._seconds[1])
        await super().append(lease, records)
        await asyncio.sleep(self._seconds[1])


class Counting(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.appends: list[list[Event]] = []

    async def _append(self, lease: Lease, batch: Batch) -> None:
        self.appends.append([record.event for record in batch.records])
        await super()._append(lease, batch)


@pytest.mark.parametrize("pause", [0.002, 0.04])
async def test_deltas_are_written_at_most_once_in_30_ms_and_at_once_after_silence(
    pause: float,
) -> None:
    store = Counting()
    pieces = 100 if pause < 0.03 else 10
    text = "".join(f"word {number:03}, " for number in range(pieces))
    reply = Reply(Say(text), CallTool("add", {"a": 1, "b": 2}), piece_size=10)
    agent = Agent(ScriptedModel(reply, "It is 3.", delay=pause), [following.add], store=store)
    run = agent.run_stream("Go")
    began = time.monotonic()
    events = await collect(run)
    seconds = time.monotonic() - began
    assert "".join(event.text for event in only(events, ev.TextDelta)) == f"{text}It is 3."
    written = [event for event in await logged(store, run) if not event.is_delta]
    assert written == [event for event in events if not (event.is_delta or event.is_computed)]
    if pause > 0.03:
        assert len(only(await logged(store, run), ev.TextDelta)) > pieces, "none waits for another"
    else:
        deltas = [append for append in store.appends if all(event.is_delta for event in append)]
        assert len(deltas) <= seconds / 0.03 + 1


@with_each_store
async def test_another_agent_can_resume_a_paused_run(store: Store) -> None:
    first, _ = mailing(send(), "Again.", store=store)
    conversation = Conversation()
    paused = await first.run_stream("Go", conversation)
    second, effects = mailing("Sent.", store=store)
    run = second.resume(paused.run_id, {paused.pending[0].call_id: Approve()})
    assert steps(await collect(run))[:4] == [
        *("run_resumed", "approval_decided", "tool_execution_started", "tool_call_completed")
    ]
    assert effects.seen == SENT
    assert run.result.text == "Sent."
    assert [use.tool_name for use in run.result.tools] == ["send"]
    assert run.conversation.id == conversation.id
    check_order(await logged(store, run))
    check_history(run.conversation.messages, is_over=True)
    with pytest.raises(UsageError, match=r"has ended \(completed\)"):
        await first.resume(paused)
    assert (await first.run_stream("And now?", conversation)).text == "Again."
    with pytest.raises(UsageError, match="has ended"):
        await first.resume(paused)
    assert len(conversation.messages) == 6, "an old run does not reset its conversation"
    check_history(conversation.messages, is_over=True)


async def test_approval_waits_for_an_agent_that_has_the_tool(store: Store) -> None:
    paused = await mailing(send(), store=store)[0].run_stream("Go")
    (call_id,) = (request.call_id for request in paused.pending)
    other = Agent(ScriptedModel("Then not."), [], store=store)
    with pytest.raises(UsageError, match="does not have: send"):
        await other.resume(paused, {call_id: Approve()})
    assert not (await store.commands(paused.run_id)).decisions, "nothing was decided"
    edit = {call_id: Approve(arguments={"to": "bob"})}
    await store.decide(paused.run_id, edit)
    with pytest.raises(UsageError, match="does not have: send"):
        await other.resume(paused)
    assert (await store.commands(paused.run_id)).decisions == edit
    lease = await store.acquire(paused.run_id, "others can resume it", 30)
    await store.reopen(lease, call_id)
    await store.release(lease)
    assert (await resumed(other, paused, Deny())).text == "Then not."


async def test_call_that_the_current_policy_denies_does_not_run(store: Store) -> None:
    paused = await mailing(send(), store=store)[0].run_stream("Go")
    strict = Policy([Rule("deny", tool="send", reason="no mail today")])
    second, effects = mailing("Oh.", store=store, policy=strict)
    failed = one(await collect(resumed(second, paused)), ev.ToolCallFailed)
    assert "no mail today" in failed.error
    assert effects.seen == []


def _texts(conversation: Conversation) -> list[str]:
    parts = [part for message in conversation.messages for part in message.parts]
    return [part.text for part in parts if isinstance(part, TextPart)]


@with_each_store
async def test_conversation_is_found_by_its_id_and_user(store: Store) -> None:
    agent, _ = mailing("Hello, Ada.", "Hello, Bob.", "Again.", store=store)
    assert agent.store is store
    new = await agent.conversation("talk", user="ada")
    assert (new.id, new.user, new.is_fresh) == ("talk", "ada", True)
    await agent.run_stream("I am Ada", Conversation(id="talk", user="ada"))
    await agent.run_stream("I am Bob", Conversation(id="talk", user="bob"))
    other, _ = mailing("Ada.", store=store)
    conversation = await other.conversation("talk", user="ada")
    assert (conversation.id, conversation.user, conversation.run_id) == ("talk", "ada", None)
    assert _texts(conversation) == ["I am Ada", "Hello, Ada."]
    await other.run_stream("Who am I?", conversation)
    found = await agent.conversation("talk", user="ada")
    assert _texts(found) == ["I am Ada", "Hello, Ada.", "Who am I?", "Ada."]
    assert (await agent.conversation("talk")).is_fresh, "that of no user"
    assert found.messages == conversation.messages
    check_history(found.messages, is_over=True)
    with pytest.raises(UsageError, match="not be empty"):
        await agent.conversation("")


@pytest.mark.parametrize("ending", ["resume", "stop", "delete"])
async def test_conversation_names_its_unfinished_run(store: Store, ending: str) -> None:
    rest = ["Sent.", "More."] if ending == "resume" else ["More."]
    agent, _ = mailing("Hi.", send(), *rest, store=store)
    await agent.run_stream("Hello", Conversation(id="talk"))
    paused = await agent.run_stream("Send it", await agent.conversation("talk"))
    conversation = await agent.conversation("talk")
    assert conversation.run_id == paused.run_id
    assert _texts(conversation) == ["Hello", "Hi."], "the messages before that run"
    with pytest.raises(UsageError, match="an active run"):
        await agent.run_stream("More", conversation)
    match ending:
        case "resume":
            await resumed(agent, paused)
        case "stop":
            await agent.stop_async(paused.run_id, "enough")
            conversation = await agent.conversation("talk")
            assert conversation.run_id is None
            assert _texts(conversation)[:3] == ["Hello", "Hi.", "Send it"]
        case _:
            await store.delete(paused.run_id)
            with pytest.raises(errors.RunNotFoundError):
                await agent.resume(paused)
    assert (await agent.run_stream("More", conversation)).text == "More."
    check_history(conversation.messages, is_over=True)


@with_each_store
async def test_begun_returns_when_the_run_is_stored_and_no_event_is_lost(store: Store) -> None:
    shown: list[Record] = []
    agent, _ = mailing("Done.", store=store, on_event=shown.append)
    run = agent.run_stream("Go")
    with pytest.raises(errors.RunNotFoundError):
        await store.info(run.run_id)
    await run.begun()
    assert (await store.info(run.run_id)).seq >= 1
    assert shown == []
    with pytest.raises(UsageError, match="already"):
        await run.begun()
    events = await asyncio.create_task(collect(run))
    assert events == [record.event for record in shown]
    stored = [record for record in shown if not record.event.is_computed]
    assert stored == await store.read(run.run_id)


async def test_begun_raises_if_the_run_cannot_begin(store: Store) -> None:
    agent, _ = mailing(send(), "Sent.", store=store)
    paused = await agent.run_stream("Go")
    lease = await store.acquire(paused.run_id, "another", 30)
    run = resumed(agent, paused)
    with pytest.raises(RunBusyError):
        await run.begun()
    await store.release(lease)
    await run.begun()
    assert one(await logged(store, run), ev.RunResumed).cause == "pause"
    assert steps(await collect(run))[:2] == ["run_resumed", "approval_decided"]
    with pytest.raises(UsageError, match="has ended"):
        await agent.resume(paused).begun()


async def test_run_that_is_left_after_begun_is_stopped(store: Store) -> None:
    agent = Agent(ScriptedModel(WAIT, repeat=True), [Slow().wait], store=store)
    dropped, closed = agent.run_stream("Go"), agent.run_stream("Go")
    await dropped.begun()
    await closed.begun()
    run_ids = [dropped.run_id, closed.run_id]
    del dropped
    await closed.aclose()
    for run_id in run_ids:
        *_, last = [record.event async for record in store.follow(run_id)]
        assert isinstance(last, RunStopped)


@with_each_store
async def test_crash_reports_the_interrupted_tool_and_repeats_an_idempotent_one(
    store: Store,
) -> None:
    slow, repeated = Slow(), Slow()
    again = tool(name="again", idempotent=True)(repeated.wait)
    model = ScriptedModel(Reply(WAIT, CallTool("again", {})), "I see.")
    agent = Agent(model, [slow.wait, again], store=store)
    run_id = await following.crash(agent.run_stream("Go"), repeated)
    assert (await store.info(run_id)).is_abandoned
    repeated.may_end.set()
    run = agent.resume(run_id)
    events = await collect(run)
    recovered, failed = one(events, ev.RunResumed), one(events, ev.ToolCallFailed)
    assert (recovered.cause, recovered.interrupted[0]) == ("crash", failed.call_id)
    assert "not known what it has done" in failed.error
    assert (slow.times, repeated.times) == (1, 2)
    _, first, second = only(await logged(store, run), ev.ToolExecutionStarted)
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.idempotency_key == second.idempotency_key
    check_order(await logged(store, run), idempotent=("again",))
    results = [(part.result, part.failed) for part in results_of(model.requests[1].messages[-1])]
    assert results == [(failed.error, True), ("waited", False)]


async def test_stop_after_a_crash_reports_the_interrupted_tool(store: Store) -> None:
    slow = Slow()
    agent = waiting(slow, store=store)
    run_id = await following.crash(agent.run_stream("Go"), slow)
    await store.stop(run_id, "first")
    events = await agent.stop_async(run_id, "second")
    assert "not known what it has done" in one(events, ev.ToolCallFailed).error
    assert one(events, ev.RunStopped).reason == "first"


async def test_model_is_told_which_tools_had_started_in_a_lost_turn(store: Store) -> None:
    slow = Slow()

    @tool
    async def draft(text: Streamed[str]) -> str:
        return await slow.wait() + text.so_far

    model = ScriptedModel(CallTool("draft", {"text": "word " * 100}), "I see.", delay=0.01)
    agent = Agent(model, [draft], store=store)
    run_id = await following.crash(agent.run_stream("Go"), slow)
    note = one(await collect(agent.resume(run_id)), ev.RunResumed).note
    assert "these tools had begun to work: draft. It is not known" in note
    assert model.requests[-1].messages[-1].parts == (TextPart(text=note),)


@with_each_store
async def test_decision_through_the_store_counts_while_the_run_goes_on(store: Store) -> None:
    slow = Slow()
    agent, effects = mailing(Reply(send(), WAIT), "Done.", more=[slow.wait], store=store)
    run = agent.run_stream("Go")
    driving = await following.driven(run, slow)
    (call_id,) = (request.call_id for request in run.pending)
    other, _ = mailing(store=store)
    await other.check(run.run_id, {call_id: Approve(arguments={"to": "bob"})})
    with pytest.raises(UsageError, match="not valid"):
        await other.check(run.run_id, {call_id: Approve(arguments={})})
    await store.decide(run.run_id, {call_id: Approve(reason="fine")})
    with pytest.raises(AlreadyDecidedError):
        await store.decide(run.run_id, {call_id: Deny()})
    while run.pending:
        await asyncio.sleep(0.002)
    slow.may_end.set()
    decided = one(await driving, ApprovalDecided)
    assert (decided.decision, decided.reason) == ("approved", "fine")
    assert effects.seen == SENT


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_decision_made_while_the_run_pauses_keeps_it_going_unless_it_is_stopped(
    is_stopped: bool,
) -> None:
    class StopsPauses(following.ApprovesPauses):
        async def append(self, lease: Lease, records: Sequence[Record]) -> None:
            await super().append(lease, records)
            if is_stopped and any(isinstance(record.event, RunPaused) for record in records):
                await self.stop(lease.run_id, "no, rather not")

    store = StopsPauses()
    agent, effects = mailing(send(), "Sent.", store=store)
    run = agent.run_stream("Go")
    events = await collect(run)
    assert run.result.outcome == ("stopped" if is_stopped else "completed")
    assert effects.seen == ([] if is_stopped else SENT)
    if not is_stopped:
        at = steps(events).index("run_paused")
        assert steps(events)[at + 1 : at + 3] == ["run_resumed", "approval_decided"]
    check_order(await logged(store, run))


async def test_invalid_edit_is_withdrawn_and_the_call_can_be_decided_again(store: Store) -> None:
    agent, effects = mailing(send(), "Sent.", store=store)
    paused = await agent.run_stream("Go")
    (call_id,) = (request.call_id for request in paused.pending)
    await store.decide(paused.run_id, {call_id: Approve(arguments={"to": 5})})
    assert (await agent.resume(paused)).is_paused
    await store.decide(paused.run_id, {call_id: Approve(arguments={"to": "bob"})})
    await agent.resume(paused)
    assert effects.seen == [("send", {"to": "bob"})]


@pytest.mark.parametrize(
    ("posted", "asked", "outcome"),
    [
        (Approve(arguments={"to": 5}), 2, ("approved", "mine")),  # it is not valid
        (Deny("another was quicker"), 1, ("denied", "another was quicker")),
    ],
)
async def test_valid_decision_in_the_store_wins_over_a_later_one_of_the_approver(
    store: Store, posted: Approval, asked: int, outcome: tuple[str, str]
) -> None:
    requests: list[ApprovalRequested] = []

    async def approve(request: ApprovalRequested) -> Any:
        requests.append(request)
        if len(requests) == 1:
            await store.decide(run.run_id, {request.call_id: posted})
        return Approve(reason="mine")

    agent, effects = mailing(send(), "Done.", store=store, approver=approve)
    run = agent.run_stream("Go")
    decided = one(await collect(run), ApprovalDecided)
    assert (len(requests), (decided.decision, decided.reason)) == (asked, outcome)
    assert effects.seen == (SENT if asked == 2 else [])


async def test_decision_in_time_counts_when_the_run_resumes_after_expiry(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = (send(), "Sent.", send("bob"), "Oh.")
    agent, effects = mailing(*replies, store=store, approval_timeout=1e-6)
    paused = await agent.run_stream("Go")
    with monkeypatch.context() as earlier:
        earlier.setattr(time, "time", lambda: 1000.0)
        await store.decide(paused.run_id, {paused.pending[0].call_id: Approve()})
    await agent.resume(paused)
    undecided = await agent.run_stream("Go")
    assert one(await collect(agent.resume(undecided)), ApprovalDecided).decision == "expired"
    assert effects.seen == SENT


@pytest.mark.parametrize("in_thread", [False, True])
async def test_pending_call_can_be_decided_before_its_request_is_stored(in_thread: bool) -> None:
    agent, effects = mailing(send(), "Sent.", store=SlowStore(append=0.02))
    run = agent.run_stream("Go")
    driving = asyncio.create_task(collect(run))
    while not run.pending:
        await asyncio.sleep(0.001)
    decision = (run.pending[0].call_id, Approve())
    await asyncio.to_thread(run.decide, *decision) if in_thread else run.decide(*decision)
    await driving
    assert run.result.outcome == "completed"
    assert effects.seen == SENT


async def test_run_pauses_for_an_approved_call_whose_tool_the_driver_lacks(store: Store) -> None:
    slow = Slow()
    confirmed = tool(requires_confirmation=True)(slow.wait)
    first, _ = mailing(Reply(send(), WAIT), more=[confirmed], store=store)
    paused = await first.run_stream("Go")
    mail, wait = (request.call_id for request in paused.pending)
    without_mail = Agent(ScriptedModel("."), [confirmed], store=store)
    driving = await following.driven(without_mail.resume(paused, {wait: Approve()}), slow)
    await store.decide(paused.run_id, {mail: Approve()})
    slow.may_end.set()
    assert isinstance((await driving)[-1], RunPaused)
    last, effects = mailing("Sent.", store=store)
    await last.resume(paused.run_id)
    assert effects.seen == SENT


async def test_check_applies_the_policy_of_the_agent_and_changes_nothing(store: Store) -> None:
    paused = await mailing(send(), store=store)[0].run_stream("Go")
    (request,) = paused.pending
    log = await store.read(paused.run_id)
    rule = Rule("deny", argument="to", when=lambda to: to == "eve", reason="no mail to eve")
    other, _ = mailing("Sent.", store=store, policy=Policy([rule]))
    with pytest.raises(UsageError, match="no mail to eve"):
        await other.check(paused, {request.call_id: Approve(arguments={"to": "eve"})})
    with pytest.raises(UsageError, match="no pending approval"):
        await other.check(paused, {"c9": Deny()})
    with pytest.raises(errors.RunNotFoundError):
        await other.check("run_none", {request.call_id: Deny()})
    await other.check(paused.run_id, {request.call_id: Approve(digest=request.digest)})
    assert await store.read(paused.run_id) == log
    assert await store.commands(paused.run_id) == Commands()


async def test_check_raises_for_calls_that_were_decided(store: Store) -> None:
    agent, _ = mailing(Reply(send(), send("bob")), send("eve"), store=store)
    paused = await agent.run_stream("Go")
    ada, bob = (request.call_id for request in paused.pending)
    await store.decide(paused.run_id, {ada: Deny("no")})
    with pytest.raises(AlreadyDecidedError):
        await agent.check(paused, {ada: Approve(), bob: Approve()})
    await agent.check(paused, {ada: Deny("no"), bob: Approve()})
    paused = await agent.resume(paused, {bob: Approve()})
    for call_id in (ada, bob):
        with pytest.raises(AlreadyDecidedError):
            await agent.check(paused, {call_id: Approve()})
    await agent.stop_async(paused)
    with pytest.raises(UsageError, match="has ended"):
        await agent.check(paused, {paused.pending[0].call_id: Approve()})


_NETWORK = '[[rules]]\nname = "network"\ntool = "fetch"\naction = "ask"\n'
_BY_URL = '[[rules]]\naction = "ask"\nargument = "url"\nprefix = "https:{}"\n'


def fetching(store: Store, rules: str, url: str) -> Agent:
    def fetch(url: str) -> str:
        return url

    model = ScriptedModel(CallTool("fetch", {"url": url}), "Done.")
    policy = Policy.from_toml(f'default = "allow"\n{rules}')
    return Agent(model, [fetch], policy=policy, store=store)


@pytest.mark.parametrize(
    ("before", "after", "asks_again"),
    [
        (_NETWORK, _NETWORK, False),
        (_NETWORK, f'[[rules]]\ntool = "read"\naction = "deny"\n{_NETWORK}', False),
        (_NETWORK, f'{_NETWORK}argument = "url"\nprefix = "https:"\n', True),
        (_NETWORK, f'{_NETWORK}reason = "it costs money"\n', True),
        (_BY_URL.format("//docs"), _BY_URL.format(""), True),
    ],
    ids=["same", "rule added", "other condition", "other reason", "unnamed, same position"],
)
async def test_rule_grant_holds_after_a_policy_reload_only_for_an_unchanged_rule(
    store: Store, before: str, after: str, asks_again: bool
) -> None:
    paused = await fetching(store, before, "https://docs.python.org").run_stream("Go")
    assert paused.pending[0].rule == ("network" if before == _NETWORK else "rule 1")
    run = resumed(fetching(store, after, "https://evil.example"), paused, Approve(always="rule"))
    events = await collect(run)
    assert one(events, ApprovalDecided).always == ("call" if asks_again else "rule")
    asked = [request.arguments["url"] for request in run.pending]
    assert asked == (["https://evil.example"] if asks_again else [])


@pytest.mark.parametrize("has_store", [False, True])
@pytest.mark.parametrize("by_agent", [True, False])
async def test_paused_run_can_be_stopped_and_its_conversation_continues(
    store: Store, has_store: bool, by_agent: bool
) -> None:
    conversation = Conversation()
    agent, effects = mailing(send(), "Fine.", store=store if has_store else None)
    run = agent.run_stream("Go", conversation)
    paused = await run
    with pytest.raises(UsageError, match="Resume or stop"):
        await agent.run_async("And?", conversation)
    events = await agent.stop_async(paused, "enough") if by_agent else run.stop("enough")
    assert [event.type for event in events] == STOPPED
    if not by_agent:
        assert (run.result.outcome, run.pending, run.stop()) == ("stopped", (), [])
    if has_store:
        assert (await logged(store, run))[-3:] == events
        assert (await store.info(run.run_id)).status == "stopped"
    with pytest.raises(UsageError, match="has ended" if has_store else "is not paused"):
        await agent.resume(paused)
    assert conversation.run_id is None
    assert (await agent.run_async("And?", conversation)).text == "Fine."
    check_history(conversation.messages, is_over=True)
    assert effects.seen == []


@with_each_store
async def test_stop_is_stored_before_it_takes_effect(store: Store) -> None:
    started = asyncio.Event()
    found: list[str | None] = []

    async def wait() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            with anyio.CancelScope(shield=True):
                found.append((await store.commands(run.run_id)).stop_reason)

    run = Agent(ScriptedModel(WAIT), [wait], store=store).run_stream("Go")

    async def stop(_: Event) -> None:
        await started.wait()
        run.stop("enough")

    await collect(run, ev.ToolExecutionStarted, stop)
    assert found == ["enough"]
    assert run.result.outcome == "stopped"


async def test_stop_sent_to_a_paused_run_ends_it_when_it_resumes(store: Store) -> None:
    agent, effects = mailing(send(), store=store)
    paused = await agent.run_stream("Go")
    await store.stop(paused.run_id, "enough")
    assert isinstance((await collect(resumed(agent, paused)))[-1], RunStopped)
    assert effects.seen == []


@with_each_store
async def test_stop_through_the_store_ends_the_run_and_the_runs_of_its_tools(store: Store) -> None:
    slow = Slow()
    inner = waiting(slow, store=store, name="inner")

    async def ask() -> str:
        return (await inner.run_async("Go")).text

    outer = Agent(ScriptedModel(CallTool("ask", {})), [ask], store=store).run_stream("Go")
    driving = await following.driven(outer, slow)
    await store.stop(outer.run_id, "enough")
    assert one(await driving, RunStopped).reason == "enough"
    check_order(await logged(store, outer))
    assert {info.status for info in await store.runs()} == {"stopped"}


def test_stored_runs_need_no_event_loop(tmp_path: Path) -> None:
    agent, _ = mailing(send(), send(), store=tmp_path / "runs.db")
    other, effects = mailing("Sent.", store=tmp_path / "runs.db")
    assert isinstance(list(resumed(other, agent.run("Go")))[-1], ev.RunCompleted)
    assert effects.seen == SENT
    paused = agent.run("Go")
    assert isinstance(agent.stop(paused, "enough")[-1], RunStopped)

    async def stopping() -> None:
        with pytest.raises(UsageError, match=r"await agent\.stop_async"):
            agent.stop(paused)

    following.complete(stopping)


async def test_failing_store_ends_the_run_and_no_unstored_event_is_shown() -> None:
    store, slow = MemoryStore(), Slow()
    seen: list[Event] = []

    async def following() -> None:
        async for event in waiting(slow, WAIT, "Done.", store=store).run_stream("Go"):
            seen.append(event)  # noqa: PERF401 - events before the failure count

    driving = asyncio.create_task(following())
    await slow.started.wait()
    await store.aclose()
    slow.may_end.set()
    with pytest.raises(StoreError):
        await driving
    assert isinstance(seen[-1], ev.ToolExecutionStarted)


def test_run_that_cannot_be_stored_leaves_its_conversation_unchanged() -> None:
    class Unreachable(MemoryStore):
        async def create(self, *run: Any) -> Lease:
            raise StoreError(f"no answer to {run[1]}")

    conversation = Conversation()
    with pytest.raises(StoreError, match="no answer"):
        Agent(ScriptedModel("Hello."), store=Unreachable()).run("Go", conversation)
    assert conversation.messages == ()
    assert Agent(ScriptedModel("Hello.")).run("Go", conversation).text == "Hello."


@pytest.mark.parametrize("seconds", [0.05, 0.1])
async def test_write_that_takes_longer_than_a_lease_does_no_harm(seconds: float) -> None:
    """It takes longer than the time between renewals, or the lease."""
    agent = Agent(ScriptedModel("Hello."), store=SlowStore(append=seconds), lease_seconds=0.06)
    assert (await agent.run_async("Go")).text == "Hello."


async def test_tool_does_not_start_if_the_lease_expired_while_its_start_was_written() -> None:
    class Suspended(MemoryStore):
        """Stands still after the start of a tool is written, until another process has the run."""

        async def append(self, lease: Lease, records: Sequence[Record]) -> None:
            await super().append(lease, records)
            while isinstance(records[-1].event, ev.ToolExecutionStarted):
                with suppress(RunBusyError):
                    await self.acquire(lease.run_id, "another process", 60)
                    return
                time.sleep(0.01)

        async def renew(self, lease: Lease, seconds: float) -> None:
            await asyncio.sleep(0.05)  # a store in another thread or host takes a moment
            await super().renew(lease, seconds)

    effects, model = following.Effects(), ScriptedModel(send(), "Done.", delay=0.04)
    agent = Agent(model, [effects.send], store=Suspended(), lease_seconds=0.9)
    with pytest.raises(errors.LeaseLostError):
        await agent.run_stream("Go")
    assert effects.seen == []


async def test_run_cancelled_while_it_begins_keeps_no_lease() -> None:
    store, conversation = SlowStore(create=0.05), Conversation()
    agent = Agent(ScriptedModel("Hello."), store=store)
    driving = asyncio.create_task(collect(agent.run_stream("Go", conversation)))
    while not await store.runs():
        await asyncio.sleep(0.001)
    await following.cancel(driving)
    (info,) = await store.runs()
    assert (info.status, info.owner) == ("running", None)
    assert conversation.run_id == info.run_id, "it can be resumed"
