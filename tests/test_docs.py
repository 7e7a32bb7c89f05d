"""The tables of docs/errors.md list exactly the values of the code."""

import re
from pathlib import Path
from typing import get_args

import pytest

from argstream import errors, events

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
        ("Verdicts of a call", events.Verdict),
        ("Why a turn ended", events.StopKind),
        ("Why a stream failed", events.FailureCode),
        ("Why arguments are invalid", events.ErrorReason),
        ("Kinds of calls", events.CallKind),
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
