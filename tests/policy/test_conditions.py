"""Each condition answers yes, no or unclear."""

import re
from typing import Any

import pytest

from argstream.errors import UsageError
from argstream.policy import (
    AllOf,
    Answer,
    Between,
    Condition,
    Equals,
    Glob,
    Not,
    Prefix,
    Regex,
    Search,
    Unclear,
    Under,
    When,
)

NO_STRINGS: list[Any] = [5, 1.5, True, [], ["text"], {}, {"a": "text"}]
STRING_CONDITIONS = [Prefix("t"), Glob("t*"), Regex("t.*"), Search("t"), Under("/tmp")]


async def _slow(value: Any) -> bool:
    return bool(value)


def known(answer: Answer) -> bool | None:
    return None if isinstance(answer, Unclear) else answer


ALL_OF = AllOf(Prefix("/a/"), Search("b$"))


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        (Equals("a"), "a", True),
        (Equals("a"), "A", False),
        (Equals("a", "b"), "b", True),
        (Equals("a", "b"), "c", False),
        (Equals(1), 1.0, True),
        (Equals(1), 2, False),
        (Equals(2**60), 2**60 + 1, False),
        (Equals(True), True, True),
        (Equals(True), False, False),
        (Equals(None), None, True),
        (Equals(None), "a", False),
        (Equals("a"), None, False),
        (Equals("é"), "e\u0301", False),
        # A lenient tool might accept these as equal.
        (Equals(True), "true", None),
        (Equals(True), 1, None),
        (Equals(1), True, None),
        (Equals(5), "5", None),
        (Equals("5"), 5, None),
        (Equals("a"), ["a"], None),
        (Equals("a"), {"a": 1}, None),
        (Equals("a", True), "true", None),
        (Equals("a", True), "a", True),
        # Values of several types.
        (Equals("auto", 0), "manual", False),
        (Equals("auto", 0), 1, False),
        (Equals("auto", 0), True, None),
        (Equals("auto", 0), "0", None),
        (Equals("auto", 0), " 0", None),
        (Equals("auto", 5, "7"), 7, None),
        (Equals("true", 1, False), True, None),
        (Equals("auto", None), 5, None),
        (Equals("auto", 0, None), None, True),
        (Prefix("rm "), "rm -rf", True),
        (Prefix("rm "), "sudo rm -rf", False),
        (Prefix("/a/", "/b/"), "/b/c", True),
        (Regex("a+"), "aaa", True),
        (Regex("a+"), "aaab", False),
        (Regex("a+"), "aaa\n", False),
        (Regex("a+", "b+"), "bb", True),
        (Regex("(?i)A.B"), "a-b", True),
        (Regex("a.b"), "a\nb", False),
        (Search("a+"), "xaay", True),
        (Search("^a"), "xa", False),
        (Search("rm", "dd"), "sudo dd if=x", True),
        (Between(at_least=1), 1, True),
        (Between(at_least=1), 0.999, False),
        (Between(at_most=1), 1.0, True),
        (Between(at_most=1), 2, False),
        (Between(above=1), 1, False),
        (Between(above=1), 1.1, True),
        (Between(below=1), 1, False),
        (Between(below=1), -(10**400), True),
        (Between(above=0, at_most=10), 10, True),
        (Between(above=0, at_most=10), 0, False),
        (Between(at_least=0), "1", None),
        (Between(at_least=0), True, None),
        (Between(at_least=0), [1], None),
        (Between(at_least=0), float("nan"), None),
        (Not(Equals("a")), "b", True),
        (Not(Equals("a")), "a", False),
        (Not(Equals("a")), 5, None),
        (Not(Not(Equals("a"))), "a", True),
        (AllOf(Prefix("a"), Search("z$")), "a-z", True),
        (AllOf(Prefix("a"), Search("z$")), "a-y", False),
        (ALL_OF, "/a/../b", None),
        (ALL_OF, "/a/../x", False),
        (When(lambda value: value == "a"), "a", True),
        (When(lambda value: value == "a"), "b", False),
        (When(lambda _: None), "b", None),
        (Not(lambda value: value == "a"), "b", True),
    ],
)
def test_answer_of_a_condition(condition: Condition, value: Any, expected: bool | None) -> None:
    assert known(condition.test(value)) is expected


@pytest.mark.parametrize("condition", STRING_CONDITIONS, ids=repr)
def test_string_condition_is_unclear_for_other_types(condition: Condition) -> None:
    for value in NO_STRINGS:
        answer = condition.test(value)
        assert isinstance(answer, Unclear)
        assert answer.why.endswith("not a string")


def test_null_counts_as_missing_unless_the_condition_is_about_null() -> None:
    about_null: list[Condition] = [Equals(None), Equals("a", None), Not(Equals(None))]
    assert all(condition.takes_null for condition in [*about_null, When(callable)])
    others = [*STRING_CONDITIONS, Equals("a"), Between(below=1), Not(Equals("a"))]
    assert not any(condition.takes_null for condition in others)
    assert not AllOf(Equals(None), Prefix("a")).takes_null


