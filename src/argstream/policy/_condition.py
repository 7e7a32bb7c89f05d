"""What all conditions have in common: three answers, and words for them."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, NoReturn, TypeAlias

__all__ = ["Answer", "Condition", "Unclear"]


class Unclear(NamedTuple):
    """It cannot be told."""

    why: str
    """Why not: a clause about the value, as in ``it is a number, not a string``."""


Answer: TypeAlias = bool | Unclear


class Condition(ABC):
    """The base of all conditions. They are made once, never change, and equal those made alike."""

    __slots__ = ("_parts",)

    _parts: tuple[Any, ...]

    @property
    def takes_null(self) -> bool:
        """Whether null is a value to it. Otherwise null counts as an argument that is not given."""
        return False

    @property
    def can_fail(self) -> bool:
        """Whether asking may raise."""
        return False

    @property
    def is_plain(self) -> bool:
        """Whether the repr identifies it: a built-in condition without a Python function."""
        is_ours = type(self).__module__.startswith("argstream.policy.")
        return is_ours and not any(
            callable(part) or (isinstance(part, Condition) and not part.is_plain)
            for part in self._parts
        )

    @abstractmethod
    def test(self, value: Any) -> Answer:
        """Say whether it holds of a value that is complete."""

    @abstractmethod
    def words(self, *, negated: bool = False) -> str:
        """Say it as what follows the name of the argument: ``is under "/srv"``."""

    def bound(self, root: str | None) -> "Condition":  # noqa: ARG002 - most have no use for it
        """Give the same condition where relative paths begin at this directory."""
        return self

    def _set(self, *parts: Any) -> None:
        object.__setattr__(self, "_parts", parts)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a condition does not change: make a new {type(self).__name__}")

    def __eq__(self, other: object) -> bool:
        # Not the parts themselves: to Python, 1 is True.
        return type(other) is type(self) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._parts))})"
