"""How many columns a text takes.

Terminals disagree: a flag is two columns here and four there. So each character is counted alone,
and as wide as any terminal takes it to be. A row may then be narrower than it could be, and never
wider than the screen, or what a model wrote would go on at the left edge, where only we write.
(Except where a person has set ambiguous characters, such as ``│``, to be wide.)
"""

import unicodedata
from typing import Final

from wcwidth import wcwidth

from argstream.terminal._harmless import harmless

__all__ = ["columns_of", "is_mark", "width"]

# Two columns in some terminals and one for wcwidth, as its own table of terminals says.
_AT_TIMES_WIDE: Final = frozenset(
    "\u17a4\u17d8\u261d\u26f9\u270c\u270d\u3248\u3249\u324a\u324b\u324c\u324d\u324e\u324f"
    "\U0001f3cb\U0001f3cc\U0001f574\U0001f575\U0001f590\U0001f93b\U0001f946"
)


def width(text: str) -> int:
    """Give the columns that a text takes at most."""
    return columns_of(harmless(text))


def columns_of(text: str) -> int:
    """Give the same for a text that is harmless already."""
    return len(text) if text.isascii() else sum(map(_widths.__getitem__, text))


def is_mark(character: str) -> bool:
    """Tell whether a character joins the one before it."""
    return unicodedata.category(character).startswith("M")


class _Widths(dict[str, int]):
    """The columns of each character that was ever asked for."""

    def __missing__(self, character: str) -> int:
        columns = self[character] = _columns(character)
        return columns


def _columns(character: str) -> int:
    if character in _AT_TIMES_WIDE:
        return 2
    columns = wcwidth(character)
    if columns > 0 or unicodedata.category(character) in ("Mn", "Me"):
        return columns
    # Marks that take room, and vowels of Hangul that may stand alone: some terminals count them.
    return 1


_widths: Final = _Widths()
