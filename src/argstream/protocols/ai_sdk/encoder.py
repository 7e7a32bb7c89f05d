"""A run as the AI SDK's UI message stream: one run is one message of the assistant.

One stream does for both versions: what only 7 knows is in fields that 6 does not look at. Each
stream begins with ``start`` and ends with ``finish``, ``abort`` or ``error``, and then ``[DONE]``.
A run that waits for a person ends its stream too; what follows the decision is a new stream, which
goes on in the same message, since its id is that of the run. A run that is only observed does not
pause; its stream ends when somebody is asked.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from argstream.events import Event, RunSnapshot, TurnCompleted
from argstream.history import Message
from argstream.log import Record
from argstream.protocols.ai_sdk._message import MessageWriter
from argstream.protocols.ai_sdk._parts import Part
from argstream.protocols.encoding import Parting, Written
from argstream.protocols.sse import frame
from argstream.snapshot_events import events_of

__all__ = ["HEADERS", "AiSdkEncoder"]

HEADERS: Final = {"x-vercel-ai-ui-message-stream": "v1"}
"""What a client may look for in the answer, beside what all streams have."""

_INTERVAL: Final = 0.05
_LONGEST_INTERVAL: Final = 1.0
_CHARACTERS_PER_SECOND: Final = 750_000
"""A client reads the whole input again with each piece, about 75 million characters a second: so it
spends a hundredth of its time on that."""

_NOTHING_SAID: Final = Message(role="assistant", parts=())
_LAST: Final = ("finish", "abort", "error")
_DONE: Final = b"data: [DONE]\n\n"
_WHY: Final[dict[Parting, str]] = {
    "shutdown": "the server ends; the answer goes on: resume the stream",
    "behind": "too much was missed; the answer goes on: resume the stream",
    "failure": "the answer cannot be read now: resume the stream",
}


class AiSdkEncoder:
    """Writes a run for ``useChat`` and its like."""

    can_catch_up: Final = False

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._writer = MessageWriter(run_id)

    @property
    def interval(self) -> float:
        """How long to collect, in seconds: longer while a long input is written."""
        wanted = self._writer.longest_input / _CHARACTERS_PER_SECOND
        return min(max(_INTERVAL, wanted), _LONGEST_INTERVAL)

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
        return _written(MessageWriter(self._run_id), _events(snapshot))

    def parting(self, why: Parting) -> bytes:
        """Write that it goes on elsewhere: a stream without an end would count as a whole one."""
        return frame({"type": "error", "errorText": _WHY[why]}) + _DONE


def _events(snapshot: Record) -> Iterator[Event]:
    told = snapshot.event
    if not isinstance(told, RunSnapshot):
        yield told
        return
    yield TurnCompleted(told.stop_reason, _NOTHING_SAID, told.usage)  # what it cost is told last
    yield from events_of(told, with_text=False)


def _written(writer: MessageWriter, events: Iterable[Event]) -> Written:
    data = bytearray()
    parts = chain(chain.from_iterable(map(writer.take, events)), _rest(writer))
    for part in parts:
        data += frame(part)
        if part["type"] in _LAST:
            data += _DONE
    return Written(bytes(data), ends=bool(data) and not writer.is_open)


def _rest(writer: MessageWriter) -> Iterator[Part]:
    yield from writer.rest()  # when all before it was taken
