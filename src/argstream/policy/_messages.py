"""How values, arguments and tools are shown in what a policy says, to a person and to a model.

What the model wrote is cut short and made visible: a message must not be a way to the screen.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from argstream.jsonstream import _fragments
from argstream.sanitise import visible_line

_MOST_CHARACTERS: Final = 80  # of one value
_MOST_BITS: Final = 256  # of an integer: writing a longer one out takes time, or is refused


def kind_of(value: object) -> str:
    kind = _fragments.kind_of(value)
    return f"a {type(value).__name__}" if kind is None else _fragments.KIND_WORDS[kind]


def shown(value: Any) -> str:
    """Show a value: a string in quotes, cut short; an object or an array by its size."""
    if isinstance(value, str):
        text = json.dumps(value[:_MOST_CHARACTERS], ensure_ascii=False)
        return visible_line(text) + ("…" if len(value) > _MOST_CHARACTERS else "")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, dict | list):
        return f"{kind_of(value)} of {len(value)}"
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    return visible_line(repr(value)[:_MOST_CHARACTERS])


def listed(values: Iterable[Any]) -> str:
    """Show several values as alternatives: the first few, and how many there are beyond."""
    texts = [shown(value) for value in values]
    first, beyond = texts[:4], len(texts) - 4
    return " or ".join(first) + (f" or one of {beyond} more" if beyond > 0 else "")


def name_words(name: str) -> str:
    cut = name[:_MOST_CHARACTERS]
    text = visible_line(cut) + ("…" if len(name) > len(cut) else "")
    return text or '""'


def argument_words(path: tuple[str | int, ...]) -> str:
    """Show where an argument is: a single key as it is, longer paths as JSON."""
    if len(path) == 1:
        return f"the argument {name_words(str(path[0]))}"
    steps = [step[:_MOST_CHARACTERS] if isinstance(step, str) else step for step in path]
    text = json.dumps(steps, ensure_ascii=False)
    return f"the argument {visible_line(text[: 3 * _MOST_CHARACTERS])}"
