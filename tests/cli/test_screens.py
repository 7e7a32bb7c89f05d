"""The screens of the commands in a real terminal, kept as text in tests/screens/commands-*.txt.

To accept changes, look at them, and run these tests with ARGSTREAM_ACCEPT_SCENES=1.
"""

import json
import os
import re
import sys
import time
from pathlib import Path

import pytest

from tests.cli.processes import timed
from tests.cli.test_inspect import TURN
from tests.cli.test_lint import BAD, GOOD, OPEN
from tests.cli.test_runs import CRASHED, FINISHED, PAUSED, logged
from tests.provider_streams import sse
from tests.terminal.tmux import Tmux

SCREENS = Path(__file__).parents[1] / "screens"
RUNS = {
    "finished": (FINISHED, 4330),
    "paused": (PAUSED, 70),
    "asking": (PAUSED, 71),
    "gone": (CRASHED, 7300),
}
COMMANDS = (
    *("--help", "runs", "runs show paused", "runs show finished"),
    *("runs approve paused --no-resume", "runs resume paused", "runs stop paused"),
    "runs deny asking --no-resume --reason Later",
    *("watch run:finished", "replay run:gone --speed max", "inspect run:finished"),
    *("runs delete gone finish", "runs list", "watch turn.rec", "inspect turn.rec"),
    *("lint tools.json", "record -o turn.rec", "inspect --fragments broken.json", "run Go"),
)
SERVERS = {
    "serve --port 0 --no-token --store s.db": "argstream is running at",
    "mock": "Mock provider listening",
    "record --proxy http://127.0.0.1:9": "Recording proxy listening",
}
# Runs each command in a fork of one process, since starting Python for each takes long.
PROGRAM = f"""
import os, signal, sys
from argstream.cli import _agents, _inspect, _runs, _serve, _streams, main

def start(command):
    print("$ argstream", command, flush=True)
    if not (child := os.fork()):
        sys.argv = ["argstream", *command.split()]
        main()
    return child

for command in {COMMANDS}:
    _, status = os.waitpid(start(command), 0)
    print("→", os.waitstatus_to_exitcode(status), end="\\n\\n", flush=True)
for command in {tuple(SERVERS)}:
    child = start(command)
    input()
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)
print("the end")
input()
"""
# What is different each time.
CHANGING = (
    (r"20\d\d-\d\d-\d\d([ T])\d\d:\d\d:\d\d(\.\d+)?", r"2026-11-18\g<1>12:00:00"),
    (r"(■[ a-z]*  )\d s ", r"\g<1>1 s "),
    (r"(127\.0\.0\.1):\d{5}\b", r"\1:54321"),
)


@pytest.mark.parametrize(("columns", "rows"), [(50, 15), (80, 24), (120, 40)])
def test_screens_are_unchanged(tmp_path: Path, columns: int, rows: int) -> None:
    for name, (events, age) in RUNS.items():
        logged(tmp_path / "argstream.db", events, f"run_{name}", began=time.time() - age)
    timed(tmp_path / "turn.rec", *((at + 1.0, sse([event])) for at, event in enumerate(TURN)))
    (tmp_path / "tools.json").write_text(json.dumps([BAD, GOOD, OPEN]))
    (tmp_path / "broken.json").write_text('{"path": tru}')
    names = ("ARGSTREAM_MODEL", "ARGSTREAM_STORE", "ARGSTREAM_TOKEN", "COLUMNS", "LINES")
    unset = [option for name in names for option in ("-u", name)]
    command = ["env", *unset, sys.executable, "-c", PROGRAM]
    with Tmux(command, columns=columns, rows=rows, folder=tmp_path) as terminal:
        for greeting in SERVERS.values():
            terminal.wait_for(greeting, timeout=50)
            terminal.press("Enter")
        terminal.wait_for("the end")
        seen = "\n".join([*terminal.lines(), ""])  # rows that tmux has wrapped are joined
    for changing, same in CHANGING:
        seen = re.sub(changing, same, seen)
    file = SCREENS / f"commands-{columns}.txt"
    if os.environ.get("ARGSTREAM_ACCEPT_SCENES"):
        file.write_text(seen, "utf-8")
    assert seen.splitlines() == file.read_text("utf-8").splitlines()
