"""Rules while a call is written: which of them wait for which argument, and what they found.

Each condition of a rule becomes a ``Watch`` on its argument. The watches of a call hang in a tree
of steps, so that a value that settles finds those that wait for it, for a cost that depends on how
deep it lies and on the rules, never on how much has come before.

The outcome of a rule does not depend on the order in which its values come. So "no" outweighs all
else; then a function that raised, which denies; then an answer that is unclear, for which a rule
that denies or asks does match, and one that allows does not. Where a function may still raise, it
is asked although a rule that allows cannot match any more, or one that asks has found an item.
"""

from typing import Any, NamedTuple

from argstream.jsonstream import JsonPath
from argstream.judging import Action
from argstream.policy._condition import Condition, Unclear
from argstream.policy._wording import kind_of
from argstream.policy.arguments import EVERY_ITEM, ArgumentPattern, Item
from argstream.policy.rules import Rule

__all__ = ["Finding", "Miss", "RuleState", "WatchTree"]


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
    offset: int | None
    """Where the value ended, if it was read."""
    condition: Condition | None = None
    """What does not hold of it; None if it could not be asked, since there is no such value."""
    unclear: str | None = None
    """Why it could not be told, if it could not."""
    step: str | int | Item | None = None
    """The next step to the argument, if it is not there."""


class RuleState:
    """What is known of one rule now."""

    __slots__ = ("miss", "name", "outcome", "rule", "watches")

    def __init__(self, rule: Rule, name: str) -> None:
        self.rule = rule
        self.name = name
        self.watches = tuple(Watch(self, *condition) for condition in rule.conditions)
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

    def refute(self, miss: Miss) -> None:
        """Hear that one of its conditions does not hold."""
        self.outcome, self.miss = False, miss

    def conclude(self) -> None:
        """Hear that more is known of one of its conditions, and see what follows."""
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


class Watch:
    """One condition of a rule, waiting for its argument."""

    __slots__ = ("_every", "_first_item", "condition", "finding", "is_open", "pattern", "state")

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
        """Look at a value that is complete: the argument, or something that it should be in.

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
                missing = Miss(path, value, offset, step=self._step_from(path))
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
        if isinstance(answer, Unclear):
            return Finding(path, value, offset, condition, unclear=answer.why)
        if not answer:
            return Miss(path, value, offset, condition)
        return Finding(path, value, offset, condition)

    def _look_inside(self, path: JsonPath, value: Any, offset: int | None) -> Finding | Miss | None:
        """See whether the next step could be taken; what it led to has been met before."""
        step = self.pattern[len(path)]
        wanted, there = (
            ("an object", isinstance(value, dict) and step in value)
            if isinstance(step, str)
            else ("an array", isinstance(value, list) and _has_item(value, step))
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
        """Keep what was found if it weighs more than what was; say whether it was kept."""
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
        self.state.refute(miss)

    def _step_from(self, path: JsonPath) -> str | int | Item | None:
        return self.pattern[len(path)] if len(path) < len(self.pattern) else None


def _has_item(value: list[Any], step: int | Item) -> bool:
    return isinstance(step, Item) or step < len(value)


class _Node:
    """A step on the way to arguments that are watched."""

    __slots__ = ("beyond", "children", "ending", "items")

    def __init__(self) -> None:
        self.children: dict[str | int, _Node] = {}
        self.items: _Node | None = None
        self.ending: list[Watch] = []
        self.beyond: list[Watch] = []
        """Those that are about something inside."""


class WatchTree:
    """All watches of a call, by the way to their arguments."""

    __slots__ = ("_root",)

    def __init__(self, states: list[RuleState]) -> None:
        self._root = _Node()
        for state in states:
            for watch in state.watches:
                self._hang(watch)

    def settle(self, path: JsonPath, value: Any, offset: int | None) -> bool:
        """Hear that the value at a path is complete; say whether a condition is settled by it."""
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
        """Hear the whole arguments at once: the same as if each value in them settled in turn."""
        _walk(self._root, (), value)

    def settle_free_text(self) -> None:
        """Hear that there will be no arguments in an object, but a text."""
        for watch in self._root.beyond:
            watch.meet((), "", None)

    def _hang(self, watch: Watch) -> None:
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
    """Visit what the tree knows of a value, insides first. As deep as a pattern, so it ends."""
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
