"""Why a call is not complete: its verdict, and what is told of it."""

from typing import NamedTuple

from argstream.events import ArgumentsError, InvalidVerdict
from argstream.jsonstream import Invalid

__all__ = ["Fault", "contradiction", "fault_of"]


class Fault(NamedTuple):
    """A call gives no arguments."""

    verdict: InvalidVerdict
    error: ArgumentsError


def fault_of(invalid: Invalid, verdict: InvalidVerdict = "malformed") -> Fault:
    """Put an error of the text into the form that events have."""
    error = ArgumentsError(invalid.reason, invalid.message, invalid.offset, invalid.path)
    return Fault(verdict, error)


def contradiction(message: str) -> Fault:
    """Say that the provider contradicts itself."""
    return Fault("malformed", ArgumentsError("contradicted", message))
