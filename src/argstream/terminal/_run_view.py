"""The view of a run: events → lines that are final, and a short tail that is not.

The arguments are shown again in full when an approval is requested: what is decided on stands above
the question. Long results of tools are folded, arguments never.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from argstream import events as ev
from argstream.history import TextPart
from argstream.runs._state import RunState, with_arguments
from argstream.sanitise import visible_line
from argstream.terminal._blocks import (
    Call,
    CallBlock,
    TextBlock,
    ToolBlock,
    because,
    clock,
    result_lines,
    text_span,
)
from argstream.terminal._editor import argument_changes
from argstream.terminal._layout import cut, width
from argstream.terminal._text import Line, Role, Span, Spans, duration, line, shown, token_counts
from argstream.terminal.tool_views import ToolViews

_PROMPT: Final[Spans] = (Span("> ", "prompt"),)
_DEEPEST: Final = 4  # further to the right there would be no room
Active: TypeAlias = CallBlock | TextBlock | ToolBlock  # something that grows until it is over
_BAR: Final = Span("┊ ", "faint")  # no model writes at the left edge: this is a sub-agent
_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND: Final = 10
_MARKS: Final = {"✓": Span("✓ ", "good"), "✗": Span("✗ ", "bad")}
_FEWEST: Final = 2
_SILENCE: Final = 4.0  # seconds without an event after which the status says so
_UNDER: Final[Spans] = (Span("  "),)
_REST: Final[Spans] = (Span("    "),)
_OUTCOMES: Final[dict[ev.ApprovalOutcome, tuple[str, Role, str]]] = {
    "approved": ("✓ ", "good", "is approved"),
    "edited": ("✓ ", "warning", "is approved with other arguments"),
    "denied": ("✗ ", "bad", "is denied"),
    "expired": ("✗ ", "bad", "is denied, since no decision came in time"),
    "withdrawn": ("✗ ", "warning", "is withdrawn: there is nothing left to decide"),
}
_REMEMBERED: Final = {
    "conversation": "; later calls of this tool are, too",
    "rule": "; what this rule asks about later is, too",
}
_Words: TypeAlias = ev.TextDelta | ev.ThinkingStarted | ev.ThinkingDelta | ev.ThinkingCompleted
_Executed: TypeAlias = (
    ev.ToolExecutionStarted | ev.ToolOutputDelta | ev.ToolCallCompleted | ev.ToolCallFailed
)
_DENIED = ("denied", "expired", "withdrawn")


class _Note:
    is_over = True
    has_begun = False

    def __init__(self, lines: Sequence[Line], call: Call | None = None) -> None:
        self.speaker = None if call is None else call.speaker
        self.is_known = False
        self.subject: object = call or self
        self._call = call
        self._lines = list(lines)

    def headed(self, lines: list[Line]) -> list[Line]:
        """Return the lines below a header. Lines about no call need none."""
        return lines if self._call is None else [self._call.header("faint"), *lines]

    def settled(self) -> list[Line]:
        lines, self._lines = self._lines, []
        return lines


class RunFacts(NamedTuple):
    """What is known of a run when it ends."""

    usage: ev.Usage
    said: str  # by the model, in its last turn
    failure: tuple[str, str] | None  # code and message, if the stream has failed
    took: float | None  # seconds; None if its beginning was not seen


class Waiting(NamedTuple):
    what: str
    since: float
    is_person: bool = False


class Activity:
    def __init__(self) -> None:
        self.heard = 0.0  # when the last event came
        self.is_run = False  # whether more may come although a turn is over
        self._usage = ev.Usage()
        self._said = ""  # by the model, in its last turn
        self._failure: tuple[str, str] | None = None
        self._began: float | None = None
        self._is_on = False  # more is to come
        self._asked: dict[str, tuple[str, float]] = {}  # what is to be decided, and since when

    @property
    def waiting(self) -> Waiting | None:
        if self._asked:
            names, times = zip(*self._asked.values(), strict=True)
            first = names if len(names) <= 4 else names[:3]
            more = f" and {len(names) - 3} more" if len(names) > 4 else ""
            told = ", ".join(first) + more
            return Waiting(f"waiting for a decision on {told}", times[0], is_person=True)
        return Waiting("waiting for the model", self.heard) if self._is_on else None

    def facts(self, now: float) -> RunFacts:
        took = None if self._began is None else now - self._began
        return RunFacts(self._usage, self._said, self._failure, took)

    def note(self, event: ev.Event, now: float, began: float | None) -> None:
        """Follow an event; ``began`` is the start of what it starts, if that is known."""
        self.heard = now
        self._is_on = True
        match event:
            case ev.RunStarted():
                self._began = began
                self.is_run = True
            case ev.TurnStarted():
                self._failure = None
            case ev.TurnCompleted(usage=usage, parent_id=parent_id):
                self._usage += usage
                if parent_id is None:
                    texts = (
                        part.text for part in event.message.parts if isinstance(part, TextPart)
                    )
                    self._said = "".join(texts)
                    self._is_on = self.is_run
            case ev.ApprovalRequested(call_id=call_id, name=name):
                self._asked[call_id] = (visible_line(name), now)
            case ev.ApprovalDecided() | ev.ToolCallCompleted() | ev.ToolCallFailed():
                self._asked.pop(event.call_id, None)
            case ev.StreamFailed(message=message):
                self._failure = (event.specific_code, message)
                self._is_on = self.is_run
            case ev.RunPaused():
                self._is_on = False
            case ev.RunCompleted() | ev.RunFailed() | ev.RunStopped():
                self.end()
            case _:
                pass

    def join(self, snapshot: ev.RunSnapshot) -> None:
        """Forget what was before a snapshot. Its events follow."""
        self._usage = snapshot.usage
        self._said = ""
        self._failure = None
        self._asked.clear()

    def end(self) -> None:
        self.is_run = self._is_on = False
        self._asked.clear()


class Scrollback:
    """The scrollback, the blocks that wait for it, and the tools that run."""

    def __init__(self, calls: Mapping[str, Call], *, has_tail: bool) -> None:
        self._calls = calls
        self._has_tail = has_tail
        self.running: dict[str, ToolBlock] = {}
        self._blocks: deque[Active | _Note] = deque()
        self._notes = 0  # how many of them are notes
        self._committed: list[Line] = []
        self._subject: object = None  # what the last line is about
        self._speaker: str | None = None  # the agent of the last event

    def committed(self) -> list[Line]:
        committed, self._committed = self._committed, []
        return committed

    @property
    def writing(self) -> Active | None:
        # A note is committed at once when it is its turn.
        return next((block for block in self._blocks if not isinstance(block, _Note)), None)

    @property
    def owner(self) -> Active | None:
        """The block that may write into the scrollback, if there is one."""
        if self._blocks:
            return self.writing
        return next(iter(self.running.values())) if len(self.running) == 1 else None

    @property
    def active(self) -> int:
        return len(self.running) + len(self._blocks) - self._notes

    def actives(self) -> Iterator[Active]:
        yield from self.running.values()
        yield from (block for block in self._blocks if not isinstance(block, _Note))

    def add(self, block: CallBlock | TextBlock) -> None:
        self._blocks.append(block)
        self.settle()

    def note(self, lines: Sequence[Line]) -> None:
        self._blocks.append(_Note(lines))
        self._notes += 1
        self.settle()

    def interrupt(self, lines: Sequence[Line], call: Call) -> None:
        """Commit lines about a call that cannot wait, whichever block owns the scrollback."""
        self.settle()
        self._commit(_Note(lines, call))

    def settle(self) -> None:
        while self._blocks:
            block = self._blocks[0]
            self._commit(block)
            if not block.is_over:
                return
            self._blocks.popleft()
            self._notes -= isinstance(block, _Note)
        if len(self.running) == 1 or not self._has_tail:
            for running in self.running.values():
                self._commit(running)

    def over(self, call_id: str) -> None:
        """Show the end of a tool when it is its turn."""
        running = self.running.pop(call_id)
        if self._blocks:
            self._blocks.append(running)
        else:
            self._commit(running)
        self.settle()

    def depth(self, speaker: str | None) -> int:
        """Return how many agents are above this one. A sub-agent is known by its call."""
        depth = 0
        while speaker is not None and depth < _DEEPEST:
            depth += 1
            call = self._calls.get(speaker)
            speaker = None if call is None else call.speaker
        return depth

    def _announcement(self, speaker: str) -> Line:
        call = self._calls.get(speaker)
        if call is None:
            who: Spans = (shown(speaker, "tool"),)
        else:
            # Names may repeat: something must tell one from the other.
            own = () if call.title else (Span("  "), shown(speaker, "faint"))
            who = (*call.label, *own)
        return line(*who, margin=(Span("┄ sub-agent of ", "faint"),))

    def _commit(self, block: "Active | _Note") -> None:
        lines = block.settled()
        if not lines and not block.has_begun:
            return
        if block.subject is not self._subject:
            lines = block.headed(lines)
            self._subject = block.subject
        block.is_known = True
        self._put(lines, block.speaker)

    def _put(self, lines: Iterable[Line], speaker: str | None) -> None:
        depth = self.depth(speaker)
        if speaker != self._speaker:
            self._speaker = speaker
            if speaker is not None:
                self._committed.append(indented(self._announcement(speaker), depth))
        self._committed += lines if not depth else [indented(line, depth) for line in lines]


class RunView:
    """Everything to see of a run or of a single answer: committed lines, and a tail.

    At any time one block owns the scrollback and streams into it. The others wait, and have one
    line each in the tail. The clock is an argument of each method.

    """

    def __init__(self, looks: ToolViews | None = None, *, has_tail: bool = True) -> None:
        """Without a tail, what it would show is committed as well.

        That is for logs: that a tool runs, and what each of several tools puts out meanwhile.

        """
        self._has_tail = has_tail
        self._looks = ToolViews() if looks is None else looks
        self._calls: dict[str, Call] = {}
        self._writings: dict[str, CallBlock] = {}  # those that are not over
        self._words: dict[str | None, TextBlock] = {}  # the block that is not over, of each speaker
        self._stage = Scrollback(self._calls, has_tail=has_tail)
        self._going_on = Activity()
        self._turn_ended: list[Line] = []  # to be said when the results of its calls are there
        self._is_joining = False  # the times of these events are unknown

    def take(self, event: ev.Event | ev.RunSnapshot, now: float) -> None:
        """Add the next event, at this time; a ``RunSnapshot`` stands for all before it."""
        if isinstance(event, ev.RunSnapshot):
            self._join(event, now)
            return
        self._going_on.note(event, now, self._began(now))
        match event:
            case (
                ev.ToolArgsDelta()
                | ev.ArgumentStarted()
                | ev.ArgumentDelta()
                | ev.ArgumentCompleted()
            ):
                self._writing(event.call_id, event.name, now).take(event)
                return  # until it is shown: colours for a few lines at once cost much less
            case (
                ev.TextDelta() | ev.ThinkingStarted() | ev.ThinkingDelta() | ev.ThinkingCompleted()
            ):
                self._take_words(event, now)
            case (
                ev.ToolOutputDelta()
                | ev.ToolExecutionStarted()
                | ev.ToolCallCompleted()
                | ev.ToolCallFailed()
            ):
                self._take_execution(event, now)
            case ev.ToolCallStarted() | ev.ToolArgsCompleted() | ev.ToolArgsInvalid():
                self._take_call(event, now)
            case ev.ApprovalRequested() | ev.ApprovalDecided():
                self._take_approval(event)
            case _:
                self._take_run(event, now)
        self._stage.settle()

    def committed(self) -> list[Line]:
        """Return what became final since the last call."""
        self._stage.settle()  # the tail may have had too little room for something
        return self._stage.committed()

    def tail(self, now: float, columns: int, rows: int) -> list[Line]:
        """Return what is not final, as at most so many lines of one row each."""
        return tail_of(self._stage, self._going_on, now, columns, rows)

    def finish(self, now: float) -> None:
        """End the scene: what is open is committed as far as it is known."""
        self._leave_all("broken off", now)
        self._end_turn()
        self._going_on.end()

    def _take_words(self, event: _Words, now: float) -> None:
        is_thought = not isinstance(event, ev.TextDelta)
        words = self._words.get(event.parent_id)
        if words is None or (words.block, words.is_thought) != (event.block, is_thought):
            self._end_words(event.parent_id, now)
            words = TextBlock(event.parent_id, event.block, self._began(now), is_thought=is_thought)
            self._words[event.parent_id] = words
            self._stage.add(words)
        match event:
            case ev.TextDelta(text=text) | ev.ThinkingDelta(text=text):
                words.add(text)
            case ev.ThinkingCompleted(text=text):
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
        self, event: ev.ToolCallStarted | ev.ToolArgsCompleted | ev.ToolArgsInvalid, now: float
    ) -> None:
        match event:
            case ev.ToolCallStarted():
                self._end_words(event.parent_id, now)
                self._begin(event, now)
            case ev.ToolArgsCompleted(arguments=arguments):
                self._writing(event.call_id, event.name, now).complete(arguments, self._looks, now)
                del self._writings[event.call_id]
            case ev.ToolArgsInvalid(verdict=verdict, error=error):
                self._writing(event.call_id, event.name, now).refuse(verdict, error, now)
                self._looks.settle(event.call_id)
                del self._writings[event.call_id]

    def _begin(self, event: ev.ToolCallStarted, now: float) -> None:
        """Begin a call. An open one with the same ID belongs to an attempt that was lost."""
        if event.call_id in self._writings:
            self._writings.pop(event.call_id).leave("lost", now)
        view = self._looks.view(event, is_past=self._is_joining)
        call = self._calls[event.call_id] = Call(event, view)
        writing = self._writings[event.call_id] = CallBlock(call, view, self._began(now))
        self._stage.add(writing)

    def _writing(self, call_id: str, name: str, now: float) -> CallBlock:
        """Return the open arguments of a call, under its newest name."""
        if call_id not in self._writings:
            self._begin(ev.ToolCallStarted(call_id, len(self._calls), name), now)
        writing = self._writings[call_id]
        writing.rename(name)
        return writing

    def _call(self, call_id: str, name: str) -> Call:
        """Return a call. If its start was not seen, at least its name is known."""
        if call_id not in self._calls:
            self._calls[call_id] = Call(ev.ToolCallStarted(call_id, len(self._calls), name))
        return self._calls[call_id]

    def _take_approval(self, event: ev.ApprovalRequested | ev.ApprovalDecided) -> None:
        call = self._call(event.call_id, event.name)
        if isinstance(event, ev.ApprovalRequested):
            lines = asked(event, self._looks)
        else:
            call.is_refused = event.decision in _DENIED
            lines = decided(event, call.arguments)
        # The user must see it now, whatever else is being written.
        self._stage.interrupt(lines, call)

    def _take_execution(self, event: _Executed, now: float) -> None:
        call = self._call(event.call_id, event.name)
        if isinstance(event, ev.ToolCallCompleted | ev.ToolCallFailed):
            self._looks.settle(event.call_id)
        running = self._stage.running.get(event.call_id)
        if isinstance(event, ev.ToolExecutionStarted):
            self._leave_running(event.call_id, "cut off", now)
            self._run(call, now, event.attempt)
            return
        if running is None:
            if isinstance(event, ev.ToolCallFailed) and call.is_refused:
                return  # it was said already, and why
            running = self._run(call, now)
        match event:
            case ev.ToolOutputDelta(text=text):
                running.put_out(text)
                return
            case ev.ToolCallCompleted(result=result):
                running.complete(result, now)
            case ev.ToolCallFailed(error=error):
                running.fail(error, now)
        call.arguments = None  # they are not needed any more
        self._stage.over(event.call_id)

    def _run(self, call: Call, now: float, attempt: int = 0) -> ToolBlock:
        running = ToolBlock(call, self._began(now), attempt, is_watched=self._has_tail)
        self._stage.running[call.call_id] = running
        return running

    def _take_run(self, event: ev.Event, now: float) -> None:
        stage = self._stage
        match event:
            case ev.RunStarted(prompt=prompt):
                parts = (text_span(part, "prompt") for part in prompt.split("\n"))
                stage.note([Line((part,), _PROMPT, _PROMPT, "words") for part in parts])
            case ev.TurnStarted(turn=turn, attempt=attempt):
                self._end_turn()
                if turn > 1:
                    stage.note([line()])
                if attempt > 1:
                    self._leave_all("lost", now)
                    told = f"turn {turn} begins again, attempt {attempt}: what came of it is lost"
                    stage.note([_marked("▶ ", told, "warning")])
            case ev.TurnCompleted(parent_id=speaker):
                self._end_words(speaker, now)
                if speaker is None:
                    self._turn_ended = turn_ended(event)
                    if not self._going_on.is_run:
                        self._end_turn()
            case ev.RunPaused(pending=pending):
                calls = ", ".join(visible_line(request.name) for request in pending)
                told = f"paused, waits for a decision on {calls}"
                stage.note([_marked("‖ ", told, "warning")])
            case ev.RunResumed(interrupted=interrupted):
                self._resume(event, [self._name(call_id) for call_id in interrupted], now)
            case ev.StreamFailed():
                self._end_all_words(now)
                stage.note(failure(event))
            case ev.RunCompleted() | ev.RunFailed() | ev.RunStopped():
                self._end(event, now)
            case _:
                pass

    def _resume(self, event: ev.RunResumed, names: list[str], now: float) -> None:
        if event.cause == "crash":
            self._leave_writing("cut off by a crash", now)
        self._stage.note(resumed(event, names))

    def _end_turn(self) -> None:
        lines, self._turn_ended = self._turn_ended, []
        if lines:
            self._stage.note(lines)

    def _end(self, event: ev.RunEnd, now: float) -> None:
        self._leave_all("broken off", now)
        if isinstance(event, ev.RunCompleted):
            self._turn_ended = []  # it says the same
        self._end_turn()
        self._stage.note(run_ended(event, self._going_on.facts(now)))

    def _name(self, call_id: str) -> str:
        return self._calls[call_id].name if call_id in self._calls else call_id

    def _join(self, snapshot: ev.RunSnapshot, now: float) -> None:
        self._leave_all("seen up to here", now)
        turn = f" in turn {snapshot.turns}" if snapshot.turns else ""
        self._stage.note([_marked("┄ ", f"joined{turn}; first what came before", "faint")])
        self._going_on.join(snapshot)
        self._is_joining = True
        for event in with_arguments(RunState.from_snapshot(snapshot, arguments="off").events()):
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


def tail_of(
    stage: Scrollback, going_on: Activity, now: float, columns: int, rows: int
) -> list[Line]:
    """Return at most so many lines, each of which is one row."""
    told = list(_told(stage, going_on, now))
    if not told or rows < 1:
        return []
    room = rows - 1
    owner = stage.owner
    count = stage.active - (owner is not None)
    growing = _growing(stage, columns, room - min(count, room // 2))
    others = (block for block in stage.actives() if block is not owner)
    collapsed = _collapsed(others, count, now, columns, room - len(growing))
    while len(told) > _FEWEST and width(" · ".join(told)) > columns - 2:
        del told[1]  # what is said first and last matters most
    status = line(Span(_frame(now) + " ", "good"), Span(" · ".join(told), "faint"))
    return [*growing, *collapsed, status]


def _growing(stage: Scrollback, columns: int, room: int) -> list[Line]:
    owner = stage.owner
    if owner is None:
        return []
    depth = stage.depth(owner.speaker)
    rows = owner.growing(max(columns - 2 * depth, 1), room)
    return [indented(row, depth) for row in rows] if depth else rows


def _collapsed(
    blocks: Iterator[Active], count: int, now: float, columns: int, room: int
) -> Iterator[Line]:
    """Yield a line for each block. If two or more are left out, the last line says so."""
    kept = count if count <= room else max(room - 1, 0)
    for block in islice(blocks, kept):
        yield _one_line(block, now, columns)
    if count > kept and room > 0:
        yield line(Span(f"  … and {count - kept} more", "faint"))


def _one_line(block: Active, now: float, columns: int) -> Line:
    """Return what a block is and how far it has come. Its title is cut first."""
    mark = _MARKS.get(block.waits_as, Span(_frame(now) + " ", "good"))
    told = Span("".join(f" · {counter}" for counter in block.counters(now)), "faint")
    label = cut(block.label, max(columns - width(mark.text + told.text), columns // 2))
    newest = block.newest(columns) if isinstance(block, ToolBlock) else ""
    said = (Span(" · ", "faint"), text_span(newest)) if newest else ()
    return Line((mark, *label, told, *said))


def _told(stage: Scrollback, going_on: Activity, now: float) -> Iterator[str]:
    """Yield what is going on; nothing if nothing is."""
    waiting = going_on.waiting
    owner = stage.writing
    running = stage.running
    if waiting is not None and waiting.is_person:
        yield f"{waiting.what} · {duration(now - waiting.since)}"
    if owner is not None:
        yield owner.doing
        yield from owner.counters(now)
    if len(running) > 1:
        yield f"{len(running)} tools run"
    for oldest in islice(running.values(), 1):
        if len(running) == 1:
            yield oldest.doing
        if owner is None:
            yield from oldest.counters(now)
    if owner is not None or running:
        silence = now - going_on.heard
        if silence >= _SILENCE:
            yield f"nothing for {int(silence)} s"
    elif waiting is not None and not waiting.is_person:
        yield f"{waiting.what} · {duration(now - waiting.since)}"


def _frame(now: float) -> str:
    return _FRAMES[int(now * _FRAMES_A_SECOND) % len(_FRAMES)]


def indented(line: Line, depth: int) -> Line:
    bars: Spans = (_BAR,) * depth
    rest = None if line.rest is None else bars + line.rest
    if rest is None:
        rest = (*bars, Span(" " * sum(len(span.text) for span in line.margin)))
    return Line(line.spans, bars + line.margin, rest, line.breaks)


def asked(event: ev.ApprovalRequested, looks: ToolViews) -> list[Line]:
    """Return what is to be decided, why, and the arguments to the last character."""
    what = (shown(event.name, "tool"), Span(" must be approved", "prompt"))
    reason = Span(because(event.reason))
    lines = [Line((*what, reason), (Span("? ", "prompt"),), _REST, "words")]
    if event.rule is not None:
        lines.append(line(Span(f"rule: {visible_line(event.rule)}"), margin=_UNDER))
    if event.expires_at is not None:
        lines.append(line(Span(f"until: {clock(event.expires_at)}"), margin=_UNDER))
    return lines + looks.whole(event.name, event.arguments, call_id=event.call_id)


def decided(event: ev.ApprovalDecided, before: Mapping[str, Any] | str | None) -> list[Line]:
    mark, role, what = _OUTCOMES[event.decision]
    more = _REMEMBERED.get(event.always, "")
    told = Span(f" {what}{because(event.reason)}{more}", role)
    lines = [line(shown(event.name, "tool"), told, margin=(Span(mark, role),))]
    if event.edited_arguments is not None:
        written = before if isinstance(before, Mapping) else {}
        lines += argument_changes(written, event.edited_arguments)
    return lines


def turn_ended(event: ev.TurnCompleted) -> list[Line]:
    reason = visible_line(event.stop_reason or "no stop reason")
    if event.characters_read is not None:
        reason += f": not read further than {event.characters_read} characters"
    return [_marked("— ", reason + _cost(event.usage), "faint")]


def failure(event: ev.StreamFailed) -> list[Line]:
    again = "; it may be tried again" if event.retryable else ""
    told = f"the stream failed ({visible_line(event.specific_code)}){because(event.message)}{again}"
    return [_marked("✗ ", told, "bad")]


def resumed(event: ev.RunResumed, names: Iterable[str]) -> list[Line]:
    why = "after a crash" if event.cause == "crash" else "after a pause"
    calls = ", ".join(map(visible_line, names))
    told = f"goes on {why}" + (f"; cut off: {calls}" if calls else "")
    lines = [_marked("▶ ", told, "warning")]
    if event.note:
        lines += [
            Line((text_span(part, "faint"),), _UNDER, _UNDER, "words")
            for part in f"the model is told: {event.note}".split("\n")
        ]
    return lines


def run_ended(event: ev.RunCompleted | ev.RunFailed | ev.RunStopped, run: RunFacts) -> list[Line]:
    """Return how the run ended, its cost, and its result if that was not shown yet."""
    lines: list[Line] = []
    usage = run.usage if event.usage == ev.Usage() else event.usage
    role: Role
    match event:
        case ev.RunCompleted(result=result, stop_reason=reason):
            lines = _answer(result, run.said)
            told, role = f"done{f' ({visible_line(reason)})' if reason else ''}", "good"
        case ev.RunFailed(code=code, message=message):
            because_of = "" if run.failure == (code, message) else because(message)
            told, role = f"failed ({visible_line(code)}){because_of}", "bad"
        case _:
            told, role = f"stopped{because(event.reason)}", "warning"
    took = "" if run.took is None else f" · {duration(run.took)}"
    spans = (Span(told, role), Span(f"{took}{_cost(usage)}", "faint"))
    return [*lines, line(*spans, margin=(Span("■ ", role),))]


def _cost(usage: ev.Usage) -> str:
    counts = token_counts(usage)
    return f" · {counts}" if counts else ""


def _marked(mark: str, told: str, role: Role) -> Line:
    return line(Span(told, role), margin=(Span(mark, role),))


def _answer(result: Any, said: str) -> list[Line]:
    if result is None or (isinstance(result, str) and result.strip() in ("", said.strip())):
        return []
    return result_lines(result)
