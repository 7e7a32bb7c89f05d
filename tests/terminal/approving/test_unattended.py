"""Where nobody can be asked, nothing runs."""

import asyncio
import io
from typing import Any

from argstream.decisions import Deny
from argstream.events import ApprovalRequested
from argstream.terminal.approving import TerminalApprover, unattended
from argstream.terminal.approving._keyboard import is_terminal
from argstream.terminal.spans import Line, text_of

REQUEST = ApprovalRequested("call_1", "write_file", {}, "digest", "why")


def test_every_call_is_denied_and_the_reason_says_how_to_allow_it() -> None:
    answer = asyncio.run(unattended("run it with --yes")(REQUEST))
    assert answer == Deny("nobody can be asked here: to allow it, run it with --yes")


def test_it_is_said_once() -> None:
    said: list[Line] = []
    approver = unattended("run it with --yes", said.append)
    for _ in range(2):
        asyncio.run(approver(REQUEST))
    (line,) = said
    assert text_of(line.spans).endswith("to allow it, run it with --yes")


class Nowhere:
    """A terminal at which nothing may be asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was used")


def test_an_approver_without_a_terminal_denies_and_touches_nothing() -> None:
    with open("/dev/null") as nothing:  # noqa: PTH123 - a stream, as standard input is one
        approver = TerminalApprover(Nowhere(), source=nothing)
        answer = asyncio.run(approver(REQUEST))
    assert answer == Deny("nobody can be asked: standard input is not a terminal")


def test_streams_that_are_no_files_are_no_terminals() -> None:
    closed = io.TextIOWrapper(io.BytesIO())
    closed.close()
    assert not is_terminal(io.StringIO())
    assert not is_terminal(closed)
    assert not is_terminal(None)
