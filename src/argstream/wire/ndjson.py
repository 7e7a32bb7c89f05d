"""JSON lines: bytes → frames, one a line. Blank lines are nothing."""

from argstream.wire._lines import LineSplitter
from argstream.wire.frames import MAX_FRAME_BYTES, Broken, Frame

__all__ = ["NdjsonDecoder"]


class NdjsonDecoder:
    r"""Reads a stream of JSON values, each on a line of its own.

    >>> decoder = NdjsonDecoder()
    >>> decoder.feed(b'{"a": 1}\n{"b"')
    [Frame(data=b'{"a": 1}', event='', id='', failed=False)]
    >>> decoder.close()
    [Frame(data=b'{"b"', event='', id='', failed=False)]
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._lines = LineSplitter()
        self._broken = False

    def feed(self, chunk: bytes) -> list[Frame | Broken]:
        """Take the next bytes, cut anywhere, and give the lines that are complete."""
        frames: list[Frame | Broken] = []
        if self._broken:
            return frames
        longest = self._max_frame_bytes
        for line in self._lines.feed(chunk):
            if len(line) > longest:
                self._broken = True
                break
            if line.strip():
                frames.append(Frame(line))
        if self._broken or self._lines.pending_bytes > longest:
            self._broken = True
            frames.append(Broken("too_long"))
        return frames

    def close(self) -> list[Frame | Broken]:
        """Say that the stream is over; gives a last line without an end, whole or not."""
        line = self._lines.close()
        return [Frame(line)] if line.strip() and not self._broken else []
