"""Arguments by their names: ``name = value``, long texts line by line, whatever is in them."""

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from argstream import events as ev
from argstream.jsonstream import JsonPath
from argstream.terminal._highlight import source_spans
from argstream.terminal._text import Line, Role, Span, Spans, path_name, quoted, shown

FOLD: Final = 8  # lines of a long text that are shown at its beginning; at its end, half as many
_CUT: Final = 500  # how many of the newest characters of a growing line are looked at


def drained(lines: list[Line]) -> list[Line]:
    """Clear a list, and return the lines that it had."""
    taken = lines[:]
    lines.clear()
    return taken


class GrowingText:
    """Collects pieces of a text and returns its lines.

    Linear: a piece is looked at when it comes and when its line is complete.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []  # of the line that grows
        self.length = 0  # of the line that grows

    def add(self, text: str) -> list[str]:
        """Add a piece, and return the lines that it completes, without their newlines."""
        first, *others = text.split("\n")
        self._pieces.append(first)
        self.length += len(first)
        if not others:
            return []
        lines = [self.end(), *others[:-1]]
        self._pieces = [others[-1]]
        self.length = len(others[-1])
        return lines

    def end(self) -> str:
        """Return the line that was growing, since it is complete."""
        line = "".join(self._pieces)
        self._pieces, self.length = [], 0
        return line

    def whole(self) -> str:
        """Return the incomplete line. This copies it."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def tail(self) -> str:
        """Return the end of the line that grows; all of it, unless it ``is_cut``."""
        return self.whole()[-_CUT:]

    @property
    def is_cut(self) -> bool:
        return self.length > _CUT


# What stands before the first row of a line, counted from 1, and before the rest.
Margins = Callable[[int], tuple[Spans, Spans]]
Paint = Callable[[str], Spans]  # colours a line that is complete

BAR: Final[Spans] = (Span("  │ ", "faint"),)

_HELD_LINES: Final = 20  # lines that wait until they are shown

_begins_a_patch: Final = re.compile(
    r"\*\*\* (Begin Patch|(Add|Update|Delete) File: )|diff --git |--- \S|@@ -\d+(,\d+)? \+\d+|@@$"
).match
_PATCH_ROLES: Final[dict[Role, tuple[str, ...]]] = {
    "place": ("+++ ", "--- ", "*** ", "@@", "diff "),
    "faint": ("index ",),
    "added": ("+",),
    "removed": ("-",),
    "plain": ("",),
}


def bar(_number: int) -> tuple[Spans, Spans]:
    return BAR, BAR


def numbered(number: int) -> tuple[Spans, Spans]:
    return (Span(f"{number:6d} │ ", "faint"),), (Span("       │ ", "faint"),)


def paint_plainly(text: str) -> Spans:
    return source_spans([(text, "plain")])


class PaintByFirstLine:
    """Colours the lines of a patch by their first characters, and no other text."""

    def __init__(self, *, is_patch: bool | None = None) -> None:
        self._is_patch = is_patch

    def __call__(self, text: str) -> Spans:
        if self._is_patch is None:
            self._is_patch = _begins_a_patch(text) is not None
        if not self._is_patch:
            return paint_plainly(text)
        role = next(role for role, starts in _PATCH_ROLES.items() if text.startswith(starts))
        return source_spans([(text, role)])


