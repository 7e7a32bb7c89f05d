"""The native format: the records of a run, as server-sent events whose ids are their ``seq``.

Each event is one JSON object: ``seq``, ``time``, and either ``event``, as in ``argstream.events``,
or ``snapshot``. A piece of a call's arguments comes with ``arguments``: the ``Argument…`` events
that follow from it. So a page need not parse incomplete JSON. A snapshot stands for everything
before it. It may be sent at any time: to a late viewer, or to one that did not read for a while.

The message of a complete turn has no parts, because its content was already sent. Data that only
the provider understands (signatures, encrypted thinking) stays on the server.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from msgspec import Struct
from msgspec.structs import replace

from argstream.events import ArgumentEvent, Event, RunSnapshot, RunStarted, TurnCompleted
from argstream.history import Message, OpaquePart
from argstream.protocols._base import (
    CLOSE_MESSAGES,
    CloseReason,
    Encoded,
    Encoder,
    Events,
    Written,
    encode_with,
    frame,
    reconnect,
    sync_or_async,
)
from argstream.runs._records import Record, joined
from argstream.runs._state import Call
from argstream.sanitise import encode_json

__all__ = ["Frame", "NativeEncoder", "encode"]

_MOST_DEFERRED: Final = 64  # records


class Frame(Struct, frozen=True, omit_defaults=True):
    """One server-sent event: an event of the run, or a snapshot of it."""

    seq: int
    time: float
    event: Event | None = None
    snapshot: RunSnapshot | None = None
    arguments: tuple[ArgumentEvent, ...] = ()
    """The argument events of ``event``; with a snapshot, those of the calls in progress."""


@sync_or_async
def encode(events: Events) -> Encoded:
    """Encode the events of ``stream()`` or of a run."""
    return encode_with(NativeEncoder(), events)


class NativeEncoder(Encoder):
    """Writes a run in the native format."""

    can_catch_up: ClassVar[bool] = True

    def __init__(self, *, with_history: bool = True) -> None:
        """Include the messages before the run, or leave them out."""
        super().__init__(arguments="events")
        self._with_history = with_history
        # Deltas that are applied together, when more of the state is read than its seq.
        self._deferred: list[Record] = []

    def encode(self, records: Sequence[Record]) -> Written:
        """Write the next records."""
        data = b"".join([frame(self._frame(record), record.seq) for record in records])
        return Written(data, ends=self.state.end is not None)

    def line(self, record: Record) -> bytes:
        """Write the next record as a line of JSON."""
        return encode_json(self._frame(record)) + b"\n"

    def _frame(self, record: Record) -> Frame:
        state, known = self.state, record.arguments
        if known is not None and record.seq > state.seq and len(self._deferred) < _MOST_DEFERRED:
            self._deferred.append(record)
            state.seq = record.seq
            return Frame(record.seq, record.time, record.event, arguments=tuple(known))
        self._apply_deferred()
        changes = state.apply_record(record)
        arguments = [one.event for one in changes if isinstance(one.event, ArgumentEvent)]
        event = record.event
        if isinstance(event, TurnCompleted):
            event = replace(event, message=replace(event.message, parts=()))
        elif isinstance(event, RunStarted) and event.history:
            event = replace(event, history=self._history(event.history))
        return Frame(record.seq, record.time, event, arguments=tuple(arguments))

    def _apply_deferred(self) -> None:
        for record in joined(self._deferred):
            self.state.apply(record.event, record.time, record.arguments)
        self._deferred.clear()

    def replay(self) -> Written:
        """Write a snapshot of the run."""
        self._apply_deferred()
        snapshot = self.state.snapshot()
        snapshot = replace(snapshot, history=self._history(snapshot.history))
        calls = (block for block in self.state.blocks if isinstance(block, Call))
        open_calls = (call for call in calls if call.arguments is None and not call.is_lost)
        arguments = tuple(event for call in open_calls for event in call.argument_events())
        first = Frame(snapshot.seq, snapshot.time, None, snapshot, arguments)
        return Written(frame(first, snapshot.seq), ends=snapshot.end is not None)

    def close_reason(self, why: CloseReason) -> bytes:
        """Ask the viewer to reconnect."""
        return reconnect(f"{CLOSE_MESSAGES[why]}; reconnect")

    def _history(self, messages: Iterable[Message]) -> tuple[Message, ...]:
        return tuple(map(_without_items, messages)) if self._with_history else ()


def _without_items(message: Message) -> Message:
    shown = (part for part in message.parts if not isinstance(part, OpaquePart))
    return replace(message, parts=tuple(replace(part, item=None) for part in shown))
