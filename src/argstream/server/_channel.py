"""One run in one format, for all who watch it: followed once, written once.

A channel follows the log of its run. It collects what happens for a moment, joins what grows the
same, has it written as one chunk, and keeps the last chunks. Who watches is a place among these.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from argstream.errors import ArgstreamError
from argstream.events import RunPaused, RunSnapshot
from argstream.log import Record, Store, joined
from argstream.protocols.encoding import Encoder, Parting, Written
from argstream.protocols.sse import comment
from argstream.snapshots import RunView

__all__ = ["Channel", "portions"]

_KEPT_CHUNKS: Final = 256
_KEPT_BYTES: Final = 512_000
_SECONDS_PER_VIEWER: Final = 0.00005
"""How much longer things are collected for each who watches, so that sending does not take all."""
_SLOWEST: Final = 0.2
_HEARTBEAT: Final = 15.0
"""After how many seconds of silence a comment is sent: proxies end what is idle."""

logger = logging.getLogger("argstream.server")


class _Chunk(NamedTuple):
    """What was written at once."""

    seq: int
    """Of the last record that it tells of."""
    written: Written


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
    """A run on its way to those who watch it."""

    def __init__(self, store: Store, run_id: str, encoder: Encoder) -> None:
        self.run_id = run_id
        self.encoder = encoder
        self.viewers = 0
        self.parting: Parting | None = None
        """Why nothing more comes, if that is not the end of the run."""
        self._store = store
        self._view = RunView()
        self._last: Record | None = None  # the last that was written
        self._opening: Written | None = None  # as of the last chunk, for all who come now
        self._chunks: deque[_Chunk] = deque()
        self._bytes = 0
        self._first = 0  # the number of the first chunk that is kept
        self._start = 0  # the seq before it
        self._arrived: list[Record] = []  # and not written
        self._arrival = asyncio.Event()
        self._news = asyncio.Event()
        self._is_read = False  # whether all has arrived that there will be
        self._task: asyncio.Task[None] | None = None

    # Following the log

    async def open(self) -> None:
        """Take where the run stands, and follow it from there; raises what the store raises."""
        snapshot = await self._store.snapshot(self.run_id)
        self.encoder.begin(snapshot)
        self._view.take(snapshot.event)
        self._last, self._start = snapshot, snapshot.seq
        event = snapshot.event
        self._is_read = isinstance(event, RunSnapshot) and event.end is not None
        if not self._is_read:
            self._task = asyncio.create_task(self._follow(snapshot.seq))

    def part(self, why: Parting) -> None:
        """Say nothing more, and tell who watches why."""
        self.parting = self.parting or why
        self._wake()

    async def close(self) -> None:
        """Follow it no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _follow(self, after: int) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._collect(after))
                tasks.create_task(self._write())
        except* ArgstreamError as errors:  # of the store; or the run was deleted
            logger.warning("the run %s cannot be followed: %s", self.run_id, errors.exceptions[0])
            self.part("failure")
        except* Exception:  # a fault of ours: those who watch must not wait for ever
            logger.exception("the run %s cannot be shown", self.run_id)
            self.part("failure")

    async def _collect(self, after: int) -> None:
        async for record in self._store.follow(self.run_id, after):
            self._arrived.append(record)
            self._arrival.set()
        self._is_read = True
        self._arrival.set()

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        due = 0.0
        while self._arrived or not self._is_read:
            try:
                async with asyncio.timeout(_HEARTBEAT):
                    await self._arrival.wait()
            except TimeoutError:
                self._keep(_Chunk(self.seq, Written(comment())))
                continue
            if (wait := due - loop.time()) > 0:
                await asyncio.sleep(wait)
            self._arrival.clear()
            records, self._arrived = self._arrived, []
            for portion in portions(records):
                self._tell(portion)
            crowd = min(self.viewers * _SECONDS_PER_VIEWER, _SLOWEST)
            due = loop.time() + max(self.encoder.interval, crowd)
        self._wake()

    def _tell(self, records: list[Record]) -> None:
        for record in records:
            self._view.take(record.event)
        self._last, self._opening = records[-1], None
        written = self.encoder.take(records)
        if written.data or written.ends:
            self._keep(_Chunk(records[-1].seq, written))
        else:
            self._wake()  # some may wait for this very record

    def _keep(self, chunk: _Chunk) -> None:
        self._chunks.append(chunk)
        self._bytes += len(chunk.written.data)
        while len(self._chunks) > _KEPT_CHUNKS or (
            self._bytes > _KEPT_BYTES and len(self._chunks) > 1
        ):
            gone = self._chunks.popleft()
            self._bytes -= len(gone.written.data)
            self._first, self._start = self._first + 1, gone.seq
        self._wake()

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

    def chunks(self, number: int) -> list[Written] | None:
        """Give the chunks from a number on; None if they are not kept any more."""
        if number < self._first:
            return None
        places = range(number - self._first, len(self._chunks))
        return [self._chunks[place].written for place in places]

    def opening(self) -> Written:
        """Give all of the run so far, written once for all who come before the next chunk."""
        if self._opening is None:
            if self._last is None:
                raise RuntimeError("a channel is opened before anybody watches it")
            last = self._last
            event = self._view.snapshot()
            snapshot = Record(last.seq, last.time, last.run_id, last.session_id, last.agent, event)
            self._opening = self.encoder.opening(snapshot)
        return self._opening

    async def grown(self, number: int) -> None:
        """Return when there is a chunk of this number, or nothing more comes."""
        while self.end <= number and not self.is_over:
            await self._news.wait()

    async def reached(self, seq: int) -> None:
        """Return when a record was written, or nothing more comes."""
        while self.seq < seq and not self.is_over:
            await self._news.wait()
