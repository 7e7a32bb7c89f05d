"""A user at a pseudo-terminal: an agent asks, keys are pressed, the screen is read."""

import asyncio
import os
import termios
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyte

from argstream.agent import Agent, Run, tool
from argstream.events import ApprovalDecided
from argstream.models import CallTool, Reply, ScriptedModel
from argstream.policy import Policy
from argstream.terminal import LiveTerminal, RunView, TerminalApprover, _approval

__all__ = ["CONTENT", "PROMPT", "Sitting", "editor", "sitting", "write_call"]

CONTENT = "import os\n\nprint(os.name)\n"
PROMPT = "y approve   n deny"
_PATIENCE = 30.0  # the machine may be busy
# Delays for a user who reads and presses keys as quickly as a test.
_QUICK = {
    "_entry._MOMENT_SECONDS": 0.02,
    "_entry._ALONE_SECONDS": 0.02,
    "_entry._LOOK_SECONDS": 0.02,
    "_approval._TURN_SECONDS": 0.01,
    "_live._FRAME": 0.01,
    "_live._TICK": 0.1,
}


def write_call(path: str = "app.py", content: str = CONTENT) -> CallTool:
    return CallTool("write_file", {"path": path, "content": content})


def editor(folder: Path, script: str) -> str:
    path = folder / "my editor.sh"
    path.write_text(f"#!/bin/sh\n{script}", "utf-8")
    path.chmod(0o700)
    return f"'{path}'"


class Sitting:
    terminal: LiveTerminal
    run: Run
    following: asyncio.Task[None]

    def __init__(self, columns: int, rows: int, quiet: float) -> None:
        self._keys, self._terminal = os.openpty()
        self._screen = pyte.Screen(columns, rows)
        self._text = ""  # of the screen, if it was read since it was painted
        self.resize(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.source = os.fdopen(self._terminal, "r", closefd=False)
        self.output = os.fdopen(self._terminal, "w", closefd=False)
        self.modes_before = self.modes()
        self.written: list[tuple[str, str]] = []  # by the tool
        self.decisions: list[ApprovalDecided] = []
        self.quiet = quiet

    def resize(self, columns: int, rows: int) -> None:
        termios.tcsetwinsize(self._terminal, (rows, columns))
        self._screen.resize(rows, columns)
        self._text = ""

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self._terminal)

    def screen(self) -> str:
        if not self._text:
            rows = [self._screen.buffer[y] for y in range(self._screen.lines)]
            cells = ((row[x].data for x in range(max(row, default=-1) + 1)) for row in rows)
            self._text = "\n".join("".join(row).rstrip() for row in cells)
        return self._text

    def above(self, question: str) -> list[str]:
        rows = self.screen().split("\n")
        place = next(number for number, row in enumerate(rows) if question in row)
        return rows[:place][::-1]

    def come_back(self) -> None:
        modes = self.modes()
        modes[3] |= termios.ICANON
        termios.tcsetattr(self._terminal, termios.TCSANOW, modes)

    def paint(self) -> None:
        self._stream.feed(os.read(self._keys, 65536))
        self._text = ""

    async def sees(self, text: str) -> None:
        await self._until(lambda: text in self.screen(), f"{text!r} does not come")

    async def sees_no(self, text: str) -> None:
        await self._until(lambda: text not in self.screen(), f"{text!r} stays")

    async def sees_above(self, question: str, rows: list[str]) -> None:
        await self._until(
            lambda: question in self.screen() and self.above(question)[: len(rows)] == rows,
            f"{rows} are not above {question!r}",
        )

    def hurry(self) -> None:
        """Let questions be answered at once from now on."""
        self.quiet = 0.05
        vars(_approval).update(_QUIET_SECONDS=0.05, _WARY_SECONDS=0.05)

    def type(self, keys: str) -> None:
        os.write(self._keys, keys.encode())

    async def press_too_early(self, key: str) -> None:
        """Press a key as soon as there is a question, until the hint about it is shown."""
        await self.sees(PROMPT)
        while "Press again to confirm" not in self.screen():
            # Keys that come before the keyboard is read are dropped, and the hint needs one alone.
            self.type(key)
            await asyncio.sleep(0.1)
            assert not self.decisions

    async def answer(self, key: str, question: str = PROMPT) -> None:
        await self.sees(question)
        await self._until(self._can_have_read, "it cannot be read")
        self.type(key)

    def _can_have_read(self) -> bool:
        since = self.terminal.asked_since()
        return since is not None and time.monotonic() - since >= self.quiet

    async def end(self) -> None:
        async with asyncio.timeout(_PATIENCE):
            await self.following

    async def _until(self, condition: Callable[[], bool], complaint: str) -> None:
        end = time.monotonic() + _PATIENCE
        while not condition():
            if self.following.done():
                self.following.result()  # raises what went wrong, if something did
            assert time.monotonic() < end, f"{complaint}:\n{self.screen()}"
            await asyncio.sleep(0.01)

    def close(self) -> None:
        self.source.close()
        self.output.close()
        os.close(self._keys)
        os.close(self._terminal)


@asynccontextmanager
async def _seated(
    at: Sitting, wary: float | None = None, settling: float = 0.05
) -> AsyncIterator[TerminalApprover]:
    """Open the terminal. At the end, its modes must be as before."""
    loop = asyncio.get_running_loop()
    loop.add_reader(at._keys, at.paint)
    own = {"QUIET": at.quiet, "WARY": at.quiet if wary is None else wary, "SETTLING": settling}
    delays = _QUICK | {f"_approval._{name}_SECONDS": value for name, value in own.items()}
    try:
        with ExitStack() as patches:
            for name, value in delays.items():
                patches.enter_context(patch(f"argstream.terminal.{name}", value))
            # Some event loops cannot watch files.
            patches.enter_context(patch.object(loop, "add_reader", side_effect=NotImplementedError))
            with LiveTerminal(RunView(), at.output) as at.terminal:
                yield TerminalApprover(at.terminal, source=at.source)
                await at.end()
        assert at.modes() == at.modes_before
    finally:
        loop.remove_reader(at._keys)
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
    settling: float = 0.05,
    is_shown: bool = True,
    tools: Sequence[Any] = (),
    is_slow: bool = False,
) -> AsyncIterator[Sitting]:
    """Run an agent in front of a user.

    ``seconds`` is the timeout of approvals. A question can be answered ``quiet`` seconds after it
    is shown. The first question waits ``settling`` seconds for requests that come at the same time.
    ``is_shown``: the events of the run are shown; ``is_slow``: one after the other.
    """
    at = Sitting(columns, rows, quiet)

    @tool(requires_confirmation=policy is None)
    def write_file(path: str, content: str) -> str:
        """Write a file."""
        at.written.append((path, content))
        return "written"

    async with _seated(at, wary, settling) as approver:
        model = ScriptedModel(*(replies or (write_call(),)), "Done.")
        checks: Any = {"approver": approver, "policy": policy, "approval_timeout": seconds}
        at.run = Agent(model, tools or [write_file], **checks).run_stream("Write it.")
        approver.check = at.run.check

        async def follow() -> None:
            async for event in at.run:
                if isinstance(event, ApprovalDecided):
                    at.decisions.append(event)
                if is_shown:
                    at.terminal.show(event)
                if is_slow:  # what is final after each event is committed
                    at.terminal.is_last(None)

        at.following = asyncio.create_task(follow())
        yield at
