"""Questions at a terminal, and the keys that answer them or do not."""

import asyncio
import io
import os
import termios
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from argstream import Deny
from argstream.events import ApprovalRequested, RunStarted
from argstream.models import Reply
from argstream.policy import Policy, Rule
from argstream.terminal import PlainTerminal, TerminalApprover, _approval, line
from tests.terminal.approving.sitting import CONTENT, PROMPT, editor, sitting, write_call

pytestmark = pytest.mark.anyio

REQUEST = ApprovalRequested("call_1", "write_file", {}, "digest", "why")
DENIED = Deny(
    "approval needed, but this is not an interactive terminal. To allow it, run it with --yes"
)
UNCHANGED = "? Approve write_file unchanged?"
CHANGED = CONTENT.replace("name", "sep")
REASON = "│ write_file always needs approval"
AGAIN = [REASON, "│    3 │ print(os.name)", "│    2 │"]  # the request with its arguments


class TestAnswers:
    async def test_y_runs_the_call_and_removes_the_question(self) -> None:
        async with sitting(rows=40, settling=1.0) as at:
            await at.sees(PROMPT)
            assert at.screen().count("app.py") == 1  # the arguments are shown once
            assert at.screen().count("print(os.name)") == 1
            await at.answer("?")
            await at.sees("stop the run")
            await at.answer("v")  # inside the same box
            await at.sees_above(PROMPT, AGAIN[1:])
            assert at.screen().count("╭─") == 1
            await at.answer("y")
            await at.end()
            await at.sees_no(PROMPT)
            assert at.written == [("app.py", CONTENT)]
            assert [event.decision for event in at.decisions] == ["approved"]

    async def test_d_denies_with_a_typed_reason(self) -> None:
        async with sitting() as at:
            await at.answer("d")
            await at.sees("Reason (optional): ▏")
            at.type("not ap\x7f\x7fin der Küche 不")
            await at.sees("Reason (optional): not in der Küche 不▏")
            at.type("\r")
            await at.end()
            assert at.written == []
            assert at.decisions[0].reason == "not in der Küche 不"

    async def test_keys_typed_before_a_question_do_not_answer_it(self) -> None:
        async with sitting(quiet=60) as at:
            at.type("yyyy")
            await at.press_too_early("y")  # before it can have been read
            at.hurry()
            await at.answer("n")
            await at.end()
            assert at.written == []

    async def test_key_that_waited_for_a_blocked_event_loop_is_too_early(self) -> None:
        async with sitting(quiet=0.6) as at:
            await at.sees(PROMPT)
            at.type("y")  # at once, but it is read when the question has stood for long
            time.sleep(1)
            await at.sees("Ignored (pressed before the prompt appeared).")
            assert at.decisions == []
            await at.answer("n")

    async def test_keys_typed_for_a_reason_do_not_answer_the_question(self) -> None:
        async with sitting(quiet=60) as at:
            await at.sees(PROMPT)
            at.hurry()
            await at.answer("d")
            await at.sees("Reason (optional): ▏")
            vars(_approval).update(_QUIET_SECONDS=60, _WARY_SECONDS=60)
            at.type("no\x1b")
            await at.press_too_early("y")
            assert at.decisions == []
            at.hurry()
            await at.answer("n")
            await at.end()
            assert at.written == []

    @pytest.mark.parametrize("always", ["conversation", "rule"])
    async def test_always_is_offered_for_the_tool_and_the_rule(self, always: str) -> None:
        policy = Policy([Rule("ask", tool="write_file", name="no secrets")])
        async with sitting(write_call("a.py"), write_call("b.py"), policy=policy) as at:
            await at.answer("a")
            await at.sees("r calls matching “no secrets”")
            await at.answer("\x1b", "? Always allow")  # and back
            await at.sees_no("? Always allow")
            await at.answer("a")
            await at.answer("r" if always == "rule" else "t", "r calls matching “no secrets”")
            await at.end()
            assert [path for path, _ in at.written] == ["a.py", "b.py"]
            assert [event.always for event in at.decisions] == [always]

    async def test_other_input_gets_a_hint_and_answers_nothing(self) -> None:
        # Each is one key without a meaning here. None of its letters may count.
        sequences = ["\x1b[1;5C", "\x1b[y", "\x1by", "\x9b1;5y", "\x00", "x"]
        sequences += ["y\x1b", "y\x1b[20"]  # the end of these may be late
        async with sitting() as at:
            for keys in ("y\ny\ny\n", "\x1b[200~y\x1b[201~", "yy", *sequences):
                await at.answer("\r")
                await at.sees("Press y or n.")
                await at.answer(keys)
                several = "Pasted text" if "[200~" in keys else "Several keys"
                await at.sees("Unknown key." if keys in sequences else several)
            assert at.decisions == []
            await at.answer("n")

    async def test_key_of_the_last_answer_must_wait_longer(self) -> None:
        calls = Reply(write_call("a.py"), write_call("b.py"))
        async with sitting(calls, wary=60) as at:
            await at.answer("y", "1 of 2")
            await at.answer("y", "2 of 2")  # it may be held down
            await at.sees("Ignored (pressed before the prompt appeared).")
            assert [event.decision for event in at.decisions] == ["approved"]
            at.hurry()
            await at.answer("n", "2 of 2")
            await at.end()
            assert [path for path, _ in at.written] == ["a.py"]

    async def test_reason_is_edited_like_any_line(self) -> None:
        reasons = {
            "no, später 不 🙂": "no, später 不 🙂",
            "不\x7f": "",
            "e\u0301\x7fx": "x",  # the accent was typed with its letter
            "not now  \x17": "not ",
            "a\x1b[Db\x00\tc": "abc",  # the cursor cannot go to the left
            "see:\x1b[200~ line 1\r\n\tline 2\n\x1b[201~!": "see:line 1 line 2!",
            "\x1b[200~\x1b]0;x\x07\u202e\x1b[201~": "⟦ESC⟧]0;x⟦BEL⟧⟦RLO⟧",
            "the end of a reason that is long is shown": "…ason that is long is shown",
        }
        async with sitting(columns=50, rows=24) as at:
            await at.answer("d")
            for data, shown in reasons.items():
                await at.sees("(optional): ▏")
                at.type(data)
                await at.sees(f"(optional): {shown}▏")
                at.type("\x15")  # Ctrl-U
            await at.sees("(optional): ▏")
            at.type("\r")


