"""Servers that write arguments in a way of their own, read live because the caller asked for it.

Without being asked, such a text is read once more when its call is closed (``_second_reading``):
the arguments are right then, but what was shown before was the literal text.
"""

from collections.abc import Collection
from typing import Literal, Protocol, TypeAlias, get_args

from argstream.errors import UsageError
from argstream.jsonstream import Parser, Text

__all__ = ["Quirk", "TextQuirk", "checked", "make_quirks"]

Quirk: TypeAlias = Literal["cumulative", "empty_prefix", "double_encoded"]


class TextQuirk(Protocol):
    """Turns the pieces that come into the pieces that are meant."""

    name: Quirk
    applied: bool
    """Whether any piece was changed."""
    is_whole: bool
    """Whether, after the close, nothing is missing that it takes away."""

    def feed(self, piece: str) -> str:
        """Give what is new in a piece."""

    def close(self) -> str:
        """Give what was held back."""


class _Cumulative:
    """Each piece repeats all before it."""

    name: Quirk = "cumulative"

    def __init__(self) -> None:
        self.applied = False
        self.is_whole = True
        self._all = ""

    def feed(self, piece: str) -> str:
        if self._all and piece.startswith(self._all):
            self.applied = True
            known, self._all = len(self._all), piece
            return piece[known:]
        so_far, self._all = self._all, ""
        so_far += piece  # in place: nothing else refers to it (invariant 6)
        self._all = so_far
        return piece

    def close(self) -> str:
        return ""


class _EmptyPrefix:
    """An empty object comes before the real one."""

    name: Quirk = "empty_prefix"

    def __init__(self) -> None:
        self.applied = False
        self.is_whole = True
        self._held: str | None = ""

    def feed(self, piece: str) -> str:
        if self._held is None:
            return piece
        if not self._held and piece.strip() == "{}":
            self._held = piece
            return ""
        self.applied = bool(self._held)
        self._held = None
        return piece

    def close(self) -> str:
        held, self._held = self._held, None
        return held or ""


class _DoubleEncoded:
    """The object is in a JSON string."""

    name: Quirk = "double_encoded"

    def __init__(self) -> None:
        self.applied = False
        self.is_whole = True
        self._outer: Parser | None = None
        self._decided = False

    def feed(self, piece: str) -> str:
        if not self._decided and piece.strip():
            self._decided = True
            if piece.lstrip().startswith('"'):
                self._outer = Parser()
                self.applied = True
        if self._outer is None:
            return piece
        # What is wrong outside the string is not hidden: it is left where the object ends.
        text = [part.text for part in self._outer.feed(piece) if isinstance(part, Text)]
        return "".join(text) if self._outer.error is None else piece

    def close(self) -> str:
        if self._outer is not None:
            self._outer.close()
            self.is_whole = self._outer.verdict != "truncated"
        return ""


_QUIRKS: dict[Quirk, type[TextQuirk]] = {
    "cumulative": _Cumulative,
    "empty_prefix": _EmptyPrefix,
    "double_encoded": _DoubleEncoded,
}


def checked(quirks: Collection[Quirk]) -> tuple[Quirk, ...]:
    """Give the quirks, if there are such."""
    if isinstance(quirks, str):
        raise UsageError(f"quirks is a collection of names: quirks=({quirks!r},)")
    unknown = [repr(name) for name in quirks if name not in _QUIRKS]
    if unknown:
        known = ", ".join(get_args(Quirk))
        raise UsageError(f"no quirk is called {', '.join(unknown)}; there are: {known}")
    return tuple(quirks)


def make_quirks(names: Collection[Quirk]) -> list[TextQuirk]:
    """Give new readers for one call."""
    return [_QUIRKS[name]() for name in names]
