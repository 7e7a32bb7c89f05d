"""The screen of an emulated terminal: pyte's, with a scrollback and with realistic resizing.

pyte reads the sequences. On a resize it drops rows at the top and leaves the cursor where it was,
which no terminal does. It also lets a wide character stick out at the right edge, and stops at the
first mark that it cannot combine. These parts are replaced here.
"""

from collections import defaultdict
from typing import Any, Literal, TypeAlias

import pyte
from pyte import modes
from pyte.screens import Char, StaticDefaultDict
from wcwidth import wcwidth

# xterm cuts rows that are too long. VTE, kitty and tmux join and wrap them again.
Kind: TypeAlias = Literal["clips", "reflows"]

_BLANK = Char(" ")


class Row(StaticDefaultDict[int, Char]):
    """A row. It has no cells where nothing was written, or where it was erased."""

    def __init__(self, cells: dict[int, Char] | None = None) -> None:
        super().__init__(_BLANK)
        self.update(cells or {})
        self.goes_on = False  # on the next row, because its text was too long

    def length(self) -> int:
        return max(self, default=-1) + 1

    def text(self) -> str:
        return "".join(self[x].data for x in range(self.length()))


class Page(pyte.Screen):
    def __init__(self, columns: int, rows: int, kind: Kind) -> None:
        self.scrollback: list[Row] = []
        super().__init__(columns, rows)
        self.buffer: dict[int, Any] = defaultdict(Row)
        self._kind = kind

    def rows(self) -> list[Row]:
        return [self.buffer[y] for y in range(self.lines)]

    def is_wrapping(self) -> bool:
        return modes.DECAWM in self.mode

    def draw(self, data: str) -> None:
        for character in data:
            self._draw(character, wcwidth(character))

    def _draw(self, character: str, width: int) -> None:
        assert width >= 0, f"{character!r} cannot be shown"
        cursor = self.cursor
        if width == 0:
            row = self.buffer[cursor.y]
            place = max(cursor.x - 1, 0)
            if place and not row[place].data:
                place -= 1  # the left half of a wide one
            row[place] = row[place]._replace(data=row[place].data + character)
            return
        if cursor.x + width > self.columns:
            if self.is_wrapping():
                self.buffer[cursor.y].goes_on = True
                cursor.x = 0
                self.index()
            else:
                cursor.x = max(self.columns - width, 0)
        row = self.buffer[cursor.y]
        for place in range(cursor.x, min(cursor.x + width, self.columns)):
            row[place] = cursor.attrs._replace(data=character if place == cursor.x else "")
        # Without wrapping it stays in the last column; with it, it waits behind that.
        cursor.x = min(cursor.x + width, self.columns if self.is_wrapping() else self.columns - 1)

    def index(self) -> None:
        if self.cursor.y == self.lines - 1:
            self.scrollback.append(self.buffer[0])
        super().index()

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        del private
        assert how == 0
        row = self.buffer[self.cursor.y]
        # A terminal that waits behind the last column erases that one.
        for place in range(min(self.cursor.x, self.columns - 1), self.columns):
            row.pop(place, None)
        row.goes_on = False

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        assert how == 0
        self.erase_in_line()
        for y in range(self.cursor.y + 1, self.lines):
            self.buffer[y] = Row()

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        lines, columns = lines or self.lines, columns or self.columns
        (self._clip if self._kind == "clips" else self._reflow)(lines, columns)
        self.lines, self.columns = lines, columns

    def _clip(self, lines: int, columns: int) -> None:
        for row in (*self.scrollback, *self.rows()):
            for place in [place for place in row if place >= columns]:
                del row[place]
        everything = self.scrollback + self.rows()
        cursor = len(self.scrollback) + self.cursor.y
        top = len(self.scrollback)
        if lines > self.lines:
            top = max(0, top - (lines - self.lines))  # from the scrollback
        self._arrange(everything, max(top, cursor - lines + 1), lines, cursor)
        self.cursor.x = min(self.cursor.x, columns - 1)

    def _reflow(self, lines: int, columns: int) -> None:
        cursor = len(self.scrollback) + self.cursor.y
        everything = self.scrollback + self.rows()
        while len(everything) > cursor + 1 and not everything[-1].length():
            everything.pop()
        wrapped: list[Row] = []
        logical: list[Char] = []
        cursor_at, column, row_of_cursor = 0, 0, 0
        is_here = False
        for number, row in enumerate(everything):
            if number == cursor:
                is_here = True
                cursor_at = len(logical) + self.cursor.x
            logical += [row[place] for place in range(row.length())]
            if row.goes_on:
                continue
            if is_here:
                # The cursor may stand behind the text: its cell is there as well.
                row_of_cursor, column = _place(logical, cursor_at, columns)
                row_of_cursor += len(wrapped)
                is_here = False
            wrapped += _wrap(logical, columns)
            logical = []
        top = min(max(0, len(wrapped) - lines), row_of_cursor)
        self._arrange(wrapped, top, lines, row_of_cursor)
        self.cursor.x = min(column, columns - 1)

    def _arrange(self, everything: list[Row], top: int, lines: int, cursor: int) -> None:
        self.scrollback = everything[:top]
        self.buffer.clear()
        for y, row in enumerate(everything[top : top + lines]):
            self.buffer[y] = row
        self.cursor.y = cursor - top


def _wrap(cells: list[Char], columns: int) -> list[Row]:
    rows = [Row()]
    for cell in cells:
        width = _width(cell)
        if width and rows[-1].length() + width > columns:
            rows[-1].goes_on = True
            rows.append(Row())
        row = rows[-1]
        if row.length() < columns:
            row[row.length()] = cell
    return rows


def _place(cells: list[Char], index: int, columns: int) -> tuple[int, int]:
    before = _wrap([*cells[:index], *([_BLANK] * (index - len(cells))), _BLANK], columns)
    return len(before) - 1, before[-1].length() - 1


def _width(cell: Char) -> int:
    """Return the columns of a cell. The right half of a wide character has none of its own."""
    return 0 if not cell.data else max(1, wcwidth(cell.data[0]))
