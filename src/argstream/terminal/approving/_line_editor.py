"""A line that somebody types: a reason, for instance. Pure."""

import unicodedata

from argstream.terminal.approving._keys import Key
from argstream.terminal.spans import Role, Span, Spans, shown
from argstream.terminal.widths import width

__all__ = ["LineEditor"]

_CURSOR = "▏"


class LineEditor:
    """Text, and a cursor at its end.

    >>> editor = LineEditor()
    >>> for character in "not now":
    ...     editor.take(Key("character", character))
    >>> editor.take(Key("erase_word"))
    >>> editor.text
    'not '
    """

    def __init__(self) -> None:
        self.text = ""

    def take(self, key: Key) -> None:
        """Take a key; what does not belong into a line changes nothing."""
        match key.kind:
            case "character":
                self.text += key.text
            case "paste":
                self.text += " ".join(key.text.split())  # several lines become one
            case "backspace":
                self.text = _without_last(self.text)
            case "erase_word":
                self.text = _without_last_word(self.text)
            case "erase_line":
                self.text = ""
            case _:
                pass

    def spans(self, columns: int, role: Role = "plain") -> Spans:
        """Show the end of it, which is where one types, in so many columns."""
        room = max(columns - width(_CURSOR), 0)
        text = shown(self.text, role).text
        if width(text) <= room:
            return Span(text, role), Span(_CURSOR, "key")
        kept = _end_of(text, room - 1)
        return Span("…", "faint"), Span(kept, role), Span(_CURSOR, "key")


def _without_last(text: str) -> str:
    """Take the last character away, with the marks on it: they were typed as one."""
    end = len(text) - 1
    while end > 0 and unicodedata.combining(text[end]):
        end -= 1
    return text[: max(end, 0)]


def _without_last_word(text: str) -> str:
    words = text.rstrip()
    return words[: len(words) - len(words.rsplit(maxsplit=1)[-1])] if words else ""


def _end_of(text: str, columns: int) -> str:
    """Give as much of the end as fits."""
    kept = ""
    for character in reversed(text):
        if width(character + kept) > columns:
            break
        kept = character + kept
    return kept
