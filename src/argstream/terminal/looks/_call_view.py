"""One call: each argument goes to the part of the view that has a place for it."""

from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from argstream.events import ArgumentCompleted, ArgumentDelta, ArgumentStarted, ToolArgsDelta
from argstream.jsonstream import Kind
from argstream.jsonstream.kinds import kind_of
from argstream.terminal.looks._array import ArrayPart
from argstream.terminal.looks._command import CommandPart
from argstream.terminal.looks._diff import DiffNames, DiffPart
from argstream.terminal.looks._file import FilePart
from argstream.terminal.looks._part import Part
from argstream.terminal.looks._pending import Files
from argstream.terminal.looks._placing import Placement, Purpose, Seen
from argstream.terminal.looks._plain import PlainPart
from argstream.terminal.looks._table import TablePart
from argstream.terminal.looks._title import TitlePart
from argstream.terminal.looks.view import ArgumentEvent
from argstream.terminal.spans import Line, Spans, shown

__all__ = ["CallView"]

_MAX_TITLE: Final = 200
_AnyPart = TypeVar("_AnyPart", bound=Part)


class CallView:
    """Shows the arguments of a call by what is known, or guessed, of them."""

    def __init__(self, placement: Placement, files: Files, *, has_title: bool = True) -> None:
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
        """Follow what the arguments become."""
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
        """The path, or a short command."""
        return self._title

    @property
    def is_title_open(self) -> bool:
        """Whether it may still come: not after something that may become long."""
        return self._is_title_open

    def settled(self) -> list[Line]:
        """Give what is final, if it is known what stands above it."""
        self._write_text()
        if self._is_title_open:
            return []
        lines = self._lines[:]
        self._lines.clear()
        return lines

    def growing(self, rows: int) -> list[Line]:
        """Give the newest of what is not final."""
        self._write_text()
        lines = self._lines[-rows:] if self._is_title_open else []
        parts = self._lasting[:]
        if self._open is not None and self._open.part not in parts:
            parts.append(self._open.part)
        for part in parts:
            lines += part.growing(rows)
        return lines[-rows:] if rows > 0 else []

    def finish(self) -> list[Line]:
        """Give all that was held back."""
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
        """Give who shows an argument."""
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
        """Remember what others need to know."""
        if purpose == "language" and isinstance(value, str):
            self._language = value
        elif purpose == "path" and isinstance(value, str) and self._path is None:
            self._path = value
            for diff in self._diffs:
                diff.settle_path(value)

    def _offer_title(self, text: str | None) -> bool:
        """Take a title, if it is one; None says that it will not be short."""
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


class _Open(NamedTuple):
    """The argument that is being written."""

    name: str
    purpose: Purpose
    part: Part


def _unknown(_text: str) -> None:
    """Say what becomes of a file that a tool writes to: it may as well append to it."""


def _kind_of(event: ArgumentStarted | ArgumentDelta | ArgumentCompleted) -> Kind:
    """Say of which kind an argument is, also if its beginning was not seen."""
    if len(event.path) > 1:
        return "object"
    match event:
        case ArgumentStarted(kind=kind):
            return kind
        case ArgumentCompleted(value=value):
            return kind_of(value) or "object"
        case _:
            return "string"
