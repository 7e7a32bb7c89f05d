"""A recording of our own → the frames of what was recorded, while its lines come."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from argstream.errors import UsageError
from argstream.recording.format import GOES_ON, NOT_ENDED, Chunk, End, read_header, read_line
from argstream.wire import Broken, Frame
from argstream.wire.frames import BYTE_ORDER_MARK

__all__ = ["Decoder", "Ended", "RecordingDecoder"]


class Ended(NamedTuple):
    """The recording ends here, and what was recorded had not come to its end."""

    code: str
    message: str


class Decoder(Protocol):
    """What turns bytes into frames."""

    def feed(self, chunk: bytes) -> list[Frame | Broken]:
        """Take the next bytes."""

    def close(self) -> list[Frame | Broken]:
        """Say that there are no more."""


class RecordingDecoder:
    """Unwraps lines, and gives the bytes in them to the decoder that they are for.

    ``lines`` is the decoder of the lines, which has given ``first`` already. ``choose`` finds the
    decoder for what was recorded, by its first bytes.
    """

    def __init__(self, lines: Decoder, first: bytes, choose: Callable[[bytes], Decoder]) -> None:
        self._lines = lines
        self._choose = choose
        self._inner: Decoder | None = None
        self._is_over = False
        self._is_orderly = False
        self._unreadable = ""
        self.first_bytes = b""
        """What was recorded, until it is known what that is."""
        try:
            read_header(first)
        except UsageError as error:
            self._unreadable = str(error)

    def feed(self, chunk: bytes) -> list[Frame | Broken | Ended]:
        """Take the next bytes of the recording, cut anywhere."""
        return self.take(self._lines.feed(chunk))

    def take(self, lines: list[Frame | Broken]) -> list[Frame | Broken | Ended]:
        """Take lines."""
        frames: list[Frame | Broken | Ended] = []
        for line in lines:
            if self._is_over:
                frames += self._go_on()
                break
            frames += [line] if isinstance(line, Broken) else self._take_line(line.data)
        return frames

    def close(self) -> list[Frame | Broken | Ended]:
        """Say that the recording is over, also if it was not."""
        frames = self.take(self._lines.close())
        if not self._is_over:
            frames.append(self._ended("cut", NOT_ENDED))
        return frames + self._close_inner()

    def _go_on(self) -> list[Frame | Broken | Ended]:
        """Say, once, that something follows: whoever put recordings together wants to know."""
        if not self._is_orderly:
            return []  # then something has been said already
        frames: list[Frame | Broken | Ended] = [*self._close_inner()]
        self._is_orderly = False
        return [*frames, Ended("unreadable", GOES_ON)]

    def _close_inner(self) -> list[Frame | Broken]:
        inner = self._inner if self._is_orderly else None
        return [] if inner is None else inner.close()

    def _take_line(self, line: bytes) -> list[Frame | Broken] | list[Ended]:
        if self._unreadable:
            return [self._ended("unreadable", self._unreadable)]
        try:
            read = read_line(line)
        except ValueError:
            return [self._ended("cut", NOT_ENDED)]
        if isinstance(read, Chunk):
            return self._take_recorded(read.data)
        if not isinstance(read, End):
            return []
        if read.ending == "orderly":
            self._is_over = self._is_orderly = True
            return []
        return [self._ended(read.ending, read.reason or f"it was {read.ending}")]

    def _take_recorded(self, data: bytes) -> list[Frame | Broken]:
        if self._inner is not None:
            return self._inner.feed(data)
        self.first_bytes += data
        start = self.first_bytes
        if BYTE_ORDER_MARK.startswith(start) or not start.strip():
            return []
        self._inner = self._choose(start)
        return self._inner.feed(start)

    def _ended(self, code: str, reason: str) -> Ended:
        self._is_over = True
        return Ended(code, f"the recording ends here: {reason}" if code != "unreadable" else reason)
