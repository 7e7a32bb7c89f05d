"""Whether what stands for a schema says anything: JSON Schema ignores what it does not know.

So bare properties, or a schema inside another object, would be a schema that allows everything. It
is refused if it has no keyword at all and looks as if it meant something.
"""

from collections.abc import Mapping
from typing import Any, Final

from argstream.errors import UsageError

__all__ = ["JSON_TYPES", "bare_schema", "refuse_what_says_nothing"]

JSON_TYPES: Final = {"object", "array", "string", "number", "integer", "boolean", "null"}

_OF_OBJECTS: Final = {
    *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"),
    *("propertyNames", "dependentSchemas", "dependentRequired", "additional_properties"),
    *("additionalItems", "unevaluatedItems", "contentSchema"),
}
"""Keywords that are no word of any other language, so whoever uses one means it."""
_NO_OBJECTS: Final = {
    *("type", "enum", "title", "description", "format", "pattern", "required", "id", "nullable"),
    *("allOf", "anyOf", "oneOf", "any_of", "prefixItems", "prefix_items", "ref", "examples"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems"),
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("min_length", "max_length", "min_items", "max_items", "min_properties", "max_properties"),
    *("minContains", "maxContains", "contentEncoding", "contentMediaType"),
    *("readOnly", "writeOnly", "deprecated", "propertyOrdering", "property_ordering"),
}
"""Keywords whose value is never an object: with one, it is the name of a property."""
_EITHER: Final = {
    *("items", "contains", "not", "if", "then", "else", "default", "const", "example"),
    *("definitions", "defs", "dependencies", "discriminator", "xml", "externalDocs"),
}
"""Keywords that may as well be names of properties: they decide nothing."""
_BESIDE: Final = ("properties", "patternProperties", "additionalProperties", "required")
_PYTHON_TYPES: Final = {"str", "int", "float", "bool", "list", "dict"}


def bare_schema(tool: Mapping[str, Any]) -> str | None:
    """Find what of a tool is of a JSON Schema, as if that and the tool were one."""
    told = tool.get("type")
    if isinstance(told, str) and told.lower() in JSON_TYPES:
        return "type"
    for keyword in (*_BESIDE, "anyOf", "oneOf", "allOf", "$ref", "$defs", "$schema"):
        value = tool.get(keyword)
        if isinstance(value, Mapping | list | tuple) or (keyword[0] == "$" and value is not None):
            return keyword
    return None


def refuse_what_says_nothing(schema: Mapping[Any, Any], where: str) -> None:
    """Raise UsageError for what is no schema, but would count as one that allows everything."""
    strange: str | None = None
    for key, value in schema.items():
        if not isinstance(key, str) or value is None or key in _EITHER:
            continue
        is_object = isinstance(value, Mapping)
        if key.startswith("$") or key in _OF_OBJECTS or (key in _NO_OBJECTS and not is_object):
            return
        if strange is None and not key.startswith(("x-", "_")) and _means_something(value):
            strange = key
    if strange is not None:
        raise UsageError(
            f"{where}: its schema has {strange!r}, and no keyword of JSON Schema, so it would allow"
            ' everything: give {"type": "object", "properties": {…}} itself'
        )


def _means_something(value: object) -> bool:
    if isinstance(value, str):
        return value.lower() in JSON_TYPES or value in _PYTHON_TYPES
    return isinstance(value, Mapping | type)
