"""A text that grows, as lines: those that are over, and the one that still grows.

A line without an end must not stay out of sight, nor be looked at again and again. So a line that
becomes too long is given in parts, which are final as well. Where it is parted depends on the line
alone, not on the pieces in which it came.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from argstream.terminal.spans import Breaks

__all__ = ["GrowingText", "Part"]

_LONGEST: Final = 480  # what a tail of eight rows shows at eighty columns
_SENTENCE_ENDS: Final = (". ", "! ", "? ", ": ", "; ", "。")


class Part(NamedTuple):
    """A line, or a part of one."""

    text: str
    is_rest: bool = False
    """Whether the line began in the part before."""


class GrowingText:
    """Takes pieces of a text, gives parts."""

    def __init__(self, breaks: Breaks) -> None:
        self._breaks = breaks
        self._rest = ""
        self._is_rest = False

    @property
    def growing(self) -> Part:
        """What is not over."""
        return Part(self._rest, self._is_rest)

    def add(self, piece: str) -> list[Part]:
        """Take a piece; give what is over by it."""
        *complete, rest = piece.split("\n")
        parts: list[Part] = []
        for text in complete:
            parts += self._parts(text)
            parts.append(self.growing)
            self._rest, self._is_rest = "", False
        parts += self._parts(rest)
        return parts

    def finish(self) -> list[Part]:
        """Give what is left, since no more comes."""
        parts = [self.growing] if self._rest else []
        self._rest, self._is_rest = "", False
        return parts

    def _parts(self, piece: str) -> Iterator[Part]:
        """Add to the growing line, and part it where it is too long."""
        text = self._rest + piece
        start = 0
        while len(text) - start > _LONGEST:
            end = self._end(text, start)
            yield Part(text[start:end], self._is_rest)
            self._is_rest = True
            start = end
        self._rest = text[start:]

    def _end(self, text: str, start: int) -> int:
        latest = start + _LONGEST
        if self._breaks == "anywhere":
            return latest
        ends = (text.rfind(end, start + _LONGEST // 2, latest) + len(end) for end in _SENTENCE_ENDS)
        end = max(ends)
        if end > start + _LONGEST // 2:
            return end
        return text.rfind(" ", start, latest) + 1 or latest
