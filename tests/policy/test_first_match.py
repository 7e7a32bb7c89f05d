"""The first matching rule decides, as soon as nothing that follows can change it."""

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

# The name of a kind of rule, its argument and condition, matching arguments, and others.
KINDS: list[tuple[str, Any, Any, dict[str, Any], dict[str, Any]]] = [
    ("equals", "a", Equals("x"), {"a": "x"}, {"a": "y"}),
    ("one of", "a", Equals(4, 5), {"a": 5}, {"a": 6.0, "b": 4}),
    ("prefix", "a", Prefix("x"), {"a": "xy"}, {"a": "yx"}),
    ("glob", "a", Glob("*.py"), {"a": "b.py"}, {"a": "b/c.py"}),
    ("regex", "a", Regex("x+"), {"a": "xx"}, {"a": "xxy"}),
    ("search", "a", Search("x+"), {"a": "yxy"}, {"a": "y"}),
    ("under", "a", Under("/tmp"), {"a": "/tmp/x"}, {"a": "/usr/x"}),
    ("at least", "a", Between(at_least=1), {"a": 1}, {"a": 0.5}),
    ("at most", "a", Between(at_most=1), {"a": 1.0}, {"a": 2}),
    ("above", "a", Between(above=1), {"a": 1e3}, {"a": 1}),
    ("below", "a", Between(below=1), {"a": -1}, {"a": 1}),
    ("not", "a", Not(Equals("x")), {"a": "y"}, {"a": "x"}),
    ("function", "a", lambda a: a > 1, {"a": 2}, {"a": 1}),
    ("whole", None, lambda all_: len(all_) == 3, {"a": 1}, {}),
    ("inner", ("a", "b"), Equals(1), {"a": {"c": 2, "b": 1}}, {"a": {"c": 1}}),
    ("index", ("a", 1), Equals(1), {"a": [0, 1]}, {"a": [1]}),
    ("any item", ("a", ANY_ITEM), Equals(1), {"a": [0, 1, 0]}, {"a": [0, 2]}),
    ("any inner item", ("a", "*", "b"), Prefix("x"),
     {"a": [{"b": "y"}, {"c": 1}, {"c": 1, "b": "x"}]}, {"a": [{"b": "y"}, {"c": "x"}]}),
    ("any item of items", ("a", "*", "*"), Equals(1), {"a": [[], [2, 1]]}, {"a": [[2], []]}),
    ("every item", ("a", EVERY_ITEM, "b"), Prefix("x"),
     {"a": [{"b": "x"}, {"b": "xy"}]}, {"a": [{"b": "x"}, {"c": "x"}]}),
    ("both of one item", ("a", "*"), AllOf(Prefix("x"), Search("y$")),
     {"a": ["z", "xy"]}, {"a": ["xz", "zy"]}),
    ("two arguments", {"a": Equals("x"), "b": Not(Equals("x"))}, None,
     {"a": "x", "b": "y"}, {"a": "x", "b": "x"}),
    ("key *", ("a", ExactKey("*")), Equals(1), {"a": {"*": 1}}, {}),
    ("key with a dot", ["a.b"], Equals(1), {"a.b": 1}, {"a": {"b": 1}}),
    ("null", "a", Equals(None), {"a": None}, {"a": "x"}),
]  # fmt: skip
OTHERS: dict[str, Any] = {"p": "zz", "q": [{"b": "x"}, 1]}
CASES = [
    pytest.param(action, *kind, id=f"{action} {name}")
    for name, *kind in KINDS
    for action in ("allow", "ask", "deny")
    if action != "allow" or not name.startswith(("any ", "both "))  # see test_rules
]


