"""The fences around code in Markdown: three or more backticks or tildes, alone on their line."""

import re
from typing import Final, NamedTuple

__all__ = ["Fence", "is_closed_by", "opened_by"]

# A language may be followed by anything but backticks: those would be code within a sentence.
_opening: Final = re.compile(r"\s*(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^`]*$").match


class Fence(NamedTuple):
    """What opens a block of code."""

    marks: str
    language: str
    """As it is named there; empty if it is not."""


def opened_by(line: str) -> Fence | None:
    """Give the fence that a line is, outside of code."""
    opening = _opening(line)
    return None if opening is None else Fence(opening[1], opening[2])


def is_closed_by(line: str, marks: str) -> bool:
    """Tell whether a line ends the code that such a fence has opened."""
    bare = line.strip()
    return bare.startswith(marks) and not bare.strip(marks[0])
