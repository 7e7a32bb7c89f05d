"""Gemini's own schemas mean the same as JSON Schema, never more."""

from typing import Any

import jsonschema_rs
import pytest

from argstream.errors import SchemaError
from argstream.validation import Schema, ToolSpec


def translated(parameters: dict[str, Any]) -> Any:
    return ToolSpec.of({"functionDeclarations": [{"name": "f", "parameters": parameters}]}).schema


@pytest.mark.parametrize(
    ("gemini", "expected"),
    [
        ({"type": "STRING"}, {"type": "string"}),
        ({"type": "string"}, {"type": "string"}),
        ({"type": "TYPE_UNSPECIFIED"}, {}),
        ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "STRING", "nullable": False}, {"type": "string"}),
        (
            {"type": "STRING", "format": "enum", "enum": ["a", "b"]},
            {"type": "string", "enum": ["a", "b"]},
        ),
        (
            {"type": "STRING", "enum": ["a"], "nullable": True},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            {"type": "INTEGER", "format": "enum", "enum": ["101", "201"]},
            {"type": "integer", "enum": [101, 201]},
        ),
        ({"type": "NUMBER", "enum": ["0.5"]}, {"type": "number", "enum": [0.5]}),
        ({"type": "BOOLEAN", "enum": ["true"]}, {"type": "boolean"}),
        (
            {"type": "ARRAY", "minItems": "1", "max_items": 3, "items": {"type": "NUMBER"}},
            {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "number"}},
        ),
        ({"type": "STRING", "example": "x", "title": "T"}, {"type": "string", "title": "T"}),
        (
            {"any_of": [{"type": "STRING"}, {"type": "INTEGER"}], "nullable": True},
            {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        ),
        ({"ref": "#/defs/Pet"}, {"$ref": "#/$defs/Pet"}),
        (
            {"$ref": "#/$defs/Pet", "nullable": True},
            {"anyOf": [{"$ref": "#/$defs/Pet"}, {"type": "null"}]},
        ),
        (
            {"type": "OBJECT", "additional_properties": False},
            {"type": "object", "additionalProperties": False},
        ),
    ],
)
def test_a_property(gemini: dict[str, Any], expected: dict[str, Any]) -> None:
    pets = {"Pet": {"type": "STRING"}}
    schema = translated({"type": "OBJECT", "properties": {"p": gemini}, "defs": pets})
    assert schema["properties"]["p"] == expected
    jsonschema_rs.meta.validate(schema)
    jsonschema_rs.validator_for(schema)


def test_properties_may_be_called_like_keywords() -> None:
    properties = {
        "type": {"type": "STRING"},
        "nullable": {"type": "BOOLEAN"},
        "any_of": {"type": "ARRAY", "items": {"type": "STRING"}},
        "example": {"type": "STRING"},
    }
    schema = translated({"type": "OBJECT", "properties": properties, "required": ["example"]})
    assert list(schema["properties"]) == list(properties)
    assert schema["required"] == ["example"]


@pytest.mark.parametrize("spelling", ["propertyOrdering", "property_ordering"])
def test_the_order_of_properties_is_kept_for_those_who_look_at_it(spelling: str) -> None:
    schema = translated({"type": "OBJECT", spelling: ["b", "a"]})
    assert schema == {"type": "object", "propertyOrdering": ["b", "a"]}


def test_json_schema_stays_what_it_is() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "integer"], "enum": ["x", 1]},
            "b": {"const": None},
            "c": {"oneOf": [{"type": "integer", "enum": [1, 2]}, {"type": "null"}]},
        },
        "patternProperties": {"^x": {"not": {"type": "string"}}},
        "additionalProperties": False,
    }
    assert translated(schema) == schema


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": 5},
        {"type": [5]},
        {"type": []},
        {"type": 5, "nullable": True, "enum": ["1"]},
        {"type": {"a": 1}, "enum": ["1"]},
        {"nullable": True, "anyOf": 3},
        {"nullable": True, "enum": 5},
        {"properties": 5},
        {"items": 5},
    ],
)
def test_what_has_a_wrong_form_stays_so_and_is_refused_later(wrong: dict[str, Any]) -> None:
    for schema in (wrong, {"properties": {"p": wrong}}):
        with pytest.raises(SchemaError):
            Schema(translated(schema))


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "STRING"}
    for _ in range(levels):
        schema = {"type": "ARRAY", "items": schema}
    return schema


def test_as_deep_as_a_schema_may_be_it_is_translated() -> None:
    assert Schema(translated(deep(199))).is_valid([[["text"]]]) is False
    assert Schema(translated(deep(199))).is_valid([])


def test_what_is_nested_too_deeply_or_in_itself_is_refused_later() -> None:
    endless: dict[str, Any] = {"type": "OBJECT"}
    endless["anyOf"] = [endless, endless]
    for schema in (deep(200), deep(5_000), endless):
        with pytest.raises(SchemaError, match="nested too deeply"):
            Schema(translated(schema))
