"""``PolicyCheck``: one call, checked by the rules while it is written.

Only complete values count, so the text of a long string costs a glance at each piece of it. The
first rule that matches decides. A rule whose argument has not come holds up those behind it, unless
they all say the same: then nothing that comes can change the outcome, and it is said at once.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from argstream.checks import OnAsk, Rejection
from argstream.events import Action, ArgumentsError, PolicyDecision
from argstream.history import CallKind
from argstream.jsonstream import Done, Fragment, JsonPath
from argstream.policy._conditions import Condition, Undecided
from argstream.policy._messages import argument_words, kind_of, name_words, shown
from argstream.policy._rules import EVERY_ITEM, ArgumentPattern, Item, Rule
from argstream.providers._deltas import (
    FREE_TEXT_KINDS,
)


class Finding(NamedTuple):
    """Why a condition holds, or why it could not be asked."""

    path: JsonPath
    value: Any
    offset: int | None
    """Where the value ended, if it was read."""
    condition: Condition
    unclear: str | None = None
    """Why it could not be told, if it could not."""
    failure: Exception | None = None
    """What was raised instead of an answer."""


class Miss(NamedTuple):
    """Why a condition does not hold."""

    path: JsonPath
    value: Any
    offset: int | None  # where the value ended, if it was read
    condition: Condition | None = None
    """What does not hold of it; None if it could not be asked, since there is no such value."""
    unclear: str | None = None  # why it could not be told, if it could not
    step: str | int | Item | None = None  # the next step to the argument, if it is not there


class RuleState:
    def __init__(self, rule: Rule, name: str) -> None:
        self.rule = rule
        self.name = name
        self.watches = tuple(PendingCondition(self, *condition) for condition in rule.conditions)
        self.outcome: Action | bool | None = None if self.watches else rule.action
        """What it decides; False if it does not match; None while it waits."""
        self.miss: Miss | None = None
        """Why it does not match, if it does not; while it waits, why it does not allow."""

    @property
    def possible(self) -> set[Action]:
        """What it may still decide, if it decides."""
        possible: set[Action] = set()
        if self._has_failed or self._may_fail:
            possible.add("deny")
        if not self._has_failed and self._doubt is None:
            possible.add(self.rule.action)
        return possible

    @property
    def findings(self) -> list[Finding]:
        """Why it matches: of each condition; if one failed, only that."""
        found = [watch.finding for watch in self.watches if watch.finding is not None]
        return [finding for finding in found if finding.failure is not None][:1] or found

    def conclude(self) -> None:
        """Update the outcome after more is known of a condition."""
        if self.outcome is not None:
            return
        doubt = self._doubt
        if doubt is not None:
            self.miss = Miss(doubt.path, doubt.value, doubt.offset, doubt.condition, doubt.unclear)
        if doubt is not None and not self._has_failed and not self._may_fail:
            self.outcome = False
        elif not any(watch.is_open for watch in self.watches):
            self.outcome = "deny" if self._has_failed else self.rule.action

    @property
    def _has_failed(self) -> bool:
        return any(finding.failure is not None for finding in self.findings)

    @property
    def _may_fail(self) -> bool:
        return any(watch.is_open and watch.condition.can_fail for watch in self.watches)

    @property
    def _doubt(self) -> Finding | None:
        """What keeps it from allowing although it is not refuted."""
        if self.rule.action != "allow":
            return None
        found = (watch.finding for watch in self.watches)
        return next((one for one in found if one is not None and one.unclear is not None), None)


class PendingCondition:
    """One condition of a rule, waiting for its argument."""

    def __init__(self, state: RuleState, pattern: ArgumentPattern, condition: Condition) -> None:
        self.state = state
        self.pattern = pattern
        self.condition = condition
        self.finding: Finding | None = None
        self.is_open = True
        self._every = EVERY_ITEM in pattern
        # Up to here each step is one place; from here on there may be many.
        self._first_item = next(
            (n for n, step in enumerate(pattern) if isinstance(step, Item)), len(pattern)
        )

    def meet(self, path: JsonPath, value: Any, offset: int | None) -> bool:
        """Test a complete value: the argument, or a container of it.

        Says whether this settles the condition, or changes what its rule may decide.
        """
        if not self.is_open or self.state.outcome is not None:
            return False
        ask = self._ask if len(path) == len(self.pattern) else self._look_inside
        answer = ask(path, value, offset)
        is_news = isinstance(answer, Finding) and self._note(answer)
        if isinstance(answer, Miss) and self._every:
            self._refute(answer)
        elif len(path) <= self._first_item or (isinstance(answer, Finding) and self._suffices):
            self.is_open = False
            if self.finding is None:
                step = self.pattern[len(path)] if len(path) < len(self.pattern) else None
                missing = Miss(path, value, offset, step=step)
                self._refute(answer if isinstance(answer, Miss) else missing)
        tells = is_news or not self.is_open
        if tells:
            self.state.conclude()
        return tells

    def _ask(self, path: JsonPath, value: Any, offset: int | None) -> Finding | Miss:
        condition = self.condition
        if value is None and not condition.takes_null:
            return Miss(path, value, offset)
        try:
            answer = condition.test(value)
        except Exception as error:  # noqa: BLE001 - whatever it is, the call is denied for it
            return Finding(path, value, offset, condition, failure=error)
        if isinstance(answer, Undecided):
            return Finding(path, value, offset, condition, unclear=answer.why)
        if not answer:
            return Miss(path, value, offset, condition)
        return Finding(path, value, offset, condition)

    def _look_inside(self, path: JsonPath, value: Any, offset: int | None) -> Finding | Miss | None:
        """Check whether the next step could be taken. What it led to has been tested before."""
        step = self.pattern[len(path)]
        wanted, there = (
            ("an object", isinstance(value, dict) and step in value)
            if isinstance(step, str)
            else (
                "an array",
                isinstance(value, list) and (isinstance(step, Item) or step < len(value)),
            )
        )
        if there:
            return None
        # A rule for all tools is about those that have such an argument, and free text has none.
        # But a rule that names a tool expects it to be there.
        is_free_of_it = isinstance(value, str) and not path and self.state.rule.tools is None
        is_kind = isinstance(value, dict if isinstance(step, str) else list)
        if value is None or is_kind or is_free_of_it:
            return Miss(path, value, offset, step=step)
        kind = "free text" if not path else kind_of(value)
        return Finding(path, value, offset, self.condition, f"it is {kind}, not {wanted}")

    def _note(self, finding: Finding) -> bool:
        """Keep a finding if it outweighs the known one. Returns whether it was kept."""
        known = self.finding
        if known is not None:
            if known.failure is not None:
                return False
            is_doubt = self._every and finding.unclear is not None and known.unclear is None
            if finding.failure is None and not is_doubt:
                return False
        self.finding = finding
        return True

    @property
    def _suffices(self) -> bool:
        """Whether no other item can change what this one means."""
        if self._every:
            return False
        has_failed = self.finding is not None and self.finding.failure is not None
        return has_failed or self.state.rule.action == "deny" or not self.condition.can_fail

    def _refute(self, miss: Miss) -> None:
        self.is_open = False
        self.state.outcome, self.state.miss = False, miss


class _Node:
    """A step on the way to arguments that are watched."""

    def __init__(self) -> None:
        self.children: dict[str | int, _Node] = {}
        self.items: _Node | None = None
        self.ending: list[PendingCondition] = []
        self.beyond: list[PendingCondition] = []  # those that are about something inside


class ConditionTree:
    """All watches of a call, by the way to their arguments."""

    def __init__(self, states: list[RuleState]) -> None:
        self._root = _Node()
        for state in states:
            for watch in state.watches:
                self._hang(watch)

    def settle(self, path: JsonPath, value: Any, offset: int | None) -> bool:
        """Test the value at a path. Returns True if that settled a condition."""
        nodes = [self._root]
        for step in path:
            following = []
            for node in nodes:
                child = node.children.get(step)
                if child is not None:
                    following.append(child)
                if node.items is not None and isinstance(step, int):
                    following.append(node.items)
            if not following:
                return False
            nodes = following
        settled = [_meet(node, path, value, offset) for node in nodes]
        return any(settled)

    def settle_whole(self, value: Any) -> None:
        """Test complete arguments, as if each value in them had settled in turn."""
        _walk(self._root, (), value)

    def settle_free_text(self) -> None:
        """Tell the conditions that there is a text instead of an object of arguments."""
        for watch in self._root.beyond:
            watch.meet((), "", None)

    def _hang(self, watch: PendingCondition) -> None:
        node = self._root
        for step in watch.pattern:
            node.beyond.append(watch)
            if isinstance(step, Item):
                node.items = node.items or _Node()
                node = node.items
            else:
                node = node.children.setdefault(step, _Node())
        node.ending.append(watch)


def _meet(node: _Node, path: JsonPath, value: Any, offset: int | None) -> bool:
    settled = False
    for watch in node.ending:
        settled |= watch.meet(path, value, offset)
    for watch in node.beyond:
        settled |= watch.meet(path, value, offset)
    return settled


def _walk(node: _Node, path: JsonPath, value: Any) -> None:
    """Visit a value and what the tree knows of it, insides first. No deeper than a pattern."""
    if isinstance(value, dict):
        for key, child in node.children.items():
            if isinstance(key, str) and key in value:
                _walk(child, (*path, key), value[key])
    elif isinstance(value, list):
        for key, child in node.children.items():
            if isinstance(key, int) and key < len(value):
                _walk(child, (*path, key), value[key])
        if node.items is not None:
            for index, item in enumerate(value):
                _walk(node.items, (*path, index), item)
    _meet(node, path, value, None)


_MOST_MISSES: Final = 3  # of as many rules it is said why they do not match


def message(tool: str, decision: PolicyDecision) -> str:
    by = "" if decision.rule is None else f" ({name_words(decision.rule)})"
    if decision.action == "ask":
        return (
            f"a call to {name_words(tool)} needs approval by the policy{by}, but this stream has "
            f"no approver: {decision.reason}"
        )
    return f"a call of {name_words(tool)} is denied by the policy{by}: {decision.reason}"


def default_reason(action: Action, misses: Sequence[Miss] = ()) -> str:
    said = f"no rule says otherwise than the default, which is {action}"
    return f"{said} ({_missed(misses)})" if misses else said


def rule_reason(rule: Rule, findings: Sequence[Finding], misses: Sequence[Miss] = ()) -> str:
    found = " and ".join(_found(finding) for finding in findings) or _missed(misses)
    if rule.reason and found:
        return f"{rule.reason} ({found})"
    return rule.reason or found or "the rule is about every call of this tool"


def _found(finding: Finding) -> str:
    condition = finding.condition
    subject = _subject(finding.path, finding.value)
    if finding.failure is not None:
        raised = _raised(finding.failure)
        return f"the rule could not be checked, {subject} made it raise {raised}"
    if finding.unclear is not None:
        return _untold(subject, condition.words(), finding.unclear)
    return f"{subject} {condition.words()}"


def _missed(misses: Sequence[Miss]) -> str:
    """Join the reasons why rules do not match one value, without repetitions."""
    sentences = dict.fromkeys(_missed_by_one(miss) for miss in misses)
    return " and ".join(list(sentences)[:_MOST_MISSES])


def _missed_by_one(miss: Miss) -> str:
    subject = _subject(miss.path, miss.value)
    if miss.unclear is not None and miss.condition is not None:
        return _untold(subject, miss.condition.words(), miss.unclear)
    if miss.condition is not None:
        return f"{subject} {miss.condition.words(negated=True)}"
    if isinstance(miss.step, Item):
        return f"{subject} has no item like that"
    if miss.step is not None:
        return f"{argument_words((*miss.path, miss.step))} did not come"
    return f"{argument_words(miss.path)} is null, as if it had not come"


def _untold(subject: str, said: str, why: str) -> str:
    return f"of {subject} it cannot be told whether it {said}, since {why}"


def _subject(path: JsonPath, value: Any) -> str:
    if path:
        return f"{argument_words(path)}, {shown(value)},"
    return "the text of the call" if isinstance(value, str) else "all that the call says"


def _raised(error: Exception) -> str:
    """Describe a user's exception. Even ``str`` of it may raise."""
    kind = type(error).__name__
    try:
        return name_words(f"{kind}: {error}")
    except Exception as another:  # noqa: BLE001 - the call is denied for the first, that is enough
        return name_words(f"{kind}, which cannot be shown ({type(another).__name__})")


