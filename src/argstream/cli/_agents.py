"""The commands ``run``, ``runs`` and ``replay run:ID``, and what else makes an agent.

Each function returns the exit status. ``main`` handles errors: they exit with 2.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from argstream.agent import Agent, Tool
from argstream.agent.approvals import Approval, Approve, Approver
from argstream.agent.toolkits import file_tools, shell_tool, text_reader
from argstream.cli._io import chunks, say_aside
from argstream.cli._setup import (
    Shown,
    Stopping,
    files_of,
    find_run,
    fit,
    opened,
    padded,
    place_of,
    read_rules,
    seconds_in_words,
    terminal_width,
)
from argstream.errors import RunNotFoundError, StoreError, UsageError
from argstream.events import ApprovalRequested, RunResumed, RunStarted, RunStatus
from argstream.models import HttpModel, make_model
from argstream.runs._records import Record, RunInfo, to_json
from argstream.runs._state import RunState
from argstream.runs._store import Store
from argstream.sanitise import visible_line
from argstream.terminal import ToolViews
from argstream.terminal._approval import TerminalApprover
from argstream.terminal._text import count, line

INSTRUCTIONS: Final = (
    "You work in the folder {folder}, with the tools that you are given. Paths are relative to it. "
    "Read what you change before you change it. Be brief."
)
_MODEL: Final = "ARGSTREAM_MODEL"
_KITS: Final[dict[str, Callable[[Path, Sequence[Path]], list[Tool]]]] = {
    "files": lambda folder, hidden: file_tools(folder, hidden=hidden),
    "shell": lambda folder, _: [shell_tool(folder)],
}


def chosen_model(given: str) -> str:
    """Return the name of the model: the given one, or the one in the environment."""
    return given or os.environ.get(_MODEL, "")


def model_named(name: str) -> HttpModel:
    """Return the model of this name, with its key; "" is no name."""
    if not name:
        raise UsageError(
            f"name a model, such as --model anthropic:claude-opus-4-7, or set {_MODEL}; "
            "`argstream demo` needs none"
        )
    model = make_model(name)
    model.require_key()
    return model


def folder_named(name: str) -> Path:
    if not name:
        raise UsageError("--folder has no name: leave it out to work in this folder")
    try:
        return Path(name).expanduser().absolute()
    except (OSError, RuntimeError) as error:  # no such home; or this folder is gone
        raise UsageError(f"--folder {name} cannot be used: {error}") from None


def kits_named(names: str) -> list[str]:
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if unknown := sorted({*wanted} - {*_KITS}):
        raise UsageError(f"--tools are some of {', '.join(_KITS)}, not {', '.join(unknown)}")
    return list(dict.fromkeys(wanted))


def tools_of(kits: list[str], folder: Path, hidden: Sequence[Path]) -> list[Tool]:
    """Return the tools of these kits for one folder, in which some files are not theirs."""
    return [tool for kit in kits for tool in _KITS[kit](folder, hidden)]


_HOW_TO_ALLOW: Final = "run it in a terminal to be asked, or allow everything with --yes"


class RunOptions(NamedTuple):
    model: str = ""
    tools: str = "files"
    folder: str = "."
    policy: str | None = None
    instructions: str = ""
    store: str = ""
    max_turns: int = 50
    is_approved: bool = False  # whether everything that needs approval may run
    as_json: bool = False


def run_prompt(prompt: str, options: RunOptions) -> int:
    """Run a prompt; "-" reads it from standard input."""
    with Stopping() as stopping:
        return _run(prompt, options, stopping)


def _run(prompt: str, options: RunOptions, stopping: Stopping) -> int:
    model = model_named(chosen_model(options.model))
    folder, kits = folder_named(options.folder), kits_named(options.tools)
    hidden = files_of(place_of(options.store))  # also if this run is not kept: others are
    looks = ToolViews(read_file=text_reader(folder, hidden=hidden) if "files" in kits else None)
    text = _standard_input() if prompt == "-" else prompt
    with Shown(looks, as_json=options.as_json) as shown:
        approver = _who_decides(options, shown, looks)
        agent = Agent(
            model,
            tools_of(kits, folder, hidden),
            instructions=options.instructions or INSTRUCTIONS.format(folder=folder),
            policy=read_rules(None, options.policy).policy,
            approver=approver,
            max_turns=options.max_turns,
            store=options.store or None,
        )
        return asyncio.run(_follow(agent, text, approver, shown, stopping))


def _standard_input() -> str:
    try:
        return b"".join(chunks("-", "waiting for a prompt on standard input")).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is no text in UTF-8: {error.reason}") from None


def _who_decides(options: RunOptions, shown: Shown, looks: ToolViews) -> Approver:
    if options.is_approved:
        return _approve
    return TerminalApprover(shown.terminal, looks=looks, how_to_allow=_HOW_TO_ALLOW)


async def _follow(
    agent: Agent, prompt: str, approver: Approver, shown: Shown, stopping: Stopping
) -> int:
    async with agent:
        run = agent.run_stream(prompt)
        if isinstance(approver, TerminalApprover):
            approver.check = run.check
        with stopping.stops(run.stop):
            async for event in run:
                shown.show(event)
    return stopping.status or (0 if run.result.outcome == "completed" else 1)


def _approve(request: ApprovalRequested) -> Approval:
    return Approve(digest=request.digest, reason="--yes")


_ID: Final = 12  # columns: run_ and eight digits, as git shows names
_STATUS: Final = 11
_WHEN: Final = 13
_RECORDS: Final = 9
_AGENT: Final = 8  # at least


def list_runs(place: str, status: RunStatus | None, limit: int, *, as_json: bool) -> int:
    """List the runs of a store, those with the newest records first."""
    found, is_more = asyncio.run(_read(place, status, limit))
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
    """Return the runs with their prompts, and whether there are more."""
    async with opened(place) as store:
        infos = await store.runs(status=status, limit=limit + 1)
        found = [(info, await _prompt(store, info)) for info in infos[:limit]]
        known = [(info, prompt) for info, prompt in found if prompt is not None]
        return known, len(infos) > limit


async def _prompt(store: Store, info: RunInfo) -> str | None:
    """Return the prompt of a run; None if it is not there any more."""
    try:
        records = await store.read(info.run_id, limit=1)
    except RunNotFoundError:
        return None
    except StoreError as error:  # that of one run: the others can be shown
        return f"({error})"
    first = records[0].event if records else None
    return first.prompt if isinstance(first, RunStarted) else ""


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
    if info.pending and not info.is_over:
        calls = ", ".join(map(visible_line, info.pending))
        yield f"waits for a decision on {count(len(info.pending), 'call')}: {calls}"
    if info.owner is not None and not info.is_over:
        seconds = "" if info.leased_until is None else f", for {info.leased_until - now:.0f} s"
        yield f"driven by {visible_line(info.owner)}{seconds}"
    elif info.is_abandoned:
        yield "no process drives it: Agent.resume continues it"


def _short_ids(run_ids: Sequence[str]) -> list[str]:
    """Return the first characters of IDs, as many as tell them apart."""
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


_LONGEST_BREAK: Final = 2.0  # seconds: it may have gone on the next day


def replay_run(name: str, place: str, factor: float, *, as_json: bool, follow: bool) -> int:
    """Play a run as it was seen, so many times faster; as JSON, its records."""
    with Shown(as_json=as_json) as shown:
        asyncio.run(_play(name, place, _Player(shown, factor), follow=follow))
    return shown.status()


async def _play(name: str, place: str, player: "_Player", *, follow: bool) -> None:
    async with opened(place) as store:
        info = await find_run(store, name)
        async with aclosing(store.follow(info.run_id)) as records:
            async for record in records:
                if record.seq <= info.seq:  # what comes later comes when it comes
                    await player.wait_for(record)
                player.show(record)
                if record.seq >= info.seq and not follow:
                    break


class _Player:
    def __init__(self, shown: Shown, factor: float) -> None:
        self._shown = shown
        self._factor = factor
        self._state = RunState(arguments="events")
        self._last: float | None = None
        self._due = 0.0

    async def wait_for(self, record: Record) -> None:
        """Wait as long as it took from the record before; not until a person has decided."""
        loop = asyncio.get_running_loop()
        if self._last is None:
            self._last, self._due = record.time, loop.time()
        gap = max(0.0, record.time - self._last)  # two machines may not have the same time
        self._last = record.time
        if isinstance(record.event, RunResumed) and gap > _LONGEST_BREAK:
            if self._shown.terminal is not None:
                self._shown.terminal.say(line(f"┄ {seconds_in_words(gap)} later"))
            gap = _LONGEST_BREAK
        self._due += gap / self._factor
        if (seconds := self._due - loop.time()) > 0:
            await asyncio.sleep(seconds)

    def show(self, record: Record) -> None:
        if self._shown.terminal is None:
            self._shown.show(record.event, to_json(record))
            return
        self._shown.show(record.event)
        for change in self._state.apply_record(record):
            if change.kind == "argument":
                self._shown.show(change.event)
