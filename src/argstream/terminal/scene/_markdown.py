"""Markdown, lightly: headings, strong words and code get a role, and every character stays."""

import re
from collections.abc import Iterator
from typing import Final

from argstream.terminal._fences import is_closed_by, opened_by
from argstream.terminal.highlighting import Highlighter
from argstream.terminal.scene._growing_text import Part
from argstream.terminal.scene._texts import text_span
from argstream.terminal.spans import Breaks, Role, Span, Spans

__all__ = ["Markdown"]

_HEADING: Final = re.compile(r" {0,3}#{1,6} ")
_MARKED: Final = re.compile(r"(`[^`]+`)|(\*\*[^*]+\*\*)")
_OPENING: Final = re.compile(r"`|\*\*")


class Markdown:
    """Reads a text line by line."""

    def __init__(self) -> None:
        self._fence = ""  # what opened the block of code that we are in
        self._highlighter = Highlighter()
        self._opened = ""  # by the last part, for the rest of the line

    @property
    def breaks(self) -> Breaks:
        """Where the next line may be broken."""
        return "anywhere" if self._fence else "words"

    def final(self, part: Part) -> Spans:
        """Give a line that is over."""
        if self._fence:
            if part.is_rest or not is_closed_by(part.text, self._fence):
                return self._highlighter.line(part.text)
            self._fence = ""
        elif not part.is_rest and (fence := opened_by(part.text)):
            self._fence = fence.marks
            self._highlighter = Highlighter(fence.language)
        else:
            spans = self.growing(part)
            self._opened = _left_open(self._before(part) + part.text)
            return spans
        return (text_span(part.text, "faint"),)

    def growing(self, part: Part) -> Spans:
        """Give a line that still grows."""
        if self._fence:
            return (text_span(part.text),)
        before = self._before(part)
        if _HEADING.match(before + part.text):
            return (text_span(part.text, "heading"),)
        return tuple(_marked(part.text, before))

    def _before(self, part: Part) -> str:
        return self._opened if part.is_rest else ""


def _left_open(text: str) -> str:
    """Give what is to be read before the rest of a line that begins like this."""
    if heading := _HEADING.match(text):
        return heading[0]
    opening = _OPENING.search(_MARKED.sub("", text))
    return opening[0] if opening else ""


def _marked(text: str, before: str) -> Iterator[Span]:
    """Give a text with its marks, read as if something else stood before it."""
    end = 0
    for match in _MARKED.finditer(before + text):
        start = max(match.start() - len(before), 0)
        if start > end:
            yield text_span(text[end:start])
        role: Role = "code" if match[1] else "strong"
        end = match.end() - len(before)
        yield text_span(text[start:end], role)
    if end < len(text) or not text:
        yield text_span(text[end:])
