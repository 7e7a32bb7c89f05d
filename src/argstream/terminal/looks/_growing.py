"""A text that grows: its completed lines, and the end, which is looked at only from behind."""

from typing import Final

__all__ = ["CUT", "GrowingText"]

CUT: Final = 500
"""How many characters of a line that still grows are looked at: its newest."""


class GrowingText:
    """Takes pieces, gives lines.

    Linear: a piece is looked at when it comes and when its line is complete. The end of the line
    that grows can be asked for at any time, for a bounded price.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []  # of the line that grows
        self.length = 0
        """Of the line that grows."""

    def add(self, text: str) -> list[str]:
        """Take a piece, and give the lines that it completes, without their newlines."""
        first, *others = text.split("\n")
        self._pieces.append(first)
        self.length += len(first)
        if not others:
            return []
        lines = [self.end(), *others[:-1]]
        self._pieces = [others[-1]]
        self.length = len(others[-1])
        return lines

    def end(self) -> str:
        """Give the line that was growing: the text is over, or this line is."""
        line = "".join(self._pieces)
        self._pieces = []
        self.length = 0
        return line

    def tail(self) -> str:
        """Give the end of the line that grows; all of it, unless it is longer than ``CUT``."""
        pieces = []
        length = 0
        for piece in reversed(self._pieces):
            pieces.append(piece)
            length += len(piece)
            if length > CUT:
                break
        return "".join(reversed(pieces))[-CUT:]
