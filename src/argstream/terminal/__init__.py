"""What a person sees in a terminal: an agent that writes, live.

::

    with open_terminal() as terminal:
        async for event in agent.run_stream("Make the tests pass"):
            terminal.show(event)

In a terminal, what is final goes into the scrollback, and a short tail below it moves; anywhere
else, it is plain lines. It needs the extra ``terminal``, and loads what is asked for.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from argstream.errors import MissingExtra

if TYPE_CHECKING:
    from argstream.terminal.approving import TerminalApprover
    from argstream.terminal.live import LiveTerminal
    from argstream.terminal.looks import (
        ArgumentEvent,
        ArgumentsView,
        Command,
        Diff,
        File,
        Look,
        Looks,
        OwnLook,
        Plain,
        Table,
    )
    from argstream.terminal.looks.files import file_reader
    from argstream.terminal.opening import PlainTerminal, Terminal, open_terminal
    from argstream.terminal.scene import Scene
    from argstream.terminal.spans import Line, Span, Spans, line, shown

__all__ = [
    "ArgumentEvent",
    "ArgumentsView",
    "Command",
    "Diff",
    "File",
    "Line",
    "LiveTerminal",
    "Look",
    "Looks",
    "OwnLook",
    "Plain",
    "PlainTerminal",
    "Scene",
    "Span",
    "Spans",
    "Table",
    "Terminal",
    "TerminalApprover",
    "file_reader",
    "line",
    "open_terminal",
    "shown",
]

_HOMES = {
    "approving": ("TerminalApprover",),
    "live": ("LiveTerminal",),
    "looks": (
        "ArgumentEvent",
        "ArgumentsView",
        "Command",
        "Diff",
        "File",
        "Look",
        "Looks",
        "OwnLook",
        "Plain",
        "Table",
    ),
    "looks.files": ("file_reader",),
    "opening": ("PlainTerminal", "Terminal", "open_terminal"),
    "scene": ("Scene",),
    "spans": ("Line", "Span", "Spans", "line", "shown"),
}

if not all(find_spec(name) for name in ("pygments", "rich", "wcwidth")):
    raise MissingExtra("terminal", "what is shown in a terminal")

if not TYPE_CHECKING:  # a visible __getattr__ would make every misspelt name valid

    def __getattr__(name: str) -> object:
        for home, names in _HOMES.items():
            if name in names:
                value = getattr(import_module(f"{__name__}.{home}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
