"""A scene: events in, lines out. It does no IO and has no clock of its own.

Goal: whoever watches sees at once what a model writes, all of it, in the order in which it began,
and can scroll back through it afterwards. So a line is committed once and never changes; all else
is in a tail of a few rows.

Promises: taking an event costs what the event holds. The tail costs what it shows. What is
committed depends on the events and their times alone, not on when anybody asks for it; but for a
line that has no room in the tail, of which the complete rows are committed while it grows.
"""

from typing import TypeAlias

from argstream.argument_views import with_arguments
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentStarted,
    Event,
    RunCompleted,
    RunEnd,
    RunFailed,
    RunPaused,
    RunResumed,
    RunSnapshot,
    RunStarted,
    RunStopped,
    StreamFailed,
    TextDelta,
    ThinkingCompleted,
    ThinkingDelta,
    ThinkingStarted,
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
from argstream.snapshot_events import events_of
from argstream.terminal.looks import Looks
from argstream.terminal.scene import _approvals, _runs
from argstream.terminal.scene._call import Call
from argstream.terminal.scene._going_on import GoingOn
from argstream.terminal.scene._running import Running
from argstream.terminal.scene._speakers import Speakers
from argstream.terminal.scene._stage import Stage
from argstream.terminal.scene._tail import tail_of
from argstream.terminal.scene._words import Words
from argstream.terminal.scene._writing import Writing
from argstream.terminal.spans import Line, line

__all__ = ["Scene"]

_Words: TypeAlias = TextDelta | ThinkingStarted | ThinkingDelta | ThinkingCompleted
_Executed: TypeAlias = ToolExecutionStarted | ToolOutputDelta | ToolCallCompleted | ToolCallFailed
_DENIED = ("denied", "expired", "withdrawn")


