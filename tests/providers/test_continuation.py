"""What is missing of a JSON text that was cut, told by its value."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.providers.claude_agent import parsed, rest_of, same

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # What JavaScript cannot tell apart from a number, and what needs an escape.
    | st.sampled_from([1.0, -0.0, 2**53 + 1, "/", "\n", "é😀"])
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
STYLES: list[dict[str, Any]] = [
    {},
    {"ensure_ascii": False},
    {"separators": (",", ":")},
    {"indent": 2, "ensure_ascii": False},
]


@given(value=st.dictionaries(st.text(), VALUES), style=st.sampled_from(STYLES), data=st.data())
def test_any_text_cut_anywhere_becomes_its_value(
    value: dict[str, Any], style: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(value, **style)
    begun = text[: data.draw(st.integers(0, len(text)))]
    rest = rest_of(begun, value)
    assert rest is not None
    assert same(json.loads(begun + rest), value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1.', 1),
        ('{"a": 1.0', 1),
        ('{"a": 10', 1000),
        ('{"a": 1e', 1),
        ('{"a": -', -0.0),
        ('{"a": "\\/', "/"),
        ('{"a": "\\', "/"),
        ('{"a": "\\u00E', "é"),
        ('{"a": "\\uD83d', "😀"),
        ('{"a": "\\uD83d\\', "😀"),
        ('{"a": "x\\u000', "x\n"),
    ],
)
def test_what_can_be_written_in_several_ways_goes_on_in_the_one_that_was_begun(
    text: str, value: Any
) -> None:
    rest = rest_of(text, {"a": value})
    assert rest is not None
    assert json.loads(text + rest) == {"a": value}


@pytest.mark.parametrize(
    "text",
    [
        '{"b',
        '{"a": 2',
        '{"a": "x',
        '{"a": tr',
        '{"a": [',
        '{"a": 1, "b',
        '{"a": 1}}',
        "[",
        '{"a": \\',
        '{"\\n',
        '{"a\\"',
    ],
)
def test_a_text_that_says_something_else_has_no_rest(text: str) -> None:
    assert rest_of(text, {"a": 1}) is None


@pytest.mark.parametrize("text", ['{"a": "\\u1f6', '{"a": "😀\\', '{"a": "\\ud83e', '{"a": "x'])
def test_an_escape_of_another_character_has_no_rest(text: str) -> None:
    assert rest_of(text, {"a": "😀"}) is None


def test_the_same_number_may_be_written_in_several_ways_but_is_no_boolean() -> None:
    assert same({"a": [1.0, 1e400]}, {"a": [1, 1e400]})
    assert same(2**53 + 1, float(2**53))
    assert same(10**400, 10**500)  # both are Infinity to JavaScript
    assert not same(1, True)
    assert not same({"a": 1}, {"a": 1, "b": 2})
    assert not same([1], [1, 2])
    assert not same("1", 1)


@pytest.mark.parametrize("text", ["", "{", "{}}", "[" * 100_000])
def test_a_text_that_is_not_whole_has_no_value(text: str) -> None:
    assert parsed(text) is None
