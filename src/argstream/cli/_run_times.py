"""When what happened in a run: its turns, its calls, its breaks; in seconds since it began."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from argstream.argument_views import ArgumentViews
from argstream.events import (
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunSnapshot,
    RunStopped,
    SeenCall,
    TurnCompleted,
    TurnStarted,
)
from argstream.log import Record
from argstream.snapshots import RunView
from argstream.terminal.waterfall import CallTimes, Timeline

__all__ = ["Break", "RunTimes", "TurnTimes", "times_of"]


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
    timeline: Timeline
    turns: list[TurnTimes]
    breaks: list[Break]

    @property
    def calls(self) -> list[tuple[SeenCall, CallTimes]]:
        """What became of each call, and when."""
        seen = [block for block in self.run.blocks if isinstance(block, SeenCall)]
        return list(zip(seen, self.timeline.calls, strict=True))

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.timeline.now.at


def times_of(records: Iterable[Record]) -> RunTimes:
    """Read the records of a run, and note when what came."""
    return _Reading().read(records)


class _Reading:
    def __init__(self) -> None:
        self._view = RunView()
        self._arguments = ArgumentViews()
        self._timeline = Timeline()
        self._turns: list[TurnTimes] = []
        self._breaks: list[Break] = []

    def read(self, records: Iterable[Record]) -> RunTimes:
        for record in records:
            self._view.take(record.event)
            before = self._timeline.now.at
            for event in self._arguments.take(record.event):
                self._timeline.note(event, record.time)
            self._note(record.event, before)
        return RunTimes(self._view.snapshot(), self._timeline, self._turns, self._breaks)

    def _note(self, event: Event, before: float) -> None:
        """Note what an event says of the run; before it nothing had come since then."""
        match event:
            case TurnStarted(turn, attempt):
                self._turns.append(TurnTimes(turn, attempt, self._now))
            case TurnCompleted(parent_id=None):
                self._end_turn(event)
            case RunPaused(pending=pending):
                calls = tuple(request.call_id for request in pending)
                self._breaks.append(Break("pause", self._now, None, calls))
            case RunResumed(cause="crash", interrupted=interrupted):
                self._breaks.append(Break("crash", before, self._now, interrupted))
            case RunResumed() | RunCompleted() | RunStopped() | RunFailed():
                self._end_break()
            case _:
                pass

    @property
    def _now(self) -> float:
        return self._timeline.now.at

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
