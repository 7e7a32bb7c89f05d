"""The face that fits where the output goes: live in a terminal, plain lines anywhere else."""

import sys
from types import TracebackType
from typing import Protocol, Self, TextIO

from argstream.events import Event
from argstream.terminal.live import LiveTerminal
from argstream.terminal.looks import Looks
from argstream.terminal.palette import is_live
from argstream.terminal.plain import PlainLines
from argstream.terminal.scene import Scene
from argstream.terminal.spans import Line, text_of

__all__ = ["PlainTerminal", "Terminal", "open_terminal"]


class Terminal(Protocol):
    """Shows events to a person, as they come. Use it with ``with``."""

    def show(self, event: Event) -> None:
        """Show what an event says; does not wait for the terminal."""
        ...

    def say(self, *lines: Line) -> None:
        """Say something else, in between."""
        ...

    def close(self) -> None:
        """Show what is left, and leave a clean screen."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class PlainTerminal:
    """For pipes, files and terminals that can do nothing: lines, of which none changes."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._lines = PlainLines(output.write)

    def show(self, event: Event) -> None:
        """Write what an event says, at once."""
        self._lines.show(event)
        self._output.flush()

    def say(self, *lines: Line) -> None:
        """Write lines."""
        self._lines.end()
        for margin, spans in ((line.margin, line.spans) for line in lines):
            self._output.write((text_of(margin) + text_of(spans)).rstrip() + "\n")
        self._output.flush()

    def close(self) -> None:
        """End the last line."""
        self._lines.end()
        self._output.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def open_terminal(looks: Looks | None = None, output: TextIO | None = None) -> Terminal:
    """Give what shows events, in standard output or another one.

    ::

        with open_terminal() as terminal:
            async for event in agent.run_stream("Make the tests pass"):
                terminal.show(event)

    ``looks`` say how the arguments of tools look, where that should not be guessed.
    """
    output = sys.stdout if output is None else output
    if is_live(output):
        return LiveTerminal(Scene(looks), output)
    return PlainTerminal(output)
