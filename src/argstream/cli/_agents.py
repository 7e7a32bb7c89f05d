"""The commands ``run``, ``runs resume``, ``runs approve`` and ``runs deny``: all drive an agent."""

import asyncio
import os
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from argstream.agent import Agent, Tool
from argstream.agent._run import Run
from argstream.agent.approvals import Approval, Approve, Approver, Deny
from argstream.agent.toolkits import file_tools, shell_tool, text_reader
from argstream.cli._commands import parsed
from argstream.cli._io import chunks, say_aside
from argstream.cli._setup import (
    Shown,
    Stopping,
    approve_commands,
    chosen,
    continue_command,
    files_of,
    find_call,
    find_run,
    opened,
    place_of,
    policy_in,
    print_lines,
    settings_of,
    short_id,
    shown_place,
    store_option,
)
from argstream.errors import UsageError
from argstream.events import ApprovalRequested
from argstream.models import ScriptedModel, make_model
from argstream.policy import Policy
from argstream.runs._records import Launch, RunInfo
from argstream.runs._store import Store
from argstream.sanitise import visible_line
from argstream.terminal import LiveTerminal, ToolViews
from argstream.terminal._approval import TerminalApprover
from argstream.terminal._entry import Documents, EditorError, argument_changes, edit, editor_command
from argstream.terminal._run_view import RunSoFar
from argstream.terminal._text import Span, count, line, shown

_INSTRUCTIONS: Final = (
    "You work in the folder {folder}, with the tools that you are given. Paths are relative to it. "
    "Read what you change before you change it. Be brief."
)
SCRIPT: Final = "script"
CLAUDE: Final = "claude-agent"
_MODEL: Final = "ARGSTREAM_MODEL"
_KITS: Final = ("files", "shell")
_PACE: Final = 0.03  # seconds between the chunks of the demo model
_STANDARD_INPUT: Final = 0
_NOT_ASKED: Final = "approval needed, but no user could be asked"
_HOW_TO_APPROVE: Final = (
    "A call was denied. To approve it, run in a terminal, or pass --yes. With --store, the run "
    "pauses instead."
)
_MAX_TURNS: Final = 50
_PIECES_A_STEP: Final = 10  # that the script could write during a step of its longer tool
_PAUSED: Final = 3  # exit status
_FRESH: Final = Launch(tools=("files",), folder=".")


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
    """Raise UsageError if options were given that this model can't use; "" is the demo model."""
    if names := ", ".join(f"--{name}" for name, value in given.items() if value is not None):
        if model:
            raise UsageError(f"{names} can't be used with --model {model}. Omit it")
        raise UsageError(
            "no model given, so the demo model would be served. Add --model provider:name, or omit "
            f"{names}"
        )


def launched_tools(launch: Launch, place: str, room: Path, pace: float = _PACE) -> list[Tool]:
    """Return the tools of a run that is launched like this. Those of the script use ``room``."""
    if launch.model == SCRIPT:
        from argstream.cli._guide import script_tools

        return script_tools(room, pace * _PIECES_A_STEP)
    folder, hidden = Path(launch.folder), files_of(place)
    files = file_tools(folder, hidden=hidden) if "files" in launch.tools else []
    return [*files, shell_tool(folder)] if "shell" in launch.tools else files


def launched_agent(
    launch: Launch, rules: Policy | None, tools: list[Tool], pace: float = _PACE, **others: Any
) -> Agent:
    """Return the agent of a run that is launched like this."""
    model: object
    instructions = launch.instructions
    if launch.model == SCRIPT:
        from argstream.cli._guide import ScriptedGuide, script_policy

        model, rules = ScriptedGuide(pace), rules or script_policy()
    else:
        model = model_named(launch.model)
        instructions = instructions or (_INSTRUCTIONS.format(folder=launch.folder) if tools else "")
    others |= {"max_turns": launch.max_turns or _MAX_TURNS, "launch": launch}
    return Agent(model, tools, instructions=instructions, policy=rules, **others)


def absolute(policy: str | None) -> str:
    """Return the path of a policy file, so that a run can be resumed in another folder."""
    return str(Path(policy).absolute()) if policy else ""


# Starting and resuming


