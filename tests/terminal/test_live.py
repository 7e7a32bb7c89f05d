"""A live terminal: callers never wait for it, it paints at its own pace, and nothing is lost."""

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
from contextlib import suppress
from functools import partial

import pytest
from msgspec.structs import replace

from argstream import events as e
from argstream.errors import UsageError
from argstream.terminal import Line, LiveTerminal, Palette, RunView, Screen, line, shown
from tests.cli.processes import Clock, wait_until
from tests.terminal.emulator import Emulator

CALL = (e.ToolCallStarted("call", 0, "send"), e.ToolArgsCompleted("call", "send", {}))
REQUEST = e.ApprovalRequested("call", "send", {}, "digest", "why")


class Words(RunView):
    """A scene that commits complete lines and requests. The open line is in the tail."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.looks = 0  # how often the tail was asked for

    def take(self, event: object, now: float) -> None:
        del now
        if isinstance(event, e.TextDelta):
            self.text += event.text
        elif isinstance(event, e.ApprovalRequested) and event.name == "send":
            self.text += "send?\n"

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


def on(
    emulator: Emulator, clock: Callable[[], float] = time.monotonic, scene: RunView | None = None
) -> LiveTerminal:
    screen = Screen(emulator.output, size=emulator.size, palette=Palette())
    return LiveTerminal(scene or Words(), screen=screen, clock=clock)


def is_seen(emulator: Emulator, text: str) -> bool:
    return text in emulator.all_lines()


def text_delta(text: str) -> e.TextDelta:
    return e.TextDelta(text, 0)


@pytest.fixture
def emulator() -> Emulator:
    return Emulator(40, 12)


class TestShowing:
    def test_events_are_painted(self, emulator: Emulator) -> None:
        with on(emulator, Clock()) as terminal:
            terminal.show(text_delta("one\ntw"))
            wait_until(lambda: emulator.all_lines() == ["one", "tw", "after 0 s"])
            terminal.show(text_delta("o\n"))
            wait_until(lambda: emulator.all_lines() == ["one", "two"])
            terminal.say(line("ours"), line("too"))
            terminal.show(text_delta("three\n"))
        assert emulator.all_lines() == ["one", "two", "ours", "too", "three"]

    def test_time_and_size_are_followed_without_an_event(self, emulator: Emulator) -> None:
        clock = Clock()
        with on(emulator, clock) as terminal:
            terminal.show(text_delta("a long text that does not fit"))
            for now in range(1, 3):
                clock.now = now
                wait_until(partial(is_seen, emulator, f"after {now} s"))
            emulator.resize(20, 12)
            wait_until(lambda: emulator.all_lines()[:1] == ["a long text that d…"])

    def test_it_sleeps_when_nothing_is_open(self, emulator: Emulator) -> None:
        scene = Words()
        with on(emulator, scene=scene) as terminal:
            terminal.show(text_delta("done\n"))
            wait_until(lambda: emulator.all_lines() == ["done"])
            looks = scene.looks
            time.sleep(0.2)  # two ticks
            assert scene.looks == looks

    def test_question_replaces_the_status_or_the_whole_tail(self, emulator: Emulator) -> None:
        with on(emulator, Clock()) as terminal:
            terminal.show(text_delta("open"))
            terminal.ask(lambda now, columns, rows: [line(f"really? {now:.0f} {columns} {rows}")])
            wait_until(lambda: emulator.all_lines() == ["really? 0 39 4", "open"])
            terminal.ask(lambda *_: [line(str(number)) for number in range(9)])
            wait_until(lambda: emulator.all_lines() == list("5678"))
            terminal.ask(None)
            wait_until(lambda: emulator.all_lines() == ["open", "after 0 s"])


class TestAsking:
    @pytest.fixture
    def terminal(self, emulator: Emulator) -> Iterator[LiveTerminal]:
        with on(emulator) as terminal:
            yield terminal

    def test_is_last_reports_what_was_committed_last(self, emulator: Emulator) -> None:
        with on(emulator, scene=RunView()) as terminal:
            for event in (text_delta("before\n"), *CALL):
                terminal.show(event)
            assert not terminal.is_last(REQUEST)
            terminal.show(REQUEST)
            terminal.show(text_delta("this waits for the decision\n"))
            assert terminal.is_last(REQUEST)
            assert not terminal.is_last(replace(REQUEST, name="receive"))
            terminal.show(e.ApprovalDecided("call", "send", "denied"))
            assert not terminal.is_last(REQUEST)

    def test_is_last_compares_said_lines(self, terminal: LiveTerminal) -> None:
        terminal.say(line("it"), about="it")
        assert terminal.is_last("it")
        terminal.say(line("else"))
        assert not terminal.is_last("it")

    def test_question_alone_holds_events_back(
        self, terminal: LiveTerminal, emulator: Emulator
    ) -> None:
        terminal.ask(lambda *_: [line("really?")], alone=True)
        terminal.say(line("it"), about="it")
        terminal.show(REQUEST)
        wait_until(partial(is_seen, emulator, "really?"))
        assert terminal.is_last("it")
        terminal.ask(None)
        wait_until(lambda: emulator.all_lines() == ["it", "send?"])
        assert not terminal.is_last("it")

    def test_question_counts_from_when_it_is_painted(
        self, terminal: LiveTerminal, emulator: Emulator
    ) -> None:
        begun = time.monotonic()
        with terminal.suspended():
            terminal.ask(lambda *_: [line("really?")])
            time.sleep(0.1)
            assert terminal.asked_since() is None
        wait_until(lambda: terminal.asked_since() is not None)
        assert emulator.all_lines() == ["really?"]
        first = terminal.asked_since()
        assert first is not None
        assert begun < first < time.monotonic()
        terminal.ask(lambda *_: [line("really?")])
        assert terminal.asked_since() != first

    def test_everything_is_painted_again_when_the_process_continues(
        self, terminal: LiveTerminal, emulator: Emulator
    ) -> None:
        terminal.say(line("it"), about="it")
        terminal.ask(lambda *_: [line("really?")])
        wait_until(lambda: terminal.asked_since() is not None)
        frames, before = len(emulator.frames), terminal.asked_since()
        os.kill(os.getpid(), signal.SIGCONT)
        assert not terminal.is_last("it")
        wait_until(lambda: terminal.asked_since() not in (None, before))
        assert len(emulator.frames) > frames


class SlowOutput(io.StringIO):
    """A terminal that is slow, or stopped while ``can_go_on`` is not set."""

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
    def test_stopped_terminal_does_not_block_callers(self) -> None:
        output = SlowOutput()
        output.can_go_on.clear()
        with LiveTerminal(Words(), output) as terminal:
            terminal.show(text_delta("line 0\n"))
            output.is_waiting.wait()
            for number in range(1, 1_000):
                terminal.show(text_delta(f"line {number}\n"))
            output.can_go_on.set()  # until then, nothing can be written
        written = [row for row in output.getvalue().split("\r\n") if "line" in row]
        assert len(written) == 1_000

    @pytest.mark.parametrize(("delay", "least"), [(0.0, 0.05), (0.05, 0.15)])
    def test_frames_are_at_least_50_ms_apart_and_more_on_a_slow_terminal(
        self, delay: float, least: float
    ) -> None:
        """After a frame that takes 50 ms, it rests for twice as long."""
        output = SlowOutput(delay)
        with LiveTerminal(Words(), output) as terminal:
            begun = time.monotonic()
            while output.frames < 3:
                terminal.show(text_delta("."))
                time.sleep(0.001)
            assert output.frames <= (time.monotonic() - begun) / least + 1


class BrokenOutput(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(text[:0])


class TestFailures:
    def test_broken_output_raises_once(self) -> None:
        terminal = LiveTerminal(Words(), BrokenOutput())

        def raises() -> bool:
            with suppress(BrokenPipeError):
                terminal.show(text_delta("one\n"))
                return False
            return True

        wait_until(raises)
        terminal.show(text_delta("two\n"))
        with terminal.suspended():
            pass
        terminal.close()

    def test_failures_are_raised_by_close_at_the_latest(self, emulator: Emulator) -> None:
        class Failing(Words):
            def committed(self) -> list[Line]:
                raise ZeroDivisionError

        broken = LiveTerminal(Words(), BrokenOutput())
        broken.show(text_delta("one\n"))
        with pytest.raises(BrokenPipeError):
            broken.close()
        broken.close()
        failing = on(emulator, scene=Failing())
        failing.show(text_delta("one\n"))
        with pytest.raises(ZeroDivisionError):
            failing.close()
        assert not emulator.is_cursor_hidden()

    def test_failing_question_is_raised_and_the_end_is_final(self, emulator: Emulator) -> None:
        terminal = on(emulator)
        called = threading.Event()

        def ask(*_: object) -> list[Line]:
            called.set()
            raise ZeroDivisionError

        terminal.ask(ask)
        assert called.wait(10)
        with pytest.raises(ZeroDivisionError):
            terminal.close()
        with pytest.raises(UsageError, match="closed"):
            terminal.show(text_delta("late"))


_OPEN = """
import os, sys, time
from argstream.terminal import LiveTerminal, RunView, line
terminal = LiveTerminal(RunView())
terminal.ask(lambda *_: [line("open")])
while terminal.asked_since() is None:  # it is painted then
    time.sleep(0.01)
