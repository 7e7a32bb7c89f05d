"""JSON that may be lines, an array or one document: bytes → frames.

A stream of JSON lines has a whole value on its first line. What has not is one document, spread
over lines for people to read. If it is an array, each item is a frame as soon as it is there;
anything else, such as the body of an error, is one frame, at the end.
"""

import json

from argstream.wire._lines import LineSplitter
from argstream.wire.frames import BYTE_ORDER_MARK, MAX_FRAME_BYTES, Broken, Frame
from argstream.wire.json_array import JsonArrayDecoder
from argstream.wire.ndjson import NdjsonDecoder

__all__ = ["JsonTextDecoder", "is_json"]


class JsonTextDecoder:
    r"""Reads JSON lines, the items of an array, or one JSON document.

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
        """Take the next bytes, cut anywhere, and give the lines or items that are complete."""
        if self._parts is not None:
            return self._parts.feed(chunk)
        if self._broken:
            return []
        self._pieces.append(chunk)
        self._bytes += len(chunk)
        if self._bytes > self._max_frame_bytes:
            self._broken = True
            return [Broken("too_long")]
        lines = [] if self._first_line is None else self._first_line.feed(chunk)
        first = next((line for line in lines if line.strip()), None)
        if first is None:
            return []
        self._first_line = None
        if is_json(first):
            self._parts = NdjsonDecoder(self._max_frame_bytes)
        elif _begins_array(first):
            self._parts = JsonArrayDecoder(self._max_frame_bytes)
        else:
            return []
        return self._parts.feed(b"".join(self._pieces))

    def close(self) -> list[Frame | Broken]:
        """Say that the stream is over."""
        if self._parts is not None:
            return self._parts.close()
        text = b"".join(self._pieces)
        if self._broken or not text.strip():
            return []
        if _begins_array(text) and not is_json(text):  # it was cut; what was whole counts
            items = JsonArrayDecoder(self._max_frame_bytes)
            return [*items.feed(text), *items.close()]
        return [Frame(text)]


def _begins_array(text: bytes) -> bool:
    return text.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"[")


def is_json(line: bytes) -> bool:
    """Say whether this is a whole JSON value."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
