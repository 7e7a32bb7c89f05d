"""The check of one value: its verdict, when it comes, and messages that a model can act on."""

from typing import Any

import pytest

from argstream.events import ArgumentsError
from argstream.jsonstream import Parser
from argstream.testing import chunkings, cut
from argstream.validation import Schema, SchemaCheck
from tests.validation.checking import JsonSchema, batches, check_text

WRITE = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "maxLength": 8},
        "mode": {"enum": ["append", "replace"]},
        "lines": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["path"],
    "additionalProperties": False,
}
STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}


def fed(schema: Any, *chunks: str) -> SchemaCheck:
    check = Schema(schema).check()
    parser = Parser(unique_keys=True)
    for chunk in chunks:
        check.feed(parser.feed(chunk))
    return check


def test_verdict_is_open_until_the_value_is_complete() -> None:
    check = Schema(False).check()
    assert check.feed([]) is None
    assert (check.verdict, check.error) == ("open", None)
    text = '{"path": "a.py", "mode": "append"}'
    for length in range(len(text)):
        check = fed(WRITE, text[:length])
        assert (check.verdict, check.error) == ("open", None), text[:length]
    check = fed(WRITE, text)
    assert (check.verdict, check.error) == ("valid", None)


def test_verdict_stays_open_for_text_that_is_not_json() -> None:
    check = Schema(WRITE).check()
    for fragments in batches(['{"path": "a" nonsense']):
        check.feed(fragments)
    assert (check.verdict, check.error) == ("open", None)


def test_refusal_counts_the_fragments_of_its_batch() -> None:
    check = Schema(WRITE).check()
    fragments = Parser().feed('{"path": "a.py", "mood": 1, "lines": [2]}')
    refusal = check.feed(fragments)
    assert refusal is not None
    assert fragments[refusal.seen - 1].path == ("mood",)
    assert refusal.text is None
    assert refusal.error is check.error
    assert check.verdict == "rejected"


def test_refusal_has_the_text_up_to_the_rejected_character() -> None:
    check = Schema(WRITE).check()
    parser = Parser()
    assert check.feed(parser.feed('{"mode": "app')) is None
    refusal = check.feed(parser.feed("roximately"))
    assert refusal is not None
    assert (refusal.seen, refusal.text, refusal.error.offset) == (1, "r", 13)
    refusal = Schema(WRITE).check().feed(Parser().feed('{"path": "/a/long/path"}'))
    assert refusal is not None
    assert (refusal.text, refusal.error.keyword) == ("/a/long/p", "maxLength")


@pytest.mark.parametrize(
    "branches",
    [
        [{"const": "abcd"}, {"maxLength": 1}],
        [{"enum": ["abd", "b"]}, {"enum": ["abc"]}, NULL, {"maxLength": 2}],
        [{"maxLength": 3}, {"maxLength": 2}, {"maxLength": 0}],
    ],
)
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_message_does_not_depend_on_the_chunking(keyword: str, branches: list[Any]) -> None:
    schema = Schema({"items": {keyword: branches}})
    text = r'["abcé😀\u0061fgh", 1]'
    expected = check_text(schema, [text])
    assert expected.verdict == "rejected"
    for name, chunks in chunkings(text):
        assert check_text(schema, chunks).stable == expected.stable, name


def test_checks_of_one_schema_are_independent() -> None:
    schema = Schema(WRITE)
    first, second = schema.check(), schema.check()
    one, other = Parser(), Parser()
    for good, bad in zip(cut('{"path": "a"}', [1]), cut('{"path": 12}', [1]), strict=False):
        first.feed(one.feed(good))
        second.feed(other.feed(bad))
    assert (first.verdict, second.verdict) == ("open", "rejected")
    first.feed(one.feed("}"))
    assert first.verdict == "valid"


DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DEFINED = {"definitions": {"s": STRING}, "items": {"$ref": "#/definitions/s"}}


