"""One run in one format, for all who watch it: followed once, written once.

A channel follows the log of its run. It collects what happens for a moment, joins what grows the
same, has it written as one chunk, and keeps the last chunks. Who watches is a place among these.

What is kept does not grow with the number of those who watch, nor with how slow they are. An
opening serves all who come until the chunks after it are not kept any more, and at least as much is
kept as an opening is long: so however many hold on to old ones, these are few.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Final, NamedTuple

from msgspec import Struct

from argstream.errors import ArgstreamError
from argstream.events import RunPaused
from argstream.log import Record, Store, joined
from argstream.protocols.encoding import Encoder, Parting, Written, snapshot_in
from argstream.protocols.sse import comment
from argstream.snapshots import RunView

__all__ = ["Channel", "Opening", "portions"]

_KEPT_CHUNKS: Final = 256
_KEPT_BYTES: Final = 512_000
_HEARTBEAT: Final = 15.0
"""After how many seconds of silence a comment is sent: proxies end what is idle."""

logger = logging.getLogger("argstream.server")


class Opening(NamedTuple):
    """All of a run up to a record, for one who knows nothing of it."""

    seq: int
    number: int
    """Of the chunk that goes on from there."""
    written: Written


class _Chunk(Struct, frozen=True, gc=False):
    """What was written at once. There are many, and the collector need not look at them."""

    seq: int
    """Of the last record that it tells of."""
    data: bytes
    ends: bool = False


def portions(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Part records after each pause, where a stream may end; neighbours that grow are joined."""
    portion: list[Record] = []
    for record in records:
        portion.append(record)
        if isinstance(record.event, RunPaused):
            yield joined(portion)
            portion = []
    if portion:
        yield joined(portion)


