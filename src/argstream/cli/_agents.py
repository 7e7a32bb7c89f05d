"""The commands ``run``, ``runs resume``, ``runs approve`` and ``runs deny``: all drive an agent.

Each function returns the exit status. ``main`` handles errors: they exit with 2.
"""

import asyncio
import os
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from argstream.agent import Agent, Tool
from argstream.agent._run import Run
from argstream.agent.approvals import Approval, Approve, Approver, Deny
from argstream.agent.toolkits import file_tools, shell_tool, text_reader
from argstream.cli._commands import fields
from argstream.cli._io import chunks, say_aside
from argstream.cli._setup import (
    Shown,
    Stopping,
    chosen,
    files_of,
    find_call,
    find_run,
    opened,
    place_of,
    print_lines,
    read_rules,
    short_id,
    shown_place,
    store_option,
)
from argstream.errors import UsageError
from argstream.events import ApprovalRequested
from argstream.models import make_model
from argstream.runs._records import Launch, RunInfo
from argstream.runs._state import RunState
from argstream.runs._store import Store
from argstream.sanitise import visible_line
from argstream.terminal import LiveTerminal, ToolViews
from argstream.terminal._approval import TerminalApprover
from argstream.terminal._entry import (
    Documents,
    EditorError,
    NotReadableError,
    argument_changes,
    edit,
    editor_command,
    same,
)
from argstream.terminal._text import Span, count, line, shown

INSTRUCTIONS: Final = (
    "You work in the folder {folder}, with the tools that you are given. Paths are relative to it. "
    "Read what you change before you change it. Be brief."
)
SCRIPT: Final = "script"
CLAUDE: Final = "claude-agent"
_MODEL: Final = "ARGSTREAM_MODEL"
_KITS: Final = ("files", "shell")
_PACE: Final = 0.03  # seconds between the chunks of the demo model
_STANDARD_INPUT: Final = 0
_HOW_TO_ALLOW: Final = "run in a terminal to approve calls, or pass --yes or --store"
_PAUSED: Final = 3  # exit status
_FRESH: Final = Launch(tools=("files",), folder=".")


class RunOptions(NamedTuple):
    """Options of ``run`` and ``resume``. None: as the run or the conversation was started."""

    model: str = ""
    tools: str | None = None
    folder: str | None = None
    policy: str | None = None
    instructions: str = ""
    store: str = ""
    is_continued: bool = False
    conversation: str = ""
    max_turns: int = 50
    yes: bool = False  # approves everything
    full: bool = False  # folds no texts
    json: bool = False


def chosen_model(given: str) -> str:
    """Return the name of the model: the given one, or the one in the environment."""
    return given or os.environ.get(_MODEL, "")


def model_named(name: str) -> object:
    """Return the model of this name, with its key; "" is no name."""
    if not name:
        raise UsageError(
            "no model given. Use --model provider:name (e.g. anthropic:claude-opus-4-7) or set "
            f"{_MODEL}. To try argstream without a key: argstream demo"
        )
    if name == CLAUDE:
        raise UsageError("Claude Code runs its own tools. Use argstream serve --model claude-agent")
    model = make_model(name)
    try:
        model.require_key()
    except UsageError as error:
        raise UsageError(str(error).replace(" or pass api_key", "")) from None
    return model


def folder_named(name: str) -> Path:
    if not name:
        raise UsageError("--folder is empty. Omit it to use the current directory")
    try:
        return Path(name).expanduser().absolute()
    except (OSError, RuntimeError) as error:  # no such home; or this folder is gone
        raise UsageError(f"--folder {name} cannot be used: {error}") from None


def kits_named(names: str) -> list[str]:
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if unknown := sorted({*wanted} - {*_KITS}):
        raise UsageError(f"unknown tool set {unknown[0]!r}. Choose from: {', '.join(_KITS)}")
    return list(dict.fromkeys(wanted))


