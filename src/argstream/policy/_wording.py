"""How values, arguments and tools are shown in what a policy says, to a person and to a model.

What the model wrote is cut short and made visible: a message must not be a way to the screen.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from argstream.jsonstream import kinds
from argstream.sanitise import visible_line

__all__ = ["argument_words", "kind_of", "listed", "name_words", "shown"]

_MOST_CHARACTERS: Final = 80  # of one value
_MOST_BITS: Final = 256  # of an integer: writing a longer one out takes time, or is refused


def kind_of(value: object) -> str:
    """Name the kind of a JSON value; of anything else, its type."""
    kind = kinds.kind_of(value)
    return f"a {type(value).__name__}" if kind is None else kinds.KIND_WORDS[kind]


def shown(value: Any) -> str:
    """Show a value in a few words: a string in quotes, cut; of an object or an array, its size."""
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
    """Show the name of a tool, a rule or a function: as it is if it is plain."""
    cut = name[:_MOST_CHARACTERS]
    text = visible_line(cut) + ("…" if len(name) > len(cut) else "")
    return text or '""'


def argument_words(path: tuple[str | int, ...]) -> str:
    """Show where an argument is: a key by itself, else all steps to it as JSON."""
    if len(path) == 1:
        return f"the argument {name_words(str(path[0]))}"
    steps = [step[:_MOST_CHARACTERS] if isinstance(step, str) else step for step in path]
    text = json.dumps(steps, ensure_ascii=False)
    return f"the argument {visible_line(text[: 3 * _MOST_CHARACTERS])}"
