"""What is shown in a terminal: a file that is written, edits, a text, and tools that talk.

Each comes as the events of a stream or of a run, in deltas of 25 characters.
"""

import random
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path

from argstream import (
    Event,
    TextDelta,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolOutputDelta,
    stream,
)
from big_streams import anthropic_bytes, anthropic_payloads, anthropic_text_payloads
from workloads import code, write

DELTA = 25
"""Characters."""
FILE, EDITS, TEXT, TOOLS = "a file", "edits", "a text", "two tools that talk at once"

_PATH = "src/app.py"
_SOURCE = Path(typing.__file__)
"""A long file of real Python that is wherever Python is."""
_LAST_LINE = "this_is_the_last_line"
_EDITED_LINES = 8


@dataclass(frozen=True)
class Showing:
    """Something to be shown, from its first event to its last."""

    opening: list[Event]
    """All before the first delta."""
    deltas: list[list[Event]]
    """The events that each of them makes."""
    last: str
    """What must have been seen at the end."""
    file: str = ""
    """What is in the file that is edited, if one is."""

    def read_file(self, path: str) -> str | None:
        """Give the file that is edited."""
        return self.file if path == _PATH and self.file else None


def showing(name: str, size: int) -> Showing:
    """Make what is shown, of about so many characters."""
    return _SHOWINGS[name](size)


def _file(size: int) -> Showing:
    """Write the end of a file, so that the last lines are the same whatever the size."""
    content = _source()[-size:]
    return _of_call("write_file", {"path": _PATH, "content": content}, _LAST_LINE)


def _edits(size: int) -> Showing:
    """Replace a line of every few, until that much is written."""
    source = _source()
    lines = source.splitlines(keepends=True)
    edits: list[dict[str, str]] = []
    changed = ""
    for start in range(0, len(lines), _EDITED_LINES):
        old = lines[start : start + _EDITED_LINES]
        changed = f"changed_in = {start}"
        edits.append({"old": "".join(old), "new": "".join([*old[:3], f"{changed}\n", *old[4:]])})
        size -= len(write(edits[-1]))
        if size <= 0:
            break
    return _of_call("edit_file", {"path": _PATH, "edits": edits}, changed, source)


def _text(size: int) -> Showing:
    """Write Markdown: headings, paragraphs, lists, blocks of code."""
    choose = random.Random(8)
    text = ""
    while len(text) < size:
        words = code(choose, 600).split()
        text += (
            f"## About {words[0]} and {words[1]}\n\n{' '.join(words[2:80])}, **{words[-1]}** and "
            f"`{words[-2]}`.\n\n- {' '.join(words[80:90])}\n- {' '.join(words[90:96])}\n\n"
            f"```python\n{code(choose, 300)}```\n\n"
        )
    events = _events(anthropic_text_payloads(_pieces(f"{text}{_LAST_LINE}\n")))
    return _cut(events, TextDelta, _LAST_LINE)


def _tools(size: int) -> Showing:
    """Let two tools run, who speak in turns."""
    steps = range(size // 80)
    outputs = {
        name: "".join(f"{name}: step {number} of many passed in 0.03 s\n" for number in steps)
        for name in ("test", "lint")
    }
    opening: list[Event] = []
    for index, name in enumerate(outputs):
        opening += [
            ToolCallStarted(name, index, name),
            ToolArgsCompleted(name, name, {}),
            ToolExecutionStarted(name, name, "key"),
        ]
    deltas: list[list[Event]] = [
        [ToolOutputDelta(name, name, piece)]
        for pieces in zip(*map(_pieces, outputs.values()), strict=True)
        for name, piece in zip(outputs, pieces, strict=True)
    ]
    return Showing(opening, deltas, f"lint: step {steps[-1]} of many")


_SHOWINGS: dict[str, Callable[[int], Showing]] = {
    FILE: _file,
    EDITS: _edits,
    TEXT: _text,
    TOOLS: _tools,
}


def _of_call(name: str, arguments: Mapping[str, object], last: str, file: str = "") -> Showing:
    events = _events(anthropic_payloads(_pieces(write(arguments)), name))
    return _cut(events, ToolArgsDelta, last, file)


def _events(payloads: Iterator[dict[str, object]]) -> list[Event]:
    return list(stream(list(anthropic_bytes(payloads))))


def _cut(events: list[Event], first: type[Event], last: str, file: str = "") -> Showing:
    """Cut before each event that begins a delta; what ends the stream belongs to the last."""
    opening = list(takewhile(lambda event: not isinstance(event, first), events))
    starts = [number for number, event in enumerate(events) if isinstance(event, first)]
    deltas = [events[start:end] for start, end in pairwise([*starts, len(events)])]
    return Showing(opening, deltas, last, file)


def _pieces(text: str) -> list[str]:
    return [text[start : start + DELTA] for start in range(0, len(text), DELTA)]


def _source() -> str:
    text = _SOURCE.read_text(encoding="utf-8")[:100_000]
    return f"{text.rpartition(chr(10))[0]}\n{_LAST_LINE}\n"
