"""What may be asked of a store: checked once, so that all stores refuse the same.

The id of a run is text of 1 to 1,000 characters; who claims a run says who he is, in as many, and
whose run it is, is said in no more. Other text may be empty. Text is what can be encoded: half of a
surrogate pair is none. A number that no store could mean anything by, such as a claim for ever, is
refused; a place in the log, or a limit, that is larger than any log is let be.
"""

import math
from typing import Final, NamedTuple, get_args

from argstream.errors import UsageError
from argstream.events import RunStatus
from argstream.log import Claim

__all__ = [
    "LARGEST",
    "Wanted",
    "age",
    "claimed",
    "id_of",
    "limited",
    "name_of",
    "place",
    "span",
    "text",
    "user_of",
    "wanted",
]

_LONGEST_ID: Final = 1_000
_LONGEST_CLAIM: Final = 1e9
"""In seconds: some thirty years."""
LARGEST: Final = 2**53
"""No log is as long. Beyond it not all stores can count one by one."""
_TOKENS: Final = 2**63


def id_of(run_id: object) -> str:
    """Check the id of a run."""
    return _named(run_id, "the id of a run")


def name_of(owner: object) -> str:
    """Check the name of who claims a run."""
    return _named(owner, "the owner of a claim")


def user_of(user: object) -> str:
    """Check the name of whose run it is: it may be nobody's in particular."""
    return user if user == "" else _named(user, "the name of a user")


def _named(value: object, what: str) -> str:
    found = text(value, what)
    if not 0 < len(found) <= _LONGEST_ID:
        raise UsageError(f"{what} has 1 to {_LONGEST_ID} characters, not {len(found)}")
    return found


def text(value: object, what: str) -> str:
    """Check what is to be text."""
    if not isinstance(value, str):
        raise UsageError(f"{what} is text, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{what} cannot be {value!r}: it has a half of a character in it"
        ) from error
    return value


class Wanted(NamedTuple):
    """Which runs are to be listed: what is None is not asked."""

    status: RunStatus | None
    session_id: str | None
    user: str | None

    def fits(self, status: str, session_id: str, user: str) -> bool:
        """Say whether a run is one of them."""
        return (
            self.status in (None, status)
            and self.session_id in (None, session_id)
            and self.user in (None, user)
        )


def wanted(status: RunStatus | None, session_id: str | None, user: str | None) -> Wanted:
    """Check which runs are to be listed."""
    if status is not None and status not in (known := get_args(RunStatus)):
        raise UsageError(f"no run is {status!r}: give one of {', '.join(known)}")
    if session_id is not None:
        text(session_id, "the id of a session")
    if user is not None:
        user_of(user)
    return Wanted(status, session_id, user)


def claimed(claim: object) -> Claim:
    """Check what is to be a claim that a store has given."""
    if not isinstance(claim, Claim):
        raise UsageError(f"a claim is what begin and claim give, not {type(claim).__name__}")
    id_of(claim.run_id)
    if _number(claim.token, "the token of a claim", int) != claim.token % _TOKENS:
        raise UsageError(f"no claim has the token {claim.token}: use what begin and claim give")
    return claim


def span(seconds: object) -> float:
    """Check for how long a claim is to be good."""
    found = _number(seconds, "the time of a claim", int, float)
    if not 0 < found <= _LONGEST_CLAIM:
        raise UsageError(
            f"a claim must be good for some time, and not for ever: not for {seconds} seconds"
        )
    return found


def age(seconds: object) -> float:
    """Check for how long runs are to have been over."""
    found = _number(seconds, "the age of runs", int, float)
    if not (found >= 0 and math.isfinite(found)):
        raise UsageError(f"runs cannot have been over for {seconds} seconds")
    return found


def place(after: object) -> int:
    """Check a place in a log."""
    found = int(_number(after, "a place in a log", int))
    if found < 0:
        raise UsageError(f"records are counted from 1 on: there is nothing after {after}")
    return min(found, LARGEST)


def limited(limit: object) -> int | None:
    """Check how many are wanted."""
    if limit is None:
        return None
    found = int(_number(limit, "a limit", int))
    if found < 1:
        raise UsageError(f"a limit of {limit} gives nothing: leave it out for all there are")
    return min(found, LARGEST)


def _number(value: object, what: str, *kinds: type) -> float:
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise UsageError(f"{what} is a number, not {value!r}")
    assert isinstance(value, int | float)  # noqa: S101 - for types
    return value
