"""Texts as they are in files, and as a model sees them: no byte order mark, lines end with LF.

What is edited keeps its mark, its line ends, and whatever else was not touched.
"""

import codecs
import re
from bisect import bisect_left
from typing import Final

from argstream.errors import ToolFailure

__all__ = ["FileText", "counted", "line_count", "lines_of"]

_CRLF: Final = re.compile("\r\n")
_OTHER_MARKS: Final = {
    codecs.BOM_UTF32_LE: "UTF-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


class FileText:
    """The text of a file."""

    def __init__(self, data: bytes, path: str) -> None:
        if (problem := _problem(data)) is not None:
            raise ToolFailure(f"{path} {problem}: only text in UTF-8 can be used here")
        self._mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        try:
            self._raw = data[len(self._mark) :].decode()
        except UnicodeDecodeError as error:
            raise ToolFailure(
                f"{path} is no text in UTF-8 (byte {error.start + len(self._mark)} is "
                f"0x{error.object[error.start]:02x}): only that can be used here"
            ) from None
        found = _CRLF.finditer(self._raw)
        self._shortened = [one.start() - number for number, one in enumerate(found)]
        self.text = self._raw.replace("\r\n", "\n")
        """As a model sees it."""

    def encoded(self, replacements: list[tuple[int, int, str]]) -> bytes:
        """Give the file with parts replaced: from, to, and what comes there, in order.

        What is new has the line ends that most lines have.
        """
        has_crlf = 2 * len(self._shortened) > self.text.count("\n")
        pieces: list[str] = []
        done = 0
        for start, end, new in replacements:
            pieces.append(self._raw[done : self._place(start)])
            pieces.append(new.replace("\n", "\r\n") if has_crlf else new)
            done = self._place(end)
        pieces.append(self._raw[done:])
        return self._mark + "".join(pieces).encode()

    def _place(self, offset: int) -> int:
        """Say where in the file a place of the text is."""
        return offset + bisect_left(self._shortened, offset)


def lines_of(text: str) -> list[str]:
    """Split a text into lines, without their ends."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def line_count(text: str) -> str:
    """Say how many lines a text has."""
    return counted(text.count("\n") + (not text.endswith("\n") and text != ""), "line")


def counted(number: int, thing: str) -> str:
    """Say how many there are of something: ``1 line``, ``2 lines``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _problem(data: bytes) -> str | None:
    for mark, name in _OTHER_MARKS.items():
        if data.startswith(mark):
            return f"is written in {name}"
    if b"\0" in data:
        return "is no text, but binary data"
    return None
