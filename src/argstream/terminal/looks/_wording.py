"""How names and values are spelled, before they are made visible."""

import json
import re
from typing import Any, Final

from argstream.jsonstream import JsonPath
from argstream.terminal.spans import Line, Role, Span, Spans, shown

__all__ = ["INDENT", "SHORT", "name_of", "note", "quoted", "said", "value_line", "value_text"]

INDENT: Final[Spans] = (Span("  "),)
_REST: Final[Spans] = (Span("    "),)
SHORT: Final = 80
"""How long a string may be that stands behind its name."""

_is_plain_name: Final = re.compile(r"[\w-]+").fullmatch


def name_of(path: JsonPath) -> str:
    """Spell a path, such as ``edits[0].old``; a name that could be misread is quoted."""
    steps = []
    for step in path:
        if isinstance(step, str) and _is_plain_name(step):
            steps.append(f".{step}")
        else:
            steps.append(f"[{value_text(step)}]")
    return "".join(steps).removeprefix(".")


def value_text(value: Any) -> str:
    """Spell a value as JSON would, so that ``true`` and ``"true"`` differ."""
    if isinstance(value, str):
        return quoted(value)
    return json.dumps(value, ensure_ascii=False, default=repr)


def quoted(text: str) -> str:
    """Put a text into quotes. What cannot be seen is left to ``shown``, which knows more of it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def value_line(path: JsonPath, text: str) -> Line:
    """Give a line that says what an argument is: the text is a value, already spelled."""
    return Line((shown(name_of(path), "argument"), Span(" = "), shown(text)), INDENT, _REST)


def note(text: str, role: Role = "faint") -> Line:
    """Give a line of ours, among those of the arguments. The text is our own alone."""
    return said(Span(text, role))


def said(*spans: Span) -> Line:
    """Give a line of ours that may hold what somebody else wrote, made visible already."""
    return Line(spans, INDENT, None, "words")
