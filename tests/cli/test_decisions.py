"""Runs that pause, and are continued from the shell: ``run``, ``runs approve`` and the others."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from argstream import Agent, tool
from argstream.models import ScriptedModel
from argstream.runs import Owner, RunInfo, open_store
from argstream.testing import CallTool, MockProvider, Reply
from tests.cli.in_process import argstream, refused
from tests.cli.processes import provided
from tests.support.provider_rules import strict_provider

Done = CompletedProcess[bytes]
TOUCH = CallTool("run_command", {"command": "touch made"}, call_id="toolu_touch")
OTHER = CallTool("run_command", {"command": "touch other"}, call_id="toolu_other")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store, as the current one."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARGSTREAM_STORE", "runs.db")
    return tmp_path / "work"


@contextmanager
def paused(*replies: Reply) -> Iterator[Callable[..., Done]]:
    """Start a run that pauses. Yield a function that calls commands with the same provider."""
    with strict_provider([*replies, Reply("That was it.")]) as provider:

        def call(*arguments: str, **variables: str) -> Done:
            # A resumed run needs the key, but no option.
            variables = {**provided(provider), "ARGSTREAM_MODEL": "", **variables}
            return argstream(*arguments, stdin=b"", **variables)

        options = ("--model", "anthropic:claude-any", "--tools", "shell", "--folder", "work")
        done = call("run", "Go", *options)
        assert done.returncode == 3
        (run,) = runs()
        hint = f"Paused for approval. Continue with: {approve(run, *replies[0].parts)}\n"
        assert done.stderr.decode() == hint
        assert (
            done.stdout.decode().splitlines()[-1].startswith("‖ Paused: waiting for approval of ")
        )
        yield call


def runs() -> list[RunInfo]:
    async def read() -> list[RunInfo]:
        async with open_store("runs.db") as store:
            return await store.runs()

    return asyncio.run(read())


def short(run: RunInfo) -> str:
    return run.run_id.removeprefix("run_")[:8]


def approve(run: RunInfo, *calls: Any) -> str:
    start = f"argstream runs approve {short(run)}"
    lines = (f"\n  {start} {call.call_id}  # run_command {call.arguments[13:-2]}" for call in calls)
    return start if len(calls) == 1 else "".join(lines)


class TestApprove:
    def test_call_is_shown_and_the_run_resumes_with_its_settings(self, folder: Path) -> None:
        with paused(Reply(TOUCH)) as call:
            (run,) = runs()
            done = call("runs", "approve", short(run))
        assert done.returncode == 0
        settings = f"model anthropic:claude-any, tools shell, folder {folder}"
        assert done.stderr.decode() == f"Resuming {short(run)}: {settings}\n"
        shown = done.stdout.decode()
        assert shown.count("╭─ Approval needed ──") == 1
        assert shown.index("touch made\n") < shown.index("╰─ ✓ Approved\n▶ Resumed")
        assert "That was it." in shown
        assert re.search(r"Done in [\d.]+ m?s · 1 call · ", shown)
        assert shown.endswith(f"\n  argstream inspect run:{short(run)}\n")
        assert (folder / "made").exists()
        assert [run.status for run in runs()] == ["completed"]

    def test_decision_alone_waits_for_resume(self, folder: Path) -> None:
        with paused(Reply(TOUCH)) as call:
            (run,) = runs()
            done = call("runs", "approve", short(run), "--no-resume")
            hint = f"Resume the run with: argstream runs resume {short(run)}\n"
            assert (done.returncode, done.stderr.decode()) == (0, hint)
            assert done.stdout.decode() == "● run_command\n  $ touch made\n✓ Approved\n"
            assert not (folder / "made").exists()
            assert "▶ decided" in call("runs").stdout.decode()
            assert "no call of run" in refused("runs", "approve", short(run))
            assert call("runs", "resume", short(run)).returncode == 0
        assert (folder / "made").exists()

    def test_arguments_can_be_edited(self, folder: Path) -> None:
        editor = folder.parent / "editor.sh"
        editor.write_text("#!/bin/sh\nfor file; do sed -i 's/touch made/touch mine/' $file; done\n")
        editor.chmod(0o755)
        with paused(Reply(TOUCH)) as call:
            (run,) = runs()
            unchanged = call("runs", "approve", short(run), "--edit", VISUAL="true")
            assert unchanged.returncode == 2
            assert b"no changes, so nothing was approved" in unchanged.stderr
            for visual, problem in (("false", "approved: false "), ("", "--edit needs a terminal")):
                failed = call("runs", "approve", short(run), "--edit", VISUAL=visual, EDITOR="")
                assert problem in failed.stderr.decode()
            done = call("runs", "approve", short(run), "--edit", VISUAL=str(editor))
        assert done.returncode == 0
        assert "touch mine" in done.stdout.decode()
        assert [path.name for path in folder.iterdir()] == ["mine"]

    def test_several_pending_calls_are_named(self, folder: Path) -> None:
        with paused(Reply(TOUCH, OTHER)) as call:
            (run,) = runs()
            message = refused("runs", "approve", short(run))
            calls = "toolu_touch (run_command touch made), toolu_other (run_command touch other)"
            assert message.endswith(calls)
            assert "no pending call 'x'" in refused("runs", "approve", short(run), "x")
            first = call("runs", "approve", short(run), "toolu_t")
            hint = f"1 call still pending. To approve: argstream runs approve {short(run)}\n"
            assert (first.returncode, first.stderr.decode()) == (0, hint)
            assert not (folder / "made").exists()
            assert call("runs", "deny", short(run)).returncode == 0
        assert [path.name for path in folder.iterdir()] == ["made"]

    def test_run_pauses_again_for_the_next_approval(self) -> None:
        with paused(Reply(TOUCH), Reply(OTHER)) as call:
            (run,) = runs()
            assert call("runs", "approve", short(run)).returncode == 3
            assert call("runs", "resume", short(run), "--yes").returncode == 0

    def test_other_process_continues_a_run_that_it_drives(self) -> None:
        with paused(Reply(TOUCH)) as call:
            (run,) = runs()

            async def lease() -> None:
                async with open_store("runs.db") as store:
                    await store.acquire(run.run_id, Owner("worker 7"), 60)

            asyncio.run(lease())
            for command in ("resume", "delete"):
                assert f"run {short(run)} is running (worker 7). " in refused(
                    "runs", command, short(run)
                )
            done = call("runs", "approve", short(run))
            follow = f"worker 7 continues the run. Follow it: argstream watch run:{short(run)}\n"
            assert (done.returncode, done.stderr.decode()) == (0, follow)
            stopped = call("runs", "stop", short(run), "--reason", "Enough")
            assert stopped.stdout.decode() == f"Stopping {run.run_id}: worker 7\n"

    def test_run_of_another_program_is_only_decided(self) -> None:
        @tool(requires_confirmation=True)
        def send(to: str) -> str:
            return f"sent to {to}"

        model = ScriptedModel(Reply(CallTool("send", {"to": "ada"})), "Done.")
        agent = Agent(model, [send], store="runs.db")
        run_id = agent.run("Go").run_id
        name = run_id[4:12]
        assert f"the settings of run {name} are unknown" in refused("runs", "resume", name)
        done = argstream("runs", "approve", name)
        assert b"The program that started the run can resume it" in done.stderr
        assert agent.resume(run_id).wait().outcome == "completed"


class TestDeny:
    def test_model_is_told_the_reason(self, folder: Path) -> None:
        with paused(Reply(TOUCH)) as call:
            (run,) = runs()
            done = call("runs", "deny", short(run), "--reason", "Not today")
        assert done.returncode == 0
        shown = done.stdout.decode()
        assert "enied: Not today\n" in shown
        assert "That was it." in shown
        assert not list(folder.iterdir())

    def test_decision_of_a_finished_run_is_refused(self) -> None:
        with paused(Reply(TOUCH)) as call:
            (run,) = runs()
            call("runs", "deny", short(run))
        for command in ("approve", "deny", "resume", "stop"):
            assert "ended (completed)" in refused("runs", command, short(run))


class TestShow:
    def test_pending_call_is_shown_with_the_next_commands(self, folder: Path) -> None:
        with paused(Reply(TOUCH)) as call:
            (run,) = runs()
            lines = call("runs", "show", short(run)).stdout.decode().splitlines()
            done = call("runs", "deny", short(run))
            after = call("runs", "show", short(run)).stdout.decode().splitlines()
        assert done.returncode == 0
        assert lines[0] == run.run_id
        facts = dict(line.split(maxsplit=1) for line in lines[1:9])
        assert facts["Status"] == "! needs approval"
        assert facts["Model"] == "anthropic:claude-any"
        assert facts["Folder"] == str(folder)
        assert "● run_command  toolu_touch" in lines
        assert "  $ touch made" in lines
        assert lines[-2:] == [f"argstream runs {verb} {short(run)}" for verb in ("approve", "deny")]
        assert after[1].split() == ["Status", "✓", "done"]
        assert after[-4:-1] == ["That was it.", "", f"argstream inspect run:{short(run)}"]
        assert after[-1] == f'argstream run --conversation {run.conversation_id[13:21]} "…"'


class TestStopAndDelete:
    def test_paused_run_is_stopped_and_deleted(self, folder: Path) -> None:
        with paused(Reply(TOUCH)) as call:
            (run,) = runs()
            stopped = call("runs", "stop", short(run))
            assert stopped.stdout.decode() == f"Stopped {run.run_id}\n"
            assert [one.status for one in runs()] == ["stopped"]
            refusal = refused("runs", "delete", short(run), "missing")
            assert "run 'missing' not found" in refusal
            assert len(runs()) == 1  # all or none
            assert call("runs", "delete", short(run)).returncode == 0
        assert not runs()
        assert not list(folder.iterdir())


def say(prompt: str, *options: str) -> Done:
    return argstream("run", prompt, "--json", *options)


class TestContinue:
    @pytest.fixture(autouse=True)
    def model(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[MockProvider]:
        with strict_provider([Reply(f"Answer {number}.") for number in range(3)]) as provider:
            for name, value in provided(provider).items():
                monkeypatch.setenv(name, value)
            yield provider

    def test_last_or_named_conversation_goes_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = ("--instructions", "Be brief", "--max-turns", "9")
        assert say("One", "--tools", "", *settings).returncode == 0
        (first,) = runs()
        monkeypatch.delenv("ARGSTREAM_MODEL")  # the conversation knows its model
        second = say("Two", "--continue")
        name = first.conversation_id.removeprefix("conversation_")[:8]
        told = "model anthropic:claude-any, tools none, instructions Be brief, max turns 9"
        assert second.stderr.decode() == f"Continuing {name}: {told}\n"
        third = say("Three", "--conversation", name)
        for done, count in ((second, 2), (third, 4)):
            started = json.loads(done.stdout.splitlines()[0])
            assert len(started["history"]) == count
        assert {run.conversation_id for run in runs()} == {first.conversation_id}

    def test_without_a_conversation_nothing_is_created(self, tmp_path: Path) -> None:
        assert "store 'runs.db' not found" in refused("run", "Go", "--continue")
        assert not (tmp_path / "runs.db").exists()
        say("One")
        message = refused("run", "Go", "--conversation", "x")
        assert "conversation 'x' not found. Find its ID with `argstream runs show RUN`" in message

    def test_run_that_has_not_ended_comes_first(self) -> None:
        argstream("run", "Go", "--model", "script", stdin=b"")
        (run,) = runs()
        message = refused("run", "On", "--continue")
        assert f"Resume it with `argstream runs resume {short(run)}`" in message
        editor = """sh -c 'sed -i "s/.primes.py./3/" "$0" "$1"'"""
        for more in ((), ("--no-resume",)):  # before anything is decided
            done = argstream("runs", "approve", short(run), "--edit", *more, VISUAL=editor)
            assert b"the edited arguments of write_file are not valid: 'path'" in done.stderr
        assert "! needs approval" in argstream("runs").stdout.decode()


def test_refused_run_creates_no_store(tmp_path: Path) -> None:
    assert "unknown tool set" in refused("run", "Go", "--model", "script", "--tools", "net")
    assert not (tmp_path / "runs.db").exists()