def run_prompt(given: Namespace) -> int:
    """Run a prompt; "-" reads it from standard input."""
    with Stopping() as stopping:
        text = _standard_input() if given.prompt == "-" else given.prompt
        if not text.strip():
            raise UsageError("the prompt is empty. Pass a text, or - to read it from stdin")
        return asyncio.run(_run(text, given, stopping))


async def _run(prompt: str, options: Namespace, stopping: Stopping) -> int:
    place, continues = place_of(options.store, ""), options.is_continued or options.conversation
    # A new store is created by the first write: a run that is refused leaves no file behind.
    is_stored = place or continues
    opening = opened(place, may_create=not continues) if is_stored else nullcontext()
    async with opening as store:
        last = await _last_run(store, options) if store is not None and continues else None
        async with _agent(options, last.launch if last else _FRESH, store) as driving:
            conversation = None
            if last is not None:
                id_, user = last.conversation_id, last.user
                conversation = await driving.agent.conversation(id_, user=user)
                _tell_settings("Continuing", id_, driving.launch)
            return await driving.follow(
                lambda agent: agent.run_stream(prompt, conversation), stopping
            )


async def _last_run(store: Store, options: Namespace) -> RunInfo:
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
            return await _drive_on(info, given, store, stopping)

    with Stopping() as stopping:
        return asyncio.run(resume())


async def _drive_on(
    info: RunInfo,
    options: Namespace,
    store: Store,
    stopping: Stopping,
    decisions: Mapping[str, Approval] | None = None,
) -> int:
    name, option = short_id(info.run_id), store_option(options.store)
    if info.is_over:
        raise UsageError(
            f"run {name} has ended ({info.status}). To continue its conversation: "
            f"{continue_command(info, options.store)}"
        )
    if info.owner is not None:
        raise UsageError(
            f"run {name} is running ({info.owner}). Follow it with `argstream watch "
            f"run:{name}{option}`"
        )
    if not (info.launch.model or options.model):
        raise UsageError(
            f"the settings of run {name} are unknown: it was not started with `argstream run`. "
            "Resume it in its own program, or pass --model and --tools"
        )
    async with _agent(options, info.launch, store) as driving:
        _tell_settings("Resuming", info.run_id, driving.launch)
        if driving.shown.terminal is not None:
            driving.shown.terminal.show(RunSoFar(await store.read(info.run_id)))
        return await driving.follow(lambda agent: agent.resume(info.run_id, decisions), stopping)


def _tell_settings(what: str, name: str, launch: Launch) -> None:
    settings = (f"{label.lower()} {text}" for label, text in settings_of(launch).items() if text)
    say_aside(visible_line(f"{what} {short_id(name)}: {', '.join(settings)}"))


class _Driving(NamedTuple):
    """An agent, and how its runs are shown."""

    agent: Agent
    launch: Launch
    approver: Approver | None
    shown: Shown
    options: Namespace

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
            calls = approve_commands(run.run_id, run.pending, self.options.store)
            say_aside(f"Paused for approval. Continue with: {calls}")
            return _PAUSED
        return stopping.status or (0 if run.result.outcome == "completed" else 1)


@asynccontextmanager
async def _agent(
    options: Namespace, before: Launch, store: Store | None
) -> AsyncIterator[_Driving]:
    """Make an agent with the options of ``run`` or ``resume``; others are as before."""
    name = chosen_model(options.model) if options.model or not before.model else before.model
    kits = list(before.tools) if options.tools is None else kits_named(options.tools)
    folder = folder_named(before.folder or "." if options.folder is None else options.folder)
    policy = before.policy or None if options.policy is None else options.policy
    rules = policy_in(policy)
    instructions = options.instructions or before.instructions
    turns = options.max_turns or before.max_turns
    place, views = place_of(options.store), ToolViews()  # the files of a store are never shown
    if name == SCRIPT:
        refuse_options(SCRIPT, tools=options.tools, folder=options.folder)
        kits = []
    launch = Launch(name, tuple(kits), str(folder), absolute(policy), instructions, turns)
    room = TemporaryDirectory(prefix="argstream-run-") if name == SCRIPT else nullcontext(".")
    with room as folder_of_script:
        tools = launched_tools(launch, place, Path(folder_of_script))
        if "files" in kits:
            views = ToolViews(read_file=text_reader(folder, hidden=files_of(place)))
        stored = False if store is None else shown_place(options.store or "")
        with Shown(views, as_json=options.json, full=options.full, stored=stored) as shown:
            approver = _approver(options, shown, views, is_stored=store is not None)
            agent = launched_agent(launch, rules, tools, approver=approver, store=store)
            yield _Driving(agent, launch, approver, shown, options)


