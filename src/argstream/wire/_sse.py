"""Decode server-sent events into frames, by the WHATWG standard with two differences.

``close()`` returns an event without its final blank line instead of dropping it. Recordings often
lack that line, and the payload itself shows whether it is complete.

Some servers omit the blank lines. If another data line follows a complete JSON object or
``[DONE]``, the object is a frame of its own, because the two lines together are not JSON. From then
on, up to the next blank line, each data line is a frame.
"""

import re
from typing import Final

from argstream.wire._frames import (
    BYTE_ORDER_MARK,
    MAX_FRAME_BYTES,
    Broken,
    Frame,
    LineSplitter,
    is_json,
)

# The fast path: events of one or two lines, nearly all of them.
_SHORT_EVENT: Final = re.compile(rb"(?:event: (.*)\n)?data: (.*)\n\n")
_new = tuple.__new__  # half the cost of calling Frame()

_MAX_NAMES = 100  # far more than a provider has
_MAX_RETRY_DIGITS = 9  # 11 days; int() raises for thousands of digits


class SseDecoder:
    r"""Decodes a stream of server-sent events.

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
            if _is_payload(before):
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


def _is_payload(line: bytes) -> bool:
    """Return True for a complete JSON object and for OpenAI's ``[DONE]``."""
    return line == b"[DONE]" or (line.startswith(b"{") and is_json(line))
