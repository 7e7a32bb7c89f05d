"""When each thing in a recording could be known: its calls and their arguments, with moments."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from argstream.adapters import ProtocolName
from argstream.assembly import Call
from argstream.deltas import FREE_TEXT_KINDS
from argstream.events import (
    ArgumentCompleted,
    ArgumentStarted,
    Event,
    RunFailed,
    StreamFailed,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallStarted,
    TurnCompleted,
)
from argstream.jsonstream import JsonPath
from argstream.recording import Recording
from argstream.streaming import stream

__all__ = ["ArgumentTimes", "CallTimes", "Moment", "Timeline", "timeline_of"]


class Moment(NamedTuple):
    """A place in a recording."""

    at: float = 0.0
    """Seconds since the start."""
    byte: int = 0
    """How many bytes had come."""


@dataclass
class ArgumentTimes:
    """When an argument became visible."""

    path: JsonPath
    seen: Moment
    """Its first character."""
    settled: Moment | None = None
    """Its last one; None if that never came."""


@dataclass
class CallTimes:
    """A call, and when it was made."""

    call: Call
    started: Moment
    ended: Moment | None = None
    """When it had its verdict."""
    arguments: dict[JsonPath, ArgumentTimes] = field(default_factory=dict)


@dataclass
class Timeline:
    """All of it."""

    protocol: str = "auto"
    stop_reasons: list[str | None] = field(default_factory=list)
    calls: list[CallTimes] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def timeline_of(recording: Recording, protocol: ProtocolName, *, is_deep: bool) -> Timeline:
    """Read a recording, and note when what came. Deep: also what is inside of arguments."""
    return _Reading(recording, protocol, is_deep=is_deep).read()


class _Reading:
    """Gives lines to be read, and so knows when the events happen that are read from them."""

    def __init__(self, recording: Recording, protocol: ProtocolName, *, is_deep: bool) -> None:
        self._events = stream(self._lines_of(recording), protocol)
        self._timeline = Timeline()
        self._is_deep = is_deep
        self._now = Moment()
        self._calls: dict[str, CallTimes] = {}  # by id, of the turn

    def read(self) -> Timeline:
        """Read all of it."""
        for event in self._events:
            self._note(event)
        self._timeline.protocol = self._events.protocol
        return self._timeline

    def _lines_of(self, recording: Recording) -> Iterator[bytes]:
        """Give the lines; the events of one are there before the next is asked for."""
        sizes = [0, *(len(chunk.data) for chunk in recording.chunks), 0]
        for (at, line), count in zip(recording.lines(), sizes, strict=True):
            self._now = Moment(at, self._now.byte + count)
            yield line

    def _note(self, event: Event) -> None:
        """Note when this happens."""
        now, calls = self._now, self._calls
        match event:
            case ToolCallStarted(call_id, index):
                calls[call_id] = CallTimes(self._events.calls[index], now)
                self._timeline.calls.append(calls[call_id])
            case ToolArgsDelta(call_id) if calls[call_id].call.kind in FREE_TEXT_KINDS:
                calls[call_id].arguments.setdefault((), ArgumentTimes((), now))
            case ArgumentStarted(call_id, _, path) if self._is_deep or len(path) == 1:
                calls[call_id].arguments.setdefault(path, ArgumentTimes(path, now))
            case ArgumentCompleted(call_id, _, path) if path in calls[call_id].arguments:
                calls[call_id].arguments[path].settled = now
            case ToolArgsCompleted(call_id) | ToolArgsInvalid(call_id):
                calls[call_id].ended = now
                if isinstance(event, ToolArgsCompleted) and () in calls[call_id].arguments:
                    calls[call_id].arguments[()].settled = now
            case TurnCompleted(reason):
                self._timeline.stop_reasons.append(reason)
            case StreamFailed(_, message) | RunFailed(_, message):
                self._timeline.failures.append(message)
            case _:
                pass
