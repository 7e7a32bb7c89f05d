"""Lines of what a model, a tool or a file wrote."""

from collections.abc import Iterable

from argstream.sanitise import visible
from argstream.terminal.spans import Line, Role, Span
from argstream.terminal.widths import expand_tabs, rows_of

__all__ = ["last_rows", "text_span"]


def text_span(text: str, role: Role = "plain") -> Span:
    """Give one line of somebody's text: harmless, with its tabs as spaces."""
    return Span(expand_tabs(visible(text)), role)


def last_rows(lines: Iterable[Line], columns: int, rows: int) -> list[Line]:
    """Give the last rows of some lines, each as a line of its own: for what still grows."""
    if rows < 1:
        return []
    return [Line(row) for line in lines for row in rows_of(line, columns)][-rows:]
