"""The lines of one diff, with their numbers and a little of what is around them."""

from collections.abc import Iterable, Sequence
from typing import Final

from argstream.terminal.highlighting import source_spans
from argstream.terminal.looks._locating import CONTEXT, Place
from argstream.terminal.spans import Line, Role, Span, Spans
from argstream.terminal.streaming_diff import Change

__all__ = ["Hunk", "diff_line"]

_ROLES: Final[dict[str, Role]] = {"+": "added", "-": "removed", "?": "faint"}
_REST: Final[Spans] = (Span("         │ ", "faint"),)
_OURS: Final[Spans] = (Span("       · │ ", "faint"),)  # no line of a text has this margin


def diff_line(sign: str, text: str, number: int | None = None, *, cut: bool = False) -> Line:
    """Give one line of a diff; one that is cut shows its end."""
    role = _ROLES.get(sign, "plain")
    told = "" if number is None else str(number)
    margin = (Span(f"{told:>6} ", "faint"), Span(sign, role), Span(" │ ", "faint"))
    ellipsis = (Span("…", "faint"),) if cut else ()
    return Line(ellipsis + source_spans([(text, role)]), margin, _REST)


class Hunk:
    """Writes the changes of one place as they settle."""

    def __init__(self, out: list[Line], place: Place) -> None:
        self._out = out
        self._place = place
        self._old_number = self._new_number = place.number
        self._leading: list[str] | None = []  # equal lines before the first change, or before 3
        self._equal = 0  # so many since the last change
        self._is_changed = False

    def growing(self, held: Sequence[str]) -> list[Line]:
        """Give the lines that are not final, and these new ones, which may turn out as equal."""
        lines = [(" ", text) for text in self._leading or ()] + [("+", text) for text in held]
        return [
            diff_line(sign, text.removesuffix("\n"), _number(self._new_number, index))
            for index, (sign, text) in enumerate(lines)
        ]

    def number_after(self, held: Sequence[str]) -> int | None:
        """Give the number of the new line that follows these."""
        return _number(self._new_number, len(self._leading or ()) + len(held))

    def take(self, changes: Iterable[Change]) -> None:
        """Write what is certain."""
        for sign, text in changes:
            if sign == " " and self._leading is not None and len(self._leading) < CONTEXT:
                self._leading.append(text)
                continue
            self._begin()
            self._write(sign, text)

    def end(self, after: Sequence[str]) -> None:
        """Write what is around the last change: these lines follow in the file."""
        self._begin()
        if not self._is_changed:
            self._out.append(_note("nothing changes"))
        for text in after[: max(CONTEXT - self._equal, 0)]:
            self._write(" ", text)

    def leave_open(self, rest: Sequence[str]) -> None:
        """Write the old lines that nothing more is known of: the new ones broke off."""
        self._begin()
        if rest:
            self._out.append(_note("cut off; what becomes of these?"))
        for text in rest:
            self._line("?", text, self._old_number)
            self._old_number = _number(self._old_number, 1)

    def _begin(self) -> None:
        if self._leading is None:
            return
        leading, self._leading = self._leading, None
        before = self._place.before
        before = before[max(len(before) + len(leading) - CONTEXT, 0) :]
        for index, text in enumerate(before, -len(before)):
            self._line(" ", text, _number(self._place.number, index))
        for text in leading:
            self._write(" ", text)

    def _write(self, sign: str, text: str) -> None:
        self._line(sign, text, self._old_number if sign == "-" else self._new_number)
        if sign == " ":
            self._equal += 1
        else:
            self._equal = 0
            self._is_changed = True
        if sign != "+":
            self._old_number = _number(self._old_number, 1)
        if sign != "-":
            self._new_number = _number(self._new_number, 1)

    def _line(self, sign: str, text: str, number: int | None) -> None:
        self._out.append(diff_line(sign, text.removesuffix("\n"), number))
        if not text.endswith("\n"):
            self._out.append(_note("no newline at the end"))


def _note(text: str) -> Line:
    return Line((Span(text, "faint"),), _OURS)


def _number(first: int | None, index: int) -> int | None:
    return None if first is None else first + index
