"""How names and values are spelled, before they are made visible."""

import json
from typing import Any, Final

from argstream.jsonstream import JsonPath
from argstream.terminal.spans import Line, Role, Span, Spans, shown
from argstream.terminal.words import path_name, quoted

__all__ = ["INDENT", "SHORT", "note", "said", "value_line", "value_text"]

INDENT: Final[Spans] = (Span("  "),)
_REST: Final[Spans] = (Span("    "),)
SHORT: Final = 80
"""How long a string may be that stands behind its name."""


def value_text(value: Any) -> str:
    """Spell a value as JSON would, so that ``true`` and ``"true"`` differ; else as Python would."""
    if isinstance(value, str):
        return quoted(value)
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError):  # names that are no text, or something that is inside itself
        return repr(value)


def value_line(path: JsonPath, text: str) -> Line:
    """Give a line that says what an argument is: the text is a value, already spelled."""
    return Line((Span(path_name(path), "argument"), Span(" = "), shown(text)), INDENT, _REST)


def note(text: str, role: Role = "faint") -> Line:
    """Give a line of ours, among those of the arguments. The text is our own alone."""
    return said(Span(text, role))


def said(*spans: Span) -> Line:
    """Give a line of ours that may hold what somebody else wrote, made visible already."""
    return Line(spans, INDENT, None, "words")
