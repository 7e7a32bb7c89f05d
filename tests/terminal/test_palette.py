"""Roles become colours where there are any; nothing that acts on a terminal gets through."""

import io
import os
import pty
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.terminal import LiveTerminal, Palette, Span, open_terminal

XTERM = {"TERM": "xterm-256color"}
NO_TTY = {"TTY_COMPATIBLE": "0", **XTERM}
BAD, ADDED = Span("a", "bad"), Span("b", "added")


@contextmanager
def output(kind: str, encoding: str = "utf-8") -> Iterator[TextIO]:
    """Yield a terminal, or a pipe."""
    ours, theirs = pty.openpty() if kind == "terminal" else os.pipe()
    with open(theirs, "w", encoding=encoding) as file:  # noqa: PTH123 - it is no path
        yield file
    os.close(ours)


@pytest.mark.parametrize(
    ("palette", "written"),
    [
        (Palette(), "\x1b[1;31ma\x1b[0m\x1b[32mb\x1b[0m"),
        (Palette(has_colours=False), "\x1b[1ma\x1b[0mb"),
        (Palette(has_styles=False), "ab"),
    ],
)
def test_roles_have_colours_or_attributes_or_nothing(palette: Palette, written: str) -> None:
    assert palette.ansi((BAD, ADDED)) == written


def test_no_role_needs_more_than_sixteen_colours() -> None:
    for role in get_args(get_type_hints(Span)["role"]):
        written = Palette().ansi((Span("x", role),))
        codes = re.findall(r"\d+", written.partition("x")[0])
        assert all(int(code) <= 37 for code in codes), role


def test_what_acts_is_escaped_and_what_is_visible_already_stays() -> None:
    plain = Palette(has_styles=False)
    assert plain.ansi((Span("\x1b[2J\n\t\x9b\u202e\ufe0f"),)) == "⟦ESC⟧[2J⟦LF⟧⟦TAB⟧⟦CSI⟧⟦RLO⟧⟦VS16⟧"
    assert plain.ansi((Span("⟦ESC⟧ 世\u3000界 │"),)) == "⟦ESC⟧ 世\u3000界 │"


@given(st.text())
def test_no_text_acts_on_the_terminal(text: str) -> None:
    written = Palette(has_styles=False).ansi((Span(text, "added"),))
    assert written.replace("\u3000", "").isprintable()
    written.encode()


@pytest.mark.parametrize(
    ("kind", "environment", "written"),
    [
        ("terminal", XTERM, "\x1b[1;31ma\x1b[0m\x1b[32mb\x1b[0m"),
        ("terminal", {"NO_COLOR": "1", **XTERM}, "\x1b[1ma\x1b[0mb"),
        ("terminal", {"TERM": "dumb"}, "ab"),
        ("terminal", NO_TTY, "ab"),
        ("pipe", XTERM, "ab"),
        ("pipe", {"FORCE_COLOR": "1", **XTERM}, "\x1b[1;31ma\x1b[0m\x1b[32mb\x1b[0m"),
    ],
)
def test_output_and_environment_decide_about_colours(
    kind: str, environment: dict[str, str], written: str
) -> None:
    with output(kind) as file:
        assert Palette.of(file, environment).ansi((BAD, ADDED)) == written


def test_a_closed_stream_has_no_colours() -> None:
    closed = io.StringIO()
    closed.close()
    assert Palette.of(closed, XTERM).ansi((BAD,)) == "a"


@pytest.mark.parametrize(
    ("kind", "environment", "is_live"),
    [
        ("terminal", {}, True),
        ("terminal", {"NO_COLOR": "1"}, True),
        ("terminal", {"FORCE_COLOR": ""}, True),
        ("terminal", {"TERM": "dumb"}, False),
        ("terminal", {"TTY_INTERACTIVE": "0"}, False),
        ("terminal", {"TTY_COMPATIBLE": "0"}, False),
        ("pipe", {}, False),
        ("pipe", {"FORCE_COLOR": "1"}, False),
        ("pipe", {"TTY_INTERACTIVE": "1"}, False),
        ("pipe", {"TTY_COMPATIBLE": "1"}, True),
        ("pipe", {"TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "0"}, False),
    ],
)
def test_only_a_terminal_that_can_be_repainted_is_live(
    kind: str, environment: dict[str, str], *, is_live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_INTERACTIVE", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (XTERM | environment).items():
        monkeypatch.setenv(name, value)
    with output(kind) as file, open_terminal(output=file) as terminal:
        assert isinstance(terminal, LiveTerminal) is is_live


def test_a_terminal_that_cannot_show_every_character_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with output("terminal", "latin-1") as file, open_terminal(output=file) as terminal:
        assert not isinstance(terminal, LiveTerminal)
