"""A shell for an agent: each command is asked for, heard while it runs, and bounded in time."""

import math
import os
import signal
from pathlib import Path

from argstream.agent.toolkits._command import run_command as run
from argstream.agent.toolkits._folder import Folder
from argstream.agent.toolkits._transcript import Transcript
from argstream.agent.tools import Tool, ToolContext, tool
from argstream.errors import UsageError

__all__ = ["shell_tool"]


def shell_tool(root: Path | str, *, timeout: float = 120.0) -> Tool:
    """Make the tool ``run_command``, which runs a command in a folder; a person approves of each.

    It is no sandbox: a command may do what you may do. After ``timeout`` seconds, or when the run
    is stopped, it is ended with all that it has started.
    """
    if os.name != "posix":
        raise UsageError("run_command needs /bin/sh and process groups, which this system has not")
    if isinstance(timeout, bool) or not 0 < timeout < math.inf:
        raise UsageError("shell_tool(timeout=…) must be a number of seconds above 0")
    folder = Folder(root)

    async def run_command(command: str, context: ToolContext | None = None) -> str:
        """Run a command.

        :param command: what /bin/sh is given, such as pytest -q
        """
        listener = _Listener(context)
        folder.require_same()
        status = await run(command, folder.root, listener, timeout)
        said = listener.transcript.text()
        if status is None:
            raise TimeoutError(
                f"the command was stopped: it took longer than {timeout:g} s"
                + (f"; it said:\n{said}" if said else "; it said nothing")
            )
        return f"{_words(status)}\n{said}" if said else f"{_words(status)}, no output"

    description = (
        "Run a command in a shell (/bin/sh), in the root of the project. The answer has its exit "
        "status and what it printed. There is nobody to type anything: standard input is empty. It "
        f"may take {timeout:g} seconds; what it leaves in the background ends with it."
    )
    return tool(requires_confirmation=True, description=description)(run_command)


class _Listener:
    """Tells whoever follows the run what a command says."""

    def __init__(self, context: ToolContext | None) -> None:
        self._context = context
        self.transcript = Transcript(self._tell)

    def take(self, data: bytes) -> None:
        self.transcript.take(data)

    async def wait_for_room(self) -> None:
        if self._context is not None:
            await self._context.wait_for_room()

    def _tell(self, text: str) -> None:
        if self._context is not None:
            self._context.output(text)


def _words(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
