"""An agent that asks at a real terminal, for the tests to press keys: python -m … FOLDER [CALLS].

It writes files below FOLDER, and last of all ``result.json``: what became of the run, and which
files were written in which order.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from argstream.agent import Agent, tool
from argstream.models import CallTool, Reply, ScriptedModel
from argstream.terminal import LiveTerminal, Scene, TerminalApprover

CONTENT = "import os\n\nprint(os.name)\n"


async def ask(folder: Path, calls: Sequence[str]) -> None:
    written: list[list[str]] = []

    @tool(requires_confirmation=True)
    def write_file(path: str, content: str) -> str:
        """Write a file."""
        written.append([path, content])
        return "written"

    replies = [
        Reply(
            *(
                CallTool("write_file", {"path": path, "content": CONTENT})
                for path in turn.split(",")
            )
        )
        for turn in calls
    ]
    with LiveTerminal(Scene()) as terminal:
        approver = TerminalApprover(terminal)
        agent = Agent(ScriptedModel(*replies, "Done."), [write_file], approver=approver)
        run = agent.run_stream("Write it.")
        approver.check = run.check
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, run.stop, "Ctrl-C")
        async for event in run:
            terminal.show(event)
    errors = [use.error for use in run.result.tools]
    result = {"outcome": run.result.outcome, "written": written, "errors": errors}
    (folder / "result.json").write_text(json.dumps(result), "utf-8")


if __name__ == "__main__":
    asyncio.run(ask(Path(sys.argv[1]), sys.argv[2:] or ["app.py"]))
