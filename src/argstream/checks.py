"""The interface between assembly and the checks of a call.

A check reads a call while it is written and can reject it. ``validation`` checks by a schema,
``policy`` by rules. ``assembly`` depends only on this interface. Checks perform no I/O.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from argstream.events import ArgumentsError, PolicyDecision
from argstream.history import CallKind, Verdict
from argstream.jsonstream import PENDING, Fragment, JsonPath

OnAsk: TypeAlias = Literal["deny", "report"]
"""How a policy's ``ask`` is handled where there is no approver.

``deny`` rejects the call. ``report`` completes it, with the answer in
``ToolArgsCompleted.policy_decision``.
"""


class Rejection(NamedTuple):
    """The call cannot become valid, whatever text follows."""

    error: ArgumentsError
    seen: int
    """The number of fragments up to and including the one that caused the rejection."""
    text: str | None = None
    """If that fragment is a ``Text``: its text, including the first invalid character."""
    string_start: int | None = None
    """The offset of that string. Assembly uses it to locate the character if there are escapes."""


class CallCheck(Protocol):
    """Checks one call."""

    def feed(self, fragments: Sequence[Fragment]) -> Rejection | None:
        """Check the next fragments of the call. Fragments after a rejection have no effect."""

    def finish(self, arguments: dict[str, Any] | str, *, as_read: bool) -> ArgumentsError | None:
        """Check complete arguments.

        ``as_read`` is True if the arguments are the values of the fragments. If it is False, the
        text was reinterpreted, and only these arguments count.
        """

    @property
    def error(self) -> ArgumentsError | None:
        """Why the call is rejected; set from the start if the tool name is enough to reject it."""

    @property
    def policy_decision(self) -> PolicyDecision | None:
        """The policy's answer; None without a policy, and until the policy has decided."""


class Check(Protocol):
    """Checks the calls of a stream."""

    def open(
        self, name: str, kind: CallKind, *, may_grow: bool = False
    ) -> CallCheck | ArgumentsError | None:
        """Return a check for one call of this tool, an error, or None if the call is not checked.

        ``may_grow`` is True while more of the name may arrive. ``open`` is called again when the
        arguments start; until then it should not reject a prefix of a known name.
        """


class LiveCall(Protocol):
    """A call in progress. ``argstream.assembly.Call`` implements it."""

    name: str
    """The name of the tool."""
    kind: CallKind
    verdict: Literal["open"] | Verdict
    """How the call ended; ``open`` while it is written."""
    error: ArgumentsError | None
    """Why the call is invalid, if it is."""
    partial: Any
    """The arguments so far."""
    in_doubt: bool
    """Whether the text so far may still be reinterpreted."""
    in_leaves: bool
    """Whether values are sent with their paths, so that any object or array may still grow."""

    @property
    def path(self) -> JsonPath:
        """The path of the value that is being written."""


def is_settled(call: LiveCall, path: JsonPath) -> bool:
    """Return True if the value at a path is final. The root is final once the call is complete."""
    if call.verdict == "complete":
        return True
    if call.in_doubt or not path or call.path[: len(path)] == path:
        return False
    return not (call.in_leaves and isinstance(value_at(call.partial, path), dict | list))


def value_at(root: Any, path: JsonPath) -> Any:
    """Return the value at a path, or PENDING if there is none."""
    for key in path:
        if isinstance(root, dict):
            root = root.get(key, PENDING)
        elif isinstance(root, list) and isinstance(key, int) and -len(root) <= key < len(root):
            root = root[key]
        else:
            return PENDING
    return root


def verdict_words(call: LiveCall) -> str:
    """Describe how an incomplete call ended."""
    reason = "reading was stopped" if call.error is None else call.error.message
    return f"the call is {call.verdict} ({reason})"
