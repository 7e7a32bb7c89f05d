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

import os
import socket
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import groupby
from pathlib import Path
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
    """Replace the model's arguments. They must be valid for the tool. The model gets a note."""
    always: ApprovalScope = "call"
    """This call, later calls that the same rule asks about, or later calls of this tool."""
    digest: str = ""
    """If set, it must be the digest of the request."""
    reason: str = ""


class Deny(Struct, frozen=True, tag="deny"):
    """The call must not run. The model receives the reason."""

    reason: str = ""


Approval: TypeAlias = Approve | Deny
Decisions: TypeAlias = Mapping[str, Approval]
"""Decisions by call ID."""


class Record(Struct, frozen=True, gc=False, omit_defaults=True):
    """An event of a run, with its position in the log."""

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


class Owner(Struct, frozen=True, omit_defaults=True):
    """The process that holds a lease. Without an identity, only its name is known."""

    name: str  # shown to users
    boot_id: str = ""  # of the host, different after each restart
    pid_namespace: str = ""  # processes in another container have other PIDs
    pid: int = 0
    started: str = ""  # when the process started: another process may get the same PID

    @classmethod
    def here(cls) -> "Owner":
        """Return this process. It has no identity on systems without ``/proc``."""
        pid = os.getpid()
        name = f"{socket.gethostname()}, process {pid}"
        boot_id, pid_namespace = _host_of(pid)
        started = _start_time(pid) if boot_id else None
        if not (boot_id and pid_namespace and started):
            return cls(name)
        return cls(name, boot_id, pid_namespace, pid, started)

    @property
    def is_dead(self) -> bool:
        """Whether the process ran on this host and has ended. False if that is not known."""
        if not self.boot_id or (self.boot_id, self.pid_namespace) != _host_of(os.getpid()):
            return False
        try:
            return _start_time(self.pid) != self.started
        except (OSError, OverflowError):
            # No descriptor is free, the process belongs to another user, or no process can have
            # this PID: then another program has changed the store.
            return False


@lru_cache(maxsize=1)
def _host_of(pid: int) -> tuple[str, str]:
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return boot_id, str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return "", ""


def _start_time(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot; None if there is none.

    Raises OSError if that cannot be determined.
    """
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        try:
            os.kill(pid, 0)  # /proc may hide processes of other users
        except ProcessLookupError:
            return None
        raise
    state, *rest = status.rpartition(")")[2].split()  # the process name may contain spaces and )
    return None if state in "ZX" else rest[18]


class Lease(Struct, frozen=True):
    """The right to drive a run until it expires or a newer lease is acquired."""

    run_id: str
    owner: str  # shown to users
    token: int  # increases with each lease on the run
    seq: int = 0  # of the last record when the lease was acquired


class Launch(Struct, frozen=True, omit_defaults=True):
    """How a run was launched, so that it can be resumed from a shell. Never contains keys."""

    model: str = ""
    tools: tuple[str, ...] = ()
    folder: str = ""
    policy: str = ""  # the path of the file
    instructions: str = ""  # empty: the default of the command
    max_turns: int = 0  # 0: the default of the command


class ConversationInfo(Struct, frozen=True):
    """The row of a conversation in a store."""

    conversation_id: str
    user: str
    title: str  # the beginning of its first prompt, unless it was renamed
    created: float
    updated: float  # when its newest run started
    deleted_at: float | None = None  # Unix time; None if it was not deleted


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
    prompt: str = ""
    """The first 200 characters of the prompt."""
    replaces: str = ""
    """From ``RunStarted``: the run that this one replaces."""
    launch: Launch = Launch()

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
    return _decoder.decode(line)


def size_of(record: Record) -> int:
    event = record.event
    if event.is_delta:
        return len(getattr(event, "delta" if isinstance(event, ToolArgsDelta) else "text"))
    return len(to_json(record))


def releases_lease(events: Iterable[Event]) -> bool:
    """Return True if writing these events releases the lease of the run."""
    changes = [event for event in events if event.run_status is not None]
    if not changes or changes[-1].run_status == "running":
        return False
    return not (isinstance(changes[-1], RunPaused) and changes[-1].keeps_lease)


def merged(events: Iterable[Event]) -> list[Event]:
    """Return the events as a log keeps them: coalesced, and without argument events."""
    return [event for event in coalesced(events) if not event.is_computed]


def coalesced(events: Iterable[Event]) -> list[Event]:
    """Join neighbouring deltas of one text. Argument events follow the delta they belong to."""
    kept: list[Event] = []
    pieces: list[str] = []  # the texts of the last stored event, if it is a delta
    views: list[Event] = []  # the argument events since then
    last: Event | None = None  # that event, if it is a delta

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
        if type(event) is ToolArgsDelta and type(last) is ToolArgsDelta:  # nearly always
            is_same = event.call_id == last.call_id and event.name == last.name
        else:
            is_same = last is not None and event.is_delta and _grown(event) == _grown(last)
        if not is_same:
            close()
            kept.append(event)
            last = event if event.is_delta else None
        if last is not None:
            pieces.append(event.delta if type(event) is ToolArgsDelta else _text(event))
    close()
    return kept


def joined(records: Iterable[Record]) -> list[Record]:
    """Join neighbouring deltas of one text, for a follower that reads several records at once."""
    records = list(records)
    if len(records) == 1:
        return records
    kept: list[Record] = []
    for grown, group in groupby(records, lambda record: _grown(record.event)):
        pieces = list(group)
        if grown is None or len(pieces) == 1:
            kept += pieces
        else:
            last = pieces[-1]
            event = _with_text(last.event, "".join([_text(piece.event) for piece in pieces]))
            kept.append(replace(last, event=event, arguments=_arguments_of(pieces)))
    return kept


def _arguments_of(records: Iterable[Record]) -> tuple[ArgumentEvent, ...] | None:
    """Return the argument events of joined records; None if those of one record are unknown."""
    known: list[ArgumentEvent] = []
    for record in records:
        if record.arguments is None:
            return None
        known += record.arguments
    return tuple(known)


def _grown(event: Event) -> object:
    """Return a key of the text that a delta belongs to; None for other events."""
    if not event.is_delta:
        return None
    if isinstance(event, TextDelta | ThinkingDelta):
        return type(event), event.block, event.parent_id
    return type(event), getattr(event, "call_id", None), getattr(event, "name", None)


def _text(event: Any) -> str:
    text: str = event.delta if isinstance(event, ToolArgsDelta) else event.text
    return text


def _with_text(event: Event, text: str) -> Event:
    name = "delta" if isinstance(event, ToolArgsDelta) else "text"
    return replace(event, **{name: text})
