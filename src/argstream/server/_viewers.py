"""Sends runs to viewers. A viewer is an index into the chunks that a channel keeps.

A channel follows the store once for each run and format, in this process or another. It collects
records for a moment, and its encoder writes them as one chunk: all viewers are sent the same bytes
object. A viewer that has fallen behind the chunks that are kept is sent an replay, written once
for all viewers that need one. Where the format does not allow that in the middle of a stream, the
viewer is told to reconnect. So a client that does not read costs what its connection buffers.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Final, NamedTuple, Protocol

from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from argstream.errors import ArgstreamError, RunNotFoundError
from argstream.events import RunPaused
from argstream.protocols._base import CloseReason, Encoder, Written, comment
from argstream.protocols.native import NativeEncoder
from argstream.runs._records import Record, joined
from argstream.runs._store import Store

_KEPT_CHUNKS: Final = 256
_KEPT_BYTES: Final = 512_000
_HEARTBEAT: Final = 15.0
"""Seconds of silence before a comment is sent: proxies close idle connections."""

_PIECE: Final = 16_000
"""Bytes sent at once. No more than this waits for a client that does not read, besides what the
server buffers for each connection."""
_EXACT: Final = 1_000
"""How many missed records a reconnecting viewer is sent one by one, without an replay."""
_PAGE: Final = 100
_PATIENCE: Final = 5.0
"""Seconds to wait for a record that another process has sent already."""
_SECONDS_PER_VIEWER: Final = 0.00005
"""How much longer to collect for each viewer, so that sending does not take all the time."""
_LONGEST: Final = 0.2
_HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
_LOOKS: Final = 4
"""How often to check, within ``stalled_seconds``, whether the client reads."""

logger = logging.getLogger("argstream.server")


class Replay(NamedTuple):
    """All of a run up to a record, for a new viewer."""

    seq: int
    number: int
    """Of the chunk that goes on from there."""
    written: Written


class _Chunk(Struct, frozen=True, gc=False):
    """Bytes written at once. There are many, so the garbage collector skips them."""

    seq: int
    """Of the last record that it tells of."""
    data: bytes
    ends: bool = False


def portions(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Split records after each pause, where a stream may end. Neighbouring deltas are joined."""
    portion: list[Record] = []
    for record in records:
        portion.append(record)
        if isinstance(record.event, RunPaused):
            yield joined(portion)
            portion = []
    if portion:
        yield joined(portion)


class RunBroadcast:
    """A run on its way to those who watch it.

    ``crowded`` says how long to collect at least, in seconds, as of now: longer where many watch.
    """

    def __init__(
        self, store: Store, run_id: str, encoder: Encoder, crowded: Callable[[], float]
    ) -> None:
        self.run_id = run_id
        self.encoder = encoder
        self.viewers = 0
        self.close_reason: CloseReason | None = None
        """Why nothing more comes, if that is not the end of the run."""
        self._store = store
        self._crowded = crowded
        self._replay: Replay | None = None
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

    async def open(self) -> None:
        """Read the snapshot and follow the run from there. Raise what the store raises."""
        snapshot = await self._store.snapshot(self.run_id)
        self.encoder.begin(snapshot)
        self._start = snapshot.seq
        self._is_read = snapshot.end is not None
        if not self._is_read:
            self._kept_at = asyncio.get_running_loop().time()
            self._following = asyncio.create_task(self._follow(snapshot.seq))
            self._beat()

    def part(self, why: CloseReason) -> None:
        self.close_reason = self.close_reason or why
        self._wake()

    async def close(self) -> None:
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
        """Schedule the next write. Records that arrive before it are written together."""
        if self._writing is None:
            loop = asyncio.get_running_loop()
            self._writing = loop.call_at(max(self._due, loop.time()), self._write)

    def _write(self) -> None:
        self._writing = None
        records, self._arrived = self._arrived, []
        if self.close_reason is None:
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
        written = self.encoder.encode(records)
        if written.data or written.ends:
            self._keep(_Chunk(records[-1].seq, written.data, written.ends))

    def _keep(self, chunk: _Chunk) -> None:
        self._kept_at = asyncio.get_running_loop().time()
        if chunk.ends:
            self._replay = None  # later viewers must not be disconnected by it
        self._chunks.append(chunk)
        self._bytes += len(chunk.data)
        while len(self._chunks) > _KEPT_CHUNKS or (
            self._bytes > self._room and len(self._chunks) > 1
        ):
            gone = self._chunks.popleft()
            self._bytes -= len(gone.data)
            self._first, self._start = self._first + 1, gone.seq

    def _beat(self) -> None:
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

    @property
    def end(self) -> int:
        """The number of the next chunk."""
        return self._first + len(self._chunks)

    @property
    def seq(self) -> int:
        """The last record that was written."""
        return self.encoder.state.seq

    @property
    def is_over(self) -> bool:
        return (self._is_read and not self._arrived) or self.close_reason is not None

    def place_after(self, seq: int) -> int | None:
        """Return the number of the chunk after a record; None if the record is inside a chunk."""
        if seq == self.seq:
            return self.end
        if seq == self._start:
            return self._first
        places = (number for number, chunk in enumerate(self._chunks, 1) if chunk.seq == seq)
        place = next(places, None)
        return None if place is None else self._first + place

    def chunk(self, number: int) -> Written | None:
        """Return a chunk; None if it is not kept any more."""
        place = number - self._first
        if place < 0:
            return None
        chunk = self._chunks[place]
        return Written(chunk.data, chunk.ends)

    def replay(self, after: int = 0) -> Replay:
        """Return all of the run, at least up to ``after``.

        It is written once for all viewers that come while the chunks after it are kept.
        """
        replay = self._replay
        if (
            replay is None
            or replay.number < self._first
            or replay.seq < after
            or (replay.written.ends and replay.seq < self.seq)  # it has gone on since it paused
        ):
            replay = self._replay = Replay(self.seq, self.end, self.encoder.replay())
            self._room = max(_KEPT_BYTES, len(replay.written.data))
        return replay

    async def grown(self, number: int) -> None:
        """Wait for a chunk, or for the end."""
        while self.end <= number and not self.is_over:
            await self._news.wait()

    async def reached(self, seq: int) -> None:
        """Wait until a record is written, or for the end."""
        while self.seq < seq and not self.is_over:
            await self._news.wait()


