"""Draws the picture of docs/cli.md: stored runs in a real terminal.

python -m tests.cli.picture docs/runs.svg
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from argstream import Agent
from argstream.agent.toolkits import shell_tool
from argstream.models import CallTool, Reply, ScriptedModel
from argstream.runs import Launch
from tests.terminal.picture import COMMAND, save
from tests.terminal.tmux import Tmux

CALL = Reply(CallTool("run_command", {"command": "python3 report.py sales.csv > report.html"}))
MODEL = "anthropic:claude-opus-4-7"


def main(file: str, columns: int = 80) -> None:
    """Make some runs, and draw what the commands show of them."""
    with TemporaryDirectory(prefix="shop-") as folder:
        store = f"{folder}/argstream.db"
        launch, tools = Launch(MODEL, ("files", "shell"), "/home/ada/shop"), [shell_tool(folder)]
        Agent(ScriptedModel("There are 22."), store=store).run("Count the sales")
        agent = Agent(ScriptedModel(CALL), tools, store=store, launch=launch)
        last = agent.run("Write a report").run_id[4:12]
        shown = ["argstream runs", f"argstream runs show {last}"]
        lines = [f"echo '$ {one}'; {COMMAND.parent}/{one}; echo" for one in shown]
        command = ["sh", "-c", f"{'; '.join(lines)}; sleep 60"]
        with Tmux(command, columns=columns, folder=Path(folder)) as terminal:
            terminal.wait_for(f"runs deny {last}")
            screen = terminal.screen("-e")
    save(Path(file), "argstream runs", screen, columns)


if __name__ == "__main__":
    main(sys.argv[1])
