"""Reading and replaying recordings."""

import math
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from argstream.errors import UsageError
from argstream.recording._format import (
    DATA_AFTER_END,
    NOT_ENDED,
    Chunk,
    End,
    Ending,
    Header,
    chunk_line,
    end_line,
    header_line,
    is_recording,
    read_header,
    read_line,
)
from argstream.wire._decoders import BYTE_ORDER_MARK, is_json

# An event with its final blank line, or the rest of the data.
_EVENT: Final = re.compile(rb".+?(?:\r\n\r\n|\n\n|\r\r)[\r\n]*|.+", re.DOTALL)
_MAX_PAUSE: Final = 1e9  # seconds; the system cannot sleep for much longer


@dataclass(frozen=True)
class Recording:
    """Bytes of a provider as they arrived, with their times in seconds since the start."""

    header: Header
    chunks: tuple[Chunk, ...]
    end: End
    has_times: bool = True
    """False for a plain stream with invented times."""

    @property
    def ending(self) -> Ending:
        return self.end.ending

    @property
    def data(self) -> bytes:
        return b"".join(chunk.data for chunk in self.chunks)

    def lines(self) -> Iterator[tuple[float, bytes]]:
        """Yield the lines of the recording file, each with its time. ``stream()`` can read them."""
        yield 0.0, header_line(self.header)
        for chunk in self.chunks:
            yield chunk.at, chunk_line(chunk)
        yield self.end.at, end_line(self.end)

    def play(
        self, speed: float = 1.0, *, sleep: Callable[[float], object] = time.sleep
    ) -> Iterator[bytes]:
        """Yield the bytes with the recorded timing. With ``speed=math.inf``, do not wait.

        If the recorded connection broke off, ``ConnectionError`` is raised there.
        """
        for _, data in waiting(self._timed(), speed, sleep):
            yield data
        self._break_off()

    async def play_async(self, speed: float = 1.0) -> AsyncIterator[bytes]:
        """Like ``play``, for asyncio."""
        import asyncio

        start = time.monotonic()
        for chunk in self._timed():
            pause = _due(chunk.at, speed) - (time.monotonic() - start)
            await asyncio.sleep(max(0.0, pause))
            if chunk.data:
                yield chunk.data
        self._break_off()

    def _timed(self) -> Iterator[Chunk]:
        yield from self.chunks
        yield Chunk(self.end.at, b"")

    def _break_off(self) -> None:
        if self.ending != "orderly":
            reason = self.end.reason or f"it was {self.ending}"
            raise ConnectionError(f"the recording ends here: {reason}")


def waiting(
    timed: Iterable[tuple[float, bytes]], speed: float, sleep: Callable[[float], object]
) -> Iterator[tuple[float, bytes]]:
    """Yield the data at its time. For empty data, only wait."""
    start = time.monotonic()
    for at, data in timed:
        pause = _due(at, speed) - (time.monotonic() - start)
        if pause > 0:
            sleep(pause)
        if data:
            yield at, data


def _due(at: float, speed: float) -> float:
    if not speed > 0:
        raise UsageError(f"speed must be greater than 0, not {speed}")
    return 0.0 if math.isinf(speed) else min(at / speed, _MAX_PAUSE)


def read_recording(file: str | Path) -> Recording:
    """Read a recording that ``argstream record`` or a ``Recorder`` wrote."""
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    return parse_recording(data)


def parse_recording(data: bytes) -> Recording:
    """Parse the bytes of a recording. A truncated one is parsed as far as possible."""
    if not is_recording(data):
        raise UsageError(
            "not a recording of argstream. To read the plain stream of a provider, which has no "
            "times, use stream() or argstream watch"
        )
    first, line_end, rest = data.removeprefix(BYTE_ORDER_MARK).lstrip().partition(b"\n")
    try:
        header = read_header(first)
    except UsageError:
        if line_end or is_json(first):
            raise
        return Recording(Header(), (), _cut([], NOT_ENDED))  # truncated in the first line
    chunks: list[Chunk] = []
    end: End | None = None
    for number, line in enumerate(rest.split(b"\n"), 2):
        if not line.strip():
            continue
        if end is not None:
            raise UsageError(f"{DATA_AFTER_END} (line {number})")
        try:
            read = read_line(line)
        except ValueError:
            reason = f"{NOT_ENDED} in line {number}"
            return Recording(header, tuple(chunks), _cut(chunks, reason))
        if isinstance(read, Chunk):
            chunks.append(read)
        elif read is not None:
            end = read
    return Recording(header, tuple(chunks), end or _cut(chunks, NOT_ENDED))


def _cut(chunks: list[Chunk], reason: str) -> End:
    return End(chunks[-1].at if chunks else 0.0, "cut", reason)


def without_times(data: bytes, pace: float) -> Recording:
    """Return a recording of a provider's plain stream, with ``pace`` seconds for each event."""
    pieces = _events(data)
    chunks = tuple(Chunk(pace * index, piece) for index, piece in enumerate(pieces))
    end = End(chunks[-1].at if chunks else 0.0, "orderly")
    return Recording(Header(), chunks, end, has_times=False)


def _events(data: bytes) -> list[bytes]:
    """Split a stream after its events, where they can be found, without losing bytes."""
    if data[:1] == b"\0":
        return _aws_messages(data)
    if data.removeprefix(BYTE_ORDER_MARK).lstrip()[:1] in (b"{", b"["):
        return data.splitlines(keepends=True)
    return sse_events(data)


def sse_events(data: bytes) -> list[bytes]:
    """Split server-sent events after their blank lines, without losing bytes."""
    found: list[bytes] = _EVENT.findall(data)
    return found


def _aws_messages(data: bytes) -> list[bytes]:
    """Split an AWS event stream. Each message starts with its length."""
    messages = []
    start = 0
    while start < len(data):
        length = int.from_bytes(data[start : start + 4]) or len(data)
        messages.append(data[start : start + length])
        start += length
    return messages
