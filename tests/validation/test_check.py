"""What a check of one value says, and when: the face that assembly and others see."""

from typing import Any

import pytest

from argstream.events import ArgumentsError
from argstream.jsonstream import Parser
from argstream.testing import chunkings, cut
from argstream.validation import Schema, SchemaCheck
from tests.validation.rulings import batches, judge

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
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def fed(schema: Any, *chunks: str) -> SchemaCheck:
    """Feed chunks and do not close."""
    check = Schema(schema).check()
    parser = Parser(unique_keys=True)
    for chunk in chunks:
        check.feed(parser.feed(chunk))
    return check


def test_it_is_open_until_the_value_is_done() -> None:
    text = '{"path": "a.py", "mode": "append"}'
    for length in range(len(text)):
        check = fed(WRITE, text[:length])
        assert (check.verdict, check.error) == ("open", None), text[:length]
    check = fed(WRITE, text)
    assert (check.verdict, check.error) == ("valid", None)


def test_it_is_open_before_anything_was_said() -> None:
    check = Schema(False).check()
    assert check.feed([]) is None
    assert (check.verdict, check.error) == ("open", None)


def test_a_refusal_counts_the_fragments_of_its_batch() -> None:
    check = Schema(WRITE).check()
    fragments = Parser().feed('{"path": "a.py", "mood": 1, "lines": [2]}')
    refusal = check.feed(fragments)
    assert refusal is not None
    assert fragments[refusal.seen - 1].path == ("mood",)
    assert refusal.text is None
    assert refusal.error is check.error
    assert check.verdict == "rejected"


def test_a_refusal_has_the_text_up_to_the_character_that_decided() -> None:
    check = Schema(WRITE).check()
    parser = Parser()
    assert check.feed(parser.feed('{"mode": "app')) is None
    fragments = parser.feed("roximately")
    refusal = check.feed(fragments)
    assert refusal is not None
    assert (refusal.seen, refusal.text) == (1, "r")
    assert refusal.error.offset == 13


def test_a_limit_on_length_is_passed_in_the_middle_of_a_piece() -> None:
    check = Schema(WRITE).check()
    refusal = check.feed(Parser().feed('{"path": "/a/long/path"}'))
    assert refusal is not None
    assert refusal.text == "/a/long/p"
    assert refusal.error.keyword == "maxLength"


@pytest.mark.parametrize(
    "branches",
    [
        [{"const": "abcd"}, {"maxLength": 1}],
        [{"maxLength": 1}, {"const": "abcd"}],
        [{"enum": ["abd", "b"]}, {"enum": ["abc"]}, {"type": "null"}, {"maxLength": 2}],
        [{"maxLength": 3}, {"maxLength": 2}, {"maxLength": 0}],
    ],
)
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_the_words_do_not_depend_on_the_chunking(keyword: str, branches: list[Any]) -> None:
    schema = Schema({"items": {keyword: branches}})
    text = r'["abcé😀\u0061fgh", 1]'
    expected = judge(schema, [text])
    assert expected.verdict == "rejected"
    for name, chunks in chunkings(text):
        assert judge(schema, chunks).said == expected.said, name


def test_checks_of_one_schema_do_not_know_each_other() -> None:
    schema = Schema(WRITE)
    first, second = schema.check(), schema.check()
    one, other = Parser(), Parser()
    for good, bad in zip(cut('{"path": "a"}', [1]), cut('{"path": 12}', [1]), strict=False):
        first.feed(one.feed(good))
        second.feed(other.feed(bad))
    assert (first.verdict, second.verdict) == ("open", "rejected")
    first.feed(one.feed("}"))
    assert first.verdict == "valid"


def test_finish_judges_arguments_that_were_meant_in_another_way() -> None:
    """``{}{"path": "a"}`` is read as ``{}``; what was meant has all that is required."""
    check = fed(WRITE, "{}")
    assert check.verdict == "rejected"
    assert check.finish({"path": "a"}, as_read=False) is None
    error = fed(WRITE, '{"path": "a"}').finish({"path": 3}, as_read=False)
    assert isinstance(error, ArgumentsError)
    assert (error.reason, error.path, error.keyword) == ("schema", ("path",), "type")


def test_finish_judges_a_text_as_a_string() -> None:
    check = Schema({"type": "string", "maxLength": 3}).check()
    assert check.finish("abc", as_read=False) is None
    assert check.finish("abcd", as_read=False) is not None


def test_numeric_bounds_are_judged_when_the_number_is_done() -> None:
    check = fed({"properties": {"n": {"maximum": 10}}}, '{"n": 11')
    assert check.verdict == "open"
    check = fed({"properties": {"n": {"maximum": 10}}}, '{"n": 11,')
    assert check.error is not None
    assert (check.error.keyword, check.error.path) == ("maximum", ("n",))


