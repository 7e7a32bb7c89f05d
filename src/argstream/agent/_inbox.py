"""What waits to be written, told and acted on, in its order."""

import asyncio
from collections import deque
from typing import Final, Generic, TypeVar

__all__ = ["Inbox"]

Item = TypeVar("Item")

_ROOM: Final = 1024
_TIMES_AS_LONG: Final = 2.0
_LONGEST: Final = 0.2
"""How many times as long as the last was worked on may pass until the next; and in seconds."""


class Inbox(Generic[Item]):
    """Is filled by many, and emptied by one task. Who adds much waits until there is room."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._bell = asyncio.Event()  # for the one
        self._emptied: asyncio.Event | None = None  # for the many, if any of them waits
        self._taken_at = self._took = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._items)

    def post(self, item: Item) -> None:
        """Add something; also where no task can be started or waited for."""
        self._items.append(item)
        self._bell.set()

    def post_soon(self, item: Item, pause: float) -> None:
        """Add something that can wait for more, until so many seconds after the last was taken.

        If that took long to be worked off, it waits longer: where all are busy, less is done by
        doing it seldom.
        """
        self._items.append(item)
        if self._timer is not None or self._bell.is_set():
            return
        if not pause:
            self._bell.set()
            return
        loop = asyncio.get_running_loop()
        due = self._taken_at + max(pause, min(_TIMES_AS_LONG * self._took, _LONGEST))
        if due <= loop.time():
            self._bell.set()
        else:
            self._timer = loop.call_at(due, self._bell.set)

    def ring(self) -> None:
        """Wake the one, though there is nothing to take."""
        self._bell.set()

    async def wait(self) -> None:
        """Wait until there may be something."""
        await self._bell.wait()
        self._bell.clear()

    def take(self) -> deque[Item]:
        """Give all there is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._taken_at = asyncio.get_running_loop().time()
        items, self._items = self._items, deque()
        return items

    def worked_off(self) -> None:
        """Say that what was taken is done with."""
        self._took = asyncio.get_running_loop().time() - self._taken_at
        if self._emptied is not None:
            self._emptied.set()
            self._emptied = None

    @property
    def is_full(self) -> bool:
        """Whether so much waits that who can wait should."""
        return len(self._items) >= _ROOM

    async def room(self) -> None:
        """Wait until there is room."""
        while self.is_full:
            self._bell.set()
            if self._emptied is None:
                self._emptied = asyncio.Event()
            await self._emptied.wait()
