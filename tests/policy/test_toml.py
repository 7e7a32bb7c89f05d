"""Policies from TOML: equal to the same rules in Python, and no typo drops a rule."""

import re
from pathlib import Path
from typing import Any

import pytest

from argstream.errors import UsageError
from argstream.policy import (
    ANY_ITEM,
    EVERY_ITEM,
    AllOf,
    Between,
    Condition,
    Equals,
    Glob,
    Not,
    Policy,
    Prefix,
    Regex,
    Search,
    Under,
)

PAGE = Path(__file__).parents[2] / "docs" / "policy.md"


def only_rule(text: str) -> Any:
    (rule,) = Policy.from_toml(f'[[rules]]\naction = "deny"\n{text}').rules
    return rule


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ('equals = "x"', Equals("x")),
        ('equals = ["x", 1.5, true]', Equals("x", 1.5, True)),
        ('prefix = ["x", "y"]', Prefix("x", "y")),
        ('glob = "**/x"', Glob("**/x")),
        ("regex = '\\d+'", Regex(r"\d+")),
        ("search = '\\d+'", Search(r"\d+")),
        ('under = ["/x", "/y"]', Under("/x", "/y")),
        ("at_least = 1", Between(at_least=1)),
        ("above = 1\nat_most = 2", Between(above=1, at_most=2)),
        ("below = 1.5", Between(below=1.5)),
        ('not.equals = "x"', Not(Equals("x"))),
        ("not.above = 1", Not(Between(above=1))),
        ("not.not.above = 1", Not(Not(Between(above=1)))),
        ('prefix = "x"\nnot.glob = "*y"', AllOf(Prefix("x"), Not(Glob("*y")))),
    ],
)
def test_every_condition_can_be_written_in_toml(text: str, condition: Condition) -> None:
    ((path, found),) = only_rule(f'argument = "a"\n{text}').conditions
    assert (path, found) == (("a",), condition)


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ('"a"', ("a",)),
        ('["a", "b"]', ("a", "b")),
        ('["a.b"]', ("a.b",)),
        ('["a", 0, "b"]', ("a", 0, "b")),
        ('["a", "*", "b"]', ("a", ANY_ITEM, "b")),
        ('["a", { item = "any" }]', ("a", ANY_ITEM)),
        ('["a", { item = "every" }]', ("a", EVERY_ITEM)),
        ('["a", { key = "*" }]', ("a", "*")),
        ('[{ key = "*" }]', ("*",)),
        ("[]", ()),
    ],
)
def test_every_argument_can_be_named_in_toml(written: str, path: Any) -> None:
    assert only_rule(f"argument = {written}\nequals = 1").conditions == ((path, Equals(1)),)


def test_all_parts_of_a_rule_and_a_policy_are_read() -> None:
    rule = only_rule(
        """
        tool = ["a", "b*"]
        name = "n"
        reason = "r"
        argument = ["x", "*"]
        equals = 1
        conditions = [{ argument = "y", equals = 2 },{ argument = ["x", { key = "*" }], above = 3 }]
        """
    )
    found = (rule.action, rule.tools.names, rule.name, rule.reason)
    assert found == ("deny", ("a", "b*"), "n", "r")
    assert rule.conditions == (
        (("x", ANY_ITEM), Equals(1)),
        (("y",), Equals(2)),
        (("x", "*"), Between(above=3)),
    )
    assert only_rule('tool = "a"').conditions == ()
    assert only_rule("").tools is None
    policy = Policy.from_toml('default = "deny"\nroot = "/srv"\n[defaults]\n"a*" = "allow"')
    assert (policy.default, policy.root, policy.defaults) == ("deny", "/srv", {"a*": "allow"})
    empty = Policy.from_toml("")
    assert (empty.default, empty.root, empty.defaults, empty.rules) == ("ask", None, {}, ())


