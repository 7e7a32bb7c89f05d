"""The first rule that matches decides, as soon as nothing to come can change it."""

import json
from itertools import permutations, product
from typing import Any

import pytest

from argstream.policy import (
    ANY_ITEM,
    EVERY_ITEM,
    AllOf,
    Between,
    Equals,
    ExactKey,
    Glob,
    Not,
    Policy,
    Prefix,
    Regex,
    Rule,
    Search,
    Under,
)
from argstream.testing import chunkings
from tests.policy.reading import in_every_order, read

# Of each kind of rule: it, arguments that it matches, and arguments that it does not.
KINDS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("equals", {"argument": "a", "when": Equals("x")}, {"a": "x"}, {"a": "y"}),
    ("one of", {"argument": "a", "when": Equals(4, 5)}, {"a": 5}, {"a": 6.0, "b": 4}),
    ("prefix", {"argument": "a", "when": Prefix("x")}, {"a": "xy"}, {"a": "yx"}),
    ("glob", {"argument": "a", "when": Glob("*.py")}, {"a": "b.py"}, {"a": "b/c.py"}),
    ("regex", {"argument": "a", "when": Regex("x+")}, {"a": "xx"}, {"a": "xxy"}),
    ("search", {"argument": "a", "when": Search("x+")}, {"a": "yxy"}, {"a": "y"}),
    ("under", {"argument": "a", "when": Under("/tmp")}, {"a": "/tmp/x"}, {"a": "/usr/x"}),
    ("at least", {"argument": "a", "when": Between(at_least=1)}, {"a": 1}, {"a": 0.5}),
    ("at most", {"argument": "a", "when": Between(at_most=1)}, {"a": 1.0}, {"a": 2}),
    ("above", {"argument": "a", "when": Between(above=1)}, {"a": 1e3}, {"a": 1}),
    ("below", {"argument": "a", "when": Between(below=1)}, {"a": -1}, {"a": 1}),
    ("not", {"argument": "a", "when": Not(Equals("x"))}, {"a": "y"}, {"a": "x"}),
    ("function", {"argument": "a", "when": lambda a: a > 1}, {"a": 2}, {"a": 1}),
    ("whole", {"when": lambda all_: len(all_) == 3}, {"a": 1}, {}),
    ("inner", {"argument": ("a", "b"), "when": Equals(1)}, {"a": {"b": 1}}, {"a": {"c": 1}}),
    ("index", {"argument": ("a", 1), "when": Equals(1)}, {"a": [0, 1]}, {"a": [1]}),
    (
        "any item",
        {"argument": ("a", ANY_ITEM), "when": Equals(1)},
        {"a": [0, 1, 0]},
        {"a": [0, 2]},
    ),
    (
        "any inner item",
        {"argument": ("a", "*", "b"), "when": Prefix("x")},
        {"a": [{"b": "y"}, {"c": 1}, {"c": 1, "b": "x"}]},
        {"a": [{"b": "y"}, {"c": "x"}]},
    ),
    (
        "any item of items",
        {"argument": ("a", "*", "*"), "when": Equals(1)},
        {"a": [[], [2, 1]]},
        {"a": [[2], []]},
    ),
    (
        "every item",
        {"argument": ("a", EVERY_ITEM, "b"), "when": Prefix("x")},
        {"a": [{"b": "x"}, {"b": "xy"}]},
        {"a": [{"b": "x"}, {"c": "x"}]},
    ),
    (
        "both of one item",
        {"argument": ("a", "*"), "when": AllOf(Prefix("x"), Search("y$"))},
        {"a": ["z", "xy"]},
        {"a": ["xz", "zy"]},
    ),
    (
        "two arguments",
        {"where": {"a": Equals("x"), "b": Not(Equals("x"))}},
        {"a": "x", "b": "y"},
        {"a": "x", "b": "x"},
    ),
    ("a key named *", {"argument": ("a", ExactKey("*")), "when": Equals(1)}, {"a": {"*": 1}}, {}),
    ("a key with a dot", {"argument": ["a.b"], "when": Equals(1)}, {"a.b": 1}, {"a": {"b": 1}}),
    ("null", {"argument": "a", "when": Equals(None)}, {"a": None}, {"a": "x"}),
]
OTHERS: dict[str, Any] = {"p": "zz", "q": [{"b": "x"}, 1]}
CASES = [
    pytest.param(action, rule, matching, others, id=f"{action} {name}")
    for name, rule, matching, others in KINDS
    for action in ("allow", "ask", "deny")
    if action != "allow" or not name.startswith(("any ", "both "))  # see test_rules
]


