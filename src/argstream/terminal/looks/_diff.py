"""Edits of a file: one of the call's own, or an array of them, in the order in which they apply."""

from functools import partial
from typing import Final, NamedTuple

from argstream.events import ArgumentCompleted, ArgumentDelta, ArgumentStarted
from argstream.jsonstream import JsonPath
from argstream.terminal.looks._edit import Edit
from argstream.terminal.looks._locating import Place, locate, nowhere
from argstream.terminal.looks._pending import Files
from argstream.terminal.looks._plain import PlainPart
from argstream.terminal.looks._wording import said
from argstream.terminal.looks.view import ArgumentEvent
from argstream.terminal.spans import Line, Span, shown
from argstream.terminal.words import path_name

__all__ = ["DiffNames", "DiffPart"]

_EVERYWHERE: Final = frozenset({"replace_all", "replaceAll", "all", "global", "all_occurrences"})


class DiffNames(NamedTuple):
    """Which arguments are the old text, the new text, and the path of an edit in an array."""

    old: frozenset[str]
    new: frozenset[str]
    path: frozenset[str]


class _Item:
    """An edit, and what is said about it."""

    def __init__(self, out: list[Line], prefix: JsonPath) -> None:
        self.edit = Edit(out)
        self.prefix = prefix
        self.sides: dict[str, JsonPath] = {}  # where they are, by their signs
        self.path: tuple[JsonPath, str] | None = None  # where it is said, and what
        self.is_everywhere = False
        self.is_over = False  # nothing more comes that belongs to it


