"""Frames, and the decoders of the formats in which providers stream.

``LineSplitter`` is shared by the decoders of lines. Each decoder keeps at most one frame in memory,
up to ``max_frame_bytes``.
"""

import json
import re
from functools import lru_cache
from struct import unpack_from
from typing import Final, Literal, NamedTuple, TypeAlias
from zlib import crc32

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


# The fast path: events of one or two lines, nearly all of them.
_SHORT_EVENT: Final = re.compile(rb"(?:event: (.*)\n)?data: (.*)\n\n")
_new = tuple.__new__  # half the cost of calling Frame()

_MAX_NAMES = 100  # far more than a provider has
_MAX_RETRY_DIGITS = 9  # 11 days; int() raises for thousands of digits


class SseDecoder:
    r"""Decodes a stream of server-sent events, by the WHATWG standard with two differences.

    ``close()`` returns an event without its final blank line instead of dropping it. Recordings
    often lack that line, and the payload itself shows whether it is complete.

    Some servers omit the blank lines. If another data line follows a complete JSON object or
    ``[DONE]``, the object is a frame of its own, because the two lines together are not JSON. From
    then on, up to the next blank line, each data line is a frame.

    >>> decoder = SseDecoder()
    >>> decoder.feed(b'event: ping\ndata: {"a"')
    []
    >>> decoder.feed(b': 1}\r\n\r\n')
    [Frame(data=b'{"a": 1}', event='ping', id='', failed=False)]
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._lines = LineSplitter()
        self._at_start = True
        self._data: list[bytes] = []
        self._is_document = False  # one JSON document over several data lines
        self._no_blank_lines = False  # each data line is a frame, until a blank line
        self._event = ""
        self._event_of_data: str | None = None  # set if a later field changed _event
        self._id_of_data: str | None = None  # set if a later field changed last_id
        self._bytes = 0  # of all lines of the event so far
        self._broken = False
        self._between_events = False
        self._names: dict[bytes, str] = {}  # cache of decoded event names
        self.last_id: str = ""  # sent as Last-Event-ID after a lost connection
        self.retry: int | None = None  # milliseconds to wait before reconnecting

    def feed(self, chunk: bytes) -> list[Frame | Broken]:
        frames: list[Frame | Broken] = []
        position = 0
        if self._between_events and b"\r" not in chunk:
            length = len(chunk)
            while position < length and (event := _SHORT_EVENT.match(chunk, position)) is not None:
                name_bytes, data = event.groups()
                name = "" if name_bytes is None else self._names.get(name_bytes)
                end = event.end()
                if name is None or end - position > self._max_frame_bytes:
                    break  # _feed_lines decodes a new name and compares the exact length
                frames.append(_new(Frame, (data, name, self.last_id, False)))
                position = end
        if position < len(chunk):
            self._feed_lines(chunk[position:] if position else chunk, frames)
        return frames

    def _feed_lines(self, chunk: bytes, frames: list[Frame | Broken]) -> None:
        if self._broken:
            return
        lines = self._lines.feed(chunk)
        if lines and self._at_start:
            self._at_start = False
            lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
        for line in lines:
            if not line:
                if self._data:
                    frames.append(self._frame())
                self._event = ""
                self._bytes = 0
                self._is_document = self._no_blank_lines = False
                self._event_of_data = self._id_of_data = None
                continue
            self._bytes += len(line)
            if self._bytes > self._max_frame_bytes:
                break
            self._field(line, frames)
        if self._bytes + self._lines.pending_bytes > self._max_frame_bytes:
            self._broken = True
            frames.append(Broken("too_long"))
        self._between_events = not (
            self._at_start
            or self._broken
            or self._bytes
            or self._data
            or self._no_blank_lines
            or self._lines.is_inside_line
        )

    def close(self) -> list[Frame | Broken]:
        """End the stream. Return the last event if its blank line is missing."""
        frames: list[Frame | Broken] = []
        if self._broken:
            return frames
        if line := self._lines.close():
            self._field(line.removeprefix(BYTE_ORDER_MARK) if self._at_start else line, frames)
        if self._data:
            frames.append(self._frame())
        return frames

    def _frame(self) -> Frame:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data = []
        return Frame(data, self._event, self.last_id)

    def _field(self, line: bytes, frames: list[Frame | Broken]) -> None:
        if line.startswith(b"data: ") and not self._data and not self._no_blank_lines:
            self._data.append(line[6:])  # the usual case
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._add_data(value, frames)
        elif name == b"event":
            if self._data and self._event_of_data is None:
                self._event_of_data = self._event
            self._event = value.decode(errors="replace")
            if len(self._names) < _MAX_NAMES:
                self._names[value] = self._event
        elif name == b"id" and b"\0" not in value:
            if self._data and self._id_of_data is None:
                self._id_of_data = self.last_id
            self.last_id = value.decode(errors="replace")
        elif name == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
            self.retry = int(value)
        # Comments (empty name) and unknown fields are ignored.

    def _add_data(self, value: bytes, frames: list[Frame | Broken]) -> None:
        """Append a data line. If the data before it is a complete payload, emit a frame for it."""
        is_blank = not value.strip()
        if self._data and not is_blank and not self._is_document:
            before = b"".join(self._data).strip()  # at most one of these lines is not blank
            if is_payload(before):
                self._no_blank_lines = True
                self._add_unterminated(before, frames)
            else:
                self._is_document = bool(before)
        if not self._no_blank_lines:
            self._data.append(value)
        elif not is_blank:
            self._add_unterminated(value, frames)
            self._bytes = 0

    def _add_unterminated(self, data: bytes, frames: list[Frame | Broken]) -> None:
        """Append a frame that has no blank line after it."""
        if self._event_of_data is None:
            event, self._event = self._event, ""  # a name applies to one event
        else:
            event = self._event_of_data
        id_ = self.last_id if self._id_of_data is None else self._id_of_data
        self._event_of_data = self._id_of_data = None
        self._data = []
        frames.append(Frame(data, event, id_))


def is_payload(line: bytes) -> bool:
    """Return True for a complete JSON object and for OpenAI's ``[DONE]``."""
    return line == b"[DONE]" or (line.startswith(b"{") and is_json(line))


