"""Bytes as they come from a network → frames. Pure: no sockets, no clocks, no dependencies.

Each decoder has the same two methods: ``feed(bytes)``, cut anywhere, gives the frames that are
complete; ``close()`` gives what the end of the stream leaves. Neither raises for bad input: a
stream that breaks its protocol ends with ``Broken``, after everything that came before it.
"""

from argstream.wire.aws_eventstream import AwsEventStreamDecoder
from argstream.wire.frames import Broken, Frame
from argstream.wire.json_text import JsonTextDecoder
from argstream.wire.ndjson import NdjsonDecoder
from argstream.wire.sse import SseDecoder

__all__ = [
    "AwsEventStreamDecoder",
    "Broken",
    "Frame",
    "JsonTextDecoder",
    "NdjsonDecoder",
    "SseDecoder",
]