def refuse_options(model: str, **given: str | None) -> None:
    """Raise UsageError if options were given that this model does not use."""
    if names := [f"--{name}" for name, value in given.items() if value is not None]:
        raise UsageError(f"{', '.join(names)} can't be used with --model {model}. Omit it")


def tools_of(kits: Sequence[str], folder: Path, hidden: Sequence[Path]) -> list[Tool]:
    """Return the tools of these kits for one folder, in which some files are hidden."""
    files = file_tools(folder, hidden=hidden) if "files" in kits else []
    return [*files, shell_tool(folder)] if "shell" in kits else files


def launch_of(model: str, kits: Iterable[str], folder: Path, policy: str | None) -> Launch:
    """Return how a run that is started like this can be resumed."""
    rules = "" if not policy else str(Path(policy).absolute())
    return Launch(model, tuple(kits), str(folder), rules)


# Starting and resuming


def run_prompt(given: Namespace) -> int:
    """Run a prompt; "-" reads it from standard input."""
    options = RunOptions(**fields(given, RunOptions))
    with Stopping() as stopping:
        text = _standard_input() if given.prompt == "-" else given.prompt
        if not text.strip():
            raise UsageError("the prompt is empty. Pass a text, or - to read it from stdin")
        return asyncio.run(_run(text, options, stopping))


async def _run(prompt: str, options: RunOptions, stopping: Stopping) -> int:
    place, continues = place_of(options.store, ""), options.is_continued or options.conversation
    if not (place or continues):
        async with _agent(options, _FRESH, None) as driving:
            return await driving.follow(lambda agent: agent.run_stream(prompt), stopping)
    # A new store is created by the first write: a run that is refused leaves no file behind.
    async with opened(place, may_create=not continues) as store:
        last = await _last_run(store, options) if continues else None
        async with _agent(options, last.launch if last else _FRESH, store) as driving:
            conversation = None
            if last is not None:
                id_, user = last.conversation_id, last.user
                conversation = await driving.agent.conversation(id_, user=user)
                _tell_settings("Continuing", id_, driving.launch)
            return await driving.follow(
                lambda agent: agent.run_stream(prompt, conversation), stopping
            )


async def _last_run(store: Store, options: RunOptions) -> RunInfo:
    """Return the newest run of the conversation that is to be continued."""
    start = options.conversation
    known = {
        one.conversation_id: one for one in await store.conversations(user=None if start else "")
    }
    if not (known or start):
        raise UsageError("no conversation to continue. Omit --continue to start one")
    option = store_option(options.store)
    hint = f"Find its ID with `argstream runs show RUN{option}`"
    found = chosen("conversation", start or next(iter(known)), known, hint)
    last = (await store.runs(conversation_id=found.conversation_id, user=found.user, limit=1))[0]
    if not last.is_over:
        name = short_id(last.run_id) + option
        raise UsageError(
            f"the conversation has a run that has not ended. Resume it with `argstream runs resume "
            f"{name}`, or stop it with `argstream runs stop {name}`"
        )
    return last


def resume_run(given: Namespace) -> int:
    """Resume a run with the settings that it was started with, and the given ones."""

    async def resume() -> int:
        async with opened(given.store) as store:
            info = await find_run(store, given.run, given.store)
            options = RunOptions(**fields(given, RunOptions))
            return await _drive_on(info, options, store, stopping)

    with Stopping() as stopping:
        return asyncio.run(resume())


