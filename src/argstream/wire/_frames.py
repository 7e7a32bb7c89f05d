"""Frames, the output of all decoders, and the line splitter that decoders share."""

import json
from typing import Final, Literal, NamedTuple, TypeAlias

BrokenReason: TypeAlias = Literal[
    "too_long", "truncated", "bad_checksum", "bad_length", "bad_header"
]

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
MAX_FRAME_BYTES: Final = 64 * 1024 * 1024  # default limit for buffering one frame


class Frame(NamedTuple):
    """One message. The payload stays undecoded."""

    data: bytes
    event: str = ""  # SSE: event. AWS: :event-type, :exception-type or :error-code
    id: str = ""  # SSE: last event ID at this point of the stream
    failed: bool = False  # AWS: the message is an exception or error, not an event


class Broken(NamedTuple):
    """The stream violates its format. No frames follow."""

    reason: BrokenReason


class LineSplitter:
    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of the incomplete line
        self._after_cr = False
        self.pending_bytes = 0  # length of the incomplete line

    @property
    def is_inside_line(self) -> bool:
        """Whether the next bytes continue a line or its CRLF."""
        return bool(self._pieces) or self._after_cr

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in this chunk, without line terminators."""
        if self._after_cr and chunk:
            # The CR already ended the line. An LF right after it belongs to the same CRLF.
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._pieces.append(chunk)
            self.pending_bytes += len(chunk)
            return []
        if self._pieces:
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces.clear()
        last = lines.pop()
        self.pending_bytes = len(last)
        if last:
            self._pieces.append(last)
        return lines

    def close(self) -> bytes:
        return b"".join(self._pieces)


def is_json(line: bytes) -> bool:
    try:
        json.loads(line.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        return False
    return True
