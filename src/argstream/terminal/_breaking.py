"""Where the rows of a text begin and end.

The text is harmless already. Kept together are a letter and its marks, both halves of a flag, a
hand and its skin tone, unless they are wider than a row. All of it is linear: a row never holds
more than a few hundred characters, however many marks of no width somebody piles up.
"""

from collections.abc import Iterator
from typing import Final

from wcwidth import iter_graphemes

from argstream.terminal._columns import columns_of, is_mark
from argstream.terminal.spans import Breaks

__all__ = ["fit", "lacks_base", "rows"]

# Chinese and Japanese are broken between any two characters, but for these.
_NEVER_FIRST: Final = frozenset("、。，．：；！？）］｝〕〉》」』】ー々…‥・")  # noqa: RUF001 - they are wide
_NEVER_LAST: Final = frozenset("（［｛〔〈《「『【")  # noqa: RUF001 - they are wide


def rows(text: str, room: int, room_later: int, breaks: Breaks) -> Iterator[tuple[int, int]]:
    """Yield where each row begins and ends, given the columns of the first and of the others."""
    start = 0
    while True:
        end = fit(text, start, room - lacks_base(text, start))
        if breaks == "words" and end < len(text):
            end = _word_end(text, start, end, room_later)
        yield start, end
        start = end
        while breaks == "words" and text.startswith(" ", start):
            start += 1
        if start >= len(text):
            return
        room = room_later


def fit(text: str, start: int, room: int) -> int:
    """Give the end of what fits into so many columns; it is at least one character."""
    room = max(room, 1)
    if text[start : start + room + 1].isascii():
        return min(start + room, len(text))
    window = text[start : start + 4 * room + 32]
    clusters = _that_fit(iter_graphemes(window), room)
    if len(clusters) > 1 and start + sum(map(len, clusters)) < len(text):
        # If it is the window that ended, the last one may go on behind it.
        clusters = clusters if _is_end_seen(window, clusters) else clusters[:-1]
    clusters = clusters or _that_fit(iter(window), room)
    return start + max(1, sum(map(len, clusters)))


def lacks_base(text: str, start: int) -> bool:
    """Tell whether a row that begins there begins with a mark, which would join our margin."""
    return start < len(text) and is_mark(text[start])


def _that_fit(clusters: Iterator[str], room: int) -> list[str]:
    taken = []
    for cluster in clusters:
        room -= columns_of(cluster)
        if room < 0:
            break
        taken.append(cluster)
    return taken


def _is_end_seen(window: str, clusters: list[str]) -> bool:
    return sum(map(len, clusters)) < len(window)


def _word_end(text: str, start: int, end: int, room_later: int) -> int:
    """Give the last place between two words up to ``end``, or ``end`` if there is none."""
    if _is_between_words(text, end):
        return end
    place = _last_place(text, start, end)
    if place is None or not text[start:place].strip(" "):
        return end  # a row of nothing but indentation helps nobody
    # A word that is too long for the next row as well may begin on this one.
    end_there = fit(text, place, room_later)
    is_whole_there = end_there == len(text) or _is_between_words(text, end_there)
    return place if is_whole_there or _last_place(text, place, end_there) else end


def _last_place(text: str, start: int, end: int) -> int | None:
    """Give the last place between words that is behind ``start`` and before ``end``."""
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
