"""What a store refuses, in the same words in all stores."""

from argstream.errors import RunTaken, UsageError

__all__ = [
    "begun_already",
    "gap",
    "lost",
    "nobody_is_asked",
    "other_record",
    "other_request",
    "run_is_over",
]


def lost(run_id: str, owner: str | None, seconds: float) -> RunTaken:
    """Say that a claim is not the newest: who has that now, and for how long."""
    return RunTaken(run_id, owner or "", max(seconds, 0.0))


def begun_already(run_id: str) -> UsageError:
    """Say that a run cannot be begun, since it is there."""
    return UsageError(f"there is a run {run_id!r} already: claim it to go on with it")


def gap(run_id: str, last: int, first: int) -> UsageError:
    """Say that a batch does not go on after the last record."""
    return UsageError(f"the run {run_id!r} goes on with seq {last + 1}, not {first}")


def other_record(run_id: str, first: int) -> UsageError:
    """Say that the log has something else where a batch would go."""
    return UsageError(f"the run {run_id!r} has other records from seq {first} on")


def run_is_over(run_id: str, status: str) -> UsageError:
    """Say that nothing can be written to a run, or asked of it, any more."""
    return UsageError(f"the run {run_id!r} is over: it is {status}")


def nobody_is_asked(run_id: str, call_id: str) -> UsageError:
    """Say that there is no request for a call that could be decided on."""
    return UsageError(f"in the run {run_id!r} nobody is asked about the call {call_id!r}")


def other_request(call_id: str) -> UsageError:
    """Say that a decision is about another request than the one that waits."""
    return UsageError(
        f"the digest is not that of the request for the call {call_id!r}: look at that, and decide "
        "anew"
    )
