"""What is judged while it is written: arguments of five shapes, and the schemas that they fit."""

import random
from collections.abc import Callable
from typing import Any

from workloads import TAGS, code, rows_of, write

_STRING = {"type": "string"}
_SHORT = {"type": "string", "maxLength": 200}
_INTEGER = {"type": "integer"}
_BOOLEAN = {"type": "boolean"}

_PRIORITIES = ["low", "normal", "high", "urgent"]
_STATES = ["draft", "open", "in_progress", "blocked", "done"]
_CURRENCIES = ["EUR", "USD", "GBP", "JPY", "CHF"]
_UNITS = ["piece", "kg", "m", "hour"]
_DEEPEST = 8  # folders in folders


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """Describe an object that has these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


WRITE_FILE = closed(
    {
        "path": {"type": "string", "maxLength": 4096},
        "mode": {"enum": ["create", "overwrite", "append"]},
        "executable": _BOOLEAN,
        "encoding": {"enum": ["utf-8", "latin-1", "ascii"]},
        "content": _STRING,
    },
    "path",
    "content",
)
"""Five properties, of which one is long."""

WRITE_BOUNDED_FILE = closed(
    {**WRITE_FILE["properties"], "content": {"type": "string", "maxLength": 10_000_000}},
    "path",
    "content",
)
"""The same, with a bound for the long one, so that its characters must be counted."""

_ROW = closed(
    {
        "id": _INTEGER,
        "name": _STRING,
        "score": {"type": "number"},
        "active": _BOOLEAN,
        "tags": {"type": "array", "items": {"enum": TAGS}},
    },
    "id",
    "name",
)
INSERT_ROWS = closed(
    {
        "table": {"type": "string", "maxLength": 64},
        "on_conflict": {"enum": ["fail", "skip", "replace"]},
        "dry_run": _BOOLEAN,
        "batch": _INTEGER,
        "rows": {"type": "array", "items": _ROW},
    },
    "table",
    "rows",
)
"""Five properties, of which one is a table."""

_ENUMS = {
    "priority": _PRIORITIES, "state": _STATES, "currency": _CURRENCIES, "unit": _UNITS,
    "channel": ["web", "phone", "shop"], "language": ["en", "de", "fr", "ja"],
    "payment": ["card", "invoice", "transfer"], "carrier": ["post", "courier", "pickup"],
    "segment": ["retail", "wholesale", "public"], "source": ["crm", "import", "agent"],
}  # fmt: skip
_SHORT_TEXTS = [
    "reference", "title", "customer", "contact", "street", "city", "region", "note", "signed_by",
    "project",
]  # fmt: skip
_COUNTS = [
    "number", "version", "year", "month", "day", "quantity", "attempts", "pages", "seats", "level",
]  # fmt: skip
_FLAGS = ["confirmed", "archived", "taxable", "gift", "insured"]
_AMOUNTS = ["net", "tax", "gross", "discount", "weight"]
_LISTS = [
    "items", "parts", "payments", "shipments", "returns", "tasks", "visits", "meetings", "notes",
    "changes",
]  # fmt: skip

_ENTRY = closed(
    {
        "id": {"type": "integer", "minimum": 1},
        "state": {"enum": _STATES},
        "title": _SHORT,
        "amount": {"type": "number", "minimum": 0, "maximum": 1_000_000},
        "due": {"type": "string", "pattern": "^\\d{4}-\\d\\d-\\d\\d$"},
        "labels": {"type": "array", "items": {"enum": _PRIORITIES + _UNITS}, "maxItems": 5},
        "steps": {
            "type": "array",
            "items": closed(
                {"count": _INTEGER, "unit": {"enum": _UNITS}, "done": _BOOLEAN}, "count", "unit"
            ),
            "maxItems": 20,
        },
    },
    "id",
    "state",
    "title",
)
SAVE_ORDER = closed(
    {
        **{name: {"enum": values} for name, values in _ENUMS.items()},
        **dict.fromkeys(_SHORT_TEXTS, _SHORT),
        **{name: {"type": "integer", "minimum": 0, "maximum": 100_000} for name in _COUNTS},
        **dict.fromkeys(_FLAGS, _BOOLEAN),
        **{name: {"type": "number", "minimum": 0} for name in _AMOUNTS},
        **{name: {"type": "array", "items": _ENTRY, "maxItems": 10_000} for name in _LISTS},
    },
    "reference",
    "state",
    "items",
)
"""Fifty properties, of which ten are arrays of objects with arrays in them."""

_ACTIONS = {
    "click": {"x": _INTEGER, "y": _INTEGER},
    "type": {"text": _STRING},
    "scroll": {"x": _INTEGER, "y": _INTEGER, "by": _INTEGER},
    "wait": {"seconds": {"type": "number"}},
    "open": {"url": _STRING},
}
DO_ACTIONS = closed(
    {
        "actions": {
            "type": "array",
            "items": {
                "anyOf": [
                    closed({"kind": {"const": kind}, **properties}, "kind", *properties)
                    for kind, properties in _ACTIONS.items()
                ]
            },
        }
    },
    "actions",
)
"""A list of what is one of five forms, told apart by its first property."""

MAKE_TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": closed(
            {
                "name": _STRING,
                "size": _INTEGER,
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "name",
        )
    },
}
"""A tree: its schema refers to itself."""


def write_file(size: int) -> object:
    """Give the arguments for ``WRITE_FILE``."""
    content = code(random.Random(2), size)
    head = {"path": "src/app.py", "mode": "create", "executable": False, "encoding": "utf-8"}
    return {**head, "content": content}


def insert_rows(size: int) -> object:
    """Give the arguments for ``INSERT_ROWS``."""
    head = {"table": "customers", "on_conflict": "skip", "dry_run": False, "batch": 500}
    return {**head, "rows": rows_of(size)}


def save_order(size: int) -> object:
    """Give the arguments for ``SAVE_ORDER``."""
    choose = random.Random(8)
    arguments: dict[str, Any] = {
        **{name: choose.choice(values) for name, values in _ENUMS.items()},
        **{name: _title(choose) for name in _SHORT_TEXTS},
        **{name: choose.randint(0, 5000) for name in _COUNTS},
        **{name: choose.random() < 0.5 for name in _FLAGS},
        **{name: round(choose.uniform(0, 1000), 2) for name in _AMOUNTS},
    }
    length = len(write(arguments))
    for number, name in enumerate(_LISTS, 1):
        entries = arguments[name] = []
        while length < size * number // len(_LISTS):
            entry = _entry(choose, len(entries) + 1)
            length += len(write(entry)) + 2
            entries.append(entry)
    return arguments


def _entry(choose: random.Random, number: int) -> dict[str, object]:
    return {
        "id": number,
        "state": choose.choice(_STATES),
        "title": _title(choose),
        "amount": round(choose.uniform(0, 1000), 2),
        "due": f"2026-{choose.randint(10, 12)}-{choose.randint(10, 28)}",
        "labels": choose.sample(_PRIORITIES + _UNITS, choose.randint(0, 3)),
        "steps": [
            {
                "count": choose.randint(1, 99),
                "unit": choose.choice(_UNITS),
                "done": choose.random() < 0.5,
            }
            for _ in range(choose.randint(0, 3))
        ],
    }


def _title(choose: random.Random) -> str:
    return code(choose, 20).strip()


def do_actions(size: int) -> object:
    """Give the arguments for ``DO_ACTIONS``."""
    choose = random.Random(9)
    values: dict[str, Callable[[], object]] = {
        "x": lambda: choose.randint(0, 1920),
        "y": lambda: choose.randint(0, 1080),
        "by": lambda: choose.randint(-500, 500),
        "text": lambda: _title(choose),
        "seconds": lambda: round(choose.uniform(0, 5), 1),
        "url": lambda: f"https://example.com/{choose.randint(1, 999)}",
    }
    actions: list[object] = []
    length = 0
    while length < size:
        kind = choose.choice(list(_ACTIONS))
        action = {"kind": kind, **{name: values[name]() for name in _ACTIONS[kind]}}
        length += len(write(action)) + 2
        actions.append(action)
    return {"actions": actions}


def make_tree(size: int) -> object:
    """Give the arguments for ``MAKE_TREE``."""
    choose = random.Random(10)
    root: dict[str, Any] = {"name": "/", "size": 0, "children": []}
    folders = [(root, 0)]
    length = 0
    while length < size:
        parent, depth = choose.choice(folders)
        node: dict[str, Any] = {"name": _title(choose)[:12], "size": choose.randint(0, 99_999)}
        parent["children"].append(node)
        if depth < _DEEPEST and choose.random() < 0.3:
            node["children"] = []
            folders.append((node, depth + 1))
        length += len(write(node)) + 2
    return root
