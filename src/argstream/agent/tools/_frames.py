"""What a program and the subprocess of an isolated tool say to each other, over a socket.

A message is a kind and JSON-able content, with its length before it.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

__all__ = ["Frame", "FrameReader", "encode"]

_HEADER: Final = 8


class Frame(NamedTuple):
    """One message: ``call``, to the tool; ``output``, ``result`` or ``error``, of it."""

    kind: str
    content: Any


def encode(kind: str, content: Any) -> bytes:
    """Write a message."""
    body = json.dumps([kind, content]).encode()
    return len(body).to_bytes(_HEADER, "big") + body


class FrameReader:
    """Reads messages from pieces, however they are cut."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take the next piece, and give the messages that are whole with it."""
        self._pending += data
        while len(self._pending) >= _HEADER:
            end = _HEADER + int.from_bytes(self._pending[:_HEADER], "big")
            if len(self._pending) < end:
                return
            body = bytes(self._pending[_HEADER:end])
            del self._pending[:end]
            yield Frame(*json.loads(body))