_MORE_LENIENT: Final[dict[Action, tuple[Action, ...]]] = {
    "allow": (),
    "ask": ("allow",),
    "deny": ("allow", "ask"),
}


class PolicyCheck:
    """Checks one call. ``Policy.open`` makes it; ``error`` is set at once if the name decides.

    With ``on_ask="deny"``, ``ask`` rejects the call as ``deny`` does, and as early.
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

    def feed(self, fragments: Sequence[Fragment]) -> Rejection | None:
        """Test the next fragments. Returns a refusal if they decide against the call."""
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
        """Decide on complete arguments. An argument that is missing does not match."""
        if self._decision is None or not as_read:
            self._begin()
            self._tree.settle_whole(arguments)
            self._decide()
        return self.error

    def _refuse(self, seen: int) -> Rejection | None:
        """Return the refusal of a rejected call, the first time."""
        error = None if self._has_refused else self.error
        if error is None:
            return None
        self._has_refused = True
        return Rejection(error, seen)

    def _begin(self) -> None:
        self._states = [RuleState(rule, name) for name, rule in self._rules]
        self._tree = ConditionTree(self._states)
        self._decision: PolicyDecision | None = None
        self._offset: int | None = None

    def _decide(self, done: Done | None = None) -> bool:
        """Decide if nothing that may still come makes a difference. Returns whether it did.

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
        """Record the decision of a rule, or of the default after ``before`` did not match."""
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
    """Return why no rule before decided more leniently, for the argument that settled last."""
    lenient = _MORE_LENIENT[action]
    misses = [one.miss for one in before if one.miss is not None and one.rule.action in lenient]
    if not misses:
        return []
    last = max(misses, key=lambda miss: miss.offset or 0)
    return [miss for miss in misses if (miss.path, miss.offset) == (last.path, last.offset)]
