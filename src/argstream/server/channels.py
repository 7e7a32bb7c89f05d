"""Runs on their way to any number of viewers, each of which is hardly more than a number.

Who has fallen behind what a channel keeps is given the run as far as it has come instead; where the
format has no way to say that, he is told to come again.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator
from typing import Final, NamedTuple

from argstream.log import Store
from argstream.protocols.encoding import Encoder, Written
from argstream.server._channel import Channel, portions

__all__ = ["Channels", "Viewer", "cut"]

_PIECE: Final = 16_000
"""How much a viewer is given at once: no more than this, besides what the server holds for each
connection, waits for one who does not read."""
_EXACT: Final = 1_000
"""How many records who comes again may have missed and be given just these."""
_PAGE: Final = 100
_PATIENCE: Final = 5.0
"""How long one waits who has seen more than is known here, in seconds."""
_SECONDS_PER_VIEWER: Final = 0.00005
"""How much longer things are collected for each who watches, so that sending does not take all."""
_LONGEST: Final = 0.2


class _Entry(NamedTuple):
    channel: Channel
    opened: "asyncio.Task[None]"


class Channels:
    """The channels of the runs that somebody watches."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entries: dict[Hashable, _Entry] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._viewers = 0
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
        entry = self._entry(name, run_id, make)
        viewer = Viewer(entry.channel, lambda: self._leave(name, entry))
        entry.channel.viewers += 1
        self._viewers += 1
        try:
            # One who goes away must not take the channel away from the others.
            await asyncio.shield(entry.opened)
            await self._place(viewer, entry.channel, make, after)
        except BaseException:
            viewer.close()
            raise
        return viewer

    def _entry(self, name: Hashable, run_id: str, make: Callable[[], Encoder]) -> _Entry:
        entry = self._entries.get(name)
        if entry is None or entry.channel.parting is not None or _has_failed(entry.opened):
            channel = Channel(self._store, run_id, make(), self._crowded)
            if self._is_draining:
                channel.part("shutdown")
            entry = self._entries[name] = _Entry(channel, asyncio.create_task(channel.open()))
        return entry

    def _crowded(self) -> float:
        return min(self._viewers * _SECONDS_PER_VIEWER, _LONGEST)

    async def _place(
        self,
        viewer: "Viewer",
        channel: Channel,
        make: Callable[[], Encoder],
        after: int | None,
    ) -> None:
        if after is None:
            viewer.begin_with_opening(0)
            return
        if after > channel.seq:
            await self._wait_for(channel, after)
        number = channel.place_after(after)
        if number is not None:
            viewer.begin(number)
        elif after > channel.seq:
            viewer.begin_with_opening(0)  # there is no such record: he has seen something else
        elif channel.encoder.can_catch_up and channel.seq - after > _EXACT:
            viewer.begin_with_opening(after)
        else:
            missed = self._missed(channel.run_id, make(), after, channel.seq)
            viewer.begin(channel.end, missed)

    async def _wait_for(self, channel: Channel, after: int) -> None:
        """Wait for what another process told: it may be on its way here, if there is such a one."""
        if after <= (await self._store.info(channel.run_id)).seq:
            try:
                async with asyncio.timeout(_PATIENCE):
                    await channel.reached(after)
            except TimeoutError:
                return  # he is given all of it

    async def _missed(
        self, run_id: str, encoder: Encoder, after: int, until: int
    ) -> AsyncGenerator[Written, None]:
        """Write what was told between two records, as if it had been told all along.

        Who does not read has one page of it here, and not all.
        """
        seq = 0
        while seq < until:
            limit = min(_PAGE, (after if seq < after else until) - seq)
            records = await self._store.read(run_id, seq, limit)
            if not records:
                return  # the run was deleted, and who follows it is told
            is_known = seq < after
            seq = records[-1].seq
            for portion in portions(records):
                written = encoder.take(portion)
                if not is_known:
                    yield written
            await asyncio.sleep(0)  # a long log must not hold up the others

    def _leave(self, name: Hashable, entry: _Entry) -> None:
        """Take that a viewer of a channel is gone; with the last one the channel ends."""
        channel = entry.channel
        channel.viewers -= 1
        self._viewers -= 1
        if channel.viewers:
            return
        if self._entries.get(name) is entry:
            del self._entries[name]
        closing = asyncio.ensure_future(_end(entry))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def open(self) -> None:
        """Begin, also after an end."""
        self._is_draining = False

    def drain(self) -> None:
        """Tell all who watch to come again, elsewhere: the server ends."""
        self._is_draining = True
        for entry in self._entries.values():
            entry.channel.part("shutdown")

    async def aclose(self) -> None:
        """End all channels."""
        self.drain()
        entries = [*self._entries.values()]
        self._entries.clear()
        for entry in entries:
            await _end(entry)
        if self._closing:
            await asyncio.wait(self._closing)


def _has_failed(opened: "asyncio.Task[None]") -> bool:
    return opened.done() and (opened.cancelled() or opened.exception() is not None)


async def _end(entry: _Entry) -> None:
    entry.opened.cancel()  # does nothing if it is done
    await asyncio.wait([entry.opened])
    _has_failed(entry.opened)  # who waited for it was told why, if anybody did
    await entry.channel.close()


class Viewer:
    """One who watches a run: what to send him, a piece at a time."""

    def __init__(self, channel: Channel, left: Callable[[], None]) -> None:
        self._channel = channel
        self._left = left
        self._number = 0  # of the next chunk
        self._before: AsyncGenerator[Written, None] | None = None
        self._is_closed = False

    def begin(self, number: int, before: AsyncGenerator[Written, None] | None = None) -> None:
        """Begin at a chunk, after something for this one alone."""
        self._number, self._before = number, before

    def begin_with_opening(self, after: int) -> None:
        """Begin with the run as far as it has come: to this record, or further."""
        opening = self._channel.opening(after)
        self.begin(opening.number, _only(opening.written))

    def close(self) -> None:
        """Watch no more."""
        if not self._is_closed:
            self._is_closed = True
            self._left()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Give what to send, until the run is over, or rests and the format ends there."""
        try:
            while (written := await self._next()) is not None:
                for piece in cut(written.data):
                    yield piece
                    if len(piece) == _PIECE:  # of a long one, which must not hold up the others,
                        await asyncio.sleep(0)  # nor be sent on when nobody is there any more
                if written.ends:
                    return
        finally:
            if self._before is not None:
                await self._before.aclose()

    async def _next(self) -> Written | None:
        """Give what comes next, one chunk at a time: who does not read holds on to no more."""
        if self._before is not None:
            if (written := await anext(self._before, None)) is not None:
                return written
            self._before = None
        channel = self._channel
        await channel.grown(self._number)
        if self._number == channel.end:
            why = channel.parting
            return None if why is None else Written(channel.encoder.parting(why), ends=True)
        if (chunk := channel.chunk(self._number)) is not None:
            self._number += 1
            return chunk
        if not channel.encoder.can_catch_up:
            return Written(channel.encoder.parting("behind"), ends=True)
        opening = channel.opening()
        self._number = opening.number
        return opening.written


async def _only(written: Written) -> AsyncGenerator[Written, None]:
    yield written


def cut(data: bytes) -> Iterator[bytes]:
    """Cut what is large; the rest is shared with all others, not copied."""
    if len(data) <= _PIECE:
        if data:
            yield data
        return
    for start in range(0, len(data), _PIECE):
        yield data[start : start + _PIECE]
