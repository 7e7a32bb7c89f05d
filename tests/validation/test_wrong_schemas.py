"""Schemas that are wrong or hostile: a typed error when they are compiled, or a verdict in time.

The limits decide whether a hostile schema is refused or checked; both are fine. Nothing is ever
fetched, and nothing hangs.
"""

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
from tests.validation.checking import check_text, compiled, refusal_of, refused_or_checked, within
from tests.validation.schemas import NAMES, instances, steady


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "strng"}, "#/type"),
        ({"properties": {"a": {"type": "strng"}}}, "#/properties/a/type"),
        ({"items": 3}, "#/items"),
        ({"properties": {"a/b": 3}}, "#/properties/a~1b"),
        ({"properties": {"a/b": {"const": float("inf")}}}, "#/properties/a~1b/const"),
        ({"required": "a"}, "#/required"),
        ({"enum": 3}, "#/enum"),
        ({"maxLength": -1}, "#/maxLength"),
        ({"anyOf": []}, "#/anyOf"),
        ({"allOf": [3]}, "#/allOf"),
        ({"$ref": 3}, "#/$ref"),
        ({"$defs": {"a": 3}}, "#/$defs/a"),
        ({"multipleOf": 0}, "#/multipleOf"),
    ],
)
def test_invalid_schema_is_refused_with_its_pointer(schema: Any, pointer: str) -> None:
    refusal = refusal_of(schema)
    assert refusal.reason == "invalid"
    assert refusal.pointer.startswith(pointer)


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
    refusal_of(schema)


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
def test_reference_to_a_document_is_refused(place: Callable[[str], Any], tmp_path: Path) -> None:
    for name in ("schema.json", "another.json"):
        (tmp_path / name).write_text("{}")
    for reference in ELSEWHERE:
        uri = (tmp_path / "schema.json").as_uri() if reference == "{tmp}" else reference
        assert refusal_of(place(uri)).reason == "unresolvable"


def test_reference_to_nothing_is_unresolvable() -> None:
    for reference in ("#/$defs/no", "#/properties/a/items", "#nowhere", "#/$defs/~2"):
        refusal = refusal_of({"properties": {"a": {"$ref": reference}}, "$defs": {"a": {}}})
        assert refusal.reason == "unresolvable"


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


SELF = {"$ref": "#"}
STRING = {"type": "string"}
A, B = {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}
RING = {str(n): {"$ref": f"#/$defs/{(n + 1) % 1000}"} for n in range(1000)}
LOOPS: dict[str, Any] = {
    "direct": SELF,
    "in anyOf": {"anyOf": [SELF, STRING]},
    "in allOf": {"allOf": [SELF]},
    "in oneOf": {"oneOf": [SELF, SELF]},
    "negated": {"not": SELF},
    "as a condition": {"if": SELF, "then": SELF},
    "dependent": {"dependentSchemas": {"a": SELF}},
    "of names": {"propertyNames": SELF},
    "of two": {**A, "$defs": {"a": B, "b": A}},
    "in branches": {**A, "$defs": {"a": {"allOf": [{"anyOf": [B]}]}, "b": {"oneOf": [STRING, A]}}},
    "of a thousand": {"$ref": "#/$defs/0", "$defs": RING},
    "below a property": {"properties": {"a": A}, "$defs": {"a": A}},
    "by anchor": {"$anchor": "me", "allOf": [{"$ref": "#me"}]},
    "dynamic": {"$dynamicAnchor": "me", "$dynamicRef": "#me"},
}


@pytest.mark.parametrize("name", LOOPS)
def test_loop_of_references_is_refused_or_checked(name: str) -> None:
    for text in ("{}", '{"a": {"a": 1}}', '"a"', "[1]", "1"):
        outcome = refused_or_checked(LOOPS[name], text)
        if name in ("direct", "of two", "of a thousand"):
            assert isinstance(outcome, SchemaError)
            assert outcome.reason == "loop"