class TestQuestions:
    async def test_several_come_in_order_each_below_its_arguments(self) -> None:
        calls = [write_call(f"{name}.py", f"# {name}\n") for name in "abc"]
        async with sitting(Reply(*calls), settling=1.5) as at:
            for number, name in enumerate("abc", 1):
                rows = [f"│ approval {number} of 3", REASON]
                await at.sees_above(PROMPT, rows)
                # Arguments that were shown before the request stand above its box.
                assert any(f"1 │ # {name}" in row for row in at.above(PROMPT)[2:4])
                await at.answer("n", f"{number} of 3")
            await at.end()
            assert [event.decision for event in at.decisions] == ["denied"] * 3

    async def test_yes_after_other_output_asks_to_look_again(self) -> None:
        async with sitting(rows=40) as at:
            await at.sees(PROMPT)
            at.terminal.say(line("a tool says something"))
            await at.sees("? Approve write_file?")
            await at.answer("y")
            await at.sees("The screen changed. Check the call, then press again.")
            assert at.decisions == []
            assert at.above(PROMPT)[:3] == AGAIN
            at.terminal.show(RunStarted("run", "meanwhile"))  # it has to wait now
            await at.answer("y")
            await at.end()
            await at.sees("meanwhile")
            assert at.above("meanwhile")[:2] == ["╰─ No decision yet", REASON]
            assert at.written == [("app.py", CONTENT)]

    async def test_question_shows_a_request_that_was_not_shown(self) -> None:
        async with sitting(is_shown=False) as at:
            await at.sees(PROMPT)
            assert at.above(PROMPT)[:3] == AGAIN
            await at.answer("y")

    async def test_two_approvers_share_a_terminal(self) -> None:
        async with sitting() as at:
            await at.sees(PROMPT)
            request = replace(at.run.pending[0], name="other_tool", call_id="other")
            other = TerminalApprover(at.terminal, source=at.source)
            deciding = asyncio.ensure_future(other(request))
            await at.answer("y", "1 of 2")
            await at.end()
            assert at.written == [("app.py", CONTENT)]
            await at.sees("● other_tool")
            await at.answer("n", "2 of 2")
            assert await deciding == Deny()

    async def test_question_is_repeated_after_fg_and_typed_keys_are_dropped(self) -> None:
        async with sitting() as at:
            await at.sees(PROMPT)
            at.come_back()
            at.type("y\ny")
            await at.sees('│ path = "app.py"')
            await at.sees(PROMPT)
            assert at.decisions == []
            await at.answer("y")
            await at.end()
            assert at.written == [("app.py", CONTENT)]

    async def test_question_ends_with_a_decision_elsewhere_or_the_timeout(self) -> None:
        async with sitting() as at:
            await at.sees(PROMPT)
            at.run.decide(at.run.pending[0].call_id, Deny("elsewhere"))
            await at.end()
            await at.sees_no(PROMPT)
        async with sitting(seconds=0.3) as at:
            await at.sees("expires in 1 s")
            await at.end()
            await at.sees_no(PROMPT)
            assert at.written == []
            assert [event.decision for event in at.decisions] == ["expired"]


