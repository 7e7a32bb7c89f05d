"""``Policy``: the rules in order, and the defaults for calls that no rule matches."""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from argstream.checks import OnAsk
from argstream.errors import UsageError
from argstream.events import Action, PolicyDecision
from argstream.history import CallKind
from argstream.policy._check import PolicyCheck
from argstream.policy._messages import name_words, shown
from argstream.policy._paths import expanded_directory
from argstream.policy._rules import Rule, ToolNames, action_of
from argstream.policy._toml import read_policy
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
        self.root: str | None = None if root is None else _absolute(root)
        self._default_names = [(ToolNames(name), name) for name in self.defaults]
        by_name: dict[str, Rule] = {}
        for number, rule in enumerate(rules, 1):
            if not isinstance(rule, Rule):
                raise UsageError(f"rule {number} must be a Rule, not {shown(rule)}")
            name = rule.name or f"rule {number}"
            _check_name(name, number, by_name)
            try:
                by_name[name] = rule.bound(self.root)
            except UsageError as error:
                raise UsageError(f"{name_words(name)}: {error}") from None
        self._rules_by_name = by_name
        self._rules = tuple(by_name.items())

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
            parts = read_policy(text)
            root = parts.root
            if root is not None and directory is not None:
                root = str(directory / expanded_directory(root))
            return cls(parts.rules, default=parts.default, defaults=parts.defaults, root=root)
        except UsageError as error:
            raise UsageError(f"{source}: {error}") from None
        except RecursionError:
            raise UsageError(f"{source}: nested too deeply") from None

    def __deepcopy__(self, memo: object) -> "Policy":
        return self  # immutable, and approvals with always="rule" refer to this very object

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, in order."""
        return tuple(rule for _, rule in self._rules)

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
        decision = check.policy_decision
        if decision is None:
            raise AssertionError("complete arguments always lead to a decision")
        return decision

    def _check(self, name: str, kind: CallKind, on_ask: OnAsk = "report") -> PolicyCheck:
        rules = [(label, rule) for label, rule in self._rules if rule.concerns(name)]
        return PolicyCheck(name, kind, rules, self._default_of(name), on_ask=on_ask)

    def _default_of(self, name: str) -> Action:
        if name in self.defaults:
            return self.defaults[name]
        for tools, key in self._default_names:
            if name in tools:
                return self.defaults[key]
        return self.default


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


def _absolute(root: str | os.PathLike[str]) -> str:
    path = Path(expanded_directory(root))
    if not path.is_absolute():
        raise UsageError(f"root must be an absolute directory, not {shown(str(root))}")
    return str(path)
