"""``argstream run`` against a mock provider, in a process of its own where signals matter."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from argstream.testing import CallTool, Reply, Status
from tests.cli.in_process import argstream, refused
from tests.cli.processes import ENVIRONMENT, provided, run, running, wait_until
from tests.support.provider_rules import strict_provider

Go = Callable[..., tuple[int, str]]
WRITE = CallTool("write_file", {"path": "notes/a.txt", "content": "one\ntwo\n"})
SHELL = CallTool("run_command", {"command": "echo done > marker"})
EDITS = [{"old": "two", "new": "2"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def go(folder: Path) -> Go:
    """Return a function that runs a prompt with these replies, and returns status and output."""

    def run_prompt(*replies: Reply, options: str = "") -> tuple[int, str]:
        arguments = options.split()
        if "--folder" not in options:
            arguments += ["--folder", str(folder)]
        with strict_provider(list(replies)) as provider:
            ran = argstream("run", "Go", *arguments, stdin=b"", **provided(provider))
        assert b"sk-canary" not in ran.stdout + ran.stderr
        return ran.returncode, ran.stdout.decode()

    return run_prompt


def test_run_works_in_the_folder_and_is_stored(tmp_path: Path) -> None:
    with strict_provider([Reply("I write.", WRITE), Reply("Written.")]) as provider:
        environment = ENVIRONMENT | provided(provider)
        options = ("run", "-", "--store", "runs.db")
        done = run(*options, stdin=b"Is it so?\n", env=environment, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "notes/a.txt").read_text() == "one\ntwo\n"
    shown = done.stdout.decode().splitlines()
    assert shown[0] == "> Is it so?"
    assert "● write_file  notes/a.txt" in shown
    assert "│ Written." in shown
    assert "✓ done" in argstream("runs", "--store", str(tmp_path / "runs.db")).stdout.decode()


def test_store_cannot_be_written_by_the_tools(
    go: Go, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    call = CallTool("write_file", {"path": "runs.db-wal", "content": "no log"})
    status, shown = go(Reply(call), Reply("I could not."), options="--store runs.db")
    assert status == 0
    assert "runs.db-wal is kept from these tools: leave it alone" in shown


def test_json_is_the_events(go: Go) -> None:
    _, shown = go(Reply(WRITE), Reply("Written."), options="--json")
    types = [json.loads(line)["type"] for line in shown.splitlines()]
    assert (types[0], types[-1]) == ("run_started", "run_completed")
    assert "argument_delta" in types


SHELL_DENIED = "╰─ ✗ Denied: approval needed, but no user could be asked"
BOTH = "--tools files,shell"
ALLOW = 'default = "allow"\n'


@pytest.mark.parametrize(
    ("call", "options", "policy", "is_run", "message"),
    [
        (SHELL, "--tools shell", "", False, SHELL_DENIED),
        (SHELL, f"{BOTH} --yes", "", True, "✓ Approved"),
        (SHELL, "--yes", "", False, ""),  # the shell is not among the tools
        (SHELL, BOTH, ALLOW, False, "✗ Denied"),
        (WRITE, "", f'{ALLOW}[defaults]\nwrite_file = "ask"\n', False, "✗ Denied"),
        # Writing needs approval if there is a shell and no policy.
        (WRITE, "--tools files", "", True, ""),
        (WRITE, "--tools shell,files", "", False, "✗ Denied"),
        (WRITE, f"{BOTH} --yes", "", True, ""),
        (WRITE, BOTH, ALLOW, True, ""),
    ],
)
def test_options_and_policy_decide_what_runs(
    go: Go, folder: Path, call: CallTool, *, options: str, policy: str, is_run: bool, message: str
) -> None:
    if policy:
        file = folder.parent / "policy.toml"
        file.write_text(policy)
        options += f" --policy {file}"
    status, shown = go(Reply(call), Reply("Hm."), options=options)
    assert status == 0
    assert (folder / ("marker" if call is SHELL else "notes")).exists() is is_run
    assert message in shown
    assert ("Denied" in shown) is ("Denied" in message)


class TestFolder:
    def test_edit_shows_only_files_inside(self, go: Go, folder: Path) -> None:
        for path in ("a.txt", "../a.txt"):
            (folder / path).write_text(f"canary of {path}\ntwo\n")
        inside, outside = (
            Reply(CallTool("edit_file", {"path": path, "edits": EDITS}))
            for path in ("a.txt", str(folder.parent / "a.txt"))
        )
        _, shown = go(inside, outside, Reply("Ok."))
        assert "canary of a.txt" in shown
        assert "canary of ../a.txt" not in shown

    def test_tilde_is_the_home(self, go: Go, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(folder.parent))
        (folder / "a.txt").write_text("one\ntwo\n")
        call = CallTool("edit_file", {"path": "a.txt", "edits": EDITS})
        _, shown = go(Reply(call), Reply("Ok."), options="--folder ~/project")
        assert (folder / "a.txt").read_text() == "one\n2\n"
        assert "     1   │ one" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "nobody:x"], "nobody"),
        (["--model", "groq:x"], "groq needs an API key. Set GROQ_API_KEY"),
        (["--tools", "files,net"], "unknown tool set 'net'. Choose from: files, shell"),
        (["--policy", "missing.toml"], "cannot read the policy missing.toml: No such file"),
        (["--folder", ""], "--folder is empty. Omit it"),
        (["--folder", "missing"], "missing' cannot be used"),
        (["--folder", "~nobody-at-all/x"], "--folder ~nobody-at-all/x cannot be used"),
        ([], "--model"),
        ([], "argstream demo"),
    ],
)
def test_wrong_usage_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    model = "vllm:any" if arguments else ""
    assert message in refused("run", "Go", *arguments, ARGSTREAM_MODEL=model)
    assert len(argstream("run", "Go", *arguments, ARGSTREAM_MODEL=model).stderr.splitlines()) == 1


def test_prompt_must_be_utf_8() -> None:
    message = refused("run", "-", "--model", "vllm:any", stdin=b"a \xff")
    assert message == "argstream: stdin is not valid UTF-8: invalid start byte"


def test_run_is_stopped_if_its_output_is_closed(tmp_path: Path) -> None:
    options = ("--model", "script", "--store", str(tmp_path / "runs.db"))
    with running("run", "Go", *options) as process:
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 1)
    assert b"stopped" in argstream("runs", *options[2:]).stdout
    assert "can't be used with --model script" in refused("run", "Go", *options, "--tools", "files")
    assert "the prompt is empty" in refused("run", " ", *options)


def test_failing_provider_exits_with_1(go: Go) -> None:
    status, shown = go(Reply(faults=[Status(400, "no such model")]))
    assert status == 1
    assert "no such model" in shown
    assert "✗ Failed" in shown


@pytest.mark.parametrize(
    "signals",
    [
        [signal.SIGHUP],  # the command has a second to end by itself
        [signal.SIGTERM, signal.SIGTERM],  # the second one does not wait
        [signal.SIGQUIT],
        [signal.SIGINT, signal.SIGINT],
    ],
    ids=["once", "twice", "at once", "Ctrl-C twice"],
)
def test_tool_process_ends_with_the_command(tmp_path: Path, signals: list[signal.Signals]) -> None:
    trace = tmp_path / "trace"
    stubborn = "trap '' TERM; while :; do echo x >> trace; sleep 0.02; done"
    call = CallTool("run_command", {"command": stubborn})
    with strict_provider([Reply(call)]) as provider:
        options = {"env": ENVIRONMENT | provided(provider), "cwd": tmp_path}
        with running("run", "Go", "--tools", "shell", "--yes", **options) as process:
            # Its output is read by then, too.
            wait_until(lambda: trace.exists() and trace.read_text().count("\n") >= 5)
            for number in signals:
                process.send_signal(number)
                time.sleep(0.1)  # else they may arrive as one
            assert process.wait(20) == 128 + signals[0]
            assert process.stderr.read() == b""
    size = trace.stat().st_size
    time.sleep(0.15)
    assert trace.stat().st_size == size


def test_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    """As after ``nohup``."""
    call = CallTool("run_command", {"command": "touch begun; sleep 60"})
    with strict_provider([Reply(call)]) as provider:
        options = {"env": ENVIRONMENT | provided(provider), "cwd": tmp_path}
        command = ("run", "Go", "--tools", "shell", "--yes")
        with running(*command, ignored=(signal.SIGHUP,), **options) as process:
            wait_until((tmp_path / "begun").exists)
            process.send_signal(signal.SIGHUP)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.3)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 128 + signal.SIGTERM
