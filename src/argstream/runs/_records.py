"""Records of a run, and the contract that every store implements.

A run is an append-only log of records. ``seq`` starts at 1 and has no gaps; a follower resumes
after a given ``seq``.

The process that drives a run holds a lease and renews it every few seconds. Each new lease has a
higher fencing token, and the store rejects writes that carry an older one. A process that lost its
lease can neither write nor start a tool, because state changes are written before they are acted on
(invariant 11).

Any process can send commands to a run: a decision on a pending call, or a stop. The driver receives
them. If no process drives the run, they wait for the next driver. The first decision on a call
counts; later ones raise ``AlreadyDecidedError``.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol, Self, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from argstream.events import (
    ApprovalScope,
    ArgumentEvent,
    Event,
    RunSnapshot,
    RunStatus,
    TextDelta,
    ThinkingDelta,
    ToolArgsDelta,
)


class Approve(Struct, frozen=True, kw_only=True, tag="approve"):
    """The call may run."""

    arguments: Mapping[str, Any] | None = None
    """Replace the model's arguments. They must be valid for the tool, and the model is told."""
    always: ApprovalScope = "call"
    """What it covers: this call, all calls that the same rule asks about, or all of this tool."""
    digest: str = ""
    """If set, it must be the digest of the request."""
    reason: str = ""


class Deny(Struct, frozen=True, tag="deny"):
    """The call must not run. The model is told the reason."""

    reason: str = ""


Approval: TypeAlias = Approve | Deny
Decisions: TypeAlias = Mapping[str, Approval]
"""Decisions by call ID."""


class Record(Struct, frozen=True, gc=False, omit_defaults=True):
    """An event of a run, with its place in the log."""

    seq: int
    """Starts at 1 and has no gaps."""
    time: float
    """When it was written: Unix time."""
    run_id: str
    conversation_id: str
    agent: str
    event: Event
    arguments: tuple[ArgumentEvent, ...] | None = None
    """The argument events of a ``ToolArgsDelta``, if this process has them. They are not stored."""


class Lease(Struct, frozen=True):
    """The right to drive a run until it expires or a newer lease is acquired."""

    run_id: str
    owner: str  # shown to users
    token: int  # increases with each lease on the run


class Commands(Struct, frozen=True):
    """Commands sent to a run that its driver has not handled yet."""

    decisions: Mapping[str, Approval] = {}
    decided_at: Mapping[str, float] = {}  # Unix time, by call ID
    stop_reason: str | None = None


class RunInfo(Struct, frozen=True, kw_only=True):
    """A summary of a run that needs no reading of its log."""

    run_id: str
    conversation_id: str
    agent: str
    status: RunStatus
    seq: int  # of the last record
    created: float
    updated: float  # when the last record was written
    owner: str | None = None
    """The owner of a valid lease; None if no process drives the run."""
    leased_until: float | None = None
    """When the last lease expires or has expired; None if it was released."""
    pending: Mapping[str, str] = {}
    """The digests of the pending approval requests, by call ID."""
    has_commands: bool = False
    """Whether commands wait for the driver: see ``Store.commands``."""
    user: str = ""
    """From ``RunStarted``; empty if the run has no user."""

    @property
    def calls_by_digest(self) -> dict[str, str]:
        """The pending calls, by the digests of their requests."""
        return {digest: call_id for call_id, digest in self.pending.items()}

    @property
    def is_over(self) -> bool:
        return self.status not in ("running", "paused")

    @property
    def is_abandoned(self) -> bool:
        """Whether the process that drove the run has died: see ``Agent.resume``."""
        is_waiting = self.status == "paused" and self.leased_until is None
        return self.owner is None and not (self.is_over or is_waiting)


