"""``argstream run``: an agent that works on a prompt, in this terminal."""

import asyncio
from typing import Final, NamedTuple

from argstream.agent import Agent
from argstream.agent.approvals import Approval, Approve, Approver
from argstream.agent.toolkits import text_reader
from argstream.cli._agents import (
    INSTRUCTIONS,
    chosen_model,
    folder_named,
    kits_named,
    model_named,
    tools_of,
)
from argstream.cli._input import UnreadableFile, chunks, complain
from argstream.cli._rules import read_rules
from argstream.cli._shown import Shown
from argstream.cli._stopping import Stopping
from argstream.cli._stores import files_of, place_of
from argstream.errors import ArgstreamError, UsageError
from argstream.events import ApprovalRequested
from argstream.sanitise import visible_line
from argstream.terminal import Looks
from argstream.terminal.approving import TerminalApprover

__all__ = ["RunOptions", "run_prompt"]

_HOW_TO_ALLOW: Final = "run it in a terminal to be asked, or allow everything with --yes"


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
    Ctrl-C, and so on for other signals.
    """
    with Stopping() as stopping:
        try:
            return _run(prompt, options, stopping)
        except (ArgstreamError, UnreadableFile) as error:
            complain(visible_line(str(error)))
            return 2


def _run(prompt: str, options: RunOptions, stopping: Stopping) -> int:
    model = model_named(chosen_model(options.model))
    folder, kits = folder_named(options.folder), kits_named(options.tools)
    hidden = files_of(place_of(options.store))  # also if this run is not kept: others are
    looks = Looks(read_file=text_reader(folder, hidden=hidden) if "files" in kits else None)
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


def _who_decides(options: RunOptions, shown: Shown, looks: Looks) -> Approver:
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
