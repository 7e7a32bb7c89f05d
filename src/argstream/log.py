"""A run is a log: its records, and what a store of such logs must do.

A record is an event with its place. ``seq`` counts from 1 without gaps; it is what a follower names
to go on after it. Who drives a run holds the *claim* on it, for so many seconds, and renews that.
Each claim has a higher ``token`` than the one before; a store refuses what is written with any but
the newest. So a process that was taken for dead cannot write any more, nor begin anything, since
what is begun is written first (invariant 11).

Anybody may *post*: decide on a call that somebody is asked about, or stop the run. Who drives the
run hears of it; if nobody does, it waits for who goes on with it. The first decision on a call
counts, and whoever comes second is told.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, Protocol, Self

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from argstream.decisions import Approval, Decisions
from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentStarted,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunSnapshot,
    RunStarted,
    RunStatus,
    RunStopped,
    TextDelta,
    ThinkingDelta,
    ToolArgsDelta,
    ToolOutputDelta,
)

__all__ = [
    "Claim",
    "Posts",
    "Record",
    "RunInfo",
    "Store",
    "coalesced",
    "from_json",
    "is_durable",
    "is_stored",
    "joined",
    "merged",
    "status_after",
    "to_json",
]


class Record(Struct, frozen=True, gc=False):
    """An event of a run, with its place in the log."""

    seq: int
    """From 1 on, without gaps."""
    time: float
    """When it was written, in seconds since 1970."""
    run_id: str
    session_id: str
    """The conversation that the run is a part of."""
    agent: str
    """The name of the agent."""
    event: Event


class Claim(Struct, frozen=True):
    """The right to drive a run, until somebody has a newer one."""

    run_id: str
    owner: str
    """Who has it, in words for a person."""
    token: int
    """Higher with each claim on the run."""


class Posts(Struct, frozen=True):
    """What was posted to a run and has not been followed by an event yet."""

    decisions: Mapping[str, Approval] = {}
    times: Mapping[str, float] = {}
    """When each was decided, in seconds since 1970."""
    stop_reason: str | None = None
    """Why somebody wants it stopped; None if nobody does."""


class RunInfo(Struct, frozen=True, kw_only=True):
    """What is known of a run without reading its log."""

    run_id: str
    session_id: str
    agent: str
    status: RunStatus
    seq: int
    """Of its last record."""
    created: float
    updated: float
    """When its last record was written."""
    owner: str | None = None
    """Who drives it: None if nobody has a claim that is still good."""
    claimed_until: float | None = None
    pending: Mapping[str, str] = {}
    """The calls that somebody must decide on, with the digests of their requests."""
    has_posts: bool = False
    """Whether something was posted that waits for who drives it: see ``Store.posted``."""
    user: str = ""
    """Whose run it is, as its ``RunStarted`` says; empty if it is nobody's in particular."""

    @property
    def calls_by_digest(self) -> dict[str, str]:
        """The calls that somebody must decide on, by the digests of their requests."""
        return {digest: call_id for call_id, digest in self.pending.items()}

    @property
    def is_over(self) -> bool:
        """Whether its last event is in the log."""
        return self.status not in ("running", "paused")

    @property
    def is_abandoned(self) -> bool:
        """Whether it should go on, and nobody drives it: ``Agent.resume`` goes on with it."""
        return self.status == "running" and self.owner is None


