"""What the model says or thinks in one block."""

from collections.abc import Iterator
from typing import Final

from argstream.terminal.scene._growing_text import GrowingText, Part
from argstream.terminal.scene._markdown import Markdown
from argstream.terminal.scene._texts import text_span
from argstream.terminal.scene._timer import Timer
from argstream.terminal.scene._wording import bytes_of, lines_and_size
from argstream.terminal.spans import Line, Span, Spans

__all__ = ["Words"]

_SAID: Final[Spans] = (Span("│ ", "faint"),)
"""So that it cannot look like a line of ours, of which many begin with blanks."""
_THOUGHT: Final[Spans] = (Span("~ ", "thought"),)


class Words:
    """A text that grows: lines that are over become final, the last one is still growing."""

    waits_as: Final = ""  # no mark says how it ended

    def __init__(
        self, speaker: str | None, block: int, began: float | None, *, is_thought: bool
    ) -> None:
        self.speaker = speaker
        self.block = block
        self.is_thought = is_thought
        self.is_over = False
        self.is_known = False  # whether lines of it were committed
        self._timer = Timer(began)
        self.lines = 0
        self.size = 0
        self._text = GrowingText()
        self._markdown = Markdown()
        self._settled: list[Line] = []

    @property
    def subject(self) -> object:
        """What its lines are about."""
        return self

    @property
    def has_begun(self) -> bool:
        """Whether a header is due, though nothing stands under it."""
        return False

    @property
    def label(self) -> Spans:
        """What it is, on one line."""
        return (Span("thinking" if self.is_thought else "text"),)

    @property
    def doing(self) -> str:
        """What goes on."""
        return "thinking" if self.is_thought else "writing"

    def counters(self, now: float) -> Iterator[str]:
        """Say how much was written."""
        if self.size:
            yield from lines_and_size(self.lines, self.size)
        yield from self._timer.said(now)

    def add(self, text: str) -> None:
        """Take the next piece."""
        self.size += bytes_of(text)
        self.lines += text.count("\n")
        self._settle(self._text.add(text))

    def end(self, now: float) -> None:
        """No more comes."""
        self.is_over = True
        self._timer.stop(now)
        self._settle(self._text.finish())
        if self.is_thought and not self.size:
            told = f"thought{''.join(self._timer.said(now, ' for '))}, and does not say what"
            self._settled.append(Line((Span(told, "faint"),), _THOUGHT, _THOUGHT, "words"))

    def headed(self, lines: list[Line]) -> list[Line]:
        """Give lines of it below what says whose they are: their margin does."""
        return lines

    def settled(self) -> list[Line]:
        """Give the lines that became final."""
        self._settle(self._text.complete_rows())
        settled, self._settled = self._settled, []
        return settled

    def growing(self, columns: int, rows: int) -> list[Line]:
        """Give the last rows of the line that grows, each as a line."""
        part = self._text.growing
        if not part.text:
            return []
        return self._text.last_rows(self._line(part, is_final=False), columns, rows)

    def _settle(self, parts: list[Part]) -> None:
        self._settled += [self._line(part, is_final=True) for part in parts]

    def _line(self, part: Part, *, is_final: bool) -> Line:
        if self.is_thought:
            return Line((text_span(part.text, "thought"),), _THOUGHT, _THOUGHT, "words")
        breaks = self._markdown.breaks
        spans = (self._markdown.final if is_final else self._markdown.growing)(part)
        return Line(spans, _SAID, _SAID, breaks)
