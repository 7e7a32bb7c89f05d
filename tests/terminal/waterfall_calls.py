"""Calls with given times, as events: what the tests of the waterfall draw."""

from collections.abc import Iterable, Sequence
from typing import Literal

from hypothesis import strategies as st

from argstream.events import (
    ApprovalDecided,
    ApprovalRequested,
    ArgumentCompleted,
    ArgumentsError,
    ArgumentStarted,
    CallKind,
    Event,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallStarted,
    ToolExecutionStarted,
    Verdict,
)
from argstream.terminal.waterfall import Timeline

Timed = tuple[float, Event]
Argument = tuple[str, float, float | None]
"""Its name, when it was first seen and when it settled, in seconds since the call began."""


def call(
    at: float,
    name: str,
    arguments: Sequence[Argument] = (),
    *,
    took: float,
    verdict: Verdict | None = "complete",
    kind: CallKind = "function",
    call_id: str = "",
    parent: str | None = None,
    asked: float | None = None,
    ran: float | None = None,
) -> list[Timed]:
    """A call that is written, perhaps asked about, and perhaps run."""
    id_ = call_id or name
    end = at + took
    events: list[Timed] = [(at, ToolCallStarted(id_, 0, name, kind, parent))]
    for argument, seen, settled in arguments:
        if kind == "custom":
            events.append((at + seen, ToolArgsDelta(id_, name, "text")))
            continue
        events.append((at + seen, ArgumentStarted(id_, name, (argument,), "string")))
        if settled is not None:
            events.append((at + settled, ArgumentCompleted(id_, name, (argument,), "")))
    if verdict == "complete":
        events.append((end, ToolArgsCompleted(id_, name, {})))
    elif verdict is not None:
        error = ArgumentsError("a_reason", "a message")
        events.append((end, ToolArgsInvalid(id_, name, verdict, "", error)))
    if asked is not None:
        events.append((end, ApprovalRequested(id_, name, {}, "digest", "a reason")))
        end += asked
        events.append((end, ApprovalDecided(id_, name, "approved")))
    if ran is not None:
        events.append((end, ToolExecutionStarted(id_, name, "key")))
        events.append((end + ran, ToolCallCompleted(id_, name, {}, None)))
    return events


def noted(*calls: Iterable[Timed], by: Literal["seconds", "bytes"] = "seconds") -> Timeline:
    """All of them, on one timeline; a second is a thousand bytes."""
    timeline = Timeline(origin=0.0, by=by)
    events = sorted((event for one in calls for event in one), key=lambda event: event[0])
    for at, event in events:
        timeline.note(event, at, byte=round(at * 1000))
    return timeline


WORK = (
    call(0.6, "read_file", [("path", 0.2, 0.4)], took=0.5, ran=0.2),
    call(1.5, "write_file", [("path", 0.3, 0.5), ("content", 0.6, 8.0)], took=8.2, ran=0.3),
    call(10.5, "edit_file", [("old", 0.4, 0.9), ("new", 1.0, 1.9)], took=2.0, asked=0.8, ran=0.1),
    call(13.5, "run_command", [("command", 0.2, None)], took=0.7, verdict="rejected"),
)
"""An agent that writes, asks and is refused something."""

_lengths = st.integers(0, 100_000).map(lambda milliseconds: milliseconds / 1000)
_names = st.sampled_from(["path", "a name that is longer than any column", "名前", "\x1b[2J", ""])


@st.composite
def _call(draw: st.DrawFn, number: int) -> list[Timed]:
    took = draw(_lengths)
    shares = st.tuples(st.integers(0, 8), st.integers(0, 8), st.booleans())
    arguments: list[Argument] = [
        (f"{index}", min(one, other) / 8 * took, max(one, other) / 8 * took if settles else None)
        for index, (one, other, settles) in enumerate(draw(st.lists(shares, max_size=8)))
    ]
    return call(
        draw(st.integers(0, 10_000)),
        draw(_names),
        arguments,
        took=took,
        verdict=draw(st.sampled_from(["complete", "rejected", None])),
        kind=draw(st.sampled_from(["function", "custom"])),
        call_id=str(number),
        parent=draw(st.sampled_from([None, "0", "1", str(number), "nobody"])),
        asked=draw(st.none() | _lengths),
        ran=draw(st.none() | _lengths),
    )


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    """Any calls, one after the other or side by side, some of sub-agents."""
    calls = [draw(_call(number)) for number in range(draw(st.sampled_from([1, 2, 3, 13])))]
    return noted(*calls, by=draw(st.sampled_from(["seconds", "bytes"])))
