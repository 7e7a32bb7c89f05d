"""What a command says: told as it comes, and kept in part, however much it is."""

import codecs
from collections.abc import Callable
from typing import Final

__all__ = ["Transcript"]

_FIRST: Final = 10_000  # characters that a model gets of the beginning,
_LAST: Final = 20_000  # and of the end
_MOST_TOLD: Final = 1_000_000  # characters that are told live, since all of that is kept in a log


class Transcript:
    """Takes bytes as they come, cut anywhere."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._first = ""
        self._last = ""
        self._total = 0

    def take(self, data: bytes) -> None:
        """Take the next piece; an empty one is the end."""
        text = self._decoder.decode(data, final=not data)
        room = _MOST_TOLD - self._total
        if room > 0 and text:
            self._tell(text[:room])
            if len(text) > room:
                self._tell("\n… more is not shown while it runs\n")
        self._total += len(text)
        taken = text[: _FIRST - len(self._first)]
        self._first += taken
        self._last = (self._last + text[len(taken) :])[-_LAST:]

    def text(self) -> str:
        """Give what was said; if that was much, its beginning and its end."""
        left_out = self._total - len(self._first) - len(self._last)
        middle = f"\n… ({left_out} characters left out) …\n" if left_out else ""
        return f"{self._first}{middle}{self._last}"
