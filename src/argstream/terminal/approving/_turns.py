"""Who asks next: one question at a time on a screen, and for a keyboard, whoever asks there.

Approvers may be many, in several threads and event loops. Were two questions to stand at the same
time, a key for the one that is seen would answer the other.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import asynccontextmanager
from typing import Final

from argstream.terminal.approving._attention import ANY_KEY

__all__ = ["Turn", "turn"]

_TURN_SECONDS: Final = 0.05
_RECENT_SECONDS: Final = 2.0
"""How long a key may have been meant for the question before."""

_turns: Final[list["Turn"]] = []  # in the order in which they came
_answered: Final[dict[Hashable, tuple[str, float]]] = {}  # by keyboard: the last key, and when


class Turn:
    """A place in the line before a screen and a keyboard."""

    def __init__(self, screen: object, keyboard: Hashable) -> None:
        self.screen = screen
        self.keyboard = keyboard
        self.number: int = 1 + max((other.number for other in self._neighbours()), default=0)
        self.since = time.monotonic()

    @property
    def is_next(self) -> bool:
        """Whether nobody is before it."""
        return next(self._neighbours()) is self

    @property
    def position(self) -> str:
        """Which one it is, if there are several."""
        last = max(other.number for other in self._neighbours())
        return f"{self.number} of {last}" if last > 1 else ""

    @property
    def key_before(self) -> str:
        """The key by which something was answered just now at this keyboard."""
        key, when = _answered.get(self.keyboard, ("", 0.0))
        return key if time.monotonic() - when < _RECENT_SECONDS else ""

    def answered(self, key: str) -> None:
        """Note by which key something was answered."""
        _answered[self.keyboard] = key, time.monotonic()

    def _neighbours(self) -> Iterator["Turn"]:
        """Give all who use the same screen or keyboard, and itself once it is in the line."""
        for other in tuple(_turns):  # another thread may change it
            if other.screen is self.screen or other.keyboard == self.keyboard:
                yield other


@asynccontextmanager
async def turn(screen: object, keyboard: Hashable) -> AsyncIterator[Turn]:
    """Wait until it is one's turn, and have it."""
    own = Turn(screen, keyboard)
    _turns.append(own)
    has_answer = False
    try:
        while not own.is_next:
            await asyncio.sleep(_TURN_SECONDS)
        yield own
        has_answer = True
    finally:
        if own.is_next and not has_answer:  # it disappears: somebody may be about to press a key
            own.answered(ANY_KEY)
        _turns.remove(own)
