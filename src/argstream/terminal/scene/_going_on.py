"""What is known of a run as a whole: whether anything is to come, and what it has cost."""

from typing import NamedTuple

from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunSnapshot,
    RunStarted,
    RunStopped,
    StreamFailed,
    ToolCallCompleted,
    ToolCallFailed,
    TurnCompleted,
    TurnStarted,
    Usage,
)
from argstream.sanitise import visible_line
from argstream.terminal.scene._runs import RunFacts, said_in

__all__ = ["GoingOn", "Waiting"]


class Waiting(NamedTuple):
    """What is waited for: the model, or a person."""

    what: str
    since: float
    is_person: bool = False


class GoingOn:
    """Follows a run."""

    def __init__(self) -> None:
        self.heard = 0.0
        """When something last came."""
        self.is_run = False
        """Whether more may come although a turn is over."""
        self._usage = Usage()
        self._said = ""  # by the model, in its last turn
        self._failure: tuple[str, str] | None = None
        self._began: float | None = None
        self._is_on = False  # more is to come
        self._asked: dict[str, tuple[str, float]] = {}  # what is to be decided, and since when

    @property
    def waiting(self) -> Waiting | None:
        """What is waited for, if nothing else goes on."""
        if self._asked:
            names, times = zip(*self._asked.values(), strict=True)
            first = names if len(names) <= 4 else names[:3]
            more = f" and {len(names) - 3} more" if len(names) > 4 else ""
            told = ", ".join(first) + more
            return Waiting(f"waiting for a decision on {told}", times[0], is_person=True)
        return Waiting("waiting for the model", self.heard) if self._is_on else None

    def facts(self, now: float) -> RunFacts:
        """Give what is known of the run."""
        took = None if self._began is None else now - self._began
        return RunFacts(self._usage, self._said, self._failure, took)

    def note(self, event: Event, now: float, began: float | None) -> None:
        """Follow an event that is told now; what began by it did so then, if that is known."""
        self.heard = now
        self._is_on = True
        match event:
            case RunStarted():
                self._began = began
                self.is_run = True
            case TurnStarted():
                self._failure = None
            case TurnCompleted(usage=usage, parent_id=parent_id):
                self._usage += usage
                if parent_id is None:
                    self._said = said_in(event.message)
                    self._is_on = self.is_run
            case ApprovalRequested(call_id=call_id, name=name):
                self._asked[call_id] = (visible_line(name), now)
            case ApprovalDecided() | ToolCallCompleted() | ToolCallFailed():
                self._asked.pop(event.call_id, None)
            case StreamFailed(code=code, message=message):
                self._failure = (code, message)
                self._is_on = self.is_run
            case RunPaused():
                self._is_on = False
            case RunCompleted() | RunFailed() | RunStopped():
                self.end()
            case _:
                pass

    def join(self, snapshot: RunSnapshot) -> None:
        """Forget what was before a snapshot, of which the events are told next."""
        self._usage = snapshot.usage
        self._said = ""
        self._failure = None
        self._asked.clear()

    def end(self) -> None:
        """Nothing more comes."""
        self.is_run = self._is_on = False
        self._asked.clear()
