"""How the arguments of a call look while they are written: a file, a diff, a command, a table.

Each argument goes to the part that shows it. What an argument is was declared by the user
(``Declared``), or is guessed by the names of tools and arguments and by the schema (``Guessed``).
"""

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from argstream import events as ev
from argstream.errors import UsageError
from argstream.history import CallKind
from argstream.jsonstream import JsonPath, Kind
from argstream.jsonstream._fragments import kind_of
from argstream.providers._deltas import FREE_TEXT_KINDS
from argstream.sanitise import visible_line
from argstream.terminal._diff import DiffNames, DiffPart
from argstream.terminal._highlight import Highlighter
from argstream.terminal._layout import width
from argstream.terminal._parts import (
    BAR,
    FOLD,
    INDENT,
    ArgumentEvent,
    ArgumentsView,
    Block,
    Command,
    CustomView,
    Declaration,
    Diff,
    File,
    Files,
    Look,
    PaintByFirstLine,
    Part,
    PendingCalls,
    Plain,
    PlainPart,
    ReadFile,
    Table,
    TitlePart,
    bar,
    drained,
    note,
    numbered,
    said,
    value_text,
)
from argstream.terminal._text import Line, Role, Span, Spans, shown, text_of, words
from argstream.validation import Schema, ToolSpec

__all__ = ["MAX_BYTES", "ToolViews", "file_reader"]

MAX_BYTES: Final = 2_000_000
# What an argument is; `array`: it depends on what is in it.
Purpose: TypeAlias = Literal[
    "path", "title", "text", "language", "old", "new", "edits", "command", "rows", "array", "plain"
]
_BESIDE: Final = 72  # characters that fit beside the name of a tool
_HELD_ROWS: Final = 5  # rows that are known before the columns get their widths
_WIDE: Final = 72  # columns that most screens have, beside the margin
_GAP: Final = "  "
_MAX_TITLE: Final = 200
_CODE = File(language="python")  # what providers run themselves
_PATHS: Final = words(
    "path file_path filepath filePath file filename file_name fileName target_file targetFile "
    "absolute_path relative_path notebook_path AbsolutePath TargetFile"
)
_TITLES: Final = words("query url pattern name")  # they tell calls apart
_CONTENTS: Final = words("content contents")
_TEXTS: Final = words("text source body data new_source")
_CERTAIN_TEXTS: Final = words(
    "file_text fileText file_content file_contents fileContent CodeContent"
)
_CODE_LANGUAGES: Final = {
    "code": None,
    "source_code": None,
    "python": "python",
    "python_code": "python",
    "javascript": "javascript",
    "sql": "sql",
    "html": "html",
}
_OLD_AND_NEW: Final = ("", "_string", "_str", "_text", "_content", "_code", "String", "Text", "Str")
_EDITS: Final = (
    *((f"old{what}", f"new{what}") for what in _OLD_AND_NEW),
    ("original", "replacement"),
    ("original_text", "new_text"),
    ("search", "replace"),
    ("find", "replace"),
    ("search", "replacement"),
    ("find", "replacement"),
    ("pattern", "replacement"),
)
# Names that mean something else in a tool that does not edit.
_UNSURE: Final = words("search find pattern original replace replacement")
_COMMANDS: Final = words("command cmd script shell_command bash_command CommandLine")
_LANGUAGES: Final = ("python", "javascript", "typescript", "sql", "bash", "ruby", "php", "lua")
_WRITES: Final = words("write create save file append overwrite put insert")
_CHANGES: Final = words("edit edits replace patch modify update substitute multiedit")
_find_words: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+").findall
_Answer = TypeVar("_Answer")


