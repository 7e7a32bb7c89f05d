"""AWS event streams (``application/vnd.amazon.eventstream``): bytes → frames, checksums verified.

A message is: its length, the length of its headers and a checksum of these two, four bytes each;
the headers; the payload; a checksum of all that, four bytes. Numbers are big-endian.
"""

from functools import lru_cache
from struct import unpack_from
from typing import Final
from zlib import crc32

from argstream.wire._frames import MAX_FRAME_BYTES, Broken, Frame

_PRELUDE: Final = 12
_CHECKSUM: Final = 4
_STRING: Final = 7
_SHORT: Final = 512  # headers of a usual length
# How long a header's value is, by its type. Of bytes and strings, two bytes before them tell.
_LENGTHS: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_BYTES_AND_STRINGS: Final = (6, _STRING)


class AwsEventStreamDecoder:
    """Decodes a stream of messages in the format of Bedrock and its kin."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()
        self._broken = False

    def feed(self, chunk: bytes) -> list[Frame | Broken]:
        frames: list[Frame | Broken] = []
        if self._broken:
            return frames
        data: bytes | bytearray = chunk
        if self._buffer:
            self._buffer += chunk
            data = self._buffer
        start = 0
        while len(data) - start >= _PRELUDE:
            length = self._message_length(data, start)
            if isinstance(length, int):
                if len(data) - start < length:
                    break
                frame = _read(bytes(data[start : start + length]))
                start += length
            else:
                frame = length
            frames.append(frame)
            if isinstance(frame, Broken):
                self._broken = True
                break
        if data is chunk:
            self._buffer += chunk[start:]
        else:
            del self._buffer[:start]
        return frames

    def close(self) -> list[Frame | Broken]:
        """End the stream. A message that it cut off is lost, and reported."""
        if self._broken or not self._buffer:
            return []
        self._broken = True
        return [Broken("truncated")]

    def _message_length(self, data: bytes | bytearray, start: int) -> int | Broken:
        length, headers_length, checksum = unpack_from(">III", data, start)
        if crc32(data[start : start + 8]) != checksum:
            return Broken("bad_checksum")
        if length > self._max_frame_bytes:
            return Broken("too_long")
        if length < _PRELUDE + headers_length + _CHECKSUM:
            return Broken("bad_length")
        return int(length)


def _read(message: bytes) -> Frame | Broken:
    (checksum,) = unpack_from(">I", message, len(message) - _CHECKSUM)
    if crc32(message[:-_CHECKSUM]) != checksum:
        return Broken("bad_checksum")
    (headers_length,) = unpack_from(">I", message, 4)
    payload_start = _PRELUDE + headers_length
    headers = message[_PRELUDE:payload_start]
    said = _said_before(headers) if headers_length <= _SHORT else _said(headers)
    if said is None:
        return Broken("bad_header")
    name, failed = said
    return Frame(message[payload_start:-_CHECKSUM], name, "", failed)


def _said(data: bytes) -> tuple[str, bool] | None:
    """Return a message's name, and whether it is a failure; None for invalid headers."""
    headers = _read_headers(data)
    if headers is None:
        return None
    name = (
        headers.get(":exception-type") or headers.get(":error-code") or headers.get(":event-type")
    )
    return name or "", headers.get(":message-type", "event") != "event"


# One message after the other has the same headers.
_said_before = lru_cache(maxsize=64)(_said)


def _read_headers(data: bytes) -> dict[str, str] | None:
    """Return the headers that are strings; None if the headers are invalid."""
    headers = {}
    position = 0
    while position < len(data):
        name_end = position + 1 + data[position]
        name = data[position + 1 : name_end]
        kind = data[name_end] if name_end < len(data) else -1
        value_start = name_end + 1
        length = _LENGTHS.get(kind, -1)
        if kind in _BYTES_AND_STRINGS and value_start + 2 <= len(data):
            (length,) = unpack_from(">H", data, value_start)
            value_start += 2
        position = value_start + length
        if length < 0 or position > len(data):
            return None
        if kind == _STRING:
            headers[name.decode(errors="replace")] = data[value_start:position].decode(
                errors="replace"
            )
    return headers
