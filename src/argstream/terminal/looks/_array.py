"""An array of which nothing was said: edits, or rows of a table, by what its first item has."""

from collections.abc import Callable

from argstream.events import ArgumentCompleted, ArgumentStarted
from argstream.terminal.looks._diff import DiffNames
from argstream.terminal.looks._part import Part
from argstream.terminal.looks._table import TablePart
from argstream.terminal.looks.view import ArgumentEvent
from argstream.terminal.spans import Line

__all__ = ["ArrayPart"]


class ArrayPart:
    """Holds the first events until it knows; until then, it looks like a table."""

    def __init__(
        self,
        name: str,
        names: DiffNames,
        make_edits: Callable[[], Part],
        make_table: Callable[[], Part],
    ) -> None:
        self._names = names
        self._make_edits = make_edits
        self._make_table = make_table
        self._held: list[ArgumentEvent] | None = []
        self._held_lines: list[Line] = []
        self._part: Part = TablePart(self._held_lines, name)

    def take(self, event: ArgumentEvent) -> None:
        """Follow the array."""
        if self._held is None:
            self._part.take(event)
            return
        self._held.append(event)
        if self._is_edit(event):
            self._decide(self._make_edits())
        elif self._is_other(event):
            self._decide(self._make_table())
        else:
            self._part.take(event)

    def growing(self, rows: int) -> list[Line]:
        """Give what is not final."""
        return (self._held_lines + self._part.growing(rows))[-rows:]

    def finish(self) -> None:
        """Write what there is."""
        self._decide(self._make_table())
        self._part.finish()

    def _decide(self, part: Part) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._part = part
            self._held_lines = []
            for event in held:
                part.take(event)

    def _is_edit(self, event: ArgumentEvent) -> bool:
        match event:
            case ArgumentStarted(path=path, kind="string"):
                return len(path) == 3 and (path[2] in self._names.old or path[2] in self._names.new)
            case _:
                return False

    def _is_other(self, event: ArgumentEvent) -> bool:
        """Say whether an edit would have begun otherwise, but for the path it may begin with."""
        match event:
            case ArgumentStarted(path=path, kind=kind):
                may_be_edit = len(path) < 2 or (len(path) == 2 and kind == "object")
                return not may_be_edit and path[-1] not in self._names.path
            case ArgumentCompleted(path=path):
                return len(path) < 3
            case _:
                return False