class ToolViews:
    """How the arguments of each tool look."""

    def __init__(
        self,
        looks: Mapping[str, Look] | None = None,
        *,
        tools: Iterable[ToolSpec] = (),
        read_file: ReadFile | None = None,
    ) -> None:
        """Register looks by the names of tools.

        The schemas of ``tools`` help to guess the looks of the others. With ``read_file``, such as
        ``file_reader`` makes, edits are shown in their place.
        """
        self._looks = dict(looks or {})
        self._tools = {tool.name: tool for tool in tools}
        self._read_file = read_file
        self._pending = PendingCalls()
        for name, look in self._looks.items():
            if isinstance(look, type) or not isinstance(look, Declaration | CustomView):
                raise UsageError(
                    f"the look of {name!r} must be File(…), Diff(…), Command(…), Table(…), Plain() "
                    f"or something with a view(call) method, not {look!r}"
                )

    def view(self, call: ev.ToolCallStarted, *, is_past: bool = False) -> ArgumentsView:
        """Make the view of one call.

        Edits are shown as they apply after those of the calls before it in its turn. Of a call that
        is past, the files of that time are unknown: they are not read.
        """
        files = self._pending.begin(call, None if is_past else self._read_file)
        return self._view(call, self._looks.get(call.name), files, has_title=True)

    def whole(
        self, name: str, arguments: Mapping[str, Any] | str, *, call_id: str | None = None
    ) -> list[Line]:
        """Show complete arguments at once, title included: nothing is left out, ever.

        A look of your own may leave something out, so everything is shown plainly after it. With
        the ID of a call of which a view was made, it comes after the calls before that one.
        """
        kind: CallKind = "custom" if isinstance(arguments, str) else "function"
        call = ev.ToolCallStarted(call_id or "", 0, name, kind)
        files = self._pending.again(call_id, self._read_file)
        events: list[ArgumentEvent] = list(_events(name, arguments))
        if isinstance(arguments, str):
            events = [ev.ToolArgsDelta("", name, arguments)]
        look = self._looks.get(name)
        view = self._view(call, look, files, has_title=False)
        lines = _all_lines(view, events)
        if not isinstance(look, CustomView):
            return lines
        if view.title:
            lines.insert(0, said(*view.title))
        plain = self._view(call, Plain(), files, has_title=False)
        return [*lines, note("all arguments:"), *_all_lines(plain, events)]

    def settle(self, call_id: str) -> None:
        """Note that a call has ended, in whichever way: the files show what it did."""
        self._pending.settle(call_id)

    def _view(
        self, call: ev.ToolCallStarted, look: Look | None, files: Files, *, has_title: bool
    ) -> ArgumentsView:
        if isinstance(look, CustomView):
            plain = self._view(call, Plain(), files, has_title=False)
            return GuardedView(partial(look.view, call), plain)
        if call.kind in FREE_TEXT_KINDS:
            return FreeTextView(call.kind, look)
        known = Guessed(call.name, self._tools.get(call.name)) if look is None else Declared(look)
        return CallView(known, files, has_title=has_title)


def _all_lines(view: ArgumentsView, events: Iterable[ArgumentEvent]) -> list[Line]:
    for event in events:
        view.take(event)
    return view.settled() + view.finish()


def _events(name: str, value: Any, path: JsonPath = ()) -> Iterator[ArgumentEvent]:
    """Yield the events of all that is in a value."""
    is_object = isinstance(value, Mapping)
    items = value.items() if is_object else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        # JSON has only texts as names, but code may have others.
        inside = (*path, repr(key) if is_object and not isinstance(key, str) else key)
        if (kind := kind_of(item)) is not None:
            yield ev.ArgumentStarted("", name, inside, kind)
        if isinstance(item, str) and item:
            yield ev.ArgumentDelta("", name, inside, item)
        yield from _events(name, item, inside)
        yield ev.ArgumentCompleted("", name, inside, item)


def file_reader(root: Path) -> Callable[[str], str | None]:
    """Make a function that reads text files by the paths that a model writes.

    A relative path is meant from ``root`` on. None is given for all that is no regular file, larger
    than ``MAX_BYTES``, no UTF-8, or cannot be read. It never waits, as for a pipe that no process
    writes to. What it reads is shown to the person at the terminal, and goes nowhere else.
    """

    def read(path: str) -> str | None:
        try:
            content = read_regular_file(root / path, MAX_BYTES + 1)
            return content.decode() if len(content) <= MAX_BYTES else None
        except (OSError, ValueError):  # ValueError: a path with a NUL, or no UTF-8
            return None

    return read


