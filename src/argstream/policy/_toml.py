"""Reads a policy from TOML. Unknown keys are errors: a typo must not disable a rule."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, TypeAlias

from argstream.errors import UsageError
from argstream.events import Action
from argstream.policy._conditions import AllOf, Between, Condition, Equals, Not, Regex, Search
from argstream.policy._messages import kind_of, name_words, shown
from argstream.policy._paths import Glob, Prefix, Under
from argstream.policy._rules import (
    ArgumentPattern,
    ArgumentSteps,
    ExactKey,
    Item,
    Rule,
    action_of,
    pattern_of,
)

_TESTS: Final[dict[str, Callable[..., Condition]]] = {
    "equals": Equals,
    "prefix": Prefix,
    "glob": Glob,
    "regex": Regex,
    "search": Search,
    "under": Under,
}
_BOUNDS: Final = ("at_least", "at_most", "above", "below")
_TEST_KEYS: Final = (*_TESTS, *_BOUNDS, "not")
_CONDITION_KEYS: Final = ("argument", *_TEST_KEYS)
_RULE_KEYS: Final = ("action", "tool", "name", "reason", "conditions", *_CONDITION_KEYS)
_POLICY_KEYS: Final = ("default", "defaults", "root", "rules")

_Conditions: TypeAlias = dict[ArgumentPattern, tuple[ArgumentSteps, Condition]]
"""By pattern, because the same argument may be written in several ways."""


class PolicyParts(NamedTuple):
    rules: list[Rule]
    default: Action
    defaults: dict[str, Action]
    root: str | None


def read_policy(text: str) -> PolicyParts:
    """Parse the text of a policy. Errors name the rule and what to do."""
    try:
        policy = tomllib.loads(text)
    except ValueError as error:  # also for a number with too many digits for Python
        raise UsageError(f"not valid TOML: {error}") from None
    _refuse_unknown(policy, _POLICY_KEYS)
    root = policy.get("root")
    if root is not None and not isinstance(root, str):
        raise UsageError(f"root must be a directory, not {kind_of(root)}: {shown(root)}")
    with _at("default"):
        default = action_of(policy.get("default", "ask"))
    return PolicyParts(_rules(policy), default, _defaults(policy), root)


def _defaults(policy: dict[str, Any]) -> dict[str, Action]:
    table = policy.get("defaults", {})
    if not isinstance(table, dict):
        raise UsageError('defaults must be a table: [defaults], and below it read = "allow"')
    defaults = {}
    for name, action in table.items():
        with _at(f"defaults, {name_words(name)}"):
            defaults[name] = action_of(action)
    return defaults


def _rules(policy: dict[str, Any]) -> list[Rule]:
    tables = policy.get("rules", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError("rules must be an array of tables. Start each rule with [[rules]]")
    rules = []
    for number, table in enumerate(tables, 1):
        name = table.get("name")
        label = f" ({name_words(name)})" if isinstance(name, str) and name else ""
        with _at(f"rule {number}{label}"):
            rules.append(_rule(table))
    return rules


def _rule(table: dict[str, Any]) -> Rule:
    _refuse_unknown(table, _RULE_KEYS)
    if "action" not in table:
        raise UsageError('action is missing. Add action = "allow", "ask" or "deny"')
    entries = table.get("conditions", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        example = '[{ argument = "path", glob = "*" }]'
        raise UsageError(f"conditions must be an array of tables, such as {example}")
    conditions: _Conditions = {}
    own = {key: table[key] for key in _CONDITION_KEYS if key in table}
    if own:
        _add_condition(own, conditions)
    for number, entry in enumerate(entries, 1):
        with _at(f"condition {number}"):
            _refuse_unknown(entry, _CONDITION_KEYS)
            _add_condition(entry, conditions)
    if "conditions" in table and not entries:
        raise UsageError("conditions is empty. Omit it if the rule has none")
    return Rule(
        action_of(table["action"]),
        tool=_strings("tool", table["tool"]) if "tool" in table else None,
        where=dict(conditions.values()),
        name=table.get("name", ""),
        reason=table.get("reason", ""),
    )


def _add_condition(table: dict[str, Any], conditions: _Conditions) -> None:
    if "argument" not in table:
        raise UsageError('argument is missing. Add argument = "path", or [] for all arguments')
    steps = _steps(table["argument"])
    pattern = pattern_of(steps)
    if pattern in conditions:
        raise UsageError(
            f"there are two conditions on {shown(table['argument'])}. Put both into one table"
        )
    test = _condition({key: table[key] for key in table if key != "argument"})
    conditions[pattern] = steps, test


def _steps(argument: object) -> ArgumentSteps:
    if isinstance(argument, str):
        pattern_of(argument)  # raises for dots
        return (argument,)
    if not isinstance(argument, list):
        raise UsageError(f"argument must be a key or an array of steps, not {shown(argument)}")
    return tuple(_step(step) for step in argument)


def _step(step: object) -> str | int | Item | ExactKey:
    match step:
        case {"key": str(key), **rest} if not rest:
            return ExactKey(key)
        case {"item": "any" | "every" as which, **rest} if not rest:
            return Item(which)
        case str() | int():
            return step
        case _:
            raise UsageError(
                f'a step must be a key, an index, "*", {{ item = "every" }} or '
                f'{{ key = "*" }}, not {shown(step)}'
            )


def _condition(table: dict[str, Any]) -> Condition:
    tests: list[Condition] = []
    for key, value in table.items():
        if key == "not":
            tests.append(_negation(value))
        elif key in _TESTS:
            with _at(key):
                values = value if isinstance(value, list) else [value]
                tests.append(_TESTS[key](*values))
    bounds = {key: table[key] for key in _BOUNDS if key in table}
    if bounds:
        tests.append(Between(**bounds))
    if not tests:
        raise UsageError(f"the argument has no condition. Add one of {_either(_TEST_KEYS)}")
    return tests[0] if len(tests) == 1 else AllOf(*tests)


def _negation(value: object) -> Condition:
    with _at("not"):
        if not isinstance(value, dict):
            raise UsageError('must be a condition, such as not.under = "/srv"')
        _refuse_unknown(value, _TEST_KEYS)
        test = _condition(value)
        if isinstance(test, AllOf):
            raise UsageError("has several conditions. Use one; for more, write several rules")
        return Not(test)


def _strings(key: str, value: object) -> list[str]:
    values: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(entry, str) for entry in values):
        raise UsageError(f"{key} must be a string or an array of strings, not {shown(value)}")
    return values


def _refuse_unknown(table: Mapping[str, Any], known: Iterable[str]) -> None:
    names = list(known)
    for key in table:
        if key not in names:
            close = get_close_matches(key, names, 1)
            hint = f"Did you mean {close[0]}?" if close else f"Known keys: {', '.join(names)}"
            raise UsageError(f"unknown key {shown(key)}. {hint}")


def _either(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Prefix a UsageError with its place in the policy."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None
