"""``argstream demo``: an agent at work in a temporary folder; its model follows a script."""

import asyncio
import math
import time
from pathlib import Path
from shutil import get_terminal_size
from tempfile import TemporaryDirectory
from typing import Final

from argstream.agent import Agent
from argstream.agent.toolkits import file_tools, shell_tool, text_reader
from argstream.cli._stopping import Stopping
from argstream.cli.demo.approver import DemoApprover
from argstream.cli.demo.script import PROMPT, make_project, replies
from argstream.cli.demo.tools import project_tools
from argstream.clients import ScriptedModel
from argstream.events import Event, ToolCallCompleted, ToolCallFailed, ToolExecutionStarted
from argstream.policy import Not, Policy, Rule, Under
from argstream.terminal import Looks, Terminal, open_terminal
from argstream.terminal.spans import line
from argstream.terminal.waterfall import Timeline, draw

__all__ = ["show_demo"]

_PIECE: Final = 9  # characters; a hundred pieces a second are a quick model
_DELAY: Final = 0.01
_LINE: Final = 0.12  # seconds between two lines that a tool says
_PATIENCE: Final = 5.0  # seconds until the demo answers its own question


def show_demo(speed: float) -> int:
    """Play it, so many times faster than a model is. Returns 0 if it went as it should, else 1.

    After Ctrl-C it is 130, and so on for other signals.
    """
    with Stopping() as stopping, TemporaryDirectory(prefix="argstream-demo-") as name:
        folder = Path(name).resolve()
        make_project(folder)
        looks = Looks(read_file=text_reader(folder))
        with open_terminal(looks) as terminal:
            approver = DemoApprover(terminal, looks, 0.0 if math.isinf(speed) else _PATIENCE)
            agent = _agent(approver, folder, speed)
            is_good = asyncio.run(_play(agent, terminal, stopping))
    return stopping.status or (0 if is_good else 1)


def _agent(approver: DemoApprover, folder: Path, speed: float) -> Agent:
    return Agent(
        ScriptedModel(*replies(), piece_size=_PIECE, delay=_DELAY / speed, name="demo"),
        [*file_tools(folder), shell_tool(folder), *project_tools(folder, _LINE / speed)],
        policy=_inside(folder),
        approver=approver,
    )


async def _play(agent: Agent, terminal: Terminal, stopping: Stopping) -> bool:
    """Play it, and say whether all went as it should."""
    timeline = Timeline()
    calls = _Calls()
    began = time.monotonic()
    run = agent.run_stream(PROMPT)
    with stopping.stops(run.stop):
        async for event in run:
            terminal.show(event)
            timeline.note(event, time.monotonic() - began)
            calls.note(event)
    if run.result.outcome != "completed":
        return False
    terminal.say(line(""), *draw(timeline, get_terminal_size().columns - 1))
    return not calls.has_failed


class _Calls:
    """Whether a tool failed that was run: what the policy or a person refuses is not."""

    def __init__(self) -> None:
        self.has_failed = False
        self._run: set[str] = set()

    def note(self, event: Event) -> None:
        match event:
            case ToolExecutionStarted(call_id):
                self._run.add(call_id)
            case ToolCallFailed(call_id) if call_id in self._run:
                self.has_failed = True
            case ToolCallCompleted(name="run_command", result=str(told)):
                self.has_failed |= not told.startswith("exit status 0")
            case _:
                pass


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