class Store(Protocol):
    """Keeps the logs of runs. Each of these may be called from any event loop, and at once.

    All raise ``StoreFailure`` if the store does not work, and ``UnknownRun`` for a run that it does
    not have.
    """

    # Who drives a run

    async def begin(self, records: Sequence[Record], owner: str, seconds: float) -> Claim:
        """Make a run of its first records, with a claim on it: all of it, or nothing."""

    async def claim(self, run_id: str, owner: str, seconds: float) -> Claim:
        """Claim a run, for so many seconds; raises ``RunTaken`` while somebody else has it."""

    async def renew(self, claim: Claim, seconds: float) -> None:
        """Keep a claim, for so many seconds from now; raises ``RunTaken`` if it was lost."""

    async def release(self, claim: Claim) -> None:
        """Give up a claim: anybody may claim the run at once. One that was lost is let be.

        For a run that goes on: when it rests, the claim is given up by ``append``.
        """

    async def append(self, claim: Claim, records: Sequence[Record]) -> None:
        """Write records, all of them or none, and return when they are there.

        They go on after the last, without a gap. Those that are durable (``is_durable``) survive
        the machine's end, as does all before them; others the end of the process. Raises
        ``RunTaken`` if the claim was lost. Records that are there already are let be: so one can
        try again who does not know whether it worked. Raises ``UsageError`` for a gap, and if the
        run is over.

        With records after which the run has paused, or is over, the claim is given up as well: who
        sees them can go on with the run at once.
        """

    async def reopen(self, claim: Claim, call_id: str) -> None:
        """Take a decision back that cannot be used, so that somebody can decide anew."""

    # Who follows it

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Record]:
        """Give the records after a seq: all there are, or so many."""

    def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[Record, None]:
        """Give the records after a seq, those to come too, until the run is over.

        Records that nobody fetches wait in the store, not in memory.
        """

    async def snapshot(self, run_id: str) -> Record:
        """Give the run as far as it has come: a ``RunSnapshot`` under the last seq."""

    def join(self, run_id: str) -> AsyncGenerator[Record, None]:
        """Give a snapshot, and then what follows it, until the run is over."""

    # Anybody

    async def decide(self, run_id: str, decisions: Decisions) -> None:
        """Decide on calls that somebody is asked about: on all of them, or none.

        Raises ``AlreadyDecided`` if somebody was quicker, ``UsageError`` if nobody is asked about a
        call, or a digest is given that is not that of its request. Whether the arguments of an edit
        are valid only the tool can say: one that is not is taken back by who drives the run.
        """

    async def stop(self, run_id: str, reason: str = "") -> None:
        """Ask for the end of a run. Who drives it ends it; the first reason counts.

        Raises ``UsageError`` if it is over. One that nobody drives ends when somebody goes on with
        it: see ``Agent.stop``.
        """

    async def posted(self, run_id: str) -> Posts:
        """Give what was posted and waits for who drives the run."""

    def posts(self, run_id: str) -> AsyncGenerator[Posts, None]:
        """Give what was posted: first what there is, be it nothing, then whenever it has changed.

        Until the run is over.
        """

    async def info(self, run_id: str) -> RunInfo:
        """Say what is known of a run."""

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        session_id: str | None = None,
        user: str | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        """List runs, those with the newest records first.

        ``None`` is all of them. The ``user`` ``""`` has those that are nobody's in particular.
        """

    async def delete(self, run_id: str) -> None:
        """Forget a run; raises ``RunTaken`` while somebody drives it."""

    async def expire(self, seconds: float, *, unfinished: bool = False) -> int:
        """Forget the runs that have been over for so long, and say how many these were.

        With ``unfinished`` also those in which nothing has happened for so long, and that nobody
        drives.
        """

    async def aclose(self) -> None:
        """Close what is open; those who follow are told that it is closed (``StoreFailure``)."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *failure: object) -> None: ...


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def to_json(record: Record) -> bytes:
    """Write a record as one line of JSON."""
    return _encoder.encode(record)


def from_json(line: bytes | str) -> Record:
    """Read a record that ``to_json`` wrote."""
    return _decoder.decode(line)


# What follows from events

_VIEWS: Final = frozenset((ArgumentStarted, ArgumentDelta, ArgumentCompleted, RunSnapshot))
"""Computed from other events, so they are not stored."""
_PASSING: Final = (TextDelta, ThinkingDelta, ToolArgsDelta, ToolOutputDelta)
_GROWN: Final[Mapping[type[Event], Callable[[Event], object]]] = {
    TextDelta: attrgetter("block", "parent_id"),
    ThinkingDelta: attrgetter("block", "parent_id"),
    ToolArgsDelta: attrgetter("call_id", "name"),
    ToolOutputDelta: attrgetter("call_id", "name"),
}
"""What each of these is a piece of."""
_STATUSES: Final[Mapping[type[Event], RunStatus]] = {
    RunStarted: "running",
    RunPaused: "paused",
    RunResumed: "running",
    RunCompleted: "completed",
    RunFailed: "failed",
    RunStopped: "stopped",
}


def is_durable(event: Event) -> bool:
    """Say whether an event must survive the end of the machine: all but what merely grows."""
    return not isinstance(event, _PASSING)


def is_stored(event: Event) -> bool:
    """Return True if a log keeps the event. Argument events are computed from what it keeps."""
    return type(event) not in _VIEWS


def status_after(events: Iterable[Event]) -> RunStatus | None:
    """Say what the status of a run is after these; None if they do not change it."""
    status: RunStatus | None = None
    for event in events:
        status = _STATUSES.get(type(event), status)
    return status


def merged(events: Iterable[Event]) -> list[Event]:
    """Return the events as a log keeps them: coalesced, and without argument events."""
    return [event for event in coalesced(events) if is_stored(event)]


def coalesced(events: Iterable[Event]) -> list[Event]:
    """Join neighbouring deltas of one text. Argument events follow the delta they belong to."""
    kept: list[Event] = []
    pieces: list[str] = []  # the texts of the last stored event, if it is a delta
    views: list[Event] = []  # the argument events since then
    last: object = None  # what that delta is a piece of

    def close() -> None:
        if len(pieces) > 1:
            kept[-1] = _with_text(kept[-1], "".join(pieces))
        kept.extend(views)
        pieces.clear()
        views.clear()

    for event in events:
        if not is_stored(event):
            views.append(event)
            continue
        grown = _grown(event)
        if grown is None or grown != last:
            close()
            kept.append(event)
            last = grown
        if isinstance(event, _PASSING):
            pieces.append(event.delta if isinstance(event, ToolArgsDelta) else event.text)
    close()
    return kept


def joined(records: Iterable[Record]) -> list[Record]:
    """Give records for who has waited a while: neighbours that grow the same as one, the last."""
    kept: list[Record] = []
    for grown, group in groupby(records, lambda record: _grown(record.event)):
        pieces = list(group)
        if grown is None or len(pieces) == 1:
            kept += pieces
        else:
            [event] = merged(record.event for record in pieces)
            kept.append(replace(pieces[-1], event=event))
    return kept


def _grown(event: Event) -> object:
    """Say what an event is a piece of; None if it is whole."""
    kind = type(event)
    return (kind, _GROWN[kind](event)) if kind in _GROWN else None


def _with_text(event: Event, text: str) -> Event:
    if isinstance(event, ToolArgsDelta):
        return replace(event, delta=text)
    assert isinstance(event, TextDelta | ThinkingDelta | ToolOutputDelta)  # noqa: S101 - for types
    return replace(event, text=text)
