"""What waits to be written, told and acted on, in its order."""

from collections import deque
from typing import Final, Generic, TypeVar

import anyio

__all__ = ["Inbox"]

Item = TypeVar("Item")

_ROOM: Final = 1024


class Inbox(Generic[Item]):
    """Is filled by many, and emptied by one task. Who adds much waits until there is room."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._bell = anyio.Event()  # for the one
        self._emptied = anyio.Event()  # for the many

    def __len__(self) -> int:
        return len(self._items)

    def post(self, item: Item) -> None:
        """Add something; also where no task can be started or waited for."""
        self._items.append(item)
        self._bell.set()

    def ring(self) -> None:
        """Wake the one, though there is nothing to take."""
        self._bell.set()

    async def wait(self) -> None:
        """Wait until there may be something."""
        await self._bell.wait()
        self._bell = anyio.Event()

    def take(self) -> deque[Item]:
        """Give all there is."""
        items, self._items = self._items, deque()
        return items

    def worked_off(self) -> None:
        """Say that what was taken is done with."""
        self._emptied.set()
        self._emptied = anyio.Event()

    @property
    def is_full(self) -> bool:
        """Whether so much waits that who can wait should."""
        return len(self._items) >= _ROOM

    async def room(self) -> None:
        """Wait until there is room."""
        while self.is_full:
            await self._emptied.wait()
