"""A command that is to be run."""

from collections.abc import Callable
from typing import Final

from argstream.events import ArgumentCompleted, ArgumentDelta
from argstream.terminal.highlighting import Highlighter
from argstream.terminal.looks._block import Block
from argstream.terminal.looks.view import ArgumentEvent
from argstream.terminal.spans import Line, Span, Spans

__all__ = ["CommandPart", "prompt"]

_BESIDE: Final = 72  # characters that fit beside the name of a tool


def prompt(number: int) -> tuple[Spans, Spans]:
    """Put a dollar before the first line, and room below it."""
    below = (Span("    "),)
    return ((Span("  "), Span("$ ", "faint")), below) if number == 1 else (below, below)


class CommandPart:
    """Shows a command as a title if it is short, else as lines."""

    def __init__(
        self, out: list[Line], language: str | None, offer_title: Callable[[str | None], bool]
    ) -> None:
        """Offer the title, or None if there will be none; the answer is whether it was taken."""
        self._block = Block(out, prompt, Highlighter(language).line)
        self._offer_title = offer_title
        self._short: str | None = ""  # what came, as long as it is short

    def take(self, event: ArgumentEvent) -> None:
        """Follow the one argument that is the command."""
        if isinstance(event, ArgumentDelta):
            self._block.add(event.text)
            if self._short is not None:
                self._short += event.text
                if len(self._short) > _BESIDE or "\n" in self._short:
                    self._short = None
                    self._offer_title(None)
        elif isinstance(event, ArgumentCompleted):
            if self._short is not None and self._offer_title(self._short):
                self._block.drop()
            elif self._block.has_open_line or not self._block.lines:
                self._block.end()

    def growing(self, rows: int) -> list[Line]:
        """Give the line that grows."""
        return self._block.growing()[-rows:]

    def finish(self) -> None:
        """Write the last line, if the command broke off in it."""
        if self._block.has_open_line:
            self._block.end()
