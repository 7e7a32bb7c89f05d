"""Whether a call of an observed agent may run: a person decides, from any process, once."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, query

from argstream.agent import Agent, Approve, Deny
from argstream.agent.approvals import digest_of
from argstream.agent.observer import ObservedRun, Observer
from argstream.errors import AlreadyDecided, UsageError
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunStopped,
    ToolArgsCompleted,
    ToolCallCompleted,
    ToolCallFailed,
)
from argstream.models import ScriptedModel
from argstream.runs import MemoryStore, SqliteStore
from tests.agent.following import complete, one, only
from tests.agent.observing import FakeClaude, asks_to_write, check_observed, followed, logged, wrote
from tests.claude_agent import assistant, init, run_result, streamed, use
from tests.provider_streams import Payload, input_json, message_end, message_start, tool_use

pytestmark = pytest.mark.anyio


ARGUMENTS = {"path": "a.py", "lines": [1, 2.5, {"deep": "ä"}]}
SESSION = "talk"

Decider = Callable[[Observer, ObservedRun, ApprovalRequested], Awaitable[None]]


class Claude(FakeClaude):
    """Wants to write, asks whether it may, and says what came of it.

    ``asks`` are the arguments of its questions, if they are not those that it has written.
    """

    def __init__(
        self, arguments: Payload = ARGUMENTS, asks: Sequence[Payload] = (), **fields: Any
    ) -> None:
        super().__init__(self._play_script)
        self.arguments = arguments
        self.asks = asks or [arguments]
        self.fields = fields
        self.answers: list[Payload] = []

    async def _play_script(self, _: FakeClaude) -> AsyncGenerator[Payload, None]:
        for line in asks_to_write(self.arguments):
            yield line
        for asked in self.asks:
            self.answers.append(await self.ask(asked, **self.fields))
        answer = self.answers[0]
        is_allowed = answer["behavior"] == "allow"
        for line in wrote("written" if is_allowed else answer["message"], failed=not is_allowed):
            yield line


def observing(claude: FakeClaude, observer: Observer) -> ObservedRun:
    options = ClaudeAgentOptions(can_use_tool=observer.can_use_tool)
    source = query(prompt="Go", options=options, transport=claude)
    return observer.observe(source, "Go", session_id=SESSION)


async def follow(observer: Observer, claude: FakeClaude, decide: Decider) -> list[Event]:
    """Follow a run, and have somebody decide when a question is told."""
    run = observing(claude, observer)
    told: list[Event] = []
    async for event in run:
        told.append(event)
        if isinstance(event, ApprovalRequested):
            await decide(observer, run, event)
    check_observed(told)
    assert run.pending == ()
    return told


def deciding(decision: Approve | Deny) -> Decider:
    async def decide(observer: Observer, run: ObservedRun, request: ApprovalRequested) -> None:
        await observer.store.decide(run.run_id, {request.call_id: decision})

    return decide


async def nobody(_: Observer, __: ObservedRun, ___: ApprovalRequested) -> None:
    """Let it wait."""


def decided(decision: Approve | Deny, claude: Claude) -> list[Event]:
    return complete(lambda: follow(Observer(store=MemoryStore()), claude, deciding(decision)))


# What can be decided


def test_a_call_that_was_approved_runs_with_what_was_shown() -> None:
    claude = Claude(title="Claude wants to write a.py")
    told = decided(Approve(), claude)
    request = one(told, ApprovalRequested)
    assert request.arguments == ARGUMENTS
    assert request.reason == "Claude wants to write a.py"
    assert claude.answers == [{"behavior": "allow", "updatedInput": ARGUMENTS}]
    assert one(told, ApprovalDecided).decision == "approved"
    assert one(told, ToolCallCompleted).arguments == ARGUMENTS


async def test_the_digest_is_of_run_call_tool_and_the_text_of_the_arguments() -> None:
    async def decide(_: Observer, run: ObservedRun, request: ApprovalRequested) -> None:
        assert run.pending == (request,)
        text = '{"path": "a.py", "lines": [1, 2.5, {"deep": "ä"}]}'
        assert request.digest == digest_of(run.run_id, "toolu_1", "write", text)
        with pytest.raises(UsageError, match="digest"):
            await deciding(Approve(digest="another"))(_, run, request)
        await deciding(Approve(digest=request.digest))(_, run, request)

    await follow(Observer(store=MemoryStore()), Claude(), decide)


def test_a_call_that_was_denied_does_not_run_and_the_agent_is_told_why() -> None:
    claude = Claude()
    told = decided(Deny("not today"), claude)
    assert claude.answers == [{"behavior": "deny", "message": "it was denied: not today"}]
    assert one(told, ApprovalDecided).decision == "denied"
    assert one(told, ToolCallFailed).error == "it was denied: not today"


def test_edited_arguments_are_what_runs_and_what_is_told() -> None:
    claude, edit = Claude(), {"path": "b.py"}
    told = decided(Approve(arguments=edit, reason="better"), claude)
    assert claude.answers == [{"behavior": "allow", "updatedInput": edit}]
    decision = one(told, ApprovalDecided)
    assert (decision.decision, decision.edited_arguments) == ("edited", edit)
    assert one(told, ToolCallCompleted).arguments == edit


def test_for_the_rest_of_the_session_the_agent_need_not_ask() -> None:
    claude = Claude()
    told = decided(Approve(always="session"), claude)
    assert one(told, ApprovalDecided).always == "session"
    assert claude.answers[0]["updatedPermissions"] == [
        {
            "type": "addRules",
            "destination": "session",
            "rules": [{"toolName": "write", "ruleContent": None}],
            "behavior": "allow",
        }
    ]


async def test_a_decision_that_cannot_be_used_is_taken_back() -> None:
    async def decide(observer: Observer, run: ObservedRun, request: ApprovalRequested) -> None:
        store = observer.store
        await store.decide(run.run_id, {request.call_id: Approve(always="rule")})
        while True:
            try:
                await store.decide(run.run_id, {request.call_id: Deny("no")})
            except AlreadyDecided:
                await asyncio.sleep(0.001)
            else:
                return

    told = await follow(Observer(store=MemoryStore()), Claude(), decide)
    assert one(told, ApprovalDecided).decision == "denied"


async def test_an_agent_can_say_whether_something_could_be_decided() -> None:
    async def decide(observer: Observer, run: ObservedRun, request: ApprovalRequested) -> None:
        agent = Agent(ScriptedModel("."), [], store=observer.store)
        assert (await agent.conversation(SESSION)).run_id == run.run_id
        for call_id, decision, why in (
            (request.call_id, Approve(always="rule"), "no rule"),
            (request.call_id, Approve(digest="another"), "digest"),
            (request.call_id, Approve(arguments={"path": {1}}), "no JSON"),
            (request.call_id, True, "Approve"),
            ("c9", Approve(), "nobody is asked"),
        ):
            with pytest.raises(UsageError, match=why):
                await agent.check(run.run_id, {call_id: decision})  # type: ignore[dict-item]  # one of them
        decisions = {request.call_id: Approve(digest=request.digest)}
        await agent.check(run.run_id, decisions)
        await observer.store.decide(run.run_id, decisions)
        with pytest.raises(AlreadyDecided):
            await agent.check(run.run_id, {request.call_id: Deny()})

    told = await follow(Observer(store=MemoryStore()), Claude(), decide)
    assert one(told, ApprovalDecided).decision == "approved"


# Who decides


def test_somebody_in_another_process_can_decide_and_the_first_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def decide(_: Observer, run: ObservedRun, request: ApprovalRequested) -> None:
        async with aclosing(SqliteStore(path)) as elsewhere:
            pending = (await elsewhere.info(run.run_id)).pending
            assert pending == {request.call_id: request.digest}
            await elsewhere.decide(run.run_id, {request.call_id: Deny("me first")})
            with pytest.raises(AlreadyDecided):
                await elsewhere.decide(run.run_id, {request.call_id: Approve()})

    async def main() -> list[Event]:
        async with Observer(store=path) as observer:
            return await follow(observer, Claude(), decide)

    assert one(complete(main), ApprovalDecided).reason == "me first"


@pytest.mark.parametrize("is_async", [False, True])
async def test_somebody_can_be_asked_in_place(is_async: bool) -> None:
    asked: list[ApprovalRequested] = []

    def approver(request: ApprovalRequested) -> Approve:
        asked.append(request)
        return Approve()

    async def approver_async(request: ApprovalRequested) -> Approve:
        return approver(request)

    store = MemoryStore()
    who = approver_async if is_async else approver
    told = await follow(Observer(store=store, approver=who), Claude(), nobody)
    assert asked == only(told, ApprovalRequested)
    assert one(told, ToolCallCompleted).result == "written"


async def test_who_is_quicker_than_the_one_who_is_asked_counts() -> None:
    was_withdrawn: list[bool] = []

    async def approver(_: ApprovalRequested) -> Approve:
        try:
            await asyncio.sleep(20)
        finally:
            was_withdrawn.append(True)
        return Approve()

    observer = Observer(store=MemoryStore(), approver=approver)
    assert (
        one((await follow(observer, Claude(), deciding(Deny("no")))), ApprovalDecided).decision
        == "denied"
    )
    assert was_withdrawn == [True]


async def test_calls_of_one_turn_are_asked_about_at_once_and_decided_one_by_one() -> None:
    numbers = range(5)

    async def script(claude: FakeClaude) -> AsyncGenerator[Payload, None]:
        yield init()
        yield assistant(*(use({"number": number}, f"toolu_{number}") for number in numbers))
        asking = [claude.ask({"number": number}, f"toolu_{number}") for number in numbers]
        answers.extend(await asyncio.gather(*asking))
        yield run_result(result="Done.")

    answers: list[Payload] = []
    store = MemoryStore()
    run = observing(FakeClaude(script), Observer(store=store))
    following = asyncio.create_task(followed(run))
    while len(run.pending) < len(numbers):
        await asyncio.sleep(0.001)
    for number in reversed(numbers):
        await store.decide(run.run_id, {f"toolu_{number}": Deny(str(number))})
    check_observed(await following)
    said = [f"it was denied: {number}" for number in numbers]
    assert [answer["message"] for answer in answers] == said


async def test_approver_of_an_observed_run_that_returns_no_decision_raises_to_the_developer() -> (
    None
):
    async def approver(_: ApprovalRequested) -> Any:
        return True

    store = MemoryStore()
    with pytest.raises(UsageError, match="the approver returned True for"):
        await follow(Observer(store=store, approver=approver), Claude(), nobody)
    (info,) = await store.runs()
    events = [record.event for record in await store.read(info.run_id)]
    check_observed(events)
    assert one(events, ApprovalDecided).decision == "withdrawn"
    assert not only(events, ToolCallCompleted)
    assert "the approver returned True" in one(events, RunStopped).reason


async def test_what_an_approver_says_that_cannot_be_used_denies() -> None:
    async def approver(_: ApprovalRequested) -> Approve:
        return Approve(arguments={"path": {1, 2}})

    decision = one(
        (await follow(Observer(store=MemoryStore(), approver=approver), Claude(), nobody)),
        ApprovalDecided,
    )
    assert (decision.decision, decision.reason) == (
        "denied",
        "the edited arguments are no JSON object",
    )


async def test_what_nobody_decides_in_time_is_denied() -> None:
    claude = Claude()
    observer = Observer(store=MemoryStore(), approval_timeout=0.05)
    assert one((await follow(observer, claude, nobody)), ApprovalDecided).decision == "expired"
    assert claude.answers[0]["behavior"] == "deny"


async def test_an_answer_is_in_the_log_before_it_is_given() -> None:
    logs: list[list[Event]] = []

    async def script(claude: FakeClaude) -> AsyncGenerator[Payload, None]:
        for line in asks_to_write(ARGUMENTS):
            yield line
        await claude.ask(ARGUMENTS)
        (info,) = await store.runs()
        logs.append(await logged(store, info.run_id))
        for line in wrote():
            yield line

    store = MemoryStore()
    await follow(Observer(store=store), FakeClaude(script), deciding(Approve()))
    assert isinstance(logs[0][-1], ApprovalDecided)


# When it is over


@pytest.mark.parametrize("way", ["stop", "store", "leave"])
async def test_to_stop_a_run_while_somebody_is_asked_denies_and_interrupts(way: str) -> None:
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
    assert isinstance(log[-1], RunStopped)
    assert claude.answers[0]["behavior"] == "deny"
    assert claude.answers[0]["interrupt"] is True


async def test_a_question_that_the_agent_takes_back_is_withdrawn() -> None:
    async def script(claude: FakeClaude) -> AsyncGenerator[Payload, None]:
        for line in asks_to_write(ARGUMENTS):
            yield line
        asking = asyncio.create_task(claude.ask(ARGUMENTS))
        await was_asked.wait()
        await claude.take_back()
        asking.cancel()
        for line in wrote("the user has typed something else", failed=True):
            yield line

    was_asked = asyncio.Event()

    async def decide(_: Observer, __: ObservedRun, ___: ApprovalRequested) -> None:
        was_asked.set()

    told = await follow(Observer(store=MemoryStore()), FakeClaude(script), decide)
    assert one(told, ApprovalDecided).decision == "withdrawn"


async def test_an_agent_that_dies_while_somebody_is_asked_leaves_no_question() -> None:
    async def script(claude: FakeClaude) -> AsyncGenerator[Payload, None]:
        for line in asks_to_write(ARGUMENTS):
            yield line
        asking = asyncio.create_task(claude.ask(ARGUMENTS))
        await was_asked.wait()
        asking.cancel()

    was_asked = asyncio.Event()

    async def decide(_: Observer, __: ObservedRun, ___: ApprovalRequested) -> None:
        was_asked.set()

    told = await follow(Observer(store=MemoryStore()), FakeClaude(script), decide)
    assert one(told, ApprovalDecided).decision == "withdrawn"
    assert one(told, ToolCallFailed).error.startswith("the call was not run")


async def test_what_is_asked_after_a_run_was_stopped_is_denied_at_once() -> None:
    async def script(claude: FakeClaude) -> AsyncGenerator[Payload, None]:
        for line in asks_to_write(ARGUMENTS):
            yield line
        await claude.was_interrupted.wait()
        answers.append(await claude.ask(ARGUMENTS))
        for line in wrote("interrupted", failed=True):
            yield line

    answers: list[Payload] = []
    observer = Observer(store=MemoryStore())
    options = ClaudeAgentOptions(can_use_tool=observer.can_use_tool)
    async with ClaudeSDKClient(options, FakeClaude(script)) as client:
        await client.query("Go")
        run = observer.observe(client, "Go")
        told: list[Event] = []
        async for event in run:
            told.append(event)
            if isinstance(event, ToolArgsCompleted):
                run.stop()
    assert only(told, ApprovalRequested) == []
    message = "the call was not run: the run was stopped"
    assert answers == [{"behavior": "deny", "message": message, "interrupt": True}]


async def test_a_call_that_has_its_result_while_it_is_asked_about_is_over() -> None:
    async def script(claude: FakeClaude) -> AsyncGenerator[Payload, None]:
        for line in asks_to_write({}):
            yield line
        asking = asyncio.create_task(claude.ask({}))
        first, *rest = wrote("a hook has run it")
        yield first
        answers.append(await asking)
        for line in rest:
            yield line

    answers: list[Payload] = []
    told = await follow(Observer(store=MemoryStore()), FakeClaude(script), nobody)
    assert only(told, ApprovalRequested) == []
    assert answers[0]["message"] == "the call was not run: it is over"


async def test_who_is_asked_can_close_the_run_and_does_not_wait_for_himself() -> None:
    async def approver(_: ApprovalRequested) -> Deny:
        await runs[0].aclose()
        return Deny("too late")

    runs: list[ObservedRun] = []
    runs.append(observing(Claude(), Observer(store=MemoryStore(), approver=approver)))
    told = await followed(runs[0])
    check_observed(told)
    assert one(told, ApprovalDecided).decision == "withdrawn"


# Which call it is about


def test_a_call_without_arguments_is_asked_about_although_the_stream_does_not_close_it() -> None:
    claude = Claude({})
    told = decided(Approve(), claude)
    assert one(told, ToolArgsCompleted).arguments == {}
    assert claude.answers == [{"behavior": "allow", "updatedInput": {}}]


async def test_a_question_that_overtakes_its_call_waits_for_it() -> None:
    async def script(claude: FakeClaude) -> AsyncGenerator[Payload, None]:
        yield init()
        asking = asyncio.create_task(claude.ask(ARGUMENTS))
        await asyncio.sleep(0.05)
        yield assistant(use(ARGUMENTS))
        await asking
        for line in wrote():
            yield line

    told = await follow(Observer(store=MemoryStore()), FakeClaude(script), deciding(Approve()))
    assert one(told, ToolCallCompleted).result == "written"


@pytest.mark.parametrize("call_id", ["toolu_unheard_of", None])
def test_a_call_that_nobody_was_told_of_is_denied(
    call_id: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("argstream.agent.observer._UNHEARD", 0.05)
    claude = Claude(call_id=call_id)
    told = decided(Approve(), claude)
    assert only(told, ApprovalRequested) == []
    assert claude.answers == [
        {
            "behavior": "deny",
            "message": "the call was not run: it is not clear which run makes this call",
        }
    ]


async def test_of_two_runs_at_once_whose_calls_have_one_id_each_asks_for_itself() -> None:
    observer = Observer(store=MemoryStore())
    claudes = [Claude({"path": "ada.py"}), Claude({"path": "bob.py"})]
    logs = await asyncio.gather(
        *(follow(observer, claude, deciding(Approve())) for claude in claudes)
    )
    for claude, told in zip(claudes, logs, strict=True):
        assert one(told, ApprovalRequested).arguments == claude.arguments
        assert claude.answers == [{"behavior": "allow", "updatedInput": claude.arguments}]


async def test_a_call_that_means_two_things_is_denied() -> None:
    """Who shows one of two equal keys, and runs the other, has not shown what runs."""
    pieces = ['{"path": "a.py", ', '"path": "/etc/passwd"}']

    async def script(claude: FakeClaude) -> AsyncGenerator[Payload, None]:
        yield init()
        for line in streamed(
            message_start(), tool_use(0), *(input_json(0, piece) for piece in pieces)
        ):
            yield line
        answers.append(await claude.ask({"path": "/etc/passwd"}))
        for line in [*streamed(*message_end()), *wrote(answers[0]["message"], failed=True)]:
            yield line

    answers: list[Payload] = []
    told = await follow(Observer(store=MemoryStore()), FakeClaude(script), nobody)
    assert only(told, ApprovalRequested) == []
    assert answers[0] == {
        "behavior": "deny",
        "message": "the call was not run: its arguments are malformed",
    }


def test_what_a_hook_has_changed_is_what_is_shown_and_runs() -> None:
    claude = Claude({"path": "a.py"}, [{"path": "b.py"}])
    told = decided(Approve(), claude)
    assert one(told, ApprovalRequested).arguments == {"path": "b.py"}
    assert claude.answers[0]["updatedInput"] == {"path": "b.py"}


def test_what_is_no_json_is_denied() -> None:
    claude = Claude({"size": float("inf")})
    told = decided(Approve(), claude)
    assert only(told, ApprovalRequested) == []
    assert claude.answers[0]["behavior"] == "deny"


def test_a_person_is_asked_once_about_a_call() -> None:
    claude = Claude(ARGUMENTS, [ARGUMENTS, {"path": "b"}])
    decided(Approve(), claude)
    assert [answer["behavior"] for answer in claude.answers] == ["allow", "deny"]
