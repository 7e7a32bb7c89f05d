"""Our own format: the records of a run, as server-sent events whose ids are their seqs.

Each event is one JSON object: ``seq``, ``time``, ``event`` (as ``argstream.events`` has it) and,
for what is written of a call's arguments, ``arguments``: the ``Argument…`` events that follow from
it. So a page need not parse JSON that is not whole. A ``run_snapshot`` stands for all before it,
and may come at any time: to a late viewer, and to one that did not read for a while.

Of a turn that is complete it says no more than that: what is in its message has been told. Forms of
the provider's own (signatures, encrypted thoughts) stay on the server.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from argstream.events import (
    CallSnapshot,
    Event,
    RunEnd,
    RunSnapshot,
    RunStarted,
    ToolArgsDelta,
    ToolCallStarted,
    TurnCompleted,
)
from argstream.history import Message, OpaquePart
from argstream.protocols._base import (
    INTERVAL,
    PARTING_WORDS,
    CloseReason,
    Written,
    frame,
    reconnect,
    snapshot_in,
)
from argstream.runs._records import Record
from argstream.runs._run import ArgumentEvents

__all__ = ["Frame", "NativeEncoder"]

_encoder = msgspec.json.Encoder()


class Frame(Struct, frozen=True, omit_defaults=True):
    """What is told at once."""

    seq: int
    time: float
    event: Event
    arguments: Sequence[Event] = ()
    """What the event says of arguments; of a snapshot, what calls say that are not whole."""
    conversation_id: str = ""
    """The conversation; in snapshots only."""
    agent: str = ""


class NativeEncoder:
    """Writes a run in our own format."""

    can_catch_up: Final = True
    interval: Final = INTERVAL

    def __init__(self, *, with_history: bool = True) -> None:
        """Write it with what was said before the run, or without: a page may know that already."""
        self._views = ArgumentEvents()
        self._with_history = with_history

    def begin(self, snapshot: Record) -> None:
        """Set the state of the run."""
        self._views.take(snapshot.event)

    def take(self, records: Sequence[Record]) -> Written:
        """Write what has happened."""
        written = b"".join(frame(self._told(record), record.seq) for record in records)
        return Written(written, ends=bool(records) and isinstance(records[-1].event, RunEnd))

    def line(self, record: Record) -> bytes:
        """Write what has happened as a line of JSON: the same without what streams need."""
        return _encoder.encode(self._told(record)) + b"\n"

    def _told(self, record: Record) -> Frame:
        _, *views = self._views.take(record.event)
        event = _told(record.event, with_history=self._with_history)
        return Frame(record.seq, record.time, event, tuple(views))

    def replay(self, snapshot: Record) -> Written:
        """Write the run as far as it has come."""
        run = snapshot_in(snapshot)
        opening = Frame(
            snapshot.seq,
            snapshot.time,
            _told(run, with_history=self._with_history),
            _views_of(run),
            snapshot.conversation_id,
            snapshot.agent,
        )
        return Written(frame(opening, snapshot.seq), ends=run.end is not None)

    def close_reason(self, why: CloseReason) -> bytes:
        """Write that the viewer should come again."""
        return reconnect(f"{PARTING_WORDS[why]}; come again")


def _told(event: Event, *, with_history: bool) -> Event:
    """Return an event as viewers receive it."""
    match event:
        case TurnCompleted(message=message):
            return replace(event, message=replace(message, parts=()))
        case RunStarted(history=history) | RunSnapshot(history=history) if history:
            return replace(event, history=_without_items(history) if with_history else ())
        case _:
            return event


def _without_items(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(
        replace(
            message,
            parts=tuple(
                replace(part, item=None)
                for part in message.parts
                if not isinstance(part, OpaquePart)
            ),
        )
        for message in messages
    )


def _views_of(snapshot: RunSnapshot) -> list[Event]:
    """Return the argument events of the calls that are still being written.

    Of calls that were lost, nothing: there may be others with their ids.
    """
    views: list[Event] = []
    for call in snapshot.blocks:
        if (
            isinstance(call, CallSnapshot)
            and not call.is_lost
            and call.arguments is None
            and call.raw
        ):
            reading = ArgumentEvents()
            reading.take(ToolCallStarted(call.call_id, call.index, call.name, call.kind))
            views += reading.take(ToolArgsDelta(call.call_id, call.name, call.raw))[1:]
    return views
