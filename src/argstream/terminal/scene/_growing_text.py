"""A text that grows, as lines: those that are over, and the one that still grows.

A line may have no end, and must not stay out of sight for that, nor be looked at again and again.
So if somebody looks at the growing line who has too little room for it, its complete rows are given
as parts that are final as well, and the rest begins where the next row would: who reads it sees no
break but those that every long line has.
"""

from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from argstream.terminal._breaking import fit
from argstream.terminal._breaking import rows as breaking_rows
from argstream.terminal.scene._texts import text_span
from argstream.terminal.spans import Breaks, Line, text_of
from argstream.terminal.widths import rows_of, width

__all__ = ["GrowingText", "Part"]

_BEHIND: Final = 8  # columns: a character is at most as wide, with all that belongs to it


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
        text = self.growing.text
        ends = _ends_of_rows(text, *self._too_many)
        self._too_many = None
        parts = []
        for start, end in pairwise([0, *ends]):
            parts.append(Part(text[start:end], self._is_rest))
            self._is_rest = True
        if ends:
            self._pieces = [text[ends[-1] :]]
        return parts

    def _end(self) -> Part:
        part = self.growing
        self._pieces, self._is_rest, self._too_many = [], False, None
        return part


def _ends_of_rows(text: str, room: int, breaks: Breaks) -> list[int]:
    """Give where the rows of a text end that stay as they are, whatever is to come.

    The end of a row depends on the word behind it, and that on whether it fits on the next one: so
    more than a row must be known behind it.
    """
    text = text.partition("\t")[0]  # how wide a tab is depends on all before it
    shown = text_span(text).text
    starts = [start for start, _ in breaking_rows(shown, room, room, breaks)][1:]
    ends = [start for start in starts if fit(shown, start, room + _BEHIND) < len(shown)]
    if len(shown) == len(text):
        return ends
    # What is spelled out takes more characters than were written.
    lengths = list(accumulate(len(text_span(character).text) for character in text))
    return sorted({bisect_right(lengths, end) for end in ends} - {0})
