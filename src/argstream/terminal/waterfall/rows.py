"""What a waterfall shows, row by row, before it is known whether as text or as a picture.

A call has a row from its name to its verdict; below it one for each argument, from its first
character to its last; for the person who was asked; for its tool; and one for the silence that all
this replaced: what somebody sees who waits for the last brace. Where there are many calls, each has
one row. What stands in a row is harmless: names went through ``sanitise``.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from argstream.jsonstream import JsonPath
from argstream.sanitise import visible_line
from argstream.terminal.waterfall.axis import Stretch
from argstream.terminal.waterfall.timeline import ArgumentTimes, CallTimes, Moment, Timeline
from argstream.terminal.waterfall.words import amount, position
from argstream.terminal.words import path_name

__all__ = [
    "Bar",
    "Look",
    "Mark",
    "Row",
    "RowKind",
    "busy",
    "has_details",
    "name_of",
    "rows_of_calls",
]

Look: TypeAlias = Literal["line", "solid", "waiting", "running", "silence"]
"""The call while only its name is known; an argument; a person who is asked; a tool; nothing."""
Mark: TypeAlias = Literal["", "✓", "✗", "…"]
RowKind: TypeAlias = Literal["call", "argument", "asked", "tool", "silence", "more"]

_DETAILED: Final = 12
"""So many calls are shown with their arguments."""
_MOST_CALLS: Final = 60
_MOST_ARGUMENTS: Final = 6
_LONGEST_LABEL: Final = 200  # a model may write a name of any length; nobody reads it
_DEEPEST: Final = 4


class Bar(NamedTuple):
    """From here to there on the axis."""

    look: Look
    begin: float
    end: float
    mark: Mark = ""
    """What stands at its end."""
    caption: str = ""


class Row(NamedTuple):
    """One line of the picture."""

    kind: RowKind
    label: str
    depth: int = 0
    """How many sub-agents deep."""
    sooner: str = ""
    """How much sooner it was visible than the call was whole."""
    bars: tuple[Bar, ...] = ()


def rows_of_calls(timeline: Timeline) -> Iterator[Row]:
    """Give the rows of all calls, those of sub-agents below the calls that they work for."""
    calls, is_detailed = timeline.calls, has_details(timeline)
    for depth, call in list(_in_order(calls))[:_MOST_CALLS]:
        shown = _Call(call, depth, timeline)
        yield from shown.rows() if is_detailed else (shown.row(),)
    if len(calls) > _MOST_CALLS:
        yield Row("more", f"… and {len(calls) - _MOST_CALLS} more calls")


def has_details(timeline: Timeline) -> bool:
    """Say whether calls are shown with their arguments; many are not."""
    return len(timeline.calls) <= _DETAILED


def busy(timeline: Timeline) -> Iterator[Stretch]:
    """Give the times in which calls were written or tools ran. A person who is asked is no work."""
    unit = timeline.by
    for call in timeline.calls:
        begin, end = position(call.started, unit), position(call.ended or call.last, unit)
        yield Stretch(begin, end)
        for bar in _tool_bars(call, timeline):
            yield Stretch(bar.begin, bar.begin if bar.mark == "✗" else bar.end)


def _in_order(calls: Sequence[CallTimes]) -> Iterator[tuple[int, CallTimes]]:
    """Yield calls with how deep they are, each followed by those of its sub-agent."""
    children: dict[str | None, list[CallTimes]] = {None: []}
    for call in calls:  # a parent has begun before; so nobody is below itself
        above = call.parent_id if call.parent_id in children else None
        children[above].append(call)
        children.setdefault(call.call_id, [])
    waiting = [(0, call) for call in reversed(children.pop(None))]
    while waiting:
        depth, call = waiting.pop()
        yield depth, call
        below = children.pop(call.call_id, [])
        waiting += [(depth + 1, child) for child in reversed(below)]


class _Call:
    """The rows of one call."""

    def __init__(self, call: CallTimes, depth: int, timeline: Timeline) -> None:
        self._call = call
        self._timeline = timeline
        self._depth = min(depth, _DEEPEST)
        self._begin = position(call.started, timeline.by)
        self._end = position(call.ended or call.last, timeline.by)

    def row(self) -> Row:
        """Give all of it in one row: thin while only the name is known, solid from then on."""
        tool = [bar._replace(mark="", caption="") for bar in _tool_bars(self._call, self._timeline)]
        line = self._line()._replace(caption="")
        seen = min(
            (self._at(argument.seen) for argument in self._call.arguments.values()), default=None
        )
        if seen is not None and seen < self._end:
            written = [line._replace(end=seen, mark=""), line._replace(look="solid", begin=seen)]
        else:
            written = [line]
        return self._row("call", self._name(), [*tool, *written], self._begin)

    def rows(self) -> Iterator[Row]:
        """Give all rows of it."""
        call = self._call
        yield self._row("call", self._name(), [self._line()], self._begin)
        yield from self._argument_rows()
        if call.asked is not None:
            asked = self._at(call.asked)
            decided = self._at(call.decided or self._timeline.now)
            mark: Mark = "…" if call.decided is None else ""
            yield self._row("asked", "asks a person", [self._bar("waiting", asked, decided, mark)])
        tool = list(_tool_bars(call, self._timeline))
        if tool:
            yield self._row("tool", "tool runs" if call.executed else "until its result", tool)
        if call.ended is not None:
            quiet = f"{self._amount(self._end - self._begin)} of silence"
            bar = Bar("silence", self._begin, self._end, "", quiet)
            yield self._row("silence", "without argstream", [bar])

    def _argument_rows(self) -> Iterator[Row]:
        arguments = list(self._call.arguments.values())
        shown = arguments if len(arguments) <= _MOST_ARGUMENTS else arguments[: _MOST_ARGUMENTS - 1]
        for argument in shown:
            seen = self._at(argument.seen)
            yield self._row("argument", name_of(argument.path), [self._argument(argument)], seen)
        rest = [self._argument(argument) for argument in arguments[len(shown) :]]
        if rest:
            begin, end = min(bar.begin for bar in rest), max(bar.end for bar in rest)
            mark: Mark = next((bar.mark for bar in rest if bar.mark), "")
            bar = Bar("solid", begin, end, mark)
            yield self._row("argument", f"… and {len(rest)} more", [bar], begin)

    def _argument(self, argument: ArgumentTimes) -> Bar:
        seen = self._at(argument.seen)
        if argument.settled is not None:
            return Bar("solid", seen, self._at(argument.settled))
        return Bar("solid", seen, self._end, "…" if self._call.ended is None else "✗")

    def _line(self) -> Bar:
        verdict = self._call.verdict
        if verdict == "complete":
            return Bar("line", self._begin, self._end, "✓")
        word = verdict or "not complete"
        mark: Mark = "…" if verdict is None else "✗"
        return Bar("line", self._begin, self._end, mark, word)

    def _bar(self, look: Look, begin: float, end: float, mark: Mark = "") -> Bar:
        return Bar(look, begin, end, mark, self._amount(end - begin))

    def _row(
        self, kind: RowKind, label: str, bars: Sequence[Bar], visible: float | None = None
    ) -> Row:
        sooner = ""
        if visible is not None and self._call.ended is not None:
            sooner = self._amount(self._end - visible)
        return Row(kind, label, self._depth, sooner, tuple(bars))

    def _name(self) -> str:
        kind = "" if self._call.kind == "function" else f" ({self._call.kind})"
        return visible_line(self._call.name[:_LONGEST_LABEL]) + kind

    def _at(self, moment: Moment) -> float:
        return position(moment, self._timeline.by)

    def _amount(self, value: float) -> str:
        return amount(value, self._timeline.by)


def _tool_bars(call: CallTimes, timeline: Timeline) -> Iterator[Bar]:
    """Give when the tool of a call ran, as far as that is known.

    Who runs a tool elsewhere tells only when the result was there. An attempt that a crash cut off
    is drawn up to the next one, or to where it was noticed.
    """
    starts = call.executed or _allowed_elsewhere(call)
    ends = [*starts[1:], call.finished or timeline.now]
    for attempt, (start, end) in enumerate(zip(starts, ends, strict=False)):
        begin, until = position(start, timeline.by), position(end, timeline.by)
        if attempt < call.interruptions:
            yield Bar("running", begin, until, "✗", "cut off")
        else:
            mark: Mark = "" if call.finished is not None else "…"
            yield Bar("running", begin, until, mark, amount(until - begin, timeline.by))


def _allowed_elsewhere(call: CallTimes) -> list[Moment]:
    """Say from when on somebody else may have run the tool, if its result came after that."""
    if call.asked is not None:
        allowed = call.decided if call.decision in ("approved", "edited") else None
    else:
        allowed = call.ended if call.verdict == "complete" else None
    if allowed is None or call.finished is None or call.finished == allowed:
        return []
    return [allowed]


def name_of(path: JsonPath) -> str:
    """Write a path as one reads it; free text has none."""
    return path_name(path)[:_LONGEST_LABEL] if path else "(text)"
