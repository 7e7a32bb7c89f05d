"""Who answers where nobody can be asked: no, and how to allow it."""

from collections.abc import Callable, Coroutine
from typing import Any

from argstream.decisions import Deny
from argstream.events import ApprovalRequested
from argstream.terminal.spans import Line, Span, line

__all__ = ["unattended"]


def unattended(
    how_to_allow: str, say: Callable[[Line], None] | None = None
) -> Callable[[ApprovalRequested], Coroutine[Any, Any, Deny]]:
    """Make an approver that denies every call; ``how_to_allow`` begins with a verb.

    ``say`` is given a line about it, once: the ``say`` of a terminal for instance.
    """
    reason = f"nobody can be asked here: to allow it, {how_to_allow}"
    unsaid = [say] if say is not None else []

    async def deny(_request: ApprovalRequested) -> Deny:
        while unsaid:
            unsaid.pop()(line(Span(f"Calls that must be approved are denied: {reason}", "warning")))
        return Deny(reason)

    return deny
