"""A text that grows, as lines: those that are over, and the one that still grows.

A line may have no end, and must not stay out of sight for that, nor be looked at again and again.
So if somebody looks at the growing line who has too little room for it, its complete rows are given
as a part that is final as well. It ends where the row ends, and the rest begins where the next one
would: who reads it sees no break but those that every long line has.
"""

from bisect import bisect_right
from typing import NamedTuple

from argstream.terminal._breaking import rows as breaking_rows
from argstream.terminal.scene._texts import text_span
from argstream.terminal.spans import Breaks, Line, text_of
from argstream.terminal.widths import rows_of, width

__all__ = ["GrowingText", "Part"]


class Part(NamedTuple):
    """A line, or a part of one."""

    text: str
    is_rest: bool = False
    """Whether the line began in the part before."""


class _Rows(NamedTuple):
    """How somebody saw the growing line."""

    room: int
    breaks: Breaks


class GrowingText:
    """Takes pieces of a text, gives parts."""

    def __init__(self) -> None:
        self._pieces: list[str] = []  # of the line that grows
        self._is_rest = False
        self._too_many: _Rows | None = None  # rows of it, when somebody last looked

    @property
    def growing(self) -> Part:
        """What is not over."""
        text = "".join(self._pieces)
        self._pieces = [text] if text else []
        return Part(text, self._is_rest)

    def beginning(self, length: int) -> str:
        """Give the first characters of what is not over."""
        taken = ""
        for piece in self._pieces:
            taken += piece[: length - len(taken)]
            if len(taken) >= length:
                break
        return taken

    def add(self, piece: str) -> list[Part]:
        """Take a piece; give what is over by it."""
        *complete, rest = piece.split("\n")
        parts: list[Part] = []
        for text in complete:
            self._pieces.append(text)
            parts.append(self._end())
        if rest:
            self._pieces.append(rest)
        return parts

    def finish(self) -> list[Part]:
        """Give what is left, since no more comes."""
        return [self._end()] if self._pieces else []

    def last_rows(self, line: Line, columns: int, rows: int) -> list[Line]:
        """Give the last rows of the growing line, which looks like this, each as a line."""
        seen = rows_of(line, columns)
        if len(seen) > rows:
            margin = min(width(text_of(line.margin)), columns // 2)
            self._too_many = _Rows(max(columns - margin, 1), line.breaks)
        return [Line(row) for row in seen[-rows:]] if rows > 0 else []

    def complete_rows(self) -> list[Part]:
        """Give those that are sure to stay as they are, if there were too many to be seen."""
        if self._too_many is None:
            return []
        text, is_rest = self.growing
        end = _end_of_rows(text, *self._too_many)
        self._too_many = None
        if not end:
            return []
        self._pieces = [text[end:]]
        self._is_rest = True
        return [Part(text[:end], is_rest)]

    def _end(self) -> Part:
        part = self.growing
        self._pieces, self._is_rest, self._too_many = [], False, None
        return part


def _end_of_rows(text: str, room: int, breaks: Breaks) -> int:
    """Give how much of a text is in all its rows but two: what is to come may change the last ones.

    The end of a row depends on the word behind it, and that on how much of it fits on the next.
    """
    shown = text_span(text).text
    starts = [start for start, _ in breaking_rows(shown, room, room, breaks)][:-1]
    if len(starts) < 2 or len(shown) == len(text):
        return starts[-1] if len(starts) > 1 else 0
    # What is spelled out takes more characters than were written.
    ends = range(len(text) + 1)
    return bisect_right(ends, starts[-1], key=lambda end: len(text_span(text[:end]).text)) - 1
