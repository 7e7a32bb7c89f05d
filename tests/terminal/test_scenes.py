"""The screens that a user sees, kept as text in scenes/*.txt.

To accept changes, look at them, and run these tests with ARGSTREAM_ACCEPT_SCENES=1. Each event
comes a tenth of a second after the one before, and those about running tools after half a second.
"""

import asyncio
import os
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

import pytest

from argstream.events import ToolCallCompleted, ToolCallFailed, ToolOutputDelta
from argstream.terminal import Palette, RunView, Screen, row_of
from tests.terminal.emulator import Emulator
from tests.terminal.looks.following import committed_rows, text_of
from tests.terminal.scenes.scripts import SCRIPTS, Script
from tests.terminal.scenes.states import PENDING, STATES, pending_screen

FOLDER = Path(__file__).parent / "scenes"
SLOW = ToolOutputDelta | ToolCallCompleted | ToolCallFailed
SIZES = [(50, 15), (80, 24), (120, 40)]


def play(script: Script) -> Iterator[str]:
    columns, rows = script.columns, script.rows
    yield f"{script.title}. {columns} × {rows}"
    events = list(script.events())
    moments = {int(len(events) * moment) for moment in script.moments}
    scene = RunView(script.looks())
    scrollback: list[str] = []
    now = 0.0
    for number, event in enumerate(events, 1):
        now += 0.5 if isinstance(event, SLOW) else 0.1
        scene.take(event, now)
        scrollback += committed_rows(scene.committed(), columns)
        if number in moments:
            yield f"\n━━━ the screen after {now:.1f} s ━━━"
            tail = scene.tail(now, columns - 1, max(min(12, rows // 3), 1))
            yield from scrollback[-(rows - len(tail)) :]
            yield "┄┄┄ the tail"
            yield from (text_of(row_of(line, columns - 1)).rstrip() for line in tail)
    scene.finish(now)
    yield "\n━━━ all of it, at the end ━━━"
    yield from scrollback
    yield from committed_rows(scene.committed(), columns)


def screens(columns: int, rows: int) -> Iterator[str]:
    yield f"Each state of a call, as it is on a terminal of {columns} × {rows}"
    for state, events in STATES.items():
        emulator = Emulator(columns, rows)
        screen = Screen(emulator.output, size=emulator.size, palette=Palette())
        view, now = RunView(), 0.0
        for event in events():
            now += 0.5 if isinstance(event, SLOW) else 0.1
            view.take(event, now)
            screen.paint(view.committed(), view.tail(now, columns - 1, max(min(12, rows // 3), 1)))
        yield f"\n━━━ {state} ━━━"
        yield from emulator.all_lines()[-rows:]
    for state, calls in PENDING.items():
        yield f"\n━━━ {state} ━━━"
        yield from asyncio.run(pending_screen(calls, columns, rows))


def check(name: str, lines: Iterator[str]) -> None:
    file = FOLDER / f"{name}.txt"
    seen = "\n".join([*lines, ""])
    if os.environ.get("ARGSTREAM_ACCEPT_SCENES"):
        file.write_text(seen, "utf-8")
    kept = file.read_text("utf-8") if file.exists() else ""
    if seen != kept:
        lines = unified_diff(kept.splitlines(), seen.splitlines(), "kept", "now", lineterm="")
        accept = "If it is better now, run this test with ARGSTREAM_ACCEPT_SCENES=1."
        pytest.fail("\n".join([f"{file.name} has changed:", *lines, accept]), pytrace=False)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_scene_is_unchanged(script: Script) -> None:
    check(script.name, play(script))


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_screen_of_each_state_is_unchanged(columns: int, rows: int) -> None:
    check(f"states-{columns}x{rows}", screens(columns, rows))


def test_every_scene_file_has_a_script() -> None:
    states = {f"states-{columns}x{rows}" for columns, rows in SIZES}
    kept = {file.stem for file in FOLDER.glob("*.txt")}
    assert kept == {script.name for script in SCRIPTS} | states
