"""What a person can say to a call that must be approved."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from argstream.events import Remembered

__all__ = ["Approval", "Approve", "Decisions", "Deny"]


class Approve(Struct, frozen=True, kw_only=True, tag="approve"):
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


class Deny(Struct, frozen=True, tag="deny"):
    """The call must not run; the model is told why."""

    reason: str = ""


Approval: TypeAlias = Approve | Deny
Decisions: TypeAlias = Mapping[str, Approval]
"""Decisions, by the ids of their calls."""