def test_recursive_schema_is_not_a_loop() -> None:
    properties = {"name": STRING, "children": {"items": SELF}}
    schema = Schema({"type": "object", "properties": properties, "additionalProperties": False})
    deep = '{"name": "a", "children": [' * 60 + "]}" * 60
    assert check_text(schema, cut(deep, [1])).verdict == "valid"
    assert check_text(schema, cut(deep.replace("[]", '[{"nam":1}]'), [1])).verdict == "rejected"


def _chain(length: int, link: Callable[[str], Any], end: Any = STRING) -> dict[str, Any]:
    definitions = {str(n): link(f"#/$defs/{n + 1}") for n in range(length)}
    return {"$ref": "#/$defs/0", "$defs": {**definitions, str(length): end}}


@pytest.mark.timing
@pytest.mark.parametrize("length", [100, 5_000])
@pytest.mark.parametrize(
    ("link", "text", "expected"),
    [
        (lambda ref: {"$ref": ref}, "1", "rejected"),
        (lambda ref: {"$ref": ref}, '"a"', "valid"),
        (lambda ref: {"allOf": [{"$ref": ref}]}, "1", "rejected"),
        (lambda ref: {"anyOf": [{"$ref": ref}]}, "1", "rejected"),
        (lambda ref: {"properties": {"a": {"$ref": ref}}}, '{"a": {"a": 1}}', "valid"),
        (lambda ref: {"items": {"$ref": ref}}, "[[[]]]", "valid"),
    ],
)
def test_long_chain_of_references(length: int, link: Any, text: str, expected: str) -> None:
    refused_or_checked(_chain(length, link), text, expected)


@pytest.mark.timing
@pytest.mark.parametrize("depth", [30, 3_000, 100_000])
@pytest.mark.parametrize(
    ("wrap", "text", "expected"),
    [
        (lambda inner: {"properties": {"a": inner}}, '{"a": {"a": 1}}', "valid"),
        (lambda inner: {"items": inner}, "[[1]]", "valid"),
        (lambda inner: {"allOf": [inner]}, "1", "rejected"),
        (lambda inner: {"anyOf": [inner]}, "1", "rejected"),
        (lambda inner: {"oneOf": [inner]}, '"a"', "valid"),
        (lambda inner: {"not": {"not": inner}}, "1", "rejected"),
        (lambda inner: {"if": inner, "else": False}, "1", None),
        (lambda inner: {"default": [inner]}, "1", "valid"),
        (lambda inner: {"const": [inner]}, "1", "rejected"),
        (lambda inner: {"$defs": {"a": inner}}, "1", "valid"),
        (lambda inner: {"unknown": inner}, "1", "valid"),
    ],
)
def test_deeply_nested_schema(depth: int, wrap: Any, text: str, expected: str | None) -> None:
    schema: Any = STRING
    for _ in range(depth):
        schema = wrap(schema)
    outcome = refused_or_checked(schema, text, expected)
    assert depth != 30 or isinstance(outcome, Schema)


@pytest.mark.timing
@pytest.mark.parametrize("levels", [4, 30, 200])
@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf"])
@pytest.mark.parametrize("leaf", ["1", '"a"'])
def test_branches_that_double_at_each_level(levels: int, keyword: str, leaf: str) -> None:
    """Small when it is written, and 2 ** levels when it is walked."""
    expected = "valid" if leaf == '"a"' and keyword != "oneOf" else "rejected"

    def in_place(ref: str) -> Any:
        return {keyword: [{"$ref": ref}] * 2}

    def in_items(ref: str) -> Any:
        return {keyword: [{"type": "array", "items": {"$ref": ref}}] * 2}

    for link, text in ((in_place, leaf), (in_items, "[" * levels + leaf + "]" * levels)):
        outcome = refused_or_checked(_chain(levels, link), text, expected)
        assert levels != 4 or isinstance(outcome, Schema)


