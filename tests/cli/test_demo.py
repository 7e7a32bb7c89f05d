"""``argstream demo``: what a newcomer sees first, in a pipe and in a real terminal."""

import asyncio
import math
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from argstream import Approve, Deny
from argstream.agent import Approval
from argstream.cli import demo
from argstream.cli import demo as approving
from argstream.cli.demo import show_demo
from argstream.events import ApprovalRequested
from argstream.terminal import LiveTerminal, Looks, Scene
from tests.cli.in_process import argstream
from tests.cli.test_cli import COMMAND, ENVIRONMENT
from tests.terminal.tmux import Tmux

REPORT = Path(demo.__file__).parent / "project" / "report.py.txt"


@pytest.fixture(scope="module")
def piped() -> str:
    done = argstream("demo", "--fast")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\x1b" not in done.stdout
    return done.stdout.decode()


class TestInAPipe:
    def test_it_reads_writes_and_edits(self, piped: str) -> None:
        assert piped.count("● read_file  prices.py\n  └ prices.py has 31 lines") == 1
        assert "  └ created report.py with 217 lines\n" in piped
        assert "  └ made 3 edits in prices.py\n" in piped

    def test_the_project_works_then(self, piped: str) -> None:
        assert "┆ OK" in piped
        assert "bread    21  101.22 €" in piped

    def test_a_call_is_refused_before_it_is_written(self, piped: str) -> None:
        assert "✗ rejected at character 37, in path: " in piped
        assert re.search(r"— rejected: not read further than \d\d characters", piped)
        assert "ssh-ed25519" not in piped

    def test_it_answers_itself_where_nobody_can(self, piped: str) -> None:
        assert "? run_command must be approved" in piped
        assert "✓ run_command is approved: nobody did, so the demo answers itself" in piped
        assert "  └ exit status 0, no output\n" in piped

    def test_it_ends_with_the_waterfall(self, piped: str) -> None:
        assert len(re.findall(r"of silence( ░+)?\n", piped)) == 8
        assert "silence were replaced" in piped.splitlines()[-1]


class TestElsewhere:
    def test_it_needs_no_name_for_python_and_no_unicode(self) -> None:
        done = subprocess.run(
            [COMMAND, "demo", "--fast"],
            env={**ENVIRONMENT, "PATH": "", "PYTHONIOENCODING": "latin-1"},
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert rb"\u25cf run_command" in done.stdout
        assert f"{shlex.quote(sys.executable)} report.py".encode() in done.stdout

    def test_a_tool_that_fails_is_no_success(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(demo, "_python", lambda: "no-such-python")
        assert show_demo(math.inf) == 1

    def test_nothing_is_left_of_it_after_a_signal(self, tmp_path: Path) -> None:
        with subprocess.Popen(
            [COMMAND, "demo"],
            env={**ENVIRONMENT, "TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            assert list(tmp_path.iterdir())
            process.terminate()
            assert b"stopped: SIGTERM" in process.stdout.read()
        assert process.returncode == 128 + 15
        assert not list(tmp_path.iterdir())


class TestInATerminal:
    def test_a_person_is_asked_and_every_line_is_there_once(self) -> None:
        with Tmux([str(COMMAND), "demo", "--speed", "10"], columns=100, rows=30) as terminal:
            terminal.wait_for("? help")
            time.sleep(0.4)  # what is typed at once might be meant for something else
            terminal.press("n")
            terminal.wait_for_end()
            assert terminal.exit_code() == 0
            lines = terminal.lines()
        written = [line[9:] for line in lines if re.match(r" *\d+ │", line)]
        assert written == [line.rstrip() for line in REPORT.read_text().splitlines()]
        shown = "\n".join(lines)
        assert "denied" in shown
        assert not re.search("[⠀-⣿]", shown)
        assert "? help" not in shown


class Question:
    """A question of the demo to somebody at a terminal."""

    def __init__(self) -> None:
        self.keys, self.terminal = os.openpty()
        self.painted = b""
        self.answer: asyncio.Task[Approval]
        self._painter = threading.Thread(target=self._paint, daemon=True)
        self._painter.start()

    def _paint(self) -> None:
        with suppress(OSError):  # nobody has it open any more who could write
            while data := os.read(self.keys, 65536):
                self.painted += data

    def close(self) -> None:
        self._painter.join()
        os.close(self.keys)

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(10):
            while text not in self.painted:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def question(monkeypatch: pytest.MonkeyPatch, patience: float) -> AsyncIterator[Question]:
    asked = Question()
    request = ApprovalRequested("c1", "run_command", {"command": "ls"}, "digest", "why")
    with (
        os.fdopen(asked.terminal, "r", closefd=False) as source,
        os.fdopen(asked.terminal, "w") as output,
    ):
        monkeypatch.setattr(sys, "stdin", source)
        monkeypatch.setattr(approving, "_STANDARD_INPUT", asked.terminal)
        with LiveTerminal(Scene(), output) as terminal:
            terminal.show(request)
            approver = approving.DemoApprover(terminal, Looks(), patience)
            asked.answer = asyncio.create_task(approver(request))
            await asked.until(b"the demo says yes in")
            yield asked
    asked.close()


class TestPatience:
    def test_if_nobody_touches_a_key_it_answers_itself(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def main() -> None:
            async with question(monkeypatch, 0.7) as asked:
                assert isinstance(await asked.answer, Approve)

        asyncio.run(main())

    def test_with_the_first_key_it_is_left_to_who_pressed_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def main() -> None:
            async with question(monkeypatch, 1.0) as asked:
                os.write(asked.keys, b"x")
                await asyncio.sleep(0.5)
                asked.painted = b""
                await asyncio.sleep(0.7)
                assert not asked.answer.done()
                assert b"the demo says yes" not in asked.painted
                os.write(asked.keys, b"n")
                assert await asked.answer == Deny()

        asyncio.run(main())
