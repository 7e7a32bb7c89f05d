"""A diff of which the new text is still being written."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.terminal._diff import MAX_HELD, Change, StreamingDiff
from tests.growth import BOUND, growth


def diff(old: list[str], new: list[str]) -> list[Change]:
    comparison = StreamingDiff(old)
    changes = [change for line in new for change in comparison.add(line)]
    return changes + comparison.finish()


def shown(old: str, new: str) -> str:
    return "".join(
        f"{sign}{text}\n".replace(" \n", "\n")
        for sign, text in diff(old.splitlines(), new.splitlines())
    )


few_lines = st.lists(
    st.sampled_from(["a", "b", "c = 1", "", "}", "    return", "end"]), max_size=40
)


@st.composite
def edits(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """A text, and what becomes of it when a few places are changed."""
    old = draw(few_lines)
    new = old[:]
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(new)))
        new[place : place + draw(st.integers(0, 5))] = draw(few_lines)[:6]
    return old, new


@given(edits())
def test_both_texts_can_be_read_from_it(texts: tuple[list[str], list[str]]) -> None:
    old, new = texts
    changes = diff(old, new)
    assert [text for sign, text in changes if sign != "+"] == old
    assert [text for sign, text in changes if sign != "-"] == new


@given(edits())
def test_what_is_settled_or_held_is_all_that_came(texts: tuple[list[str], list[str]]) -> None:
    old, new = texts
    comparison = StreamingDiff(old)
    settled: list[Change] = []
    for count, line in enumerate(new, 1):
        settled += comparison.add(line)
        came = [text for sign, text in settled if sign != "-"] + [*comparison.held]
        assert came == new[:count]
        assert [text for sign, text in settled if sign != "+"] + [*comparison.rest] == old


@given(edits())
def test_what_is_removed_comes_before_what_is_added(texts: tuple[list[str], list[str]]) -> None:
    signs = "".join(sign for sign, _ in diff(*texts))
    assert "+-" not in signs


@given(few_lines)
def test_equal_texts_have_no_changes_and_nothing_is_held(lines: list[str]) -> None:
    comparison = StreamingDiff(lines)
    assert [comparison.add(line) for line in lines] == [[Change(" ", line)] for line in lines]
    assert comparison.finish() == []


def test_a_changed_line_is_settled_with_the_line_after_it() -> None:
    comparison = StreamingDiff(["one", "two", "three"])
    assert comparison.add("one") == [(" ", "one")]
    assert comparison.add("2") == []
    assert comparison.held == ["2"]
    assert comparison.add("three") == [("-", "two"), ("+", "2"), (" ", "three")]
    assert comparison.finish() == []


def test_what_comes_after_the_old_text_is_added_at_once() -> None:
    comparison = StreamingDiff([])
    assert comparison.add("a") == [("+", "a")]


def test_an_inserted_function_is_not_torn_apart_by_blank_lines_and_brackets() -> None:
    old = "int a() {\n  one();\n}\n\nint b() {\n  two();\n}\n"
    new = "int a() {\n  one();\n}\n\nint c() {\n  three();\n}\n\nint b() {\n  two();\n}\n"
    assert shown(old, new) == (
        " int a() {\n   one();\n }\n\n"
        "+int c() {\n+  three();\n+}\n+\n"
        " int b() {\n   two();\n }\n"
    )  # fmt: skip


def test_a_rewritten_text_is_not_joined_by_a_lone_bracket() -> None:
    old = "a1\na2\na3\n}\na4\na5\na6\nlast"
    new = "b1\nb2\nb3\n}\nb4\nb5\nb6\nlast"
    signs = [sign for sign, _ in diff(old.split("\n"), new.split("\n"))]
    assert "".join(signs) == "-" * 7 + "+" * 7 + " "


def test_between_small_changes_a_blank_line_stays() -> None:
    assert shown("a\n\nb\nc", "x\n\ny\nc") == "-a\n+x\n\n-b\n+y\n c\n"


def test_a_line_that_was_far_away_is_taken_for_a_new_one() -> None:
    old = [f"line {number}" for number in range(100)]
    changes = diff(old, ["line 90", *old[:90], *old[91:]])
    assert [change for change in changes if change.sign != " "] == [
        ("+", "line 90"),
        ("-", "line 90"),
    ]


def test_a_block_that_is_gone_is_removed() -> None:
    old = [f"line {number}" for number in range(200)]
    changes = diff(old, old[:20] + old[120:])
    assert [text for sign, text in changes if sign == "-"] == old[20:120]
    assert "+" not in {sign for sign, _ in changes}


def test_no_more_than_some_lines_are_held() -> None:
    comparison = StreamingDiff(["old"])
    settled = [change for number in range(1_000) for change in comparison.add(f"new {number}")]
    assert len(comparison.held) == MAX_HELD
    assert settled[0] == ("+", "new 0")


def test_an_old_text_may_turn_out_to_be_longer() -> None:
    comparison = StreamingDiff(["a"])
    comparison.add("a")
    comparison.extend(["b"])
    assert comparison.add("xb") == []
    assert comparison.finish() == [("-", "b"), ("+", "xb")]


def test_a_text_that_breaks_off_says_nothing_of_the_rest() -> None:
    comparison = StreamingDiff(["a", "b", "c"])
    comparison.add("a")
    comparison.add("x")
    assert comparison.cut() == [("+", "x")]
    assert comparison.rest == ["b", "c"]


@pytest.mark.timing
@pytest.mark.parametrize(
    "line",
    [lambda n: f"line {n}", lambda _: "}", lambda n: "ab"[n % 2]],
    ids=["new", "same", "two"],
)
def test_twice_the_lines_take_twice_the_time(line: Callable[[int], str]) -> None:
    def job(size: int) -> Callable[[], object]:
        old = [line(number) for number in range(size)]
        new = ["first", *(text if index % 9 else f"x{index}" for index, text in enumerate(old))]
        return lambda: diff(old, new)

    assert growth(job, 1_000) <= BOUND
