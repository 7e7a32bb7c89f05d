"""An array of flat objects, as a table whose rows come one after the other."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from argstream.events import ArgumentCompleted, ArgumentStarted
from argstream.sanitise import visible_line
from argstream.terminal.looks._block import BAR
from argstream.terminal.looks._plain import PlainPart
from argstream.terminal.looks._wording import INDENT, value_text
from argstream.terminal.looks.view import ArgumentEvent
from argstream.terminal.spans import Line, Role, Span, shown
from argstream.terminal.widths import width

__all__ = ["TablePart"]

_HELD: Final = 5  # rows that are known before the columns get their widths
_WIDE: Final = 72  # columns that most screens have, beside the margin
_GAP: Final = "  "


class _Row(NamedTuple):
    cells: Mapping[str, str]
    by_names: list[Line]  # the same, as it is shown if it does not fit


class TablePart:
    """Shows each item when it is whole; one that is long or has parts itself, by its names.

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
        """Follow the array."""
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
        """Give the rows that wait, and the item that is being written."""
        lines = [line for row in self._waiting for line in row.by_names]
        return (lines + self._item_lines + self._item.growing(rows))[-rows:]

    def finish(self) -> None:
        """Write what there is."""
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
        if len(self._waiting) == _HELD:
            self._settle_columns()

    def _settle_columns(self) -> None:
        """Write the rows that wait, below the names of their columns."""
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
        """Put cells into their columns; one that is missing stays empty."""
        spans: list[Span] = []
        for name, columns in (self._columns or {}).items():
            cell = shown(cells.get(name, ""), role)
            spans += [cell, Span(" " * max(columns - width(cell.text), 0) + _GAP)]
        return Line(tuple(spans[:-1]), BAR, BAR)


def _is_flat(value: Any) -> bool:
    """Say whether an item can be a row: an object whose values have no parts."""
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(name, str) for name in value)
        and not any(isinstance(cell, dict | list) for cell in value.values())
    )


def _cell(value: Any) -> str:
    """Spell a value; a string without quotes, if it cannot be taken for something else."""
    if not isinstance(value, str) or not value or value != value.strip():
        return value_text(value)
    try:
        json.loads(value)
    except ValueError:
        return value
    return value_text(value)
