"""A screen: committed lines are written once, and nothing remains of the tail."""

import errno
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
    def test_committed_lines_are_above_the_tail(self) -> None:
        emulator = Emulator(40, 12)
        screen = on(emulator)
        screen.paint(lines("one"), lines("tail a", "tail b"))
        emulator.feed("printed\r\n")  # by another part of the program
        screen.paint(lines("two"), lines("tail c"))
        assert emulator.all_lines() == ["one", "printed", "two", "tail c"]
        assert emulator.tail_lines() == ["tail c"]
        assert emulator.is_cursor_hidden()
        screen.close()
        assert emulator.all_lines() == ["one", "printed", "two"]
        assert emulator.cursor() == (0, 3)
        assert not emulator.is_cursor_hidden()

    @pytest.mark.parametrize(("rows", "bound"), [(1, 1), (5, 1), (12, 4), (24, 8), (50, 12)])
    def test_tail_is_at_most_a_third_of_the_screen(self, rows: int, bound: int) -> None:
        emulator = Emulator(40, rows)
        on(emulator).paint([], lines(*"abcdefghijklmnop"))
        assert emulator.tail_lines() == list("abcdefghijklmnop")[-bound:]

    def test_long_lines_are_wrapped_and_the_tail_is_cut(self) -> None:
        emulator = Emulator(10, 12)
        long = Line((Span("0123456789"),), (Span("> "),))
        on(emulator).paint([long], [long])
        assert emulator.all_lines() == ["> 0123456", "  789", "> 012345…"]

    def test_only_frames_that_change_something_are_written(self) -> None:
        emulator = Emulator(80, 24)
        screen = on(emulator)
        for _ in range(3):
            screen.paint([], lines("tail"))
        assert len(emulator.frames) == 1
        emulator.resize(70, 20)
        screen.paint([], lines("tail"))
        assert len(emulator.frames) == 2

    def test_terminal_can_become_narrow_at_any_time(self) -> None:
        emulator = Emulator(40, 12, "clips")
        screen = Screen(emulator.output, size=lambda: (80, 12))
        screen.paint([], lines("t" * 70, "t" * 70))
        screen.paint(lines("c" * 60), lines("tail"))
        assert emulator.all_lines() == ["c" * 40, "c" * 20, "tail"]
        cell = Emulator(1, 1)
        screen = on(cell)
        screen.paint(lines("ab"), lines("tail"))
        screen.close()
        assert not cell.is_cursor_hidden()


