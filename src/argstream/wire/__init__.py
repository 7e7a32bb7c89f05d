"""Decode network bytes into frames. Performs no I/O.

Each decoder has two methods. ``feed(chunk)`` accepts chunks that are cut anywhere and returns the
completed frames. ``close()`` returns the rest. Bad input does not raise: a stream that violates its
format ends with ``Broken``, after all frames before it.
"""

from argstream.wire._decoders import (
    AwsEventStreamDecoder,
    Broken,
    Frame,
    JsonTextDecoder,
    NdjsonDecoder,
    SseDecoder,
)

__all__ = [
    "AwsEventStreamDecoder",
    "Broken",
    "Frame",
    "JsonTextDecoder",
    "NdjsonDecoder",
    "SseDecoder",
]