ITEMS = {"type": "array", "items": SELF}
EXPRESSION = {"$ref": "#/$defs/e"}
EXPRESSIONS = [
    {"type": "array", "items": {"allOf": [EXPRESSION]}},
    {"type": "array", "items": {"anyOf": [EXPRESSION]}},
    STRING,
]
MIXED = [
    {**ITEMS, "uniqueItems": True},
    {"type": "array", "contains": SELF},
    {"type": "array", "not": {"items": SELF}},
    {"minimum": 3, "type": "number"},
]


@pytest.mark.timing
@pytest.mark.parametrize("depth", [5, 200])
@pytest.mark.parametrize(
    ("schema", "leaf", "expected"),
    [
        ({"anyOf": [ITEMS, ITEMS, STRING]}, "1", "rejected"),
        ({"anyOf": [ITEMS, ITEMS, STRING]}, '"a"', "valid"),
        ({"oneOf": [ITEMS, ITEMS, STRING]}, "1", "rejected"),
        ({"oneOf": [ITEMS, ITEMS, STRING]}, '"a"', "rejected"),
        ({"oneOf": [ITEMS, {"const": "a"}]}, '"a"', "valid"),
        ({"anyOf": MIXED}, "4", "valid"),
        ({**EXPRESSION, "$defs": {"e": {"oneOf": EXPRESSIONS}}}, '"a"', "rejected"),
    ],
)
def test_recursive_branches_of_deep_data(depth: int, schema: Any, leaf: str, expected: str) -> None:
    refused_or_checked(schema, "[" * depth + leaf + "]" * depth, expected)


@pytest.mark.timing
def test_recursive_union_whose_discriminator_comes_last() -> None:
    """The form of unions of models, in the worst order for a check."""
    branches = [
        {
            "properties": {"left": SELF, "right": SELF, "kind": {"const": kind}},
            "required": ["kind"],
            "additionalProperties": False,
        }
        for kind in ("add", "multiply", "negate", "number")
    ]
    text = '{"kind": "number"}'
    for _ in range(60):
        text = '{"left": ' + text + ', "kind": "add"}'
    refused_or_checked({"anyOf": branches}, text, "valid")
    refused_or_checked({"oneOf": branches}, text, "valid")
    refused_or_checked({"oneOf": branches}, text.replace("number", "nimber"), "rejected")


CATASTROPHIC = [
    *(r"^(a+)+$", r"^(a|aa)+$", r"^(a|a)*b$", r"^(?=(a+)+$)b", r"^(a|aa)+\1$"),
    *(r"^((a|a)(?=a))*b$", r"^(?!(a|a)*c)((a|a)*)*b$", r"(.*)*(.*)*(.*)*x(?=y)"),
    r"^((a{1,100}){1,100}){1,100}$",
]
ENORMOUS = ["((a{1000}){1000}){1000}", "(" * 5_000 + ")" * 5_000, "[a-z]{1,99999}", "a{99999999}"]
EVIL = "a" * 5_000 + "!"


@pytest.mark.timing
@pytest.mark.parametrize("pattern", [*CATASTROPHIC, *ENORMOUS], ids=lambda pattern: pattern[:30])
def test_catastrophic_or_enormous_pattern(pattern: str) -> None:
    strings = {"patternProperties": {pattern: STRING}, "additionalProperties": False}
    for schema, text in (
        ({"pattern": pattern}, f'"{EVIL}"'),
        ({"anyOf": [{"pattern": pattern}, {"type": "null"}]}, f'"{EVIL}"'),
        ({"patternProperties": {pattern: False}}, f'{{"{EVIL}": 1}}'),
        (strings, f'{{"{EVIL}": "a"}}'),
        ({"propertyNames": {"pattern": pattern}}, f'{{"{EVIL}": 1}}'),
    ):
        outcome = compiled(schema)
        if isinstance(outcome, Schema):
            with within(1):
                assert check_text(outcome, [text]).verdict in ("valid", "rejected")
        else:
            assert outcome.reason


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "a{2,1}", "\\"])
def test_malformed_pattern_is_refused_as_invalid(pattern: str) -> None:
    for schema in ({"pattern": pattern}, {"patternProperties": {pattern: True}}):
        assert refusal_of({"properties": {"a": schema}}).reason == "invalid"


