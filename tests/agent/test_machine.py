"""Random runs of the agent loop: the order of events holds for any model, tool and approver.

A run is played event by event, without a clock, with real payloads of each API. ``World`` does what
the driver does, and compares the steps of the loop with its own record of texts, requests and
running tools. The loop has no public name, so this test uses private modules.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from argstream import events as ev
from argstream.agent import Approval, Approve, Conversation, Deny, ToolUse, tool
from argstream.agent import _loop as loop
from argstream.agent._driver import TurnReader
from argstream.agent._loop import AgentLoop, LoopRules, Step, Toolbox
from argstream.agent.result import numbering_of
from argstream.assembly import Assembler, Call
from argstream.errors import UsageError
from argstream.events import ApprovalDecided, ApprovalRequested, Event, ToolExecutionStarted
from argstream.history import Message
from argstream.runs import Record
from tests.agent import chance
from tests.agent.following import PASSING, merged, only
from tests.agent.histories import check_history, check_told
from tests.agent.ordering import RunOrder
from tests.provider_streams import provider_failed
from tests.support import loads

FREE: Final = Toolbox(chance.TOOLS, None)
RULED: Final = Toolbox(chance.TOOLS, chance.POLICY)
Draw: TypeAlias = Callable[[Any], Any]
SECONDS = 60.0  # the approval timeout, if there is one
FAILED = re.compile(r"the call was (not run|interrupted|cancelled): (?!None)|ValueError: ")

rules = st.builds(
    LoopRules,
    max_turns=st.integers(1, 3),
    asks_in_place=st.booleans(),
    approval_seconds=st.sampled_from([None, SECONDS]),
    max_parallel_calls=st.sampled_from([1, 2, 32]),
)


@given(st.data(), st.sampled_from([FREE, RULED]), rules, st.integers(1, 2))
def test_random_run_keeps_the_order_and_a_history_that_all_apis_accept(
    data: st.DataObject, tools: Toolbox, rules: LoopRules, runs: int
) -> None:
    conversation = Conversation()
    for _ in range(runs):
        world = World(data.draw, tools, rules, conversation)
        world.play()
        conversation.messages = world.machine.final_messages


CALLED: Final = (ev.ToolCallStarted("c", 0, "now"), ev.ToolArgsCompleted("c", "now", {}))
ENDED: Final = ev.TurnCompleted("why", Message(role="assistant", parts=()), stop="tool_calls")


def begun(*tools: object, log: Sequence[Event] = ()) -> AgentLoop:
    machine = AgentLoop("run_1", Toolbox(tools, None), LoopRules())
    events = enumerate([ev.RunStarted("run_1", "Go"), ev.TurnStarted(1), *log], 1)
    machine.restore(Record(seq, 1.0, "run_1", "c", "agent", event) for seq, event in events)
    return machine


def test_call_that_is_completed_after_a_stop_does_not_run() -> None:
    machine = begun(*chance.TOOLS)
    machine.events_received(CALLED[:1])
    machine.stopped("enough")
    _, failed = machine.events_received(CALLED[1:]).events
    assert failed == ev.ToolCallFailed("c", "now", "the call was not run: the run was stopped")


@pytest.mark.parametrize(
    ("stop", "calls", "end"),
    [
        ("error", CALLED, ("run_failed", "why")),
        ("malformed", (), ("run_failed", "why")),
        ("malformed", CALLED, ("turn_started", None)),
        ("content_filter", CALLED, ("run_completed", None)),
    ],
)
def test_stop_reason_decides_what_follows(stop: ev.StopKind, calls: Any, end: object) -> None:
    machine = begun(*chance.TOOLS)
    machine.events_received([*calls, structs.replace(ENDED, stop=stop)])
    last = machine.stream_ended().events[-1]
    assert (last.type, getattr(last, "code", None)) == end


def test_ready_call_is_checked_against_the_tools_of_the_process_that_resumes() -> None:
    with pytest.raises(UsageError, match="does not have: now"):
        begun(log=[*CALLED, ENDED]).resumed({})
    changed = begun(tool(name="now")(chance.halve), log=[*CALLED, ENDED])
    assert "number" in only(changed.resumed({}).events, ev.ToolCallFailed)[0].error


def test_edit_of_another_type_is_refused_and_a_denial_needs_no_reason() -> None:
    machine = begun(tool(requires_confirmation=True, name="now")(chance.halve))
    completed = ev.ToolArgsCompleted("c", "now", {"number": 4}, text='{"number": 4}')
    machine.events_received([CALLED[0], completed])
    with pytest.raises(UsageError, match="not valid"):
        machine.check({"c": Approve(arguments={"number": "4"})})
    failed = machine.decided("c", Deny(), 1.0).events[-1]
    assert failed == ev.ToolCallFailed("c", "now", "the call was not run: it was denied")


class World:
    def __init__(self, draw: Draw, tools: Toolbox, rules: LoopRules, talk: Conversation) -> None:
        self._clock = 1000.0
        self.draw = draw
        self.tools = tools
        self.rules = rules
        self._history = talk.messages
        self.order = RunOrder(chance.STREAMED, chance.IDEMPOTENT, chance.READ_ONLY)
        self.machine = AgentLoop("run_1", tools, rules, talk.grants, self._now)
        self._grants = frozenset(talk.grants)  # of the runs before
        self._crashes_left = draw(st.integers(0, 2))
        self._granted = {(grant.scope, grant.name) for grant in talk.grants}
        self._need_not_ask: set[str] = set()  # calls
        self._always: dict[str, Any] = {}  # grants for more than one call
        self._numbering = numbering_of(talk.messages)
        self._stream: Stream | None = None
        self._turns = 10 * len(talk.messages)  # no turn of an earlier run has this number
        self._running: dict[str, bool] = {}  # whether it was cancelled
        self._calls: dict[str, Call] = {}
        self._edited: dict[str, Any] = {}
        self._requests: dict[str, ApprovalRequested] = {}
        self._texts: dict[str, list[bool]] = {}  # of Streamed tools: whether each end was regular
        self._of_turn: list[str] = []
        self._refused: list[ev.TurnCompleted] = []
        self._is_stopped = False
        self._is_hasty = draw(st.integers(0, 2)) == 0  # it is stopped sooner or later
        self._actions_left = 100  # then it is stopped: some actions could be repeated for ever

    def _now(self) -> float:
        return self._clock

    def play(self) -> None:
        self._take(self.machine.begin("Go", self._history))
        while not self.machine.is_over:
            actions = self._actions()
            assert actions, "a run that is not over has a next action"
            self.draw(st.sampled_from(actions))()
            self._actions_left -= 1
        self._check_end()

    def _actions(self) -> list[Callable[[], None]]:
        if self._actions_left <= 0 and not self._is_stopped:
            return [self._stop]
        if self.machine.is_paused:
            self._check_idle()
            if self._crashes_left and self.draw(st.integers(0, 3)) == 0:
                return [self._crash]
            often = [self._resume] * 4 + [self._wait] * (2 * self._may_expire)
            return [*often, self._resume_wrongly, self._decide_wrongly, self._stop]
        actions: list[Callable[[], None]] = []
        if self._stream is not None:
            actions += [self._listen] * (3 if self._stream.is_left else 6)
            actions += [self._hang_up] * self._stream.is_left
        actions += [self._end_tool] * (3 * bool(self._running))
        if self.order.pending:
            actions += [self._decide] * 3
        if not actions:
            return []
        if self._actions_left > 0:
            actions += [self._decide_wrongly] + [self._wait] * self._may_expire
        actions += [self._crash] * bool(self._crashes_left)
        return actions + [self._stop] * (2 * self._is_hasty)

    @property
    def _may_expire(self) -> bool:
        return self.rules.approval_seconds is not None and bool(self.order.pending)

    def _listen(self) -> None:
        stream = self._stream
        for _ in range(self.draw(st.sampled_from([1, 2, 5, 1000]))):
            if stream is None or self._stream is not stream:
                return
            event = stream.next_event()
            if event is None:
                self._hang_up()
            elif type(event) in PASSING:
                self.machine.apply_deltas([event])
                self._tell(event)
                early = stream.listening.grow(event) if stream.listening.texts else None
                if early is not None and not self._is_stopped:
                    self._begin_early(early.call)
            else:
                stream.listening.note(event, stream.assembler.calls)
                self._hear([event], stream)

    def _hear(self, events: Sequence[Event], stream: "Stream") -> None:
        for call in stream.assembler.calls:
            self._calls[call.id] = call
        self._take(self.machine.events_received(events))

    def _hang_up(self) -> None:
        stream = self._stream
        assert stream is not None
        self._numbering = stream.assembler.numbering
        self._stream = None
        self._take(self.machine.stream_ended(failure=stream.listening.failure))

    def _begin_early(self, call: Call) -> None:
        has_room = len(self._running) < self.rules.max_parallel_calls
        step = self.machine.start_early(call.id)
        if not has_room:
            assert step == Step([], [])
            return
        assert [type(event) for event in step.events] == [ToolExecutionStarted]
        assert call.name == "note", "a call that needs approval does not start early"
        self._running[call.id] = False
        self._texts[call.id] = []
        self._take(step)

    def _end_tool(self) -> None:
        call_id = self.draw(st.sampled_from(list(self._running)))
        was_cancelled = self._running.pop(call_id)
        if was_cancelled or self.draw(st.integers(0, 3)) == 0:
            self._take(self.machine.tool_returned(call_id, "ValueError: it failed", failed=True))
        else:
            self._take(self.machine.tool_returned(call_id, {"of": call_id}, failed=False))

    def _decide(self) -> None:
        call_id = self.draw(st.sampled_from(self.order.pending))
        decision, outcome = self._decision(call_id)
        if outcome is None:
            self._refuses(lambda: self.machine.decided(call_id, decision, self._clock))
        else:
            self._expect(self.machine.decided(call_id, decision, self._clock), {call_id: outcome})

    def _decision(self, call_id: str, when: float | None = None) -> tuple[Any, str | None]:
        """Draw a decision and its expected outcome; None if it must be refused."""
        request = self._requests[call_id]
        decision, outcome = self.draw(st.sampled_from(possible_decisions(request)))
        if outcome is not None and self._is_late(request, when):
            return decision, "expired"
        if outcome == "edited":
            self._edited[call_id] = decision.arguments
        if outcome is not None and isinstance(decision, Approve):
            self._always[call_id] = decision.always
        return decision, outcome

    def _is_late(self, request: ApprovalRequested, when: float | None = None) -> bool:
        return request.expires_at is not None and (when or self._clock) >= request.expires_at

    def _decide_wrongly(self) -> None:
        decided = [call_id for call_id in self._calls if call_id not in self.order.pending]
        call_id = self.draw(st.sampled_from([*decided, "no_such_call"]))
        decision = self.draw(st.sampled_from([Approve(), Deny()]))
        self._refuses(lambda: self.machine.decided(call_id, decision, self._clock))
        with pytest.raises(
            UsageError, match=f"Pending: {', '.join(map(repr, self.order.pending)) or 'none'}$"
        ):
            self.machine.check({"no_such_call": Deny()})

    def _resume(self) -> None:
        chosen = self.draw(st.lists(st.sampled_from(self.order.pending), unique=True))
        decisions: dict[str, Approval] = {}
        expected: dict[str, str | None] = {}
        when: float = self.draw(st.sampled_from([1000.0, self._clock]))  # in time, perhaps long ago
        for call_id in chosen:
            decisions[call_id], expected[call_id] = self._decision(call_id, when)
        if None in expected.values():
            for call_id in chosen:
                self._edited.pop(call_id, None)
            self._refuses(lambda: self.machine.resumed(decisions))
            return
        for call_id in self.order.pending:
            if call_id not in chosen and self._is_late(self._requests[call_id]):
                expected[call_id] = "expired"
        self._expect(self.machine.resumed(decisions, dict.fromkeys(chosen, when)), expected)

    def _resume_wrongly(self) -> None:
        wrong: dict[str, Approval] = {call_id: Approve() for call_id in self.order.pending}
        wrong["no_such_call"] = Deny()
        self._refuses(lambda: self.machine.resumed(wrong))

    def _wait(self) -> None:
        self._clock += self.draw(st.sampled_from([SECONDS, SECONDS, 1.0]))

    def _stop(self) -> None:
        was_stopped, self._is_stopped = self._is_stopped, True
        step = self.machine.stopped("enough")
        assert not was_stopped or step == Step([], []), "the second stop changes nothing"
        self._take(step)

    def _crash(self) -> None:
        self._crashes_left -= 1
        lost, was_reading = self.machine, self._stream is not None
        self.machine = AgentLoop("run_1", self.tools, self.rules, set(self._grants), self._now)
        self.machine.restore(self._log())
        check_restored(self.machine, lost)
        self._granted = {(one.scope, one.name) for one in self._grants}  # not those of this run
        self._stream = None
        self._running.clear()
        self._numbering = self.machine.numbering
        if self.machine.is_paused:
            return
        if was_reading and self.machine.is_reading:
            self._of_turn = []
        if self._is_stopped:  # the stop is in the log
            self._take(self.machine.abandoned("enough"))
            return
        step = self.machine.resumed({})
        late = [one for one in self.order.pending if self._is_late(self._requests[one])]
        decided = [event.decision for event in only(step.events, ApprovalDecided)]
        is_cut = any(event.attempt > 1 for event in only(step.events, ev.TurnStarted))
        assert decided.count("expired") == (0 if is_cut else len(late))
        (resumed,) = only(step.events, ev.RunResumed)
        interrupted = [call_id for call_id, call in self.order.calls.items() if call.is_running]
        assert list(resumed.interrupted) == interrupted
        names = {self.order.calls[call_id].name for call_id in interrupted}
        assert bool(resumed.note) == (is_cut and bool(names - {*chance.READ_ONLY}))
        self._take(step, is_recovery=True)

    def _log(self) -> list[Record]:
        """Return the log. The last deltas may be lost."""
        events = list(self.order.events)
        while type(events[-1]) in PASSING and self.draw(st.booleans()):
            events.pop()
        kept = [ev.from_json(ev.to_json(event)) for event in merged(events)]
        return [Record(seq, 1.0, "run_1", "c", "agent", event) for seq, event in enumerate(kept, 1)]

    def _refuses(self, act: Callable[[], Step]) -> None:
        before = self.machine.state.snapshot(), list(self.machine.messages)
        with pytest.raises(UsageError):
            act()
        assert (self.machine.state.snapshot(), self.machine.messages) == before
        assert self.machine.pending == tuple(map(self._requests.get, self.order.pending))

    def _expect(self, step: Step, outcomes: Mapping[str, str | None]) -> None:
        decided = only(step.events, ApprovalDecided)
        assert {event.call_id: event.decision for event in decided} == outcomes
        for event in decided:
            edited = self._edited.get(event.call_id) if event.decision == "edited" else None
            assert event.edited_arguments == edited
            if event.decision in ("approved", "edited"):
                assert event.always == self._always[event.call_id]
                rule = self._requests[event.call_id].rule
                if event.always != "call":
                    name = event.name if event.always == "conversation" else rule or ""
                    self._granted.add((event.always, name))
        self._take(step)

    def _tell(self, event: Event) -> None:
        self.order.take(event)
        match event:
            case ApprovalRequested(call_id=call_id):
                self._requests[call_id] = event
                assert event.arguments == self._calls[call_id].arguments
                late = None if self.rules.approval_seconds is None else self._clock + SECONDS
                assert event.expires_at == late
            case ev.ToolArgsCompleted(call_id=call_id, name=name):
                by_rule = name == "shell" and ("rule", "commands") in self._granted
                if by_rule or ("conversation", name) in self._granted:
                    self._need_not_ask.add(call_id)
            case ev.ToolCallFailed(call_id=call_id, error=error):
                assert not self.order.calls[call_id].is_ours or FAILED.match(error)
            case ev.TurnCompleted(stop_reason="refusal"):
                self._refused.append(event)
            case _:
                pass

    def _take(self, step: Step, *, is_recovery: bool = False) -> None:
        before = set(self.order.calls)
        for event in step.events:
            self._tell(event)
        self._of_turn += [call_id for call_id in self.order.calls if call_id not in before]
        started = only(step.events, ToolExecutionStarted)
        executed = [effect for effect in step.effects if isinstance(effect, loop.Execute)]
        for execute, event in zip(executed, started, strict=True):  # each start is executed
            assert (execute.call_id, execute.name) == (event.call_id, event.name)
            assert (execute.text is None) == (event.call_id in self._texts)
            assert execute.idempotency_key == event.idempotency_key
        assert len({event.idempotency_key for event in started}) == len(started)
        assert not (started and self._is_stopped), "no tool starts after a stop"
        asked = only(step.events, ApprovalRequested)
        if is_recovery and self.rules.asks_in_place:
            asked = [self._requests[call_id] for call_id in self.order.pending]
        effects = [effect for effect in step.effects if isinstance(effect, loop.AskPerson)]
        assert effects == [loop.AskPerson(event) for event in asked]
        assert not (asked and self._is_stopped), "no approval is requested after a stop"
        for effect in step.effects:
            self._do(effect)

    def _do(self, effect: Any) -> None:
        match effect:
            case loop.AskModel(messages):
                self._check_turn()
                self._check_idle()
                assert not self.order.pending
                assert not self._is_stopped
                check_history(messages, self.tools.offered)
                self._turns += 1
                turn = self.draw(chance.turns(self._turns))
                self._stream = Stream(turn, self.tools, self._assembler(turn))
            case loop.Execute(call_id, _, str(text)):
                assert call_id not in self._running
                self._running[call_id] = False
                assert len(self._running) <= self.rules.max_parallel_calls
                self._check_text(call_id, text)
            case loop.EndText(call_id, interruption):
                assert all(self._texts[call_id]), "a text is interrupted once"
                assert interruption is None or interruption.verdict in get_args(ev.InvalidVerdict)
                self._texts[call_id].append(interruption is None)
            case loop.CancelTool(call_id, undoes):
                assert self._is_stopped
                assert [not undoes] == self._texts.get(call_id, [True]), "its text has ended"
                self._running[call_id] = True
            case loop.CloseStream():
                assert self._stream is not None
                assert not self._stream.is_left
                self._stream.is_left = True
            case _:
                pass

    def _check_idle(self) -> None:
        assert self._stream is None, "no stream is open"
        assert not self._running

    def _assembler(self, turn: chance.Turn) -> Assembler:
        return Assembler(turn.protocol, check=self.tools.check, after=self._numbering)

    def _check_text(self, call_id: str, text: str) -> None:
        """Check that the model's text runs, or the edited one (invariant 12)."""
        call = self._calls[call_id]
        if self.order.calls[call_id].decision == "edited":
            assert loads(text) == self._edited[call_id]
        else:
            assert loads(text) == call.arguments
            assert text == call.raw or call.reinterpreted is not None or not call.raw.strip()

    def _check_turn(self) -> None:
        for call_id in self._of_turn:
            order, call = self.order.calls[call_id], self._calls[call_id]
            if not order.is_ours:
                continue
            fate = chance.fate_of(call.name, call.raw, has_policy=self.tools.policy is not None)
            if fate == "never":
                assert order.outcome == "failed"
                assert not order.is_started or call_id in self._texts
            elif order.verdict == "complete":
                must_ask = fate == "asks" and call_id not in self._need_not_ask
                assert order.is_asked == must_ask
                assert order.is_started or must_ask or not order.may_run
        self._of_turn = []

    def _check_end(self) -> None:
        self.order.finish()
        self._check_idle()
        first, last = self.order.events[0], self.order.events[-1]
        assert isinstance(first, ev.RunStarted)
        assert getattr(last, "run_id", "") == "run_1"
        if self._is_stopped:  # or it failed before, while its tools still ran
            assert isinstance(last, ev.RunStopped | ev.RunFailed)
        if isinstance(last, ev.RunCompleted):
            self._check_turn()
        messages = self.machine.final_messages
        if messages:
            check_history(messages, self.tools.offered, is_over=True)
        check_told(messages[len(first.history) :], self.order.events)
        kept = [message.id for message in messages]
        assert not [one for one in self._refused if one.message.id in kept], "refusals are not kept"
        for call_id, ends in self._texts.items():
            is_completed = self.order.calls[call_id].outcome == "completed"
            assert not is_completed or ends == [True], "its text ended regularly"
        uses = [ToolUse.of(call) for call in self.machine.state.calls.values()]
        assert [use.call_id for use in uses] == list(self.order.calls)
        for use in uses:
            order = self.order.calls[use.call_id]
            assert use.verdict == order.verdict
            for completed in only(order.events[-1:], ev.ToolCallCompleted):
                # The event has the arguments for models: others than complete ones are wrapped.
                written = completed.arguments if order.verdict == "complete" else None
                assert (use.tool_args, use.result) == (written, completed.result)
                assert use.error is None
            for failed in only(order.events[-1:], ev.ToolCallFailed):
                assert (use.result, use.error) == (None, failed.error)


