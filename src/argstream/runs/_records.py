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

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from argstream.events import (
    ApprovalScope,
    ArgumentEvent,
    Event,
    RunPaused,
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


def releases_lease(events: Iterable[Event]) -> bool:
    """Return True if writing these events releases the lease of the run."""
    last = None
    for event in events:
        last = event if event.run_status is not None else last
    if last is None or last.run_status == "running":
        return False
    return not (isinstance(last, RunPaused) and last.keeps_lease)


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
