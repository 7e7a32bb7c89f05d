"""Gemini's own schemas mean the same as JSON Schema, never more."""

from typing import Any

import jsonschema_rs
import pytest

from argstream.errors import SchemaError
from argstream.validation import Schema, ToolSpec


def translated(parameters: dict[str, Any]) -> Any:
    return ToolSpec.of({"functionDeclarations": [{"name": "f", "parameters": parameters}]}).schema


PET, NULL = {"$ref": "#/$defs/Pet"}, {"type": "null"}
EITHER = [{"type": "string"}, {"type": "integer"}]
ARRAY = {"type": "ARRAY", "minItems": "1", "max_items": 3, "items": {"type": "NUMBER"}}
TRANSLATED_ARRAY = {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "number"}}


@pytest.mark.parametrize(
    ("gemini", "expected"),
    [
        ({"type": "STRING"}, {"type": "string"}),
        ({"type": "string"}, {"type": "string"}),
        ({"type": "TYPE_UNSPECIFIED"}, {}),
        ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "STRING", "nullable": False}, {"type": "string"}),
        ({"type": "STRING", "format": "enum", "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
        (
            {"type": "STRING", "enum": ["a"], "nullable": True},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        ({"type": "INTEGER", "format": "enum", "enum": ["1"]}, {"type": "integer", "enum": [1]}),
        ({"type": "NUMBER", "enum": ["0.5"]}, {"type": "number", "enum": [0.5]}),
        ({"type": "BOOLEAN", "enum": ["true"]}, {"type": "boolean"}),
        (ARRAY, TRANSLATED_ARRAY),
        ({"type": "STRING", "example": "x", "title": "T"}, {"type": "string", "title": "T"}),
        ({"any_of": EITHER, "nullable": True}, {"anyOf": [*EITHER, NULL]}),
        ({"ref": "#/defs/Pet"}, PET),
        ({**PET, "nullable": True}, {"anyOf": [PET, NULL]}),
        ({"additional_properties": False}, {"additionalProperties": False}),
    ],
)
def test_property_is_translated(gemini: dict[str, Any], expected: dict[str, Any]) -> None:
    pets = {"Pet": {"type": "STRING"}}
    schema = translated({"type": "OBJECT", "properties": {"p": gemini}, "defs": pets})
    assert schema["properties"]["p"] == expected
    jsonschema_rs.meta.validate(schema)
    jsonschema_rs.validator_for(schema)


def test_property_may_have_the_name_of_a_keyword() -> None:
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
def test_order_of_properties_is_kept(spelling: str) -> None:
    schema = translated({"type": "OBJECT", spelling: ["b", "a"]})
    assert schema == {"type": "object", "propertyOrdering": ["b", "a"]}


def test_json_schema_is_unchanged() -> None:
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


WRONG: list[Any] = [
    *({"type": 5}, {"type": [5]}, {"type": []}, {"properties": 5}, {"items": 5}),
    *({"type": 5, "nullable": True, "enum": ["1"]}, {"type": {"a": 1}, "enum": ["1"]}),
    *({"nullable": True, "anyOf": 3}, {"nullable": True, "enum": 5}),
]


def test_malformed_part_is_kept_and_refused_when_compiled() -> None:
    for wrong in WRONG:
        for schema in (wrong, {"properties": {"p": wrong}}):
            with pytest.raises(SchemaError):
                Schema(translated(schema))


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "STRING"}
    for _ in range(levels):
        schema = {"type": "ARRAY", "items": schema}
    return schema


def test_deepest_allowed_schema_is_translated_and_deeper_ones_are_refused() -> None:
    assert Schema(translated(deep(199))).is_valid([[["text"]]]) is False
    assert Schema(translated(deep(199))).is_valid([])
    endless: dict[str, Any] = {"type": "OBJECT"}
    endless["anyOf"] = [endless, endless]
    for schema in (deep(200), deep(5_000), endless):
        with pytest.raises(SchemaError, match="nested too deeply"):
            Schema(translated(schema))