RULE = '[[rules]]\naction = "deny"\n'
ON_A = RULE + 'argument = "a"\n'
TWO = "there are two conditions on"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rules", "policy: not valid TOML: "),
        ('defualt = "ask"', 'policy: unknown key "defualt". Did you mean default?'),
        ("xyz = 1", "Known keys: default, defaults, root, rules"),
        ('default = "no"', "policy: default: an action must be 'allow'"),
        ('defaults = "ask"', "defaults must be a table"),
        ('[defaults]\nrm = "never"', "policy: defaults, rm: an action must be"),
        ("root = 1", "root must be a directory, not a number: 1"),
        ('root = "~no-such-user/x"', "no home directory for"),
        ('root = "/a\\u0000b"', "a directory cannot contain NUL"),
        pytest.param(f"default = {'9' * 5000}", "policy: not valid TOML: ", id="a long number"),
        pytest.param(f"default = 0x{'f' * 5000}", "not a number of 20000 bits", id="a long 0x"),
        pytest.param("a = " + "[" * 2000, "policy: nested too deeply", id="many arrays"),
        pytest.param(
            ON_A + "not." * 2000 + "equals = 1", "policy: nested too deeply", id="many negations"
        ),
        ("rules = 1", "rules must be an array of tables"),
        ("[rules]", "rules must be an array of tables"),
        ("[[rules]]", "policy: rule 1: action is missing. Add action ="),
        ('[[rules]]\naction = "forbid"', "rule 1: an action must be"),
        (RULE + 'tols = "a"', 'rule 1: unknown key "tols". Did you mean tool?'),
        (RULE + 'name = "n"\nargumnt = "a"', "rule 1 (n): unknown key"),
        (RULE + RULE + "tool = 5", "rule 2: tool must be a string or a list of strings, not 5"),
        (RULE + "name = 5", "the name of a rule must be a string"),
        (RULE + 'argument = "a"', "the argument has no condition. Add one of equals, "),
        (RULE + "equals = 1", "argument is missing. Add argument ="),
        (RULE + 'argument = "a.b"\nequals = 1', 'or ["a.b"] if'),
        (RULE + 'argument = ["a", true]\nequals = 1', "a step must be a key"),
        (RULE + "argument = 5\nequals = 1", "argument must be a key or a list of steps"),
        (RULE + "argument = [{ ky = 1 }]\nequals = 1", "a step must be a key"),
        (RULE + 'argument = ["a", { item = "all" }]\nequals = 1', "a step must be"),
        (RULE + 'argument = ["a", { item = "any", x = 1 }]\nequals = 1', "a step must be"),
        (ON_A + "equals = []", "rule 1: equals: Equals needs at least one value"),
        (ON_A + "equals = 2020-01-01", "must be strings, numbers, booleans or null"),
        (ON_A + 'regex = "("', "rule 1: regex: '(' is not a valid regular expression"),
        (ON_A + 'above = "1"', "above must be a number"),
        (ON_A + 'under = "src"', "must be absolute, or the policy must have a root"),
        (ON_A + 'not = "x"', "not: must be a condition"),
        (ON_A + "not = {}", "not: the argument has no condition"),
        (ON_A + 'not.undr = "/"', 'not: unknown key "undr". Did you mean under'),
        (ON_A + "not = { equals = 1, above = 1 }", "not: has several conditions"),
        (RULE + "conditions = 5", "conditions must be an array of tables"),
        (RULE + "conditions = []", "conditions is empty"),
        (RULE + "conditions = [{ equals = 1 }]", "rule 1: condition 1: argument is missing"),
        (
            RULE + 'conditions = [{ argument = "a", equals = 1, tool = "b" }]',
            'condition 1: unknown key "tool"',
        ),
        (
            ON_A + 'equals = 1\nconditions = [{ argument = ["a"], above = 0 }]',
            f"condition 1: {TWO}",
        ),
        (
            RULE + 'conditions = [{ argument = ["a", { key = "b" }], equals = 1 }, '
            '{ argument = ["a", "b"], equals = 2 }]',
            f"condition 2: {TWO}",
        ),
        (
            RULE + 'argument = ["a", "*"]\nequals = 1\n'
            'conditions = [{ argument = ["a", { item = "any" }], equals = 2 }]',
            f"condition 1: {TWO}",
        ),
        (RULE.replace("deny", "allow") + 'argument = ["a", "*"]\nequals = 1', 'item = "every"'),
    ],
)
def test_wrong_toml_raises_with_place_and_advice(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        Policy.from_toml(text)


def test_error_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    unreadable = f"cannot read the policy {file}: "
    with pytest.raises(UsageError, match=re.escape(unreadable)):
        Policy.load(file)
    with pytest.raises(UsageError, match="cannot read the policy a"):
        Policy.load("a\0b")
    for content, message in (
        (b"\xff", unreadable),
        (b'root = "~no-such-user/x"', f"{file}: "),
        (b'[[rules]]\naction = "no"', f"{file}: rule 1: "),
    ):
        file.write_bytes(content)
        for given in (file, str(file)):
            with pytest.raises(UsageError, match=re.escape(message)):
                Policy.load(given)


def test_relative_root_starts_at_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "policy.toml"
    file.write_text('root = "../work"\n')
    assert Policy.load(file).root == str(tmp_path / "conf" / ".." / "work")
    monkeypatch.chdir(tmp_path)
    assert Policy.load("conf/policy.toml").root == str(tmp_path / "conf" / ".." / "work")
    file.write_text('root = "/abs"\n')
    assert Policy.load(file).root == "/abs"


def test_policy_of_the_docs_page_decides_as_described(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    file = tmp_path / "policy.toml"
    file.write_text(text, "utf-8")
    policy = Policy.load(file)
    edits = [{"path": "src/a.py"}, {"path": "src/b.py"}]
    arguments: Any
    for tool, arguments, *expected in (
        ("read_file", {"path": "a"}, "allow", None),
        ("list_files", {"path": "a"}, "allow", None),
        ("delete_file", {"path": "a"}, "deny", None),
        ("write_file", {"path": "../a"}, "deny", "inside the project"),
        ("write_file", {"path": str(tmp_path / "a")}, "ask", None),
        ("read_file", {"path": "a/b/.env"}, "deny", "keys and secrets"),
        ("multi_edit", {"edits": edits}, "allow", "rule 4"),
        ("multi_edit", {"edits": [*edits, {"path": "a.lock"}]}, "ask", "rule 3"),
        ("multi_edit", {"edits": [*edits, {"path": "c.py"}]}, "deny", None),
        ("transfer", {"amount": 100, "currency": "EUR"}, "allow", "rule 5"),
        ("transfer", {"amount": 0, "currency": "EUR"}, "deny", None),
        ("run_sql", "select 1; DROP TABLE a", "deny", "rule 6"),
        ("run_sql", "select 1", "ask", None),
    ):
        decision = policy.decide(tool, arguments)
        assert [decision.action, decision.rule] == expected, (tool, arguments)
