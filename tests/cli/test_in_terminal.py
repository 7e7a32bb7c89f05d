"""The commands in a real terminal, with real key presses."""

import json
import os
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from argstream.testing import CallTool, Reply, Slow
from tests.cli.test_cli import COMMAND
from tests.provider_streams import anthropic_call, sse
from tests.support.provider_rules import strict_provider
from tests.terminal.tmux import Tmux

QUOTED = shlex.quote(str(COMMAND))
MARK = CallTool("run_command", {"command": "echo done > marker"})
LONG = CallTool("write_file", {"path": "a.py", "content": "x = 1\n" * 400})


@contextmanager
def running(folder: Path, *replies: Reply, **variables: str) -> Iterator[Tmux]:
    """Run ``argstream run`` in a shell that tells how it ended and how the terminal is then."""
    with strict_provider(list(replies)) as provider:
        environment = {
            "ANTHROPIC_BASE_URL": provider.anthropic_url,
            "ANTHROPIC_API_KEY": "key",
            **variables,
        }
        run = f"{QUOTED} run Go --model anthropic:any --tools files,shell"
        run = shlex.join(["sh", "-c", f"echo $$ > pid; exec {run}"])
        # Ctrl-C is for all that is in the foreground; the shell goes on.
        shell = (
            f"trap : INT; stty -a > before; {run}; status=$?; stty -a > after; "
            "echo ended with $status; exec sleep 60"
        )
        with Tmux(["sh", "-c", shell], folder=folder, environment=environment) as terminal:
            yield terminal


def ask(terminal: Tmux, *keys: str) -> None:
    terminal.wait_for("? help")
    time.sleep(0.4)  # what is typed at once might be meant for something else
    terminal.press(*keys)


def is_as_it_was(terminal: Tmux, folder: Path) -> bool:
    modes = [(folder / name).read_text() for name in ("before", "after")]
    return terminal.is_cursor_shown() and modes[0] == modes[1]


def test_what_is_approved_runs(tmp_path: Path) -> None:
    with running(tmp_path, Reply(MARK), Reply("Done.")) as terminal:
        ask(terminal, "y")
        terminal.wait_for("ended with 0")
        assert (tmp_path / "marker").read_text() == "done\n"
        assert is_as_it_was(terminal, tmp_path)


def test_ctrl_c_while_it_writes_stops_it_and_keeps_what_was_shown(tmp_path: Path) -> None:
    with running(tmp_path, Reply(LONG, faults=[Slow(between=0.01)])) as terminal:
        terminal.wait_for("   20 │ x = 1")
        terminal.press("C-c")
        terminal.wait_for("ended with 130")
        assert not (tmp_path / "a.py").exists()
        assert is_as_it_was(terminal, tmp_path)
        shown = terminal.everything()
        assert "aborted" in shown
        assert "    20 │ x = 1" in shown


def test_a_signal_ends_an_editor_too_and_leaves_no_files(tmp_path: Path) -> None:
    drafts = tmp_path / "drafts"
    drafts.mkdir()
    editor = "sh -c 'echo $$ > editing; exec sleep 60'"
    with running(tmp_path, Reply(MARK), VISUAL="", EDITOR=editor, TMPDIR=str(drafts)) as terminal:
        ask(terminal, "e")
        editing = number_in(tmp_path / "editing")
        os.kill(number_in(tmp_path / "pid"), signal.SIGTERM)
        terminal.wait_for("ended with 143")
        assert is_as_it_was(terminal, tmp_path)
    assert not list(drafts.iterdir())
    with pytest.raises(ProcessLookupError):
        os.kill(editing, 0)


def number_in(file: Path) -> int:
    """Wait until there is a number in a file."""
    deadline = time.monotonic() + 20
    while not file.exists() or not file.read_text().endswith("\n"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(file.read_text())


def test_watch_shows_a_stream_live_and_leaves_only_what_is_final(tmp_path: Path) -> None:
    text = json.dumps({"path": "a.py", "content": "one\ntwo\nthree\n"})
    turn = sse(anthropic_call(text[:40], text[40:]))
    half = turn.index(b"input_json_delta", turn.index(b"input_json_delta") + 1)
    half = turn.rindex(b"\n\n", 0, half) + 2
    (tmp_path / "begun.sse").write_bytes(turn[:half])
    (tmp_path / "rest.sse").write_bytes(turn[half:])
    # The rest waits until the half call was seen, however slow the machine is.
    wait = "until [ -e seen ]; do sleep 0.05; done"
    feed = f"(cat begun.sse; {wait}; cat rest.sse) | {QUOTED} watch"
    shell = f"{feed}; echo ended with $?; exec sleep 60"
    with Tmux(["bash", "-c", shell], folder=tmp_path, columns=40, rows=12) as terminal:
        terminal.wait_for("writing write")
        (tmp_path / "seen").touch()
        terminal.wait_for("ended with 0")
        assert [line for line in terminal.lines() if "│" in line] == [
            "     1 │ one",
            "     2 │ two",
            "     3 │ three",
        ]
        assert "writing write" not in terminal.everything()
