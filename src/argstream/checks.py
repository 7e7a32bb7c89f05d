"""What assembly and its checks say to each other.

A check looks at a call while it is written. ``validation`` checks by a schema, ``policy`` by rules;
``assembly`` is handed one and knows neither. All of it is pure: fragments in, a refusal out.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from argstream.events import ArgumentsError, PolicyDecision
from argstream.history import CallKind
from argstream.jsonstream import PENDING, Fragment, JsonPath

OnAsk: TypeAlias = Literal["deny", "report"]
"""How a policy's ``ask`` is handled where there is no approver.

``deny`` rejects the call. ``report`` completes it, with the answer in
``ToolArgsCompleted.policy_decision``.
"""


class Rejection(NamedTuple):
    """A check's answer that the call cannot become valid, whatever follows."""

    error: ArgumentsError
    seen: int
    """How many of the fragments it had to see, the one that decided included."""
    text: str | None = None
    """If that one is a ``Text``: of its text, what ends with the character that decided."""
    string_start: int | None = None
    """The offset of that string. With it, assembly finds the character if there are escapes."""


class CallCheck(Protocol):
    """Checks one call."""

    def feed(self, fragments: Sequence[Fragment]) -> Rejection | None:
        """Check the next fragments of the call's text.

        After a refusal, further fragments change nothing.
        """

    def finish(self, arguments: dict[str, Any] | str, *, as_read: bool) -> ArgumentsError | None:
        """Check complete arguments.

        ``as_read`` says that they are what the fragments said; otherwise the text was meant in
        another way, and only these count.
        """

    @property
    def error(self) -> ArgumentsError | None:
        """Why the call is refused; set from the start if its name is enough."""

    @property
    def policy_decision(self) -> PolicyDecision | None:
        """The policy's answer; None without a policy, and until the policy has decided."""


class Check(Protocol):
    """Checks the calls of a stream."""

    def open(
        self, name: str, kind: CallKind, *, may_grow: bool = False
    ) -> CallCheck | ArgumentsError | None:
        """Return the check of a call to this tool, an error, or None if it is not checked.

        ``may_grow`` says that more of the name may come: when the arguments begin, it is asked
        again. Until then it should not refuse what may become the name of another tool.
        """


class LiveCall(Protocol):
    """What is read of a call. ``argstream.assembly.Call`` implements it."""

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
    """Return True if a value that is there is final. The root is, once the call is complete."""
    if call.verdict == "complete":
        return True
    if call.in_doubt or not path or call.path[: len(path)] == path:
        return False
    return not (call.in_leaves and isinstance(value_at(call.partial, path), dict | list))


def value_at(root: Any, path: JsonPath) -> Any:
    """Return the value at a path; PENDING where there is none."""
    for key in path:
        if isinstance(root, dict):
            root = root.get(key, PENDING)
        elif isinstance(root, list) and isinstance(key, int) and -len(root) <= key < len(root):
            root = root[key]
        else:
            return PENDING
    return root


def verdict_words(call: LiveCall) -> str:
    """Describe how a call ended that is not complete."""
    told = "reading was stopped" if call.error is None else call.error.message
    return f"the call is {call.verdict} ({told})"
