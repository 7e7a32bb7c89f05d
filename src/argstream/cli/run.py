"""``argstream run``: an agent that works on a prompt, in this terminal."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from argstream.agent import Agent, AgentRun, Tool
from argstream.agent.approvals import Approval, Approve, Approver
from argstream.agent.toolkits import file_tools, shell_tool
from argstream.cli._input import complain
from argstream.cli._rules import read_rules
from argstream.cli._shown import Shown
from argstream.errors import ArgstreamError, UsageError
from argstream.events import ApprovalRequested
from argstream.sanitise import visible_line
from argstream.terminal import Looks, file_reader
from argstream.terminal.approving import TerminalApprover

__all__ = ["RunOptions", "run_prompt"]

_MODEL: Final = "ARGSTREAM_MODEL"
_INSTRUCTIONS: Final = (
    "You work in the folder {folder}, with the tools that you are given. Paths are relative to it. "
    "Read what you change before you change it. Be brief."
)
_HOW_TO_ALLOW: Final = "run it in a terminal to be asked, or allow everything with --yes"
_INTERRUPTED: Final = 130


class RunOptions(NamedTuple):
    """How it is to be run."""

    model: str = ""
    tools: str = "files"
    folder: str = "."
    policy: str | None = None
    instructions: str = ""
    store: str = ""
    max_turns: int = 50
    is_approved: bool = False
    """Whether everything that would be asked about may run."""
    as_json: bool = False


def run_prompt(prompt: str, options: RunOptions) -> int:
    """Run a prompt, or what standard input says for "-".

    Returns the exit status: 0 if it is complete, 1 if it failed, 2 if it cannot be run, 130 after
    Ctrl-C.
    """
    folder = Path(options.folder)
    looks = Looks(read_file=file_reader(folder))
    try:
        if prompt == "-":
            prompt = sys.stdin.read()
        with Shown(looks, as_json=options.as_json) as shown:
            approver = _who_decides(options, shown, looks)
            agent = _agent(options, folder, approver)
            return asyncio.run(_follow(agent, prompt, approver, shown))
    except ArgstreamError as error:
        complain(visible_line(str(error)))
        return 2


def _agent(options: RunOptions, folder: Path, approver: Approver) -> Agent:
    model = options.model or os.environ.get(_MODEL, "")
    if not model:
        raise UsageError(
            f"name a model, such as --model anthropic:claude-opus-4-7, or set {_MODEL}; "
            "`argstream demo` needs none"
        )
    return Agent(
        model,
        _tools(options.tools, folder),
        instructions=options.instructions or _INSTRUCTIONS.format(folder=folder.resolve()),
        policy=read_rules(None, options.policy).policy,
        approver=approver,
        max_turns=options.max_turns,
        store=options.store or None,
    )


def _who_decides(options: RunOptions, shown: Shown, looks: Looks) -> Approver:
    if options.is_approved:
        return _approve
    return TerminalApprover(shown.terminal, looks=looks, how_to_allow=_HOW_TO_ALLOW)


async def _follow(agent: Agent, prompt: str, approver: Approver, shown: Shown) -> int:
    async with agent:
        run = agent.run_stream(prompt)
        if isinstance(approver, TerminalApprover):
            approver.check = run.check
        interrupted = _stopped_by_ctrl_c(run)
        async for event in run:
            shown.show(event)
    if interrupted():
        return _INTERRUPTED
    return 0 if run.result.outcome == "completed" else 1


def _stopped_by_ctrl_c(run: AgentRun) -> Callable[[], bool]:
    """Stop a run with the first Ctrl-C; the second one ends the program. Say whether it came."""
    loop = asyncio.get_running_loop()
    came: list[int] = []

    def stop() -> None:
        came.append(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGINT)
        run.stop("Ctrl-C")

    loop.add_signal_handler(signal.SIGINT, stop)
    return lambda: bool(came)


def _approve(request: ApprovalRequested) -> Approval:
    return Approve(digest=request.digest, reason="--yes")


def _tools(names: str, folder: Path) -> list[Tool]:
    kits: dict[str, Callable[[], list[Tool]]] = {
        "files": lambda: file_tools(folder),
        "shell": lambda: [shell_tool(folder)],
    }
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if unknown := sorted({*wanted} - {*kits}):
        raise UsageError(f"--tools are some of {', '.join(kits)}, not {', '.join(unknown)}")
    return [tool for name in dict.fromkeys(wanted) for tool in kits[name]()]