def test_huge_number_is_shown_by_its_size() -> None:
    with pytest.raises(UsageError, match="between a number of 16610 bits and 1 like that"):
        Between(at_least=10**5000, at_most=1)
    assert Between(at_least=10**5000).words() == "is at least a number of 16610 bits"


def test_function_may_raise_only_if_other_conditions_hold_or_are_unclear() -> None:
    def fails(value: Any) -> bool:
        raise LookupError(value)

    for condition in (AllOf(fails, Prefix("a")), AllOf(Prefix("a"), fails)):
        assert condition.can_fail
        assert condition.test("b") is False
        for value in ("a", 5):
            with pytest.raises(LookupError):
                condition.test(value)
    assert When(callable).can_fail
    assert Not(callable).can_fail
    assert not any(condition.can_fail for condition in [*STRING_CONDITIONS, Not(Equals("a"))])


def test_function_must_return_true_false_or_none() -> None:
    with pytest.raises(TypeError, match="it returned a Match, not True, False or None"):
        When(lambda value: re.match("a", value)).test("a")  # type: ignore[return-value]


def test_conditions_are_immutable_and_comparable() -> None:
    condition = Equals(1)
    with pytest.raises(AttributeError, match="make a new Equals"):
        condition.values = (2,)
    assert {Equals(1), Equals(1), Not(Glob("a")), Not(Glob("a"))} == {Equals(1), Not(Glob("a"))}
    assert Equals(1) != Equals(True)
    assert Prefix("a") != Glob("a")
    assert repr(Between(above=1, at_most=2)) == "Between(at_most=2, above=1)"
    assert repr(Not(Under("/a", base="/b"))) == "Not(Under('/a', base='/b'))"


def test_words_of_a_condition_and_its_negation() -> None:
    def check(value: Any) -> bool:
        return bool(value)

    words = [
        (Equals("a", True, None), 'is "a" or true or null', 'is not "a" or true or null'),
        (Equals(*"abcdef"), 'is "a" or "b" or "c" or "d" or one of 2 more', None),
        (Prefix("a"), 'begins with "a"', 'does not begin with "a"'),
        (Glob("*"), 'matches the glob "*"', 'does not match the glob "*"'),
        (Regex("a"), 'matches the pattern "a"', 'does not match the pattern "a"'),
        (Search("a"), 'has something in it that matches the pattern "a"', None),
        (Search("a"), None, 'has nothing in it that matches the pattern "a"'),
        (Under("/a"), 'is under "/a"', 'is not under "/a"'),
        (Between(at_least=1, below=3), "is at least 1 and below 3", None),
        (AllOf(Prefix("a"), Not(Equals("ab"))), 'begins with "a" and is not "ab"', None),
        (AllOf(Prefix("a"), Equals("b")), None, 'does not begin with "a" or is not "b"'),
        (When(check), "is what check looks for", "is not what check looks for"),
    ]
    for condition, positive, negative in words:
        assert positive is None or condition.words() == positive
        assert negative is None or Not(condition).words() == negative


@pytest.mark.parametrize(
    ("make", "given", "advice"),
    [
        (Equals, [], "at least one value"),
        (Equals, [[1]], "name the argument inside it"),
        (Equals, [float("nan")], "no string, number"),
        (Prefix, [], "at least one string"),
        (Prefix, [""], "leave it out"),
        (Prefix, [5], "needs strings"),
        (Regex, ["("], "no regular expression"),
        (Search, ["(?L)a"], "no regular expression"),
        (Glob, ["[a"], "without its ']'"),
        (Glob, ["[z-a]"], "nothing lies between"),
        (Glob, ["*.{env,key}"], "give several globs"),
        (Glob, ["a\\*"], "write [\\]"),
        (Between, [], "needs a bound"),
        (Between, [5], "say which bound 5 is, as in Between(at_least=1)"),
        (Between, {"at_least": "1"}, "must be a number"),
        (Between, {"at_least": True}, "must be a number"),
        (Between, {"above": float("nan")}, "must be a number"),
        (Between, {"above": 1, "at_least": 1}, "not both"),
        (Between, {"below": 1, "at_most": 1}, "not both"),
        (Between, {"at_least": 2, "at_most": 1}, "no number lies between"),
        (Between, {"above": 1, "at_most": 1}, "no number lies between"),
        (AllOf, [], "at least one condition"),
        (Not, [5], "neither a condition nor a function"),
        (Not, [Equals], "neither a condition nor a function"),
        (When, [_slow], "cannot be async"),
        (Under, {"base": "b"}, "must be an absolute directory"),
        (Under, ["~no-such-user/x"], "no such home directory"),
        (Under, [""], "leave it out"),
        (Under, [5], "is no directory"),
        (Under, ["/a\0b"], "NUL"),
    ],
)
def test_wrong_condition_raises_with_advice(make: Any, given: Any, advice: str) -> None:
    with pytest.raises(UsageError, match=re.escape(advice)):
        make(**given) if isinstance(given, dict) else make(*given)


def test_relative_directory_without_a_root_raises() -> None:
    with pytest.raises(UsageError, match="give an absolute directory, or the policy a root"):
        Under("src").test("a")
