"""Lines of a text that grows, below each other behind a margin."""

import re
from collections.abc import Callable
from typing import Final

from argstream.terminal.highlighting import source_spans
from argstream.terminal.looks._growing import CUT, GrowingText
from argstream.terminal.spans import Line, Role, Span, Spans

__all__ = [
    "BAR",
    "Block",
    "Margins",
    "Paint",
    "PaintByFirstLine",
    "bar",
    "numbered",
    "paint_plainly",
]

Margins = Callable[[int], tuple[Spans, Spans]]
"""What stands before the first row of a line, counted from 1, and before the rest."""
Paint = Callable[[str], Spans]
"""Colours a line that is complete."""

BAR: Final[Spans] = (Span("  │ ", "faint"),)

_HELD: Final = 20  # lines that wait for somebody to look

_begins_a_patch: Final = re.compile(
    r"\*\*\* (Begin Patch|(Add|Update|Delete) File: )|diff --git |--- \S|@@ -\d+(,\d+)? \+\d+|@@$"
).match
_PATCH_ROLES: Final[tuple[tuple[str, Role], ...]] = (
    ("+++ ", "place"),
    ("--- ", "place"),
    ("*** ", "place"),
    ("@@", "place"),
    ("diff ", "place"),
    ("index ", "faint"),
    ("+", "added"),
    ("-", "removed"),
)


def bar(_number: int) -> tuple[Spans, Spans]:
    """Put the same bar before each row."""
    return BAR, BAR


def numbered(number: int) -> tuple[Spans, Spans]:
    """Put the number of the line before a bar, and a bar below it."""
    return (Span(f"{number:6d} │ ", "faint"),), (Span("       │ ", "faint"),)


def paint_plainly(text: str) -> Spans:
    """Show a line as it is."""
    return source_spans([(text, "plain")])


class PaintByFirstLine:
    """Colours the lines of a patch by their first characters, and no other text."""

    def __init__(self, *, is_patch: bool | None = None) -> None:
        """Find out whether it is one, if that is not known."""
        self._is_patch = is_patch

    def __call__(self, text: str) -> Spans:
        """Colour the next line."""
        if self._is_patch is None:
            self._is_patch = _begins_a_patch(text) is not None
        if not self._is_patch:
            return paint_plainly(text)
        plain: Role = "plain"
        role = next((role for start, role in _PATCH_ROLES if text.startswith(start)), plain)
        return source_spans([(text, role)])


class Block:
    """A text that grows line by line; its completed lines are written out."""

    def __init__(self, out: list[Line], margins: Margins, paint: Paint = paint_plainly) -> None:
        self._out = out
        self._margins = margins
        self._paint = paint
        self._text = GrowingText()
        self._complete: list[str] = []  # and not written yet
        self._written = 0

    @property
    def lines(self) -> int:
        """How many are complete."""
        return self._written + len(self._complete)

    @property
    def has_open_line(self) -> bool:
        """Whether a line has begun that no newline has ended."""
        return self._text.length > 0

    def add(self, text: str) -> None:
        """Take the next piece, and write out what it completes."""
        self.hold(text)
        self.write()

    def hold(self, text: str) -> None:
        """Take the next piece; what it completes can wait until somebody looks.

        Colours for a few lines at once cost much less than for each alone, a moment apart.
        """
        self._complete += self._text.add(text)
        if len(self._complete) > _HELD:
            self.write()

    def write(self) -> None:
        """Write out the lines that are complete."""
        complete, self._complete = self._complete, []
        for text in complete:
            self._written += 1
            margin, rest = self._margins(self._written)
            self._out.append(Line(self._paint(text), margin, rest))

    def end(self) -> None:
        """Write out the last line as well, which no newline has ended; it may be empty."""
        self._complete.append(self._text.end())
        self.write()

    def drop(self) -> None:
        """Forget the last line: it is shown elsewhere."""
        self._text.end()

    def growing(self) -> list[Line]:
        """Give the line that grows, from behind if it is long; it is not coloured yet."""
        if not self.has_open_line:
            return []
        margin, rest = self._margins(self.lines + 1)
        cut = (Span("…", "faint"),) if self._text.length > CUT else ()
        return [Line(cut + paint_plainly(self._text.tail()), margin, rest)]
