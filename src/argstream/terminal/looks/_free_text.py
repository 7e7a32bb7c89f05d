"""Calls whose arguments are no JSON: code, patches, whatever a custom tool takes."""

from argstream.deltas import CallKind
from argstream.events import ToolArgsDelta
from argstream.terminal.highlighting import Highlighter
from argstream.terminal.looks._block import Block, PaintByFirstLine, bar, numbered
from argstream.terminal.looks._command import prompt
from argstream.terminal.looks.declarations import Command, File, Look
from argstream.terminal.looks.view import ArgumentEvent
from argstream.terminal.spans import Line, Spans

__all__ = ["FreeTextView"]

_CODE = File(language="python")  # what providers run themselves


class FreeTextView:
    """Shows the text of a call as it is, line by line."""

    def __init__(self, kind: CallKind, look: Look | None) -> None:
        self._lines: list[Line] = []
        match _CODE if look is None and kind == "code" else look:
            case File(language=language):
                self._block = Block(self._lines, numbered, Highlighter(language).line)
            case Command(language=language):
                self._block = Block(self._lines, prompt, Highlighter(language).line)
            case _:
                self._block = Block(self._lines, bar, PaintByFirstLine())

    def take(self, event: ArgumentEvent) -> None:
        """Follow the text."""
        if isinstance(event, ToolArgsDelta):
            self._block.hold(event.delta)

    @property
    def title(self) -> Spans:
        """There is none."""
        return ()

    @property
    def is_title_open(self) -> bool:
        """And none will come."""
        return False

    def settled(self) -> list[Line]:
        """Give the lines that are complete."""
        self._block.write()
        lines = self._lines[:]
        self._lines.clear()
        return lines

    def growing(self, rows: int) -> list[Line]:
        """Give the line that grows."""
        return self._block.growing()[-rows:] if rows > 0 else []

    def finish(self) -> list[Line]:
        """Give the last line."""
        if self._block.has_open_line:
            self._block.end()
        return self.settled()
