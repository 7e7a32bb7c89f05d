r"""A terminal as a place for lines that stay, above a few that change.

Committed lines go into the scrollback and are never touched again. Below them is the tail, which
is painted anew with each frame and takes at most a third of the screen.

Between two frames the cursor is parked, hidden, at the left end of the tail's *first* row. When the
size changes, terminals wrap anew, scroll, or cut, each in its way, but all keep the cursor on its
cell. So the next frame can begin where the cursor is, and erase what is below it, without knowing
what became of the rows. What others print meanwhile comes out above the tail, too.

A frame is one write: nothing is erased that is not written in the same breath, and terminals that
know synchronized output (mode 2026) show it at once. Rows of the tail are cut, and written with
automatic wrapping off, so each takes one row even if the terminal has just become narrower.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Final, TextIO

from argstream.terminal._interruptions import Interruptions
from argstream.terminal._modes import Modes
from argstream.terminal._writing import is_in_background, size_of, write
from argstream.terminal.palette import Palette
from argstream.terminal.spans import Line
from argstream.terminal.widths import row_of, rows_of

__all__ = ["Screen", "tail_bound"]

_BEGIN: Final = "\x1b[?2026h"
_END: Final = "\x1b[?2026l"
_HIDE_CURSOR: Final = "\x1b[?25l"
_SHOW_CURSOR: Final = "\x1b[?25h"
_WRAP_OFF: Final = "\x1b[?7l"
_WRAP_ON: Final = "\x1b[?7h"
_ERASE_REST_OF_ROW: Final = "\x1b[K"
_ERASE_BELOW: Final = "\x1b[J"
_NEXT_ROW: Final = "\r\n"
_MOST_TAIL_ROWS: Final = 12
_PATIENCE: Final = 0.5
"""How long somebody who must not wait waits for a frame to be written."""


def tail_bound(rows: int) -> int:
    """Give the rows that the tail may take on a screen of so many."""
    return max(1, min(_MOST_TAIL_ROWS, rows // 3))


class Screen:
    """Paints on a terminal; one at a time, from any thread."""

    def __init__(
        self,
        output: TextIO,
        *,
        palette: Palette | None = None,
        size: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        """Take an output; how large it is, in columns and rows, is asked for each frame."""
        self._output = output
        self._palette = palette or Palette.of(output)
        self._size = size
        self._modes = Modes(output)
        self._interruptions = Interruptions(self._leave, self._come_back)
        self._lock = threading.Lock()
        self._held: list[Line] = []  # committed, and not written yet
        self._painted: tuple[list[str], tuple[int, int]] | None = None  # the tail, and on what size
        self._suspensions = 0
        self._is_left = False  # because the process stops, or ends
        self._is_ours = False  # cursor hidden, echo off
        self._is_over = False
        self.times_away = 0
        """How often it was given to others, whose text may stand on it since."""

    def open(self) -> None:
        """Be prepared for Ctrl-Z and the like; only the main thread can."""
        self._modes.remember()
        self._interruptions.begin()

    def size(self) -> tuple[int, int]:
        """Give columns and rows as they are now."""
        if self._size is not None:
            return self._size()
        columns, rows = size_of(self._output)
        return columns, rows

    def paint(self, committed: Sequence[Line], tail: Sequence[Line]) -> bool:
        """Write lines that stay, and below them the tail, of which the last rows are shown.

        While the terminal is somebody else's, lines are held back. Tell whether they can be seen.
        """
        with self._lock:
            if self._is_over:
                return False
            self._held += committed
            if self._suspensions or self._is_left:
                return False
            if is_in_background(self._output):
                self._lose()  # the shell has set it up for itself
                return False
            self._paint(tail)
            return True

    def suspend(self) -> None:
        """Leave the terminal to somebody else: no tail, the cursor shown, keys echoed."""
        with self._lock:
            self._suspensions += 1
            self._clear()

    def resume(self) -> None:
        """Take it back; the next frame shows all that was held back."""
        with self._lock:
            self._suspensions -= 1
            self._lose()
            if not self._suspensions:
                self._modes.quiet()

    def close(self) -> None:
        """Write what was held back, and leave the terminal as it was, without a tail."""
        with self._lock:
            is_over, self._is_over = self._is_over, True
            self._interruptions.end()
            if is_over:
                return
            self._clear(self._committed_rows(self.size()[0]))

    def _paint(self, tail: Sequence[Line]) -> None:
        columns, rows = size = self.size()
        shown = tail[-tail_bound(rows) :]
        tail_rows = [self._palette.ansi(row_of(line, columns - 1)) for line in shown]
        frame = self._committed_rows(columns)
        if self._is_ours and not frame and self._painted == (tail_rows, size):
            return
        self._modes.quiet()
        if not self._is_ours:
            self._is_ours = True
            frame = _HIDE_CURSOR + frame
        self._painted = tail_rows, size
        self._write(_BEGIN + frame + _tail(tail_rows) + _END)

    def _committed_rows(self, columns: int) -> str:
        """Give all that was held back as it is written."""
        lines, self._held = self._held, []
        return "".join(
            # The rest is erased behind the text: should it take a second row after all, because
            # the terminal has just become narrower, then nothing of the tail remains there.
            self._palette.ansi(row) + _ERASE_REST_OF_ROW + _NEXT_ROW
            for line in lines
            for row in rows_of(line, columns - 1)
        )

    def _clear(self, rows: str = "") -> None:
        """Write rows instead of the tail, and give the terminal back."""
        if self._is_ours:
            rows += _ERASE_BELOW + _SHOW_CURSOR
        if rows:
            self._write(_BEGIN + rows + _END)
        self._lose()
        self._modes.restore()

    def _write(self, text: str) -> None:
        try:
            write(self._output, text)
        except (OSError, ValueError):  # it hung up, or was closed
            self._is_over = True
            self._modes.restore()
            raise

    def _leave(self) -> None:
        """Give the terminal back at once, for the process stops or ends.

        If a frame is just being written, by this thread or by one that waits for the terminal,
        then only the keyboard is.
        """
        self._is_left = True
        if self._lock.acquire(timeout=_PATIENCE):
            try:
                if not self._is_over:
                    self._clear()
            finally:
                self._lock.release()
        if not self._is_over:
            self._modes.reset()

    def _come_back(self) -> None:
        self._is_left = False
        self._lose()  # the shell has set it up for itself

    def _lose(self) -> None:
        """Note that the terminal is not set up for us, and that others may have written on it."""
        self.times_away += self._is_ours
        self._is_ours = False


def _tail(rows: Sequence[str]) -> str:
    """Write the rows of the tail, erase what is below, and park the cursor on the first."""
    if not rows:
        return "\r" + _ERASE_BELOW
    text = (_ERASE_REST_OF_ROW + _NEXT_ROW).join(rows)
    up = f"\x1b[{len(rows) - 1}A" if len(rows) > 1 else ""
    return f"{_WRAP_OFF}{text}{_ERASE_BELOW}{_WRAP_ON}\r{up}"
