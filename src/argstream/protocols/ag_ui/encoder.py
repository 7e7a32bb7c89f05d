"""A run as a stream of AG-UI events, for one request of a client.

A stream begins with RUN_STARTED and ends with RUN_FINISHED or RUN_ERROR, always. It ends where the
run is over, and where it can only go on once a person has decided: then the outcome is `interrupt`,
and the client goes on with a request of its own, in another stream of the same run.

A client that has a part of the run already, since its connection was cut, is shown its messages
anew in one MESSAGES_SNAPSHOT; to tell it all events again would double them.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from argstream.errors import UsageError
from argstream.events import (
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunSnapshot,
    RunStopped,
)
from argstream.log import Record
from argstream.protocols.ag_ui._messages import AgUiMessage, besides_messages, messages_snapshot
from argstream.protocols.ag_ui._story import Story
from argstream.protocols.ag_ui.wire import (
    AgUiEvent,
    Version,
    frames,
    interrupt,
    note,
    run_error,
    run_finished,
    run_started,
    usage_of,
)
from argstream.protocols.encoding import Parting, Written
from argstream.snapshots import RunView

__all__ = ["AgUiEncoder"]

_Rest: TypeAlias = Literal["new", "paused", "waiting", "over"]
"""Why no stream is open: nothing has happened yet; the run has paused; it is observed and waits for
a person, though parts of it may go on; it is over."""

_Ending: TypeAlias = RunCompleted | RunFailed | RunStopped
_STOPPED: Final = "the run was stopped"
_INTERVAL: Final = 0.05
_CHARACTERS_A_SECOND: Final = 4_000_000
"""The client copies and reads all that was written so far at each event: 2.5 ns a character, and
whoever shows it takes several times that. At this pace that is never all of its time."""
_SLOWEST: Final = 1.0
_WHY: Final[dict[Parting, str]] = {
    "shutdown": "the server ends, and the run goes on: ask again to go on with it",
    "behind": "too much was missed, and the run goes on: ask again to go on with it",
    "failure": "the run cannot be followed now: ask again to go on with it",
}


class AgUiEncoder:
    """Writes a run for a client of AG-UI."""

    can_catch_up: Final = False
    """A snapshot of the messages may come at any time; but nobody knows what a client that missed
    something takes for open, and it refuses a stream in which something is opened twice."""

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        version: Version = "0.0.59",
        known: Sequence[AgUiMessage] | None = None,
    ) -> None:
        """Name what the client calls the run, and the messages that it has, if it has told."""
        self._thread_id = thread_id
        self._run_id = run_id
        self._version: Version = version
        self._known = known
        self._story: Story | None = None
        self._view: RunView | None = RunView()  # while it may be an observed run
        self._rest: _Rest | None = "new"
        self._held: list[AgUiEvent] = []

    @property
    def interval(self) -> float:
        """Longer as the run grows: a client copies all of it at each event."""
        length = 0 if self._story is None else self._story.length
        return min(max(_INTERVAL, length / _CHARACTERS_A_SECOND), _SLOWEST)

    def begin(self, snapshot: Record) -> None:
        """Take where the run stands."""
        run = _run_of(snapshot)
        self._story = Story.of(run)
        self._view = None if run.turns else RunView.of(run)
        self._rest = _rest_of(run, self._story)

    def take(self, records: Sequence[Record]) -> Written:
        """Write what has happened."""
        told: list[AgUiEvent] = []
        for record in records:
            if self._story is None:
                self._story = Story(record.run_id)
            told += self._take(record.event, self._story)
        if self._rest is None and self._story is not None and _waits(self._story):
            told += [*self._story.resting(), self._interrupted(self._story)]
            self._rest = "waiting"
        return Written(frames(told), ends=bool(told) and self._rest is not None)

    def opening(self, snapshot: Record) -> Written:
        """Write all so far."""
        run = _run_of(snapshot)
        story = Story.of(run)
        told = self._all_so_far(run, story)
        if run.end is not None:
            told.append(self._final(run.end))
        elif _rest_of(run, story) is None:
            return Written(frames([*told, *story.going_on()]))
        else:
            told.append(self._interrupted(story))
        return Written(frames(told), ends=True)

    def parting(self, why: Parting) -> bytes:
        """Write that the run goes on, and how to see it."""
        return frames([run_error(why, _WHY[why])])

    def _take(self, event: Event, story: Story) -> list[AgUiEvent]:
        told = self._reopened(event, story)
        if self._view is not None:
            self._view.take(event)
        meant = story.take(event)
        if story.turns:
            self._view = None
        if self._rest == "paused":  # it is being stopped: what becomes of its calls comes first
            self._held += meant
        if self._rest is not None:
            return []
        told += meant
        match event:
            case RunPaused():
                self._rest = "paused"
                told += [*story.resting(), self._interrupted(story)]
            case RunCompleted() | RunFailed() | RunStopped():
                self._rest = "over"
                told += [*story.ending(), self._final(event)]
            case _:
                pass
        return told

    # How a stream begins and ends

    def _reopened(self, event: Event, story: Story) -> list[AgUiEvent]:
        """Begin a stream, if none is open and what happens is a reason to."""
        rest, self._rest = self._rest, None
        match rest:
            case "new":
                return [self._started(story)]
            case "paused" if isinstance(event, RunResumed | _Ending):
                held, self._held = self._held, []
                return [self._started(story), *story.going_on(), *held]
            case "waiting" if self._view is not None and (
                story.settles(event) or isinstance(event, _Ending)
            ):
                # What else has happened while this client was asked is told here.
                return [*self._all_so_far(self._view.snapshot(), story), *story.going_on()]
            case _:
                self._rest = rest
                return []

    def _started(self, story: Story) -> AgUiEvent:
        return run_started(self._thread_id, self._run_id, self._version, story.run_id)

    def _all_so_far(self, run: RunSnapshot, story: Story) -> list[AgUiEvent]:
        messages = messages_snapshot(run, story, self._known)
        return [self._started(story), *messages, *besides_messages(run, story)]

    def _interrupted(self, story: Story) -> AgUiEvent:
        interrupts = [
            interrupt(call.request, call.call_id, call.tag, self._version)
            for call in story.pending
            if call.request is not None
        ]
        if not interrupts:  # the protocol has no pause that waits for nothing
            return run_error("paused", "the run has paused, and what it waits for is not known")
        outcome = {"type": "interrupt", "interrupts": interrupts}
        return run_finished(self._thread_id, self._run_id, outcome)

    def _final(self, end: _Ending) -> AgUiEvent:
        match end:
            case RunCompleted(result=result, usage=usage):
                more = {} if result is None else {"result": result}
                more["usage"] = usage_of(usage, self._version)
                return run_finished(self._thread_id, self._run_id, {"type": "success"}, **more)
            case RunFailed(code=code, message=message):
                return run_error(code, message)
            case RunStopped(reason=reason) if self._version == "0.0.59":
                # What this client itself tells when its user ends a request.
                return run_error("abort", f"the run was stopped: {reason}" if reason else _STOPPED)
            case RunStopped(reason=reason):
                outcome = {"type": "cancelled"}
                return run_finished(
                    self._thread_id, self._run_id, outcome, **note(reason=reason or _STOPPED)
                )


def _waits(story: Story) -> bool:
    """Say whether an observed run waits for a person: those do not pause."""
    return not story.turns and bool(story.pending)


def _rest_of(run: RunSnapshot, story: Story) -> "_Rest | None":
    if run.end is not None:
        return "over"
    if run.status == "paused":
        return "paused"
    return "waiting" if _waits(story) else None


def _run_of(record: Record) -> RunSnapshot:
    if isinstance(record.event, RunSnapshot):
        return record.event
    raise UsageError(f"a stream goes on from a snapshot of its run, not from {record.event.type}")
