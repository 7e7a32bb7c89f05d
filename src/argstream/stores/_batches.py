"""What is written to a run at once: checked, encoded, and what follows from it worked out."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from argstream.decisions import Approval, Approve, Decisions
from argstream.errors import StoreFailure, UsageError
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    RunCompleted,
    RunFailed,
    RunStarted,
    RunStatus,
    RunStopped,
)
from argstream.log import Posts, Record, from_json, is_durable, status_after, to_json
from argstream.stores._checks import LARGEST, text, user_of

__all__ = ["ENDS", "Batch", "approvals_to_json", "batch_of", "posts_from_json", "records_of"]

ENDS: Final = (RunCompleted, RunFailed, RunStopped)
"""The events after which a run is over."""


_UNWRITABLE: Final = (TypeError, ValueError, RecursionError, OverflowError)


class Batch(Struct, frozen=True):
    """Records of one run that are written all or none, as a store needs them."""

    run_id: str
    session_id: str
    agent: str
    first: int
    """The seq of the first record."""
    lines: list[bytes]
    """The records as ``to_json`` writes them."""
    created: float
    """The time of the first record."""
    updated: float
    """The time of the last record."""
    status: RunStatus | None
    """What the run's status is after it; None if it stays as it is."""
    asked: Sequence[tuple[str, str | None]]
    """The calls that it asks about, or decides on, in their order: each with the digest of its
    request, None if it was decided on."""
    is_durable: bool
    """Whether it must survive the machine's end."""
    user: str = ""
    """Whose run it is, if it says so: the first batch of a run does."""

    @property
    def last(self) -> int:
        """The seq of the last record."""
        return self.first + len(self.lines) - 1

    @property
    def is_end(self) -> bool:
        """Whether the run is over after it."""
        return self.status in ("completed", "failed", "stopped")

    @property
    def rests(self) -> bool:
        """Whether nobody need drive the run after it: it is over, or has paused."""
        return self.is_end or self.status == "paused"

    @property
    def changes_posts(self) -> bool:
        """Whether what waits for who drives the run may be different after it."""
        return self.is_end or bool(self.asked)


def batch_of(run_id: str, records: Sequence[Record]) -> Batch:
    """Check records that are to be written to a run, and encode them."""
    if not records:
        raise UsageError("there is nothing to write: give at least one record")
    first, last = records[0], records[-1]
    asked: list[tuple[str, str | None]] = []
    user = ""
    for expected, record in enumerate(records, first.seq):
        if record.run_id != run_id:
            raise UsageError(f"a record of the run {record.run_id!r} is not one of {run_id!r}")
        if record.seq != expected:
            raise UsageError(
                f"records must follow each other: after {expected - 1} came {record.seq}"
            )
        _check(record)
        match record.event:
            case ApprovalRequested(call_id=call_id, digest=digest):
                asked.append((call_id, digest))
            case ApprovalDecided(call_id=call_id):
                asked.append((call_id, None))
            case RunStarted():
                user = user_of(record.event.user)
            case _:
                pass
    if any(isinstance(record.event, ENDS) for record in records[:-1]):
        raise UsageError("nothing can follow the event that ends a run")
    return Batch(
        run_id=run_id,
        session_id=first.session_id,
        agent=first.agent,
        first=first.seq,
        lines=[_line(record) for record in records],
        created=first.time,
        updated=last.time,
        status=status_after(record.event for record in records),
        asked=asked,
        is_durable=any(is_durable(record.event) for record in records),
        user=user,
    )


def _check(record: Record) -> None:
    """See that what a store must know of a record can be had from it again."""
    if not 1 <= record.seq <= LARGEST:
        raise UsageError(f"records are counted from 1 on: none has the seq {record.seq}")
    if not math.isfinite(record.time):
        raise UsageError(f"a record is written at some time, not at {record.time}")
    text(record.session_id, "the id of a session")
    text(record.agent, "the name of an agent")


def _line(record: Record) -> bytes:
    try:
        return to_json(record)
    except _UNWRITABLE as error:
        raise UsageError(
            f"the event {record.event.type!r} cannot be written as JSON: {error}"
        ) from error


def records_of(run_id: str, lines: Sequence[bytes], after: int) -> list[Record]:
    """Decode what a store has kept, and see that nothing is missing, nor of another run."""
    try:
        records = [from_json(line) for line in lines]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StoreFailure(f"the store has a record that cannot be read: {error}") from error
    for expected, record in enumerate(records, after + 1):
        if record.seq != expected:
            raise StoreFailure(
                f"the log has {record.seq} where {expected} should be: it is damaged"
            )
        if record.run_id != run_id:
            raise StoreFailure(
                f"the log of the run {run_id!r} has a record of {record.run_id!r}: it is damaged"
            )
    return records


# Decisions

_encoder = msgspec.json.Encoder()


class _Posted(Struct, frozen=True):
    """A decision as it is stored."""

    decision: Approval
    time: float


_posted_decoder = msgspec.json.Decoder(_Posted)


def approvals_to_json(decisions: Decisions) -> dict[str, tuple[bytes, str]]:
    """Check decisions and encode each, with the digest that it is about (may be empty)."""
    if not isinstance(decisions, Mapping):
        raise UsageError(f"decisions are given by the ids of their calls, not as {decisions!r}")
    encoded: dict[str, tuple[bytes, str]] = {}
    for call_id, decision in decisions.items():
        text(call_id, "the id of a call")
        if not isinstance(decision, Approval):
            raise UsageError(f"{call_id!r} needs an Approve or a Deny, not {decision!r}")
        try:
            line = _posted(decision)
        except _UNWRITABLE as error:
            raise UsageError(
                f"the decision on {call_id!r} cannot be written as JSON: {error}"
            ) from error
        encoded[call_id] = (line, getattr(decision, "digest", ""))
    return encoded


def _posted(decision: Approval) -> bytes:
    """Encode a decision; raises for one that would not be read as it was meant."""
    line = _encoder.encode(_Posted(decision, time.time()))
    read = _posted_decoder.decode(line).decision
    if isinstance(decision, Approve) and isinstance(read, Approve):
        # As text: in Python, 1 equals True; and what is not a number is none in JSON.
        meant = json.dumps(decision.arguments, allow_nan=False)
        if json.dumps(read.arguments) != meant:
            raise ValueError("its arguments would not be read as they are")
    return line


def posts_from_json(lines: Mapping[str, bytes | str], stop_reason: str | None) -> Posts:
    """Read decisions that ``approvals_to_json`` wrote, by the ids of their calls."""
    try:
        posted = {call_id: _posted_decoder.decode(line) for call_id, line in lines.items()}
    except msgspec.MsgspecError as error:
        raise StoreFailure(f"the store has a decision that cannot be read: {error}") from error
    decisions = {call_id: one.decision for call_id, one in posted.items()}
    return Posts(decisions, {call_id: one.time for call_id, one in posted.items()}, stop_reason)
