"""The terminal that other tests look into does what terminals do."""

import pytest

from tests.terminal.emulator import Emulator

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"


def test_what_is_scrolled_out_is_kept() -> None:
    emulator = Emulator(20, 2)
    emulator.feed("one\r\ntwo\r\nthree")
    assert emulator.scrollback() == ["one"]
    assert emulator.screen_lines() == ["two", "three"]
    assert emulator.all_lines() == ["one", "two", "three"]


def test_marks_and_wide_characters_take_the_cells_they_should() -> None:
    emulator = Emulator(5, 3)
    emulator.feed("世\u0338e\u20dd世世")
    assert emulator.screen_lines() == ["世\u0338e\u20dd世", "世", ""]
    assert emulator.cursor() == (2, 1)


def test_without_wrapping_the_last_cell_is_overwritten() -> None:
    emulator = Emulator(4, 2)
    emulator.feed("\x1b[?7labcdefg")
    assert emulator.screen_lines() == ["abcg", ""]


def test_one_kind_wraps_anew_and_keeps_the_cursor_on_its_cell() -> None:
    emulator = Emulator(10, 4, "reflows")
    emulator.feed("0123456789abc\r\nshort\r\nbelow\x1b[1A\r")
    emulator.resize(5, 4)
    assert emulator.all_lines() == ["01234", "56789", "abc", "short", "below"]
    assert emulator.cursor() == (0, 2)
    emulator.resize(40, 4)
    assert emulator.all_lines() == ["0123456789abc", "short", "below"]
    assert emulator.cursor() == (0, 1)


def test_wrapping_anew_and_back_changes_nothing() -> None:
    emulator = Emulator(9, 6, "reflows")
    emulator.feed("世世世世世 and more\r\nthe end")
    before = emulator.joined_lines()
    for columns in (5, 4, 33, 9):
        emulator.resize(columns, 6)
        assert emulator.joined_lines() == before


def test_the_other_kind_cuts_and_moves_rows_above_the_cursor_to_the_scrollback() -> None:
    emulator = Emulator(10, 4, "clips")
    emulator.feed("0123456789\r\ntwo\r\nthree\r\nfour\x1b[1A\r")
    emulator.resize(5, 2)
    assert emulator.scrollback() == ["01234"]
    assert emulator.screen_lines() == ["two", "three"]
    assert emulator.cursor() == (0, 1)
    emulator.resize(10, 4)
    assert emulator.screen_lines() == ["01234", "two", "three", ""]
    assert emulator.cursor() == (0, 2)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("naked", "not a frame"),
        (f"{_BEGIN}\x1b[2J{_END}", "not a frame"),
        (f"{_BEGIN}\x1b]0;title\x07{_END}", "not a frame"),
        (f"{_BEGIN}\x1b[1Aabc\r{_END}", "touched what was final"),
        (f"{_BEGIN}abc{_END}", "not parked"),
        (f"{_BEGIN}\x1b[?25l\x1b[?7labc\r{_END}", "without wrapping"),
        (f"{_BEGIN}\x1b[?25l\x1b[31mabc\r{_END}", "a colour open"),
        (f"{_BEGIN}abc\r{_END}", "cursor is shown"),
        (f"{_BEGIN}\x1b[?25la\r\nb\r\nc\r\nd\r\ne\x1b[4A\r{_END}", "takes 5 rows"),
    ],
)
def test_a_frame_that_is_not_as_it_should_be_is_refused(written: str, complaint: str) -> None:
    emulator = Emulator(20, 12)
    emulator.feed("final\r\n")
    with pytest.raises(AssertionError, match=complaint):
        emulator.output.write(written)


def test_it_can_be_drawn() -> None:
    emulator = Emulator(20, 3)
    emulator.feed("a \x1b[1;31mred\x1b[0m \x1b[2mdim\x1b[0m")
    assert emulator.markup() == "a [bold red]red[/bold red] [dim]dim[/dim]"
