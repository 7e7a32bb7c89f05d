"""Plain lines and colours: what pipes, files and terminals without capabilities get."""

import io
import json
import os
import pty
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.events import Event, TextDelta, ToolArgsCompleted, ToolArgsDelta, ToolCallStarted
from argstream.runs import with_arguments
from argstream.terminal import (
    File,
    LiveTerminal,
    Palette,
    PlainTerminal,
    Span,
    ToolViews,
    line,
    open_terminal,
)


def call(arguments: dict[str, str], cut_at: str = "import") -> list[Event]:
    pieces = json.dumps(arguments).partition(cut_at)
    return [
        ToolCallStarted("c1", 0, "write"),
        *(ToolArgsDelta("c1", "write", piece) for piece in pieces),
        ToolArgsCompleted("c1", "write", arguments),
    ]


CALL = call({"path": "a.py", "content": "import os\nprint(os)\n"})
LONG = "word " * 60
VARIABLES = ("NO_COLOR", "FORCE_COLOR", "TTY_INTERACTIVE", "TTY_COMPATIBLE")
XTERM = {"TERM": "xterm-256color"}
BAD, ADDED = Span("a", "bad"), Span("b", "added")
COLOURED = "\x1b[1;31ma\x1b[0m\x1b[32mb\x1b[0m"


class Pipe(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.flushed: list[str] = []

    def flush(self) -> None:
        self.flushed.append(self.getvalue())


def written(events: Iterable[Event], looks: ToolViews | None = None) -> str:
    pipe = io.StringIO()
    with open_terminal(looks, pipe) as terminal:
        for event in with_arguments(events):
            terminal.show(event)
    return pipe.getvalue()


@contextmanager
def output(kind: str, encoding: str = "utf-8") -> Iterator[TextIO]:
    ours, theirs = pty.openpty() if kind == "terminal" else os.pipe()
    with open(theirs, "w", encoding=encoding) as file:  # noqa: PTH123 - it is no path
        yield file
    os.close(ours)


class TestPipes:
    def test_looks_are_used(self) -> None:
        looks = ToolViews({"write": File(text="what", path="where")})
        shown = written(call({"where": "a.py", "what": "import os\n"}), looks)
        assert shown.splitlines()[:2] == ["● write  a.py", "     1 │ import os"]

    def test_each_line_is_written_when_it_is_complete(self) -> None:
        pipe = Pipe()
        terminal = PlainTerminal(pipe)
        for event in with_arguments([TextDelta("One", 0), TextDelta(" line.\nT", 0), *CALL[:3]]):
            terminal.show(event)
        last_lines = [text.splitlines()[-1] for text in pipe.flushed]
        assert last_lines == ["│ One line.", "│ T", "● write  a.py"]

    def test_said_lines_follow_complete_ones(self) -> None:
        pipe = io.StringIO()
        with PlainTerminal(pipe) as terminal:
            terminal.show(TextDelta("One\nTwo", 0))
            terminal.say(line("┄ later   "))
        assert pipe.getvalue() == "│ One\n┄ later\n│ Two\n"

    def test_lines_are_not_wrapped(self) -> None:
        assert written([TextDelta(LONG, 0)]) == f"│ {LONG.rstrip()}\n"

    def test_colours_must_be_forced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        assert "\x1b" not in written(CALL)
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        shown = written(CALL)
        assert "\x1b[36ma.py\x1b[0m" in shown
        assert not re.search(r" (\x1b\[0m)?\n", shown)


def test_dumb_terminal_gets_wrapped_rows_with_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as file, open_terminal(None, file) as terminal:
        terminal.show(TextDelta(LONG, 0))
        terminal.say(line(Span("ours ", "strong")))
    shown = b""
    with suppress(OSError):  # raised when the other side is closed
        while piece := os.read(ours, 4096):
            shown += piece
    os.close(ours)
    first, *rows = shown.decode().splitlines()
    assert first == "ours"
    assert len(rows) == 4
    assert all(row.startswith("│ word") and len(row) < 80 for row in rows)
    assert b"\x1b" not in shown


class TestPalette:
    def test_roles_are_colours_attributes_or_nothing(self) -> None:
        assert Palette().ansi((BAD, ADDED)) == COLOURED
        assert Palette(has_colours=False).ansi((BAD, ADDED)) == "\x1b[1ma\x1b[0mb"
        assert Palette(has_styles=False).ansi((BAD, ADDED)) == "ab"
        for role in get_args(get_type_hints(Span)["role"]):
            before, _, _ = Palette().ansi((Span("x", role),)).partition("x")
            codes = re.findall(r"\d+", before)
            assert all(int(code) <= 37 for code in codes), role  # of the sixteen colours

    def test_control_characters_are_escaped_once(self) -> None:
        ansi = Palette(has_styles=False).ansi
        hidden = ansi((Span("\x1b[2J\n\t\x9b\u202e\ufe0f"),))
        assert hidden == "⟦ESC⟧[2J⟦LF⟧⟦TAB⟧⟦CSI⟧⟦RLO⟧⟦VS16⟧"
        assert ansi((Span("⟦ESC⟧ 世\u3000界 │"),)) == "⟦ESC⟧ 世\u3000界 │"

    @given(st.text())
    def test_no_text_acts_on_the_terminal(self, text: str) -> None:
        written = Palette(has_styles=False).ansi((Span(text, "added"),))
        assert written.replace("\u3000", "").isprintable()
        written.encode()


@pytest.mark.parametrize(
    ("kind", "environment", "written", "is_live"),
    [
        ("terminal", {}, COLOURED, True),
        ("terminal", {"NO_COLOR": "1"}, "\x1b[1ma\x1b[0mb", True),
        ("terminal", {"FORCE_COLOR": ""}, "ab", True),
        ("terminal", {"TERM": "dumb"}, "ab", False),
        ("terminal", {"TTY_INTERACTIVE": "0"}, COLOURED, False),
        ("terminal", {"TTY_COMPATIBLE": "0"}, "ab", False),
        ("pipe", {}, "ab", False),
        ("pipe", {"FORCE_COLOR": "1"}, COLOURED, False),
        ("pipe", {"TTY_INTERACTIVE": "1"}, "ab", False),
        ("pipe", {"TTY_COMPATIBLE": "1"}, COLOURED, True),
        ("pipe", {"TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "0"}, COLOURED, False),
    ],
)
def test_output_and_environment_select_colours_and_what_is_repainted(
    kind: str,
    environment: dict[str, str],
    written: str,
    *,
    is_live: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in (XTERM | environment).items():
        monkeypatch.setenv(name, value)
    with output(kind) as file, open_terminal(output=file) as terminal:
        assert isinstance(terminal, LiveTerminal) is is_live
        assert Palette.of(file, XTERM | environment).ansi((BAD, ADDED)) == written
    assert Palette.of(file, XTERM).ansi((BAD,)) == "a"  # closed
    with output(kind, "latin-1") as file, open_terminal(output=file) as terminal:
        assert not isinstance(terminal, LiveTerminal)  # it cannot show every character
