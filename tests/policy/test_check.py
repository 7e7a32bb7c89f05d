"""How a policy judges one call: what it is given, what it says, and in which words."""

import json
from typing import Any

import pytest

from argstream.checks import Refusal
from argstream.events import ArgumentsError, PolicyDecision
from argstream.jsonstream import Done, Parser, parse
from argstream.policy import (
    EVERY_ITEM,
    Action,
    Between,
    Equals,
    Glob,
    Not,
    Policy,
    PolicyCheck,
    Prefix,
    Rule,
    Under,
)
from tests.growth import BOUND, growth
from tests.policy.reading import decision_of, read

NO_SECRETS = Rule(
    "deny", tool="write", argument="path", when=Glob("**/.env"), name="secrets", reason="Ask first."
)


def opened(policy: Policy, tool: str = "write", kind: Any = "function") -> PolicyCheck:
    check = policy.open(tool, kind)
    assert isinstance(check, PolicyCheck)
    return check


def error_of(check: PolicyCheck) -> ArgumentsError:
    assert check.error is not None
    return check.error


def test_a_denied_call_is_refused_with_all_that_is_needed_to_act_on_it() -> None:
    check = opened(Policy([NO_SECRETS]))
    fragments = Parser(unique_keys=True).feed('{"n": 1, "path": "src/.env", "content": "…')
    expected = ArgumentsError(
        "denied",
        "a call of write is denied by the policy (secrets): "
        'Ask first. (the argument path, "src/.env", matches the glob "**/.env")',
        27,
        ("path",),
    )
    assert check.feed(fragments) == Refusal(expected, 8)
    assert isinstance(fragments[7], Done)
    assert check.error == expected
    assert check.policy_decision == PolicyDecision(
        "deny",
        'Ask first. (the argument path, "src/.env", matches the glob "**/.env")',
        "secrets",
        ("path",),
    )


def test_a_call_that_is_not_denied_is_not_refused() -> None:
    actions: tuple[Action, ...] = ("allow", "ask")
    for action in actions:
        policy = Policy([Rule(action, argument="a", when=Equals("x"))], default="deny")
        check = opened(policy)
        assert check.feed(Parser().feed('{"a": "x"')) is None
        assert decision_of(check) == PolicyDecision(
            action, 'the argument a, "x", is "x"', "rule 1", ("a",)
        )
        assert check.finish({"a": "x"}, as_read=True) is None


def test_after_the_decision_nothing_changes_it() -> None:
    check = opened(Policy([Rule("allow", argument="a", when=Equals("x")), Rule("deny")]))
    check.feed(Parser().feed('{"a": "x", '))
    assert check.feed([Done(("a",), "y", 9), Done((), {}, 10)]) is None
    assert check.policy_decision is not None
    assert check.policy_decision.action == "allow"


def test_a_tool_that_is_denied_by_its_name_is_refused_at_once() -> None:
    policy = Policy([Rule("deny", tool="rm", reason="No.")], defaults={"dd": "deny"})
    refused = opened(policy, "rm")
    assert refused.error == ArgumentsError(
        "denied", "a call of rm is denied by the policy (rule 1): No."
    )
    assert refused.policy_decision == PolicyDecision("deny", "No.", "rule 1")
    assert opened(policy, "dd").error == ArgumentsError(
        "denied",
        "a call of dd is denied by the policy: "
        "no rule says otherwise than the default, which is deny",
    )
    let_be = opened(policy, "ls")
    assert let_be.error is None
    assert let_be.policy_decision == PolicyDecision(
        "ask", "no rule says otherwise than the default, which is ask"
    )


def test_whoever_feeds_a_call_that_was_refused_at_once_is_told_once_more() -> None:
    check = opened(Policy([Rule("deny", tool="rm")]), "rm")
    assert check.feed([]) is None
    assert check.feed(Parser().feed('{"a": 1')) == Refusal(error_of(check), 1)
    assert check.feed([Done(("a",), 1, 7)]) is None
    assert check.finish({"a": 1}, as_read=True) == check.error


def test_a_name_of_which_more_may_come_is_not_denied_for_its_beginning() -> None:
    """``read`` is no tool here; ``read_file`` is, and it comes in two pieces."""
    policy = Policy([Rule("deny", tool="read"), NO_SECRETS], default="allow")
    assert policy.open("read", may_grow=True) is None  # ask again
    assert opened(policy, "read").error is not None
    assert opened(policy, "read_file").error is None
    policy = Policy([NO_SECRETS], default="ask")
    for name, decided in (("write", False), ("read", True)):
        check = policy.open(name, may_grow=True)
        assert check is not None
        assert (check.policy_decision is not None) is decided


def test_a_rule_about_the_tool_alone_decides_at_once_if_it_is_its_turn() -> None:
    allow = Rule("allow", tool="write")
    assert opened(Policy([allow, NO_SECRETS])).policy_decision == PolicyDecision(
        "allow", "the rule is about every call of this tool", "rule 1"
    )
    assert opened(Policy([NO_SECRETS, allow])).policy_decision is None


