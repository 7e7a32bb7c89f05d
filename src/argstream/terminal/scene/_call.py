"""What is known of a call, whatever becomes of it."""

from typing import Any, Final

from argstream.events import ToolCallStarted
from argstream.terminal.looks import ArgumentsView
from argstream.terminal.spans import Line, Role, Span, Spans, shown

__all__ = ["Call"]


_REST: Final[Spans] = (Span("    "),)
"""Further in than what stands under it: a title must not look like that."""


class Call:
    """A call."""

    def __init__(self, event: ToolCallStarted, view: ArgumentsView | None = None) -> None:
        """Take what is known at its beginning; without a view if its arguments are not seen."""
        self.call_id = event.call_id
        self.name = event.name
        self.kind = event.kind
        self.speaker = event.parent_id
        self.arguments: dict[str, Any] | str | None = None  # those that run
        self.is_refused = False  # it was said why it does not run
        self._view = view
        self._title: Spans = ()

    @property
    def title(self) -> Spans:
        """What stands beside its name; () while it is unknown."""
        return self._title if self._view is None else self._view.title

    def end_writing(self) -> None:
        """Keep nothing of its arguments but the title."""
        self._title = self.title
        self._view = None

    @property
    def label(self) -> Spans:
        """Its name, its kind if that is not the usual one, and its title."""
        kind = () if self.kind == "function" else (Span(f" ({self.kind})", "faint"),)
        title = self.title
        return (shown(self.name, "tool"), *kind, *((Span("  "), *title) if title else ()))

    def header(self, dot: Role = "title") -> Line:
        """Give the line under which everything about it stands."""
        return Line(self.label, (Span("● ", dot),), _REST, "words")

    def header_again(self, what: str = "goes on") -> Line:
        """Give the line that says whose lines go on, after others came in between."""
        label = (*self.label, Span(f" … {what}", "faint"))
        return Line(label, (Span("● ", "faint"),), _REST, "words")
