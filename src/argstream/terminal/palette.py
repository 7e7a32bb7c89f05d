"""How a role looks: sixteen colours and attributes, so that light and dark terminals both work.

The sixteen are the ones that a person has chosen for the own terminal. Nothing is told by colour
alone: a removed line has its ``-``, a refused call its ``✗``. What Rich knows of the environment
counts: NO_COLOR (which takes the colours and leaves bold and dim), FORCE_COLOR, TTY_COMPATIBLE,
TTY_INTERACTIVE, TERM, COLORTERM.
"""

import codecs
import os
from collections.abc import Mapping
from typing import Final, TextIO

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from argstream.terminal._harmless import harmless
from argstream.terminal._writing import is_in_background
from argstream.terminal.spans import Role, Spans

__all__ = ["STYLES", "Palette", "is_live"]

_LOOKS: Final[Mapping[Role, str]] = {
    "plain": "",
    "faint": "dim",
    "strong": "bold",
    "tool": "bold",
    "title": "cyan",
    "argument": "cyan",
    "good": "green",
    "bad": "bold red",
    "warning": "yellow",
    "thought": "dim italic",
    "prompt": "bold",
    "key": "reverse",
    "added": "green",
    "removed": "red",
    "place": "cyan",
    "keyword": "magenta",
    "string": "green",
    "number": "cyan",
    "comment": "dim italic",
    "name": "bold",
    "builtin": "cyan",
    "operator": "",
    "heading": "bold underline",
    "code": "cyan",
}

STYLES: Final[Mapping[Role, Style]] = {role: Style.parse(look) for role, look in _LOOKS.items()}
"""How each role looks."""

_RESET: Final = "\x1b[0m"


class Palette:
    """Turns spans into text with escape sequences: ours, and no others."""

    def __init__(self, *, has_styles: bool = True, has_colours: bool = True) -> None:
        """Take what a terminal can do; without styles, no sequence is ever written."""
        styles = STYLES.items() if has_styles else ()
        self._beginnings = {
            role: _beginning(style if has_colours else style.without_color)
            for role, style in styles
        }

    @classmethod
    def of(cls, output: TextIO, environment: Mapping[str, str] = os.environ) -> "Palette":
        """Make the palette for what somebody writes to."""
        # None for a pipe, and for a dumb terminal. Which it is does not matter: all know sixteen.
        has_styles = _console(output, environment).color_system is not None
        return cls(has_styles=has_styles, has_colours=not environment.get("NO_COLOR"))

    def ansi(self, spans: Spans) -> str:
        """Give a row as it is written, with no colour left open at its end.

        This is the last defence: whatever in a text would act on a terminal is spelled out here,
        should somebody have forgotten it.
        """
        pieces = []
        for text, role in spans:
            beginning = self._beginnings.get(role, "")
            piece = harmless(text)
            pieces.append(f"{beginning}{piece}{_RESET}" if beginning and piece else piece)
        return "".join(pieces)


def is_live(output: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Tell whether something can be repainted there: in a real terminal, which is not dumb.

    FORCE_COLOR makes no terminal of a pipe. One that cannot show every character, or that belongs
    to another job now, is better served with plain lines.
    """
    colourless = {name: value for name, value in environment.items() if name != "FORCE_COLOR"}
    console = _console(output, colourless)
    return (
        console.is_terminal
        and console.is_interactive
        and not console.is_dumb_terminal
        and not console.legacy_windows
        and _is_utf8(output)
        and not is_in_background(output)
    )


def _console(output: TextIO, environment: Mapping[str, str]) -> Console:
    return Console(file=output, force_jupyter=False, _environ=environment)


def _is_utf8(output: TextIO) -> bool:
    # A stream that is no file of the system, such as a StringIO, takes any text.
    encoding = getattr(output, "encoding", None) or "utf-8"
    return codecs.lookup(encoding).name == "utf-8"


def _beginning(style: Style) -> str:
    """Give the sequence that switches a style on."""
    return style.render("\0", color_system=ColorSystem.STANDARD).partition("\0")[0]
