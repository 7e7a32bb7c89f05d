"""Questions at the bottom of a screen of any size, and keys that answer them or do not."""

import asyncio
import io
import os
from pathlib import Path
from typing import NoReturn
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from argstream import Deny
from argstream.events import ApprovalRequested
from argstream.models import Reply
from argstream.terminal import PlainTerminal, TerminalApprover
from tests.terminal.approving.sitting import in_event_loop, sitting, write_call

REQUEST = ApprovalRequested("call_1", "write_file", {}, "digest", "why")
DENIED = Deny("nobody can be asked here: to allow it, run it with --yes")
NONE_OF_THESE = "That key is none of these."


class Nowhere:
    """A terminal at which nothing may be asked."""

    def _used(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("it was used")

    say = is_last = ask = asked_since = tail_size = suspended = _used


def closed() -> io.TextIOWrapper:
    stream = io.TextIOWrapper(io.BytesIO())
    stream.close()
    return stream


def test_without_a_keyboard_calls_are_denied_with_how_to_allow_them() -> None:
    with Path("/dev/null").open() as nothing:
        for source in (nothing, io.StringIO(), closed()):
            approver = TerminalApprover(Nowhere(), source=source, how_to_allow="run it with --yes")
            assert asyncio.run(approver(REQUEST)) == DENIED


def test_without_a_live_terminal_calls_are_denied() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs) as keys:
        plain = PlainTerminal(io.StringIO())
        approver = TerminalApprover(plain, source=keys, how_to_allow="run it with --yes")
        assert asyncio.run(approver(REQUEST)) == DENIED
    os.close(ours)


@pytest.mark.parametrize(
    ("columns", "rows", "expected"),
    [
        (100, 24, ["  y yes · n no · d no, say why · e edit · a always · v view all · ? help"]),
        (
            31,
            24,
            ["  y yes · n no · d no, say why", "  e edit · a always", "  v view all · ? help"],
        ),
        (81, 3, ["? Run write_file? y/n/d/e/a/v/?"]),
        (31, 6, ["? Run write_file?", "  y/n/d/e/a/v/?"]),
        (31, 3, ["y/n/d/e/a/v/? Run write_file?"]),
    ],
)
@in_event_loop
async def test_keys_can_be_seen_on_screens_of_any_size(
    columns: int, rows: int, expected: list[str]
) -> None:
    async with sitting(columns=columns, rows=rows) as at:
        await at.sees("\n".join(expected))
        await at.answer("N", expected[-1])  # capitals are the same keys


@in_event_loop
async def test_a_question_whose_keys_do_not_fit_cannot_be_answered() -> None:
    async with sitting(columns=12, rows=9) as at:
        await at.sees("make this")
        at.type("y")
        await asyncio.sleep(0.2)
        assert at.decisions == []
        at.resize(80, 9)
        await at.answer("n")


@in_event_loop
async def test_a_question_shows_its_arguments_in_short() -> None:
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


# Each is one key without a meaning here; none of its letters may count.
SEQUENCES = [
    "\x1b[A",  # up
    "\x1b[1;5C",  # Ctrl-right
    "\x1bOy",  # the 9 of a number pad
    "\x1bO5A",  # Ctrl-up, as some terminals have it
    "\x1b[[A",  # F1 of the Linux console
    "\x1b[M y!",  # a mouse
    "\x1b[y",  # a report
    "\x1by",  # Alt-y
    "\x1b]11;y\x07",  # the colour of the background
    "\x1bP>|y\x1b\\",
    "\x9b1;5y",  # eight bits
    "\x00",
    "x",
]


@in_event_loop
async def test_what_is_no_answer_gets_a_hint_and_runs_nothing() -> None:
    async with sitting() as at:
        for keys in ("y\ny\ny\n", "\x1b[200~y\x1b[201~", "yy", *SEQUENCES):
            await at.answer("\r")
            await at.sees("Enter alone is no answer.")
            await at.answer(keys)
            await at.sees(NONE_OF_THESE if keys in SEQUENCES else "Several keys at once")
        assert at.decisions == []
        await at.answer("n")


@in_event_loop
async def test_a_key_that_answered_a_question_must_wait_longer_at_the_next() -> None:
    calls = Reply(write_call("a.py"), write_call("b.py"))
    async with sitting(calls, wary=1.0) as at:
        await at.answer("y", "1 of 2  path=a.py")
        await at.answer("y", "2 of 2  path=b.py")  # it may be held down
        await at.sees("That was quicker than you can read: press it again.")
        assert [event.decision for event in at.decisions] == ["approved"]
        await at.answer("n", "2 of 2  path=b.py")
        await at.end()
        assert [path for path, _ in at.written] == ["a.py"]


@pytest.mark.parametrize("problem", [NotImplementedError, PermissionError])
@in_event_loop
async def test_keys_are_read_where_the_event_loop_cannot_watch_files(
    problem: type[Exception],
) -> None:
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


@in_event_loop
async def test_a_terminal_that_hangs_up_denies() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs) as keys:
        async with sitting() as at:
            await at.answer("n")
            await at.end()
            approver = TerminalApprover(at.terminal, source=keys)
            deciding = asyncio.ensure_future(approver(replace(REQUEST, name="other_tool")))
            await at.sees("? Run other_tool?")
            os.close(ours)
            closed = Deny("nobody can be asked: the terminal was closed")
            assert await asyncio.wait_for(deciding, 5) == closed


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("no, später 不 🙂", "no, später 不 🙂"),
        ("no\x7f", "n"),
        ("不\x7f", ""),
        ("e\u0301\x7fx", "x"),  # the accent was typed with its letter
        ("not now\x17", "not "),
        ("not now  \x17", "not "),
        ("a\x1b[Db", "ab"),  # the cursor cannot go to the left
        ("a\x00\tb", "ab"),
        ("see:\x1b[200~ line 1\r\n\tline 2\n\x1b[201~!", "see:line 1 line 2!"),
        ("\x1b[200~\x1b]0;x\x07\u202e\x1b[201~", "⟦ESC⟧]0;x⟦BEL⟧⟦RLO⟧"),
        ("the end of a reason that is long is shown", "…ason that is long is shown"),
    ],
)
@in_event_loop
async def test_a_reason_is_typed_as_in_any_line(data: str, shown: str) -> None:
    async with sitting(columns=36, rows=24) as at:
        await at.answer("d")
        await at.sees("why? ▏")
        at.type(data)
        await at.sees(f"why? {shown}▏")
        at.type("\x15")  # Ctrl-U
        await at.sees("why? ▏")
        at.type("\r")
