"""The ``Argument…`` events of a log: computed anew, since a log does not hold them.

What a call's arguments say follows from their text. So ``ArgumentStarted``, ``ArgumentDelta`` and
``ArgumentCompleted`` are told behind each ``ToolArgsDelta`` as ``stream()`` told them when it came;
where a log has joined several deltas, behind all of these.

One thing differs. Who refuses a call in the middle of a delta (a schema, a policy) does so before
the rest of that delta is told. Here it is told, since the refusal comes only after it: it is what
the text says, though nobody acts on it.
"""

from collections.abc import Iterable, Iterator
from math import isinf
from typing import Final

from argstream.deltas import FREE_TEXT_KINDS, CallKind
from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentStarted,
    Event,
    RunSnapshot,
    SeenCall,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallStarted,
    TurnStarted,
)
from argstream.jsonstream import Done, Fragment, Invalid, Limits, Parser, Start, Text

__all__ = ["ArgumentViews", "with_arguments"]

_MAY_MEAN_AN_OBJECT: Final = ("object", "string", "null")


def with_arguments(events: Iterable[Event], limits: Limits | None = None) -> Iterator[Event]:
    r"""Give the events with those of the arguments among them.

    >>> call = [ToolCallStarted("c1", 0, "add"), ToolArgsDelta("c1", "add", '{"a": 1, "b')]
    >>> [event.type for event in with_arguments(call)]
    ['tool_call_started', 'tool_args_delta', 'argument_started', 'argument_completed']
    """
    views = ArgumentViews(limits)
    for event in events:
        yield from views.take(event)


class ArgumentViews:
    """The same for who is told one event at a time."""

    def __init__(self, limits: Limits | None = None) -> None:
        """Read with the limits that ``stream()`` had, if they were not the usual ones."""
        self._limits = limits
        self._parsers: dict[str, Parser] = {}  # of the calls that are being written

    def take(self, event: Event) -> list[Event]:
        """Give the event, and what it says of arguments.

        A ``RunSnapshot`` stands for all before it: what it tells of is not told again. Of a call
        whose beginning was not seen nothing is told. ``Argument…`` events are left out: they are
        computed.
        """
        match event:
            case ToolArgsDelta(call_id=call_id, name=name, delta=text):
                return [event, *self._read(call_id, name, text)]
            case ArgumentStarted() | ArgumentDelta() | ArgumentCompleted():
                return []
            case ToolCallStarted(call_id=call_id, kind=kind):
                self._open(call_id, kind)
            case ToolArgsCompleted(call_id=call_id) | ToolArgsInvalid(call_id=call_id):
                self._parsers.pop(call_id, None)
            case TurnStarted(attempt=attempt) if attempt > 1:
                self._parsers.clear()  # what was being written is lost
            case RunSnapshot():
                self._go_on_from(event)
            case _:
                pass
        return [event]

    def _go_on_from(self, snapshot: RunSnapshot) -> None:
        self._parsers.clear()
        for seen in snapshot.blocks:
            if isinstance(seen, SeenCall) and seen.verdict is None and not seen.is_lost:
                self._open(seen.call_id, seen.kind)
                self._read(seen.call_id, seen.name, seen.raw)

    def _open(self, call_id: str, kind: CallKind) -> None:
        self._parsers.pop(call_id, None)  # an attempt that was lost may have used the id
        if kind not in FREE_TEXT_KINDS:
            self._parsers[call_id] = Parser(self._limits, unique_keys=True)

    def _read(self, call_id: str, name: str, text: str) -> list[Event]:
        parser = self._parsers.get(call_id)
        if parser is None:
            return []
        events: list[Event] = []
        for fragment in parser.feed(text):
            match fragment:
                case Text(path, piece) if path:
                    events.append(ArgumentDelta(call_id, name, path, piece))
                case _ if _ends_reading(fragment):
                    del self._parsers[call_id]
                    break
                case Start(path, kind, _) if path:
                    events.append(ArgumentStarted(call_id, name, path, kind))
                case Done(path, value, _) if path:
                    events.append(ArgumentCompleted(call_id, name, path, value))
                case _:
                    pass  # about the whole: its end is that of the call
        return events


def _ends_reading(fragment: Fragment) -> bool:
    """Say whether a text in which this stands cannot be arguments: nothing more is told of it."""
    match fragment:
        case Start((), kind, _):
            return kind not in _MAY_MEAN_AN_OBJECT
        case Done(_, float(value), _):
            return isinf(value)  # JSON, but it could not be sent back
        case _:
            return isinstance(fragment, Invalid)
