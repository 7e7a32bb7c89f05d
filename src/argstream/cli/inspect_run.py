"""``argstream inspect run:ID``: what is in a run, and when what happened."""

import asyncio
import json
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from argstream.cli._columns import fit, seconds_in_words, terminal_width
from argstream.cli._input import complain
from argstream.cli._run_times import Break, RunTimes, TurnTimes, times_of
from argstream.cli._stores import find_run, opened
from argstream.cli._waterfall import Picture, show_waterfall
from argstream.errors import ArgstreamError
from argstream.events import SeenCall
from argstream.log import Record, RunInfo
from argstream.sanitise import visible_line
from argstream.terminal.waterfall import CallTimes, Moment
from argstream.terminal.words import count, size, token_counts

__all__ = ["inspect_run"]


def inspect_run(name: str, place: str, *, as_json: bool, picture: Picture | None = None) -> int:
    """Tell what is in a run; draw a picture if asked to.

    Returns the exit status: 0 if all is well, 1 if a call is not complete or something has failed,
    2 if it cannot be read, or the picture not be written.
    """
    try:
        info, records = asyncio.run(_read(name, place))
    except ArgstreamError as error:
        complain(visible_line(str(error)))
        return 2
    times = times_of(records)
    if picture is not None and not picture.write(times.timeline, info.run_id):
        return 2
    if as_json:
        sys.stdout.write(json.dumps(_document(info, times)) + "\n")
    else:
        for line in _report(info, times):
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


# For programs


def _document(info: RunInfo, times: RunTimes) -> dict[str, Any]:
    run = times.run
    return {
        **msgspec.to_builtins(info),
        "seconds": times.seconds,
        "prompt": run.prompt,
        "messages_before": len(run.history),
        "usage": msgspec.to_builtins(run.usage),
        "turns": [_turn_document(turn) for turn in times.turns],
        "calls": [_call_document(call, moments) for call, moments in times.calls],
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


def _call_document(call: SeenCall, moments: CallTimes) -> dict[str, Any]:
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


# For people


def _report(info: RunInfo, times: RunTimes) -> Iterator[str]:
    yield from _summary(info, times)
    names = {call.call_id: call.name for call, _ in times.calls}
    parts = [
        *((turn.started, _turn_lines(turn)) for turn in times.turns),
        *((moments.started.at, _call_lines(call, moments)) for call, moments in times.calls),
        *((one.began, _break_lines(one, names)) for one in times.breaks),
    ]
    for _, lines in sorted(parts, key=lambda part: part[0]):
        yield ""
        yield from lines


def _summary(info: RunInfo, times: RunTimes) -> Iterator[str]:
    run = times.run
    yield f"{visible_line(info.run_id)}: {info.status}"
    yield f"agent {visible_line(info.agent) or '–'}, session {visible_line(info.session_id) or '–'}"
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
        yield "nobody drives it: Agent.resume goes on with it"
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


def _call_lines(call: SeenCall, moments: CallTimes) -> Iterator[str]:
    what = "" if call.kind == "function" else f"  ({call.kind})"
    state = f"  {_state(call, moments)}"
    title = f"  ● {visible_line(call.name)}{what}  {visible_line(call.call_id)}"
    yield fit(title, terminal_width() - len(state)) + state
    if call.parent_id is not None:
        yield f"      of a sub-agent of {visible_line(call.parent_id)}"
    for label, when, detail in _moments(call, moments):
        yield f"      {label:<11}{_at(when):>10}   {visible_line(detail)}"


def _moments(call: SeenCall, moments: CallTimes) -> Iterator[tuple[str, float, str]]:
    """Say what happened to a call, in order: what, when, and what else is to say of it."""
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


def _state(call: SeenCall, moments: CallTimes) -> str:
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
