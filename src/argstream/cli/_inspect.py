"""``argstream inspect``: what is in a recording or a run, and when each argument became visible."""

import asyncio
import json
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, Final

import msgspec

from argstream.cli._commands import RUN, refuse
from argstream.cli._io import complain, recording_in
from argstream.cli._setup import find_run, fit, opened, seconds_in_words, short_id, terminal_width
from argstream.cli._streams import print_calls, print_fragments
from argstream.errors import UsageError
from argstream.events import Break
from argstream.providers import ProtocolName
from argstream.recording import Recording
from argstream.runs._records import Record, RunInfo
from argstream.runs._state import Call, CallState, RunState, TurnTimes
from argstream.sanitise import visible_line
from argstream.streaming import stream
from argstream.terminal._blocks import clock
from argstream.terminal._layout import rows_of, width
from argstream.terminal._screen import Palette
from argstream.terminal._text import Line, Span, count, size, text_of, token_counts
from argstream.terminal.waterfall import Unit, Waterfall, argument_name

_WIDTH: Final = 79
_WIDE: Final = (25, 16, 17, 17)  # columns of the table of arguments
_NARROW: Final = (12, 11, 11, 12)
_STATES: Final[dict[CallState, str]] = {
    "lost": "retried",
    "writing": "writing",
    "pending": "needs approval",
    "running": "running",
}


def inspect(given: Namespace) -> int:
    """Report on a file or a run, or print calls or fragments."""
    files, is_run = given.file, any(file.startswith(RUN) for file in given.file)
    is_listed = given.calls or given.fragments
    is_shown = is_run or given.deep or given.json or given.svg
    refuse(
        is_listed and (given.calls is given.fragments or is_shown),
        "--calls and --fragments can't be combined with each other, or with run:ID, --deep, "
        "--json or --svg",
    )
    refuse(
        not given.calls and (given.tools or given.policy or len(files) > 1),
        "--tools, --policy and several files need --calls",
    )
    refuse(
        (is_run or given.fragments) and (given.deep or given.protocol != "auto"),
        "--deep and --from can't be used with run:ID or --fragments",
    )
    refuse(given.store and not is_run, "--store is for runs: argstream inspect run:ID")
    refuse(given.force and not given.svg, "--force is for --svg: nothing else is written")
    if is_listed:
        return print_calls(given) if given.calls else print_fragments(files[0])
    return _inspect_run(given) if is_run else _inspect_file(given)


def _inspect_file(given: Namespace) -> int:
    file = given.file[0]
    recording = recording_in(file, pace=0.0)
    states, spoken = _states_of(recording, given.protocol)
    unit: Unit = "seconds" if recording.has_times else "bytes"
    times, by_byte = (Waterfall(states[one], one, is_deep=given.deep) for one in (unit, "bytes"))
    if given.svg:
        _draw(given, times, Path(file).name)
    lines: Iterable[str] = _report(file, spoken, recording, times)
    if given.json:
        lines = [json.dumps(_document(file, spoken, recording, times, by_byte))]
    return _show(lines, times, "complete", is_drawn=not given.json)


def _inspect_run(given: Namespace) -> int:
    info, records = asyncio.run(_read(given.file[0], given.store))
    times, columns = Waterfall(RunState.from_records(records)), terminal_width()
    if given.svg:
        _draw(given, times, info.run_id)
    lines = (row for line in _run_report(info, times, columns) for row in _wrapped(line, columns))
    told = [json.dumps(_run_document(info, times))] if given.json else lines
    return _show(told, times, "complete", None, is_drawn=not given.json)


def _draw(given: Namespace, times: Waterfall, about: str) -> None:
    """Write the waterfall as a picture."""
    if not times.calls:
        raise UsageError(f"no tool calls, so {given.svg} was not written")
    try:
        with Path(given.svg).open("w" if given.force else "x", encoding="utf-8") as file:
            file.write(times.svg(about))
    except FileExistsError:
        raise UsageError(f"{given.svg} already exists. Use --force to overwrite it") from None
    except OSError as error:
        raise UsageError(f"cannot write {given.svg}: {error.strerror}") from None


