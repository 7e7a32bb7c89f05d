"""How much of a call was written."""

from collections.abc import Iterable, Iterator

from argstream.terminal.scene._wording import bytes_of, lines_and_size
from argstream.terminal.spans import Line
from argstream.terminal.words import count, size

__all__ = ["Amount"]


class Amount:
    """Counts bytes, and lines: of a diff, those that are added and removed."""

    def __init__(self) -> None:
        self.size = 0
        """In bytes."""
        self._before = 0  # lines of the texts before
        self._newlines = 0
        self._is_open = False
        self._added = 0
        self._removed = 0

    @property
    def lines(self) -> int:
        """How many lines there are in texts of more than one."""
        return self._before + self._newlines + self._is_open

    def write(self, text: str) -> None:
        """Take the next piece of all that is written."""
        self.size += bytes_of(text)

    def add(self, text: str) -> None:
        """Take the next piece of a text."""
        if text:
            self._newlines += text.count("\n")
            self._is_open = self._newlines > 0 and not text.endswith("\n")

    def end_text(self) -> None:
        """Say that what comes is of another text."""
        self._before = self.lines
        self._newlines = 0
        self._is_open = False

    def see(self, lines: Iterable[Line]) -> None:
        """Take what became final on the screen: a diff is known by its signs."""
        for line in lines:
            for span in line.margin:
                self._added += span.role == "added"
                self._removed += span.role == "removed"

    def said(self) -> Iterator[str]:
        """Say it. Of the two texts of a change, the lines in all would tell nobody anything."""
        if not self._added and not self._removed:
            yield from lines_and_size(self.lines, self.size)
            return
        if self._added and self._removed:
            yield f"{count(self._added, 'line')} added, {self._removed} removed"
        elif self._added:
            yield f"{count(self._added, 'line')} added"
        else:
            yield f"{count(self._removed, 'line')} removed"
        yield size(self.size)
