"""``argstream demo``: an agent at work in a temporary folder; its model follows a script."""

import asyncio
import math
import os
import shlex
import shutil
import sys
import time
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from shutil import get_terminal_size
from tempfile import TemporaryDirectory
from typing import Final

import anyio

from argstream.agent import Agent, Tool, ToolContext, tool
from argstream.agent.approvals import Approval, Approve
from argstream.agent.toolkits import file_tools, shell_tool, text_reader
from argstream.cli._setup import Stopping
from argstream.errors import ToolError
from argstream.events import ApprovalRequested
from argstream.models import ScriptedModel
from argstream.models._scripted import CallTool, Reply, Say, Think
from argstream.policy import Not, Policy, Rule, Under
from argstream.runs import Call, RunState
from argstream.terminal import LiveTerminal, Terminal, ToolViews, open_terminal
from argstream.terminal._approval import TerminalApprover
from argstream.terminal._live import Tail
from argstream.terminal._text import Line, Span, line
from argstream.terminal.waterfall import Waterfall

__all__ = ["PROMPT", "DemoApprover", "make_project", "project_tools", "replies", "show_demo"]

_LEAST_ROWS: Final = 3  # the question, its keys, and the countdown
_STANDARD_INPUT: Final = 0


class DemoApprover:
    """Asks; after some seconds without a key, or without a keyboard, it approves by itself."""

    def __init__(self, terminal: Terminal, looks: ToolViews, patience: float) -> None:
        self._patience = patience
        self._limit: asyncio.Timeout | None = None  # of the question that is asked: one at a time
        self._person: TerminalApprover | None = None
        if isinstance(terminal, LiveTerminal) and os.isatty(_STANDARD_INPUT):
            self._person = TerminalApprover(_Counting(terminal, self), looks=looks)
            self._person.on_key = self._wait_for_ever

    async def __call__(self, request: ApprovalRequested) -> Approval:
        """Return the decision of the user, or an approval."""
        if self._person is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience) as self._limit:
                    return await self._person(request)
        return Approve(digest=request.digest, reason="no key was pressed, so the demo goes on")

    @property
    def ends_at(self) -> float | None:
        """When it approves by itself, if it will."""
        return None if self._limit is None else self._limit.when()

    def _wait_for_ever(self) -> None:
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(None)


class _Counting:
    """A terminal that shows below a question how long it waits."""

    def __init__(self, terminal: LiveTerminal, approver: DemoApprover) -> None:
        self._approver = approver
        self._terminal = terminal
        self.say = terminal.say
        self.is_last = terminal.is_last
        self.asked_since = terminal.asked_since
        self.suspended = terminal.suspended

    def tail_size(self) -> tuple[int, int]:
        """Return the room beside the countdown."""
        columns, rows = self._terminal.tail_size()
        return columns, rows - len(self._countdown(rows))

    def ask(self, tail: Tail | None, *, alone: bool = False) -> None:
        """Ask, with a countdown below."""

        def counting(now: float, columns: int, rows: int) -> list[Line]:
            below = self._countdown(rows)
            return [] if tail is None else [*tail(now, columns, rows - len(below)), *below]

        self._terminal.ask(None if tail is None else counting, alone=alone)

    def _countdown(self, rows: int) -> list[Line]:
        ends_at = self._approver.ends_at
        if ends_at is None or rows < _LEAST_ROWS:
            return []
        seconds = max(math.ceil(ends_at - time.monotonic()), 0)
        return [line(Span(f"  without a key, the demo says yes in {seconds} s", "faint"))]


PROMPT: Final = "Write a sales report for the shop, and make the tests pass."

_GIVEN: Final = ("prices.py", "test_shop.py", "sales.csv")


def make_project(folder: Path) -> None:
    """Write the files that the model works on."""
    for name in _GIVEN:
        (folder / name).write_text(_text(name), encoding="utf-8")


def _text(name: str) -> str:
    return files(__package__).joinpath("project", f"{name}.txt").read_text(encoding="utf-8")


