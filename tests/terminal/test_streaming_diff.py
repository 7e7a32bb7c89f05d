"""A diff whose new text is still being written."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.terminal._diff import MAX_HELD, Change, StreamingDiff
from tests.growth import BOUND, growth

Texts = tuple[list[str], list[str]]


def diff(old: list[str], new: list[str]) -> list[Change]:
    comparison = StreamingDiff(old)
    changes = [change for line in new for change in comparison.add(line)]
    return changes + comparison.finish()


def old_of(changes: list[Change]) -> list[str]:
    return [text for sign, text in changes if sign != "+"]


def new_of(changes: list[Change]) -> list[str]:
    return [text for sign, text in changes if sign != "-"]


few_lines = st.lists(
    st.sampled_from(["a", "b", "c = 1", "", "}", "    return", "end"]), max_size=40
)


@st.composite
def edits(draw: st.DrawFn) -> Texts:
    """A text, and the same with a few places changed."""
    old = draw(few_lines)
    new = old[:]
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(new)))
        new[place : place + draw(st.integers(0, 5))] = draw(few_lines)[:6]
    return old, new


@given(edits())
def test_both_texts_can_be_read_from_the_diff(texts: Texts) -> None:
    old, new = texts
    changes = diff(old, new)
    assert (old_of(changes), new_of(changes)) == texts
    assert "+-" not in "".join(sign for sign, _ in changes)  # removed lines come first
    comparison = StreamingDiff(old)
    settled: list[Change] = []
    for count, line in enumerate(new, 1):
        settled += comparison.add(line)
        assert [*new_of(settled), *comparison.held] == new[:count]
        assert [*old_of(settled), *comparison.rest] == old


@given(few_lines)
def test_equal_texts_have_no_changes_and_nothing_is_held(lines: list[str]) -> None:
    comparison = StreamingDiff(lines)
    assert [comparison.add(line) for line in lines] == [[Change(" ", line)] for line in lines]
    assert comparison.finish() == []


def test_changed_line_is_settled_by_the_line_after_it() -> None:
    comparison = StreamingDiff(["one", "two", "three"])
    assert comparison.add("one") == [(" ", "one")]
    assert comparison.add("2") == []
    assert comparison.held == ["2"]
    assert comparison.add("three") == [("-", "two"), ("+", "2"), (" ", "three")]
    assert comparison.add("four") == [("+", "four")]  # after the old text
    assert comparison.finish() == []


@pytest.mark.parametrize(
    ("old", "new", "signs"),
    [
        # An inserted function is not torn apart by brackets and blank lines.
        ("f( a } . g( b }", "f( a } . h( c } . g( b }", "    ++++   "),
        # A rewritten text is not joined by a single bracket.
        ("a1 a2 a3 } a4 a5 a6 last", "b1 b2 b3 } b4 b5 b6 last", "-------+++++++ "),
        # A blank line stays between small changes.
        ("a . b c", "x . y c", "-+ -+ "),
    ],
)
def test_lines_that_match_by_chance_do_not_split_a_change(old: str, new: str, signs: str) -> None:
    before, after = ([line.strip(".") for line in text.split()] for text in (old, new))
    assert "".join(sign for sign, _ in diff(before, after)) == signs


def test_distant_line_counts_as_new() -> None:
    old = [f"line {number}" for number in range(100)]
    changes = diff(old, ["line 90", *old[:90], *old[91:]])
    assert [one for one in changes if one.sign != " "] == [("+", "line 90"), ("-", "line 90")]


def test_removed_block_is_shown_as_removed() -> None:
    old = [f"line {number}" for number in range(200)]
    changes = diff(old, old[:20] + old[120:])
    assert [text for sign, text in changes if sign == "-"] == old[20:120]
    assert "+" not in {sign for sign, _ in changes}


def test_number_of_held_lines_is_bounded() -> None:
    comparison = StreamingDiff(["old"])
    settled = [change for number in range(1_000) for change in comparison.add(f"new {number}")]
    assert len(comparison.held) == MAX_HELD
    assert settled[0] == ("+", "new 0")


def test_old_text_can_be_extended() -> None:
    comparison = StreamingDiff(["a"])
    comparison.add("a")
    comparison.extend(["b"])
    assert comparison.add("xb") == []
    assert comparison.finish() == [("-", "b"), ("+", "xb")]


def test_cut_leaves_the_rest_undecided() -> None:
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
def test_cost_is_linear(line: Callable[[int], str]) -> None:
    def job(size: int) -> Callable[[], object]:
        old = [line(number) for number in range(size)]
        new = ["first", *(text if index % 9 else f"x{index}" for index, text in enumerate(old))]
        return lambda: diff(old, new)

    assert growth(job, 1_000) <= BOUND
