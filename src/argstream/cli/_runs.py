"""Commands on stored runs: ``runs list``, ``show``, ``stop``, ``delete``, and following a run."""

import asyncio
import json
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple

import msgspec

from argstream import events as ev
from argstream.cli._commands import say
from argstream.cli._io import say_aside
from argstream.cli._setup import (
    Shown,
    approve_commands,
    continue_command,
    find_run,
    fit,
    in_short,
    opened,
    pending_calls,
    print_lines,
    seconds_in_words,
    settings_of,
    short_id,
    shown_place,
    store_option,
    table_width,
)
from argstream.errors import ArgstreamError, RunBusyError, RunNotFoundError, UsageError
from argstream.runs._records import Record, RunInfo, to_json
from argstream.runs._state import RunState
from argstream.runs._store import Store
from argstream.sanitise import visible, visible_line
from argstream.terminal import ToolViews
from argstream.terminal._blocks import clock
from argstream.terminal._layout import cut, width
from argstream.terminal._text import Line, Role, Span, Spans, duration, line, shown, text_of

_STATUSES: Final[dict[str, tuple[str, Role]]] = {
    "pending": ("! needs approval", "warning"),
    "decided": ("▶ decided", "warning"),
    "interrupted": ("‖ interrupted", "warning"),
    "running": ("● running", "tool"),
    "paused": ("‖ paused", "warning"),
    "completed": ("✓ done", "good"),
    "failed": ("✗ failed", "bad"),
    "stopped": ("■ stopped", "faint"),
}
_LEAST_ID: Final = 8  # characters
_WIDE: Final = 60  # columns; below, of a status there is only its mark
_LONGEST_BREAK: Final = 2.0  # seconds: it may have gone on the next day


class _Row(NamedTuple):
    info: RunInfo
    prompt: str
    pending: Sequence[ev.ApprovalRequested] = ()

    @property
    def status(self) -> str:
        """What a user needs to know first."""
        info = self.info
        if info.is_over:
            return info.status
        if self.pending:
            return "pending"
        if info.is_abandoned:
            return "interrupted"
        return "decided" if info.status == "paused" and info.has_commands else info.status


def list_runs(given: Namespace) -> int:
    """List the runs of a store, those with the newest records first."""
    place, status, limit = given.store, given.status, given.limit
    rows, is_more = asyncio.run(_read(place, status, limit))
    if given.json:
        for info, prompt, _ in rows:
            sys.stdout.write(json.dumps({**msgspec.to_builtins(info), "prompt": prompt}) + "\n")
    elif rows:
        print_lines(_table(rows))
    else:
        say("no runs found" + (f" with status {status}" if status else ""))
    sys.stdout.flush()
    if is_more:
        say_aside(f"More runs exist. Use --limit {2 * limit} to see them.")
    first = {} if given.json else {row.status: row for row in reversed(rows)}
    if row := first.get("pending"):
        say_aside(f"To approve: {approve_commands(row.info.run_id, row.pending, place)}")
    elif row := first.get("decided"):
        name = short_id(row.info.run_id) + store_option(place)
        say_aside(f"To resume: argstream runs resume {name}")
    return 0


async def _read(place: str, status: ev.RunStatus | None, limit: int) -> tuple[list[_Row], bool]:
    """Return the runs, and whether there are more."""
    async with opened(place) as store:
        infos = await store.runs(status=status, limit=limit + 1)
        rows = [await _row(store, info) for info in infos[:limit]]
        return [row for row in rows if row is not None], len(infos) > limit


async def _row(store: Store, info: RunInfo) -> _Row | None:
    """Return a row of the table; None if the run was deleted meanwhile."""
    try:
        is_waiting = info.pending and not info.is_over
        state = RunState.from_records(
            await store.read(info.run_id, limit=None if is_waiting else 1)
        )
        return _Row(info, state.prompt, await pending_calls(store, state) if is_waiting else ())
    except RunNotFoundError:
        return None
    except ArgstreamError as error:  # of one run: the others can be shown
        return _Row(info, f"({error})")


