"""What a person can say to a call that must be approved, and what that is bound to.

A decision is about one call and the exact text of its arguments: the digest stands for both. What
is approved is that text, and a fresh parse of it is what runs (invariant 12).
"""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from argstream.decisions import Approval, Approve, Decisions, Deny
from argstream.events import ApprovalRequested, Remembered

__all__ = [
    "Approval",
    "Approve",
    "Approver",
    "Decisions",
    "Deny",
    "Grant",
    "digest_of",
    "idempotency_key",
]


Approver: TypeAlias = Callable[[ApprovalRequested], Approval | Awaitable[Approval]]
"""Who is asked in place. A function that is not async is called in a thread: it may wait."""


class Grant(Struct, frozen=True):
    """What a person has approved for as long as the conversation lasts."""

    scope: Remembered
    name: str
    """Of the tool, or of the rule."""
    owner: Any = None
    """The function of the tool, or the rule itself: names may repeat in other agents."""


def digest_of(run_id: str, call_id: str, name: str, text: str) -> str:
    """Give what stands for this call with exactly these arguments, in this run and no other."""
    return _sha256(run_id, call_id, name, text)


def idempotency_key(run_id: str, call_id: str) -> str:
    """Give what stands for this call, however often it is run."""
    return _sha256(run_id, call_id)[:32]


def _sha256(*parts: str) -> str:
    return sha256(msgspec.json.encode(parts)).hexdigest()  # JSON keeps the parts apart
