"""One JSON array that is written while it is read: bytes → frames, one for each item.

Gemini answers so when nobody asks it for server-sent events. Nothing is parsed here: an item ends
where its brackets do.
"""

import re
from typing import Final

from argstream.wire.frames import MAX_FRAME_BYTES, Broken, Frame

__all__ = ["JsonArrayDecoder"]

# Outside a string, what opens or closes something; inside one, what ends it or escapes.
_OUTSIDE: Final = re.compile(rb'["{}\[\],]')
_INSIDE: Final = re.compile(rb'["\\]')


class JsonArrayDecoder:
    r"""Reads the items of an array; after its end, of another one.

    >>> decoder = JsonArrayDecoder()
    >>> decoder.feed(b'[{"a": 1},\n{"b"')
    [Frame(data=b'{"a": 1}', event='', id='', failed=False)]
    >>> decoder.feed(b': [2]}'), decoder.feed(b']')
    ([], [Frame(data=b'{"b": [2]}', event='', id='', failed=False)])
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._pieces: list[bytes] = []  # of the item that has not ended
        self._bytes = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the next byte means nothing
        self._broken = False

    def feed(self, chunk: bytes) -> list[Frame | Broken]:
        """Take the next bytes, cut anywhere, and give the items that are complete."""
        frames: list[Frame | Broken] = []
        if self._broken:
            return frames
        start = position = 0
        if self._escaped and chunk:
            self._escaped = False
            position = 1
        while found := (_INSIDE if self._in_string else _OUTSIDE).search(chunk, position):
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
                self._broken = True
                frames.append(Broken("too_long"))
        return frames

    def close(self) -> list[Frame | Broken]:
        """Say that the stream is over; gives an item that it cut off, as far as it came."""
        return [] if self._broken else self._item(b"")

    def _item(self, last: bytes) -> list[Frame | Broken]:
        data = b"".join((*self._pieces, last)).strip()
        self._pieces.clear()
        self._bytes = 0
        return [Frame(data)] if data else []
