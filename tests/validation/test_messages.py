"""What is said of a value that does not fit: words that a model can act on."""

from typing import Any, NamedTuple

import pytest

from argstream.events import ArgumentsError
from argstream.jsonstream import Parser
from argstream.testing import cut
from argstream.validation import Schema
from tests.validation.rulings import JsonSchema, judge

STRING, INTEGER = {"type": "string"}, {"type": "integer"}


class Example(NamedTuple):
    keyword: str
    schema: JsonSchema
    text: str
    read: str
    """What of the text it takes to refuse it."""
    path: tuple[str | int, ...]
    words: tuple[str, ...]
    """What the message must have."""


COLOUR = {"properties": {"colour": {"enum": ["red", "green"]}}}
CLOSED = {"properties": {"path": {}, "text": {}}, "additionalProperties": False}
SIDES = {"propertyNames": {"enum": ["left", "right"]}}
EXAMPLES = [
    Example("type", {"properties": {"n": INTEGER}}, '{"n": "1"}', '{"n": "', ("n",), ("number",)),
    Example("type", {"items": INTEGER}, "[1.5]", "[1.5]", (0,), ("number",)),
    Example(
        "enum", COLOUR, '{"colour": "grey"}', '{"colour": "grey', ("colour",), ("red", "green")
    ),
    Example("enum", {"items": {"enum": [1, 2]}}, "[3]", "[3]", (0,), ("1", "2")),
    Example("const", {"const": "yes"}, '"yap"', '"ya', (), ("yes",)),
    Example("maxLength", {"items": {"maxLength": 3}}, '["abcdef"]', '["abcd', (0,), ("3",)),
    Example("maxItems", {"maxItems": 2}, "[1, 2, 3, 4]", "[1, 2, 3", (), ("2",)),
    Example("maxProperties", {"maxProperties": 1}, '{"a": 1, "b": 2}', '{"a": 1, "b"', (), ("1",)),
    Example(
        "required", {"required": ["path", "text"]}, '{"path": 1}', '{"path": 1}', (), ("text",)
    ),
    Example("additionalProperties", CLOSED, '{"pth": 1}', '{"pth"', (), ("pth", "path", "text")),
    Example("propertyNames", SIDES, '{"up": 1}', '{"up"', (), ("up", "left", "right")),
    Example("type", {"prefixItems": [STRING]}, "[1]", "[1", (0,), ("string",)),
    Example("minimum", {"items": {"minimum": 3}}, "[2, 4]", "[2,", (0,), ("3",)),
    Example("type", {"anyOf": [STRING, {"type": "null"}]}, "7", "7", (), ("string", "null")),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.text)
def test_a_message_says_what_to_do(example: Example) -> None:
    check = Schema(example.schema).check()
    parser = Parser(unique_keys=True)
    read = ""
    for character in cut(example.text, [1]):
        read += character
        if check.feed(parser.feed(character)) is not None:
            break
    assert read == example.read
    error = check.error
    assert error is not None
    # A member that must not be there: its place may be told, or its object's.
    assert error.path[: len(example.path)] == example.path
    assert error.keyword in (example.keyword, "anyOf")
    for word in example.words:
        assert word in error.message


def error_of(schema: Any, text: str) -> ArgumentsError:
    error = judge(Schema(schema), [text]).error
    assert error is not None
    return error


def nested(inner: JsonSchema, names: str) -> JsonSchema:
    for name in names:
        inner = {"type": "object", "properties": {name: {"anyOf": [inner, {"type": "null"}]}}}
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
        # Of a union, the branch that was meant is told; of forms, the one that was named.
        (nested(LIMIT, "cba"), '{"a": {"b": {"c": {"limit": "ten"}}}}',
         "'a.b.c.limit' must be a whole number, not a string"),
        (FORMS, '{"kind": "integer", "size": "large"}',
         "'size' must be a whole number, not a string"),
        # A definition that is called items is not taken for the keyword.
        ({"$ref": "#/$defs/items", **NEVER}, '{"a": 1}', "the arguments must not be given"),
        ({"properties": {"a": {"anyOf": [{"$ref": "#/$defs/items"}]}}, **NEVER}, '{"a": 1}',
         "'a' must not be given"),
        # Only what is allowed is offered.
        ({"enum": ["aa", "bb", "cc"], "not": {"const": "aa"}}, '"aa"',
         'the arguments must be one of "bb" or "cc", not "a…'),
        ({"enum": ["ab", "abc"], "maxLength": 2}, '"abc"', 'the arguments must be "ab", not "abc…'),
        ({"enum": ["a"], "type": ["string", "integer"]}, "1",
         'the arguments must be "a", not a number'),
        ({"items": {"$ref": "#/$defs/Never"}, "$defs": {"Never": False}}, "[1]",
         "the arguments must have at most 0 items"),
    ],
)  # fmt: skip
def test_a_message_tells_what_was_meant_and_what_is_allowed(
    schema: Any, text: str, message: str
) -> None:
    assert error_of(schema, text).message == message


def test_a_message_lists_few_values_and_nothing_that_could_act_on_a_screen() -> None:
    schema: Any = {"enum": [f"value number {n}" for n in range(10_000)]}
    assert len(error_of(schema, '"x"').message) < 2_000
    message = error_of(FORMS, '{"kind": "float"').message
    assert all(f'"{kind}"' in message for kind in ("string", "integer", "boolean"))
    schema = {"properties": {"a": {"const": "b"}}, "additionalProperties": False}
    for text in ('{"a": "\u202e\u009b31m"}', '{"\u202e\u009b": 1}'):
        assert error_of(schema, text).message.isprintable()
