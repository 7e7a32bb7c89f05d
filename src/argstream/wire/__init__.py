"""Bytes as they come from a network → frames. Pure: no sockets, no clocks, no dependencies.

Each decoder has the same two methods: ``feed(bytes)``, cut anywhere, gives the frames that are
complete; ``close()`` gives what the end of the stream leaves. Neither raises for bad input: a
stream that breaks its protocol ends with ``Broken``, after everything that came before it.
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
    "_aws": ("AwsEventStreamDecoder",),
    "_json": ("JsonTextDecoder", "NdjsonDecoder"),
    "_sse": ("SseDecoder",),
}

if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
