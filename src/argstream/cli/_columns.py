"""Texts in the columns of a terminal, and numbers, sizes and times in words."""

from shutil import get_terminal_size
from typing import Final
from unicodedata import combining, east_asian_width

__all__ = ["count", "fit", "padded", "seconds_in_words", "terminal_width", "width"]

_LEAST: Final = 50
_MOST: Final = 100  # longer lines are hard to read


def terminal_width() -> int:
    """Say how long lines may be that are cut to fit: 79 columns, if nobody says how many."""
    return max(_LEAST, min(_MOST, get_terminal_size().columns - 1))


def fit(text: str, columns: int) -> str:
    """Cut a text that takes more columns than there are.

    >>> fit("a long text", 7)
    'a long…'
    """
    taken = room = 0
    for index, character in enumerate(text):
        taken += width(character)
        if taken > columns:
            return text[:room] + "…"
        if taken < columns:  # then there is still a column for the sign that it is cut
            room = index + 1
    return text


def padded(text: str, columns: int) -> str:
    """Give a text that takes so many columns."""
    shown = fit(text, columns)
    return shown + " " * (columns - width(shown))


def width(text: str) -> int:
    """Say how many columns of a terminal a text takes."""
    return sum(
        0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1
        for character in text
    )


def count(number: int, thing: str) -> str:
    """Say how many there are.

    >>> count(1, "call"), count(3, "call")
    ('1 call', '3 calls')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def seconds_in_words(seconds: float) -> str:
    """Say how long something took.

    >>> [seconds_in_words(seconds) for seconds in (0.5, 75, 4000, 200_000)]
    ['0.50 s', '1 min 15 s', '1 h 6 min', '2 d 7 h']
    """
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"
