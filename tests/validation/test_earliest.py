r"""Each keyword that is judged early, alone: refused with the earliest possible fragment.

Which one that is, brute force says: ``universes`` has every text over a small alphabet, and
jsonschema-rs says which of them are valid. Every text is fed by single characters. A universe must
hold a valid continuation wherever there is one at all; if it did not, the check would seem late.

``oneOf`` is judged by the branches still alive: when none is, and at the close when several are.
That two of them can no longer fail may be known before; such schemas are not among these.
"""

from collections.abc import Iterator

import pytest

from argstream.jsonstream import Done, Key, Start, Text
from argstream.validation import Schema
from tests.validation.continuations import Vocabulary
from tests.validation.rulings import JsonSchema, judge_fragments, oracle
from tests.validation.universes import Reading, Universe, arrays, earliest, objects, strings

NUMBERS = ["0", "-0", "-0.0", "1", "1.0", "10e-1", "-1", "1.5", "1.5e1", "15", "1E400"]
SCALARS = [*NUMBERS, "true", "false", "null", '""', '"a"', '"ab"', r'"\u0061"']
SMALL = ["1", "1.5", '"a"', "null", "[]", "{}"]


def _of_all_kinds() -> Iterator[str]:
    yield from SCALARS
    yield from arrays(SMALL, 2)
    yield from objects(["a", "b"], SMALL, 2)


def _of_texts() -> Iterator[str]:
    """Yield strings over letters, an escape, an emoji whole, escaped and cut; few others."""
    yield from strings(["a", "b", "c", r"\u0061"], 3)
    yield from strings(["a", "😀", r"\ud83d\ude00", r"\n", r"\ud83d"], 3)
    yield from ('"abcd"', '"aaaa"', r'"ab\u0063d"')
    yield from ("1", "1.0", "2", "true", "false", "null", "[]", "{}")


def _of_arrays() -> Iterator[str]:
    yield from arrays(["1", "1.5", '"a"', '"b"', "[1]", '{"a":1}'], 3)
    yield from arrays(["1"], 5)
    yield from arrays([*arrays(["1", '"a"'], 2)], 2)
    yield from ('{"a":1}', "1", '"a"', "[[[1]]]", "[[[[1]]]]", '[[["a"]]]', '[[[["a"]]]]')


def _of_objects() -> Iterator[str]:
    yield from objects(["a", r"\u0061", "b", "ab", ""], ["1", '"a"'], 2)
    yield from objects(["a", "b", "ab", ""], ["1"], 4)
    yield from objects(["a", "b"], ["1", '"ab"', "1.5", '{"a":1}', '{"b":1}', "{}", "[1]"], 2)
    yield from ("[1]", "1", '"a"', '{"a":{"a":{"a":1}}}', '{"a":{"a":{"b":1}}}')


# What a text may go on with, and whatever these schemas want is among it.
GOES_ON = Vocabulary(
    endings=["", "a", "b", "c", "bc", "d", "cd", "bcd", "ab", "abc", "😀", "\n", "\ufffd"],
    values=[1, 1.5, 0, 15, -1, "", "a", "ab", "b", "abc", True, False, None, [], [1], {}, {"a": 1}],
    members=[{}, {"a": 1}, {"a": "a"}, {"a": {}}, {"b": 1}, {"a": 1, "b": "a"}, {"": 1}],
    items=[[], [1], ["a"], ["a", "a"]],
)
UNIVERSES: dict[str, Universe] = {}
MADE_OF = {
    "of all kinds": _of_all_kinds,
    "of texts": _of_texts,
    "of arrays": _of_arrays,
    "of objects": _of_objects,
}


def universe(name: str) -> Universe:
    if name not in UNIVERSES:
        UNIVERSES[name] = Universe(MADE_OF[name](), GOES_ON)
    return UNIVERSES[name]


STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
OBJECT, ARRAY = {"type": "object"}, {"type": "array"}

