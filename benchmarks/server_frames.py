"""What a viewer is sent, taken apart and checked: frames of our own format, as bytes in chunks."""

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from server_pace import CONTENT, Mark, marks_of

__all__ = ["Frame", "Pieces", "Viewing", "Wrong"]

_TEXTS = {"text_delta": "text", "tool_args_delta": "delta"}


class Wrong(Exception):  # noqa: N818 - what was sent is, not this program
    """What was sent is not what it must be."""


class Frame:
    """One event that was sent, and when it was at each who watches."""

    __slots__ = ("arrivals", "dues", "ends", "first", "is_snapshot", "last", "seq")

    def __init__(self, seq: int, event: Mapping[str, Any], views: Sequence[Mapping[str, Any]]):
        self.seq = seq
        self.is_snapshot = event["type"] == "run_snapshot"
        self.ends = event["type"] == "run_completed"
        marks = _marks(event, views)
        numbers = [mark.number for mark in marks]
        self.first, self.last = (numbers[0], numbers[-1]) if numbers else (0, 0)
        if numbers != list(range(self.first, self.first + len(numbers))):
            raise Wrong(f"the frame {seq} has the pieces {numbers}")
        self.dues = array("d", [mark.due for mark in marks])
        self.arrivals = array("d")

    def delays(self) -> Iterator[float]:
        """Say how long each piece in it took to each who watches."""
        if not self.is_snapshot:
            for arrival in self.arrivals:
                for due in self.dues:
                    yield arrival - due


def _marks(event: Mapping[str, Any], views: Sequence[Mapping[str, Any]]) -> list[Mark]:
    kind = event["type"]
    if kind == "run_snapshot":
        marks: list[Mark] = []
        for block in event["blocks"]:
            marks += marks_of(block.get("text", block.get("raw", "")))
        return marks
    if kind not in _TEXTS:
        return []
    marks = marks_of(event[_TEXTS[kind]])
    if kind == "tool_args_delta":
        views = [view for view in views if view["type"] == "argument_delta"]
        told = "".join(view["text"] for view in views if view["path"] == [CONTENT])
        if marks_of(told) != marks:
            raise Wrong(f"the views do not say what the arguments say: {told[:200]}")
    return marks


class Pieces:
    """The body of an answer as it comes: out of its chunks, and parted into events."""

    def __init__(self) -> None:
        self._head = True
        self._raw = b""
        self._body = b""
        self.is_over = False
        """Whether the last chunk was there."""

    @property
    def is_between(self) -> bool:
        """Whether nothing has come that is not whole."""
        return not (self._head or self._raw or self._body)

    def take(self, data: bytes) -> list[Frame]:
        """Take what came, and give the frames that are whole."""
        self._raw += data
        if self._head and not self._take_head():
            return []
        self._unwrap()
        *events, self._body = self._body.split(b"\n\n")
        return [frame for event in events if (frame := _read(event)) is not None]

    def _take_head(self) -> bool:
        head, found, rest = self._raw.partition(b"\r\n\r\n")
        if not found:
            return False
        if not head.startswith(b"HTTP/1.1 200 "):
            raise Wrong(f"the server answers {self._raw[:500]!r}")
        self._head, self._raw = False, rest
        return True

    def _unwrap(self) -> None:
        raw, start = self._raw, 0
        body = [self._body]
        while (end := raw.find(b"\r\n", start)) >= 0:
            size = int(raw[start:end], 16)
            if len(raw) < end + 4 + size:
                break
            body.append(raw[end + 2 : end + 2 + size])
            start = end + 4 + size
            self.is_over = self.is_over or size == 0
        self._raw, self._body = raw[start:], b"".join(body)


def _read(event: bytes) -> Frame | None:
    fields = dict(line.split(b": ", 1) for line in event.split(b"\n") if not line.startswith(b":"))
    if b"data" not in fields:
        return None
    told = json.loads(fields[b"data"])
    if int(fields[b"id"]) != told["seq"]:
        raise Wrong("the id of an event is not its seq")
    return Frame(told["seq"], told["event"], told.get("arguments", ()))


class Viewing:
    """One who watches: how far he has come, and whether that goes on as it must."""

    __slots__ = ("frames", "has_ended", "last", "pieces", "seq", "snapshots", "wanted")

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        """How many pieces there are in all."""
        self.pieces = Pieces()
        self.seq = 0
        self.last = 0
        self.frames = 0
        self.snapshots = 0
        self.has_ended = False

    def take(self, frame: Frame, now: float) -> None:
        """Take a frame that has come; raises Wrong if it cannot be the next one."""
        if frame.seq <= self.seq:
            raise Wrong(f"after {self.seq} came {frame.seq}")
        if self.has_ended:
            raise Wrong("something came after the end")
        if frame.is_snapshot:
            self.snapshots += 1
            if frame.last < self.last:
                raise Wrong(f"the piece {self.last} is gone after a snapshot")
            self.last = frame.last
        elif frame.first:
            if frame.first != self.last + 1:
                raise Wrong(f"after the piece {self.last} came {frame.first}")
            self.last = frame.last
        self.seq = frame.seq
        self.frames += 1
        self.has_ended = frame.ends
        frame.arrivals.append(now)
