"""Where a text that is to be replaced stands in its file."""

import re
from typing import Final, NamedTuple

__all__ = ["CONTEXT", "Place", "lines_of", "locate", "nowhere"]

CONTEXT: Final = 3
"""How many lines around a change are shown."""


lines_of: Final = re.compile(r"[^\n]*\n|[^\n]+").findall
"""The lines of a text with their newlines. (``splitlines`` knows more ends than a file has.)"""


class Place(NamedTuple):
    """What is around a text, so that whole lines can be compared."""

    places: int
    """In how many places it stands; the rest is about the first of them."""
    number: int | None
    """Of its first line; None if it is in no file that could be read."""
    lead: str = ""
    """The beginning of its first line, if it begins in the middle of it."""
    trail: str = ""
    """The rest of its last line, if it ends in the middle of it."""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """The whole lines around it; one more after it than are shown."""


def nowhere(old: str) -> Place:
    """Take a text for whole lines, since it is not known where it stands."""
    return Place(0, None, trail="" if not old or old.endswith("\n") else "\n")


def locate(old: str, text: str) -> Place:
    """Find the first place of a text."""
    if not old:  # nothing is replaced: it says where only if there is nothing else
        return nowhere(old) if text else Place(1, 1)
    start = text.find(old)
    if start < 0:
        return nowhere(old)
    first = text.rfind("\n", 0, start) + 1
    end = start + len(old)
    last = end if old.endswith("\n") else _next_line(text, end)
    return Place(
        text.count(old),
        text.count("\n", 0, first) + 1,
        text[first:start],
        text[end:last],
        _lines_before(text, first),
        _lines_after(text, last),
    )


def _next_line(text: str, place: int) -> int:
    return text.find("\n", place) + 1 or len(text)


def _lines_before(text: str, end: int) -> tuple[str, ...]:
    start = end
    for _ in range(CONTEXT):
        start = text.rfind("\n", 0, max(start - 1, 0)) + 1
    return tuple(lines_of(text[start:end]))


def _lines_after(text: str, start: int) -> tuple[str, ...]:
    end = start
    for _ in range(CONTEXT + 1):
        end = _next_line(text, end)
    return tuple(lines_of(text[start:end]))
