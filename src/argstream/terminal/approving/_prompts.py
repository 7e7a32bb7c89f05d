"""What stands at the bottom of the screen while somebody is asked. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from argstream.terminal.approving._line_editor import LineEditor
from argstream.terminal.spans import Line, Span, Spans, line, shown, text_of
from argstream.terminal.widths import rows_of, width

__all__ = ["Choice", "Prompt", "arguments_in_short", "remaining"]

_INDENT: Final = Span("  ")
_SEPARATOR: Final = Span(" · ", "faint")
_WHY: Final = Span("  why? ", "prompt")
_MAX_VALUE: Final = 60
_MAX_VALUES: Final = 6


class Choice(NamedTuple):
    """A key, and what it does."""

    key: str
    label: str


@dataclass(frozen=True)
class Prompt:
    """A question and the keys that answer it."""

    question: Spans
    choices: tuple[Choice, ...]
    notes: tuple[Span, ...] = ()
    """Paragraphs below the question: why it is asked, or what is wrong."""
    detail: Spans = ()
    """What may be cut: it stands behind all else in the row of the question."""
    entry: LineEditor | None = None
    """What is typed."""
    hint: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that are an answer."""
        return tuple(choice.key.lower() for choice in self.choices)

    def lines(self, columns: int, rows: int, status: str = "") -> list[Line]:
        """Give at most so many lines, one for each row; without the keys it would be useless."""
        keys = list(_key_rows(self.choices, columns))
        if len(keys) >= rows:  # one row is for the question
            keys = [_bare_keys(self.choices)]
        hints = [line(_INDENT, Span(self.hint, "warning"))] if self.hint else []
        entries = [_entry_row(self.entry, columns)] if self.entry is not None else []
        below = (entries + keys + hints)[-rows:]
        room = rows - len(below)
        above = [self._question_row(status), *self._note_rows(columns)][:room]
        return above + below

    def _question_row(self, status: str) -> Line:
        spans = (*self.question, Span(f"  {status}" if status else "", "warning"))
        return Line((*spans, Span("  "), *self.detail) if self.detail else spans)

    def _note_rows(self, columns: int) -> Iterator[Line]:
        for note in self.notes:
            for row in rows_of(line(note, margin=(_INDENT,)), columns):
                yield Line(row)


def _entry_row(entry: LineEditor, columns: int) -> Line:
    return Line((_WHY, *entry.spans(columns - width(_WHY.text))))


def _key_rows(choices: tuple[Choice, ...], columns: int) -> Iterator[Line]:
    """Lay the choices out in as many rows as they need."""
    row: tuple[Span, ...] = (_INDENT,)
    for choice in choices:
        piece = (Span(choice.key, "key"), Span(f" {choice.label}"))
        is_first = row == (_INDENT,)
        wider = row + piece if is_first else (*row, _SEPARATOR, *piece)
        if is_first or width(text_of(wider)) <= columns:
            row = wider
        else:
            yield Line(row)
            row = (_INDENT, *piece)
    yield Line(row)


def _bare_keys(choices: tuple[Choice, ...]) -> Line:
    """Give the keys without words, where there is no room."""
    keys = " ".join(choice.key for choice in choices)
    return Line((_INDENT, Span(keys, "key")))


def arguments_in_short(arguments: Mapping[str, Any]) -> Span:
    """Give what a row can show of them, to know which call is meant: all of it stands above."""
    values = list(arguments.items())[:_MAX_VALUES]
    return shown("  ".join(f"{name}={_short(value)}" for name, value in values), "faint")


def remaining(seconds: float) -> str:
    """Say how much time is left.

    >>> remaining(41.2), remaining(125), remaining(-1)
    ('42 s left', '2 min 5 s left', '0 s left')
    """
    whole = max(int(-(-seconds // 1)), 0)
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s left" if minutes else f"{rest} s left"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    short = text.partition("\n")[0][:_MAX_VALUE]
    return short if short == text else f"{short}…"
