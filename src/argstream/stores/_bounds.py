"""What bounds the memory that those take who follow runs, and do not fetch."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct, field

__all__ = ["Budget", "Unheard"]

_KEPT_BY_ALL: Final = 32_000_000
_UNHEARD_BYTES: Final = 64_000


class Budget:
    """What all tails of a store may keep together. May be used from any thread."""

    def __init__(self, size: int = _KEPT_BY_ALL) -> None:
        self._left = size
        # The collector of garbage may end who follows at any moment.
        self._lock = threading.RLock()

    def spend(self, size: int) -> bool:
        """Take note that so much more is kept, or less; say whether it is too much in all."""
        with self._lock:
            self._left -= size
            return self._left < 0


class Unheard(Struct):
    """What a tail has not heard yet, because its event loop has not run since."""

    pushes: list[tuple[int, Sequence[bytes]]] = field(default_factory=list)
    size: int = 0
    is_stale: bool = False
    has_posts: bool = False
    failure: Callable[[], Exception] | None = None

    def push(self, first: int, lines: Sequence[bytes]) -> None:
        """Take note of records, while they are few; else that they are in the store."""
        self.size += sum(map(len, lines))
        if self.size > _UNHEARD_BYTES:
            self.pushes.clear()
            self.is_stale = True
        else:
            self.pushes.append((first, lines))
