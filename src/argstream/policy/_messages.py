"""Formats values, arguments and tool names for the messages of a policy.

Text of the model is shortened and sanitised: a message must not send control codes to a screen.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from argstream.jsonstream import _fragments
from argstream.sanitise import visible_line

_MAX_CHARS: Final = 80  # of one value
_MAX_BITS: Final = 256  # of an integer: Python refuses to print very long ones


def kind_of(value: object) -> str:
    kind = _fragments.kind_of(value)
    return f"a {type(value).__name__}" if kind is None else _fragments.KIND_WORDS[kind]


def shown(value: Any) -> str:
    """Format a value: a string in quotes, shortened; an object or an array by its size."""
    if isinstance(value, str):
        text = json.dumps(value[:_MAX_CHARS], ensure_ascii=False)
        return visible_line(text) + ("…" if len(value) > _MAX_CHARS else "")
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, dict | list):
        return f"{kind_of(value)} of {len(value)}"
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    return visible_line(repr(value)[:_MAX_CHARS])


def listed(values: Iterable[Any]) -> str:
    """Format the first values as alternatives, and the number of the others."""
    texts = [shown(value) for value in values]
    first, others = texts[:4], len(texts) - 4
    return " or ".join(first) + (f" or one of {others} more" if others > 0 else "")


def name_words(name: str) -> str:
    cut = name[:_MAX_CHARS]
    text = visible_line(cut) + ("…" if len(name) > len(cut) else "")
    return text or '""'


def argument_words(path: tuple[str | int, ...]) -> str:
    """Format the path of an argument: a single key as it is, longer paths as JSON."""
    if len(path) == 1:
        return f"the argument {name_words(str(path[0]))}"
    steps = [step[:_MAX_CHARS] if isinstance(step, str) else step for step in path]
    text = json.dumps(steps, ensure_ascii=False)
    return f"the argument {visible_line(text[: 3 * _MAX_CHARS])}"
