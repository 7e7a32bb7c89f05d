"""Arguments that a provider sends as values, written as the JSON text that others send.

So every call has a text: the pieces join to what is logged, and what is shown live is read out of
them like any other.
"""

import json
from typing import Any

__all__ = ["JsonWriter"]


class JsonWriter:
    """Writes one object, field by field, or a whole value at once."""

    def __init__(self) -> None:
        self._has_fields = False
        self._open_string: str | int | None = None  # the field whose string goes on

    def put(self, path: tuple[str | int, ...], value: Any, *, more: bool = False) -> str:
        """Give the text to add for a value: of the root, or of a field of the root object."""
        text = _dumps(value)
        if not path:
            return text
        (field,) = path
        if field == self._open_string:
            text = text[1:]
        else:
            separator = "," if self._has_fields else "{"
            text = f"{self._end_of_string()}{separator}{_dumps(field)}:{text}"
            self._has_fields = True
        self._open_string = field if more else None
        return text[:-1] if more else text

    def close(self) -> str:
        """Give the text that ends what is open."""
        return self._end_of_string() + "}" if self._has_fields else ""

    def _end_of_string(self) -> str:
        return "" if self._open_string is None else '"'


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