def test_formats_are_annotations_unless_asked_for() -> None:
    schema = {"properties": {"day": {"format": "date"}}}
    text = '{"day": "someday", "n": 1}'
    assert judge(Schema(schema), [text]).verdict == "valid"
    assert judge(Schema(schema, formats=True), [text]).verdict == "rejected"


@pytest.mark.parametrize("said", [{}, {"$schema": DRAFT_7}])
@pytest.mark.parametrize(
    ("schema", "wrong", "right"),
    [
        (
            {"definitions": {"s": {"type": "string"}}, "items": {"$ref": "#/definitions/s"}},
            "[1",
            '["a"]',
        ),
        ({"items": [{"type": "string"}]}, "[1", '["a", 1]'),
        ({"items": [{"type": "string"}], "additionalItems": False}, '["a", 1', '["a"]'),
        ({"items": [{}], "additionalItems": {"type": "null"}}, '["a", 1', '["a", null]'),
        ({"additionalItems": False}, None, "[1]"),
        ({"dependencies": {"a": ["b"]}}, '{"a": 1}', '{"a": 1, "b": 2}'),
        ({"dependencies": {"a": {"required": ["b"]}}}, '{"a": 1}', '{"b": 1}'),
    ],
)
def test_the_spellings_of_draft_7_are_taken(
    said: dict[str, Any], schema: Any, wrong: str | None, right: str
) -> None:
    assert fed({**said, **schema}, right).verdict == "valid"
    if wrong is not None:
        assert fed({**said, **schema}, wrong).verdict == "rejected"


@pytest.mark.parametrize("name", ["items", "$ref", "$id", "properties", "enum", "$schema", "anyOf"])
def test_a_name_may_look_like_a_keyword(name: str) -> None:
    schema = {
        "properties": {name: {"type": "string"}, "b": {"prefixItems": [{"type": "integer"}]}},
        "required": [name],
        "dependentRequired": {name: ["b"]},
        "default": {name: ["b"]},
    }
    assert fed(schema, f'{{"{name}": "a", "b": [1]}}').verdict == "valid"
    assert fed(schema, f'{{"{name}": 1').verdict == "rejected"
    assert fed(schema, '{"b": [true').verdict == "rejected"


def test_text_that_is_no_json_is_not_its_business() -> None:
    check = Schema(WRITE).check()
    for fragments in batches(['{"path": "a" nonsense']):
        check.feed(fragments)
    assert (check.verdict, check.error) == ("open", None)


def test_the_value_of_a_replaced_surrogate_is_what_counts() -> None:
    r"""Invariant 4: ``\ud800`` alone is U+FFFD, for us and for jsonschema-rs alike."""
    schema = Schema({"enum": ["\ufffd", "\ufffda"]})
    assert judge(schema, cut(r'"\ud800a"', [1])).verdict == "valid"
    assert judge(schema, cut(r'"\udc00"', [1])).verdict == "valid"
    assert judge(schema, cut(r'"\ud800b"', [1])).verdict == "rejected"


def test_a_schema_may_name_itself_by_its_address() -> None:
    address = "https://example.com/tool.json"
    schema = {
        "$id": address,
        "properties": {"a": {"$ref": f"{address}#/$defs/name"}},
        "$defs": {"name": {"type": "string"}},
    }
    assert fed(schema, '{"a": 1').verdict == "rejected"
    assert fed(schema, '{"a": "b"}').verdict == "valid"


@pytest.mark.parametrize(
    "dialect",
    [
        "https://spec.openapis.org/oas/3.1/dialect/base",
        "http://json-schema.org/draft-07/schema#/",
        "http://json-schema.org/schema#",
        "",
    ],
)
def test_an_unknown_dialect_is_read_as_the_newest(dialect: str) -> None:
    schema = {"$schema": dialect, "properties": {"a": {"type": "string"}}}
    assert fed(schema, '{"a": 1').verdict == "rejected"
    assert fed(schema, '{"a": "b"}').verdict == "valid"


def test_a_long_enum_beside_other_keywords_is_not_taken_at_its_word() -> None:
    many = [f"x{number}" for number in range(1001)]
    schema = {"oneOf": [{"enum": [*many, "abcdef"], "maxLength": 3}, {"const": "abcdef"}]}
    assert fed(schema, '"abcdef"').verdict == "valid"
    schema = {"oneOf": [{"allOf": [{"enum": [*many, None]}, {"enum": many}]}, {"const": None}]}
    assert fed(schema, "null").verdict == "valid"
