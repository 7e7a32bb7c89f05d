"""A line that somebody types."""

import pytest

from argstream.terminal.approving._keys import KeyDecoder
from argstream.terminal.approving._line_editor import LineEditor
from argstream.terminal.spans import text_of
from argstream.terminal.widths import width


def typed(data: str) -> LineEditor:
    editor = LineEditor()
    for key in KeyDecoder().feed(data.encode()):
        editor.take(key)
    return editor


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("no, später 不 🙂", "no, später 不 🙂"),
        ("no\x7f", "n"),
        ("不\x7f", ""),
        ("\x7f", ""),
        ("e\u0301\x7fx", "x"),  # the accent was typed with its letter
        ("not now\x15yes", "yes"),
        ("not now\x17", "not "),
        ("not now  \x17", "not "),
        ("  \x17", ""),
        ("a\x1b[Db", "ab"),  # there is no way to the left
        ("a\x00\tb", "ab"),
        ("see:\x1b[200~ line 1\r\n\tline 2\n\x1b[201~!", "see:line 1 line 2!"),
    ],
)
def test_what_the_keys_make_of_a_line(data: str, text: str) -> None:
    assert typed(data).text == text


def test_what_was_pasted_cannot_act_on_the_terminal() -> None:
    editor = typed("\x1b[200~\x1b]0;x\x07\u202e\x1b[201~")
    assert text_of(editor.spans(40)) == "⟦ESC⟧]0;x⟦BEL⟧⟦RLO⟧▏"


@pytest.mark.parametrize("columns", [0, 1, 2, 7, 8, 9, 40])
@pytest.mark.parametrize(
    "text", ["", "a reason that is long", "广州话不可以这样", "👩🏽👩🏽👩🏽👩🏽"]
)
def test_the_end_of_it_is_shown_in_the_columns_there_are(text: str, columns: int) -> None:
    shown = text_of(typed(text).spans(columns))
    assert shown.endswith("▏")
    assert width(shown) <= max(columns, 2)


def test_the_beginning_is_cut_since_one_types_at_the_end() -> None:
    assert text_of(typed("a reason that is long").spans(10)) == "… is long▏"
