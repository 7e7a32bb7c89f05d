"""Conditions on an argument. A test returns True, False or ``Undecided``.

A model may write ``"true"`` for a boolean, or a number for a path. A plain comparison would not
match, but the tool may convert the value. So a value of another kind than the condition expects is
``Undecided``. It counts as a match in rules that deny or ask, and as no match in rules that allow.
Conditions on paths are in ``_paths``. At the end are the functions that format values for messages.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from inspect import iscoroutinefunction
from math import isfinite, isnan
from operator import ge, gt, le, lt
from typing import Any, ClassVar, Final, NamedTuple, Never, NoReturn, TypeAlias

from argstream.errors import UsageError
from argstream.jsonstream._fragments import kind_words
from argstream.sanitise import visible_line


class Undecided(NamedTuple):
    """The condition cannot be decided for this value."""

    why: str
    """A clause about the value, such as ``it is a number, not a string``."""


Answer: TypeAlias = bool | Undecided


class Condition(ABC):
    """Base class of conditions. They are immutable and compared by their content."""

    _parts: tuple[Any, ...]
    takes_null: bool = False
    """Whether null is tested. Otherwise null counts as a missing argument."""
    can_fail: bool = False
    """Whether ``test`` may raise."""

    @property
    def is_plain(self) -> bool:
        """Whether it is a built-in condition without a Python function: the repr identifies it."""
        is_ours = type(self).__module__.startswith("argstream.policy.")
        return is_ours and not any(
            callable(part) or (isinstance(part, Condition) and not part.is_plain)
            for part in self._parts
        )

    @abstractmethod
    def test(self, value: Any) -> Answer:
        """Test a complete value."""

    @abstractmethod
    def words(self, *, negated: bool = False) -> str:
        """Describe the condition as a predicate of the argument: ``is under "/srv"``."""

    def bound(self, root: str | None) -> "Condition":
        """Return the same condition with relative paths resolved at this directory."""
        return self

    def _set(self, *parts: Any, **attributes: Any) -> None:
        for name, value in {"_parts": parts, **attributes}.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        name = type(self).__name__
        raise AttributeError(f"a condition cannot be changed. Create a new {name}")

    def __eq__(self, other: object) -> bool:
        # Not the parts themselves: in Python, 1 equals True.
        return type(other) is type(self) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._parts))})"


Test: TypeAlias = Callable[[Any], bool | None]
"""A function that tests a value. None means that it cannot decide."""


class Equals(Condition):
    """The value is one of these: strings, numbers, booleans or null.

    Numbers are compared as numbers: 1 equals 1.0. A string never equals a number, and ``True`` does
    not equal 1. The answer is undecided for a value of a kind that is not listed, and for a value
    that is written like a listed one of another kind: ``"0"`` if 0 is listed.

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
                    "values of Equals must be strings, numbers, booleans or null, not "
                    f"{shown(value)}. For an object or array, name the value inside it as the "
                    "argument, or use a function"
                )
        self._set(*values, takes_null=None in values)

    def test(self, value: Any) -> Answer:
        kind = kind_words(value)
        same = [one for one in self._parts if kind_words(one) == kind]
        if value in same:
            return True
        others = [one for one in self._parts if one is not None and kind_words(one) != kind]
        if same or value is None:
            others = [one for one in others if _reads_like(value, one)]
        return Undecided(f"it is {kind}, not {kind_words(others[0])}") if others else False

    def words(self, *, negated: bool = False) -> str:
        return f"{'is not' if negated else 'is'} {listed(self._parts)}"


_COMPARISONS: Final = {"at_least": ge, "at_most": le, "above": gt, "below": lt}


