"""The check of one call by a policy: its decision, when it comes, and the reason given."""

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


DEFAULT = "no rule says otherwise than the default, which is {}"


def test_denied_call_is_refused_with_reason_and_place() -> None:
    check = opened(Policy([NO_SECRETS]))
    fragments = Parser(unique_keys=True).feed('{"n": 1, "path": "src/.env", "content": "…')
    reason = 'Ask first. (the argument path, "src/.env", matches the glob "**/.env")'
    message = f"a call of write is denied by the policy (secrets): {reason}"
    expected = ArgumentsError("denied", message, 27, ("path",))
    assert check.feed(fragments) == Refusal(expected, 8)
    assert isinstance(fragments[7], Done)
    assert check.error == expected
    assert check.policy_decision == PolicyDecision("deny", reason, "secrets", ("path",))


def test_call_that_is_not_denied_is_not_refused() -> None:
    actions: tuple[Action, ...] = ("allow", "ask")
    for action in actions:
        policy = Policy([Rule(action, argument="a", when=Equals("x"))], default="deny")
        check = opened(policy)
        assert check.feed(Parser().feed('{"a": "x"')) is None
        reason = 'the argument a, "x", is "x"'
        assert decision_of(check) == PolicyDecision(action, reason, "rule 1", ("a",))
        assert check.finish({"a": "x"}, as_read=True) is None


def test_decision_is_final() -> None:
    check = opened(Policy([Rule("allow", argument="a", when=Equals("x")), Rule("deny")]))
    check.feed(Parser().feed('{"a": "x", '))
    assert check.feed([Done(("a",), "y", 9), Done((), {}, 10)]) is None
    assert check.policy_decision is not None
    assert check.policy_decision.action == "allow"


def test_tool_denied_by_name_is_refused_at_once() -> None:
    policy = Policy([Rule("deny", tool="rm", reason="No.")], defaults={"dd": "deny"})
    check = opened(policy, "rm")
    error = ArgumentsError("denied", "a call of rm is denied by the policy (rule 1): No.")
    assert check.error == error
    assert check.policy_decision == PolicyDecision("deny", "No.", "rule 1")
    assert check.feed([]) is None
    assert check.feed(Parser().feed('{"a": 1')) == Refusal(error, 1)  # once more, at first
    assert check.feed([Done(("a",), 1, 7)]) is None
    assert check.finish({"a": 1}, as_read=True) == error
    by_default = f"a call of dd is denied by the policy: {DEFAULT.format('deny')}"
    assert opened(policy, "dd").error == ArgumentsError("denied", by_default)
    other = opened(policy, "ls")
    assert other.error is None
    assert other.policy_decision == PolicyDecision("ask", DEFAULT.format("ask"))


def test_incomplete_tool_name_is_not_denied() -> None:
    """``read`` is no tool here; ``read_file`` is, and its name comes in two pieces."""
    policy = Policy([Rule("deny", tool="read"), NO_SECRETS], default="allow")
    assert policy.open("read", may_grow=True) is None  # ask again
    assert opened(policy, "read").error is not None
    assert opened(policy, "read_file").error is None
    policy = Policy([NO_SECRETS], default="ask")
    for name, decided in (("write", False), ("read", True)):
        check = policy.open(name, may_grow=True)
        assert check is not None
        assert (check.policy_decision is not None) is decided


def test_rule_without_conditions_decides_at_once_if_it_is_first() -> None:
    allow = Rule("allow", tool="write")
    reason = "the rule is about every call of this tool"
    decision = opened(Policy([allow, NO_SECRETS])).policy_decision
    assert decision == PolicyDecision("allow", reason, "rule 1")
    assert opened(Policy([NO_SECRETS, allow])).policy_decision is None


@pytest.mark.parametrize("kind", ["server", "mcp", "code"])
def test_call_that_the_provider_runs_is_not_checked(kind: Any) -> None:
    assert Policy([Rule("deny")], default="deny").open("search", kind) is None
    patch = opened(Policy([NO_SECRETS]), kind="patch")
    assert patch.feed(Parser().feed('{"path": ".env"')) is not None


