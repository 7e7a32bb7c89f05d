"""A screen: what is final is written once, and nothing remains of what is not."""

import errno
import io
import os
import pty
import shlex
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TextIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argstream.terminal import Line, Palette, Screen, Span, line, rows_of
from tests.terminal.emulator import Emulator, Kind
from tests.terminal.looks.following import text_of
from tests.terminal.tmux import Tmux

_SIZES = [(40, 12), (80, 24), (200, 50)]
_KINDS: list[Kind] = ["clips", "reflows"]


def on(emulator: Emulator) -> Screen:
    return Screen(emulator.output, size=emulator.size, palette=Palette())


def lines(*texts: str) -> list[Line]:
    return [line(text) for text in texts]


class TestFrames:
    def test_what_is_final_stands_above_the_tail(self) -> None:
        emulator = Emulator(40, 12)
        screen = on(emulator)
        screen.paint(lines("one"), lines("tail a", "tail b"))
        screen.paint(lines("two"), lines("tail c"))
        assert emulator.all_lines() == ["one", "two", "tail c"]
        assert emulator.tail_lines() == ["tail c"]

    def test_the_tail_shows_its_last_rows(self) -> None:
        emulator = Emulator(40, 12)
        on(emulator).paint([], lines(*"abcdefgh"))
        assert emulator.all_lines() == list("efgh")

    @pytest.mark.parametrize(("rows", "bound"), [(1, 1), (5, 1), (12, 4), (24, 8), (50, 12)])
    def test_the_tail_takes_a_third_of_the_screen_and_at_most_twelve_rows(
        self, rows: int, bound: int
    ) -> None:
        emulator = Emulator(40, rows)
        on(emulator).paint([], lines(*"abcdefghijklmnop"))
        assert len(emulator.tail_lines()) == bound

    def test_long_lines_are_wrapped_with_their_margin_and_the_tail_is_cut(self) -> None:
        emulator = Emulator(10, 12)
        margin = (Span("> "),)
        on(emulator).paint(
            [Line((Span("0123456789"),), margin)], [Line((Span("0123456789"),), margin)]
        )
        assert emulator.all_lines() == ["> 0123456", "  789", "> 012345…"]

    def test_a_frame_that_would_change_nothing_is_not_written(self) -> None:
        emulator = Emulator()
        screen = on(emulator)
        for _ in range(3):
            screen.paint([], lines("tail"))
        assert len(emulator.frames) == 1

    def test_after_a_resize_the_tail_is_painted_again(self) -> None:
        emulator = Emulator(80, 24)
        screen = on(emulator)
        screen.paint([], lines("tail"))
        emulator.resize(70, 20)
        screen.paint([], lines("tail"))
        assert len(emulator.frames) == 2

    def test_a_terminal_that_has_become_narrower_a_moment_ago_shows_no_remains(self) -> None:
        emulator = Emulator(40, 12, "clips")
        screen = Screen(emulator.output, size=lambda: (80, 12))
        screen.paint([], lines("t" * 70, "t" * 70))
        screen.paint(lines("c" * 60), lines("tail"))
        assert emulator.all_lines() == ["c" * 40, "c" * 20, "tail"]

    def test_what_others_print_comes_out_above_the_tail(self) -> None:
        emulator = Emulator(40, 12)
        screen = on(emulator)
        screen.paint(lines("one"), lines("tail"))
        emulator.feed("printed\r\n")
        screen.paint(lines("two"), lines("tail"))
        assert emulator.all_lines() == ["one", "printed", "two", "tail"]

    def test_a_screen_of_one_cell_is_survived(self) -> None:
        emulator = Emulator(1, 1)
        screen = on(emulator)
        screen.paint(lines("ab"), lines("tail"))
        screen.close()
        assert not emulator.is_cursor_hidden()


