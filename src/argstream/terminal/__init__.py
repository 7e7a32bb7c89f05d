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
        ArgumentsView,
        Command,
        Diff,
        File,
        Look,
        Looks,
        Plain,
        Table,
    )
    from argstream.terminal.looks.files import file_reader
    from argstream.terminal.opening import PlainTerminal, Terminal, open_terminal
    from argstream.terminal.scene import Scene

__all__ = [
    "ArgumentsView",
    "Command",
    "Diff",
    "File",
    "LiveTerminal",
    "Look",
    "Looks",
    "Plain",
    "PlainTerminal",
    "Scene",
    "Table",
    "Terminal",
    "TerminalApprover",
    "file_reader",
    "open_terminal",
]

_HOMES = {
    "approving": ("TerminalApprover",),
    "live": ("LiveTerminal",),
    "looks": (
        "ArgumentsView",
        "Command",
        "Diff",
        "File",
        "Look",
        "Looks",
        "Plain",
        "Table",
    ),
    "looks.files": ("file_reader",),
    "opening": ("PlainTerminal", "Terminal", "open_terminal"),
    "scene": ("Scene",),
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