def _show(lines: Iterable[str], times: Waterfall, *good: str | None, is_drawn: bool) -> int:
    """Print the lines, the waterfall and the failures. Return the exit status.

    It is 0 if nothing failed and each call has a good verdict.
    """
    columns, palette = get_terminal_size().columns - 1, Palette.of(sys.stdout)
    drawn = times.lines(columns, detailed=True) if is_drawn else []
    rows = [palette.ansi(row) for line in drawn for row in rows_of(line, columns)]
    for text in (*lines, *([""] if rows else []), *rows):
        sys.stdout.write(text.rstrip() + "\n")
    sys.stdout.flush()
    for failure in times.state.failures:
        complain(visible_line(failure.message))
    is_good = all(call.verdict in good for call in times.calls)
    return 0 if is_good and not times.state.failures else 1


def _wrapped(text: str, columns: int) -> list[str]:
    """Return a line as rows, of which all but the first are indented."""
    bare = text.strip()
    before = " " * (len(text.rstrip()) - len(bare))
    line = Line((Span(bare),), (Span(before),), (Span(f"{before}  "),), "words")
    return [text_of(row) for row in rows_of(line, columns)]


def _states_of(recording: Recording, protocol: ProtocolName) -> tuple[dict[Unit, RunState], str]:
    """Return the state after a recording, once with each kind of times, and its protocol."""
    now: dict[Unit, float] = {"seconds": 0.0, "bytes": 0}

    def lines() -> Iterator[bytes]:
        """Yield the lines. The events of one are handled before the next is read."""
        sizes = [0, *(len(chunk.data) for chunk in recording.chunks), 0]
        for (at, line), length in zip(recording.lines(), sizes, strict=True):
            now["seconds"], now["bytes"] = at, now["bytes"] + length
            yield line

    states: dict[Unit, RunState] = {"seconds": RunState(), "bytes": RunState()}
    events = stream(lines(), protocol)
    for event in events:
        for unit, state in states.items():
            state.apply(event, now[unit])
    return states, events.protocol


def _document(
    file: str, protocol: str, recording: Recording, times: Waterfall, by_byte: Waterfall
) -> dict[str, Any]:
    header, has_times = recording.header, recording.has_times
    document: dict[str, Any] = {"file": file, "protocol": protocol}
    if has_times:
        document |= {"recorded": header.recorded, "seconds": recording.end.at}
        document |= {"ending": recording.ending, "removed": recording.end.removed}
    if header.response is not None:
        document["status"] = header.response.status
    calls = zip(times.calls, by_byte.calls, strict=True)
    return document | {
        "bytes": len(recording.data),
        "chunks": len(recording.chunks) if has_times else None,
        "turns": [{"stop_reason": reason} for reason in _stop_reasons(times.state)],
        "calls": [_call_document(call, other, times, by_byte) for call, other in calls],
        "failures": [failure.message for failure in times.state.failures],
    }


def _call_document(call: Call, other: Call, times: Waterfall, by_byte: Waterfall) -> dict[str, Any]:
    """Return a call as JSON. ``other`` is the same call with times in bytes."""

    def moment(time: float | None, byte: float | None) -> dict[str, Any] | None:
        if time is None:
            return None
        at = {"at": times.at(time)} if times.unit == "seconds" else {}
        return {**at, "byte": round(by_byte.at(byte)), "share": _share(time, call, times)}

    arguments = zip(times.arguments(call), by_byte.arguments(other), strict=True)
    return {
        "id": call.call_id,
        "name": call.name,
        "kind": call.kind,
        "verdict": call.verdict,
        "started": moment(call.started_at, other.started_at),
        "ended": moment(call.completed_at, other.completed_at),
        "arguments": [
            {
                "path": list(argument.path),
                "seen": moment(argument.started_at, twin.started_at),
                "settled": moment(argument.done_at, twin.done_at),
            }
            for argument, twin in arguments
        ],
    }


def _report(file: str, protocol: str, recording: Recording, times: Waterfall) -> Iterator[str]:
    header, columns = recording.header, min(_WIDTH, terminal_width())
    yield f"{'stdin' if file == '-' else visible_line(file)}: {protocol}"
    if header.request is not None and header.response is not None:
        told = f"{header.request.method} {header.request.url}"
        yield fit(f"{visible_line(told)}: {header.response.status}", columns)
    bytes_ = size(len(recording.data))
    if recording.has_times:
        yield f"recorded {visible_line(header.recorded)}, {recording.end.at:.2f} s, {bytes_}"
        reason = f": {visible_line(recording.end.reason)}" if recording.end.reason else ""
        chunks = count(len(recording.chunks), "chunk")
        ending = {"orderly": "complete"}.get(recording.ending, f"ended {recording.ending}")
        yield fit(f"{chunks}, {ending}{reason}", columns)
    else:
        yield f"raw stream, no timing; {bytes_}"
    if recording.end.removed:
        yield f"{count(recording.end.removed, 'secret')} replaced by [removed]"
    reasons = _stop_reasons(times.state)
    shown = ", ".join(visible_line(reason or "?") for reason in reasons)
    turns = count(len(reasons), "turn") + (f" ({shown})" if shown else "")
    yield fit(f"{turns}, {count(len(times.calls), 'call')}", columns)
    for call in times.calls:
        yield ""
        yield from _call_lines(call, times, columns)