@pytest.mark.parametrize("kind", ["server", "mcp", "code"])
def test_a_call_that_the_provider_runs_is_let_be(kind: Any) -> None:
    assert Policy([Rule("deny")], default="deny").open("search", kind) is None
    patch = opened(Policy([NO_SECRETS]), kind="patch")
    assert patch.feed(Parser().feed('{"path": ".env"')) is not None


def test_free_text_is_judged_as_a_whole_when_it_is_complete() -> None:
    policy = Policy([Rule("deny", argument=(), when=Prefix("DROP"))], default="allow")
    check = opened(policy, "sql", "custom")
    assert check.policy_decision is None
    assert check.finish("SELECT 1", as_read=True) is None
    assert decision_of(check) == policy.decide("sql", "SELECT 1")
    check = opened(policy, "sql", "custom")
    error = check.finish("DROP TABLE a", as_read=True)
    assert error == ArgumentsError(
        "denied",
        'a call of sql is denied by the policy (rule 1): the text of the call begins with "DROP"',
    )


def test_a_rule_about_an_argument_cannot_be_told_of_free_text() -> None:
    """The path may be somewhere in the text: the rule must not be off because of its form."""
    error = error_of(opened(Policy([NO_SECRETS]), "write", "custom"))
    assert "since it is free text, not an object" in error.message
    allowing = Policy([Rule("allow", tool="write", argument="path", when=Prefix("a"))])
    assert opened(allowing, kind="custom").policy_decision is not None
    assert allowing.decide("write", "a").action == "ask"


def test_a_rule_for_all_tools_passes_over_free_text_that_has_no_arguments() -> None:
    for tool in (None, "*", ["a", "*"]):
        rule = Rule("deny", tool=tool, argument="path", when=Prefix("a"))
        assert Policy([rule], default="allow").decide("sql", "a").action == "allow"
        assert opened(Policy([rule]), kind="custom").policy_decision is not None
        assert Policy([rule]).decide("sql", {"path": "a"}).action == "deny"


def test_finish_judges_arguments_that_were_never_fed_or_not_what_was_read() -> None:
    policy = Policy([NO_SECRETS], default="allow")
    check = opened(policy)
    assert check.feed([]) is None
    assert check.finish({}, as_read=True) is None
    assert decision_of(check) == PolicyDecision(
        "allow", "no rule says otherwise than the default, which is allow"
    )
    error = opened(policy).finish({"path": ".env"}, as_read=True)
    assert error is not None
    assert (error.offset, error.path) == (None, ("path",))
    check = opened(policy)
    check.feed(Parser().feed('{"path": "a"}'))
    assert check.policy_decision is not None
    assert check.finish({"path": ".env"}, as_read=False) == check.error == error


def test_text_and_what_the_parser_refuses_decide_nothing() -> None:
    check = opened(Policy([NO_SECRETS]))
    for fragment in parse('{"path": ".env'):
        assert not isinstance(fragment, Done)
        assert check.feed([fragment]) is None
    assert check.policy_decision is None


def test_a_rule_of_several_arguments_names_them_all_and_points_at_its_first() -> None:
    policy = Policy([Rule("deny", where={"b": Equals(True), "a": Between(above=3)})])
    reason = "the argument b, true, is true and the argument a, 4, is above 3"
    for text in ('{"a": 4, "b": true}', '{"b": true, "a": 4}'):
        assert read(policy, text).decision.reason == reason
        assert refused(policy, text) == (("b",), text.index("true") + 4)


def refused(policy: Policy, text: str, tool: str = "tool") -> tuple[Any, int | None]:
    """Say where a call is refused."""
    error = read(policy, text, tool).error
    assert error is not None
    return error.path, error.offset


ONLY_IN_SRV = Rule("allow", tool="write", argument="path", when=Under("/srv"), name="in srv")
NOWHERE_ELSE = Rule("deny", tool="write", name="nowhere else", reason="Only below /srv.")
NOT_IN_SRV = 'the argument path, "/etc/x", is not under "/srv"'


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (Policy([ONLY_IN_SRV, NOWHERE_ELSE]), f"Only below /srv. ({NOT_IN_SRV})"),
        (Policy([ONLY_IN_SRV, Rule("deny")]), NOT_IN_SRV),
        (
            Policy([ONLY_IN_SRV], default="deny"),
            f"no rule says otherwise than the default, which is deny ({NOT_IN_SRV})",
        ),
        (
            Policy([ONLY_IN_SRV, Rule("ask", argument="path", when=Prefix("/tmp/")), NOWHERE_ELSE]),
            (
                f"Only below /srv. ({NOT_IN_SRV} and "
                'the argument path, "/etc/x", does not begin with "/tmp/")'
            ),
        ),
    ],
)
def test_what_is_denied_since_no_rule_allows_it_has_its_place(policy: Policy, reason: str) -> None:
    text = '{"path":"/etc/x","c":1}'
    outcome = read(policy, text, tool="write")
    assert outcome.after == ("path",)
    assert (outcome.decision.reason, outcome.decision.path) == (reason, ("path",))
    assert refused(policy, text, "write") == (("path",), 16)
    assert policy.decide("write", {"path": "/etc/x", "c": 1}).reason == reason


