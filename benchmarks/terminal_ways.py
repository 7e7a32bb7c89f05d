"""Ways to show what a model writes in a terminal: ours, and what can be done with Rich.

Those with Rich show the text of a file alone, with line numbers and colours. Theirs is the easier
task: nothing is made harmless, and there is no word about the call.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.syntax import Syntax

from argstream import ArgumentDelta, Event
from argstream.terminal.live import LiveTerminal
from argstream.terminal.looks import Looks
from argstream.terminal.scene import Scene
from argstream.terminal.spans import Line
from terminal_workloads import Showing

OURS, RICH_LINES, RICH_WHOLE = "argstream", "Rich, line by line", "Rich, all of it again"

_FRAMES_PER_SECOND = 20


class Way(Protocol):
    """Shows events in standard output."""

    @property
    def frames(self) -> int:
        """How often it has painted."""
        ...

    def take(self, events: Iterable[Event]) -> None:
        """Show what came."""
        ...

    def close(self) -> None:
        """Show all that is left."""
        ...


class _CountedScene(Scene):
    frames = 0

    def tail(self, now: float, columns: int, rows: int) -> list[Line]:
        self.frames += 1
        return super().tail(now, columns, rows)


class Ours:
    """A live terminal with a scene."""

    def __init__(self, shown: Showing) -> None:
        self._scene = _CountedScene(Looks(read_file=shown.read_file))
        self._terminal = LiveTerminal(self._scene)

    @property
    def frames(self) -> int:
        """How often it has painted."""
        return self._scene.frames

    def take(self, events: Iterable[Event]) -> None:
        """Show what came."""
        for event in events:
            self._terminal.show(event)

    def close(self) -> None:
        """Show all that is left."""
        self._terminal.close()


class _CountedLive(Live):
    frames = 0

    def refresh(self) -> None:
        self.frames += 1
        super().refresh()


class _WithRich:
    """What the ways with Rich have in common: a live display, painted by a thread of Rich."""

    def __init__(self, _: Showing) -> None:
        self._live = _CountedLive(
            console=Console(file=sys.stdout), refresh_per_second=_FRAMES_PER_SECOND
        )
        self._live.start()
        self._text = ""

    @property
    def frames(self) -> int:
        """How often it has painted."""
        return self._live.frames

    def take(self, events: Iterable[Event]) -> None:
        """Show what came."""
        for event in events:
            if isinstance(event, ArgumentDelta) and event.path == ("content",):
                self._text += event.text
                self._show()

    def close(self) -> None:
        """Show all that is left."""
        self._live.stop()

    def _show(self) -> None:
        raise NotImplementedError


class RichWhole(_WithRich):
    """Hands all of the text to Rich again, with each delta."""

    def _show(self) -> None:
        self._live.update(_syntax(self._text, 1))


class RichLines(_WithRich):
    """Prints lines that are complete above the live display, in which the last one grows."""

    _line = 1

    def _show(self) -> None:
        complete, newline, self._text = self._text.rpartition("\n")
        if newline:
            self._live.console.print(_syntax(complete, self._line))
            self._line += complete.count("\n") + 1
        self._live.update(_syntax(self._text, self._line))


def _syntax(text: str, line: int) -> Syntax:
    # The 16 colours of the terminal, as ours.
    return Syntax(text, "python", theme="ansi_dark", line_numbers=True, start_line=line)


WAYS: dict[str, Callable[[Showing], Way]] = {
    OURS: Ours,
    RICH_LINES: RichLines,
    RICH_WHOLE: RichWhole,
}
