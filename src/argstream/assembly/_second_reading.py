"""What a text that is no JSON object may mean, when its pieces say so.

Some servers send everything again with each piece, or once more at the end; some begin with ``{}``,
or encode the object twice. Read literally, all of these are malformed. A second reading is tried
only then, and its verdict waits for the close; it is never silent: the call says what was done.
"""

from itertools import pairwise
from math import isinf
from typing import Any

from argstream.assembly._fault import Fault
from argstream.assembly.call import Reinterpretation
from argstream.jsonstream import Limits, Parser

__all__ = ["EARLY_PIECES", "SecondReading", "parse_object"]

EARLY_PIECES = 4
"""How many pieces to remember: a cumulative text is malformed as soon as it has two."""


class SecondReading:
    """Looks at the pieces of a text from its first fault on."""

    def __init__(
        self,
        fault: Fault,
        pieces: list[str] | None,
        raw: str,
        root_end: int | None,
        limits: Limits,
    ) -> None:
        """Take the fault, the first pieces (None if there were more), all text, its root's end."""
        self._limits = limits
        self.fault = fault
        """What is wrong with the literal reading: it holds if there is no other."""
        self._latest: str | None = None
        self._whole = ""
        self._repeated: int | None = None  # how much of the whole has come again
        self._rest: Parser | None = None
        if pieces is not None and _is_cumulative(pieces):
            self._latest = pieces[-1]
        if root_end is not None:
            self._whole = raw[:root_end].strip()
            self._repeated = 0
            if self._whole == "{}":
                self._rest = Parser(limits, unique_keys=True)
            self._go_on(raw[root_end:])

    @property
    def possible(self) -> bool:
        """Whether any reading fits all pieces so far."""
        return self._latest is not None or self._repeated is not None or self._rest is not None

    def feed(self, piece: str) -> None:
        """Take the next piece."""
        if self._latest is not None:
            self._latest = piece if piece.startswith(self._latest) else None
        self._go_on(piece)

    def _go_on(self, piece: str) -> None:
        if self._repeated is not None:
            fits = self._whole.startswith(piece, self._repeated)
            self._repeated = self._repeated + len(piece) if fits else None
            if self._repeated == len(self._whole):
                self._repeated = 0  # it may come a third time
        if self._rest is not None:
            self._rest.feed(piece)
            if self._rest.error is not None:
                self._rest = None

    def close(self) -> tuple[Reinterpretation, dict[str, Any]] | None:
        """Give the reading that makes an object of the text, if there is one."""
        if (
            self._latest is not None
            and (found := parse_object(self._latest, self._limits)) is not None
        ):
            return "cumulative", found
        if self._repeated == 0 and (found := parse_object(self._whole, self._limits)) is not None:
            return "replay", found
        if self._rest is not None:
            self._rest.close()
            if (found := _object(self._rest)) is not None:
                return "empty_prefix", found
        return None


def parse_object(text: str, limits: Limits) -> dict[str, Any] | None:
    """Give the object that a whole text is, or None."""
    parser = Parser(limits, unique_keys=True)
    parser.feed(text)
    parser.close()
    return _object(parser)


def _object(parser: Parser) -> dict[str, Any] | None:
    value = parser.value
    if parser.verdict != "complete" or not isinstance(value, dict) or _is_infinite(value):
        return None
    return value


def _is_infinite(value: object) -> bool:
    if isinstance(value, dict | list):
        return any(map(_is_infinite, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and isinf(value)


def _is_cumulative(pieces: list[str]) -> bool:
    return len(pieces) > 1 and all(later.startswith(earlier) for earlier, later in pairwise(pieces))