def test_the_place_is_that_of_the_argument_that_settled_it() -> None:
    def fails(value: Any) -> bool:
        raise LookupError(value)

    rules = [Rule("allow", argument=key, when=Equals("x")) for key in "ab"]
    policy = Policy(rules, default="deny")
    assert refused(policy, '{"a": 1, "b": 2}') == (("b",), 15)
    assert refused(policy, '{"b": 2, "a": 1}') == (("a",), 15)
    waiting = Rule("ask", where={"a": fails, "b": Equals("x")})
    assert refused(Policy([waiting], default="deny"), '{"a": 1, "c": 2}') == (("a",), 7)


@pytest.mark.parametrize(
    ("argument", "text", "reason"),
    [
        ("a", "{}", "the argument a did not come"),
        (("a", "b"), '{"a": {"c": 1}}', 'the argument ["a", "b"] did not come'),
        ("a", '{"a": null}', "the argument a is null, as if it had not come"),
        (
            "a",
            '{"a": 5}',
            (
                'of the argument a, 5, it cannot be told whether it begins with "x", '
                "since it is a number, not a string"
            ),
        ),
        (("a", EVERY_ITEM), '{"a": []}', "the argument a, an array of 0, has no item like that"),
        (
            ("a", EVERY_ITEM),
            '{"a": ["x", "y"]}',
            'the argument ["a", 1], "y", does not begin with "x"',
        ),
        (None, '{"a": 1}', "all that the call says is not what <lambda> looks for"),
    ],
)
def test_why_a_rule_does_not_match_is_said(argument: Any, text: str, reason: str) -> None:
    when = Prefix("x") if argument else lambda arguments: len(arguments) > 1
    policy = Policy([Rule("allow", argument=argument, when=when), Rule("deny")])
    assert read(policy, text).decision.reason == reason
    assert refused(policy, text)[1] is not None


def test_one_that_is_asked_about_says_what_would_have_allowed_it() -> None:
    policy = Policy([NO_SECRETS, ONLY_IN_SRV])
    assert policy.decide("write", {"path": "/etc/x"}) == PolicyDecision(
        "ask",
        f"no rule says otherwise than the default, which is ask ({NOT_IN_SRV})",
        None,
        ("path",),
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\u202e\x1bb", '"a⟦RLO⟧\\u001bb"'),
        ("x" * 200, '"' + "x" * 80 + '"…'),
        ("\x9b" * 200, '"' + "⟦CSI⟧" * 80 + '"…'),
        pytest.param(10**5000, "a number of 16610 bits", id="a number without end"),
        ([1] * 1000, "an array of 1000"),
        ({"secret": "value"}, "an object of 1"),
        (None, "null"),
        (1.5, "1.5"),
    ],
)
def test_what_the_model_wrote_is_shown_short_and_visible(value: Any, shown: str) -> None:
    decision = Policy([Rule("deny", argument="a", when=lambda _: True)]).decide("t", {"a": value})
    assert decision.reason == f"the argument a, {shown}, is what <lambda> looks for"


def test_names_are_shown_short_and_visible_too() -> None:
    name = "\x1b[2J" + "x" * 500
    policy = Policy([Rule("deny", argument=[name], when=Equals(1), name="\u202e")], default="allow")
    outcome = read(policy, json.dumps({name: 1}), tool=name)
    assert outcome.error is not None
    assert outcome.error.message.isprintable()
    assert len(outcome.error.message) < 400
    deep = ("a", *["\n" * 300] * 100)
    decision = Policy([Rule("deny", argument=deep, when=Equals(1))]).decide("t", {"a": 1})
    assert len(decision.reason) < 400


def test_what_cannot_be_told_says_why() -> None:
    policy = Policy([Rule("deny", argument="path", when=Not(Under("/srv")))])
    assert policy.decide("t", {"path": "~/a"}).reason == (
        'of the argument path, "~/a", it cannot be told whether it is not under "/srv", '
        "since it begins with '~', which many tools replace by a home directory"
    )


@pytest.mark.timing
def test_the_price_of_an_item_does_not_grow_with_the_items_before_it() -> None:
    rule = Rule("deny", argument=("edits", "*", "path"), when=Prefix("/etc"))
    policy = Policy([rule, Rule("ask", argument="last", when=Equals(1))], default="allow")

    def job(size: int) -> Any:
        text = json.dumps({"edits": [{"path": "a", "text": "b"}] * size})
        fragments = list(parse(text))

        def run() -> None:
            check = opened(policy)
            for fragment in fragments:
                check.feed([fragment])

        return run

    assert growth(job, 5_000) <= BOUND
