"""Calls as models get them wrong, for the table of how early that is noticed.

Each is a call that would do harm or fail: a wrong type, a misspelt or missing argument, a value
that is not among those allowed, too many items, a tool that does not exist, a path or a recipient
that a rule forbids. The texts in them have the length that such calls have.
"""

import random
from dataclasses import dataclass
from typing import Any

from argstream.policy import Glob, Not, Policy, Prefix, Rule, Search
from argstream.validation import ToolSpec
from check_workloads import closed
from workloads import code

_STRING = {"type": "string"}
_DATE = {"type": "string", "pattern": "^\\d{4}-\\d\\d-\\d\\d$"}

TOOLS = [
    ToolSpec(
        "write_file",
        schema=closed(
            {
                "path": {"type": "string", "maxLength": 200},
                "mode": {"enum": ["create", "overwrite", "append"]},
                "content": {"type": "string", "maxLength": 20_000},
            },
            "path",
            "mode",
            "content",
        ),
    ),
    ToolSpec(
        "edit_file",
        schema=closed(
            {
                "path": _STRING,
                "edits": {
                    "type": "array",
                    "items": closed({"old": _STRING, "new": _STRING}, "old", "new"),
                    "maxItems": 10,
                },
            },
            "path",
            "edits",
        ),
    ),
    ToolSpec(
        "send_email",
        schema=closed(
            {
                "to": {"type": "array", "items": _STRING},
                "subject": {"type": "string", "maxLength": 78},
                "body": _STRING,
            },
            "to",
            "subject",
            "body",
        ),
    ),
    ToolSpec(
        "run_query",
        schema=closed(
            {
                "database": {"enum": ["sales", "support"]},
                "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
                "sql": _STRING,
            },
            "database",
            "limit",
            "sql",
        ),
    ),
    ToolSpec(
        "book_flight",
        schema=closed(
            {
                "from": {"type": "string", "pattern": "^[A-Z]{3}$"},
                "to": {"type": "string", "pattern": "^[A-Z]{3}$"},
                "date": _DATE,
                "cabin": {"enum": ["economy", "premium_economy", "business", "first"]},
                "passengers": {
                    "type": "array",
                    "items": closed({"name": _STRING, "born": _DATE}, "name", "born"),
                    "minItems": 1,
                },
                "remarks": _STRING,
            },
            "from",
            "to",
            "date",
            "cabin",
            "passengers",
        ),
    ),
]

RULES = Policy(
    [
        Rule("deny", tool="write_file", argument="path", when=Prefix("/etc/")),
        Rule("deny", tool="write_file", argument="path", when=Glob("**/.ssh/**", "**/.env")),
        Rule(
            "deny",
            tool="send_email",
            argument=("to", "*"),
            when=Not(Glob("*@example.com")),
        ),
        Rule("deny", tool="run_query", argument="sql", when=Search("(?i)^(delete|drop|update)")),
    ],
    default="allow",
)


@dataclass(frozen=True)
class WrongCall:
    """A call, and what is wrong with it."""

    tool: str
    wrong: str
    arguments: dict[str, Any]


def _text(seed: int, size: int) -> str:
    return code(random.Random(seed), size)


def _edits(number: int) -> list[dict[str, str]]:
    choose = random.Random(21)
    return [{"old": code(choose, 120), "new": code(choose, 160)} for _ in range(number)]


_FILE = {"path": "src/app.py", "mode": "create", "content": _text(20, 4000)}
_EMAIL = {"to": ["ada@example.com"], "subject": "Results of May", "body": _text(22, 1500)}
_QUERY = {
    "database": "sales",
    "limit": 100,
    "sql": "select region, sum(net) from orders where placed >= '2026-01-01' group by region",
}
_FLIGHT = {
    "from": "BER",
    "to": "NRT",
    "date": "2026-12-24",
    "cabin": "economy",
    "passengers": [{"name": f"Passenger {n}", "born": "1990-01-01"} for n in range(1, 5)],
    "remarks": "Two of us have a wheelchair; please seat us together and near an exit.",
}


def _edits_with(place: int, edit: dict[str, str]) -> list[dict[str, str]]:
    edits = _edits(8)
    return [*edits[:place], edit, *edits[place + 1 :]]


CALLS = [
    WrongCall("create_file", "there is no such tool", _FILE),
    WrongCall("write_file", "path under /etc/", {**_FILE, "path": "/etc/cron.d/backup"}),
    WrongCall("write_file", "content too long", {**_FILE, "content": _text(23, 40_000)}),
    WrongCall("edit_file", "edits as a string", {"path": "src/app.py", "edits": str(_edits(8))}),
    WrongCall(
        "edit_file",
        "third edit: old_string for old",
        {
            "path": "src/app.py",
            "edits": _edits_with(2, {"old_string": _text(24, 120), "new": _text(25, 160)}),
        },
    ),
    WrongCall("edit_file", "15 edits, 10 may be", {"path": "src/app.py", "edits": _edits(15)}),
    WrongCall("send_email", "to is no list", {**_EMAIL, "to": "ada@example.com"}),
    WrongCall(
        "send_email",
        "a recipient outside",
        {**_EMAIL, "to": ["ada@example.com", "eve@example.net", "bob@example.com"]},
    ),
    WrongCall("send_email", "subject too long", {**_EMAIL, "subject": "Results of May " * 8}),
    WrongCall("run_query", "limit too large", {**_QUERY, "limit": 50_000}),
    WrongCall("run_query", "delete", {**_QUERY, "sql": "delete from orders where placed is null"}),
    WrongCall("book_flight", "date as 24/12/2026", {**_FLIGHT, "date": "24/12/2026"}),
    WrongCall("book_flight", "cabin: premium", {**_FLIGHT, "cabin": "premium"}),
    WrongCall(
        "book_flight",
        "second passenger: born is missing",
        {**_FLIGHT, "passengers": [_FLIGHT["passengers"][0], {"name": "Passenger 2"}]},
    ),
]
"""In the order that a schema should have: what one decides by comes first."""

_FAULTS: dict[str, dict[str, Any]] = {
    "path under /etc/": {**_FILE, "path": "/etc/cron.d/backup"},
    "path is a list": {**_FILE, "path": ["src/app.py"]},
    "filename for path": {"filename": "src/app.py", "mode": "create", "content": _FILE["content"]},
    "mode: write": {**_FILE, "mode": "write"},
    "path is missing": {"mode": "create", "content": _FILE["content"]},
}
IN_BOTH_ORDERS = [
    (
        WrongCall("write_file", wrong, arguments),
        WrongCall("write_file", wrong, {"content": arguments["content"], **arguments}),
    )
    for wrong, arguments in _FAULTS.items()
]
"""The same mistakes with the long argument last, and with it first."""