@pytest.mark.parametrize("dialect", [{}, {"$schema": DRAFT_7}])
@pytest.mark.parametrize(
    ("schema", "wrong", "right"),
    [
        (DEFINED, "[1", '["a"]'),
        ({"items": [STRING]}, "[1", '["a", 1]'),
        ({"items": [STRING], "additionalItems": False}, '["a", 1', '["a"]'),
        ({"items": [{}], "additionalItems": NULL}, '["a", 1', '["a", null]'),
        ({"additionalItems": False}, None, "[1]"),
        ({"dependencies": {"a": ["b"]}}, '{"a": 1}', '{"a": 1, "b": 2}'),
        ({"dependencies": {"a": {"required": ["b"]}}}, '{"a": 1}', '{"b": 1}'),
    ],
)
def test_keywords_of_draft_7_are_supported(
    dialect: dict[str, Any], schema: Any, wrong: str | None, right: str
) -> None:
    assert fed({**dialect, **schema}, right).verdict == "valid"
    if wrong is not None:
        assert fed({**dialect, **schema}, wrong).verdict == "rejected"


@pytest.mark.parametrize("name", ["items", "$ref", "$id", "properties", "enum", "$schema", "anyOf"])
def test_property_may_have_the_name_of_a_keyword(name: str) -> None:
    schema = {
        "properties": {name: STRING, "b": {"prefixItems": [INTEGER]}},
        "required": [name],
        "dependentRequired": {name: ["b"]},
        "default": {name: ["b"]},
    }
    assert fed(schema, f'{{"{name}": "a", "b": [1]}}').verdict == "valid"
    assert fed(schema, f'{{"{name}": 1').verdict == "rejected"
    assert fed(schema, '{"b": [true').verdict == "rejected"


ADDRESS = "https://example.com/tool.json"
UNKNOWN_DIALECTS = [
    *("https://spec.openapis.org/oas/3.1/dialect/base", "http://json-schema.org/schema#", ""),
    "http://json-schema.org/draft-07/schema#/",
]


@pytest.mark.parametrize(
    "schema",
    [
        *({"$schema": dialect, "properties": {"a": STRING}} for dialect in UNKNOWN_DIALECTS),
        {
            "$id": ADDRESS,
            "properties": {"a": {"$ref": f"{ADDRESS}#/$defs/name"}},
            "$defs": {"name": STRING},
        },
    ],
)
def test_unknown_dialect_and_reference_to_own_id_are_checked(schema: Any) -> None:
    assert fed(schema, '{"a": 1').verdict == "rejected"
    assert fed(schema, '{"a": "b"}').verdict == "valid"


def test_long_enum_beside_other_keywords_is_combined_with_them() -> None:
    many = [f"x{number}" for number in range(1001)]
    schema = {"oneOf": [{"enum": [*many, "abcdef"], "maxLength": 3}, {"const": "abcdef"}]}
    assert fed(schema, '"abcdef"').verdict == "valid"
    schema = {"oneOf": [{"allOf": [{"enum": [*many, None]}, {"enum": many}]}, {"const": None}]}
    assert fed(schema, "null").verdict == "valid"


COLOUR = {"properties": {"colour": {"enum": ["red", "green"]}}}
CLOSED = {"properties": {"path": {}, "text": {}}, "additionalProperties": False}
SIDES = {"propertyNames": {"enum": ["left", "right"]}}
REQUIRED = {"required": ["path", "text"]}


