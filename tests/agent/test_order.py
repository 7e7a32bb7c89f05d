"""The order of design §3 in real runs: by chance, and where it was once broken."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argstream.agent import Agent, AgentRun, Approval, Approve, Conversation, Deny, Streamed, tool
from argstream.clients import CallTool, ModelRequest, Reply, Say, ScriptedModel, Think
from argstream.errors import ProviderFailure, TextInterrupted, UsageError
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunCompleted,
    RunPaused,
    RunStopped,
    TextDelta,
    ToolArgsDelta,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    TurnCompleted,
)
from tests.agent.following import complete, events_of, follow, one, only, stopped_at
from tests.agent.histories import check_history, check_told, results_of
from tests.agent.ordering import check_order
from tests.providers import (
    Payload,
    block_delta,
    block_start,
    block_stop,
    input_json,
    message_end,
    message_start,
    sse,
    tool_use,
)

# By chance


class Worker:
    """Tools that return, wait and fail, and count."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def write(self, path: str) -> str:
        self.ran.append("write")
        return f"wrote {path}"

    async def wait(self) -> None:
        self.ran.append("wait")
        await asyncio.sleep(0)

    async def fail(self) -> None:
        self.ran.append("fail")
        raise OSError("no space left")

    @tool(requires_confirmation=True)
    async def send(self, to: str) -> str:
        self.ran.append("send")
        return f"sent to {to}"

    @tool
    async def note(self, title: str, text: Streamed[str]) -> int:
        self.ran.append("note")
        return len(title + await text.read())

    @property
    def tools(self) -> list[object]:
        return [self.write, self.wait, self.fail, self.send, self.note]


STREAMED = ("note",)

calls = st.sampled_from(
    [
        CallTool("write", {"path": "a.txt"}),
        CallTool("write", {"path": 1}),
        CallTool("write", '{"path": a}'),
        CallTool("wait"),
        CallTool("fail"),
        CallTool("send", {"to": "ada"}),
        CallTool("send", {"to": "bob"}, call_id="again"),
        CallTool("note", {"title": "t", "text": "one two three"}),
        CallTool("note", '{"title": "t", "text": "one \\x'),
        CallTool("unheard_of"),
    ]
)
said = st.sampled_from([Say("I look."), Think("Hm.")])
replies = st.builds(
    lambda parts, stop: Reply(*parts, stop=stop),
    st.lists(st.one_of(calls, calls, said), max_size=4),
    st.sampled_from([None, None, None, "max_tokens", "refusal", "pause_turn"]),
)
scripts = st.lists(replies, min_size=1, max_size=3)
decisions = st.sampled_from(
    [None, Approve(), Approve(always="session"), Approve(arguments={"to": "eve"}), Deny("no")]
)


class Played:
    """A run that is followed to its end, whatever is decided on the way."""

    def __init__(self, data: st.DataObject, script: list[Reply], approver: Any) -> None:
        self.worker = Worker()
        self.model = ScriptedModel(*script, "Done.", repeat=True)
        self.agent = Agent(self.model, self.worker.tools, max_turns=4, approver=approver)
        self.conversation = Conversation()
        self.events: list[Event] = []
        self._draw = data.draw
        self._stop_at = data.draw(st.sampled_from([None, None, 1, 4, 9, 20]))

    def begin(self) -> AgentRun:
        return self.agent.run_stream("Go", self.conversation)

    def see(self, run: AgentRun, event: Event) -> None:
        self.events.append(event)
        if len(self.events) == self._stop_at and not isinstance(event, RunPaused):
            run.stop("enough")

    def next(self, run: AgentRun) -> AgentRun | None:
        """Resume, if it has paused: with some decisions, and at last with all."""
        paused = self.events[-1]
        if not isinstance(paused, RunPaused):
            return None
        drawn = {request.call_id: self._draw(decisions) for request in paused.pending}
        chosen = {call_id: one for call_id, one in drawn.items() if one is not None}
        return self.agent.resume(
            run, chosen or {request.call_id: Deny() for request in paused.pending}
        )

    def check(self) -> None:
        order = check_order(self.events, streamed=STREAMED)
        started = [
            order.calls[event.call_id].name for event in only(self.events, ToolExecutionStarted)
        ]
        assert set(self.worker.ran) <= set(started)
        if not isinstance(self.events[-1], RunStopped):  # it may have been before a tool began
            # One that reads its text is not called any more if that has been interrupted.
            ran, begun = (
                sorted(name for name in names if name not in STREAMED)
                for names in (self.worker.ran, started)
            )
            assert ran == begun
        messages = self.conversation.messages
        for request in self.model.requests:
            check_history(request.messages, request.tools)
        if messages:
            check_history(messages, self.agent._setting.tools.offered, is_over=True)
        check_told(messages, self.events)


