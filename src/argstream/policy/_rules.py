"""``Rule``: for which tools, under which conditions, what is decided."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from enum import Enum
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args
from uuid import uuid4

from argstream.errors import UsageError
from argstream.events import Action
from argstream.policy._conditions import Condition, Test, as_condition
from argstream.policy._messages import shown
from argstream.policy._paths import CompiledGlob, is_glob

_MOST_STEPS: Final = 256  # deeper than the parser goes


class Item(Enum):
    """Which items of an array must match."""

    ANY = "any"
    EVERY = "every"

    def __repr__(self) -> str:
        return f"{self.name}_ITEM"


ANY_ITEM: Final[Literal[Item.ANY]] = Item.ANY
"""One item of an array is enough, whichever it is; ``"*"`` says the same."""
EVERY_ITEM: Final[Literal[Item.EVERY]] = Item.EVERY
"""Each item of the array must match, and there must be one."""


class ExactKey(NamedTuple):
    """A key of an object by its exact name, also where that is ``*``."""

    key: str


ArgumentSteps: TypeAlias = tuple[str | int | Item | ExactKey, ...]
Argument: TypeAlias = str | Sequence[str | int | Item | ExactKey]
"""How a rule names an argument: a key, or the steps to it; no steps are the whole arguments."""
ArgumentPattern: TypeAlias = tuple[str | int | Item, ...]


def pattern_of(argument: Argument | object) -> ArgumentPattern:
    if isinstance(argument, str):
        if "." in argument or "[" in argument:
            raise UsageError(
                f"the argument {shown(argument)}: give the steps to it one by one, as "
                f'["edits", "*", "path"]; if this is the name of one key, as [{shown(argument)}]'
            )
        argument = (argument,)
    if not isinstance(argument, Sequence) or len(argument) > _MOST_STEPS:
        raise UsageError(f"{shown(argument)} names no argument: give a key, or the steps to it")
    pattern = tuple(_step(step) for step in argument)
    if pattern and not isinstance(pattern[0], str):
        raise UsageError(
            "the arguments of a tool are an object, so the first step to one of them is its key, "
            f"not {shown(argument[0])}"
        )
    if ANY_ITEM in pattern and EVERY_ITEM in pattern:
        raise UsageError("one argument cannot be about any item and about every item")
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
    raise UsageError(f"{shown(step)} is no step to an argument: give a key, an index from 0, or *")


Where: TypeAlias = Mapping[Any, Condition | Test]
"""What must hold of several arguments, each named by a key or by a tuple of steps."""

_ACTIONS: Final[tuple[Action, ...]] = get_args(Action)


class ToolNames:
    """Some tools by their names, exact or as globs, in which a slash is nothing special."""

    def __init__(self, names: str | Iterable[str]) -> None:
        if not isinstance(names, Iterable):
            raise UsageError(f"{shown(names)} is no name of a tool: give a string, or several")
        self.names = (names,) if isinstance(names, str) else tuple(names)
        names_given: tuple[object, ...] = self.names
        for name in names_given:
            if not isinstance(name, str) or not name:
                raise UsageError(f"{shown(name)} is no name of a tool")
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
        """Return the same rule with relative paths that begin at this directory."""
        rule = copy(self)
        rule.conditions = tuple((path, test.bound(root)) for path, test in self.conditions)
        rule.digest = _digest_of(rule)
        return rule

    def __deepcopy__(self, memo: object) -> "Rule":
        return self  # immutable once made, and a grant is for this very rule

    def concerns(self, tool: str) -> bool:
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


def action_of(action: object) -> Action:
    for known in _ACTIONS:
        if action == known:
            return known
    raise UsageError(f"{shown(action)} is no decision: give 'allow', 'ask' or 'deny'")
