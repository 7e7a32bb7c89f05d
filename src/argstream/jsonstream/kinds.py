"""The kinds of JSON: which one a Python value is, and what each is called in a sentence."""

from typing import Final, get_args

from argstream.jsonstream.fragments import Kind

__all__ = ["KINDS", "KIND_WORDS", "kind_of"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
KIND_WORDS: Final[dict[Kind, str]] = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "number": "a number",
    "boolean": "a boolean",
    "null": "null",
}
_BY_TYPE: Final[dict[type, Kind]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
}


def kind_of(value: object) -> Kind | None:
    """Say of which kind a value is; None if it is none of JSON.

    >>> kind_of(True), kind_of(1), kind_of((1,))
    ('boolean', 'number', None)
    """
    kind = _BY_TYPE.get(type(value))
    if kind is None:
        # A subclass is what it is derived from; bool comes before int, which it is too.
        kind = next((kind for base, kind in _BY_TYPE.items() if isinstance(value, base)), None)
    return kind
