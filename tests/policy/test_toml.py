"""Policies from TOML: they say what the same rules in Python say, and no typo drops one."""

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
        ('equals = ["x", 1, true]', Equals("x", 1, True)),
        ("equals = 1.5", Equals(1.5)),
        ('prefix = "x"', Prefix("x")),
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
def test_every_condition_can_be_written(text: str, condition: Condition) -> None:
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
def test_every_argument_can_be_named(written: str, path: Any) -> None:
    assert only_rule(f"argument = {written}\nequals = 1").conditions == ((path, Equals(1)),)


def test_a_key_named_star_is_another_argument_than_any_item() -> None:
    rule = only_rule(
        'conditions = [{ argument = ["a", { key = "*" }], equals = 1 }, '
        '{ argument = ["a", "*"], equals = 2 }]'
    )
    assert [path for path, _ in rule.conditions] == [("a", "*"), ("a", ANY_ITEM)]


def test_all_parts_of_a_rule_are_read() -> None:
    rule = only_rule(
        """
        tool = ["a", "b*"]
        name = "n"
        reason = "r"
        argument = "x"
        equals = 1
        conditions = [{ argument = "y", equals = 2 }, { argument = ["z", "*"], above = 3 }]
        """
    )
    assert (rule.action, rule.tools.names, rule.name, rule.reason) == (
        "deny",
        ("a", "b*"),
        "n",
        "r",
    )
    assert rule.conditions == (
        (("x",), Equals(1)),
        (("y",), Equals(2)),
        (("z", ANY_ITEM), Between(above=3)),
    )
    assert only_rule('tool = "a"').conditions == ()
    assert only_rule("").tools is None


def test_all_parts_of_a_policy_are_read() -> None:
    policy = Policy.from_toml('default = "deny"\nroot = "/srv"\n[defaults]\n"a*" = "allow"')
    assert (policy.default, policy.root, policy.defaults) == ("deny", "/srv", {"a*": "allow"})
    empty = Policy.from_toml("")
    assert (empty.default, empty.root, empty.defaults, empty.rules) == ("ask", None, {}, ())


