"""The order of events in a run: an oracle that shares no code with the agent loop.

It receives one event after the other and fails at the first that is out of order.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from argstream import events as ev
from argstream.events import Event

OF_ONE_CALL: Final = (
    *(ev.ToolArgsDelta, ev.ArgumentStarted, ev.ArgumentDelta, ev.ArgumentCompleted),
    *(ev.ToolArgsCompleted, ev.ToolArgsInvalid, ev.ApprovalRequested, ev.ApprovalDecided),
    *(ev.ToolExecutionStarted, ev.ToolOutputDelta, ev.ToolCallCompleted, ev.ToolCallFailed),
)
RUN_BY_THE_PROVIDER: Final = ("server", "mcp", "code")
LETS_CALLS_RUN: Final = {
    # finished, or paused
    *("end_turn", "tool_use", "stop_sequence", "pause_turn", "complete", "completed", "eos"),
    *("eos_token", "function_call", "requires_action", "stop", "tool_call", "tool_calls"),
    # no room for more: calls that were closed before may run
    *("max_tokens", "model_context_window_exceeded", "length", "max_output_tokens", "max_length"),
    *("max_new_tokens", "model_length", "context_length_exceeded", "budget_exceeded"),
    *("incomplete", "error_limit"),
}
"""Stop reasons after which calls may run. After any other, or none, nothing may."""


@dataclass
class CallOrder:
    name: str
    is_ours: bool
    is_early: bool  # its tool may start before its arguments are complete
    is_read_only: bool = False  # its tool may start before its turn ends
    verdict: str = ""
    is_asked: bool = False
    decision: str = ""
    is_started: bool = False
    may_run_again: bool = False  # a crash interrupted it, and its tool is idempotent
    attempts: int = 0
    outcome: str = ""
    may_run: bool = False  # its turn ended with a stop reason that lets calls run
    events: list[Event] = field(default_factory=list)

    @property
    def is_running(self) -> bool:
        return self.is_started and not self.outcome

    @property
    def is_pending(self) -> bool:
        return self.is_asked and not self.decision

    def take(self, event: Event) -> None:
        self.events.append(event)
        assert not self.outcome, "no event follows the end of a call"
        match event:
            case (
                ev.ToolArgsDelta()
                | ev.ArgumentStarted()
                | ev.ArgumentDelta()
                | ev.ArgumentCompleted()
            ):
                assert not self.verdict, "arguments do not grow after their verdict"
            case ev.ToolArgsCompleted():
                assert not self.verdict, "a call has one verdict"
                self.verdict = "complete"
            case ev.ToolArgsInvalid(verdict=verdict):
                assert not self.verdict, "a call has one verdict"
                self.verdict = verdict
            case ev.ApprovalRequested():
                assert self.is_ours
                assert self.verdict == "complete", "only complete arguments need an approval"
                assert not self.is_asked, "a call has one approval request"
                assert not self.is_started
                self.is_asked = True
            case ev.ApprovalDecided(decision=decision):
                assert self.is_asked, "there is no approval request"
                assert not self.decision, "a call has one decision"
                self.decision = decision
            case ev.ToolExecutionStarted(attempt=attempt):
                self.attempts += 1
                assert attempt == self.attempts
                self._start()
            case ev.ToolOutputDelta():
                assert self.is_running, "only a running tool has output"
            case ev.ToolCallCompleted():
                if self.is_ours:
                    assert self.verdict == "complete", "only complete calls have a result"
                    assert self.is_started, "only calls that ran have a result"
                self.outcome = "completed"
            case ev.ToolCallFailed():
                assert self.verdict, "the verdict comes before the end of the call"
                assert not self.is_pending, "the request is withdrawn before the call ends"
                self.outcome = "failed"
            case _:
                raise AssertionError(f"{event} is not about a call")

    def _start(self) -> None:
        assert self.is_ours, "the provider runs it"
        assert not self.is_started or self.may_run_again, "no call runs twice"
        self.is_started, self.may_run_again = True, False
        if self.is_early and not self.verdict:
            assert not self.is_asked, "a Streamed tool waits for its approval"
            return
        assert self.verdict == "complete", "only complete calls run"
        is_allowed = self.may_run or (self.is_read_only and not self.is_asked)
        assert is_allowed, "a call runs after a turn that allows it (invariant 8)"
        if self.is_asked:
            assert self.decision in ("approved", "edited"), "only approved calls run"


class RunOrder:
    def __init__(
        self,
        streamed: Collection[str] = (),
        idempotent: Collection[str] = (),
        read_only: Collection[str] = (),
    ) -> None:
        """Name the tools with a ``Streamed`` text, those that may run again, and early ones."""
        self._idempotent = idempotent
        self._read_only = read_only
        self._attempt = (0, 0)  # the number of the newest turn, and its attempts
        self._was_cut = False
        self.calls: dict[str, CallOrder] = {}
        self.events: list[Event] = []
        self._streamed = streamed
        self._turn: list[CallOrder] = []  # calls of the current turn
        self._turn_has_ended = False  # later calls of the same response never run
        self._has_failed = False  # the stream of this turn
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
        assert self._end is None, f"{event} comes after {self._end}, the end of the run"
        assert isinstance(event, ev.RunStarted) == (not self.events), "RunStarted is the first"
        self.events.append(event)
        match event:
            case ev.ToolCallStarted(parent_id=None):
                self._open(event)
            case ev.RunPaused(pending=pending):
                self._pause([request.call_id for request in pending])
            case ev.RunResumed(cause="pause"):
                assert self._is_paused, "only a paused run is resumed"
                self._is_paused = False
            case ev.RunResumed(interrupted=interrupted):
                assert not self._is_paused
                assert list(interrupted) == self.running
                self._crash()
            case ev.TurnStarted(turn=turn, attempt=attempt):
                self._begin_turn(turn, attempt)
            case ev.StreamFailed():
                self._has_failed = True
            case ev.TurnCompleted(parent_id=None):
                self._end_turn(event)
            case ev.RunCompleted() | ev.RunFailed() | ev.RunStopped():
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
            assert turn == before + 1, "turns are numbered"
            assert not self._turn, "the turn before has ended"
        else:
            assert self._was_cut, "only a turn that was cut off begins again"
            assert (turn, attempt) == (before, attempts + 1)
        self._attempt = (turn, attempt)
        self._was_cut = self._has_failed = self._turn_has_ended = False
        self._turn = []
        for call in self.calls.values():
            assert call.verdict
            assert call.outcome or not call.is_ours, "all calls end before the next turn"

    def _open(self, event: ev.ToolCallStarted) -> None:
        assert event.call_id not in self.calls, "each call has its own id, and starts once"
        is_ours = event.kind not in RUN_BY_THE_PROVIDER
        name = event.name
        call = CallOrder(name, is_ours, name in self._streamed, name in self._read_only)
        self.calls[event.call_id] = call
        if not self._turn_has_ended:
            self._turn.append(call)

    def _end_turn(self, event: ev.TurnCompleted) -> None:
        assert all(call.verdict for call in self._turn), "every call of a turn has its verdict"
        lets_run = (event.stop_reason or "").lower() in LETS_CALLS_RUN
        was_left = (
            event.characters_read is not None
        )  # the agent stopped reading: a call was rejected
        for call in self._turn:
            call.may_run = not self._has_failed and (lets_run or was_left)
        self._turn, self._turn_has_ended = [], True

    def _pause(self, pending: list[str]) -> None:
        assert not self._is_paused
        assert pending, "a paused run has pending calls"
        assert pending == self.pending, "it names all pending calls, in order"
        assert not self.running, "no tool runs while the run is paused"
        assert not self._turn, "no turn is open"
        self._is_paused = True

    def _end_run(self, event: Event) -> None:
        self._end = event
        assert not self.pending, "each request is decided or withdrawn"
        for call in self.calls.values():
            assert call.verdict, f"{call} has no verdict (invariant 10)"
            assert call.outcome or not call.is_ours, f"{call} has no end"

    def finish(self, *, paused: bool = False) -> None:
        assert self.is_over or paused, "a run ends with exactly one terminal event"
        assert self._is_paused or not paused


def check_order(
    events: Iterable[Event],
    *,
    streamed: Collection[str] = (),
    idempotent: Collection[str] = (),
    paused: bool = False,
) -> RunOrder:
    order = RunOrder(streamed, idempotent)
    for event in events:
        order.take(event)
    order.finish(paused=paused)
    return order