def read_regular_file(path: Path, most: int = -1) -> bytes:
    """Return the first bytes of a file. Raise OSError if it is none; a pipe is not waited for."""
    # Opened first and looked at then: what a name stands for can change in between.
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no longer a file")
        return file.read(most)


def _without_waiting(path: str, flags: int) -> int:
    # Windows has neither.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


class Declared:
    def __init__(self, look: Declaration) -> None:
        self._texts: dict[str | None, Purpose] = {}
        self._arrays: dict[str | None, Purpose] = {}
        self._language = look.language if isinstance(look, File | Command) else None
        self.may_have_path: bool = isinstance(look, File | Diff) and look.path is not None
        self.may_have_title: bool = self.may_have_path or isinstance(look, Command)
        self.diff_names: DiffNames = DiffNames(frozenset(), frozenset(), frozenset())
        match look:
            case File(text, path):
                self._texts = {"language": "language", path: "path", text: "text"}
            case Diff(old, new, path, within):
                paths = frozenset() if path is None else frozenset({path})
                self.diff_names = DiffNames(frozenset({old}), frozenset({new}), paths)
                self._texts = {path: "path"}
                if within is None:
                    self._texts |= {old: "old", new: "new"}
                self._arrays = {within: "edits"}
            case Command(command):
                self._texts = {command: "command"}
            case Table(rows):
                self._arrays = {rows: "rows"}
        self.item_names: DiffNames = self.diff_names

    def language(self, name: str) -> str | None:
        return self._language

    def purpose(self, name: str, kind: Kind, *, has_path: bool, has_text: bool) -> Purpose:
        known = {"string": self._texts, "array": self._arrays}.get(kind, {})
        return known.get(name, "plain")


class Guessed:
    """What the arguments of a tool seem to be."""

    def __init__(self, name: str, tool: ToolSpec | None = None) -> None:
        self._words = {word.lower() for word in _find_words(name)}
        self._properties = _properties(tool)
        self.may_have_path: bool = self._may_come(_PATHS)
        self.may_have_title: bool = self.may_have_path or self._may_come(_COMMANDS | _TITLES)
        self.diff_names: DiffNames = _diff_names(pair for pair in _EDITS if self._is_edit(*pair))
        self.item_names: DiffNames = _diff_names(_EDITS)

    def language(self, name: str) -> str | None:
        if name in _COMMANDS:
            return "bash"
        if name not in _CODE_LANGUAGES:
            return None
        return _CODE_LANGUAGES[name] or next(
            (word for word in _LANGUAGES if word in self._words), None
        )

    def purpose(self, name: str, kind: Kind, *, has_path: bool, has_text: bool) -> Purpose:
        if kind == "array":
            return "array"
        if kind != "string":
            return "plain"
        if name in _PATHS:
            return "path"
        if name == "language":
            return "language"
        if name in self.diff_names.old:
            return "old"
        if name in self.diff_names.new:
            return "new"
        if name in _COMMANDS and self._is_command(name):
            return "command"
        if not has_text and self._is_text(name, has_path=has_path):
            return "text"
        return "title" if name in _TITLES else "plain"

    def _may_come(self, names: frozenset[str]) -> bool:
        return self._properties is None or bool(names & self._properties.keys())

    def _is_edit(self, old: str, new: str) -> bool:
        if self._properties is not None:
            return old in self._properties and new in self._properties
        return bool(self._words & _CHANGES) or not {old, new} & _UNSURE

    def _is_command(self, name: str) -> bool:
        """Return whether it is a command that is run; some tools call a kind of edit a command."""
        schema = (self._properties or {}).get(name)
        has_choices = isinstance(schema, Mapping) and "enum" in schema
        return not has_choices and not self._words & _CHANGES

    def _is_text(self, name: str, *, has_path: bool) -> bool:
        if name in _CODE_LANGUAGES or name in _CERTAIN_TEXTS:
            return True
        writes_file = "file" in self._words or self._words == {"write"}
        if self._properties is not None and not has_path:
            has_file = self.may_have_path
        else:
            has_file = has_path or writes_file
        return has_file and (name in _CONTENTS or (name in _TEXTS and bool(self._words & _WRITES)))


