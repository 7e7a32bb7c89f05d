"""``argstream demo``, in a pipe and in a real terminal."""

import asyncio
import os
import re
import shlex
import signal
import sys
from argparse import Namespace
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from argstream import Approve, Deny
from argstream.cli import demo
from argstream.events import ApprovalRequested, ToolCallStarted
from argstream.terminal import LiveTerminal, RunView, ToolViews
from tests.cli.in_process import argstream
from tests.cli.processes import COMMAND, ENVIRONMENT, running
from tests.terminal.tmux import Tmux

REPORT = Path(demo.__file__).parent / "project" / "report.py.txt"


def test_demo_in_a_pipe() -> None:
    done = argstream("demo", "--fast")
    assert (done.returncode, done.stderr) == (0, b"")
    shown = done.stdout.decode()
    for line in (
        "  └ made 1 edit in prices.py\n",
        "  └ created report.py with 10 lines\n",
        "✗ Blocked by policy rule “inside the project”: the argument path, ",
        "╭─ Approval needed",
        "╰─ ✓ Approved: --fast",
        "bread      57.84 €",
        "  └ exit status 0\n",
    ):
        assert line in shown
    assert "ssh-ed25519" not in shown
    assert "\x1b" not in shown


def test_demo_needs_neither_path_nor_unicode() -> None:
    done = argstream("demo", "--fast", encoding="latin-1", PATH="")
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u25cf run_command" in done.stdout
    assert f"{shlex.quote(sys.executable)} report.py".encode() in done.stdout


def test_failing_tool_is_a_failure_and_a_denied_one_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "_python", lambda: "no-such-python")
    assert demo.show_demo(Namespace(fast=True)) == 1
    monkeypatch.setattr(demo.DemoApprover, "__call__", AsyncMock(return_value=Deny()))
    assert demo.show_demo(Namespace(fast=True)) == 0
    assert "and the report was not run." in capsys.readouterr().out


def test_signal_removes_temporary_files(tmp_path: Path) -> None:
    with running("demo", env=ENVIRONMENT | {"TMPDIR": str(tmp_path)}) as process:
        lines = [process.stdout.readline() for _ in range(2)]  # the second is the prompt
        assert lines[1].startswith(b"> ")
        assert list(tmp_path.iterdir())
        process.send_signal(signal.SIGTERM)
        assert b"Stopped: SIGTERM" in process.stdout.read()
        assert process.wait(20) == 128 + 15
    assert not list(tmp_path.iterdir())


def test_demo_in_a_terminal_shows_every_line_once() -> None:
    command = f"{shlex.quote(str(COMMAND))} demo --speed 30; echo ended with $?; exec sleep 60"
    with Tmux(["sh", "-c", command], columns=80, rows=24) as terminal:
        terminal.answer("n", "? help")
        terminal.wait_for("ended with 0")
        lines = terminal.lines()
    assert len(lines) <= 60
    written = [line[9:] for line in lines if re.match(r" {4,}\d+ │", line)]
    assert written == [line.rstrip() for line in REPORT.read_text().splitlines()]
    shown = "\n".join(lines)
    assert "Denied" in shown
    assert not re.search("[⠀-⣿]", shown)
    assert "? help" not in shown


@pytest.mark.parametrize("key", [b"", b"x"])
def test_demo_decides_unless_a_key_is_pressed(key: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    request = ApprovalRequested("c1", "run_command", {"command": "ls"}, "digest", "why")
    keys, other = os.openpty()
    painted = bytearray()

    async def until(text: bytes) -> None:
        async with asyncio.timeout(10):
            while text not in painted:
                await asyncio.sleep(0.01)

    async def ask() -> object:
        asyncio.get_running_loop().add_reader(keys, lambda: painted.extend(os.read(keys, 65536)))
        with LiveTerminal(RunView(), output) as terminal:
            terminal.show(ToolCallStarted("c1", 0, "run_command"))
            terminal.show(request)
            approver = demo.DemoApprover(terminal, ToolViews(), 1.0)
            answer = asyncio.create_task(approver(request))
            await until(b"approving automatically in")
            if key:
                os.write(keys, key)
                await until(b"Unknown key.")  # the hint about this key
                painted.clear()
                await asyncio.sleep(1.2)  # longer than the demo waits
                assert not answer.done()
                assert b"approving automatically" not in painted
                os.write(keys, b"n")
            return await answer

    with os.fdopen(other, "r", closefd=False) as source, os.fdopen(other, "w") as output:
        monkeypatch.setattr(sys, "stdin", source)
        monkeypatch.setattr(demo, "_STANDARD_INPUT", other)
        answer = asyncio.run(ask())
    os.close(keys)
    assert answer == Deny() if key else isinstance(answer, Approve)