def _stop_reasons(state: RunState) -> list[str | None]:
    return [turn.end.stop_reason for turn in state.turn_times if turn.end is not None]


def _title(call: Call, state: str, width: int) -> str:
    kind = "" if call.kind == "function" else f"  ({call.kind})"
    return fit(f"● {visible_line(call.name)}{kind}  {visible_line(call.call_id)}", width) + state


def _call_lines(call: Call, times: Waterfall, columns: int) -> Iterator[str]:
    is_wide = columns >= _WIDTH
    names, seen, complete, lead = _WIDE if is_wide else _NARROW

    def column(time: float | None, width: int) -> str:
        share = None if time is None else _share(time, call, times)
        percent = f"{share:>6.0%}" if is_wide and share is not None else ""
        return f"{_place(time, times) + percent:>{width}}"

    yield _title(call, f"  {call.verdict}", columns - 14)
    end = "" if call.completed_at is None else f" to {_place(call.completed_at, times)}"
    yield f"  from {_place(call.started_at, times)}{end}"
    arguments = times.arguments(call)
    if not arguments:
        yield "  no arguments"
        return
    yield f"    {'argument':<{names}}{'first seen':>{seen}}{'complete':>{complete}}{'lead':>{lead}}"
    for one in arguments:
        early = ""
        if one.done_at is not None and call.completed_at is not None:
            far = times.at(call.completed_at) - times.at(one.done_at)
            early = f"{far:.2f} s" if times.unit == "seconds" else f"{far:.0f} bytes"
        name = fit(argument_name(one), names - 1)
        name += " " * (names - width(name))
        first, last = column(one.started_at, seen), column(one.done_at, complete)
        yield f"    {name}{first}{last}{early:>{lead}}"


def _share(time: float, call: Call, times: Waterfall) -> float | None:
    """Return how much of the call had passed; None if it took no time."""
    first, last = times.written(call)
    if call.verdict is None or last <= first:
        return None
    return round((times.at(time) - first) / (last - first), 4)


def _place(time: float | None, times: Waterfall) -> str:
    if time is None:
        return "–"
    at = times.at(time)
    return seconds_in_words(at) if times.unit == "seconds" else f"byte {at:.0f}"


async def _read(name: str, place: str) -> tuple[RunInfo, list[Record]]:
    async with opened(place) as store:
        info = await find_run(store, name, place)
        return info, await store.read(info.run_id)


def _run_document(info: RunInfo, times: Waterfall) -> dict[str, Any]:
    state = times.state
    return {
        **msgspec.to_builtins(info),
        "seconds": times.at(state.time),
        "prompt": state.prompt,
        "messages_before": len(state.history),
        "usage": msgspec.to_builtins(state.usage),
        "turns": [_turn_document(turn, times) for turn in _turns(state)],
        "calls": [_run_call_document(call, times) for call in times.calls],
        "breaks": [
            {
                "cause": one.cause,
                "began": times.at(one.started_at),
                "ended": _seconds(one.ended_at, times),
                "calls": one.call_ids,
            }
            for one in state.breaks
        ],
        "end": msgspec.to_builtins(state.end),
        "failures": [failure.message for failure in state.failures],
    }


def _turns(state: RunState) -> list[TurnTimes]:
    """Return the turns of the run itself, without those of sub-agents."""
    return [turn for turn in state.turn_times if turn.parent_id is None]


def _turn_document(turn: TurnTimes, times: Waterfall) -> dict[str, Any]:
    end = turn.end
    return {
        "turn": turn.turn,
        "attempt": turn.attempt,
        "started": times.at(turn.started_at),
        "ended": _seconds(turn.ended_at, times),
        "stop_reason": None if end is None else end.stop_reason,
        "usage": None if end is None else msgspec.to_builtins(end.usage),
    }


def _run_call_document(call: Call, times: Waterfall) -> dict[str, Any]:
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
        "result_bytes": None if call.outcome is None else len(msgspec.json.encode(call.result)),
        "visible": _seconds(call.started_at, times),
        "written": _seconds(call.completed_at, times),
        "asked": _seconds(call.requested_at, times),
        "decided": _seconds(call.decided_at, times),
        "started": [times.at(time) for time in call.executed_at],
        "ended": _seconds(call.ended_at, times),
    }


