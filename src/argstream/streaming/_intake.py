"""Items of any kind → events: the machine behind ``stream()``. It fetches nothing itself.

An item is bytes or text of a response, cut anywhere or into lines; or a payload: a dict, an SDK's
object, a server-sent event that somebody else has decoded. What the bytes are (server-sent events,
JSON lines, an AWS event stream) shows in the first of them.
"""

import json
from typing import Final, Protocol

from argstream.assembly import Assembler
from argstream.errors import UsageError
from argstream.events import Event, StreamFailed
from argstream.wire import AwsEventStreamDecoder, Broken, Frame, JsonTextDecoder, SseDecoder

__all__ = ["Intake"]

_LINE_STARTS: Final = (b"data:", b"event:", b"id:", b"retry:", b":", b"{", b"[")
_SHOWN: Final = 80


class _Decoder(Protocol):
    def feed(self, chunk: bytes) -> list[Frame | Broken]: ...
    def close(self) -> list[Frame | Broken]: ...


class Intake:
    """Takes items, gives events."""

    def __init__(self, assembler: Assembler) -> None:
        self.assembler = assembler
        self._decoder: _Decoder | None = None
        self._payload_types: set[type] = {dict}
        self._held: list[bytes] = []  # until it is known whether items are lines
        self._add_line_ends = False
        self._first_bytes = b""
        self._any_frame = False

    def take(self, item: object) -> list[Event]:
        """Take the next item."""
        if type(item) is bytes:
            if self._decoder is None or self._add_line_ends:
                return self._take_bytes(item)
            return self._decode(self._decoder, item)
        kind = type(item)
        if kind in self._payload_types:
            return self.assembler.feed(item)
        if isinstance(item, str):
            return self._take_bytes(item.encode(errors="replace"))
        if isinstance(item, bytes | bytearray | memoryview):
            return self._take_bytes(bytes(item))
        data = getattr(item, "data", None)
        if isinstance(data, str | bytes) and hasattr(item, "event"):
            event = getattr(item, "event", None)
            return self.assembler.feed(data, str(event or "")) if data else []
        if hasattr(item, "__dict__") or isinstance(item, dict):
            self._payload_types.add(kind)
            return self.assembler.feed(item)
        raise UsageError(
            f"stream() cannot read an item of type {kind.__name__}: "
            "it takes bytes, lines, dicts and the events of an SDK"
        )

    def close(self) -> list[Event]:
        """Say that there are no more items."""
        held, self._held = self._held, []
        events = self._begin(b"".join(held)) if held else []
        frames = [] if self._decoder is None else self._decoder.close()
        for frame in frames:
            # What the end cut off is no news: that there was no proper end is said anyway.
            if isinstance(frame, Frame) and _is_whole(frame.data):
                self._any_frame = True
                events += self.assembler.feed(frame.data, frame.event)
        if self._first_bytes and not self._any_frame:
            self.assembler.abort()
            shown = ascii(self._first_bytes)[1:]
            return [
                StreamFailed(
                    "not_a_stream",
                    f"no event of a provider is in it; it begins with {shown}",
                )
            ]
        return events + self.assembler.close()

    def interrupt(self, error: Exception) -> list[Event]:
        """Say that the source failed: every open call gets its verdict."""
        message = f"the source failed with {type(error).__name__}"
        return self.assembler.abort("truncated", message)

    def abort(self) -> None:
        """Say that nobody wants to know the rest."""
        self.assembler.abort()

    def _take_bytes(self, chunk: bytes) -> list[Event]:
        if self._decoder is not None:
            return self._decode(self._decoder, _with_end(chunk) if self._add_line_ends else chunk)
        self._held.append(chunk)
        nonempty = [held for held in self._held if held]
        if not nonempty or (len(nonempty) == 1 and _may_be_a_line(nonempty[0])):
            return []  # the next one will tell
        self._add_line_ends = _may_be_a_line(nonempty[0]) and _are_lines(*nonempty[:2])
        held, self._held = self._held, []
        if self._add_line_ends:
            held = [_with_end(line) for line in held]
        return self._begin(b"".join(held))

    def _begin(self, chunk: bytes) -> list[Event]:
        if not chunk.strip():
            self._held.append(chunk)
            return []
        self._decoder = _decoder_for(chunk)
        return self._decode(self._decoder, chunk)

    def _decode(self, decoder: _Decoder, chunk: bytes) -> list[Event]:
        events: list[Event] = []
        if not self._any_frame:
            self._first_bytes = (self._first_bytes + chunk)[:_SHOWN]
        for frame in decoder.feed(chunk):
            self._any_frame = True
            if isinstance(frame, Frame):
                events += self.assembler.feed(frame.data, frame.event)
            else:
                message = f"the stream breaks the rules of its format ({frame.reason})"
                events += self.assembler.break_off("broken_stream", message)
        return events


def _decoder_for(chunk: bytes) -> _Decoder:
    if chunk[0] == 0:  # the length of a message, which is less than 16 MiB
        return AwsEventStreamDecoder()
    start = chunk.removeprefix(b"\xef\xbb\xbf").lstrip()
    return JsonTextDecoder() if start.startswith((b"{", b"[")) else SseDecoder()


def _may_be_a_line(chunk: bytes) -> bool:
    return chunk.startswith(_LINE_STARTS) and b"\n" not in chunk and b"\r" not in chunk


def _are_lines(first: bytes, second: bytes) -> bool:
    """Tell lines without their ends from a text that happens to be cut without one."""
    if not second.startswith(_LINE_STARTS):
        return False
    if first.startswith((b"data:", b"{", b"[")):
        return _is_whole(first.removeprefix(b"data:"))
    return True


def _is_whole(data: bytes) -> bool:
    if data.strip() == b"[DONE]":
        return True
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _with_end(line: bytes) -> bytes:
    return line if line.endswith((b"\n", b"\r")) else line + b"\n"
