"""Lines become rows: nothing is lost, and nothing is wider than the screen."""

import re
import unicodedata
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.sanitise import visible_line
from argstream.terminal import Line, Span, Spans, _layout
from argstream.terminal._layout import cut, expand_tabs, row_of, rows_of, width
from argstream.terminal._text import Breaks, harmless, text_of

_MARGIN = (Span("> ", "faint"),)
_PIECES = st.text(
    st.one_of(
        st.sampled_from("ab  世界\u0301\u0903\u20dd🇩🇪👍🏽。「\u1100\u1161\u3000⟦│"),
        st.characters(),
    ),
    max_size=30,
)
_LINES = st.builds(
    Line,
    st.lists(st.builds(Span, _PIECES, st.sampled_from(["plain", "added"])), max_size=4).map(tuple),
    st.sampled_from(["", "  ", "    1 │ ", "世" * 30]).map(lambda text: (Span(text, "faint"),)),
    st.sampled_from([(), (Span("  │ ", "faint"),)]),
    st.sampled_from(["words", "anywhere"]),
)


def rows(text: str, columns: int, breaks: Breaks = "words", margin: Spans = ()) -> list[str]:
    line = Line((Span(text),), margin, None, breaks)
    return [text_of(row) for row in rows_of(line, columns)]


def is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


class TestWidth:
    @pytest.mark.parametrize(
        ("text", "columns"),
        [
            ("", 0),
            ("plain", 5),
            ("世界", 4),
            ("e\u0301", 1),
            ("…│●✓⠹", 5),
            ("\u3000", 2),
        ],
    )
    def test_it_counts_columns(self, text: str, columns: int) -> None:
        assert width(text) == columns

    @pytest.mark.parametrize(
        ("text", "columns"),
        [
            ("🇩🇪", 4),  # two where flags are known
            ("👍🏽", 4),  # two where skin tones are
            ("\u0915\u093f", 2),  # one where this vowel sign is taken to be a mark without width
            ("\u270c", 2),  # one in all terminals but kitty
        ],
    )
    def test_it_counts_what_the_most_wasteful_terminal_takes(self, text: str, columns: int) -> None:
        assert width(text) == columns

    def test_what_will_be_spelled_out_counts_as_it_will_be_shown(self) -> None:
        assert width("\x1b[2J") == width("⟦ESC⟧[2J") == 8