class Stream:
    def __init__(self, turn: chance.Turn, tools: Toolbox, assembler: Assembler) -> None:
        self.assembler = assembler
        self.listening = TurnReader(tools)
        self.is_left = False  # the loop does not want the rest
        self._turn = turn
        self._payloads = iter(turn.payloads)
        self._events: list[Event] = []
        self._has_ended = False

    def next_event(self) -> Event | None:
        while not self._events:
            if self._has_ended:
                return None
            payload = next(self._payloads, None)
            if payload is not None:
                self._events += self.assembler.feed(payload)
            elif self._turn.raises:
                self._events += self.assembler.abort("truncated", "the source failed")
                self.listening.failure = provider_failed("overloaded", "Too much")
            else:
                self._events += self.assembler.close()
            self._has_ended = payload is None or self.assembler.stopped
        return self._events.pop(0)


_EDITS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "send": ({"to": "bob"}, {"to": 5}),
    "shell": ({"command": "pwd"}, {"command": "rm x"}),
    "letter": ({"text": "Dear Bob"}, {"text": "Dear", "signed": True}),
}
"""Edited arguments of each tool: valid ones, and invalid ones."""


def possible_decisions(request: ApprovalRequested) -> list[tuple[Any, str | None]]:
    """Return decisions with their outcomes; None if the decision is refused."""
    good, bad = _EDITS[request.name]
    return [
        (Approve(), "approved"),
        (Approve(digest=request.digest, reason="fine"), "approved"),
        (Approve(always="conversation"), "approved"),
        (Approve(always="rule"), "approved" if request.rule is not None else None),
        (Approve(arguments=good), "edited"),
        (Approve(arguments=good, always="conversation"), "edited"),
        (Approve(arguments=bad), None),
        (Approve(arguments={"to": object()}), None),
        (Approve(digest="of something else"), None),
        (Deny("not now"), "denied"),
        ("yes", None),
    ]


def check_restored(restored: AgentLoop, lost: AgentLoop) -> None:
    check_equal(restored, lost, "messages", "usage", "stop_kind", "is_over", "is_paused")
    check_equal(restored.state, lost.state, "history", "status", "turns", "stop_reason")
    assert restored.grants <= lost.grants
    assert list(restored.state.calls) == list(lost.state.calls)
    for call_id, call in restored.state.calls.items():
        assert ToolUse.of(call) == ToolUse.of(lost.state.calls[call_id])
    assert list(restored.calls) == list(lost.calls)
    for call_id, own in restored.calls.items():
        other = lost.calls[call_id]
        check_equal(own, other, "name", "status", "request", "edited_text")
        if other.call.verdict == "complete":
            check_equal(own, other, "text", "asked_text")
        if other.status == "done":
            assert own.result_part() == other.result_part()


def check_equal(restored: object, lost: object, *names: str) -> None:
    for name in names:
        assert getattr(restored, name) == getattr(lost, name), name