CASES: dict[str, list[tuple[str, JsonSchema]]] = {
    "type": [
        *(
            ("of all kinds", {"type": name})
            for name in ("string", "number", "integer", "boolean", "null", "array", "object")
        ),
        ("of all kinds", {"type": ["string", "null"]}),
        ("of all kinds", {"type": ["integer", "object"]}),
        ("of all kinds", {"type": ["integer", "number"]}),
    ],
    "false": [("of all kinds", False)],
    "enum": [
        ("of texts", {"enum": ["abc", "abd", "b"]}),
        ("of texts", {"enum": ["a", "ab", "abcd"]}),
        ("of texts", {"enum": [""]}),
        ("of texts", {"enum": ["a", ""]}),
        ("of texts", {"enum": ["😀", "a😀", "\n"]}),
        ("of texts", {"enum": ["a\ufffd", "aa"]}),
        ("of texts", {"enum": ["ab", 1, None, True]}),
        ("of all kinds", {"enum": [1, 1.5]}),
        ("of all kinds", {"enum": [0, False, "ab"]}),
        ("of all kinds", {"enum": [15.0, True, None]}),
        ("of arrays", {"items": {"enum": ["b", 1]}}),
        ("of objects", {"properties": {"a": {"enum": ["ab"]}}}),
    ],
    "const": [
        ("of texts", {"const": "abc"}),
        ("of texts", {"const": ""}),
        ("of texts", {"const": "😀"}),
        ("of texts", {"const": None}),
        ("of all kinds", {"const": 1}),
        ("of all kinds", {"const": 1.0}),
        ("of all kinds", {"const": 0}),
        ("of all kinds", {"const": False}),
        ("of objects", {"properties": {"a": {"const": "ab"}}}),
    ],
    "properties": [
        ("of objects", {"properties": {"a": STRING}}),
        ("of objects", {"properties": {"a": STRING, "b": INTEGER}}),
        ("of objects", {"properties": {"": INTEGER, "ab": INTEGER}}),
        ("of objects", {"properties": {"a": {"properties": {"a": STRING}}}}),
        ("of objects", {"properties": {"a": {"properties": {"a": OBJECT}}}}),
        ("of objects", {"properties": {"a": True}}),
    ],
    "additionalProperties": [
        ("of objects", {"additionalProperties": False}),
        ("of objects", {"properties": {"a": True}, "additionalProperties": False}),
        ("of objects", {"properties": {"a": STRING, "b": True}, "additionalProperties": False}),
        ("of objects", {"properties": {"a": {"additionalProperties": False}}}),
        ("of objects", {"additionalProperties": STRING}),
        ("of objects", {"properties": {"a": INTEGER}, "additionalProperties": STRING}),
    ],
    "propertyNames": [
        ("of objects", {"propertyNames": {"enum": ["a", "ab"]}}),
        ("of objects", {"propertyNames": {"const": "b"}}),
        ("of objects", {"propertyNames": {"maxLength": 1}}),
        ("of objects", {"propertyNames": {"minLength": 1}}),
        ("of objects", {"propertyNames": {"pattern": "^a"}}),
        ("of objects", {"propertyNames": {"not": {"const": "a"}}}),
        ("of objects", {"propertyNames": {"type": "string"}}),
        ("of objects", {"propertyNames": False}),
    ],
    "items": [
        ("of arrays", {"items": STRING}),
        ("of arrays", {"items": INTEGER}),
        ("of arrays", {"items": {"items": STRING}}),
        ("of arrays", {"items": {"properties": {"a": STRING}}}),
        ("of arrays", {"items": False}),
    ],
    "prefixItems": [
        ("of arrays", {"prefixItems": [STRING]}),
        ("of arrays", {"prefixItems": [INTEGER, STRING]}),
        ("of arrays", {"prefixItems": [True, INTEGER]}),
        ("of arrays", {"prefixItems": [STRING], "items": INTEGER}),
        ("of arrays", {"prefixItems": [True, True], "items": False}),
        ("of arrays", {"items": {"prefixItems": [STRING, STRING]}}),
    ],
    "maxLength": [
        ("of texts", {"maxLength": 0}),
        ("of texts", {"maxLength": 1}),
        ("of texts", {"maxLength": 2}),
        ("of objects", {"properties": {"a": {"maxLength": 1}}}),
        ("of arrays", {"items": {"maxLength": 0}}),
    ],
    "maxItems": [
        ("of arrays", {"maxItems": 0}),
        ("of arrays", {"maxItems": 1}),
        ("of arrays", {"maxItems": 2}),
        ("of arrays", {"items": {"maxItems": 1}}),
    ],
    "maxProperties": [
        ("of objects", {"maxProperties": 0}),
        ("of objects", {"maxProperties": 1}),
        ("of objects", {"maxProperties": 2}),
        ("of objects", {"properties": {"a": {"maxProperties": 0}}}),
    ],
    "required": [
        ("of objects", {"required": ["a"]}),
        ("of objects", {"required": ["b", "a"]}),
        ("of objects", {"required": [""]}),
        ("of objects", {"properties": {"a": {"required": ["a"]}}}),
        ("of objects", {"required": []}),
    ],
    "$ref": [
        ("of texts", {"$ref": "#/$defs/short", "$defs": {"short": {"maxLength": 1}}}),
        ("of objects", {"properties": {"a": {"$ref": "#/$defs/s"}}, "$defs": {"s": STRING}}),
        ("of objects", {"properties": {"a": {"$ref": "#"}}, "additionalProperties": False}),
        ("of objects", {"properties": {"b": {"$ref": "#/properties/a"}, "a": STRING}}),
        (
            "of objects",
            {"properties": {"a": {"$ref": "#/definitions/s"}}, "definitions": {"s": STRING}},
        ),
        ("of arrays", {"items": {"$ref": "#"}, "type": ["array", "integer"]}),
        ("of arrays", {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"maxItems": 1}}}),
        (
            "of arrays",
            {"$ref": "#/$defs/a%25b", "$defs": {"a%b": {"maxItems": 1}}, "items": STRING},
        ),
        ("of texts", {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": STRING}}),
    ],
    "allOf": [
        ("of texts", {"allOf": [STRING, {"maxLength": 2}]}),
        ("of texts", {"allOf": [{"enum": ["ab", "ac", "b"]}, {"enum": ["ab", "b", "bc"]}]}),
        ("of objects", {"allOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        ("of objects", {"allOf": [{"properties": {"a": STRING}}, {"properties": {"b": INTEGER}}]}),
        ("of objects", {"allOf": [{"properties": {"a": STRING}}, {"maxProperties": 1}]}),
        ("of arrays", {"allOf": [{"items": INTEGER}, {"maxItems": 2}]}),
        ("of texts", {"allOf": [{"maxLength": 1}, {"maxLength": 2}]}),
        ("of arrays", {"allOf": [{"maxItems": 2}, {"maxItems": 1}]}),
        ("of objects", {"maxProperties": 2, "allOf": [{"maxProperties": 1}]}),
    ],
    "anyOf": [
        ("of all kinds", {"anyOf": [STRING, INTEGER]}),
        ("of all kinds", {"anyOf": [{"type": "null"}, {"items": INTEGER, "type": "array"}]}),
        ("of texts", {"anyOf": [{"const": "abc"}, {"const": "abd"}, {"maxLength": 1}]}),
        ("of texts", {"anyOf": [{"enum": ["abc"]}, INTEGER]}),
        (
            "of objects",
            {
                "anyOf": [
                    {"properties": {"a": {"const": "a"}, "b": INTEGER}},
                    {"properties": {"a": {"const": 1}, "b": STRING}},
                ]
            },
        ),
        ("of objects", {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        ("of objects", {"anyOf": [{"maxProperties": 0}, {"propertyNames": {"const": "a"}}]}),
        ("of objects", {"properties": {"a": {"anyOf": [INTEGER, {"required": ["a"]}]}}}),
        ("of arrays", {"anyOf": [{"maxItems": 1}, {"items": INTEGER}]}),
        ("of arrays", {"anyOf": [{"prefixItems": [STRING]}, {"prefixItems": [True, INTEGER]}]}),
        ("of arrays", {"items": {"anyOf": [STRING, INTEGER]}}),
        (
            "of all kinds",
            {
                "anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x"}],
                "$defs": {"x": {"anyOf": [STRING, {"items": INTEGER, "type": "array"}]}},
            },
        ),
        (
            "of texts",
            {
                "anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x", "maxLength": 2}],
                "$defs": {"x": {"anyOf": [{"const": "abc"}, {"const": "aa"}, INTEGER]}},
            },
        ),
        (
            "of objects",
            {
                "anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x", "maxProperties": 5}],
                "$defs": {"x": {"properties": {"a": STRING}, "additionalProperties": OBJECT}},
            },
        ),
        (
            "of arrays",
            {
                "oneOf": [{"$ref": "#/$defs/x", "maxItems": 1}, {"$ref": "#/$defs/x"}],
                "$defs": {"x": {"items": STRING}},
            },
        ),
        ("of arrays", {"anyOf": [{"items": STRING}, {"anyOf": [{"maxItems": 2}, INTEGER]}]}),
    ],
    "oneOf": [
        ("of all kinds", {"oneOf": [STRING, INTEGER]}),
        ("of all kinds", {"oneOf": [INTEGER, NUMBER]}),
        ("of all kinds", {"oneOf": [{"const": "a"}, STRING]}),
        ("of texts", {"oneOf": [{"const": "abc"}, {"const": "abd"}]}),
        ("of texts", {"oneOf": [{"enum": ["a", "ab", "abc"]}, {"enum": ["ab", "b"]}]}),
        (
            "of objects",
            {
                "oneOf": [
                    {"properties": {"a": {"const": "a"}, "b": INTEGER}, "required": ["a"]},
                    {"properties": {"a": {"const": 1}, "b": STRING}, "required": ["a"]},
                ]
            },
        ),
        ("of arrays", {"items": {"oneOf": [STRING, INTEGER]}}),
        ("of arrays", {"items": {"oneOf": [INTEGER, NUMBER, STRING]}}),
        ("of arrays", {"items": {"oneOf": [{"const": "a"}, {"type": ["string", "integer"]}]}}),
        ("of objects", {"properties": {"a": {"oneOf": [OBJECT, {"maxProperties": 1}]}}}),
        ("of arrays", {"oneOf": [{"items": STRING, "maxItems": 1}, {"items": INTEGER}]}),
    ],
}


