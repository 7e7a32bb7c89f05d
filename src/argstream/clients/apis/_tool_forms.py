"""Tools as an API wants to see them: their schemas, and whether one can be strict."""

from collections.abc import Mapping
from typing import Any, Final

from argstream.clients.request import OfferedTool
from argstream.errors import UsageError

__all__ = ["is_strict", "schema_of"]

# What structured outputs understand, of which none changes the meaning of another.
_STRICT_KEYWORDS: Final = {
    "type",
    "title",
    "description",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
    "enum",
    "const",
    "$defs",
    "$ref",
}


def schema_of(tool: OfferedTool) -> dict[str, Any]:
    """Give the schema of a tool's arguments. All APIs want it to say that they are an object."""
    schema = dict(tool.schema)
    if schema.setdefault("type", "object") != "object":
        raise UsageError(
            f'the schema of the tool {tool.name!r} must have "type": "object", not '
            f"{schema['type']!r}: arguments have names"
        )
    if "$ref" not in schema:
        schema.setdefault("properties", {})  # OpenAI refuses a schema without
    return schema


def is_strict(schema: object) -> bool:
    """Say whether OpenAI takes a schema as strict: each object says all that it has, and no more.

    In doubt it is not: what is not strict is taken in any case.
    """
    if not isinstance(schema, Mapping) or schema.keys() - _STRICT_KEYWORDS:
        return False
    properties = schema.get("properties")
    if schema.get("type") == "object" or properties is not None:
        if not isinstance(properties, Mapping) or schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required") or ()) != set(properties):
            return False
    below = [*(properties or {}).values(), *(schema.get("$defs") or {}).values()]
    below += schema.get("anyOf") or []
    if "items" in schema:
        below.append(schema["items"])
    elif schema.get("type") == "array":
        return False
    return all(map(is_strict, below))
