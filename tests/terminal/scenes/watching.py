"""Somebody who watches a scene: for tests of what is seen."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    Event,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolCallCompleted,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolOutputDelta,
)
from argstream.runs import with_arguments
from argstream.terminal import (
    Line,
    Scene,
    Span,
    Spans,
    row_of,
    shown,
)
from argstream.terminal.tool_views import ArgumentEvent, ArgumentsView, Looks
from tests.terminal.looks.following import text_of
from tests.terminal.scenes.playing import committed_rows

COLUMNS = 60


class OneLook(Looks):
    """The least that a look can be: a line for each argument, no title."""

    def view(self, *_: object, **__: object) -> ArgumentsView:
        return _View()

    def whole(
        self,
        name: str,
        arguments: Mapping[str, Any] | str,
        **_: object,
    ) -> list[Line]:
        return (
            [] if isinstance(arguments, str) else [_argument(*item) for item in arguments.items()]
        )


class _View:
    title: Spans = ()
    is_title_open = False

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._open: dict[str, str] = {}

    def take(self, event: ArgumentEvent) -> None:
        match event:
            case ArgumentDelta(path=(name,), text=text):
                self._open[str(name)] = self._open.get(str(name), "") + text
            case ArgumentCompleted(path=(name,), value=value):
                self._open.pop(str(name), None)
                self._lines.append(_argument(str(name), value))
            case _:
                pass

    def settled(self) -> list[Line]:
        lines, self._lines = self._lines, []
        return lines

    def growing(self, rows: int) -> list[Line]:
        return [_argument(*item) for item in self._open.items()][:rows]

    def finish(self) -> list[Line]:
        return self.growing(9)


def _argument(name: str, value: object) -> Line:
    return Line((shown(f"{name} = {json.dumps(value)}"),), (Span("  "),))


class Watcher:
    """Takes events, a second apart unless told otherwise, and remembers what was committed."""

    def __init__(self, looks: Looks | None = None, *, has_tail: bool = True) -> None:
        self.scene = Scene(looks or OneLook(), has_tail=has_tail)
        self.now = 0.0
        self.step = 1.0
        self.seen: list[str] = []
        self._events: list[Event] = []
        self._told = 0  # with those of the arguments

    def take(self, *events: Event) -> list[str]:
        """Take events without those of their arguments, and give what became final by them."""
        before = len(self.seen)
        for event in events:
            self.now += self.step
            self._events.append(event)
            for told in list(with_arguments(self._events))[self._told :]:
                self._told += 1
                self.scene.take(told, self.now)
            self._see()
        return self.seen[before:]

    def finish(self) -> list[str]:
        """Give what becomes final when nothing more comes."""
        before = len(self.seen)
        self.scene.finish(self.now)
        self._see()
        return self.seen[before:]

    def tail(self, rows: int = 8, *, later: float = 0, columns: int = COLUMNS) -> list[str]:
        """Give the tail without the frame of what moves."""
        lines = self.scene.tail(self.now + later, columns, rows)
        assert len(lines) <= rows
        return ["".join(text_of(row_of(line, columns))).translate(_STILL) for line in lines]

    def _see(self) -> None:
        self.seen += committed_rows(self.scene.committed(), COLUMNS)


_STILL = str.maketrans(dict.fromkeys("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "*"))


def started(call_id: str = "c1", name: str = "write") -> Event:
    return ToolCallStarted(call_id, 0, name)


def wrote(text: str, call_id: str = "c1", name: str = "write") -> Event:
    return ToolArgsDelta(call_id, name, text)


def call(arguments: dict[str, Any], call_id: str = "c1", name: str = "write") -> list[Event]:
    """A call from its beginning to its last character."""
    return [
        started(call_id, name),
        wrote(json.dumps(arguments), call_id, name),
        ToolArgsCompleted(call_id, name, arguments),
    ]


def runs(call_id: str = "c1", name: str = "write", attempt: int = 1) -> Event:
    return ToolExecutionStarted(call_id, name, "key", attempt)


def said(text: str, call_id: str = "c1", name: str = "write") -> Event:
    return ToolOutputDelta(call_id, name, text)


def returned(result: Any, call_id: str = "c1", name: str = "write") -> Event:
    return ToolCallCompleted(call_id, name, {}, result)


def watch(events: Iterable[Event]) -> list[str]:
    """Give all that is committed of some events."""
    watcher = Watcher()
    watcher.take(*events)
    watcher.finish()
    return watcher.seen
