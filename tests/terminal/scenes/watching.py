"""A scene to which a test sends events, and the rows that it shows."""

import json
from collections.abc import Iterable
from typing import Any

from argstream import events as e
from argstream.terminal import Plain, RunView, ToolViews, row_of
from tests.terminal.looks.following import committed_rows, text_of

COLUMNS = 60
_PLAIN = dict.fromkeys(("wri", "write", "read"), Plain())
_STILL = str.maketrans(dict.fromkeys("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "*"))


class Watcher:
    """Takes events a second apart, and keeps the committed rows.

    A call whose start is not among the events is written, without arguments, before the first one.
    """

    def __init__(self, looks: ToolViews | None = None, *, has_tail: bool = True) -> None:
        self.scene = RunView(looks or ToolViews(_PLAIN), has_tail=has_tail)
        self.now = 0.0
        self.step = 1.0
        self.seen: list[str] = []
        self._known: set[str] = set()

    def take(self, *events: e.Event | e.RunSnapshot) -> list[str]:
        before = len(self.seen)
        for event in events:
            self.now += self.step
            self._begin(event)
            self.scene.take(event, self.now)
            self._see()
        return self.seen[before:]

    def _begin(self, event: e.Event | e.RunSnapshot) -> None:
        if isinstance(event, e.RunSnapshot):
            calls = (block for block in event.blocks if isinstance(block, e.CallSnapshot))
            self._known |= {call.call_id for call in calls}
        elif (call_id := getattr(event, "call_id", None)) and call_id not in self._known:
            self._known.add(call_id)
            name: str = event.name  # type: ignore[union-attr]
            first = call({}, call_id, name)
            if isinstance(event, e.ToolArgsDelta | e.ToolArgsInvalid | e.ToolArgsCompleted):
                first = first[:1]
            for one in first if not isinstance(event, e.ToolCallStarted) else ():
                self.scene.take(one, self.now)

    def finish(self) -> list[str]:
        before = len(self.seen)
        self.scene.finish(self.now)
        self._see()
        return self.seen[before:]

    def tail(self, rows: int = 8, *, later: float = 0, columns: int = COLUMNS) -> list[str]:
        """Return the tail, with "*" for the moving mark."""
        lines = self.scene.tail(self.now + later, columns, rows)
        assert len(lines) <= rows
        return ["".join(text_of(row_of(line, columns))).translate(_STILL) for line in lines]

    def _see(self) -> None:
        self.seen += committed_rows(self.scene.committed(), COLUMNS)


def started(call_id: str = "c1", name: str = "write") -> e.Event:
    return e.ToolCallStarted(call_id, 0, name)


def wrote(text: str, call_id: str = "c1", name: str = "write") -> e.Event:
    return e.ToolArgsDelta(call_id, name, text)


def call(arguments: dict[str, Any], call_id: str = "c1", name: str = "write") -> list[e.Event]:
    text = wrote(json.dumps(arguments), call_id, name)
    return [started(call_id, name), text, e.ToolArgsCompleted(call_id, name, arguments)]


def runs(call_id: str = "c1", name: str = "write", attempt: int = 1) -> e.Event:
    return e.ToolExecutionStarted(call_id, name, "key", attempt)


def printed(text: str, call_id: str = "c1", name: str = "write") -> e.Event:
    return e.ToolOutputDelta(call_id, name, text)


def returned(result: Any, call_id: str = "c1", name: str = "write") -> e.Event:
    return e.ToolCallCompleted(call_id, name, {}, result)


def watch(events: Iterable[e.Event | e.RunSnapshot]) -> list[str]:
    watcher = Watcher()
    watcher.take(*events)
    watcher.finish()
    return watcher.seen
