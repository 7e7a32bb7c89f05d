"""Markdown, lightly: headings, strong words and code get a role, and every character stays."""

import re
from collections.abc import Iterator
from typing import Final

from argstream.terminal.highlighting import Highlighter
from argstream.terminal.scene._growing_text import Part
from argstream.terminal.scene._texts import text_span
from argstream.terminal.spans import Breaks, Role, Span, Spans

__all__ = ["Markdown"]

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$")
_HEADING: Final = re.compile(r" {0,3}#{1,6} ")
_MARKED: Final = re.compile(r"(`[^`]+`)|(\*\*[^*]+\*\*)")


class Markdown:
    """Reads a text line by line."""

    def __init__(self) -> None:
        self._fence = ""  # what opened the block of code that we are in
        self._highlighter = Highlighter()

    @property
    def breaks(self) -> Breaks:
        """Where the next line may be broken."""
        return "anywhere" if self._fence else "words"

    def final(self, part: Part) -> Spans:
        """Give a line that is over."""
        if self._fence:
            if part.is_rest or not self._is_closed_by(part.text):
                return self._highlighter.line(part.text)
            self._fence = ""
        elif not part.is_rest and (opening := _FENCE.match(part.text)):
            self._fence = opening[1]
            self._highlighter = Highlighter(opening[2].strip().partition(" ")[0])
        else:
            return self.growing(part)
        return (text_span(part.text, "faint"),)

    def growing(self, part: Part) -> Spans:
        """Give a line that still grows."""
        if self._fence:
            return (text_span(part.text),)
        if not part.is_rest and _HEADING.match(part.text):
            return (text_span(part.text, "heading"),)
        return tuple(_marked(part.text))

    def _is_closed_by(self, text: str) -> bool:
        text = text.strip()
        return text.startswith(self._fence) and not text.strip(self._fence[0])


def _marked(text: str) -> Iterator[Span]:
    end = 0
    for match in _MARKED.finditer(text):
        if match.start() > end:
            yield text_span(text[end : match.start()])
        role: Role = "code" if match[1] else "strong"
        yield text_span(match[0], role)
        end = match.end()
    if end < len(text) or not text:
        yield text_span(text[end:])
