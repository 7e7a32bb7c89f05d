"""``argstream runs``: which runs a store has, and what they wait for."""

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from argstream.cli._columns import fit, padded, terminal_width
from argstream.cli._input import complain, say_aside
from argstream.cli._stores import opened
from argstream.errors import ArgstreamError, StoreFailure, UnknownRun
from argstream.events import RunStarted, RunStatus
from argstream.log import RunInfo, Store
from argstream.sanitise import visible_line
from argstream.terminal.words import count

__all__ = ["list_runs"]

_ID: Final = 12  # columns: run_ and eight digits, as git shows names
_STATUS: Final = 11
_WHEN: Final = 13
_RECORDS: Final = 9
_AGENT: Final = 8  # at least


def list_runs(place: str, status: RunStatus | None, limit: int, *, as_json: bool) -> int:
    """List the runs of a store, those with the newest records first.

    Returns the exit status: 0, or 2 if the store cannot be read.
    """
    try:
        found, is_more = asyncio.run(_read(place, status, limit))
    except ArgstreamError as error:
        complain(visible_line(str(error)))
        return 2
    if as_json:
        for info, prompt in found:
            document = {**msgspec.to_builtins(info), "prompt": prompt}
            sys.stdout.write(json.dumps(document) + "\n")
    elif found:
        for line in _table(found, time.time()):
            sys.stdout.write(line.rstrip() + "\n")
    else:
        sys.stdout.write("there are no runs here" + (f" that are {status}\n" if status else "\n"))
    sys.stdout.flush()
    if is_more:
        say_aside(f"There are older ones: --limit {2 * limit} shows more.")
    return 0


async def _read(
    place: str, status: RunStatus | None, limit: int
) -> tuple[list[tuple[RunInfo, str]], bool]:
    """Give the runs with their prompts, and whether there are more."""
    async with opened(place) as store:
        infos = await store.runs(status=status, limit=limit + 1)
        found = [(info, await _prompt(store, info)) for info in infos[:limit]]
        known = [(info, prompt) for info, prompt in found if prompt is not None]
        return known, len(infos) > limit


async def _prompt(store: Store, info: RunInfo) -> str | None:
    """Give what a run was asked; None if it is not there any more."""
    try:
        records = await store.read(info.run_id, limit=1)
    except UnknownRun:
        return None
    except StoreFailure as error:  # that of one run: the others can be shown
        return f"({error})"
    first = records[0].event if records else None
    return first.prompt if isinstance(first, RunStarted) else ""


# For people


def _table(found: Sequence[tuple[RunInfo, str]], now: float) -> Iterator[str]:
    width = terminal_width()
    ids = _short_ids([info.run_id for info, _ in found])
    first = max(_ID, *map(len, ids)) + 2
    agent = max(_AGENT, width - first - _STATUS - _WHEN - _RECORDS)
    heading = f"{'run':<{first}}{'status':<{_STATUS}}{'last record':<{_WHEN}}"
    yield f"{heading}{'agent':<{agent}}{'records':>{_RECORDS}}"
    for (info, prompt), short in zip(found, ids, strict=True):
        yield (
            padded(visible_line(short), first)
            + padded(info.status, _STATUS)
            + padded(_ago(now - info.updated, info.updated), _WHEN)
            + padded(fit(visible_line(info.agent), agent - 2), agent)
            + f"{info.seq:>{_RECORDS}}"
        )
        if prompt.strip():
            yield fit(f"  > {visible_line(' '.join(prompt.split()))}", width)
        for note in _notes(info, now):
            yield fit(f"  {note}", width)


def _notes(info: RunInfo, now: float) -> Iterator[str]:
    """Say who drives a run and what it waits for."""
    if info.pending and not info.is_over:
        calls = ", ".join(map(visible_line, info.pending))
        yield f"waits for a decision on {count(len(info.pending), 'call')}: {calls}"
    if info.owner is not None and not info.is_over:
        seconds = "" if info.claimed_until is None else f", for {info.claimed_until - now:.0f} s"
        yield f"driven by {visible_line(info.owner)}{seconds}"
    elif info.is_abandoned:
        yield "nobody drives it: Agent.resume goes on with it"


def _short_ids(run_ids: Sequence[str]) -> list[str]:
    """Give the first characters of ids, as many as tell them apart."""
    length = _ID
    while len({run_id[:length] for run_id in run_ids}) < len(run_ids):
        length += 1
    return [run_id[:length] for run_id in run_ids]


def _ago(seconds: float, moment: float) -> str:
    if seconds < 10:
        return "just now"
    if seconds < 60:
        return f"{seconds:.0f} s ago"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min ago"
    if seconds < 24 * 3600:
        return f"{seconds // 3600:.0f} h ago"
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d")