def _table(rows: Sequence[_Row]) -> Iterator[Spans]:
    columns = table_width()
    ids = _short_ids([row.info.run_id for row in rows])
    has_agents = len({row.info.agent for row in rows}) > 1
    cells = [
        (
            Span(status if columns >= _WIDE else status[0], role),
            Span(_age(row.info.updated)),
            Span(visible_line(name), "strong"),
            *((Span(visible_line(row.info.agent)),) if has_agents else ()),
        )
        for row, name in zip(rows, ids, strict=True)
        for status, role in [_STATUSES[row.status]]
    ]
    first = "STATUS" if columns >= _WIDE else ""
    heading = (first, "AGE", "ID", *(("AGENT",) if has_agents else ()))
    cells.insert(0, tuple(Span(name, "faint") for name in heading))
    sizes = [max(width(row[place].text) for row in cells) for place in range(len(heading))]
    room = columns - sum(sizes) - 2 * len(sizes)
    last: list[Spans] = [(Span("PROMPT", "faint"),), *_beside([*map(_about, rows)], room)]
    for row, about in zip(cells, last, strict=True):
        padded = [
            part
            for cell, size in zip(row, sizes, strict=True)
            for part in (cell, Span(" " * (size - width(cell.text) + 2)))
        ]
        yield cut((*padded, *about), columns)


def _about(row: _Row) -> Spans:
    prompt = shown(" ".join(row.prompt.split()))
    if not row.pending:
        return (prompt,)
    more = f" and {len(row.pending) - 1} more" if len(row.pending) > 1 else ""
    return prompt, Span(in_short(row.pending[0]) + more, "warning")


