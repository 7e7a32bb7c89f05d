"""Plain lines: what pipes, files and terminals that can do nothing get."""

import io
import json
import os
import pty
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.events import (
    Event,
    TextDelta,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolCallStarted,
)
from argstream.runs import with_arguments
from argstream.terminal import File, Looks, PlainTerminal, Span, line, open_terminal
from tests.chance_runs import claude_code, runs

ARGUMENTS = {"path": "a.py", "content": "import os\nprint(os)\n"}
CALL: list[Event] = [
    ToolCallStarted("c1", 0, "write"),
    *(ToolArgsDelta("c1", "write", piece) for piece in json.dumps(ARGUMENTS).partition("import")),
    ToolArgsCompleted("c1", "write", ARGUMENTS),
]
LONG = "word " * 60


class Pipe(io.StringIO):
    """Knows what had been written whenever it was flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.flushed: list[str] = []

    def flush(self) -> None:
        self.flushed.append(self.getvalue())


def written(events: Iterable[Event], looks: Looks | None = None) -> str:
    pipe = io.StringIO()
    with open_terminal(looks, pipe) as terminal:
        for event in with_arguments(events):
            terminal.show(event)
    return pipe.getvalue()


def test_looks_hold_in_a_pipe_too() -> None:
    arguments = {"where": "a.py", "what": "import os\n"}
    call: list[Event] = [
        ToolCallStarted("c1", 0, "note"),
        ToolArgsDelta("c1", "note", json.dumps(arguments)),
        ToolArgsCompleted("c1", "note", arguments),
    ]
    shown = written(call, Looks({"note": File(text="what", path="where")}))
    assert shown.splitlines()[:2] == ["● note  a.py", "     1 │ import os"]


def test_each_line_is_written_when_it_is_complete() -> None:
    pipe = Pipe()
    terminal = PlainTerminal(pipe)
    flushes = []
    for event in with_arguments([TextDelta("One", 0), TextDelta(" line.\nT", 0), *CALL[:3]]):
        terminal.show(event)
        flushes.append(len(pipe.flushed))
    assert [text.splitlines()[-1] for text in pipe.flushed] == [
        "│ One line.",
        "│ T",
        "● write  a.py",
    ]
    assert max(flushes) == 3


def test_what_is_said_comes_behind_what_is_complete() -> None:
    pipe = io.StringIO()
    with PlainTerminal(pipe) as terminal:
        terminal.show(TextDelta("One\nTwo", 0))
        terminal.say(line("┄ later   "))
    assert pipe.getvalue() == "│ One\n┄ later\n│ Two\n"


def test_in_a_pipe_a_line_is_one_line() -> None:
    assert written([TextDelta(LONG, 0)]) == f"│ {LONG.rstrip()}\n"


class TestColours:
    def test_a_pipe_has_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("FORCE_COLOR", raising=False)
        assert "\x1b" not in written(CALL)

    def test_unless_somebody_insists(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        shown = written(CALL)
        assert "\x1b[36ma.py\x1b[0m" in shown
        assert not re.search(r" (\x1b\[0m)?\n", shown)


def _pieces(seen: io.RawIOBase) -> Iterator[bytes]:
    with suppress(OSError):  # that is how the end of a terminal is told
        while piece := seen.read(4096):
            yield piece


class TestADumbTerminal:
    @pytest.fixture
    def shown(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        monkeypatch.setenv("TERM", "dumb")
        main, other = pty.openpty()
        with (
            os.fdopen(other, "w", encoding="utf-8") as output,
            open_terminal(None, output) as terminal,
        ):
            terminal.show(TextDelta(LONG, 0))
            terminal.say(line(Span("ours ", "strong")))
        with os.fdopen(main, "rb", buffering=0) as seen:
            return b"".join(_pieces(seen)).decode().splitlines()

    def test_each_row_has_its_margin(self, shown: list[str]) -> None:
        assert len(shown) == 5
        assert shown[0] == "ours"
        assert all(row.startswith("│ word") and len(row) < 80 for row in shown[1:])

    def test_nothing_acts_on_it(self, shown: list[str]) -> None:
        assert "\x1b" not in "".join(shown)


@given(st.one_of(runs(), st.just(claude_code())), st.text())
def test_nothing_acts_on_a_terminal(events: list[Event], text: str) -> None:
    hostile = [
        *events,
        TextDelta(text + "\x1b[2J\u202e\r", 9),
        ToolCallStarted("x", 0, text + "\n"),
    ]
    pipe = io.StringIO()
    with PlainTerminal(pipe) as terminal:
        for event in hostile:
            terminal.show(event)
    assert all(mark.isprintable() or mark in "\n\u3000" for mark in pipe.getvalue())
