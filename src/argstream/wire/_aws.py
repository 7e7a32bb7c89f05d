"""Decode AWS event streams (``application/vnd.amazon.eventstream``) and verify their checksums.

A message consists of its length, the length of its headers and a CRC32 of these two (the prelude);
the headers; the payload; a CRC32 of everything before. All numbers are big-endian, 4 bytes each.
"""

from functools import lru_cache
from struct import unpack_from
from typing import Final
from zlib import crc32

from argstream.wire._frames import MAX_FRAME_BYTES, Broken, Frame

_PRELUDE: Final = 12
_CHECKSUM: Final = 4
_STRING: Final = 7
_MAX_CACHED_BYTES: Final = 512
# Length of a header value by type. Bytes and strings have a 2-byte length prefix instead.
_LENGTHS: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_BYTES_AND_STRINGS: Final = (6, _STRING)


class AwsEventStreamDecoder:
    """Decodes the event streams of Bedrock and other AWS services."""

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
                frame = _decode_message(bytes(data[start : start + length]))
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
        """End the stream. Return ``Broken`` if the last message is incomplete."""
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


def _decode_message(message: bytes) -> Frame | Broken:
    (checksum,) = unpack_from(">I", message, len(message) - _CHECKSUM)
    if crc32(message[:-_CHECKSUM]) != checksum:
        return Broken("bad_checksum")
    (headers_length,) = unpack_from(">I", message, 4)
    payload_start = _PRELUDE + headers_length
    headers = message[_PRELUDE:payload_start]
    parse = _cached_name_and_failure if headers_length <= _MAX_CACHED_BYTES else _name_and_failure
    parsed = parse(headers)
    if parsed is None:
        return Broken("bad_header")
    name, failed = parsed
    return Frame(message[payload_start:-_CHECKSUM], name, "", failed)


def _name_and_failure(data: bytes) -> tuple[str, bool] | None:
    """Return the message name and whether it is a failure, or None for invalid headers."""
    headers = _parse_string_headers(data)
    if headers is None:
        return None
    name = (
        headers.get(":exception-type") or headers.get(":error-code") or headers.get(":event-type")
    )
    return name or "", headers.get(":message-type", "event") != "event"


_cached_name_and_failure = lru_cache(maxsize=64)(_name_and_failure)  # headers repeat


def _parse_string_headers(data: bytes) -> dict[str, str] | None:
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
