"""Lines become rows: nothing is lost, and nothing is wider than the screen."""

import re
import unicodedata
from collections.abc import Callable
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.sanitise import visible_line
from argstream.terminal import Line, Span, Spans
from argstream.terminal._layout import cut, expand_tabs, row_of, rows_of, width
from argstream.terminal._text import Breaks, text_of
from tests.growth import BOUND, growth

_MARGIN = (Span("> ", "faint"),)
_PIECES = st.text(
    st.one_of(
        st.sampled_from("ab  世界\u0301\u0903\u20dd🇩🇪👍🏽。「\u1100\u1161\u3000⟦│"), st.characters()
    ),
    max_size=30,
)
_LINES = st.builds(
    Line,
    st.lists(st.builds(Span, _PIECES, st.sampled_from(["plain", "added"])), max_size=4).map(tuple),
    st.sampled_from(["", "  ", "    1 │ ", "世" * 30]).map(lambda text: (Span(text, "faint"),)),
    st.sampled_from([(), (Span("  │ ", "faint"),)]),
    st.sampled_from(["words", "spaces"]),
)


def rows(text: str, columns: int, breaks: Breaks = "words", margin: Spans = ()) -> list[str]:
    return [text_of(row) for row in rows_of(Line((Span(text),), margin, None, breaks), columns)]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("plain", 5),
        ("世界", 4),
        ("e\u0301", 1),
        ("…│●✓⠹", 5),
        ("\u3000", 2),
        ("\x1b[2J", 8),  # as "⟦ESC⟧[2J"
        # As in the terminals that need the most columns.
        ("🇩🇪", 4),  # two where flags are known
        ("👍🏽", 4),  # two where skin tones are
        ("\u0915\u093f", 2),  # one where this vowel sign is taken to be a mark without width
        ("\u270c", 2),  # one in all terminals but kitty
    ],
)
def test_width_is_counted_in_columns(text: str, columns: int) -> None:
    assert width(text) == columns


@pytest.mark.parametrize(
    ("text", "columns", "breaks", "expected"),
    [
        ("the quick brown fox", 10, "words", ["the quick ", "brown fox"]),
        ("the quick brown fox", 10, "spaces", ["the quick ", "brown fox"]),
        ("the quick brown fox", 8, "spaces", ["the ", "quick ", "brown ", "fox"]),
        # Spaces at a break are dropped if they do not fit.
        ("the quick   brown", 9, "words", ["the quick", "brown"]),
        ("the quick   brown", 9, "spaces", ["the quick", "   brown"]),
        # A word that is longer than a row begins where it stands.
        ("see abcdefghijklm", 8, "words", ["see abcd", "efghijkl", "m"]),
        ("    abcdef", 8, "words", ["    abcd", "ef"]),
        # Chinese is broken between characters, but not before a full stop.
        ("看 吾輩は猫である。", 11, "words", ["看 吾輩は猫", "である。"]),
        ("吾輩は猫。だ", 8, "words", ["吾輩は", "猫。だ"]),
        # What belongs together is not torn.
        ("🇩🇪" * 3, 5, "words", ["🇩🇪"] * 3),
        ("👍🏽" * 3, 5, "words", ["👍🏽"] * 3),
        ("e\u0301\u0302" * 3, 1, "words", ["e\u0301\u0302"] * 3),
        # A wide character is shown even where one column is left.
        ("a世b", 1, "words", ["a", "世", "b"]),
    ],
)
def test_lines_are_broken_into_rows(
    text: str, columns: int, breaks: Breaks, expected: list[str]
) -> None:
    assert rows(text, columns, breaks) == expected


