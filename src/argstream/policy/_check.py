"""``PolicyCheck``: checks one call by the rules while it is written.

Only complete values are tested, so pieces of a long string cost almost nothing. The first rule that
matches decides. A rule whose argument has not arrived delays the rules after it, unless all of them
have the same effect: then the decision is made at once.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from argstream.checks import OnAsk, Rejection
from argstream.events import Action, ArgumentsError, PolicyDecision
from argstream.history import CallKind
from argstream.jsonstream import Done, Fragment, JsonPath
from argstream.jsonstream._fragments import kind_words
from argstream.policy._conditions import (
    Condition,
    Undecided,
    argument_words,
    name_words,
    shown,
)
from argstream.policy._rules import ACTIONS, EVERY_ITEM, ArgumentPattern, Item, Rule
from argstream.providers._deltas import FREE_TEXT_KINDS


class Tested(NamedTuple):
    """What the test of a value has shown."""

    path: JsonPath
    value: Any
    offset: int | None  # of the end of the value
    condition: Condition | None = None  # None if the argument is missing
    holds: bool = False  # also if it is undecided, or raised
    why_undecided: str | None = None
    failure: Exception | None = None  # what the condition raised
    step: str | int | Item | None = None  # the first missing step to the argument


class RuleState:
    def __init__(self, rule: Rule, name: str) -> None:
        self.rule = rule
        self.name = name
        self.conditions = tuple(PendingCondition(self, *condition) for condition in rule.conditions)
        self.outcome: Action | bool | None = None if self.conditions else rule.action
        """The action; False if the rule does not match; None while the rule waits for arguments."""
        self.miss: Tested | None = None
        """Why it does not match, or why it cannot allow the call while it waits for arguments."""

    @property
    def possible(self) -> set[Action]:
        has_failed = any(finding.failure is not None for finding in self.findings)
        waiting = (pending for pending in self.conditions if pending.is_open)
        possible: set[Action] = set()
        if has_failed or any(pending.condition.can_fail for pending in waiting):
            possible.add("deny")
        if not has_failed and self._undecided is None:
            possible.add(self.rule.action)
        return possible

    @property
    def findings(self) -> list[Tested]:
        """The findings of all conditions; if one raised, only its finding."""
        found = [pending.finding for pending in self.conditions if pending.finding is not None]
        return [finding for finding in found if finding.failure is not None][:1] or found

    def update(self) -> None:
        if self.outcome is not None:
            return
        self.miss = self._undecided or self.miss
        if not (possible := self.possible):
            self.outcome = False
        elif not any(pending.is_open for pending in self.conditions):
            (self.outcome,) = possible

    @property
    def _undecided(self) -> Tested | None:
        """An undecided condition, which prevents a rule from allowing the call."""
        if self.rule.action != "allow":
            return None
        return next((one for one in self.findings if one.why_undecided is not None), None)


class PendingCondition:
    """One condition of a rule, waiting for its argument."""

    def __init__(self, state: RuleState, pattern: ArgumentPattern, condition: Condition) -> None:
        self.state = state
        self.pattern = pattern
        self.condition = condition
        self.finding: Tested | None = None  # why it holds, is undecided or raised
        self.is_open = True
        self._every = EVERY_ITEM in pattern
        # From this step on, the pattern may have many values.
        self._first_item = next(
            (n for n, step in enumerate(pattern) if isinstance(step, Item)), len(pattern)
        )

    def concerns(self, path: JsonPath) -> bool:
        """Return True for a path to the argument, or to a container of it."""
        pattern, at = self.pattern, len(path)
        if at > len(pattern):
            return False
        while at:  # from the end, where most paths differ
            at -= 1
            if path[at] != pattern[at] and not (
                type(pattern[at]) is Item and type(path[at]) is int
            ):
                return False
        return True

    def values(self, path: JsonPath, value: Any) -> Iterator[tuple[JsonPath, Any]]:
        """Yield the values to which the pattern leads from here, before their containers."""
        if len(path) < len(self.pattern):
            step = self.pattern[len(path)]
            if _has_step(value, step):
                for key in range(len(value)) if isinstance(step, Item) else (step,):
                    yield from self.values((*path, key), value[key])
        yield path, value

    def settle(self, path: JsonPath, value: Any, offset: int | None) -> bool:
        """Test a complete value: the argument, or a container of it.

        Return True if this settles the condition, or changes the possible actions of its rule.
        """
        if not self.is_open or self.state.outcome is not None:
            return False
        test = self._test if len(path) == len(self.pattern) else self._test_container
        tested = test(path, value, offset)
        before, holds = self.finding, tested is not None and tested.holds
        if tested is not None and holds:
            # The most severe finding counts, else the first one.
            self.finding = max(before or tested, tested, key=self._severity)
        if tested is not None and not holds and self._every:
            self._refute(tested)
        elif len(path) <= self._first_item or (holds and self._suffices):
            self.is_open = False
            if self.finding is None:
                step = self.pattern[len(path)] if len(path) < len(self.pattern) else None
                self._refute(tested or Tested(path, value, offset, step=step))
        if self.is_open and self.finding is before:
            return False
        self.state.update()
        return True

    def _test(self, path: JsonPath, value: Any, offset: int | None) -> Tested:
        condition = self.condition
        if value is None and not condition.takes_null:
            return Tested(path, value, offset)
        try:
            answer = condition.test(value)
        except Exception as error:  # noqa: BLE001 - a user's function; the call is denied
            return Tested(path, value, offset, condition, holds=True, failure=error)
        why = answer.why if isinstance(answer, Undecided) else None
        holds = why is not None or bool(answer)
        return Tested(path, value, offset, condition, holds, why)

    def _test_container(self, path: JsonPath, value: Any, offset: int | None) -> Tested | None:
        """Check that a container has the next step. The value at that step was tested before."""
        step = self.pattern[len(path)]
        if _has_step(value, step):
            return None
        # A rule for all tools does not apply to free text, which has no arguments. A rule that
        # names a tool expects the argument to exist.
        is_exempt = isinstance(value, str) and not path and self.state.rule.tools is None
        kind, expected = (dict, "an object") if isinstance(step, str) else (list, "an array")
        if value is None or isinstance(value, kind) or is_exempt:
            return Tested(path, value, offset, step=step)
        why = f"it is {kind_words(value) if path else 'free text'}, not {expected}"
        return Tested(path, value, offset, self.condition, holds=True, why_undecided=why)

    def _severity(self, finding: Tested) -> int:
        if finding.failure is not None:
            return 2
        return int(self._every and finding.why_undecided is not None)

    @property
    def _suffices(self) -> bool:
        """Whether one finding is enough, whatever the other items are."""
        if self._every:
            return False
        has_failed = self.finding is not None and self.finding.failure is not None
        return has_failed or self.state.rule.action == "deny" or not self.condition.can_fail

    def _refute(self, miss: Tested) -> None:
        self.is_open = False
        self.state.outcome, self.state.miss = False, miss


def _has_step(value: Any, step: str | int | Item) -> bool:
    if isinstance(step, str):
        return isinstance(value, dict) and step in value
    return isinstance(value, list) and (isinstance(step, Item) or step < len(value))


_MAX_MISSES: Final = 3  # maximum number of rules that a reason explains


def _reason(
    rule: Rule | None, action: Action, findings: Sequence[Tested], misses: Sequence[Tested]
) -> str:
    """Explain a decision: of a rule, or of the default if there is no rule."""
    # Several rules may not match one value for the same reason.
    missed = list(dict.fromkeys(map(_words, misses)))[:_MAX_MISSES]
    found = " and ".join(map(_words, findings) if findings else missed)
    default = f"the default is {action}, and no rule overrides it"
    reason = default if rule is None else rule.reason
    if reason and found:
        return f"{reason} ({found})"
    return reason or found or "the rule applies to every call of this tool"


def _words(tested: Tested) -> str:
    subject = f"{argument_words(tested.path)}, {shown(tested.value)},"
    if not tested.path:
        is_text = isinstance(tested.value, str)
        subject = "the text of the call" if is_text else "the object of all arguments"
    if tested.failure is not None:
        raised = _exception_words(tested.failure)
        return f"the rule could not be checked: the test of {subject} raised {raised}"
    if tested.condition is not None:
        words = tested.condition.words(negated=not tested.holds)
        if tested.why_undecided is not None:
            return f"it is unclear whether {subject} {words}: {tested.why_undecided}"
        return f"{subject} {words}"
    if isinstance(tested.step, Item):
        return f"{subject} has no matching item"
    if tested.step is not None:
        return f"{argument_words((*tested.path, tested.step))} is missing"
    return f"{argument_words(tested.path)} is null, which counts as missing"


def _exception_words(error: Exception) -> str:
    """Describe an exception of a user's function. Its ``__str__`` may raise too."""
    kind = type(error).__name__
    try:
        return name_words(f"{kind}: {error}")
    except Exception as another:  # noqa: BLE001 - the call is denied anyway
        return name_words(f"{kind}, which cannot be shown ({type(another).__name__})")