class TestLeaving:
    def test_closing_leaves_what_is_final_and_the_cursor_below_it(self) -> None:
        emulator = Emulator(40, 12)
        screen = on(emulator)
        screen.paint(lines("one"), lines("tail a", "tail b"))
        assert emulator.is_cursor_hidden()
        screen.close()
        assert emulator.all_lines() == ["one"]
        assert emulator.cursor() == (0, 1)
        assert not emulator.is_cursor_hidden()

    def test_a_screen_that_was_never_used_writes_nothing(self) -> None:
        emulator = Emulator()
        on(emulator).close()
        assert not emulator.frames

    def test_after_the_end_nothing_is_written(self) -> None:
        emulator = Emulator()
        screen = on(emulator)
        screen.paint(lines("one"), [])
        screen.close()
        screen.paint(lines("two"), [])
        screen.close()
        assert emulator.all_lines() == ["one"]

    def test_while_somebody_else_has_the_terminal_lines_are_held_back(self) -> None:
        emulator = Emulator(40, 12)
        screen = on(emulator)
        screen.paint(lines("one"), lines("tail"))
        screen.suspend()
        assert emulator.all_lines() == ["one"]
        assert not emulator.is_cursor_hidden()
        screen.paint(lines("two"), lines("tail"))
        emulator.feed("an editor\r\n")
        screen.resume()
        screen.paint(lines("three"), lines("tail"))
        assert emulator.all_lines() == ["one", "an editor", "two", "three", "tail"]
        assert emulator.is_cursor_hidden()

    def test_an_editor_that_is_stopped_by_ctrl_z_keeps_the_terminal_when_it_goes_on(self) -> None:
        emulator = Emulator(40, 12)
        screen = on(emulator)
        screen.suspend()
        screen._leave()  # SIGTSTP
        screen._come_back()
        screen._come_back()  # SIGCONT
        screen.paint(lines("one"), lines("tail"))
        assert not emulator.frames
        screen.resume()
        screen.paint([], lines("tail"))
        assert emulator.all_lines() == ["one", "tail"]

    def test_what_was_held_back_is_written_at_the_end_at_the_latest(self) -> None:
        emulator = Emulator()
        screen = on(emulator)
        screen.suspend()
        screen.paint(lines("one"), [])
        screen.resume()
        screen.close()
        assert emulator.all_lines() == ["one"]


_TEXTS = st.text("ab 世\u0301🇩", max_size=60)


class Frame(NamedTuple):
    committed: list[str]
    height: int


class Size(NamedTuple):
    columns: int
    rows: int


