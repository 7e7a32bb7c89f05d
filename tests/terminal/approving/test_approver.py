"""An agent asks at a terminal, and a person presses keys."""

import asyncio
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from argstream import Deny
from argstream.events import RunStarted
from argstream.models import Reply
from argstream.policy import Policy, Rule
from argstream.terminal import TerminalApprover, line
from tests.terminal.approving.sitting import CONTENT, PROMPT, in_event_loop, sitting, write_call

UNCHANGED = "? Run write_file as the model wrote it, without your changes?"
CHANGED = CONTENT.replace("name", "sep")


@in_event_loop
async def test_y_runs_the_call_and_the_question_disappears() -> None:
    async with sitting() as at:
        await at.answer("y")
        await at.end()
        await at.sees_no(PROMPT)
        assert at.written == [("app.py", CONTENT)]
        assert [event.decision for event in at.decisions] == ["approved"]


@in_event_loop
async def test_d_denies_with_a_reason_that_is_typed() -> None:
    async with sitting() as at:
        await at.answer("d")
        await at.sees("why? ▏")
        at.type("not ap\x7f\x7fin der Küche 不")
        await at.sees("why? not in der Küche 不▏")
        at.type("\r")
        await at.end()
        assert at.written == []
        assert at.decisions[0].reason == "not in der Küche 不"


@in_event_loop
async def test_escape_leaves_the_reason_and_what_is_typed_on_answers_nothing() -> None:
    async with sitting(quiet=1.0) as at:
        await at.answer("d")
        await at.sees("why? ▏")
        at.type("no\x1b")
        await at.press_too_early("y")  # meant for the reason
        assert at.decisions == []
        await at.answer("n")
        await at.end()
        assert at.written == []


@in_event_loop
async def test_what_was_typed_before_the_question_answers_nothing() -> None:
    async with sitting(quiet=1.0) as at:
        at.type("yyyy")
        await at.press_too_early("y")  # before it can have been read
        assert at.decisions == []
        await at.answer("n")


@in_event_loop
async def test_help_and_the_arguments_can_be_seen_while_it_asks() -> None:
    async with sitting(rows=40) as at:
        await at.answer("?")
        await at.sees("stops the run")
        await at.answer("v")
        await at.sees("write_file would run with:")
        await at.answer("n")


@in_event_loop
async def test_always_asks_no_more_for_this_tool() -> None:
    async with sitting(write_call("a.py"), write_call("b.py")) as at:
        await at.answer("a")
        await at.answer("t", "? Run it, and ask no more")
        await at.end()
        assert [path for path, _ in at.written] == ["a.py", "b.py"]
        assert [event.always for event in at.decisions] == ["session"]


@in_event_loop
async def test_always_for_what_a_rule_asks_about_is_offered_if_one_does() -> None:
    policy = Policy([Rule("ask", tool="write_file", name="no secrets")])
    async with sitting(write_call("a.py"), write_call("b.py"), policy=policy) as at:
        await at.answer("a")
        await at.sees("r: no secrets")
        await at.answer("\x1b", "? Run it, and ask no more")  # and back
        await at.sees_no("r: no secrets")
        await at.answer("a")
        await at.answer("r", "r: no secrets")
        await at.end()
        assert [path for path, _ in at.written] == ["a.py", "b.py"]
        assert [event.always for event in at.decisions] == ["rule"]


@in_event_loop
async def test_several_questions_come_one_after_the_other_in_their_order() -> None:
    calls = Reply(write_call("a.py"), write_call("b.py"), write_call("c.py"))
    async with sitting(calls) as at:
        await at.answer("y", "1 of 3  path=a.py")
        await at.answer("n", "2 of 3  path=b.py")
        await at.answer("y", "3 of 3  path=c.py")
        await at.end()
        assert [path for path, _ in at.written] == ["a.py", "c.py"]


@in_event_loop
async def test_what_is_asked_about_stands_right_above_each_of_several_questions() -> None:
    calls = [write_call(f"{name}.py", f"# {name}\n") for name in "abc"]
    async with sitting(Reply(*calls)) as at:
        for number, name in enumerate("abc", 1):
            await at.sees(f"{number} of 3")
            rows = [f"     1 │ # {name}", f'  path = "{name}.py"', "write_file would run with:"]
            await at.sees_above(PROMPT, rows)
            await at.answer("n", f"{number} of 3")