KEYS = "y/n/d/e/a/?"


class TestScreens:
    @pytest.mark.parametrize(
        ("columns", "rows", "expected"),
        [
            (80, 24, "╰─ y approve   n deny   d deny with reason   e edit   a always   ? help"),
            (44, 24, "╰─ y approve   n deny   d deny with reason\n   e edit   a always   ? help"),
            (81, 3, "╰─ y approve   n deny   d deny with reason   e edit   a always   ? help"),
            (31, 6, f"{KEYS} Approve write"),
            (35, 3, f"? Approve write_file? {KEYS}"),
            (33, 3, f"{KEYS} Approve write_file?"),
        ],
    )
    async def test_keys_are_shown_at_any_size(self, columns: int, rows: int, expected: str) -> None:
        async with sitting(columns=columns, rows=rows) as at:
            await at.sees(expected)
            await at.answer("N", expected.splitlines()[-1])  # capitals are the same keys

    async def test_question_whose_keys_do_not_fit_cannot_be_answered(self) -> None:
        async with sitting(columns=11, rows=9) as at:
            await at.sees("terminal …")
            at.type("y")
            await asyncio.sleep(0.2)
            assert at.decisions == []
            at.resize(80, 9)
            await at.answer("n")

    async def test_explanation_that_does_not_fit_is_committed_first(self) -> None:
        async with sitting(columns=40, rows=9) as at:
            await at.answer("a")
            await at.answer("t", "? Always allow\n  t every write_file call   Esc back")
            await at.end()
            assert [event.always for event in at.decisions] == ["conversation"]


