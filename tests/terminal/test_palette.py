"""Roles become colours where there are any; nothing that acts on a terminal gets through."""

import io
import os
import pty
from collections.abc import Iterator
from typing import TextIO, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.terminal.palette import STYLES, Palette, is_live
from argstream.terminal.spans import Role, Span

_XTERM = {"TERM": "xterm-256color"}


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8") as output:  # noqa: PTH123 - it is no path
        yield output
    os.close(ours)


@pytest.fixture
def pipe() -> Iterator[TextIO]:
    ours, theirs = os.pipe()
    with open(theirs, "w", encoding="utf-8") as output:  # noqa: PTH123 - as above
        yield output
    os.close(ours)


class TestAnsi:
    def test_a_role_has_its_colour(self) -> None:
        palette = Palette()
        assert palette.ansi((Span("a"), Span("b", "added"))) == "a\x1b[32mb\x1b[0m"

    def test_without_colours_there_are_attributes(self) -> None:
        palette = Palette(has_colours=False)
        spans = (Span("a", "bad"), Span("b", "added"), Span("c", "faint"))
        assert palette.ansi(spans) == "\x1b[1ma\x1b[0mb\x1b[2mc\x1b[0m"

    def test_without_a_colour_system_there_is_only_text(self) -> None:
        assert Palette(has_styles=False).ansi((Span("a", "bad"), Span("b", "added"))) == "ab"

    def test_every_role_has_a_look_and_none_needs_more_than_sixteen_colours(self) -> None:
        assert set(STYLES) == set(get_args(Role))
        colours = {style.color for style in STYLES.values()} - {None}
        assert all(colour.type.name == "STANDARD" for colour in colours if colour is not None)

    def test_what_somebody_forgot_to_make_visible_is_spelled_out(self) -> None:
        assert Palette(has_styles=False).ansi((Span("\x1b[2J\n\t\x9b\u202e\ufe0f"),)) == (
            "⟦ESC⟧[2J⟦LF⟧⟦TAB⟧⟦CSI⟧⟦RLO⟧⟦VS16⟧"
        )

    def test_what_is_visible_already_is_not_spelled_again(self) -> None:
        assert Palette(has_styles=False).ansi((Span("⟦ESC⟧ 世\u3000界 │"),)) == "⟦ESC⟧ 世\u3000界 │"

    @given(st.text())
    def test_no_text_acts_on_the_terminal(self, text: str) -> None:
        written = Palette(has_styles=False).ansi((Span(text, "added"),))
        assert written.replace("\u3000", "").isprintable()
        written.encode()


def is_styled(output: TextIO, environment: dict[str, str]) -> bool:
    return "\x1b" in Palette.of(output, environment).ansi((Span("a", "bad"),))


class TestColours:
    @pytest.mark.parametrize(
        ("environment", "has_styles"),
        [
            (_XTERM, True),
            ({"TERM": "xterm", "COLORTERM": "truecolor"}, True),
            ({"TERM": "dumb"}, False),
            ({"TTY_COMPATIBLE": "0", **_XTERM}, False),
        ],
    )
    def test_a_terminal_says_what_it_can(
        self, terminal: TextIO, environment: dict[str, str], *, has_styles: bool
    ) -> None:
        assert is_styled(terminal, environment) is has_styles

    @pytest.mark.parametrize(
        ("environment", "has_colours"),
        [(_XTERM, False), ({"FORCE_COLOR": "1", **_XTERM}, True)],
    )
    def test_a_pipe_has_colours_if_somebody_insists(
        self, pipe: TextIO, environment: dict[str, str], *, has_colours: bool
    ) -> None:
        assert is_styled(pipe, environment) is has_colours

    def test_no_color_takes_colours_and_leaves_attributes(self, terminal: TextIO) -> None:
        palette = Palette.of(terminal, {"NO_COLOR": "1", **_XTERM})
        assert palette.ansi((Span("a", "bad"), Span("b", "added"))) == "\x1b[1ma\x1b[0mb"
        assert "\x1b[32m" in Palette.of(terminal, _XTERM).ansi((Span("b", "added"),))

    def test_a_stream_that_is_closed_has_none(self) -> None:
        output = io.StringIO()
        output.close()
        assert not is_styled(output, _XTERM)


class TestLive:
    @pytest.mark.parametrize(
        ("environment", "live"),
        [
            (_XTERM, True),
            ({"NO_COLOR": "1", **_XTERM}, True),
            ({"TERM": "dumb"}, False),
            ({"TTY_INTERACTIVE": "0", **_XTERM}, False),
            ({"TTY_COMPATIBLE": "0", **_XTERM}, False),
            ({"FORCE_COLOR": "", **_XTERM}, True),
        ],
    )
    def test_a_terminal_is_live_unless_something_speaks_against_it(
        self, terminal: TextIO, environment: dict[str, str], *, live: bool
    ) -> None:
        assert is_live(terminal, environment) is live

    @pytest.mark.parametrize(
        ("environment", "live"),
        [
            (_XTERM, False),
            ({"FORCE_COLOR": "1", **_XTERM}, False),
            ({"TTY_INTERACTIVE": "1", **_XTERM}, False),
            ({"TTY_COMPATIBLE": "1", **_XTERM}, True),
            ({"TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "0", **_XTERM}, False),
        ],
    )
    def test_a_pipe_is_not_unless_it_is_said_to_understand(
        self, pipe: TextIO, environment: dict[str, str], *, live: bool
    ) -> None:
        assert is_live(pipe, environment) is live

    def test_a_terminal_that_cannot_show_every_character_gets_plain_lines(self) -> None:
        ours, theirs = pty.openpty()
        with open(theirs, "w", encoding="latin-1") as output:  # noqa: PTH123 - it is no path
            assert not is_live(output, _XTERM)
        os.close(ours)
