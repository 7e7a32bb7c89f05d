"""Questions at a terminal, and the keys that answer them or do not."""

import asyncio
import io
import os
import termios
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from argstream import Deny
from argstream.events import ApprovalRequested, RunStarted
from argstream.models import Reply
from argstream.policy import Policy, Rule
from argstream.terminal import PlainTerminal, TerminalApprover, _approval, line
from tests.terminal.approving.sitting import CONTENT, PROMPT, editor, sitting, write_call

REQUEST = ApprovalRequested("call_1", "write_file", {}, "digest", "why")
DENIED = Deny("no one can be asked here: to allow it, run it with --yes")
UNCHANGED = "? Run write_file as the model wrote it, without your changes?"
CHANGED = CONTENT.replace("name", "sep")
LAST_ROWS = ["     3 │ print(os.name)", "     2 │"]


class TestAnswers:
    async def test_y_runs_the_call_and_removes_the_question(self) -> None:
        async with sitting(rows=40, settling=1.0) as at:
            await at.sees(PROMPT)
            assert "would run with" not in at.screen()  # the arguments are shown once
            await at.answer("?")
            await at.sees("stops the run")
            await at.answer("v")
            await at.sees("write_file would run with:")
            await at.answer("y")
            await at.end()
            await at.sees_no(PROMPT)
            assert at.written == [("app.py", CONTENT)]
            assert [event.decision for event in at.decisions] == ["approved"]

    async def test_d_denies_with_a_typed_reason(self) -> None:
        async with sitting() as at:
            await at.answer("d")
            await at.sees("why? ▏")
            at.type("not ap\x7f\x7fin der Küche 不")
            await at.sees("why? not in der Küche 不▏")
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

    async def test_keys_typed_for_a_reason_do_not_answer_the_question(self) -> None:
        async with sitting(quiet=60) as at:
            await at.sees(PROMPT)
            at.hurry()
            await at.answer("d")
            await at.sees("why? ▏")
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
            await at.sees("r: no secrets")
            await at.answer("\x1b", "? Run it, and ask no more")  # and back
            await at.sees_no("r: no secrets")
            await at.answer("a")
            await at.answer("r" if always == "rule" else "t", "r: no secrets")
            await at.end()
            assert [path for path, _ in at.written] == ["a.py", "b.py"]
            assert [event.always for event in at.decisions] == [always]

    async def test_other_input_gets_a_hint_and_answers_nothing(self) -> None:
        # Each is one key without a meaning here. None of its letters may count.
        sequences = ["\x1b[1;5C", "\x1b[y", "\x1by", "\x9b1;5y", "\x00", "x"]
        async with sitting() as at:
            for keys in ("y\ny\ny\n", "\x1b[200~y\x1b[201~", "yy", *sequences):
                await at.answer("\r")
                await at.sees("Enter alone is no answer.")
                await at.answer(keys)
                is_one = keys in sequences
                await at.sees("That key is none of these." if is_one else "Several keys at once")
            assert at.decisions == []
            await at.answer("n")

    async def test_key_of_the_last_answer_must_wait_longer(self) -> None:
        calls = Reply(write_call("a.py"), write_call("b.py"))
        async with sitting(calls, wary=60) as at:
            await at.answer("y", "1 of 2  path=a.py")
            await at.answer("y", "2 of 2  path=b.py")  # it may be held down
            await at.sees("That was quicker than you can read: press it again.")
            assert [event.decision for event in at.decisions] == ["approved"]
            at.hurry()
            await at.answer("n", "2 of 2  path=b.py")
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
        async with sitting(columns=36, rows=24) as at:
            await at.answer("d")
            for data, shown in reasons.items():
                await at.sees("why? ▏")
                at.type(data)
                await at.sees(f"why? {shown}▏")
                at.type("\x15")  # Ctrl-U
            await at.sees("why? ▏")
            at.type("\r")


class TestQuestions:
    async def test_several_come_in_order_each_below_its_arguments(self) -> None:
        calls = [write_call(f"{name}.py", f"# {name}\n") for name in "abc"]
        async with sitting(Reply(*calls), settling=1.5) as at:
            for number, name in enumerate("abc", 1):
                await at.sees(f"{number} of 3  path={name}.py")
                rows = [f"     1 │ # {name}", f'  path = "{name}.py"', "write_file would run with:"]
                await at.sees_above(PROMPT, rows)
                await at.answer("n", f"{number} of 3")
            await at.end()
            assert [event.decision for event in at.decisions] == ["denied"] * 3

    async def test_yes_after_other_output_asks_to_look_again(self) -> None:
        async with sitting(rows=40) as at:
            await at.sees(PROMPT)
            at.terminal.say(line("a tool says something"))
            await at.answer("y")
            await at.sees("Something else came in between: look again")
            assert at.decisions == []
            assert at.above(PROMPT)[:2] == LAST_ROWS
            at.terminal.show(RunStarted("run", "meanwhile"))  # it has to wait now
            await at.answer("y")
            await at.end()
            await at.sees("meanwhile")
            assert at.above("meanwhile")[0] == LAST_ROWS[0]
            assert at.written == [("app.py", CONTENT)]

    async def test_question_shows_a_request_that_was_not_shown(self) -> None:
        async with sitting(is_shown=False) as at:
            await at.sees(PROMPT)
            assert at.above(PROMPT)[:2] == LAST_ROWS
            await at.answer("y")

    async def test_two_approvers_share_a_terminal(self) -> None:
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

    async def test_question_is_repeated_after_fg_and_typed_keys_are_dropped(self) -> None:
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

    async def test_question_ends_with_a_decision_elsewhere_or_the_timeout(self) -> None:
        async with sitting() as at:
            await at.sees(PROMPT)
            at.run.decide(at.run.pending[0].call_id, Deny("elsewhere"))
            await at.end()
            await at.sees_no(PROMPT)
        async with sitting(seconds=0.3) as at:
            await at.sees("1 s left")
            await at.end()
            await at.sees_no(PROMPT)
            assert at.written == []
            assert [event.decision for event in at.decisions] == ["expired"]

    async def test_arguments_are_summarised(self) -> None:
        contents = {
            "one\n": "content=one…",
            "one\ntwo\n": "content=one (2 lines)",
            "x" * 61: f"content={'x' * 60}…",
            "x" * 61 + "\ntwo\n3": f"content={'x' * 60}… (3 lines)",
            "\x1b[31m": "content=⟦ESC⟧[31m",
        }
        calls = [write_call("a", content) for content in contents]
        async with sitting(Reply(*calls), columns=160) as at:
            for short in contents.values():
                await at.answer("n", f"path=a  {short}")


