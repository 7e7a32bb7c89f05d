"""The tables of the docs list exactly what the code has."""

import re
from ast import literal_eval
from inspect import signature
from pathlib import Path
from typing import Any, get_args

import pytest

from argstream import Agent, errors, events, history
from argstream.server import Limits

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS / "errors.md").read_text(encoding="utf-8")


def table(heading: str) -> list[str]:
    """Return the first word of each row below a heading."""
    section = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)`", section, re.MULTILINE)


def values(alias: object) -> set[str]:
    found = get_args(alias)
    return {one for part in found for one in (values(part) if get_args(part) else {part})}


@pytest.mark.parametrize(
    ("heading", "alias"),
    [
        ("Verdicts of a call", history.Verdict),
        ("Why a turn ended", events.StopKind),
        ("Why a stream failed", events.FailureCode),
        ("Why arguments are invalid", events.ErrorReason),
        ("Kinds of calls", history.CallKind),
    ],
)
def test_table_lists_the_values_of_the_type(heading: str, alias: object) -> None:
    listed = table(heading)
    assert len(set(listed)) == len(listed)
    assert set(listed) == values(alias)


def test_table_lists_all_exceptions() -> None:
    public = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.ArgstreamError)
    }
    assert {*table("Exceptions"), "ArgstreamError"} == public


@pytest.mark.parametrize(
    ("heading", "function"), [("parameter of `run`", Agent.run), ("parameter", Agent.__init__)]
)
def test_table_lists_the_parameters_and_defaults(heading: str, function: Any) -> None:
    text = (DOCS / "agent.md").read_text(encoding="utf-8")
    rows = text.split(f"| {heading} | default | meaning |\n")[1].split("\n\n")[0]
    listed = dict(re.findall(r"^\| `(\w+)` \| `?(.*?)`? \|", rows, re.MULTILINE))
    _, *parameters = signature(function).parameters.values()
    assert list(listed) == [one.name for one in parameters]
    for one in parameters:
        is_required = one.default is one.empty
        assert is_required == (listed[one.name] == "required")
        assert is_required or literal_eval(listed[one.name]) == one.default


def test_table_lists_the_limits_of_the_server_and_their_defaults() -> None:
    rows = (DOCS / "server.md").read_text(encoding="utf-8").split("\n## Limits\n")[1]
    listed = re.findall(
        r"^\| `(\w+)` \| ([\d,]+)( [KM]iB)? \|", rows.split("\n## ")[0], re.MULTILINE
    )
    units = {"": 1, " KiB": 2**10, " MiB": 2**20}
    defaults = [(name, int(number.replace(",", "")) * units[unit]) for name, number, unit in listed]
    limits = Limits()
    assert defaults == [(name, getattr(limits, name)) for name in limits.__struct_fields__]


def test_security_page_names_tests_that_exist() -> None:
    text = (DOCS / "security.md").read_text(encoding="utf-8")
    threats = text.split("\n## Threats and tests\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (?!threat|-).*", threats, re.MULTILINE)
    assert len(rows) >= 50
    for row in rows:
        found = re.search(r"\| `([\w/]+\.py)::(\w+)` \|$", row)
        assert found, f"no test: {row}"
        tests = (DOCS.parent / "tests" / found[1]).read_text(encoding="utf-8")
        assert re.search(rf"^ *(async )?def {found[2]}\(", tests, re.MULTILINE), row
