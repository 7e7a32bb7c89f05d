"""Checks while a call is written: how early a wrong call is rejected, and what checking costs."""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from argstream import Policy, ToolArgsInvalid, stream
from argstream.jsonstream import Parser
from argstream.policy import Between, Equals, Glob, Not, Prefix, Regex, Rule, Search
from argstream.validation import Schema, ToolSpec
from report import Cell, Chapter, Table, microseconds, number, percent, size_name, times
from timing import Job, cpu_time, take_turns, versions
from workloads import TAGS, TOOL, anthropic_call, chunks, code, rows, write

_MOST_GROWTH = 1.25
_YES = True
_STRING, _INTEGER, _BOOLEAN = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any], **bounds: int) -> dict[str, Any]:
    return {"type": "array", "items": items, **bounds}


def measure(*, quick: bool = False) -> Chapter:
    """Measure both."""
    return Chapter(
        "Checks while a call is written",
        "A wrong call is rejected at the first character after which it cannot be right. *Read* "
        "is how many characters of its arguments had come by then. *Long text first* is the same "
        "call with its longest argument in front, an order that `argstream lint` warns of. The "
        "second table has the CPU time per chunk of the parser alone and with the check.",
        [_earliness(), _costs(quick=quick)],
        versions("jsonschema-rs"),
    )


# How early


_EARLY_SCHEMAS: dict[str, dict[str, Any]] = {
    "write_file": {
        "path": {"type": "string", "maxLength": 200},
        "mode": {"enum": ["create", "overwrite", "append"]},
        "content": {"type": "string", "maxLength": 20_000},
    },
    "edit_file": {
        "path": _STRING,
        "edits": _list(_closed({"old": _STRING, "new": _STRING}), maxItems=10),
    },
    "send_email": {"to": _list(_STRING), "subject": _STRING, "body": _STRING},
}
_EARLY_TOOLS = [ToolSpec(name, schema=_closed(of)) for name, of in _EARLY_SCHEMAS.items()]
_EARLY_RULES = Policy(
    [
        Rule("deny", tool="write_file", argument="path", when=Prefix("/etc/")),
        Rule("deny", tool="send_email", argument=("to", "*"), when=Not(Glob("*@example.com"))),
    ],
    default="allow",
)