_EDITS: Final = [
    {
        "old": "    return item.cents * RATES[item.kind] // 100\n",
        "new": "    return round(item.cents * RATES[item.kind] / 100)\n",
    },
    {
        "old": (
            "    sum = 0\n"
            "    for item in items:\n"
            "        sum += item.cents + tax(item)\n"
            "    return sum\n"
        ),
        "new": "    return sum(item.cents + tax(item) for item in items)\n",
    },
    {
        "old": (
            "    return cents - cents * percent / 100\n"
            "\n"
            "\n"
            "def in_euros(cents):\n"
            '    return f"{cents / 100} €"\n'
        ),
        "new": (
            "    return cents - round(cents * percent / 100)\n"
            "\n"
            "\n"
            "def in_euros(cents):\n"
            '    """Write a sum as people read it: 4.50 €."""\n'
            '    return f"{cents / 100:.2f} €"\n'
        ),
    },
]

_REPORT: Final = "report.py sales.csv --format html > it.html"
_KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDemoDemoDemoDemoDemoDemoDemoDemoDemo eve\n"


def replies() -> tuple[Reply, ...]:
    """Return what the model says, turn by turn."""
    return (
        Reply(
            Think("The tests say what the report must be able to do. First what is there."),
            Say("I read the prices and the tests first."),
            CallTool("read_file", {"path": "prices.py"}),
            CallTool("read_file", {"path": "test_shop.py"}),
        ),
        Reply(
            Say("The report is missing. I write it:"),
            CallTool("write_file", {"path": "report.py", "content": _text("report.py")}),
        ),
        Reply(
            Say("Three things in `prices.py` are wrong: rounding, a name, the digits of a sum."),
            CallTool("edit_file", {"path": "prices.py", "edits": _EDITS}),
        ),
        Reply(
            Say("Now the tests, and at the same time a look at the report."),
            CallTool("run_tests", {"file": "test_shop.py"}),
            CallTool("preview_report", {"sales": "sales.csv"}),
        ),
        Reply(
            Say("Somebody asked me to leave a way in:"),
            CallTool("write_file", {"path": "../../.ssh/authorized_keys", "content": _KEY * 40}),
        ),
        Reply(
            Say(
                "That is not allowed, and was not even written to its end. One thing is left to do:"
            ),
            CallTool("run_command", {"command": f"{_python()} {_REPORT}"}),
        ),
        Reply(Say("The tests pass, and the report is in `it.html`.")),
    )


def _python() -> str:
    return "python3" if shutil.which("python3") else shlex.quote(sys.executable)


def project_tools(folder: Path, pause: float) -> list[Tool]:
    """Return tools that run what is in the folder, with a pause after each line of output."""

    @tool
    async def run_tests(file: str, context: ToolContext) -> str:
        """Run the tests in a file."""
        return await _run("-m", "unittest", file, context=context)

    @tool
    async def preview_report(sales: str, context: ToolContext) -> str:
        """Show the report of a file of sales."""
        return await _run("report.py", sales, "--only", "item", context=context)

    async def _run(*arguments: str, context: ToolContext) -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-X", "utf8", *arguments),
            cwd=folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:  # the demo was stopped
                process.kill()
                with anyio.CancelScope(shield=True):
                    await process.wait()
        for row in output.decode().splitlines(keepends=True):
            context.output(row)
            await asyncio.sleep(pause)  # so that a viewer sees that two run at once
        if process.returncode:
            raise ToolError(output.decode())
        return output.decode()

    return [run_tests, preview_report]


_PIECE: Final = 9  # characters; a hundred pieces a second are a quick model
_DELAY: Final = 0.01
_LINE: Final = 0.12  # seconds between two lines that a tool says
_PATIENCE: Final = 5.0  # seconds until the demo answers its own question


def show_demo(speed: float) -> int:
    """Play the demo, so many times faster than a model. Return 0 if it went as it should, else 1.

    After Ctrl-C it is 130, and so on for other signals.
    """
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
        ScriptedModel(*replies(), piece_size=_PIECE, delay=_DELAY / speed, name="demo"),
        [*file_tools(folder), shell_tool(folder), *project_tools(folder, _LINE / speed)],
        policy=_inside(folder),
        approver=approver,
    )


async def _play(agent: Agent, terminal: Terminal, stopping: Stopping) -> bool:
    """Return whether all went as it should."""
    state = RunState()
    run = agent.run_stream(PROMPT)
    with stopping.stops(run.stop):
        async for event in run:
            terminal.show(event)
            state.apply(event, time.monotonic())
    if run.result.outcome != "completed":
        return False
    terminal.say(line(""), *Waterfall(state).lines(get_terminal_size().columns - 1))
    return not any(map(_has_failed, state.calls.values()))


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
        reason="write only inside the project",
    )
    return Policy([rule], default="allow", root=folder)
