"""What a waterfall comes to, in figures: computed from what was noted, never made up."""

from typing import Final

from argstream.sanitise import visible_line
from argstream.terminal.waterfall.axis import Axis, Stretch, merged
from argstream.terminal.waterfall.rows import has_details
from argstream.terminal.waterfall.timeline import CallTimes, Timeline
from argstream.terminal.waterfall.words import amount, position

__all__ = ["CUT", "conclusion", "lead", "notes", "silence"]

CUT: Final = "╱"  # noqa: RUF001 - a line of a drawing, no slash
"""Where something of the axis is left out."""
_LONGEST_NAME: Final = 40
_ENDS: Final = {
    "complete": "the last brace",
    "truncated": "the call was found cut off",
    "malformed": "the call was found malformed",
    "rejected": "the call was refused",
    "aborted": "the call was broken off",
}


def silence(timeline: Timeline) -> float:
    """Say for how long who waits for the ends of calls would have seen nothing of them.

    Calls that are written side by side share their silence: it is counted once.
    """
    unit = timeline.by
    written = (
        Stretch(position(call.started, unit), position(call.ended, unit))
        for call in timeline.calls
        if call.ended is not None
    )
    return sum(end - begin for begin, end in merged(written))


def lead(call: CallTimes, timeline: Timeline) -> float:
    """Say how long before the call's end its first argument was visible; 0 if none was."""
    if call.ended is None or not call.arguments:
        return 0.0
    first = min(position(argument.seen, timeline.by) for argument in call.arguments.values())
    return position(call.ended, timeline.by) - first


def conclusion(timeline: Timeline) -> str:
    """Say it in a sentence; "" if no call has come to its end."""
    ended = [call for call in timeline.calls if call.ended is not None]
    if not ended:
        return ""
    unit, quiet = timeline.by, silence(timeline)
    if quiet <= 0:
        which = "The call" if len(ended) == 1 else "Each call"
        return f"{which} came whole: there was no silence to replace."
    replaced = (
        f"{amount(quiet, unit)} of silence were replaced"
        if unit == "seconds"
        else f"{amount(quiet, unit)} were shown that would have been waited for"
    )
    best = max(ended, key=lambda call: round(lead(call, timeline), 3))
    early = lead(best, timeline)
    if early <= 0:
        return f"In all, {replaced}."
    of = f" of {_short(best.name)}" if len(timeline.calls) > 1 else ""
    joint = "; in all," if len(ended) > 1 else ":"
    return (
        f"The first argument{of} was visible {amount(early, unit)} before {_end(best)}"
        f"{joint} {replaced}."
    )


def notes(timeline: Timeline, axis: Axis) -> list[str]:
    """Say how to read the picture, where that is not plain."""
    said = []
    if not has_details(timeline):
        said.append(
            f"There are {len(timeline.calls)} calls, so each has one row: thin while only its name "
            "was known, solid from its first argument on, then its tool."
        )
    if axis.gaps:
        left_out = amount(sum(end - begin for begin, end in axis.gaps), axis.unit)
        empty = "no call was written"
        if axis.unit == "seconds":
            empty += " and no tool is known to have run"
        said.append(f"{CUT * 2} {left_out} are left out, in which {empty}.")
    return said


def _end(call: CallTimes) -> str:
    if call.is_free_text and call.verdict == "complete":
        return "the last character"
    return _ENDS[call.verdict or "aborted"]


def _short(name: str) -> str:
    shown = visible_line(name[: _LONGEST_NAME + 1])
    return shown if len(shown) <= _LONGEST_NAME else shown[:_LONGEST_NAME] + "…"
