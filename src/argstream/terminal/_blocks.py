"""The blocks of a run view: a text of the model, the arguments of a call, a running tool.

A block grows until it is over. ``settled`` returns its final lines, ``growing`` the others.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from argstream import events as ev
from argstream.jsonstream import JsonPath
from argstream.runs import Call
from argstream.runs import TextBlock as Text
from argstream.sanitise import visible, visible_line
from argstream.terminal._highlight import Markdown
from argstream.terminal._layout import behind, break_rows, cut, expand_tabs, fit, rows_of, width
from argstream.terminal._parts import ArgumentsView, Block, GrowingText, drained, value_text
from argstream.terminal._text import (
    Breaks,
    Line,
    Role,
    Span,
    Spans,
    duration,
    line,
    path_name,
    shown,
    size,
    text_of,
)
from argstream.terminal.tool_views import ToolViews

# Deeper than the lines below it, so that a long title does not look like one of them.
_REST: Final[Spans] = (Span("    "),)
_BRIEF: Final = 40  # columns of what stands for a title
# Why a call is incomplete, where the end of the turn or of the stream says the same.
_TOLD_BELOW: Final = ("the turn was cut off", "the provider failed")
_NEAR: Final = 20  # characters that are shown before the one that is not valid
_READY: Final = "●"  # the mark of a call that is complete and has not run
_RESULT_HEAD: Final = 5  # lines of a result; half as many at its end
_ERROR_HEAD: Final = 10
_LONGEST: Final = 600
_AS_ABOVE: Final = "(the output above)"
_BEHIND: Final = 8  # columns: a character is at most as wide, with all that belongs to it
_OUTPUT: Final[Spans] = (Span("  ┆ ", "faint"),)
_UNDER: Final[Spans] = (Span("  "),)
_NEWEST: Final = 1000  # characters of output among which its newest line is looked for
_LONG: Final = 2.0  # seconds; a shorter time is not shown
# A bar, so that text of the model never looks like a line of ours.
_SAID: Final[Spans] = (Span("│ ", "faint"),)
_THOUGHT: Final[Spans] = (Span("~ ", "thought"),)
_denial: Final = re.compile(r"a call to .{1,200}? is denied by the policy(?: \((.*?)\))?: ").match
_ENDS: Final = (".", "!", "?", ":")  # of a sentence
_MOMENT: Final = 1.0  # seconds
_FEW: Final = 200  # bytes
_GOOD: Final[Spans] = (Span("  ✓ ", "good"),)
_BAD: Final[Spans] = (Span("  ✗ ", "bad"),)
_STOPPED: Final[Spans] = (Span("  ■ ", "warning"),)


class Compact(NamedTuple):
    """How much is shown of long texts."""

    is_full: bool = False
    hint: str = ""  # where the rest can be seen


class Fold:
    """Holds back the lines of a long text after the first ones, until the text ends."""

    def __init__(self, compact: Compact) -> None:
        self.is_full, self._hint = compact
        self._count = 0  # lines of the current text
        self.held: list[Line] = []
        self.hides = False  # whether lines were left out

    def add(self, lines: Iterable[Line]) -> list[Line]:
        """Add lines, and return those that are final."""
        final: list[Line] = []
        for one in lines:
            if not one.fold or self.is_full:
                final += [*self.end(), one]
            elif self._count < one.fold:
                self._count += 1
                final.append(one)
            else:
                self.held.append(one)
        return final

    def end(self) -> list[Line]:
        """Return the held lines: all of them, or a note and the last ones."""
        held, self.held, self._count = self.held, [], 0
        last = held[0].fold // 2 if held else 0
        hidden = len(held) - last
        if self.is_full or hidden < 2:
            return held
        self.hides = True
        margin = held[0].margin if held[0].rest is None else held[0].rest
        note = Span(f"… {hidden} more lines{self._hint}", "faint")
        return [Line((note,), margin, margin, "words"), *held[-last:]]


def _place_in(text: str, offset: int) -> Spans:
    """Return the end of a text up to a character, which is marked."""
    before = text[max(offset - _NEAR, 0) : offset]
    cut_off = Span("…" if offset > _NEAR else "", "faint")
    return Span(": ", "bad"), cut_off, shown(before), shown(text[offset : offset + 1], "key")


def _beginning_of(arguments: Any) -> Spans:
    """Return the beginning of the first text among arguments: it tells calls apart."""
    values = arguments.values() if isinstance(arguments, dict) else ()
    text = next((one.strip() for one in values if isinstance(one, str) and one.strip()), "")
    return cut((shown(text.split("\n")[0][:_BRIEF], "title"),), _BRIEF - 1) if text else ()


class _Block:
    def __init__(self, speaker: str | None, began: float | None) -> None:
        self.speaker = speaker
        self.subject: object = self  # what its lines are about
        self.is_over = False
        self.is_known = False  # whether lines of it were committed
        self.waits_as = ""  # the mark that says how it ended
        self.began = began  # None if that is unknown
        self._ended: float | None = None
        self._lines: list[Line] = []  # that are not committed yet

    def settled(self) -> list[Line]:
        """Return the lines that became final."""
        lines, self._lines = self._lines, []
        return lines

    def took(self, now: float) -> float | None:
        """Return the seconds that it took, so far; None if it is not known when it began."""
        if self.began is None:
            return None
        return (now if self._ended is None else self._ended) - self.began

    def counters(self, now: float) -> Iterator[str]:
        yield from self.said_time(now)

    def said_time(self, now: float, before: str = "") -> list[str]:
        took = self.took(now)
        return [] if took is None else [before + duration(took)]

    @property
    def has_begun(self) -> bool:
        return False

    @property
    def is_held(self) -> bool:
        """Whether it is over, and its last lines wait."""
        return False

    def release(self) -> None:
        """Return the last lines from now on."""


class Note(_Block):
    """Lines of ours, which are final at once."""

    def __init__(self, lines: Sequence[Line], head: "CallBlock | None" = None) -> None:
        super().__init__(None if head is None else head.speaker, None)
        self.subject = head or self
        self.is_over = True
        self._head = head
        self._lines = list(lines)

    def headed(self, lines: list[Line]) -> list[Line]:
        """Return the lines below a header. Lines about no call need none."""
        return lines if self._head is None else [self._head.again(), *lines]


class TextBlock(_Block):
    """A text of the model. Of a line with many rows, the first are final before the others."""

    def __init__(self, block: Text, began: float | None) -> None:
        super().__init__(block.parent_id, began)
        self.block = block
        self._margin = _THOUGHT if block.is_thinking else _SAID
        self._markup = Markdown()
        self._text = GrowingText()
        self._newlines = self._bytes = 0
        self._is_blank = False  # whether a blank line waits for text below it
        self._too_many: tuple[int, Breaks] | None = None  # rows of it, when it was last shown

    @property
    def label(self) -> Spans:
        return (Span("thinking" if self.block.is_thinking else "text"),)

    @property
    def doing(self) -> str:
        return "thinking" if self.block.is_thinking else "writing"

    def counters(self, now: float) -> Iterator[str]:
        if self._bytes:
            yield from lines_and_size(self._newlines, self._bytes)
        yield from self.said_time(now)

    def goes_on_with(self, block: Text, text: str) -> bool:
        """Return whether a block is the rest of this text: providers split it to cite sources."""
        last, is_thinking = self._text.whole()[-1:], self.block.is_thinking or block.is_thinking
        is_sentence = last in _ENDS and text[:1].isalnum()  # another message, with no blank between
        is_apart = is_thinking or is_sentence or self.block.turn != block.turn
        if self.block is block or (text and not is_apart):
            self.block = block
        return self.block is block or not (text or is_thinking)

    def add(self, text: str) -> None:
        self._newlines += text.count("\n")
        self._bytes += bytes_of(text)
        for complete in self._text.add(text):
            self._commit(complete, is_whole=True)

    def end(self, now: float) -> None:
        self.is_over, self._ended = True, now
        if self._text.length:
            self._commit(self._text.end(), is_whole=True)
        self._lines += self._behind_margin(self._markup.finish())
        if self.block.is_thinking and not self._bytes:
            told = f"Thought{''.join(self.said_time(now, ' for '))} (hidden)"
            self._lines.append(Line((Span(told, "faint"),), _THOUGHT, _THOUGHT, "words"))

    def headed(self, lines: list[Line]) -> list[Line]:
        return lines

    def settled(self) -> list[Line]:
        if self._too_many is not None and (end := self._end_of_rows(*self._too_many)):
            text = self._text.end()
            self._text.add(text[end:])
            self._commit(text[:end], is_whole=False)
        self._too_many = None
        return super().settled()

    def growing(self, columns: int, rows: int) -> list[Line]:
        held = self._behind_margin(self._markup.held)
        last: list[Line] = []
        if text := self._text.whole():
            (line,) = self._behind_margin([self._markup.growing(text)])
            last = [Line(row) for row in rows_of(line, columns)]
            if len(last) > rows:
                margin = min(width(text_of(line.margin)), columns // 2)
                self._too_many = max(columns - margin, 1), line.breaks
                last = last[-rows:] if rows > 0 else []
        room = rows - len(last)
        return last_rows(held[-max(room, 0) :], columns, room) + last

    def _commit(self, text: str, *, is_whole: bool) -> None:
        """Commit a complete line, or the beginning of one. Of blank lines in a thought, one."""
        if self.block.is_thinking and is_whole and not text.strip():
            self._is_blank = self.is_known or bool(self._lines)
            return
        if self._is_blank:
            self._is_blank = False
            self._lines.append(Line((), self._margin))
        self._lines += self._behind_margin(self._markup.add(text, is_whole=is_whole))
        self._too_many = None

    def _behind_margin(self, lines: Iterable[Line]) -> list[Line]:
        if self.block.is_thinking:
            lines = (
                one._replace(spans=tuple(Span(span.text, "thought") for span in one.spans))
                for one in lines
            )
        return [behind(self._margin, line) for line in lines]

    def _end_of_rows(self, room: int, breaks: Breaks) -> int:
        """Return where the rows of the text end that stay as they are, whatever follows.

        The end of a row depends on the word behind it, and that on whether it fits on the next
        one: so more than a row must be known behind it.
        """
        # How wide a tab is depends on all before it.
        text, render = self._text.whole().partition("\t")[0], self._markup.shown
        shown = render(text)
        starts = [start for start, _ in break_rows(shown, room, room, breaks)][1:]
        ends = [start for start in starts if fit(shown, start, room + _BEHIND) < len(shown)]
        # What is spelled out takes more characters than were written; marks take none.
        for end in reversed(ends):
            row = shown[:end].rstrip()
            alone = [start for start, _ in break_rows(row, room, room, breaks)][1:]
            if alone != starts[: len(alone)] or len(alone) != starts.index(end):
                continue  # without what follows, its last word would be broken elsewhere
            place = end
            if shown != text:
                lengths = range(len(text) + 1)
                place = bisect_right(lengths, len(row), key=lambda one: len(render(text[:one]))) - 1
                place += len(text[place:]) - len(text[place:].lstrip(" "))
            if place < 1 or render(text[:place]).rstrip() != row:
                continue
            if self._markup.is_final(text[:place], text[place : place + 1]):
                return place
        return 0


class CallBlock(_Block):
    """The arguments of a call, below a line that names it: ``● write_file  src/app.py``.

    When they are complete, they are held until it is known whether the call needs approval: then
    they are shown in full.
    """

    def __init__(
        self, call: Call, view: ArgumentsView, compact: Compact, began: float | None
    ) -> None:
        super().__init__(call.parent_id, began)
        self.call = call
        self.is_eager = False  # whether its name is shown before its first line
        self._view = view
        self._fold = Fold(compact)
        self._amount = Amount()
        self._open: JsonPath = ()  # the argument that is being written
        self._seen: dict[str, Any] = {}  # arguments that were shown, by name
        self.lines = 0  # of the arguments, shown or not
        self._is_released = False
        self._is_bare = False  # the request shows the arguments
        self._is_titled = False  # it has a title, and lines were final before its end

    @property
    def title(self) -> Spans:
        return self._view.title

    @property
    def label(self) -> Spans:
        """The name and the title or, without one, the beginning of the first text."""
        return self._named(self.title or _beginning_of(self.call.arguments))

    def head(self, dot: Role = "title", *, has_title: bool = True) -> Line:
        label = self._named(self.title) if has_title else (shown(self.call.name, "tool"),)
        return Line(label, (Span("● ", dot),), _REST, "words")

    def again(self, what: str = "") -> Line:
        """Return the line that names the call again, below lines of others."""
        label = (*self.label, Span(f" {what}" if what else "", "faint"))
        return Line(label, (Span("└ ", "faint"),), _REST, "words")

    def _named(self, title: Spans) -> Spans:
        call = self.call
        kind = () if call.kind == "function" else (Span(f" ({call.kind})", "faint"),)
        return (shown(call.name, "tool"), *kind, *((Span("  "), *title) if title else ()))

    @property
    def is_held(self) -> bool:
        return self.is_over and not self._is_released

    @property
    def is_unseen(self) -> bool:
        """Whether the request can show the arguments: nothing else would be on the screen."""
        return self.is_held and not self.is_known and not self._is_titled

    @property
    def hides(self) -> bool:
        """Whether some of the arguments were not shown."""
        return self._fold.hides or self._is_bare

    def take(self, event: ev.ArgumentEvent | ev.ToolArgsDelta) -> None:
        match event:
            case ev.ToolArgsDelta(delta=text) if self.call.is_free_text:
                self._amount.add(text)
            case ev.ArgumentStarted(path=path):
                self._open = path
            case ev.ArgumentDelta(path=path, text=text):
                self._open = path
                self._amount.add(text)
            case ev.ArgumentCompleted(path=path, value=value):
                self._open = path[:-1]
                self._amount.end_text()
                if len(path) == 1:
                    self._seen[str(path[0])] = value
        self._view.take(event)

    def rename(self) -> None:
        if self.is_known:
            name = shown(self.call.name, "tool")
            self._lines.append(line(Span("is called ", "warning"), name, margin=_UNDER))

    def complete(self, views: ToolViews, now: float, *, is_run: bool) -> None:
        """End with complete arguments. In a run, the result says the rest."""
        call = self.call
        lines: list[Line] = []
        if isinstance(call.arguments, dict) and call.arguments != self._seen:
            # The provider corrected itself, or the text means something else than it says.
            lines.append(line(Span("Interpreted as:", "warning"), margin=_UNDER))
            lines += views.whole(call.name, call.arguments, call_id=call.call_id)
        self._end(now, lines)
        self.waits_as = _READY
        self._lines += [] if is_run else self._completion(now)

    def refuse(self, now: float) -> None:
        """End with arguments that are not valid: show where, and why."""
        call, error = self.call, self.call.error
        path = (error.path if error else ()) or self._open
        self._end(now, [])
        self.release()
        self.waits_as = "✗"
        inside = path_name(path) if path else "the arguments"
        amount = size(self._size)
        why = error.message.removesuffix(f" (at character {error.offset})") if error else ""
        margin = _BAD
        near: Spans = ()
        match call.verdict:
            case "truncated":
                # The parser says nothing more, and the end of the turn is told below.
                is_new = error and why == error.message and not why.startswith(_TOLD_BELOW)
                more = because(why) if is_new else ""
                told = f"Incomplete: ended while writing {inside} ({amount}){more}"
            case "aborted":
                more = "" if why == "reading was stopped" else because(why)
                told = f"Stopped while writing {inside} ({amount}){more}"
                margin = _STOPPED
            case "malformed":
                told = f"Invalid JSON in {inside}{because(why)}"
                if error is not None and error.offset is not None and why != error.message:
                    near = _place_in(call.raw, error.offset)
            case _ if error is not None and error.reason == "denied":
                denial = _denial(why)
                rule = f" rule “{visible_line(denial[1])}”" if denial and denial[1] else ""
                told = f"Blocked by policy{rule}{because(why[denial.end() if denial else 0 :])}"
            case _:
                is_named = not path or f"'{inside}'" in why
                told = f"Invalid arguments{'' if is_named else f' in {inside}'}{because(why)}"
        self._lines.append(line(Span(told, margin[0].role), *near, margin=margin))

    def leave(self, why: str, now: float) -> None:
        """End where the call was cut off, unless it is over."""
        if self.is_over:
            return
        self._end(now, [])
        self.release()
        self.waits_as = "✗"
        told = ", ".join(self.counters(now))
        self._lines.append(line(Span(f"{why} after {told}", "warning"), margin=_STOPPED))

    def release(self, *, is_full: bool = False) -> None:
        self._is_released = True
        self._fold.is_full |= is_full

    def leave_to_request(self) -> None:
        """Show only the name: the request shows the arguments."""
        self._is_bare = self._is_released = True
        self._lines.clear()
        self._fold.held.clear()

    @property
    def doing(self) -> str:
        return f"writing {visible_line(self.call.name)}"

    def counters(self, now: float) -> Iterator[str]:
        if self.waits_as == _READY:
            yield "ready"
            return
        yield from self._amount.said(self._size)
        yield from self.said_time(now)

    @property
    def _size(self) -> int:
        return bytes_of(self.call.raw)

    @property
    def has_begun(self) -> bool:
        is_named = self.is_eager and not self._view.is_title_open
        return not self.is_known and (self.is_over or self.lines > 0 or is_named)

    def headed(self, lines: list[Line]) -> list[Line]:
        if self.is_known:
            return [self.again("" if self.is_over else "(continued)"), *lines]
        return [self.head(has_title=not self._is_bare), *lines]

    def settled(self) -> list[Line]:
        if not self.is_over:
            self._add(self._view.settled())
        lines = self._fold.add(super().settled())
        return lines + self._fold.end() if self.is_over else lines

    def growing(self, columns: int, rows: int) -> list[Line]:
        above = [] if self.is_known else [self.head("faint")]
        room = rows - len(above)
        lines = self._fold.held + self._lines + ([] if self.is_over else self._view.growing(room))
        last = last_rows(lines[-max(room, 0) :], columns, room)
        if self._fold.held and room > 1 and len(last) == room:  # there may be lines in between
            kept = list[Line]()
            while lines and len(kept) + len(one := last_rows(lines[-1:], columns, room)) < room:
                kept, lines = one + kept, lines[:-1]
            if len(lines) > 1:
                last = [line(Span(f"… {len(lines)} lines", "faint"), margin=_REST), *kept]
        return above[:rows] + last

    def _end(self, now: float, more: list[Line]) -> None:
        self.is_over, self._ended = True, now
        begun = self._view.settled()
        self._is_titled = bool(begun and self.title)
        self._add([*begun, *self._view.finish(), *more])

    def _add(self, lines: list[Line]) -> None:
        self.lines += len(lines)
        self._amount.see(lines)
        self._lines += lines

    def _completion(self, now: float) -> list[Line]:
        took, amount = self.took(now), self._amount
        is_quick = took is None or took < _MOMENT
        is_short = is_quick and self._size < _FEW and amount.lines < 2
        if is_short or not self.lines:
            return []
        told = ", ".join(amount.said(self._size))
        in_all = "".join(self.said_time(now, " in "))
        return [line(Span(told + in_all, "good"), margin=_GOOD)]


class ToolBlock(_Block):
    """A running tool: its output, then its result."""

    def __init__(
        self,
        head: CallBlock,
        compact: Compact,
        began: float | None,
        attempt: int = 0,
        *,
        is_watched: bool = True,
    ) -> None:
        """Start; attempt 0 if no event reported the start. Without a tail, no output is folded."""
        super().__init__(head.speaker, began)
        self.head = self.subject = head
        self.label = head.label
        self._compact = compact
        self._out: list[Line] = []  # that is not final yet
        self.text = Block(self._out, lambda _: (_OUTPUT, _OUTPUT))
        # A crash may have ended attempts before this one.
        self._start = len(head.call.output) if attempt else 0
        self._fold = Fold(compact if is_watched else compact._replace(is_full=True))
        if attempt > 1:
            told = Span(f"running again (attempt {attempt})", "warning")
            self._lines.append(line(told, margin=_UNDER))

    def end(self, now: float) -> None:
        call = self.head.call
        is_good = call.outcome == "completed"
        self._end("✓" if is_good else "✗", now)
        if is_good:
            self._lines += result_lines(call.result, self._compact, call.output[self._start :])
        else:
            self._lines += failure_lines(call.result, self._compact)
        took = self.took(now)
        if took is not None and took >= _LONG:
            told = Span(f"took {duration(took)}", "faint" if is_good else "bad")
            self._lines.append(line(told, margin=_UNDER))

    def leave(self, why: str, now: float) -> None:
        self._end("✗", now)
        told = why + "".join(self.said_time(now, " after "))
        self._lines.append(line(Span(told, "warning"), margin=_STOPPED))

    def newest(self, length: int) -> str:
        """Return the beginning of the newest line of output that is not blank."""
        lines = self.head.call.output[-_NEWEST:].split("\n")
        return next((one for one in reversed(lines) if one.strip()), "")[:length]

    @property
    def doing(self) -> str:
        return f"running {visible_line(self.head.call.name)}"

    def headed(self, lines: list[Line]) -> list[Line]:
        is_part = self.is_known and not self.is_over
        return [self.head.again("(continued)" if is_part else ""), *lines]

    def settled(self) -> list[Line]:
        """Return the lines that became final: the output is complete while it streams."""
        if not self.is_over:
            self.text.write()
            self._lines += self._fold.add(drained(self._out))
        return super().settled()

    def growing(self, columns: int, rows: int) -> list[Line]:
        return last_rows(self._fold.held[-max(rows, 0) :] + self.text.growing(), columns, rows)

    def _end(self, mark: str, now: float) -> None:
        self.is_over, self._ended = True, now
        self.waits_as = mark
        self.text.finish()
        self._lines += [*self._fold.add(drained(self._out)), *self._fold.end()]


def result_lines(result: Any, compact: Compact, output: str = "") -> list[Line]:
    """Return what a tool returned, without what its output has shown already."""
    said = output.strip()
    result = _text_of_blocks(result)
    breaks: Breaks = "words" if isinstance(result, str) else "spaces"
    if isinstance(result, str):
        text = _without(result, said)
    else:
        if isinstance(result, dict):
            result = {key: _without(value, said) for key, value in result.items()}
        text = value_text(result)
    text = text.rstrip("\n")
    if not text or text == _AS_ABOVE:
        return []
    return folded_lines(text, "  └ ", "plain", breaks, head=_RESULT_HEAD, compact=compact)


def failure_lines(error: Any, compact: Compact) -> list[Line]:
    text = error if isinstance(error, str) else value_text(error)
    told = f"Failed: {text.rstrip()}" if text.rstrip() else "Failed"
    return folded_lines(told, "  ✗ ", "bad", "words", head=_ERROR_HEAD, compact=compact)


def folded_lines(
    text: str, margin: str, role: Role, breaks: Breaks, *, head: int, compact: Compact
) -> list[Line]:
    """Return the lines of a text without the middle of many. A single line is never hidden."""
    margin_role: Role = "bad" if role == "bad" else "faint"
    first, rest = (Span(margin, margin_role),), (Span("    ", margin_role),)
    lines: list[Line] = []
    for text_line in text.split("\n"):
        hidden = 0 if compact.is_full else len(text_line) - _LONGEST
        spans = [text_span(text_line if hidden < 2 else text_line[:_LONGEST], role)]
        if hidden >= 2:
            spans.append(Span(f" … {hidden} more characters", "faint"))
        lines.append(Line(tuple(spans), rest if lines else first, rest, breaks, head))
    fold = Fold(compact)
    return [*fold.add(lines), *fold.end()]


def _text_of_blocks(result: Any) -> Any:
    """Return the text of a list that holds nothing but blocks of text, as many tools return it."""
    texts = []
    for block in result if isinstance(result, list) else ():
        match block:
            case {"type": "text", "text": str(text), **rest} if not rest:
                texts.append(text)
            case _:
                return result
    return "\n".join(texts) if texts else result


def _without(value: Any, said: str) -> Any:
    """Return a text without what the output has shown before it."""
    if not said or not isinstance(value, str):
        return value
    if value.strip() == said:
        return _AS_ABOVE
    if value.rstrip().endswith("\n" + said):
        return value.rstrip().removesuffix(said).rstrip()
    # A short one may stand there by chance.
    return value.replace(said, _AS_ABOVE, 1) if len(said) > len(_AS_ABOVE) else value


def last_rows(lines: Iterable[Line], columns: int, rows: int) -> list[Line]:
    if rows < 1:
        return []
    return [Line(row) for line in lines for row in rows_of(line, columns)][-rows:]


class Amount:
    """Counts lines: of a diff, those that are added and removed."""

    def __init__(self) -> None:
        self._before = 0  # lines of the texts before
        self._newlines = 0
        self._is_open = False
        self._added = 0
        self._removed = 0

    @property
    def lines(self) -> int:
        return self._before + self._newlines + self._is_open

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

    def said(self, in_bytes: int) -> Iterator[str]:
        """Yield the counts. Of a change, the lines of both texts together would mean nothing."""
        if self._added or self._removed:
            yield f"+{self._added} -{self._removed} lines"
        yield from lines_and_size(0 if self._added or self._removed else self.lines, in_bytes)


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
