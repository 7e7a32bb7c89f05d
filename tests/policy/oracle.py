"""First match wins, on whole arguments, as plainly as it can be said: what the tests compare with.

It shares the conditions with the policy (they have tests of their own) and nothing else: no tree,
no states, no fragments.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

from argstream.policy import ANY_ITEM, EVERY_ITEM, Action, Condition, Rule, Unclear

_Truth: TypeAlias = Literal["yes", "no", "unclear", "raised"]

# Whatever the order of the items: what comes first here outweighs the rest.
_OF_EVERY_ITEM: Final[tuple[_Truth, ...]] = ("no", "raised", "unclear", "yes")
_OF_ANY_ITEM: Final[tuple[_Truth, ...]] = ("raised", "yes", "unclear", "no")


def first_match(rules: Sequence[Rule], default: Action, arguments: Any) -> Action:
    for rule in rules:
        truths = [_condition(pattern, test, arguments) for pattern, test in rule.conditions]
        if "no" in truths:
            continue
        if "raised" in truths:
            return "deny"
        if "unclear" not in truths or rule.action != "allow":
            return rule.action
    return default


def _condition(pattern: Any, test: Condition, arguments: Any) -> _Truth:
    truths = list(_truths(pattern, test, arguments))
    weights = _OF_EVERY_ITEM if EVERY_ITEM in pattern else _OF_ANY_ITEM
    return next((truth for truth in weights if truth in truths), "no")


def _truths(pattern: Any, test: Condition, value: Any) -> Iterator[_Truth]:
    """Yield what holds of each value that the pattern leads to."""
    if not pattern:
        yield _asked(test, value)
        return
    step, *rest = pattern
    if value is None:
        yield "no"
    elif isinstance(value, dict) and isinstance(step, str):
        if step in value:
            yield from _truths(rest, test, value[step])
        else:
            yield "no"
    elif isinstance(value, list) and step in (ANY_ITEM, EVERY_ITEM):
        for item in value:
            yield from _truths(rest, test, item)
    elif isinstance(value, list) and isinstance(step, int):
        if step < len(value):
            yield from _truths(rest, test, value[step])
        else:
            yield "no"
    else:
        yield "unclear"


def _asked(test: Condition, value: Any) -> _Truth:
    if value is None and not test.takes_null:
        return "no"
    try:
        answer = test.test(value)
    except ArithmeticError:
        return "raised"
    if isinstance(answer, Unclear):
        return "unclear"
    return "yes" if answer else "no"
