"""``PolicyCheck``: one call, judged by the rules while it is written.

Only complete values count, so the text of a long string costs a glance at each piece of it. The
first rule that matches decides. A rule whose argument has not come holds up those behind it, unless
they all say the same: then nothing that comes can change the outcome, and it is said at once.
"""

from collections.abc import Sequence
from typing import Any, Final

from argstream.deltas import FREE_TEXT_KINDS, CallKind
from argstream.events import ArgumentsError
from argstream.jsonstream import Done, Fragment, JsonPath
from argstream.judging import Action, OnAsk, PolicyDecision, Refusal
from argstream.policy._reasons import default_reason, message, rule_reason
from argstream.policy._watch import Miss, RuleState, WatchTree
from argstream.policy.rules import Rule

__all__ = ["PolicyCheck"]

_MORE_LENIENT: Final[dict[Action, tuple[Action, ...]]] = {
    "allow": (),
    "ask": ("allow",),
    "deny": ("allow", "ask"),
}


class PolicyCheck:
    """Checks one call. ``Policy.open`` makes it; ``error`` is set at once if the name decides.

    With ``on_ask="deny"``, ``ask`` rejects the call as ``deny`` does, and as early.
    """

    __slots__ = (
        "_decision", "_default", "_has_refused", "_name", "_offset", "_rejecting", "_rules",
        "_states", "_tree",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        kind: CallKind,
        rules: Sequence[tuple[str, Rule]],
        default: Action,
        *,
        on_ask: OnAsk = "report",
    ) -> None:
        self._name = name
        self._rules = rules
        self._default = default
        self._rejecting: frozenset[Action] = (
            frozenset({"deny", "ask"}) if on_ask == "deny" else frozenset({"deny"})
        )
        self._has_refused = False
        self._begin()
        if kind in FREE_TEXT_KINDS:
            self._tree.settle_free_text()
        self._decide()

    @property
    def policy_decision(self) -> PolicyDecision | None:
        """The policy's answer; None while it depends on arguments that have not come."""
        return self._decision

    @property
    def error(self) -> ArgumentsError | None:
        """The error that rejects the call; None if it is not rejected."""
        decision = self._decision
        if decision is None or decision.action not in self._rejecting:
            return None
        said = message(self._name, decision)
        return ArgumentsError("denied", said, self._offset, decision.path)

    def feed(self, fragments: Sequence[Fragment]) -> Refusal | None:
        """Take the next fragments of the call's text; say if they decide against it."""
        if self._decision is not None:
            return self._refuse(1) if fragments else None
        for seen, fragment in enumerate(fragments, 1):
            if type(fragment) is not Done:
                continue
            path, value, offset = fragment
            if self._tree.settle(path, value, offset) and self._decide(fragment):
                return self._refuse(seen)
        return None

    def finish(self, arguments: dict[str, Any] | str, *, as_read: bool) -> ArgumentsError | None:
        """Give the final word on whole arguments: what is not in them does not match."""
        if self._decision is None or not as_read:
            self._begin()
            self._tree.settle_whole(arguments)
            self._decide()
        return self.error

    def _refuse(self, seen: int) -> Refusal | None:
        """Return the refusal of a rejected call, the first time."""
        error = None if self._has_refused else self.error
        if error is None:
            return None
        self._has_refused = True
        return Refusal(error, seen)

    def _begin(self) -> None:
        self._states = [RuleState(rule, name) for name, rule in self._rules]
        self._tree = WatchTree(self._states)
        self._decision: PolicyDecision | None = None
        self._offset: int | None = None

    def _decide(self, done: Done | None = None) -> bool:
        """Decide if nothing that may still come makes a difference; say whether that is so.

        ``done`` is the value that has settled, if one has.
        """
        possible: set[Action] = set()
        before: list[RuleState] = []
        for state in self._states:
            outcome = state.outcome
            if outcome is None:
                possible |= state.possible
            elif not isinstance(outcome, bool):
                if self._is_certain(possible, outcome):
                    self._decide_by(state, outcome, before, done)
                break
            before.append(state)
        else:
            if self._is_certain(possible, self._default):
                self._decide_by(None, self._default, before, done)
        return self._decision is not None

    def _is_certain(self, possible: set[Action], action: Action) -> bool:
        """Return True if no possible answer differs from this one in its effect."""
        return possible <= (self._rejecting if action in self._rejecting else {action})

    def _decide_by(
        self, state: RuleState | None, action: Action, before: list[RuleState], done: Done | None
    ) -> None:
        """Take the word of a rule, or of the default, with those before it that do not match."""
        findings = [] if state is None else state.findings
        misses = [] if findings else _misses(before, action)
        path: JsonPath = ()
        self._offset = None
        if findings or misses:
            path, _, self._offset, *_ = findings[0] if findings else misses[0]
        elif done is not None and action in self._rejecting:
            path, _, self._offset = done
        if state is None:
            self._decision = PolicyDecision(action, default_reason(action, misses), None, path)
        else:
            reason = rule_reason(state.rule, findings, misses)
            self._decision = PolicyDecision(action, reason, state.name, path)


def _misses(before: list[RuleState], action: Action) -> list[Miss]:
    """Say why no rule decided more leniently: of the one argument that settled last."""
    lenient = _MORE_LENIENT[action]
    misses = [one.miss for one in before if one.miss is not None and one.rule.action in lenient]
    if not misses:
        return []
    last = max(misses, key=lambda miss: miss.offset or 0)
    return [miss for miss in misses if (miss.path, miss.offset) == (last.path, last.offset)]