@pytest.mark.timing
def test_enormous_enums() -> None:
    schema = compiled({"items": {"enum": [f"value {n}" for n in range(100_000)]}})
    assert isinstance(schema, Schema)
    with within(1):
        assert check_text(schema, cut('["value 77777", "value 0"]', [1])).verdict == "valid"
        outcome = check_text(schema, cut('["value 77777", "value 7x and more"]', [1]))
    assert outcome.verdict == "rejected"
    assert outcome.error is not None
    assert outcome.error.offset == '["value 77777", "value 7x'.index("x")
    with within(1):
        text = '["' + '", "'.join(f"value {n}" for n in range(3_000)) + '"]'
        assert check_text(schema, cut(text, [1])).verdict == "valid"
    schema = compiled({"items": {"enum": [[n, {"a": n}] for n in range(20_000)]}})
    assert isinstance(schema, Schema)
    with within(1):
        assert check_text(schema, cut('[[5, {"a": 5}]]', [1])).verdict == "valid"
        assert check_text(schema, cut('[[5, {"a": 6}]]', [1])).verdict == "rejected"


@pytest.mark.timing
def test_thousands_of_properties_and_branches() -> None:
    names = [f"property {n}" for n in range(2_000)]
    properties = {name: {"type": "integer"} for name in names}
    closed = {"properties": properties, "required": names, "additionalProperties": False}
    schema = compiled({"type": "object", **closed})
    assert isinstance(schema, Schema)
    text = "{" + ", ".join(f'"{name}": 1' for name in names) + "}"
    with within(1):
        assert check_text(schema, [text]).verdict == "valid"
        assert check_text(schema, [text[:-1] + ', "another": 1}']).verdict == "rejected"
        assert check_text(schema, ["{}"]).verdict == "rejected"
    branches = {"anyOf": [{"const": f"value {n}"} for n in range(1_500)]}
    refused_or_checked(branches, '"value 1499"', "valid")
    refused_or_checked(branches, '"value 1500"', "rejected")


@pytest.mark.timing
def test_loops_and_doubling_through_resources_are_refused_or_checked() -> None:
    schema = {"$id": "http://x/schema", "$ref": "http://x/a"}
    for loop in (
        {"http://x/a": {"$ref": "http://x/a"}},
        {"http://x/a": {"$ref": "b"}, "http://x/b": {"anyOf": [{"$ref": "a"}]}},
        {"http://x/a": {"allOf": [{"$ref": "http://x/schema"}]}},
    ):
        refused_or_checked(schema, '{"a": [1]}', resources=loop)
    doubling = {f"http://x/{n}": {"anyOf": [{"$ref": f"http://x/{n + 1}"}] * 2} for n in range(30)}
    resources = {**doubling, "http://x/30": STRING}
    refused_or_checked({"$ref": "http://x/0"}, "1", "rejected", resources=resources)


@pytest.mark.timing
@pytest.mark.parametrize(
    ("named", "reference", "refer"),
    [
        ("$anchor", "$ref", "#a{}"),
        ("$dynamicAnchor", "$dynamicRef", "#a{}"),
        ("$id", "$ref", "a{}"),
    ],
)
def test_names_that_double_at_each_level_are_refused_or_checked(
    named: str, reference: str, refer: str
) -> None:
    definitions: dict[str, Any] = {"d30": {named: "a30", **STRING}}
    for n in range(30):
        branch = {reference: refer.format(n + 1)}
        definitions[f"d{n}"] = {named: f"a{n}", "anyOf": [branch, branch]}
    schema = {"$id": "http://x/schema", reference: refer.format(0), "$defs": definitions}
    refused_or_checked(schema, "1", "rejected")