@in_event_loop
async def test_a_single_request_is_shown_once() -> None:
    async with sitting() as at:
        await at.sees(PROMPT)
        assert "would run with" not in at.screen()
        await at.answer("n")


@in_event_loop
async def test_who_says_yes_when_something_else_came_in_between_must_look_again() -> None:
    async with sitting(rows=40) as at:
        await at.sees(PROMPT)
        at.terminal.say(line("a tool says something"))
        await at.answer("y")
        await at.sees("Something else came in between: look again")
        assert at.decisions == []
        assert at.above(PROMPT)[:2] == ["     3 │ print(os.name)", "     2 │"]
        at.terminal.show(RunStarted("run", "meanwhile"))  # it has to wait now
        await at.answer("y")
        await at.end()
        await at.sees("meanwhile")
        assert at.above("meanwhile")[0] == "     3 │ print(os.name)"
        assert at.written == [("app.py", CONTENT)]


@in_event_loop
async def test_who_shows_what_happens_too_late_has_it_shown_by_the_question() -> None:
    async with sitting(is_shown=False) as at:
        await at.sees(PROMPT)
        assert at.above(PROMPT)[:2] == ["     3 │ print(os.name)", "     2 │"]
        await at.answer("y")


@in_event_loop
async def test_two_approvers_at_one_terminal_ask_one_after_the_other() -> None:
    async with sitting() as at:
        await at.sees(PROMPT)
        request = replace(at.run.pending[0], name="other_tool", call_id="other")
        other = TerminalApprover(at.terminal, source=at.source)
        deciding = asyncio.ensure_future(other(request))
        await at.answer("y", "? Run write_file?  1 of 2")
        await at.end()
        assert at.written == [("app.py", CONTENT)]
        await at.answer("n", "? Run other_tool?  2 of 2")
        assert await deciding == Deny()


@in_event_loop
async def test_who_comes_back_from_his_shell_sees_it_anew_and_what_he_typed_there_is_dropped() -> (
    None
):
    async with sitting() as at:
        await at.sees(PROMPT)
        at.come_back()
        at.type("y\ny")
        await at.sees("write_file would run with:")
        await at.sees(PROMPT)
        assert at.decisions == []
        await at.answer("y")
        await at.end()
        assert at.written == [("app.py", CONTENT)]


@in_event_loop
async def test_what_does_not_fit_on_a_small_screen_is_said_before_it_is_asked() -> None:
    async with sitting(columns=40, rows=9) as at:
        await at.answer("a")
        await at.sees("? Always run it? t/Esc")
        assert at.above("? Always run it?")[:5] == [
            "  t any call of this tool · Esc back",
            "  t: write_file, whatever its arguments",
            "  conversation for …",
            "? Run it, and ask no more in this",
            "     3 │ print(os.name)",
        ]
        await at.answer("t", "? Always run it?")
        await at.end()
        assert [event.always for event in at.decisions] == ["session"]