def _wrong_calls() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return calls as models get them wrong, with texts of a common length."""
    choose = random.Random(20)
    file = {"path": "src/app.py", "mode": "create", "content": code(choose, 4000)}
    email = {"to": ["ada@example.com"], "subject": "Results", "body": code(choose, 1500)}
    edits = [{"old": code(choose, 120), "new": code(choose, 160)} for _ in range(15)]
    renamed = [*edits[:2], {"old_string": edits[2]["old"], "new": edits[2]["new"]}, *edits[3:8]]
    without_path = {name: file[name] for name in ("mode", "content")}
    return {
        "path under /etc/": ("write_file", {**file, "path": "/etc/cron.d/backup"}),
        "mode is not in the enum": ("write_file", {**file, "mode": "write"}),
        "path is missing": ("write_file", without_path),
        "recipient outside": ("send_email", {**email, "to": ["ada@example.com", "eve@evil.test"]}),
        "third edit: misspelt key": ("edit_file", {"path": "src/app.py", "edits": renamed}),
    }


def _earliness() -> Table:
    cells: list[list[Cell]] = []
    for wrong, (tool, arguments) in _wrong_calls().items():
        by, read, whole = _rejected(tool, arguments)
        longest = max(arguments, key=lambda name: len(write(arguments[name])))
        _, read_late, _ = _rejected(tool, {longest: arguments[longest], **arguments})
        shares = [percent(read / whole), percent(read_late / whole)]
        cells.append([wrong, tool, by, number(read), number(whole), *shares])
    header = ["what is wrong", "tool", "rejected by", "read", "of", "share", "long text first"]
    return Table(header, cells)


def _rejected(tool: str, arguments: dict[str, Any]) -> tuple[str, int, int]:
    """Return what rejected the call, after how many characters, and how many there are."""
    text = write(arguments)
    payloads = anthropic_call(text, tool)  # one character at a time
    events = stream(payloads, tools=_EARLY_TOOLS, policy=_EARLY_RULES, stop_on="rejected")
    (found,) = [event for event in events if isinstance(event, ToolArgsInvalid)]
    return found.error.keyword or found.error.reason, len(found.raw), len(text)


# What it costs


_WRITE_FILE = _closed(
    {
        "path": {"type": "string", "maxLength": 4096},
        "mode": {"enum": ["create", "overwrite", "append"]},
        "executable": _BOOLEAN,
        "encoding": {"enum": ["utf-8", "latin-1", "ascii"]},
        "content": _STRING,
    }
)
_ROW = _closed(
    {
        "id": _INTEGER,
        "name": _STRING,
        "score": {"type": "number"},
        "active": _BOOLEAN,
        "tags": _list({"enum": TAGS}),
    }
)
_INSERT_ROWS = _closed(
    {
        "table": {"type": "string", "maxLength": 64},
        "on_conflict": {"enum": ["fail", "skip", "replace"]},
        "dry_run": _BOOLEAN,
        "batch": _INTEGER,
        "rows": _list(_ROW),
    }
)

_MANY = _closed(
    {
        **{f"state_{i}": {"enum": ["draft", "open", "blocked", "done"]} for i in range(20)},
        **{f"count_{i}": {"type": "integer", "minimum": 0} for i in range(20)},
        **{f"list_{i}": _list(_ROW, maxItems=10_000) for i in range(10)},
    }
)

_RULES = Policy(
    [
        Rule("deny", argument="path", when=Glob("**/.git/**", "**/.env", "**/*.pem")),
        Rule("deny", argument="path", when=Regex(r".*\.(exe|dll|so)")),
        Rule("ask", argument="mode", when=Equals("overwrite")),
        Rule("ask", argument="executable", when=Equals(_YES)),
        Rule("deny", argument="content", when=Search("BEGIN [A-Z ]*PRIVATE KEY")),
        Rule("deny", argument="table", when=Prefix("pg_", "sqlite_")),
        Rule("ask", argument="on_conflict", when=Equals("replace")),
        Rule("deny", argument="batch", when=Between(above=10_000)),
        Rule("deny", argument=("rows", "*", "id"), when=Between(below=0)),
        Rule("deny", argument=("rows", "*", "name"), when=Search("(?i)drop table")),
        Rule("deny", argument=("rows", "*", "score"), when=Between(above=1000)),
        Rule("deny", argument=("rows", "*", "tags", "*"), when=Equals("internal")),
    ],
    default="allow",
)
"""None of them matches, so that all of them are evaluated to the end."""


def _file_text(size: int) -> str:
    head = {"path": "src/app.py", "mode": "create", "executable": False, "encoding": "utf-8"}
    return write({**head, "content": code(random.Random(2), size)})


def _rows_text(size: int) -> str:
    head = {"table": "customers", "on_conflict": "skip", "dry_run": False, "batch": 500}
    return write({**head, "rows": rows(size)})


def _many_text(size: int) -> str:
    head = {f"state_{i}": "open" for i in range(20)} | {f"count_{i}": i for i in range(20)}
    return write({**head, **{f"list_{i}": rows(size // 10) for i in range(10)}})


@dataclass(frozen=True)
class _Check:
    """A text that is right, with the schema or the rules that it is checked by."""

    name: str
    text: Callable[[int], str]
    schema: dict[str, Any] | None = None
    at_most: float | None = None
    """The budget of parsing and checking, as a multiple of parsing alone."""


_CHECKS = [
    _Check("schema, 5 properties, a long string", _file_text, _WRITE_FILE, at_most=1.5),
    _Check("schema, 5 properties, rows", _rows_text, _INSERT_ROWS, at_most=1.5),
    _Check("schema, 50 properties, nested arrays", _many_text, _MANY, at_most=3.0),
    _Check("12 rules, a long string", _file_text),
    _Check("12 rules, rows", _rows_text),
]
_ALONE, _CHECKED = "parser alone", "with the check"


def _costs(*, quick: bool) -> Table:
    small, middle, large = (2_000, 5_000, 20_000) if quick else (10_000, 100_000, 1_000_000)
    jobs, growing = [], []
    for check in _CHECKS:
        _demand_right(check, check.text(middle))
        open_ = _opener(check)
        jobs.append(Job(_ALONE, check.name, partial(_read, check.text(middle), None)))
        jobs.append(Job(_CHECKED, check.name, partial(_read, check.text(middle), open_)))
        growing += [
            Job(size_name(size), check.name, partial(_read, check.text(size), open_))
            for size in (small, large)
        ]
    found = take_turns(jobs, rounds=1 if quick else 7)
    growth = take_turns(growing, rounds=1 if quick else 3)
    cells: list[list[Cell]] = []
    for check in _CHECKS:
        alone, checked = found[_ALONE, check.name], found[_CHECKED, check.name]
        grown = growth[size_name(large), check.name] / growth[size_name(small), check.name]
        costs = [microseconds(alone), microseconds(checked), times(checked / alone, check.at_most)]
        cells.append([check.name, *costs, times(grown, _MOST_GROWTH)])
    sizes = f"{size_name(large)} / {size_name(small)}"
    return Table(["check", "alone, µs", "checked, µs", "ratio", sizes], cells)


def _demand_right(check: _Check, text: str) -> None:
    tools = [ToolSpec(TOOL, schema=check.schema)] if check.schema else None
    policy = None if check.schema else _RULES
    events = stream(anthropic_call(chunks(text)), tools=tools, policy=policy, on_ask="report")
    if any(isinstance(event, ToolArgsInvalid) for event in events):
        sys.exit(f"{check.name}: a call that is right was rejected")


def _opener(check: _Check) -> Callable[[], Any]:
    """Return what makes the check of one call; the schema is compiled once."""
    return Schema(check.schema).check if check.schema else partial(_RULES.open, TOOL)


def _read(text: str, open_: Callable[[], Any] | None) -> float:
    pieces = chunks(text)

    def work() -> None:
        feed, check = Parser(unique_keys=True).feed, open_().feed if open_ else None
        if check is None:
            for piece in pieces:
                feed(piece)
        else:
            for piece in pieces:
                check(feed(piece))

    return cpu_time(work, len(pieces))
