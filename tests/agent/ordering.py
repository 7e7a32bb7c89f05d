"""The order of events in a run, as design §3 has it: an oracle that shares nothing with the loop.

It is told one event after the other, and fails at the first that may not come where it comes.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentStarted,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStopped,
    StreamFailed,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolOutputDelta,
    TurnCompleted,
    TurnStarted,
)

OF_ONE_CALL: Final = (
    ToolArgsDelta,
    ArgumentStarted,
    ArgumentDelta,
    ArgumentCompleted,
    ToolArgsCompleted,
    ToolArgsInvalid,
    ApprovalRequested,
    ApprovalDecided,
    ToolExecutionStarted,
    ToolOutputDelta,
    ToolCallCompleted,
    ToolCallFailed,
)
RUN_BY_THE_PROVIDER: Final = ("server", "mcp", "code")
LETS_CALLS_RUN: Final = {
    # it had finished, or paused
    *("end_turn", "tool_use", "stop_sequence", "pause_turn", "complete", "completed", "eos"),
    *("eos_token", "function_call", "requires_action", "stop", "tool_call", "tool_calls"),
    # there was no room for more: what was closed before may run
    *("max_tokens", "model_context_window_exceeded", "length", "max_output_tokens", "max_length"),
    *("max_new_tokens", "model_length", "context_length_exceeded", "budget_exceeded"),
    *("incomplete", "error_limit"),
}
"""Why a turn can end whose calls may run; after any other end, or none, nothing may."""


@dataclass
class CallOrder:
    """What has been told of one call."""

    name: str
    is_ours: bool
    is_early: bool
    """Whether its tool may begin before its arguments are whole."""
    verdict: str = ""
    is_asked: bool = False
    decision: str = ""
    is_started: bool = False
    may_run_again: bool = False
    """Whether a crash has interrupted it, and its tool can stand that it is run again."""
    attempts: int = 0
    outcome: str = ""
    may_run: bool = False
    """Whether the turn that it is of has ended so that its calls may run."""
    told: list[Event] = field(default_factory=list)

    @property
    def is_running(self) -> bool:
        return self.is_started and not self.outcome

    @property
    def is_pending(self) -> bool:
        return self.is_asked and not self.decision

    def take(self, event: Event) -> None:
        self.told.append(event)
        assert not self.outcome, "nothing follows the end of a call"
        match event:
            case ToolArgsDelta() | ArgumentStarted() | ArgumentDelta() | ArgumentCompleted():
                assert not self.verdict, "arguments do not grow after their verdict"
            case ToolArgsCompleted():
                assert not self.verdict, "a call has one verdict"
                self.verdict = "complete"
            case ToolArgsInvalid(verdict=verdict):
                assert not self.verdict, "a call has one verdict"
                self.verdict = verdict
            case ApprovalRequested():
                assert self.is_ours
                assert self.verdict == "complete", "only whole arguments are shown to a person"
                assert not self.is_asked, "a person is asked once"
                assert not self.is_started
                self.is_asked = True
            case ApprovalDecided(decision=decision):
                assert self.is_asked, "nobody was asked"
                assert not self.decision, "it is decided once"
                self.decision = decision
            case ToolExecutionStarted(attempt=attempt):
                self.attempts += 1
                assert attempt == self.attempts
                self._start()
            case ToolOutputDelta():
                assert self.is_running, "only a tool that runs says something"
            case ToolCallCompleted():
                if self.is_ours:
                    assert self.verdict == "complete", "what is not whole has no result"
                    assert self.is_started, "what did not run has no result"
                self.outcome = "completed"
            case ToolCallFailed():
                assert self.verdict, "the arguments have a verdict before the call has an end"
                assert not self.is_pending, "the question is taken back before the call ends"
                self.outcome = "failed"
            case _:
                raise AssertionError(f"{event} is not about a call")

    def _start(self) -> None:
        assert self.is_ours, "the provider runs it"
        assert not self.is_started or self.may_run_again, "nothing runs twice"
        self.is_started, self.may_run_again = True, False
        if self.is_early and not self.verdict:
            assert not self.is_asked, "a Streamed tool does not begin before a confirmation"
            return
        assert self.verdict == "complete", "only what is complete runs"
        assert self.may_run, "a call runs when its turn has ended and lets it (invariant 8)"
        if self.is_asked:
            assert self.decision in ("approved", "edited"), "only what was approved runs"


class RunOrder:
    """What has been told of a run, and of its calls."""

    def __init__(self, streamed: Collection[str] = (), idempotent: Collection[str] = ()) -> None:
        """Name the tools with a ``Streamed`` text: these may begin before it has ended.

        And those that may run again after a crash.
        """
        self._idempotent = idempotent
        self._attempt = (0, 0)  # the turn that was begun last, and how often that was
        self._was_cut = False
        self.calls: dict[str, CallOrder] = {}
        self.events: list[Event] = []
        self._streamed = streamed
        self._turn: list[CallOrder] = []  # calls of the turn that is being written
        self._turn_has_ended = False  # what the same response says after that never runs
        self._has_failed = False  # this turn: what was lost may be a part of any call
        self._is_paused = False
        self._end: Event | None = None

    @property
    def is_over(self) -> bool:
        return self._end is not None

    @property
    def pending(self) -> list[str]:
        return [call_id for call_id, call in self.calls.items() if call.is_pending]

    @property
    def running(self) -> list[str]:
        return [call_id for call_id, call in self.calls.items() if call.is_running]

    def take(self, event: Event) -> None:
        """Take the next event."""
        assert self._end is None, f"{event} comes after {self._end}, which is the last"
        assert isinstance(event, RunStarted) == (not self.events), "RunStarted is the first"
        self.events.append(event)
        match event:
            case ToolCallStarted(parent_id=None):
                self._open(event)
            case RunPaused(pending=pending):
                self._pause([request.call_id for request in pending])
            case RunResumed(cause="pause"):
                assert self._is_paused, "only what has paused is resumed"
                self._is_paused = False
            case RunResumed(interrupted=interrupted):
                assert not self._is_paused
                assert list(interrupted) == self.running
                self._crash()
            case TurnStarted(turn=turn, attempt=attempt):
                self._begin_turn(turn, attempt)
            case StreamFailed():
                self._has_failed = True
            case TurnCompleted(parent_id=None):
                self._end_turn(event)
            case RunCompleted() | RunFailed() | RunStopped():
                self._end_run(event)
            case _ if isinstance(event, OF_ONE_CALL):
                call = self.calls.get(event.call_id)
                assert call is not None, f"{event} is about a call that has not started"
                call.take(event)
            case _:
                pass

    def _crash(self) -> None:
        self._was_cut = True
        for call_id in self.running:
            call = self.calls[call_id]
            call.may_run_again = call.may_run and call.name in self._idempotent

    def _begin_turn(self, turn: int, attempt: int) -> None:
        before, attempts = self._attempt
        if attempt == 1:
            assert turn == before + 1, "turns are counted"
            assert not self._turn, "the turn before has ended"
        else:
            assert self._was_cut, "only what was cut off begins again"
            assert (turn, attempt) == (before, attempts + 1)
        self._attempt = (turn, attempt)
        self._was_cut = self._has_failed = self._turn_has_ended = False
        self._turn = []
        for call in self.calls.values():
            assert call.verdict
            assert call.outcome or not call.is_ours, "all calls end before the next turn"

    def _open(self, event: ToolCallStarted) -> None:
        assert event.call_id not in self.calls, "each call has its own id, and starts once"
        is_ours = event.kind not in RUN_BY_THE_PROVIDER
        call = CallOrder(event.name, is_ours, event.name in self._streamed)
        self.calls[event.call_id] = call
        if not self._turn_has_ended:
            self._turn.append(call)

    def _end_turn(self, event: TurnCompleted) -> None:
        assert all(call.verdict for call in self._turn), "every call of a turn has its verdict"
        lets_run = (event.stop_reason or "").lower() in LETS_CALLS_RUN
        was_left = event.characters_read is not None  # by us, because one of its calls was refused
        for call in self._turn:
            call.may_run = not self._has_failed and (lets_run or was_left)
        self._turn, self._turn_has_ended = [], True

    def _pause(self, pending: list[str]) -> None:
        assert not self._is_paused
        assert pending, "there is something to decide on"
        assert pending == self.pending, "it says what is pending: all of it, in order"
        assert not self.running, "nothing more can happen without a person"
        assert not self._turn, "nothing is being written"
        self._is_paused = True

    def _end_run(self, event: Event) -> None:
        self._end = event
        assert not self.pending, "what is asked is decided, or taken back"
        for call in self.calls.values():
            assert call.verdict, f"{call} has no verdict (invariant 10)"
            assert call.outcome or not call.is_ours, f"{call} has no end"

    def finish(self, *, paused: bool = False) -> None:
        """Take that no more events come."""
        assert self.is_over or paused, "a run ends with exactly one terminal event"
        assert self._is_paused or not paused


def check_order(
    events: Iterable[Event],
    *,
    streamed: Collection[str] = (),
    idempotent: Collection[str] = (),
    paused: bool = False,
) -> RunOrder:
    """Check all events of a run that is over, or has paused."""
    order = RunOrder(streamed, idempotent)
    for event in events:
        order.take(event)
    order.finish(paused=paused)
    return order