class Block:
    """A text that grows line by line. Its complete lines are written out."""

    def __init__(self, out: list[Line], margins: Margins, paint: Paint = paint_plainly) -> None:
        self._out = out
        self._margins = margins
        self._paint = paint
        self._text = GrowingText()
        self._complete: list[str] = []  # and not written yet
        self._written = 0

    @property
    def lines(self) -> int:
        return self._written + len(self._complete)

    @property
    def has_open_line(self) -> bool:
        return self._text.length > 0

    def add(self, text: str) -> None:
        self.hold(text)
        self.write()

    def hold(self, text: str) -> None:
        """Add the next piece; what it completes can wait until it is shown.

        Colours for a few lines at once cost much less than for each alone, a moment apart.
        """
        self._complete += self._text.add(text)
        if len(self._complete) > _HELD_LINES:
            self.write()

    def write(self) -> None:
        complete, self._complete = self._complete, []
        for text in complete:
            self._written += 1
            margin, rest = self._margins(self._written)
            self._out.append(Line(self._paint(text), margin, rest, fold=FOLD))

    def end(self) -> None:
        """Write the last line as well, which no newline has ended; it may be empty."""
        self._complete.append(self._text.end())
        self.write()

    def finish(self) -> None:
        """Write what is complete, and a line that was cut off."""
        self.write()
        if self.has_open_line:
            self.end()

    def growing(self, rows: int = 1) -> list[Line]:
        """Return the line that grows, from its end if it is long. It is not coloured yet."""
        if not self.has_open_line or rows < 1:
            return []
        margin, rest = self._margins(self.lines + 1)
        cut = (Span("…", "faint"),) if self._text.is_cut else ()
        return [Line(cut + paint_plainly(self._text.tail()), margin, rest)]


INDENT: Final[Spans] = (Span("  "),)
_REST: Final[Spans] = (Span("    "),)
SHORT: Final = 80  # longer strings do not stand behind their name


def value_text(value: Any) -> str:
    """Return a value as JSON, so that ``true`` and ``"true"`` differ; else as Python writes it."""
    if isinstance(value, str):
        return quoted(value)
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError):  # names that are no text, or something that is inside itself
        return repr(value)


def value_line(path: JsonPath, text: str) -> Line:
    return Line((Span(path_name(path), "argument"), Span(" = "), shown(text)), INDENT, _REST)


def note(text: str) -> Line:
    """Return a line of ours among those of the arguments. The text is our own."""
    return said(Span(text, "faint"))


def said(*spans: Span) -> Line:
    """Return a line of ours that may hold foreign text, which is visible already."""
    return Line(spans, INDENT, None, "words")


ArgumentEvent: TypeAlias = ev.ArgumentEvent | ev.ToolArgsDelta
"""What a view is told. ``ToolArgsDelta`` matters only where the arguments are no JSON."""


class ArgumentsView(Protocol):
    """The arguments of one call, as lines: those that are final, and those that still grow.

    A title belongs into the line that names the tool, which comes before all others. So while it is
    open nothing is settled; and once it is not, it stays as it is: what was to be the title and
    comes later is a line as any other.
    """

    def take(self, event: ArgumentEvent) -> None:
        """Handle an event of this call."""

    @property
    def title(self) -> Spans:
        """What stands beside the tool's name, such as a path; () while it is unknown."""

    @property
    def is_title_open(self) -> bool:
        """Whether a title may still come. Until then, the line that names the tool can wait."""

    def settled(self) -> list[Line]:
        """Return the lines that became final since the last call, in their order."""

    def growing(self, rows: int) -> list[Line]:
        """Return the newest of what is not final, at most so many lines.

        The work is bounded, however long the text is. A line that is very long begins with "…": its
        end is what is new.
        """

    def finish(self) -> list[Line]:
        """Return everything that was held back: the call is complete, cut or refused."""


@runtime_checkable
class CustomView(Protocol):
    """A look of your own: anything that makes a view for a call."""

    def view(self, call: ev.ToolCallStarted) -> ArgumentsView:
        """Make the view that is told of this call alone."""


_PATCHES: Final = ("diff", "patch")  # names of arguments that are one, however it begins


