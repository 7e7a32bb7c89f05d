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
from tests.cli.processes import COMMAND, wait_until
from tests.provider_streams import anthropic_call, sse
from tests.support.provider_rules import strict_provider
from tests.terminal.tmux import Tmux

QUOTED = shlex.quote(str(COMMAND))
QUESTION = "y approve   n deny"
LONG = CallTool("write_file", {"path": "a.py", "content": "x = 1\n" * 400})


def create(name: str) -> CallTool:
    return CallTool("run_command", {"command": f"echo done > {name}"})


@contextmanager
def running(folder: Path, *replies: Reply, **variables: str) -> Iterator[Tmux]:
    """Run ``argstream run`` in a shell that prints its exit status and keeps terminal modes."""
    with strict_provider(list(replies)) as provider:
        key = {"ANTHROPIC_BASE_URL": provider.anthropic_url, "ANTHROPIC_API_KEY": "key"}
        run = f"{QUOTED} run Go --model anthropic:any --tools files,shell"
        run = shlex.join(["sh", "-c", f"echo $$ > pid; exec {run}"])
        # Ctrl-C reaches everything in the foreground. The shell continues.
        shell = (
            f"trap : INT; stty -g > before; {run}; status=$?; stty -g > after; "
            "echo ended with $status; exec sleep 60"
        )
        with Tmux(["sh", "-c", shell], folder=folder, environment=key | variables) as terminal:
            yield terminal


def wait_for_clean_end(terminal: Tmux, folder: Path, status: int) -> None:
    terminal.wait_for(f"ended with {status}")
    assert (folder / "before").read_text() == (folder / "after").read_text()
    assert terminal.is_cursor_shown()
    assert QUESTION not in terminal.everything()


def number_in(file: Path) -> int:
    wait_until(lambda: file.exists() and file.read_text().endswith("\n"))
    return int(file.read_text())


def test_keys_answer_only_the_question_that_is_shown(tmp_path: Path) -> None:
    with running(tmp_path, Reply(create("a")), Reply(create("b")), Reply("Done.")) as terminal:
        terminal.press("y", "y", "y", "y")
        terminal.wait_for("$ echo done > a")
        terminal.wait_for(QUESTION)
        terminal.press("y", "Enter", "y", "Enter")
        terminal.wait_for("Several keys at once. Press a single key.")
        terminal.resize(50, 20)
        terminal.wait_for("   e edit   a always   ? help")
        assert not (tmp_path / "a").exists()
        while not (tmp_path / "a").exists():
            terminal.press("y")
            time.sleep(0.6)
        terminal.wait_for("$ echo done > b")
        terminal.answer("d", QUESTION)
        terminal.wait_for("Reason (optional): ")
        terminal.press("nicht b", "Enter")
        wait_for_clean_end(terminal, tmp_path, 0)
        assert "Denied: nicht b" in terminal.everything()
    assert (tmp_path / "a").read_text() == "done\n"
    assert not (tmp_path / "b").exists()


def test_ctrl_c_stops_a_question(tmp_path: Path) -> None:
    with running(tmp_path, Reply(create("a"))) as terminal:
        terminal.wait_for(QUESTION)
        terminal.press("C-c")
        wait_for_clean_end(terminal, tmp_path, 130)
    assert not (tmp_path / "a").exists()


def test_ctrl_c_stops_writing_and_keeps_the_shown_lines(tmp_path: Path) -> None:
    with running(tmp_path, Reply(LONG, faults=[Slow(between=0.01)])) as terminal:
        terminal.wait_for("   20 │ x = 1")
        terminal.press("C-c")
        wait_for_clean_end(terminal, tmp_path, 130)
        shown = terminal.everything()
    assert not (tmp_path / "a.py").exists()
    assert "■ Stopped while writing content" in shown
    assert "     8 │ x = 1" in shown


def test_ctrl_c_and_ctrl_z_in_the_editor_are_for_the_editor(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    # It reads a line from the terminal, as only a process in the foreground can.
    editor.write_text(
        "#!/bin/sh\ntrap 'echo interrupted' INT\necho editing\nuntil read -r line; do :; done\n"
        'sed -i "s/> a/> $line/" "$1"\n'
    )
    editor.chmod(0o700)
    replies = (Reply(create("a")), Reply("Done."))
    with running(tmp_path, *replies, VISUAL=str(editor)) as terminal:
        terminal.answer("e", QUESTION)
        terminal.wait_for("editing")
        assert terminal.is_cursor_shown()
        terminal.press("C-c")
        terminal.wait_for("interrupted")
        terminal.press("C-z")  # ignored: no shell could continue it
        terminal.press("edited", "Enter")
        terminal.answer("y", "approve with edits")
        wait_for_clean_end(terminal, tmp_path, 0)
    assert (tmp_path / "edited").exists()
    assert not (tmp_path / "a").exists()


@pytest.mark.usefixtures("hangup_ends_processes")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_editor_and_deletes_drafts(tmp_path: Path, number: signal.Signals) -> None:
    drafts = tmp_path / "drafts"
    drafts.mkdir()
    editor = "sh -c 'echo $$ > editing; exec sleep 60'"
    variables = {"VISUAL": "", "EDITOR": editor, "TMPDIR": str(drafts)}
    with running(tmp_path, Reply(create("a")), **variables) as terminal:
        terminal.answer("e", QUESTION)
        editing = number_in(tmp_path / "editing")
        os.kill(number_in(tmp_path / "pid"), number)
        wait_for_clean_end(terminal, tmp_path, 128 + number)
    assert not list(drafts.iterdir())
    with pytest.raises(ProcessLookupError):
        os.kill(editing, 0)


def test_watch_is_live_and_leaves_only_committed_lines(tmp_path: Path) -> None:
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
        shown = [line for line in terminal.lines() if "│" in line]
        assert shown == ["     1 │ one", "     2 │ two", "     3 │ three"]
        assert "writing write" not in terminal.everything()
