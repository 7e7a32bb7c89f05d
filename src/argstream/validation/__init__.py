"""JSON Schema while a call is written, tools in every provider's format, typed arguments."""

from argstream.errors import SchemaError
from argstream.validation.check import SchemaCheck, SchemaVerdict
from argstream.validation.limits import SchemaLimits
from argstream.validation.order import Finding, lint
from argstream.validation.schema import Schema
from argstream.validation.tools import ToolSpec, load_tools, tool_specs
from argstream.validation.views import TypedArguments, typed

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
