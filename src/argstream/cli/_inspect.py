"""``argstream inspect``: what is in a recording or a run, and when each argument became visible.

Each function returns the exit status. ``main`` handles errors: they exit with 2.
"""

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, Final, Literal, NamedTuple

import msgspec

from argstream.cli._io import complain, recording_in
from argstream.cli._setup import find_run, fit, opened, padded, seconds_in_words, terminal_width
from argstream.events import (
    CallSnapshot,
    Event,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunResumed,
    RunSnapshot,
    RunStopped,
    TurnCompleted,
    TurnStarted,
)
from argstream.providers import ProtocolName
from argstream.recording import Recording
from argstream.runs._records import Record, RunInfo
from argstream.runs._run import ArgumentEvents, SnapshotBuilder
from argstream.sanitise import visible_line
from argstream.streaming import stream
from argstream.terminal._layout import rows_of
from argstream.terminal._screen import Palette
from argstream.terminal._text import count, size, token_counts
from argstream.terminal.timeline import ArgumentTimes, CallTimes, Moment, Unit, name_of, position
from argstream.terminal.waterfall import Timeline, draw, svg

_WIDTH: Final = 79
_NAME_WIDTH: Final = 25


def show_waterfall(timeline: Timeline) -> None:
    columns = get_terminal_size().columns - 1
    palette = Palette.of(sys.stdout)
    lines = draw(timeline, columns)
    if lines:
        sys.stdout.write("\n")
    for line in lines:
        for row in rows_of(line, columns):
            sys.stdout.write(palette.ansi(row).rstrip() + "\n")


class Picture(NamedTuple):
    file: str
    overwrite: bool = False

    def write(self, timeline: Timeline, about: str) -> bool:
        """Write it. Return whether that went well; if not, complain."""
        name = visible_line(self.file)
        if not timeline.calls:
            complain(f"there is no call in it, so there is nothing to draw in {name}")
            return False
        try:
            with Path(self.file).open("w" if self.overwrite else "x", encoding="utf-8") as file:
                file.write(svg(timeline, about))
        except FileExistsError:
            complain(f"{name} already exists. Name another file, or use --force")
            return False
        except OSError as error:
            complain(f"cannot write {name}: {error.strerror}")
            return False
        return True


def timeline_of(
    recording: Recording, protocol: ProtocolName, *, is_deep: bool
) -> tuple[Timeline, str]:
    """Return the times in a recording, and its protocol.

    ``is_deep`` includes the values inside of arguments.

    """
    now = Moment()

    def lines() -> Iterator[bytes]:
        """Yield the lines. The events of one are handled before the next is read."""
        nonlocal now
        sizes = [0, *(len(chunk.data) for chunk in recording.chunks), 0]
        for (at, line), length in zip(recording.lines(), sizes, strict=True):
            now = Moment(at, now.byte + length)
            yield line

    by: Unit = "seconds" if recording.has_times else "bytes"
    timeline = Timeline(origin=0.0, by=by, is_deep=is_deep)
    events = stream(lines(), protocol)
    for event in events:
        timeline.note(event, now.at, byte=now.byte)
    return timeline, events.protocol


def inspect_file(
    file: str,
    protocol: ProtocolName,
    *,
    as_json: bool,
    is_deep: bool,
    picture: Picture | None = None,
) -> int:
    """Print what is in a recording or a plain stream, and write a picture if asked to."""
    recording = recording_in(file, pace=0.0)
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
    """Return how much of the call had passed; None if it took no time."""
    if times.ended is None:
        return None
    first, last = position(times.started, by), position(times.ended, by)
    return round((position(when, by) - first) / (last - first), 4) if last > first else None


def _place(when: Moment, by: Unit) -> str:
    return f"{when.at:.2f} s" if by == "seconds" else f"byte {when.byte}"


def _distance(first: Moment, last: Moment, by: Unit) -> str:
    far = position(last, by) - position(first, by)
    return f"{far:.2f} s" if by == "seconds" else f"{far} bytes"


@dataclass
class TurnTimes:
    turn: int
    attempt: int
    started: float
    ended: float | None = None  # None if it was cut off, or goes on
    end: TurnCompleted | None = None


@dataclass
class Break:
    """A time in which nothing went on."""

    cause: Literal["pause", "crash"]
    began: float
    ended: float | None  # None while it lasts
    calls: tuple[str, ...]  # the IDs of those that waited for a decision, or were cut off


@dataclass
class RunTimes:
    run: RunSnapshot
    timeline: Timeline
    turns: list[TurnTimes]
    breaks: list[Break]

    @property
    def calls(self) -> list[tuple[CallSnapshot, CallTimes]]:
        seen = [block for block in self.run.blocks if isinstance(block, CallSnapshot)]
        return list(zip(seen, self.timeline.calls, strict=True))

    @property
    def seconds(self) -> float:
        return self.timeline.now.at