class _Entry(NamedTuple):
    channel: RunBroadcast
    opened: "asyncio.Task[None]"


class Broadcasts:
    """The channels of the runs that are being watched."""

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
            # A viewer that leaves must not close the broadcast for the others.
            await asyncio.shield(entry.opened)
            await self._place(viewer, entry.channel, make, after)
        except BaseException:
            viewer.close()
            raise
        return viewer

    def _entry(self, name: Hashable, run_id: str, make: Callable[[], Encoder]) -> _Entry:
        entry = self._entries.get(name)
        if entry is None or entry.channel.close_reason is not None or _has_failed(entry.opened):
            channel = RunBroadcast(self._store, run_id, make(), self._crowded)
            if self._is_draining:
                channel.part("shutdown")
            entry = self._entries[name] = _Entry(channel, asyncio.create_task(channel.open()))
        return entry

    def _crowded(self) -> float:
        return min(self._viewers * _SECONDS_PER_VIEWER, _LONGEST)

    async def _place(
        self,
        viewer: "Viewer",
        channel: RunBroadcast,
        make: Callable[[], Encoder],
        after: int | None,
    ) -> None:
        if after is None:
            viewer.begin_with_replay(0)
            return
        if after > channel.seq:
            await self._wait_for(channel, after)
        number = channel.place_after(after)
        if number is not None:
            viewer.begin(number)
        elif after > channel.seq:
            viewer.begin_with_replay(0)  # there is no such record: he has seen something else
        elif channel.encoder.can_catch_up and channel.seq - after > _EXACT:
            viewer.begin_with_replay(after)
        else:
            missed = self._missed(channel.run_id, make(), after, channel.seq)
            viewer.begin(channel.end, missed)

    async def _wait_for(self, channel: RunBroadcast, after: int) -> None:
        """Wait for a record that another process has sent and that may not have arrived here."""
        if after <= (await self._store.info(channel.run_id)).seq:
            try:
                async with asyncio.timeout(_PATIENCE):
                    await channel.reached(after)
            except TimeoutError:
                return  # he is given all of it

    async def _missed(
        self, run_id: str, encoder: Encoder, after: int, until: int
    ) -> AsyncGenerator[Written, None]:
        """Yield what was sent between two records. Only one page of it is held at a time."""
        seq = 0
        while seq < until:
            limit = min(_PAGE, (after if seq < after else until) - seq)
            records = await self._store.read(run_id, seq, limit)
            if not records:
                return  # the run was deleted, and its viewers are told
            is_known = seq < after
            seq = records[-1].seq
            for portion in portions(records):
                written = encoder.encode(portion)
                if not is_known:
                    yield written
            await asyncio.sleep(0)  # a long log must not hold up the others

    def _leave(self, name: Hashable, entry: _Entry) -> None:
        """Remove a viewer. The channel is closed with the last one."""
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
        self._is_draining = False

    def drain(self) -> None:
        """Ask all viewers to reconnect, because the server shuts down."""
        self._is_draining = True
        for entry in self._entries.values():
            entry.channel.part("shutdown")

    async def aclose(self) -> None:
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
    _has_failed(entry.opened)  # mark the exception as retrieved
    await entry.channel.close()


