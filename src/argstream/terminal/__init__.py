"""A run in a terminal, live: see ``open_terminal`` and ``show``.

In a terminal, final lines go into the scrollback, and a short tail below them is repainted.
Anywhere else, plain lines are written. It needs the extra ``terminal``.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from argstream._lazy import lazy_exports
from argstream.errors import MissingExtraError

if TYPE_CHECKING:
    from argstream.terminal._approval import TerminalApprover
    from argstream.terminal._layout import row_of, rows_of
    from argstream.terminal._live import LiveTerminal, PlainTerminal, Terminal, open_terminal, show
    from argstream.terminal._parts import (
        ArgumentEvent,
        ArgumentsView,
        Command,
        CustomView,
        Diff,
        File,
        Look,
        Plain,
        Table,
    )
    from argstream.terminal._run_view import RunView
    from argstream.terminal._screen import Palette, Screen
    from argstream.terminal._text import Line, Span, Spans, line, shown
    from argstream.terminal.tool_views import ToolViews, file_reader

__all__ = [
    "ArgumentEvent",
    "ArgumentsView",
    "Command",
    "CustomView",
    "Diff",
    "File",
    "Line",
    "LiveTerminal",
    "Look",
    "Palette",
    "Plain",
    "PlainTerminal",
    "RunView",
    "Screen",
    "Span",
    "Spans",
    "Table",
    "Terminal",
    "TerminalApprover",
    "ToolViews",
    "file_reader",
    "line",
    "open_terminal",
    "row_of",
    "rows_of",
    "show",
    "shown",
]

_HOMES = {
    "_approval": "TerminalApprover",
    "_layout": "row_of rows_of",
    "_live": "LiveTerminal PlainTerminal Terminal open_terminal printing show",
    "_parts": "ArgumentEvent ArgumentsView Command CustomView Diff File Look Plain Table",
    "_run_view": "RunView",
    "_screen": "Palette Screen",
    "_text": "Line Span Spans line shown",
    "tool_views": "ToolViews file_reader",
}

if not all(find_spec(name) for name in ("markdown_it", "pygments", "rich", "wcwidth")):
    raise MissingExtraError("terminal", "argstream.terminal")

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOMES)