async def _drive_on(
    info: RunInfo,
    options: RunOptions,
    store: Store,
    stopping: Stopping,
    decisions: Mapping[str, Approval] | None = None,
) -> int:
    """Resume a run here."""
    if info.is_over:
        raise UsageError(f"run {short_id(info.run_id)} has ended ({info.status})")
    if info.owner is not None:
        raise UsageError(_busy(info, options.store))
    if not (info.launch.model or options.model):
        raise UsageError(
            f"the settings of run {short_id(info.run_id)} are unknown: `argstream` did not start "
            "it. Resume it in its program with Agent.resume(), or pass --model and --tools"
        )
    async with _agent(options, info.launch, store) as driving:
        _tell_settings("Resuming", info.run_id, driving.launch)
        if driving.shown.terminal is not None:
            records = await store.read(info.run_id)
            pending = {request.call_id for request in RunState.from_records(records).pending}
            for record in records:  # so that the results of these calls are shown below them
                if getattr(record.event, "call_id", None) in pending:
                    driving.shown.show(record.event, record=record)
        return await driving.follow(lambda agent: agent.resume(info.run_id, decisions), stopping)


def _busy(info: RunInfo, place: str) -> str:
    name = short_id(info.run_id)
    return (
        f"run {name} is running ({info.owner}). Follow it with `argstream watch "
        f"run:{name}{store_option(place)}`"
    )


def _tell_settings(what: str, name: str, launch: Launch) -> None:
    settings = [f"model {launch.model}"]
    if launch.model != SCRIPT:
        settings.append(f"tools {','.join(launch.tools) or 'none'}")
        settings += [f"folder {launch.folder}"] if launch.tools else []
        settings += [f"policy {launch.policy}"] if launch.policy else []
    say_aside(visible_line(f"{what} {short_id(name)}: {', '.join(settings)}"))


class _Driving(NamedTuple):
    """An agent, and how its runs are shown."""

    agent: Agent
    launch: Launch
    approver: Approver | None
    shown: Shown
    options: RunOptions

    async def follow(self, start: Callable[[Agent], Run], stopping: Stopping) -> int:
        """Show a run until it ends or pauses. Return the exit status."""
        async with self.agent, start(self.agent) as run:  # stops it if it can't be shown
            if isinstance(self.approver, TerminalApprover):
                self.approver.check = run.check
            with stopping.stops(run.stop):
                async for record in run.records():
                    self.shown.show(record.event, record=record)
        self.shown.close()
        if run.result.outcome == "paused" and stopping.status is None:
            name = short_id(run.run_id) + store_option(self.options.store)
            say_aside(f"Paused for approval. Continue with: argstream runs approve {name}")
            return _PAUSED
        return stopping.status or (0 if run.result.outcome == "completed" else 1)


@asynccontextmanager
async def _agent(
    options: RunOptions, before: Launch, store: Store | None
) -> AsyncIterator[_Driving]:
    """Make an agent with these options; what they leave open is as it was before."""
    name = chosen_model(options.model) if options.model or not before.model else before.model
    kits = list(before.tools) if options.tools is None else kits_named(options.tools)
    folder = folder_named(before.folder or "." if options.folder is None else options.folder)
    policy = before.policy or None if options.policy is None else options.policy
    rules = read_rules(None, policy).policy
    hidden = files_of(place_of(options.store))  # also if this run is not kept: others are
    if is_script := name == SCRIPT:
        refuse_options(SCRIPT, tools=options.tools, folder=options.folder)
    room = TemporaryDirectory(prefix="argstream-run-") if is_script else nullcontext(".")
    with room as place:
        model: object
        if is_script:
            from argstream.cli._guide import ScriptedGuide, script_policy, script_tools

            tools, model = script_tools(Path(place), _PACE * 10), ScriptedGuide(_PACE)
            kits, instructions, rules = [], "", rules or script_policy()
        else:
            tools = tools_of(kits, folder, hidden)
            model, instructions = model_named(name), INSTRUCTIONS.format(folder=folder)
        views = ToolViews(read_file=text_reader(folder, hidden=hidden) if "files" in kits else None)
        launch = Launch(SCRIPT) if is_script else launch_of(name, kits, folder, policy)
        stored = False if store is None else shown_place(options.store)
        with Shown(views, as_json=options.json, full=options.full, stored=stored) as shown:
            approver = _approver(options, shown, views, is_stored=store is not None)
            agent = Agent(
                model,
                tools,
                instructions=options.instructions or instructions,
                policy=rules,
                approver=approver,
                max_turns=options.max_turns,
                store=store,
                launch=launch,
            )
            yield _Driving(agent, launch, approver, shown, options)


