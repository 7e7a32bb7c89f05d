"""``Rule``: an action for some tools if conditions on their arguments hold."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from enum import Enum
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args
from uuid import uuid4

from argstream.errors import UsageError
from argstream.events import Action
from argstream.policy._conditions import Condition, Test, as_condition, shown
from argstream.policy._paths import compile_glob, is_glob

_MAX_STEPS: Final = 256  # deeper than the parser allows


class Item(Enum):
    """Which items of an array must match."""

    ANY = "any"
    EVERY = "every"

    def __repr__(self) -> str:
        return f"{self.name}_ITEM"


ANY_ITEM: Final[Literal[Item.ANY]] = Item.ANY
"""One matching item of an array is enough; ``"*"`` means the same."""
EVERY_ITEM: Final[Literal[Item.EVERY]] = Item.EVERY
"""Every item of the array must match, and it must not be empty."""


class ExactKey(NamedTuple):
    """A key of an object by its exact name, also if that is ``*``."""

    key: str


Argument: TypeAlias = str | Sequence[str | int | Item | ExactKey]
"""How a rule names an argument: a key, or a sequence of steps; no steps mean all arguments."""
ArgumentPattern: TypeAlias = tuple[str | int | Item, ...]


def pattern_of(argument: Argument | object) -> ArgumentPattern:
    if isinstance(argument, str):
        if "." in argument or "[" in argument:
            raise UsageError(
                f"argument {shown(argument)} has dots or brackets. Pass a list of steps, such as "
                f'["edits", "*", "path"], or [{shown(argument)}] if it is one key'
            )
        argument = (argument,)
    if not isinstance(argument, Sequence) or len(argument) > _MAX_STEPS:
        raise UsageError(f"argument must be a key or a list of steps, not {shown(argument)}")
    pattern = tuple(_step(step) for step in argument)
    if pattern and not isinstance(pattern[0], str):
        raise UsageError(
            f"the first step to an argument must be a key, not {shown(argument[0])}, because the "
            "arguments of a tool are an object"
        )
    if ANY_ITEM in pattern and EVERY_ITEM in pattern:
        raise UsageError("an argument cannot have both ANY_ITEM and EVERY_ITEM")
    return pattern


def _step(step: object) -> str | int | Item:
    if isinstance(step, ExactKey) and isinstance(step.key, str):
        return step.key
    if step == "*":
        return ANY_ITEM
    if isinstance(step, str | Item):
        return step
    if isinstance(step, int) and not isinstance(step, bool) and step >= 0:
        return step
    raise UsageError(f"a step must be a key, an index from 0, or *, not {shown(step)}")


Where: TypeAlias = Mapping[Any, Condition | Test]
"""Conditions on several arguments, each named by a key or by a tuple of steps."""

ACTIONS: Final[tuple[Action, ...]] = get_args(Action)  # from lenient to strict


class ToolNames:
    """Names of tools, exact or as globs. In these globs, a slash is an ordinary character."""

    def __init__(self, names: Any) -> None:
        if not isinstance(names, Iterable) or isinstance(names, Mapping):
            raise UsageError(f"tool must be a string or a list of strings, not {shown(names)}")
        given: tuple[Any, ...] = (names,) if isinstance(names, str) else tuple(names)
        for name in given:
            if not isinstance(name, str) or not name:
                raise UsageError(f"a tool name must be a string that is not empty: {shown(name)}")
        self.names: tuple[str, ...] = given
        globs = [name for name in given if is_glob(name)]
        self._exact = frozenset(self.names).difference(globs)
        self._globs = tuple(compile_glob(name, paths=False) for name in globs)

    def __contains__(self, name: str) -> bool:
        return name in self._exact or any(matches(name) for matches in self._globs)


class Rule:
    """Answers ``allow``, ``ask`` or ``deny`` for a call, if all of its conditions hold.

    ``tool`` is one or several names, exact or as globs. Without it, the rule applies to all tools.
    ``when`` is a condition or a function that tests ``argument``, or all arguments if there is no
    ``argument``. ``where`` has conditions on several arguments. A rule with neither decides by the
    tool name, at once.

    >>> from argstream.policy import Glob
    >>> Rule("deny", tool="write_*", argument="path", when=Glob("**/.git/**"), name="no .git")
    <Rule 'no .git': deny write_* if ['path'] matches the glob "**/.git/**">
    """

    __slots__ = ("action", "conditions", "digest", "name", "reason", "tools")

    def __init__(
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
            raise UsageError("tool is empty. Omit it to apply the rule to all tools")
        self.tools: ToolNames | None = None if names is None or "*" in names.names else names
        """The tools that the rule applies to; None for all tools."""
        if where is not None and not isinstance(where, Mapping):
            raise UsageError(
                f'where must be a dict such as {{"path": Prefix("/srv/")}}, not {shown(where)}'
            )
        tests = list((where or {}).items())
        if when is not None:
            tests.insert(0, (() if argument is None else argument, when))
        elif argument is not None:
            raise UsageError(f"argument {shown(argument)} has no condition. Pass when=")
        conditions = [(pattern_of(path), as_condition(test)) for path, test in tests]
        for pattern, _ in conditions:
            if action == "allow" and ANY_ITEM in pattern:
                raise UsageError(
                    "an allow rule with ANY_ITEM would match one good item among bad ones. "
                    'Use EVERY_ITEM; in TOML, { item = "every" }'
                )
        self.conditions: tuple[tuple[ArgumentPattern, Condition], ...] = tuple(conditions)
        for label, text in (("name", name), ("reason", reason)):
            if not isinstance(text, str):
                raise UsageError(f"the {label} of a rule must be a string, not {shown(text)}")
        self.name: str | None = name
        """Empty if the rule has none. The policy then names it by its position."""
        self.reason: str = reason
        """Why the rule exists, shown to users and models."""
        self.digest: str = _digest_of(self)
        """Identifies the content: equal rules have equal digests in every process.

        A rule with a Python function has a random digest, because the function may differ in
        another process.
        """

    def bound(self, root: str | None) -> "Rule":
        """Return the same rule with relative paths resolved at this directory."""
        rule = copy(self)
        rule.conditions = tuple((path, test.bound(root)) for path, test in self.conditions)
        rule.digest = _digest_of(rule)
        return rule

    def __deepcopy__(self, memo: object) -> "Rule":
        return self  # immutable, and an approval with always="rule" refers to this very object

    def concerns(self, tool: str) -> bool:
        return self.tools is None or tool in self.tools

    def __repr__(self) -> str:
        tools = "all tools" if self.tools is None else ", ".join(self.tools.names)
        tests = [f"{list(pattern)} {test.words()}" for pattern, test in self.conditions]
        name = f" {self.name!r}" if self.name else ""
        return f"<Rule{name}: {self.action} {tools}{' if ' if tests else ''}{' and '.join(tests)}>"


def _digest_of(rule: Rule) -> str:
    if not all(test.is_plain for _, test in rule.conditions):
        return uuid4().hex
    tools = None if rule.tools is None else rule.tools.names
    content = (rule.name, rule.action, rule.reason, tools, rule.conditions)
    return sha256(repr(content).encode(errors="surrogatepass")).hexdigest()


def action_of(action: object) -> Action:
    for known in ACTIONS:
        if action == known:
            return known
    raise UsageError(f"an action must be 'allow', 'ask' or 'deny', not {shown(action)}")
