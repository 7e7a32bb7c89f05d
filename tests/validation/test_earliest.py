r"""Each keyword that is checked early, alone: rejected with the earliest possible fragment.

The expected fragment is found by brute force: ``universes`` has every text over a small alphabet,
and jsonschema-rs validates them. Every text is fed by single characters.

``oneOf`` is checked by the branches that are alive: when none is, and at the close when several.
That two of them can no longer fail may be known earlier; such schemas are not among these.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from argstream.jsonstream import Start, Text
from argstream.validation import Schema
from tests.validation import universes
from tests.validation.checking import JsonSchema, check_fragments, oracle
from tests.validation.universes import Reading, Universe, arrays, earliest, objects, strings

NUMBERS = ["0", "-0", "-0.0", "1", "1.0", "10e-1", "-1", "1.5", "1.5e1", "15", "1E400"]
SMALL = ["1", "1.5", '"a"', "null", "[]", "{}"]


def _values() -> Iterator[str]:
    yield from (*NUMBERS, "true", "false", "null", '""', '"a"', '"ab"', r'"\u0061"')
    yield from arrays(SMALL, 2)
    yield from objects(["a", "b"], SMALL, 2)


def _texts() -> Iterator[str]:
    """Yield strings over letters, an escape, an emoji whole, escaped and cut; few others."""
    yield from strings(["a", "b", "c", r"\u0061"], 3)
    yield from strings(["a", "😀", r"\ud83d\ude00", r"\n", r"\ud83d"], 3)
    yield from ('"abcd"', '"aaaa"', r'"ab\u0063d"')
    yield from ("1", "1.0", "2", "true", "false", "null", "[]", "{}")


def _arrays() -> Iterator[str]:
    yield from arrays(["1", "1.5", '"a"', '"b"', "[1]", '{"a":1}'], 3)
    yield from arrays(["1"], 5)
    yield from arrays([*arrays(["1", '"a"'], 2)], 2)
    yield from ('{"a":1}', "1", '"a"', "[[[1]]]", "[[[[1]]]]", '[[["a"]]]', '[[[["a"]]]]')


def _objects() -> Iterator[str]:
    yield from objects(["a", r"\u0061", "b", "ab", ""], ["1", '"a"'], 2)
    yield from objects(["a", "b", "ab", ""], ["1"], 4)
    yield from objects(["a", "b"], ["1", '"ab"', "1.5", '{"a":1}', '{"b":1}', "{}", "[1]"], 2)
    yield from ("[1]", "1", '"a"', '{"a":{"a":{"a":1}}}', '{"a":{"a":{"b":1}}}')


# The continuations of a text. They include whatever these schemas require; otherwise a check would
# seem to be late.
VOCABULARY = universes.Vocabulary(
    endings=["", "a", "b", "c", "bc", "d", "cd", "bcd", "ab", "abc", "😀", "\n", "\ufffd"],
    values=[1, 1.5, 0, 15, -1, "", "a", "ab", "b", "abc", True, False, None, [], [1], {}, {"a": 1}],
    members=[{}, {"a": 1}, {"a": "a"}, {"a": {}}, {"b": 1}, {"a": 1, "b": "a"}, {"": 1}],
    items=[[], [1], ["a"], ["a", "a"]],
)
TEXTS = {"values": _values, "texts": _texts, "arrays": _arrays, "objects": _objects}


@cache
def universe(name: str) -> Universe:
    return Universe(TEXTS[name](), VOCABULARY)


STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
OBJECT, ARRAY, NULL = {"type": "object"}, {"type": "array"}, {"type": "null"}
TYPES = ["string", "number", "integer", "boolean", "null", "array", "object"]


def _in_a(schema: JsonSchema, **more: JsonSchema) -> dict[str, Any]:
    return {"properties": {"a": schema, **more}}


def _defined(definition: JsonSchema, **schema: Any) -> dict[str, Any]:
    return {**schema, "$defs": {"x": definition}}


REF = {"$ref": "#/$defs/x"}
TAGGED_BY_A = [_in_a({"const": "a"}, b=INTEGER), _in_a({"const": 1}, b=STRING)]

CASES: dict[str, list[JsonSchema]] = {  # by keyword and universe
    "type values": [
        *({"type": name} for name in TYPES),
        *({"type": ["integer", name]} for name in ("object", "number")),
        {"type": ["string", "null"]},
    ],
    "false values": [False],
    "enum texts": [
        *({"enum": ["abc", "abd", "b"]}, {"enum": ["a", "ab", "abcd"]}, {"enum": [""]}),
        *({"enum": ["a", ""]}, {"enum": ["😀", "a😀", "\n"]}, {"enum": ["a\ufffd", "aa"]}),
        {"enum": ["ab", 1, None, True]},
    ],
    "enum values": [{"enum": [1, 1.5]}, {"enum": [0, False, "ab"]}, {"enum": [15.0, True, None]}],
    "enum arrays": [{"items": {"enum": ["b", 1]}}],
    "enum objects": [_in_a({"enum": ["ab"]})],
    "const texts": [{"const": value} for value in ("abc", "", "😀", None)],
    "const values": [{"const": value} for value in (1, 1.0, 0, False)],
    "const objects": [_in_a({"const": "ab"})],
    "properties objects": [
        *(_in_a(STRING), _in_a(STRING, b=INTEGER), _in_a(_in_a(STRING)), _in_a(_in_a(OBJECT))),
        *({"properties": {"": INTEGER, "ab": INTEGER}}, _in_a(True)),
    ],
    "additionalProperties objects": [
        *({"additionalProperties": False}, {"additionalProperties": STRING}),
        {"properties": {"a": True}, "additionalProperties": False},
        {"properties": {"a": STRING, "b": True}, "additionalProperties": False},
        {"properties": {"a": INTEGER}, "additionalProperties": STRING},
        _in_a({"additionalProperties": False}),
    ],
    "propertyNames objects": [
        *({"propertyNames": {"enum": ["a", "ab"]}}, {"propertyNames": {"const": "b"}}),
        *({"propertyNames": {"maxLength": 1}}, {"propertyNames": {"minLength": 1}}),
        *({"propertyNames": {"pattern": "^a"}}, {"propertyNames": {"not": {"const": "a"}}}),
        *({"propertyNames": STRING}, {"propertyNames": False}),
    ],
    "items arrays": [
        *({"items": STRING}, {"items": INTEGER}, {"items": False}),
        *({"items": {"items": STRING}}, {"items": _in_a(STRING)}),
    ],
    "prefixItems arrays": [
        *({"prefixItems": [STRING]}, {"prefixItems": [INTEGER, STRING]}),
        *({"prefixItems": [True, INTEGER]}, {"prefixItems": [STRING], "items": INTEGER}),
        {"prefixItems": [True, True], "items": False},
        {"items": {"prefixItems": [STRING, STRING]}},
    ],
    "maxLength texts": [{"maxLength": size} for size in range(3)],
    "maxLength objects": [_in_a({"maxLength": 1})],
    "maxLength arrays": [{"items": {"maxLength": 0}}],
    "maxItems arrays": [*({"maxItems": n} for n in range(3)), {"items": {"maxItems": 1}}],
    "maxProperties objects": [
        *({"maxProperties": n} for n in range(3)),
        _in_a({"maxProperties": 0}),
    ],
    "required objects": [
        *({"required": names} for names in (["a"], ["b", "a"], [""], [])),
        _in_a({"required": ["a"]}),
    ],
    "$ref texts": [
        _defined({"maxLength": 1}, **REF),
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": STRING}},
    ],
    "$ref objects": [
        _defined(STRING, **_in_a(REF)),
        {"properties": {"a": {"$ref": "#"}}, "additionalProperties": False},
        {"properties": {"b": {"$ref": "#/properties/a"}, "a": STRING}},
        {**_in_a({"$ref": "#/definitions/s"}), "definitions": {"s": STRING}},
    ],
    "$ref arrays": [
        {"items": {"$ref": "#"}, "type": ["array", "integer"]},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"maxItems": 1}}},
        {"$ref": "#/$defs/a%25b", "$defs": {"a%b": {"maxItems": 1}}, "items": STRING},
    ],
    "allOf texts": [
        {"allOf": [STRING, {"maxLength": 2}]},
        {"allOf": [{"enum": ["ab", "ac", "b"]}, {"enum": ["ab", "b", "bc"]}]},
        {"allOf": [{"maxLength": 1}, {"maxLength": 2}]},
    ],
    "allOf objects": [
        {"allOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"allOf": [_in_a(STRING), {"properties": {"b": INTEGER}}]},
        {"allOf": [_in_a(STRING), {"maxProperties": 1}]},
        {"maxProperties": 2, "allOf": [{"maxProperties": 1}]},
    ],
    "allOf arrays": [
        {"allOf": [{"items": INTEGER}, {"maxItems": 2}]},
        {"allOf": [{"maxItems": 2}, {"maxItems": 1}]},
    ],
    "anyOf values": [
        {"anyOf": [STRING, INTEGER]},
        {"anyOf": [NULL, {"items": INTEGER, **ARRAY}]},
        _defined({"anyOf": [STRING, {"items": INTEGER, **ARRAY}]}, anyOf=[REF, REF]),
    ],
    "anyOf texts": [
        {"anyOf": [{"const": "abc"}, {"const": "abd"}, {"maxLength": 1}]},
        {"anyOf": [{"enum": ["abc"]}, INTEGER]},
        _defined(
            {"anyOf": [{"const": "abc"}, {"const": "aa"}, INTEGER]},
            anyOf=[REF, {**REF, "maxLength": 2}],
        ),
    ],
    "anyOf objects": [
        {"anyOf": TAGGED_BY_A},
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"anyOf": [{"maxProperties": 0}, {"propertyNames": {"const": "a"}}]},
        _in_a({"anyOf": [INTEGER, {"required": ["a"]}]}),
        _defined(
            {"properties": {"a": STRING}, "additionalProperties": OBJECT},
            anyOf=[REF, {**REF, "maxProperties": 5}],
        ),
    ],
    "anyOf arrays": [
        {"anyOf": [{"maxItems": 1}, {"items": INTEGER}]},
        {"anyOf": [{"prefixItems": [STRING]}, {"prefixItems": [True, INTEGER]}]},
        {"items": {"anyOf": [STRING, INTEGER]}},
        {"anyOf": [{"items": STRING}, {"anyOf": [{"maxItems": 2}, INTEGER]}]},
    ],
    "oneOf values": [
        *({"oneOf": [STRING, INTEGER]}, {"oneOf": [INTEGER, NUMBER]}),
        {"oneOf": [{"const": "a"}, STRING]},
    ],
    "oneOf texts": [
        {"oneOf": [{"const": "abc"}, {"const": "abd"}]},
        {"oneOf": [{"enum": ["a", "ab", "abc"]}, {"enum": ["ab", "b"]}]},
    ],
    "oneOf objects": [
        {"oneOf": [{**branch, "required": ["a"]} for branch in TAGGED_BY_A]},
        _in_a({"oneOf": [OBJECT, {"maxProperties": 1}]}),
    ],
    "oneOf arrays": [
        {"items": {"oneOf": [STRING, INTEGER]}},
        {"items": {"oneOf": [INTEGER, NUMBER, STRING]}},
        {"items": {"oneOf": [{"const": "a"}, {"type": ["string", "integer"]}]}},
        {"oneOf": [{"items": STRING, "maxItems": 1}, {"items": INTEGER}]},
        _defined({"items": STRING}, oneOf=[{**REF, "maxItems": 1}, REF]),
    ],
}


@pytest.mark.bulk
@pytest.mark.parametrize("case", CASES)
def test_rejection_comes_with_the_earliest_possible_fragment(case: str) -> None:
    everything = universe(case.split()[1])
    found_valid: set[bool] = set()
    for schema in CASES[case]:
        compiled = Schema(schema)
        alive = everything.alive(oracle(schema))
        found_valid |= {reading.prefixes[-1] in alive for reading in everything.readings}
        late = []
        for reading in everything.readings:
            outcome = check_fragments(compiled, reading.batches)
            expected = earliest(reading, alive)
            if outcome.seen != expected:
                late.append((reading.text, outcome.seen, expected))
            if outcome.error is not None and outcome.seen is not None:
                found = (schema, reading.text, outcome.error)
                path = reading.fragments[outcome.seen - 1].path
                assert outcome.error.reason == "schema", found
                assert outcome.error.offset == _offset_of(reading, outcome.seen, outcome.text), (
                    found
                )
                # The error may be about the value itself or about a container of it.
                assert outcome.error.path == path[: len(outcome.error.path)], found
        assert late[:3] == [], f"{schema}: text, fragments it took, fragments it takes"
    # Without both valid and invalid texts, the comparison would prove nothing.
    assert found_valid == ({False} if case == "false values" else {False, True})


def _offset_of(reading: Reading, seen: int, text: str | None) -> int | None:
    fragments = reading.fragments[:seen]
    last = fragments[-1]
    if not isinstance(last, Text):
        assert text is None
        return last.offset
    assert text is not None
    assert last.text.startswith(text)
    same = [fragment for fragment in fragments[:-1] if fragment.path == last.path]
    start = next(fragment.offset for fragment in same if isinstance(fragment, Start))
    before = sum(len(fragment.text) for fragment in same if isinstance(fragment, Text))
    return start + before + len(text)


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("arrays", {"items": {"$ref": "#s"}, "$defs": {"s": {"$anchor": "s", **STRING}}}),
        ("texts", {"$ref": "http://x/s", "$defs": {"s": {"$id": "http://x/s", "maxLength": 2}}}),
        ("objects", {"properties": {"a": {"$dynamicRef": "#s"}}, "$dynamicAnchor": "s", **OBJECT}),
    ],
)
def test_reference_by_name_is_checked_at_the_end_at_latest(name: str, schema: JsonSchema) -> None:
    compiled, validator = Schema(schema), oracle(schema)
    alive = universe(name).alive(validator)
    for reading in universe(name).readings:
        outcome = check_fragments(compiled, reading.batches)
        valid = validator.is_valid(reading.value)
        assert outcome.verdict == ("valid" if valid else "rejected"), reading.text
        if outcome.seen is not None:
            assert reading.prefixes[outcome.seen - 1] not in alive, reading.text
