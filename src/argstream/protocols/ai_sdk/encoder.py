"""A run as the AI SDK's UI message stream: one run is one message of the assistant.

One stream does for both versions: what only 7 knows is in fields that 6 does not look at. Each
stream begins with ``start`` and ends with ``finish``, ``abort`` or ``error``, and then ``[DONE]``.
A run that waits for a person ends its stream too; what follows the decision is a new stream, which
goes on in the same message, since its id is that of the run. A run that is only observed does not
pause; its stream ends when somebody is asked.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from argstream.events import Event, TurnCompleted
from argstream.history import Message
from argstream.log import Record
from argstream.protocols.ai_sdk._message import MessageWriter
from argstream.protocols.ai_sdk._parts import Part
from argstream.protocols.encoding import (
    PARTING_WORDS,
    Parting,
    Written,
    interval_for,
    snapshot_in,
)
from argstream.protocols.sse import frame
from argstream.snapshot_events import events_of

__all__ = ["HEADERS", "AiSdkEncoder"]

HEADERS: Final = {"x-vercel-ai-ui-message-stream": "v1"}
"""What a client may look for in the answer, beside what all streams have."""

_CHARACTERS_PER_SECOND: Final = 750_000
"""A client reads the whole input again with each piece, about 75 million characters a second: so it
spends a hundredth of its time on that."""

_NOTHING_SAID: Final = Message(role="assistant", parts=())
_LAST: Final = ("finish", "abort", "error")
_DONE: Final = b"data: [DONE]\n\n"


class AiSdkEncoder:
    """Writes a run for ``useChat`` and its like."""

    can_catch_up: Final = False

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._writer = MessageWriter(run_id)

    @property
    def interval(self) -> float:
        """How long to collect, in seconds: longer while a long input is written."""
        return interval_for(self._writer.longest_input, _CHARACTERS_PER_SECOND)

    def begin(self, snapshot: Record) -> None:
        """Take where the run stands."""
        self._writer = MessageWriter(self._run_id)
        for event in _events(snapshot):
            self._writer.take(event)
        self._writer.rest()

    def take(self, records: Sequence[Record]) -> Written:
        """Write what has happened."""
        return _written(self._writer, (record.event for record in records))

    def opening(self, snapshot: Record) -> Written:
        """Write all so far: the client begins the message anew with it."""
        return _written(MessageWriter(self._run_id), _events(snapshot), self._writer)

    def parting(self, why: Parting) -> bytes:
        """Write that it goes on elsewhere: a stream without an end would count as a whole one."""
        message = f"{PARTING_WORDS[why]}; resume the stream"
        return frame({"type": "error", "errorText": message}) + _DONE


def _events(snapshot: Record) -> Iterator[Event]:
    run = snapshot_in(snapshot)
    yield TurnCompleted(run.stop_reason, _NOTHING_SAID, run.usage)  # what it cost is told last
    yield from events_of(run, with_text=False)


def _written(
    writer: MessageWriter, events: Iterable[Event], others: MessageWriter | None = None
) -> Written:
    """Write what is told of events; others are those with whom the client goes on from there."""
    parts: list[Part] = []
    for event in events:
        parts += writer.take(event)
    parts += writer.rest()
    if others is not None:
        parts += writer.joining(others)
    data = bytearray()
    for part in parts:
        data += frame(part)
        if part["type"] in _LAST:
            data += _DONE
    return Written(bytes(data), ends=bool(data) and not writer.is_open)
