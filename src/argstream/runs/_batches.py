"""What is written to a run at once: checked and encoded. The messages of what a store refuses."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, get_args

import msgspec
from msgspec import Struct

from argstream.errors import StoreError, UsageError
from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    ArgumentEvent,
    RunStarted,
    RunStatus,
)
from argstream.runs._records import (
    Approval,
    Approve,
    Commands,
    Decisions,
    Lease,
    Record,
    from_json,
    releases_lease,
    status_after,
    to_json,
)

_LONGEST_ID: Final = 1_000
_LONGEST_LEASE: Final = 1e9  # seconds, about thirty years
_LARGEST: Final = 2**53  # beyond it, not all stores can count one by one
_TOKENS: Final = 2**63
_UNWRITABLE: Final = (TypeError, ValueError, RecursionError, OverflowError)
_encoder = msgspec.json.Encoder()


def id_of(run_id: object) -> str:
    return _named(run_id, "the id of a run")


def name_of(owner: object) -> str:
    return _named(owner, "the owner of a lease")


def user_of(user: object) -> str:
    return user if user == "" else _named(user, "the name of a user")


def _named(value: object, what: str) -> str:
    found = text(value, what)
    if not 0 < len(found) <= _LONGEST_ID:
        raise UsageError(f"{what} must have 1 to {_LONGEST_ID} characters, not {len(found)}")
    return found


def text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{what} must be a str, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} contains a lone surrogate: {value!r}") from error
    return value


class Wanted(NamedTuple):
    """Which runs to list. None does not restrict."""

    status: RunStatus | None
    conversation_id: str | None
    user: str | None

    def fits(self, status: str, conversation_id: str, user: str) -> bool:
        return (
            self.status in (None, status)
            and self.conversation_id in (None, conversation_id)
            and self.user in (None, user)
        )


def wanted(status: RunStatus | None, conversation_id: str | None, user: str | None) -> Wanted:
    if status is not None and status not in (known := get_args(RunStatus)):
        raise UsageError(f"unknown status {status!r}. Use one of: {', '.join(known)}")
    if conversation_id is not None:
        text(conversation_id, "the id of a conversation")
    if user is not None:
        user_of(user)
    return Wanted(status, conversation_id, user)


def checked_lease(lease: object) -> Lease:
    if not isinstance(lease, Lease):
        raise UsageError(f"a lease is what create and acquire return, not {type(lease).__name__}")
    id_of(lease.run_id)
    if not 0 <= _whole(lease.token, "the token of a lease") < _TOKENS:
        raise UsageError(
            f"no lease has the token {lease.token}: use what create and acquire return"
        )
    return lease


def span(seconds: object) -> float:
    found = _number(seconds, "the time of a lease")
    if not 0 < found <= _LONGEST_LEASE:
        bounds = f"greater than 0 and at most {_LONGEST_LEASE:.0f}"
        raise UsageError(f"seconds must be {bounds}, not {seconds}")
    return found


def age(seconds: object) -> float:
    found = _number(seconds, "the age of runs")
    if not (found >= 0 and math.isfinite(found)):
        raise UsageError(f"runs cannot have been over for {seconds} seconds")
    return found


def place(after: object) -> int:
    found = _whole(after, "a place in a log")
    if found < 0:
        raise UsageError(f"after must be at least 0, not {after}")
    return min(found, _LARGEST)


def limited(limit: object) -> int | None:
    if limit is None:
        return None
    found = _whole(limit, "a limit")
    if found < 1:
        raise UsageError(f"limit must be at least 1, or None for all, not {limit}")
    return min(found, _LARGEST)


def _number(value: object, what: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise UsageError(f"{what} is a number, not {value!r}")


def _whole(value: object, what: str) -> int:
    number = _number(value, what)
    if isinstance(number, int):
        return number
    raise UsageError(f"{what} is a number, not {value!r}")


class Batch(Struct, frozen=True):
    """Records of one run that are written together, all or none, as a store needs them."""

    run_id: str
    conversation_id: str
    agent: str
    first: int
    lines: list[bytes]
    created: float  # the time of the first record
    updated: float  # the time of the last record
    status: RunStatus | None  # after the batch; None if it does not change
    asked: Sequence[tuple[str, str | None]]
    """Calls with the digests of their approval requests, in order; None if the call was decided."""
    is_durable: bool
    """Whether it must survive a crash of the machine."""
    user: str = ""  # in the first batch of a run
    rests: bool = False  # the run needs no driver after the batch, so its lease is released
    arguments: Sequence[tuple[ArgumentEvent, ...] | None] = ()  # of each record

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1

    @property
    def is_end(self) -> bool:
        return self.status in ("completed", "failed", "stopped")

    @property
    def changes_commands(self) -> bool:
        return self.is_end or bool(self.asked)


def batch_of(run_id: str, records: Sequence[Record]) -> Batch:
    if not records:
        raise UsageError("records is empty. Pass at least one record")
    first, last = records[0], records[-1]
    asked: list[tuple[str, str | None]] = []
    user = ""
    for expected, record in enumerate(records, first.seq):
        if record.run_id != run_id:
            raise UsageError(f"a record of the run {record.run_id!r} is not one of {run_id!r}")
        if record.seq != expected:
            raise UsageError(f"seq must increase by 1: {record.seq} follows {expected - 1}")
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
    if any(record.event.ends_run for record in records[:-1]):
        raise UsageError("nothing can follow the event that ends a run")
    return Batch(
        run_id=run_id,
        conversation_id=first.conversation_id,
        agent=first.agent,
        first=first.seq,
        lines=[_line(record) for record in records],
        created=first.time,
        updated=last.time,
        status=status_after(record.event for record in records),
        asked=asked,
        is_durable=not all(record.event.is_delta for record in records),
        user=user,
        rests=releases_lease(record.event for record in records),
        arguments=[record.arguments for record in records],
    )


def _check(record: Record) -> None:
    """Check that a store can return the record as it was given."""
    if not 1 <= record.seq <= _LARGEST:
        raise UsageError(f"records are counted from 1 on: none has the seq {record.seq}")
    if not math.isfinite(record.time):
        raise UsageError(f"the time of a record must be finite, not {record.time}")
    text(record.conversation_id, "the id of a conversation")
    text(record.agent, "the name of an agent")


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
            raise StoreError(f"the log has {record.seq} where {expected} should be: it is damaged")
        if record.run_id != run_id:
            raise StoreError(
                f"the log of the run {run_id!r} has a record of {record.run_id!r}: it is damaged"
            )
    return records


class _StoredDecision(Struct, frozen=True):
    decision: Approval
    time: float


_decision_decoder = msgspec.json.Decoder(_StoredDecision)


def approvals_to_json(decisions: Decisions) -> dict[str, tuple[bytes, str]]:
    """Encode decisions by call ID, each with the digest that it is about (may be empty)."""
    if not isinstance(decisions, Mapping):
        raise UsageError(f"decisions must be a dict by call ID, not {decisions!r}")
    encoded: dict[str, tuple[bytes, str]] = {}
    for call_id, decision in decisions.items():
        text(call_id, "the id of a call")
        if not isinstance(decision, Approval):
            raise UsageError(f"{call_id!r} needs an Approve or a Deny, not {decision!r}")
        try:
            line = _posted(decision)
        except _UNWRITABLE as error:
            raise UsageError(
                f"the decision on {call_id!r} cannot be encoded as JSON: {error}"
            ) from error
        encoded[call_id] = (line, getattr(decision, "digest", ""))
    return encoded


def _posted(decision: Approval) -> bytes:
    """Encode a decision. Raises ``ValueError`` if it would not be decoded as it was meant."""
    line = _encoder.encode(_StoredDecision(decision, time.time()))
    read = _decision_decoder.decode(line).decision
    if isinstance(decision, Approve) and isinstance(read, Approve):
        # As text: in Python, 1 equals True; and what is not a number is none in JSON.
        meant = json.dumps(decision.arguments, allow_nan=False)
        if json.dumps(read.arguments) != meant:
            raise ValueError("its arguments would not be read as they are")
    return line


def commands_from_json(lines: Mapping[str, bytes | str], stop_reason: str | None) -> Commands:
    try:
        posted = {call_id: _decision_decoder.decode(line) for call_id, line in lines.items()}
    except msgspec.MsgspecError as error:
        raise StoreError(f"the store has a decision that cannot be read: {error}") from error
    decisions = {call_id: one.decision for call_id, one in posted.items()}
    return Commands(decisions, {call_id: one.time for call_id, one in posted.items()}, stop_reason)


def begun_already(run_id: str) -> UsageError:
    return UsageError(f"run {run_id!r} already exists. Acquire its lease to resume it")


def gap(run_id: str, last: int, first: int) -> UsageError:
    return UsageError(f"run {run_id!r} expects seq {last + 1}, not {first}")


def other_record(run_id: str, first: int) -> UsageError:
    return UsageError(f"the run {run_id!r} has other records from seq {first} on")


def run_is_over(run_id: str, status: str) -> UsageError:
    return UsageError(f"the run {run_id!r} has ended ({status})")


def not_pending(run_id: str, call_id: str) -> UsageError:
    return UsageError(f"no pending approval for call {call_id!r} in the run {run_id!r}")


def other_request(call_id: str) -> UsageError:
    return UsageError(
        f"the digest does not match the request for call {call_id!r}. Read the request again, then "
        "decide"
    )
