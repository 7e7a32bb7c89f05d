"""Which argument a rule is about: the steps to it, some of which may be items of an array."""

from collections.abc import Sequence
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias

from argstream.errors import UsageError
from argstream.policy._wording import shown

__all__ = [
    "ANY_ITEM",
    "EVERY_ITEM",
    "Argument",
    "ArgumentPattern",
    "ArgumentSteps",
    "ExactKey",
    "Item",
    "pattern_of",
]

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
    """Give the steps that an argument's name stands for."""
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