def _diff_names(pairs: Iterable[tuple[str, str]]) -> DiffNames:
    pairs = list(pairs)
    return DiffNames(frozenset(old for old, _ in pairs), frozenset(new for _, new in pairs), _PATHS)


def _properties(tool: ToolSpec | None) -> Mapping[str, Any] | None:
    """Return the arguments that a schema names; None if it names none, or there is no schema."""
    schema = tool.schema if tool is not None else None
    if isinstance(schema, Schema):
        schema = schema.source
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return properties if isinstance(properties, Mapping) and properties else None


class CallView:
    """Shows the arguments of a call by what is known, or guessed, about them."""

    def __init__(
        self, placement: "Declared | Guessed", files: Files, *, has_title: bool = True
    ) -> None:
        """Without a title, what would be one is shown as a line."""
        self._placement = placement
        self._files = files
        self._lines: list[Line] = []
        self.title: Spans = ()
        self.is_title_open: bool = has_title and placement.may_have_title
        self._plain = PlainPart(self._lines, self._close_title)
        self._open: tuple[str, Purpose, Part] | None = None  # with its name
        self._parts: list[Part] = [self._plain]  # the plain one is always the last
        self._edits: DiffPart | None = None  # of the call's own old and new texts
        self._diffs: list[DiffPart] = []  # all that wait for the path
        self._path: str | None = None
        self._language: str | None = None
        self._text: FilePart | None = None

    def take(self, event: ArgumentEvent) -> None:
        if isinstance(event, ev.ToolArgsDelta) or not event.path:
            return
        name = str(event.path[0])
        if self._open is None or self._open[0] != name:
            self._open = name, *self._opened(name, _kind_of(event))
        _, purpose, part = self._open
        part.take(event)
        if isinstance(event, ev.ArgumentCompleted) and len(event.path) == 1:
            self._open = None
            self._note(purpose, event.value)

    def settled(self) -> list[Line]:
        """Return what is final, once it is known what stands above it."""
        self._write_text()
        return [] if self.is_title_open else drained(self._lines)

    def growing(self, rows: int) -> list[Line]:
        self._write_text()
        lines = self._lines[-rows:] if self.is_title_open else []
        for part in self._parts:
            lines += part.growing(rows)
        return lines[-rows:] if rows > 0 else []

    def finish(self) -> list[Line]:
        self._close_title()
        for part in self._parts:
            part.finish()
        if self._text is not None and self._path is not None:
            self._files.change(self._path, lambda _: None)  # the tool may append or overwrite
        return self.settled()

    def _opened(self, name: str, kind: Kind) -> tuple[Purpose, Part]:
        self._write_text()
        has_path, has_text = self._path is not None, self._text is not None
        purpose = self._placement.purpose(name, kind, has_path=has_path, has_text=has_text)
        part = self._part(name, purpose)
        if part not in self._parts:
            self._parts.insert(-1, part)
        return purpose, part

    def _part(self, name: str, purpose: Purpose) -> Part:
        placement = self._placement
        match purpose:
            case "title" | "path" if purpose == "title" or self._path is None:
                return TitlePart(self._lines, self._offer_title)
            case "text":
                self._close_title()
                language = placement.language(name) or self._language
                self._text = FilePart(self._lines, language, self._path)
                return self._text
            case "old" | "new":
                if self._edits is None:
                    self._edits = self._diff_part(placement.diff_names)
                return self._edits
            case "edits":
                return self._diff_part(placement.item_names, is_array=True)
            case "command":
                return CommandPart(self._lines, placement.language(name), self._offer_title)
            case "rows":
                self._close_title()
                return TablePart(self._lines, name)
            case "array":
                names, table = placement.item_names, TablePart(self._lines, name)
                make_edits = partial(self._diff_part, names, is_array=True)
                return ArrayPart(names, table, make_edits, self._close_title)
            case _:
                return self._plain

    def _write_text(self) -> None:
        if self._text is not None:
            self._text.write()

    def _diff_part(self, names: DiffNames, *, is_array: bool = False) -> DiffPart:
        part = DiffPart(self._lines, names, self._files, is_array=is_array)
        self._diffs.append(part)
        if self._path is not None or not self._placement.may_have_path:
            self._close_title()
            part.settle_path(self._path)
        return part

    def _note(self, purpose: Purpose, value: Any) -> None:
        if purpose == "language" and isinstance(value, str):
            self._language = value
        elif purpose == "path" and isinstance(value, str) and self._path is None:
            self._path = value
            for diff in self._diffs:
                diff.settle_path(value)

    def _offer_title(self, text: str | None) -> bool:
        """Use a text as the title if it is suitable. None means that it is not short."""
        if text is None:
            self._close_title()
            return False
        is_exact = text != "" and text == text.strip()  # blanks would not be seen
        fits = is_exact and len(text) <= _MAX_TITLE and "\n" not in text
        if fits and self.is_title_open:
            self.title = (shown(text, "title"),)
            self.is_title_open = False
            return True
        return False

    def _close_title(self) -> None:
        self.is_title_open = False