@pytest.mark.usefixtures("hangup_ends_processes")
def test_who_is_told_to_end_while_he_asks_leaves_the_modes_as_they_were(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    before = termios.tcgetattr(ours)
    command = [sys.executable, "-m", "tests.terminal.approving.asking", str(tmp_path)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as asking:
        written = b""
        while b"say why" not in written:
            written += os.read(ours, 4096)
        while termios.tcgetattr(ours)[3] & termios.ICANON:  # until it reads keys
            time.sleep(0.01)
        asking.send_signal(signal.SIGHUP)
    assert asking.returncode == -signal.SIGHUP
    assert termios.tcgetattr(ours) == before
    os.close(ours)
    os.close(theirs)


@in_event_loop
async def test_an_editor_that_is_killed_leaves_the_terminal_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EDITOR", "sh -c 'printf \"\\033[?1049h\"; stty raw -echo; kill -9 $$'")
    async with sitting() as at:
        before = at.modes_before
        await at.answer("e")
        await at.sees("ended with signal 9")
        assert at.modes()[0] == before[0]  # what becomes of Enter and Ctrl-S
        assert at.modes()[3] & termios.ISIG  # Ctrl-C is Ctrl-C
        await at.answer("n", "? Run write_file")
        await at.end()


@in_event_loop
async def test_the_question_disappears_when_somebody_else_decides() -> None:
    async with sitting() as at:
        await at.sees(PROMPT)
        at.run.decide(at.run.pending[0].call_id, Deny("elsewhere"))
        await at.end()
        await at.sees_no(PROMPT)


@in_event_loop
async def test_the_time_that_is_left_is_told_and_then_the_call_is_denied() -> None:
    async with sitting(seconds=0.3) as at:
        await at.sees("1 s left")
        await at.end()
        await at.sees_no(PROMPT)
        assert at.written == []
        assert [event.decision for event in at.decisions] == ["expired"]


@in_event_loop
async def test_an_edit_is_shown_and_runs_when_it_is_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "sed -i -e 's/os.name/os.sep/' -e 's/app.py/new.py/'")
    async with sitting() as at:
        await at.answer("e")
        await at.sees('  - "app.py"\n  + "new.py"')
        await at.sees("  - print(os.name)\n  + print(os.sep)")
        await at.answer("y", "? Run write_file with these changes?")
        await at.end()
        assert at.written == [("new.py", CHANGED)]
        assert [event.decision for event in at.decisions] == ["edited"]


def editor(folder: Path, text: str) -> str:
    """Make an editor of a script that gets the files, content.py first."""
    path = folder / "my editor.sh"
    path.write_text(f"#!/bin/sh\n{text}", "utf-8")
    path.chmod(0o700)
    return f"'{path}'"


@in_event_loop
async def test_what_cannot_be_read_is_said_and_nothing_that_was_typed_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first time the JSON is broken, the second time an argument is missing, then all is well.
    script = f"""cd {tmp_path}; echo >> count
case $(wc -l < count) in
  1) sed -i 's/}}$/]/' "$2"; sed -i 's/os.name/os.sep/' "$1" ;;
  2) sed -i -e 's/]$/}}/' -e 's/path/paths/' "$2" ;;
  *) sed -i 's/paths/path/' "$2" ;;
esac
"""
    monkeypatch.setenv("VISUAL", editor(tmp_path, script))
    async with sitting() as at:
        await at.answer("e")
        await at.sees("arguments.json, line 5, column 3: this character cannot stand here")
        await at.answer("e", "? The arguments cannot be used")
        await at.sees("the edited arguments of write_file are not valid")
        await at.answer("e", "? The arguments cannot be used")
        await at.answer("y", "with these changes?")
        await at.end()
        assert at.written == [("app.py", CHANGED)]


@in_event_loop
async def test_an_edit_can_be_left_or_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "sed -i s/name/sep/")
    async with sitting() as at:
        await at.answer("e")
        await at.answer("\x1b", "with these changes?")
        await at.answer("e", UNCHANGED)
        await at.answer("n", "with these changes?")
        await at.end()
        assert at.written == []


@pytest.mark.parametrize("command", ["sed -i s/name/sep/", "sh -c 'sed -i s/name/sep/ $0; exit 1'"])
@in_event_loop
async def test_who_leaves_his_changes_is_told_that_they_are_not_used(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", command)
    async with sitting(rows=40) as at:
        await at.answer("e")
        if "exit" not in command:
            await at.answer("\x1b", "with these changes?")
        await at.sees("What you have changed is not used")
        assert at.above(UNCHANGED)[0] == "     3 │ print(os.name)"
        await at.answer("y", UNCHANGED)
        await at.end()
        assert at.written == [("app.py", CONTENT)]


@in_event_loop
async def test_the_editor_ends_when_the_question_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, ended = tmp_path / "started", tmp_path / "ended"
    script = f"trap 'touch {ended}; exit 1' TERM; touch {started}; while :; do sleep 0.05; done"
    monkeypatch.setenv("VISUAL", editor(tmp_path, script))
    async with sitting() as at:
        await at.answer("e")
        while not started.exists():
            await asyncio.sleep(0.01)
        at.run.stop("enough")
        await at.end()
        assert ended.exists()
        assert at.written == []