class PlainPart:
    """Shows each argument by its name: a string in quotes while it is short, then as a block."""

    def __init__(self, out: list[Line], when_long: Callable[[], None] = lambda: None) -> None:
        """Write to ``out``; ``when_long`` is called when something may become long."""
        self._out = out
        self._when_long = when_long
        self._path: JsonPath | None = None  # of the string that is being written
        self._short = ""  # what came of it, as long as it is short
        self._block: Block | None = None  # once it is long
        self._packed: _Packed | None = None

    def take(self, event: ArgumentEvent) -> None:
        match event:
            case ev.ArgumentStarted(path=path, kind="string"):
                self._path = path
            case ev.ArgumentStarted(path=path, kind="array" | "object"):
                self._unpack()
                self._when_long()
                if event.kind == "array":
                    self._packed = _Packed(path, [])
            case ev.ArgumentDelta(path=path, text=text):
                self._add(path, text)
            case ev.ArgumentCompleted(path=path, value=value):
                self._complete(path, value)

    def growing(self, rows: int) -> list[Line]:
        lines: list[Line] = []
        if self._packed is not None and self._packed.values:
            lines.append(value_line(self._packed.path, f"{self._packed.text}, …"))
        return (lines + (self._block.growing() if self._block else self._unclosed()))[-rows:]

    def finish(self) -> None:
        self._unpack()
        if self._block is not None:
            self._block.finish()
        else:
            self._out += self._unclosed()
        self._path, self._short, self._block = None, "", None

    def _unclosed(self) -> list[Line]:
        """Return a short string that is not complete: it has no closing quote."""
        return [value_line(self._path, quoted(self._short)[:-1])] if self._path is not None else []

    def _add(self, path: JsonPath, text: str) -> None:
        self._path = path  # its beginning may not have been seen
        if self._block is not None:
            self._block.add(text)
            return
        self._short += text
        if len(self._short) > SHORT or "\n" in self._short:
            self._unpack()
            self._when_long()
            self._out.append(Line((Span(path_name(path), "argument"), Span(" =")), INDENT))
            paint = PaintByFirstLine(is_patch=True if path[-1] in _PATCHES else None)
            self._block = Block(self._out, bar, paint)
            self._block.add(self._short)

    def _complete(self, path: JsonPath, value: Any) -> None:
        if isinstance(value, dict | list):
            if self._packed is not None and self._packed.path == path:
                self._out.append(value_line(path, f"{self._packed.text}]"))
                self._packed = None
            elif not value:
                self._out.append(value_line(path, value_text(value)))
            return
        if isinstance(value, str) and self._path is None:  # its beginning was not seen
            self._add(path, value)
        if self._block is not None:
            self._block.end()
        elif self._packed is not None and path[:-1] == self._packed.path:
            self._packed.values.append(value)
            if len(self._packed.text) >= SHORT:
                self._unpack()
        else:
            self._out.append(value_line(path, value_text(value)))
        self._path, self._short, self._block = None, "", None

    def _unpack(self) -> None:
        if self._packed is not None:
            packed, self._packed = self._packed, None
            for index, value in enumerate(packed.values):
                self._out.append(value_line((*packed.path, index), value_text(value)))


class _Packed(NamedTuple):
    """An array that becomes one line if it is short and flat."""

    path: JsonPath
    values: list[Any]

    @property
    def text(self) -> str:
        return f"[{', '.join(map(value_text, self.values))}"


class Part(Protocol):
    """Shows some of the arguments. What is final it appends to the lines of the view."""

    def take(self, event: ArgumentEvent) -> None:
        """Follow what an argument of this part becomes."""

    def growing(self, rows: int) -> list[Line]:
        """Return the newest of what is not final."""

    def finish(self) -> None:
        """Write out what was held back: no more comes."""


@dataclass(frozen=True)
class File:
    """The text of a file, with line numbers, coloured by the file's name or by its language."""

    text: str = "content"
    """The argument that is the text."""
    path: str | None = "path"
    """The argument that says which file."""
    language: str | None = None
    """What it is written in, such as ``python``, if its name does not tell. If there is an argument
    of the name ``language``, it counts too, but only if it comes before the text."""