class TestRows:
    def test_each_row_has_a_margin(self) -> None:
        line = Line((Span("abcdefgh"),), (Span("1 │ "),), (Span("  │ "),))
        assert [text_of(row) for row in rows_of(line, 8)] == ["1 │ abcd", "  │ efgh"]
        assert rows("abcdef", 5, margin=_MARGIN) == ["> abc", "  def"]
        assert rows_of(Line((), _MARGIN), 10) == [_MARGIN]
        # It leaves half of the screen to the text.
        margin = (Span("    1 ", "faint"), Span("│ "))
        assert rows("abcdef", 6, margin=margin) == [" │ abc", "   def"]

    def test_roles_are_kept(self) -> None:
        line = Line((Span("abc", "added"), Span("def", "removed")))
        first = (Span("abc", "added"), Span("d", "removed"))
        assert rows_of(line, 4) == [first, (Span("ef", "removed"),)]

    def test_marks_stay_with_their_letter_and_off_the_margin(self) -> None:
        line = Line((Span("abe", "added"), Span("\u0301\u0301c", "removed")))
        assert [text_of(row) for row in rows_of(line, 3)] == ["abe\u0301\u0301", "c"]
        without_letter = rows_of(Line((Span("\u0338x"),), _MARGIN), 10)
        assert without_letter == [(*_MARGIN, Span("◌", "faint"), Span("\u0338x"))]

    @given(_LINES, st.integers(-1, 45))
    def test_nothing_is_lost_and_nothing_too_wide(self, line: Line, columns: int) -> None:
        made = rows_of(line, columns)
        texts = ["".join(span.text for span in row if span.role != "faint") for row in made]
        expected = "⟦".join(map(visible_line, text_of(line.spans).split("⟦")))
        gap = " *" if line.breaks == "words" else ""
        assert re.fullmatch(gap.join(map(re.escape, texts)) + gap, expected)
        columns = max(columns, 1)
        # A wide character on a screen for half of one is the exception.
        assert max(width(text_of(row)) for row in made) <= max(columns, min(columns + 1, 3))
        if columns >= 3:
            for row in rows_of(Line(line.spans, (), (), line.breaks), columns):
                assert not unicodedata.category(text_of(row)[:1] or "-").startswith("M")

    @pytest.mark.timing
    @pytest.mark.parametrize(
        "text",
        ["x", "word ", "世界", "e\u0301", "\u0301", "\u0903", " ", "🇩🇪"],
        ids=["letters", "words", "wide", "marked", "marks", "spacing marks", "spaces", "flags"],
    )
    def test_cost_of_a_long_line_is_linear(self, text: str) -> None:
        def job(size: int) -> Callable[[], object]:
            line = Line((Span(text * (size // len(text))),), _MARGIN, None, "words")
            return lambda: rows_of(line, 80)

        assert growth(job, 5_000) <= BOUND


class TestCut:
    def test_text_that_does_not_fit_ends_with_an_ellipsis(self) -> None:
        spans = (Span("ab"), Span("世", "added"))
        assert cut(spans, 4) == spans
        assert cut((Span("abcdef", "added"),), 4) == (Span("abc", "added"), Span("…", "faint"))
        wide = [text_of(cut((Span("世界"),), columns)) for columns in (3, 2, 1, 0)]
        assert wide == ["世…", "…", "…", ""]

    @given(_LINES, st.integers(0, 45))
    def test_row_is_never_too_wide(self, line: Line, columns: int) -> None:
        assert width(text_of(row_of(line, columns))) <= columns

    def test_row_has_its_margin_and_no_mark_on_it(self) -> None:
        row = row_of(Line((Span(""), Span("\u0338abc")), _MARGIN), 5)
        assert text_of(row) == "> ◌\u0338a…"

    @pytest.mark.timing
    def test_only_the_kept_part_is_read(self) -> None:
        spans = (Span("世" * 1_000_000),)
        cut(spans, 80)
        begun = process_time()
        for _ in range(100):
            cut(spans, 80)
        assert process_time() - begun < 0.5  # some seconds each time, if all were read


def test_tabs_go_to_the_next_multiple_of_four_columns() -> None:
    texts = ["plain", "\tx", "a\tx", "abcd\tx", "世\tx"]
    assert [*map(expand_tabs, texts)] == ["plain", "    x", "a   x", "abcd    x", "世  x"]
    assert expand_tabs("a\tx\ty", 2) == "a x   y"  # counted from where the text begins