"""


def start_in_terminal(script: str, terminal: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-W", "ignore", "-c", script]
    try:
        return subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal)
    finally:
        os.close(terminal)


def run_in_terminal(script: str) -> str:
    ours, theirs = pty.openpty()
    with start_in_terminal(script, theirs):
        written = b""
        with suppress(OSError):  # raised when the other side is closed
            while piece := os.read(ours, 65_536):
                written += piece
    os.close(ours)
    return written.decode()


class TestClosing:
    @pytest.mark.parametrize("error", [None, KeyboardInterrupt])
    def test_open_text_is_committed_and_the_screen_is_clean(
        self, emulator: Emulator, error: type[BaseException] | None
    ) -> None:
        with suppress(KeyboardInterrupt), on(emulator) as terminal:
            terminal.show(text_delta("one\nunfinished"))
            if error is not None:
                raise error
        assert emulator.all_lines() == ["one", "unfinished"]
        assert not emulator.is_cursor_hidden()
        assert not [one for one in threading.enumerate() if one.name == "argstream-painter"]

    def test_nothing_is_painted_while_suspended(self, emulator: Emulator) -> None:
        with on(emulator, Clock()) as terminal:
            terminal.show(text_delta("one\nopen"))
            with terminal.suspended():
                assert emulator.all_lines() == ["one"]
                assert not emulator.is_cursor_hidden()
                terminal.show(text_delta(" still\ntwo"))
                time.sleep(0.15)
                assert emulator.all_lines() == ["one"]
            wait_until(lambda: emulator.all_lines() == ["one", "open still", "two", "after 0 s"])

    def test_cursor_is_shown_after_the_process_without_close(self) -> None:
        written = run_in_terminal(f"{_OPEN}\nsys.exit(3)")
        assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")

    def test_sigterm_restores_cursor_and_terminal_modes(self) -> None:
        ours, theirs = pty.openpty()
        before = termios.tcgetattr(ours)
        script = f"{_OPEN}\nimport tty\ntty.setcbreak(0)\nos.kill(os.getpid(), 15)"
        start_in_terminal(script, theirs).wait()
        assert termios.tcgetattr(ours) == before
        written = os.read(ours, 65_536)
        assert written.rindex(b"\x1b[?25h") > written.rindex(b"\x1b[?25l")
        os.close(ours)

    def test_forked_child_leaves_the_terminal_alone(self) -> None:
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
