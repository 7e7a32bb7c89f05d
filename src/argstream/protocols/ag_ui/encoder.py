"""A run as a stream of AG-UI events, for one request of a client.

A stream begins with RUN_STARTED and ends with RUN_FINISHED or RUN_ERROR, always. It ends where the
run is over, and where it can only go on once a person has decided: then the outcome is `interrupt`,
and the client goes on with a request of its own, in another stream of the same run.

A client that has a part of the run already, since its connection was cut, is shown its messages
anew in one MESSAGES_SNAPSHOT; to tell it all events again would double them.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from argstream.events import (
    Event,
    RunCompleted,
    RunEnd,
    RunFailed,
    RunPaused,
    RunResumed,
    RunSnapshot,
    RunStopped,
)
from argstream.log import Record
from argstream.protocols.ag_ui._messages import besides_messages, messages_snapshot
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
from argstream.protocols.encoding import (
    PARTING_WORDS,
    Parting,
    Written,
    interval_for,
    snapshot_in,
)
from argstream.snapshot_events import is_waiting
from argstream.snapshots import RunView

__all__ = ["AgUiEncoder"]

_Rest: TypeAlias = Literal["new", "paused", "waiting", "over"]
"""Why no stream is open: nothing has happened yet; the run has paused; it is observed and waits for
a person, though parts of it may go on; it is over."""

_STOPPED: Final = "the run was stopped"
_CHARACTERS_PER_SECOND: Final = 4_000_000
"""The client copies and reads all that was written so far at each event: 2.5 ns a character, and
whoever shows it takes several times that. At this pace that is never all of its time."""


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
        known: bytes | None = None,
    ) -> None:
        """Name what the client calls the run, and the messages that it has, if it has told.

        These are a JSON array, which is kept only until it is told back: streams may be many, and
        last long.
        """
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
        return interval_for(length, _CHARACTERS_PER_SECOND)

    def begin(self, snapshot: Record) -> None:
        """Take where the run stands."""
        run = snapshot_in(snapshot)
        self._story = Story.of(run)
        self._view = None if run.turns else RunView.of(run)
        self._rest = _rest_of(run)

    def take(self, records: Sequence[Record]) -> Written:
        """Write what has happened."""
        told: list[AgUiEvent] = []
        for record in records:
            if self._story is None:
                self._story = Story(record.run_id)
            told += self._take(record.event, self._story)
        story = self._story
        if self._rest is None and story is not None and not story.turns and story.pending:
            # It is only observed: such runs do not pause, and yet wait for a person.
            told += [*story.resting(), self._interrupted(story)]
            self._rest = "waiting"
        return Written(frames(told), ends=bool(told) and self._rest is not None)

    def opening(self, snapshot: Record) -> Written:
        """Write all so far."""
        run = snapshot_in(snapshot)
        story = Story.of(run)
        told = self._all_so_far(run, story)
        if run.end is not None:
            told.append(self._final(run.end))
        elif _rest_of(run) is None:
            return Written(frames([*told, *story.going_on()]))
        else:
            told.append(self._interrupted(story))
        return Written(frames(told), ends=True)

    def parting(self, why: Parting) -> bytes:
        """Write that the run goes on, and how to see it."""
        return frames([run_error(why, f"{PARTING_WORDS[why]}; ask again to go on with the run")])

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
        is_over = isinstance(event, RunEnd)
        if self._rest == "new":
            told = [self._started(story)]
        elif self._rest == "paused" and (is_over or isinstance(event, RunResumed)):
            told = [self._started(story), *story.going_on(), *self._held]
            self._held, self._known = [], None
        elif self._rest == "waiting" and self._view and (is_over or story.settles(event)):
            # What else has happened while this client was asked is told here.
            told = [*self._all_so_far(self._view.snapshot(), story), *story.going_on()]
        else:
            return []
        self._rest = None
        return told

    def _started(self, story: Story) -> AgUiEvent:
        return run_started(self._thread_id, self._run_id, self._version, story.run_id)

    def _all_so_far(self, run: RunSnapshot, story: Story) -> list[AgUiEvent]:
        messages = messages_snapshot(run, story, self._known)
        self._known = None
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

    def _final(self, end: RunEnd) -> AgUiEvent:
        match end:
            case RunCompleted(result=result, usage=usage):
                more = {} if result is None else {"result": result}
                if counts := usage_of(usage, self._version):
                    more["usage"] = [counts]
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


def _rest_of(run: RunSnapshot) -> "_Rest | None":
    if run.end is not None:
        return "over"
    if run.status == "paused":
        return "paused"
    return "waiting" if is_waiting(run) else None
