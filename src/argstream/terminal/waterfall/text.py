"""A waterfall in a terminal: block characters, an eighth of a column exact where a bar ends."""

from collections.abc import Iterator
from itertools import groupby
from math import ceil
from operator import itemgetter
from typing import Final

from argstream.terminal.spans import Line, Role, Span, Spans, line
from argstream.terminal.waterfall.axis import Axis, Places
from argstream.terminal.waterfall.figures import CUT, conclusion, notes
from argstream.terminal.waterfall.rows import Bar, Look, Row, busy, rows_of_calls
from argstream.terminal.waterfall.timeline import Timeline
from argstream.terminal.widths import cut, width

__all__ = ["draw"]

_LEAST: Final = 24  # columns; what is narrower is cut off at the right
_MOST: Final = 200  # a bar that is longer tells no more
_WIDE: Final = 60
_GAP: Final = 2
_SOONER: Final = "sooner"
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_FILLS: Final[dict[Look, str]] = {
    "line": "─",
    "solid": "█",
    "waiting": "┄",
    "running": "▒",
    "silence": "░",
}
_ROLES: Final[dict[Look, Role]] = {
    "line": "tool",
    "solid": "argument",
    "waiting": "warning",
    "running": "good",
    "silence": "faint",
}
_SHORT: Final = {"silence": "silence", "asked": "asks", "tool": "tool"}
_MARKS: Final[dict[str, Role]] = {"✓": "good", "✗": "bad", "…": "warning"}
_LABELS: Final[dict[str, Role]] = {
    "call": "tool",
    "argument": "argument",
    "asked": "warning",
    "tool": "plain",
    "silence": "faint",
    "more": "faint",
}


def draw(timeline: Timeline, columns: int) -> list[Line]:
    """Draw a waterfall that takes at most so many columns; nothing if there is no call."""
    rows = list(rows_of_calls(timeline))
    if not rows:
        return []
    axis = Axis(busy(timeline), timeline.by)
    table = _Table(rows, axis, max(_LEAST, min(_MOST, columns)))
    lines = [*table.heading(), *map(table.row, rows)]
    closing = [
        *(line(Span(note, "faint")) for note in notes(timeline, axis)),
        *(line(Span(sentence, "strong")) for sentence in [conclusion(timeline)] if sentence),
    ]
    return [*lines, *([line(""), *closing] if closing else [])]


