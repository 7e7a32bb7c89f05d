"""The events of a run that wait for whoever follows it."""

from typing import Final

import anyio

from argstream.events import Event

__all__ = ["Outbox"]

_ROOM: Final = 256


class Outbox:
    """Holds events until they are fetched. Who adds many waits for room, if he can."""

    def __init__(self) -> None:
        self._held: list[Event] = []
        self._news: anyio.Event | None = None  # somebody waits for events
        self._room: anyio.Event | None = None  # somebody waits until they are fetched
        self._return: anyio.Event | None = None  # somebody waits until he who fetches is back
        self._is_left = False
        self._is_closed = False
        self._error: BaseException | None = None

    def add(self, event: Event) -> None:
        """Add an event."""
        self._held.append(event)
        if self._news is not None:
            self._wake()

    def add_all(self, events: list[Event]) -> None:
        """Add several."""
        self._held += events
        if events and self._news is not None:
            self._wake()

    @property
    def is_full(self) -> bool:
        """Whether so much is held that who can wait should."""
        return len(self._held) >= _ROOM and not self._is_left

    async def room(self) -> None:
        """Wait until there is room."""
        while self.is_full:
            if self._room is None:
                self._room = anyio.Event()
            await self._room.wait()

    async def fetch(self) -> list[Event]:
        """Give the next events, at least one; none when it is closed and all are fetched."""
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

    def take(self) -> list[Event]:
        """Give what is there, without waiting."""
        events, self._held = self._held, []
        self._make_room()
        return events

    def leave(self) -> None:
        """Say that nobody will fetch any more: nobody need wait for room."""
        self._is_left = True
        self._make_room()
        self._tell_return()

    def close(self, error: BaseException | None) -> None:
        """Say that no more events come; the error is raised when all are fetched."""
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