def _kind_of(event: ev.ArgumentStarted | ev.ArgumentDelta | ev.ArgumentCompleted) -> Kind:
    """Return the kind of an argument, also if its start was not seen."""
    if len(event.path) > 1:
        return "object"
    if isinstance(event, ev.ArgumentDelta):
        return "string"
    return event.kind if isinstance(event, ev.ArgumentStarted) else kind_of(event.value) or "object"


class FilePart(Block):
    """Shows a text with line numbers. Each line is coloured when it is complete."""

    def __init__(self, out: list[Line], language: str | None, path: str | None) -> None:
        super().__init__(out, numbered, Highlighter(language, path=path).line)

    def take(self, event: ArgumentEvent) -> None:
        if isinstance(event, ev.ArgumentDelta):
            self.hold(event.text)
        elif isinstance(event, ev.ArgumentCompleted):
            has_open_line = self.has_open_line
            self.finish()
            if has_open_line:
                self._out.append(note("no newline at the end"))
            elif not self.lines:
                self._out.append(note("empty"))


class CommandPart(Block):
    def __init__(
        self, out: list[Line], language: str | None, offer_title: Callable[[str | None], bool]
    ) -> None:
        """``offer_title`` gets a short command, or None, and returns whether it is used."""
        super().__init__(out, prompt, Highlighter(language).line)
        self._offer_title = offer_title
        self._short: str | None = ""  # what came, as long as it is short

    def take(self, event: ArgumentEvent) -> None:
        if isinstance(event, ev.ArgumentDelta):
            self.add(event.text)
            if self._short is not None:
                self._short += event.text
                if len(self._short) > _BESIDE or "\n" in self._short:
                    self._short = None
                    self._offer_title(None)
        elif isinstance(event, ev.ArgumentCompleted):
            if self._short is not None and self._offer_title(self._short):
                self._text.end()
            elif self.has_open_line or not self.lines:
                self.end()


def prompt(number: int) -> tuple[Spans, Spans]:
    below = (Span("    "),)
    return ((Span("  "), Span("$ ", "faint")), below) if number == 1 else (below, below)


class _Row(NamedTuple):
    cells: Mapping[str, str]
    by_names: list[Line]  # the same, as it is shown if it does not fit


