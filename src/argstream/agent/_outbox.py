"""The records of a run that wait for its consumer."""

from typing import Final

import anyio

from argstream.log import Record

__all__ = ["Outbox"]

_ROOM: Final = 256


class Outbox:
    """Holds records until they are fetched. A producer of many waits for room, if it can."""

    def __init__(self) -> None:
        self._held: list[Record] = []
        self._joined = 0  # how many events were joined into the records that are held
        self._news: anyio.Event | None = None  # set while the consumer waits for records
        self._room: anyio.Event | None = None  # somebody waits until they are fetched
        self._return: anyio.Event | None = None  # somebody waits until he who fetches is back
        self._is_left = False
        self._is_closed = False
        self._error: BaseException | None = None

    def add(self, records: list[Record], joined: int = 0) -> None:
        """Add records. ``joined`` events were coalesced into them and count towards the limit."""
        self._held += records
        self._joined += joined
        if records and self._news is not None:
            self._wake()

    @property
    def is_full(self) -> bool:
        """Whether so much is held that who can wait should."""
        return len(self._held) + self._joined >= _ROOM and not self._is_left

    async def room(self) -> None:
        """Wait until there is room."""
        while self.is_full:
            if self._room is None:
                self._room = anyio.Event()
            await self._room.wait()

    async def fetch(self) -> list[Record]:
        """Return the next records, at least one; none when it is closed and all are fetched."""
        while not self._held:
            if self._is_closed:
                error, self._error = self._error, None
                if error is not None:
                    raise error
                return []
            self._news = news = anyio.Event()
            self._tell_return()
            await news.wait()
        return self.take()

    def take(self) -> list[Record]:
        """Return what is there, without waiting."""
        records, self._held, self._joined = self._held, [], 0
        self._make_room()
        return records

    def leave(self) -> None:
        """Say that nobody will fetch any more: nobody need wait for room."""
        self._is_left = True
        self._make_room()
        self._tell_return()

    def close(self, error: BaseException | None) -> None:
        """Mark the end of the records; the error is raised when all are fetched."""
        self._is_closed = True
        self._error = self._error or error
        self._wake()

    async def caught_up(self, seconds: float) -> None:
        """Wait until whoever fetches has come back for more, or has left; but not longer."""
        with anyio.move_on_after(seconds):
            while (self._held or self._news is None) and not self._is_left:
                self._return = anyio.Event()
                await self._return.wait()

    def _tell_return(self) -> None:
        if self._return is not None:
            self._return.set()
            self._return = None

    def _make_room(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None

    def _wake(self) -> None:
        """Let somebody who waits fetch: once for each wait."""
        if self._news is not None:
            self._news.set()
            self._news = None
