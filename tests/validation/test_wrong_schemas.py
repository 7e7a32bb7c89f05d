"""Schemas that cannot be used: told when they are compiled, and where. Nothing is ever fetched."""

import json
import math
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.errors import SchemaError
from argstream.testing import cut
from argstream.validation import Schema
from tests.validation.rulings import compiled, judge
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
def test_a_wrong_schema_is_refused_and_told_where(schema: Any, pointer: str) -> None:
    outcome = compiled(schema)
    assert isinstance(outcome, SchemaError)
    assert outcome.reason == "invalid"
    assert outcome.pointer.startswith(pointer)


def _in_itself() -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {}}
    schema["properties"]["a"] = schema
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        None,
        3,
        "string",
        [],
        [{}],
        object(),
        {1: 2},
        {"properties": {1: {}}},
        {"enum": [{1, 2}]},
        {"const": b"bytes"},
        {"const": math.nan},
        {"minimum": math.inf},
        {"properties": {"a": None}},
        _in_itself(),
    ],
    ids=lambda schema: type(schema).__name__,
)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    assert isinstance(compiled(schema), SchemaError)


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": ["\ud800"]},
        {"properties": {"\udc00": True}, "additionalProperties": False},
        {"required": ["\ud800"]},
        {"pattern": "\ud800"},
        {"description": "\ud800"},
        {"minimum": 10**5_000},
        {"const": 10**5_000},
        {"maxLength": 10**400},
        {"maxItems": 2**64},
        {"maxProperties": 1e300},
        {"maxLength": 2.0},
        {"title": "a" * 1_000_000},
    ],
    ids=lambda schema: next(iter(schema)),
)
def test_odd_values_are_refused_or_judged(schema: Any) -> None:
    outcome = compiled(schema)
    if isinstance(outcome, Schema):
        for text in ('{"a": 1}', '"abc"', "1", '"\\ud800"', "[1]", "9" * 4_000):
            ruling = judge(outcome, cut(text, [7]))
            assert ruling.verdict in ("valid", "rejected")
            if ruling.error is not None:
                ruling.error.message.encode()  # invariant 4


def test_any_mapping_is_taken() -> None:
    inner: Mapping[str, Any] = MappingProxyType({"type": "string"})
    schema = Schema(MappingProxyType({"properties": MappingProxyType({"a": inner})}))
    assert judge(schema, ['{"a": 1}']).verdict == "rejected"


def test_a_schema_that_is_changed_later_stays_what_it_was() -> None:
    written: dict[str, Any] = {"properties": {"a": {"enum": ["x"]}}}
    schema = Schema(written)
    written["properties"]["a"]["enum"].append("y")
    written["properties"]["b"] = False
    assert judge(schema, cut('{"a": "y"}', [1])).verdict == "rejected"
    assert judge(schema, cut('{"b": 1}', [1])).verdict == "valid"


PLACES: list[Callable[[str], Any]] = [
    lambda ref: {"$ref": ref},
    lambda ref: {"properties": {"a": {"$ref": ref}}},
    lambda ref: {"items": {"anyOf": [{"$ref": ref}, True]}},
    lambda ref: {"not": {"$ref": ref}},
    lambda ref: {"$dynamicRef": ref},
    lambda ref: {"$id": ref, "properties": {"a": {"$ref": "another.json"}}},
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "reference",
    [
        *("http://example.invalid/schema.json", "https://example.invalid/schema.json#/$defs/a"),
        *("file:///etc/passwd", "file:///etc/", "ftp://example.invalid/x", "urn:example:nothing"),
        "other.json",
    ],
)
def test_a_reference_to_elsewhere_is_unresolvable(
    place: Callable[[str], Any], reference: str
) -> None:
    outcome = compiled(place(reference))
    assert isinstance(outcome, SchemaError)
    assert outcome.reason == "unresolvable"


@pytest.mark.parametrize(
    "reference", ["#/$defs/no", "#/properties/a/items", "#nowhere", "#/$defs/~2"]
)
def test_a_reference_to_nothing_is_unresolvable(reference: str) -> None:
    outcome = compiled({"properties": {"a": {"$ref": reference}}, "$defs": {"a": {}}})
    assert isinstance(outcome, SchemaError)
    assert outcome.reason == "unresolvable"


@pytest.mark.parametrize("place", PLACES)
def test_no_file_is_read(place: Callable[[str], Any], tmp_path: Path) -> None:
    for name in ("schema.json", "another.json"):
        (tmp_path / name).write_text("{}")
    uri = (tmp_path / "schema.json").as_uri()
    outcome = compiled(place(uri))
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


def test_what_only_looks_like_a_reference_is_none() -> None:
    odd = {"$ref": "http://example.invalid/"}
    for schema in (
        {"const": odd},
        {"enum": [odd]},
        {"default": odd},
        {"examples": [odd]},
        {"unknown": odd},
        {"properties": {"$ref": {"type": "string"}}},
    ):
        assert isinstance(compiled(schema), Schema), schema
    named = Schema({"properties": {"$ref": {"type": "string"}}})
    assert judge(named, ['{"$ref": "x"}']).verdict == "valid"
    assert judge(named, ['{"$ref": 1}']).verdict == "rejected"


def test_resources_are_used_and_their_own_references_too() -> None:
    resources = {
        "http://example.invalid/a.json": {"properties": {"b": {"$ref": "b.json"}}},
        "http://example.invalid/b.json": {"type": "string"},
    }
    schema = Schema({"$ref": "http://example.invalid/a.json"}, resources=resources)
    assert judge(schema, cut('{"b": "12"}', [1])).verdict == "valid"
    assert judge(schema, cut('{"b": 12}', [1])).verdict == "rejected"


KEYWORDS = [
    *("type", "enum", "const", "properties", "additionalProperties", "propertyNames", "items"),
    *(
        "prefixItems",
        "maxLength",
        "maxItems",
        "maxProperties",
        "required",
        "$ref",
        "$defs",
        "allOf",
    ),
    *("anyOf", "oneOf", "not", "if", "then", "else", "pattern", "patternProperties", "minimum"),
    *("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$schema", "dependencies", "definitions"),
    *("contains", "minContains", "unevaluatedItems", "unevaluatedProperties", "additionalItems"),
    *(
        "format",
        "uniqueItems",
        "multipleOf",
        "dependentRequired",
        "dependentSchemas",
        "$vocabulary",
    ),
]
_odd_values = st.one_of(
    st.sampled_from([0, 1, -1, 1.5, True, False, None, "", "a", "string", "object", "array", "#"]),
    st.sampled_from(
        ["#/$defs/a", "#a", "a", "/a", "#/", "#/%", "//", "http://[", "(", "^a", "urn:a"]
    ),
    st.sampled_from(
        [
            "http://json-schema.org/draft-07/schema#",
            "http://json-schema.org/draft-04/schema#",
            "https://json-schema.org/draft/2020-12/schema",
            "https://json-schema.org/draft/2019-09/schema",
        ]
    ),
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
def test_a_weird_schema_is_refused_or_judged(schema: Any, instance: Any) -> None:
    outcome = compiled(schema)
    if isinstance(outcome, Schema):
        ruling = judge(outcome, cut(json.dumps(instance), [1]))
        assert ruling.verdict == ("valid" if outcome.is_valid(instance) else "rejected")