@pytest.mark.bulk
@pytest.mark.parametrize(
    ("name", "schema"),
    [
        pytest.param(name, schema, id=f"{keyword} {number}")
        for keyword, cases in CASES.items()
        for number, (name, schema) in enumerate(cases)
    ],
)
def test_the_fragment_of_rejection_is_the_earliest_possible(name: str, schema: JsonSchema) -> None:
    compiled = Schema(schema)
    validator = oracle(schema)
    everything = universe(name)
    alive = everything.alive(validator)
    late = [
        (reading.text, seen, expected)
        for reading in everything.readings
        if (seen := judge_fragments(compiled, reading.said).seen)
        != (expected := earliest(reading, alive))
    ]
    assert late[:3] == [], "text, fragments it took, fragments it takes"


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("of arrays", {"items": {"$ref": "#s"}, "$defs": {"s": {"$anchor": "s", **STRING}}}),
        ("of texts", {"$ref": "http://x/s", "$defs": {"s": {"$id": "http://x/s", "maxLength": 2}}}),
        (
            "of objects",
            {"properties": {"a": {"$dynamicRef": "#s"}}, "$dynamicAnchor": "s", **OBJECT},
        ),
    ],
)
def test_a_reference_by_name_is_judged_at_the_latest_at_the_end(
    name: str, schema: JsonSchema
) -> None:
    compiled = Schema(schema)
    validator = oracle(schema)
    everything = universe(name)
    alive = everything.alive(validator)
    for reading in everything.readings:
        ruling = judge_fragments(compiled, reading.said)
        valid = validator.is_valid(reading.value)
        assert ruling.verdict == ("valid" if valid else "rejected"), reading.text
        if ruling.seen is not None:
            assert reading.beginnings[ruling.seen - 1] not in alive, reading.text


