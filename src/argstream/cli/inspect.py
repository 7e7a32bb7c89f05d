"""``argstream inspect``: what is in a recording, and when each argument became visible."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from argstream.adapters import ProtocolName
from argstream.cli._columns import fit, padded
from argstream.cli._input import UnreadableFile, complain, recording_in
from argstream.cli._timeline import timeline_of
from argstream.cli._waterfall import Picture, show_waterfall
from argstream.recording import Recording
from argstream.sanitise import visible_line
from argstream.terminal.waterfall import ArgumentTimes, CallTimes, Moment, Timeline, Unit, name_of
from argstream.terminal.waterfall.words import position
from argstream.terminal.words import count, size

__all__ = ["inspect_file"]

_WIDTH = 79
_NAME_WIDTH = 25


def inspect_file(
    file: str,
    protocol: ProtocolName,
    *,
    as_json: bool,
    is_deep: bool,
    picture: Picture | None = None,
) -> int:
    """Tell what is in a recording, or in a provider's plain stream; draw a picture if asked to.

    Returns the exit status: 0 if all is well, 1 if a call is not complete or the stream is broken,
    2 if it cannot be read, or the picture not be written.
    """
    try:
        recording = recording_in(file, pace=0.0)
    except UnreadableFile as error:
        complain(str(error))
        return 2
    timeline, spoken = timeline_of(recording, protocol, is_deep=is_deep)
    if picture is not None and not picture.write(timeline, Path(file).name):
        return 2
    if as_json:
        sys.stdout.write(json.dumps(_document(file, spoken, recording, timeline)) + "\n")
    else:
        for line in _report(file, spoken, recording, timeline):
            sys.stdout.write(line.rstrip() + "\n")
        show_waterfall(timeline)
    sys.stdout.flush()
    for failure in timeline.failures:
        complain(visible_line(failure))
    is_whole = all(call.verdict == "complete" for call in timeline.calls)
    return 0 if is_whole and not timeline.failures else 1


# For programs


def _document(file: str, protocol: str, recording: Recording, timeline: Timeline) -> dict[str, Any]:
    header, has_times = recording.header, recording.has_times
    document: dict[str, Any] = {"file": file, "protocol": protocol}
    if has_times:
        document |= {"recorded": header.recorded, "seconds": recording.end.at}
        document |= {"ending": recording.ending, "removed": recording.end.removed}
    if header.response is not None:
        document["status"] = header.response.status
    return document | {
        "bytes": len(recording.data),
        "chunks": len(recording.chunks) if has_times else None,
        "turns": [{"stop_reason": reason} for reason in timeline.stop_reasons],
        "calls": [_call_document(times, timeline.by) for times in timeline.calls],
        "failures": timeline.failures,
    }


def _call_document(times: CallTimes, by: Unit) -> dict[str, Any]:
    def moment(when: Moment | None) -> dict[str, Any] | None:
        if when is None:
            return None
        share = {"share": _share(when, times, by)}
        return {**({"at": when.at} if by == "seconds" else {}), "byte": when.byte, **share}

    return {
        "id": times.call_id,
        "name": times.name,
        "kind": times.kind,
        "verdict": times.verdict,
        "started": moment(times.started),
        "ended": moment(times.ended),
        "arguments": [
            {
                "path": list(argument.path),
                "seen": moment(argument.seen),
                "settled": moment(argument.settled),
            }
            for argument in times.arguments.values()
        ],
    }


# For people


def _report(file: str, protocol: str, recording: Recording, timeline: Timeline) -> Iterator[str]:
    yield f"{visible_line(file)}: {protocol}"
    yield from _summary(recording, timeline)
    for times in timeline.calls:
        yield ""
        yield from _call_lines(times, timeline.by)


def _summary(recording: Recording, timeline: Timeline) -> Iterator[str]:
    header = recording.header
    if header.request is not None and header.response is not None:
        told = f"{header.request.method} {header.request.url}"
        yield fit(f"{visible_line(told)}: {header.response.status}", _WIDTH)
    bytes_ = size(len(recording.data))
    if recording.has_times:
        yield f"recorded {visible_line(header.recorded)}, {recording.end.at:.2f} s, {bytes_}"
        yield fit(
            f"{count(len(recording.chunks), 'chunk')}, ended {recording.ending}"
            + (f": {visible_line(recording.end.reason)}" if recording.end.reason else ""),
            _WIDTH,
        )
    else:
        yield f"no recording, so without times; {bytes_}"
    if recording.end.removed:
        yield f"{count(recording.end.removed, 'secret')} taken out: [removed] stands there instead"
    reasons = ", ".join(visible_line(reason or "?") for reason in timeline.stop_reasons)
    turns = count(len(timeline.stop_reasons), "turn") + (f" ({reasons})" if reasons else "")
    yield fit(f"{turns}, {count(len(timeline.calls), 'call')}", _WIDTH)


def _call_lines(times: CallTimes, by: Unit) -> Iterator[str]:
    what = "" if times.kind == "function" else f"  ({times.kind})"
    verdict = f"  {times.verdict}"
    title = fit(f"● {visible_line(times.name)}{what}  {visible_line(times.call_id)}", _WIDTH - 14)
    yield title + verdict
    span = f"  from {_place(times.started, by)}"
    if times.ended is not None:
        span += f" to {_place(times.ended, by)}"
    yield span
    if not times.arguments:
        yield "  no arguments"
        return
    yield f"    {'argument':<{_NAME_WIDTH}}{'first seen':>16}{'settled':>17}{'before the end':>17}"
    for argument in times.arguments.values():
        yield _argument_line(argument, times, by)


def _argument_line(argument: ArgumentTimes, times: CallTimes, by: Unit) -> str:
    def column(when: Moment | None, width: int) -> str:
        if when is None:
            return f"{'–':>{width}}"
        share = _share(when, times, by)
        percent = "" if share is None else f"{share:>6.0%}"
        return f"{_place(when, by) + percent:>{width}}"

    early = ""
    if argument.settled is not None and times.ended is not None:
        early = _distance(argument.settled, times.ended, by)
    name = padded(fit(name_of(argument.path), _NAME_WIDTH - 1), _NAME_WIDTH)
    return f"    {name}{column(argument.seen, 16)}{column(argument.settled, 17)}{early:>17}"


def _share(when: Moment, times: CallTimes, by: Unit) -> float | None:
    """Say how much of the call had passed; None if it took no time."""
    if times.ended is None:
        return None
    first, last = position(times.started, by), position(times.ended, by)
    return round((position(when, by) - first) / (last - first), 4) if last > first else None


def _place(when: Moment, by: Unit) -> str:
    return f"{when.at:.2f} s" if by == "seconds" else f"byte {when.byte}"


def _distance(first: Moment, last: Moment, by: Unit) -> str:
    far = position(last, by) - position(first, by)
    return f"{far:.2f} s" if by == "seconds" else f"{far} bytes"