class Nowhere:
    def _used(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("it was used")

    say = is_last = ask = asked_since = tail_size = suspended = _used


class TestKeyboards:
    async def test_calls_are_denied_without_a_keyboard_or_a_live_terminal(self) -> None:
        closed = io.TextIOWrapper(io.BytesIO())
        closed.close()
        ours, theirs = os.openpty()
        with Path("/dev/null").open() as nothing, os.fdopen(theirs) as keys:
            plain = PlainTerminal(io.StringIO())
            nowhere: Any = Nowhere()
            sources: list[Any] = [nothing, io.StringIO(), closed, keys]
            for terminal, source in zip([nowhere] * 3 + [plain], sources, strict=True):
                how = "run it with --yes"
                approver = TerminalApprover(terminal, source=source, how_to_allow=how)
                assert await approver(REQUEST) == DENIED
        os.close(ours)

    async def test_hangup_denies(self) -> None:
        ours, theirs = os.openpty()
        with os.fdopen(theirs) as keys:
            async with sitting() as at:
                await at.answer("n")
                await at.end()
                approver = TerminalApprover(at.terminal, source=keys)
                deciding = asyncio.ensure_future(approver(replace(REQUEST, name="other_tool")))
                await at.sees("● other_tool")
                os.close(ours)
                closed = Deny("approval needed, but the terminal was closed")
                assert await asyncio.wait_for(deciding, 5) == closed


class TestEditing:
    async def test_edit_runs_if_confirmed_and_earlier_keys_are_not_for_the_editor(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sed = 'sed -i -e "s/os.name/$line/" -e s/app.py/new.py/ "$@"'
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.setenv("EDITOR", editor(tmp_path, f"echo started >&0; read -r line; {sed}"))
        async with sitting() as at:
            suspended = at.terminal.suspended

            def typed_meanwhile() -> Any:
                at.type("y\r")
                return suspended()

            monkeypatch.setattr(at.terminal, "suspended", typed_meanwhile)
            await at.answer("e")
            await at.sees("started")
            at.type("os.sep\r")
            await at.sees("│ - app.py\n│ + new.py")
            await at.sees("│ - print(os.name)\n│ + print(os.sep)")
            await at.answer("y", "approve with edits")
            await at.end()
            assert at.written == [("new.py", CHANGED)]
            assert [event.decision for event in at.decisions] == ["edited"]
            await at.sees("✓ Approved with your edits")
            assert at.screen().count("+ print(os.sep)") == 1

    async def test_unusable_edit_is_explained_and_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # First the JSON is broken, then an argument is missing, then all is well.
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
            await at.sees("arguments.json, line 5, column 3: this character is not allowed here")
            await at.answer("e", "? Invalid arguments:")
            await at.sees("the edited arguments of write_file are not valid")
            await at.answer("e", "? Invalid arguments:")
            await at.answer("y", "approve with edits")
            await at.end()
            assert at.written == [("app.py", CHANGED)]

    @pytest.mark.parametrize(
        ("status", "key", "question"),
        [(0, "y", UNCHANGED), (1, "y", UNCHANGED), (0, "n", "approve with edits")],
    )
    async def test_edit_can_be_left_or_denied(
        self, status: int, key: str, question: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("VISUAL", f"sh -c 'sed -i s/name/sep/ $0; exit {status}'")
        async with sitting(rows=40) as at:
            await at.answer("e")
            if status == 0:
                await at.answer("\x1b", "approve with edits")
                await at.sees("╰─ Your edits are not applied")
            await at.sees("Your edits are not applied.")
            assert at.above(UNCHANGED)[0] == REASON
            if key == "n":
                await at.answer("e", UNCHANGED)
            await at.answer(key, question)
            await at.end()
            assert at.written == ([("app.py", CONTENT)] if key == "y" else [])

    async def test_editor_ends_when_the_run_is_stopped(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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

    async def test_killed_editor_leaves_the_modes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EDITOR", "sh -c 'printf \"\\033[?1049h\"; stty raw -echo; kill -9 $$'")
        async with sitting() as at:
            await at.answer("e")
            await at.sees("exited with signal 9")
            assert at.modes()[0] == at.modes_before[0]  # Enter and Ctrl-S
            assert at.modes()[3] & termios.ISIG  # Ctrl-C
            await at.answer("n", PROMPT)
            await at.end()

    async def test_failing_editor_leads_back_to_the_question(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hints = {
            "false exited with status 1.": {"VISUAL": "false", "EDITOR": "true"},
            "sh exited with status 3.": {"EDITOR": "sh -c 'exit 3'"},
            "$VISUAL cannot be read: No closing quotation.": {"VISUAL": "'vi"},
            "no editor found. Set $EDITOR.": {"PATH": "/nowhere"},
            "No changes.": {"VISUAL": "true"},
            "no-such-editor cannot be started": {"VISUAL": "no-such-editor"},
        }
        async with sitting() as at:
            for hint, variables in hints.items():
                with monkeypatch.context() as environment:
                    for name, value in ({"VISUAL": "", "EDITOR": ""} | variables).items():
                        environment.setenv(name, value)
                    await at.answer("e")
                    await at.sees(hint)
            await at.answer("n")
