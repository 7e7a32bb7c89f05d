"""A diff while the new text is still being written.

The old text is known, the new one comes line by line. A line that equals the next old one is
settled at once. From the first that does not, new lines are held until it is sure where the texts
meet again; then the old lines up to there are removed, and the held ones added, in this order, as
one is used to. The lines between two such meetings are compared by ``difflib``.

- *Exact*: the equal and the removed lines are the old text, the equal and the added ones the new
  text, each line once and in order, wherever the texts are taken to meet.
- *Where they meet*: at a line that says something. A blank line or a closing bracket is equal to
  many others, and proves nothing. A line that occurs more than once, or is far away, needs the
  lines before it to be equal too.
- *Bounded*: a new line is looked for among the next ``WINDOW`` old ones. At most ``MAX_HELD`` lines
  are held; what is more is added before it is known what was removed.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal, NamedTuple, TypeAlias

__all__ = ["MAX_HELD", "WINDOW", "Change", "Sign", "StreamingDiff"]

WINDOW: Final = 300
MAX_HELD: Final = 300
_MAX_PAIRS: Final = 40_000  # of lines that are compared between two meetings
_PROOF: Final = 25  # for every so many lines that a meeting is away, one more must be equal
_TRIED: Final = 10  # places of a line that occurs again and again
_LARGE: Final = 3  # lines of a change beside which an equal bracket is chance
_SAYS_LITTLE: Final = frozenset(
    [
        "begin",
        "break",
        "continue",
        "do",
        "done",
        "else",
        "else:",
        "end",
        "endif",
        "fi",
        "finally:",
        "pass",
        "return",
        "return;",
        "then",
        "try",
        "try:",
    ]
)

Sign: TypeAlias = Literal[" ", "-", "+"]


class Change(NamedTuple):
    """A line of the diff."""

    sign: Sign
    """A space: in both texts; a minus: only in the old one; a plus: only in the new one."""
    text: str


class StreamingDiff:
    """Compares a text that is known with one that comes line by line."""

    def __init__(self, old: Sequence[str]) -> None:
        self._old: list[str] = []
        self._at = 0  # how many old lines are settled
        self._held: list[str] = []
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        self.extend(old)

    @property
    def held(self) -> Sequence[str]:
        """The new lines of which it is not sure yet whether they were added."""
        return self._held

    @property
    def rest(self) -> Sequence[str]:
        """The old lines of which nothing is known yet."""
        return self._old[self._at :]

    def extend(self, old: Sequence[str]) -> None:
        """Say that the old text is longer than was known, by these lines."""
        for place, line in enumerate(old, len(self._old)):
            self._places[line].append(place)
        self._old += old

    def add(self, line: str) -> list[Change]:
        """Take the next new line, and give what is certain now."""
        if not self._held:
            if self._at == len(self._old):
                return [Change("+", line)]
            if self._old[self._at] == line:
                self._at += 1
                return [Change(" ", line)]
        self._held.append(line)
        if meeting := self._meeting():
            return self._settle(*meeting)
        if len(self._held) > MAX_HELD:
            return [Change("+", self._held.pop(0))]
        return []

    def finish(self) -> list[Change]:
        """Say that the new text is over, and give the rest."""
        return self._settle(len(self._old), 0)

    def cut(self) -> list[Change]:
        """Say that the new text breaks off; what becomes of the ``rest`` will never be known."""
        held, self._held = self._held, []
        return [Change("+", line) for line in held]

    def _settle(self, place: int, run: int) -> list[Change]:
        """Go on from this place in the old text, before which so many lines are known as equal."""
        split = len(self._held) - run
        changes = [*_compared(self._old[self._at : place - run], self._held[:split])]
        changes += [Change(" ", line) for line in self._held[split:]]
        self._at = place
        self._held = []
        return changes

    def _meeting(self) -> tuple[int, int] | None:
        """Find where the newest line has an equal that is not equal by chance."""
        places = self._places.get(self._held[-1], ())
        first = bisect_left(places, self._at)
        near = places[first : bisect_left(places, self._at + WINDOW)]
        for place in near[:_TRIED]:
            run, telling = self._run(place, 2 + WINDOW // _PROOF)
            away = place + 1 - run - self._at
            is_sure = away == 0 or run > 1 or len(near) == 1
            if is_sure and telling > away // _PROOF:
                return place + 1, self._run(place, len(self._held))[0]
        return None

    def _run(self, place: int, limit: int) -> tuple[int, int]:
        """Count the equal lines before and at a place, and those of them that say something."""
        run = telling = 0
        while run < min(limit, len(self._held), place + 1 - self._at):
            line = self._held[-1 - run]
            if self._old[place - run] != line:
                break
            run += 1
            telling += _says_something(line)
        return run, telling


def _compared(old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    """Compare all lines with all others, if they are not too many."""
    old_at = new_at = 0
    for old_place, new_place, length in _matches(old, new):
        yield from (Change("-", line) for line in old[old_at:old_place])
        yield from (Change("+", line) for line in new[new_at:new_place])
        yield from (Change(" ", line) for line in old[old_place : old_place + length])
        old_at, new_at = old_place + length, new_place + length


def _matches(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Give the places and lengths of what is equal and means something; the last is empty."""
    end = (len(old), len(new), 0)
    if len(old) * len(new) > _MAX_PAIRS:
        yield end
        return
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    old_at = new_at = 0  # where the last one ended
    for (old_place, new_place, length), after in zip(blocks, [*blocks[1:], end], strict=True):
        before = max(old_place - old_at, new_place - new_at)
        behind = max(after[0] - old_place, after[1] - new_place) - length
        lines = old[old_place : old_place + length]
        is_chance = min(before, behind) >= _LARGE and not any(map(_says_something, lines))
        if not is_chance and length:
            yield old_place, new_place, length
            old_at, new_at = old_place + length, new_place + length
    yield end


def _says_something(line: str) -> bool:
    bare = line.strip()
    return bare not in _SAYS_LITTLE and any(map(str.isalnum, bare))
