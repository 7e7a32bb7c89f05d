"""A terminal in memory that checks each frame that is painted on it.

    emulator = Emulator(80, 24, "reflows")
    screen = Screen(emulator.output, size=emulator.size)
    screen.paint([...], [...])
    emulator.resize(40, 12)
    assert emulator.all_lines() == [...]

Each write to its ``output`` must be one frame of a ``Screen``: synchronized output from the first
to the last character, and only the sequences that a screen needs. A frame must not touch rows above
the tail, the tail must not be too tall, and the cursor ends hidden at the left of its first row.
"""

import io
import re
import threading
from typing import TextIO

import pyte

from tests.terminal.page import Kind, Page, Row

__all__ = ["Emulator", "Kind"]

_FRAME = re.compile(
    r"\x1b\[\?2026h"
    r"(?:\x1b\[\?25[hl]|\x1b\[\?7[hl]|\x1b\[[KJ]|\x1b\[\d+A|\x1b\[[\d;]*m|\r\n?|[^\x00-\x1f\x7f-\x9f])*"
    r"\x1b\[\?2026l"
)


class Emulator:
    """A terminal of a given size. ``kind`` is what it does with rows on a resize."""

    def __init__(self, columns: int = 80, rows: int = 24, kind: Kind = "reflows") -> None:
        self._page = Page(columns, rows, kind)
        self._stream = pyte.Stream(self._page)
        self._lock = threading.RLock()  # another thread may paint meanwhile
        self.output: TextIO = _Output(self)
        self.frames: list[str] = []

    def size(self) -> tuple[int, int]:
        return self._page.columns, self._page.lines

    def resize(self, columns: int, rows: int) -> None:
        with self._lock:
            self._page.resize(rows, columns)

    def feed(self, data: str) -> None:
        """Write the output of another program to the screen, unchecked."""
        with self._lock:
            self._stream.feed(data)

    def paint(self, frame: str) -> None:
        assert _FRAME.fullmatch(frame), f"not a frame: {frame!r}"
        with self._lock:
            parked = len(self._page.scrollback) + self._page.cursor.y
            above = [row.text() for row in self._rows()[:parked]]
            self.frames.append(frame)
            self.feed(frame)
            self._check(above)

    def all_lines(self) -> list[str]:
        """Return scrollback and screen up to the last row that has a text."""
        with self._lock:
            return _without_blank_end([row.text().rstrip() for row in self._rows()])

    def joined_lines(self) -> list[str]:
        """Return all lines, each on one row: those that this terminal has wrapped are joined."""
        joined = [""]
        with self._lock:
            for row in self._rows():
                joined[-1] += row.text()
                if not row.goes_on:
                    joined.append("")
        return _without_blank_end([line.rstrip() for line in joined])

    def tail_lines(self) -> list[str]:
        with self._lock:
            rows = self._page.rows()[self._page.cursor.y :]
            return _without_blank_end([row.text().rstrip() for row in rows])

    def is_cursor_hidden(self) -> bool:
        return self._page.cursor.hidden

    def cursor(self) -> tuple[int, int]:
        return self._page.cursor.x, self._page.cursor.y

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
