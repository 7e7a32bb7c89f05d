"""What a wire format carries: a payload, and the little that is written around it."""

from typing import Final, Literal, NamedTuple, TypeAlias

__all__ = ["BYTE_ORDER_MARK", "MAX_FRAME_BYTES", "Broken", "BrokenReason", "Frame"]

BrokenReason: TypeAlias = Literal[
    "too_long", "truncated", "bad_checksum", "bad_length", "bad_header"
]

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""What may stand before a text, and is no part of it."""

MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
"""What a decoder keeps of a frame that does not end, unless told otherwise."""


class Frame(NamedTuple):
    """One message. The payload stays bytes: who decodes it knows what it is."""

    data: bytes
    event: str = ""
    """Its name: SSE's ``event``, AWS's ``:event-type``, ``:exception-type`` or ``:error-code``."""
    id: str = ""
    """SSE's last event id at this point of the stream."""
    failed: bool = False
    """Whether the wire format itself calls this an error (AWS: an exception, not an event)."""


class Broken(NamedTuple):
    """The stream breaks the rules of its format here. Nothing follows."""

    reason: BrokenReason
