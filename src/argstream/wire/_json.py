"""Decode JSON lines and JSON arrays into frames. Blank lines are skipped."""

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


class NdjsonDecoder:
    r"""Decodes a stream of JSON values, each on a line of its own.

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
        self._first_line: LineSplitter | None = LineSplitter()
        self._parts: NdjsonDecoder | JsonArrayDecoder | None = None
        self._broken = False

    def feed(self, chunk: bytes) -> list[Frame | Broken]:
        if self._parts is not None:
            return self._parts.feed(chunk)
        if self._broken:
            return []
        self._pieces.append(chunk)
        self._bytes += len(chunk)
        lines = [] if self._first_line is None else self._first_line.feed(chunk)
        first = next((line for line in lines if line.strip()), None)
        if first is not None:
            self._first_line = None
            text = b"".join(self._pieces)
            # Only blank lines can be before the first line, so find() cannot match earlier.
            if text.find(first) + len(first) <= self._max_frame_bytes:
                if is_json(first):
                    self._parts = NdjsonDecoder(self._max_frame_bytes)
                elif _begins_array(first):
                    self._parts = JsonArrayDecoder(self._max_frame_bytes)
                if self._parts is not None:
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
