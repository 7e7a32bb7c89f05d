"""Approvals for the calls of an observed agent: any process decides, once."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, query

from argstream import events as ev
from argstream.agent import Agent, Approve, Deny, Run
from argstream.agent.approvals import digest_of
from argstream.agent.observer import Observer
from argstream.errors import AlreadyDecidedError, UsageError
from argstream.events import ApprovalDecided, ApprovalRequested, Event, ToolCallCompleted
from argstream.models import ScriptedModel
from argstream.runs import MemoryStore, SqliteStore
from tests.agent.following import collect, one, only
from tests.agent.observing import FakeClaude, check_observed, logged
from tests.claude_agent import assistant, init, run_result, streamed, text, tool_result, use, user
from tests.provider_streams import Payload, input_json, message_end, message_start, tool_use

pytestmark = pytest.mark.anyio


ARGUMENTS = {"path": "a.py", "lines": [1, 2.5, {"deep": "ä"}]}
SESSION = "talk"

Decider = Callable[[Observer, Run, ApprovalRequested], Awaitable[None]]


class Claude(FakeClaude):
    """Writes a call of ``write``, asks for permission, and reports the result.

    ``asks`` are the arguments of its questions, if they are not those that it has written.
    ``asking`` replaces these questions.
    """

    def __init__(
        self,
        arguments: Payload = ARGUMENTS,
        asks: Sequence[Payload] = (),
        asking: Callable[["Claude"], Awaitable[None]] | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(self._play_script)
        self.arguments = arguments
        self.asks = asks or [arguments]
        self.asking = asking
        self.fields = fields
        self.answers: list[Payload] = []

    async def ask_again(self) -> None:
        self.answers.append(await self.ask(self.asks[len(self.answers)], **self.fields))

    async def _play_script(self, _: FakeClaude) -> AsyncGenerator[Payload, None]:
        yield init()
        yield assistant(text("I write."), use(self.arguments))
        if self.asking is not None:
            await self.asking(self)
        while len(self.answers) < len(self.asks) and self.asking is None:
            await self.ask_again()
        answer = self.answers[0] if self.answers else {"behavior": "deny", "message": "none"}
        is_allowed = answer["behavior"] == "allow"
        for line in ended("written" if is_allowed else answer["message"], failed=not is_allowed):
            yield line


def ended(result: str = "written", *, failed: bool = False) -> list[Payload]:
    done = [assistant(text("Done."), id_="msg_2"), run_result(result="Done.")]
    return [user([tool_result(result, is_error=failed)]), *done]


def observing(claude: FakeClaude, observer: Observer) -> Run:
    options = ClaudeAgentOptions(can_use_tool=observer.can_use_tool)
    source = query(prompt="Go", options=options, transport=claude)
    return observer.observe(source, "Go", conversation_id=SESSION)


def deciding(decision: Approve | Deny) -> Decider:
    async def decide(observer: Observer, run: Run, request: ApprovalRequested) -> None:
        await observer.store.decide(run.run_id, {request.call_id: decision})

    return decide


async def follow(
    claude: FakeClaude,
    decision: Approve | Deny | Decider | None = None,
    observer: Observer | None = None,
) -> list[Event]:
    observer = observer or Observer(store=MemoryStore())
    decide = deciding(decision) if isinstance(decision, Approve | Deny) else decision
    run = observing(claude, observer)
    events: list[Event] = []
    async for event in run:
        events.append(event)
        if decide is not None and isinstance(event, ApprovalRequested):
            await decide(observer, run, event)
    check_observed(events)
    assert run.pending == ()
    return events


EDIT = {"path": "b.py"}
RULES = [{"toolName": "write", "ruleContent": None}]
GRANT = {"type": "addRules", "destination": "session", "rules": RULES, "behavior": "allow"}


@pytest.mark.parametrize(
    ("decision", "outcome", "answer"),
    [
        (Approve(), "approved", {"updatedInput": ARGUMENTS}),
        (Approve(arguments=EDIT, reason="better"), "edited", {"updatedInput": EDIT}),
        (
            Approve(always="conversation"),
            "approved",
            {"updatedInput": ARGUMENTS, "updatedPermissions": [GRANT]},
        ),
        (Deny("not today"), "denied", {"message": "it was denied: not today"}),
    ],
    ids=["approve", "edit", "session", "deny"],
)
async def test_decision_is_the_answer_to_the_agent(
    decision: Approve | Deny, outcome: str, answer: Payload
) -> None:
    claude = Claude(title="Claude wants to write a.py")
    events = await follow(claude, decision)
    request, decided = one(events, ApprovalRequested), one(events, ApprovalDecided)
    assert request.arguments == ARGUMENTS
    assert request.reason == "Claude wants to write a.py"
    assert decided.decision == outcome
    if isinstance(decision, Deny):
        assert claude.answers == [{"behavior": "deny", **answer}]
        assert one(events, ev.ToolCallFailed).error == answer["message"]
    else:
        assert claude.answers == [{"behavior": "allow", **answer}]
        assert one(events, ToolCallCompleted).arguments == answer["updatedInput"]
        assert (decided.always, decided.edited_arguments) == (decision.always, decision.arguments)


async def test_invalid_decision_is_withdrawn() -> None:
    async def decide(observer: Observer, run: Run, request: ApprovalRequested) -> None:
        store = observer.store
        await store.decide(run.run_id, {request.call_id: Approve(always="rule")})
        while True:
            try:
                await store.decide(run.run_id, {request.call_id: Deny("no")})
            except AlreadyDecidedError:
                await asyncio.sleep(0.001)
            else:
                return

    assert one(await follow(Claude(), decide), ApprovalDecided).decision == "denied"


async def test_decision_on_an_observed_call_is_checked() -> None:
    async def decide(observer: Observer, run: Run, request: ApprovalRequested) -> None:
        assert run.pending == (request,)
        text = '{"path": "a.py", "lines": [1, 2.5, {"deep": "ä"}]}'
        assert request.digest == digest_of(run.run_id, "toolu_1", "write", text)
        with pytest.raises(UsageError, match="digest"):
            await deciding(Approve(digest="another"))(observer, run, request)
        agent = Agent(ScriptedModel("."), [], store=observer.store)
        assert (await agent.conversation(SESSION)).run_id == run.run_id
        for call_id, decision, why in (
            (request.call_id, Approve(always="rule"), "no rule"),
            (request.call_id, Approve(digest="another"), "digest"),
            (request.call_id, Approve(arguments={"path": {1}}), "not a valid JSON"),
            (request.call_id, True, "Approve"),
            ("c9", Approve(), "no pending approval"),
        ):
            with pytest.raises(UsageError, match=why):
                await agent.check(run.run_id, {call_id: decision})  # type: ignore[dict-item]  # one of them
        decisions = {request.call_id: Approve(digest=request.digest)}
        await agent.check(run.run_id, decisions)
        await observer.store.decide(run.run_id, decisions)
        with pytest.raises(AlreadyDecidedError):
            await agent.check(run.run_id, {request.call_id: Deny()})

    assert one(await follow(Claude(), decide), ApprovalDecided).decision == "approved"


async def test_another_process_can_decide_and_the_first_decision_counts(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def decide(_: Observer, run: Run, request: ApprovalRequested) -> None:
        async with aclosing(SqliteStore(path)) as elsewhere:
            pending = (await elsewhere.info(run.run_id)).pending
            assert pending == {request.call_id: request.digest}
            await elsewhere.decide(run.run_id, {request.call_id: Deny("me first")})
            with pytest.raises(AlreadyDecidedError):
                await elsewhere.decide(run.run_id, {request.call_id: Approve()})

    async with Observer(store=path) as observer:
        events = await follow(Claude(), decide, observer)
    assert one(events, ApprovalDecided).reason == "me first"


@pytest.mark.parametrize(
    ("answer", "outcome", "behavior"),
    [
        (Approve(), "approved", "allow"),
        (Approve(arguments={"path": {1}}), "denied", "deny"),
        (None, "expired", "deny"),
    ],
)
async def test_approver_decides_and_without_one_the_request_expires(
    answer: Approve | None, outcome: str, behavior: str
) -> None:
    asked: list[ApprovalRequested] = []

    async def approver(request: ApprovalRequested) -> Any:
        asked.append(request)
        return answer

    claude = Claude()
    options: Any = {"approver": approver} if answer else {"approval_timeout": 0.05}
    events = await follow(claude, observer=Observer(store=MemoryStore(), **options))
    assert asked == (only(events, ApprovalRequested) if answer else [])
    decided = one(events, ApprovalDecided)
    assert decided.decision == outcome
    assert outcome != "denied" or "not a valid JSON object" in decided.reason
    assert claude.answers[0]["behavior"] == behavior


async def test_decision_in_the_store_cancels_the_approver() -> None:
    was_cancelled: list[bool] = []

    async def approver(_: ApprovalRequested) -> Approve:
        try:
            await asyncio.sleep(20)
        finally:
            was_cancelled.append(True)
        return Approve()

    observer = Observer(store=MemoryStore(), approver=approver)
    events = await follow(Claude(), Deny("no"), observer)
    assert one(events, ApprovalDecided).decision == "denied"
    assert was_cancelled == [True]


async def test_approver_that_returns_no_decision_raises_to_the_developer() -> None:
    async def approver(_: ApprovalRequested) -> Any:
        return True

    store = MemoryStore()
    with pytest.raises(UsageError, match="the approver returned True for"):
        await follow(Claude(), observer=Observer(store=store, approver=approver))
    (info,) = await store.runs()
    events = await logged(store, info.run_id)
    check_observed(events)
    assert one(events, ApprovalDecided).decision == "withdrawn"
    assert not only(events, ToolCallCompleted)
    assert "the approver returned True" in one(events, ev.RunStopped).reason


async def test_calls_of_one_turn_are_pending_together_and_decided_one_by_one() -> None:
    numbers = range(5)
    answers: list[Payload] = []

    async def script(claude: FakeClaude) -> AsyncGenerator[Payload, None]:
        yield init()
        yield assistant(*(use({"number": number}, f"toolu_{number}") for number in numbers))
        asking = [claude.ask({"number": number}, f"toolu_{number}") for number in numbers]
        answers.extend(await asyncio.gather(*asking))
        yield run_result(result="Done.")

    store = MemoryStore()
    run = observing(FakeClaude(script), Observer(store=store))
    following = asyncio.create_task(collect(run))
    while not run.pending or len((await store.info(run.run_id)).pending) < len(numbers):
        await asyncio.sleep(0.001)
    for number in reversed(numbers):
        await store.decide(run.run_id, {f"toolu_{number}": Deny(str(number))})
    check_observed(await following)
    expected = [f"it was denied: {number}" for number in numbers]
    assert [answer["message"] for answer in answers] == expected


async def test_decision_is_logged_before_the_agent_gets_it() -> None:
    async def asking(claude: Claude) -> None:
        await claude.ask_again()
        (info,) = await store.runs()
        logs.append(await logged(store, info.run_id))

    store = MemoryStore()
    logs: list[list[Event]] = []
    await follow(Claude(asking=asking), Approve(), Observer(store=store))
    assert isinstance(logs[0][-1], ApprovalDecided)


@pytest.mark.parametrize("way", ["stop", "store", "leave"])
async def test_stop_during_a_request_denies_and_interrupts(way: str) -> None:
    claude, store = Claude(), MemoryStore()
    run = observing(claude, Observer(store=store))
    async for event in run:
        if isinstance(event, ApprovalRequested):
            if way == "leave":
                break
            await store.stop(run.run_id) if way == "store" else run.stop()
    await run.aclose()
    log = await logged(store, run.run_id)
    check_observed(log)
    assert one(log, ApprovalDecided).decision == "withdrawn"
    assert isinstance(log[-1], ev.RunStopped)
    assert claude.answers[0]["behavior"] == "deny"
    assert claude.answers[0]["interrupt"] is True


@pytest.mark.parametrize("dies", [False, True])
async def test_request_is_withdrawn_if_the_agent_withdraws_it_or_dies(dies: bool) -> None:
    was_asked = asyncio.Event()

    async def script(claude: FakeClaude) -> AsyncGenerator[Payload, None]:
        yield init()
        yield assistant(use(ARGUMENTS))
        asking = asyncio.create_task(claude.ask(ARGUMENTS))
        await was_asked.wait()
        if not dies:
            await claude.withdraw()
        asking.cancel()
        for line in [] if dies else ended("the user has typed something else", failed=True):
            yield line

    async def decide(_: Observer, __: Run, ___: ApprovalRequested) -> None:
        was_asked.set()

    events = await follow(FakeClaude(script), decide)
    assert one(events, ApprovalDecided).decision == "withdrawn"
    error = "the call was not run" if dies else "the user has typed something else"
    assert one(events, ev.ToolCallFailed).error.startswith(error)


async def test_request_after_a_stop_is_denied_at_once() -> None:
    async def asking(claude: Claude) -> None:
        await claude.was_interrupted.wait()
        await claude.ask_again()

    claude, observer = Claude(asking=asking), Observer(store=MemoryStore())
    options = ClaudeAgentOptions(can_use_tool=observer.can_use_tool)
    async with ClaudeSDKClient(options, claude) as client:
        await client.query("Go")
        run = observer.observe(client, "Go")
        events: list[Event] = []
        async for event in run:
            events.append(event)
            if isinstance(event, ev.ToolArgsCompleted):
                run.stop()
    assert only(events, ApprovalRequested) == []
    message = "the call was not run: the run was stopped"
    assert claude.answers == [{"behavior": "deny", "message": message, "interrupt": True}]


async def test_request_for_a_call_that_is_over_is_denied() -> None:
    answers: list[Payload] = []

    async def script(claude: FakeClaude) -> AsyncGenerator[Payload, None]:
        yield init()
        yield assistant(use({}))
        asking = asyncio.create_task(claude.ask({}))
        first, *rest = ended("a hook has run it")
        yield first
        answers.append(await asking)
        for line in rest:
            yield line

    assert only(await follow(FakeClaude(script)), ApprovalRequested) == []
    assert answers[0]["message"] == "the call was not run: it is over"


async def test_approver_can_close_its_run() -> None:
    async def approver(_: ApprovalRequested) -> Deny:
        await runs[0].aclose()
        return Deny("too late")

    runs: list[Run] = []
    runs.append(observing(Claude(), Observer(store=MemoryStore(), approver=approver)))
    events = await collect(runs[0])
    check_observed(events)
    assert one(events, ApprovalDecided).decision == "withdrawn"


async def test_request_that_arrives_before_its_call_waits_for_it() -> None:
    async def script(claude: FakeClaude) -> AsyncGenerator[Payload, None]:
        yield init()
        asking = asyncio.create_task(claude.ask(ARGUMENTS))
        await asyncio.sleep(0.05)
        yield assistant(use(ARGUMENTS))
        await asking
        for line in ended():
            yield line

    events = await follow(FakeClaude(script), Approve())
    assert one(events, ToolCallCompleted).result == "written"


@pytest.mark.parametrize("call_id", ["toolu_unknown", None])
async def test_request_for_an_unknown_call_is_denied(
    call_id: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("argstream.agent.observer._UNHEARD", 0.05)
    claude = Claude(call_id=call_id)
    assert only(await follow(claude, Approve()), ApprovalRequested) == []
    message = "the call was not run: no single observed run has this call"
    assert claude.answers == [{"behavior": "deny", "message": message}]


async def test_runs_with_the_same_call_id_have_separate_requests() -> None:
    observer = Observer(store=MemoryStore())
    claudes = [Claude({"path": "ada.py"}), Claude({"path": "bob.py"})]
    logs = await asyncio.gather(*(follow(claude, Approve(), observer) for claude in claudes))
    for claude, events in zip(claudes, logs, strict=True):
        assert one(events, ApprovalRequested).arguments == claude.arguments
        assert claude.answers == [{"behavior": "allow", "updatedInput": claude.arguments}]


async def test_call_with_a_duplicate_key_is_denied() -> None:
    """A viewer could show one value while the other one runs."""
    answers: list[Payload] = []

    async def script(claude: FakeClaude) -> AsyncGenerator[Payload, None]:
        yield init()
        pieces = ['{"path": "a.py", ', '"path": "/etc/passwd"}']
        deltas = [input_json(0, piece) for piece in pieces]
        for line in streamed(message_start(), tool_use(0), *deltas):
            yield line
        answers.append(await claude.ask({"path": "/etc/passwd"}))
        for line in [*streamed(*message_end()), *ended(answers[0]["message"], failed=True)]:
            yield line

    assert only(await follow(FakeClaude(script)), ApprovalRequested) == []
    message = "the call was not run: its arguments are malformed"
    assert answers[0] == {"behavior": "deny", "message": message}


@pytest.mark.parametrize(
    ("arguments", "asks", "shown"),
    [
        ({}, [], [{}]),  # before the call is closed
        ({"path": "a.py"}, [EDIT], [EDIT]),
        ({"size": float("inf")}, [], []),
        (ARGUMENTS, [ARGUMENTS, EDIT], [ARGUMENTS]),
    ],
    ids=["no arguments", "changed by a hook", "no JSON", "asked twice"],
)
async def test_only_arguments_that_were_shown_are_allowed(
    arguments: Payload, asks: list[Payload], shown: list[Payload]
) -> None:
    claude = Claude(arguments, asks)
    events = await follow(claude, Approve())
    assert [request.arguments for request in only(events, ApprovalRequested)] == shown
    allowed = [one["updatedInput"] for one in claude.answers if one["behavior"] == "allow"]
    assert (allowed, len(claude.answers)) == (shown, len(claude.asks))