@pytest.mark.bulk
@pytest.mark.parametrize(("action", "argument", "when", "matching", "others"), CASES)
def test_every_kind_of_rule_in_every_order_and_chunking(
    action: Any, argument: Any, when: Any, matching: dict[str, Any], others: dict[str, Any]
) -> None:
    default: Any = "allow" if action == "deny" else "deny"
    of_two = isinstance(argument, dict)
    options = {"where": argument} if of_two else {"argument": argument, "when": when}
    policy = Policy([Rule(action, **options)], default=default)
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
        # A rule decides when its argument is complete, and not before.
        ([A_IS_X], "ask", '{"a": "x", "b": 1}', "deny", ("a",)),
        ([A_IS_X], "ask", '{"a": "xy", "b": 1}', "ask", ("a",)),
        ([A_IS_X], "ask", '{"b": 1, "a": "x"}', "deny", ("a",)),
        # A rule whose argument is missing so far blocks those after it.
        ([A_IS_X, B_IS_X], "ask", '{"b": "x", "c": 1, "a": "x"}', "deny", ("a",)),
        ([A_IS_X, B_IS_X], "ask", '{"b": "x", "c": 1, "a": "y"}', "allow", ("a",)),
        # A missing argument does not match.
        ([A_IS_X, B_IS_X], "ask", '{"b": "x", "c": 1}', "allow", ()),
        ([A_IS_X, B_IS_X], "ask", "{}", "ask", ()),
        ([Rule("deny", argument="a", when=Not(Equals("x")))], "ask", "{}", "ask", ()),
        # The default is decided as soon as no rule can change it.
        ([ASK_A], "ask", '{"a": "x"}', "ask", "open"),
        ([ASK_A], "deny", '{"b": 1, "a": "y", "c": 2}', "deny", ("a",)),
        ([], "ask", '{"a": "x"}', "ask", "open"),
        ([A_IS_X], "deny", '{"a": "x"}', "deny", "open"),
        # A rule that can no longer match blocks nothing.
        ([BOTH], "allow", '{"c": 1, "b": "y", "a": "x"}', "allow", ("b",)),
        ([BOTH], "allow", '{"b": "x", "c": 1, "a": "x"}', "deny", ("a",)),
        # "Every item" is known when the array is closed, and refuted by one item.
        ([EVERY], "deny", '{"a": ["x", "xy"], "b": 1}', "allow", ("a",)),
        ([EVERY], "deny", '{"a": ["x", "y", "x"]}', "deny", ("a", 1)),
        ([EVERY], "deny", '{"a": [], "b": 1}', "deny", ("a",)),
        ([EVERY], "deny", '{"b": 1}', "deny", ()),
        # An inner argument is missing when its object is closed.
        ([INNER], "allow", '{"a": {"c": 1}, "d": 1}', "allow", ("a",)),
        # A rule with a function is uncertain until the function was called.
        ([FAILING], "ask", '{"b": 1, "a": 2}', "deny", ("a",)),
        ([FAILING], "ask", '{"b": 1, "c": 2}', "ask", ()),
    ],
)
def test_call_is_decided_as_soon_as_nothing_can_change_it(
    rules: list[Rule], default: Any, text: str, action: str, after: object
) -> None:
    assert decided(Policy(rules, default=default), text) == (action, after)


def test_certain_action_is_decided_although_rules_are_open() -> None:
    deny_b = Rule("deny", argument="b", when=Equals("x"), name="b is x")
    deny_c = Rule("deny", argument="c", when=Equals("x"), name="c is x")
    policy = Policy([A_IS_X, deny_b, deny_c], default="allow")
    text = '{"c": "x", "b": "x", "a": "x"}'
    assert read(policy, text).after == ("c",)
    assert read(policy, text).decision.rule == "c is x"
    with_another = Policy([A_IS_X, B_IS_X, deny_c], default="allow")
    assert decided(with_another, text) == ("deny", ("a",))
    assert decided(with_another, '{"c": "x", "b": "y", "a": "y"}') == ("deny", ("b",))


def test_one_denied_item_decides_when_it_is_complete() -> None:
    rule = Rule("deny", argument=("edits", "*", "path"), when=Prefix("/etc"))
    policy = Policy([rule], default="allow")
    bad, good = {"path": "/etc/a", "text": "…"}, {"path": "a", "text": "…"}
    text = json.dumps({"edits": [good, bad, good]})
    assert decided(policy, text) == ("deny", ("edits", 1, "path"))
    for edits in ([good], []):  # known when the array is closed
        assert decided(policy, json.dumps({"edits": edits, "x": 1})) == ("allow", ("edits",))


def expected_if_unclear(action: str) -> tuple[str, Any]:
    """Return the decision if a rule is unclear, and a default that would be less strict."""
    return ("deny", "deny") if action == "allow" else (action, "allow")


@pytest.mark.parametrize("value", ["text", 5, True, [["x"]], {"b": ["x"]}])
@pytest.mark.parametrize("steps", [("a", "b"), ("a", "*"), ("a", "*", "b"), ("a", 0, "b")])
def test_unexpected_container_on_the_path_is_unclear(value: Any, steps: Any) -> None:
    """A tool may parse a JSON text, or accept one object instead of a list."""
    every = tuple(EVERY_ITEM if step == "*" else step for step in steps)
    cases: list[tuple[Any, Any]] = [("deny", steps), ("ask", steps), ("allow", every)]
    for action, argument in cases:
        expected, default = expected_if_unclear(action)
        policy = Policy([Rule(action, argument=argument, when=Equals(5))], default=default)
        assert read(policy, json.dumps({"a": value})).decision.action == expected


def test_null_counts_as_missing() -> None:
    """With a strict schema, a model can omit an argument only by writing null."""
    for argument in ("a", ("a", "b"), ("a", "*")):
        policy = Policy([Rule("deny", argument=argument, when=Not(Prefix("x")))], default="allow")
        assert decided(policy, '{"a": null, "b": 1}') == ("allow", ("a",))
    policy = Policy([Rule("allow", argument="a", when=Not(Equals("x")))], default="deny")
    assert decided(policy, '{"a": null}') == ("deny", ("a",))
    policy = Policy([Rule("deny", argument="a", when=lambda value: value is None)])
    assert decided(policy, '{"a": null}') == ("deny", ("a",))


