"""How many columns a text takes, and how a line becomes rows of a screen.

A row is over-full in one case: a character that takes two columns where there is only one. It is
shown nonetheless, for nothing is ever left out; terminals clip it. A mark that has nothing before
it gets a ``◌`` of ours, lest it change our margin.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from argstream.terminal import _breaking
from argstream.terminal._breaking import fit, lacks_base
from argstream.terminal._columns import columns_of, width
from argstream.terminal._harmless import harmless
from argstream.terminal.spans import Line, Span, Spans, text_of

__all__ = ["cut", "expand_tabs", "row_of", "rows_of", "width"]

_TAB: Final = 4
_CUT: Final = Span("…", "faint")
_BASE: Final = Span("◌", "faint")  # what Unicode shows a mark on that stands alone


def rows_of(line: Line, columns: int) -> list[Spans]:
    """Break a line into rows of at most so many columns, each with its margin.

    Nothing is lost but spaces at a break between words that no longer fit on the row; those that
    fit stay at its end. Margins take at most half of the screen; their left side goes first.
    """
    columns = max(columns, 1)
    margin = _crop(line.margin, columns // 2)
    spans = _harmless(line.spans)
    text = text_of(spans)
    room = columns - columns_of(text_of(margin))
    if columns_of(text) <= room and not lacks_base(text, 0):
        return [margin + spans]
    rest = _crop(line.rest, columns // 2) if line.rest is not None else _blank(margin)
    room_later = columns - columns_of(text_of(rest))
    places = list(_breaking.rows(text, room, room_later, line.breaks))
    rows: list[Spans] = []
    for (start, _), piece in zip(places, _pieces(spans, places), strict=True):
        before = rest if rows else margin
        rows.append((*before, _BASE, *piece) if lacks_base(text, start) else before + piece)
    return rows


def row_of(line: Line, columns: int) -> Spans:
    """Give a line as a single row with its margin, cut if it is too long."""
    first = next((span.text for span in line.spans if span.text), "")
    base = (_BASE,) if lacks_base(first, 0) else ()
    return cut(line.margin + base + line.spans, columns)


def cut(spans: Spans, columns: int) -> Spans:
    """Keep what fits on one row; "…" at its end says that something was cut."""
    beginning, is_all = _beginning(spans, 4 * columns + 64)
    text = text_of(beginning)
    if is_all and columns_of(text) <= columns:
        return beginning
    end = fit(text, 0, columns - 1)
    if columns_of(text[:end]) > columns - 1:
        end = 0
    return (*next(_pieces(beginning, [(0, end)])), _CUT) if columns > 0 else ()


def expand_tabs(text: str, column: int = 0) -> str:
    """Replace tabs by spaces up to the next multiple of four columns.

    A text that does not begin at the left edge of its line begins at ``column``.
    Make a text visible first: what is spelled out takes more room.
    """
    *pieces, last = text.split("\t")
    expanded = []
    for piece in pieces:
        column += width(piece)
        spaces = _TAB - column % _TAB
        column += spaces
        expanded += [piece, " " * spaces]
    return "".join([*expanded, last])


def _beginning(spans: Spans, length: int) -> tuple[Spans, bool]:
    """Give the first characters, and whether that is all: a line may be as long as it likes."""
    taken: list[Span] = []
    for span in spans:
        if length < len(span.text):
            return (*taken, Span(harmless(span.text[:length]), span.role)), False
        taken.append(Span(harmless(span.text), span.role))
        length -= len(span.text)
    return tuple(taken), True


def _harmless(spans: Spans) -> Spans:
    text = text_of(spans)
    if harmless(text) == text:  # as nearly always: one look at a line, and not one at each piece
        return spans
    return tuple(Span(harmless(span.text), span.role) for span in spans)


def _blank(margin: Spans) -> Spans:
    return (Span(" " * columns_of(text_of(margin))),) if margin else ()


@lru_cache(maxsize=256)  # most lines have the margin of their neighbours
def _crop(margin: Spans, columns: int) -> Spans:
    """Keep the right side of a margin: its separator matters most."""
    margin = _harmless(margin)
    text = text_of(margin)
    surplus = columns_of(text) - columns
    start = 0
    while surplus > 0 or (start and lacks_base(text, start)):
        surplus -= columns_of(text[start])
        start += 1
    return next(_pieces(margin, [(start, len(text))])) if start else margin


def _pieces(spans: Spans, places: Sequence[tuple[int, int]]) -> Iterator[Spans]:
    """Yield the spans between each pair of places, which are in order."""
    index = 0
    before = 0  # the length of all spans before that one
    for start, end in places:
        row: list[Span] = []
        while index < len(spans):
            text, role = spans[index]
            if piece := text[max(start - before, 0) : max(end - before, 0)]:
                row.append(Span(piece, role))
            if before + len(text) > end:
                break
            before += len(text)
            index += 1
        yield tuple(row)
