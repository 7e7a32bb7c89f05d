"""Decode network bytes into frames. Performs no I/O.

Each decoder has two methods. ``feed(chunk)`` accepts chunks that are cut anywhere and returns the
completed frames. ``close()`` returns the rest. Bad input does not raise: a stream that violates its
format ends with ``Broken``, after all frames before it.
"""

from typing import TYPE_CHECKING

from argstream._lazy import lazy_exports
from argstream.wire._frames import Broken, Frame

if TYPE_CHECKING:
    from argstream.wire._aws import AwsEventStreamDecoder
    from argstream.wire._json import JsonTextDecoder, NdjsonDecoder
    from argstream.wire._sse import SseDecoder

__all__ = [
    "AwsEventStreamDecoder",
    "Broken",
    "Frame",
    "JsonTextDecoder",
    "NdjsonDecoder",
    "SseDecoder",
]

_HOMES = {
    "_aws": "AwsEventStreamDecoder",
    "_json": "JsonTextDecoder NdjsonDecoder",
    "_sse": "SseDecoder",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOMES)
