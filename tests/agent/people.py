"""What people may say to a call that must be approved, and what must become of that."""

from typing import Any, Final

from argstream.agent import Approve, Deny
from argstream.events import ApprovalRequested

_EDITS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "send": ({"to": "bob"}, {"to": 5}),
    "shell": ({"command": "pwd"}, {"command": "rm x"}),
    "letter": ({"text": "Dear Bob"}, {"text": "Dear", "signed": True}),
}
"""Arguments that a person may write instead, and such that are refused."""


def possible_decisions(request: ApprovalRequested) -> list[tuple[Any, str | None]]:
    """Give decisions, each with its outcome; None: it is refused."""
    good, bad = _EDITS[request.name]
    return [
        (Approve(), "approved"),
        (Approve(digest=request.digest, reason="fine"), "approved"),
        (Approve(always="session"), "approved"),
        (Approve(always="rule"), "approved" if request.rule is not None else None),
        (Approve(arguments=good), "edited"),
        (Approve(arguments=good, always="session"), "edited"),
        (Approve(arguments=bad), None),
        (Approve(arguments={"to": object()}), None),
        (Approve(digest="of something else"), None),
        (Deny("not now"), "denied"),
        ("yes", None),
    ]
