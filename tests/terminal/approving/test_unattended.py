"""Where nobody can be asked, nothing runs."""

import asyncio
import io
import os
from typing import NoReturn

from argstream.decisions import Deny
from argstream.events import ApprovalRequested
from argstream.terminal.approving import TerminalApprover
from argstream.terminal.approving._keyboard import is_terminal
from argstream.terminal.opening import PlainTerminal

REQUEST = ApprovalRequested("call_1", "write_file", {}, "digest", "why")


DENIED = Deny("nobody can be asked here: to allow it, run it with --yes")


class Nowhere:
    """A terminal at which nothing may be asked."""

    def _used(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("it was used")

    say = is_last = ask = asked_since = tail_size = suspended = _used


def test_without_somebody_to_press_keys_it_denies_and_says_how_to_allow() -> None:
    with open("/dev/null") as nothing:  # noqa: PTH123 - a stream, as standard input is one
        approver = TerminalApprover(Nowhere(), source=nothing, how_to_allow="run it with --yes")
        assert asyncio.run(approver(REQUEST)) == DENIED


def test_so_it_does_where_the_output_is_no_terminal() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs) as keys:
        plain = PlainTerminal(io.StringIO())
        approver = TerminalApprover(plain, source=keys, how_to_allow="run it with --yes")
        assert asyncio.run(approver(REQUEST)) == DENIED
    os.close(ours)


def test_streams_that_are_no_files_are_no_terminals() -> None:
    closed = io.TextIOWrapper(io.BytesIO())
    closed.close()
    assert not is_terminal(io.StringIO())
    assert not is_terminal(closed)
    assert not is_terminal(None)
