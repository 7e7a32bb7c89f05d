"""``argstream demo``: an agent at work in a temporary folder; its model follows a script."""

import asyncio
import math
import os
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec.structs import replace

from argstream.agent import Agent
from argstream.agent.approvals import Approval, Approve
from argstream.agent.toolkits import file_tools, shell_tool
from argstream.cli._columns import terminal_width
from argstream.cli.demo.script import PROMPT, REPLIES, make_project
from argstream.cli.demo.tools import project_tools
from argstream.clients import ScriptedModel
from argstream.events import ApprovalRequested
from argstream.policy import Not, Policy, Rule, Under
from argstream.terminal import LiveTerminal, Looks, Terminal, file_reader, open_terminal
from argstream.terminal.approving import TerminalApprover
from argstream.terminal.spans import line
from argstream.terminal.waterfall import Timeline, draw

__all__ = ["show_demo"]

_PIECE: Final = 9  # characters; a hundred pieces a second are a quick model
_DELAY: Final = 0.01
_LINE: Final = 0.12  # seconds between two lines that a tool says
_PATIENCE: Final = 5.0  # seconds until the demo answers its own question


def show_demo(speed: float) -> int:
    """Play it, so many times faster than a model is. Returns 0 if it went as it should, else 1."""
    with TemporaryDirectory(prefix="argstream-demo-") as name:
        folder = Path(name).resolve()
        make_project(folder)
        looks = Looks(read_file=file_reader(folder))
        with open_terminal(looks) as terminal:
            approver = _DemoApprover(terminal, looks, 0.0 if math.isinf(speed) else _PATIENCE)
            return asyncio.run(_play(terminal, approver, folder, speed))


async def _play(terminal: Terminal, approver: "_DemoApprover", folder: Path, speed: float) -> int:
    agent = Agent(
        ScriptedModel(*REPLIES, piece_size=_PIECE, delay=_DELAY / speed, name="demo"),
        [*file_tools(folder), shell_tool(folder), *project_tools(folder, _LINE / speed)],
        policy=_inside(folder),
        approver=approver,
    )
    timeline = Timeline()
    began = time.monotonic()
    run = agent.run_stream(PROMPT)
    async for event in run:
        terminal.show(event)
        timeline.note(event, time.monotonic() - began)
    terminal.say(line(""), *draw(timeline, terminal_width()))
    return 0 if run.result.outcome == "completed" else 1


def _inside(folder: Path) -> Policy:
    rule = Rule(
        "deny",
        tool=("write_file", "edit_file"),
        argument="path",
        when=Not(Under(folder)),
        name="inside the project",
        reason="write only inside the project",
    )
    return Policy([rule], default="allow", root=folder)


class _DemoApprover:
    """Asks whoever watches; if nobody answers, or nobody can, it answers itself."""

    def __init__(self, terminal: Terminal, looks: Looks, patience: float) -> None:
        self._person: TerminalApprover | None = None
        if isinstance(terminal, LiveTerminal) and os.isatty(0):
            self._person = TerminalApprover(terminal, looks=looks)
        self._patience = patience

    async def __call__(self, request: ApprovalRequested) -> Approval:
        if self._person is not None:
            counting = replace(request, expires_at=time.time() + self._patience)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    return await self._person(counting)
        return Approve(digest=request.digest, reason="nobody did, so the demo answers itself")
