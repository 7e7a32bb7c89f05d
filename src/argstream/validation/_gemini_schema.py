"""The schemas of Gemini's ``parameters``, a subset of OpenAPI 3.0, as JSON Schema 2020-12.

Types are written large, null is allowed by ``nullable``, whole numbers may come as strings (that is
how protobuf writes them in JSON), and names may be in snake_case. What is JSON Schema already stays
as it is, apart from ``nullable``. Nothing becomes stricter than what Gemini was told.
"""

from collections.abc import Mapping
from typing import Any, Final

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


def json_schema_of(parameters: Any) -> Any:
    """Translate a schema, and all that it contains."""
    if not isinstance(parameters, Mapping):
        return parameters
    told: Mapping[str, Any] = parameters
    found: dict[str, Any] = {}
    for name, value in told.items():
        keyword = _SPELLINGS.get(name, name)
        if name not in _LEFT_OUT and (value is not None or name == "const"):
            found[keyword] = _translated(keyword, value)
    _mend_type(found)
    _mend_enum(found)
    return _with_null(found) if told.get("nullable") is True else found


def _translated(keyword: str, value: Any) -> Any:
    if keyword in _SCHEMAS:
        return json_schema_of(value)
    if keyword in _LISTS and isinstance(value, list | tuple):
        return [json_schema_of(one) for one in value]
    if keyword in _MAPS and isinstance(value, Mapping):
        return {name: json_schema_of(one) for name, one in value.items()}
    if keyword in _COUNTS and isinstance(value, str):
        number = _number(value)
        return value if number is None else number
    if keyword == "$ref" and isinstance(value, str) and value.startswith("#/defs/"):
        return f"#/$defs/{value.removeprefix('#/defs/')}"
    return value


def _mend_type(schema: dict[str, Any]) -> None:
    told = schema.pop("type", None)
    types = [told] if isinstance(told, str) else list(told or ())
    known = [
        str(getattr(one, "value", one)).lower()  # the SDK's is an enum
        for one in types
    ]
    if "type_unspecified" not in known and known:
        schema["type"] = known[0] if isinstance(told, str) else known
    if schema.get("format") == "enum":
        del schema["format"]


def _mend_enum(schema: dict[str, Any]) -> None:
    """Read the values of an enum of numbers: Gemini writes all of them as strings."""
    values = schema.get("enum")
    if not isinstance(values, list | tuple) or schema.get("type") in (None, "string"):
        return
    read = [_number(value) if isinstance(value, str) else value for value in values]
    if schema["type"] in ("integer", "number") and None not in read:
        schema["enum"] = read
    elif any(isinstance(value, str) for value in values) and "string" not in schema["type"]:
        del schema["enum"]  # no value of the type could be among them


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    types = schema.get("type")
    if types is not None:
        known = types if isinstance(types, list) else [types]
        schema["type"] = known if "null" in known else [*known, "null"]
    if "enum" in schema and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    if "anyOf" in schema:
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    return schema


def _number(text: str) -> int | float | None:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return None
