"""How the arguments of a call look while they are written: a file, a diff, a command, a table."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from argstream.errors import UsageError
from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentStarted,
    ToolArgsDelta,
    ToolCallStarted,
)
from argstream.history import CallKind
from argstream.jsonstream import JsonPath
from argstream.jsonstream._fragments import kind_of
from argstream.providers._deltas import FREE_TEXT_KINDS
from argstream.terminal._arguments import CallView, Declared, FreeTextView, GuardedView, Guessed
from argstream.terminal._parts import (
    ArgumentEvent,
    ArgumentsView,
    Command,
    CustomView,
    Declaration,
    Diff,
    File,
    Files,
    Look,
    PendingCalls,
    Plain,
    ReadFile,
    Table,
    note,
    said,
)
from argstream.terminal._text import Line
from argstream.validation import ToolSpec

__all__ = [
    "MAX_BYTES",
    "ArgumentEvent",
    "ArgumentsView",
    "Command",
    "CustomView",
    "Diff",
    "File",
    "Look",
    "Plain",
    "Table",
    "ToolViews",
    "file_reader",
]


class ToolViews:
    """How the arguments of each tool look."""

    def __init__(
        self,
        looks: Mapping[str, Look] | None = None,
        *,
        tools: Iterable[ToolSpec] = (),
        read_file: ReadFile | None = None,
    ) -> None:
        """Register looks by the names of tools.

        The schemas of ``tools`` help to guess the looks of the others. With ``read_file``, such as
        ``file_reader`` makes, edits are shown in their place.
        """
        self._looks = dict(looks or {})
        self._tools = {tool.name: tool for tool in tools}
        self._read_file = read_file
        self._pending = PendingCalls()
        for name, look in self._looks.items():
            if isinstance(look, type) or not isinstance(look, Declaration | CustomView):
                raise UsageError(
                    f"the look of {name!r} must be File(…), Diff(…), Command(…), Table(…), Plain() "
                    f"or something with a view(call) method, not {look!r}"
                )

    def view(self, call: ToolCallStarted, *, is_past: bool = False) -> ArgumentsView:
        """Make the view of one call.

        Edits are shown as they apply after those of the calls before it in its turn. Of a call that
        is past, the files of that time are unknown: they are not read.
        """
        files = self._pending.begin(call, None if is_past else self._read_file)
        look = self._looks.get(call.name)
        if isinstance(look, CustomView):
            plain = self._view(call, Plain(), files, has_title=False)
            return GuardedView(partial(look.view, call), plain)
        return self._view(call, look, files, has_title=True)

    def whole(
        self, name: str, arguments: Mapping[str, Any] | str, *, call_id: str | None = None
    ) -> list[Line]:
        """Show complete arguments at once, title included: nothing is left out, ever.

        A look of your own may leave something out, so everything is shown plainly after it. With
        the ID of a call of which a view was made, it comes after the calls before that one.
        """
        kind: CallKind = "custom" if isinstance(arguments, str) else "function"
        call = ToolCallStarted(call_id or "", 0, name, kind)
        files = self._pending.again(call_id, self._read_file)
        events = list(_events(name, arguments))
        look = self._looks.get(name)
        if not isinstance(look, CustomView):
            return _all_lines(self._view(call, look, files, has_title=False), events)
        plain = self._view(call, Plain(), files, has_title=False)
        view = GuardedView(partial(look.view, call), plain)
        lines = _all_lines(view, events)
        if view.title:
            lines.insert(0, said(*view.title))
        plain = self._view(call, Plain(), files, has_title=False)
        return [*lines, note("all arguments:"), *_all_lines(plain, events)]

    def settle(self, call_id: str) -> None:
        """Note that a call has ended, in whichever way: the files show what it did."""
        self._pending.settle(call_id)

    def _view(
        self,
        call: ToolCallStarted,
        look: Declaration | None,
        files: Files,
        *,
        has_title: bool,
    ) -> ArgumentsView:
        if call.kind in FREE_TEXT_KINDS:
            return FreeTextView(call.kind, look)
        known = Guessed(call.name, self._tools.get(call.name)) if look is None else Declared(look)
        return CallView(known, files, has_title=has_title)


def _all_lines(view: ArgumentsView, events: Iterable[ArgumentEvent]) -> list[Line]:
    for event in events:
        view.take(event)
    return view.settled() + view.finish()


def _events(name: str, arguments: Mapping[str, Any] | str) -> Iterator[ArgumentEvent]:
    """Yield complete arguments as events."""
    if isinstance(arguments, str):
        yield ToolArgsDelta("", name, arguments)
    else:
        for key, value in arguments.items():
            yield from _events_of(name, (_key(key),), value)


def _events_of(name: str, path: JsonPath, value: Any) -> Iterator[ArgumentEvent]:
    kind = kind_of(value)
    if kind is not None:
        yield ArgumentStarted("", name, path, kind)
    if isinstance(value, str) and value:
        yield ArgumentDelta("", name, path, value)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _events_of(name, (*path, _key(key)), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _events_of(name, (*path, index), item)
    yield ArgumentCompleted("", name, path, value)


def _key(key: Any) -> str:
    """Return the name of a value; JSON has only texts, but code may have others."""
    return key if isinstance(key, str) else repr(key)


MAX_BYTES: Final = 2_000_000


def file_reader(root: Path) -> Callable[[str], str | None]:
    """Make a function that reads text files by the paths that a model writes.

    A relative path is meant from ``root`` on. None is given for all that is no regular file, larger
    than ``MAX_BYTES``, no UTF-8, or cannot be read. It never waits, as for a pipe that no process
    writes to. What it reads is shown to the person at the terminal, and goes nowhere else.
    """

    def read(path: str) -> str | None:
        try:
            # Opened first and looked at then: what a name stands for can change in between.
            file = os.open(root / path, os.O_RDONLY | _FLAGS)
        except (OSError, ValueError):  # ValueError: a path with a NUL
            return None
        try:
            return _text(file)
        except (OSError, UnicodeDecodeError):
            return None
        finally:
            os.close(file)

    return read


# Windows has neither.
_FLAGS: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


def _text(file: int) -> str | None:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        return None
    pieces = []
    room = MAX_BYTES + 1
    while room > 0 and (piece := os.read(file, room)):
        pieces.append(piece)
        room -= len(piece)
    return b"".join(pieces).decode() if room > 0 else None
