"""A live terminal: nobody waits for it, it paints when it should, and nothing is lost."""

import io
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TextIO

import pytest
from msgspec.structs import replace

from argstream.errors import UsageError
from argstream.events import (
    ApprovalRequested,
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentStarted,
    Event,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
)
from argstream.terminal import Line, LiveTerminal, Palette, Scene, Screen, line, shown
from tests.terminal.emulator import Emulator


class Words(Scene):
    """A scene in which each completed line is final, and the others are in the tail."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.looks = 0  # how often the tail was asked for

    def take(self, event: Event, now: float) -> None:
        del now
        if isinstance(event, TextDelta):
            self.text += event.text

    def committed(self) -> list[Line]:
        *complete, self.text = self.text.split("\n")
        return [line(shown(text)) for text in complete]

    def tail(self, now: float, columns: int, rows: int) -> list[Line]:
        del columns
        self.looks += 1
        if not self.text:
            return []
        return [line(shown(self.text)), line(f"after {now:.0f} s")][-rows:]

    def finish(self, now: float) -> None:
        del now
        if self.text:
            self.text += "\n"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def on(emulator: Emulator, clock: Callable[[], float] = time.monotonic) -> LiveTerminal:
    screen = Screen(emulator.output, size=emulator.size, palette=Palette())
    return LiveTerminal(Words(), screen=screen, clock=clock)


def eventually(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


def is_seen(emulator: Emulator, text: str) -> bool:
    return text in emulator.all_lines()


def said(text: str) -> TextDelta:
    return TextDelta(text, 0)


class TestShowing:
    def test_what_is_shown_appears(self) -> None:
        emulator = Emulator(40, 12)
        with on(emulator, clock=Clock()) as terminal:
            terminal.show(said("one\ntw"))
            eventually(lambda: emulator.all_lines() == ["one", "tw", "after 0 s"])
            terminal.show(said("o\n"))
            eventually(lambda: emulator.all_lines() == ["one", "two"])

    def test_what_moves_moves_while_something_is_open(self) -> None:
        emulator = Emulator(40, 12)
        clock = Clock()
        with on(emulator, clock=clock) as terminal:
            terminal.show(said("open"))
            for now in range(1, 4):
                clock.now = now
                eventually(partial(is_seen, emulator, f"after {now} s"))

    def test_a_resize_is_noticed_without_an_event(self) -> None:
        emulator = Emulator(40, 12)
        with on(emulator, clock=Clock()) as terminal:
            terminal.show(said("a long text that does not fit"))
            eventually(lambda: len(emulator.frames) == 1)
            emulator.resize(20, 12)
            eventually(lambda: emulator.all_lines()[:1] == ["a long text that d…"])

    def test_it_sleeps_when_nothing_is_open(self) -> None:
        emulator = Emulator(40, 12)
        scene = Words()
        with LiveTerminal(scene, screen=Screen(emulator.output, size=emulator.size)) as terminal:
            terminal.show(said("done\n"))
            eventually(lambda: emulator.all_lines() == ["done"])
            looks = scene.looks
            time.sleep(0.3)
            assert scene.looks == looks

    def test_lines_of_ours_come_behind_what_is_final(self) -> None:
        emulator = Emulator(40, 12)
        with on(emulator) as terminal:
            terminal.show(said("one\n"))
            terminal.say(line("ours"), line("too"))
            terminal.show(said("two\n"))
        assert emulator.all_lines() == ["one", "ours", "too", "two"]

    def test_a_question_stands_where_the_status_was(self) -> None:
        emulator = Emulator(40, 12)
        with on(emulator, clock=Clock()) as terminal:
            terminal.show(said("open"))
            terminal.ask(lambda now, columns, rows: [line(f"really? {now:.0f} {columns} {rows}")])
            eventually(lambda: emulator.all_lines() == ["open", "really? 0 39 4"])
            terminal.ask(None)
            eventually(lambda: emulator.all_lines() == ["open", "after 0 s"])

    def test_a_question_may_take_all_of_the_tail(self) -> None:
        emulator = Emulator(40, 12)
        with on(emulator) as terminal:
            terminal.show(said("open"))
            terminal.ask(lambda *_: [line(str(number)) for number in range(9)])
            eventually(lambda: emulator.all_lines() == list("5678"))


class Talking(Words):
    """A scene in which requests for approval are told, too."""

    def take(self, event: Event, now: float) -> None:
        super().take(event, now)
        if isinstance(event, ApprovalRequested):
            self.text += f"{event.name}?\n"


REQUEST = ApprovalRequested("call", "send", {}, "digest", "why")


class TestAsking:
    @pytest.fixture
    def terminal(self) -> Iterator[LiveTerminal]:
        self.emulator = Emulator(40, 12)
        screen = Screen(self.emulator.output, size=self.emulator.size)
        with LiveTerminal(Talking(), screen=screen) as terminal:
            yield terminal

    def test_it_is_known_whether_a_request_is_what_was_last_committed(
        self, terminal: LiveTerminal
    ) -> None:
        terminal.show(said("before\n"))
        assert not terminal.is_last(REQUEST)
        terminal.show(REQUEST)
        terminal.show(said("not final"))
        assert terminal.is_last(REQUEST)
        assert not terminal.is_last(replace(REQUEST, name="receive"))
        terminal.show(said(" but now\n"))
        assert not terminal.is_last(REQUEST)

    def test_a_scene_that_does_not_show_a_request_has_not_committed_it(self) -> None:
        emulator = Emulator(40, 12)
        with on(emulator) as terminal:
            terminal.show(said("before\n"))
            terminal.show(REQUEST)
            assert not terminal.is_last(REQUEST)

    def test_so_it_is_of_lines_of_ours(self, terminal: LiveTerminal) -> None:
        terminal.say(line("it"), about="it")
        assert terminal.is_last("it")
        terminal.say(line("else"))
        assert not terminal.is_last("it")

    def test_alone_only_what_is_said_is_committed(self, terminal: LiveTerminal) -> None:
        terminal.ask(lambda *_: [line("really?")], alone=True)
        terminal.say(line("it"), about="it")
        terminal.show(REQUEST)
        eventually(partial(is_seen, self.emulator, "really?"))
        assert terminal.is_last("it")
        terminal.ask(None)
        eventually(lambda: self.emulator.all_lines() == ["it", "send?"])
        assert not terminal.is_last("it")

    def test_a_question_stands_since_it_was_painted(self, terminal: LiveTerminal) -> None:
        begun = time.monotonic()
        terminal.ask(lambda *_: [line("really?")])
        eventually(lambda: terminal.asked_since() is not None)
        assert self.emulator.all_lines() == ["really?"]
        first = terminal.asked_since()
        assert first is not None
        assert begun < first < time.monotonic()
        terminal.ask(lambda *_: [line("really?")])
        assert terminal.asked_since() != first

    def test_it_does_not_stand_while_it_cannot_be_painted(self, terminal: LiveTerminal) -> None:
        with terminal.suspended():
            terminal.ask(lambda *_: [line("really?")])
            time.sleep(0.1)
            assert terminal.asked_since() is None
        eventually(lambda: terminal.asked_since() is not None)

    def test_all_of_it_begins_anew_when_the_process_goes_on(self, terminal: LiveTerminal) -> None:
        terminal.say(line("it"), about="it")
        terminal.ask(lambda *_: [line("really?")])
        eventually(lambda: terminal.asked_since() is not None)
        frames, before = len(self.emulator.frames), terminal.asked_since()
        os.kill(os.getpid(), signal.SIGCONT)
        assert not terminal.is_last("it")
        eventually(lambda: terminal.asked_since() not in (None, before))
        assert len(self.emulator.frames) > frames


class SlowOutput(io.StringIO):
    """A terminal that takes its time, or all the time in the world."""

    def __init__(self, delay: float = 0) -> None:
        super().__init__()
        self.delay = delay
        self.can_go_on = threading.Event()
        self.can_go_on.set()
        self.is_waiting = threading.Event()
        self.frames = 0

    def write(self, text: str) -> int:
        self.is_waiting.set()
        self.can_go_on.wait()
        time.sleep(self.delay)
        self.frames += 1
        return super().write(text)


class TestPace:
    def test_a_stopped_terminal_holds_nobody_up(self) -> None:
        output = SlowOutput()
        output.can_go_on.clear()
        with LiveTerminal(Words(), output) as terminal:
            terminal.show(said("line 0\n"))
            output.is_waiting.wait()
            for number in range(1, 1_000):
                terminal.show(said(f"line {number}\n"))
            output.can_go_on.set()  # until then, nothing can be written
        written = [row for row in output.getvalue().split("\r\n") if "line" in row]
        assert len(written) == 1_000

    def test_it_paints_twenty_frames_a_second_at_most(self) -> None:
        output = SlowOutput()
        with LiveTerminal(Words(), output) as terminal:
            begun = time.monotonic()
            while output.frames < 8:
                terminal.show(said("."))
                time.sleep(0.001)
            assert output.frames <= (time.monotonic() - begun) * 20 + 1

    def test_a_slow_terminal_gets_fewer(self) -> None:
        output = SlowOutput(delay=0.1)
        with LiveTerminal(Words(), output) as terminal:
            begun = time.monotonic()
            while output.frames < 3:
                terminal.show(said("."))
                time.sleep(0.001)
            # A frame takes 0.1 s, and the rest after it twice as long.
            assert output.frames <= (time.monotonic() - begun) / 0.3 + 1


class BrokenOutput(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(text[:0])


class TestFailures:
    def test_a_terminal_that_is_gone_is_told_once(self) -> None:
        terminal = LiveTerminal(Words(), BrokenOutput())

        def is_told() -> bool:
            with suppress(BrokenPipeError):
                terminal.show(said("one\n"))
                return False
            return True

        eventually(is_told)
        terminal.show(said("two\n"))
        with terminal.suspended():
            pass
        terminal.close()

    def test_if_nobody_asked_the_end_tells(self) -> None:
        terminal = LiveTerminal(Words(), BrokenOutput())
        terminal.show(said("one\n"))
        with pytest.raises(BrokenPipeError):
            terminal.close()
        terminal.close()

    def test_a_scene_that_fails_is_told_too(self) -> None:
        class Failing(Words):
            def committed(self) -> list[Line]:
                raise ZeroDivisionError

        emulator = Emulator()
        terminal = LiveTerminal(Failing(), screen=Screen(emulator.output, size=emulator.size))
        terminal.show(said("one\n"))
        with pytest.raises(ZeroDivisionError):
            terminal.close()
        assert not emulator.is_cursor_hidden()

    def test_a_question_that_fails_is_told_too(self) -> None:
        terminal = on(Emulator())
        terminal.ask(lambda *_: [line(str(1 // 0))])
        time.sleep(0.2)
        with pytest.raises(ZeroDivisionError):
            terminal.close()

    def test_what_is_shown_after_the_end_is_a_mistake(self) -> None:
        terminal = on(Emulator())
        terminal.close()
        with pytest.raises(UsageError, match="closed"):
            terminal.show(said("late"))


class TestLeaving:
    def test_the_end_shows_what_was_open_and_leaves_a_clean_screen(self) -> None:
        emulator = Emulator(40, 12)
        with on(emulator) as terminal:
            terminal.show(said("one\nunfinished"))
        assert emulator.all_lines() == ["one", "unfinished"]
        assert not emulator.is_cursor_hidden()
        assert not [one for one in threading.enumerate() if one.name == "argstream-painter"]

    def test_an_exception_leaves_a_clean_screen_as_well(self) -> None:
        emulator = Emulator(40, 12)
        with pytest.raises(KeyboardInterrupt), on(emulator) as terminal:  # noqa: PT012 - it is one
            terminal.show(said("one\nunfinished"))
            raise KeyboardInterrupt
        assert emulator.all_lines() == ["one", "unfinished"]
        assert not emulator.is_cursor_hidden()

    def test_an_editor_has_the_terminal_to_itself(self) -> None:
        emulator = Emulator(40, 12)
        with on(emulator, clock=Clock()) as terminal:
            terminal.show(said("one\nopen"))
            with terminal.suspended():
                assert emulator.all_lines() == ["one"]
                assert not emulator.is_cursor_hidden()
                terminal.show(said(" still\ntwo"))
                time.sleep(0.15)
                assert emulator.all_lines() == ["one"]
            eventually(lambda: emulator.all_lines() == ["one", "open still", "two", "after 0 s"])

    @pytest.mark.parametrize("way", ["pass", "sys.exit(3)", "os.kill(os.getpid(), 15)"])
    def test_who_forgets_to_close_it_has_a_cursor_nonetheless(self, way: str) -> None:
        written = run_in_terminal(f"{_OPEN}\n{way}")
        assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")

    def test_being_terminated_resets_what_others_have_set(self) -> None:
        ours, theirs = pty.openpty()
        before = termios.tcgetattr(ours)
        script = f"{_OPEN}\nimport tty\ntty.setcbreak(0)\nos.kill(os.getpid(), 15)"
        start_in_terminal(script, theirs).wait()
        assert termios.tcgetattr(ours) == before
        os.close(ours)

    def test_a_forked_child_leaves_the_terminal_alone(self) -> None:
        script = f"""{_OPEN}