RULE = '[[rules]]\naction = "deny"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rules", "policy: this is no TOML: "),
        ('defualt = "ask"', 'policy: there is no key "defualt"; did you mean default?'),
        ("[[rule]]", 'there is no key "rule"; did you mean rules?'),
        ("xyz = 1", "known are default, defaults, root or rules"),
        ('default = "no"', 'policy: default: "no" is no decision: give'),
        ('default = ["ask"]', "default: an array of 1 is no decision"),
        ('defaults = "ask"', "defaults is a table of tools"),
        ('[defaults]\nrm = "never"', 'policy: defaults, rm: "never" is no decision'),
        ("root = 1", "root must be a directory, and 1 is a number"),
        ('root = "work"', "must be an absolute directory"),
        ('root = "~nobody-has-this-name/x"', "there is no such home directory"),
        ('root = "/a\\u0000b"', "it has a NUL in it"),
        pytest.param(f"default = {'9' * 5000}", "policy: this is no TOML: ", id="a long number"),
        pytest.param(f"default = 0x{'f' * 5000}", "a number of 20000 bits is no", id="a long 0x"),
        pytest.param("a = " + "[" * 2000, "policy: it is nested too deeply", id="many arrays"),
        pytest.param(
            RULE + 'argument = "a"\n' + "not." * 2000 + "equals = 1",
            "policy: it is nested too deeply",
            id="many negations",
        ),
        ("rules = 1", "rules are tables, each below a line [[rules]]"),
        ("[rules]", "rules are tables, each below a line [[rules]]"),
        ("rules = [1]", "rules are tables, each below a line [[rules]]"),
        ("[[rules]]", "policy: rule 1: it has no action: give action ="),
        ('[[rules]]\naction = "forbid"', 'rule 1: "forbid" is no decision'),
        (RULE + 'tols = "a"', 'rule 1: there is no key "tols"; did you mean tool?'),
        (RULE + 'name = "n"\nargumnt = "a"', "rule 1 (n): there is no key"),
        (RULE + RULE + "tool = 5", "rule 2: tool must be a string or an array of strings, not 5"),
        (RULE + "tool = []", "for all, leave tool out"),
        (RULE + "name = 5", "the name of a rule must be a string"),
        (RULE + "reason = 5", "the reason of a rule must be a string"),
        (RULE + 'argument = "a"', "it says nothing about its argument: give one of equals, "),
        (RULE + "equals = 1", "it has no argument: give argument ="),
        (RULE + 'argument = "a.b"\nequals = 1', 'as ["a.b"]'),
        (RULE + "argument = 5\nequals = 1", "argument must be a key or an array of steps"),
        (RULE + "argument = [{ ky = 1 }]\nequals = 1", "a step to an argument is a key"),
        (RULE + 'argument = ["a", { item = "all" }]\nequals = 1', "a step to an argument is"),
        (RULE + 'argument = ["a", { item = "any", x = 1 }]\nequals = 1', "a step to an argument"),
        (RULE + 'argument = ["a", true]\nequals = 1', "is no step to an argument"),
        (RULE + 'argument = "a"\nequals = []', "rule 1: equals: Equals needs at least one value"),
        (RULE + 'argument = "a"\nequals = 2020-01-01', "no string, number, boolean or null"),
        (RULE + 'argument = "a"\nequals = {x = 1}', "no string, number, boolean or null"),
        (RULE + 'argument = "a"\nprefix = 5', "prefix: Prefix needs strings"),
        (RULE + 'argument = "a"\nregex = "("', "rule 1: regex: '(' is no regular expression"),
        (RULE + 'argument = "a"\nglob = "*.{a,b}"', "rule 1: glob: "),
        (RULE + 'argument = "a"\nabove = "1"', "above must be a number"),
        (RULE + 'argument = "a"\nabove = nan', "above must be a number"),
        (
            RULE + 'argument = "a"\nunder = "src"',
            "give an absolute directory, or the policy a root",
        ),
        (RULE + 'argument = "a"\nunder = 5', "under: 5 is no directory"),
        (RULE + 'argument = "a"\nnot = "x"', "not: it stands before what must not be"),
        (RULE + 'argument = "a"\nnot = {}', "not: it says nothing"),
        (
            RULE + 'argument = "a"\nnot.undr = "/"',
            'not: there is no key "undr"; did you mean under',
        ),
        (RULE + 'argument = "a"\nnot = { equals = 1, above = 1 }', "not: give one condition"),
        (RULE + "conditions = 5", "conditions is an array of tables"),
        (RULE + "conditions = [5]", "conditions is an array of tables"),
        (RULE + "conditions = []", "its conditions are empty"),
        (RULE + "conditions = [{ equals = 1 }]", "rule 1: condition 1: it has no argument"),
        (
            RULE + 'conditions = [{ argument = "a", equals = 1, tool = "b" }]',
            'condition 1: there is no key "tool"',
        ),
        (
            RULE + 'argument = "a"\nequals = 1\nconditions = [{ argument = ["a"], above = 0 }]',
            "condition 1: there are two conditions on",
        ),
        (
            RULE + 'conditions = [{ argument = ["a", { key = "b" }], equals = 1 }, '
            '{ argument = ["a", "b"], equals = 2 }]',
            "condition 2: there are two conditions on",
        ),
        (
            RULE + 'argument = ["a", "*"]\nequals = 1\n'
            'conditions = [{ argument = ["a", { item = "any" }], equals = 2 }]',
            "condition 1: there are two conditions on",
        ),
        (
            '[[rules]]\naction = "allow"\nargument = ["a", "*"]\nequals = 1',
            'in TOML { item = "every" }',
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_place_and_what_to_do(
    text: str, message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        Policy.from_toml(text)


def test_an_error_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    with pytest.raises(UsageError, match=re.escape(f"{file}: the policy cannot be read: ")):
        Policy.load(file)
    file.write_bytes(b"\xff")
    with pytest.raises(UsageError, match=re.escape(f"{file}: the policy cannot be read: ")):
        Policy.load(str(file))
    with pytest.raises(UsageError, match="the policy cannot be read: "):
        Policy.load("a\0b")
    file.write_text('root = "~nobody-has-this-name/x"')
    with pytest.raises(UsageError, match=re.escape(f"{file}: ")):
        Policy.load(file)
    file.write_text('[[rules]]\naction = "no"')
    with pytest.raises(UsageError, match=re.escape(f"{file}: rule 1: ")):
        Policy.load(file)


def test_a_relative_root_begins_at_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "policy.toml"
    file.write_text('root = "../work"\n')
    assert Policy.load(file).root == str(tmp_path / "conf" / ".." / "work")
    monkeypatch.chdir(tmp_path)
    assert Policy.load("conf/policy.toml").root == str(tmp_path / "conf" / ".." / "work")
    file.write_text('root = "/abs"\n')
    assert Policy.load(file).root == "/abs"


def test_the_policy_of_the_page_does_what_the_page_says(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    file = tmp_path / "policy.toml"
    file.write_text(text, "utf-8")
    policy = Policy.load(file)

    def decided(tool: str, arguments: Any) -> tuple[str, str | None]:
        decision = policy.decide(tool, arguments)
        return decision.action, decision.rule

    assert decided("read_file", {"path": "a"}) == ("allow", None)
    assert decided("list_files", {"path": "a"}) == ("allow", None)
    assert decided("delete_file", {"path": "a"}) == ("deny", None)
    assert decided("write_file", {"path": "../a"}) == ("deny", "inside the project")
    assert decided("write_file", {"path": str(tmp_path / "a")}) == ("ask", None)
    assert decided("read_file", {"path": "a/b/.env"}) == ("deny", "keys and secrets")
    edits = [{"path": "src/a.py"}, {"path": "src/b.py"}]
    assert decided("multi_edit", {"edits": edits}) == ("allow", "rule 4")
    assert decided("multi_edit", {"edits": [*edits, {"path": "a.lock"}]}) == ("ask", "rule 3")
    assert decided("multi_edit", {"edits": [*edits, {"path": "c.py"}]}) == ("deny", None)
    assert decided("transfer", {"amount": 100, "currency": "EUR"}) == ("allow", "rule 5")
    assert decided("transfer", {"amount": 0, "currency": "EUR"}) == ("deny", None)
    assert decided("run_sql", "select 1; DROP TABLE a") == ("deny", "rule 6")
    assert decided("run_sql", "select 1") == ("ask", None)


def test_the_python_of_the_page_runs() -> None:
    codes = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(codes[-1], namespace)
    decision = namespace["decision"]
    assert (decision.action, decision.rule, decision.path) == ("deny", "rule 1", ("path",))
    policy = namespace["policy"]
    assert policy.decide("send", {"to": "a@b.org", "urgent": True}).action == "ask"
    assert policy.decide("sum", {str(n): n for n in range(11)}).action == "deny"
