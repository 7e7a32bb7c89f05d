"""A view that somebody else wrote, kept from taking the terminal down with it."""

from collections.abc import Callable
from typing import Any, Final, TypeVar, get_args

from argstream.terminal.looks._wording import INDENT, said
from argstream.terminal.looks.view import ArgumentEvent, ArgumentsView
from argstream.terminal.spans import Breaks, Line, Role, Span, Spans, shown, text_of

__all__ = ["GuardedView"]

_Answer = TypeVar("_Answer")
_ROLES: Final = get_args(Role)
_BREAKS: Final = get_args(Breaks)


class GuardedView:
    """Asks a view; once it fails, all that came is shown by another one, which says so."""

    def __init__(self, make: Callable[[], ArgumentsView], fallback: ArgumentsView) -> None:
        self._view: ArgumentsView | None = None
        self._fallback = fallback
        self._events: list[ArgumentEvent] = []  # those that the other one has not seen
        self._complaint: list[Line] = []
        self._title: Spans = ()
        try:
            self._view = make()
        except Exception as error:  # noqa: BLE001 - see _fail
            self._fail(error)

    def take(self, event: ArgumentEvent) -> None:
        """Pass an event on."""
        self._events.append(event)
        if self._view is None:
            self._tell_fallback()
        else:
            self._ask(lambda view: view.take(event), otherwise=None)

    @property
    def title(self) -> Spans:
        """The view's own, if it has one; the other view has none."""
        self._title = self._ask(lambda view: _spans(view.title), self._title)
        return self._title

    @property
    def is_title_open(self) -> bool:
        """Whether it may still come."""
        return self._ask(lambda view: bool(view.is_title_open), otherwise=False)

    def settled(self) -> list[Line]:
        """Give what is final."""
        lines = self._ask_lines(lambda view: view.settled())
        return lines + self._complaints() + self._fallback.settled()

    def growing(self, rows: int) -> list[Line]:
        """Give what is not."""
        lines = self._ask_lines(lambda view: view.growing(rows))
        return (lines + self._fallback.growing(rows))[-rows:] if rows > 0 else []

    def finish(self) -> list[Line]:
        """Give all that was held back."""
        lines = self._ask_lines(lambda view: view.finish())
        return lines + self._complaints() + self._fallback.settled() + self._fallback.finish()

    def _ask(self, question: Callable[[ArgumentsView], _Answer], otherwise: _Answer) -> _Answer:
        if self._view is not None:
            try:
                return question(self._view)
            except Exception as error:  # noqa: BLE001 - see _fail
                self._fail(error)
        return otherwise

    def _ask_lines(self, question: Callable[[ArgumentsView], list[Line]]) -> list[Line]:
        nothing: list[Line] = []
        return self._ask(lambda view: _lines(question(view)), nothing)

    def _fail(self, error: Exception) -> None:
        """Go on without it: what an agent does must be seen, whatever is wrong with a view."""
        self._view = None
        self._complaint = [
            said(
                Span("the look of this tool failed: ", "warning"),
                shown(f"{type(error).__name__}: {error}", "warning"),
            )
        ]
        self._tell_fallback()

    def _tell_fallback(self) -> None:
        for event in self._events:
            self._fallback.take(event)
        self._events.clear()

    def _complaints(self) -> list[Line]:
        complaint, self._complaint = self._complaint, []
        return complaint


def _lines(lines: Any) -> list[Line]:
    """Take lines for what they must be, or fail here rather than where they are painted."""
    return [_line(line) for line in lines]


def _line(line: Any) -> Line:
    spans, margin, rest, breaks = Line(*line)
    if breaks not in _BREAKS:
        raise ValueError(f"a line breaks at {breaks!r}: it must be one of {', '.join(_BREAKS)}")
    return Line(_spans(spans), _margin(margin), None if rest is None else _margin(rest), breaks)


def _margin(spans: Any) -> Spans:
    """Take a margin; at the left edge, where there is none, only we write."""
    margin = _spans(spans)
    return margin if text_of(margin) else INDENT


def _spans(spans: Any) -> Spans:
    return tuple(map(_span, spans))


def _span(span: Any) -> Span:
    if isinstance(span, str):
        raise TypeError(f"a piece of a line must be a Span, not {span!r}")
    text, role = Span(*span)
    if not isinstance(text, str):
        raise TypeError(f"the text of a span must be a str, not {text!r}")
    if role not in _ROLES:
        raise ValueError(f"there is no role {role!r}: it must be one of {', '.join(_ROLES)}")
    return Span(text, role)
