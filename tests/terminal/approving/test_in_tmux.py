"""A real program in a real terminal, real keys: what only a terminal of one's own can show."""

import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from tests.terminal.approving.asking import CONTENT
from tests.terminal.tmux import Tmux

QUESTION = "? Run write_file?"
ASKING = [sys.executable, "-m", "tests.terminal.approving.asking"]


def shell(folder: Path, *calls: str) -> list[str]:
    """Give a command that asks, and writes down the modes of the terminal before and after."""
    asking = shlex.join([*ASKING, str(folder), *calls])
    modes = f"stty -g > {shlex.quote(str(folder))}/"
    # Ctrl-C reaches the shell too, which is to go on.
    return ["sh", "-c", f"trap : INT; {modes}before; {asking}; {modes}after; echo over; read line"]


def answer(terminal: Tmux, key: str, question: str = QUESTION) -> None:
    """Read a question, and press a key; again if that was too early."""
    terminal.wait_for(question)
    while question in terminal.screen():
        time.sleep(0.5)
        terminal.press(key)
        end = time.monotonic() + 1
        while question in terminal.screen() and time.monotonic() < end:
            time.sleep(0.02)


def result(folder: Path) -> Any:
    return json.loads((folder / "result.json").read_text("utf-8"))


def assert_clean_end(terminal: Tmux, folder: Path) -> None:
    terminal.wait_for("over\n")
    assert (folder / "before").read_text() == (folder / "after").read_text()
    assert terminal.is_cursor_shown()
    assert QUESTION not in terminal.everything()


def test_keys_answer_what_is_seen_and_nothing_that_comes_later(tmp_path: Path) -> None:
    with Tmux(shell(tmp_path, "a.py", "b.py")) as terminal:
        terminal.press("y", "y", "y", "y")
        terminal.wait_for(f"{QUESTION}  path=a.py")
        terminal.press("y", "Enter", "y", "Enter")
        terminal.wait_for("Several keys at once, or a paste, are no answer")
        terminal.resize(50, 20)
        terminal.wait_for("  a always · v view all · ? help")
        answer(terminal, "y", "path=a.py  content=")
        answer(terminal, "d", "path=b.py  content=")
        terminal.wait_for("why? ")
        terminal.press("nicht die zwei", "Enter")
        assert_clean_end(terminal, tmp_path)
    assert [path for path, _ in result(tmp_path)["written"]] == ["a.py"]
    assert "nicht die zwei" in str(result(tmp_path)["errors"][1])


def test_ctrl_c_stops_the_run_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with Tmux(shell(tmp_path)) as terminal:
        terminal.wait_for(QUESTION)
        terminal.press("C-c")
        assert_clean_end(terminal, tmp_path)
    assert result(tmp_path)["outcome"] == "stopped"
    assert result(tmp_path)["written"] == []


def test_ctrl_c_in_the_editor_is_the_editors(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    # It reads a line from the terminal, as only one in the foreground can.
    editor.write_text(
        "#!/bin/sh\ntrap 'echo interrupted' INT\necho editing\nuntil read -r line; do :; done\n"
        'sed -i "s/os.name/$line/" "$1"\n'
    )
    editor.chmod(0o700)
    with Tmux(shell(tmp_path), environment={"VISUAL": str(editor)}) as terminal:
        answer(terminal, "e")
        terminal.wait_for("editing")
        assert terminal.is_cursor_shown()
        terminal.press("C-c")
        terminal.wait_for("interrupted")
        terminal.press("C-z")  # nobody could bring it back
        terminal.press("os.sep", "Enter")
        answer(terminal, "y", "with these changes?")
        assert_clean_end(terminal, tmp_path)
    assert result(tmp_path)["written"] == [["app.py", CONTENT.replace("name", "sep")]]
