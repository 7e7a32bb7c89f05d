"""What assembly and its judges say to each other.

A judge looks at a call while it is written. ``validation`` judges by a schema, ``policy`` by rules;
``assembly`` is handed one and knows neither. All of it is pure: fragments in, a refusal out.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from argstream.deltas import CallKind
from argstream.events import Action, ArgumentsError, PolicyDecision
from argstream.jsonstream import Fragment

__all__ = ["Action", "CallJudge", "Judge", "OnAsk", "PolicyDecision", "Refusal"]

OnAsk: TypeAlias = Literal["deny", "report"]
"""How a policy's ``ask`` is handled where there is no approver.

``deny`` rejects the call. ``report`` completes it, with the answer in
``ToolArgsCompleted.policy_decision``.
"""


class Refusal(NamedTuple):
    """A judge's word that the call cannot become right, whatever follows."""

    error: ArgumentsError
    seen: int
    """How many of the fragments it had to see, the one that decided included."""
    text: str | None = None
    """If that one is a ``Text``: of its text, what ends with the character that decided."""
    string_start: int | None = None
    """The offset of that string. With it, assembly finds the character if there are escapes."""


class CallJudge(Protocol):
    """Judges one call."""

    def feed(self, fragments: Sequence[Fragment]) -> Refusal | None:
        """Take the next fragments of its text; say if they decide against it.

        After a refusal, further fragments change nothing.
        """

    def finish(self, arguments: dict[str, Any] | str, *, as_read: bool) -> ArgumentsError | None:
        """Give the final word on whole arguments.

        ``as_read`` says that they are what the fragments said; otherwise the text was meant in
        another way, and only these count.
        """

    @property
    def error(self) -> ArgumentsError | None:
        """Why it refuses the call, if it does: perhaps for its name alone, from the start."""

    @property
    def policy_decision(self) -> PolicyDecision | None:
        """The policy's answer; None without a policy, and until the policy has decided."""


class Judge(Protocol):
    """Judges the calls of a stream."""

    def open(
        self, name: str, kind: CallKind, *, may_grow: bool = False
    ) -> CallJudge | ArgumentsError | None:
        """Give the judge of a call to this tool, why it must not be, or None: it is let be.

        ``may_grow`` says that more of the name may come: when the arguments begin, it is asked
        again. Until then it should not refuse what may become the name of another tool.
        """
