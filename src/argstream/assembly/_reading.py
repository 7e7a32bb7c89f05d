"""How the text of one call is read: as it stands or, once that fails, perhaps in another way.

The parser always reads the text as it stands. When that makes no object, or the judge refuses it,
the pieces may still fit a second reading (``_second_reading``). Then the call is in doubt until it
is closed, and shows what was read before the piece that may have begun anew.
"""

from argstream.assembly._conclusion import Conclusion, conclude, conclude_restated
from argstream.assembly._fault import Fault
from argstream.assembly._second_reading import EARLY_PIECES, SecondReading
from argstream.assembly.call import Call
from argstream.jsonstream import PENDING, Limits, Parser

__all__ = ["Reading"]


class Reading:
    """Reads the text of one call, and has the call show what it says."""

    __slots__ = ("_call", "_limits", "parser", "pieces", "root_end", "second")

    def __init__(self, call: Call, limits: Limits) -> None:
        self._call = call
        self._limits = limits
        self.parser = call.parser = Parser(limits, unique_keys=True)
        """What reads the text as it stands. The call's own is another one after ``show``."""
        self.pieces: list[str] | None = []
        """The first pieces; None once they are too many to repeat each other."""
        self.root_end: int | None = None
        """Where the JSON was whole, if it was."""
        self.second: SecondReading | None = None
        """What else the text may mean, if it cannot be meant as it stands."""

    def note(self, piece: str) -> None:
        """Remember a piece, as long as there are few."""
        if self.pieces is not None:
            self.pieces = [*self.pieces, piece] if len(self.pieces) < EARLY_PIECES else None

    def doubt(self, fault: Fault, root_end: int | None = None) -> bool:
        """Say whether a text that has a fault may be meant in another way; then wait for that."""
        second = SecondReading(fault, self.pieces, self._call.raw, root_end, self._limits)
        if not second.possible:
            return False
        self.second = second
        self._call.in_doubt = True
        if self.pieces is not None:
            self.show("".join(self.pieces[:-1]))  # the last may have been the start of the other
        return True

    def show(self, text: str) -> None:
        """Have the call show what this much of its text says: the rest was misread."""
        call = self._call
        parser = call.parser = Parser(self._limits, unique_keys=True)
        parser.feed(text)
        call.partial = parser.value if isinstance(parser.value, dict) else PENDING

    def conclude(self, restated: str | None) -> Conclusion | Fault:
        """Say what the text is that is over; the provider may have closed it with another one."""
        self.parser.close()
        if restated is not None:
            return conclude_restated(restated, self.parser, self._limits)
        return conclude(self.parser, self.second, self._limits)
