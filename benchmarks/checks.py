"""What it is measured to judge: texts, the schemas and rules for them, and what each may cost."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import check_workloads as shapes
from argstream.judging import CallJudge
from argstream.policy import Between, Equals, Glob, Policy, PolicyCheck, Prefix, Regex, Rule, Search
from argstream.validation import Schema
from wire_events import TOOL
from workloads import Workload, write

STRING, ROWS, ORDER, ACTIONS, TREE = "a long string", "rows", "an order", "actions", "a tree"

_ARGUMENTS: dict[str, Callable[[int], object]] = {
    STRING: shapes.write_file,
    ROWS: shapes.insert_rows,
    ORDER: shapes.save_order,
    ACTIONS: shapes.do_actions,
    TREE: shapes.make_tree,
}

SCHEMAS: dict[str, dict[str, Any]] = {STRING: shapes.WRITE_FILE, ROWS: shapes.INSERT_ROWS}
"""The schemas of those texts that are measured in more than one way."""

_YES = True
RULES = Policy(
    [
        Rule("deny", argument="path", when=Glob("**/.git/**", "**/.env", "**/*.pem")),
        Rule("deny", argument="path", when=Prefix("/etc/", "/usr/", "/var/")),
        Rule("deny", argument="path", when=Regex(r".*\.(exe|dll|so)")),
        Rule("ask", argument="path", when=Glob("**/pyproject.toml", "**/package.json")),
        Rule("ask", argument="mode", when=Equals("overwrite")),
        Rule("ask", argument="executable", when=Equals(_YES)),
        Rule("deny", argument="encoding", when=Equals("ascii")),
        Rule("deny", argument="content", when=Search("BEGIN [A-Z ]*PRIVATE KEY")),
        Rule("deny", argument="content", when=Search("AKIA[0-9A-Z]{16}")),
        Rule("deny", argument="table", when=Prefix("pg_", "sqlite_")),
        Rule("deny", argument="table", when=Equals("users", "accounts")),
        Rule("ask", argument="on_conflict", when=Equals("replace")),
        Rule("deny", argument="batch", when=Between(above=10_000)),
        Rule("ask", argument="dry_run", when=Equals(_YES)),
        Rule("deny", argument=("rows", "*", "id"), when=Between(below=0)),
        Rule("deny", argument=("rows", "*", "name"), when=Search("(?i)drop table")),
        Rule("deny", argument=("rows", "*", "score"), when=Between(above=1000)),
        Rule("deny", argument=("rows", "*", "email"), when=Glob("*@example.org")),
        Rule("ask", argument=("rows", "*", "role"), when=Equals("admin")),
        Rule("deny", argument=("rows", "*", "tags", "*"), when=Equals("internal")),
    ],
    default="allow",
)
"""Twenty rules, none of which matches, so that the last of them waits to the end."""


@dataclass(frozen=True)
class Check:
    """One way to judge one text."""

    name: str
    text: str
    open: Callable[[], CallJudge]
    most: float | None = None
    """What parsing and judging may cost, as a multiple of parsing alone, if that is promised."""


def checks() -> Iterator[Check]:
    """Give all of them; schemas are compiled here."""
    five, fifty = 1.5, 3.0
    yield Check("5 properties, a long string", STRING, _schema(shapes.WRITE_FILE), five)
    yield Check("5 properties, rows", ROWS, _schema(shapes.INSERT_ROWS), five)
    yield Check("50 properties, nested arrays", ORDER, _schema(shapes.SAVE_ORDER), fifty)
    bounded = _schema(shapes.WRITE_BOUNDED_FILE)
    yield Check("5 properties, the long string with maxLength", STRING, bounded)
    yield Check("a union of 5 forms", ACTIONS, _schema(shapes.DO_ACTIONS))
    yield Check("a recursive schema", TREE, _schema(shapes.MAKE_TREE))
    yield Check("20 rules, a long string", STRING, _rules)
    yield Check("20 rules, rows", ROWS, _rules)


def text(name: str, size: int) -> Workload:
    """Write the arguments of a call, cut into pieces."""
    return Workload.of(name, write(_ARGUMENTS[name](size)))


def _schema(schema: dict[str, Any]) -> Callable[[], CallJudge]:
    return Schema(schema).check


def _rules() -> CallJudge:
    judge = RULES.open(TOOL)
    assert isinstance(judge, PolicyCheck)  # no rule decides on the tool alone
    return judge