def test_unclear_condition_is_decided_cautiously() -> None:
    def unsure(_: Any) -> None:
        return None

    actions: list[Any] = ["deny", "ask", "allow"]
    for condition, action in product((Equals(True), Not(Equals(True)), unsure), actions):
        expected, default = expected_if_unclear(action)
        policy = Policy([Rule(action, argument="a", when=condition)], default=default)  # type: ignore[arg-type]
        assert decided(policy, '{"a": "true"}') == (expected, ("a",))


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("never")


def fails_badly(value: Any) -> bool:
    raise UnspeakableError(value)


@pytest.mark.parametrize(
    ("when", "message"),
    [
        (fails, "LookupError: no ⟦ESC⟧[2J 5"),
        (fails_badly, "made it raise UnspeakableError, which cannot be shown (RuntimeError)"),
    ],
)
def test_exception_in_a_function_denies_the_call(when: Any, message: str) -> None:
    policy = Policy([Rule("allow", argument="a", when=when, name="mine")], default="allow")
    outcome = read(policy, '{"a": 5, "b": 1}')
    assert (outcome.decision.action, outcome.after) == ("deny", ("a",))
    assert outcome.decision.rule == "mine"
    assert outcome.error is not None
    assert "(mine)" in outcome.error.message
    assert outcome.error.message.endswith(message)


@pytest.mark.parametrize(
    ("rules", "default", "arguments", "expected"),
    [
        ([B_IS_X, Rule("ask", argument="a", when=fails)], "ask", {"a": 1, "b": "x"}, "allow"),
        ([Rule("ask", argument="a", when=fails), B_IS_X], "ask", {"a": 1, "b": "x"}, "deny"),
        # Ignored if the rule cannot match.
        ([Rule("ask", where={"a": fails, "b": Equals("x")})], "allow", {"a": 1, "b": "y"}, "allow"),
        # Denies beside an unclear condition.
        ([Rule("allow", where={"a": fails, "b": Prefix("x")})], "allow", {"a": 1, "b": 5}, "deny"),
    ],
)
def test_exception_in_a_function_counts_in_the_order_of_the_rules(
    rules: list[Rule], default: Any, arguments: Any, expected: str
) -> None:
    policy = Policy(rules, default=default)
    for text in in_every_order(arguments):
        assert read(policy, text).decision.action == expected


def fails_on_five(value: Any) -> bool:
    return fails(value) if value == 5 else bool(value == 1)


@pytest.mark.parametrize(
    ("action", "item", "values", "expected"),
    [
        ("allow", EVERY_ITEM, [1, 5], "deny"),
        ("allow", EVERY_ITEM, [0, 5], "ask"),  # it does not match
        ("ask", EVERY_ITEM, [1, 5], "deny"),
        ("deny", EVERY_ITEM, [0, 5], "ask"),
        ("ask", ANY_ITEM, [0, 5], "deny"),
        ("ask", ANY_ITEM, [1, 5], "deny"),
        ("deny", ANY_ITEM, [1, 5], "deny"),
    ],
)
def test_exception_in_a_function_counts_in_any_order_of_items(
    action: Any, item: Any, values: list[int], expected: str
) -> None:
    policy = Policy([Rule(action, argument=("a", item), when=fails_on_five)])
    for order in permutations(values):
        assert read(policy, json.dumps({"a": order})).decision.action == expected


def test_reason_against_allowing_is_given_before_a_function_is_called() -> None:
    policy = Policy([Rule("allow", where={"a": Prefix("x"), "b": fails})], default="deny")
    outcome = read(policy, '{"a": 5, "b": 1}')
    assert (outcome.decision.action, outcome.after) == ("deny", ("a",))
    assert "since it is a number, not a string" in outcome.decision.reason


def test_rules_apply_to_the_tools_they_name() -> None:
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
    for tool, decided_by in expected.items():
        decision = policy.decide(tool, {})
        assert (decision.action, decision.rule) == decided_by


def test_first_matching_rule_decides_in_any_order() -> None:
    rules = [A_IS_X, B_IS_X, Rule("ask", argument="c", when=Equals("x"), name="c is x")]
    for order in permutations(rules):
        policy = Policy(order, default="deny")
        for values in product("xy", repeat=3):
            arguments = dict(zip("abc", values, strict=True))
            matching = [rule for rule in order if arguments[rule.name[0]] == "x"]
            expected = matching[0].action if matching else "deny"
            for text in in_every_order(arguments):
                assert read(policy, [text]).decision.action == expected