@dataclass(frozen=True)
class Diff:
    """A text that is replaced by another one, line by line, in place if the file can be read."""

    old: str = "old_string"
    new: str = "new_string"
    path: str | None = "path"
    """The argument that says in which file; None: there is none, so it is not waited for."""
    within: str | None = None
    """The array of objects that have ``old`` and ``new``, if there are several such edits. Each may
    have a ``path`` of its own."""


@dataclass(frozen=True)
class Command:
    """Something that is run: beside the tool's name if it is short, else as lines after ``$``."""

    command: str = "command"
    language: str | None = "bash"


@dataclass(frozen=True)
class Table:
    """An array of flat objects: a row for each."""

    rows: str = "rows"


@dataclass(frozen=True)
class Plain:
    """Each argument by its name, and nothing guessed."""


Declaration: TypeAlias = File | Diff | Command | Table | Plain
Look: TypeAlias = Declaration | CustomView


ReadFile: TypeAlias = Callable[[str], str | None]
# Returns what becomes of the text of a file; None if that is unknown.
FileChange: TypeAlias = Callable[[str], str | None]


class PendingCalls:
    """The calls that have not ended, in the order in which they began."""

    def __init__(self) -> None:
        self._calls: dict[str, Files] = {}
        self._places: dict[str | None, dict[str, int]] = {}  # of the calls of each speaker

    def begin(self, call: ev.ToolCallStarted, read_file: ReadFile | None) -> "Files":
        """Return the files as a call finds them. An earlier call with its ID is forgotten."""
        places = self._places.setdefault(call.parent_id, {})
        # Each turn counts its calls from 0: those that are not before this one are of another turn.
        while places and next(reversed(places.values())) >= call.index:
            self.settle(places.popitem()[0])
        places[call.call_id] = call.index
        files = self._calls[call.call_id] = Files(read_file, self)
        return files

    def again(self, call_id: str | None, read_file: ReadFile | None) -> "Files":
        """Return the files for a call that is shown again, in its place if it has one."""
        files = Files(read_file, self)
        if call_id in self._calls:
            self._calls[call_id] = files
        return files

    def until(self, files: "Files") -> list["Files"]:
        """Return the files of the calls up to this one; only its own if it is not pending."""
        calls = list(self._calls.values())
        return calls[: calls.index(files) + 1] if files in calls else [files]

    def settle(self, call_id: str) -> None:
        """Note that a call has ended, in whichever way: the files show what it changed."""
        self._calls.pop(call_id, None)


class Files:
    """Files as one call finds them, and what it makes of them."""

    def __init__(self, read_file: ReadFile | None, pending: PendingCalls) -> None:
        self._read_file = read_file
        self._pending = pending
        self._changes: list[tuple[str, FileChange]] = []  # with the path of the file

    def text(self, path: str) -> str | None:
        """Return what is in a file after the changes so far; None if that cannot be known."""
        text = None if self._read_file is None else self._read_file(path)
        name = os.path.normpath(path)
        for files in self._pending.until(self):
            for changed, change in files._changes:  # noqa: SLF001 - of its own kind
                if changed == name and text is not None:
                    text = change(text)
        return text

    def change(self, path: str, change: FileChange) -> None:
        """Note what this call makes of a file. It is applied when the text is needed."""
        self._changes.append((os.path.normpath(path), change))


class TitlePart:
    """Offers an argument as the title; it is shown plainly if the offer is declined."""

    def __init__(self, out: list[Line], offer_title: Callable[[str | None], bool]) -> None:
        self._out = out
        self._offer_title = offer_title
        self._lines: list[Line] = []
        self._plain = PlainPart(self._lines)

    def take(self, event: ArgumentEvent) -> None:
        self._plain.take(event)
        if isinstance(event, ev.ArgumentCompleted):
            lines = drained(self._lines)
            self._out += [] if self._offer_title(event.value) else lines

    def growing(self, rows: int) -> list[Line]:
        return (self._lines + self._plain.growing(rows))[-rows:]

    def finish(self) -> None:
        """Write it as far as it came: half a path is no title."""
        self._plain.finish()
        self._out += drained(self._lines)
