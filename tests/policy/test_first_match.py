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


def fails(value: Any) -> bool:
    raise LookupError(f"no \x1b[2J {value}")


ASK_A = Rule("ask", argument="a", when=Equals("x"))
BOTH = Rule("deny", where={"a": Equals("x"), "b": Equals("x")})
EVERY = Rule("allow", argument=("a", EVERY_ITEM), when=Prefix("x"))
INNER = Rule("deny", argument=("a", "b"), when=Equals("x"))
FAILING = Rule("ask", argument="a", when=fails)


@pytest.mark.parametrize(
    ("rules", "default", "text", "action", "after"),
    [
        # A rule decides when its argument settles, and not before.
        ([A_IS_X], "ask", '{"a": "x", "b": 1}', "deny", ("a",)),
        ([A_IS_X], "ask", '{"a": "xy", "b": 1}', "ask", ("a",)),
        ([A_IS_X], "ask", '{"b": 1, "a": "x"}', "deny", ("a",)),
        # One whose argument has not come holds up those behind it.
        ([A_IS_X, B_IS_X], "ask", '{"b": "x", "c": 1, "a": "x"}', "deny", ("a",)),
        ([A_IS_X, B_IS_X], "ask", '{"b": "x", "c": 1, "a": "y"}', "allow", ("a",)),
        # An argument that never comes does not match.
        ([A_IS_X, B_IS_X], "ask", '{"b": "x", "c": 1}', "allow", ()),
        ([A_IS_X, B_IS_X], "ask", "{}", "ask", ()),
        ([Rule("deny", argument="a", when=Not(Equals("x")))], "ask", "{}", "ask", ()),
        # The default is decided as soon as no rule can say otherwise.
        ([ASK_A], "ask", '{"a": "x"}', "ask", "open"),
        ([ASK_A], "deny", '{"b": 1, "a": "y", "c": 2}', "deny", ("a",)),
        ([], "ask", '{"a": "x"}', "ask", "open"),
        ([A_IS_X], "deny", '{"a": "x"}', "deny", "open"),
        # A rule that cannot match any more holds nothing up.
        ([BOTH], "allow", '{"c": 1, "b": "y", "a": "x"}', "allow", ("b",)),
        ([BOTH], "allow", '{"b": "x", "c": 1, "a": "x"}', "deny", ("a",)),
        # Every item is known when the array is closed, and refuted by one.
        ([EVERY], "deny", '{"a": ["x", "xy"], "b": 1}', "allow", ("a",)),
        ([EVERY], "deny", '{"a": ["x", "y", "x"]}', "deny", ("a", 1)),
        ([EVERY], "deny", '{"a": [], "b": 1}', "deny", ("a",)),
        ([EVERY], "deny", '{"b": 1}', "deny", ()),
        # An inner argument is known to be missing when its object is closed.
        ([INNER], "allow", '{"a": {"c": 1}, "d": 1}', "allow", ("a",)),
        # A rule with a function is certain of nothing until that was asked.
        ([FAILING], "ask", '{"b": 1, "a": 2}', "deny", ("a",)),
        ([FAILING], "ask", '{"b": 1, "c": 2}', "ask", ()),
    ],
)
def test_a_call_is_decided_as_soon_as_nothing_can_change_it(
    rules: list[Rule], default: Any, text: str, action: str, after: object
) -> None:
    assert decided(Policy(rules, default=default), text) == (action, after)


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


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("never")


def fails_badly(value: Any) -> bool:
    raise UnspeakableError(value)


@pytest.mark.parametrize(
    ("when", "told"),
    [
        (fails, "LookupError: no ⟦ESC⟧[2J 5"),
        (fails_badly, "made it raise UnspeakableError, which cannot be shown (RuntimeError)"),
    ],
)
def test_a_function_that_raises_denies_the_call(when: Any, told: str) -> None:
    policy = Policy([Rule("allow", argument="a", when=when, name="mine")], default="allow")
    outcome = read(policy, '{"a": 5, "b": 1}')
    assert (outcome.decision.action, outcome.after) == ("deny", ("a",))
    assert outcome.decision.rule == "mine"
    assert outcome.error is not None
    assert "(mine)" in outcome.error.message
    assert outcome.error.message.endswith(told)


@pytest.mark.parametrize(
    ("rules", "default", "arguments", "expected"),
    [
        ([B_IS_X, Rule("ask", argument="a", when=fails)], "ask", {"a": 1, "b": "x"}, "allow"),
        ([Rule("ask", argument="a", when=fails), B_IS_X], "ask", {"a": 1, "b": "x"}, "deny"),
        # Where the rule cannot match, it does no harm.
        ([Rule("ask", where={"a": fails, "b": Equals("x")})], "allow", {"a": 1, "b": "y"}, "allow"),
        # Beside what cannot be told, it denies.
        ([Rule("allow", where={"a": fails, "b": Prefix("x")})], "allow", {"a": 1, "b": 5}, "deny"),
    ],
)
def test_a_function_that_raises_is_heard_in_its_turn(
    rules: list[Rule], default: Any, arguments: Any, expected: str
) -> None:
    """So the outcome does not depend on the order of the arguments."""
    policy = Policy(rules, default=default)
    for text in in_every_order(arguments):
        assert read(policy, text).decision.action == expected


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
