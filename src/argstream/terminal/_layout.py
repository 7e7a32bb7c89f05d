"""How many columns a text takes, and how a line becomes rows of a screen.

A row is over-full in one case: a character that takes two columns where there is only one. It is
shown nonetheless, for nothing is ever left out; terminals clip it. A mark that has nothing before
it gets a ``◌`` of ours, lest it change our margin.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Final

from wcwidth import iter_graphemes, wcwidth

from argstream.terminal._text import Breaks, Line, Span, Spans, harmless, text_of

# Two columns in some terminals and one for wcwidth, as its own table of terminals says.
_AT_TIMES_WIDE: Final = frozenset(
    "\u17a4\u17d8\u261d\u26f9\u270c\u270d\u3248\u3249\u324a\u324b\u324c\u324d\u324e\u324f"
    "\U0001f3cb\U0001f3cc\U0001f574\U0001f575\U0001f590\U0001f93b\U0001f946"
)


def width(text: str) -> int:
    """Return the columns that a text takes at most."""
    return columns_of(harmless(text))


def columns_of(text: str) -> int:
    """Return the same for a text that is harmless already."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def is_mark(character: str) -> bool:
    """Return whether a character joins the one before it."""
    return unicodedata.category(character).startswith("M")


@cache
def _columns(character: str) -> int:
    if character in _AT_TIMES_WIDE:
        return 2
    columns = wcwidth(character)
    if columns > 0 or unicodedata.category(character) in ("Mn", "Me"):
        return columns
    # Marks that take room, and vowels of Hangul that may stand alone: some terminals count them.
    return 1


# Chinese and Japanese are broken between any two characters, but for these.
_NEVER_FIRST: Final = frozenset("、。，．：；！？）］｝〕〉》」』】ー々…‥・")  # noqa: RUF001 - they are wide
_NEVER_LAST: Final = frozenset("（［｛〔〈《「『【")  # noqa: RUF001 - they are wide


def break_rows(text: str, room: int, room_later: int, breaks: Breaks) -> Iterator[tuple[int, int]]:
    """Yield where each row begins and ends, given the columns of the first and of the others."""
    start = 0
    while True:
        end = fit(text, start, room - lacks_base(text, start))
        if end < len(text):
            end = _word_end(text, start, end, room_later)
        yield start, end
        start = end
        while breaks == "words" and text.startswith(" ", start):
            start += 1
        if start >= len(text):
            return
        room = room_later


def fit(text: str, start: int, room: int) -> int:
    """Return the end of what fits into so many columns; at least one character."""
    room = max(room, 1)
    if text[start : start + room + 1].isascii():
        return min(start + room, len(text))
    window = text[start : start + 4 * room + 32]
    clusters = _that_fit(iter_graphemes(window), room)
    if len(clusters) > 1 and start + sum(map(len, clusters)) < len(text):
        # If it is the window that ended, the last one may go on behind it.
        clusters = clusters if sum(map(len, clusters)) < len(window) else clusters[:-1]
    clusters = clusters or _that_fit(iter(window), room)
    return start + max(1, sum(map(len, clusters)))


def lacks_base(text: str, start: int) -> bool:
    """Return whether a row that begins there begins with a mark, which would join our margin."""
    return start < len(text) and is_mark(text[start])


def _that_fit(clusters: Iterator[str], room: int) -> list[str]:
    taken = []
    for cluster in clusters:
        room -= columns_of(cluster)
        if room < 0:
            break
        taken.append(cluster)
    return taken


def _word_end(text: str, start: int, end: int, room_later: int) -> int:
    """Return the last place between two words up to ``end``, or ``end`` if there is none."""
    if _is_between_words(text, end):
        return end
    place = _last_place(text, start, end)
    if place is None or not text[start:place].strip(" "):
        return end  # a row of nothing but indentation does not help
    # A word that is too long for the next row as well may begin on this one.
    end_there = fit(text, place, room_later)
    is_whole_there = end_there == len(text) or _is_between_words(text, end_there)
    return place if is_whole_there or _last_place(text, place, end_there) else end


def _last_place(text: str, start: int, end: int) -> int | None:
    piece = text[start:end]
    if piece.isascii():
        return text.rfind(" ", start, end) + 1 or None
    place, found = start, None
    for cluster in iter_graphemes(piece):
        if place > start and _is_between_words(text, place):
            found = place
        place += len(cluster)
    return found


def _is_between_words(text: str, place: int) -> bool:
    before, after = text[place - 1], text[place]
    if " " in (before, after):
        return True
    return (
        (columns_of(before) > 1 or columns_of(after) > 1)
        and not is_mark(after)
        and after not in _NEVER_FIRST
        and before not in _NEVER_LAST
    )


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
    blank = (Span(" " * (columns - room)),) if margin else ()
    rest = blank if line.rest is None else _crop(line.rest, columns // 2)
    room_later = columns - columns_of(text_of(rest))
    places = list(break_rows(text, room, room_later, line.breaks))
    rows: list[Spans] = []
    for (start, _), piece in zip(places, _pieces(spans, places), strict=True):
        before = rest if rows else margin
        rows.append((*before, _BASE, *piece) if lacks_base(text, start) else before + piece)
    return rows


def behind(before: Spans, line: Line) -> Line:
    """Return a line with something before the margin of each of its rows."""
    rest = (Span(" " * width(text_of(line.margin))),) if line.rest is None else line.rest
    return line._replace(margin=before + line.margin, rest=before + rest)


def row_of(line: Line, columns: int) -> Spans:
    """Return a line as a single row with its margin, cut if it is too long."""
    first = next((span.text for span in line.spans if span.text), "")
    base = (_BASE,) if lacks_base(first, 0) else ()
    return cut(line.margin + base + line.spans, columns)


def cut(spans: Spans, columns: int) -> Spans:
    """Keep what fits on one row; "…" at its end marks the cut."""
    longest = 4 * columns + 64  # characters, since a line may have any length
    beginning = _harmless(next(_pieces(spans, [(0, longest)])))
    text = text_of(beginning)
    is_all = sum(len(span.text) for span in spans) <= longest
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


def _harmless(spans: Spans) -> Spans:
    text = text_of(spans)
    if harmless(text) == text:  # as nearly always: one look at a line, and not one at each piece
        return spans
    return tuple(Span(harmless(span.text), span.role) for span in spans)


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