def test_free_text_is_checked_when_it_is_complete() -> None:
    policy = Policy([Rule("deny", argument=(), when=Prefix("DROP"))], default="allow")
    check = opened(policy, "sql", "custom")
    assert check.policy_decision is None
    assert check.finish("SELECT 1", as_read=True) is None
    assert decision_of(check) == policy.decide("sql", "SELECT 1")
    check = opened(policy, "sql", "custom")
    message = (
        'a call of sql is denied by the policy (rule 1): the text of the call begins with "DROP"'
    )
    assert check.finish("DROP TABLE a", as_read=True) == ArgumentsError("denied", message)


def test_rule_about_an_argument_is_unclear_for_free_text() -> None:
    """The path may be somewhere in the text, so the rule must not be skipped."""
    error = opened(Policy([NO_SECRETS]), "write", "custom").error
    assert error is not None
    assert "since it is free text, not an object" in error.message
    allowing = Policy([Rule("allow", tool="write", argument="path", when=Prefix("a"))])
    assert opened(allowing, kind="custom").policy_decision is not None
    assert allowing.decide("write", "a").action == "ask"
    for tool in (None, "*", ["a", "*"]):  # a rule for all tools passes over free text
        rule = Rule("deny", tool=tool, argument="path", when=Prefix("a"))
        assert Policy([rule], default="allow").decide("sql", "a").action == "allow"
        assert opened(Policy([rule]), kind="custom").policy_decision is not None
        assert Policy([rule]).decide("sql", {"path": "a"}).action == "deny"


def test_finish_checks_arguments_that_were_not_fed_or_reinterpreted() -> None:
    policy = Policy([NO_SECRETS], default="allow")
    check = opened(policy)
    assert check.feed([]) is None
    assert check.finish({}, as_read=True) is None
    assert decision_of(check) == PolicyDecision("allow", DEFAULT.format("allow"))
    error = opened(policy).finish({"path": ".env"}, as_read=True)
    assert error is not None
    assert (error.offset, error.path) == (None, ("path",))
    check = opened(policy)
    check.feed(Parser().feed('{"path": "a"}'))
    assert check.policy_decision is not None
    assert check.finish({"path": ".env"}, as_read=False) == check.error == error


def test_incomplete_text_and_invalid_json_decide_nothing() -> None:
    check = opened(Policy([NO_SECRETS]))
    for fragment in parse('{"path": ".env'):
        assert not isinstance(fragment, Done)
        assert check.feed([fragment]) is None
    assert check.policy_decision is None


def test_reason_names_all_arguments_of_the_rule() -> None:
    policy = Policy([Rule("deny", where={"b": Equals(True), "a": Between(above=3)})])
    reason = "the argument b, true, is true and the argument a, 4, is above 3"
    for text in ('{"a": 4, "b": true}', '{"b": true, "a": 4}'):
        assert read(policy, text).decision.reason == reason
        assert refused(policy, text) == (("b",), text.index("true") + 4)


def refused(policy: Policy, text: str, tool: str = "tool") -> tuple[Any, int | None]:
    """Return where a call is refused."""
    error = read(policy, text, tool).error
    assert error is not None
    return error.path, error.offset


ONLY_IN_SRV = Rule("allow", tool="write", argument="path", when=Under("/srv"), name="in srv")
NOWHERE_ELSE = Rule("deny", tool="write", name="nowhere else", reason="Only below /srv.")
NOT_IN_SRV = 'the argument path, "/etc/x", is not under "/srv"'


IN_TMP = Rule("ask", argument="path", when=Prefix("/tmp/"))
NOT_IN_TMP = 'the argument path, "/etc/x", does not begin with "/tmp/"'


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (Policy([ONLY_IN_SRV, NOWHERE_ELSE]), f"Only below /srv. ({NOT_IN_SRV})"),
        (Policy([ONLY_IN_SRV, Rule("deny")]), NOT_IN_SRV),
        (Policy([ONLY_IN_SRV], default="deny"), f"{DEFAULT.format('deny')} ({NOT_IN_SRV})"),
        (
            Policy([ONLY_IN_SRV, IN_TMP, NOWHERE_ELSE]),
            f"Only below /srv. ({NOT_IN_SRV} and {NOT_IN_TMP})",
        ),
    ],
)
def test_call_denied_because_no_rule_allows_it_has_a_place(policy: Policy, reason: str) -> None:
    text = '{"path":"/etc/x","c":1}'
    outcome = read(policy, text, tool="write")
    assert outcome.after == ("path",)
    assert (outcome.decision.reason, outcome.decision.path) == (reason, ("path",))
    assert refused(policy, text, "write") == (("path",), 16)
    assert policy.decide("write", {"path": "/etc/x", "c": 1}).reason == reason