class _RunReader:
    def __init__(self) -> None:
        self._view = SnapshotBuilder()
        self._arguments = ArgumentEvents()
        self._timeline = Timeline()
        self._turns: list[TurnTimes] = []
        self._breaks: list[Break] = []

    def read(self, records: Iterable[Record]) -> RunTimes:
        for record in records:
            self._view.take(record.event)
            before = self._timeline.now.at
            for event in self._arguments.take(record.event):
                self._timeline.note(event, record.time)
            self._note(record.event, before)
        return RunTimes(self._view.snapshot(), self._timeline, self._turns, self._breaks)

    def _note(self, event: Event, before: float) -> None:
        """Note an event; ``before`` is when the record before it came."""
        match event:
            case TurnStarted(turn, attempt):
                self._turns.append(TurnTimes(turn, attempt, self._now))
            case TurnCompleted(parent_id=None):
                self._end_turn(event)
            case RunPaused(pending=pending):
                calls = tuple(request.call_id for request in pending)
                self._breaks.append(Break("pause", self._now, None, calls))
            case RunResumed(cause="crash", interrupted=interrupted):
                self._breaks.append(Break("crash", before, self._now, interrupted))
            case RunResumed() | RunCompleted() | RunStopped() | RunFailed():
                self._end_break()
            case _:
                pass

    @property
    def _now(self) -> float:
        return self._timeline.now.at

    def _end_turn(self, event: TurnCompleted) -> None:
        last = self._turns[-1] if self._turns else None
        if last is None or last.ended is not None:  # of agents that do not say when one begins
            began = 0.0 if last is None or last.ended is None else last.ended
            last = TurnTimes(len(self._turns) + 1, 1, began)
            self._turns.append(last)
        last.end, last.ended = event, self._now

    def _end_break(self) -> None:
        if self._breaks and self._breaks[-1].ended is None:
            self._breaks[-1].ended = self._now


def inspect_run(name: str, place: str, *, as_json: bool, picture: Picture | None = None) -> int:
    """Print what is in a run, and write a picture if asked to."""
    info, records = asyncio.run(_read(name, place))
    times = _RunReader().read(records)
    if picture is not None and not picture.write(times.timeline, info.run_id):
        return 2
    if as_json:
        sys.stdout.write(json.dumps(_run_document(info, times)) + "\n")
    else:
        for line in _run_report(info, times):
            sys.stdout.write(fit(line.rstrip(), terminal_width()) + "\n")
        show_waterfall(times.timeline)
    sys.stdout.flush()
    for failure in times.timeline.failures:
        complain(visible_line(failure))
    is_whole = all(call.verdict in ("complete", None) for call, _ in times.calls)
    return 0 if is_whole and not times.timeline.failures else 1


async def _read(name: str, place: str) -> tuple[RunInfo, list[Record]]:
    async with opened(place) as store:
        info = await find_run(store, name)
        return info, await store.read(info.run_id)


def _run_document(info: RunInfo, times: RunTimes) -> dict[str, Any]:
    run = times.run
    return {
        **msgspec.to_builtins(info),
        "seconds": times.seconds,
        "prompt": run.prompt,
        "messages_before": len(run.history),
        "usage": msgspec.to_builtins(run.usage),
        "turns": [_turn_document(turn) for turn in times.turns],
        "calls": [_run_call_document(call, moments) for call, moments in times.calls],
        "breaks": [
            {"cause": one.cause, "began": one.began, "ended": one.ended, "calls": one.calls}
            for one in times.breaks
        ],
        "end": msgspec.to_builtins(run.end),
        "failures": times.timeline.failures,
    }


def _turn_document(turn: TurnTimes) -> dict[str, Any]:
    end = turn.end
    return {
        "turn": turn.turn,
        "attempt": turn.attempt,
        "started": turn.started,
        "ended": turn.ended,
        "stop_reason": None if end is None else end.stop_reason,
        "usage": None if end is None else msgspec.to_builtins(end.usage),
    }


def _run_call_document(call: CallSnapshot, moments: CallTimes) -> dict[str, Any]:
    return {
        "id": call.call_id,
        "name": call.name,
        "kind": call.kind,
        "parent_id": call.parent_id,
        "is_lost": call.is_lost,
        "verdict": call.verdict,
        "error": msgspec.to_builtins(call.error),
        "argument_bytes": len(call.raw.encode()),
        "decision": None if call.decision is None else call.decision.decision,
        "attempts": call.attempts,
        "outcome": call.outcome,
        "result_bytes": None if call.outcome is None else _bytes(call.result),
        "visible": moments.started.at,
        "written": _seconds(moments.ended),
        "asked": _seconds(moments.asked),
        "decided": _seconds(moments.decided),
        "started": [moment.at for moment in moments.executed],
        "ended": _seconds(moments.finished),
    }


