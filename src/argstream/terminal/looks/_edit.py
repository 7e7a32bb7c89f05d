"""One text that is replaced by another: its parts in any order, then a diff that streams."""

from argstream.terminal.looks._growing import CUT, GrowingText
from argstream.terminal.looks._hunk import Hunk, diff_line
from argstream.terminal.looks._locating import Place, lines_of
from argstream.terminal.spans import Line
from argstream.terminal.streaming_diff import StreamingDiff

__all__ = ["Edit"]


class Edit:
    """Gathers the old and the new text until it may begin; from there on it shows a diff."""

    def __init__(self, out: list[Line]) -> None:
        self._out = out
        self._old = _Side("-")
        self._new = _Side("+")
        self._hunk: Hunk | None = None
        self._diff = StreamingDiff(())
        self._place = Place(0, None)
        self._is_first = True  # whether the first new line is still to come

    @property
    def old(self) -> str | None:
        """What is replaced, when it is complete."""
        return self._old.value

    @property
    def new(self) -> str | None:
        """What comes in its place, when it is complete."""
        return self._new.value

    @property
    def so_far(self) -> tuple[tuple[str, str], ...]:
        """The sides that have begun, by their signs, as far as they came."""
        sides = (self._old, self._new)
        return tuple((side.sign, side.so_far()) for side in sides if side.has_begun)

    @property
    def has_begun(self) -> bool:
        """Whether it shows a diff already."""
        return self._hunk is not None

    def start(self, sign: str) -> None:
        """One of the texts begins: "-" is the old one, "+" the new one."""
        self._side(sign).has_begun = True

    def add(self, sign: str, text: str) -> None:
        """Take the next piece of a text."""
        side = self._side(sign)
        side.add(text)
        if side is self._new and self._hunk is not None:
            self._go_on(self._hunk)

    def complete(self, sign: str, value: str) -> None:
        """One of the texts is complete."""
        side = self._side(sign)
        side.value = value
        if side is self._new and self._hunk is not None:
            self._end(self._hunk)

    def begin(self, place: Place) -> None:
        """Show the diff from now on: the old text is complete, and this is where it stands."""
        self._place = place
        self._hunk = hunk = Hunk(self._out, place)
        self._diff = StreamingDiff(lines_of(place.lead + (self.old or "") + place.trail))
        self._go_on(hunk)
        if self.new is not None:
            self._end(hunk)

    def growing(self, rows: int) -> list[Line]:
        """Give the newest lines that are not final."""
        if self._hunk is None:
            sides = sorted((self._old, self._new), key=lambda side: side.value is None)
            lines = [line for side in sides for line in side.growing(rows)]  # what grows is last
        elif self.new is None:
            held = self._diff.held
            lines = self._hunk.growing(held)
            lines += self._new.growing_line(self._hunk.number_after(held))
        else:
            lines = []
        return lines[-rows:]

    def finish(self) -> None:
        """Write what was held back: the new text breaks off."""
        if self._hunk is not None and self.new is None:
            self._hunk.take(self._diff.cut())
            if last := self._new.text.end():
                self._hunk.take(self._diff.add(self._whole(last) + "\n") + self._diff.cut())
            self._hunk.leave_open(self._diff.rest)

    def _side(self, sign: str) -> "_Side":
        return self._old if sign == "-" else self._new

    def _go_on(self, hunk: Hunk) -> None:
        lines, self._new.lines = self._new.lines, []
        for line in lines:
            hunk.take(self._diff.add(self._whole(line) + "\n"))

    def _whole(self, line: str) -> str:
        """Give a new line with what stands before it in the file, if it is the first."""
        is_first, self._is_first = self._is_first, False
        return self._place.lead + line if is_first else line

    def _end(self, hunk: Hunk) -> None:
        last = self._whole(self._new.text.end())
        if self.new or self._place.number is not None:  # else nothing is left of whole lines
            last += self._place.trail
        after = self._place.after
        joined = after[:1] if last and not last.endswith("\n") else ()
        self._diff.extend(joined)
        if last:
            hunk.take(self._diff.add(last + "".join(joined)))
        hunk.take(self._diff.finish())
        hunk.end(after[len(joined) :])


class _Side:
    """One of the two texts, as far as it came."""

    def __init__(self, sign: str) -> None:
        self.sign = sign
        self.has_begun = False
        self.value: str | None = None
        self.text = GrowingText()
        self.lines: list[str] = []  # complete, and not yet compared
        self._pieces: list[str] = []

    def add(self, text: str) -> None:
        self.has_begun = True
        self._pieces.append(text)
        self.lines += self.text.add(text)

    def so_far(self) -> str:
        return "".join(self._pieces) if self.value is None else self.value

    def growing(self, rows: int) -> list[Line]:
        """Give the newest lines that wait, and the one that grows."""
        lines = [diff_line(self.sign, line) for line in self.lines[-rows:]]
        return lines + self.growing_line()

    def growing_line(self, number: int | None = None) -> list[Line]:
        length = self.text.length
        return [diff_line(self.sign, self.text.tail(), number, cut=length > CUT)] if length else []