def test_place_is_that_of_the_deciding_argument() -> None:
    def fails(value: Any) -> bool:
        raise LookupError(value)

    rules = [Rule("allow", argument=key, when=Equals("x")) for key in "ab"]
    policy = Policy(rules, default="deny")
    assert refused(policy, '{"a": 1, "b": 2}') == (("b",), 15)
    assert refused(policy, '{"b": 2, "a": 1}') == (("a",), 15)
    waiting = Rule("ask", where={"a": fails, "b": Equals("x")})
    assert refused(Policy([waiting], default="deny"), '{"a": 1, "c": 2}') == (("a",), 7)


UNCLEAR = "of the argument {}, it cannot be told whether it {}, since it {}"


@pytest.mark.parametrize(
    ("argument", "text", "reason"),
    [
        ("a", "{}", "the argument a did not come"),
        (("a", "b"), '{"a": {"c": 1}}', 'the argument ["a", "b"] did not come'),
        ("a", '{"a": null}', "the argument a is null, as if it had not come"),
        ("a", '{"a": 5}', UNCLEAR.format("a, 5", 'begins with "x"', "is a number, not a string")),
        (("a", EVERY_ITEM), '{"a": []}', "the argument a, an array of 0, has no item like that"),
        (("a", EVERY_ITEM), '{"a": ["y"]}', 'the argument ["a", 0], "y", does not begin with "x"'),
        (None, '{"a": 1}', "all that the call says is not what <lambda> looks for"),
    ],
)
def test_reason_says_why_a_rule_does_not_match(argument: Any, text: str, reason: str) -> None:
    when = Prefix("x") if argument else lambda arguments: len(arguments) > 1
    policy = Policy([Rule("allow", argument=argument, when=when), Rule("deny")])
    assert read(policy, text).decision.reason == reason
    assert refused(policy, text)[1] is not None


def test_reason_of_a_question_names_the_unmet_allow_rule() -> None:
    decision = Policy([NO_SECRETS, ONLY_IN_SRV]).decide("write", {"path": "/etc/x"})
    reason = f"{DEFAULT.format('ask')} ({NOT_IN_SRV})"
    assert decision == PolicyDecision("ask", reason, None, ("path",))
    policy = Policy([Rule("deny", argument="path", when=Not(Under("/srv")))])
    tilde = "begins with '~', which many tools replace by a home directory"
    expected = UNCLEAR.format('path, "~/a"', 'is not under "/srv"', tilde)
    assert policy.decide("t", {"path": "~/a"}).reason == expected


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\u202e\x1bb", '"a⟦RLO⟧\\u001bb"'),
        ("x" * 200, '"' + "x" * 80 + '"…'),
        ("\x9b" * 200, '"' + "⟦CSI⟧" * 80 + '"…'),
        pytest.param(10**5000, "a number of 16610 bits", id="huge number"),
        ([1] * 1000, "an array of 1000"),
        ({"secret": "value"}, "an object of 1"),
        (None, "null"),
        (1.5, "1.5"),
    ],
)
def test_value_in_a_reason_is_short_and_visible(value: Any, shown: str) -> None:
    decision = Policy([Rule("deny", argument="a", when=lambda _: True)]).decide("t", {"a": value})
    assert decision.reason == f"the argument a, {shown}, is what <lambda> looks for"


def test_names_in_a_reason_are_short_and_visible() -> None:
    name = "\x1b[2J" + "x" * 500
    policy = Policy([Rule("deny", argument=[name], when=Equals(1), name="\u202e")], default="allow")
    outcome = read(policy, json.dumps({name: 1}), tool=name)
    assert outcome.error is not None
    assert outcome.error.message.isprintable()
    assert len(outcome.error.message) < 400
    deep = ("a", *["\n" * 300] * 100)
    decision = Policy([Rule("deny", argument=deep, when=Equals(1))]).decide("t", {"a": 1})
    assert len(decision.reason) < 400


@pytest.mark.timing
def test_cost_of_an_item_does_not_grow_with_the_items_before_it() -> None:
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