class DiffPart:
    """Shows edits one after the other, each as soon as it is known what it replaces and where."""

    def __init__(
        self,
        out: list[Line],
        names: DiffNames,
        files: Files,
        *,
        is_array: bool = False,
    ) -> None:
        self._out = out
        self._names = names
        self._depth = 2 if is_array else 0  # of the object that is an edit
        self._plain = PlainPart(out)
        self._path_lines: list[Line] = []  # of the path of an edit, if it turns out to be too late
        self._path_part = PlainPart(self._path_lines)
        self._items: list[_Item] = []
        self._current = 0  # the first that is not shown to its end
        self._files = files
        self._path: str | None = None
        self._is_path_open = True

    def settle_path(self, path: str | None) -> None:
        """Say which file the call is about; None: it does not tell."""
        self._path = path
        self._is_path_open = False
        self._go_on()

    def take(self, event: ArgumentEvent) -> None:
        """Follow the texts of an edit, and what else is said about it."""
        match event:
            case ArgumentStarted() | ArgumentDelta() | ArgumentCompleted():
                path = event.path
            case _:
                return
        if len(path) == self._depth + 1:
            self._take_field(self._item(path[:-1]), path, event)
        elif len(path) > self._depth + 1:
            self._plain.take(event)
        else:
            self._take_outer(path, event)
        self._go_on()

    def growing(self, rows: int) -> list[Line]:
        """Give the newest lines of the edits that are not shown to their end."""
        lines = self._path_part.growing(rows) + self._plain.growing(rows)
        for item in reversed(self._items[self._current :]):
            if len(lines) >= rows:
                break
            lines = item.edit.growing(rows) + lines
        return lines[-rows:]

    def finish(self) -> None:
        """Show what there is: no more comes."""
        self._is_path_open = False
        for item in self._items:
            item.is_over = True
        self._path_part.finish()
        self._write_path()
        self._plain.finish()
        self._go_on()

    def _item(self, prefix: JsonPath) -> _Item:
        if not self._items or self._items[-1].prefix != prefix:
            self._items.append(_Item(self._out, prefix))
        return self._items[-1]

    def _take_outer(self, path: JsonPath, event: ArgumentEvent) -> None:
        """Take the array itself, or an item as a whole."""
        if isinstance(event, ArgumentStarted) and event.kind in {"array", "object"}:
            return  # its parts will say more
        self._plain.take(event)
        if isinstance(event, ArgumentCompleted) and isinstance(event.value, dict) and event.value:
            self._item(path).is_over = True

    def _take_field(self, item: _Item, path: JsonPath, event: ArgumentEvent) -> None:
        name = path[-1]
        if isinstance(event, ArgumentStarted) and event.kind == "string":
            sign = "-" if name in self._names.old else "+" if name in self._names.new else None
            if sign is not None and sign not in item.sides:
                item.sides[sign] = path
                item.edit.start(sign)
        sign = next((sign for sign, place in item.sides.items() if place == path), None)
        if sign is not None:
            self._take_side(item, sign, event)
        elif name in self._names.path and self._depth:
            self._take_path(item, event)
        else:
            if isinstance(event, ArgumentCompleted) and name in _EVERYWHERE:
                item.is_everywhere = event.value is True
            self._plain.take(event)

    def _take_side(self, item: _Item, sign: str, event: ArgumentEvent) -> None:
        if isinstance(event, ArgumentDelta):
            item.edit.add(sign, event.text)
        elif isinstance(event, ArgumentCompleted):
            item.edit.complete(sign, event.value)

    def _take_path(self, item: _Item, event: ArgumentEvent) -> None:
        self._path_part.take(event)
        if not isinstance(event, ArgumentCompleted):
            return
        if isinstance(event.value, str) and not item.edit.has_begun and item.path is None:
            item.path = event.path, event.value
            self._path_lines.clear()  # it will be said where the edit is shown
        else:
            self._write_path()

    def _write_path(self) -> None:
        self._out += self._path_lines
        self._path_lines.clear()

    def _go_on(self) -> None:
        """Show as many edits as can be shown, in their order."""
        while self._current < len(self._items):
            item = self._items[self._current]
            if not item.edit.has_begun:
                if not self._is_ready(item):
                    return
                if item.edit.old is None or "+" not in item.sides:
                    self._show_plainly(item)
                    self._current += 1
                    continue
                self._begin(item)
            if item.edit.new is None and not item.is_over:
                return
            item.edit.finish()
            if (path := self._path_of(item)) is not None:
                self._files.change(path, partial(_changed, item))  # of which more may be said
            self._current += 1

    def _is_ready(self, item: _Item) -> bool:
        """Say whether it is known what an edit replaces, and where, or that it never will be."""
        if item.edit.old is None or "+" not in item.sides:
            return item.is_over
        if self._path_of(item) is not None:
            return True
        may_have_own = self._depth > 0 and bool(self._names.path) and not item.is_over
        return not self._is_path_open and not may_have_own

    def _path_of(self, item: _Item) -> str | None:
        return self._path if item.path is None else item.path[1]

    def _begin(self, item: _Item) -> None:
        old = item.edit.old or ""
        path = self._path_of(item)
        text = None if path is None else self._files.text(path)
        place = nowhere(old) if text is None else locate(old, text)
        heading = self._where(item, place) if self._depth else []
        if text is not None and path is not None and old and place.number is None:
            heading += [
                Span("(not found in ", "warning"),
                shown(path, "warning"),
                Span(")", "warning"),
            ]
        elif place.places > 1:
            heading.append(Span(f"({place.places} places)", "warning"))
        if heading:
            self._out.append(said(*heading))
        item.edit.begin(place)

    def _where(self, item: _Item, place: Place) -> list[Span]:
        """Say which of several edits it is."""
        where = [Span("@@ ", "place")]
        if item.path is not None:
            where += [shown(item.path[1], "place"), Span(", ", "place")]
        if place.number is None:
            where.append(Span(path_name(item.prefix), "place"))
        else:
            where.append(Span(f"line {place.number}", "place"))
        return [*where, Span(" @@ ", "place")]

    def _show_plainly(self, item: _Item) -> None:
        """Show an edit that is none: one of its texts is missing."""
        found = [] if item.path is None else [item.path]
        found += [(item.sides[sign], text) for sign, text in item.edit.so_far]
        for path, text in found:
            PlainPart(self._out).take(ArgumentCompleted("", "", path, text))


def _changed(item: _Item, text: str) -> str:
    old, new = item.edit.old, item.edit.new
    if old is None or new is None or not old:
        return text or new or ""
    return text.replace(old, new, -1 if item.is_everywhere else 1)
