"""Edited arguments that came through a browser: what was not changed is the model's own.

JavaScript knows one kind of number, and an order of keys of its own. So what a person left alone
may come back in another form: 5.0 as 5, and keys that look like numbers before all others. A tool
must not see that.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["keeping"]


def keeping(original: Any, edited: Any) -> Any:
    """Give what was edited, with the original's own form of all that says the same.

    >>> keeping({"x": 5.0, "1": "a"}, {"1": "b", "x": 5})
    {'x': 5.0, '1': 'b'}
    """
    if isinstance(original, Mapping) and isinstance(edited, Mapping):
        kept = {key: keeping(original[key], edited[key]) for key in original if key in edited}
        return kept | {key: value for key, value in edited.items() if key not in original}
    if isinstance(original, list) and isinstance(edited, list):
        kept_items = [keeping(*pair) for pair in zip(original, edited, strict=False)]
        return kept_items + edited[len(kept_items) :]
    if _is_number(original) and _is_number(edited) and original == edited:
        return original
    return edited


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
