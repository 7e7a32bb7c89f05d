"""A terminal that can be looked into, and that checks whatever is painted on it.

    emulator = Emulator(80, 24, "reflows")
    screen = Screen(emulator.output, size=emulator.size)
    screen.paint([...], [...])
    emulator.resize(40, 12)
    assert emulator.all_lines() == [...]

Each write to its ``output`` must be one frame of a ``Screen``: in synchronized output from its
first to its last character, with no sequences but those that a screen needs; rows above the tail
are not touched, the tail is not taller than allowed, and the cursor ends hidden at the left end of
its first row.
"""

import io
import re
import threading
from itertools import groupby
from typing import TextIO

import pyte
from pyte.screens import Char
from rich.style import Style
from rich.text import Text

from tests.terminal.page import Kind, Page, Row

__all__ = ["Emulator", "Kind"]

_FRAME = re.compile(
    r"\x1b\[\?2026h"
    r"(?:\x1b\[\?25[hl]|\x1b\[\?7[hl]|\x1b\[[KJ]|\x1b\[\d+A|\x1b\[[\d;]*m|\r\n?|[^\x00-\x1f\x7f-\x9f])*"
    r"\x1b\[\?2026l"
)


class Emulator:
    """A terminal of a given size; ``kind`` says what becomes of rows when that changes."""

    def __init__(self, columns: int = 80, rows: int = 24, kind: Kind = "reflows") -> None:
        self._page = Page(columns, rows, kind)
        self._stream = pyte.Stream(self._page)
        self._lock = threading.RLock()  # another thread may paint while somebody looks
        self.output: TextIO = _Output(self)
        self.frames: list[str] = []
        """All that was written to the output."""

    def size(self) -> tuple[int, int]:
        """Give columns and rows, as a ``Screen`` asks for them."""
        return self._page.columns, self._page.lines

    def resize(self, columns: int, rows: int) -> None:
        """Do what a terminal does when a person drags its corner."""
        with self._lock:
            self._page.resize(rows, columns)

    def feed(self, data: str) -> None:
        """Take what anybody writes, unchecked."""
        with self._lock:
            self._stream.feed(data)

    def paint(self, frame: str) -> None:
        """Take one frame, and check it."""
        assert _FRAME.fullmatch(frame), f"not a frame: {frame!r}"
        with self._lock:
            parked = len(self._page.scrollback) + self._page.cursor.y
            above = [row.text() for row in self._rows()[:parked]]
            self.frames.append(frame)
            self.feed(frame)
            self._check(above)

    def screen_lines(self) -> list[str]:
        """Give the rows on the screen, without spaces at their ends."""
        with self._lock:
            return [row.text().rstrip() for row in self._page.rows()]

    def scrollback(self) -> list[str]:
        """Give the rows that were scrolled out of the screen."""
        with self._lock:
            return [row.text().rstrip() for row in self._page.scrollback]

    def all_lines(self) -> list[str]:
        """Give the scrollback and the screen up to the last row that has a text."""
        with self._lock:
            return _without_blank_end(self.scrollback() + self.screen_lines())

    def joined_lines(self) -> list[str]:
        """Give all lines, each on one row: those that this terminal has wrapped are joined."""
        joined = [""]
        with self._lock:
            for row in self._rows():
                joined[-1] += row.text()
                if not row.goes_on:
                    joined.append("")
        return _without_blank_end([line.rstrip() for line in joined])

    def tail_lines(self) -> list[str]:
        """Give what is at and below the cursor."""
        with self._lock:
            return _without_blank_end(self.screen_lines()[self._page.cursor.y :])

    def is_cursor_hidden(self) -> bool:
        """Tell whether the cursor is hidden."""
        return self._page.cursor.hidden

    def cursor(self) -> tuple[int, int]:
        """Give column and row of the cursor."""
        return self._page.cursor.x, self._page.cursor.y

    def text(self) -> Text:
        """Give all of it with its colours."""
        with self._lock:
            rows = self._rows()[: len(self.all_lines())]
            return Text("\n").join(map(_styled, rows))

    def markup(self) -> str:
        """Give all of it with its colours in words, as in ``[bold]text[/bold]``."""
        return self.text().markup

    def _rows(self) -> list[Row]:
        return self._page.scrollback + self._page.rows()

    def _check(self, above: list[str]) -> None:
        page = self._page
        still_above = [row.text() for row in self._rows()[: len(above)]]
        assert still_above == above, "touched what was final"
        assert page.cursor.x == 0, "the cursor is not parked"
        assert page.is_wrapping(), "left without wrapping"
        assert page.cursor.attrs == page.default_char, "left a colour open"
        height = len(self.tail_lines())
        assert height <= max(1, min(12, page.lines // 3)), f"the tail takes {height} rows"
        assert page.cursor.hidden or not height, "the cursor is shown beside a tail"


class _Output(io.StringIO):
    """What a screen writes to; each write is a frame."""

    def __init__(self, emulator: Emulator) -> None:
        super().__init__()
        self._emulator = emulator

    def write(self, text: str) -> int:
        self._emulator.paint(text)
        return len(text)

    def isatty(self) -> bool:
        return True


def _without_blank_end(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _styled(row: Row) -> Text:
    cells = [row[place] for place in range(row.length())]
    return Text.assemble(
        *(("".join(cell.data for cell in run), style) for style, run in groupby(cells, _style))
    )


def _style(cell: Char) -> Style:
    colour = cell.fg.replace("bright", "bright_").replace("brown", "yellow")
    return Style(
        color=None if colour == "default" else colour,
        bold=cell.bold or None,
        dim=cell.blink or None,  # as a page has it
        italic=cell.italics or None,
        underline=cell.underscore or None,
        reverse=cell.reverse or None,
    )
