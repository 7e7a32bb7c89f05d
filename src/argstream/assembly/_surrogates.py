"""Text that some server cut inside a character, made whole.

JSON escapes can hold half of a surrogate pair; bytes that are no UTF-8 are read as surrogates, too,
as Python's ``surrogateescape`` does. A string with either cannot be encoded (invariant 4). Parts
that come in neighbouring pieces are joined; a part that stays alone becomes U+FFFD.
"""

import re
from typing import Any, Final

__all__ = ["SurrogateMender", "mended", "mended_json"]

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_BYTES: Final = re.compile("[\udc80-\udcff]+")
# The beginning of a pair, or of the bytes of a character, at the end of a piece. What could begin
# bytes may as well be the end of a pair.
_BEGINNING: Final = re.compile(
    "(?:[\ud800-\udbff]|(?<![\ud800-\udbff])(?:[\udcc2-\udcdf]|[\udce0-\udcef][\udc80-\udcbf]?"
    "|[\udcf0-\udcf4][\udc80-\udcbf]{0,2}))\\Z"
)


class SurrogateMender:
    """Mends one text that comes in pieces."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = ""
        """The beginning of a character whose end has not come."""

    def feed(self, piece: str) -> str:
        """Give the piece in a form that can be encoded."""
        if self.held:
            piece = self.held + piece
            self.held = ""
        elif not _SURROGATE.search(piece):
            return piece
        if (beginning := _BEGINNING.search(piece)) is not None:
            self.held = beginning[0]
            piece = piece[: beginning.start()]
        return mended(piece)

    def close(self) -> str:
        """Give what stands for a beginning whose end never came."""
        held, self.held = self.held, ""
        return mended(held)


def mended(text: str) -> str:
    """Give the same text with the halves of characters joined, or replaced."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    text = _PAIR.sub(lambda pair: _joined(pair[0]), text)
    text = _BYTES.sub(lambda run: _decoded(run[0]), text)
    return _SURROGATE.sub("\ufffd", text)


def _joined(pair: str) -> str:
    return pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _decoded(run: str) -> str:
    return run.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def mended_json(value: Any) -> Any:
    """Do that for all strings and keys of a JSON value."""
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, dict):
        return {mended_json(key): mended_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [mended_json(part) for part in value]
    return value