class TestClosing:
    def test_nothing_is_written_before_the_first_frame_or_after_the_end(self) -> None:
        unused, emulator = Emulator(), Emulator()
        on(unused).close()
        assert not unused.frames
        screen = on(emulator)
        screen.paint(lines("one"), [])
        screen.close()
        screen.paint(lines("two"), [])
        screen.close()
        assert emulator.all_lines() == ["one"]

    def test_editor_keeps_the_terminal_after_ctrl_z_and_fg(self) -> None:
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
def test_resizing_keeps_each_line_once_and_nothing_of_the_tail(
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
        expected.pop()  # a blank row at the end cannot be seen
    if kind == "reflows":
        assert remaining == expected
    else:  # the terminal itself cuts rows off
        assert len(remaining) == len(expected)
        assert all(row.startswith(seen) for seen, row in zip(remaining, expected, strict=True))


@contextmanager
def pseudo_terminal() -> Iterator[tuple[int, TextIO]]:
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8") as output:  # noqa: PTH123 - it is no path
        yield ours, output
    with suppress(OSError):  # if the test has closed it
        os.close(ours)


def set_echo(output: TextIO, *, is_on: bool) -> None:
    modes = termios.tcgetattr(output)
    modes[3] = modes[3] | termios.ECHO if is_on else modes[3] & ~termios.ECHO
    termios.tcsetattr(output, termios.TCSANOW, modes)


def echoes(output: TextIO) -> bool:
    return bool(termios.tcgetattr(output)[3] & termios.ECHO)


class TestRealTerminals:
    def test_size_is_that_of_the_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "33")
        with pseudo_terminal() as (_, output):
            screen = Screen(output)
            assert screen.size() == (80, 24)  # the default
            for columns, rows in _SIZES:
                termios.tcsetwinsize(output.fileno(), (rows, columns))
                assert screen.size() == (columns, rows)

    @pytest.mark.parametrize("before", [True, False])
    def test_keys_are_not_echoed_while_a_tail_is_painted(self, before: bool) -> None:
        with pseudo_terminal() as (_, output):
            set_echo(output, is_on=before)
            screen = Screen(output)
            screen.paint([], lines("tail"))
            assert not echoes(output)
            assert termios.tcgetattr(output)[3] & termios.ISIG  # Ctrl-C works
            screen.suspend()
            assert echoes(output) is before
            screen.resume()
            screen.paint([], lines("tail"))
            assert not echoes(output)
            screen.close()
            assert echoes(output) is before

    def test_non_blocking_output_gets_everything(self) -> None:
        with pseudo_terminal() as (ours, output):
            os.set_blocking(output.fileno(), False)
            screen = Screen(output)
            texts = [f"line {number} " + "x" * 60 for number in range(2_000)]
            painter = threading.Thread(target=screen.paint, args=(lines(*texts), []))
            painter.start()
            painter.join(0.05)
            assert painter.is_alive()  # the terminal is full until it is read
            read = b""
            while b"line 1999 " not in read:
                read += os.read(ours, 65_536)
            painter.join()
            seen = [row for row in read.decode().split("\r\n") if "line" in row]
            assert len(seen) == len(texts)

    def test_closed_output_raises_once(self) -> None:
        with pseudo_terminal() as (ours, output):
            screen = Screen(output)
            screen.paint([], lines("tail"))
            os.close(ours)
            with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                screen.paint(lines("one"), [])
            screen.paint(lines("two"), [])
            screen.close()
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
            Screen(output).paint(lines("one"), [])
            read = ""
            while "one" not in read:
                read += os.read(ours, 1000).decode()
            assert read.startswith("printed")


# Paints as many frames as each line of its input says, and leaves a tail each time.
_PAINTING = """
import sys
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
_WAITING = """
import os, sys, time
from argstream.terminal import Screen, line
screen = Screen(sys.stdout)
screen.open()
while True:
    screen.paint([], [line("TAIL first"), line("TAIL second")])
    time.sleep(0.05)
    if os.path.exists("terminate"):
        os.kill(os.getpid(), 15)
"""


class TestTmux:
    def test_resizing_leaves_each_line_once_and_no_remains(self, tmp_path: Path) -> None:
        (tmp_path / "painting.py").write_text(_PAINTING)
        command = f"{shlex.quote(sys.executable)} painting.py; echo OVER; read"
        count = 0
        with Tmux(["bash", "-c", command], folder=tmp_path) as terminal:
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

    def test_terminal_is_the_shells_while_stopped_or_in_background(self, tmp_path: Path) -> None:
        (tmp_path / "waiting.py").write_text(_WAITING)
        with Tmux(["bash", "--norc", "-i"], folder=tmp_path) as terminal:
            terminal.wait_for("bash-")  # its prompt
            terminal.press(f"{shlex.quote(sys.executable)} waiting.py", "Enter")
            terminal.wait_for("TAIL second")
            assert not terminal.is_cursor_shown()
            terminal.press("C-z")
            terminal.wait_for("Stopped")
            assert "TAIL" not in terminal.screen()
            assert terminal.is_cursor_shown()
            terminal.press("bg", "Enter", "sleep 0.3; echo slept", "Enter")
            terminal.wait_for("\nslept")
            assert "TAIL" not in terminal.screen()
            terminal.press("fg", "Enter")
            terminal.wait_for("TAIL second")
            assert not terminal.is_cursor_shown()
            terminal.press("unheard", "C-c")
            terminal.wait_for("KeyboardInterrupt")
            assert "unheard" not in terminal.screen()
            assert "TAIL" not in terminal.screen()
            terminal.press("clear; touch terminate", "Enter")
            terminal.press(f"{shlex.quote(sys.executable)} waiting.py", "Enter")
            terminal.wait_for("Terminated")
            assert terminal.is_cursor_shown()
            assert "TAIL" not in terminal.screen()