class PolicyCheck:
    """Checks one call. ``Policy.open`` creates it; ``error`` is set at once if the name decides.

    With ``on_ask="deny"``, ``ask`` rejects the call as early as ``deny`` does.
    """

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
        self._rejecting: set[Action] = {"deny", "ask"} if on_ask == "deny" else {"deny"}
        self._has_rejected = False
        self._reset()
        if kind in FREE_TEXT_KINDS:  # there is no object of arguments
            for pending in self._conditions:
                if pending.pattern:
                    pending.settle((), "", None)
        self._decide()

    @property
    def error(self) -> ArgumentsError | None:
        """The error that rejects the call; None if it is not rejected."""
        decision = self.policy_decision
        if decision is None or decision.action not in self._rejecting:
            return None
        by = "" if decision.rule is None else f" ({name_words(decision.rule)})"
        effect = (
            f"needs approval under the policy{by}, but this stream has no approver"
            if decision.action == "ask"
            else f"is denied by the policy{by}"
        )
        message = f"a call to {name_words(self._name)} {effect}: {decision.reason}"
        return ArgumentsError("denied", message, self._offset, decision.path)

    def feed(self, fragments: Sequence[Fragment]) -> Rejection | None:
        """Test the next fragments. Return a rejection if they decide against the call."""
        if self.policy_decision is not None:
            return self._reject(1) if fragments else None
        for seen, fragment in enumerate(fragments, 1):
            if type(fragment) is not Done:
                continue
            path, value, offset = fragment
            if self._settle(path, value, offset) and self._decide(fragment):
                return self._reject(seen)
        return None

    def finish(self, arguments: dict[str, Any] | str, *, as_read: bool) -> ArgumentsError | None:
        """Decide on complete arguments. A missing argument does not match."""
        if self.policy_decision is None or not as_read:
            self._reset()
            self._settle_whole(arguments)
            self._decide()
        return self.error

    def _reject(self, seen: int) -> Rejection | None:
        """Return the rejection once; None if the call is not rejected."""
        error = None if self._has_rejected else self.error
        if error is None:
            return None
        self._has_rejected = True
        return Rejection(error, seen)

    def _reset(self) -> None:
        self._states = [RuleState(rule, name) for name, rule in self._rules]
        self._conditions = [one for state in self._states for one in state.conditions]
        # By the first step of their patterns, which is a key: most values concern no condition.
        self._by_key: dict[str | int | Item, list[PendingCondition]] = {}
        for pending in self._conditions:
            for key in pending.pattern[:1]:
                self._by_key.setdefault(key, []).append(pending)
        self.policy_decision: PolicyDecision | None = None  # None while it depends on what follows
        self._offset: int | None = None

    def _settle(self, path: JsonPath, value: Any, offset: int | None) -> bool:
        """Test the value at a path. Return True if a condition has changed."""
        found = self._by_key.get(path[0], ()) if path else self._conditions
        settled = [one.settle(path, value, offset) for one in found if one.concerns(path)]
        return any(settled)

    def _settle_whole(self, arguments: Any) -> None:
        """Test complete arguments: first the inner values, then the object of all."""
        for pending in self._conditions:
            for path, value in pending.values((), arguments):
                if path:
                    pending.settle(path, value, None)
        self._settle((), arguments, None)

    def _decide(self, done: Done | None = None) -> bool:
        """Decide once the remaining arguments cannot change the effect. Return True if decided.

        ``done`` is the value that has settled, if any.
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
        return self.policy_decision is not None

    def _is_certain(self, possible: set[Action], action: Action) -> bool:
        """Return True if all possible actions have the effect of this one."""
        return possible <= (self._rejecting if action in self._rejecting else {action})

    def _decide_by(
        self, state: RuleState | None, action: Action, before: list[RuleState], done: Done | None
    ) -> None:
        """Record the decision of a rule or the default. ``before`` are the rules before it."""
        findings = [] if state is None else state.findings
        misses = [] if findings else _misses(before, action)
        path: JsonPath = ()
        self._offset = None
        if findings or misses:
            path, _, self._offset, *_ = findings[0] if findings else misses[0]
        elif done is not None and action in self._rejecting:
            path, _, self._offset = done
        rule, name = (None, None) if state is None else (state.rule, state.name)
        reason = _reason(rule, action, findings, misses)
        self.policy_decision = PolicyDecision(action, reason, name, path)


def _misses(before: list[RuleState], action: Action) -> list[Tested]:
    """Return why no earlier rule was more lenient, for the argument that settled last."""
    lenient = ACTIONS[: ACTIONS.index(action)]
    misses = [one.miss for one in before if one.miss is not None and one.rule.action in lenient]
    if not misses:
        return []
    last = max(misses, key=lambda miss: miss.offset or 0)
    return [miss for miss in misses if (miss.path, miss.offset) == (last.path, last.offset)]
