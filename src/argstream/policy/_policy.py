"""``Policy``: the rules in order, and the defaults for calls that no rule matches.

It can be written in TOML. Unknown keys are errors there: a typo must not disable a rule.
"""

import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from argstream.checks import OnAsk
from argstream.errors import UsageError
from argstream.events import Action, PolicyDecision
from argstream.history import CallKind
from argstream.jsonstream._fragments import kind_words
from argstream.policy._check import PolicyCheck
from argstream.policy._conditions import (
    AllOf,
    Between,
    Condition,
    Equals,
    Not,
    Regex,
    Search,
    name_words,
    shown,
)
from argstream.policy._paths import Glob, Prefix, Under, expanded_directory
from argstream.policy._rules import (
    Argument,
    ArgumentPattern,
    ExactKey,
    Item,
    Rule,
    ToolNames,
    action_of,
    pattern_of,
)
from argstream.providers._deltas import RUN_BY_PROVIDER

_AUTOMATIC_NAME: Final = re.compile(r"rule \d+")


class Policy:
    """Rules for the calls of a model. The first rule that matches decides.

    If no rule matches, the tool's entry in ``defaults`` decides (an exact name before globs, globs
    in order), else ``default``. ``root`` is the working directory of the tools. Relative paths are
    resolved there when they are compared with a directory.

    >>> from argstream.policy import Glob
    >>> policy = Policy([Rule("deny", argument="path", when=Glob("**/.env"))], default="allow")
    >>> policy.decide("read", {"path": "src/.env"}).action
    'deny'
    """

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        default: Action = "ask",
        defaults: Mapping[str, Action] | None = None,
        root: str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(rules, Iterable):
            raise UsageError(f"rules must be a list such as [Rule(…), …], not {shown(rules)}")
        if defaults is not None and not isinstance(defaults, Mapping):
            raise UsageError(
                f'defaults must be a dict such as {{"read_file": "allow"}}, not {shown(defaults)}'
            )
        self.default = action_of(default)
        self.defaults: dict[str, Action] = {
            name: action_of(action) for name, action in (defaults or {}).items()
        }
        self.root: str | None = None if root is None else str(Path(expanded_directory(root)))
        if self.root is not None and not Path(self.root).is_absolute():
            raise UsageError(f"root must be an absolute directory, not {shown(str(root))}")
        self._default_tools = [(ToolNames(name), one) for name, one in self.defaults.items()]
        self._rules_by_name: dict[str, Rule] = {}
        for number, rule in enumerate(rules, 1):
            if not isinstance(rule, Rule):
                raise UsageError(f"rule {number} must be a Rule, not {shown(rule)}")
            name = rule.name or f"rule {number}"
            _check_name(name, number, self._rules_by_name)
            with _at(name_words(name)):
                self._rules_by_name[name] = rule.bound(self.root)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Policy":
        """Read a policy from a TOML file. A relative ``root`` is relative to the file."""
        file = Path(path)
        try:
            text = file.read_text("utf-8")
        except (OSError, ValueError) as error:
            is_text = not isinstance(error, UnicodeDecodeError)
            reason = (getattr(error, "strerror", None) or error) if is_text else "not valid UTF-8"
            raise UsageError(f"cannot read the policy {file}: {reason}") from None
        return cls._read(text, str(file), file.absolute().parent)

    @classmethod
    def from_toml(cls, text: str) -> "Policy":
        """Read a policy from TOML."""
        return cls._read(text, "policy", None)

    @classmethod
    def _read(cls, text: str, source: str, directory: Path | None) -> "Policy":
        try:
            table = tomllib.loads(text)
            _refuse_unknown(table, _POLICY_KEYS)
            root = table.get("root")
            if root is not None and not isinstance(root, str):
                raise UsageError(f"root must be a directory, not {kind_words(root)}: {shown(root)}")
            with _at("default"):
                default = action_of(table.get("default", "ask"))
            rules, defaults = _rules(table), _defaults(table)
            if root is not None and directory is not None:
                root = str(directory / expanded_directory(root))
            return cls(rules, default=default, defaults=defaults, root=root)
        except UsageError as error:
            raise UsageError(f"{source}: {error}") from None
        except ValueError as error:  # also for a number with too many digits for Python
            raise UsageError(f"{source}: not valid TOML: {error}") from None
        except RecursionError:
            raise UsageError(f"{source}: nested too deeply") from None

    def __deepcopy__(self, memo: object) -> "Policy":
        return self  # immutable, and approvals with always="rule" refer to this very object

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, in order."""
        return tuple(self._rules_by_name.values())

    def find_rule(self, name: str) -> Rule | None:
        """Return the rule with this name, or None."""
        return self._rules_by_name.get(name)

    @property
    def can_ask(self) -> bool:
        """Whether any rule or default has the action ``ask``."""
        actions = (self.default, *self.defaults.values(), *(rule.action for rule in self.rules))
        return "ask" in actions

    def open(
        self,
        name: str,
        kind: CallKind = "function",
        *,
        may_grow: bool = False,
        on_ask: OnAsk = "report",
    ) -> PolicyCheck | None:
        """Return the check of a call. If the tool's name is enough to deny it, ``error`` is set.

        Returns None for a call that the provider runs itself, because a policy cannot stop it.
        With ``may_grow``, more of the name may follow: a denied name returns None, and the caller
        opens the check again when the name is complete. With ``on_ask="deny"``, the check rejects
        a call for which the policy answers ``ask``.
        """
        if kind in RUN_BY_PROVIDER:
            return None
        check = self._check(name, kind, on_ask)
        return None if may_grow and check.error is not None else check

    def decide(self, name: str, arguments: dict[str, Any] | str) -> PolicyDecision:
        """Decide on a call with complete arguments; a str is the input of a free-text tool."""
        if not isinstance(arguments, dict | str):
            raise UsageError(
                f"arguments must be a dict, or a str for a free-text tool, not {shown(arguments)}"
            )
        check = self._check(name, "custom" if isinstance(arguments, str) else "function")
        check.finish(arguments, as_read=False)
        return cast("PolicyDecision", check.policy_decision)

    def _check(self, name: str, kind: CallKind, on_ask: OnAsk = "report") -> PolicyCheck:
        rules = [one for one in self._rules_by_name.items() if one[1].concerns(name)]
        globs = (action for tools, action in self._default_tools if name in tools)
        default = self.defaults[name] if name in self.defaults else next(globs, self.default)
        return PolicyCheck(name, kind, rules, default, on_ask=on_ask)


def _check_name(name: str, number: int, taken: Collection[str]) -> None:
    """Raise UsageError if two rules could share a name: ``always="rule"`` shows only that."""
    if name in taken:
        raise UsageError(
            f"rule {number}: another rule is already named {shown(name)}. Rule names must be unique"
        )
    if _AUTOMATIC_NAME.fullmatch(name) and name != f"rule {number}":
        raise UsageError(
            f"rule {number}: {shown(name)} is the automatic name of the rule at another position. "
            "Choose another name"
        )


# Reading TOML

_TESTS: Final[dict[str, Callable[..., Condition]]] = {
    one.__name__.lower(): one for one in (Equals, Prefix, Glob, Regex, Search, Under)
}
_BOUNDS: Final = ("at_least", "at_most", "above", "below")
_TEST_KEYS: Final = (*_TESTS, *_BOUNDS, "not")
_CONDITION_KEYS: Final = ("argument", *_TEST_KEYS)
_RULE_KEYS: Final = ("action", "tool", "name", "reason", "conditions", *_CONDITION_KEYS)
_POLICY_KEYS: Final = ("default", "defaults", "root", "rules")

_Conditions: TypeAlias = dict[ArgumentPattern, tuple[Argument, Condition]]
"""By pattern, because the same argument may be written in several ways."""


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
        tool=table.get("tool"),
        where=dict(conditions.values()),
        name=table.get("name", ""),
        reason=table.get("reason", ""),
    )


def _add_condition(table: dict[str, Any], conditions: _Conditions) -> None:
    if "argument" not in table:
        raise UsageError('argument is missing. Add argument = "path", or [] for all arguments')
    argument = table["argument"]
    named: Argument = tuple(map(_step, argument)) if isinstance(argument, list) else argument
    pattern = pattern_of(named)
    if pattern in conditions:
        raise UsageError(f"there are two conditions on {shown(argument)}. Put both into one table")
    test = _condition({key: table[key] for key in table if key != "argument"})
    conditions[pattern] = named, test


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
        raise UsageError(f"the argument has no condition. Add one of {', '.join(_TEST_KEYS)}")
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


def _refuse_unknown(table: Mapping[str, Any], known: Iterable[str]) -> None:
    names = list(known)
    for key in table:
        if key not in names:
            close = get_close_matches(key, names, 1)
            hint = f"Did you mean {close[0]}?" if close else f"Known keys: {', '.join(names)}"
            raise UsageError(f"unknown key {shown(key)}. {hint}")


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Prefix a UsageError with its place in the policy."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None
