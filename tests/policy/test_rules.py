"""Conditions answer yes, no or unclear. Wrong conditions, rules and policies raise with advice."""

import re
from typing import Any

import pytest

from argstream.errors import UsageError
from argstream.policy import (
    ANY_ITEM,
    EVERY_ITEM,
    AllOf,
    Answer,
    Between,
    Condition,
    Equals,
    ExactKey,
    Glob,
    Not,
    Policy,
    Prefix,
    Regex,
    Rule,
    Search,
    Undecided,
    Under,
    When,
)

NO_STRINGS: list[Any] = [5, 1.5, True, [], ["text"], {}, {"a": "text"}]
STRING_CONDITIONS = [Prefix("t"), Glob("t*"), Regex("t.*"), Search("t"), Under("/tmp")]


async def _slow(value: Any) -> bool:
    return bool(value)


def known(answer: Answer) -> bool | None:
    return None if isinstance(answer, Undecided) else answer


ONE_OF = Equals("auto", 0)
ALL_OF = AllOf(Prefix("/a/"), Search("b$"))
IS_A = When(lambda value: value == "a")


@pytest.mark.parametrize(
    ("condition", "expected", "values"),
    [
        (Equals("a"), True, ["a"]),
        (Equals("a"), False, ["A", None]),
        (Equals("a"), None, [["a"], {"a": 1}]),  # a lenient tool might accept these as equal
        (Equals("a", "b"), True, ["a", "b"]),
        (Equals("a", "b"), False, ["c"]),
        (Equals(1), True, [1.0]),
        (Equals(1), False, [2]),
        (Equals(1), None, [True]),
        (Equals(2**60), False, [2**60 + 1]),
        (Equals(True), True, [True]),
        (Equals(True), False, [False]),
        (Equals(True), None, ["true", 1]),
        (Equals(None), True, [None]),
        (Equals(None), False, ["a"]),
        (Equals("é"), False, ["e\u0301"]),
        (Equals(5), None, ["5"]),
        (Equals("5"), None, [5]),
        (Equals("a", True), None, ["true"]),
        (Equals("a", True), True, ["a"]),
        (ONE_OF, False, ["manual", 1]),
        (ONE_OF, None, [True, "0", " 0"]),
        (Equals("auto", 5, "7"), None, [7]),
        (Equals("true", 1, False), None, [True]),
        (Equals("auto", None), None, [5]),
        (Equals("auto", 0, None), True, [None]),
        (Prefix("rm "), True, ["rm -rf"]),
        (Prefix("rm "), False, ["sudo rm -rf"]),
        (Prefix("/a/", "/b/"), True, ["/b/c"]),
        (Regex("a+"), True, ["aaa"]),
        (Regex("a+"), False, ["aaab", "aaa\n"]),
        (Regex("a+", "b+"), True, ["bb"]),
        (Regex("(?i)A.B"), True, ["a-b"]),
        (Regex("a.b"), False, ["a\nb"]),
        (Search("a+"), True, ["xaay"]),
        (Search("^a"), False, ["xa"]),
        (Search("rm", "dd"), True, ["sudo dd if=x"]),
        (Between(at_least=1), True, [1]),
        (Between(at_least=1), False, [0.999]),
        (Between(at_least=1), None, ["1", True, [1], float("nan")]),
        (Between(at_most=1), True, [1.0]),
        (Between(at_most=1), False, [2]),
        (Between(above=1), True, [1.1]),
        (Between(above=1), False, [1]),
        (Between(below=1), True, [-(10**400)]),
        (Between(below=1), False, [1]),
        (Between(above=0, at_most=10), True, [10]),
        (Between(above=0, at_most=10), False, [0]),
        (Not(Equals("a")), True, ["b"]),
        (Not(Equals("a")), False, ["a"]),
        (Not(Equals("a")), None, [5]),
        (Not(Not(Equals("a"))), True, ["a"]),
        (ALL_OF, True, ["/a/b"]),
        (ALL_OF, False, ["/a/y", "/a/../x"]),
        (ALL_OF, None, ["/a/../b"]),
        (IS_A, True, ["a"]),
        (IS_A, False, ["b"]),
        (When(lambda _: None), None, ["b"]),
        (Not(lambda value: value == "a"), True, ["b"]),
    ],
)
def test_answer_of_a_condition(condition: Condition, expected: Any, values: list[Any]) -> None:
    assert [known(condition.test(value)) for value in values] == [expected] * len(values)


@pytest.mark.parametrize("condition", STRING_CONDITIONS, ids=repr)
def test_string_condition_is_unclear_for_other_types(condition: Condition) -> None:
    for value in NO_STRINGS:
        answer = condition.test(value)
        assert isinstance(answer, Undecided)
        assert answer.why.endswith("not a string")


