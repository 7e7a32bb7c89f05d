"""Who may write into the scrollback, where nothing can be changed any more.

What is written one after the other stands in a line: the first of it owns the scrollback until it
is over, all others wait, and are committed whole when it is their turn. A tool that runs is not in
that line, for it may take long: it puts out what it says while it runs alone, and lets everything
else come in between. Where nobody sees how far the others are, all of them put out what they say.

A line about a call stands below its name: who goes on after others says again who it is.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from argstream.terminal.scene._call import Call
from argstream.terminal.scene._running import Running
from argstream.terminal.scene._speakers import Speakers
from argstream.terminal.scene._words import Words
from argstream.terminal.scene._writing import Writing
from argstream.terminal.spans import Line, Span, Spans

__all__ = ["Active", "Stage", "indented"]

Active: TypeAlias = Writing | Words | Running
"""Something that grows until it is over."""

_BAR: Final = Span("┊ ", "faint")  # no model writes at the left edge: this is a sub-agent


class _Note:
    """Lines that are final as they are: about a call, or about none."""

    is_over = True
    has_begun = False

    def __init__(self, lines: Sequence[Line], call: Call | None = None) -> None:
        self.speaker = None if call is None else call.speaker
        self.is_known = False
        self.subject: object = call or self
        self._call = call
        self._lines = list(lines)

    def headed(self, lines: list[Line]) -> list[Line]:
        """Give them below what says whose they are; those about no call speak for themselves."""
        return lines if self._call is None else [self._call.header("faint"), *lines]

    def settled(self) -> list[Line]:
        """Give them, once."""
        lines, self._lines = self._lines, []
        return lines


class Stage:
    """The scrollback, the blocks that wait for it, and the tools that run."""

    def __init__(self, speakers: Speakers, *, has_tail: bool) -> None:
        self._has_tail = has_tail
        self.running: dict[str, Running] = {}
        self._blocks: deque[Active | _Note] = deque()
        self._notes = 0  # how many of them are notes
        self.speakers = speakers
        self._committed: list[Line] = []
        self._subject: object = None  # what the last line is about
        self._speaker: str | None = None  # who was last heard

    def committed(self) -> list[Line]:
        """Give what became final since it was last asked."""
        committed, self._committed = self._committed, []
        return committed

    @property
    def writing(self) -> Active | None:
        """The block whose turn it is."""
        # A note is committed at once when it is its turn.
        return next((block for block in self._blocks if not isinstance(block, _Note)), None)

    @property
    def owner(self) -> Active | None:
        """The block that may write into the scrollback, if there is one."""
        if self._blocks:
            return self.writing
        return next(iter(self.running.values())) if len(self.running) == 1 else None

    @property
    def active(self) -> int:
        """How many blocks go on, or wait."""
        return len(self.running) + len(self._blocks) - self._notes

    def actives(self) -> Iterator[Active]:
        """Give them."""
        yield from self.running.values()
        yield from (block for block in self._blocks if not isinstance(block, _Note))

    def add(self, block: Writing | Words) -> None:
        """Let a block wait for its turn; it may have it at once."""
        self._blocks.append(block)
        self.settle()

    def note(self, lines: Sequence[Line]) -> None:
        """Add lines that are final as they are."""
        self._blocks.append(_Note(lines))
        self._notes += 1
        self.settle()

    def interrupt(self, lines: Sequence[Line], call: Call) -> None:
        """Commit lines about a call that cannot wait, whoever has the scrollback."""
        self.settle()
        self._commit(_Note(lines, call))

    def settle(self) -> None:
        """Commit what became final."""
        while self._blocks:
            block = self._blocks[0]
            self._commit(block)
            if not block.is_over:
                return
            self._blocks.popleft()
            self._notes -= isinstance(block, _Note)
        if len(self.running) == 1 or not self._has_tail:
            for running in self.running.values():
                self._commit(running)

    def over(self, call_id: str) -> None:
        """Let the end of a tool that has run be seen, in its turn."""
        running = self.running.pop(call_id)
        if self._blocks:
            self._blocks.append(running)
        else:
            self._commit(running)
        self.settle()

    def _commit(self, block: "Active | _Note") -> None:
        lines = block.settled()
        if not lines and not block.has_begun:
            return
        if block.subject is not self._subject:
            lines = block.headed(lines)
            self._subject = block.subject
        block.is_known = True
        self._put(lines, block.speaker)

    def _put(self, lines: Iterable[Line], speaker: str | None) -> None:
        depth = self.speakers.depth(speaker)
        if speaker != self._speaker:
            self._speaker = speaker
            if speaker is not None:
                self._committed.append(indented(self.speakers.announcement(speaker), depth))
        self._committed += lines if not depth else [indented(line, depth) for line in lines]


def indented(line: Line, depth: int) -> Line:
    """Put a line behind the bars of a sub-agent."""
    bars: Spans = (_BAR,) * depth
    rest = None if line.rest is None else bars + line.rest
    if rest is None:
        rest = (*bars, Span(" " * sum(len(span.text) for span in line.margin)))
    return Line(line.spans, bars + line.margin, rest, line.breaks)
