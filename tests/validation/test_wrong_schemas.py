"""Schemas that cannot be used are refused when they are compiled. Nothing is ever fetched."""

import json
import math
import socket
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.errors import SchemaError
from argstream.testing import cut
from argstream.validation import Schema
from tests.validation.checking import check_text, compiled
from tests.validation.schemas import NAMES, instances, steady


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "strng"}, "#/type"),
        ({"type": ["string", 3]}, "#/type"),
        ({"properties": {"a": {"type": "strng"}}}, "#/properties/a/type"),
        ({"items": 3}, "#/items"),
        ({"properties": []}, "#/properties"),
        ({"properties": {"a/b": 3}}, "#/properties/a~1b"),
        ({"properties": {"a/b": {"const": float("inf")}}}, "#/properties/a~1b/const"),
        ({"required": "a"}, "#/required"),
        ({"required": [1]}, "#/required"),
        ({"enum": 3}, "#/enum"),
        ({"maxLength": -1}, "#/maxLength"),
        ({"maxItems": "2"}, "#/maxItems"),
        ({"anyOf": {}}, "#/anyOf"),
        ({"anyOf": []}, "#/anyOf"),
        ({"allOf": [3]}, "#/allOf"),
        ({"$ref": 3}, "#/$ref"),
        ({"$defs": {"a": 3}}, "#/$defs/a"),
        ({"minimum": "3"}, "#/minimum"),
        ({"multipleOf": 0}, "#/multipleOf"),
    ],
)
def test_invalid_schema_is_refused_with_its_pointer(schema: Any, pointer: str) -> None:
    outcome = compiled(schema)
    assert isinstance(outcome, SchemaError)
    assert outcome.reason == "invalid"
    assert outcome.pointer.startswith(pointer)


def _in_itself() -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {}}
    schema["properties"]["a"] = schema
    return schema


NO_SCHEMAS: list[Any] = [
    *(None, 3, "string", [], [{}], object(), {1: 2}, {"properties": {1: {}}}, {"enum": [{1, 2}]}),
    *({"const": b"bytes"}, {"const": math.nan}, {"minimum": math.inf}, {"properties": {"a": None}}),
    _in_itself(),
]


@pytest.mark.parametrize("schema", NO_SCHEMAS, ids=lambda schema: type(schema).__name__)
def test_other_values_than_schemas_are_refused(schema: Any) -> None:
    assert isinstance(compiled(schema), SchemaError)


ODD: list[dict[str, Any]] = [
    *({"enum": ["\ud800"]}, {"properties": {"\udc00": True}, "additionalProperties": False}),
    *({"required": ["\ud800"]}, {"pattern": "\ud800"}, {"description": "\ud800"}),
    *({"minimum": 10**5_000}, {"const": 10**5_000}, {"maxLength": 10**400}, {"maxItems": 2**64}),
    *({"maxProperties": 1e300}, {"maxLength": 2.0}, {"title": "a" * 1_000_000}),
]


@pytest.mark.parametrize("schema", ODD, ids=lambda schema: next(iter(schema)))
def test_odd_values_are_refused_or_checked(schema: Any) -> None:
    outcome = compiled(schema)
    if isinstance(outcome, Schema):
        for text in ('{"a": 1}', '"abc"', "1", '"\\ud800"', "[1]", "9" * 4_000):
            found = check_text(outcome, cut(text, [7]))
            assert found.verdict in ("valid", "rejected")
            if found.error is not None:
                found.error.message.encode()  # invariant 4


def test_any_mapping_is_accepted_and_later_changes_have_no_effect() -> None:
    inner = MappingProxyType({"a": MappingProxyType({"type": "string"})})
    schema = Schema(MappingProxyType({"properties": inner}))
    assert check_text(schema, ['{"a": 1}']).verdict == "rejected"
    written: dict[str, Any] = {"properties": {"a": {"enum": ["x"]}}}
    schema = Schema(written)
    written["properties"]["a"]["enum"].append("y")
    written["properties"]["b"] = False
    assert check_text(schema, cut('{"a": "y"}', [1])).verdict == "rejected"
    assert check_text(schema, cut('{"b": 1}', [1])).verdict == "valid"


