"""The view of a run: the changes of its state → lines that are final, and a short tail that is not.

Long arguments, outputs and results are folded. Before an approval, the arguments are shown in full.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from argstream import events as ev
from argstream.runs import Call, Change, Record, RunState
from argstream.runs import TextBlock as Text
from argstream.sanitise import visible_line
from argstream.terminal._blocks import (
    CallBlock,
    Compact,
    Note,
    TextBlock,
    ToolBlock,
    because,
    clock,
    result_lines,
    text_span,
)
from argstream.terminal._entry import argument_changes, same
from argstream.terminal._layout import behind, cut, width
from argstream.terminal._text import (
    Line,
    Role,
    Span,
    Spans,
    count,
    duration,
    line,
    shown,
    text_of,
    token_counts,
)
from argstream.terminal.tool_views import ToolViews

_PROMPT: Final[Spans] = (Span("> ", "prompt"),)
_DEEPEST: Final = 4  # further to the right there would be no room
Active: TypeAlias = CallBlock | TextBlock | ToolBlock  # something that grows until it is over
_BAR: Final = Span("┊ ", "faint")  # only sub-agents have it at the left edge
_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND: Final = 10
_MARKS: Final = {"●": Span("● ", "faint"), "✓": Span("✓ ", "good"), "✗": Span("✗ ", "bad")}
_SILENCE: Final = 4.0  # seconds without an event after which the status shows them
_UNDER: Final[Spans] = (Span("  "),)
_RULE: Final = 42  # columns of the upper border of a request
_LEAST_OUTPUT: Final = 12  # columns that are worth the beginning of an output
_SEEN_AT_ONCE: Final = 8  # lines; above more of them, the name of the call may not be on the screen
_BORDER: Final[Spans] = (Span("│ ", "warning"),)
_CORNER: Final[Spans] = (Span("╰─ ", "warning"),)
_UNDECIDED: Final = line(Span("No decision yet", "warning"), margin=_CORNER)
_OPEN: Final = ("written", "pending", "approved", "running")  # states of a call
_OUTCOMES: Final[dict[ev.ApprovalOutcome, tuple[str, Role, str]]] = {
    "approved": ("✓ ", "good", "Approved"),
    "edited": ("✓ ", "good", "Approved with your edits"),
    "denied": ("✗ ", "bad", "Denied"),
    "expired": ("✗ ", "bad", "Denied: approval expired"),
    "withdrawn": ("■ ", "warning", "No longer needs approval"),
}
_REMEMBERED: Final = {
    "conversation": "; won't ask again for this tool",
    "rule": "; won't ask again for this rule",
}
_EARLY: Final[dict[ev.StopKind, str]] = {
    "length": "the model reached its output limit",
    "content_filter": "the provider's content filter stopped it",
    "malformed": "the provider could not parse the call",
}


class RunSoFar(NamedTuple):
    """The records of a run that goes on here. Of its blocks, only open calls are shown."""

    records: Sequence[Record]


class Scrollback:
    """The scrollback, the blocks that wait for it, and the tools that run."""

    def __init__(self, calls: dict[str, CallBlock], *, has_tail: bool) -> None:
        self._calls = calls  # the newest with each ID
        self._has_tail = has_tail
        self.running: dict[str, ToolBlock] = {}  # by the ID of the call
        self._blocks: deque[Active | Note] = deque()
        self._committed: list[Line] = []
        self.subject: object = None  # what the last line is about
        self.is_request_open = False  # whether the last lines are a request
        self.is_paused = False  # blocks wait, so that an open request stays the last
        self._speaker: str | None = None  # the agent of the last event

    def committed(self) -> list[Line]:
        committed, self._committed = self._committed, []
        return committed

    @property
    def writing(self) -> Active | None:
        # A note is committed at once when it is its turn.
        return next((block for block in self._blocks if not isinstance(block, Note)), None)

    @property
    def owner(self) -> Active | None:
        """The block that may write into the scrollback, if there is one."""
        if self._blocks:
            return self.writing
        return next(iter(self.running.values())) if len(self.running) == 1 else None

    def actives(self) -> list[Active]:
        blocks = (block for block in self._blocks if not isinstance(block, Note))
        return [*self.running.values(), *blocks]

    def add(self, block: CallBlock | TextBlock) -> None:
        self._blocks.append(block)
        self.settle()

    def note(self, lines: Iterable[Line], head: CallBlock | None = None) -> None:
        if told := list(lines):
            self._blocks.append(Note(told, head))
            self.settle()

    def interrupt(
        self, lines: Sequence[Line], head: CallBlock, *, closes_request: bool = False
    ) -> None:
        """Commit lines about a call that cannot wait, whichever block owns the scrollback."""
        self.settle()
        self.is_request_open &= not closes_request
        self._commit(Note(lines, head))

    def close_request(self) -> None:
        """Close the box of a request that has no decision."""
        if self.is_request_open:
            self.is_request_open = False
            bars = (_BAR,) * self.depth(self._speaker)
            self._committed.append(behind(bars, _UNDECIDED))

    def settle(self) -> None:
        if self.is_paused:
            return
        while self._blocks:
            block = self._blocks[0]
            if block.is_held:
                if len(self._blocks) == 1:
                    return
                block.release()
            self._commit(block)
            if not block.is_over:
                return
            self._blocks.popleft()
        if len(self.running) == 1 or not self._has_tail:
            for running in self.running.values():
                self._commit(running)

    def release(self) -> None:
        if self._blocks:
            self._blocks[0].release()
        self.settle()

    def start(self, call_id: str, tool: ToolBlock) -> None:
        self.release()
        self.running[call_id] = tool

    def over(self, call_id: str) -> None:
        """Show the end of a tool when it is its turn."""
        running = self.running.pop(call_id)
        if self._blocks or self.is_paused:
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
            label: Spans = (shown(speaker, "tool"),)
        else:
            # Names may repeat, so a call without a title is told apart by its ID.
            own = () if call.title else (Span("  "), shown(speaker, "faint"))
            label = (*call.label, *own)
        return line(*label, margin=(Span("┄ sub-agent of ", "faint"),))

    def _commit(self, block: Active | Note) -> None:
        lines = block.settled()
        if not lines and not block.has_begun:
            return
        self.close_request()
        if block.subject is not self.subject:
            lines = block.headed(lines)
            self.subject = block.subject
        block.is_known = True
        speaker = block.speaker
        if speaker != self._speaker:
            self._speaker = speaker
            if speaker is not None:
                lines = [self._announcement(speaker), *lines]
        bars = (_BAR,) * self.depth(speaker)
        self._committed += [behind(bars, line) for line in lines] if bars else lines


class RunView:
    """Everything to see of a run or of a single answer: committed lines, and a tail.

    At any time one block owns the scrollback and streams into it. The others wait, and have one
    line each in the tail. The clock is an argument of each method.
    """

    def __init__(
        self,
        views: ToolViews | None = None,
        *,
        has_tail: bool = True,
        full: bool = False,
        stored: bool | str = False,
        timed: bool = True,
    ) -> None:
        """Create a view of nothing.

        Without a tail, what it would show is committed as well: that a tool runs, and the output of
        each of several tools. ``full`` folds nothing. ``stored`` runs can be inspected later, and
        the view names the command; a text is its ``--store``. Without ``timed``, events come at
        once that took longer, so no durations are shown.
        """
        self._has_tail = has_tail
        self._is_full = full
        is_named = isinstance(stored, str) and stored
        self._store = f" --store {stored}" if is_named else None if stored is False else ""
        self._views = ToolViews() if views is None else views
        self._calls: dict[str, CallBlock] = {}  # the newest with each ID
        self._texts: dict[str | None, TextBlock] = {}  # those that are not over, by speaker
        self._scroll = Scrollback(self._calls, has_tail=has_tail)
        self._state = RunState(arguments="events")
        self._asked: Call | None = None  # the call whose request is shown
        self._drawn: set[str] | None = None  # of a run so far, the calls that are shown
        self._is_run = False  # whether more may come although a turn is over
        self._is_on = False  # whether more is to come
        self._is_past = self._is_untimed = not timed  # the times of these events are unknown
        self._shift = 0.0  # from the times of records to those of the clock
        self._began: float | None = None  # of a stream without a run
        self._heard = 0.0  # when the last event came
        self.shown_edit: object = None  # edited arguments whose changes are on the screen

    @property
    def asked(self) -> ev.ApprovalRequested | None:
        """The request that is shown and not decided."""
        return None if self._asked is None else self._asked.request

    def take(self, event: ev.Event | ev.RunSnapshot | Record | RunSoFar, now: float) -> None:
        """Add the next event or record, at this time. A ``RunSnapshot`` replaces all before it."""
        if isinstance(event, RunSoFar):
            calls = RunState.from_records(event.records, arguments="off").calls.values()
            self._drawn = {call.call_id for call in calls if call.state in _OPEN}
            for record in event.records:
                self.take(record, now)
            self._drawn = None
            return
        if isinstance(event, ev.RunSnapshot):
            self._attach(event, now)
            return
        time, arguments = now, None
        if isinstance(event, Record):
            time, arguments, event = event.time, event.arguments, event.event
        self._shift, self._heard, self._is_on = now - time, time, True
        if event.is_computed:
            return  # the state has computed it from the delta before
        if isinstance(event, ev.RunStarted):
            self._state, self._is_run = RunState(arguments="events"), True
            self._calls.clear()
        elif self._began is None:
            self._began = self._start(time)
        for change in self._state.apply(event, time, arguments):
            self._show(change, time)
        if event.is_delta and not isinstance(event, ev.ToolOutputDelta):
            return  # colours for a few lines at once cost much less
        self._scroll.settle()

    def committed(self) -> list[Line]:
        """Return what became final since the last call."""
        self._scroll.settle()  # the tail may have had too little room for something
        return self._scroll.committed()

    def tail(self, now: float, columns: int, rows: int) -> list[Line]:
        """Return what is not final, as at most so many lines of one row each."""
        now -= self._shift
        told = list(self._status(now))
        if not told or rows < 1:
            return []
        room = rows - 1
        # Below a request, the text of another call would look like a part of it.
        owner = None if self._scroll.is_paused else self._scroll.owner
        others = [block for block in self._scroll.actives() if block is not owner]
        growing: list[Line] = []
        if owner is not None:
            bars = (_BAR,) * self._scroll.depth(owner.speaker)
            narrower = max(columns - 2 * len(bars), 1)
            grown = owner.growing(narrower, room - min(len(others), room // 2))
            growing = [behind(bars, row) for row in grown]
        collapsed = _collapsed(others, now, columns, room - len(growing))
        while len(told) > 2 and width(" · ".join(told)) > columns - 2:
            del told[1]  # the first and the last matter most
        status = line(Span(_frame(now) + " ", "good"), Span(" · ".join(told), "faint"))
        return [*growing, *collapsed, status]

    def finish(self, now: float) -> None:
        """End the view: what is open is committed as far as it is known."""
        is_stream = any(turn.end is not None for turn in self._state.turn_times)
        self._leave_all("Interrupted", now - self._shift)
        is_run = self._is_run or self._state.status != "running" or self._state.end is not None
        if is_stream and not is_run:
            self._scroll.note(self._summary_of_stream())
        self._scroll.close_request()
        self._is_run = self._is_on = False
        self._state = RunState(arguments="events")

    # Texts and calls

    def _show(self, change: Change, now: float) -> None:
        if self._drawn is not None and getattr(change.block, "call_id", None) not in self._drawn:
            return
        match change.block:
            case Text() as text:
                self._show_text(change, text, now)
            case Call() as call if change.kind == "block_started":
                self._begin_call(call, change.event, now)
            case Call() as call if call.call_id in self._calls:
                self._show_call(change, call, now)
            case Call():
                pass  # it was over when the run went on here
            case _:
                self._show_run(change.event, now)

    def _show_text(self, change: Change, text: Text, now: float) -> None:
        if change.kind == "block_ended" and text.is_thinking:
            self._end_text(text.parent_id, now)
        elif change.kind not in ("block_ended", "block_lost"):
            block = self._texts.get(text.parent_id)
            if block is None or not block.goes_on_with(text, change.text):
                self._end_text(text.parent_id, now)
                block = self._texts[text.parent_id] = TextBlock(text, self._start(now))
                self._scroll.add(block)
            block.add(change.text)

    def _end_text(self, speaker: str | None, now: float) -> None:
        if speaker in self._texts:
            self._texts.pop(speaker).end(now)

    def _end_texts(self, now: float) -> None:
        for speaker in list(self._texts):
            self._end_text(speaker, now)

    def _begin_call(self, call: Call, event: Any, now: float) -> None:
        self._end_text(call.parent_id, now)
        if call.call_id in self._calls:  # if it is open, it belongs to a lost attempt
            self._calls[call.call_id].leave("Interrupted", now)
            self._leave_running(call.call_id, "Interrupted", now)
        view = self._views.view(event, is_past=self._is_past)
        block = CallBlock(call, view, self._compact, self._start(now))
        block.is_eager = not self._has_tail
        self._calls[call.call_id] = block
        self._scroll.add(block)

    def _show_call(self, change: Change, call: Call, now: float) -> None:
        block = self._calls[call.call_id]
        event: Any = change.event
        match change.kind:
            case "block_lost":
                block.leave("Interrupted", now)
            case "renamed":
                block.rename()
            case "arguments_text" | "argument":
                block.take(event)
            case "verdict" if call.verdict == "complete":
                block.complete(self._views, now, is_run=self._is_run)
            case "verdict":
                block.refuse(now)
                self._views.settle(call.call_id)
            case "request" if self._asked is None:
                self._ask(call)
            case "decision":
                self._decided(call, event)
            case "attempt":
                self._leave_running(call.call_id, "Interrupted", now)
                self._start_tool(call, now, call.attempts)
            case "output":
                self._running(call, now).text.hold(change.text)
            case "result":
                self._end_tool(call, now)

    # Approvals

    def _pending(self) -> list[Call]:
        """Return the calls that need approval, in the order of their requests."""
        calls = self._state.calls.values() if self._state.end is None else ()
        pending = (call for call in calls if call.is_pending)
        return sorted(pending, key=lambda call: call.requested_at or 0.0)

    def _ask(self, call: Call) -> None:
        """Show a request in full, whatever else is being written."""
        request: Any = call.request
        block, scroll = self._calls[call.call_id], self._scroll
        if block.is_unseen and scroll.owner is block:
            block.leave_to_request()
        if scroll.owner is not block:
            scroll.release()
        block.release(is_full=True)
        scroll.settle()
        is_above = scroll.subject is block and not block.hides
        arguments: list[Line] = []
        if not is_above:
            arguments = self._views.whole(request.name, request.arguments, call_id=call.call_id)
        label = block.label if block.lines > _SEEN_AT_ONCE else ()
        scroll.interrupt(request_lines(request, arguments, label), block)
        scroll.is_request_open = scroll.is_paused = True
        self._asked = call

    def _decided(self, call: Call, decision: ev.ApprovalDecided) -> None:
        head, scroll = self._calls[call.call_id], self._scroll
        is_open = scroll.is_request_open and scroll.subject is head
        mark, role, what = _OUTCOMES[decision.decision]
        more = _REMEMBERED.get(decision.always, "")
        told = Span(f"{what}{because(decision.reason)}{more}", role)
        margin = (*(_CORNER if is_open else _UNDER), Span(mark, role))
        lines = [line(told, margin=margin)]
        edited = decision.edited_arguments
        if edited is not None and not same(edited, self.shown_edit):
            written = call.written_arguments
            before = written if isinstance(written, dict) else {}
            lines += argument_changes(before, edited)
        if self._asked is call:
            scroll.interrupt(lines, head, closes_request=is_open)
            self._ask_next()
        else:
            scroll.note(lines, head)

    def _ask_next(self) -> None:
        self._asked, self._scroll.is_paused = None, False
        for call in self._pending()[:1]:
            self._ask(call)

    # Tools

    def _start_tool(self, call: Call, now: float, attempt: int = 0) -> ToolBlock:
        head = self._calls[call.call_id]
        start, compact = self._start(now), self._compact
        tool = ToolBlock(head, compact, start, attempt, is_watched=self._has_tail)
        self._scroll.start(call.call_id, tool)
        return tool

    def _running(self, call: Call, now: float) -> ToolBlock:
        return self._scroll.running.get(call.call_id) or self._start_tool(call, now)

    def _end_tool(self, call: Call, now: float) -> None:
        self._views.settle(call.call_id)
        if self._asked is call:
            self._ask_next()
        is_running = call.call_id in self._scroll.running
        if call.state in ("denied", "invalid") and not is_running:
            return  # the reason is above
        self._running(call, now).end(now)
        self._scroll.over(call.call_id)

    # Turns and the run

    def _show_run(self, event: ev.Event, now: float) -> None:
        scroll, state = self._scroll, self._state
        match event:
            case ev.RunStarted():
                parts = (text_span(part, "prompt") for part in state.prompt.split("\n"))
                scroll.note(Line((part,), _PROMPT, _PROMPT, "words") for part in parts)
            case ev.TurnStarted(turn=turn, attempt=attempt) if attempt > 1:
                self._leave_all("Interrupted", now)
                told = f"Retrying turn {turn} (attempt {attempt}); discarding partial output"
                scroll.note([_marked("↻ ", told, "warning")])
            case ev.TurnStarted(turn=turn):
                scroll.note([line()] if turn > 1 else ())
            case ev.TurnCompleted():
                self._end_text(event.parent_id, now)
                if event.parent_id is None:
                    self._is_on = self._is_run
                    scroll.note(_early_end(event))
                if not self._is_run:
                    scroll.release()
            case ev.StreamFailed(message=message):
                self._end_texts(now)
                self._is_on = self._is_run
                if not self._is_run:
                    told = _failure(message, is_retryable=event.retryable)
                    scroll.note([_marked("✗ ", told, "bad")])
            case ev.RunPaused():
                self._pause()
            case ev.RunResumed():
                if event.cause == "crash":
                    self._leave_writing("Interrupted by a crash", now)
                    for running in scroll.running.values():
                        running.began = None  # its process died at an unknown time
                names = [state.calls[one].name for one in event.interrupted if one in state.calls]
                scroll.note(_resumed(event, names))
            case _ if state.end is not None:
                self._leave_all("Interrupted", now)
                scroll.note(self._end_of_run(state.end))
                self._is_run = self._is_on = False
                self._asked = None

    def _pause(self) -> None:
        scroll, state = self._scroll, self._state
        # Nothing follows, so all are shown. An observed run goes on to ask by itself.
        for call in self._pending() if state.mode == "agent" else ():
            if call is not self._asked:
                scroll.is_paused = False
                self._ask(call)
        self._is_on = scroll.is_paused = False
        calls = ", ".join(visible_line(request.name) for request in state.pending)
        scroll.note([_marked("‖ ", f"Paused: waiting for approval of {calls}", "warning")])

    def _end_of_run(self, end: ev.RunEnd) -> Iterator[Line]:
        state = self._state
        match state.status:
            case "completed":
                result = getattr(end, "result", None)
                said = "".join(
                    block.text
                    for block in state.blocks
                    if isinstance(block, Text)
                    and block.turn == state.turns
                    and not (block.is_thinking or block.is_lost or block.parent_id)
                )
                if not isinstance(result, str) or result.strip() not in ("", said.strip()):
                    yield from result_lines(result, self._compact) if result is not None else ()
                yield self._summary("✓ ", "Done", "good")
            case "failed":
                yield self._summary("✗ ", _failure(getattr(end, "message", "")), "bad")
            case _:
                reason = because(getattr(end, "reason", ""))
                yield self._summary("■ ", f"Stopped{reason}", "warning")
        if hint := self._hint("inspect"):  # on a line of its own, so that it is not broken
            yield line(Span(hint, "faint"), margin=_UNDER)

    def _summary(self, mark: str, told: str, role: Role) -> Line:
        """Return the line that ends a run: how it ended, what it took and what it cost."""
        state, end = self._state, self._state.end
        began, ended = (
            (self._began, state.time) if end is None else (state.started_at, state.ended_at)
        )
        if began is not None and ended is not None:
            told += (" in " if role == "good" else " · ") + duration(ended - began)
        calls = [one for one in state.blocks if isinstance(one, Call) and not one.is_lost]
        usage = state.usage if end is None or end.usage == ev.Usage() else end.usage
        parts = (_call_counts(calls) if calls else "", token_counts(usage))
        more = Span("".join(f" · {part}" for part in parts if part), "faint")
        return line(Span(told, role), more, margin=(Span(mark, role),))

    def _summary_of_stream(self) -> Iterator[Line]:
        """Yield the end of a stream that was no run, unless nothing is known beside its failure."""
        state = self._state
        if not state.failures and any(call.error for call in state.calls.values()):
            yield self._summary("■ ", "Ended", "warning")
        elif not state.failures:
            yield self._summary("✓ ", "Done", "good")
        elif state.usage != ev.Usage():
            yield self._summary("✗ ", "Failed", "bad")

    def _attach(self, snapshot: ev.RunSnapshot, now: float) -> None:
        self._leave_all("(output ends here)", now - self._shift)
        turn = f" in turn {snapshot.turns}" if snapshot.turns else ""
        self._scroll.note([_marked("┄ ", f"Attached{turn}. Earlier output:", "faint")])
        self._is_past = True
        for event in RunState.from_snapshot(snapshot, arguments="off").events():
            self.take(event, now)
            self._state.usage, self._state.started_at = snapshot.usage, None
        self._is_past = self._is_untimed

    # What is open

    def _hint(self, command: str) -> str:
        """Return a command about the run; nothing if it can't be found later."""
        run_id = self._state.run_id.removeprefix("run_")
        if self._store is None or not run_id:
            return ""
        return f"argstream {command} run:{visible_line(run_id[:8])}{self._store}"

    @property
    def _compact(self) -> Compact:
        hint = self._hint("watch --full")
        return Compact(self._is_full, f" ({hint})" if hint else "")

    def _start(self, now: float) -> float | None:
        return None if self._is_past else now

    def _leave_all(self, why: str, now: float) -> None:
        self._leave_writing(why, now)
        for call_id in list(self._scroll.running):
            self._leave_running(call_id, why, now)

    def _leave_writing(self, why: str, now: float) -> None:
        self._scroll.is_paused = False
        self._end_texts(now)
        for block in self._calls.values():
            block.leave(why, now)
        self._scroll.release()

    def _leave_running(self, call_id: str, why: str, now: float) -> None:
        running = self._scroll.running.get(call_id)
        if running is not None:
            running.leave(why, now)
            self._scroll.over(call_id)

    # The tail

    def _status(self, now: float) -> Iterator[str]:
        owner, running = self._scroll.writing, self._scroll.running
        if owner is not None and owner.is_over:
            owner = None
        pending = self._pending()
        if pending:
            names = [visible_line(call.name) for call in pending]
            first = ", ".join(names if len(names) <= 4 else names[:3])
            more = f" and {len(names) - 3} more" if len(names) > 4 else ""
            since = pending[0].requested_at or now
            yield f"needs approval: {first}{more} · {duration(now - since)}"
        if owner is not None:
            yield owner.doing
            yield from owner.counters(now)
        if len(running) > 1:
            yield f"{len(running)} tools running"
        for oldest in islice(running.values(), 1):
            if len(running) == 1:
                yield oldest.doing
            if owner is None:
                yield from oldest.counters(now)
        if owner is not None or running:
            silence = now - self._heard
            if silence >= _SILENCE:
                yield f"no output for {int(silence)} s"
        elif self._is_on and not pending:
            waited = now - self._heard
            yield "waiting for the model" + (f" · {duration(waited)}" if waited >= 1 else "")


