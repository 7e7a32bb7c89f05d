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
        self._fields = 0
        self._whole = False
        self._open_string: str | None = None  # the field whose string goes on

    def put(self, path: tuple[str | int, ...], value: Any, *, more: bool = False) -> str:
        """Give the text to add for a value: of the root, or of a field of the root object."""
        if not path:
            self._whole = True
            return _dumps(value)
        (field,) = path
        if self._open_string == field:
            text = _dumps(value)[1:-1]
        else:
            before = self._end_string() + ("," if self._fields else "{")
            text = f"{before}{_dumps(str(field))}:{_dumps(value)}"
            self._fields += 1
            if not more:
                return text
            self._open_string = str(field)
            return text[:-1]
        return text if more else text + self._end_string()

    def close(self) -> str:
        """Give the text that ends what is open."""
        if self._whole or not self._fields:
            return ""
        return self._end_string() + "}"

    def _end_string(self) -> str:
        text = "" if self._open_string is None else '"'
        self._open_string = None
        return text


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
