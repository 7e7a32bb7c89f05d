"""``Rule``: for which tools, under which conditions, what is decided."""

from collections.abc import Iterable, Mapping
from copy import copy
from hashlib import sha256
from typing import Any, Final, TypeAlias, get_args
from uuid import uuid4

from argstream.errors import UsageError
from argstream.judging import Action
from argstream.policy._condition import Condition
from argstream.policy._glob import CompiledGlob, is_glob
from argstream.policy._wording import shown
from argstream.policy.arguments import (
    ANY_ITEM,
    Argument,
    ArgumentPattern,
    pattern_of,
)
from argstream.policy.conditions import Test, as_condition

__all__ = ["Rule", "ToolNames", "action_of"]

Where: TypeAlias = Mapping[Any, Condition | Test]
"""What must hold of several arguments, each named by a key or by a tuple of steps."""

_ACTIONS: Final[tuple[Action, ...]] = get_args(Action)


class ToolNames:
    """Some tools by their names, exact or as globs, in which a slash is nothing special."""

    __slots__ = ("_exact", "_globs", "names")

    def __init__(self, names: str | Iterable[str]) -> None:
        if not isinstance(names, Iterable):
            raise UsageError(f"{shown(names)} is no name of a tool: give a string, or several")
        self.names = (names,) if isinstance(names, str) else tuple(names)
        for name in self.names:
            _demand_name(name)
        globs = [name for name in self.names if is_glob(name)]
        self._exact = frozenset(self.names).difference(globs)
        self._globs = tuple(CompiledGlob(name, paths=False) for name in globs)

    def __contains__(self, name: str) -> bool:
        return name in self._exact or any(glob.matches(name) for glob in self._globs)


class Rule:
    """Decides on a call: ``allow``, ``ask`` or ``deny``, if all of its conditions hold.

    ``tool`` is a name or several, exact or as globs; without it the rule is about all tools.
    ``when`` says what must hold of ``argument``, as a condition or a function; without
    ``argument``, of the whole arguments. ``where`` says the same of several arguments. A rule with
    neither decides on the tool alone, at once.

    >>> from argstream.policy import Glob
    >>> Rule("deny", tool="write_*", argument="path", when=Glob("**/.git/**"), name="no .git")
    <Rule 'no .git': deny write_* if ['path'] matches the glob "**/.git/**">
    """

    __slots__ = ("action", "conditions", "digest", "name", "reason", "tools")

    def __init__(  # noqa: PLR0913 - all but the first have a name and a default
        self,
        action: Action,
        *,
        tool: str | Iterable[str] | None = None,
        argument: Argument | None = None,
        when: Condition | Test | None = None,
        where: Where | None = None,
        name: str = "",
        reason: str = "",
    ) -> None:
        self.action = action_of(action)
        names = None if tool is None else ToolNames(tool)
        if names is not None and not names.names:
            raise UsageError("a rule for no tool at all decides nothing; for all, leave tool out")
        self.tools = None if names is None or "*" in names.names else names
        """The tools that it is about; None if it is about all."""
        if where is not None and not isinstance(where, Mapping):
            raise UsageError(
                f"where says what must hold of each argument, and {shown(where)} does not: give a "
                'dict, as in {"path": Prefix("/srv/")}'
            )
        conditions = [
            (pattern_of(path), as_condition(test)) for path, test in (where or {}).items()
        ]
        if when is not None:
            conditions.insert(
                0, (pattern_of(() if argument is None else argument), as_condition(when))
            )
        elif argument is not None:
            raise UsageError(f"the rule says nothing about its argument {shown(argument)}")
        for pattern, _ in conditions:
            if action == "allow" and ANY_ITEM in pattern:
                raise UsageError(
                    "a rule that allows would be content with one good item among bad ones: "
                    'say EVERY_ITEM, in TOML { item = "every" }, instead of any'
                )
        self.conditions: tuple[tuple[ArgumentPattern, Condition], ...] = tuple(conditions)
        for label, text in (("name", name), ("reason", reason)):
            if not isinstance(text, str):
                raise UsageError(f"the {label} of a rule must be a string, not {shown(text)}")
        self.name = name
        """Empty if it has none: then its policy calls it by its position."""
        self.reason = reason
        """Why the rule is there, for whoever meets it."""
        self.digest = _digest_of(self)
        """Identifies the content: equal rules have equal digests in every process.

        A rule with a Python function has a random digest, since the code of the function may change
        from one process to the next.
        """

    def bound(self, root: str | None) -> "Rule":
        """Give the same rule where relative paths begin at this directory."""
        rule = copy(self)
        rule.conditions = tuple((path, test.bound(root)) for path, test in self.conditions)
        rule.digest = _digest_of(rule)
        return rule

    def __deepcopy__(self, memo: object) -> "Rule":
        return self  # immutable once made, and a grant is for this very rule

    def concerns(self, tool: str) -> bool:
        """Say whether the rule is about this tool."""
        return self.tools is None or tool in self.tools

    def __repr__(self) -> str:
        tools = "all tools" if self.tools is None else ", ".join(self.tools.names)
        said = [f"{list(pattern)} {test.words()}" for pattern, test in self.conditions]
        name = f" {self.name!r}" if self.name else ""
        return f"<Rule{name}: {self.action} {tools}{' if ' if said else ''}{' and '.join(said)}>"


def _digest_of(rule: Rule) -> str:
    if not all(test.is_plain for _, test in rule.conditions):
        return uuid4().hex
    tools = None if rule.tools is None else rule.tools.names
    said = (rule.name, rule.action, rule.reason, tools, rule.conditions)
    return sha256(repr(said).encode(errors="surrogatepass")).hexdigest()


def _demand_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise UsageError(f"{shown(name)} is no name of a tool")


def action_of(action: object) -> Action:
    """Give what was meant as an action, if it is one."""
    for known in _ACTIONS:
        if action == known:
            return known
    raise UsageError(f"{shown(action)} is no decision: give 'allow', 'ask' or 'deny'")
