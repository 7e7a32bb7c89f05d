"""JSON for people: readable, and nothing is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.sanitise import visible
from argstream.terminal._readable_json import NotReadable, read, readable, same

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(texts, values, max_size=4))
def test_what_is_written_can_be_read_back_and_hides_nothing(arguments: dict[str, object]) -> None:
    text = readable(arguments)
    assert same(read(text), arguments)
    assert visible(text) == text


def test_letters_of_all_languages_stay_and_what_hides_is_spelled_out() -> None:
    assert readable("Zoë 不 🙂\u202e\x7f\x1b\U000e0041\ufe0f") == (
        r'"Zoë 不 🙂\u202e\u007f\u001b\udb40\udc41\ufe0f"'
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{\n  "a": 1,\n}', "line 3, column 1: this character cannot stand here"),
        ('{"a": 1', "line 1, column 8: the text ended before the value was complete"),
        ("", "line 1, column 1: the text ended before the value was complete"),
        ('{"a": 1,\n "a": 2}', "line 2, column 4: this key was already given in the same object"),
        ('{"a": NaN}', "line 1, column 7: this character cannot stand here"),
        ("[1]", "the arguments of a tool must be an object: {…}"),
        ('{"a": 1} {}', "line 1, column 10: the value is complete, only white space may follow"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(NotReadable) as caught:
        read(text)
    assert str(caught.value) == problem


def test_nothing_is_too_deep_to_be_refused() -> None:
    with pytest.raises(NotReadable, match="nested deeper"):
        read('{"a":' + "[" * 100_000)


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), (1, 1.0), ("1", 1), ([], {})])
def test_values_that_python_takes_for_equal_are_not_the_same(one: object, other: object) -> None:
    assert not same({"a": one}, {"a": other})


def test_the_order_of_arguments_says_nothing() -> None:
    assert same({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1})
