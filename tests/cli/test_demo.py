"""``argstream demo``: what a newcomer sees first, in a pipe and in a real terminal."""

import re
import time
from pathlib import Path

import pytest

from argstream.cli import demo
from tests.cli.test_cli import COMMAND, argstream
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
        assert piped.count("= read_file") == 2
        assert '= write_file: "created report.py with 213 lines"' in piped
        assert '= edit_file: "made 3 edits in prices.py"' in piped

    def test_the_project_works_then(self, piped: str) -> None:
        assert "┆ OK" in piped
        assert "bread    21  101.22 €" in piped

    def test_a_call_is_refused_before_it_is_written(self, piped: str) -> None:
        assert "✗ write_file: rejected" in piped
        assert re.search(r"— rejected: stopped after \d\d characters", piped)
        assert "ssh-ed25519" not in piped

    def test_it_answers_itself_where_nobody_can(self, piped: str) -> None:
        assert "? run_command must be approved" in piped
        assert "! run_command is approved: nobody did, so the demo answers itself" in piped
        assert '= run_command: "exit status 0, no output"' in piped

    def test_it_ends_with_the_waterfall(self, piped: str) -> None:
        assert piped.count("of silence\n") == 8
        assert "silence were replaced" in piped.splitlines()[-1]


class TestInATerminal:
    def test_a_person_is_asked_and_every_line_is_there_once(self) -> None:
        with Tmux([str(COMMAND), "demo", "--speed", "4"], columns=100, rows=30) as terminal:
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
