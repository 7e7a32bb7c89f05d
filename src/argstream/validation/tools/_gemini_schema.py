"""The schemas of Gemini's ``parameters``, a subset of OpenAPI 3.0, as JSON Schema 2020-12.

Types are written large, null is allowed by ``nullable``, whole numbers may come as strings (that is
how protobuf writes them in JSON), and names may be in snake_case. What is JSON Schema already stays
as it is, apart from ``nullable``. Nothing becomes stricter than what Gemini was told.
"""

from collections.abc import Mapping
from typing import Any, Final

from argstream.validation.limits import DEFAULT_SCHEMA_LIMITS

__all__ = ["json_schema_of"]

_SPELLINGS: Final[dict[str, str]] = {
    "additional_properties": "additionalProperties",
    "any_of": "anyOf",
    "max_items": "maxItems",
    "max_length": "maxLength",
    "max_properties": "maxProperties",
    "min_items": "minItems",
    "property_ordering": "propertyOrdering",  # no keyword of JSON Schema, but the lint wants it
    "min_length": "minLength",
    "min_properties": "minProperties",
    "prefix_items": "prefixItems",
    "defs": "$defs",
    "ref": "$ref",
}
_LEFT_OUT: Final = {"nullable", "example"}  # "example" is OpenAPI's
_COUNTS: Final = {
    *("maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"),
    *("maximum", "minimum"),
}
_SCHEMAS: Final = {"items", "additionalProperties", "not"}
_LISTS: Final = {"anyOf", "allOf", "oneOf", "prefixItems"}
_MAPS: Final = {"properties", "$defs", "definitions", "patternProperties"}


class _TooDeep(Exception):  # noqa: N818 - it says what is the case
    """The schema is nested more deeply than any that can be used."""


def json_schema_of(parameters: Any) -> Any:
    """Translate a schema, and all that it contains.

    What has a wrong form is left as it is, and so is all of a schema that is nested too deeply, or
    in itself: whoever compiles it says what is wrong.
    """
    try:
        return _schema(parameters, 0)
    except _TooDeep:
        return parameters


def _schema(schema: Any, depth: int) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    if depth >= DEFAULT_SCHEMA_LIMITS.max_depth:
        raise _TooDeep
    told: Mapping[str, Any] = schema
    found: dict[str, Any] = {}
    for name, value in told.items():
        keyword = _SPELLINGS.get(name, name)
        if name not in _LEFT_OUT and (value is not None or name == "const"):
            found[keyword] = _translated(keyword, value, depth + 1)
    _mend_type(found)
    _mend_enum(found)
    return _with_null(found) if told.get("nullable") is True else found


def _translated(keyword: str, value: Any, depth: int) -> Any:
    if keyword in _SCHEMAS:
        return _schema(value, depth)
    if keyword in _LISTS and isinstance(value, list | tuple):
        return [_schema(one, depth + 1) for one in value]
    if keyword in _MAPS and isinstance(value, Mapping):
        return {name: _schema(one, depth + 1) for name, one in value.items()}
    if keyword in _COUNTS and isinstance(value, str):
        number = _number(value)
        return value if number is None else number
    if keyword == "$ref" and isinstance(value, str) and value.startswith("#/defs/"):
        return f"#/$defs/{value.removeprefix('#/defs/')}"
    return value


def _mend_type(schema: dict[str, Any]) -> None:
    told = schema.get("type")
    if isinstance(told, str):
        schema["type"] = _type(told)
    elif isinstance(told, list | tuple):
        schema["type"] = [_type(one) for one in told]
    if "type_unspecified" in _types(schema):
        del schema["type"]
    if schema.get("format") == "enum":
        del schema["format"]


def _type(told: Any) -> Any:
    name = getattr(told, "value", told)  # the SDK's is an enum
    return name.lower() if isinstance(name, str) else told


def _mend_enum(schema: dict[str, Any]) -> None:
    """Read the values of an enum of numbers: Gemini writes all of them as strings."""
    values = schema.get("enum")
    types = _types(schema)
    if not isinstance(values, list | tuple) or types in ([], ["string"]):
        return
    read = [_number(value) if isinstance(value, str) else value for value in values]
    if types in (["integer"], ["number"]) and None not in read:
        schema["enum"] = read
    elif any(isinstance(value, str) for value in values) and "string" not in types:
        del schema["enum"]  # no value of the type could be among them


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    types = _types(schema)
    if types and "null" not in types:
        schema["type"] = [*types, "null"]
    for keyword, null in (("enum", None), ("anyOf", {"type": "null"})):
        told = schema.get(keyword)
        if isinstance(told, list | tuple) and null not in told:
            schema[keyword] = [*told, null]
    return schema


def _types(schema: dict[str, Any]) -> list[Any]:
    """Give the types that a schema names; none if what stands there is of no use."""
    told = schema.get("type")
    if isinstance(told, str):
        return [told]
    return told if isinstance(told, list) else []


def _number(text: str) -> int | float | None:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return None
