"""When each call and argument of a stream became visible, and when each tool ran.

``Timeline.note`` records the times of events as they arrive, or with the times of a recording or a
log. A log has no ``Argument…`` events: ``argstream.runs._run`` computes them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, NamedTuple, TypeAlias

from argstream import events as ev
from argstream.history import CallKind
from argstream.jsonstream import JsonPath
from argstream.providers._deltas import FREE_TEXT_KINDS
from argstream.sanitise import visible_line
from argstream.terminal._text import duration, path_name, size

__all__ = [
    "ArgumentTimes",
    "CallTimes",
    "Moment",
    "Stretch",
    "Timeline",
    "Unit",
    "amount",
    "conclusion",
    "length",
    "merged",
    "name_of",
    "nested",
    "position",
    "silence",
    "written",
]

Unit: TypeAlias = Literal["seconds", "bytes"]
Stretch: TypeAlias = tuple[float, float]

_LONGEST_NAME: Final = 40
_ENDS: Final = {
    "complete": "the last brace",
    "truncated": "the call was found cut off",
    "malformed": "the call was found malformed",
    "rejected": "the call was refused",
    "aborted": "the call was broken off",
}


class Moment(NamedTuple):
    """A point in a stream: seconds since the start, and bytes received until then."""

    at: float = 0.0
    byte: int = 0


@dataclass
class ArgumentTimes:
    """When the first character of an argument arrived, and the last (None if it never did)."""

    path: JsonPath
    seen: Moment
    settled: Moment | None = None


@dataclass
class CallTimes:
    """A tool call and when it reached each state; None for a state that it did not reach."""

    call_id: str
    name: str
    kind: CallKind
    parent_id: str | None
    started: Moment  # when the tool's name was visible
    last: Moment  # of its text or its verdict
    ended: Moment | None = None  # when it had its verdict
    verdict: ev.Verdict | None = None
    arguments: dict[JsonPath, ArgumentTimes] = field(default_factory=dict)
    asked: Moment | None = None
    decided: Moment | None = None
    decision: ev.ApprovalOutcome | None = None
    executed: list[Moment] = field(default_factory=list)  # one per attempt
    interruptions: int = 0  # attempts that a crash ended; how long they ran is unknown
    finished: Moment | None = None

    def attempts(self, now: Moment) -> list[tuple[Moment, Moment]]:
        """Return when the tool ran, as far as is known, until ``now``.

        An attempt that a crash ended reaches to the next one. A tool that another process runs has
        only a result; its attempt starts when the call was allowed.
        """
        starts = self.executed
        if not starts and self.finished:
            is_allowed, allowed = self.verdict == "complete", self.ended
            if self.asked:
                is_allowed, allowed = self.decision in ("approved", "edited"), self.decided
            starts = [allowed] if is_allowed and allowed and allowed != self.finished else []
        return list(zip(starts, [*starts[1:], self.finished or now], strict=False))


class Timeline:
    """The times of the calls in a stream or a run.

    >>> timeline = Timeline()
    >>> timeline.note(ev.ToolCallStarted("c1", 0, "write"), at=20.0)
    >>> timeline.note(ev.ArgumentStarted("c1", "write", ("path",), "string"), at=20.5)
    >>> timeline.calls[0].arguments["path",].seen.at
    0.5
    """

    def __init__(
        self, *, origin: float | None = None, by: Unit = "seconds", is_deep: bool = False
    ) -> None:
        """Measure from ``origin``, or from the first event if it is None.

        A stream without times is measured in bytes. ``is_deep`` includes the values inside of
        arguments.
        """
        self.by: Unit = by
        self.now: Moment = Moment()  # of the last event
        self.calls: list[CallTimes] = []  # in the order in which they started
        self.stop_reasons: list[str | None] = []
        self.failures: list[str] = []  # messages of streams and of the run
        self._origin = origin
        self._is_deep = is_deep
        self._calls: dict[str, CallTimes] = {}  # the newest of each ID: turns may repeat IDs

    def note(self, event: ev.Event, at: float, *, byte: int = 0) -> None:
        """Record an event at a time in seconds, by any clock, after so many bytes.

        A time before the previous one counts as the previous one. Events of a call whose start is
        unknown are ignored.
        """
        self._origin = at if self._origin is None else self._origin
        seconds = round(at - self._origin, 6)
        self.now = now = Moment(max(self.now.at, seconds), max(self.now.byte, byte))
        match event:
            case ev.ToolCallStarted(id_, _, name, kind, parent):
                self._calls[id_] = CallTimes(id_, name, kind, parent, now, now)
                self.calls.append(self._calls[id_])
            case ev.TurnCompleted(stop_reason=reason):
                self.stop_reasons.append(reason)
            case ev.StreamFailed(message=message) | ev.RunFailed(message=message):
                self.failures.append(message)
            case ev.RunResumed(cause="crash", interrupted=interrupted):
                for call_id in self._calls.keys() & interrupted:
                    self._calls[call_id].interruptions += 1
            case _:
                call = self._calls.get(getattr(event, "call_id", None) or "")
                if call is not None:
                    self._note_call(call, event)

    def _note_call(self, call: CallTimes, event: ev.Event) -> None:
        now = self.now
        call.name = getattr(event, "name", call.name)  # some servers send it in pieces
        match event:
            case ev.ToolArgsDelta() if call.kind in FREE_TEXT_KINDS:
                call.arguments.setdefault((), ArgumentTimes((), now))
            case ev.ArgumentStarted(path=path) if self._is_deep or len(path) == 1:
                call.arguments.setdefault(path, ArgumentTimes(path, now))
            case ev.ArgumentCompleted(path=path) if path in call.arguments:
                call.arguments[path].settled = now
            case ev.ToolArgsInvalid(verdict=verdict):
                call.ended, call.verdict = now, verdict
            case ev.ToolArgsCompleted():
                call.ended, call.verdict = now, "complete"
                if () in call.arguments:
                    call.arguments[()].settled = now
            case ev.ApprovalRequested():
                call.asked = now
            case ev.ApprovalDecided(decision=decision):
                call.decided, call.decision = now, decision
            case ev.ToolExecutionStarted():
                call.executed.append(now)
            case ev.ToolCallCompleted() | ev.ToolCallFailed():
                call.finished = now
        if event.type.startswith(("tool_args_", "argument_")):
            call.last = now


def silence(timeline: Timeline) -> float:
    """Return how long calls were written; a client that shows only whole calls waits that long.

    Time in which several calls were written is counted once.
    """
    unit = timeline.by
    return length(merged(written(call, unit) for call in timeline.calls if call.ended))


def conclusion(timeline: Timeline) -> str:
    """Return a sentence that sums up the waterfall, or "" if no call has ended."""
    ended = [call for call in timeline.calls if call.ended]
    if not ended:
        return ""
    if (quiet := silence(timeline)) <= 0:
        which = "The call" if len(ended) == 1 else "Each call"
        return f"{which} came whole: there was no silence to replace."
    in_words = partial(amount, unit=timeline.by)
    replaced = f"{in_words(quiet)} of silence were replaced"
    if timeline.by == "bytes":
        replaced = f"{in_words(quiet)} were shown that would have been waited for"

    def lead(call: CallTimes) -> float:
        _, end = written(call, timeline.by)
        return end - min(
            (position(one.seen, timeline.by) for one in call.arguments.values()), default=end
        )

    best = max(ended, key=lambda call: round(lead(call), 3))
    if lead(best) <= 0:
        return f"In all, {replaced}."
    of = f" of {_short(best.name)}" if len(timeline.calls) > 1 else ""
    is_text = best.kind in FREE_TEXT_KINDS and best.verdict == "complete"
    end = "the last character" if is_text else _ENDS[best.verdict or "aborted"]
    early = f"The first argument{of} was visible {in_words(lead(best))} before {end}"
    return f"{early}{'; in all,' if len(ended) > 1 else ':'} {replaced}."


def name_of(path: JsonPath) -> str:
    """Return the name of an argument as it is shown; a free text has none."""
    return path_name(path)[:200] if path else "(text)"


def position(moment: Moment, unit: Unit) -> float:
    """Return where a moment is on an axis of this unit."""
    return moment.at if unit == "seconds" else moment.byte


def nested(calls: Iterable[CallTimes]) -> Iterator[tuple[int, CallTimes]]:
    """Yield calls with their depth, each followed by the calls of its sub-agent."""
    children: dict[str | None, list[CallTimes]] = {None: []}
    for call in calls:  # a parent starts before its children, so there are no cycles
        children[call.parent_id if call.parent_id in children else None].append(call)
        children.setdefault(call.call_id, [])
    stack = [(0, call) for call in reversed(children.pop(None))]
    while stack:
        depth, call = stack.pop()
        yield depth, call
        stack += [(depth + 1, child) for child in reversed(children.pop(call.call_id, []))]


def written(call: CallTimes, unit: Unit) -> Stretch:
    """Return when a call was written: from its name to its verdict, or as far as it has come."""
    return position(call.started, unit), position(call.ended or call.last, unit)


def amount(value: float, unit: Unit) -> str:
    """Return a duration or a size as text."""
    return duration(value) if unit == "seconds" else size(round(value))


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return these stretches in order, with those joined that touch or overlap."""
    joined: list[Stretch] = []
    for begin, end in sorted(stretches):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def length(stretches: Iterable[Stretch]) -> float:
    """Return how long these stretches are together."""
    return sum(end - begin for begin, end in stretches)


def _short(name: str) -> str:
    shown = visible_line(name[: _LONGEST_NAME + 1])
    return shown if len(shown) <= _LONGEST_NAME else shown[:_LONGEST_NAME] + "…"