_STEPS = st.lists(
    st.one_of(
        st.builds(Frame, st.lists(_TEXTS, max_size=6), st.integers(0, 15)),
        st.builds(Size, st.sampled_from([40, 61, 79, 80, 200]), st.sampled_from([7, 12, 24, 50])),
    ),
    max_size=12,
)


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("size", _SIZES)
@settings(max_examples=settings().max_examples // 3)  # for each kind and size
@given(steps=_STEPS)
def test_whatever_the_size_becomes_each_line_is_there_once_and_nothing_of_the_tail(
    kind: Kind, size: tuple[int, int], steps: list[Frame | Size]
) -> None:
    emulator = Emulator(*size, kind)
    screen = on(emulator)
    written: list[str] = []
    for step in steps:
        match step:
            case Frame(texts, height):
                committed = [Line((Span(text),), (Span("> "),)) for text in texts]
                columns = emulator.size()[0] - 1
                written += [text_of(row) for one in committed for row in rows_of(one, columns)]
                screen.paint(committed, lines(*(["TAIL" * 60] * height)))
            case Size(columns, rows):
                emulator.resize(columns, rows)
    screen.close()
    remaining = emulator.joined_lines() if kind == "reflows" else emulator.all_lines()
    assert "TAIL" not in "".join(remaining)
    expected = [row.rstrip() for row in written]
    while expected and not expected[-1]:
        expected.pop()  # nobody sees a blank row at the end
    if kind == "reflows":
        assert remaining == expected
    else:  # what was cut off is lost there, and not by us
        assert len(remaining) == len(expected)
        assert all(row.startswith(seen) for seen, row in zip(remaining, expected, strict=True))


@contextmanager
def pseudo_terminal() -> Iterator[tuple[int, TextIO]]:
    ours, theirs = pty.openpty()
    # A terminal that nobody has told a size has none.
    with open(theirs, "w", encoding="utf-8") as output:  # noqa: PTH123 - it is no path
        yield ours, output
    with suppress(OSError):  # if the test has closed it
        os.close(ours)


def echoes(output: TextIO) -> bool:
    return bool(termios.tcgetattr(output)[3] & termios.ECHO)


class TestRealTerminals:
    def test_a_terminal_without_a_size_is_taken_for_a_usual_one(self) -> None:
        with pseudo_terminal() as (_, output):
            assert Screen(output).size() == (80, 24)

    def test_the_size_is_the_one_it_has_now_whatever_the_environment_says(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "33")
        with pseudo_terminal() as (_, output):
            screen = Screen(output)
            for columns, rows in _SIZES:
                termios.tcsetwinsize(output.fileno(), (rows, columns))
                assert screen.size() == (columns, rows)

    def test_keys_are_not_echoed_while_something_is_painted(self) -> None:
        with pseudo_terminal() as (_, output):
            screen = Screen(output)
            assert echoes(output)
            screen.paint([], lines("tail"))
            assert not echoes(output)
            assert termios.tcgetattr(output)[3] & termios.ISIG  # Ctrl-C works
            screen.suspend()
            assert echoes(output)
            screen.resume()
            screen.paint([], lines("tail"))
            assert not echoes(output)
            screen.close()
            assert echoes(output)

    def test_a_terminal_that_did_not_echo_before_does_not_afterwards(self) -> None:
        with pseudo_terminal() as (_, output):
            settings = termios.tcgetattr(output)
            settings[3] &= ~termios.ECHO
            termios.tcsetattr(output, termios.TCSANOW, settings)
            screen = Screen(output)
            screen.paint([], lines("tail"))
            screen.close()
            assert not echoes(output)

    def test_an_output_that_does_not_block_gets_all_of_it(self) -> None:
        with pseudo_terminal() as (ours, output):
            os.set_blocking(output.fileno(), False)
            screen = Screen(output)
            texts = [f"line {number} " + "x" * 60 for number in range(2_000)]
            painter = threading.Thread(target=screen.paint, args=(lines(*texts), []))
            painter.start()
            painter.join(0.1)
            assert painter.is_alive()  # the terminal takes no more until somebody reads
            read = b""
            while b"line 1999 " not in read:
                read += os.read(ours, 65_536)
            painter.join()
            seen = [row for row in read.decode().split("\r\n") if "line" in row]
            assert len(seen) == len(texts)

    def test_a_terminal_that_hangs_up_is_told_once(self) -> None:
        with pseudo_terminal() as (ours, output):
            screen = Screen(output)
            screen.paint([], lines("tail"))
            os.close(ours)
            with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                screen.paint(lines("one"), [])
            screen.paint(lines("two"), [])
            screen.close()

    def test_a_pipe_that_is_closed_is_told_once(self) -> None:
        reader, writer = os.pipe()
        with open(writer, "w", encoding="utf-8") as output:  # noqa: PTH123 - it is no path
            screen = Screen(output)
            os.close(reader)
            with pytest.raises(BrokenPipeError):
                screen.paint(lines("one"), [])
            screen.close()

    def test_text_that_was_printed_before_comes_first(self) -> None:
        with pseudo_terminal() as (ours, output):
            output.write("printed\n")
            screen = Screen(output)
            screen.paint(lines("one"), [])
            read = ""
            while "one" not in read:
                read += os.read(ours, 1000).decode()
            assert read.startswith("printed")

    def test_an_output_without_a_number_is_written_to_as_any_other(self) -> None:
        output = io.StringIO()
        screen = Screen(output)
        screen.paint(lines("one"), lines("tail"))
        screen.close()
        assert "one" in output.getvalue()


_PAINTING = """
import sys, time
from argstream.terminal import Screen, line
screen = Screen(sys.stdout)
screen.open()
number = 0
screen.paint([], [line("TAIL painted 0")])
for word in map(str.strip, sys.stdin):
    for _ in range(int(word)):
        number += 1
        screen.paint(
            [line(f"{number:04} " + "committed " * 5)],
            [line(f"TAIL {row} " * 30) for row in range(number % 9)],
        )
    screen.paint([], [line(f"TAIL painted {number}")])
screen.close()
"""
"""Paints as many frames as it is told to; a tail is left alive each time."""

_WAITING = """
import sys, time
from argstream.terminal import Screen, line
screen = Screen(sys.stdout)
screen.open()
while True:
    screen.paint([], [line("TAIL first"), line("TAIL second")])
    time.sleep(0.05)
"""


def and_after(script: Path) -> list[str]:
    """Give a command that leaves time to look at the terminal afterwards."""
    return ["bash", "-c", f"{shlex.join([sys.executable, str(script)])}; echo OVER; read"]


class TestTmux:
    def test_resizes_leave_each_line_once_and_no_remains(self, tmp_path: Path) -> None:
        script = tmp_path / "painting.py"
        script.write_text(_PAINTING)
        count = 0
        with Tmux(and_after(script), columns=80, rows=24) as terminal:
            terminal.wait_for("TAIL painted 0")
            for columns, rows in [(80, 24), (45, 24), (120, 24), (120, 10), (60, 40), (50, 12)]:
                terminal.resize(columns, rows)
                count += 20
                terminal.press("20", "Enter")
                terminal.wait_for(f"TAIL painted {count}")
            assert not terminal.is_cursor_shown()
            terminal.press("C-d")
            terminal.wait_for("OVER")
            assert terminal.is_cursor_shown()
            everything = terminal.lines()
        assert everything.pop() == "OVER"
        numbers = [int(row[:4]) for row in everything if row[:4].isdigit()]
        assert numbers == list(range(1, count + 1))
        assert "TAIL" not in "\n".join(everything)
        assert all(row.startswith("committed") for row in everything if not row[:4].isdigit())

    def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(self, tmp_path: Path) -> None:
        script = tmp_path / "waiting.py"
        script.write_text(_WAITING)
        with Tmux(["bash", "--norc", "-i"]) as terminal:
            terminal.wait_for("bash-")  # its prompt
            terminal.press(shlex.join([sys.executable, str(script)]), "Enter")
            terminal.wait_for("TAIL second")
            assert not terminal.is_cursor_shown()
            terminal.press("C-z")
            terminal.wait_for("Stopped")
            assert "TAIL" not in terminal.screen()
            assert terminal.is_cursor_shown()
            terminal.press("echo heard", "Enter")
            terminal.wait_for("echo heard")
            terminal.press("fg", "Enter")
            terminal.wait_for("TAIL second")
            assert not terminal.is_cursor_shown()
            terminal.press("unheard", "C-c")
            terminal.wait_for("KeyboardInterrupt")
            assert "unheard" not in terminal.screen()
            assert "TAIL" not in terminal.screen()

    def test_in_the_background_nothing_is_painted(self, tmp_path: Path) -> None:
        script = tmp_path / "waiting.py"
        script.write_text(_WAITING)
        with Tmux(["bash", "--norc", "-i"]) as terminal:
            terminal.wait_for("bash-")  # its prompt
            terminal.press(shlex.join([sys.executable, str(script)]), "Enter")
            terminal.wait_for("TAIL second")
            terminal.press("C-z")
            terminal.wait_for("Stopped")
            terminal.press("bg", "Enter", "sleep 0.5; echo slept; kill %1; wait", "Enter")
            terminal.wait_for("Terminated")
            assert "TAIL" not in terminal.screen()
            assert "slept" in terminal.screen()

    def test_being_terminated_leaves_a_cursor_and_no_tail(self, tmp_path: Path) -> None:
        script = tmp_path / "waiting.py"
        script.write_text(_WAITING.replace("while True:", "import os, signal\nfor n in range(5):"))
        with script.open("a") as file:
            file.write("os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)\n")
        with Tmux(and_after(script)) as terminal:
            terminal.wait_for("OVER")
            assert terminal.is_cursor_shown()
            assert "TAIL" not in terminal.screen()