def _collapsed(blocks: Sequence[Active], now: float, columns: int, room: int) -> Iterator[Line]:
    """Yield a line for each block. If two or more are left out, the last line counts them."""
    kept = len(blocks) if len(blocks) <= room else max(room - 1, 0)
    for block in blocks[:kept]:
        yield _one_line(block, now, columns)
    if len(blocks) > kept and room > 0:
        yield line(Span(f"  … and {len(blocks) - kept} more", "faint"))


def _one_line(block: Active, now: float, columns: int) -> Line:
    """Return what a block is and how far it has come. Its title is cut first."""
    mark = _MARKS.get(block.waits_as, Span(_frame(now) + " ", "good"))
    told = Span("".join(f" · {counter}" for counter in block.counters(now)), "faint")
    label = cut(block.label, max(columns - width(mark.text + told.text), columns // 2))
    spans = (mark, *label, told)
    room = columns - width(text_of(spans))
    newest = block.newest(columns) if isinstance(block, ToolBlock) else ""
    if not newest or room < _LEAST_OUTPUT:
        return Line(spans)
    return Line((*spans, Span(" · ", "faint"), text_span(newest)))


def _frame(now: float) -> str:
    return _FRAMES[int(now * _FRAMES_A_SECOND) % len(_FRAMES)]


def request_lines(
    request: ev.ApprovalRequested, arguments: Sequence[Line], label: Spans = ()
) -> list[Line]:
    """Return a request for approval: the arguments, unless they are above, and the reason.

    It is a box that the keys, or the decision, close. ``label`` names the call once more.
    """
    rule = "" if request.rule is None else f"rule: {visible_line(request.rule)}"
    reason = visible_line(request.reason)
    notes = [f"{reason} ({rule})" if reason and rule else reason or rule]
    if request.expires_at is not None:
        notes.append(f"expires: {clock(request.expires_at)}")
    notes += [f"! {warning}" for warning in request.warnings]
    lines = [Line((Span(note, "warning"),), (), (), "words") for note in notes if note]
    labels = [Line(label, breaks="words")] if label else []
    return [border("╭─ ", "Approval needed"), *map(boxed, [*arguments, *labels, *lines])]


def border(corner: str, title: str) -> Line:
    """Return the upper border of a box, or of a part of it."""
    rule = Span(f" {'─' * (_RULE - len(title))}", "warning")
    return line(Span(corner, "warning"), Span(title, "prompt"), rule, breaks="spaces")


def boxed(line: Line) -> Line:
    """Return a line inside the box. Two columns of its margin make room for the border."""
    rest = None if line.rest is None else _narrowed(line.rest)
    return behind(_BORDER, line._replace(margin=_narrowed(line.margin), rest=rest))


def _narrowed(margin: Spans) -> Spans:
    if not margin or not margin[0].text.startswith("  "):
        return margin
    return Span(margin[0].text[2:], margin[0].role), *margin[1:]


def _early_end(event: ev.TurnCompleted) -> Iterator[Line]:
    if event.characters_read is not None:
        told = f"Stopped reading after {count(event.characters_read, 'character')}"
        yield _marked("■ ", told, "warning")
    elif event.stop in _EARLY:
        yield _marked("! ", f"The reply ended early: {_EARLY[event.stop]}", "warning")


def _failure(message: str, *, is_retryable: bool = False) -> str:
    return f"Failed{because(message)}{' (can be retried)' if is_retryable else ''}"


def _resumed(event: ev.RunResumed, names: Iterable[str]) -> list[Line]:
    why = "after a crash" if event.cause == "crash" else "after a pause"
    calls = ", ".join(map(visible_line, names))
    told = f"Resumed {why}" + (f"; interrupted: {calls}" if calls else "")
    lines = [_marked("▶ ", told, "warning")]
    if event.note:
        lines += [
            Line((text_span(part, "faint"),), _UNDER, _UNDER, "words")
            for part in f"note to the model: {event.note}".split("\n")
        ]
    return lines


def _call_counts(calls: Sequence[Call]) -> str:
    """Return how many calls there were, and how many of them did not simply run."""
    special = Counter(filter(None, map(_special, calls)))
    told = ", ".join(f"{number} {kind}" for kind, number in special.items())
    return count(len(calls), "call") + (f" ({told})" if told else "")


def _special(call: Call) -> str:
    if call.error is not None:
        kind = {"truncated": "incomplete", "aborted": "stopped"}.get(call.verdict or "", "invalid")
        return "blocked" if call.error.reason == "denied" else kind
    if call.decision is not None and call.decision.decision in ("edited", "withdrawn"):
        return "edited" if call.decision.decision == "edited" else "stopped"
    return call.state if call.state in ("denied", "failed") else ""


def _marked(mark: str, told: str, role: Role) -> Line:
    return line(Span(told, role), margin=(Span(mark, role),))
