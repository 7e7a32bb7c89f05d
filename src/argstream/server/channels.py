"""Runs on their way to any number of viewers, each of which is hardly more than a number.

Who has fallen behind what a channel keeps is given the run as far as it has come instead; where the
format has no way to say that, he is told to come again.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import Final, NamedTuple

from argstream.log import Record, Store
from argstream.protocols.encoding import Encoder, Written
from argstream.server._channel import Channel, portions

__all__ = ["Channels", "Viewer"]

_PIECE: Final = 64_000
"""How much a viewer is given at once; no more than about twice that waits in his connection."""
_EXACT: Final = 1_000
"""How many records who comes again may have missed and be given just these."""
_PAGE: Final = 500
_PATIENCE: Final = 5.0
"""How long one waits who has seen more than is known here, in seconds."""


class _Entry(NamedTuple):
    channel: Channel
    opened: asyncio.Future[None]


class Channels:
    """The channels of the runs that somebody watches."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entries: dict[Hashable, _Entry] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._is_draining = False

    async def watch(
        self,
        run_id: str,
        key: Hashable,
        make: Callable[[], Encoder],
        *,
        after: int | None = None,
    ) -> "Viewer":
        """Watch a run, in the format that ``make`` makes an encoder of.

        Viewers with the same run and key share one. They are told all so far and then what comes;
        with ``after``, only what comes after that record.
        """
        name = (run_id, key)
        channel = await self._opened(name, run_id, make)
        viewer = Viewer(channel, self, name)
        try:
            await self._place(viewer, channel, make, after)
        except BaseException:
            viewer.close()
            raise
        return viewer

    async def _opened(self, name: Hashable, run_id: str, make: Callable[[], Encoder]) -> Channel:
        entry = self._entries.get(name)
        if entry is None or entry.channel.parting is not None:
            channel = Channel(self._store, run_id, make())
            entry = self._entries[name] = _Entry(channel, asyncio.ensure_future(channel.open()))
            entry.opened.add_done_callback(lambda opened: self._forget_failed(name, opened))
            if self._is_draining:
                channel.part("shutdown")
        # One who goes away must not take the channel away from the others.
        await asyncio.shield(entry.opened)
        return entry.channel

    def _forget_failed(self, name: Hashable, opened: "asyncio.Future[None]") -> None:
        if opened.cancelled() or opened.exception() is not None:
            self._entries.pop(name, None)

    async def _place(
        self,
        viewer: "Viewer",
        channel: Channel,
        make: Callable[[], Encoder],
        after: int | None,
    ) -> None:
        if after is not None and after > channel.seq:
            await self._wait_for(channel, after)
        number = None if after is None else channel.place_after(after)
        if number is not None:
            viewer.begin(number)
        elif after is None or after > channel.seq or self._missed_too_much(channel, after):
            viewer.begin(channel.end, channel.opening())
        else:
            number, until = channel.end, channel.seq
            viewer.begin(number, await self._missed(channel.run_id, make(), after, until))

    async def _wait_for(self, channel: Channel, after: int) -> None:
        """Wait for what another process told: it may be on its way here, if there is such a one."""
        if after <= (await self._store.info(channel.run_id)).seq:
            try:
                async with asyncio.timeout(_PATIENCE):
                    await channel.reached(after)
            except TimeoutError:
                return  # he is given all of it

    def _missed_too_much(self, channel: Channel, after: int) -> bool:
        return channel.encoder.can_catch_up and channel.seq - after > _EXACT

    async def _missed(self, run_id: str, encoder: Encoder, after: int, until: int) -> Written:
        """Write what was told between two records, as if it had been told all along."""
        data = bytearray()
        rest: list[Record] = []
        seq = 0
        while seq < until:
            records = await self._store.read(run_id, seq, min(_PAGE, until - seq))
            if not records:
                break  # the run was deleted, and who follows it is told
            seq = records[-1].seq
            known = [record for record in records if record.seq <= after]
            for portion in portions(known):
                encoder.take(portion)
            rest += records[len(known) :]
            await asyncio.sleep(0)  # a long log must not hold up the others
        for portion in portions(rest):
            written = encoder.take(portion)
            data += written.data
            if written.ends:
                return Written(bytes(data), ends=True)
        return Written(bytes(data))

    def leave(self, name: Hashable, channel: Channel) -> None:
        """Take that a viewer of a channel is gone; for viewers only."""
        entry = self._entries.get(name)
        if channel.viewers:
            return
        if entry is not None and entry.channel is channel:
            del self._entries[name]
        closing = asyncio.ensure_future(channel.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def drain(self) -> None:
        """Tell all who watch to come again, elsewhere: the server ends."""
        self._is_draining = True
        for entry in self._entries.values():
            entry.channel.part("shutdown")

    async def aclose(self) -> None:
        """End all channels."""
        self.drain()
        for entry in [*self._entries.values()]:
            await entry.channel.close()
        self._entries.clear()
        if self._closing:
            await asyncio.wait(self._closing)


class Viewer:
    """One who watches a run: what to send him, a piece at a time."""

    def __init__(self, channel: Channel, channels: Channels, name: Hashable) -> None:
        self._channel = channel
        self._channels = channels
        self._name = name
        self._number = 0  # of the next chunk
        self._first: Written | None = None
        self._is_closed = False
        channel.viewers += 1

    def begin(self, number: int, first: Written | None = None) -> None:
        """Begin at a chunk, after something for this one alone."""
        self._number, self._first = number, first

    def close(self) -> None:
        """Watch no more."""
        if not self._is_closed:
            self._is_closed = True
            self._channel.viewers -= 1
            self._channels.leave(self._name, self._channel)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Give what to send, until the run is over, or rests and the format ends there."""
        chunks = [] if self._first is None else [self._first]
        self._first = None
        while True:
            for chunk in chunks:
                for piece in _cut(chunk.data):
                    yield piece
                if chunk.ends:
                    return
            await self._channel.grown(self._number)
            chunks = self._next()
            if not chunks:
                break
        if self._channel.parting is not None:
            yield self._channel.encoder.parting(self._channel.parting)

    def _next(self) -> list[Written]:
        channel = self._channel
        chunks = channel.chunks(self._number)
        if chunks is not None:
            self._number += len(chunks)
            return chunks
        self._number = channel.end
        if channel.encoder.can_catch_up:
            return [channel.opening()]
        return [Written(channel.encoder.parting("behind"), ends=True)]


def _cut(data: bytes) -> list[bytes]:
    """Cut what is large; the rest is shared with all others, not copied."""
    if len(data) <= _PIECE:
        return [data] if data else []
    return [data[start : start + _PIECE] for start in range(0, len(data), _PIECE)]