class TestRows:
    def test_prose_is_broken_between_words(self) -> None:
        assert rows("the quick brown fox", 10) == ["the quick ", "brown fox"]

    def test_code_is_broken_anywhere(self) -> None:
        assert rows("the quick brown fox", 10, "anywhere") == ["the quick ", "brown fox"]
        assert rows("the quick brown fox", 8, "anywhere") == ["the quic", "k brown ", "fox"]

    def test_a_space_at_a_break_is_left_out_if_it_does_not_fit(self) -> None:
        assert rows("the quick   brown", 9) == ["the quick", "brown"]
        assert rows("the quick   brown", 9, "anywhere") == ["the quick", "   brown"]

    def test_a_word_that_is_longer_than_a_row_begins_where_it_stands(self) -> None:
        assert rows("see abcdefghijklm", 8) == ["see abcd", "efghijkl", "m"]

    def test_indentation_is_not_a_row_of_its_own(self) -> None:
        assert rows("    abcdef", 8) == ["    abcd", "ef"]

    def test_chinese_is_broken_between_characters_but_not_before_a_full_stop(self) -> None:
        assert rows("看 吾輩は猫である。", 11) == ["看 吾輩は猫", "である。"]
        assert rows("吾輩は猫。だ", 8) == ["吾輩は", "猫。だ"]

    def test_each_row_has_its_margin(self) -> None:
        line = Line((Span("abcdefgh"),), (Span("1 │ "),), (Span("  │ "),))
        assert [text_of(row) for row in rows_of(line, 8)] == ["1 │ abcd", "  │ efgh"]

    def test_the_other_rows_are_indented_as_far_as_the_first(self) -> None:
        assert rows("abcdef", 5, margin=_MARGIN) == ["> abc", "  def"]

    def test_an_empty_line_is_one_row(self) -> None:
        assert rows_of(Line((), _MARGIN), 10) == [_MARGIN]

    def test_roles_stay_where_they_are(self) -> None:
        line = Line((Span("abc", "added"), Span("def", "removed")))
        assert rows_of(line, 4) == [
            (Span("abc", "added"), Span("d", "removed")),
            (Span("ef", "removed"),),
        ]

    def test_marks_stay_with_their_letter_even_if_it_has_another_role(self) -> None:
        line = Line((Span("abe", "added"), Span("\u0301\u0301c", "removed")))
        assert [text_of(row) for row in rows_of(line, 3)] == ["abe\u0301\u0301", "c"]

    def test_a_mark_without_a_letter_does_not_change_our_margin(self) -> None:
        assert rows_of(Line((Span("\u0338x"),), _MARGIN), 10) == [
            (*_MARGIN, Span("◌", "faint"), Span("\u0338x"))
        ]

    @pytest.mark.parametrize("together", ["🇩🇪", "👍🏽", "e\u0301\u0302"])
    def test_what_belongs_together_is_not_torn(self, together: str) -> None:
        columns = width(together)
        assert rows(together * 3, columns + 1 if columns == 4 else 1) == [together] * 3

    def test_a_wide_character_is_shown_even_where_one_column_is_left(self) -> None:
        assert rows("a世b", 1) == ["a", "世", "b"]

    def test_a_margin_leaves_half_of_the_screen_to_the_text(self) -> None:
        margin = (Span("    1 ", "faint"), Span("│ "))
        assert rows("abcdef", 6, margin=margin) == [" │ abc", "   def"]

    @given(_LINES, st.integers(-1, 45))
    def test_nothing_is_lost_and_nothing_too_wide(self, line: Line, columns: int) -> None:
        made = rows_of(line, columns)
        theirs = [
            "".join(span.text for span in row if span.role != "faint")  # which is ours
            for row in made
        ]
        expected = "⟦".join(map(visible_line, text_of(line.spans).split("⟦")))
        gap = " *" if line.breaks == "words" else ""
        assert re.fullmatch(gap.join(map(re.escape, theirs)) + gap, expected)
        columns = max(columns, 1)
        # A wide character on a screen for half of one is the exception.
        assert max(width(text_of(row)) for row in made) <= max(columns, min(columns + 1, 3))

    @given(_LINES, st.integers(3, 45))
    def test_no_row_begins_with_a_mark(self, line: Line, columns: int) -> None:
        bare = Line(line.spans, (), (), line.breaks)
        for row in rows_of(bare, columns):
            assert not is_mark(text_of(row)[:1] or "-")

    def test_a_line_of_many_pieces_is_made_harmless_at_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[str] = []

        def look(text: str) -> str:
            seen.append(text)
            return harmless(text)

        for module in (_layout, _layout):
            monkeypatch.setattr(module, "harmless", look)
        rows_of(Line((Span("é "),) * 30, (Span("once "),)), 50)
        rows_of(Line((Span("x"),) * 30, (Span("once "),)), 50)
        assert seen == ["once ", "é " * 30, "x" * 30]

    @pytest.mark.timing
    @pytest.mark.parametrize(
        "text",
        ["x", "word ", "世界", "e\u0301", "\u0301", "\u0903", " ", "🇩🇪"],
        ids=["letters", "words", "wide", "marked", "marks", "spacing marks", "spaces", "flags"],
    )
    def test_a_very_long_line_costs_what_its_length_costs(self, text: str) -> None:
        def cost(length: int) -> float:
            line = Line((Span(text * (length // len(text))),), _MARGIN, None, "words")
            begun = process_time()
            rows_of(line, 80)
            return process_time() - begun

        cost(1_000)
        short = min(cost(10_000) for _ in range(3))
        assert min(cost(80_000) for _ in range(3)) < 20 * short + 0.01


class TestCut:
    def test_what_fits_stays(self) -> None:
        spans = (Span("ab"), Span("世", "added"))
        assert cut(spans, 4) == spans

    def test_what_does_not_ends_with_three_dots(self) -> None:
        assert cut((Span("abcdef", "added"),), 4) == (Span("abc", "added"), Span("…", "faint"))

    @pytest.mark.parametrize(("columns", "left"), [(3, "世…"), (2, "…"), (1, "…"), (0, "")])
    def test_half_a_wide_character_is_none(self, columns: int, left: str) -> None:
        assert text_of(cut((Span("世界"),), columns)) == left

    @given(_LINES, st.integers(0, 45))
    def test_it_is_never_too_wide(self, line: Line, columns: int) -> None:
        assert width(text_of(row_of(line, columns))) <= columns

    def test_a_row_has_its_margin_and_no_mark_on_it(self) -> None:
        row = row_of(Line((Span(""), Span("\u0338abc")), _MARGIN), 5)
        assert text_of(row) == "> ◌\u0338a…"

    @pytest.mark.timing
    def test_it_looks_only_at_what_it_keeps(self) -> None:
        spans = (Span("世" * 1_000_000),)
        cut(spans, 80)
        begun = process_time()
        for _ in range(100):
            cut(spans, 80)
        assert process_time() - begun < 0.5  # in all, it would be some seconds each time


class TestTabs:
    @pytest.mark.parametrize(
        ("text", "expanded"),
        [
            ("plain", "plain"),
            ("\tx", "    x"),
            ("a\tx", "a   x"),
            ("abcd\tx", "abcd    x"),
            ("世\tx", "世  x"),
        ],
    )
    def test_they_go_to_the_next_of_every_four_columns(self, text: str, expanded: str) -> None:
        assert expand_tabs(text) == expanded

    def test_they_count_from_where_the_text_begins(self) -> None:
        assert expand_tabs("a\tx\ty", 2) == "a x   y"
