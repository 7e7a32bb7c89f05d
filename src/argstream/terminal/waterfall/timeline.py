"""When each thing of a stream could be known: its calls, their arguments, their tools.

``Timeline.note`` is told each event when it comes, or with the time at which it once came. So it
serves who watches a run, who reads a recording and who reads a log alike. A log has no
``Argument…`` events: ``argstream.argument_views`` computes them.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from argstream.deltas import FREE_TEXT_KINDS, CallKind
from argstream.events import (
    ApprovalDecided,
    ApprovalOutcome,
    ApprovalRequested,
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentStarted,
    Event,
    RunFailed,
    RunResumed,
    StreamFailed,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    TurnCompleted,
    Verdict,
)
from argstream.jsonstream import JsonPath

__all__ = ["ArgumentTimes", "CallTimes", "Moment", "Timeline", "Unit"]

Unit: TypeAlias = Literal["seconds", "bytes"]

_OfCall: TypeAlias = (
    ToolArgsDelta
    | ArgumentStarted
    | ArgumentDelta
    | ArgumentCompleted
    | ToolArgsCompleted
    | ToolArgsInvalid
    | ApprovalRequested
    | ApprovalDecided
    | ToolExecutionStarted
    | ToolCallCompleted
    | ToolCallFailed
)


class Moment(NamedTuple):
    """A place in a stream."""

    at: float = 0.0
    """Seconds since the start."""
    byte: int = 0
    """How many bytes had come."""


@dataclass
class ArgumentTimes:
    """When an argument became visible."""

    path: JsonPath
    seen: Moment
    """Its first character."""
    settled: Moment | None = None
    """Its last one; None if that never came."""


@dataclass
class CallTimes:
    """A call, and when it was how far; None where it never was."""

    call_id: str
    name: str
    kind: CallKind
    parent_id: str | None
    started: Moment
    """When the tool's name was visible."""
    last: Moment
    """When anything of its text, or its verdict, came last."""
    ended: Moment | None = None
    """When it had its verdict."""
    verdict: Verdict | None = None
    arguments: dict[JsonPath, ArgumentTimes] = field(default_factory=dict)
    asked: Moment | None = None
    decided: Moment | None = None
    decision: ApprovalOutcome | None = None
    executed: list[Moment] = field(default_factory=list)
    """Each time that its tool was started."""
    interruptions: int = 0
    """How often a crash cut its tool off: nobody knows how long that ran."""
    finished: Moment | None = None
    """When its result was there, or what is told instead of one."""

    @property
    def is_free_text(self) -> bool:
        """Whether its arguments are a text instead of JSON."""
        return self.kind in FREE_TEXT_KINDS


class Timeline:
    """What was noted.

    >>> timeline = Timeline()
    >>> timeline.note(ToolCallStarted("c1", 0, "write"), at=20.0)
    >>> timeline.note(ArgumentStarted("c1", "write", ("path",), "string"), at=20.5)
    >>> timeline.calls[0].arguments["path",].seen.at
    0.5
    """

    def __init__(
        self, *, origin: float | None = None, by: Unit = "seconds", is_deep: bool = False
    ) -> None:
        """Count from ``origin``; None is when the first event is noted.

        ``by`` says what to measure by: a stream without times is measured in bytes. Deep: also note
        what is inside of arguments.
        """
        self.by: Unit = by
        self.calls: list[CallTimes] = []
        """In the order in which they began."""
        self.stop_reasons: list[str | None] = []
        self.failures: list[str] = []
        """In words: of streams, and of a run."""
        self._origin = origin
        self._is_deep = is_deep
        self._now = Moment()
        self._calls: dict[str, CallTimes] = {}  # by id: one may come again, in another turn

    @property
    def now(self) -> Moment:
        """When the last event was noted."""
        return self._now

    def note(self, event: Event, at: float, *, byte: int = 0) -> None:
        """Note that this happens, by any clock in seconds, after so many bytes.

        Time does not go back here, though a clock may. Of a call whose beginning was not seen
        nothing is noted.
        """
        if self._origin is None:
            self._origin = at
        since = round(at - self._origin, 6)
        self._now = Moment(max(self._now.at, since), max(self._now.byte, byte))
        match event:
            case ToolCallStarted():
                self._begin(event)
            case TurnCompleted(stop_reason=reason):
                self.stop_reasons.append(reason)
            case StreamFailed(message=message) | RunFailed(message=message):
                self.failures.append(message)
            case RunResumed(cause="crash", interrupted=interrupted):
                for call_id in interrupted:
                    if call_id in self._calls:
                        self._calls[call_id].interruptions += 1
            case _ if isinstance(event, _OfCall) and event.call_id in self._calls:
                self._note_call(self._calls[event.call_id], event)
            case _:
                pass

    def _begin(self, event: ToolCallStarted) -> None:
        now = self._now
        call = CallTimes(event.call_id, event.name, event.kind, event.parent_id, now, now)
        self._calls[event.call_id] = call
        self.calls.append(call)

    def _note_call(self, call: CallTimes, event: _OfCall) -> None:
        call.name = event.name  # a few servers send it in pieces
        match event:
            case ApprovalRequested():
                call.asked = self._now
            case ApprovalDecided(decision=decision):
                call.decided, call.decision = self._now, decision
            case ToolExecutionStarted():
                call.executed.append(self._now)
            case ToolCallCompleted() | ToolCallFailed():
                call.finished = self._now
            case _:
                self._note_writing(call, event)

    def _note_writing(self, call: CallTimes, event: _OfCall) -> None:
        now = call.last = self._now
        match event:
            case ToolArgsDelta() if call.is_free_text:
                call.arguments.setdefault((), ArgumentTimes((), now))
            case ArgumentStarted(path=path) if self._is_deep or len(path) == 1:
                call.arguments.setdefault(path, ArgumentTimes(path, now))
            case ArgumentCompleted(path=path) if path in call.arguments:
                call.arguments[path].settled = now
            case ToolArgsInvalid(verdict=verdict):
                call.ended, call.verdict = now, verdict
            case ToolArgsCompleted():
                call.ended, call.verdict = now, "complete"
                if () in call.arguments:
                    call.arguments[()].settled = now
            case _:
                pass
