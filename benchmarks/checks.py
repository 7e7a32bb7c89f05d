"""Checks while a call is written: how early a wrong call is rejected, and what checking costs."""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from argstream import Policy, ToolArgsInvalid, stream
from argstream.jsonstream import Parser
from argstream.policy import Between, Equals, Glob, Prefix, Regex, Rule, Search
from argstream.validation import Schema, ToolSpec
from report import Cell, Chapter, Table, microseconds, number, percent, size_name, times
from timing import Job, cpu_time, take_turns
from workloads import TAGS, TOOL, anthropic_call, chunks, code, rows, write

_MOST_GROWTH = 1.25
_YES = True
_STRING, _INTEGER, _BOOLEAN = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has these properties and no others."""
    bounds = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties, **bounds}


def _short(length: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": length}


def _list(items: dict[str, Any], **bounds: int) -> dict[str, Any]:
    return {"type": "array", "items": items, **bounds}


def measure(*, quick: bool = False) -> Chapter:
    """Measure both."""
    return Chapter(
        "Checks while a call is written",
        "*Read*: how many characters of the arguments had arrived when a wrong call was "
        "rejected. *Long text first*: the share if the longest argument comes first. The second "
        "table has the time per chunk of the parser alone, and with the check.",
        [_earliness(), _costs(quick=quick)],
    )


_MODE = {"enum": ["create", "overwrite", "append"]}
_EDITS = _list(_closed({"old": _STRING, "new": _STRING}), maxItems=10)
_EARLY_SCHEMAS: dict[str, dict[str, Any]] = {
    "write_file": {"path": _short(200), "mode": _MODE, "content": _short(20_000)},
    "edit_file": {"path": _STRING, "edits": _EDITS},
}
_EARLY_TOOLS = [ToolSpec(name, schema=_closed(of)) for name, of in _EARLY_SCHEMAS.items()]
_NOT_IN_ETC = Rule("deny", tool="write_file", argument="path", when=Prefix("/etc/"))
_EARLY_RULES = Policy([_NOT_IN_ETC], default="allow")


def _wrong_calls() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return calls as models get them wrong, with texts of a common length."""
    choose = random.Random(20)
    file = {"path": "src/app.py", "mode": "create", "content": code(choose, 4000)}
    edits = [{"old": code(choose, 120), "new": code(choose, 160)} for _ in range(15)]
    renamed = [*edits[:2], {"old_string": edits[2]["old"], "new": edits[2]["new"]}, *edits[3:8]]
    return {
        "path under /etc/": ("write_file", {**file, "path": "/etc/cron.d/backup"}),
        "mode is not in the enum": ("write_file", {**file, "mode": "write"}),
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


_WRITE_FILE = _closed({
    "path": _short(4096), "mode": _MODE, "executable": _BOOLEAN,
    "encoding": {"enum": ["utf-8", "latin-1", "ascii"]}, "content": _STRING,
})  # fmt: skip
_ROW = _closed({
    "id": _INTEGER, "name": _STRING, "score": {"type": "number"}, "active": _BOOLEAN,
    "tags": _list({"enum": TAGS}),
})  # fmt: skip
_INSERT_ROWS = _closed({
    "table": _short(64), "on_conflict": {"enum": ["fail", "skip", "replace"]},
    "dry_run": _BOOLEAN, "batch": _INTEGER, "rows": _list(_ROW),
})  # fmt: skip

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
    at_most: float | None = None  # times parsing alone


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
        open_: Any = partial(_RULES.open, TOOL)
        if check.schema:
            open_ = Schema(check.schema).check  # compiled once
        jobs.append(Job(_ALONE, check.name, partial(_read, check.text(middle), None)))
        jobs.append(Job(_CHECKED, check.name, partial(_read, check.text(middle), open_)))
        for size in (small, large):
            read = partial(_read, check.text(size), open_)
            growing.append(Job(size_name(size), check.name, read))
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