def _standard_input() -> str:
    try:
        return b"".join(chunks("-", "waiting for a prompt on standard input")).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin is not valid UTF-8: {error.reason}") from None


def _approver(
    options: RunOptions, shown: Shown, views: ToolViews, *, is_stored: bool
) -> Approver | None:
    """Return what decides; None if the run pauses for approval."""
    if options.yes:
        return lambda request: Approve(digest=request.digest, reason="--yes")
    can_ask = isinstance(shown.terminal, LiveTerminal) and os.isatty(_STANDARD_INPUT)
    if is_stored and not can_ask:
        return None
    return TerminalApprover(shown.terminal, looks=views, how_to_allow=_HOW_TO_ALLOW)


# Decisions


def approve(given: Namespace) -> int:
    """Approve a pending call, and resume its run if that is possible here."""
    with Stopping() as stopping:
        return asyncio.run(_decide(given, stopping))


def deny(given: Namespace) -> int:
    """Deny a pending call, and resume its run if that is possible here."""
    with Stopping() as stopping:
        return asyncio.run(_decide(given, stopping, Deny(given.reason or "")))


async def _decide(given: Namespace, stopping: Stopping, denial: Deny | None = None) -> int:
    async with opened(given.store) as store:
        info = await find_run(store, given.run, given.store)
        request, others = await find_call(store, info, given.call, given.store)
        decision: Approval = denial or Approve(
            arguments=await _edited(request.arguments) if given.edit else None,
            digest=request.digest,
        )
        can_resume = info.owner is None and info.launch.model and not others
        if can_resume and not given.no_resume:
            options, decisions = RunOptions(store=given.store or ""), {request.call_id: decision}
            return await _drive_on(info, options, store, stopping, decisions)
        await store.decide(info.run_id, {request.call_id: decision})
        _show_decision(request, decision)
    short = short_id(info.run_id)
    if others:
        waiting = ", ".join(f"{one.call_id} ({one.name})" for one in others)
        hint = f"{count(len(others), 'call')} still pending: {waiting}"
    elif info.owner is not None:
        hint = f"{info.owner} continues the run. Follow it: argstream watch run:{short}"
    elif info.launch.model:
        hint = f"Resume the run with: argstream runs resume {short}"
    else:
        hint = "The program that started the run can resume it: a server, or Agent.resume()"
    say_aside(visible_line(hint) + (store_option(given.store) if "argstream" in hint else ""))
    return 0


def _show_decision(request: ApprovalRequested, decision: Approval) -> None:
    """Show the call as it will run, or not run."""
    body = ToolViews().whole(request.name, request.arguments)
    if isinstance(decision, Deny):
        verdict = shown("✗ Denied" + (f": {decision.reason}" if decision.reason else ""), "bad")
    else:
        verdict = Span("✓ Approved", "good")
        if decision.arguments is not None:
            body = argument_changes(request.arguments, decision.arguments)
    print_lines([line("● ", shown(request.name, "tool")), *body, line(verdict)])


async def _edited(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments as the user changes them in an editor."""
    try:
        with TemporaryDirectory(prefix="argstream-", ignore_cleanup_errors=True) as folder:
            documents = Documents(Path(folder), arguments)
            await edit(editor_command(os.environ), documents.paths, _STANDARD_INPUT)
            changed = documents.read()
    except (EditorError, NotReadableError) as error:
        raise UsageError(f"nothing was approved: {error}") from None
    if same(changed, arguments):
        raise UsageError("no changes, so nothing was approved. To approve it as it is, omit --edit")
    return changed
