"""Checks calls by JSON Schema while they are written; tool formats; typed arguments."""

from argstream.errors import SchemaError
from argstream.validation._dialects import SchemaLimits
from argstream.validation._schema import Schema, SchemaCheck, SchemaVerdict
from argstream.validation._tools import ToolSpec, load_tools, tool_specs
from argstream.validation._typed import TypedArguments, typed
from argstream.validation.lint import Finding, lint

__all__ = [
    "Finding",
    "Schema",
    "SchemaCheck",
    "SchemaError",
    "SchemaLimits",
    "SchemaVerdict",
    "ToolSpec",
    "TypedArguments",
    "lint",
    "load_tools",
    "tool_specs",
    "typed",
]
