"""Text that some server cut inside a surrogate pair, made whole.

JSON escapes can hold half a character, and a Python string made of them cannot be encoded
(invariant 4). Two halves that come in neighbouring pieces are joined; a half that stays alone
becomes U+FFFD.
"""

import re
from typing import Any, Final

__all__ = ["SurrogateMender", "mended", "mended_json"]

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
        return mended(piece)

    def close(self) -> str:
        """Give what stands for a half whose other half never came."""
        held, self.held = self.held, ""
        return mended(held)


def mended(text: str) -> str:
    """Give the same text with every half of a pair joined or replaced."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mended_json(value: Any) -> Any:
    """Do that for all strings and keys of a JSON value."""
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, dict):
        return {mended_json(key): mended_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [mended_json(part) for part in value]
    return value