class _Table:
    """The columns: labels, how much sooner, and the bars."""

    def __init__(self, rows: list[Row], axis: Axis, columns: int) -> None:
        self._is_wide = columns >= _WIDE
        wanted = max(width(self._label(row)) for row in rows)
        self._names = min(wanted, columns * 2 // 5 if self._is_wide else columns // 3)
        self._sooner = max(len(_SOONER), *(len(row.sooner) for row in rows))
        self._room = columns - self._names - self._sooner - 4
        self._axis = axis
        self._places = axis.places(self._room, _GAP)

    def heading(self) -> Iterator[Line]:
        """Give the axis, which stands on top."""
        room = self._room
        labels = _Cells(room)
        rule = _Cells(room)
        rule.write(0, "─" * room, "faint")
        for place, start, label in self._ticks():
            rule.write(place, "┬", "faint")
            labels.write(start, label, "faint")
        for begin, end in self._places.gaps():
            rule.write(int(begin), CUT * max(1, int(end) - int(begin)), "faint")
        yield self._line((), Span(_SOONER, "faint"), labels)
        yield self._line((), Span(""), rule)

    def _ticks(self) -> list[tuple[int, int, str]]:
        """Choose as many as can be labelled: where each is, where its label begins, and that."""
        found: list[tuple[int, int, str]] = []
        for most in range(max(2, self._room // 6), 0, -1):
            ticks = self._axis.ticks(most)
            found, free = [], 0
            for value, label in ticks:
                place = min(int(self._places.of(value)), self._room - 1)
                start = max(0, min(place, self._room - len(label)))
                if start >= free:
                    found.append((place, start, label))
                    free = start + len(label) + 2
            if len(found) >= len(ticks) - 1:  # the last one is often too near to the end
                break
        return found

    def row(self, row: Row) -> Line:
        """Give a row with its bars."""
        cells = _Cells(self._room)
        for bar in row.bars:
            _draw_bar(cells, bar, self._places)
        for bar in row.bars:
            _write_caption(cells, bar, self._places)
        role = _LABELS[row.kind]
        text = self._label(row)
        label: Spans = (Span(text, role),)
        if row.kind == "call":
            indent = text.index("●")
            label = (Span(text[: indent + 2], "faint"), Span(text[indent + 2 :], role))
        return self._line(label, Span(row.sooner), cells)

    def _label(self, row: Row) -> str:
        start = "  " * row.depth
        if row.kind == "call":
            return f"{start}● {row.label}"
        if row.kind == "more":
            return row.label
        label = row.label if self._is_wide else _SHORT.get(row.kind, row.label)
        return start + " " * (4 if self._is_wide else 2) + label

    def _line(self, label: Spans, sooner: Span, cells: "_Cells") -> Line:
        name = cut(label, self._names)
        taken = sum(width(span.text) for span in name)
        before = self._names - taken + 2 + self._sooner - len(sooner.text)
        spans = (*name, Span(" " * before), sooner, Span("  "), *cells.spans())
        return Line(_stripped(spans))


class _Cells:
    """A row of characters that are one column wide, each with a role."""

    def __init__(self, room: int) -> None:
        self._cells: list[tuple[str, Role]] = [(" ", "plain")] * room

    def __len__(self) -> int:
        return len(self._cells)

    def write(self, place: int, text: str, role: Role) -> None:
        """Write over what is there."""
        for index, character in enumerate(text, place):
            if 0 <= index < len(self._cells):
                self._cells[index] = (character, role)

    def is_free(self, begin: int, end: int) -> bool:
        """Say whether there is room, and nothing in it."""
        inside = begin >= 0 and end <= len(self._cells)
        return inside and all(text == " " for text, _ in self._cells[begin:end])

    def spans(self) -> Spans:
        """Give them as they are shown."""
        return tuple(
            Span("".join(text for text, _ in group), role)
            for role, group in groupby(self._cells, key=itemgetter(1))
        )


def _stripped(spans: Spans) -> Spans:
    """Leave out spaces at the end."""
    while spans and not spans[-1].text.rstrip():
        spans = spans[:-1]
    return (*spans[:-1], Span(spans[-1].text.rstrip(), spans[-1].role)) if spans else ()


def _draw_bar(cells: _Cells, bar: Bar, places: Places) -> None:
    first, last = _ends(bar, places, len(cells))
    begin, end = places.of(bar.begin), places.of(bar.end)
    fill, role = _FILLS[bar.look], _ROLES[bar.look]
    if bar.look != "solid":
        cells.write(first, fill * (last - first + 1), role)
        if bar.look == "line":
            cells.write(first, "├", role)
    elif first == last:
        cells.write(first, _sliver(begin - first, end - first), role)
    else:
        inside = 1 - (begin - first)
        cells.write(first, "█" if inside >= 1 else "▐" if inside >= 0.5 else "▕", role)
        cells.write(first + 1, "█" * (last - first - 1), role)
        cells.write(last, _EIGHTHS[max(1, min(8, ceil((end - last) * 8)))], role)
    if bar.mark:
        cells.write(last, bar.mark, _MARKS[bar.mark])


def _ends(bar: Bar, places: Places, room: int) -> tuple[int, int]:
    """Say which cells are the first and the last of a bar."""
    first = min(int(places.of(bar.begin)), room - 1)
    last = max(first, min(ceil(places.of(bar.end)), room) - 1)
    return first, last


def _sliver(begin: float, end: float) -> str:
    """Give a bar that is not wider than a cell; one that took no time is a thin line."""
    if begin >= 0.5:
        return "▐"  # nothing between that and a hair line begins at the right
    return _EIGHTHS[max(2, min(8, ceil((end - begin) * 8)))]


def _write_caption(cells: _Cells, bar: Bar, places: Places) -> None:
    """Write it into the bar, if it is long enough; else beside it, if there is room."""
    caption = bar.caption
    if not caption:
        return
    first, last = _ends(bar, places, len(cells))
    role: Role = _MARKS[bar.mark] if bar.mark else "faint" if bar.look == "silence" else "plain"
    inside = f" {caption} "
    if last - first + 1 >= len(inside) + 4:
        cells.write((first + last + 1 - len(inside)) // 2, inside, role)
    elif cells.is_free(last + 1, last + 2 + len(caption)):
        cells.write(last + 2, caption, role)
    elif cells.is_free(first - 1 - len(caption), first):
        cells.write(first - 1 - len(caption), caption, role)
