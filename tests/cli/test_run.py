"""``argstream run``, run as a user runs it: a real process, a provider that one can start."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from argstream.testing import CallTool, MockProvider, Reply, Status
from tests.cli.test_cli import COMMAND, ENVIRONMENT

WRITE = CallTool("write_file", {"path": "notes/a.txt", "content": "one\ntwo\n"})
COMMAND_CALL = CallTool("run_command", {"command": "echo done > marker"})


class Machine:
    """A folder, and a provider that answers what it is told to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.provider: MockProvider | None = None

    def run(
        self, *arguments: str, replies: list[Reply], stdin: bytes = b""
    ) -> subprocess.CompletedProcess[str]:
        with MockProvider(replies) as provider:
            self.provider = provider
            environment = {
                **ENVIRONMENT,
                "ANTHROPIC_BASE_URL": provider.anthropic_url,
                "ANTHROPIC_API_KEY": "sk-canary",
                "ARGSTREAM_MODEL": "anthropic:claude-any",
            }
            done = subprocess.run(
                [COMMAND, "run", *arguments, "--folder", str(self.folder)],
                input=stdin,
                env=environment,
                capture_output=True,
                check=False,
                timeout=30,
            )
        assert b"sk-canary" not in done.stdout + done.stderr
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    folder = tmp_path / "project"
    folder.mkdir()
    return Machine(folder)


def test_it_works_in_the_folder_and_says_what_it_does(machine: Machine) -> None:
    done = machine.run("Write it.", replies=[Reply("I write.", WRITE), Reply("Written.")])
    assert (done.returncode, done.stderr) == (0, "")
    assert (machine.folder / "notes/a.txt").read_text() == "one\ntwo\n"
    assert "> Write it." in done.stdout
    assert "● write_file" in done.stdout
    assert "│ Written." in done.stdout


def test_a_prompt_may_come_from_standard_input(machine: Machine) -> None:
    done = machine.run("-", replies=[Reply("Yes.")], stdin=b"Is it so?\n")
    assert done.returncode == 0
    assert "> Is it so?" in done.stdout


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
        assert done.returncode == 0

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


def test_what_leads_out_of_the_folder_is_refused(machine: Machine) -> None:
    call = CallTool("write_file", {"path": "../outside.txt", "content": "x"})
    done = machine.run("Do it.", replies=[Reply(call), Reply("No.")])
    assert not (machine.folder.parent / "outside.txt").exists()
    assert "✗ write_file failed" in done.stdout


def test_a_run_can_be_kept_and_looked_at(machine: Machine, tmp_path: Path) -> None:
    store = str(tmp_path / "runs.db")
    machine.run("Write it.", "--store", store, replies=[Reply(WRITE), Reply("Written.")])
    listed = subprocess.run(
        [COMMAND, "runs", "--store", store], capture_output=True, check=True, env=ENVIRONMENT
    )
    assert b"completed" in listed.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "nobody:x"], "nobody"),
        (["--tools", "files,net"], "--tools are some of files, shell, not net"),
        (["--policy", "missing.toml"], "missing.toml: the policy cannot be read"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(
    machine: Machine, arguments: list[str], message: str
) -> None:
    done = machine.run("Go", *arguments, replies=[Reply("x")])
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_a_model_it_says_how_to_name_one() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "ARGSTREAM_MODEL"}
    done = subprocess.run(
        [COMMAND, "run", "Go"], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 2
    assert "--model" in done.stderr
    assert "argstream demo" in done.stderr


def test_a_provider_that_fails_ends_it_with_1(machine: Machine) -> None:
    done = machine.run("Go", replies=[Reply(faults=[Status(400, "no such model")])])
    assert done.returncode == 1
    assert "no such model" in done.stdout
    assert "■ the run failed" in done.stdout