def _beside(rows: Sequence[Spans], room: int) -> Iterator[Spans]:
    """Cut the prompts of runs that wait, so that there is a column for what they wait for."""
    waiting = [row for row in rows if len(row) > 1]
    needed = max((width(call.text) + 2 for _, call in waiting), default=0)
    longest = max((width(prompt.text) for prompt, _ in waiting), default=0)
    left = min(longest, max(room - needed, room // 3))
    for row in rows:
        if len(row) == 1 or room < 1:
            yield row
            continue
        prompt = cut(row[:1], left)
        yield (*prompt, Span(" " * (left - width(text_of(prompt)) + 2)), row[1])


def _short_ids(run_ids: Sequence[str]) -> list[str]:
    """Return the first characters of IDs, as many as tell them apart."""
    length = _LEAST_ID
    names = [run_id.removeprefix("run_") for run_id in run_ids]
    while len({name[:length] for name in names}) < len(names):
        length += 1
    return [name[:length] for name in names]


def _age(moment: float) -> str:
    seconds = max(time.time() - moment, 0)
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 30 * 24 * 3600:
        return " ".join(duration(seconds).split()[:2])
    return clock(moment).split()[0]


def show_run(given: Namespace) -> int:
    """Show the settings of a run, the calls that wait for a decision, and its result."""
    print_lines(asyncio.run(_details(given.run, given.store)))
    return 0


async def _details(name: str, place: str) -> list[Line | Spans]:
    async with opened(place) as store:
        info = await find_run(store, name, place)
        state = RunState.from_records(await store.read(info.run_id))
        pending = [] if info.is_over else await pending_calls(store, state)
    row = _Row(info, state.prompt, pending)
    facts = {
        "Status": _STATUSES[row.status][0],
        "Prompt": fit(" ".join(state.prompt.split()), table_width() - 17),
        "Started": f"{clock(info.created)}, last activity {_age(info.updated)} ago",
        "Conversation": info.conversation_id,
        "Agent": info.agent,
        **settings_of(info.launch),
        "Driven by": "" if info.is_over else info.owner or "",
    }
    lines: list[Line | Spans] = [(shown(info.run_id, "strong"),)]
    lines += [
        (Span(f"  {label:<14}", "faint"), shown(text)) for label, text in facts.items() if text
    ]
    for request in pending:
        tool, call_id = shown(request.name, "tool"), shown(request.call_id, "faint")
        lines += [line(""), line("● ", tool, "  ", call_id)]
        lines += ToolViews().whole(request.name, request.arguments)
        for note in (request.reason, *request.warnings):
            lines.append(line(Span("  ! ", "warning"), shown(note)))
    if result := _result(state):
        lines += [line(""), *(line(Span(text)) for text in visible(result).splitlines())]
    return [*lines, line(""), *(line(Span(text, "faint")) for text in _next(row, place))]


def _result(state: RunState) -> str:
    if isinstance(state.end, ev.RunCompleted):
        return state.end.result if isinstance(state.end.result, str) else ""
    return f"Failed: {state.end.message}" if isinstance(state.end, ev.RunFailed) else ""


def _next(row: _Row, place: str) -> list[str]:
    """Return the commands that a user probably needs next."""
    name = short_id(row.info.run_id) + store_option(place)
    if row.status == "pending":
        commands = [
            approve_commands(row.info.run_id, row.pending, place, verb).strip("\n")
            for verb in ("approve", "deny")
        ]
        return "\n".join(commands).splitlines()
    if row.status in ("interrupted", "decided", "paused"):
        if not row.info.launch.model:
            hint = "The program that started the run can resume it. To stop it:"
            return [hint, f"argstream runs stop {name}"]
        return [f"argstream runs resume {name}"]
    if row.info.is_over:
        return [f"argstream inspect run:{name}", continue_command(row.info, place)]
    return [f"argstream watch run:{name}"]


def stop_run(given: Namespace) -> int:
    """Stop a run, or ask the process that drives it to stop it."""

    async def stop() -> str:
        from argstream.agent import Agent
        from argstream.models import ScriptedModel

        async with opened(given.store) as store:
            info = await find_run(store, given.run, given.store)
            if info.is_over:
                raise UsageError(f"run {short_id(info.run_id)} has already ended ({info.status})")
            # No model and no tool is needed to end a run.
            agent = Agent(ScriptedModel(), store=store)
            if await agent.stop_async(info.run_id, given.reason or ""):
                return f"Stopped {info.run_id}"
            return f"Stopping {info.run_id}: {info.owner or 'its process'}"

    say(visible_line(asyncio.run(stop())))
    return 0


def delete_runs(given: Namespace) -> int:
    """Delete runs, unless one is not found."""

    async def delete() -> None:
        async with opened(given.store) as store:
            for info in [await find_run(store, name, given.store) for name in given.run]:
                try:
                    await store.delete(info.run_id)
                except RunBusyError as error:
                    name = short_id(info.run_id)
                    raise UsageError(
                        f"run {name} is running ({error.owner}). Stop it first: argstream runs "
                        f"stop {name}{store_option(given.store)}"
                    ) from None
                say(f"Deleted {visible_line(info.run_id)}")

    asyncio.run(delete())
    return 0


def replay_run(given: Namespace, factor: float, *, follow: bool) -> int:
    """Play a run as it was seen, so many times faster; as JSON, its records."""
    with Shown(as_json=given.json, full=given.full, stored=shown_place(given.store or "")) as shown:
        asyncio.run(_play(given.file, given.store, _Player(shown, factor), follow=follow))
    return shown.status()


async def _play(name: str, place: str, player: "_Player", *, follow: bool) -> None:
    async with opened(place) as store:
        info = await find_run(store, name, place)
        async with aclosing(store.follow(info.run_id)) as records:
            async for record in records:
                if record.seq <= info.seq:  # what comes later comes when it comes
                    await player.wait_for(record)
                player.show(record)
                if follow and isinstance(record.event, ev.RunPaused) and record.seq >= info.seq:
                    state = RunState.from_records(await store.read(info.run_id))
                    if pending := await pending_calls(store, state):
                        player.say(f"To approve: {approve_commands(info.run_id, pending, place)}")
                if record.seq >= info.seq and not follow:
                    break


class _Player:
    def __init__(self, shown: Shown, factor: float) -> None:
        self._shown = shown
        self._factor = factor
        self._last: float | None = None
        self._due = 0.0

    async def wait_for(self, record: Record) -> None:
        """Wait as long as it took from the record before; not until a person has decided."""
        loop = asyncio.get_running_loop()
        if self._last is None:
            self._last, self._due = record.time, loop.time()
        gap = max(0.0, record.time - self._last)  # two machines may not have the same time
        self._last = record.time
        if isinstance(record.event, ev.RunResumed) and gap > _LONGEST_BREAK:
            if self._shown.terminal is not None:
                self._shown.terminal.say(line(f"┄ {seconds_in_words(gap)} later"))
            gap = _LONGEST_BREAK
        self._due += gap / self._factor
        if (seconds := self._due - loop.time()) > 0:
            await asyncio.sleep(seconds)

    def say(self, text: str) -> None:
        if self._shown.terminal is not None:
            self._shown.terminal.say(
                *(line(part, margin=(Span("  "),)) for part in text.split("\n"))
            )

    def show(self, record: Record) -> None:
        text = to_json(record) if self._shown.terminal is None else None
        self._shown.show(record.event, text, record)
