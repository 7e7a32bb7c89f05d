"""A tool that runs: what it says meanwhile, and what comes of it."""

from collections.abc import Iterator
from typing import Any, Final

from argstream.sanitise import visible_line
from argstream.terminal.scene._call import Call
from argstream.terminal.scene._growing_text import GrowingText, Part
from argstream.terminal.scene._results import failure_lines, folded_lines, result_lines
from argstream.terminal.scene._texts import text_span
from argstream.terminal.scene._timer import Timer
from argstream.terminal.spans import Line, Role, Span, Spans, line
from argstream.terminal.words import duration

__all__ = ["Running"]

_OUTPUT: Final = "  ┆ "
_UNDER: Final[Spans] = (Span("  "),)
_RUNS: Final = line(Span("runs", "faint"), margin=_UNDER)
_COMPARED: Final = 1_000_000  # characters; of more it is not asked whether the result repeats them
_LONG: Final = 2.0  # seconds; what takes no longer is not worth a word


class Running:
    """The execution of a call."""

    def __init__(
        self, call: Call, began: float | None, attempt: int = 0, *, is_watched: bool = True
    ) -> None:
        """Begin; attempt 0 if nobody said so.

        If nobody watches it run, it is said that it does, and nothing that it puts out is folded.
        """
        self.call = call
        self.speaker = call.speaker
        self.is_over = False
        self.is_known = False  # whether lines of it were committed
        self._timer = Timer(began)
        self._said: list[str] = []  # all output, to compare it with the result
        self._text = GrowingText()
        self._is_watched = is_watched
        self._unseen: list[Part] = []  # output that is not final yet
        self._last = Part("")
        self._ending: list[Line] = []
        self._beginning = _begins(attempt, is_told=not is_watched)
        self._size = 0
        self.waits_as = ""  # the mark that says how it ended

    # What happens to it.

    def put_out(self, text: str) -> None:
        """Take what the tool says."""
        self._size += len(text)
        if self._size <= _COMPARED:
            self._said.append(text)
        self._see(self._text.add(text))

    def complete(self, result: Any, now: float) -> None:
        """Take what came of it."""
        self._end("✓", now)
        self._ending += result_lines(result, "".join(self._said))
        self._ending += self._time(now, "faint")

    def fail(self, error: Any, now: float) -> None:
        """Take why nothing came of it."""
        self._end("✗", now)
        self._ending += failure_lines(error)
        self._ending += self._time(now, "bad")

    def leave(self, why: str, now: float) -> None:
        """Nobody says what comes of it."""
        self._end("✗", now)
        self._ending += failure_lines(why + "".join(self._timer.said(now, " after ")))

    # What there is to see of it.

    @property
    def subject(self) -> object:
        """What its lines are about."""
        return self.call

    @property
    def label(self) -> Spans:
        """What it is, on one line."""
        return self.call.label

    def newest(self, length: int) -> str:
        """Give the last line of its output, or its first characters."""
        growing = self._text.beginning(length)
        return growing if growing.strip() else self._last.text[:length]

    @property
    def doing(self) -> str:
        """What goes on."""
        return f"{visible_line(self.call.name)} runs"

    def counters(self, now: float) -> Iterator[str]:
        """Say how long it has run."""
        yield from self._timer.said(now)

    @property
    def has_begun(self) -> bool:
        """Whether the header is due, though nothing stands under it."""
        return False

    def headed(self, lines: list[Line]) -> list[Line]:
        """Give lines of it below what says whose they are."""
        if lines[0] is _RUNS:  # one line says both
            return [self.call.header_again("runs"), *lines[1:]]
        goes_on = self.is_known and not self.is_over
        return [self.call.header_again() if goes_on else self.call.header("faint"), *lines]

    def settled(self) -> list[Line]:
        """Give the lines that became final: output in full while it streams."""
        if self.is_over:
            settled, self._ending = self._ending, []
            return settled
        self._see(self._text.complete_rows())
        lines = self._beginning + [_output(part) for part in self._unseen]
        self._beginning = []
        self._unseen = []
        return lines

    def growing(self, columns: int, rows: int) -> list[Line]:
        """Give the last rows of the output that is not final."""
        part = self._text.growing
        return self._text.last_rows(_output(part), columns, rows) if part.text else []

    def _see(self, parts: list[Part]) -> None:
        self._unseen += parts
        self._last = next((part for part in reversed(parts) if part.text.strip()), self._last)

    def _end(self, mark: str, now: float) -> None:
        self.is_over = True
        self.waits_as = mark
        self._timer.stop(now)
        self._see(self._text.finish())
        self._ending += self._beginning
        if self.is_known or not self._is_watched:
            self._ending += [_output(part) for part in self._unseen]
        elif self._unseen:
            text = "".join("\n" * (not part.is_rest) + part.text for part in self._unseen)
            self._ending += folded_lines(text.removeprefix("\n"), _OUTPUT, _OUTPUT)
        self._unseen = []

    def _time(self, now: float, role: Role) -> list[Line]:
        took = self._timer.took(now)
        if took is None or took < _LONG:
            return []
        return [line(Span(f"ran for {duration(took)}", role), margin=_UNDER)]


def _begins(attempt: int, *, is_told: bool) -> list[Line]:
    if attempt > 1:
        return [line(Span(f"runs again, attempt {attempt}", "warning"), margin=_UNDER)]
    return [_RUNS] if attempt and is_told else []


def _output(part: Part) -> Line:
    margin: Spans = (Span(_OUTPUT, "faint"),)
    return Line((text_span(part.text),), margin, margin, "words")