class TablePart:
    """Shows each item when it is complete; one that is long or nested, by its names.

    The widths of the columns are those that the first rows need. A row that does not fit is shown
    by its names too: nothing is ever cut.
    """

    def __init__(self, out: list[Line], name: str) -> None:
        self._out = out
        self._name = name
        self._item_lines: list[Line] = []  # of the item that is being written, by its names
        self._item = PlainPart(self._item_lines, self._refuse_row)
        self._is_row = True  # whether the item that is being written may be one
        self._waiting: list[_Row] = []  # before there are columns
        self._columns: dict[str, int] | None = None  # their names and widths

    def take(self, event: ArgumentEvent) -> None:
        self._item.take(event)
        match event:
            case ev.ArgumentStarted(path=path) if len(path) <= 2:
                self._is_row = True  # the array and its items may have parts
                if self._item_lines:  # of items that were none
                    self._write_item()
            case ev.ArgumentCompleted(path=path, value=value) if len(path) == 2:
                if self._is_row and _is_flat(value):
                    self._take_row(value)
                else:
                    self._write_item()
                self._is_row = True
            case ev.ArgumentCompleted(path=path) if len(path) == 1:
                self._write_item()
        if not self._is_row:
            self._write_item()

    def growing(self, rows: int) -> list[Line]:
        lines = [line for row in self._waiting for line in row.by_names]
        return (lines + self._item_lines + self._item.growing(rows))[-rows:]

    def finish(self) -> None:
        self._item.finish()
        self._write_item()

    def _refuse_row(self) -> None:
        self._is_row = False

    def _write_item(self) -> None:
        self._settle_columns()
        self._out += drained(self._item_lines)

    def _take_row(self, item: Mapping[str, Any]) -> None:
        cells = {name: _cell(value) for name, value in item.items()}
        row = _Row(cells, drained(self._item_lines))
        if self._columns is not None:
            self._write(row)
            return
        self._waiting.append(row)
        if len(self._waiting) == _HELD_ROWS:
            self._settle_columns()

    def _settle_columns(self) -> None:
        if self._columns is not None or not self._waiting:
            return
        rows, self._waiting = self._waiting, []
        widths = {name: width(visible_line(name)) for row in rows for name in row.cells}
        for row in rows:
            for name, cell in row.cells.items():
                widths[name] = max(widths[name], width(visible_line(cell)))
        fits = sum(widths.values()) + len(_GAP) * len(widths) <= _WIDE
        self._columns = widths if fits else {}
        if fits:
            heading = (shown(self._name, "argument"), Span(" ="))
            self._out.append(Line(heading, INDENT))
            self._out.append(self._line({name: name for name in widths}, "argument"))
        for row in rows:
            self._write(row)

    def _write(self, row: _Row) -> None:
        columns = self._columns or {}
        line = self._line(row.cells, "plain")
        fits = sum(width(span.text) for span in line.spans) <= _WIDE
        if row.cells.keys() <= columns.keys() and fits:
            self._out.append(line)
        else:
            self._out += row.by_names

    def _line(self, cells: Mapping[str, str], role: Role) -> Line:
        spans: list[Span] = []
        for name, columns in (self._columns or {}).items():
            cell = shown(cells.get(name, ""), role)
            spans += [cell, Span(" " * max(columns - width(cell.text), 0) + _GAP)]
        return Line(tuple(spans[:-1]), BAR, BAR, fold=FOLD)


def _is_flat(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(name, str) for name in value)
        and not any(isinstance(cell, dict | list) for cell in value.values())
    )


def _cell(value: Any) -> str:
    """Return a value as text; a string without quotes if it looks like no other value."""
    if not isinstance(value, str) or not value or value != value.strip():
        return value_text(value)
    try:
        json.loads(value)
    except ValueError:
        return value
    return value_text(value)


@dataclass(eq=False)
class ArrayPart:
    """Shows an array as a table, unless its first item begins like an edit."""

    _names: DiffNames
    _part: Part
    _make_edits: Callable[[], Part]
    _when_long: Callable[[], None]
    _held: list[ArgumentEvent] | None = field(default_factory=list)  # until its kind is known

    def take(self, event: ArgumentEvent) -> None:
        if self._held is not None:
            self._held.append(event)
            is_edit = self._is_edit(event)
            if is_edit:
                self._part = self._make_edits()
                for before in self._held[:-1]:
                    self._part.take(before)
                self._held = None
            elif is_edit is False:
                self._held = None
                self._when_long()
        self._part.take(event)

    def growing(self, rows: int) -> list[Line]:
        return self._part.growing(rows)

    def finish(self) -> None:
        self._part.finish()

    def _is_edit(self, event: ArgumentEvent) -> bool | None:
        """Return whether the first item is an edit. None if undecided: it may start with a path."""
        names = self._names
        match event:
            case ev.ArgumentStarted(path=(_, _, name), kind="string") if (
                name in names.old | names.new
            ):
                return True
            case ev.ArgumentStarted(path=path, kind=kind):
                may_be_edit = len(path) < 2 or (len(path) == 2 and kind == "object")
                return None if may_be_edit or path[-1] in names.path else False
            case ev.ArgumentCompleted(path=path) if len(path) < 3:
                return False
        return None


