"""A person at a terminal of the test's own: an agent asks, keys are pressed, the screen is read."""

import asyncio
import fcntl
import os
import struct
import termios
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any
from unittest.mock import patch

import pyte

from argstream.agent import Agent, AgentRun, tool
from argstream.clients import CallTool, Reply, ScriptedModel
from argstream.events import ApprovalDecided, Event
from argstream.policy import Policy
from argstream.terminal.approving import TerminalApprover
from argstream.terminal.live import LiveTerminal
from argstream.terminal.scene import Scene

__all__ = ["CONTENT", "PROMPT", "Sitting", "sitting", "write_call"]

CONTENT = "import os\n\nprint(os.name)\n"
PROMPT = "? Run write_file?"
_PATIENCE = 10.0
_QUICK = {
    "approving._asking._SETTLING_SECONDS": 0.05,
    "approving._keyboard._MOMENT_SECONDS": 0.02,
    "approving._keyboard._ALONE_SECONDS": 0.02,
    "approving._keyboard._LOOK_SECONDS": 0.02,
    "approving._turns._TURN_SECONDS": 0.01,
    "live._FRAME": 0.01,
    "live._TICK": 0.02,
}
"""How long things take for somebody who reads and presses keys as quickly as a test."""


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
        """Give the rows above a question, the nearest first."""
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


@asynccontextmanager
async def sitting(
    *replies: Reply | CallTool,
    columns: int = 80,
    rows: int = 24,
    policy: Policy | None = None,
    seconds: float | None = None,
    quiet: float = 0.05,
    is_shown: bool = True,
) -> AsyncIterator[Sitting]:
    """Have an agent work in front of somebody.

    ``seconds`` is how long he may think, ``quiet`` how long a question must stand to be answered.
    ``is_shown``: what happens is shown to him.
    """
    at = Sitting(columns, rows)

    @tool(requires_confirmation=policy is None)
    def write_file(path: str, content: str) -> str:
        """Write a file."""
        at.written.append((path, content))
        return "written"

    at.quiet = quiet
    asyncio.get_running_loop().add_reader(at._keys, at.paint)
    patches = ExitStack()
    attention = ("approving._attention._QUIET_SECONDS", "approving._attention._WARY_SECONDS")
    quick = _QUICK | dict.fromkeys(attention, quiet)
    for name, value in quick.items():
        patches.enter_context(patch(f"argstream.terminal.{name}", value))
    try:
        with patches, LiveTerminal(Scene(), at.output) as terminal:
            at.terminal = terminal
            approver = TerminalApprover(terminal, source=at.source)
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
                        terminal.show(event)

            at.following = asyncio.create_task(follow())
            yield at
            await at.end()
        assert at.modes() == at.modes_before
    finally:
        asyncio.get_running_loop().remove_reader(at._keys)
        at.close()