@pytest.mark.parametrize("keyword", CASES)
def test_each_of_these_keywords_refuses_something_and_accepts_something(keyword: str) -> None:
    """Or else the comparison above would say nothing."""
    accepted = refused = 0
    for name, schema in CASES[keyword]:
        validator = oracle(schema)
        valid = [validator.is_valid(reading.value) for reading in universe(name).readings]
        accepted += sum(valid)
        refused += len(valid) - sum(valid)
    assert refused > 0
    assert accepted > 0 or keyword == "false"


def _offset_of(reading: Reading, seen: int, text: str | None) -> int:
    """Return where a refusal must say it is, by the fragment that decided."""
    fragments = reading.fragments
    fragment = fragments[seen - 1]
    match fragment:
        case Text(path, said):
            assert text is not None
            assert said.startswith(text)
            before = sum(
                len(other.text)
                for other in fragments[: seen - 1]
                if isinstance(other, Text) and other.path == path
            )
            start = next(
                other.offset
                for other in fragments
                if isinstance(other, Start) and other.path == path
            )
            return start + before + len(text)
        case Start(_, _, offset) | Done(_, _, offset) | Key(_, offset):
            assert text is None
            return offset
        case _:
            pytest.fail(f"decided by {fragment}")


@pytest.mark.bulk
@pytest.mark.parametrize("keyword", CASES)
def test_a_refusal_says_where(keyword: str) -> None:
    for name, schema in CASES[keyword]:
        compiled = Schema(schema)
        for reading in universe(name).readings:
            ruling = judge_fragments(compiled, reading.said)
            if ruling.seen is None or ruling.error is None:
                continue
            path = reading.fragments[ruling.seen - 1].path
            said = (schema, reading.text, ruling.error)
            assert ruling.error.reason == "schema", said
            assert ruling.error.offset == _offset_of(reading, ruling.seen, ruling.text), said
            # What is wrong may be the value itself, or something that it is in.
            assert ruling.error.path == path[: len(ruling.error.path)], said
