"""The contract of a UI protocol, and what the encoders share.

An encoder belongs to one run and one format. It is given a snapshot and then records, and writes
bytes that all viewers share. A late viewer is sent an opening, which tells all so far, and then the
same bytes. That works because an encoder is pure: its state follows from the run alone, and it
never looks at the clock. Records are split at each pause, because the streams of other protocols
end there, and the next request continues from that very place.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec import Meta

from argstream.errors import UsageError
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    RunSnapshot,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolOutputDelta,
    Usage,
)
from argstream.runs._records import Record

INTERVAL: Final = 0.05
"""How long to collect what happens as a rule, in seconds."""

_LONGEST_INTERVAL: Final = 1.0

CloseReason: TypeAlias = Literal["shutdown", "behind", "failure"]
"""Why a stream ends before its run rests: the server ends and others go on with its runs; the
viewer has not read for so long that what he missed is gone; the log cannot be read. In each case he
can come again."""

PARTING_WORDS: Final[Mapping[CloseReason, str]] = {
    "shutdown": "the server ends",
    "behind": "too much was missed",
    "failure": "the run cannot be read now",
}
"""The same for viewers that are disconnected; each format adds how to reconnect."""


class Written(NamedTuple):
    """Bytes for a viewer."""

    data: bytes
    ends: bool = False
    """Whether that was all: what comes after it is for another request."""


class Encoder(Protocol):
    """Writes one run in one format."""

    @property
    def can_catch_up(self) -> bool:
        """Whether an opening may come in the middle of a stream, in place of what was missed."""

    @property
    def interval(self) -> float:
        """How long to collect what happens before it is written, in seconds, as of now.

        Longer where each piece costs a client more than the one before.
        """

    def begin(self, snapshot: Record) -> None:
        """Continue from where the run stands."""

    def take(self, records: Sequence[Record]) -> Written:
        """Write what has happened. Neighbouring deltas are joined already."""

    def replay(self, snapshot: Record) -> Written:
        """Write all so far for a new viewer. The encoder itself does not change."""

    def close_reason(self, why: CloseReason) -> bytes:
        """Write why the stream ends before the run rests."""


def interval_for(length: int, characters_per_second: float) -> float:
    """Return for how many seconds to collect, for clients that read all again with each piece.

    >>> interval_for(100, 1_000_000), interval_for(200_000, 1_000_000), interval_for(10**9, 1_000)
    (0.05, 0.2, 1.0)
    """
    return min(max(INTERVAL, length / characters_per_second), _LONGEST_INTERVAL)


def snapshot_in(record: Record) -> RunSnapshot:
    if isinstance(record.event, RunSnapshot):
        return record.event
    raise UsageError(f"a stream goes on from a snapshot of its run, not from {record.event.type}")


_encoder = msgspec.json.Encoder()
_RETRY_MILLISECONDS: Final = 1_000


def frame(data: object, seq: int | None = None) -> bytes:
    r"""Write an event whose data is JSON, which has no line breaks; its id is the seq of a record.

    >>> frame({"text": "one\ntwo"}, 7)
    b'id: 7\ndata: {"text":"one\\ntwo"}\n\n'
    """
    start = b"data: " if seq is None else b"id: %d\ndata: " % seq
    return start + _encoder.encode(data) + b"\n\n"


def comment(text: str = "") -> bytes:
    """Write a comment. Clients ignore it; it keeps the connection open."""
    return b": " + " ".join(text.splitlines()).encode() + b"\n\n"


def reconnect(why: str) -> bytes:
    """Ask the client to reconnect soon. Browsers then send the last ID that they saw."""
    return b"retry: %d\n" % _RETRY_MILLISECONDS + comment(why)


ChosenId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
"""An ID that a client chooses, such as that of a conversation (a chat, a thread)."""

Reason: TypeAlias = Annotated[str, Meta(max_length=10_000)]
"""Why a person decides so: the model is told, and all who watch."""


CallEvent: TypeAlias = (
    ApprovalDecided
    | ApprovalRequested
    | ToolArgsCompleted
    | ToolArgsDelta
    | ToolArgsInvalid
    | ToolCallCompleted
    | ToolCallFailed
    | ToolOutputDelta
)
"""What may become of a call that has begun."""


class CallIds:
    """What clients call the calls of a run: a turn that begins again may use an id twice.

    >>> ids = CallIds()
    >>> ids.begin("c1"), ids.begin("c1"), ids.of("c1"), ids.of("c2")
    ('c1', 'c1~2', 'c1~2', 'c2')
    """

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()  # how often each has occurred

    def begin(self, call_id: str) -> str:
        self._times[call_id] += 1
        return self.of(call_id)

    def of(self, call_id: str) -> str:
        """Return the ID of the last call that began under this ID."""
        times = self._times[call_id]
        return call_id if times <= 1 else f"{call_id}~{times}"


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def usage_counts(usage: Usage) -> dict[str, int]:
    """Return the usage under the names that both front-end protocols share. Unknown is left out."""
    counts = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
        "cachedInputTokens": usage.cache_read_tokens,
        "reasoningTokens": usage.reasoning_tokens,
    }
    return {name: number for name, number in counts.items() if number is not None}
