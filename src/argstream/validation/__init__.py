"""JSON Schema while a call is written, tools in every provider's format, typed arguments."""

from argstream.errors import SchemaError
from argstream.validation.check import SchemaCheck, SchemaVerdict
from argstream.validation.limits import SchemaLimits
from argstream.validation.schema import Schema

__all__ = ["Schema", "SchemaCheck", "SchemaError", "SchemaLimits", "SchemaVerdict"]
