"""What may be said of an argument: small values that answer yes, no, or that it cannot be told.

The third answer matters most. A model that writes ``"true"`` where a boolean belongs, or a number
for a path, gets it past a rule that merely compares, and the tool may well take it for what it is
not. So a value of another kind than the condition is about is neither right nor wrong: ``Unclear``.
Whoever asks decides what that means; a ``Rule`` decides cautiously.

Those about strings are in ``texts``, and ``Under``, which looks at the file system, in
``directory``.
"""

from collections.abc import Callable
from inspect import iscoroutinefunction
from math import isfinite, isnan
from typing import Any, Never, TypeAlias

from argstream.errors import UsageError
from argstream.policy._condition import Answer, Condition, Unclear
from argstream.policy._wording import kind_of, listed, shown

__all__ = [
    "AllOf",
    "Between",
    "Equals",
    "Not",
    "Test",
    "When",
    "as_condition",
]

Test: TypeAlias = Callable[[Any], bool | None]
"""A function of one's own: what it returns is the answer, None that it cannot be told."""


class Equals(Condition):
    """It is this value, or one of these: strings, numbers, booleans or null.

    Numbers are compared as numbers: 1 is 1.0. A string is never a number, and ``True`` is not 1: of
    a value of another kind than all of these it cannot be told, nor of one that reads like one of
    them, as ``"0"`` does where 0 is among them.

    >>> Equals("main", "master").test("main"), Equals(True).test("true")
    (True, Unclear(why='it is a string, not a boolean'))
    """

    __slots__ = ()

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
        """See the base."""
        return None in self._parts

    def test(self, value: Any) -> Answer:
        """See the base."""
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
        return Unclear(f"it is {kind}, not {kind_of(others[0])}") if others else False

    def words(self, *, negated: bool = False) -> str:
        """See the base."""
        return f"{'is not' if negated else 'is'} {listed(self._parts)}"


class Between(Condition):
    """It is a number within these bounds; one is enough.

    >>> Between(above=0, at_most=100).test(100)
    True
    """

    __slots__ = ()

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
        """See the base."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return Unclear(f"it is {kind_of(value)}, not a number")
        if _is_nan(value):
            return Unclear("it is not a number")
        return all(_within(value, name, bound) for name, bound in self._parts)

    def words(self, *, negated: bool = False) -> str:
        """See the base."""
        said = " and ".join(
            f"{name.replace('_', ' ')} {shown(bound)}" for name, bound in self._parts
        )
        return f"{'is not' if negated else 'is'} {said}"

    def __repr__(self) -> str:
        return f"Between({', '.join(f'{name}={bound!r}' for name, bound in self._parts)})"


class Not(Condition):
    """The argument is there, and the condition does not hold of it."""

    __slots__ = ()

    def __init__(self, condition: "Condition | Test") -> None:
        self._set(as_condition(condition))

    @property
    def takes_null(self) -> bool:
        """See the base."""
        return bool(self._parts[0].takes_null)

    @property
    def can_fail(self) -> bool:
        """See the base."""
        return bool(self._parts[0].can_fail)

    def bound(self, root: str | None) -> Condition:
        """See the base."""
        return Not(self._parts[0].bound(root))

    def test(self, value: Any) -> Answer:
        """See the base."""
        answer: Answer = self._parts[0].test(value)
        return answer if isinstance(answer, Unclear) else not answer

    def words(self, *, negated: bool = False) -> str:
        """See the base."""
        said: str = self._parts[0].words(negated=not negated)
        return said


class AllOf(Condition):
    """All of these hold, of one and the same value: of the same item, if it is one of an array."""

    __slots__ = ()

    def __init__(self, *conditions: "Condition | Test") -> None:
        if not conditions:
            raise UsageError("AllOf needs at least one condition")
        self._set(*map(as_condition, conditions))

    @property
    def takes_null(self) -> bool:
        """See the base."""
        return all(condition.takes_null for condition in self._parts)

    @property
    def can_fail(self) -> bool:
        """See the base."""
        return any(condition.can_fail for condition in self._parts)

    def bound(self, root: str | None) -> Condition:
        """See the base."""
        return AllOf(*(condition.bound(root) for condition in self._parts))

    def test(self, value: Any) -> Answer:
        """See the base."""
        unclear: Unclear | None = None
        failure: Exception | None = None
        for condition in self._parts:
            try:
                answer: Answer = condition.test(value)
            except Exception as error:  # noqa: BLE001 - raised below, unless another says no
                failure = failure or error
                continue
            if answer is False:
                return False
            if isinstance(answer, Unclear):
                unclear = unclear or answer
        if failure is not None:
            raise failure
        return unclear or True

    def words(self, *, negated: bool = False) -> str:
        """See the base."""
        said = (condition.words(negated=negated) for condition in self._parts)
        return (" or " if negated else " and ").join(said)


class When(Condition):
    """A function of one's own says so: True, False, or None if it cannot tell.

    It is given the value that the call will have: it must not change it. Null is a value to it.
    """

    __slots__ = ()

    def __init__(self, function: Test | Any) -> None:
        if isinstance(function, type) or not callable(function):
            raise UsageError(f"{shown(function)} is neither a condition nor a function")
        if iscoroutinefunction(function):
            raise UsageError("a rule is decided at once, so its function cannot be async")
        self._set(function)

    @property
    def takes_null(self) -> bool:
        """See the base."""
        return True

    @property
    def can_fail(self) -> bool:
        """See the base."""
        return True

    def test(self, value: Any) -> Answer:
        """See the base."""
        answer = self._parts[0](value)
        if answer is None:
            return Unclear("the function could not tell")
        if not isinstance(answer, bool):
            raise TypeError(f"it returned {kind_of(answer)}, not True, False or None")
        return answer

    def words(self, *, negated: bool = False) -> str:
        """See the base."""
        name = getattr(self._parts[0], "__name__", type(self._parts[0]).__name__)
        return f"is {'not ' if negated else ''}what {name} looks for"


def as_condition(condition: Condition | Test) -> Condition:
    """Give a condition for one, or for a function."""
    if isinstance(condition, Condition):
        return condition
    return When(condition)


def _reads_like(value: Any, candidate: Any) -> bool:
    """Say whether a value of another kind is written as this one is, but for quotes."""
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