def deciding(data: st.DataObject) -> Callable[[ApprovalRequested], Any] | None:
    """Somebody who is asked in place, or nobody."""
    if data.draw(st.booleans()):
        return None
    answer = data.draw(decisions.filter(lambda one: one is not None))
    return lambda _: answer


@settings(max_examples=60)
@given(st.data(), scripts)
def test_a_run_in_an_event_loop_keeps_the_order(data: st.DataObject, script: list[Reply]) -> None:
    played = Played(data, script, deciding(data))

    async def follow_all() -> None:
        run: AgentRun | None = played.begin()
        while run is not None:
            async for event in run:
                played.see(run, event)
            run = played.next(run)

    complete(follow_all)
    played.check()


@settings(max_examples=15)
@given(st.data(), scripts)
def test_a_run_without_an_event_loop_keeps_the_order(
    data: st.DataObject, script: list[Reply]
) -> None:
    played = Played(data, script, deciding(data))
    run: AgentRun | None = played.begin()
    while run is not None:
        for event in run:
            played.see(run, event)
        run = played.next(run)
    played.check()


# A model that gives much at once, as one chunk of a network does


def write(path: str) -> str:
    return path


@tool(requires_confirmation=True)
def send(path: str) -> str:
    return path


def at_once(*turns: list[Payload]) -> Callable[[ModelRequest], AsyncIterator[bytes]]:
    """A model whose answers come in one piece each."""
    rest = iter(turns)

    async def model(request: ModelRequest) -> AsyncIterator[bytes]:  # noqa: ARG001 - a script
        yield sse(next(rest))

    return model


def words(count: int) -> list[Payload]:
    deltas = [block_delta(0, "text_delta", text="x")] * count
    return [block_start(0, "text", text=""), *deltas, block_stop(0)]


def calling(index: int, name: str, *pieces: str) -> list[Payload]:
    deltas = [input_json(index, piece) for piece in pieces]
    return [tool_use(index, name, f"toolu_{index}"), *deltas, block_stop(index)]


def test_what_is_read_after_a_stop_is_not_run_nor_asked_about_and_history_says_so() -> None:
    turn = [
        message_start(),
        *words(400),
        *calling(1, "write", '{"path": "a"}'),
        *calling(2, "send", '{"path": "a"}'),
        *message_end(),
    ]
    conversation = Conversation()
    run = Agent(at_once(turn), [write, send]).run_stream("Go", conversation)
    events = stopped_at(run, TextDelta)
    check_order(events)
    assert not only(events, ApprovalRequested)
    assert not only(events, ToolExecutionStarted)
    assert isinstance(events[-1], RunStopped)
    check_told(conversation.messages, events)
    results = [part for message in conversation.messages for part in results_of(message)]
    assert all(result.failed for result in results)


def test_a_streamed_tool_does_not_begin_after_a_stop() -> None:
    begun: list[str] = []

    async def note(text: Streamed[str]) -> None:
        begun.append(await text.read())

    call = calling(1, "note", '{"text": "', *["x"] * 20, '"}')
    turn = [message_start(), *words(400), *call, *message_end()]
    events = stopped_at(Agent(at_once(turn), [note]).run_stream("Go"), TextDelta)
    check_order(events, streamed=STREAMED)
    assert not only(events, ToolExecutionStarted)
    assert begun == []


def test_a_message_after_the_end_of_the_turn_runs_nothing() -> None:
    """Its own end may be one that forbids it, or never come (invariant 8)."""
    ran: list[str] = []

    def write(path: str) -> None:
        ran.append(path)

    first = [message_start(), *calling(1, "write", '{"path": "a"}'), *message_end()]
    second = [message_start("msg_2"), *calling(2, "write", '{"path": "b"}')]
    last = [message_start("msg_3"), *words(1), *message_end("end_turn")]
    events = events_of(Agent(at_once([*first, *second, *message_end("refusal")], last), [write]))
    assert ran == ["a"]
    check_order(events)


