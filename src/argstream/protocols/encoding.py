"""What a format of a run must be able to do: to be written once, for all who watch the run.

An encoder belongs to one run and one format. It is told where the run stands, and then what
happens, some records at a time; what it gives is sent to everybody who watches. Who comes later is
given an opening, which tells all so far, and then the same bytes as the others.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from argstream.errors import UsageError
from argstream.events import RunSnapshot
from argstream.log import Record

__all__ = [
    "INTERVAL",
    "PARTING_WORDS",
    "Encoder",
    "Parting",
    "Written",
    "interval_for",
    "snapshot_in",
]

INTERVAL: Final = 0.05
"""How long to collect what happens as a rule, in seconds."""

_LONGEST_INTERVAL: Final = 1.0

Parting: TypeAlias = Literal["shutdown", "behind", "failure"]
"""Why a stream ends before its run rests: the server ends and others go on with its runs; the
viewer has not read for so long that what he missed is gone; the log cannot be read. In each case he
can come again."""

PARTING_WORDS: Final[Mapping[Parting, str]] = {
    "shutdown": "the server ends",
    "behind": "too much was missed",
    "failure": "the run cannot be read now",
}
"""The same for who is sent away; each format adds how to come again."""


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
        """Take where the run stands: what is taken next goes on from there."""

    def take(self, records: Sequence[Record]) -> Written:
        """Write what has happened; neighbours that grow the same are joined already."""

    def opening(self, snapshot: Record) -> Written:
        """Write all so far for one who knows nothing of it; the encoder stays as it is."""

    def parting(self, why: Parting) -> bytes:
        """Write the last words for one whose stream ends before its run rests."""


def interval_for(length: int, characters_per_second: float) -> float:
    """Say how long to collect for clients that read so much again with each piece, in seconds.

    >>> interval_for(100, 1_000_000), interval_for(200_000, 1_000_000), interval_for(10**9, 1_000)
    (0.05, 0.2, 1.0)
    """
    return min(max(INTERVAL, length / characters_per_second), _LONGEST_INTERVAL)


def snapshot_in(record: Record) -> RunSnapshot:
    """Give the snapshot that a record holds; raises ``UsageError`` if it holds something else."""
    if isinstance(record.event, RunSnapshot):
        return record.event
    raise UsageError(f"a stream goes on from a snapshot of its run, not from {record.event.type}")
