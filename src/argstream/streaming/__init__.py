"""``stream()``: bytes, lines, SDK objects or responses → events, and readers of single calls."""

from argstream.streaming._input import AsyncSource, Source
from argstream.streaming._stream import (
    AsyncCallReader,
    AsyncEventStream,
    CallReader,
    EventStream,
    make_check,
    stream,
)

__all__ = [
    "AsyncCallReader",
    "AsyncEventStream",
    "AsyncSource",
    "CallReader",
    "EventStream",
    "Source",
    "make_check",
    "stream",
]
