"""What stands at the bottom of the screen while somebody is asked. Pure.

A question, its notes and what each key does are shown whole or not at all: where they do not fit,
they are said above, as ``paragraphs``, and a single row reminds of them. A hint takes what is left.
"""

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
    runs: bool = False
    """Whether the call runs then."""


@dataclass(frozen=True)
class Prompt:
    """A question and the keys that answer it."""

    question: Spans
    choices: tuple[Choice, ...]
    short: Spans
    """The question, where there is no room for it: without its mark."""
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

    def runs(self, key: str) -> bool:
        """Say whether the call runs if this key is pressed."""
        return any(choice.runs for choice in self.choices if choice.key.lower() == key)

    def fits(self, columns: int, rows: int) -> bool:
        """Say whether everything that matters can be seen."""
        return len(self._whole(columns, ())) <= rows

    def can_be_read(self, columns: int) -> bool:
        """Say whether all of its keys can be seen at least, and the rest above."""
        return width(self._bare_keys.text) <= columns

    def paragraphs(self) -> list[Line]:
        """Give everything that matters as lines that take the room they need."""
        notes = [line(note, margin=(_INDENT,)) for note in self.notes]
        return [self._question, *notes, line(*_keys(self.choices), margin=(_INDENT,))]

    def lines(self, columns: int, rows: int, status: str = "") -> list[Line]:
        """Give at most so many lines, one for each row."""
        hint = Span(self.hint, "warning")
        behind = _behind(Span(status, "warning"), *self.detail)
        whole = self._whole(columns, behind)
        if len(whole) > rows:
            return self._reminder(columns, rows, Span(status, "warning"), hint)
        room = rows - len(whole)
        if not self.hint:
            return whole
        if not room:
            return self._whole(columns, _behind(hint))
        hints = [Line(row) for row in rows_of(line(hint, margin=(_INDENT,)), columns)]
        return whole + (hints if len(hints) <= room else [line(_INDENT, hint)])

    @property
    def _question(self) -> Line:
        return Line(self.question, rest=(_INDENT,), breaks="words")

    @property
    def _bare_keys(self) -> Span:
        return Span("/".join(choice.key for choice in self.choices), "key")

    def _whole(self, columns: int, behind: Spans) -> list[Line]:
        """Give all rows but those of a hint; what is behind the question may be cut."""
        *questions, last = rows_of(self._question, columns)
        entries = [_entry_row(self.entry, columns)] if self.entry is not None else []
        keys = _key_rows(self.choices, columns)
        return [*map(Line, questions), Line(last + behind), *self._notes(columns), *entries, *keys]

    def _notes(self, columns: int) -> Iterator[Line]:
        for note in self.notes:
            yield from map(Line, rows_of(line(note, margin=(_INDENT,)), columns))

    def _reminder(self, columns: int, rows: int, status: Span, hint: Span) -> list[Line]:
        """Give a row or two for what was said above."""
        question = (Span("? ", "prompt"), *self.short)
        if self.entry is not None:
            return [Line(question), _entry_row(self.entry, columns)][-rows:]
        if not self.can_be_read(columns):
            return [line(Span("make this wider", "warning"))]
        keys = self._bare_keys
        together = (*question, Span(" "), keys)
        does_fit = width(text_of(together)) <= columns
        if rows == 1:
            first = together if does_fit else (keys, Span(" "), *self.short)
            return [Line(first + _behind(hint, status))]
        if not does_fit:
            return [Line(question + _behind(status)), Line((_INDENT, keys, *_behind(hint)))]
        hints = [line(_INDENT, hint)] if hint.text else []
        return [Line(together + _behind(status)), *hints]


def _behind(*pieces: Span) -> Spans:
    return tuple(span for piece in pieces if piece.text for span in (Span("  "), piece))


def _entry_row(entry: LineEditor, columns: int) -> Line:
    return Line((_WHY, *entry.spans(columns - width(_WHY.text))))


def _keys(choices: tuple[Choice, ...]) -> Iterator[Span]:
    for number, choice in enumerate(choices):
        if number:
            yield _SEPARATOR
        yield from (Span(choice.key, "key"), Span(f" {choice.label}"))


def _key_rows(choices: tuple[Choice, ...], columns: int) -> Iterator[Line]:
    """Lay the choices out in as many rows as they need, none of which breaks a choice."""
    row: tuple[Choice, ...] = ()
    for choice in choices:
        wider = (*row, choice)
        if row and width(text_of((_INDENT, *_keys(wider)))) > columns:
            yield from map(Line, rows_of(line(*_keys(row), margin=(_INDENT,)), columns))
            wider = (choice,)
        row = wider
    yield from map(Line, rows_of(line(*_keys(row), margin=(_INDENT,)), columns))


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
    first = text.partition("\n")[0]
    lines = text.count("\n") + (not text.endswith("\n"))
    short = first[:_MAX_VALUE]
    if lines > 1:
        return f"{short}{'…' if short != first else ''} ({lines} lines)"
    return short if short == text else f"{short}…"
