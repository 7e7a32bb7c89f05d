"""What of a live call has settled: the rules for all who look at one while it is written.

Whatever still grows is only looked at: a string that something refers to would be copied with every
piece that is added to it.
"""

from typing import Any, Protocol

from argstream.events import ArgumentsError
from argstream.jsonstream import PENDING, JsonPath

__all__ = ["LiveCall", "is_settled", "value_at", "verdict_words"]


class LiveCall(Protocol):
    """What is read of a call; ``argstream.Call`` has it."""

    @property
    def name(self) -> str:
        """The name of the tool."""

    @property
    def kind(self) -> str:
        """Whether it takes JSON or free text, and who runs it."""

    @property
    def verdict(self) -> str:
        """``open``, until it is final."""

    @property
    def error(self) -> ArgumentsError | None:
        """Why it is not valid, if it is not."""

    @property
    def partial(self) -> Any:
        """The arguments so far."""

    @property
    def path(self) -> JsonPath:
        """Where the text stands."""

    @property
    def in_doubt(self) -> bool:
        """Whether what was read may be meant in another way, or not be all."""

    @property
    def in_leaves(self) -> bool:
        """Whether more may come for any object and any array."""


def is_settled(call: LiveCall, path: JsonPath) -> bool:
    """Say whether a value that is there is final. The root is, once the call is complete."""
    if call.verdict == "complete":
        return True
    if call.in_doubt or not path or call.path[: len(path)] == path:
        return False
    return not (call.in_leaves and isinstance(value_at(call.partial, path), dict | list))


def value_at(root: Any, path: JsonPath) -> Any:
    """Give the value at a path; PENDING where there is none."""
    for key in path:
        if isinstance(root, dict):
            root = root.get(key, PENDING)
        elif isinstance(root, list) and isinstance(key, int) and -len(root) <= key < len(root):
            root = root[key]
        else:
            return PENDING
    return root


def verdict_words(call: LiveCall) -> str:
    """Say of a call that is over, and not complete, what became of it."""
    told = "reading was stopped" if call.error is None else call.error.message
    return f"the call is {call.verdict} ({told})"
