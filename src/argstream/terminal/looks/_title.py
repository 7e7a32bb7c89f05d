"""The argument that may stand beside the name of its tool."""

from collections.abc import Callable

from argstream.events import ArgumentCompleted
from argstream.terminal.looks._plain import PlainPart
from argstream.terminal.looks.view import ArgumentEvent
from argstream.terminal.spans import Line

__all__ = ["TitlePart"]


class TitlePart:
    """Offers an argument as the title; it is shown plainly if nobody takes it."""

    def __init__(self, out: list[Line], offer_title: Callable[[str | None], bool]) -> None:
        self._out = out
        self._offer_title = offer_title
        self._lines: list[Line] = []
        self._plain = PlainPart(self._lines)

    def take(self, event: ArgumentEvent) -> None:
        """Follow the one argument."""
        self._plain.take(event)
        if isinstance(event, ArgumentCompleted):
            if not self._offer_title(event.value):
                self._out += self._lines
            self._lines.clear()

    def growing(self, rows: int) -> list[Line]:
        """Give it as far as it came."""
        return (self._lines + self._plain.growing(rows))[-rows:]

    def finish(self) -> None:
        """Write it as far as it came: half a path is no title."""
        self._plain.finish()
        self._out += self._lines
        self._lines.clear()