terminal.say(line("parent before"))
time.sleep(0.2)
if not os.fork():
    terminal.say(line("child"))
    terminal.close()
    sys.exit()
os.wait()
terminal.say(line("parent after"))
terminal.close()
"""
        written = run_in_terminal(script)
        assert "child" not in written
        assert written.count("\x1b[?25h") == 1
        assert written.index("parent before") < written.index("parent after")


_OPEN = """
import os, sys, time
from argstream.events import TextDelta
from argstream.terminal import LiveTerminal, line
from tests.terminal.test_live import Words
terminal = LiveTerminal(Words())
terminal.show(TextDelta("open", 0))
time.sleep(0.2)
"""


def start_in_terminal(script: str, terminal: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-W", "ignore", "-c", script]
    try:
        return subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal)
    finally:
        os.close(terminal)


def run_in_terminal(script: str) -> str:
    """Run Python in a pseudo-terminal, and give all that it writes."""
    ours, theirs = pty.openpty()
    with start_in_terminal(script, theirs):
        written = b""
        with suppress(OSError):  # which is how its end is told
            while piece := os.read(ours, 65_536):
                written += piece
    os.close(ours)
    return written.decode()


@pytest.mark.timing
def test_a_long_argument_costs_less_than_a_twentieth_of_a_core() -> None:
    """100 deltas a second, 20 frames a second, until the argument has 100 kB."""
    row = 'value_{0} = compute(argument, key="text {0}")  # row {0}\n'
    content = "".join(row.format(number) for number in range(2_000))[:100_000]

    def share() -> float:
        with drained_terminal() as output:
            screen = Screen(output, size=lambda: (120, 40), palette=Palette())
            scene = Scene()
            for event in opening("write_file", path="src/app.py"):
                scene.take(event, 0)
            begun = time.thread_time()
            seconds = 0.0
            for number, start in enumerate(range(0, len(content), 25)):
                seconds = number / 100
                piece = content[start : start + 25]
                scene.take(ToolArgsDelta("call", "write_file", piece), seconds)
                scene.take(ArgumentDelta("call", "write_file", ("content",), piece), seconds)
                if number % 5 == 4:
                    screen.paint(scene.committed(), scene.tail(seconds, 119, 12))
            used = time.thread_time() - begun
            screen.close()
        return used / seconds

    assert min(share() for _ in range(3)) < 0.05


def opening(name: str, path: str) -> Iterator[Event]:
    yield ToolCallStarted("call", 0, name, "function")
    yield ArgumentStarted("call", name, ("path",), "string")
    yield ArgumentCompleted("call", name, ("path",), path)
    yield ArgumentStarted("call", name, ("content",), "string")


@contextmanager
def drained_terminal() -> Iterator[TextIO]:
    """Give a real terminal that somebody reads from."""
    ours, theirs = pty.openpty()

    def drain() -> None:
        with suppress(OSError):
            while os.read(ours, 65_536):
                pass

    reader = threading.Thread(target=drain)
    reader.start()
    with open(theirs, "w", encoding="utf-8") as output:  # noqa: PTH123 - it is no path
        yield output
    reader.join()
    os.close(ours)