@pytest.mark.bulk
@pytest.mark.parametrize(("action", "rule", "matching", "others"), CASES)
def test_every_kind_of_rule_in_every_order_and_chunking(
    action: Any, rule: dict[str, Any], matching: dict[str, Any], others: dict[str, Any]
) -> None:
    default: Any = "allow" if action == "deny" else "deny"
    policy = Policy([Rule(action, **rule)], default=default)
    for arguments, expected in ((matching, action), (others, default)):
        filled = {**arguments, **OTHERS}
        decision = policy.decide("tool", filled)
        assert decision.action == expected
        for text in in_every_order(filled):
            whole = read(policy, [text])
            assert whole.decision == decision
            assert read(policy, text) == whole
        for _, chunks in chunkings(json.dumps(filled)):
            assert read(policy, chunks) == read(policy, [json.dumps(filled)])


def decided(policy: Policy, text: str) -> tuple[str, object]:
    outcome = read(policy, text)
    return outcome.decision.action, outcome.after


A_IS_X = Rule("deny", argument="a", when=Equals("x"), name="a is x")
B_IS_X = Rule("allow", argument="b", when=Equals("x"), name="b is x")


def test_a_rule_decides_when_its_argument_settles_and_not_before() -> None:
    policy = Policy([A_IS_X])
    assert decided(policy, '{"a": "x", "b": 1}') == ("deny", ("a",))
    assert decided(policy, '{"a": "xy", "b": 1}') == ("ask", ("a",))
    assert decided(policy, '{"b": 1, "a": "x"}') == ("deny", ("a",))


def test_a_rule_whose_argument_has_not_come_holds_up_those_behind_it() -> None:
    policy = Policy([A_IS_X, B_IS_X])
    assert decided(policy, '{"b": "x", "c": 1, "a": "x"}') == ("deny", ("a",))
    assert decided(policy, '{"b": "x", "c": 1, "a": "y"}') == ("allow", ("a",))


def test_an_argument_that_never_comes_does_not_match() -> None:
    assert decided(Policy([A_IS_X, B_IS_X]), '{"b": "x", "c": 1}') == ("allow", ())
    assert decided(Policy([A_IS_X, B_IS_X]), "{}") == ("ask", ())
    assert decided(Policy([Rule("deny", argument="a", when=Not(Equals("x")))]), "{}") == ("ask", ())


def test_what_is_certain_is_decided_although_rules_wait() -> None:
    deny_b = Rule("deny", argument="b", when=Equals("x"), name="b is x")
    deny_c = Rule("deny", argument="c", when=Equals("x"), name="c is x")
    policy = Policy([A_IS_X, deny_b, deny_c], default="allow")
    text = '{"c": "x", "b": "x", "a": "x"}'
    assert read(policy, text).after == ("c",)
    assert read(policy, text).decision.rule == "c is x"
    with_another = Policy([A_IS_X, B_IS_X, deny_c], default="allow")
    assert decided(with_another, text) == ("deny", ("a",))
    assert decided(with_another, '{"c": "x", "b": "y", "a": "y"}') == ("deny", ("b",))


def test_the_default_is_decided_as_soon_as_no_rule_can_say_otherwise() -> None:
    ask = Rule("ask", argument="a", when=Equals("x"))
    assert decided(Policy([ask]), '{"a": "x"}') == ("ask", "open")
    assert decided(Policy([ask], default="deny"), '{"b": 1, "a": "y", "c": 2}') == ("deny", ("a",))
    assert decided(Policy(), '{"a": "x"}') == ("ask", "open")
    assert decided(Policy([A_IS_X], default="deny"), '{"a": "x"}') == ("deny", "open")


def test_a_rule_that_cannot_match_any_more_holds_nothing_up() -> None:
    both = Rule("deny", where={"a": Equals("x"), "b": Equals("x")})
    policy = Policy([both], default="allow")
    assert decided(policy, '{"c": 1, "b": "y", "a": "x"}') == ("allow", ("b",))
    assert decided(policy, '{"b": "x", "c": 1, "a": "x"}') == ("deny", ("a",))


def test_one_bad_item_is_enough_when_it_settles() -> None:
    policy = Policy(
        [Rule("deny", argument=("edits", "*", "path"), when=Prefix("/etc"))], default="allow"
    )
    bad, good = {"path": "/etc/a", "text": "…"}, {"path": "a", "text": "…"}
    text = json.dumps({"edits": [good, bad, good]})
    assert decided(policy, text) == ("deny", ("edits", 1, "path"))
    # That there is none is known when the array is closed.
    assert decided(policy, json.dumps({"edits": [good], "x": 1})) == ("allow", ("edits",))
    assert decided(policy, json.dumps({"edits": [], "x": 1})) == ("allow", ("edits",))


