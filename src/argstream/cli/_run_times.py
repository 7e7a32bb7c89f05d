"""When what happened in a run: its turns, its calls, its breaks; in seconds since it began."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunSnapshot,
    RunStopped,
    SeenCall,
    StreamFailed,
    ToolArgsCompleted,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolExecutionStarted,
    TurnCompleted,
    TurnStarted,
)
from argstream.log import Record
from argstream.snapshots import RunView

__all__ = ["Break", "CallMoments", "RunTimes", "TurnTimes", "times_of"]


@dataclass
class TurnTimes:
    """A turn of the model."""

    turn: int
    attempt: int
    started: float
    ended: float | None = None
    """None if it was cut off, or goes on."""
    end: TurnCompleted | None = None


@dataclass
class CallMoments:
    """When a call was so far; None if it never was."""

    visible: float
    written: float | None = None
    """When it had its verdict."""
    asked: float | None = None
    decided: float | None = None
    started: list[float] = field(default_factory=list)
    """Each time that its tool was."""
    ended: float | None = None


@dataclass
class Break:
    """A time in which nothing went on."""

    cause: Literal["pause", "crash"]
    began: float
    ended: float | None
    """None while it lasts."""
    calls: tuple[str, ...]
    """The ids of those that waited for a decision, or were cut off."""


@dataclass
class RunTimes:
    """All of it."""

    run: RunSnapshot
    calls: list[tuple[SeenCall, CallMoments]]
    turns: list[TurnTimes]
    breaks: list[Break]
    failures: list[str]
    """In words: of streams, and of the run."""
    seconds: float


def times_of(records: Iterable[Record]) -> RunTimes:
    """Read the records of a run, and note when what came."""
    return _Reading().read(records)


class _Reading:
    def __init__(self) -> None:
        self._view = RunView()
        self._now = self._before = 0.0  # of this record, and of the one before
        self._turns: list[TurnTimes] = []
        self._moments: list[CallMoments] = []
        self._calls: dict[str, CallMoments] = {}  # by id: after a crash, one may come again
        self._breaks: list[Break] = []
        self._failures: list[str] = []

    def read(self, records: Iterable[Record]) -> RunTimes:
        first: float | None = None
        for record in records:
            first = record.time if first is None else first
            self._before, self._now = self._now, round(record.time - first, 6)
            self._view.take(record.event)
            self._note(record.event)
        run = self._view.snapshot()
        seen = [block for block in run.blocks if isinstance(block, SeenCall)]
        calls = list(zip(seen, self._moments, strict=True))
        return RunTimes(run, calls, self._turns, self._breaks, self._failures, self._now)

    def _note(self, event: Event) -> None:
        match event:
            case ToolCallStarted(call_id):
                self._calls[call_id] = CallMoments(self._now)
                self._moments.append(self._calls[call_id])
            case TurnStarted(turn, attempt):
                self._turns.append(TurnTimes(turn, attempt, self._now))
            case TurnCompleted(parent_id=None):
                self._end_turn(event)
            case RunPaused(pending=pending):
                calls = tuple(request.call_id for request in pending)
                self._breaks.append(Break("pause", self._now, None, calls))
            case RunResumed(cause="crash", interrupted=interrupted):
                self._breaks.append(Break("crash", self._before, self._now, interrupted))
            case RunResumed() | RunCompleted() | RunStopped():
                self._end_break()
            case RunFailed(_, message):
                self._end_break()
                self._failures.append(message)
            case StreamFailed(_, message):
                self._failures.append(message)
            case _:
                self._note_call(event)

    def _note_call(self, event: Event) -> None:
        if (call := self._calls.get(getattr(event, "call_id", ""))) is None:
            return
        match event:
            case ToolArgsCompleted() | ToolArgsInvalid():
                call.written = self._now
            case ApprovalRequested():
                call.asked = self._now
            case ApprovalDecided():
                call.decided = self._now
            case ToolExecutionStarted():
                call.started.append(self._now)
            case ToolCallCompleted() | ToolCallFailed():
                call.ended = self._now
            case _:
                pass

    def _end_turn(self, event: TurnCompleted) -> None:
        last = self._turns[-1] if self._turns else None
        if last is None or last.ended is not None:  # of agents that do not say when one begins
            began = 0.0 if last is None or last.ended is None else last.ended
            last = TurnTimes(len(self._turns) + 1, 1, began)
            self._turns.append(last)
        last.end, last.ended = event, self._now

    def _end_break(self) -> None:
        if self._breaks and self._breaks[-1].ended is None:
            self._breaks[-1].ended = self._now
