"""The arguments of a call, while they are written."""

from collections.abc import Iterator
from typing import Any, Final

from argstream.deltas import FREE_TEXT_KINDS
from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentsError,
    ArgumentStarted,
    InvalidVerdict,
    ToolArgsDelta,
)
from argstream.jsonstream import JsonPath
from argstream.sanitise import visible_line
from argstream.terminal.looks import ArgumentsView, Looks
from argstream.terminal.scene._amount import Amount
from argstream.terminal.scene._call import Call
from argstream.terminal.scene._texts import last_rows
from argstream.terminal.scene._timer import Timer
from argstream.terminal.scene._wording import because
from argstream.terminal.spans import Line, Span, Spans, line, shown
from argstream.terminal.words import path_name, size

__all__ = ["Writing"]

_VERDICTS: Final[dict[InvalidVerdict, str]] = {
    "truncated": "cut off",
    "malformed": "malformed",
    "rejected": "rejected",
    "aborted": "aborted",
}
_MOMENT: Final = 1.0  # seconds
_FEW: Final = 200  # bytes
_UNDER: Final[Spans] = (Span("  "),)
_GOOD: Final[Spans] = (Span("  ✓ ", "good"),)
_BAD: Final[Spans] = (Span("  ✗ ", "bad"),)


class Writing:
    """The arguments of a call, while they are written."""

    def __init__(self, call: Call, view: ArgumentsView, began: float | None) -> None:
        self.call = call
        self._view = view
        self.speaker = call.speaker
        self.is_over = False
        self.is_known = False  # whether lines of it were committed
        self._timer = Timer(began)
        self.waits_as = ""  # the mark that says how it ended
        self._amount = Amount()
        self._renamed: list[Line] = []
        self._is_free_text = call.kind in FREE_TEXT_KINDS
        self._open: JsonPath = ()  # the argument that is being written
        self._seen: dict[str, Any] = {}  # arguments that were shown, by name
        self._has_lines = False
        self._ending: list[Line] = []

    # What happens to it.

    def take(
        self, event: ArgumentStarted | ArgumentDelta | ArgumentCompleted | ToolArgsDelta
    ) -> None:
        """Take the next piece."""
        match event:
            case ToolArgsDelta(delta=text):
                self._amount.write(text)
                if self._is_free_text:
                    self._amount.add(text)
            case ArgumentStarted(path=path):
                self._open = path
            case ArgumentDelta(path=path, text=text):
                self._open = path
                self._amount.add(text)
            case ArgumentCompleted(path=path, value=value):
                self._open = path[:-1]
                self._amount.end_text()
                if len(path) == 1:
                    self._seen[str(path[0])] = value
        self._view.take(event)

    def rename(self, name: str) -> None:
        """Note the name that the provider has for it by now."""
        if name != self.call.name:
            self.call.name = name
            if self.is_known:
                self._renamed = [
                    line(Span("is called ", "warning"), shown(name, "tool"), margin=_UNDER)
                ]

    def complete(self, arguments: dict[str, Any] | str, looks: Looks, now: float) -> None:
        """Take the whole arguments."""
        self.call.arguments = arguments
        self._end(now)
        if isinstance(arguments, dict) and arguments != self._seen:
            # The provider corrected itself, or the text means something else than it says.
            self._has_lines = True
            self._ending.append(line(Span("this is what it means:", "warning"), margin=_UNDER))
            self._ending += looks.whole(self.call.name, arguments, call_id=self.call.call_id)
        self.waits_as = "✓"
        self._ending += self._completion(now)

    def refuse(self, verdict: InvalidVerdict, error: ArgumentsError, now: float) -> None:
        """Take why they are not valid, and will not be."""
        path = error.path or self._open
        self._end(now)
        self.waits_as = "✗"
        self.call.is_refused = True
        if verdict in ("truncated", "aborted"):
            where = f" after {size(self._amount.size)}"
        else:
            where = "" if error.offset is None else f" at character {error.offset}"
        inside = f", in {path_name(path)}" if path else ""
        message = error.message.removesuffix(f" (at character {error.offset})")
        told = f"{_VERDICTS[verdict]}{where}{inside}{because(message)}"
        self._ending.append(line(Span(told, "bad"), margin=_BAD))

    def leave(self, why: str, now: float) -> None:
        """Nobody says how it ends."""
        self._end(now)
        self.waits_as = "✗"
        told = ", ".join(self.counters(now))
        self._ending.append(line(Span(f"{why} after {told}", "bad"), margin=_BAD))

    # What there is to see of it.

    @property
    def subject(self) -> object:
        """What its lines are about."""
        return self.call

    @property
    def label(self) -> Spans:
        """What it is, on one line."""
        return self.call.label

    @property
    def doing(self) -> str:
        """What goes on."""
        return f"writing {visible_line(self.call.name)}"

    def counters(self, now: float) -> Iterator[str]:
        """Say how much was written."""
        yield from self._amount.said()
        yield from self._timer.said(now)

    @property
    def has_begun(self) -> bool:
        """Whether the header is due, though nothing stands under it."""
        return not self.is_known and (self.is_over or not self._view.is_title_open)

    def headed(self, lines: list[Line]) -> list[Line]:
        """Give lines of it below what says whose they are."""
        goes_on = self.is_known and not self.is_over
        return [self.call.header_again() if goes_on else self.call.header(), *lines]

    def settled(self) -> list[Line]:
        """Give the lines that became final."""
        if self.is_over:
            settled, self._ending = self._ending, []
            return settled
        settled = self._renamed + self._view.settled()
        self._renamed = []
        self._see(settled)
        return settled

    def growing(self, columns: int, rows: int) -> list[Line]:
        """Give what is not final: the newest lines."""
        above = [] if self.is_known else [self.call.header("faint")]
        room = rows - len(above)
        return above[:rows] + last_rows(self._view.growing(room), columns, room)

    def _end(self, now: float) -> None:
        self.is_over = True
        self._timer.stop(now)
        self._ending += [*self._renamed, *self._view.settled(), *self._view.finish()]
        self._see(self._ending)
        self.call.end_writing()

    def _see(self, lines: list[Line]) -> None:
        self._has_lines = self._has_lines or bool(lines)
        self._amount.see(lines)

    def _completion(self, now: float) -> list[Line]:
        took = self._timer.took(now)
        amount = self._amount
        is_short = took is not None and took < _MOMENT and amount.size < _FEW and amount.lines < 2
        if is_short or not self._has_lines:
            return []  # what stands there says it all
        told = ", ".join(amount.said())
        in_all = "".join(self._timer.said(now, " in "))
        return [line(Span(told + in_all, "good"), margin=_GOOD)]