@pytest.mark.parametrize(
    ("keyword", "schema", "text", "path", "words"),
    [  # "|" marks the rejection
        ("type", {"properties": {"n": INTEGER}}, '{"n": "|1"}', ("n",), ["number"]),
        ("type", {"items": INTEGER}, "[1.5]|", (0,), ["number"]),
        ("enum", COLOUR, '{"colour": "grey|"}', ("colour",), ["red", "green"]),
        ("enum", {"items": {"enum": [1, 2]}}, "[3]|", (0,), ["1", "2"]),
        ("const", {"const": "yes"}, '"ya|p"', (), ["yes"]),
        ("maxLength", {"items": {"maxLength": 3}}, '["abcd|ef"]', (0,), ["3"]),
        ("maxItems", {"maxItems": 2}, "[1, 2, 3|, 4]", (), ["2"]),
        ("maxProperties", {"maxProperties": 1}, '{"a": 1, "b"|: 2}', (), ["1"]),
        ("required", REQUIRED, '{"path": 1}|', (), ["text"]),
        ("additionalProperties", CLOSED, '{"pth"|: 1}', (), ["pth", "path", "text"]),
        ("propertyNames", SIDES, '{"up"|: 1}', (), ["up", "left", "right"]),
        ("type", {"prefixItems": [STRING]}, "[1|]", (0,), ["string"]),
        ("minimum", {"items": {"minimum": 3}}, "[2,| 4]", (0,), ["3"]),
        ("type", {"anyOf": [STRING, NULL]}, "7|", (), ["string", "null"]),
    ],
)
def test_message_names_the_fix_at_the_first_wrong_character(
    keyword: str, schema: JsonSchema, text: str, path: Any, words: list[str]
) -> None:
    read, rest = text.split("|")
    check = Schema(schema).check()
    parser = Parser(unique_keys=True)
    fed_so_far = ""
    for character in cut(read + rest, [1]):
        fed_so_far += character
        if check.feed(parser.feed(character)) is not None:
            break
    assert fed_so_far == read
    error = check.error
    assert error is not None
    # The path of an unknown member may be its own or that of its object.
    assert error.path[: len(path)] == path
    assert error.keyword in (keyword, "anyOf")
    assert [word for word in words if word not in error.message] == []


def error_of(schema: Any, text: str) -> ArgumentsError:
    error = check_text(Schema(schema), [text]).error
    assert error is not None
    return error


def nested(inner: JsonSchema, names: str) -> JsonSchema:
    for name in names:
        inner = {"type": "object", "properties": {name: {"anyOf": [inner, NULL]}}}
    return inner


FORMS = {
    "oneOf": [
        {"properties": {"kind": {"const": kind}, "size": {"type": kind}}, "required": ["kind"]}
        for kind in ("string", "integer", "boolean")
    ]
}
LIMIT = {"type": "object", "properties": {"limit": INTEGER}}
NEVER = {"$defs": {"items": False}}


@pytest.mark.parametrize(
    ("schema", "text", "message"),
    [
        # Of a union, the message is about the branch that was meant; of forms, the one named.
        (nested(LIMIT, "cba"), '{"a": {"b": {"c": {"limit": "ten"}}}}',
         "'a.b.c.limit' must be a whole number, not a string"),
        (FORMS, '{"kind": "integer", "size": "large"}',
         "'size' must be a whole number, not a string"),
        # A definition with the name "items" is not the keyword.
        ({"$ref": "#/$defs/items", **NEVER}, '{"a": 1}', "the arguments must be omitted"),
        ({"properties": {"a": {"anyOf": [{"$ref": "#/$defs/items"}]}}, **NEVER}, '{"a": 1}',
         "'a' must be omitted"),
        ({"type": ["integer", "number"]}, '"a"', "the arguments must be a number, not a string"),
        # Only allowed values are offered.
        ({"enum": ["aa", "bb", "cc"], "not": {"const": "aa"}}, '"aa"',
         'the arguments must be one of "bb" or "cc", not "a…'),
        ({"enum": ["ab", "abc"], "maxLength": 2}, '"abc"', 'the arguments must be "ab", not "abc…'),
        ({"enum": ["a"], "type": ["string", "integer"]}, "1",
         'the arguments must be "a", not a number'),
        ({"items": {"$ref": "#/$defs/Never"}, "$defs": {"Never": False}}, "[1]",
         "the arguments must have at most 0 items"),
    ],
)  # fmt: skip
def test_message_is_about_the_intended_branch(schema: Any, text: str, message: str) -> None:
    assert error_of(schema, text).message == message


def test_message_is_short_and_printable() -> None:
    schema: Any = {"enum": [f"value number {n}" for n in range(10_000)]}
    assert len(error_of(schema, '"x"').message) < 2_000
    message = error_of(FORMS, '{"kind": "float"').message
    assert all(f'"{kind}"' in message for kind in ("string", "integer", "boolean"))
    schema = {"properties": {"a": {"const": "b"}}, "additionalProperties": False}
    for text in ('{"a": "\u202e\u009b31m"}', '{"\u202e\u009b": 1}'):
        assert error_of(schema, text).message.isprintable()
