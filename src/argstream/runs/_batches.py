"""Validates and encodes what is written to a store. Raises ``UsageError`` for invalid input."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from argstream.errors import StoreError, UsageError
from argstream.events import ApprovalDecided, ApprovalRequested, RunStarted, RunStatus
from argstream.runs._records import (
    Approval,
    Approve,
    Commands,
    Decisions,
    Lease,
    Owner,
    Record,
    from_json,
    releases_lease,
    to_json,
)

_LONGEST_ID: Final = 1_000
_LONGEST_LEASE: Final = 1e9  # seconds, about thirty years
_LARGEST: Final = 2**53  # a larger seq is not exact in Redis, which counts in doubles
_TOKENS: Final = 2**63
_NO_START: Final = RunStarted("", "")
_UNWRITABLE: Final = (TypeError, ValueError, RecursionError, OverflowError)


def checked_id(run_id: object) -> str:
    return _checked_name(run_id, "the id of a run")


def checked_owner(owner: object) -> Owner:
    name = owner.name if isinstance(owner, Owner) else owner
    name = _checked_name(name, "the owner of a lease")
    return owner if isinstance(owner, Owner) else Owner(name)


def checked_user(user: object) -> str:
    return user if user == "" else _checked_name(user, "the name of a user")


def _checked_name(value: object, what: str) -> str:
    found = checked_text(value, what)
    if not 0 < len(found) <= _LONGEST_ID:
        raise UsageError(f"{what} must have 1 to {_LONGEST_ID} characters, not {len(found)}")
    return found


def checked_text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{what} must be a str, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} contains a lone surrogate: {value!r}") from error
    return value


class Filter(NamedTuple):
    """Which runs to list. None does not restrict."""

    status: RunStatus | None
    conversation_id: str | None
    user: str | None
    older_than: float | None = None  # seconds since the last record

    def matches(self, status: str, conversation_id: str, user: str) -> bool:
        return (
            self.status in (None, status)
            and self.conversation_id in (None, conversation_id)
            and self.user in (None, user)
        )


def checked_filter(
    status: RunStatus | None, conversation_id: str | None, user: str | None
) -> Filter:
    if status is not None and status not in (known := get_args(RunStatus)):
        raise UsageError(f"unknown status {status!r}. Use one of: {', '.join(known)}")
    if conversation_id is not None:
        checked_text(conversation_id, "the id of a conversation")
    if user is not None:
        checked_user(user)
    return Filter(status, conversation_id, user)


def checked_lease(lease: object) -> Lease:
    if not isinstance(lease, Lease):
        kind = type(lease).__name__
        raise UsageError(f"lease must be a Lease, as create and acquire return, not {kind}")
    checked_id(lease.run_id)
    if _integer(lease.token, "the token of a lease", 0) >= _TOKENS:
        raise UsageError(f"invalid token {lease.token}. Pass the lease that acquire returned")
    return lease


def checked_seconds(seconds: object) -> float:
    found = _number(seconds, "seconds")
    if not 0 < found <= _LONGEST_LEASE:
        bounds = f"greater than 0 and at most {_LONGEST_LEASE:.0f}"
        raise UsageError(f"seconds must be {bounds}, not {seconds}")
    return found


def checked_age(seconds: object) -> float:
    found = _number(seconds, "seconds")
    if not 0 <= found < math.inf:
        raise UsageError(f"seconds must be finite and at least 0, not {seconds}")
    return found


def checked_seq(after: object) -> int:
    return min(_integer(after, "after", 0), _LARGEST)


def checked_limit(limit: object) -> int | None:
    return None if limit is None else min(_integer(limit, "limit", 1), _LARGEST)


def _number(value: object, what: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise UsageError(f"{what} must be a number, not {value!r}")


def _integer(value: object, what: str, least: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise UsageError(f"{what} must be an integer of at least {least}, not {value!r}")


class Batch(Struct):
    """Records of one run that are written together, all or none, as a store needs them."""

    run_id: str
    records: Sequence[Record]
    first: int  # the seq of the first record
    last: int  # the seq of the last record
    updated: float  # the time of the last record
    status: RunStatus | None = None  # after the batch; None if it does not change
    approvals: Sequence[tuple[str, str | None]] = ()
    """Calls with the digests of their approval requests, in order; None if the call was decided."""
    is_durable: bool = False
    """Whether it must survive a crash of the machine."""
    start: RunStarted = _NO_START  # in the first batch of a run
    releases_lease: bool = False  # the run ends, or pauses without a driver
    ends_run: bool = False
    encoded: list[bytes] | None = None

    @property
    def only_grows(self) -> bool:
        """Whether it only adds records to the log, as most batches do."""
        return self.status is None and not self.approvals

    @property
    def lines(self) -> list[bytes]:
        """The records as JSON, encoded once."""
        if self.encoded is None:
            self.encoded = [_line(record) for record in self.records]
        return self.encoded

    def as_stored(self) -> Sequence[Record]:
        """Return the records as a reader of the store gets them, with their argument events.

        No mutable value is shared with the writer. Deltas hold only text, so they are not copied.
        """
        if not self.is_durable:
            return self.records
        stored = records_of(self.run_id, self.lines, self.first - 1)
        return [
            record if own.arguments is None else replace(record, arguments=own.arguments)
            for record, own in zip(stored, self.records, strict=True)
        ]


def delta_batch(run_id: str, records: Sequence[Record]) -> Batch:
    """Return the batch of deltas that the driver of the run built. They are not checked again."""
    last = records[-1]
    return Batch(run_id, records, records[0].seq, last.seq, last.time)


def batch_of(run_id: str, records: Sequence[Record]) -> Batch:
    if not records:
        raise UsageError("records is empty. Pass at least one record")
    first, last = records[0], records[-1]
    approvals: list[tuple[str, str | None]] = []
    start = _NO_START
    for expected, record in enumerate(records, first.seq):
        if record.run_id != run_id:
            raise UsageError(f"all records must be of run {run_id!r}, not {record.run_id!r}")
        if record.seq != expected:
            raise UsageError(f"seq must increase by 1: {record.seq} follows {expected - 1}")
        _check(record)
        match record.event:
            case ApprovalRequested(call_id=call_id, digest=digest):
                approvals.append((call_id, digest))
            case ApprovalDecided(call_id=call_id):
                approvals.append((call_id, None))
            case RunStarted() as start:
                checked_user(start.user)
            case _:
                pass
    if any(record.event.ends_run for record in records[:-1]):
        raise UsageError("no record can follow the event that ends a run")
    statuses = [one.event.run_status for one in records if one.event.run_status is not None]
    return Batch(
        run_id=run_id,
        records=records,
        first=first.seq,
        last=last.seq,
        updated=last.time,
        status=statuses[-1] if statuses else None,
        approvals=approvals,
        is_durable=not all(record.event.is_delta for record in records),
        start=start,
        releases_lease=releases_lease(record.event for record in records),
        ends_run=last.event.ends_run,
        encoded=[_line(record) for record in records],
    )


def _check(record: Record) -> None:
    """Raise ``UsageError`` if a store could not return the record unchanged."""
    if not 1 <= record.seq <= _LARGEST:
        raise UsageError(f"seq must be from 1 to {_LARGEST}, not {record.seq}")
    if not math.isfinite(record.time):
        raise UsageError(f"the time of a record must be finite, not {record.time}")
    checked_text(record.conversation_id, "the id of a conversation")
    checked_text(record.agent, "the name of an agent")


def _line(record: Record) -> bytes:
    try:
        return to_json(record)
    except _UNWRITABLE as error:
        raise UsageError(
            f"the event {record.event.type!r} cannot be encoded as JSON: {error}"
        ) from error


def records_of(run_id: str, lines: Sequence[bytes], after: int) -> list[Record]:
    """Decode stored records. Raises ``StoreError`` if one is missing or of another run."""
    try:
        records = [from_json(line) for line in lines]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(f"the store has a record that cannot be read: {error}") from error
    for expected, record in enumerate(records, after + 1):
        if record.seq != expected:
            raise StoreError(f"the log is damaged: it has seq {record.seq} instead of {expected}")
        if record.run_id != run_id:
            raise StoreError(
                f"the log of run {run_id!r} is damaged: it has a record of {record.run_id!r}"
            )
    return records


class _StoredDecision(Struct, frozen=True):
    decision: Approval
    time: float


_decision_decoder = msgspec.json.Decoder(_StoredDecision)


def encode_decisions(decisions: Decisions) -> dict[str, tuple[bytes, str]]:
    """Encode decisions by call ID, each with the digest of its request, which may be empty."""
    if not isinstance(decisions, Mapping):
        raise UsageError(f"decisions must be a dict by call ID, not {decisions!r}")
    encoded: dict[str, tuple[bytes, str]] = {}
    for call_id, decision in decisions.items():
        checked_text(call_id, "the id of a call")
        if not isinstance(decision, Approval):
            raise UsageError(f"{call_id!r} needs an Approve or a Deny, not {decision!r}")
        try:
            line = msgspec.json.encode(_StoredDecision(decision, time.time()))
            read = _decision_decoder.decode(line).decision
            if isinstance(decision, Approve) and isinstance(read, Approve):
                # Compared as text, because 1 == True in Python. NaN has no form in JSON.
                expected = json.dumps(decision.arguments, allow_nan=False)
                if json.dumps(read.arguments) != expected:
                    raise ValueError("the arguments would change")
        except _UNWRITABLE as error:
            raise UsageError(
                f"the decision on {call_id!r} cannot be encoded as JSON: {error}"
            ) from error
        encoded[call_id] = (line, getattr(decision, "digest", ""))
    return encoded


def decode_commands(lines: Mapping[str, bytes | str], stop_reason: str | None) -> Commands:
    try:
        posted = {call_id: _decision_decoder.decode(line) for call_id, line in lines.items()}
    except msgspec.MsgspecError as error:
        raise StoreError(f"the store has a decision that cannot be read: {error}") from error
    decisions = {call_id: one.decision for call_id, one in posted.items()}
    return Commands(decisions, {call_id: one.time for call_id, one in posted.items()}, stop_reason)


def run_exists(run_id: str) -> UsageError:
    return UsageError(f"run {run_id!r} already exists. Acquire its lease to resume it")


def run_is_over(run_id: str, status: str) -> UsageError:
    return UsageError(f"the run {run_id!r} has ended ({status})")


def store_is_closed() -> StoreError:
    return StoreError("the store is closed. Open a new one")
