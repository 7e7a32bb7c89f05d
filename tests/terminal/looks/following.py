"""A call that is written piece by piece: what its view shows, as text."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wcwidth import wcswidth

from argstream.events import ToolArgsDelta, ToolCallStarted
from argstream.history import CallKind
from argstream.runs import with_arguments
from argstream.sanitise import visible, visible_line
from argstream.terminal import ArgumentEvent, Line, Spans, ToolViews, rows_of

ROWS = 4


class Followed(NamedTuple):
    title: str
    lines: list[Line]  # all that became final, in order
    settled: list[Line]  # those that were final before the end
    growing: list[list[str]]  # the rest, after each event

    @property
    def text(self) -> str:
        return "".join(f"{text}\n" for text in texts(self.lines))


def text_of(spans: Spans) -> str:
    return "".join(span.text for span in spans)


def texts(lines: Sequence[Line]) -> list[str]:
    return [text_of(line.margin + line.spans).rstrip() for line in lines]


def committed_rows(lines: Iterable[Line], columns: int) -> Iterator[str]:
    return (text_of(row).rstrip() for line in lines for row in rows_of(line, columns - 1))


def roles(line: Line) -> list[tuple[str, str]]:
    return [(span.text, span.role) for span in line.spans]


def follow(
    arguments: Mapping[str, Any] | str,
    name: str = "tool",
    looks: ToolViews | None = None,
    *,
    size: int = 5,
    kind: CallKind = "function",
) -> Followed:
    """Write arguments in pieces, and look after each; a str is the raw text, maybe cut."""
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
    view = (looks or ToolViews()).view(ToolCallStarted("c", 0, name, kind))
    lines: list[Line] = []
    growing = []
    for event in events(raw, name, kind, size):
        was_open, title = view.is_title_open, view.title
        view.take(event)
        newest = view.settled()
        assert not (newest and view.is_title_open), "lines before the title is known"
        assert was_open or view.title == title, "a title that changes"
        lines += newest
        grows = view.growing(ROWS)
        assert len(grows) <= ROWS
        growing.append(texts(grows))
    settled = lines[:]
    lines += view.finish()
    assert view.settled() == []
    for line in lines:
        assert text_of(line.margin + line.spans).isprintable()
    return Followed(text_of(view.title), lines, settled, growing)


def events(raw: str, name: str, kind: CallKind, size: int) -> list[ArgumentEvent]:
    call = ToolCallStarted("c", 0, name, kind)
    pieces = [ToolArgsDelta("c", name, raw[at : at + size]) for at in range(0, len(raw), size)]
    computed = with_arguments([call, *pieces])
    return [event for event in computed if not isinstance(event, ToolCallStarted)]  # type: ignore[misc]  # the others are all of the arguments


def expanded(text: str) -> str:
    first, *others = text.split("\t")
    for other in others:
        first += " " * (4 - wcswidth(first) % 4) + other
    return first


def is_shown(value: str, lines: Sequence[str]) -> bool:
    return all(any(_is_in(piece, line) for line in lines) for piece in value.split("\n"))


def _is_in(piece: str, line: str) -> bool:
    escaped = piece.replace("\\", "\\\\").replace('"', '\\"')
    spellings = (expanded(visible(piece)), visible_line(piece), visible_line(escaped))
    return any(spelling.rstrip() in line for spelling in spellings)
