"""Arrays of flat objects."""

from typing import Any

from argstream.terminal.looks import Looks, Table
from tests.terminal.looks.following import Followed, follow

TABLE = Looks({"add": Table(rows="people")})


def add(*people: Any) -> Followed:
    return follow({"people": list(people)}, "add", TABLE)


def test_each_object_is_a_row_and_strings_cannot_be_taken_for_something_else() -> None:
    seen = add(
        {"name": "Ann", "age": 3},
        {"name": "true", "age": None},
        {"name": "", "age": True},
        {"name": " x", "age": 0},
    )
    assert seen.text == (
        "  people =\n"
        "  │ name    age\n"
        "  │ Ann     3\n"
        '  │ "true"  null\n'
        '  │ ""      true\n'
        '  │ " x"    0\n'
    )  # fmt: skip


def test_rows_are_settled_while_others_are_written() -> None:
    seen = follow('{"people": [' + '{"n": 1}, ' * 7 + '{"n": "ab', "add", TABLE)
    assert len(seen.settled) == 2 + 7
    assert seen.text.endswith('  │ 1\n  people[7].n = "ab\n')


def test_before_there_are_columns_rows_are_shown_by_their_names() -> None:
    assert ["  people[0].n = 1", '  people[1].n = "a'] in follow(
        '{"people": [{"n": 1}, {"n": "abc', "add", TABLE, size=1
    ).growing


def test_widths_are_those_of_the_screen() -> None:
    seen = add({"n": "日本", "x": 1}, {"n": "\u200b", "x": 2})
    assert seen.text.splitlines()[2:] == ["  │ 日本    1", "  │ ⟦ZWSP⟧  2"]


def test_a_value_that_is_missing_stays_empty() -> None:
    assert add({"a": 1, "b": 2}, {"b": 3}).text.splitlines()[2:] == ["  │ 1  2", "  │    3"]


def test_a_table_that_is_too_wide_is_shown_by_names() -> None:
    seen = add({"a": "x" * 60, "b": "y" * 60})
    assert seen.text == f'  people[0].a = "{"x" * 60}"\n  people[0].b = "{"y" * 60}"\n'


def test_a_row_that_has_more_or_is_wider_than_the_first_is_shown_by_names() -> None:
    seen = add(*[{"a": 1}] * 5, {"a": 1, "more": 2}, {"a": "x" * 75}, {"a": "fits"})
    assert seen.text.endswith(
        "  people[5].a = 1\n"
        "  people[5].more = 2\n"
        f'  people[6].a = "{"x" * 75}"\n'
        "  │ fits\n"
    )  # fmt: skip


def test_an_item_with_parts_of_its_own_is_shown_by_names_in_its_order() -> None:
    seen = add({"a": 1}, {"a": [1, {"b": 2}]}, {"a": "x\ny"}, {"a": 3})
    assert seen.text == (
        "  people =\n"
        "  │ a\n"
        "  │ 1\n"
        "  people[1].a[0] = 1\n"
        "  people[1].a[1].b = 2\n"
        "  people[2].a =\n"
        "  │ x\n"
        "  │ y\n"
        "  │ 3\n"
    )  # fmt: skip


def test_a_long_text_in_an_item_grows_line_by_line() -> None:
    seen = follow('{"people": [{"note": "one\\ntwo\\nthr', "add", TABLE)
    assert [line.spans[0].text for line in seen.settled] == ["people[0].note", "one", "two"]


def test_items_that_are_no_rows_come_before_the_row_that_follows_them() -> None:
    assert add(1, {"a": 2}).text == "  people[0] = 1\n  people =\n  │ a\n  │ 2\n"


def test_an_array_of_something_else_is_plain() -> None:
    assert add(1, 2).text == "  people = [1, 2]\n"
    assert add().text == "  people = []\n"
    assert follow({"people": "x"}, "add", TABLE).text == '  people = "x"\n'
