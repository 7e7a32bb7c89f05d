"""``argstream run``: the command in this process, and in one of its own where that matters.

A provider that one can start answers it.
"""

import json
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from argstream.testing import CallTool, MockProvider, Reply, Status
from tests.cli.in_process import argstream
from tests.cli.test_cli import COMMAND, ENVIRONMENT
from tests.support.provider_rules import strict_provider

WRITE = CallTool("write_file", {"path": "notes/a.txt", "content": "one\ntwo\n"})
COMMAND_CALL = CallTool("run_command", {"command": "echo done > marker"})


class Done(NamedTuple):
    status: int
    stdout: str
    stderr: str


class Machine:
    """A folder, and a provider that answers what it is told to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *arguments: str, replies: Sequence[Reply]) -> Done:
        with strict_provider(list(replies)) as provider:
            folder = () if "--folder" in arguments else ("--folder", str(self.folder))
            ran = argstream("run", *arguments, *folder, stdin=b"", **environment(provider))
        done = Done(ran.returncode, ran.stdout.decode(), ran.stderr.decode())
        assert "sk-canary" not in done.stdout + done.stderr
        return done


def environment(provider: MockProvider) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": provider.anthropic_url,
        "ANTHROPIC_API_KEY": "sk-canary",
        "ARGSTREAM_MODEL": "anthropic:claude-any",
    }


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    folder = tmp_path / "project"
    folder.mkdir()
    return Machine(folder)


def test_its_store_is_not_among_the_files_of_the_folder(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(machine.folder)
    call = CallTool("write_file", {"path": "runs.db-wal", "content": "no log"})
    replies = [Reply(call), Reply("I could not.")]
    done = machine.run("Go", "--store", "runs.db", replies=replies)
    assert done.status == 0
    assert "runs.db-wal is kept from these tools: leave it alone" in done.stdout


def test_it_works_in_the_folder_says_what_it_does_and_can_be_looked_at_later(
    tmp_path: Path,
) -> None:
    with strict_provider([Reply("I write.", WRITE), Reply("Written.")]) as provider:
        done = subprocess.run(
            [COMMAND, "run", "-", "--store", "runs.db"],
            input=b"Is it so?\n",
            env={**ENVIRONMENT, **environment(provider)},
            cwd=tmp_path,
            capture_output=True,
            check=False,
            timeout=30,
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "notes/a.txt").read_text() == "one\ntwo\n"
    shown = done.stdout.decode().splitlines()
    assert shown[0] == "> Is it so?"
    assert "● write_file  notes/a.txt" in shown
    assert "│ Written." in shown
    assert b"completed" in argstream("runs", "--store", str(tmp_path / "runs.db")).stdout


def test_as_json_it_is_the_events(machine: Machine) -> None:
    done = machine.run("Write it.", "--json", replies=[Reply(WRITE), Reply("Written.")])
    types = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert (types[0], types[-1]) == ("run_started", "run_completed")
    assert "argument_delta" in types


class TestAsking:
    def test_the_shell_is_denied_where_nobody_can_be_asked_and_says_how_to_allow(
        self, machine: Machine
    ) -> None:
        done = machine.run(
            "Do it.", "--tools", "shell", replies=[Reply(COMMAND_CALL), Reply("No.")]
        )
        assert not (machine.folder / "marker").exists()
        assert "run_command is denied" in done.stdout
        assert "--yes" in done.stdout
        assert done.status == 0

    def test_yes_approves_it(self, machine: Machine) -> None:
        done = machine.run(
            "Do it.", "--tools", "files,shell", "--yes", replies=[Reply(COMMAND_CALL), Reply("Ok.")]
        )
        assert (machine.folder / "marker").read_text() == "done\n"
        assert "run_command is approved" in done.stdout

    def test_without_the_tool_there_is_no_shell(self, machine: Machine) -> None:
        machine.run("Do it.", "--yes", replies=[Reply(COMMAND_CALL), Reply("Hm.")])
        assert not (machine.folder / "marker").exists()

    def test_a_policy_can_ask_about_files_too(self, machine: Machine, tmp_path: Path) -> None:
        policy = tmp_path / "policy.toml"
        policy.write_text('default = "allow"\n[defaults]\nwrite_file = "ask"\n')
        done = machine.run(
            "Write it.", "--policy", str(policy), replies=[Reply(WRITE), Reply("No.")]
        )
        assert not (machine.folder / "notes").exists()
        assert "write_file is denied" in done.stdout


class TestTheFolder:
    def test_what_leads_out_of_it_is_refused(self, machine: Machine) -> None:
        call = CallTool("write_file", {"path": "../outside.txt", "content": "x"})
        done = machine.run("Do it.", replies=[Reply(call), Reply("No.")])
        assert not (machine.folder.parent / "outside.txt").exists()
        assert "✗ ../outside.txt leads out of the folder" in done.stdout

    def test_an_edit_is_shown_in_its_file_if_that_is_inside(self, machine: Machine) -> None:
        edits = [{"old": "two", "new": "2"}]
        for path in ("a.txt", "../a.txt"):
            (machine.folder / path).write_text(f"canary of {path}\ntwo\n")
        inside, outside = (
            Reply(CallTool("edit_file", {"path": path, "edits": edits}))
            for path in ("a.txt", str(machine.folder.parent / "a.txt"))
        )
        done = machine.run("Do it.", replies=[inside, outside, Reply("Ok.")])
        assert "canary of a.txt" in done.stdout
        assert "canary of ../a.txt" not in done.stdout

    def test_a_tilde_is_a_home_for_tools_and_for_what_is_shown(
        self, machine: Machine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(machine.folder.parent))
        (machine.folder / "a.txt").write_text("one\ntwo\n")
        call = CallTool("edit_file", {"path": "a.txt", "edits": [{"old": "two", "new": "2"}]})
        done = machine.run("Do it.", "--folder", "~/project", replies=[Reply(call), Reply("Ok.")])
        assert (machine.folder / "a.txt").read_text() == "one\n2\n"
        assert "     1   │ one" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "nobody:x"], "nobody"),
        (["--model", "groq:x"], "groq needs a key: set $GROQ_API_KEY"),
        (["--tools", "files,net"], "--tools are some of files, shell, not net"),
        (["--policy", "missing.toml"], "missing.toml: the policy cannot be read"),
        (["--folder", ""], "--folder has no name: leave it out"),
        (["--folder", "missing"], "missing' cannot be used"),
        (["--folder", "~nobody-at-all/x"], "--folder ~nobody-at-all/x cannot be used"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line_and_nothing_begins(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    done = machine.run("Go", *arguments, replies=[Reply("x")])
    assert (done.status, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_a_model_it_says_how_to_name_one() -> None:
    done = argstream("run", "Go", ARGSTREAM_MODEL="")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--model" in done.stderr
    assert b"argstream demo" in done.stderr


def test_a_prompt_that_is_no_text_is_told() -> None:
    done = argstream("run", "-", "--model", "vllm:any", stdin=b"a \xff")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"argstream: standard input is no text in UTF-8: invalid start byte\n"


def test_a_provider_that_fails_ends_it_with_1(machine: Machine) -> None:
    done = machine.run("Go", replies=[Reply(faults=[Status(400, "no such model")])])
    assert done.status == 1
    assert "no such model" in done.stdout
    assert "■ failed" in done.stdout


def _lines(file: Path) -> int:
    return file.read_text().count("\n") if file.exists() else 0


@pytest.mark.usefixtures("hangup_ends_processes")
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
def test_no_command_runs_on_after_a_signal(tmp_path: Path, signals: list[signal.Signals]) -> None:
    stubborn = "trap '' TERM; while :; do echo x >> trace; sleep 0.02; done"
    trace = tmp_path / "trace"
    with (
        strict_provider([Reply(CallTool("run_command", {"command": stubborn}))]) as provider,
        subprocess.Popen(
            [COMMAND, "run", "Go", "--tools", "shell", "--yes"],
            env={**ENVIRONMENT, **environment(provider)},
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        deadline = time.monotonic() + 20
        while _lines(trace) < 5 and time.monotonic() < deadline:  # until its output is read, too
            time.sleep(0.02)
        for number in signals:
            process.send_signal(number)
            time.sleep(0.1)  # else they may arrive as one
        assert process.wait(20) == 128 + signals[0]
        assert process.stderr is not None
        assert process.stderr.read() == b""
    size = trace.stat().st_size
    time.sleep(0.15)
    assert trace.stat().st_size == size


@pytest.mark.usefixtures("hangup_ends_processes")
def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """As after ``nohup``."""
    call = CallTool("run_command", {"command": "touch begun; sleep 60"})
    run = f"trap '' HUP; exec '{COMMAND}' run Go --tools shell --yes"
    with (
        strict_provider([Reply(call)]) as provider,
        subprocess.Popen(
            ["sh", "-c", run], env={**ENVIRONMENT, **environment(provider)}, cwd=tmp_path
        ) as process,
    ):
        while not (tmp_path / "begun").exists():
            time.sleep(0.02)
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
