"""A diff while the new text is still being written.

The old text is known, the new one comes line by line. A line that equals the next old one is
settled at once. From the first that does not, new lines are held until it is sure where the texts
meet again; then the old lines up to there are removed, and the held ones added, in this order, as
one is used to. The lines between two such meetings are compared by ``difflib``.

- *Exact*: the equal and the removed lines are the old text, the equal and the added ones the new
  text, each line once and in order, wherever the texts are taken to meet.
- *Where they meet*: at a line that is not trivial. A blank line or a closing bracket is equal to
  many others, and proves nothing. A line that occurs more than once, or is far away, needs the
  lines before it to be equal too.
- *Bounded*: a new line is looked for among the next ``WINDOW`` old ones. At most ``MAX_HELD`` lines
  are held; what is more is added before it is known what was removed.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from argstream.events import ArgumentCompleted, ArgumentDelta, ArgumentStarted, ToolArgsDelta
from argstream.jsonstream import JsonPath
from argstream.sanitise import visible_line
from argstream.terminal._highlight import source_spans
from argstream.terminal._parts import ArgumentEvent, Files, GrowingText, PlainPart, TitlePart, said
from argstream.terminal._text import Line, Role, Span, Spans, path_name, words

WINDOW: Final = 300
MAX_HELD: Final = 300
_MAX_PAIRS: Final = 40_000  # of lines that are compared between two meetings
_PROOF: Final = 25  # per this many lines that a match is ahead, one more line must be equal
_TRIED: Final = 10  # places of a line that occurs again and again
_LARGE: Final = 7  # changes of this many lines ignore lone matches of trivial lines (a bracket)
_TRIVIAL: Final = words(
    "begin break continue do done else else: end endif fi finally: pass return return; then try "
    "try:"
)
Sign: TypeAlias = Literal[" ", "-", "+"]
_FOLD: Final = 30  # lines of a hunk that are shown at its beginning
CONTEXT: Final = 3  # how many lines around a change are shown
# Lines with their newlines; splitlines() knows more line ends than files have.
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
lines_of: Final = _LINES.findall
_ROLES: Final[dict[str, Role]] = {"+": "added", "-": "removed", "?": "faint"}
_REST: Final[Spans] = (Span("         │ ", "faint"),)
_OURS: Final[Spans] = (Span("       · │ ", "faint"),)  # no line of a text has this margin
_EVERYWHERE: Final = words("replace_all replaceAll all global all_occurrences")


class DiffNames(NamedTuple):
    """Which arguments are the old text, the new text, and the path of an edit in an array."""

    old: frozenset[str]
    new: frozenset[str]
    path: frozenset[str]


class Change(NamedTuple):
    sign: Sign  # space: in both texts; minus: only in the old one; plus: only in the new one
    text: str


class StreamingDiff:
    def __init__(self, old: Sequence[str]) -> None:
        self._old: list[str] = []
        self._at = 0  # how many old lines are settled
        self.held: list[str] = []  # new lines that may turn out to be equal to old ones
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        self.extend(old)

    @property
    def rest(self) -> Sequence[str]:
        """The old lines of which nothing is known yet."""
        return self._old[self._at :]

    def extend(self, old: Sequence[str]) -> None:
        for place, line in enumerate(old, len(self._old)):
            self._places[line].append(place)
        self._old += old

    def add(self, line: str) -> list[Change]:
        """Add the next new line, and return what is certain now."""
        if not self.held:
            if self._at == len(self._old):
                return [Change("+", line)]
            if self._old[self._at] == line:
                self._at += 1
                return [Change(" ", line)]
        self.held.append(line)
        if meeting := self._meeting():
            return self._settle(*meeting)
        if len(self.held) > MAX_HELD:
            return [Change("+", self.held.pop(0))]
        return []

    def finish(self) -> list[Change]:
        return self._settle(len(self._old), 0)

    def cut(self) -> list[Change]:
        """Cut the new text off. What becomes of ``rest`` stays unknown."""
        held, self.held = self.held, []
        return [Change("+", line) for line in held]

    def _settle(self, place: int, run: int) -> list[Change]:
        """Go on at this place in the old text, before which so many lines are known as equal."""
        split = len(self.held) - run
        changes = [*_compared(self._old[self._at : place - run], self.held[:split])]
        changes += [Change(" ", line) for line in self.held[split:]]
        self._at = place
        self.held = []
        return changes

    def _meeting(self) -> tuple[int, int] | None:
        """Find a match of the newest line that is not a coincidence. Return its end and length."""
        places = self._places.get(self.held[-1], ())
        first = bisect_left(places, self._at)
        near = places[first : bisect_left(places, self._at + WINDOW)]
        for place in near[:_TRIED]:
            run, significant = self._run(place)
            away = place + 1 - run - self._at
            is_sure = away == 0 or run > 1 or len(near) == 1
            if is_sure and significant > away // _PROOF:
                return place + 1, run
        return None

    def _run(self, place: int) -> tuple[int, int]:
        """Count the equal lines before and at a place, and those of them that are not trivial."""
        run = significant = 0
        while run < min(len(self.held), place + 1 - self._at):
            line = self.held[-1 - run]
            if self._old[place - run] != line:
                break
            run += 1
            significant += _is_significant(line)
        return run, significant


def _compared(old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    """Compare all lines with all others, if they are not too many."""
    old_at = new_at = 0
    for old_place, new_place, length in _matches(old, new):
        yield from (Change("-", line) for line in old[old_at:old_place])
        yield from (Change("+", line) for line in new[new_at:new_place])
        yield from (Change(" ", line) for line in old[old_place : old_place + length])
        old_at, new_at = old_place + length, new_place + length


def _matches(old: Sequence[str], new: Sequence[str]) -> Sequence[tuple[int, int, int]]:
    """Return the matching blocks as (old, new, length). The last has length 0."""
    if len(old) * len(new) > _MAX_PAIRS:
        return [(len(old), len(new), 0)]
    is_large = max(len(old), len(new)) >= _LARGE
    # Trivial lines then match only beside other matches.
    is_chance = (lambda line: not _is_significant(line)) if is_large else None
    return SequenceMatcher(is_chance, old, new, autojunk=False).get_matching_blocks()


def _is_significant(line: str) -> bool:
    bare = line.strip()
    return bare not in _TRIVIAL and any(map(str.isalnum, bare))


class Place(NamedTuple):
    """What surrounds a text, so that whole lines can be compared."""

    places: int  # in how many places it stands; the rest is about the first
    number: int | None  # of its first line; None if it is in no readable file
    lead: str = ""  # the start of its first line, if it begins inside of one
    trail: str = ""  # the rest of its last line, if it ends inside of one
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()  # whole lines around it; one more after it than is shown


class DiffPart:
    """Shows edits one after the other, each as soon as it is known what it replaces and where."""

    def __init__(
        self, out: list[Line], names: DiffNames, files: Files, *, is_array: bool = False
    ) -> None:
        self._out = out
        self._names = names
        self._depth = 2 if is_array else 0  # of the object that is an edit
        self._plain = PlainPart(out)
        self._path_part = TitlePart(out, self._offer_path)
        self._edits: list[Edit] = []
        self._current = 0  # the first that is not shown to its end
        self._files = files
        self._path: str | None = None
        self._is_path_open = True

    def settle_path(self, path: str | None) -> None:
        """Set the file that the call is about; None if it does not say."""
        self._path = path
        self._is_path_open = False
        self._go_on()

    def take(self, event: ArgumentEvent) -> None:
        if isinstance(event, ToolArgsDelta):
            return
        path = event.path
        if len(path) == self._depth + 1:
            self._take_field(self._edit(path[:-1]), path, event)
        elif len(path) > self._depth + 1:
            self._plain.take(event)
        else:
            self._take_outer(path, event)
        self._go_on()

    def growing(self, rows: int) -> list[Line]:
        lines = self._path_part.growing(rows) + self._plain.growing(rows)
        for edit in reversed(self._edits[self._current :]):
            if len(lines) >= rows:
                break
            lines = edit.growing(rows) + lines
        return lines[-rows:]

    def finish(self) -> None:
        self._is_path_open = False
        for edit in self._edits:
            edit.is_over = True
        self._path_part.finish()
        self._plain.finish()
        self._go_on()

    def _edit(self, prefix: JsonPath) -> "Edit":
        if not self._edits or self._edits[-1].prefix != prefix:
            self._edits.append(Edit(self._out, prefix))
        return self._edits[-1]

    def _take_outer(self, path: JsonPath, event: ArgumentEvent) -> None:
        if isinstance(event, ArgumentStarted) and event.kind in {"array", "object"}:
            return  # its parts will say more
        self._plain.take(event)
        if isinstance(event, ArgumentCompleted) and isinstance(event.value, dict) and event.value:
            self._edit(path).is_over = True

    def _take_field(self, edit: "Edit", path: JsonPath, event: ArgumentEvent) -> None:
        name = path[-1]
        if isinstance(event, ArgumentStarted) and event.kind == "string":
            if name in self._names.old:
                edit.old = edit.old or _Side("-", path)
            elif name in self._names.new:
                edit.new = edit.new or _Side("+", path)
        side = next((one for one in (edit.old, edit.new) if one and one.path == path), None)
        if side is not None:
            if isinstance(event, ArgumentDelta):
                side.add(event.text)
            elif isinstance(event, ArgumentCompleted):
                side.value = event.value
            edit.compare()
        elif name in self._names.path and self._depth:
            edit.path_at = path if edit.path is None else edit.path_at
            self._path_part.take(event)
        else:
            if isinstance(event, ArgumentCompleted) and name in _EVERYWHERE:
                edit.is_everywhere = event.value is True
            self._plain.take(event)

    def _offer_path(self, path: Any) -> bool:
        """Use a path for the newest edit, which says it where it is shown, unless it is late."""
        edit = self._edits[-1]
        if not isinstance(path, str) or edit.has_begun or edit.path is not None:
            return False
        edit.path = path
        return True

    def _go_on(self) -> None:
        while self._current < len(self._edits):
            edit = self._edits[self._current]
            if not edit.has_begun:
                if not self._is_ready(edit):
                    return
                if not edit.can_begin:
                    edit.show_plainly()
                    self._current += 1
                    continue
                self._begin(edit)
            if not edit.is_written and not edit.is_over:
                return
            edit.finish()
            if (path := self._path_of(edit)) is not None:
                self._files.change(path, edit.changed)  # of which more may be said
            self._current += 1

    def _is_ready(self, edit: "Edit") -> bool:
        """Return whether it is known what an edit replaces, and where, or that it never will be."""
        if not edit.can_begin:
            return edit.is_over
        if self._path_of(edit) is not None:
            return True
        may_have_own = self._depth > 0 and bool(self._names.path) and not edit.is_over
        return not self._is_path_open and not may_have_own

    def _path_of(self, edit: "Edit") -> str | None:
        return self._path if edit.path is None else edit.path

    def _begin(self, edit: "Edit") -> None:
        old = edit.old_text
        path = self._path_of(edit)
        text = None if path is None else self._files.text(path)
        place = locate(old, text)
        heading = self._where(edit, place) if self._depth else []
        if text is not None and path is not None and old and place.number is None:
            heading.append(Span(f"(text not found in {visible_line(path)})", "warning"))
        elif place.places > 1:
            heading.append(Span(f"({place.places} places)", "warning"))
        if heading:
            self._out.append(said(*heading))
        edit.begin(place)

    def _where(self, edit: "Edit", place: Place) -> list[Span]:
        file = "" if edit.path is None else f"{visible_line(edit.path)}, "
        where = path_name(edit.prefix) if place.number is None else f"line {place.number}"
        return [Span(f"@@ {file}{where} @@ ", "place")]


class Hunk:
    """Writes the changes of one place as they settle."""

    def __init__(self, out: list[Line], place: Place) -> None:
        self._out = out
        self._place = place
        self._old_number = self._new_number = place.number
        self._leading: list[str] | None = []  # equal lines before the first change, or before 3
        self._equal = 0  # so many since the last change
        self._is_changed = False

    def growing(self, held: Sequence[str], new: "_Side") -> list[Line]:
        """Return the lines that are not final. The held ones may turn out to be equal."""
        texts = [(" ", text) for text in self._leading or ()] + [("+", text) for text in held]
        lines = [
            diff_line(sign, text.removesuffix("\n"), _number(self._new_number, index))
            for index, (sign, text) in enumerate(texts)
        ]
        return lines + new.growing_line(_number(self._new_number, len(lines)))

    def take(self, changes: Iterable[Change]) -> None:
        for sign, text in changes:
            if sign == " " and self._leading is not None and len(self._leading) < CONTEXT:
                self._leading.append(text)
                continue
            self._begin()
            self._write(sign, text)

    def end(self, after: Sequence[str]) -> None:
        self._begin()
        if not self._is_changed:
            self._out.append(_note("nothing changes"))
        for text in after[: max(CONTEXT - self._equal, 0)]:
            self._write(" ", text)

    def leave_open(self, rest: Sequence[str]) -> None:
        """Write the old lines whose fate is unknown: the new text was cut off."""
        self._begin()
        if rest:
            self._out.append(_note("incomplete edit: these lines may be removed"))
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


class _Side:
    def __init__(self, sign: Sign, path: JsonPath) -> None:
        self.sign = sign
        self.path = path
        self.value: str | None = None  # once it is complete
        self.text = GrowingText()
        self.lines: list[str] = []  # complete, and not yet compared

    def add(self, text: str) -> None:
        self.lines += self.text.add(text)

    def so_far(self) -> str:
        """Return what came, if nothing of it was compared."""
        return "\n".join([*self.lines, self.text.whole()]) if self.value is None else self.value

    def growing(self, rows: int) -> list[Line]:
        lines = [diff_line(self.sign, line) for line in self.lines[-rows:]]
        return lines + self.growing_line()

    def growing_line(self, number: int | None = None) -> list[Line]:
        length = self.text.length
        return (
            [diff_line(self.sign, self.text.tail(), number, cut=self.text.is_cut)] if length else []
        )


class Edit:
    """Collects the old and the new text until the diff can begin, then shows it."""

    def __init__(self, out: list[Line], prefix: JsonPath) -> None:
        self._out = out
        self.prefix = prefix
        self.old: _Side | None = None
        self.new: _Side | None = None
        self.path: str | None = None  # of its file, if it says so itself
        self.path_at: JsonPath = ()  # where it says so
        self.is_everywhere = False
        self.is_over = False  # nothing more comes that belongs to it
        self._hunk: Hunk | None = None
        self._diff = StreamingDiff(())
        self._place = Place(0, None)
        self._is_first = True  # whether the first new line is still to come

    @property
    def old_text(self) -> str:
        return (self.old and self.old.value) or ""

    @property
    def can_begin(self) -> bool:
        return self.old is not None and self.old.value is not None and self.new is not None

    @property
    def has_begun(self) -> bool:
        return self._hunk is not None

    @property
    def is_written(self) -> bool:
        return self.new is not None and self.new.value is not None

    def begin(self, place: Place) -> None:
        """Show the diff from now on: the old text is complete and stands here."""
        self._place = place
        self._hunk = Hunk(self._out, place)
        self._diff = StreamingDiff(lines_of(place.lead + self.old_text + place.trail))
        self.compare()

    def compare(self) -> None:
        """Show what is certain of the new text so far, if the diff has begun."""
        if self._hunk is None or self.new is None:
            return
        lines, self.new.lines = self.new.lines, []
        for line in lines:
            self._hunk.take(self._diff.add(self._whole(line) + "\n"))
        if self.new.value is not None:
            self._end(self._hunk, self.new)

    def growing(self, rows: int) -> list[Line]:
        if self._hunk is None or self.new is None:
            sides = [side for side in (self.old, self.new) if side is not None]
            sides.sort(key=lambda side: side.value is None)  # what grows is last
            lines = [line for side in sides for line in side.growing(rows)]
        elif self.new.value is None:
            lines = self._hunk.growing(self._diff.held, self.new)
        else:
            lines = []
        return lines[-rows:]

    def finish(self) -> None:
        if self._hunk is not None and self.new is not None and self.new.value is None:
            self._hunk.take(self._diff.cut())
            if last := self.new.text.end():
                self._hunk.take(self._diff.add(self._whole(last) + "\n") + self._diff.cut())
            self._hunk.leave_open(self._diff.rest)

    def show_plainly(self) -> None:
        """Show an edit that lacks one of its texts."""
        found = [] if self.path is None else [(self.path_at, self.path)]
        found += [(side.path, side.so_far()) for side in (self.old, self.new) if side is not None]
        for path, text in found:
            PlainPart(self._out).take(ArgumentCompleted("", "", path, text))

    def changed(self, text: str) -> str:
        """Return what the edit makes of the text of its file."""
        if not self.is_written or not self.old_text or self.new is None:
            return text or (self.new and self.new.value) or ""
        return text.replace(self.old_text, self.new.value or "", -1 if self.is_everywhere else 1)

    def _whole(self, line: str) -> str:
        """Return a new line; the first one with what stands before it in the file."""
        is_first, self._is_first = self._is_first, False
        return self._place.lead + line if is_first else line

    def _end(self, hunk: Hunk, new: _Side) -> None:
        last = self._whole(new.text.end())
        if new.value or self._place.number is not None:  # else nothing is left of whole lines
            last += self._place.trail
        after = self._place.after
        joined = after[:1] if last and not last.endswith("\n") else ()
        self._diff.extend(joined)
        if last:
            hunk.take(self._diff.add(last + "".join(joined)))
        hunk.take(self._diff.finish())
        hunk.end(after[len(joined) :])


def locate(old: str, text: str | None) -> Place:
    """Find ``old`` in the text of a file. If it does not occur, it counts as whole lines."""
    if old == text == "":  # nothing is replaced: the place is known only in an empty file
        return Place(1, 1)
    start = text.find(old) if text and old else -1
    if text is None or start < 0:
        return Place(0, None, trail="" if not old or old.endswith("\n") else "\n")
    first = text.rfind("\n", 0, start) + 1
    end = start + len(old)
    last = end if old.endswith("\n") else text.find("\n", end) + 1 or len(text)
    return Place(
        text.count(old),
        text.count("\n", 0, first) + 1,
        text[first:start],
        text[end:last],
        tuple(f"{line}\n" for line in text[:first].rsplit("\n", CONTEXT + 1)[-CONTEXT - 1 : -1]),
        tuple(found[0] for found in islice(_LINES.finditer(text, last), CONTEXT + 1)),
    )


def diff_line(sign: str, text: str, number: int | None = None, *, cut: bool = False) -> Line:
    """Return one line of a diff. A line that is cut shows its end."""
    role = _ROLES.get(sign, "plain")
    told = "" if number is None else str(number)
    margin = (Span(f"{told:>6} ", "faint"), Span(sign, role), Span(" │ ", "faint"))
    ellipsis = (Span("…", "faint"),) if cut else ()
    return Line(ellipsis + source_spans([(text, role)]), margin, _REST, fold=_FOLD)


def _note(text: str) -> Line:
    return Line((Span(text, "faint"),), _OURS)


def _number(first: int | None, index: int) -> int | None:
    return None if first is None else first + index
