"""Plays events to a scene and writes down what is on the screen.

The clock is ours: each event comes a tenth of a second after the one before, those about tools that
run after half a second.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from argstream.events import (
    Event,
    ToolCallCompleted,
    ToolCallFailed,
    ToolOutputDelta,
)
from argstream.terminal import Line, Scene, row_of, rows_of
from argstream.terminal.tool_views import Looks
from tests.terminal.looks.following import text_of

_STEP = 0.1
_TOOL_STEP = 0.5


@dataclass(frozen=True)
class Script:
    """A scene, and when to look at it."""

    name: str
    title: str
    events: Callable[[], Iterable[Event]]
    moments: tuple[float, ...] = (0.5,)
    """Which parts of the events have come when somebody looks, before the end."""
    columns: int = 80
    rows: int = 24
    looks: Callable[[], Looks] = field(default=Looks)


def play(script: Script) -> str:
    """Give what there is to see at each moment, and all that was committed at the end."""
    return "\n".join([f"{script.title}. {script.columns} × {script.rows}", *_moments(script), ""])


def committed_rows(lines: Iterable[Line], columns: int) -> Iterator[str]:
    """Give lines as they stand in the scrollback."""
    return (text_of(row).rstrip() for line in lines for row in rows_of(line, columns - 1))


def _moments(script: Script) -> Iterator[str]:
    events = list(script.events())
    looked_at = {int(len(events) * moment) for moment in script.moments}
    scene = Scene(script.looks())
    scrollback: list[str] = []
    now = 0.0
    for number, event in enumerate(events, 1):
        is_slow = isinstance(event, ToolOutputDelta | ToolCallCompleted | ToolCallFailed)
        now += _TOOL_STEP if is_slow else _STEP
        scene.take(event, now)
        scrollback += committed_rows(scene.committed(), script.columns)
        if number in looked_at:
            yield f"\n━━━ the screen after {now:.1f} s ━━━"
            yield from _screen(scene, scrollback, script, now)
    scene.finish(now)
    yield "\n━━━ all of it, at the end ━━━"
    yield from scrollback
    yield from committed_rows(scene.committed(), script.columns)


def _screen(scene: Scene, scrollback: list[str], script: Script, now: float) -> Iterator[str]:
    tail = scene.tail(now, script.columns - 1, max(min(12, script.rows // 3), 1))
    yield from scrollback[-(script.rows - len(tail)) :]
    yield "┄┄┄ the tail"
    yield from (text_of(row_of(line, script.columns - 1)).rstrip() for line in tail)
