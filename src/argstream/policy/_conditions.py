"""What may be said of an argument: small values that answer yes, no, or that it cannot be told.

The third answer matters most. A model that writes ``"true"`` where a boolean belongs, or a number
for a path, gets it past a rule that merely compares, and the tool may well take it for what it is
not. So a value of another kind than the condition is about is neither right nor wrong:
``Undecided``. The caller decides what that means; a ``Rule`` decides cautiously.

Those about paths are in ``_paths``.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from inspect import iscoroutinefunction
from math import isfinite, isnan
from typing import Any, NamedTuple, Never, NoReturn, TypeAlias

from argstream.errors import UsageError
from argstream.policy._messages import kind_of, listed, shown


class Undecided(NamedTuple):
    """It cannot be told."""

    why: str
    """Why not: a clause about the value, as in ``it is a number, not a string``."""


Answer: TypeAlias = bool | Undecided


class Condition(ABC):
    """The base of all conditions. They are made once, never change, and equal those made alike."""

    _parts: tuple[Any, ...]

    @property
    def takes_null(self) -> bool:
        """Whether null is a value to it. Otherwise null counts as an argument that is not given."""
        return False

    @property
    def can_fail(self) -> bool:
        """Whether ``test`` may raise."""
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
        """Return whether it holds of a complete value."""

    @abstractmethod
    def words(self, *, negated: bool = False) -> str:
        """Describe it so that it follows the name of the argument: ``is under "/srv"``."""

    def bound(self, root: str | None) -> "Condition":
        """Return the same condition with relative paths that begin at this directory."""
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


Test: TypeAlias = Callable[[Any], bool | None]
"""A function of one's own: what it returns is the answer, None that it cannot be told."""


class Equals(Condition):
    """It is this value, or one of these: strings, numbers, booleans or null.

    Numbers are compared as numbers: 1 is 1.0. A string is never a number, and ``True`` is not 1: of
    a value of another kind than all of these it cannot be told, nor of one that reads like one of
    them, as ``"0"`` does where 0 is among them.

    >>> Equals("main", "master").test("main"), Equals(True).test("true")
    (True, Undecided(why='it is a string, not a boolean'))
    """

    def __init__(self, *values: str | float | bool | None) -> None:
        if not values:
            raise UsageError("Equals needs at least one value")
        for value in values:
            is_scalar = value is None or isinstance(value, str | bool | int | float)
            if not is_scalar or (isinstance(value, float) and not isfinite(value)):
                raise UsageError(
                    f"Equals: {shown(value)} is no string, number, boolean or null; for an object "
                    "or an array name the argument inside it, or use a function"
                )
        self._set(*values)

    @property
    def takes_null(self) -> bool:
        return None in self._parts

    def test(self, value: Any) -> Answer:
        kind = kind_of(value)
        others = []
        has_its_kind = value is None
        for candidate in self._parts:
            other = kind_of(candidate)
            if other == kind:
                has_its_kind = True
                if candidate == value:
                    return True
            elif candidate is not None:
                others.append(candidate)
        if has_its_kind:
            others = [candidate for candidate in others if _reads_like(value, candidate)]
        return Undecided(f"it is {kind}, not {kind_of(others[0])}") if others else False

    def words(self, *, negated: bool = False) -> str:
        return f"{'is not' if negated else 'is'} {listed(self._parts)}"


class Between(Condition):
    """It is a number within these bounds; one is enough.

    >>> Between(above=0, at_most=100).test(100)
    True
    """

    def __init__(
        self,
        *unnamed: Never,
        at_least: float | None = None,
        at_most: float | None = None,
        above: float | None = None,
        below: float | None = None,
    ) -> None:
        if unnamed:
            raise UsageError(
                f"Between: say which bound {shown(unnamed[0])} is, as in Between(at_least=1)"
            )
        bounds: dict[str, Any] = {
            "at_least": at_least,
            "at_most": at_most,
            "above": above,
            "below": below,
        }
        given = {name: bound for name, bound in bounds.items() if bound is not None}
        for name, bound in given.items():
            is_number = isinstance(bound, int | float) and not isinstance(bound, bool)
            if not is_number or _is_nan(bound):
                raise UsageError(f"{name} must be a number, and {shown(bound)} is none")
        if not given:
            raise UsageError("Between needs a bound: at_least, at_most, above or below")
        for pair in (("at_least", "above"), ("at_most", "below")):
            if given.keys() >= set(pair):
                raise UsageError(f"give {pair[0]} or {pair[1]}, not both")
        lower = given.get("at_least", given.get("above"))
        upper = given.get("at_most", given.get("below"))
        if lower is not None and upper is not None:
            is_open = "above" in given or "below" in given
            if lower > upper or (is_open and lower == upper):
                said = f"{shown(lower)} and {shown(upper)}"
                raise UsageError(f"no number lies between {said} like that")
        self._set(*given.items())

    def test(self, value: Any) -> Answer:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return Undecided(f"it is {kind_of(value)}, not a number")
        if _is_nan(value):
            return Undecided("it is not a number")
        return all(_within(value, name, bound) for name, bound in self._parts)

    def words(self, *, negated: bool = False) -> str:
        said = " and ".join(
            f"{name.replace('_', ' ')} {shown(bound)}" for name, bound in self._parts
        )
        return f"{'is not' if negated else 'is'} {said}"

    def __repr__(self) -> str:
        return f"Between({', '.join(f'{name}={bound!r}' for name, bound in self._parts)})"