class Scene:
    """All that there is to see of a run, or of a single answer."""

    def __init__(self, looks: Looks | None = None, *, has_tail: bool = True) -> None:
        """Begin with nothing; without a tail, what that would tell is committed as well.

        That is for logs: that a tool runs, and what each of several tools puts out meanwhile.
        """
        self._has_tail = has_tail
        self._looks = Looks() if looks is None else looks
        self._calls: dict[str, Call] = {}
        self._writings: dict[str, Writing] = {}  # those that are not over
        self._words: dict[str | None, Words] = {}  # the block that is not over, of each speaker
        self._stage = Stage(Speakers(self._calls), has_tail=has_tail)
        self._going_on = GoingOn()
        self._turn_ended: list[Line] = []  # to be said when the results of its calls are there
        self._is_joining = False  # nobody knows when what is told now has happened

    def take(self, event: Event, now: float) -> None:
        """Take the next event, at this time; a ``RunSnapshot`` stands for all before it."""
        if isinstance(event, RunSnapshot):
            self._join(event, now)
            return
        self._going_on.note(event, now, self._began(now))
        match event:
            case ToolArgsDelta() | ArgumentStarted() | ArgumentDelta() | ArgumentCompleted():
                self._writing(event.call_id, event.name, now).take(event)
                return  # until somebody looks: colours for a few lines at once cost much less
            case TextDelta() | ThinkingStarted() | ThinkingDelta() | ThinkingCompleted():
                self._take_words(event, now)
            case (
                ToolOutputDelta() | ToolExecutionStarted() | ToolCallCompleted() | ToolCallFailed()
            ):
                self._take_execution(event, now)
            case ToolCallStarted() | ToolArgsCompleted() | ToolArgsInvalid():
                self._take_call(event, now)
            case ApprovalRequested() | ApprovalDecided():
                self._take_approval(event)
            case _:
                self._take_run(event, now)
        self._stage.settle()

    def committed(self) -> list[Line]:
        """Give what became final since it was last asked."""
        self._stage.settle()  # the tail may have had too little room for something
        return self._stage.committed()

    def tail(self, now: float, columns: int, rows: int) -> list[Line]:
        """Give what is not final, as at most so many lines of one row each."""
        return tail_of(self._stage, self._going_on, now, columns, rows)

    def finish(self, now: float) -> None:
        """Say that nothing more comes: what is open is committed, with what is known of it."""
        self._leave_all("broken off", now)
        self._end_turn()
        self._going_on.end()

    # What the model writes.

    def _take_words(self, event: _Words, now: float) -> None:
        is_thought = not isinstance(event, TextDelta)
        words = self._words.get(event.parent_id)
        if words is None or (words.block, words.is_thought) != (event.block, is_thought):
            self._end_words(event.parent_id, now)
            words = Words(event.parent_id, event.block, self._began(now), is_thought=is_thought)
            self._words[event.parent_id] = words
            self._stage.add(words)
        match event:
            case TextDelta(text=text) | ThinkingDelta(text=text):
                words.add(text)
            case ThinkingCompleted(text=text):
                if not words.size:
                    words.add(text)
                self._end_words(event.parent_id, now)

    def _end_words(self, speaker: str | None, now: float) -> None:
        words = self._words.pop(speaker, None)
        if words is not None:
            words.end(now)

    def _end_all_words(self, now: float) -> None:
        for speaker in list(self._words):
            self._end_words(speaker, now)

    def _take_call(
        self, event: ToolCallStarted | ToolArgsCompleted | ToolArgsInvalid, now: float
    ) -> None:
        match event:
            case ToolCallStarted():
                self._end_words(event.parent_id, now)
                self._begin(event, now)
            case ToolArgsCompleted(arguments=arguments):
                self._writing(event.call_id, event.name, now).complete(arguments, self._looks, now)
                del self._writings[event.call_id]
            case ToolArgsInvalid(verdict=verdict, error=error):
                self._writing(event.call_id, event.name, now).refuse(verdict, error, now)
                self._looks.settle(event.call_id)
                del self._writings[event.call_id]

    def _begin(self, event: ToolCallStarted, now: float) -> None:
        """Begin a call; one of the same id is of an attempt that was lost."""
        if event.call_id in self._writings:
            self._writings.pop(event.call_id).leave("lost", now)
        view = self._looks.view(event, is_past=self._is_joining)
        call = self._calls[event.call_id] = Call(event, view)
        writing = self._writings[event.call_id] = Writing(call, view, self._began(now))
        self._stage.add(writing)

    def _writing(self, call_id: str, name: str, now: float) -> Writing:
        """Give the arguments of a call, under the name that it has by now."""
        if call_id not in self._writings:
            self._begin(ToolCallStarted(call_id, len(self._calls), name), now)
        writing = self._writings[call_id]
        writing.rename(name)
        return writing

    # What becomes of calls.

    def _call(self, call_id: str, name: str) -> Call:
        """Give a call; of one whose beginning was not seen, its name is known."""
        if call_id not in self._calls:
            self._calls[call_id] = Call(ToolCallStarted(call_id, len(self._calls), name))
        return self._calls[call_id]

    def _take_approval(self, event: ApprovalRequested | ApprovalDecided) -> None:
        call = self._call(event.call_id, event.name)
        if isinstance(event, ApprovalRequested):
            lines = _approvals.asked(event, self._looks)
        else:
            call.is_refused = event.decision in _DENIED
            lines = _approvals.decided(event, call.arguments)
        # Whoever decides must see it now, whatever else is being written.
        self._stage.interrupt(lines, call)

    def _take_execution(self, event: _Executed, now: float) -> None:
        call = self._call(event.call_id, event.name)
        if isinstance(event, ToolCallCompleted | ToolCallFailed):
            self._looks.settle(event.call_id)
        running = self._stage.running.get(event.call_id)
        if isinstance(event, ToolExecutionStarted):
            self._leave_running(event.call_id, "cut off", now)
            self._run(call, now, event.attempt)
            return
        if running is None:
            if isinstance(event, ToolCallFailed) and call.is_refused:
                return  # it was said already, and why
            running = self._run(call, now)
        match event:
            case ToolOutputDelta(text=text):
                running.put_out(text)
                return
            case ToolCallCompleted(result=result):
                running.complete(result, now)
            case ToolCallFailed(error=error):
                running.fail(error, now)
        call.arguments = None  # nobody asks for them any more
        self._stage.over(event.call_id)

    def _run(self, call: Call, now: float, attempt: int = 0) -> Running:
        running = Running(call, self._began(now), attempt, is_watched=self._has_tail)
        self._stage.running[call.call_id] = running
        return running

    # The run, its turns, its stream.

    def _take_run(self, event: Event, now: float) -> None:
        stage = self._stage
        match event:
            case RunStarted(prompt=prompt):
                stage.note(_runs.prompt(prompt))
            case TurnStarted(turn=turn, attempt=attempt):
                self._end_turn()
                if turn > 1:
                    stage.note([line()])
                if attempt > 1:
                    self._leave_all("lost", now)
                    stage.note(_runs.lost(event))
            case TurnCompleted(parent_id=speaker):
                self._end_words(speaker, now)
                if speaker is None:
                    self._turn_ended = _runs.turn_ended(event)
                    if not self._going_on.is_run:
                        self._end_turn()
            case RunPaused():
                stage.note(_runs.paused(event))
            case RunResumed(interrupted=interrupted):
                self._resume(event, [self._name(call_id) for call_id in interrupted], now)
            case StreamFailed():
                self._end_all_words(now)
                stage.note(_runs.failure(event))
            case RunCompleted() | RunFailed() | RunStopped():
                self._end(event, now)
            case _:
                pass

    def _resume(self, event: RunResumed, names: list[str], now: float) -> None:
        if event.cause == "crash":
            self._leave_writing("cut off by a crash", now)
        self._stage.note(_runs.resumed(event, names))

    def _end_turn(self) -> None:
        lines, self._turn_ended = self._turn_ended, []
        if lines:
            self._stage.note(lines)

    def _end(self, event: RunEnd, now: float) -> None:
        self._leave_all("broken off", now)
        if isinstance(event, RunCompleted):
            self._turn_ended = []  # it says the same
        self._end_turn()
        self._stage.note(_runs.run_ended(event, self._going_on.facts(now)))

    def _name(self, call_id: str) -> str:
        return self._calls[call_id].name if call_id in self._calls else call_id

    def _join(self, snapshot: RunSnapshot, now: float) -> None:
        """Show what a snapshot tells, and go on from it."""
        self._leave_all("seen up to here", now)
        self._stage.note(_runs.joined(snapshot))
        self._going_on.join(snapshot)
        self._is_joining = True
        for event in with_arguments(events_of(snapshot)):
            self.take(event, now)
        self._is_joining = False

    def _began(self, now: float) -> float | None:
        return None if self._is_joining else now

    def _leave_all(self, why: str, now: float) -> None:
        self._leave_writing(why, now)
        for call_id in list(self._stage.running):
            self._leave_running(call_id, why, now)

    def _leave_writing(self, why: str, now: float) -> None:
        self._end_all_words(now)
        for writing in self._writings.values():
            writing.leave(why, now)
        self._writings.clear()
        self._stage.settle()

    def _leave_running(self, call_id: str, why: str, now: float) -> None:
        running = self._stage.running.get(call_id)
        if running is not None:
            running.leave(why, now)
            self._stage.over(call_id)