class FreeTextView:
    title: Spans = ()
    is_title_open = False

    def __init__(self, kind: CallKind, look: Look | None) -> None:
        self._lines: list[Line] = []
        match _CODE if look is None and kind == "code" else look:
            case File(language=language):
                self._block = Block(self._lines, numbered, Highlighter(language).line)
            case Command(language=language):
                self._block = Block(self._lines, prompt, Highlighter(language).line)
            case _:
                self._block = Block(self._lines, bar, PaintByFirstLine())

    def take(self, event: ArgumentEvent) -> None:
        if isinstance(event, ev.ToolArgsDelta):
            self._block.hold(event.delta)

    def settled(self) -> list[Line]:
        self._block.write()
        return drained(self._lines)

    def growing(self, rows: int) -> list[Line]:
        return self._block.growing(rows)

    def finish(self) -> list[Line]:
        self._block.finish()
        return self.settled()


class GuardedView:
    """Asks a view of a user. If it fails, everything is shown by the fallback, after a note."""

    def __init__(self, make: Callable[[], ArgumentsView], fallback: ArgumentsView) -> None:
        self._view: ArgumentsView | None = None
        self._fallback = fallback
        self._events: list[ArgumentEvent] = []  # those that the fallback has not seen
        self._complaint: list[Line] = []
        self._title: Spans = ()
        try:
            self._view = make()
        except Exception as error:  # noqa: BLE001 - see _fail
            self._fail(error)

    def take(self, event: ArgumentEvent) -> None:
        self._events.append(event)
        self._ask(lambda view: view.take(event), otherwise=None)
        if self._view is None:
            self._tell_fallback()

    @property
    def title(self) -> Spans:
        self._title = self._ask(lambda view: _checked(view.title, Spans), self._title)
        return self._title

    @property
    def is_title_open(self) -> bool:
        return self._ask(lambda view: bool(view.is_title_open), otherwise=False)

    def settled(self) -> list[Line]:
        return self._final(lambda view: view.settled())

    def growing(self, rows: int) -> list[Line]:
        lines = self._lines(lambda view: view.growing(rows)) + self._fallback.growing(rows)
        return lines[-rows:] if rows > 0 else []

    def finish(self) -> list[Line]:
        return self._final(lambda view: view.finish())

    def _final(self, question: Callable[[ArgumentsView], list[Line]]) -> list[Line]:
        lines = self._lines(question)
        complaint, self._complaint = self._complaint, []
        return lines + complaint + question(self._fallback)

    def _lines(self, question: Callable[[ArgumentsView], list[Line]]) -> list[Line]:
        """Return valid lines, or fail here rather than where they are painted."""
        nothing: list[Line] = []
        return self._ask(lambda view: [_checked_line(one) for one in question(view)], nothing)

    def _ask(self, question: Callable[[ArgumentsView], _Answer], otherwise: _Answer) -> _Answer:
        if self._view is not None:
            try:
                return question(self._view)
            except Exception as error:  # noqa: BLE001 - see _fail
                self._fail(error)
        return otherwise

    def _fail(self, error: Exception) -> None:
        """Go on without the view: what an agent does must be seen even so."""
        self._view = None
        told = f"the view of this tool failed: {type(error).__name__}: {error}"
        self._complaint = [said(shown(told, "warning"))]
        self._tell_fallback()

    def _tell_fallback(self) -> None:
        for event in self._events:
            self._fallback.take(event)
        self._events.clear()


def _checked_line(line: Any) -> Line:
    """Return a valid line with a margin: at the left edge, only we write."""
    checked: Line = _checked(line, Line)
    rest = checked.rest if checked.rest is None or text_of(checked.rest) else INDENT
    return checked._replace(margin=checked.margin if text_of(checked.margin) else INDENT, rest=rest)


def _checked(value: Any, kind: Any) -> Any:
    return msgspec.convert(msgspec.to_builtins(value), kind)
