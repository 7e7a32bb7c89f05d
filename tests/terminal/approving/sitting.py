"""A user at a terminal of the test's own: an agent asks, keys are pressed, the screen is read."""

import asyncio
import fcntl
import os
import struct
import termios
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager
from functools import wraps
from typing import Any, ParamSpec
from unittest.mock import patch

import pyte

from argstream.agent import Agent, AgentRun, Approval, tool
from argstream.events import ApprovalDecided, ApprovalRequested, Event
from argstream.models import CallTool, Reply, ScriptedModel
from argstream.policy import Policy
from argstream.terminal import LiveTerminal, Scene, TerminalApprover

__all__ = ["CONTENT", "PROMPT", "Sitting", "asked", "in_event_loop", "sitting", "write_call"]

CONTENT = "import os\n\nprint(os.name)\n"
PROMPT = "? Run write_file?"
P = ParamSpec("P")
_PATIENCE = 10.0
_QUICK = {
    "_approval._SETTLING_SECONDS": 0.05,
    "_keyboard._MOMENT_SECONDS": 0.02,
    "_keyboard._ALONE_SECONDS": 0.02,
    "_keyboard._LOOK_SECONDS": 0.02,
    "_approval._TURN_SECONDS": 0.01,
    "_live._FRAME": 0.01,
    "_live._TICK": 0.02,
}
"""Delays for a user who reads and presses keys as quickly as a test."""


def write_call(path: str = "app.py", content: str = CONTENT) -> CallTool:
    return CallTool("write_file", {"path": path, "content": content})


class Sitting:
    """What a person at the terminal sees and does."""

    def __init__(self, columns: int, rows: int) -> None:
        self._keys, self._terminal = os.openpty()
        self._screen = pyte.Screen(columns, rows)
        self.resize(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.source = os.fdopen(self._terminal, "r", closefd=False)
        self.output = os.fdopen(self._terminal, "w", closefd=False)
        self.modes_before = self.modes()
        self.written: list[tuple[str, str]] = []
        """What the tool has done."""
        self.decisions: list[ApprovalDecided] = []
        self.quiet: float
        self.terminal: LiveTerminal
        self.run: AgentRun
        self.decision: Approval
        self.following: asyncio.Task[None]

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self._terminal)

    def take(self, event: Event) -> None:
        if isinstance(event, ApprovalDecided):
            self.decisions.append(event)

    def screen(self) -> str:
        return "\n".join(row.rstrip() for row in self._screen.display)

    def above(self, question: str) -> list[str]:
        """Return the rows above a question, the nearest first."""
        rows = self.screen().split("\n")
        place = next(number for number, row in enumerate(rows) if question in row)
        return rows[:place][::-1]

    def come_back(self) -> None:
        """Leave the terminal as a shell does after ``fg``: its modes are those of the shell."""
        modes = self.modes()
        modes[3] |= termios.ICANON
        termios.tcsetattr(self._terminal, termios.TCSANOW, modes)

    def paint(self) -> None:
        self._stream.feed(os.read(self._keys, 65536))

    async def sees(self, text: str) -> None:
        """Wait until a text is on the screen."""
        await self._until(lambda: text in self.screen(), f"{text!r} does not come")

    async def sees_above(self, question: str, rows: list[str]) -> None:
        """Wait until these rows are right above a question, the nearest first."""
        await self._until(
            lambda: question in self.screen() and self.above(question)[: len(rows)] == rows,
            f"{rows} are not above {question!r}",
        )

    async def sees_no(self, text: str) -> None:
        """Wait until it is not."""
        await self._until(lambda: text not in self.screen(), f"{text!r} stays")

    def type(self, keys: str) -> None:
        """Press keys, all at once."""
        os.write(self._keys, keys.encode())

    async def press_too_early(self, key: str) -> None:
        """Press a key as soon as there is a question, until that is noticed."""
        await self.sees(PROMPT)
        while "press it again" not in self.screen():
            # What was typed before the keyboard was read is thrown away; and one is noticed alone.
            self.type(key)
            await asyncio.sleep(0.1)
            assert not self.decisions

    async def answer(self, key: str, question: str = PROMPT) -> None:
        """Read a question, and press a key for it."""
        await self.sees(question)
        await self._until(self._can_have_read, "it cannot be read")
        self.type(key)

    def _can_have_read(self) -> bool:
        since = self.terminal.asked_since()
        return since is not None and time.monotonic() - since >= self.quiet

    async def end(self) -> None:
        """Wait until the run is over."""
        async with asyncio.timeout(_PATIENCE):
            await self.following

    async def _until(self, is_so: Any, complaint: str) -> None:
        end = time.monotonic() + _PATIENCE
        while not is_so():
            if self.following.done():
                self.following.result()  # what went wrong, if something did
            assert time.monotonic() < end, f"{complaint}:\n{self.screen()}"
            await asyncio.sleep(0.01)

    def close(self) -> None:
        self.source.close()
        self.output.close()
        os.close(self._keys)
        os.close(self._terminal)


def in_event_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a test of a coroutine function."""

    @wraps(test)
    def run(*arguments: P.args, **options: P.kwargs) -> None:
        asyncio.run(test(*arguments, **options))

    return run


@asynccontextmanager
async def _seated(at: Sitting, quiet: float, wary: float | None) -> AsyncIterator[TerminalApprover]:
    """Open the terminal. ``quiet`` is how many seconds a question must stand to be answered."""
    at.quiet = quiet
    asyncio.get_running_loop().add_reader(at._keys, at.paint)
    own = {"_QUIET_SECONDS": quiet, "_WARY_SECONDS": quiet if wary is None else wary}
    try:
        with ExitStack() as patches:
            for name, value in (_QUICK | {f"_approval.{one}": own[one] for one in own}).items():
                patches.enter_context(patch(f"argstream.terminal.{name}", value))
            with LiveTerminal(Scene(), at.output) as at.terminal:
                yield TerminalApprover(at.terminal, source=at.source)
                await at.end()
        assert at.modes() == at.modes_before
    finally:
        asyncio.get_running_loop().remove_reader(at._keys)
        at.close()


@asynccontextmanager
async def sitting(
    *replies: Reply | CallTool,
    columns: int = 80,
    rows: int = 24,
    policy: Policy | None = None,
    seconds: float | None = None,
    quiet: float = 0.05,
    wary: float | None = None,
    is_shown: bool = True,
) -> AsyncIterator[Sitting]:
    """Have an agent work in front of a user.

    ``seconds`` is the timeout of approvals. ``is_shown``: the events of the run are shown.
    """
    at = Sitting(columns, rows)

    @tool(requires_confirmation=policy is None)
    def write_file(path: str, content: str) -> str:
        """Write a file."""
        at.written.append((path, content))
        return "written"

    async with _seated(at, quiet, wary) as approver:
        agent = Agent(
            ScriptedModel(*(replies or (write_call(),)), "Done."),
            [write_file],
            approver=approver,
            policy=policy,
            approval_timeout=seconds,
        )
        at.run = agent.run_stream("Write it.")
        approver.check = at.run.check

        async def follow() -> None:
            async for event in at.run:
                at.take(event)
                if is_shown:
                    at.terminal.show(event)

        at.following = asyncio.create_task(follow())
        yield at


@asynccontextmanager
async def asked(request: ApprovalRequested) -> AsyncIterator[Sitting]:
    """Ask about one call, without an agent. The answer is ``decision``."""
    at = Sitting(80, 40)
    async with _seated(at, 0.05, None) as approver:

        async def decide() -> None:
            at.decision = await approver(request)

        at.following = asyncio.create_task(decide())
        yield at