def test_every_item_is_known_when_the_array_is_closed_and_refuted_by_one() -> None:
    rule = Rule("allow", argument=("a", EVERY_ITEM), when=Prefix("x"))
    policy = Policy([rule], default="deny")
    assert decided(policy, '{"a": ["x", "xy"], "b": 1}') == ("allow", ("a",))
    assert decided(policy, '{"a": ["x", "y", "x"]}') == ("deny", ("a", 1))
    assert decided(policy, '{"a": [], "b": 1}') == ("deny", ("a",))
    assert decided(policy, '{"b": 1}') == ("deny", ())


def test_an_inner_argument_is_known_to_be_missing_when_its_object_is_closed() -> None:
    policy = Policy([Rule("deny", argument=("a", "b"), when=Equals("x"))], default="allow")
    assert decided(policy, '{"a": {"c": 1}, "d": 1}') == ("allow", ("a",))


@pytest.mark.parametrize("value", ["text", 5, True, [["x"]], {"b": ["x"]}])
@pytest.mark.parametrize("steps", [("a", "b"), ("a", "*"), ("a", "*", "b"), ("a", 0, "b")])
def test_where_the_way_to_an_argument_is_another_it_cannot_be_told(value: Any, steps: Any) -> None:
    """A tool may read a JSON text, or take one object for a list of them. A rule would not see."""
    text = json.dumps({"a": value})
    every = tuple(EVERY_ITEM if step == "*" else step for step in steps)
    for action, argument in (("deny", steps), ("ask", steps), ("allow", every)):
        policy = Policy(
            [Rule(action, argument=argument, when=Equals(5))],  # type: ignore[arg-type]
            default="allow" if action != "allow" else "deny",
        )
        expected = "deny" if action == "allow" else action
        assert read(policy, text).decision.action == expected


def test_null_is_as_if_not_given() -> None:
    """Where a schema is strict, a model can leave an argument out only by writing null."""
    for argument in ("a", ("a", "b"), ("a", "*")):
        policy = Policy([Rule("deny", argument=argument, when=Not(Prefix("x")))], default="allow")
        assert decided(policy, '{"a": null, "b": 1}') == ("allow", ("a",))
    policy = Policy([Rule("allow", argument="a", when=Not(Equals("x")))], default="deny")
    assert decided(policy, '{"a": null}') == ("deny", ("a",))
    policy = Policy([Rule("deny", argument="a", when=lambda value: value is None)])
    assert decided(policy, '{"a": null}') == ("deny", ("a",))


def test_what_cannot_be_told_is_decided_cautiously() -> None:
    def unsure(_: Any) -> None:
        return None

    for condition in (Equals(True), Not(Equals(True)), unsure):
        for action, expected in (("deny", "deny"), ("ask", "ask"), ("allow", "deny")):
            policy = Policy(
                [Rule(action, argument="a", when=condition)],  # type: ignore[arg-type]
                default="allow" if action != "allow" else "deny",
            )
            assert decided(policy, '{"a": "true"}') == (expected, ("a",))


def fails(value: Any) -> bool:
    raise LookupError(f"no \x1b[2J {value}")


def test_a_function_that_raises_denies_the_call() -> None:
    policy = Policy([Rule("allow", argument="a", when=fails, name="mine")], default="allow")
    outcome = read(policy, '{"a": 5, "b": 1}')
    assert (outcome.decision.action, outcome.after) == ("deny", ("a",))
    assert outcome.decision.rule == "mine"
    assert outcome.error is not None
    assert "(mine)" in outcome.error.message
    assert "LookupError: no ⟦ESC⟧[2J 5" in outcome.error.message


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("never")


def test_a_function_that_raises_what_cannot_be_shown_denies_the_call_all_the_same() -> None:
    def fails_badly(value: Any) -> bool:
        raise UnspeakableError(value)

    policy = Policy([Rule("allow", argument="a", when=fails_badly)], default="allow")
    outcome = read(policy, '{"a": 5, "b": 1}')
    assert (outcome.decision.action, outcome.after) == ("deny", ("a",))
    assert outcome.error is not None
    assert outcome.error.message.endswith(
        "made it raise UnspeakableError, which cannot be shown (RuntimeError)"
    )