class Channel:
    """A run on its way to those who watch it.

    ``crowded`` says how long to collect at least, in seconds, as of now: longer where many watch.
    """

    def __init__(
        self, store: Store, run_id: str, encoder: Encoder, crowded: Callable[[], float]
    ) -> None:
        self.run_id = run_id
        self.encoder = encoder
        self.viewers = 0
        self.parting: Parting | None = None
        """Why nothing more comes, if that is not the end of the run."""
        self._store = store
        self._crowded = crowded
        self._view = RunView()
        self._last: Record | None = None  # the last that was written
        self._opening: Opening | None = None
        self._chunks: deque[_Chunk] = deque()
        self._bytes = 0
        self._room = _KEPT_BYTES
        self._first = 0  # the number of the first chunk that is kept
        self._start = 0  # the seq before it
        self._arrived: list[Record] = []  # and not written
        self._is_read = False  # whether all has arrived that there will be
        self._news = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._due = 0.0  # when the next chunk may be written
        self._writing: asyncio.TimerHandle | None = None
        self._kept_at = 0.0
        self._heart: asyncio.TimerHandle | None = None

    # Following the log

    async def open(self) -> None:
        """Take where the run stands, and follow it from there; raises what the store raises."""
        snapshot = await self._store.snapshot(self.run_id)
        self.encoder.begin(snapshot)
        self._view.take(snapshot.event)
        self._last, self._start = snapshot, snapshot.seq
        self._is_read = snapshot_in(snapshot).end is not None
        if not self._is_read:
            self._kept_at = asyncio.get_running_loop().time()
            self._following = asyncio.create_task(self._follow(snapshot.seq))
            self._beat()

    def part(self, why: Parting) -> None:
        """Say nothing more, and tell who watches why."""
        self.parting = self.parting or why
        self._wake()

    async def close(self) -> None:
        """Follow it no more."""
        for timer in (self._writing, self._heart):
            if timer is not None:
                timer.cancel()
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])

    async def _follow(self, after: int) -> None:
        try:
            async with aclosing(self._store.follow(self.run_id, after)) as records:
                async for record in records:
                    self._arrived.append(record)
                    self._write_soon()
        except ArgstreamError as error:  # of the store; or the run was deleted
            logger.warning("the run %s cannot be followed: %s", self.run_id, error)
            self.part("failure")
        except Exception:  # a fault of ours: those who watch must not wait for ever
            logger.exception("the run %s cannot be followed", self.run_id)
            self.part("failure")
        else:
            self._is_read = True
            self._write_soon()

    def _write_soon(self) -> None:
        """Have written what has arrived, and what arrives until it is time for that."""
        if self._writing is None:
            loop = asyncio.get_running_loop()
            self._writing = loop.call_at(max(self._due, loop.time()), self._write)

    def _write(self) -> None:
        self._writing = None
        records, self._arrived = self._arrived, []
        if self.parting is None:
            try:
                for portion in portions(records):
                    self._tell(portion)
            except Exception:  # as above; the encoder is not where it should be any more
                logger.exception("the run %s cannot be shown", self.run_id)
                self.part("failure")
        pause = max(self.encoder.interval, self._crowded())
        self._due = asyncio.get_running_loop().time() + pause
        self._wake()  # some may wait for a record of which there is nothing to tell, or for the end

    def _tell(self, records: list[Record]) -> None:
        for record in records:
            self._view.take(record.event)
        written = self.encoder.take(records)
        self._last = records[-1]
        if written.data or written.ends:
            self._keep(_Chunk(records[-1].seq, written.data, written.ends))

    def _keep(self, chunk: _Chunk) -> None:
        self._kept_at = asyncio.get_running_loop().time()
        if chunk.ends:
            self._opening = None  # who comes after that must not be sent away by it
        self._chunks.append(chunk)
        self._bytes += len(chunk.data)
        while len(self._chunks) > _KEPT_CHUNKS or (
            self._bytes > self._room and len(self._chunks) > 1
        ):
            gone = self._chunks.popleft()
            self._bytes -= len(gone.data)
            self._first, self._start = self._first + 1, gone.seq

    def _beat(self) -> None:
        """Send a comment if nothing was sent for long."""
        if self.is_over:
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= self._kept_at + _HEARTBEAT:
            self._keep(_Chunk(self.seq, comment()))
            self._wake()
        self._heart = loop.call_at(self._kept_at + _HEARTBEAT, self._beat)

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    # Watching it

    @property
    def end(self) -> int:
        """The number that the next chunk will have."""
        return self._first + len(self._chunks)

    @property
    def seq(self) -> int:
        """The last record that was written."""
        return 0 if self._last is None else self._last.seq

    @property
    def is_over(self) -> bool:
        """Whether all was written that there will be."""
        return (self._is_read and not self._arrived) or self.parting is not None

    def place_after(self, seq: int) -> int | None:
        """Give the number of the chunk that comes after a record; None if that is in the midst."""
        if seq == self.seq:
            return self.end
        if seq == self._start:
            return self._first
        places = (number for number, chunk in enumerate(self._chunks, 1) if chunk.seq == seq)
        place = next(places, None)
        return None if place is None else self._first + place

    def chunk(self, number: int) -> Written | None:
        """Give a chunk that was written; None if it is not kept any more."""
        place = number - self._first
        if place < 0:
            return None
        chunk = self._chunks[place]
        return Written(chunk.data, chunk.ends)

    def opening(self, after: int = 0) -> Opening:
        """Give all of the run up to a record, which is this one or a later one.

        It is written once for all who come while the chunks after it are kept.
        """
        opening = self._opening
        if (
            opening is None
            or opening.number < self._first
            or opening.seq < after
            or (opening.written.ends and opening.seq < self.seq)  # it has gone on since it paused
        ):
            opening = self._opening = Opening(self.seq, self.end, self._written_anew())
            self._room = max(_KEPT_BYTES, len(opening.written.data))
        return opening

    def _written_anew(self) -> Written:
        if self._last is None:
            raise RuntimeError("a channel is opened before anybody watches it")
        last, event = self._last, self._view.snapshot()
        return self.encoder.opening(
            Record(last.seq, last.time, last.run_id, last.session_id, last.agent, event)
        )

    async def grown(self, number: int) -> None:
        """Return when there is a chunk of this number, or nothing more comes."""
        while self.end <= number and not self.is_over:
            await self._news.wait()

    async def reached(self, seq: int) -> None:
        """Return when a record was written, or nothing more comes."""
        while self.seq < seq and not self.is_over:
            await self._news.wait()