PLACES: list[Callable[[str], Any]] = [
    lambda ref: {"$ref": ref},
    lambda ref: {"properties": {"a": {"$ref": ref}}},
    lambda ref: {"items": {"anyOf": [{"$ref": ref}, True]}},
    lambda ref: {"not": {"$ref": ref}},
    lambda ref: {"$dynamicRef": ref},
    lambda ref: {"$id": ref, "properties": {"a": {"$ref": "another.json"}}},
]
ELSEWHERE = [
    *("http://example.invalid/schema.json", "https://example.invalid/schema.json#/$defs/a"),
    *("file:///etc/passwd", "file:///etc/", "ftp://example.invalid/x", "urn:example:nothing"),
    *("other.json", "{tmp}"),
]


@pytest.mark.parametrize("place", PLACES)
def test_reference_to_another_document_is_unresolvable(
    place: Callable[[str], Any], tmp_path: Path
) -> None:
    for name in ("schema.json", "another.json"):
        (tmp_path / name).write_text("{}")
    for reference in ELSEWHERE:
        uri = (tmp_path / "schema.json").as_uri() if reference == "{tmp}" else reference
        outcome = compiled(place(uri))
        assert isinstance(outcome, SchemaError), reference
        assert outcome.reason == "unresolvable"


@pytest.mark.parametrize(
    "reference", ["#/$defs/no", "#/properties/a/items", "#nowhere", "#/$defs/~2"]
)
def test_reference_to_nothing_is_unresolvable(reference: str) -> None:
    outcome = compiled({"properties": {"a": {"$ref": reference}}, "$defs": {"a": {}}})
    assert isinstance(outcome, SchemaError)
    assert outcome.reason == "unresolvable"


@pytest.mark.parametrize(
    "place", [*PLACES, lambda uri: {"$schema": uri}, lambda uri: {"$id": uri, "type": "string"}]
)
def test_nothing_is_fetched(place: Callable[[str], Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        compiled(place(f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"))
        with pytest.raises(BlockingIOError):
            server.accept()


def test_ref_inside_data_is_not_a_reference() -> None:
    odd = {"$ref": "http://example.invalid/"}
    for schema in ({"const": odd}, {"enum": [odd]}, {"default": odd}, {"examples": [odd]}):
        assert isinstance(compiled(schema), Schema), schema
    assert isinstance(compiled({"unknown": odd}), Schema)
    named = Schema({"properties": {"$ref": {"type": "string"}}})
    assert check_text(named, ['{"$ref": "x"}']).verdict == "valid"
    assert check_text(named, ['{"$ref": 1}']).verdict == "rejected"


def test_resources_and_their_own_references_are_used() -> None:
    resources = {
        "http://example.invalid/a.json": {"properties": {"b": {"$ref": "b.json"}}},
        "http://example.invalid/b.json": {"type": "string"},
    }
    schema = Schema({"$ref": "http://example.invalid/a.json"}, resources=resources)
    assert check_text(schema, cut('{"b": "12"}', [1])).verdict == "valid"
    assert check_text(schema, cut('{"b": 12}', [1])).verdict == "rejected"


KEYWORDS = [
    *("type", "enum", "const", "properties", "additionalProperties", "propertyNames", "items"),
    *("prefixItems", "maxLength", "maxItems", "maxProperties", "required", "$ref", "$defs"),
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "pattern", "patternProperties"),
    *("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$schema", "dependencies", "definitions"),
    *("contains", "minContains", "unevaluatedItems", "unevaluatedProperties", "additionalItems"),
    *("format", "uniqueItems", "multipleOf", "dependentRequired", "dependentSchemas"),
    *("$vocabulary", "minimum"),
]
_odd_values = st.sampled_from(
    [
        *(0, 1, -1, 1.5, True, False, None, "", "a", "string", "object", "array", "#"),
        *("#/$defs/a", "#a", "a", "/a", "#/", "#/%", "//", "http://[", "(", "^a", "urn:a"),
        *("http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema#"),
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
    ]
)
weird_schemas = st.recursive(
    _odd_values,
    lambda values: st.one_of(
        st.dictionaries(st.sampled_from([*KEYWORDS, *NAMES]), values, max_size=4),
        st.dictionaries(st.sampled_from(KEYWORDS), values, max_size=3),
        st.lists(values, max_size=3),
    ),
    max_leaves=10,
)


@given(weird_schemas, instances)
@steady
def test_weird_schema_is_refused_or_checked(schema: Any, instance: Any) -> None:
    outcome = compiled(schema)
    if isinstance(outcome, Schema):
        found = check_text(outcome, cut(json.dumps(instance), [1]))
        assert found.verdict == ("valid" if outcome.is_valid(instance) else "rejected")
