"""The text of a file that is being written."""

from argstream.events import ArgumentCompleted, ArgumentDelta
from argstream.terminal.highlighting import Highlighter
from argstream.terminal.looks._block import Block, numbered
from argstream.terminal.looks._wording import note
from argstream.terminal.looks.view import ArgumentEvent
from argstream.terminal.spans import Line

__all__ = ["FilePart"]


class FilePart:
    """Shows a text with line numbers, each line in its colours when it is complete."""

    def __init__(self, out: list[Line], language: str | None, path: str | None) -> None:
        self._out = out
        self._block = Block(out, numbered, Highlighter(language, path=path).line)

    def take(self, event: ArgumentEvent) -> None:
        """Follow the one argument that is the text."""
        if isinstance(event, ArgumentDelta):
            self._block.hold(event.text)
        elif isinstance(event, ArgumentCompleted):
            self._block.write()
            if self._block.has_open_line:
                self._block.end()
                self._out.append(note("no newline at the end"))
            elif not self._block.lines:
                self._out.append(note("empty"))

    def write(self) -> None:
        """Write out the lines that are complete, since somebody looks."""
        self._block.write()

    def growing(self, rows: int) -> list[Line]:
        """Give the line that grows."""
        return self._block.growing()[-rows:]

    def finish(self) -> None:
        """Write the last lines, if the text broke off."""
        self._block.write()
        if self._block.has_open_line:
            self._block.end()
