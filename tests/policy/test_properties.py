"""Random rules and arguments: decided as by the oracle, in any order, as early as possible."""

import json
from collections.abc import Iterator, Sequence
from itertools import product
from random import Random
from typing import Any, Final, Literal, TypeAlias

from hypothesis import example, given, settings
from hypothesis import strategies as st

from argstream.jsonstream import Done, Parser
from argstream.policy import (
    ANY_ITEM,
    EVERY_ITEM,
    Action,
    AllOf,
    Between,
    Condition,
    Equals,
    Glob,
    Not,
    Policy,
    Prefix,
    Regex,
    Rule,
    Search,
    Undecided,
)
from argstream.testing import cut
from tests.policy.reading import decision_of, read
from tests.strategies import cuts, json_values

fewer = settings(max_examples=settings().max_examples // 3)

# The oracle: the first match on complete arguments. It shares the conditions with the policy (they
# have tests of their own) and nothing else: no tree, no states, no fragments.

_Truth: TypeAlias = Literal["yes", "no", "unclear", "raised"]
# Whatever the order of the items: the first of these that occurs outweighs the rest.
_OF_EVERY_ITEM: Final[tuple[_Truth, ...]] = ("no", "raised", "unclear", "yes")
_NO: Final[tuple[_Truth, ...]] = ("no",)
_OF_ANY_ITEM: Final[tuple[_Truth, ...]] = ("raised", "yes", "unclear", "no")


def first_match(rules: Sequence[Rule], default: Action, arguments: Any) -> Action:
    for rule in rules:
        truths = [_condition(pattern, test, arguments) for pattern, test in rule.conditions]
        if "no" in truths:
            continue
        if "raised" in truths:
            return "deny"
        if "unclear" not in truths or rule.action != "allow":
            return rule.action
    return default


def _condition(pattern: Any, test: Condition, arguments: Any) -> _Truth:
    truths = list(_truths(pattern, test, arguments))
    weights = _OF_EVERY_ITEM if EVERY_ITEM in pattern else _OF_ANY_ITEM
    return next((truth for truth in weights if truth in truths), "no")


def _truths(pattern: Any, test: Condition, value: Any) -> Iterator[_Truth]:
    """Yield the answer for each value that the pattern leads to."""
    if not pattern:
        yield _tested(test, value)
        return
    step, *rest = pattern
    if value is None:
        yield "no"
    elif isinstance(value, list) and step in (ANY_ITEM, EVERY_ITEM):
        for item in value:
            yield from _truths(rest, test, item)
    elif isinstance(value, dict) and isinstance(step, str):
        yield from _truths(rest, test, value[step]) if step in value else _NO
    elif isinstance(value, list) and isinstance(step, int):
        yield from _truths(rest, test, value[step]) if step < len(value) else _NO
    else:
        yield "unclear"


def _tested(test: Condition, value: Any) -> _Truth:
    if value is None and not test.takes_null:
        return "no"
    try:
        answer = test.test(value)
    except ArithmeticError:
        return "raised"
    if isinstance(answer, Undecided):
        return "unclear"
    return "yes" if answer else "no"


def touchy(value: Any) -> bool | None:
    """A user's function that answers yes, no, nothing, or raises."""
    if value == "q":
        raise ZeroDivisionError
    return None if value == 1 else value in ("p", {}, [])


actions: st.SearchStrategy[Action] = st.sampled_from(["allow", "ask", "deny"])
conditions = st.sampled_from(
    [
        *(Equals("p"), Equals(1, "q"), Equals(None), Not(Equals("p")), Prefix("p")),
        *(Between(at_least=1), Between(below=1), Glob("p*"), Regex("p+"), Search("q$")),
        *(AllOf(Prefix("p"), Search("q$")), touchy, Not(touchy)),
    ]
)
_item = st.sampled_from([ANY_ITEM, EVERY_ITEM])
patterns = st.one_of(
    st.sampled_from([("a",), ("b",), ("c",), ("a", "b"), ("a", 0), ("b", 1, "a"), ()]),
    st.builds(lambda item: ("a", item), _item),
    st.builds(lambda item: ("b", item, "a"), _item),
    st.builds(lambda item: ("a", item, item), _item),
    st.builds(lambda item: ("a", item, "b", item), _item),
)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    action = draw(actions)
    where: dict[Any, Any] = {}
    for pattern, condition in draw(st.lists(st.tuples(patterns, conditions), max_size=3)):
        steps = tuple(EVERY_ITEM if step is ANY_ITEM else step for step in pattern)
        where[steps if action == "allow" else pattern] = condition
    return Rule(action, where=where)


leaves = st.sampled_from(["p", "q", "pq", 1, 0, True, None])
values = json_values(leaves, keys=st.sampled_from("abc"), max_leaves=6)
arguments = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


TOUCHY_ITEMS = Rule("allow", where={("a", EVERY_ITEM, EVERY_ITEM): touchy})
TOUCHY_BESIDE = Rule("allow", where={"a": touchy, "b": Prefix("p")})
TOUCHY = Rule("ask", argument="a", when=touchy)
TOUCHY_ANY = Rule("ask", argument=("a", ANY_ITEM), when=touchy)
TOUCHY_AND_P = Rule("ask", where={"a": touchy, "b": Equals("p")})
B_IS_P = Rule("allow", argument="b", when=Equals("p"))


@example([TOUCHY_ITEMS], "allow", {"a": ["p", ["q"]]}, 0, [1])
@example([TOUCHY_ITEMS], "allow", {"a": [["q"], "p"]}, 0, [1])
@example([TOUCHY_BESIDE], "allow", {"a": "q", "b": 1}, 0, [1])
@example([TOUCHY_BESIDE], "allow", {"b": 1, "a": "q"}, 0, [1])
@example([TOUCHY_ANY], "ask", {"a": ["p", "q"]}, 0, [1])
@example([TOUCHY_AND_P], "allow", {"a": "q", "b": 1}, 0, [1])
@example([TOUCHY, B_IS_P], "ask", {"a": "q", "b": "p"}, 0, [1])
@example([B_IS_P, TOUCHY], "ask", {"a": "q", "b": "p"}, 0, [1])
@given(st.lists(rules(), max_size=4), actions, arguments, st.integers(), cuts)
def test_call_is_decided_as_by_the_oracle_in_any_order_and_chunking(
    some_rules: list[Rule], default: Action, given: dict[str, Any], seed: int, sizes: Any
) -> None:
    policy = Policy(some_rules, default=default)
    expected = first_match(some_rules, default, given)
    assert policy.decide("tool", given).action == expected
    keys = list(given)
    Random(seed).shuffle(keys)
    text = json.dumps({key: given[key] for key in keys})
    outcome = read(policy, [text])
    assert outcome.decision.action == expected
    assert read(policy, cut(text, sizes)) == outcome
    match some_rules:
        case [Rule(action=action, conditions=[_])] if action != default:  # there is one reason
            assert outcome.decision == policy.decide("tool", given)


@given(st.lists(rules(), max_size=4), actions, arguments, arguments)
def test_reinterpreted_arguments_are_checked_again(
    some_rules: list[Rule], default: Action, first: dict[str, Any], second: dict[str, Any]
) -> None:
    policy = Policy(some_rules, default=default)
    check = policy.open("tool")
    assert check is not None
    check.feed(Parser(unique_keys=True).feed(json.dumps(first)))
    error = check.finish(second, as_read=False)
    decision = decision_of(check)
    assert decision is not None
    assert decision == policy.decide("tool", second)
    assert (decision.action == "deny") is (error is not None)


# To prove that a decision came as early as possible, all continuations are tried. Each rule has its
# own arguments: otherwise one rule may shadow another, which the policy does not detect.

VALUES = ("p", "z")  # each condition holds for the first and not for the second
ITEMS: tuple[list[str], ...] = ([], ["p"], ["z"], ["z", "p"])
single = st.sampled_from([Equals("p"), Prefix("p"), Not(Equals("z"))])


@st.composite
def separate_rules(draw: st.DrawFn) -> list[Rule]:
    some = []
    keys = iter(draw(st.permutations("abcdef")))
    for _ in range(draw(st.integers(1, 3))):
        action = draw(actions)
        where: dict[tuple[Any, ...], Any] = {}
        for _ in range(draw(st.integers(0, 2))):
            of_items = (EVERY_ITEM,) if action == "allow" else (draw(_item),)
            where[(next(keys), *draw(st.sampled_from([(), of_items])))] = draw(single)
        some.append(Rule(action, where=where))
    return some


@given(separate_rules(), actions, st.data())
@fewer
def test_decision_comes_as_soon_as_it_is_certain(
    some_rules: list[Rule], default: Action, data: st.DataObject
) -> None:
    kinds: dict[str, Any] = {
        str(pattern[0]): ITEMS if len(pattern) > 1 else VALUES
        for rule in some_rules
        for pattern, _ in rule.conditions
    }
    chosen = {key: data.draw(st.sampled_from((None, *kinds[key]))) for key in sorted(kinds)}
    order = data.draw(st.permutations(sorted(kinds)))
    text = json.dumps({key: chosen[key] for key in order if chosen[key] is not None})

    policy = Policy(some_rules, default=default)
    check = policy.open("tool")
    known: dict[str, Any] = {}
    items: list[Any] = []

    def is_certain(open_key: str | None) -> bool:
        possible = {
            first_match(some_rules, default, {**known, **more})
            for more in completions(kinds, known, open_key, items)
        }
        return len(possible) == 1

    assert check is not None
    if decision_of(check) is not None:
        assert is_certain(None)
        return
    assert not is_certain(None)
    for fragment in Parser(unique_keys=True).feed(text):
        check.feed([fragment])
        if not isinstance(fragment, Done) or not fragment.path:
            continue
        key = str(fragment.path[0])
        if len(fragment.path) > 1:
            items.append(fragment.value)
            certain = is_certain(key)
        else:
            known[key] = fragment.value
            items.clear()
            certain = is_certain(None)
        assert certain is (decision_of(check) is not None)
        if certain:
            return


def completions(
    kinds: dict[str, Any], known: dict[str, Any], open_key: str | None, items: list[Any]
) -> Iterator[dict[str, Any]]:
    """Yield all continuations that the rules can distinguish."""
    keys = [key for key in kinds if key not in known]
    choices = [
        [[*items, *more] for more in ITEMS] if key == open_key else [None, *kinds[key]]
        for key in keys
    ]
    for choice in product(*choices):
        yield {key: value for key, value in zip(keys, choice, strict=True) if value is not None}
