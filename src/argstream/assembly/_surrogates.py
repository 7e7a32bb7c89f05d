"""Text that some server cut inside a surrogate pair, made whole.

JSON escapes can hold half a character, and a Python string made of them cannot be encoded
(invariant 4). Two halves that come in neighbouring pieces are joined; a half that stays alone
becomes U+FFFD.
"""

import re
from typing import Any, Final

__all__ = ["SurrogateMender", "encodable"]

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class SurrogateMender:
    """Mends one text that comes in pieces."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = ""
        """The first half of a pair whose second half has not come."""

    def feed(self, piece: str) -> str:
        """Give the piece in a form that can be encoded."""
        if self.held:
            piece = self.held + piece
            self.held = ""
        elif not _SURROGATE.search(piece):
            return piece
        if "\ud800" <= piece[-1] <= "\udbff":
            self.held = piece[-1]
            piece = piece[:-1]
        return encodable(piece)

    def close(self) -> str:
        """Give what stands for a half whose other half never came."""
        held, self.held = self.held, ""
        return encodable(held)


def encodable(value: Any) -> Any:
    """Give the same text, or JSON value, with every half of a pair joined or replaced."""
    if isinstance(value, str):
        if value.isascii() or not _SURROGATE.search(value):
            return value
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {encodable(key): encodable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [encodable(part) for part in value]
    return value
