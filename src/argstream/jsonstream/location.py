"""Where an offset is, for people: computed when asked, never carried around."""

from typing import NamedTuple

__all__ = ["Location", "locate"]


class Location(NamedTuple):
    """A place in a text, counted from 1 as editors do."""

    line: int
    column: int


def locate(text: str, offset: int) -> Location:
    r"""Find the line and column of an offset, which may be the end of the text.

    >>> locate('{\n  "a": x}', 9)
    Location(line=2, column=8)
    """
    start_of_line = text.rfind("\n", 0, offset) + 1
    return Location(text.count("\n", 0, offset) + 1, offset - start_of_line + 1)