def test_a_function_that_raises_is_heard_in_its_turn() -> None:
    """So the outcome does not depend on the order of the arguments."""
    failing = Rule("ask", argument="a", when=fails)
    for rules, expected in (([B_IS_X, failing], "allow"), ([failing, B_IS_X], "deny")):
        policy = Policy(rules)
        for text in in_every_order({"a": 1, "b": "x"}):
            assert read(policy, text).decision.action == expected


def test_a_function_that_raises_where_the_rule_cannot_match_does_no_harm() -> None:
    policy = Policy([Rule("ask", where={"a": fails, "b": Equals("x")})], default="allow")
    for text in in_every_order({"a": 1, "b": "y"}):
        assert read(policy, text).decision.action == "allow"


def test_a_function_that_raises_denies_beside_what_cannot_be_told() -> None:
    policy = Policy([Rule("allow", where={"a": fails, "b": Prefix("x")})], default="allow")
    for text in in_every_order({"a": 1, "b": 5}):
        assert read(policy, text).decision.action == "deny"


def fails_on_five(value: Any) -> bool:
    return fails(value) if value == 5 else bool(value == 1)


@pytest.mark.parametrize(
    ("action", "item", "values", "expected"),
    [
        ("allow", EVERY_ITEM, [1, 5], "deny"),
        ("allow", EVERY_ITEM, [0, 5], "ask"),  # it plainly does not match
        ("ask", EVERY_ITEM, [1, 5], "deny"),
        ("deny", EVERY_ITEM, [0, 5], "ask"),
        ("ask", ANY_ITEM, [0, 5], "deny"),
        ("ask", ANY_ITEM, [1, 5], "deny"),
        ("deny", ANY_ITEM, [1, 5], "deny"),
    ],
)
def test_a_function_that_raises_does_so_in_any_order_of_items(
    action: Any, item: Any, values: list[int], expected: str
) -> None:
    policy = Policy([Rule(action, argument=("a", item), when=fails_on_five)])
    for order in permutations(values):
        assert read(policy, json.dumps({"a": order})).decision.action == expected


def test_what_keeps_a_rule_from_allowing_is_said_although_a_function_waits() -> None:
    policy = Policy([Rule("allow", where={"a": Prefix("x"), "b": fails})], default="deny")
    outcome = read(policy, '{"a": 5, "b": 1}')
    assert (outcome.decision.action, outcome.after) == ("deny", ("a",))
    assert "since it is a number, not a string" in outcome.decision.reason


def test_a_rule_with_a_function_is_certain_of_nothing_until_it_was_asked() -> None:
    policy = Policy([Rule("ask", argument="a", when=fails)], default="ask")
    assert decided(policy, '{"b": 1, "a": 2}') == ("deny", ("a",))
    assert decided(policy, '{"b": 1, "c": 2}') == ("ask", ())


def test_rules_are_for_the_tools_that_they_name() -> None:
    policy = Policy(
        [
            Rule("deny", tool="delete", name="exact"),
            Rule("deny", tool=["drop_*", "?x"], name="globs"),
            Rule("allow", tool="*_read", name="read"),
            Rule("ask", tool="mcp/*", name="slash"),
        ],
        default="deny",
        defaults={"w*": "ask", "write": "allow", "wr*": "deny"},
    )
    expected = {
        "delete": ("deny", "exact"),
        "Delete": ("deny", None),
        "drop_table": ("deny", "globs"),
        "ax": ("deny", "globs"),
        "file_read": ("allow", "read"),
        "mcp/a/b": ("ask", "slash"),
        "write": ("allow", None),
        "wring": ("ask", None),
        "other": ("deny", None),
    }
    for tool, said in expected.items():
        decision = policy.decide(tool, {})
        assert (decision.action, decision.rule) == said


def test_a_rule_without_a_name_is_called_by_its_position() -> None:
    policy = Policy([A_IS_X, Rule("allow", tool="other"), Rule("allow")])
    assert policy.decide("tool", {}).rule == "rule 3"


def test_the_order_of_the_rules_decides_between_those_that_match() -> None:
    rules = [A_IS_X, B_IS_X, Rule("ask", argument="c", when=Equals("x"), name="c is x")]
    for order in permutations(rules):
        policy = Policy(order, default="deny")
        for values in product("xy", repeat=3):
            arguments = dict(zip("abc", values, strict=True))
            matching = [rule for rule in order if arguments[rule.name[0]] == "x"]
            expected = matching[0].action if matching else "deny"
            assert {read(policy, [text]).decision.action for text in in_every_order(arguments)} == {
                expected
            }