def test_null_counts_as_missing_unless_the_condition_is_about_null() -> None:
    about_null: list[Condition] = [Equals(None), Equals("a", None), Not(Equals(None))]
    assert all(condition.takes_null for condition in [*about_null, When(callable)])
    others = [*STRING_CONDITIONS, Equals("a"), Between(below=1), Not(Equals("a"))]
    assert not any(condition.takes_null for condition in others)
    assert not AllOf(Equals(None), Prefix("a")).takes_null


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
    with pytest.raises(TypeError, match="the function returned a Match, not True, False or None"):
        When(lambda value: re.match("a", value)).test("a")  # type: ignore[return-value]


def test_conditions_are_immutable_and_comparable() -> None:
    condition = Equals(1)
    with pytest.raises(AttributeError, match="Create a new Equals"):
        condition.values = (2,)
    assert {Equals(1), Equals(1), Not(Glob("a")), Not(Glob("a"))} == {Equals(1), Not(Glob("a"))}
    assert Equals(1) != Equals(True)
    assert Prefix("a") != Glob("a")


@pytest.mark.parametrize(
    ("make", "given", "advice"),
    [
        (Equals, [], "at least one value"),
        (Equals, [[1]], "name the value inside it"),
        (Equals, [float("nan")], "must be strings, numbers"),
        (Prefix, [], "at least one string"),
        (Prefix, [""], "an empty string"),
        (Prefix, [5], "needs strings"),
        (Regex, ["("], "not a valid regular expression"),
        (Search, ["(?L)a"], "not a valid regular expression"),
        (Glob, ["[a"], "without ']'"),
        (Glob, ["[z-a]"], "empty range"),
        (Glob, ["*.{env,key}"], "several globs"),
        (Glob, ["a\\*"], "Write [\\]"),
        (Between, [], "needs a bound"),
        (Between, [5], "bounds must be named, such as Between(at_least=5)"),
        (Between, {"at_least": "1"}, "must be a number"),
        (Between, {"above": float("nan")}, "must be a number"),
        (Between, {"above": 1, "at_least": 1}, "not both"),
        (Between, {"at_least": 2, "at_most": 1}, "no number is"),
        (AllOf, [], "at least one condition"),
        (Not, [5], "must be a condition or a function"),
        (When, [_slow], "cannot be async"),
        (Under, {"base": "b"}, "must be an absolute directory"),
        (Under, ["~no-such-user/x"], "no home directory for"),
        (Under, [5], "must be a string or a path"),
        (Under, ["/a\0b"], "NUL"),
    ],
)
def test_wrong_condition_raises_with_advice(make: Any, given: Any, advice: str) -> None:
    with pytest.raises(UsageError, match=re.escape(advice)):
        make(**given) if isinstance(given, dict) else make(*given)


def test_relative_directory_without_a_root_raises() -> None:
    with pytest.raises(UsageError, match="must be absolute, or the policy must have a root"):
        Under("src").test("a")


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"action": "forbid"}, "must be 'allow', 'ask' or 'deny'"),
        ({"tool": []}, "Omit it to apply the rule to all tools"),
        ({"tool": ""}, "a tool name must be"),
        ({"tool": 5}, "tool must be a string or a list of strings, not 5"),
        ({"where": [("a", Equals(1))]}, 'must be a dict such as {"path": Prefix("/srv/")}'),
        ({"where": "a"}, "where must be a dict"),
        ({"tool": "a{b,c}*"}, "several globs"),
        ({"argument": "a"}, "has no condition"),
        ({"argument": "a.b", "when": Equals(1)}, 'or ["a.b"] if'),
        ({"argument": "*", "when": Equals(1)}, "the first step to an argument must be a key"),
        ({"argument": ("a", -1), "when": Equals(1)}, "an index from 0"),
        ({"argument": ("a", None), "when": Equals(1)}, "a step must be a key"),
        ({"argument": ("a", ExactKey(5)), "when": Equals("")}, "a step must be a key"),  # type: ignore[arg-type]
        ({"argument": 5, "when": Equals(1)}, "must be a key or a list of steps"),
        ({"argument": ("a",) * 300, "when": Equals(1)}, "must be a key or a list"),
        (
            {"argument": ("a", ANY_ITEM, EVERY_ITEM), "when": Equals(1)},
            "both ANY_ITEM and EVERY_ITEM",
        ),
        ({"argument": "a", "when": 5}, "must be a condition or a function"),
        ({"where": {"a": Prefix}}, "must be a condition or a function"),
        ({"name": 5}, "the name of a rule must be a string"),
        ({"reason": None}, "the reason of a rule must be a string"),
        ({"action": "allow", "argument": ("a", "*"), "when": Equals(1)}, "EVERY_ITEM"),
        ({"action": "allow", "where": {("a", ANY_ITEM): Equals(1)}}, 'in TOML, { item = "every" }'),
    ],
)
def test_wrong_rule_raises_with_advice(given: dict[str, Any], advice: str) -> None:
    action: Any = given.pop("action", "deny")
    with pytest.raises(UsageError, match=re.escape(advice)):
        Rule(action, **given)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"default": "never"}, "must be 'allow', 'ask' or 'deny'"),
        ({"defaults": {"a": "never"}}, "must be 'allow', 'ask' or 'deny'"),
        ({"defaults": {"": "ask"}}, "a tool name must be"),
        ({"root": "work"}, "must be an absolute directory"),
        ({"defaults": [("a", "ask")]}, 'must be a dict such as {"read_file": "allow"}'),
        ({"defaults": []}, "defaults must be a dict"),
        ({"rules": [5]}, "rule 1 must be a Rule, not 5"),
        ({"rules": Rule("deny")}, "must be a list such as [Rule(…), …], not <Rule: deny"),
        ({"rules": None}, "rules must be a list such as [Rule(…), …], not null"),
        (
            {"rules": [Rule("ask"), Rule("deny", argument="a", when=Under("src"))]},
            'rule 2: under "src" must be absolute, or the policy must have a root',
        ),
    ],
)
def test_wrong_policy_raises_with_advice(given: dict[str, Any], advice: str) -> None:
    with pytest.raises(UsageError, match=re.escape(advice)):
        Policy(**given)