KEYS = "y/n/d/e/a/v/?"


class TestScreens:
    @pytest.mark.parametrize(
        ("columns", "rows", "expected"),
        [
            (100, 24, "  y yes · n no · d no, say why · e edit · a always · v view all · ? help"),
            (31, 24, "  y yes · n no · d no, say why\n  e edit · a always\n  v view all · ? help"),
            (81, 3, f"? Run write_file? {KEYS}"),
            (31, 6, f"? Run write_file?\n  {KEYS}"),
            (31, 3, f"{KEYS} Run write_file?"),
        ],
    )
    async def test_keys_are_visible_at_any_size(
        self, columns: int, rows: int, expected: str
    ) -> None:
        async with sitting(columns=columns, rows=rows) as at:
            await at.sees(expected)
            await at.answer(
                "N", expected.rsplit("\n", maxsplit=1)[-1]
            )  # capitals are the same keys

    async def test_question_whose_keys_do_not_fit_cannot_be_answered(self) -> None:
        async with sitting(columns=12, rows=9) as at:
            await at.sees("make this")
            at.type("y")
            await asyncio.sleep(0.2)
            assert at.decisions == []
            at.resize(80, 9)
            await at.answer("n")

    async def test_explanation_that_does_not_fit_is_committed_first(self) -> None:
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
            assert [event.always for event in at.decisions] == ["conversation"]


class Nowhere:
    """A terminal that must not be used."""

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

    @pytest.mark.parametrize("problem", [NotImplementedError, PermissionError])
    async def test_event_loop_that_cannot_watch_files(self, problem: type[Exception]) -> None:
        loop, original = asyncio.get_running_loop(), asyncio.get_running_loop().add_reader

        def add_reader(file: int, *arguments: object) -> None:
            if file == at.source.fileno():
                raise problem
            original(file, *arguments)  # type: ignore[arg-type]

        async with sitting() as at:
            with patch.object(loop, "add_reader", add_reader):
                await at.answer("d")
                await at.sees("why? ▏")
                at.type("\x1b")
                await at.answer("n")
                await at.end()

    async def test_hangup_denies(self) -> None:
        ours, theirs = os.openpty()
        with os.fdopen(theirs) as keys:
            async with sitting() as at:
                await at.answer("n")
                await at.end()
                approver = TerminalApprover(at.terminal, source=keys)
                deciding = asyncio.ensure_future(approver(replace(REQUEST, name="other_tool")))
                await at.sees("? Run other_tool?")
                os.close(ours)
                closed = Deny("no one can be asked: the terminal was closed")
                assert await asyncio.wait_for(deciding, 5) == closed


class TestEditing:
    async def test_edit_is_shown_and_runs_if_confirmed(
        self, monkeypatch: pytest.MonkeyPatch
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
            await at.answer("e", "? The arguments cannot be used")
            await at.sees("the edited arguments of write_file are not valid")
            await at.answer("e", "? The arguments cannot be used")
            await at.answer("y", "with these changes?")
            await at.end()
            assert at.written == [("app.py", CHANGED)]

    @pytest.mark.parametrize(
        ("status", "key", "question"),
        [(0, "y", UNCHANGED), (1, "y", UNCHANGED), (0, "n", "with these changes?")],
    )
    async def test_edit_can_be_left_or_denied(
        self, status: int, key: str, question: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("VISUAL", f"sh -c 'sed -i s/name/sep/ $0; exit {status}'")
        async with sitting(rows=40) as at:
            await at.answer("e")
            if status == 0:
                await at.answer("\x1b", "with these changes?")
            await at.sees("What you have changed is not used")
            assert at.above(UNCHANGED)[0] == LAST_ROWS[0]
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

    async def test_killed_editor_leaves_the_terminal_modes(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("EDITOR", "sh -c 'printf \"\\033[?1049h\"; stty raw -echo; kill -9 $$'")
        async with sitting() as at:
            await at.answer("e")
            await at.sees("ended with signal 9")
            assert at.modes()[0] == at.modes_before[0]  # Enter and Ctrl-S
            assert at.modes()[3] & termios.ISIG  # Ctrl-C
            await at.answer("n", "? Run write_file")
            await at.end()

    async def test_failing_editor_leads_back_to_the_question(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hints = {
            "false ended with status 1.": {"VISUAL": "false", "EDITOR": "true"},
            "sh ended with status 3.": {"EDITOR": "sh -c 'exit 3'"},
            "$VISUAL cannot be read: No closing quotation.": {"VISUAL": "'vi"},
            "there is no editor: say which one in $EDITOR.": {"PATH": "/nowhere"},
            "Nothing was changed.": {"VISUAL": "true"},
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
