"""The examples do what they say."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_live_arguments() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "live_arguments.py"],
        input=b'{"path": "a.py", "lines": [1, 2], "content": "x\\n", "mode": 0755}',
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout.decode().splitlines() == [
        "path: a.py",
        "lines: … [1, 2]",
        "content: x\\n",
        "mode: ",
        "refused: this cannot be part of a number, nor follow one (at character 61)",
        "(malformed)",
    ]


def asked(*options: str, answers: str = "") -> list[str]:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "ask_first.py", *options],
        input=answers,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_ask_first() -> None:
    lines = asked("--piped", answers="y\nWe are a bit late.\n")
    assert "  (a mail goes to bob@example.org: We are a bit late.)" in lines
    assert lines[-1] == "Done: sent to bob@example.org"


def test_ask_first_denies_where_nobody_is() -> None:
    lines = asked()
    assert not any("a mail goes to" in line for line in lines)
    assert lines[-1].endswith("nobody is here to decide")


def test_streamed_file() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "streamed_file.py"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "in the project: song.txt; the song is whole"


def test_live_turn() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "live_turn.py"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "[write_file]",
        "def greet(name):",
        '    print(f"hello, {name}")',
        "[complete: now greet.py can be written]",
    ]


def test_live_reader() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "live_reader.py"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "[write_file greet.py]",
        "def greet(name):",
        '    print(f"hello, {name}")',
        "[complete: 2 arguments]",
        "[edit_file main.py]",
        "1: from greet import greet",
        "9: greet('you')",
        "[complete: 2 arguments]",
    ]


def test_forbidden_write() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "forbidden_write.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    *lines, last = done.stdout.splitlines()
    started, path, rejected, stopped = lines
    assert started == "write_file …"
    assert path == "  path = ../../etc/passwd"
    assert rejected.startswith(
        "  rejected: a call of write_file is denied by the policy (nowhere else): "
        'only files of the project may be written (the argument path, "../../etc/passwd", is not'
    )
    assert stopped == "  stopped after 28 characters; 5800 were to follow"
    assert last.startswith("the provider saw the connection closed after")


def surviving(said: str, directory: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "surviving_run.py", said],
        capture_output=True,
        text=True,
        check=True,
        cwd=directory,
    )
    return done.stdout.splitlines()


def test_surviving_run(tmp_path: Path) -> None:
    assert surviving("begin", tmp_path) == ["publish waits for a decision: {'version': '2.0'}"]
    assert surviving("yes", tmp_path) == [
        "  (version 2.0 is published, this once)",
        "The release is out.",
    ]
    assert surviving("yes", tmp_path) == []


def test_claude_code_log() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "claude_code_log.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    *_, approved, result, answer, log = done.stdout.splitlines()
    assert (approved, result, answer) == ("  approved", "  = file created", "Sing along!")
    assert log.endswith("records of a run that has completed")


def test_terminal_agent() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "utf8", EXAMPLES / "terminal_agent.py"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert "  └ created greet.py with 9 lines" in done.stdout.splitlines()
    assert "  └ made 2 edits in greet.py" in done.stdout.splitlines()


def test_served_agent() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "served_agent.py"], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    grown = "".join(line.partition("text += ")[2] for line in lines)
    assert grown == "We are late.⟦LF⟧The train is, too.⟦LF⟧"
    assert lines[-3:] == [
        "send_mail needs a yes, and gets it",
        "Done: 32 characters went to ada@example.org",
        "for somebody else: 404 there is no such run here",
    ]
