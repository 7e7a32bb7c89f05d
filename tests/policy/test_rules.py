"""Rules and policies that cannot work raise when they are created, with advice."""

import re
from typing import Any

import pytest

from argstream.errors import UsageError
from argstream.policy import (
    ANY_ITEM,
    EVERY_ITEM,
    AllOf,
    Equals,
    ExactKey,
    Not,
    Policy,
    Prefix,
    Rule,
    Under,
)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"action": "forbid"}, "give 'allow', 'ask' or 'deny'"),
        ({"tool": []}, "for all, leave tool out"),
        ({"tool": ""}, "no name of a tool"),
        ({"tool": [5]}, "no name of a tool"),
        ({"tool": 5}, "5 is no name of a tool: give a string, or several"),
        ({"where": [("a", Equals(1))]}, 'give a dict, as in {"path": Prefix("/srv/")}'),
        ({"where": "a"}, 'where says what must hold of each argument, and "a" does not'),
        ({"tool": "a{b,c}*"}, "give several globs"),
        ({"argument": "a"}, "says nothing about its argument"),
        ({"argument": "a.b", "when": Equals(1)}, 'as ["a.b"]'),
        ({"argument": "a[0]", "when": Equals(1)}, "one by one"),
        ({"argument": "*", "when": Equals(1)}, "the first step to one of them is its key"),
        ({"argument": (0, "a"), "when": Equals(1)}, "the first step to one of them is its key"),
        ({"argument": ("a", -1), "when": Equals(1)}, "an index from 0"),
        ({"argument": ("a", True), "when": Equals(1)}, "an index from 0"),
        ({"argument": ("a", None), "when": Equals(1)}, "is no step to an argument"),
        ({"argument": ("a", ExactKey(5)), "when": Equals("")}, "is no step to an argument"),  # type: ignore[arg-type]
        ({"argument": 5, "when": Equals(1)}, "names no argument"),
        ({"argument": ("a",) * 300, "when": Equals(1)}, "names no argument"),
        ({"argument": ("a", ANY_ITEM, EVERY_ITEM), "when": Equals(1)}, "about any item and"),
        ({"argument": "a", "when": 5}, "neither a condition nor a function"),
        ({"where": {"a": Prefix}}, "neither a condition nor a function"),
        ({"name": 5}, "the name of a rule must be a string"),
        ({"reason": None}, "the reason of a rule must be a string"),
        ({"action": "allow", "argument": ("a", "*"), "when": Equals(1)}, "EVERY_ITEM"),
        ({"action": "allow", "where": {("a", ANY_ITEM): Equals(1)}}, 'in TOML { item = "every" }'),
    ],
)
def test_wrong_rule_raises_with_advice(given: dict[str, Any], advice: str) -> None:
    action: Any = given.pop("action", "deny")
    with pytest.raises(UsageError, match=re.escape(advice)):
        Rule(action, **given)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"default": "never"}, "give 'allow', 'ask' or 'deny'"),
        ({"defaults": {"a": "never"}}, "give 'allow', 'ask' or 'deny'"),
        ({"defaults": {"": "ask"}}, "no name of a tool"),
        ({"root": "work"}, "must be an absolute directory"),
        ({"defaults": [("a", "ask")]}, 'give a dict, as in {"read_file": "allow"}'),
        ({"defaults": []}, "defaults says what holds for each tool"),
        ({"rules": [5]}, "rule 1: 5 is no Rule"),
        ({"rules": Rule("deny")}, "<Rule: deny all tools> is no list of rules: give [Rule(…), …]"),
        ({"rules": None}, "null is no list of rules: give [Rule(…), …], or nothing"),
        (
            {"rules": [Rule("ask"), Rule("deny", argument="a", when=Under("src"))]},
            'rule 2: under "src": give an absolute directory, or the policy a root',
        ),
    ],
)
def test_wrong_policy_raises_with_advice(given: dict[str, Any], advice: str) -> None:
    with pytest.raises(UsageError, match=re.escape(advice)):
        Policy(**given)


def test_arguments_of_a_decision_must_be_a_dict_or_a_string() -> None:
    arguments: Any
    for arguments in ([1], None, 5):
        with pytest.raises(UsageError, match="are a dict, or a str for a tool of free text"):
            Policy().decide("tool", arguments)


def test_repr_of_a_rule_has_its_conditions() -> None:
    rule = Rule("deny", tool=["a", "b*"], where={("x", "*"): Equals(1), "y": Prefix("p")}, name="n")
    expected = "<Rule 'n': deny a, b* if ['x', ANY_ITEM] is 1 and ['y'] begins with \"p\">"
    assert repr(rule) == expected


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