class Viewer:
    """An index into the chunks of a channel, and what to send before them."""

    def __init__(self, channel: RunBroadcast, left: Callable[[], None]) -> None:
        self._channel = channel
        self._left = left
        self._number = 0  # of the next chunk
        self._before: AsyncGenerator[Written, None] | None = None
        self._is_closed = False

    def begin(self, number: int, before: AsyncGenerator[Written, None] | None = None) -> None:
        self._number, self._before = number, before

    def begin_with_replay(self, after: int) -> None:
        replay = self._channel.replay(after)
        self.begin(replay.number, _only(replay.written))

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._left()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield what to send, until the run is over, or rests and the format ends there."""
        try:
            while (written := await self._next()) is not None:
                for piece in cut(written.data):
                    yield piece
                    if len(piece) == _PIECE:  # of a long one, which must not hold up the others,
                        await asyncio.sleep(0)  # nor be sent on after the client has left
                if written.ends:
                    return
        finally:
            if self._before is not None:
                await self._before.aclose()

    async def _next(self) -> Written | None:
        """Return the next chunk. A slow viewer holds on to no more than one."""
        if self._before is not None:
            if (written := await anext(self._before, None)) is not None:
                return written
            self._before = None
        channel = self._channel
        await channel.grown(self._number)
        if self._number == channel.end:
            why = channel.close_reason
            return None if why is None else Written(channel.encoder.close_reason(why), ends=True)
        if (chunk := channel.chunk(self._number)) is not None:
            self._number += 1
            return chunk
        if not channel.encoder.can_catch_up:
            return Written(channel.encoder.close_reason("behind"), ends=True)
        replay = channel.replay()
        self._number = replay.number
        return replay.written


async def _only(written: Written) -> AsyncGenerator[Written, None]:
    yield written


def cut(data: bytes) -> Iterator[bytes]:
    """Cut large data into pieces. Small data is shared by all viewers, not copied."""
    if len(data) <= _PIECE:
        if data:
            yield data
        return
    for start in range(0, len(data), _PIECE):
        yield data[start : start + _PIECE]


class Source(Protocol):
    def pieces(self) -> AsyncGenerator[bytes, None]: ...

    def close(self) -> None: ...


class EventStream(Response):
    """Sends a source until it ends or the client goes away."""

    def __init__(
        self,
        viewer: Source,
        headers: Mapping[str, str],
        closed: Callable[[], None],
        stalled_seconds: float,
    ) -> None:
        """Send what the viewer watches; ``closed`` is called when that is over.

        Whose connection takes nothing for ``stalled_seconds`` is not waited for any longer.
        """
        self.status_code = 200
        self.background = None
        self._viewer = viewer
        self._closed = closed
        self._stalled_seconds = stalled_seconds
        self._since: float | None = None  # when that was handed over which is not taken yet
        self.init_headers({**_HEADERS, **headers})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] == "HEAD":
                await self._send_head(send)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await self._watch(scope, receive, send)
        finally:
            self.close()

    def close(self) -> None:
        """Release the viewer of a stream that is not sent."""
        self._viewer.close()
        self._closed()

    async def _watch(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_gone(receive))
        tasks = {sending, leaving}
        look = self._stalled_seconds / _LOOKS
        try:
            while not (sending.done() or leaving.done() or self._is_stalled()):
                await asyncio.wait(tasks, timeout=look, return_when=asyncio.FIRST_COMPLETED)
            if self._is_stalled():
                _abort(scope)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if not sending.cancelled():
            sending.result()

    def _is_stalled(self) -> bool:
        now = asyncio.get_running_loop().time()
        return self._since is not None and now - self._since > self._stalled_seconds

    async def _send(self, send: Send) -> None:
        now = asyncio.get_running_loop().time
        try:
            self._since = now()
            await self._send_head(send)
            self._since = None
            async with aclosing(self._viewer.pieces()) as pieces:
                async for piece in pieces:
                    self._since = now()
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    self._since = None
            self._since = now()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:  # how some servers say that the client has left
            return

    async def _send_head(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _abort(scope: Scope) -> None:
    """Close the connection of a client that does not read; sending would wait for it."""
    abort = scope.get("extensions", {}).get("argstream.abort")
    if abort is not None:
        abort()


class LogReading:
    """The log of a run as a source. Only one page is held for a client that does not read."""

    def __init__(
        self, store: Store, run_id: str, encoder: NativeEncoder, *, after: int, until: int
    ) -> None:
        """Read the records before ``after`` too: the encoder needs them."""
        self._store = store
        self._run_id = run_id
        self._encoder = encoder
        self._after = after
        self._until = until

    def close(self) -> None: ...

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        seq = 0
        while seq < self._until and (records := await self._page(seq)):
            seq = records[-1].seq
            lines = [(record.seq, self._encoder.line(record)) for record in records]
            for piece in cut(b"".join(line for place, line in lines if place > self._after)):
                yield piece
                await asyncio.sleep(0)  # or it is sent on after the client has left
            await asyncio.sleep(0)  # a long log must not hold up the others

    async def _page(self, seq: int) -> list[Record]:
        try:
            return await self._store.read(self._run_id, seq, min(_PAGE, self._until - seq))
        except RunNotFoundError:  # it was deleted meanwhile: there is no more of it
            return []
