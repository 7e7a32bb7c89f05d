"""Sends runs to viewers. A viewer is an index into the chunks that a broadcast keeps.

A broadcast follows one run in the store for one format. It collects records for a moment, and its
encoder writes them as one chunk, which is sent to all viewers. A viewer that has fallen behind the
kept chunks is sent a replay, written once for all viewers that need one. If the format does not
allow a replay in the middle of a stream, the viewer is asked to reconnect. So a client that does
not read only costs its connection's buffer.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Final, NamedTuple

from msgspec import Struct
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from argstream._asyncio import Notifier
from argstream.errors import ArgstreamError, RunNotFoundError
from argstream.events import RunPaused
from argstream.protocols._base import CloseReason, Encoder, Written, comment
from argstream.protocols.native import NativeEncoder
from argstream.runs._records import Record, joined
from argstream.runs._store import Store
from argstream.sanitise import visible_line

_KEPT_CHUNKS: Final = 256
_KEPT_BYTES: Final = 512_000
_HEARTBEAT: Final = 15.0
"""Seconds of silence before a comment is sent: proxies close idle connections."""

_PIECE: Final = 16_000
"""Bytes sent at once. For a client that does not read, only these are held, and the buffer of its
connection."""
_MAX_EXACT: Final = 1_000
"""How many missed records a reconnecting viewer is sent one by one, without a replay."""
_PAGE: Final = 100
_PATIENCE: Final = 5.0  # seconds to wait for a record that another process has sent already
_SECONDS_PER_VIEWER: Final = 0.00005
"""How much longer records are collected for each viewer, to bound the time that sending takes."""
_MAX_EXTRA_INTERVAL: Final = 0.2
_HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
STREAMS: Final = "argstream.streams"
"""The key in a scope of the list of streams to run after the router has returned."""
_STALL_CHECKS: Final = 4  # how often to check, within stalled_seconds, whether the client reads

logger = logging.getLogger("argstream.server")


class Replay(NamedTuple):
    """All of a run up to a record, for a new viewer."""

    seq: int
    number: int  # of the chunk that follows it
    written: Written


class _Chunk(Struct, frozen=True, gc=False):
    """Bytes written at once. There are many, so the garbage collector skips them."""

    seq: int  # of its last record
    data: bytes
    ends: bool = False


def portions(records: list[Record]) -> list[list[Record]]:
    """Split records after each pause, where a stream may end. Neighbouring deltas are joined."""
    if len(records) == 1:
        return [records]
    found: list[list[Record]] = []
    portion: list[Record] = []
    for record in records:
        portion.append(record)
        if isinstance(record.event, RunPaused):
            found.append(joined(portion))
            portion = []
    return [*found, joined(portion)] if portion else found


class RunBroadcast:
    """Sends one run in one format to its viewers.

    ``extra_interval`` returns for how many seconds to collect records at least: longer with many
    viewers.
    """

    def __init__(
        self, store: Store, run_id: str, encoder: Encoder, extra_interval: Callable[[], float]
    ) -> None:
        self.run_id = run_id
        self.encoder = encoder
        self.viewers = 0
        self.close_reason: CloseReason | None = None
        """Why the stream ends before the run does, if so."""
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._extra_interval = extra_interval
        self._replay: Replay | None = None
        self._chunks: deque[_Chunk] = deque()
        self._bytes = 0
        self._room = _KEPT_BYTES
        self._first = 0  # the number of the first chunk that is kept
        self.end = 0  # the number of the next chunk
        self._start = 0  # the seq before it
        self._unwritten: list[Record] = []  # records that arrived
        self._has_all = False  # all records of the run have arrived
        self.written = Notifier()  # of each write, and of the end
        self._following: asyncio.Task[None] | None = None
        self._due = 0.0  # when the next chunk may be written
        self._writing: asyncio.TimerHandle | None = None
        self._kept_at = 0.0
        self._heartbeat_timer: asyncio.TimerHandle | None = None
        self.opened = asyncio.create_task(self._open())
        """Raises what the store raises."""

    async def _open(self) -> None:
        """Read the snapshot and follow the run from there."""
        snapshot = await self._store.snapshot(self.run_id)
        self.encoder.begin(snapshot)
        self._start = snapshot.seq
        self._has_all = snapshot.end is not None
        if not self._has_all:
            self._kept_at = self._loop.time()
            self._following = asyncio.create_task(self._follow(snapshot.seq))
            self._send_heartbeat()

    def disconnect(self, why: CloseReason) -> None:
        self.close_reason = self.close_reason or why
        self.written.notify()

    @property
    def has_failed(self) -> bool:
        """Whether it could not be opened."""
        opened = self.opened
        return opened.done() and (opened.cancelled() or opened.exception() is not None)

    async def close(self) -> None:
        self.opened.cancel()  # does nothing if it is done
        await asyncio.wait([self.opened])
        _ = self.has_failed  # marks the exception as retrieved
        for timer in (self._writing, self._heartbeat_timer):
            if timer is not None:
                timer.cancel()
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])

    async def _follow(self, after: int) -> None:
        try:
            following = self._store.follow_pages(self.run_id, after, self._receive)
            async with aclosing(following) as pages:
                async for page in pages:
                    self._receive(page)
        except ArgstreamError as error:  # of the store; or the run was deleted
            why = visible_line(str(error))
            logger.warning("the run %s cannot be followed: %s", self.run_id, why)
            self.disconnect("failure")
        except Exception:  # a bug: viewers must not wait forever
            logger.exception("the run %s cannot be followed", self.run_id)
            self.disconnect("failure")
        else:
            self._has_all = True
            self._write_when_due()

    def _receive(self, records: Sequence[Record]) -> None:
        self._unwritten += records
        self._write_when_due()

    def _write_when_due(self) -> None:
        """Write now or when it is due. Records that arrive until then are written together."""
        if self._writing is None:
            if self._due <= self._loop.time():
                self._write()
            else:
                self._writing = self._loop.call_at(self._due, self._write)

    def _write(self) -> None:
        self._writing = None
        records, self._unwritten = self._unwritten, []
        now = self._loop.time()
        if self.close_reason is None:
            try:
                for portion in portions(records):
                    written = self.encoder.encode(portion)
                    if written.data or written.ends:
                        self._keep(_Chunk(portion[-1].seq, written.data, written.ends), now)
            except Exception:  # as above; the state of the encoder is no longer valid
                logger.exception("the run %s cannot be shown", self.run_id)
                self.disconnect("failure")
        self._due = now + max(self.encoder.interval, self._extra_interval())
        self.written.notify()  # viewers may wait for a record without output, or for the end

    def _keep(self, chunk: _Chunk, now: float) -> None:
        self._kept_at = now
        if chunk.ends:
            self._replay = None  # it would end the streams of later viewers
        self._chunks.append(chunk)
        self.end += 1
        self._bytes += len(chunk.data)
        while len(self._chunks) > _KEPT_CHUNKS or (
            self._bytes > self._room and len(self._chunks) > 1
        ):
            gone = self._chunks.popleft()
            self._bytes -= len(gone.data)
            self._first, self._start = self._first + 1, gone.seq

    def _send_heartbeat(self) -> None:
        if self.is_over:
            return
        now = self._loop.time()
        if now >= self._kept_at + _HEARTBEAT:
            self._keep(_Chunk(self.seq, comment()), now)
            self.written.notify()
        due = self._kept_at + _HEARTBEAT
        self._heartbeat_timer = self._loop.call_at(due, self._send_heartbeat)

    @property
    def seq(self) -> int:
        """The last record that was written."""
        return self.encoder.state.seq

    @property
    def is_over(self) -> bool:
        return (self._has_all and not self._unwritten) or self.close_reason is not None

    def place_after(self, seq: int) -> int | None:
        """Return the number of the chunk after a record; None if the record is inside a chunk."""
        if seq == self.seq:
            return self.end
        if seq == self._start:
            return self._first
        places = (number for number, chunk in enumerate(self._chunks, 1) if chunk.seq == seq)
        place = next(places, None)
        return None if place is None else self._first + place

    def chunk(self, number: int) -> _Chunk | None:
        """Return a chunk; None if it was dropped."""
        return None if number < self._first else self._chunks[number - self._first]

    def replay(self, after: int = 0) -> Replay:
        """Return all of the run, at least up to ``after``.

        It is written once for all viewers that connect while the chunks after it are kept.
        """
        replay = self._replay
        if (
            replay is None
            or replay.number < self._first
            or replay.seq < after
            or (replay.written.ends and replay.seq < self.seq)  # the run was resumed since
        ):
            replay = self._replay = Replay(self.seq, self.end, self.encoder.replay())
            self._room = max(_KEPT_BYTES, len(replay.written.data))
        return replay


class Broadcasts:
    """The broadcasts of all runs that have viewers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._broadcasts: dict[Hashable, RunBroadcast] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._viewers = 0
        self._is_draining = False

    async def watch(
        self, run_id: str, key: Hashable, make: Callable[[], Encoder], *, after: int | None = None
    ) -> "Viewer":
        """Add a viewer of a run. ``make`` creates the encoder of its format.

        Viewers with the same run and key share an encoder. A viewer is sent the run so far and then
        what follows; with ``after``, only what follows that record.
        """
        name = (run_id, key)
        broadcast = self._broadcast(name, run_id, make)
        broadcast.viewers += 1
        self._viewers += 1
        try:
            # A viewer that leaves must not close the broadcast for the others.
            await asyncio.shield(broadcast.opened)
            number, before = await self._position(broadcast, make, after)
        except BaseException:
            self._leave(name, broadcast)
            raise
        return Viewer(broadcast, number, before, lambda: self._leave(name, broadcast))

    def _broadcast(self, name: Hashable, run_id: str, make: Callable[[], Encoder]) -> RunBroadcast:
        broadcast = self._broadcasts.get(name)
        if broadcast is None or broadcast.close_reason is not None or broadcast.has_failed:
            broadcast = RunBroadcast(self._store, run_id, make(), self._extra_interval)
            self._broadcasts[name] = broadcast
            if self._is_draining:
                broadcast.disconnect("shutdown")
        return broadcast

    def _extra_interval(self) -> float:
        return min(self._viewers * _SECONDS_PER_VIEWER, _MAX_EXTRA_INTERVAL)

    async def _position(
        self, broadcast: RunBroadcast, make: Callable[[], Encoder], after: int | None
    ) -> "tuple[int, AsyncGenerator[Written, None] | None]":
        """Return the number of the first chunk for a viewer, and what to send before it."""
        if after is not None and after > broadcast.seq:
            await self._wait_for(broadcast, after)
        if after is None or after > broadcast.seq:  # there is no such record
            replay = broadcast.replay()
        elif (number := broadcast.place_after(after)) is not None:
            return number, None
        elif broadcast.encoder.can_catch_up and broadcast.seq - after > _MAX_EXACT:
            replay = broadcast.replay(after)
        else:
            return broadcast.end, self._missed(broadcast.run_id, make(), after, broadcast.seq)
        return replay.number, _only(replay.written)

    async def _wait_for(self, broadcast: RunBroadcast, after: int) -> None:
        """Wait for a record that another process has sent, but that has not arrived here."""
        if after <= (await self._store.info(broadcast.run_id)).seq:
            # If it does not arrive, the viewer is sent a replay.
            await broadcast.written.until(
                lambda: broadcast.seq >= after or broadcast.is_over, _PATIENCE
            )

    async def _missed(
        self, run_id: str, encoder: Encoder, after: int, until: int
    ) -> AsyncGenerator[Written, None]:
        """Yield the output between two records."""
        async with aclosing(_pages(self._store, run_id, until)) as pages:
            async for records in pages:
                for portion in portions([one for one in records if one.seq <= after]):
                    encoder.encode(portion)
                for portion in portions([one for one in records if one.seq > after]):
                    yield encoder.encode(portion)

    def _leave(self, name: Hashable, broadcast: RunBroadcast) -> None:
        """Remove a viewer. The last one closes the broadcast."""
        broadcast.viewers -= 1
        self._viewers -= 1
        if broadcast.viewers:
            return
        if self._broadcasts.get(name) is broadcast:
            del self._broadcasts[name]
        closing = asyncio.ensure_future(broadcast.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def open(self) -> None:
        self._is_draining = False

    def drain(self) -> None:
        """Ask all viewers to reconnect, because the server shuts down."""
        self._is_draining = True
        for broadcast in self._broadcasts.values():
            broadcast.disconnect("shutdown")

    async def aclose(self) -> None:
        self.drain()
        broadcasts = [*self._broadcasts.values()]
        self._broadcasts.clear()
        for broadcast in broadcasts:
            await broadcast.close()
        if self._closing:
            await asyncio.wait(self._closing)


class Viewer:
    """An index into the chunks of a broadcast, and what to send before them."""

    def __init__(
        self,
        broadcast: RunBroadcast,
        number: int,
        before: AsyncGenerator[Written, None] | None,
        close: Callable[[], None],
    ) -> None:
        self._broadcast = broadcast
        self._number = number  # of the next chunk
        self._before = before
        self.close = close

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield what to send, until the run ends, or pauses and the format ends there."""
        try:
            while (written := await self._next()) is not None:
                data = written.data
                for piece in (data,) if 0 < len(data) < _PIECE else cut(data):
                    yield piece
                    if len(piece) == _PIECE:  # of long data: let other tasks run,
                        await asyncio.sleep(0)  # and notice that the client has disconnected
                if written.ends:
                    return
        finally:
            if self._before is not None:
                await self._before.aclose()

    async def _next(self) -> Written | _Chunk | None:
        """Return the next chunk. A slow viewer keeps at most one in memory."""
        if self._before is not None:
            if (written := await anext(self._before, None)) is not None:
                return written
            self._before = None
        broadcast = self._broadcast
        while broadcast.end <= self._number and not broadcast.is_over:
            await broadcast.written.wait()
        if self._number == broadcast.end:
            why = broadcast.close_reason
            return None if why is None else Written(broadcast.encoder.close_reason(why), ends=True)
        if (chunk := broadcast.chunk(self._number)) is not None:
            self._number += 1
            return chunk
        if not broadcast.encoder.can_catch_up:
            return Written(broadcast.encoder.close_reason("behind"), ends=True)
        replay = broadcast.replay()
        self._number = replay.number
        return replay.written


async def _only(written: Written) -> AsyncGenerator[Written, None]:
    yield written


def cut(data: bytes) -> Iterator[bytes]:
    """Cut large data into pieces. Small data is shared by all viewers, not copied."""
    return (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))


class EventStream(Response):
    """Sends pieces until they end or the client disconnects."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        headers: Mapping[str, str],
        close: Callable[[], None],
        stalled_seconds: float,
    ) -> None:
        """Send the pieces. ``close`` is called at the end, also if they are not sent.

        If the client reads nothing for ``stalled_seconds``, its connection is closed.
        """
        self.status_code = 200
        self.background = None
        self._pieces = pieces
        self.close = close
        self._stalled_seconds = stalled_seconds
        self._is_sending = False
        self._sent = 0  # pieces
        self._check_timer: asyncio.TimerHandle | None = None
        self._head = {**_HEADERS, **headers}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The stack frames of the router would take half of the memory of a viewer. So the stream is
        # run by the middleware around the router, after the router has returned.
        streams: list[ASGIApp] | None = scope.get(STREAMS)
        if streams is None:
            await self._stream(scope, receive, send)
        else:
            streams.append(self._stream)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until all is sent, the client disconnects, or has not read for too long."""
        leaving = asyncio.ensure_future(_disconnected(receive))
        sending = asyncio.timeout(None)
        try:
            async with sending:
                leaving.add_done_callback(partial(_cut_off, sending))
                self._check_reading(scope, sending)
                await self._send(send, is_head=scope["method"] == "HEAD")
        except TimeoutError:
            if not sending.expired():
                raise
        finally:
            if self._check_timer is not None:
                self._check_timer.cancel()
            leaving.cancel()
            self.close()
            await asyncio.wait([leaving])

    def _check_reading(
        self, scope: Scope, sending: asyncio.Timeout, stalled: int = 0, sent: int = -1
    ) -> None:
        """Check from time to time whether the client reads. ``stalled`` is how often it did not."""
        stalled = stalled + 1 if self._is_sending and self._sent == sent else 0
        if stalled >= _STALL_CHECKS:
            # Close the connection, or sending would wait for the client.
            scope.get("extensions", {}).get("argstream.abort", lambda: None)()
            _cut_off(sending)
        else:
            loop, seconds = asyncio.get_running_loop(), self._stalled_seconds / _STALL_CHECKS
            self._check_timer = loop.call_later(
                seconds, self._check_reading, scope, sending, stalled, self._sent
            )

    async def _send(self, send: Send, *, is_head: bool) -> None:
        self._is_sending = True
        try:
            head = ((name.encode(), text.encode("latin-1")) for name, text in self._head.items())
            await send({"type": "http.response.start", "status": 200, "headers": [*head]})
            if not is_head:
                async with aclosing(self._pieces) as pieces:
                    self._is_sending = False
                    async for piece in pieces:
                        self._is_sending = True
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                        self._is_sending = False
                        self._sent += 1
            self._is_sending = True
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:  # some ASGI servers raise it when the client has disconnected
            return


def _cut_off(sending: asyncio.Timeout, _: object = None) -> None:
    with suppress(RuntimeError):  # it has ended
        sending.reschedule(0.0)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def log_pieces(
    store: Store, run_id: str, encoder: NativeEncoder, *, after: int, until: int
) -> AsyncGenerator[bytes, None]:
    """Yield the log of a run. The records before ``after`` are read too: the encoder needs them."""
    async with aclosing(_pages(store, run_id, until)) as pages:
        async for records in pages:
            lines = [(record.seq, encoder.line(record)) for record in records]
            for piece in cut(b"".join(line for seq, line in lines if seq > after)):
                yield piece
                await asyncio.sleep(0)  # notice that the client has disconnected


async def _pages(store: Store, run_id: str, until: int) -> AsyncGenerator[list[Record], None]:
    """Yield the records of a run up to one. For a client that does not read, a page is held."""
    seq = 0
    while seq < until:
        try:
            records = await store.read(run_id, seq, min(_PAGE, until - seq))
        except RunNotFoundError:
            return
        if not records:  # the run was deleted
            return
        seq = records[-1].seq
        yield records
        await asyncio.sleep(0)  # a long log must not block the event loop
