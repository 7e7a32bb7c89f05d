"""What a person can say to a call that must be approved, and what that is bound to.

A decision is about one call and the exact text of its arguments: the digest stands for both. What
is approved is that text, and a fresh parse of it is what runs (invariant 12).
"""

from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

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


class Approve(Struct, frozen=True, kw_only=True):
    """The call may run."""

    arguments: Mapping[str, Any] | None = None
    """What to run it with instead of the model's; must fit the tool. The model is told."""
    always: Remembered | None = None
    """What need not be asked about again in this conversation.

    ``session``: any call of this tool; ``rule``: any that the same rule of the policy asks about.
    """
    digest: str = ""
    """Of the request that was decided on. If given, it must be that of the request."""
    reason: str = ""


class Deny(Struct, frozen=True):
    """The call must not run; the model is told why."""

    reason: str = ""


Approval: TypeAlias = Approve | Deny
Decisions: TypeAlias = Mapping[str, Approval]
"""Decisions, by the ids of their calls."""

Approver: TypeAlias = Callable[[ApprovalRequested], Approval | Awaitable[Approval]]
"""Who is asked in place. A function that is not async is called in a thread: it may wait."""


class Grant(Struct, frozen=True):
    """What a person has approved for as long as the conversation lasts."""

    scope: Remembered
    name: str
    """Of the tool, or of the rule."""
    owner: Any = None
    """The function of the tool, or the policy of the rule: names may repeat in other agents."""


def digest_of(run_id: str, call_id: str, name: str, text: str) -> str:
    """Give what stands for this call with exactly these arguments, in this run and no other."""
    return _sha256(run_id, call_id, name, text)


def idempotency_key(run_id: str, call_id: str) -> str:
    """Give what stands for this call, however often it is run."""
    return _sha256(run_id, call_id)[:32]


def _sha256(*parts: str) -> str:
    return sha256(msgspec.json.encode(parts)).hexdigest()  # JSON keeps the parts apart
