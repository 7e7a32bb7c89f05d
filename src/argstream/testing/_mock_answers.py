"""What is sent, and when: an answer with its faults, as writes to a connection."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple, TypeVar

from argstream.testing._mock_wire import STATUS_MESSAGES, Dialect, decode, encode
from argstream.testing.chunking import cut
from argstream.testing.faults import Cut, ErrorEvent, Fault, Malformed, Place, Slow, Split, Status
from argstream.wire import Frame, SseDecoder

__all__ = ["Answer", "Write", "error_answer", "fault_answer", "stream_answer", "whole_answer"]

_Fault = TypeVar("_Fault", bound=Fault)


class Write(NamedTuple):
    """Bytes that are sent at once, after a pause."""

    data: bytes
    seconds_before: float = 0.0


@dataclass(frozen=True)
class Answer:
    """A response, decided in full before its first byte is sent."""

    status: int
    headers: Mapping[str, str]
    writes: Sequence[Write]
    length: int | None = None
    """Of the body, if it is sent whole; a stream is sent in chunks, one for each write."""
    seconds_before: float = 0.0
    """How long to wait with all of it."""
    is_cut: bool = field(default=False, kw_only=True)
    """Whether the connection is closed without an orderly end."""


def error_answer(dialect: Dialect, status: int, message: str) -> Answer:
    """Refuse, in the form of the API."""
    body = encode(dialect.error(status, message))
    return Answer(status, {"content-type": "application/json"}, [Write(body)], len(body))


def fault_answer(dialect: Dialect, faults: Sequence[Fault], *, streamed: bool) -> Answer | None:
    """Give the error that takes the place of an answer, if a fault says so."""
    for fault in faults:
        if isinstance(fault, Status) or (isinstance(fault, ErrorEvent) and not streamed):
            answer = error_answer(dialect, fault.status, _message(fault))
            retry_after = fault.retry_after if isinstance(fault, Status) else None
            if retry_after is None and fault.status == 429:
                retry_after = 1
            headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
            return replace(
                answer,
                headers={**answer.headers, **headers},
                seconds_before=_Timing(faults).before,
            )
    return None


def stream_answer(dialect: Dialect, events: Iterable[bytes], faults: Sequence[Fault]) -> Answer:
    """Send events, each as a write of its own unless they are split."""
    events = list(events)
    for broken in _of(Malformed, faults):
        if events:
            index = min(_event_at(broken.at, events), len(events) - 1)
            events[index] = _halved(events[index])
    for error in _of(ErrorEvent, faults):
        index = min(_event_at(error.at, events), len(events))
        events[index:] = dialect.error_events(error.status, _message(error), index)
    headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    return _written(events, headers, None, faults)


def whole_answer(body: bytes, faults: Sequence[Fault]) -> Answer:
    """Send a body at once."""
    if _of(Malformed, faults):
        body = body[: len(body) // 2]
    return _written([body], {"content-type": "application/json"}, len(body), faults)


def _written(
    writes: list[bytes], headers: dict[str, str], length: int | None, faults: Sequence[Fault]
) -> Answer:
    starts = [0, *accumulate(map(len, writes[:-1]))]  # of events, which a split may put elsewhere
    # The shortest counts, if there are several.
    ends = [_byte_at(fault.at, writes) for fault in _of(Cut, faults)]
    if ends:
        writes = _up_to(min(ends), writes)
    for split in _of(Split, faults):
        writes = cut(b"".join(writes), _sizes(split, sum(map(len, writes))))
    timing = _Timing(faults)
    before, between = timing.before, timing.between
    if timing.total is not None:
        between = timing.total / max(1, len(starts) - 1)
        before += timing.total if len(starts) == 1 else 0
    timed = _timed(writes, starts, between)
    return Answer(200, headers, timed, length, before, is_cut=bool(ends))


class _Timing:
    """What all faults say about time, together."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        slow = _of(Slow, faults)
        self.before = sum(fault.before for fault in slow)
        self.between = sum(fault.between for fault in slow)
        self.total = max((fault.total for fault in slow if fault.total is not None), default=None)


def _timed(writes: list[bytes], starts: list[int], between: float) -> list[Write]:
    """Wait before a write for each event that begins in it, but not for the first of all."""
    ends = list(accumulate(map(len, writes)))
    counts = [0] * len(writes)
    for start in starts[1:]:
        write = bisect_right(ends, start)
        if write < len(writes):  # the rest is cut off
            counts[write] += 1
    return [Write(data, between * count) for data, count in zip(writes, counts, strict=True)]


def _of(kind: type[_Fault], faults: Sequence[Fault]) -> list[_Fault]:
    return [fault for fault in faults if isinstance(fault, kind)]


def _event_at(place: Place, events: list[bytes]) -> int:
    """Say how many events come before a place."""
    if place != "call":
        return place
    pieces = [index for index, event in enumerate(events) if _has_arguments(event)]
    return pieces[len(pieces) // 2] if pieces else len(events) // 2


def _byte_at(place: Place, writes: list[bytes]) -> int:
    """Say how many bytes come before a place: for a call, half of the event in its middle."""
    if place != "call":
        return place
    index = _event_at(place, writes)
    return sum(map(len, writes[:index])) + len(writes[index]) // 2 if writes else 0


def _up_to(end: int, writes: list[bytes]) -> list[bytes]:
    starts = accumulate(map(len, writes), initial=0)
    kept = [write[: max(0, end - start)] for start, write in zip(starts, writes, strict=False)]
    return [write for write in kept if write]


def _sizes(split: Split, length: int) -> list[int]:
    if split.seed is None:
        return list(split.sizes)
    random = Random(split.seed)  # noqa: S311 - not for secrets
    return [random.randint(1, max(split.sizes)) for _ in range(length)] or [1]


def _halved(event: bytes) -> bytes:
    """Leave half of an event's payload: no half of an object is JSON."""
    start = event.rfind(b"data:") + len(b"data:")
    text = event.rstrip(b"\r\n")
    return text[: max(start + 1, (start + len(text)) // 2)] + b"\n\n"


def _message(fault: Status | ErrorEvent) -> str:
    return fault.message or STATUS_MESSAGES.get(fault.status, "An error, as was asked")


def _has_arguments(event: bytes) -> bool:
    """Say whether an event is a piece of a tool's arguments, in any of the APIs."""
    decoder = SseDecoder()
    frames = [*decoder.feed(event), *decoder.close()]
    return any(
        _is_argument_piece(decode(frame.data)) for frame in frames if isinstance(frame, Frame)
    )


def _is_argument_piece(payload: Any) -> bool:
    match payload:
        case {"delta": {"partial_json": str(piece)}}:
            return bool(piece)
        case {
            "choices": [{"delta": {"tool_calls": [{"function": {"arguments": str(piece)}}, *_]}}]
        }:
            return bool(piece)
        case {"type": str(type_), "delta": str(piece)} if type_.endswith("_call_arguments.delta"):
            return bool(piece)
        case _:
            return False