def _standard_input() -> str:
    try:
        return b"".join(chunks("-", "waiting for a prompt on standard input")).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin is not valid UTF-8: {error.reason}") from None


def _approver(
    options: Namespace, shown: Shown, views: ToolViews, *, is_stored: bool
) -> Approver | None:
    """Return what decides; None if the run pauses for approval."""
    if options.yes:
        return lambda request: Approve(digest=request.digest, reason="--yes")
    if isinstance(shown.terminal, LiveTerminal) and os.isatty(_STANDARD_INPUT):
        return TerminalApprover(shown.terminal, looks=views)
    return None if is_stored else _not_asked


def _not_asked(_: ApprovalRequested) -> Deny:
    say_aside(_HOW_TO_APPROVE)
    return Deny(_NOT_ASKED)


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
        decision: Approval = denial or Approve(digest=request.digest)
        if isinstance(decision, Approve) and given.edit:
            decision = await _edited(
                decision, request, partial(_check, info, store, place_of(given.store))
            )
        can_resume = info.owner is None and info.launch.model and not others
        if can_resume and not given.no_resume:
            options, decisions = parsed("runs resume", [info.run_id]), {request.call_id: decision}
            options.store = given.store
            return await _drive_on(info, options, store, stopping, decisions)
        await store.decide(info.run_id, {request.call_id: decision})
        _show_decision(request, decision)
    short = short_id(info.run_id)
    if others:
        calls = approve_commands(info.run_id, others, given.store)
        say_aside(f"{count(len(others), 'call')} still pending. To approve: {calls}")
        return 0
    if info.owner is not None:
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


async def _check(info: RunInfo, store: Store, place: str, call_id: str, decision: Approve) -> None:
    """Raise UsageError if a run can't be resumed with edited arguments."""
    launch = info.launch
    if launch.model:  # otherwise its tools are not known here
        tools = launched_tools(launch, place, Path())
        policy = policy_in(launch.policy or None)
        agent = Agent(ScriptedModel(), tools, policy=policy, store=store)
        await agent.check(info.run_id, {call_id: decision})


async def _edited(
    decision: Approve, request: ApprovalRequested, check: Callable[[str, Approve], Awaitable[None]]
) -> Approve:
    """Return the decision with the arguments as the user changes them in an editor."""
    is_terminal = os.isatty(_STANDARD_INPUT)
    if not (is_terminal or os.environ.get("VISUAL") or os.environ.get("EDITOR")):
        raise UsageError("--edit needs a terminal")
    with TemporaryDirectory(prefix="argstream-", ignore_cleanup_errors=True) as folder:
        documents, key = Documents(Path(folder), request.arguments), "e"
        while key == "e":
            question = "Approve with these edits? y, n, or e to edit again: "
            try:
                await edit(editor_command(os.environ), documents.paths, _STANDARD_INPUT)
                decision = replace(decision, arguments=documents.read())
                await check(request.call_id, decision)
            except (EditorError, UsageError) as problem:
                if isinstance(problem, EditorError) or not is_terminal:
                    raise UsageError(f"nothing was approved: {problem}") from None
                question = f"{visible_line(str(problem))}\ne to edit again, n to leave it: "
            else:
                changes = argument_changes(request.arguments, decision.arguments or {})
                if not changes:
                    raise UsageError("no changes, so nothing was approved. Omit --edit to approve")
                if not is_terminal:
                    return decision
                print_lines(changes)
            key = _key(question)
    if key != "y":
        raise UsageError("nothing was approved")
    return decision


def _key(question: str) -> str:
    """Return the first letter of the user's answer. The end of the input means no."""
    while True:
        try:
            key = input(question).strip().lower()[:1]
        except EOFError:
            return "n"
        if key in ("e", "n") or (key == "y" and "y," in question):
            return key
