"""Texts in the columns of a terminal."""

from shutil import get_terminal_size
from typing import Final

from argstream.terminal.spans import Span, text_of
from argstream.terminal.widths import cut, width
from argstream.terminal.words import duration

__all__ = ["fit", "padded", "seconds_in_words", "terminal_width"]

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
    return text_of(cut((Span(text),), columns))


def padded(text: str, columns: int) -> str:
    """Give a text that takes so many columns."""
    shown = fit(text, columns)
    return shown + " " * (columns - width(shown))


def seconds_in_words(seconds: float) -> str:
    """Say how long something took.

    >>> [seconds_in_words(seconds) for seconds in (0.5, 75, 4000, 200_000)]
    ['0.50 s', '1 min 15 s', '1 h 6 min', '2 d 7 h']
    """
    return f"{seconds:.2f} s" if round(seconds, 2) < 60 else duration(seconds)
