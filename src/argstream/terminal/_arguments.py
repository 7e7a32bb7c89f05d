"""The view of one call: each argument goes to the part that shows it.

What an argument is was declared by the user (``Declared``), or is guessed by the names of tools and
arguments and by the schema (``Guessed``).
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from argstream.events import ArgumentCompleted, ArgumentDelta, ArgumentStarted, ToolArgsDelta
from argstream.history import CallKind
from argstream.jsonstream import Kind
from argstream.jsonstream._fragments import kind_of
from argstream.sanitise import visible_line
from argstream.terminal._diff import DiffNames, DiffPart
from argstream.terminal._highlight import Highlighter
from argstream.terminal._layout import width
from argstream.terminal._parts import (
    BAR,
    INDENT,
    ArgumentEvent,
    ArgumentsView,
    Block,
    Command,
    Declaration,
    Diff,
    File,
    Files,
    Look,
    PaintByFirstLine,
    Part,
    Plain,
    PlainPart,
    Table,
    TitlePart,
    bar,
    note,
    numbered,
    said,
    value_text,
)
from argstream.terminal._text import Breaks, Line, Role, Span, Spans, shown, text_of
from argstream.validation import Schema, ToolSpec

# What an argument is; `array`: it depends on what is in it.
Purpose: TypeAlias = Literal[
    "path", "text", "language", "old", "new", "edits", "command", "rows", "array", "plain"
]
_BESIDE: Final = 72  # characters that fit beside the name of a tool
_HELD_ROWS: Final = 5  # rows that are known before the columns get their widths
_WIDE: Final = 72  # columns that most screens have, beside the margin
_GAP: Final = "  "
_MAX_TITLE: Final = 200
_AnyPart = TypeVar("_AnyPart", bound=Part)
_CODE = File(language="python")  # what providers run themselves
_PATHS: Final = frozenset(
    [
        "path",
        "file_path",
        "filepath",
        "filePath",
        "file",
        "filename",
        "file_name",
        "fileName",
        "target_file",
        "targetFile",
        "absolute_path",
        "relative_path",
        "notebook_path",
        "AbsolutePath",
        "TargetFile",
    ]
)
_CONTENTS: Final = frozenset(["content", "contents"])
_TEXTS: Final = frozenset(["text", "source", "body", "data", "new_source"])
_CERTAIN_TEXTS: Final = frozenset(
    ["file_text", "fileText", "file_content", "file_contents", "fileContent", "CodeContent"]
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
_EDITS: Final = (
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("old_text", "new_text"),
    ("old_content", "new_content"),
    ("old_code", "new_code"),
    ("old", "new"),
    ("oldString", "newString"),
    ("oldText", "newText"),
    ("oldStr", "newStr"),
    ("original", "replacement"),
    ("original_text", "new_text"),
    ("search", "replace"),
    ("find", "replace"),
    ("search", "replacement"),
    ("find", "replacement"),
    ("pattern", "replacement"),
)
# Names that mean something else in a tool that does not edit.
_UNSURE: Final = frozenset(["search", "find", "pattern", "original", "replace", "replacement"])
_COMMANDS: Final = frozenset(
    ["command", "cmd", "script", "shell_command", "bash_command", "CommandLine"]
)
_LANGUAGES: Final = ("python", "javascript", "typescript", "sql", "bash", "ruby", "php", "lua")
_WRITES: Final = frozenset(
    ["write", "create", "save", "file", "append", "overwrite", "put", "insert"]
)
_CHANGES: Final = frozenset(
    ["edit", "edits", "replace", "patch", "modify", "update", "substitute", "multiedit"]
)
_find_words: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+").findall
_Answer = TypeVar("_Answer")
_ROLES: Final = get_args(Role)
_BREAKS: Final = get_args(Breaks)


class Seen(NamedTuple):
    has_path: bool
    has_text: bool


class Declared:
    def __init__(self, look: Declaration) -> None:
        self._purposes: dict[tuple[str, Kind], Purpose] = {}
        self._language: str | None = None
        self.may_have_path = isinstance(look, File | Diff) and look.path is not None
        self.may_have_title = self.may_have_path or isinstance(look, Command)
        self.diff_names = DiffNames(frozenset(), frozenset(), frozenset())
        self.item_names = self.diff_names
        match look:
            case File(text, path, language):
                self._language = language
                self._name("language", "string", "language")
                self._name(path, "string", "path")
                self._name(text, "string", "text")
            case Diff(old, new, path, within):
                paths = frozenset() if path is None else frozenset({path})
                self.diff_names = DiffNames(frozenset({old}), frozenset({new}), paths)
                self.item_names = self.diff_names
                self._name(path, "string", "path")
                if within is None:
                    self._name(old, "string", "old")
                    self._name(new, "string", "new")
                else:
                    self._name(within, "array", "edits")
            case Command(command, language):
                self._language = language
                self._name(command, "string", "command")
            case Table(rows):
                self._name(rows, "array", "rows")
            case Plain():
                pass

    def language(self, name: str) -> str | None:
        return self._language

    def purpose(self, name: str, kind: Kind, seen: Seen) -> Purpose:
        return self._purposes.get((name, kind), "plain")

    def _name(self, name: str | None, kind: Kind, purpose: Purpose) -> None:
        if name is not None:
            self._purposes[name, kind] = purpose


class Guessed:
    """What the arguments of a tool seem to be."""

    def __init__(self, name: str, tool: ToolSpec | None = None) -> None:
        self._words = {word.lower() for word in _find_words(name)}
        self._properties = _properties(tool)
        self.may_have_path = self._may_come(_PATHS)
        self.may_have_title = self.may_have_path or self._may_come(_COMMANDS)
        self.diff_names = _diff_names(pair for pair in _EDITS if self._is_edit(*pair))
        self.item_names = _diff_names(_EDITS)

    def language(self, name: str) -> str | None:
        if name in _COMMANDS:
            return "bash"
        if name not in _CODE_LANGUAGES:
            return None
        return _CODE_LANGUAGES[name] or next(
            (word for word in _LANGUAGES if word in self._words), None
        )

    def purpose(self, name: str, kind: Kind, seen: Seen) -> Purpose:
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
        if not seen.has_text and self._is_text(name, seen):
            return "text"
        return "plain"

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

    def _is_text(self, name: str, seen: Seen) -> bool:
        if name in _CODE_LANGUAGES or name in _CERTAIN_TEXTS:
            return True
        writes_file = "file" in self._words or self._words == {"write"}
        if self._properties is not None and not seen.has_path:
            has_file = self.may_have_path
        else:
            has_file = seen.has_path or writes_file
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


class _Open(NamedTuple):
    name: str
    purpose: Purpose
    part: Part


class CallView:
    """Shows the arguments of a call by what is known, or guessed, about them."""

    def __init__(
        self, placement: "Declared | Guessed", files: Files, *, has_title: bool = True
    ) -> None:
        """Without a title, what would be one is shown as a line."""
        self._placement = placement
        self._files = files
        self._lines: list[Line] = []
        self._title: Spans = ()
        self._is_title_open = has_title and placement.may_have_title
        self._plain = PlainPart(self._lines, self._close_title)
        self._open: _Open | None = None
        self._lasting: list[Part] = []  # parts that hold something longer than one argument
        self._edits: DiffPart | None = None  # of the call's own old and new texts
        self._diffs: list[DiffPart] = []  # all that wait for the path
        self._path: str | None = None
        self._language: str | None = None
        self._text: FilePart | None = None

    def take(self, event: ArgumentEvent) -> None:
        if isinstance(event, ToolArgsDelta) or not event.path:
            return
        name = str(event.path[0])
        if self._open is None or self._open.name != name:
            self._open = self._opened(name, _kind_of(event))
        opened = self._open
        opened.part.take(event)
        if isinstance(event, ArgumentCompleted) and len(event.path) == 1:
            self._open = None
            self._note(opened.purpose, event.value)

    @property
    def title(self) -> Spans:
        return self._title

    @property
    def is_title_open(self) -> bool:
        """Whether a title may still come: not after something that may become long."""
        return self._is_title_open

    def settled(self) -> list[Line]:
        """Return what is final, once it is known what stands above it."""
        self._write_text()
        if self._is_title_open:
            return []
        lines = self._lines[:]
        self._lines.clear()
        return lines

    def growing(self, rows: int) -> list[Line]:
        self._write_text()
        lines = self._lines[-rows:] if self._is_title_open else []
        parts = self._lasting[:]
        if self._open is not None and self._open.part not in parts:
            parts.append(self._open.part)
        for part in parts:
            lines += part.growing(rows)
        return lines[-rows:] if rows > 0 else []

    def finish(self) -> list[Line]:
        self._close_title()
        if self._open is not None and self._open.part not in self._lasting:
            self._open.part.finish()
        self._open = None
        for part in self._lasting:
            part.finish()
        self._lasting.clear()
        if self._text is not None and self._path is not None:
            self._files.change(self._path, _unknown)
        return self.settled()

    def _opened(self, name: str, kind: Kind) -> "_Open":
        self._write_text()
        seen = Seen(self._path is not None, self._text is not None)
        purpose = self._placement.purpose(name, kind, seen)
        return _Open(name, purpose, self._part(name, purpose))

    def _part(self, name: str, purpose: Purpose) -> Part:
        placement = self._placement
        match purpose:
            case "path" if self._path is None:
                return TitlePart(self._lines, self._offer_title)
            case "text":
                self._close_title()
                language = placement.language(name) or self._language
                self._text = FilePart(self._lines, language, self._path)
                return self._text
            case "old" | "new":
                if self._edits is None:
                    self._edits = self._last(self._diff_part(placement.diff_names))
                return self._edits
            case "edits":
                return self._last(self._item_edits())
            case "command":
                return CommandPart(self._lines, placement.language(name), self._offer_title)
            case "rows":
                return self._table(name)
            case "array":
                make_table = partial(self._table, name)
                array = ArrayPart(name, placement.item_names, self._item_edits, make_table)
                return self._last(array)
            case _:
                return self._plain

    def _write_text(self) -> None:
        if self._text is not None:
            self._text.write()

    def _last(self, part: _AnyPart) -> _AnyPart:
        self._lasting.append(part)
        return part

    def _table(self, name: str) -> Part:
        self._close_title()
        return TablePart(self._lines, name)

    def _item_edits(self) -> DiffPart:
        return self._diff_part(self._placement.item_names, is_array=True)

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
        fits = text != "" and len(text) <= _MAX_TITLE and "\n" not in text
        if fits and self._is_title_open:
            self._title = (shown(text, "title"),)
            self._is_title_open = False
            return True
        return False

    def _close_title(self) -> None:
        self._is_title_open = False


def _unknown(_text: str) -> None:
    """Return that the text of the file is unknown: the tool may append or overwrite."""


def _kind_of(event: ArgumentStarted | ArgumentDelta | ArgumentCompleted) -> Kind:
    """Return the kind of an argument, also if its start was not seen."""
    if len(event.path) > 1:
        return "object"
    match event:
        case ArgumentStarted(kind=kind):
            return kind
        case ArgumentCompleted(value=value):
            return kind_of(value) or "object"
        case _:
            return "string"


class FilePart:
    """Shows a text with line numbers. Each line is coloured when it is complete."""

    def __init__(self, out: list[Line], language: str | None, path: str | None) -> None:
        self._out = out
        self._block = Block(out, numbered, Highlighter(language, path=path).line)

    def take(self, event: ArgumentEvent) -> None:
        if isinstance(event, ArgumentDelta):
            self._block.hold(event.text)
        elif isinstance(event, ArgumentCompleted):
            self._block.write()
            if self._block.has_open_line:
                self._block.end()
                self._out.append(note("no newline at the end"))
            elif not self._block.lines:
                self._out.append(note("empty"))

    def write(self) -> None:
        """Write the lines that are complete: they are about to be shown."""
        self._block.write()

    def growing(self, rows: int) -> list[Line]:
        return self._block.growing()[-rows:]

    def finish(self) -> None:
        self._block.write()
        if self._block.has_open_line:
            self._block.end()


class CommandPart:
    def __init__(
        self, out: list[Line], language: str | None, offer_title: Callable[[str | None], bool]
    ) -> None:
        """``offer_title`` gets a short command, or None, and returns whether it is used."""
        self._block = Block(out, prompt, Highlighter(language).line)
        self._offer_title = offer_title
        self._short: str | None = ""  # what came, as long as it is short

    def take(self, event: ArgumentEvent) -> None:
        if isinstance(event, ArgumentDelta):
            self._block.add(event.text)
            if self._short is not None:
                self._short += event.text
                if len(self._short) > _BESIDE or "\n" in self._short:
                    self._short = None
                    self._offer_title(None)
        elif isinstance(event, ArgumentCompleted):
            if self._short is not None and self._offer_title(self._short):
                self._block.drop()
            elif self._block.has_open_line or not self._block.lines:
                self._block.end()

    def growing(self, rows: int) -> list[Line]:
        return self._block.growing()[-rows:]

    def finish(self) -> None:
        if self._block.has_open_line:
            self._block.end()


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
            case ArgumentStarted(path=path) if len(path) <= 2:
                self._is_row = True  # the array and its items may have parts
                if self._item_lines:  # of items that were none
                    self._write_item()
            case ArgumentCompleted(path=path, value=value) if len(path) == 2:
                if self._is_row and _is_flat(value):
                    self._take_row(value)
                else:
                    self._write_item()
                self._is_row = True
            case ArgumentCompleted(path=path) if len(path) == 1:
                self._write_item()
            case _:
                pass
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
        self._out += self._item_lines
        self._item_lines.clear()

    def _take_row(self, item: Mapping[str, Any]) -> None:
        row = _Row({name: _cell(value) for name, value in item.items()}, self._item_lines[:])
        self._item_lines.clear()
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
        return Line(tuple(spans[:-1]), BAR, BAR)


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


class ArrayPart:
    """Holds the first events until it knows what the array is; meanwhile it looks like a table."""

    def __init__(
        self,
        name: str,
        names: DiffNames,
        make_edits: Callable[[], Part],
        make_table: Callable[[], Part],
    ) -> None:
        self._names = names
        self._make_edits = make_edits
        self._make_table = make_table
        self._held: list[ArgumentEvent] | None = []
        self._held_lines: list[Line] = []
        self._part: Part = TablePart(self._held_lines, name)

    def take(self, event: ArgumentEvent) -> None:
        if self._held is None:
            self._part.take(event)
            return
        self._held.append(event)
        if self._is_edit(event):
            self._decide(self._make_edits())
        elif self._is_other(event):
            self._decide(self._make_table())
        else:
            self._part.take(event)

    def growing(self, rows: int) -> list[Line]:
        return (self._held_lines + self._part.growing(rows))[-rows:]

    def finish(self) -> None:
        self._decide(self._make_table())
        self._part.finish()

    def _decide(self, part: Part) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._part = part
            self._held_lines = []
            for event in held:
                part.take(event)

    def _is_edit(self, event: ArgumentEvent) -> bool:
        match event:
            case ArgumentStarted(path=path, kind="string"):
                return len(path) == 3 and (path[2] in self._names.old or path[2] in self._names.new)
            case _:
                return False

    def _is_other(self, event: ArgumentEvent) -> bool:
        """Return whether no edit begins like this, apart from the path that it may begin with."""
        match event:
            case ArgumentStarted(path=path, kind=kind):
                may_be_edit = len(path) < 2 or (len(path) == 2 and kind == "object")
                return not may_be_edit and path[-1] not in self._names.path
            case ArgumentCompleted(path=path):
                return len(path) < 3
            case _:
                return False


class FreeTextView:
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
        if isinstance(event, ToolArgsDelta):
            self._block.hold(event.delta)

    @property
    def title(self) -> Spans:
        return ()

    @property
    def is_title_open(self) -> bool:
        return False

    def settled(self) -> list[Line]:
        self._block.write()
        lines = self._lines[:]
        self._lines.clear()
        return lines

    def growing(self, rows: int) -> list[Line]:
        return self._block.growing()[-rows:] if rows > 0 else []

    def finish(self) -> list[Line]:
        if self._block.has_open_line:
            self._block.end()
        return self.settled()


class GuardedView:
    """Asks a view. If it fails, everything is shown by the fallback, after a note."""

    def __init__(self, make: Callable[[], ArgumentsView], fallback: ArgumentsView) -> None:
        self._view: ArgumentsView | None = None
        self._fallback = fallback
        self._events: list[ArgumentEvent] = []  # those that the other one has not seen
        self._complaint: list[Line] = []
        self._title: Spans = ()
        try:
            self._view = make()
        except Exception as error:  # noqa: BLE001 - see _fail
            self._fail(error)

    def take(self, event: ArgumentEvent) -> None:
        self._events.append(event)
        if self._view is None:
            self._tell_fallback()
        else:
            self._ask(lambda view: view.take(event), otherwise=None)

    @property
    def title(self) -> Spans:
        self._title = self._ask(lambda view: _checked_spans(view.title), self._title)
        return self._title

    @property
    def is_title_open(self) -> bool:
        return self._ask(lambda view: bool(view.is_title_open), otherwise=False)

    def settled(self) -> list[Line]:
        lines = self._ask_lines(lambda view: view.settled())
        return lines + self._complaints() + self._fallback.settled()

    def growing(self, rows: int) -> list[Line]:
        lines = self._ask_lines(lambda view: view.growing(rows))
        return (lines + self._fallback.growing(rows))[-rows:] if rows > 0 else []

    def finish(self) -> list[Line]:
        lines = self._ask_lines(lambda view: view.finish())
        return lines + self._complaints() + self._fallback.settled() + self._fallback.finish()

    def _ask(self, question: Callable[[ArgumentsView], _Answer], otherwise: _Answer) -> _Answer:
        if self._view is not None:
            try:
                return question(self._view)
            except Exception as error:  # noqa: BLE001 - see _fail
                self._fail(error)
        return otherwise

    def _ask_lines(self, question: Callable[[ArgumentsView], list[Line]]) -> list[Line]:
        nothing: list[Line] = []
        return self._ask(lambda view: _checked_lines(question(view)), nothing)

    def _fail(self, error: Exception) -> None:
        """Go on without the view: what an agent does must be seen even so."""
        self._view = None
        self._complaint = [
            said(
                Span("the look of this tool failed: ", "warning"),
                shown(f"{type(error).__name__}: {error}", "warning"),
            )
        ]
        self._tell_fallback()

    def _tell_fallback(self) -> None:
        for event in self._events:
            self._fallback.take(event)
        self._events.clear()

    def _complaints(self) -> list[Line]:
        complaint, self._complaint = self._complaint, []
        return complaint


def _checked_lines(lines: Any) -> list[Line]:
    """Return valid lines, or fail here rather than where they are painted."""
    return [_checked_line(line) for line in lines]


def _checked_line(line: Any) -> Line:
    spans, margin, rest, breaks = Line(*line)
    if breaks not in _BREAKS:
        raise ValueError(f"a line breaks at {breaks!r}: it must be one of {', '.join(_BREAKS)}")
    return Line(
        _checked_spans(spans),
        _checked_margin(margin),
        None if rest is None else _checked_margin(rest),
        breaks,
    )


def _checked_margin(spans: Any) -> Spans:
    """Return a margin. At the left edge, where there is none, only we write."""
    margin = _checked_spans(spans)
    return margin if text_of(margin) else INDENT


def _checked_spans(spans: Any) -> Spans:
    return tuple(map(_checked_span, spans))


def _checked_span(span: Any) -> Span:
    if isinstance(span, str):
        raise TypeError(f"a piece of a line must be a Span, not {span!r}")
    text, role = Span(*span)
    if not isinstance(text, str):
        raise TypeError(f"the text of a span must be a str, not {text!r}")
    if role not in _ROLES:
        raise ValueError(f"there is no role {role!r}: it must be one of {', '.join(_ROLES)}")
    return Span(text, role)