# Streamed tools


def test_a_streamed_tool_that_returns_before_a_stop_has_its_end_after_its_verdict() -> None:
    async def note(text: Streamed[str]) -> str:  # noqa: ARG001 - it does not want to know
        return "seen enough"

    async def stopping() -> list[Event]:
        model = ScriptedModel(CallTool("note", {"text": "x" * 400}), delay=0.002)
        run = Agent(model, [note]).run_stream("Go")
        events: list[Event] = []
        async for event in run:
            events.append(event)
            has_begun = bool(only(events, ToolExecutionStarted))
            if has_begun and isinstance(event, ToolArgsDelta) and event.delta == "xxxx":
                run.stop("enough")
        return events

    events = complete(stopping)
    check_order(events, streamed=STREAMED)
    assert only(events, ToolCallFailed)


def test_a_streamed_tool_whose_turn_fails_without_a_word_has_failed() -> None:
    async def note(text: Streamed[str]) -> str:  # noqa: ARG001 - it does not want to know
        return "seen enough"

    async def model(request: ModelRequest) -> AsyncIterator[Payload]:  # noqa: ARG001 - a script
        for payload in [message_start(), *calling(1, "note", '{"text": "', "x", '"}')]:
            yield payload
            await asyncio.sleep(0.01)  # it can begin, and return
        raise ProviderFailure("overloaded", "")

    events = events_of(Agent(model, [note]))
    check_order(events, streamed=STREAMED)
    assert only(events, ToolCallFailed)


def test_a_streamed_tool_that_works_on_after_its_text_is_cancelled_by_a_stop() -> None:
    was_cancelled: list[bool] = []

    async def note(text: Streamed[str]) -> None:
        await text.read()
        try:
            await asyncio.sleep(3)
        except (asyncio.CancelledError, TextInterrupted):
            was_cancelled.append(True)
            raise

    async def stopping() -> list[Event]:
        run = Agent(ScriptedModel(CallTool("note", {"text": "x" * 40}), delay=0.001), [note])
        events: list[Event] = []
        async for event in (followed := run.run_stream("Go")):
            events.append(event)
            if isinstance(event, TurnCompleted):
                await asyncio.sleep(0.05)  # it has read its text
                followed.stop("enough")
        return events

    events = complete(stopping)
    check_order(events, streamed=STREAMED)
    assert was_cancelled == [True]


# Decisions at unexpected moments


def test_who_decides_while_an_approver_is_asked_is_heard_first() -> None:
    async def approve(request: ApprovalRequested) -> Approval:
        await asyncio.sleep(0.02)
        return Deny(f"too late for {request.name}")

    async def wait() -> None:
        await asyncio.sleep(0.05)

    async def deciding() -> list[Event]:
        model = ScriptedModel(Reply(CallTool("send", {"path": "a"}), CallTool("wait")), "Sent.")
        run = Agent(model, [send, wait], approver=approve).run_stream("Go")
        events: list[Event] = []
        async for event in run:
            events.append(event)
            if isinstance(event, ApprovalRequested):
                run.decide(event.call_id, Approve())
        return events

    events = complete(deciding)
    check_order(events)
    assert one(events, ApprovalDecided).decision == "approved"
    assert one(events, RunCompleted).result == "Sent."


def test_a_run_that_has_paused_is_decided_on_by_resume() -> None:
    async def deciding() -> None:
        agent = Agent(ScriptedModel(CallTool("send", {"path": "a"}), "Sent."), [send])
        run = agent.run_stream("Go")
        events: list[Event] = []
        async for event in run:
            events.append(event)
            if isinstance(event, RunPaused):
                with pytest.raises(UsageError, match="resume"):
                    run.decide(event.pending[0].call_id, Approve())
        check_order(events, paused=True)
        call_id = one(events, ToolCallStarted).call_id
        resumed = agent.resume(run, {call_id: Approve()})
        events += [event async for event in resumed]
        check_order(events)
        assert one(events, RunCompleted).result == "Sent."

    complete(deciding)


def test_a_paused_run_that_is_never_resumed_changes_no_history() -> None:
    conversation = Conversation()
    agent = Agent(ScriptedModel(CallTool("send", {"path": "a"})), [send])
    events = follow(agent.run_stream("Go", conversation))
    check_order(events, paused=True)
    assert conversation.messages == ()
