"""What a wire format carries: a payload, and the little that is written around it."""

import json
from typing import Final, Literal, NamedTuple, TypeAlias

BrokenReason: TypeAlias = Literal[
    "too_long", "truncated", "bad_checksum", "bad_length", "bad_header"
]

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"  # what may stand before a text, and is no part of it

MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
"""What a decoder keeps of a frame that does not end, unless told otherwise."""


class Frame(NamedTuple):
    """One message. Its payload stays bytes: the reader knows how to decode it."""

    data: bytes
    event: str = ""
    """Its name: SSE's ``event``, AWS's ``:event-type``, ``:exception-type`` or ``:error-code``."""
    id: str = ""
    """SSE's last event id at this point of the stream."""
    failed: bool = False
    """Whether the wire format itself calls this an error (AWS: an exception, not an event)."""


class Broken(NamedTuple):
    """The stream breaks the rules of its format here. Nothing follows."""

    reason: BrokenReason


class LineSplitter:
    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of the line that has not ended
        self._after_cr = False
        self.pending_bytes = 0  # the length so far of the line that has not ended

    @property
    def is_inside_line(self) -> bool:
        """Whether the next bytes continue a line or its end."""
        return bool(self._pieces) or self._after_cr

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in this chunk, without their ends."""
        if self._after_cr and chunk:
            # The line ended with the CR already; an LF right after it is a part of that end.
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
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
