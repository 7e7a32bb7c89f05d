"""``argstream demo``: an agent at work in a temporary folder; its model follows a script."""

import asyncio
import math
import os
import shlex
import shutil
import sys
import time
from argparse import Namespace
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from shutil import get_terminal_size
from tempfile import TemporaryDirectory
from typing import Final

from argstream.agent import Agent
from argstream.agent.approvals import Approval, Approve
from argstream.agent.toolkits import file_tools, shell_tool, text_reader
from argstream.cli._setup import Stopping
from argstream.events import ApprovalRequested
from argstream.history import ResultPart
from argstream.models import ModelRequest, ScriptedModel
from argstream.models._scripted import CallTool, Reply, Say, Think
from argstream.policy import Not, Policy, Rule, Under
from argstream.runs import Call
from argstream.terminal import LiveTerminal, Terminal, ToolViews, open_terminal
from argstream.terminal._approval import TerminalApprover
from argstream.terminal.waterfall import Waterfall

__all__ = ["PROMPT", "DemoApprover", "make_project", "replies", "show_demo"]

_STANDARD_INPUT: Final = 0


class DemoApprover:
    """Asks; after some seconds without a key, or without a keyboard, it approves by itself."""

    def __init__(self, terminal: Terminal, looks: ToolViews, patience: float) -> None:
        self._patience = patience
        self._limit: asyncio.Timeout | None = None  # of the question that is asked: one at a time
        self._person: TerminalApprover | None = None
        if isinstance(terminal, LiveTerminal) and os.isatty(_STANDARD_INPUT):
            self._person = TerminalApprover(terminal, looks=looks)
            self._person.on_key, self._person.status = self._wait_for_ever, self._countdown

    async def __call__(self, request: ApprovalRequested) -> Approval:
        """Return the decision of the user, or an approval."""
        if self._person is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience) as self._limit:
                    return await self._person(request)
        reason = f"no answer within {self._patience:.0f} s" if self._patience else "--fast"
        return Approve(digest=request.digest, reason=reason)

    def _countdown(self) -> str:
        ends_at = None if self._limit is None else self._limit.when()
        if ends_at is None:
            return ""
        seconds = max(math.ceil(ends_at - time.monotonic()), 0)
        return f"Demo: approving automatically in {seconds} s"

    def _wait_for_ever(self) -> None:
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(None)


PROMPT: Final = "Round the tax correctly, and write a sales report."

_GIVEN: Final = ("prices.py", "sales.csv")
_EDIT: Final = {
    "old": "    return cents * RATES[kind] // 100\n",
    "new": "    return round(cents * RATES[kind] / 100)\n",
}
_KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDemoDemoDemoDemoDemoDemoDemoDemoDemo eve\n"


def make_project(folder: Path) -> None:
    """Write the files that the model works on."""
    for name in _GIVEN:
        (folder / name).write_text(_text(name), encoding="utf-8")


def _text(name: str) -> str:
    return files(__package__).joinpath("project", f"{name}.txt").read_text(encoding="utf-8")


def replies() -> tuple[Reply, ...]:
    """Return what the model says, turn by turn."""
    return (
        Reply(
            Think("`//` rounds down, so the tax is too low."),
            Say("`tax` in `prices.py` always rounds down. I'll fix that:"),
            CallTool("edit_file", {"path": "prices.py", "edits": [_EDIT]}),
        ),
        Reply(
            Say("Now the report:"),
            CallTool("write_file", {"path": "report.py", "content": _text("report.py")}),
        ),
        Reply(
            Say("Next, a call that the policy forbids:"),
            CallTool("write_file", {"path": "../../.ssh/authorized_keys", "content": _KEY * 40}),
        ),
        Reply(
            Say("Blocked before it was fully written. One step left:"),
            CallTool("run_command", {"command": f"{_python()} report.py sales.csv"}),
        ),
    )


def last_reply(request: ModelRequest) -> Reply:
    """Return the last reply, which depends on the decision of the user."""
    result = next(part for part in request.messages[-1].parts if isinstance(part, ResultPart))
    outcome = "the report was not run" if result.failed else "the report works"
    return Reply(Say(f"The tax is right, and {outcome}."))


def _python() -> str:
    return "python3" if shutil.which("python3") else shlex.quote(sys.executable)


_PIECE: Final = 9  # characters; forty pieces a second are a quick model
_DELAY: Final = 0.025
_PATIENCE: Final = 5.0  # seconds until the demo answers its own question


def show_demo(given: Namespace) -> int:
    """Play the demo. Return 0 if it went as it should, else 1; 130 after Ctrl-C, and so on."""
    speed = math.inf if given.fast else given.speed
    with Stopping() as stopping, TemporaryDirectory(prefix="argstream-demo-") as name:
        folder = Path(name).resolve()
        make_project(folder)
        looks = ToolViews(read_file=text_reader(folder))
        with open_terminal(looks) as terminal:
            approver = DemoApprover(terminal, looks, 0.0 if math.isinf(speed) else _PATIENCE)
            agent = _agent(approver, folder, speed)
            is_good = asyncio.run(_play(agent, terminal, stopping))
    return stopping.status or (0 if is_good else 1)


def _agent(approver: DemoApprover, folder: Path, speed: float) -> Agent:
    return Agent(
        ScriptedModel(*replies(), last_reply, piece_size=_PIECE, delay=_DELAY / speed, name="demo"),
        [*file_tools(folder), shell_tool(folder)],
        policy=_inside(folder),
        approver=approver,
    )


async def _play(agent: Agent, terminal: Terminal, stopping: Stopping) -> bool:
    """Return whether all went as it should."""
    run = agent.run_stream(PROMPT)
    with stopping.stops(run.stop):
        async for event in run:
            terminal.show(event)
    if run.result.outcome != "completed":
        return False
    # The last line sums the waterfall up, which `argstream inspect` draws.
    terminal.say(*Waterfall(run.state).lines(get_terminal_size().columns - 1)[-1:])
    return not any(map(_has_failed, run.state.calls.values()))


def _has_failed(call: Call) -> bool:
    """Return whether a tool ran and failed. A call that was rejected or denied did not run."""
    if call.name == "run_command" and call.outcome == "completed":
        return not call.result.startswith("exit status 0")
    return call.outcome == "failed" and call.attempts > 0


def _inside(folder: Path) -> Policy:
    rule = Rule(
        "deny",
        tool=("write_file", "edit_file"),
        argument="path",
        when=Not(Under(folder)),
        name="inside the project",
    )
    return Policy([rule], default="allow", root=folder)