class Not(Condition):
    """The argument is there, and the condition does not hold of it."""

    def __init__(self, condition: "Condition | Test") -> None:
        self._set(as_condition(condition))

    @property
    def takes_null(self) -> bool:
        return bool(self._parts[0].takes_null)

    @property
    def can_fail(self) -> bool:
        return bool(self._parts[0].can_fail)

    def bound(self, root: str | None) -> Condition:
        return Not(self._parts[0].bound(root))

    def test(self, value: Any) -> Answer:
        answer: Answer = self._parts[0].test(value)
        return answer if isinstance(answer, Undecided) else not answer

    def words(self, *, negated: bool = False) -> str:
        said: str = self._parts[0].words(negated=not negated)
        return said


class AllOf(Condition):
    """All of these hold, of one and the same value: of the same item, if it is one of an array."""

    def __init__(self, *conditions: "Condition | Test") -> None:
        if not conditions:
            raise UsageError("AllOf needs at least one condition")
        self._set(*map(as_condition, conditions))

    @property
    def takes_null(self) -> bool:
        return all(condition.takes_null for condition in self._parts)

    @property
    def can_fail(self) -> bool:
        return any(condition.can_fail for condition in self._parts)

    def bound(self, root: str | None) -> Condition:
        return AllOf(*(condition.bound(root) for condition in self._parts))

    def test(self, value: Any) -> Answer:
        unclear: Undecided | None = None
        failure: Exception | None = None
        for condition in self._parts:
            try:
                answer: Answer = condition.test(value)
            except Exception as error:  # noqa: BLE001 - raised below, unless another says no
                failure = failure or error
                continue
            if answer is False:
                return False
            if isinstance(answer, Undecided):
                unclear = unclear or answer
        if failure is not None:
            raise failure
        return unclear or True

    def words(self, *, negated: bool = False) -> str:
        said = (condition.words(negated=negated) for condition in self._parts)
        return (" or " if negated else " and ").join(said)


class When(Condition):
    """A function of one's own says so: True, False, or None if it cannot tell.

    It is given the value that the call will have: it must not change it. Null is a value to it.
    """

    def __init__(self, function: Test | Any) -> None:
        if isinstance(function, type) or not callable(function):
            raise UsageError(f"{shown(function)} is neither a condition nor a function")
        if iscoroutinefunction(function):
            raise UsageError("a rule is decided at once, so its function cannot be async")
        self._set(function)

    @property
    def takes_null(self) -> bool:
        return True

    @property
    def can_fail(self) -> bool:
        return True

    def test(self, value: Any) -> Answer:
        answer = self._parts[0](value)
        if answer is None:
            return Undecided("the function could not tell")
        if not isinstance(answer, bool):
            raise TypeError(f"it returned {kind_of(answer)}, not True, False or None")
        return answer

    def words(self, *, negated: bool = False) -> str:
        name = getattr(self._parts[0], "__name__", type(self._parts[0]).__name__)
        return f"is {'not ' if negated else ''}what {name} looks for"


def as_condition(condition: Condition | Test) -> Condition:
    if isinstance(condition, Condition):
        return condition
    return When(condition)


def _reads_like(value: Any, candidate: Any) -> bool:
    """Return True if a value of another kind is written like this one, apart from quotes."""
    text, other = (value, candidate) if isinstance(value, str) else (candidate, value)
    return isinstance(text, str) and text.strip().casefold() == shown(other).casefold()


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and isnan(value)  # which fails on integers that are too large


def _within(value: float, name: str, bound: float) -> bool:
    if name == "at_least":
        return value >= bound
    if name == "at_most":
        return value <= bound
    return value > bound if name == "above" else value < bound


class StringCondition(Condition):
    """The base of conditions about strings, as the tool will see them: decoded."""

    def __init__(self, *texts: str) -> None:
        name = type(self).__name__
        if not texts:
            raise UsageError(f"{name} needs at least one string")
        for text in texts:
            if not isinstance(text, str):
                raise UsageError(f"{name} needs strings, and {shown(text)} is {kind_of(text)}")
            if not text:
                raise UsageError(f"{name}: an empty string says nothing; leave it out")
        self._set(*texts)

    def test(self, value: Any) -> Answer:
        if not isinstance(value, str):
            return Undecided(f"it is {kind_of(value)}, not a string")
        return self._test_text(value)

    @abstractmethod
    def _test_text(self, text: str) -> Answer:
        """Say whether it holds of a string."""


class Regex(StringCondition):
    """All of it matches this regular expression, or one of these: ``re.fullmatch``.

    ``.`` does not match a newline unless the expression begins with ``(?s)``. A bad expression can
    take long on a text made for it; that is up to whoever writes the policy. The text is taken as
    it is written, also where it is a path.
    """

    _compiled: tuple[re.Pattern[str], ...]

    def __init__(self, *patterns: str) -> None:
        super().__init__(*patterns)
        object.__setattr__(self, "_compiled", tuple(_expression(text) for text in patterns))

    def _test_text(self, text: str) -> Answer:
        return any(pattern.fullmatch(text) is not None for pattern in self._compiled)

    def words(self, *, negated: bool = False) -> str:
        verb = "does not match" if negated else "matches"
        return f"{verb} the pattern {listed(self._parts)}"


class Search(Regex):
    """Somewhere in it, this regular expression matches, or one of these: ``re.search``."""

    def _test_text(self, text: str) -> Answer:
        return any(pattern.search(text) is not None for pattern in self._compiled)

    def words(self, *, negated: bool = False) -> str:
        verb = "has nothing in it that matches" if negated else "has something in it that matches"
        return f"{verb} the pattern {listed(self._parts)}"


def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{text!r} is no regular expression: {error}") from None
