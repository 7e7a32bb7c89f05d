"""The blocks of a run view: what the model says, the arguments of a call, a tool that runs.

A block grows until it is over. ``settled`` returns its final lines, ``growing`` the others.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentsError,
    ArgumentStarted,
    InvalidVerdict,
    ToolArgsDelta,
    ToolCallStarted,
)
from argstream.jsonstream import JsonPath
from argstream.providers._deltas import FREE_TEXT_KINDS
from argstream.sanitise import visible, visible_line
from argstream.terminal._highlight import Highlighter, is_closed_by, opened_by
from argstream.terminal._layout import break_rows as breaking_rows
from argstream.terminal._layout import expand_tabs, fit, rows_of, width
from argstream.terminal._text import (
    Breaks,
    Line,
    Role,
    Span,
    Spans,
    count,
    duration,
    line,
    path_name,
    shown,
    size,
    text_of,
)
from argstream.terminal.tool_views import ArgumentsView, ToolViews

# Deeper than the lines below it, so that a long title does not look like one of them.
_REST: Final[Spans] = (Span("    "),)
_FIRST: Final = 10
_LAST: Final = 5
_LONGEST: Final = 600
_RESULT: Final = "  └ "
_FAILURE: Final = "  ✗ "
_RESULT_REST: Final = "    "
_AS_ABOVE: Final = "(the output above)"
_BEHIND: Final = 8  # columns: a character is at most as wide, with all that belongs to it
_OUTPUT: Final = "  ┆ "
_UNDER: Final[Spans] = (Span("  "),)
_RUNS: Final = line(Span("runs", "faint"), margin=_UNDER)
_COMPARED: Final = 1_000_000  # characters; of more it is not asked whether the result repeats them
_LONG: Final = 2.0  # seconds; what takes no longer is not worth a word
_HEADING: Final = re.compile(r" {0,3}#{1,6} ")
_MARKED: Final = re.compile(r"(`[^`]+`)|(\*\*[^*]+\*\*)")
_OPENING: Final = re.compile(r"`|\*\*")
# A bar, so that what the model says never looks like a line of ours.
_SAID: Final[Spans] = (Span("│ ", "faint"),)
_THOUGHT: Final[Spans] = (Span("~ ", "thought"),)
_VERDICTS: Final[dict[InvalidVerdict, str]] = {
    "truncated": "cut off",
    "malformed": "malformed",
    "rejected": "rejected",
    "aborted": "aborted",
}
_MOMENT: Final = 1.0  # seconds
_FEW: Final = 200  # bytes
_GOOD: Final[Spans] = (Span("  ✓ ", "good"),)
_BAD: Final[Spans] = (Span("  ✗ ", "bad"),)


class LinePart(NamedTuple):
    """A line, or a part of one."""

    text: str
    is_rest: bool = False  # whether the line began in the part before


class Call:
    def __init__(self, event: ToolCallStarted, view: ArgumentsView | None = None) -> None:
        self.call_id = event.call_id
        self.name = event.name
        self.kind = event.kind
        self.speaker = event.parent_id
        self.arguments: dict[str, Any] | str | None = None  # those that run
        self.is_refused = False  # it was said why it does not run
        self._view = view
        self._title: Spans = ()

    @property
    def title(self) -> Spans:
        return self._title if self._view is None else self._view.title

    def end_writing(self) -> None:
        """Forget the view of its arguments, and keep the title."""
        self._title = self.title
        self._view = None

    @property
    def label(self) -> Spans:
        kind = () if self.kind == "function" else (Span(f" ({self.kind})", "faint"),)
        title = self.title
        return (shown(self.name, "tool"), *kind, *((Span("  "), *title) if title else ()))

    def header(self, dot: Role = "title") -> Line:
        return Line(self.label, (Span("● ", dot),), _REST, "words")

    def header_again(self, what: str = "goes on") -> Line:
        """Return the line that names the call again after lines of others came in between."""
        label = (*self.label, Span(f" … {what}", "faint"))
        return Line(label, (Span("● ", "faint"),), _REST, "words")


class TextBlock:
    waits_as: Final = ""  # no mark says how it ended
    has_begun: Final = False

    def __init__(
        self, speaker: str | None, block: int, began: float | None, *, is_thought: bool
    ) -> None:
        self.speaker = speaker
        self.block = block
        self.is_thought = is_thought
        self.is_over = False
        self.is_known = False  # whether lines of it were committed
        self._timer = Timer(began)
        self.lines = 0
        self.size = 0
        self._text = WrappedText()
        self._markdown = Markdown()
        self._settled: list[Line] = []

    @property
    def subject(self) -> object:
        return self

    @property
    def label(self) -> Spans:
        return (Span("thinking" if self.is_thought else "text"),)

    @property
    def doing(self) -> str:
        return "thinking" if self.is_thought else "writing"

    def counters(self, now: float) -> Iterator[str]:
        if self.size:
            yield from lines_and_size(self.lines, self.size)
        yield from self._timer.said(now)

    def add(self, text: str) -> None:
        self.size += bytes_of(text)
        self.lines += text.count("\n")
        self._settle(self._text.add(text))

    def end(self, now: float) -> None:
        self.is_over = True
        self._timer.stop(now)
        self._settle(self._text.finish())
        if self.is_thought and not self.size:
            told = f"thought{''.join(self._timer.said(now, ' for '))}, and does not say what"
            self._settled.append(Line((Span(told, "faint"),), _THOUGHT, _THOUGHT, "words"))

    def headed(self, lines: list[Line]) -> list[Line]:
        return lines

    def settled(self) -> list[Line]:
        self._settle(self._text.complete_rows())
        settled, self._settled = self._settled, []
        return settled

    def growing(self, columns: int, rows: int) -> list[Line]:
        part = self._text.growing
        if not part.text:
            return []
        return self._text.last_rows(self._line(part, is_final=False), columns, rows)

    def _settle(self, parts: list[LinePart]) -> None:
        self._settled += [self._line(part, is_final=True) for part in parts]

    def _line(self, part: LinePart, *, is_final: bool) -> Line:
        if self.is_thought:
            return Line((text_span(part.text, "thought"),), _THOUGHT, _THOUGHT, "words")
        breaks = self._markdown.breaks
        spans = (self._markdown.final if is_final else self._markdown.growing)(part)
        return Line(spans, _SAID, _SAID, breaks)


class CallBlock:
    def __init__(self, call: Call, view: ArgumentsView, began: float | None) -> None:
        self.call = self.subject = call
        self._view = view
        self.speaker = call.speaker
        self.is_over = False
        self.is_known = False  # whether lines of it were committed
        self._timer = Timer(began)
        self.waits_as = ""  # the mark that says how it ended
        self._amount = Amount()
        self._renamed: list[Line] = []
        self._is_free_text = call.kind in FREE_TEXT_KINDS
        self._open: JsonPath = ()  # the argument that is being written
        self._seen: dict[str, Any] = {}  # arguments that were shown, by name
        self._has_lines = False
        self._ending: list[Line] = []

    def take(
        self, event: ArgumentStarted | ArgumentDelta | ArgumentCompleted | ToolArgsDelta
    ) -> None:
        match event:
            case ToolArgsDelta(delta=text):
                self._amount.write(text)
                if self._is_free_text:
                    self._amount.add(text)
            case ArgumentStarted(path=path):
                self._open = path
            case ArgumentDelta(path=path, text=text):
                self._open = path
                self._amount.add(text)
            case ArgumentCompleted(path=path, value=value):
                self._open = path[:-1]
                self._amount.end_text()
                if len(path) == 1:
                    self._seen[str(path[0])] = value
        self._view.take(event)

    def rename(self, name: str) -> None:
        if name != self.call.name:
            self.call.name = name
            if self.is_known:
                self._renamed = [
                    line(Span("is called ", "warning"), shown(name, "tool"), margin=_UNDER)
                ]

    def complete(self, arguments: dict[str, Any] | str, looks: ToolViews, now: float) -> None:
        self.call.arguments = arguments
        self._end(now)
        if isinstance(arguments, dict) and arguments != self._seen:
            # The provider corrected itself, or the text means something else than it says.
            self._has_lines = True
            self._ending.append(line(Span("this is what it means:", "warning"), margin=_UNDER))
            self._ending += looks.whole(self.call.name, arguments, call_id=self.call.call_id)
        self.waits_as = "✓"
        self._ending += self._completion(now)

    def refuse(self, verdict: InvalidVerdict, error: ArgumentsError, now: float) -> None:
        path = error.path or self._open
        self._end(now)
        self.waits_as = "✗"
        self.call.is_refused = True
        if verdict in ("truncated", "aborted"):
            where = f" after {size(self._amount.size)}"
        else:
            where = "" if error.offset is None else f" at character {error.offset}"
        inside = f", in {path_name(path)}" if path else ""
        message = error.message.removesuffix(f" (at character {error.offset})")
        told = f"{_VERDICTS[verdict]}{where}{inside}{because(message)}"
        self._ending.append(line(Span(told, "bad"), margin=_BAD))

    def leave(self, why: str, now: float) -> None:
        self._end(now)
        self.waits_as = "✗"
        told = ", ".join(self.counters(now))
        self._ending.append(line(Span(f"{why} after {told}", "bad"), margin=_BAD))

    @property
    def label(self) -> Spans:
        return self.call.label

    @property
    def doing(self) -> str:
        return f"writing {visible_line(self.call.name)}"

    def counters(self, now: float) -> Iterator[str]:
        yield from self._amount.said()
        yield from self._timer.said(now)

    @property
    def has_begun(self) -> bool:
        return not self.is_known and (self.is_over or not self._view.is_title_open)

    def headed(self, lines: list[Line]) -> list[Line]:
        goes_on = self.is_known and not self.is_over
        return [self.call.header_again() if goes_on else self.call.header(), *lines]

    def settled(self) -> list[Line]:
        if self.is_over:
            settled, self._ending = self._ending, []
            return settled
        settled = self._renamed + self._view.settled()
        self._renamed = []
        self._see(settled)
        return settled

    def growing(self, columns: int, rows: int) -> list[Line]:
        above = [] if self.is_known else [self.call.header("faint")]
        room = rows - len(above)
        return above[:rows] + last_rows(self._view.growing(room), columns, room)

    def _end(self, now: float) -> None:
        self.is_over = True
        self._timer.stop(now)
        self._ending += [*self._renamed, *self._view.settled(), *self._view.finish()]
        self._see(self._ending)
        self.call.end_writing()

    def _see(self, lines: list[Line]) -> None:
        self._has_lines = self._has_lines or bool(lines)
        self._amount.see(lines)

    def _completion(self, now: float) -> list[Line]:
        took = self._timer.took(now)
        amount = self._amount
        is_short = took is not None and took < _MOMENT and amount.size < _FEW and amount.lines < 2
        if is_short or not self._has_lines:
            return []  # what stands there says it all
        told = ", ".join(amount.said())
        in_all = "".join(self._timer.said(now, " in "))
        return [line(Span(told + in_all, "good"), margin=_GOOD)]


class ToolBlock:
    has_begun: Final = False

    def __init__(
        self, call: Call, began: float | None, attempt: int = 0, *, is_watched: bool = True
    ) -> None:
        """Start; attempt 0 if no event said so.

        Without a tail, a line says that it runs, and none of its output is folded.

        """
        self.call = self.subject = call
        self.speaker = call.speaker
        self.is_over = False
        self.is_known = False  # whether lines of it were committed
        self._timer = Timer(began)
        self._said: list[str] = []  # all output, to compare it with the result
        self._text = WrappedText()
        self._is_watched = is_watched
        self._unseen: list[LinePart] = []  # output that is not final yet
        self._last = LinePart("")
        self._ending: list[Line] = []
        self._beginning = _begins(attempt, is_told=not is_watched)
        self._size = 0
        self.waits_as = ""  # the mark that says how it ended

    def put_out(self, text: str) -> None:
        self._size += len(text)
        if self._size <= _COMPARED:
            self._said.append(text)
        self._see(self._text.add(text))

    def complete(self, result: Any, now: float) -> None:
        self._end("✓", now)
        self._ending += result_lines(result, "".join(self._said))
        self._ending += self._time(now, "faint")

    def fail(self, error: Any, now: float) -> None:
        self._end("✗", now)
        self._ending += failure_lines(error)
        self._ending += self._time(now, "bad")

    def leave(self, why: str, now: float) -> None:
        self._end("✗", now)
        self._ending += failure_lines(why + "".join(self._timer.said(now, " after ")))

    @property
    def label(self) -> Spans:
        return self.call.label

    def newest(self, length: int) -> str:
        growing = self._text.beginning(length)
        return growing if growing.strip() else self._last.text[:length]

    @property
    def doing(self) -> str:
        return f"{visible_line(self.call.name)} runs"

    def counters(self, now: float) -> Iterator[str]:
        yield from self._timer.said(now)

    def headed(self, lines: list[Line]) -> list[Line]:
        if lines[0] is _RUNS:  # one line says both
            return [self.call.header_again("runs"), *lines[1:]]
        goes_on = self.is_known and not self.is_over
        return [self.call.header_again() if goes_on else self.call.header("faint"), *lines]

    def settled(self) -> list[Line]:
        """Return the lines that became final: the output is complete while it streams."""
        if self.is_over:
            settled, self._ending = self._ending, []
            return settled
        self._see(self._text.complete_rows())
        lines = self._beginning + [_output(part) for part in self._unseen]
        self._beginning = []
        self._unseen = []
        return lines

    def growing(self, columns: int, rows: int) -> list[Line]:
        part = self._text.growing
        return self._text.last_rows(_output(part), columns, rows) if part.text else []

    def _see(self, parts: list[LinePart]) -> None:
        self._unseen += parts
        self._last = next((part for part in reversed(parts) if part.text.strip()), self._last)

    def _end(self, mark: str, now: float) -> None:
        self.is_over = True
        self.waits_as = mark
        self._timer.stop(now)
        self._see(self._text.finish())
        self._ending += self._beginning
        if self.is_known or not self._is_watched:
            self._ending += [_output(part) for part in self._unseen]
        elif self._unseen:
            text = "".join("\n" * (not part.is_rest) + part.text for part in self._unseen)
            self._ending += folded_lines(text.removeprefix("\n"), _OUTPUT, _OUTPUT)
        self._unseen = []

    def _time(self, now: float, role: Role) -> list[Line]:
        took = self._timer.took(now)
        if took is None or took < _LONG:
            return []
        return [line(Span(f"ran for {duration(took)}", role), margin=_UNDER)]


def _begins(attempt: int, *, is_told: bool) -> list[Line]:
    if attempt > 1:
        return [line(Span(f"runs again, attempt {attempt}", "warning"), margin=_UNDER)]
    return [_RUNS] if attempt and is_told else []


def _output(part: LinePart) -> Line:
    margin: Spans = (Span(_OUTPUT, "faint"),)
    return Line((text_span(part.text),), margin, margin, "words")


def result_lines(result: Any, output: str = "") -> list[Line]:
    """Return what a tool returned, without what its output has shown already."""
    said = output.strip()
    result = _text_of_blocks(result)
    breaks: Breaks = "words" if isinstance(result, str) else "anywhere"
    if isinstance(result, str):
        text = _without(result, said)
    else:
        if isinstance(result, dict):
            result = {key: _without(value, said) for key, value in result.items()}
        text = json.dumps(result, ensure_ascii=False, default=repr)
    text = text.rstrip("\n")
    if not text or text == _AS_ABOVE:
        return []
    return folded_lines(text, _RESULT, _RESULT_REST, breaks=breaks)


def failure_lines(error: Any) -> list[Line]:
    is_text = isinstance(error, str)
    text = error if is_text else json.dumps(error, ensure_ascii=False, default=repr)
    return folded_lines(text.rstrip("\n") or "failed", _FAILURE, _RESULT_REST, "bad")


def folded_lines(
    text: str, margin: str, rest: str, role: Role = "plain", breaks: Breaks = "words"
) -> list[Line]:
    """Return the lines of a text without the middle of many. A single line is never hidden."""
    texts = text.split("\n")
    hidden = len(texts) - _FIRST - _LAST
    if hidden < 2:
        first, last, between = texts, [], []
    else:
        first, last = texts[:_FIRST], texts[-_LAST:]
        between = [Line((Span(f"… {hidden} more lines", "faint"),), (Span(rest, "faint"),))]
    return [
        *(
            _line(text, rest if place else margin, rest, role, breaks)
            for place, text in enumerate(first)
        ),
        *between,
        *(_line(text, rest, rest, role, breaks) for text in last),
    ]


def _line(text: str, margin: str, rest: str, role: Role, breaks: Breaks) -> Line:
    hidden = len(text) - _LONGEST
    spans = [text_span(text if hidden < 2 else text[:_LONGEST], role)]
    if hidden >= 2:
        spans.append(Span(f" … {hidden} more characters", "faint"))
    margin_role: Role = "bad" if role == "bad" else "faint"
    return Line(tuple(spans), (Span(margin, margin_role),), (Span(rest, margin_role),), breaks)


def _text_of_blocks(result: Any) -> Any:
    """Return the text of a list that holds nothing but blocks of text, as many tools return it."""
    if not isinstance(result, list) or not result:
        return result
    texts = []
    for block in result:
        match block:
            case {"type": "text", "text": str(text), **rest} if not rest:
                texts.append(text)
            case _:
                return result
    return "\n".join(texts)


def _without(value: Any, said: str) -> Any:
    """Return a text without what the output has shown before it."""
    if not said or not isinstance(value, str):
        return value
    if value.strip() == said:
        return _AS_ABOVE
    if value.rstrip().endswith("\n" + said):
        return value.rstrip().removesuffix(said) + _AS_ABOVE
    # A short one may stand there by chance.
    return value.replace(said, _AS_ABOVE, 1) if len(said) > len(_AS_ABOVE) else value


class Markdown:
    def __init__(self) -> None:
        self._fence = ""  # what opened the block of code that we are in
        self._highlighter = Highlighter()
        self._opened = ""  # by the last part, for the rest of the line

    @property
    def breaks(self) -> Breaks:
        return "anywhere" if self._fence else "words"

    def final(self, part: LinePart) -> Spans:
        if self._fence:
            if part.is_rest or not is_closed_by(part.text, self._fence):
                return self._highlighter.line(part.text)
            self._fence = ""
        elif not part.is_rest and (fence := opened_by(part.text)):
            self._fence = fence.marks
            self._highlighter = Highlighter(fence.language)
        else:
            spans = self.growing(part)
            self._opened = _left_open(self._before(part) + part.text)
            return spans
        return (text_span(part.text, "faint"),)

    def growing(self, part: LinePart) -> Spans:
        if self._fence:
            return (text_span(part.text),)
        before = self._before(part)
        if _HEADING.match(before + part.text):
            return (text_span(part.text, "heading"),)
        return tuple(_marked(part.text, before))

    def _before(self, part: LinePart) -> str:
        return self._opened if part.is_rest else ""


def _left_open(text: str) -> str:
    """Return the mark that a text leaves open for the rest of its line."""
    if heading := _HEADING.match(text):
        return heading[0]
    opening = _OPENING.search(_MARKED.sub("", text))
    return opening[0] if opening else ""


def _marked(text: str, before: str) -> Iterator[Span]:
    """Yield a text with its marks, read as if ``before`` stood before it."""
    end = 0
    for match in _MARKED.finditer(before + text):
        start = max(match.start() - len(before), 0)
        if start > end:
            yield text_span(text[end:start])
        role: Role = "code" if match[1] else "strong"
        end = match.end() - len(before)
        yield text_span(text[start:end], role)
    if end < len(text) or not text:
        yield text_span(text[end:])


class WrappedText:
    def __init__(self) -> None:
        self._pieces: list[str] = []  # of the line that grows
        self._is_rest = False
        self._too_many: _Rows | None = None  # rows of it, when it was last shown

    @property
    def growing(self) -> LinePart:
        text = "".join(self._pieces)
        self._pieces = [text] if text else []
        return LinePart(text, self._is_rest)

    def beginning(self, length: int) -> str:
        taken = ""
        for piece in self._pieces:
            taken += piece[: length - len(taken)]
            if len(taken) >= length:
                break
        return taken

    def add(self, piece: str) -> list[LinePart]:
        *complete, rest = piece.split("\n")
        parts: list[LinePart] = []
        for text in complete:
            self._pieces.append(text)
            parts.append(self._end())
        if rest:
            self._pieces.append(rest)
        return parts

    def finish(self) -> list[LinePart]:
        return [self._end()] if self._pieces else []

    def last_rows(self, line: Line, columns: int, rows: int) -> list[Line]:
        seen = rows_of(line, columns)
        if len(seen) > rows:
            margin = min(width(text_of(line.margin)), columns // 2)
            self._too_many = _Rows(max(columns - margin, 1), line.breaks)
        return [Line(row) for row in seen[-rows:]] if rows > 0 else []

    def complete_rows(self) -> list[LinePart]:
        """Return the rows that cannot change any more, if there were too many to be seen."""
        if self._too_many is None:
            return []
        text = self.growing.text
        ends = _ends_of_rows(text, *self._too_many)
        self._too_many = None
        parts = []
        for start, end in pairwise([0, *ends]):
            parts.append(LinePart(text[start:end], self._is_rest))
            self._is_rest = True
        if ends:
            self._pieces = [text[ends[-1] :]]
        return parts

    def _end(self) -> LinePart:
        part = self.growing
        self._pieces, self._is_rest, self._too_many = [], False, None
        return part


def _ends_of_rows(text: str, room: int, breaks: Breaks) -> list[int]:
    """Return where those rows of a text end that stay as they are, whatever follows.

    The end of a row depends on the word behind it, and that on whether it fits on the next one: so
    more than a row must be known behind it.
    """
    text = text.partition("\t")[0]  # how wide a tab is depends on all before it
    shown = text_span(text).text
    starts = [start for start, _ in breaking_rows(shown, room, room, breaks)][1:]
    ends = [start for start in starts if fit(shown, start, room + _BEHIND) < len(shown)]
    if len(shown) == len(text):
        return ends
    # What is spelled out takes more characters than were written.
    lengths = list(accumulate(len(text_span(character).text) for character in text))
    return sorted({bisect_right(lengths, end) for end in ends} - {0})


class _Rows(NamedTuple):
    room: int
    breaks: Breaks


def last_rows(lines: Iterable[Line], columns: int, rows: int) -> list[Line]:
    if rows < 1:
        return []
    return [Line(row) for line in lines for row in rows_of(line, columns)][-rows:]


class Amount:
    """Counts bytes, and lines: of a diff, those that are added and removed."""

    def __init__(self) -> None:
        self.size = 0  # in bytes
        self._before = 0  # lines of the texts before
        self._newlines = 0
        self._is_open = False
        self._added = 0
        self._removed = 0

    @property
    def lines(self) -> int:
        return self._before + self._newlines + self._is_open

    def write(self, text: str) -> None:
        self.size += bytes_of(text)

    def add(self, text: str) -> None:
        if text:
            self._newlines += text.count("\n")
            self._is_open = self._newlines > 0 and not text.endswith("\n")

    def end_text(self) -> None:
        self._before = self.lines
        self._newlines = 0
        self._is_open = False

    def see(self, lines: Iterable[Line]) -> None:
        """Count what became final on the screen: a diff is known by its signs."""
        for row in lines:
            for span in row.margin:
                self._added += span.role == "added"
                self._removed += span.role == "removed"

    def said(self) -> Iterator[str]:
        """Yield the counts. Of a change, the lines of both texts together would mean nothing."""
        if not self._added and not self._removed:
            yield from lines_and_size(self.lines, self.size)
            return
        if self._added and self._removed:
            yield f"{count(self._added, 'line')} added, {self._removed} removed"
        elif self._added:
            yield f"{count(self._added, 'line')} added"
        else:
            yield f"{count(self._removed, 'line')} removed"
        yield size(self.size)


class Timer:
    def __init__(self, began: float | None) -> None:
        self._began = began
        self._ended: float | None = None

    def stop(self, now: float) -> None:
        self._ended = now

    def took(self, now: float) -> float | None:
        if self._began is None:
            return None
        return (now if self._ended is None else self._ended) - self._began

    def said(self, now: float, before: str = "") -> list[str]:
        took = self.took(now)
        return [] if took is None else [before + duration(took)]


def lines_and_size(lines: int, count: int) -> Iterator[str]:
    if lines > 1:
        yield f"{lines} lines"
    yield size(count)


def bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def text_span(text: str, role: Role = "plain") -> Span:
    """Return one line of foreign text: made visible, with its tabs as spaces."""
    return Span(expand_tabs(visible(text)), role)


def clock(seconds: float) -> str:
    """Return a moment in seconds since 1970 as text. It may be beyond all calendars."""
    try:
        moment = datetime.fromtimestamp(seconds).astimezone()
    except (OverflowError, ValueError, OSError):
        return "the end of time"
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def because(reason: str) -> str:
    return f": {visible_line(reason)}" if reason else ""
