"""The face that fits where the output goes: live in a terminal, plain lines anywhere else."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Protocol, Self, TextIO

from argstream.events import Event
from argstream.terminal._writing import size_of
from argstream.terminal.live import LiveTerminal, Shown
from argstream.terminal.looks import Looks
from argstream.terminal.palette import Palette, is_live
from argstream.terminal.scene import Scene
from argstream.terminal.spans import Line, Span, Spans
from argstream.terminal.widths import rows_of

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
    """For pipes, files and terminals that can do nothing: lines, of which none changes.

    They are written when they are complete. In a terminal they are wrapped at its width, so that
    each row has its margin; anywhere else a line is one line, however long it is.
    """

    def __init__(
        self,
        output: TextIO,
        scene: Shown | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Write to an output what becomes final in a scene."""
        self._output = output
        self._scene = Scene(has_tail=False) if scene is None else scene
        self._clock = clock
        self._palette = Palette.of(output)

    def show(self, event: Event) -> None:
        """Write what is complete by an event, at once."""
        self._scene.take(event, self._clock())
        self._write(self._scene.committed())

    def say(self, *lines: Line) -> None:
        """Write lines."""
        self._write([*self._scene.committed(), *lines])

    def close(self) -> None:
        """Write what is left."""
        self._scene.finish(self._clock())
        self._write(self._scene.committed())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, lines: Iterable[Line]) -> None:
        rows = [self._palette.ansi(_stripped(row)) + "\n" for row in self._rows(lines)]
        if rows:
            self._output.write(_in_encoding_of(self._output, "".join(rows)))
            self._output.flush()

    def _rows(self, lines: Iterable[Line]) -> Iterator[Spans]:
        columns = size_of(self._output).columns - 1 if self._output.isatty() else None
        for line in lines:
            if columns is None:
                yield line.margin + line.spans
            else:
                yield from rows_of(line, columns)


def _in_encoding_of(output: TextIO, text: str) -> str:
    """Spell what the encoding of an output does not have, by its number."""
    encoding = getattr(output, "encoding", None)  # there is none where nothing is encoded
    if encoding is None or text.isascii():
        return text
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _stripped(spans: Spans) -> Spans:
    """Leave out the spaces at the end."""
    for count in range(len(spans), 0, -1):
        text, role = spans[count - 1]
        if text.rstrip(" "):
            return (*spans[: count - 1], Span(text.rstrip(" "), role))
    return ()


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
    return PlainTerminal(output, Scene(looks, has_tail=False))
