"""What stands below the scrollback and is painted anew each time: it shows what goes on now.

From above: what the owner of the scrollback is writing, one line for each of the others, and a last
line that says what is going on. Its price does not depend on how much was written, nor on how many
wait.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from argstream.terminal.scene._going_on import GoingOn
from argstream.terminal.scene._running import Running
from argstream.terminal.scene._stage import Active, Stage, indented
from argstream.terminal.scene._texts import text_span
from argstream.terminal.spans import Line, Span, line
from argstream.terminal.widths import cut, width
from argstream.terminal.words import duration

__all__ = ["tail_of"]

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND: Final = 10
_MARKS: Final = {"✓": Span("✓ ", "good"), "✗": Span("✗ ", "bad")}
_FEWEST: Final = 2
_SILENCE: Final = 4.0
"""Seconds without anything new after which that is said."""


def tail_of(stage: Stage, going_on: GoingOn, now: float, columns: int, rows: int) -> list[Line]:
    """Give at most so many lines, each of which is one row."""
    told = list(_told(stage, going_on, now))
    if not told or rows < 1:
        return []
    room = rows - 1
    owner = stage.owner
    count = stage.active - (owner is not None)
    growing = _growing(stage, columns, room - min(count, room // 2))
    others = (block for block in stage.actives() if block is not owner)
    collapsed = _collapsed(others, count, now, columns, room - len(growing))
    while len(told) > _FEWEST and width(" · ".join(told)) > columns - 2:
        del told[1]  # what is said first and last matters most
    status = line(Span(_frame(now) + " ", "good"), Span(" · ".join(told), "faint"))
    return [*growing, *collapsed, status]


def _growing(stage: Stage, columns: int, room: int) -> list[Line]:
    """Give what the owner of the scrollback is writing."""
    owner = stage.owner
    if owner is None:
        return []
    depth = stage.speakers.depth(owner.speaker)
    rows = owner.growing(max(columns - 2 * depth, 1), room)
    return [indented(row, depth) for row in rows] if depth else rows


def _collapsed(
    blocks: Iterator[Active], count: int, now: float, columns: int, room: int
) -> Iterator[Line]:
    """Give a line for each of these; two or more may be left out, and that is said."""
    kept = count if count <= room else max(room - 1, 0)
    for block in islice(blocks, kept):
        yield _one_line(block, now, columns)
    if count > kept and room > 0:
        yield line(Span(f"  … and {count - kept} more", "faint"))


def _one_line(block: Active, now: float, columns: int) -> Line:
    """Give what a block is and how far it has come; its title is cut first."""
    mark = _MARKS.get(block.waits_as, Span(_frame(now) + " ", "good"))
    told = Span("".join(f" · {counter}" for counter in block.counters(now)), "faint")
    label = cut(block.label, max(columns - width(mark.text + told.text), columns // 2))
    newest = block.newest(columns) if isinstance(block, Running) else ""
    said = (Span(" · ", "faint"), text_span(newest)) if newest else ()
    return Line((mark, *label, told, *said))


def _told(stage: Stage, going_on: GoingOn, now: float) -> Iterator[str]:
    """Say what is going on; nothing if nothing is."""
    waiting = going_on.waiting
    owner = stage.writing
    running = stage.running
    if waiting is not None and waiting.is_person:
        yield f"{waiting.what} · {duration(now - waiting.since)}"
    if owner is not None:
        yield owner.doing
        yield from owner.counters(now)
    if len(running) > 1:
        yield f"{len(running)} tools run"
    for oldest in islice(running.values(), 1):
        if len(running) == 1:
            yield oldest.doing
        if owner is None:
            yield from oldest.counters(now)
    if owner is not None or running:
        silence = now - going_on.heard
        if silence >= _SILENCE:
            yield f"nothing for {int(silence)} s"
    elif waiting is not None and not waiting.is_person:
        yield f"{waiting.what} · {duration(now - waiting.since)}"


def _frame(now: float) -> str:
    return _FRAMES[int(now * _FRAMES_A_SECOND) % len(_FRAMES)]