def _seconds(time: float | None, times: Waterfall) -> float | None:
    return None if time is None else times.at(time)


def _run_report(info: RunInfo, times: Waterfall, columns: int) -> Iterator[str]:
    state, turns = times.state, _turns(times.state)
    yield f"{visible_line(info.run_id)}: {info.status}"
    conversation = visible_line(info.conversation_id) or "–"
    yield f"agent {visible_line(info.agent) or '–'}, conversation {conversation}"
    seconds = seconds_in_words(times.at(state.time))
    yield f"began {clock(info.created)}, {seconds}, {count(info.seq, 'record')}"
    facts = [count(len({turn.turn for turn in turns}), "turn"), count(len(times.calls), "call")]
    facts += [tokens] if (tokens := token_counts(state.usage)) else []
    facts += [f"after {count(len(state.history), 'message')}"] if state.history else []
    yield ", ".join(facts)
    if info.owner is not None and not info.is_over:
        yield f"driven by {visible_line(info.owner)}"
    elif info.is_abandoned:
        yield f"not running. Resume it with: argstream runs resume {short_id(info.run_id)}"
    if state.prompt.strip():
        yield fit(f"> {visible_line(' '.join(state.prompt.split()))}", columns)
    names = {call.call_id: call.name for call in times.calls}
    parts = [
        *((turn.started_at, [_turn_line(turn, times)]) for turn in turns),
        *((call.started_at or 0.0, _run_call_lines(call, times, columns)) for call in times.calls),
        *((one.started_at, [_break_line(one, names, times)]) for one in state.breaks),
    ]
    for _, lines in sorted(parts, key=lambda part: part[0]):
        yield ""
        yield from lines


def _turn_line(turn: TurnTimes, times: Waterfall) -> str:
    again = f", attempt {turn.attempt}" if turn.attempt > 1 else ""
    span = f"{_place(turn.started_at, times)} to {_place(turn.ended_at, times)}"
    end = ""
    if turn.end is not None:
        tokens = token_counts(turn.end.usage)
        end = f": {visible_line(turn.end.stop_reason or 'no stop reason')}"
        end += f" ({tokens})" if tokens else ""
    return f"turn {turn.turn}{again}  {span}{end}"


def _break_line(one: Break, names: dict[str, str], times: Waterfall) -> str:
    calls = ", ".join(
        f"{visible_line(names.get(call_id, 'a call'))} ({visible_line(call_id)})"
        for call_id in one.call_ids
    )
    began, lasted = _place(one.started_at, times), ""
    if one.ended_at is not None:
        lasted = f", for {seconds_in_words(times.at(one.ended_at) - times.at(one.started_at))}"
    if one.cause == "crash":
        return f"▶ interrupted at {began}{lasted}" + (f"; running: {calls}" if calls else "")
    return f"‖ paused at {began}{lasted}; pending: {calls}"


def _run_call_lines(call: Call, times: Waterfall, columns: int) -> Iterator[str]:
    state = f"  {_STATES.get(call.state) or call.outcome or call.verdict}"
    yield "  " + _title(call, state, columns - len(state) - 2)
    if call.parent_id is not None:
        yield f"      of a sub-agent of {visible_line(call.parent_id)}"
    for label, time, detail in _moments(call):
        yield f"      {label:<11}{_place(time, times):>10}   {visible_line(detail)}"


def _moments(call: Call) -> Iterator[tuple[str, float | None, str]]:
    """Yield what happened to a call, in order: what, when, and details."""
    yield "visible", call.started_at, ""
    if call.verdict is not None:
        error = "" if call.error is None else f": {call.error.message}"
        yield call.verdict, call.completed_at, f"{size(len(call.raw.encode()))}{error}"
    if call.request is not None:
        yield "asked", call.requested_at, call.request.reason
    if call.decision is not None:
        yield call.decision.decision, call.decided_at, call.decision.reason
    for attempt, time in enumerate(call.executed_at, 1):
        yield "started", time, f"attempt {attempt}" if len(call.executed_at) > 1 else ""
    if call.outcome == "failed":
        yield "failed", call.ended_at, json.dumps(call.result, ensure_ascii=False)
    elif call.outcome == "completed":
        yield "completed", call.ended_at, size(len(msgspec.json.encode(call.result)))
