"""Server-sent events as they are written: one event in, one out, whatever is in it."""

from typing import Final

import msgspec

__all__ = ["comment", "frame", "reconnect"]

_encoder = msgspec.json.Encoder()
_RETRY_MILLISECONDS: Final = 1_000


def frame(data: object, seq: int | None = None) -> bytes:
    r"""Write an event whose data is JSON, which has no line breaks; its id is the seq of a record.

    >>> frame({"text": "one\ntwo"}, 7)
    b'id: 7\ndata: {"text":"one\\ntwo"}\n\n'
    """
    start = b"data: " if seq is None else b"id: %d\ndata: " % seq
    return start + _encoder.encode(data) + b"\n\n"


def comment(text: str = "") -> bytes:
    """Write what no client heeds: it keeps a connection open."""
    return b": " + " ".join(text.splitlines()).encode() + b"\n\n"


def reconnect(why: str) -> bytes:
    """Write that the client should come again soon; browsers then say what they saw last."""
    return b"retry: %d\n" % _RETRY_MILLISECONDS + comment(why)