class Between(Condition):
    """The value is a number within these bounds. At least one bound is required.

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
            bound = shown(unnamed[0])
            raise UsageError(f"bounds must be named, such as Between(at_least={bound})")
        bounds = {"at_least": at_least, "at_most": at_most, "above": above, "below": below}
        given: dict[str, Any] = {name: one for name, one in bounds.items() if one is not None}
        for name, bound in given.items():
            is_number = isinstance(bound, int | float) and not isinstance(bound, bool)
            if not is_number or _is_nan(bound):
                raise UsageError(f"{name} must be a number, not {shown(bound)}")
        if not given:
            raise UsageError("Between needs a bound: at_least, at_most, above or below")
        for pair in (("at_least", "above"), ("at_most", "below")):
            if given.keys() >= set(pair):
                raise UsageError(f"pass {pair[0]} or {pair[1]}, not both")
        lower = given.get("at_least", given.get("above"))
        upper = given.get("at_most", given.get("below"))
        if lower is not None and upper is not None:
            is_open = "above" in given or "below" in given
            if lower > upper or (is_open and lower == upper):
                found = " and ".join(f"{name}={shown(bound)}" for name, bound in given.items())
                raise UsageError(f"no number is within the bounds {found}")
        self._set(*given.items())

    def test(self, value: Any) -> Answer:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return Undecided(f"it is {kind_words(value)}, not a number")
        if _is_nan(value):
            return Undecided("it is not a number")
        return all(_COMPARISONS[name](value, bound) for name, bound in self._parts)

    def words(self, *, negated: bool = False) -> str:
        bounds = [f"{name.replace('_', ' ')} {shown(bound)}" for name, bound in self._parts]
        return f"{'is not' if negated else 'is'} {' and '.join(bounds)}"

    def __repr__(self) -> str:
        return f"Between({', '.join(f'{name}={bound!r}' for name, bound in self._parts)})"


class Not(Condition):
    """The argument exists, and the condition does not hold for it."""

    def __init__(self, condition: "Condition | Test") -> None:
        test = as_condition(condition)
        self._set(test, takes_null=test.takes_null, can_fail=test.can_fail)

    def bound(self, root: str | None) -> Condition:
        return Not(self._parts[0].bound(root))

    def test(self, value: Any) -> Answer:
        answer: Answer = self._parts[0].test(value)
        return answer if isinstance(answer, Undecided) else not answer

    def words(self, *, negated: bool = False) -> str:
        words: str = self._parts[0].words(negated=not negated)
        return words


class AllOf(Condition):
    """All of these conditions hold for the same value. In an array, that is the same item."""

    def __init__(self, *conditions: "Condition | Test") -> None:
        if not conditions:
            raise UsageError("AllOf needs at least one condition")
        tests = [as_condition(condition) for condition in conditions]
        takes_null = all(test.takes_null for test in tests)
        self._set(*tests, takes_null=takes_null, can_fail=any(test.can_fail for test in tests))

    def bound(self, root: str | None) -> Condition:
        return AllOf(*(condition.bound(root) for condition in self._parts))

    def test(self, value: Any) -> Answer:
        unclear: Undecided | None = None
        failure: Exception | None = None
        for condition in self._parts:
            try:
                answer: Answer = condition.test(value)
            except Exception as error:  # noqa: BLE001 - raised below, unless a test is False
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
        words = (condition.words(negated=negated) for condition in self._parts)
        return (" or " if negated else " and ").join(words)


class When(Condition):
    """A function returns True, False, or None if it cannot decide.

    It must not change the value, which is passed without a copy. It is called for null too.
    """

    takes_null = True
    can_fail = True

    def __init__(self, function: Test | Any) -> None:
        if isinstance(function, type) or not callable(function):
            raise UsageError(f"must be a condition or a function, not {shown(function)}")
        if iscoroutinefunction(function):
            raise UsageError("the function of a rule cannot be async. Use a plain function")
        self._set(function)

    def test(self, value: Any) -> Answer:
        answer = self._parts[0](value)
        if answer is None:
            return Undecided("the function returned None")
        if not isinstance(answer, bool):
            raise TypeError(f"the function returned {kind_words(answer)}, not True, False or None")
        return answer

    def words(self, *, negated: bool = False) -> str:
        name = getattr(self._parts[0], "__name__", type(self._parts[0]).__name__)
        return f"{'does not satisfy' if negated else 'satisfies'} {name}"


def as_condition(condition: Condition | Test) -> Condition:
    return condition if isinstance(condition, Condition) else When(condition)


def _reads_like(value: Any, candidate: Any) -> bool:
    """Return True if two values of different kinds differ only in quotes and case."""
    text, other = (value, candidate) if isinstance(value, str) else (candidate, value)
    return isinstance(text, str) and text.strip().casefold() == shown(other).casefold()


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and isnan(value)  # isnan raises for very large integers


class StringCondition(Condition):
    """Base class of conditions on strings, without escapes: as the tool receives them."""

    _verbs: ClassVar[tuple[str, str]]  # what ``words`` says, and what it says if negated

    def __init__(self, *texts: str) -> None:
        name = type(self).__name__
        if not texts:
            raise UsageError(f"{name} needs at least one string")
        for text in texts:
            if not isinstance(text, str):
                raise UsageError(f"{name} needs strings, not {kind_words(text)}: {shown(text)}")
            if not text:
                raise UsageError(f"{name} cannot have an empty string")
        self._set(*texts)

    def test(self, value: Any) -> Answer:
        if not isinstance(value, str):
            return Undecided(f"it is {kind_words(value)}, not a string")
        return self._test_text(value)

    @abstractmethod
    def _test_text(self, text: str) -> Answer: ...

    def words(self, *, negated: bool = False) -> str:
        return f"{self._verbs[negated]} {listed(self._parts)}"


class Regex(StringCondition):
    """The whole string matches one of these regular expressions: ``re.fullmatch``.

    ``.`` does not match a newline unless the expression begins with ``(?s)``. Avoid expressions
    that backtrack: a crafted text can make them slow. Paths are not normalized.
    """

    _verbs = ("matches the pattern", "does not match the pattern")
    _compiled: tuple[re.Pattern[str], ...]

    def __init__(self, *patterns: str) -> None:
        super().__init__(*patterns)
        self._set(*patterns, _compiled=tuple(map(_compile, patterns)))

    def _test_text(self, text: str) -> Answer:
        return any(pattern.fullmatch(text) is not None for pattern in self._compiled)


class Search(Regex):
    """A part of the string matches one of these regular expressions: ``re.search``."""

    _verbs = ("contains a match for the pattern", "contains no match for the pattern")

    def _test_text(self, text: str) -> Answer:
        return any(pattern.search(text) is not None for pattern in self._compiled)


def _compile(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{text!r} is not a valid regular expression: {error}") from None


# Texts of the model in messages are shortened and sanitised: they must not send control codes to a
# screen.
_MAX_CHARS: Final = 80  # of one value
_MAX_BITS: Final = 256  # of an integer: Python refuses to print very long ones


def shown(value: Any) -> str:
    """Format a value: a string in quotes, shortened; an object or an array by its size."""
    if isinstance(value, str):
        text = json.dumps(value[:_MAX_CHARS], ensure_ascii=False)
        return visible_line(text) + ("…" if len(value) > _MAX_CHARS else "")
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, dict | list):
        return f"{kind_words(value)} of {len(value)}"
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    return visible_line(repr(value)[:_MAX_CHARS])


def listed(values: Iterable[Any]) -> str:
    """Format the first values as alternatives, and the number of the others."""
    texts = [shown(value) for value in values]
    first, others = texts[:4], len(texts) - 4
    return " or ".join(first) + (f" or one of {others} more" if others > 0 else "")


def name_words(name: str) -> str:
    cut = name[:_MAX_CHARS]
    text = visible_line(cut) + ("…" if len(name) > len(cut) else "")
    return text or '""'


def argument_words(path: tuple[str | int, ...]) -> str:
    """Format the path of an argument: a single key as it is, longer paths as JSON."""
    if len(path) == 1:
        return f"the argument {name_words(str(path[0]))}"
    steps = [step[:_MAX_CHARS] if isinstance(step, str) else step for step in path]
    text = json.dumps(steps, ensure_ascii=False)
    return f"the argument {visible_line(text[: 3 * _MAX_CHARS])}"
