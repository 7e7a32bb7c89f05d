"""JSON that a person can read and edit: what would be invisible is spelled out, nothing is lost."""

import json
from typing import Any

from argstream.jsonstream import Invalid, Parser, locate
from argstream.sanitise import visible, visible_line

__all__ = ["NotReadable", "read", "readable", "same"]


class NotReadable(Exception):  # noqa: N818 - it says what is the case
    """A text that is not what it should be; says where, and why."""


def readable(value: object) -> str:
    r"""Write a value; what sanitising would spell out is an escape of JSON.

    >>> print(readable({"name": "Zoë\u202e"}))
    {
      "name": "Zoë\u202e"
    }
    """
    text = json.dumps(value, ensure_ascii=False, indent=2)
    if visible(text) == text:
        return text
    return "".join(map(_spelled, text))


def read(text: str) -> dict[str, Any]:
    """Read an object that somebody has written; a key that is there twice is a mistake.

    Raises NotReadable.
    """
    parser = Parser(unique_keys=True)
    fragments = [*parser.feed(text), *parser.close()]
    last = fragments[-1]
    if isinstance(last, Invalid):
        line, column = locate(text, last.offset)
        why = last.message.removesuffix(f" (at character {last.offset})")
        raise NotReadable(f"line {line}, column {column}: {why}")
    if not isinstance(parser.value, dict):
        raise NotReadable("the arguments of a tool must be an object: {…}")
    return parser.value


def same(one: object, other: object) -> bool:
    """Say whether two values are the same in JSON; in Python, 1 equals True."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _spelled(character: str) -> str:
    if character == "\n" or visible_line(character) == character:
        return character
    return json.dumps(character)[1:-1]