class NdjsonDecoder:
    r"""Decodes a stream of JSON values, each on a line of its own. Blank lines are skipped.

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
        line = self._lines.close()
        return [Frame(line)] if line.strip() and not self._broken else []


_OUTSIDE: Final = re.compile(rb'["{}\[\],]')
_IN_STRING: Final = re.compile(rb'["\\]')


class JsonArrayDecoder:
    r"""Decodes the items of a JSON array, and of further arrays after it.

    >>> decoder = JsonArrayDecoder()
    >>> decoder.feed(b'[{"a": 1},\n{"b"')
    [Frame(data=b'{"a": 1}', event='', id='', failed=False)]
    >>> decoder.feed(b': [2]}'), decoder.feed(b']')
    ([], [Frame(data=b'{"b": [2]}', event='', id='', failed=False)])
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._pieces: list[bytes] = []  # of the incomplete item
        self._bytes = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the chunk ended after a backslash
        self._broken = False

    def feed(self, chunk: bytes) -> list[Frame | Broken]:
        frames: list[Frame | Broken] = []
        if self._broken:
            return frames
        start = position = 0
        if self._escaped and chunk:
            self._escaped = False
            position = 1
        while found := (_IN_STRING if self._in_string else _OUTSIDE).search(chunk, position):
            position = found.end()
            mark = found[0]
            if mark == b"\\":
                self._escaped = position == len(chunk)
                position += 1
            elif mark == b'"':
                self._in_string = not self._in_string
            elif mark in b"{[":
                self._depth += 1
                if self._depth == 1:
                    start = position
            elif mark == b",":
                if self._depth == 1:
                    frames += self._item(chunk[start : position - 1])
                    start = position
            elif self._depth > 0:
                self._depth -= 1
                if self._depth == 0:
                    frames += self._item(chunk[start : position - 1])
        if self._depth > 0:
            self._pieces.append(chunk[start:])
            self._bytes += len(chunk) - start
            if self._bytes > self._max_frame_bytes:
                frames += self._item(b"")
        return frames

    def close(self) -> list[Frame | Broken]:
        return self._item(b"")

    def _item(self, last: bytes) -> list[Frame | Broken]:
        if self._broken:
            return []
        if self._bytes + len(last) > self._max_frame_bytes:
            self._broken = True
            return [Broken("too_long")]
        data = b"".join((*self._pieces, last)).strip()
        self._pieces.clear()
        self._bytes = 0
        return [Frame(data)] if data else []


class JsonTextDecoder:
    r"""Decodes JSON lines, the items of an array, or one JSON document.

    >>> decoder = JsonTextDecoder()
    >>> decoder.feed(b'{\n  "error": 1\n}\n'), decoder.close()
    ([], [Frame(data=b'{\n  "error": 1\n}\n', event='', id='', failed=False)])
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._lines: NdjsonDecoder | None = NdjsonDecoder(max_frame_bytes)  # to find the first
        self._parts: NdjsonDecoder | JsonArrayDecoder | None = None
        self._broken = False

    def feed(self, chunk: bytes) -> list[Frame | Broken]:
        if self._parts is not None:
            return self._parts.feed(chunk)
        if self._broken:
            return []
        self._pieces.append(chunk)
        self._bytes += len(chunk)
        lines = self._lines
        frames = [] if lines is None else lines.feed(chunk)
        if frames:
            self._lines = None
            text, first = b"".join(self._pieces), frames[0]
            # Only blank lines can be before the first line, so find() cannot match earlier.
            if isinstance(first, Frame) and (
                text.find(first.data) + len(first.data) <= self._max_frame_bytes
            ):
                if is_json(first.data):
                    self._parts = lines
                    return frames
                if _begins_array(first.data):
                    self._parts = JsonArrayDecoder(self._max_frame_bytes)
                    return self._parts.feed(text)
        if self._bytes > self._max_frame_bytes:
            self._broken = True
            return [Broken("too_long")]
        return []

    def close(self) -> list[Frame | Broken]:
        if self._parts is not None:
            return self._parts.close()
        text = b"".join(self._pieces)
        if self._broken or not text.strip():
            return []
        if _begins_array(text) and not is_json(text):  # truncated: return the complete items
            items = JsonArrayDecoder(self._max_frame_bytes)
            return [*items.feed(text), *items.close()]
        return [Frame(text)]


def _begins_array(text: bytes) -> bool:
    return text.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"[")


_PRELUDE: Final = 12
_CHECKSUM: Final = 4
_STRING: Final = 7
_MAX_CACHED_BYTES: Final = 512
# Length of a header value by type. Bytes and strings have a 2-byte length prefix instead.
_LENGTHS: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_BYTES_AND_STRINGS: Final = (6, _STRING)


class AwsEventStreamDecoder:
    """Decodes AWS event streams (``application/vnd.amazon.eventstream``), with their checksums.

    A message consists of its length, the length of its headers and a CRC32 of these two (the
    prelude); the headers; the payload; a CRC32 of everything before. All numbers are big-endian, 4
    bytes each.
    """

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
