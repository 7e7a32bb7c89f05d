"""Rules while a call is written: which of them wait for which argument, and what they found.

Each condition of a rule becomes a ``Watch`` on its argument. The watches of a call hang in a tree
of steps, so that a value that settles finds those that wait for it, for a cost that depends on how
deep it lies and on the rules, never on how much has come before.

An answer that is unclear is settled where it is given: for a rule that denies or asks it holds, for
a rule that allows it does not. Both "all conditions" and "any item" keep that direction, so nothing
more is needed further up.
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

    __slots__ = ("miss", "name", "open_watches", "outcome", "rule", "watches")

    def __init__(self, rule: Rule, name: str) -> None:
        self.rule = rule
        self.name = name
        self.watches = tuple(Watch(self, *condition) for condition in rule.conditions)
        self.open_watches = len(self.watches)
        self.outcome: Action | bool | None = None if self.watches else rule.action
        """What it decides; False if it does not match; None while it waits."""
        self.miss: Miss | None = None
        """Why it does not match, if it does not."""

    @property
    def possible(self) -> set[Action]:
        """What it may still decide, if it decides."""
        if any(finding.failure is not None for finding in self.findings):
            return {"deny"}
        if any(watch.is_open and watch.condition.can_fail for watch in self.watches):
            return {self.rule.action, "deny"}
        return {self.rule.action}

    @property
    def findings(self) -> list[Finding]:
        """Why it matches: of each condition; if one failed, only that."""
        found = [watch.finding for watch in self.watches if watch.finding is not None]
        return [finding for finding in found if finding.failure is not None][:1] or found

    def take(self, miss: Miss | None) -> None:
        """Hear that one more of its conditions is settled, and whether it holds."""
        self.open_watches -= 1
        if miss is not None:
            self.outcome, self.miss = False, miss
        elif not self.open_watches:
            failed = any(finding.failure is not None for finding in self.findings)
            self.outcome = "deny" if failed else self.rule.action


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

        Says whether this settles the condition.
        """
        if not self.is_open or self.state.outcome is not None:
            return False
        ask = self._ask if len(path) == len(self.pattern) else self._look_inside
        miss = ask(path, value, offset)
        if miss is not None and self._every:
            self._settle(miss)
        elif len(path) <= self._first_item:
            self._end(miss or Miss(path, value, offset, step=self._step_from(path)))
        return not self.is_open

    def _ask(self, path: JsonPath, value: Any, offset: int | None) -> Miss | None:
        condition = self.condition
        if value is None and not condition.takes_null:
            return Miss(path, value, offset)
        try:
            answer = condition.test(value)
        except Exception as error:  # noqa: BLE001 - whatever it is, the call is denied for it
            self.finding = Finding(path, value, offset, condition, failure=error)
            self._settle(None)
            return None
        if isinstance(answer, Unclear):
            return self._doubt(path, value, offset, answer.why)
        if not answer:
            return Miss(path, value, offset, condition)
        self._hit(Finding(path, value, offset, condition))
        return None

    def _look_inside(self, path: JsonPath, value: Any, offset: int | None) -> Miss | None:
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
        return self._doubt(path, value, offset, f"it is {kind}, not {wanted}")

    def _doubt(self, path: JsonPath, value: Any, offset: int | None, why: str) -> Miss | None:
        if self.state.rule.action == "allow":
            return Miss(path, value, offset, self.condition, unclear=why)
        self._hit(Finding(path, value, offset, self.condition, unclear=why))
        return None

    def _hit(self, finding: Finding) -> None:
        if self.finding is None:
            self.finding = finding
        if not self._every:
            self._settle(None)

    def _end(self, miss: Miss) -> None:
        """Hear that nothing more can come of it, and why it does not hold if nothing was found."""
        if self.is_open:
            self._settle(None if self._every and self.finding is not None else miss)

    def _step_from(self, path: JsonPath) -> str | int | Item | None:
        return self.pattern[len(path)] if len(path) < len(self.pattern) else None

    def _settle(self, miss: Miss | None) -> None:
        self.is_open = False
        self.state.take(miss)


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
