"""The screens that a user sees, kept as text in scenes/*.txt.

To accept changes, look at them, and run these tests with ARGSTREAM_ACCEPT_SCENES=1. Each event
comes a tenth of a second after the one before, and those about running tools after half a second.
"""

import os
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

import pytest

from argstream.events import ToolCallCompleted, ToolCallFailed, ToolOutputDelta
from argstream.terminal import RunView, row_of
from tests.terminal.looks.following import committed_rows, text_of
from tests.terminal.scenes.scripts import SCRIPTS, Script

FOLDER = Path(__file__).parent / "scenes"
SLOW = ToolOutputDelta | ToolCallCompleted | ToolCallFailed


def play(script: Script) -> Iterator[str]:
    """Yield the screen at each moment of a script, and all that was committed at the end."""
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


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_scene_is_unchanged(script: Script) -> None:
    file = FOLDER / f"{script.name}.txt"
    seen = "\n".join([*play(script), ""])
    if os.environ.get("ARGSTREAM_ACCEPT_SCENES"):
        file.write_text(seen, "utf-8")
    kept = file.read_text("utf-8") if file.exists() else ""
    if seen != kept:
        lines = unified_diff(kept.splitlines(), seen.splitlines(), "kept", "now", lineterm="")
        accept = "If it is better now, run this test with ARGSTREAM_ACCEPT_SCENES=1."
        pytest.fail("\n".join([f"{file.name} has changed:", *lines, accept]), pytrace=False)


def test_every_scene_file_has_a_script() -> None:
    assert {file.stem for file in FOLDER.glob("*.txt")} == {script.name for script in SCRIPTS}
