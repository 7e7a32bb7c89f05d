"""A tool call as a whole: what is known of it now, and what may go back to a model."""

from typing import Any, Literal, TypeAlias

from argstream.deltas import FREE_TEXT_KINDS, CallKind
from argstream.events import ArgumentsError
from argstream.history import Verdict
from argstream.jsonstream import PENDING, JsonPath, Parser
from argstream.judging import CallJudge, PolicyDecision

__all__ = ["Call", "CallVerdict", "Reinterpretation"]

CallVerdict: TypeAlias = Literal["open"] | Verdict

Reinterpretation: TypeAlias = Literal[
    "cumulative", "replay", "empty_prefix", "double_encoded", "null", "restated", "split_name"
]
"""Why arguments are not read as they stand.

cumulative: each piece repeats all before it. replay: the whole text came once more. empty_prefix:
``{}`` came before the real text. double_encoded: the object is in a JSON string. null: it stands
for no arguments. restated: the provider closed the call with another text than it had streamed.
split_name: the name, not the text: it came in pieces, and the call was started with the first.
"""


class Call:
    """A call, live: it changes while the stream goes on, until its verdict is final.

    Only ``arguments`` of a complete call may be acted on. For any other they are
    ``{"INVALID_JSON": raw}``, which a model understands; while the call is open, None.
    """

    __slots__ = (
        "error",
        "id",
        "in_doubt",
        "in_leaves",
        "index",
        "judge",
        "kind",
        "name",
        "parent_id",
        "parser",
        "partial",
        "raw",
        "reinterpreted",
        "verdict",
    )

    def __init__(
        self, id_: str, index: int, name: str, kind: CallKind, parent_id: str | None = None
    ) -> None:
        self.id = id_
        self.index = index
        self.name = name
        self.kind: CallKind = kind
        self.parent_id = parent_id
        self.verdict: CallVerdict = "open"
        self.reinterpreted: Reinterpretation | None = None
        self.partial: Any = PENDING
        """The arguments so far, an unfinished string included. To look at, not to act on.

        Free text (``custom``, ``code``) has none until it is complete: look at ``raw``.
        """
        self.raw = ""
        """All the text that came, exactly; also what came after an error."""
        self.parser: Parser | None = None
        """What reads the text; for assembly only."""
        self.in_doubt = False
        """Whether what was read may turn out to be meant in another way, or not to be all.

        Then nothing is settled until the call is complete.
        """
        self.in_leaves = False
        """Whether the provider names the place of each value that it sends.

        Then more may come for any object and any array until the verdict.
        """
        self.error: ArgumentsError | None = None
        """Why it is not valid, if it is not."""
        self.judge: CallJudge | None = None
        """Who judges it; for assembly only."""

    @property
    def path(self) -> JsonPath:
        """Where the text stands: at the innermost value of ``partial`` that is not done.

        What does not lie on the way to it is settled, unless the call is ``in_doubt``, or
        ``in_leaves`` and it is an object or an array.
        """
        parser = self.parser
        if parser is None:
            return ()
        if parser.error is not None and parser.error.reason == "duplicate_key":
            return parser.path[:-1]  # what had this key first is done
        return parser.path

    @property
    def policy_decision(self) -> PolicyDecision | None:
        """The policy's answer; None without a policy, and until the policy has decided.

        A ``deny`` rejects the call as soon as it is certain, and so does an ``ask`` with
        ``on_ask="deny"``. Any other answer has no effect on the call.
        """
        return None if self.judge is None else self.judge.policy_decision

    @property
    def arguments(self) -> dict[str, Any] | str | None:
        """The arguments, or how to tell a model that they were not valid; None while open."""
        if self.verdict == "open":
            return None
        if self.verdict == "complete":
            settled: dict[str, Any] | str = self.partial
            return settled
        return self.raw if self.kind in FREE_TEXT_KINDS else {"INVALID_JSON": self.raw}

    def __repr__(self) -> str:
        return f"<Call {self.name!r} {self.id} {self.verdict}, {len(self.raw)} characters>"