class Store(Protocol):
    """Keeps the logs of runs. Every method may be called from any event loop, and concurrently.

    All raise ``StoreError`` if the store does not work, and ``RunNotFoundError`` for a run that it
    does not have.
    """

    async def create(self, records: Sequence[Record], owner: str, seconds: float) -> Lease:
        """Create a run from its first records and acquire a lease on it, all or nothing."""

    async def acquire(self, run_id: str, owner: str, seconds: float) -> Lease:
        """Acquire a lease for a number of seconds. Raises ``RunBusyError`` while one is valid."""

    async def renew(self, lease: Lease, seconds: float) -> None:
        """Extend a lease, counted from now. Raises ``LeaseLostError`` if it was lost."""

    async def release(self, lease: Lease) -> None:
        """Release a lease, so that another can be acquired at once. A lost lease is ignored.

        For a run that continues: when it pauses or ends, ``append`` releases the lease.
        """

    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        """Write records, all or none, and return when they are stored.

        They follow the last record without a gap. All up to the last one that is not a delta
        survive a crash of the machine; later ones survive a crash of the process. Records that are
        already stored are ignored, so a writer that does not know whether its write succeeded can
        repeat it. Raises ``LeaseLostError`` if the lease was lost, and ``UsageError`` for a gap
        or a run that is over.

        Records that pause or end the run release the lease: a follower that sees them can acquire
        one at once.
        """

    async def reopen(self, lease: Lease, call_id: str) -> None:
        """Remove a decision that cannot be used, so that the call can be decided again."""

    async def read(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Record]:
        """Return the records after ``after``: all, or at most ``limit``."""

    def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[Record, None]:
        """Yield the records after ``after``, and new ones as they come, until the run is over.

        Records that are not fetched wait in the store, not in memory.
        """

    async def snapshot(self, run_id: str) -> RunSnapshot:
        """Return the run so far."""

    def watch(self, run_id: str) -> AsyncGenerator[RunSnapshot | Record, None]:
        """Yield a snapshot, then the records that follow it, until the run is over."""

    async def decide(self, run_id: str, decisions: Decisions) -> None:
        """Decide on pending calls: on all of them, or on none.

        Raises ``AlreadyDecidedError`` if a call has a decision, and ``UsageError`` if a call is not
        pending or a digest is not that of its request. Only the tool knows whether edited arguments
        are valid: the driver removes a decision whose arguments are not (``reopen``).
        """

    async def stop(self, run_id: str, reason: str = "") -> None:
        """Ask the driver of a run to end it. The first reason counts.

        Raises ``UsageError`` if the run is over. A run without a driver ends when it is resumed:
        see ``Agent.stop``.
        """

    async def commands(self, run_id: str) -> Commands:
        """Return the commands that wait for the driver."""

    def watch_commands(self, run_id: str) -> AsyncGenerator[Commands, None]:
        """Yield the waiting commands, and again after each change, until the run is over."""

    async def info(self, run_id: str) -> RunInfo:
        """Return a summary of a run."""

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        conversation_id: str | None = None,
        user: str | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        """List runs, those with the newest records first.

        ``None`` does not restrict. ``user=""`` selects runs without a user.
        """

    async def delete(self, run_id: str) -> None:
        """Delete a run. Raises ``RunBusyError`` while it is driven."""

    async def delete_older_than(self, seconds: float, *, unfinished: bool = False) -> int:
        """Delete runs that ended at least ``seconds`` ago, and return how many.

        ``unfinished`` also deletes runs that nothing was written to for so long, unless a process
        drives them.
        """

    async def aclose(self) -> None:
        """Close the store. Its followers get a ``StoreError``."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *failure: object) -> None: ...


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def to_json(record: Record) -> bytes:
    """Write a record as one line of JSON, without argument events."""
    return _encoder.encode(record if record.arguments is None else replace(record, arguments=None))


def from_json(line: bytes | str) -> Record:
    """Read a record that ``to_json`` wrote."""
    return _decoder.decode(line)


def status_after(events: Iterable[Event]) -> RunStatus | None:
    """Return the status of a run after these events; None if they do not change it."""
    statuses = [event.run_status for event in events if event.run_status is not None]
    return statuses[-1] if statuses else None


def merged(events: Iterable[Event]) -> list[Event]:
    """Return the events as a log keeps them: coalesced, and without argument events."""
    return [event for event in coalesced(events) if not event.is_computed]


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
        if event.is_computed:
            views.append(event)
            continue
        grown = _grown(event)
        if grown is None or grown != last:
            close()
            kept.append(event)
            last = grown
        if grown is not None:
            pieces.append(getattr(event, _text_field(event)))
    close()
    return kept


def joined(records: Iterable[Record]) -> list[Record]:
    """Join neighbouring deltas of one text, for a follower that has waited a while."""
    kept: list[Record] = []
    for grown, group in groupby(records, lambda record: _grown(record.event)):
        pieces = list(group)
        if grown is None or len(pieces) == 1:
            kept += pieces
        else:
            [event] = merged(record.event for record in pieces)
            kept.append(replace(pieces[-1], event=event, arguments=_arguments_of(pieces)))
    return kept


def _arguments_of(records: Iterable[Record]) -> tuple[ArgumentEvent, ...] | None:
    """Return the argument events of records that are joined; None if those of one are unknown."""
    known = [record.arguments for record in records]
    return None if None in known else tuple(event for events in known for event in events or ())


def _grown(event: Event) -> object:
    """Return what an event is a piece of; None if it is whole."""
    if not event.is_delta:
        return None
    if isinstance(event, TextDelta | ThinkingDelta):
        return type(event), event.block, event.parent_id
    return type(event), getattr(event, "call_id", None), getattr(event, "name", None)


def _with_text(event: Any, text: str) -> Event:
    joined: Event = replace(event, **{_text_field(event): text})
    return joined


def _text_field(event: Event) -> str:
    return "delta" if isinstance(event, ToolArgsDelta) else "text"