def test_arguments_of_a_decision_must_be_a_dict_or_a_string() -> None:
    arguments: Any
    for arguments in ([1], None, 5):
        with pytest.raises(UsageError, match="must be a dict, or a str for a free-text tool"):
            Policy().decide("tool", arguments)


def test_root_of_a_policy_does_not_change_the_given_rule() -> None:
    rule = Rule("deny", argument="a", when=Under("src"))
    first, second = Policy([rule], root="/first"), Policy([rule], root="/second")
    assert [policy.rules[0].conditions[0][1] for policy in (first, second)] == [
        Under("/first/src", base="/first"),
        Under("/second/src", base="/second"),
    ]
    assert first.rules[0].digest != second.rules[0].digest


def network(host: str, name: str = "") -> Rule:
    return Rule("ask", tool="fetch", argument="url", when=Prefix(f"https://{host}"), name=name)


def test_rules_need_different_names() -> None:
    """An approval for all calls of one rule would cover the other, too."""
    rules = [network("docs.python.org", "network"), network("evil.example", "network")]
    with pytest.raises(UsageError, match='rule 2: another rule is already named "network"'):
        Policy(rules)
    rule = '[[rules]]\nname = "network"\ntool = "fetch"\naction = "ask"\n'
    with pytest.raises(UsageError, match='policy: rule 2: another rule is already named "network"'):
        Policy.from_toml(rule * 2)
    for name in ("rule 2", "rule 7"):
        with pytest.raises(UsageError, match=f'rule 1: "{name}" is the automatic name of'):
            Policy([network("docs.python.org", name), network("evil.example")])


def test_automatic_name_of_a_rule_is_its_position() -> None:
    policy = Policy([network("docs.python.org"), network("evil.example", "rule 2")])
    assert policy.decide("fetch", {"url": "https://evil.example/"}).rule == "rule 2"
    assert policy.decide("fetch", {"url": "https://docs.python.org/"}).rule == "rule 1"
    assert policy.find_rule("rule 1") is policy.rules[0]
    assert policy.find_rule("rule 3") is None


def test_digest_of_a_rule_is_that_of_its_content() -> None:
    def rule(**changed: Any) -> Rule:
        where = {("a", "*"): Equals(1), ("b", ExactKey("*")): Prefix("p")}
        given = {"tool": ["a", "b*"], "where": where, "name": "n", "reason": "why", **changed}
        return Rule("deny", **given)

    assert rule().digest == rule().digest == Policy([rule()]).rules[0].digest
    every = {("a", EVERY_ITEM): Equals(1), ("b", ExactKey("*")): Prefix("p")}
    is_true = {("a", "*"): Equals(True), ("b", ExactKey("*")): Prefix("p")}
    changed = [Rule("deny", name="n"), rule(tool="a"), rule(name="m"), rule(reason="other")]
    changed += [rule(where=every), rule(where=is_true)]
    assert len({rule().digest, *(other.digest for other in changed)}) == 7


@pytest.mark.parametrize("wrap", [lambda test: test, Not, lambda test: AllOf(Equals(1), test)])
def test_rules_with_a_function_have_different_digests(wrap: Any) -> None:
    def is_even(value: int) -> bool:
        return value % 2 == 0

    rules = [Rule("ask", argument="a", when=wrap(is_even)) for _ in range(2)]
    assert rules[0].digest != rules[1].digest
