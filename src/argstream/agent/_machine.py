"""The loop of an agent, as a machine: what happened goes in, what to tell and to do comes out.

Pure: it reads no clock, calls no model and runs no tool. It alone decides what may follow what:

- A call runs when its arguments are complete, nobody has anything against it, and the turn has
  ended in a way that allows it (invariant 8). A call whose tool reads its text while it is written
  begins before that, and is told how it ended.
- A turn is over when its stream is, and each of its calls has a result. Then the model is given the
  results, in order, or the run ends.
- When only a person can go on, the run pauses, unless somebody is asked in place.
- What ends the run is told last, when no tool is running any more.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from argstream.adapters import StopKind
from argstream.agent._calls import CallFacts, Calls
from argstream.agent._decisions import checked_edit, undecided
from argstream.agent._effects import AskModel, CancelTool, CloseStream, Step
from argstream.agent._restoring import restore
from argstream.agent._state import LoopRules, RunState
from argstream.agent._toolbox import Toolbox
from argstream.agent._wording import (
    INTERRUPTED,
    LOST_TURN,
    NOT_RUN,
    lost_turn_note,
    max_turns_words,
)
from argstream.agent.approvals import Approval, Approve, Decisions, Grant
from argstream.errors import UsageError
from argstream.events import (
    ApprovalRequested,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStopped,
    StreamFailed,
    ToolArgsCompleted,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    TurnCompleted,
    TurnStarted,
)
from argstream.history import NOTE, Message

__all__ = ["Machine"]

Times: TypeAlias = Mapping[str, float]
"""When calls were decided on, by their ids."""

_LETS_CALLS_RUN: Final[frozenset[StopKind]] = frozenset({"finished", "paused", "too_long"})


class Machine:
    """One run. Each method takes what has happened, and gives what follows from it."""

    def __init__(
        self,
        run_id: str,
        tools: Toolbox,
        rules: LoopRules,
        grants: set[Grant] | None = None,
    ) -> None:
        self.state = RunState(run_id, set() if grants is None else grants)
        self._out = Step([], [])
        self._calls = Calls(self.state, tools, self._out, rules.approval_seconds)
        self._tools = tools
        self._rules = rules

    @property
    def is_over(self) -> bool:
        """Whether its last event was told."""
        return self.state.status not in ("running", "paused")

    @property
    def is_paused(self) -> bool:
        """Whether it waits for a person, and nobody is being asked."""
        return self.state.status == "paused"

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing happens before somebody goes on with it, or ever."""
        return self.is_over or self.is_paused

    @property
    def is_ending(self) -> bool:
        """Whether nothing more is begun: the run was stopped, or has failed."""
        return self.state.ending is not None

    @property
    def pending(self) -> tuple[ApprovalRequested, ...]:
        """What somebody must decide on."""
        asking = self.state.with_status("asking")
        return tuple(call.request for call in asking if call.request is not None)

    @property
    def final_messages(self) -> tuple[Message, ...]:
        """The conversation after the run. A refusal is not part of it: it would go on to refuse."""
        messages = self.state.messages
        if self.state.stop_kind != "refused":
            return tuple(messages)
        is_first_turn = self.state.turns == 1
        return (
            self.state.history if is_first_turn else tuple(messages[: self.state.messages_before])
        )

    # What happens

    def begin(self, prompt: str, history: Sequence[Message] = (), user: str = "") -> Step:
        """Begin with what the user says, after what was said before."""
        self.state.history, self.state.messages = tuple(history), list(history)
        self._out.events.append(RunStarted(self.state.run_id, prompt, self.state.history, user))
        self.state.say(prompt)
        self._ask_model()
        return self._step()

    def heard(self, events: Sequence[Event], facts: Callable[[str], CallFacts], now: float) -> Step:
        """Take what the model's stream says."""
        for heard in events:
            if isinstance(heard, ToolCallCompleted | ToolCallFailed) and self.state.is_ours(heard):
                continue  # only the agent has results of calls that it runs (invariant 14)
            event = _without_policy_decision(heard)
            if isinstance(event, TurnCompleted):
                event = self.state.without_forged_results(event)
            self._out.events.append(event)
            match event:
                case ToolCallStarted(parent_id=None):
                    self.state.open_call(event)
                case ToolArgsCompleted() if self.state.ending is not None:
                    self._calls.too_late(event, self._why_not())
                case ToolArgsCompleted():
                    self._calls.settled(event, facts, now)
                case ToolArgsInvalid():
                    self._calls.invalid(event)
                case ToolCallCompleted() | ToolCallFailed():
                    self._calls.ran_elsewhere(event)
                case TurnCompleted(parent_id=None):
                    self._turn_completed(event)
                case StreamFailed(code, message):
                    self._fail_turn(code, message)
                case _:
                    pass
        return self._advance()

    def stream_over(self) -> Step:
        """Take the end of the model's stream."""
        self.state.is_reading = False
        if self.state.stop_kind is None:
            self._fail_turn("truncated", "the model's answer has no end")
        self.state.ending = self.state.ending or self.state.failure
        if self.state.ending is not None:
            self._calls.call_off(self._why_not())
        return self._advance()

    def begun_early(self, call_id: str) -> Step:
        """Start a ``Streamed`` tool if fewer than ``max_parallel_calls`` tools run.

        Otherwise it starts after the turn.
        """
        if self.state.ending is None and self.state.executing < self._rules.max_parallel_calls:
            self._calls.start_early(call_id)
        return self._step()

    def returned(self, call_id: str, result: Any) -> Step:
        """Take what a tool gives."""
        self._calls.over(call_id, result, failed=False)
        return self._advance()

    def raised(self, call_id: str, error: str) -> Step:
        """Take that a tool failed."""
        self._calls.over(call_id, error, failed=True)
        return self._advance()

    def decided(self, call_id: str, decision: Approval, now: float) -> Step:
        """Take a decision; raises UsageError, and changes nothing, if it is none."""
        self._refuse_if_paused()
        self._calls.decide(undecided(self.state.calls, call_id), decision, now)
        return self._advance()

    def expired(self, call_id: str) -> Step:
        """Take that nobody has decided in time."""
        self._refuse_if_paused()
        self._calls.expire(undecided(self.state.calls, call_id))
        return self._advance()

    def check(self, decisions: Decisions) -> None:
        """Raise UsageError if one of them is none."""
        for call_id, decision in decisions.items():
            call = undecided(self.state.calls, call_id)
            checked_edit(self.state.run_id, call, decision, self._tools)

    def check_now(self, decisions: Decisions) -> None:
        """Raise UsageError if one of them is none, or the run has paused."""
        self._refuse_if_paused()
        self.check(decisions)

    def resumed(self, decisions: Decisions, now: float, times: Times | None = None) -> Step:
        """Go on after a pause, with these decisions: all of them count, or none.

        ``times`` says when they were made, if that was before.
        """
        self.check(decisions)
        self.require_tools(decisions)
        self.state.status = "running"
        self._out.events.append(RunResumed(self.state.run_id))
        self._take_up(decisions, now, times or {})
        return self._advance()

    def stopped(self, reason: str) -> Step:
        """Take that somebody wants no more of it."""
        return self._end_soon(RunStopped(reason, self.state.run_id))

    def failed(self, code: str, message: str) -> Step:
        """End the run because something that it depends on has failed."""
        return self._end_soon(self._failed(code, message))

    def _end_soon(self, ending: RunFailed | RunStopped) -> Step:
        """Start nothing more, cancel what runs, and end the run when that is over."""
        if self.is_over or self.state.ending is not None:
            return self._step()
        self.state.status, self.state.ending = "running", ending
        if self.state.is_reading:
            self._out.effects.append(CloseStream())
        self._calls.call_off(self._why_not())
        for call in self.state.with_status("running"):
            if not call.has_returned:
                self._out.effects.append(CancelTool(call.call_id, call.reading == "interrupted"))
        return self._advance()

    def crashed(self, code: str, message: str) -> Step:
        """Take that whoever drives the run cannot go on: all that is open is over."""
        if self.is_over:
            return self._step()
        return self._give_up(self._failed(code, message), message)

    # After a crash

    def restore(self, events: Iterable[Event]) -> None:
        """Take up a run where its log ends."""
        restore(self.state, events, self._tools)

    def recovered(self, decisions: Decisions, now: float, times: Times | None = None) -> Step:
        """Go on with a run that was cut off, with these decisions: all of them count, or none.

        Raises UsageError, and changes nothing, if one is none, or a tool is not here.
        """
        self.check(decisions)
        self.require_tools(decisions)
        running = self.state.with_status("running")
        note = ""
        if self.state.is_reading and running:
            note = lost_turn_note([call.name for call in running])
        interrupted = tuple(call.call_id for call in running)
        self._out.events.append(RunResumed(self.state.run_id, "crash", interrupted, note))
        if self.state.is_reading:
            self._begin_turn_again(note)
        else:
            for call in running:
                self._calls.interrupted(call)
            self._take_up(decisions, now, times or {})
        return self._advance()

    def abandoned(self, reason: str) -> Step:
        """End a run that nobody drives: it had paused, or was cut off."""
        if self.is_over:
            return self._step()
        self.state.status = "running"
        why = "the run was stopped"
        for call in self.state.with_status("running"):
            call.interruption = INTERRUPTED
        return self._give_up(RunStopped(reason, self.state.run_id), why)

    def _give_up(self, ending: RunFailed | RunStopped, why: str) -> Step:
        self.state.is_reading, self.state.ending = False, ending
        self._calls.give_up(why)
        return self._advance()

    def _begin_turn_again(self, note: str) -> None:
        self._calls.give_up(LOST_TURN)
        if note:
            self.state.say(note, NOTE)
        self._start_turn(self.state.turns, self.state.attempt + 1)

    def _take_up(self, decisions: Decisions, now: float, times: Times) -> None:
        """Take decisions; who else must be asked is asked; what may run is looked at anew."""
        for call in self.state.with_status("asking"):
            if call.call_id in decisions:
                when = times.get(call.call_id, now)
                self._calls.decide(call, decisions[call.call_id], when)
            elif self._calls.is_late(call, now):
                self._calls.expire(call)
            elif self._rules.asks_in_place:
                self._calls.ask_again(call)
        for call in self.state.with_status("ready"):
            self._calls.reconsider(call, now)

    def has_tool(self, call_id: str) -> bool:
        """Say whether a call could be run here."""
        call = self.state.calls.get(call_id)
        return call is not None and self._tools.get(call.name) is not None

    def require_tools(self, decisions: Decisions) -> None:
        """Raise UsageError if something is to run whose tool is not here."""
        waiting = self.state.with_status("ready")
        for call in self.state.with_status("asking"):
            if isinstance(decisions.get(call.call_id), Approve):
                waiting.append(call)
        missing = {call.name for call in waiting if self._tools.get(call.name) is None}
        if missing and not self.state.is_reading:
            raise UsageError(
                f"the run {self.state.run_id} waits for tools that this agent does not have: "
                f"{', '.join(sorted(missing))}. Give them to the agent to go on with it"
            )

    def _refuse_if_paused(self) -> None:
        if self.is_paused:
            raise UsageError("the run has paused: give decisions to Agent.resume")

    # A turn of the model

    def _ask_model(self) -> None:
        if self.state.turns >= self._rules.max_turns:
            self._end(self._failed("max_turns", max_turns_words(self.state.turns)))
            return
        self._start_turn(self.state.turns + 1, 1)

    def _start_turn(self, turn: int, attempt: int) -> None:
        self.state.begin_turn(turn, attempt)
        self._out.events.append(TurnStarted(turn, attempt))
        self._out.effects.append(AskModel(tuple(self.state.messages)))

    def _why_not(self) -> str:
        """Say why nothing more is run."""
        ending = self.state.ending
        return ending.message if isinstance(ending, RunFailed) else "the run was stopped"

    def _failed(self, code: str, message: str) -> RunFailed:
        return RunFailed(code, message, self.state.run_id)

    def _fail_turn(self, code: str, message: str) -> None:
        if self.state.stop_kind is None and self.state.failure is None:
            self.state.failure = self._failed(code, message)

    def _turn_completed(self, event: TurnCompleted) -> None:
        if not self.state.end_turn(event):
            return
        kind = self.state.stop_kind
        if kind is not None and kind not in _LETS_CALLS_RUN:
            self._calls.call_off(NOT_RUN[kind])
        for call in self.state.with_status("running"):
            self._calls.finish_text(call)

    def _advance(self) -> Step:
        """Start the calls that may run now. When none is left, go on with the next turn."""
        if self.state.stop_kind in _LETS_CALLS_RUN and self.state.ending is None:
            free = self._rules.max_parallel_calls - self.state.executing
            for call in self.state.with_status("ready"):
                if free <= 0:
                    break
                self._calls.start(call)
                free -= call.status == "running"  # or it was refused
        if not (self.is_over or self.state.is_reading or self.state.with_status("running")):
            self._go_on()
        return self._step()

    def _go_on(self) -> None:
        kind, reason = self.state.stop_kind, self.state.stop_reason
        if self.state.ending is not None:
            self._end(self.state.ending)
        elif self.pending:
            self._pause()
        elif kind == "stopped" or (kind == "malformed" and not self.state.calls):
            self._end(self._failed(reason or "", f"{NOT_RUN[kind]} ({reason})"))
        elif kind == "refused":
            self._complete()
        elif self.state.calls:
            self.state.add_results()
            self._ask_model()
        elif kind == "paused":
            self._ask_model()
        else:
            self._complete()

    def _pause(self) -> None:
        if not self._rules.asks_in_place:
            self.state.status = "paused"
            self._out.events.append(RunPaused(self.state.run_id, self.pending))

    def _complete(self) -> None:
        state = self.state
        self._end(RunCompleted(state.text, stop_reason=state.stop_reason, run_id=state.run_id))

    def _end(self, event: RunCompleted | RunFailed | RunStopped) -> None:
        state = self.state
        match event:
            case RunCompleted():
                state.status = "completed"
            case RunFailed():
                state.status = "failed"
            case RunStopped():
                state.status = "stopped"
        state.add_results()
        self._out.events.append(replace(event, usage=state.usage))

    def _step(self) -> Step:
        """Give what has followed so far, once."""
        step = Step(self._out.events[:], self._out.effects[:], self.is_at_rest)
        self._out.events.clear()
        self._out.effects.clear()
        return step


def _without_policy_decision(event: Event) -> Event:
    """Return the event without ``policy_decision``.

    The agent evaluates the policies again on the exact text that runs, and reports approvals in
    ``ApprovalRequested``.
    """
    if isinstance(event, ToolArgsCompleted) and event.policy_decision is not None:
        return replace(event, policy_decision=None)
    return event