def _run_report(info: RunInfo, times: RunTimes) -> Iterator[str]:
    yield from _run_summary(info, times)
    names = {call.call_id: call.name for call, _ in times.calls}
    parts = [
        *((turn.started, _turn_lines(turn)) for turn in times.turns),
        *((moments.started.at, _run_call_lines(call, moments)) for call, moments in times.calls),
        *((one.began, _break_lines(one, names)) for one in times.breaks),
    ]
    for _, lines in sorted(parts, key=lambda part: part[0]):
        yield ""
        yield from lines


def _run_summary(info: RunInfo, times: RunTimes) -> Iterator[str]:
    run = times.run
    yield f"{visible_line(info.run_id)}: {info.status}"
    conversation = visible_line(info.conversation_id) or "–"
    yield f"agent {visible_line(info.agent) or '–'}, conversation {conversation}"
    began = datetime.fromtimestamp(info.created).astimezone().isoformat(" ", "seconds")
    yield f"began {began}, {seconds_in_words(times.seconds)}, {count(info.seq, 'record')}"
    before = f", after {count(len(run.history), 'message')}" if run.history else ""
    tokens = token_counts(run.usage)
    turns = {turn.turn for turn in times.turns}
    yield (
        f"{count(len(turns), 'turn')}, {count(len(times.calls), 'call')}"
        f"{f', {tokens}' if tokens else ''}{before}"
    )
    if info.owner is not None and not info.is_over:
        yield f"driven by {visible_line(info.owner)}"
    elif info.is_abandoned:
        yield "no process drives it: Agent.resume continues it"
    if run.prompt.strip():
        yield f"> {visible_line(' '.join(run.prompt.split()))}"


def _turn_lines(turn: TurnTimes) -> Iterator[str]:
    again = f", attempt {turn.attempt}" if turn.attempt > 1 else ""
    if turn.end is None:
        yield f"turn {turn.turn}{again}  {_at(turn.started)} to –"
        return
    reason = visible_line(turn.end.stop_reason or "no stop reason")
    tokens = token_counts(turn.end.usage)
    yield (
        f"turn {turn.turn}{again}  {_at(turn.started)} to {_at(turn.ended)}: {reason}"
        + (f" ({tokens})" if tokens else "")
    )


def _break_lines(one: Break, names: dict[str, str]) -> Iterator[str]:
    calls = ", ".join(
        f"{visible_line(names.get(call_id, 'a call'))} ({visible_line(call_id)})"
        for call_id in one.calls
    )
    lasted = "" if one.ended is None else f", for {seconds_in_words(one.ended - one.began)}"
    if one.cause == "crash":
        yield f"▶ cut off at {_at(one.began)}{lasted}" + (f"; ran then: {calls}" if calls else "")
    else:
        yield f"‖ paused at {_at(one.began)}{lasted}; waited for {calls}"


def _run_call_lines(call: CallSnapshot, moments: CallTimes) -> Iterator[str]:
    what = "" if call.kind == "function" else f"  ({call.kind})"
    state = f"  {_state(call, moments)}"
    title = f"  ● {visible_line(call.name)}{what}  {visible_line(call.call_id)}"
    yield fit(title, terminal_width() - len(state)) + state
    if call.parent_id is not None:
        yield f"      of a sub-agent of {visible_line(call.parent_id)}"
    for label, when, detail in _moments(call, moments):
        yield f"      {label:<11}{_at(when):>10}   {visible_line(detail)}"


def _moments(call: CallSnapshot, moments: CallTimes) -> Iterator[tuple[str, float, str]]:
    """Yield what happened to a call, in order: what, when, and details."""
    yield "visible", moments.started.at, ""
    if moments.ended is not None:
        error = "" if call.error is None else f": {call.error.message}"
        yield call.verdict or "", moments.ended.at, f"{size(len(call.raw.encode()))}{error}"
    if moments.asked is not None and call.request is not None:
        yield "asked", moments.asked.at, call.request.reason
    if moments.decided is not None and call.decision is not None:
        yield call.decision.decision, moments.decided.at, call.decision.reason
    for attempt, when in enumerate(moments.executed, 1):
        yield "started", when.at, f"attempt {attempt}" if len(moments.executed) > 1 else ""
    if moments.finished is not None:
        failed = call.outcome == "failed"
        detail = (
            json.dumps(call.result, ensure_ascii=False) if failed else size(_bytes(call.result))
        )
        yield call.outcome or "", moments.finished.at, detail


def _state(call: CallSnapshot, moments: CallTimes) -> str:
    if call.is_lost:
        return "lost"
    if call.outcome is not None:
        return call.outcome
    if call.verdict is None:
        return "is being written"
    if moments.asked is not None and moments.decided is None:
        return "waits for a decision"
    return "runs" if moments.executed else call.verdict


def _at(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.2f} s"


def _seconds(moment: Moment | None) -> float | None:
    return None if moment is None else moment.at


def _bytes(value: Any) -> int:
    return len(msgspec.json.encode(value))
