"""Who decides in the demo: whoever watches; and if nobody touches a key, the demo itself."""

import asyncio
import math
import os
import time
from contextlib import suppress
from typing import Final

from argstream.agent.approvals import Approval, Approve
from argstream.events import ApprovalRequested
from argstream.terminal import LiveTerminal, Looks, Terminal
from argstream.terminal.approving import TerminalApprover
from argstream.terminal.live import Tail
from argstream.terminal.spans import Line, Span, line

__all__ = ["DemoApprover"]

_LEAST_ROWS: Final = 3  # the question, its keys, and the countdown
_STANDARD_INPUT: Final = 0


class DemoApprover:
    """Asks; after some seconds without a key, or where there are none, it answers itself."""

    def __init__(self, terminal: Terminal, looks: Looks, patience: float) -> None:
        self._patience = patience
        self._limit: asyncio.Timeout | None = None  # of the question that is asked: one at a time
        self._person: TerminalApprover | None = None
        if isinstance(terminal, LiveTerminal) and os.isatty(_STANDARD_INPUT):
            self._person = TerminalApprover(_Counting(terminal, self), looks=looks)
            self._person.on_key = self._wait_for_ever

    async def __call__(self, request: ApprovalRequested) -> Approval:
        """Give what somebody says, or yes."""
        if self._person is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience) as self._limit:
                    return await self._person(request)
        return Approve(digest=request.digest, reason="nobody did, so the demo answers itself")

    @property
    def ends_at(self) -> float | None:
        """When it answers itself, if it will."""
        return None if self._limit is None else self._limit.when()

    def _wait_for_ever(self) -> None:
        """Leave the answer to somebody who has begun with it."""
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(None)


class _Counting:
    """A terminal that says below a question how long it waits."""

    def __init__(self, terminal: LiveTerminal, approver: DemoApprover) -> None:
        self._approver = approver
        self._terminal = terminal
        self.say = terminal.say
        self.is_last = terminal.is_last
        self.asked_since = terminal.asked_since
        self.suspended = terminal.suspended

    def tail_size(self) -> tuple[int, int]:
        """Give the room that there is beside the countdown."""
        columns, rows = self._terminal.tail_size()
        return columns, rows - len(self._countdown(rows))

    def ask(self, tail: Tail | None, *, alone: bool = False) -> None:
        """Ask with a countdown below."""

        def counting(now: float, columns: int, rows: int) -> list[Line]:
            below = self._countdown(rows)
            return [] if tail is None else [*tail(now, columns, rows - len(below)), *below]

        self._terminal.ask(None if tail is None else counting, alone=alone)

    def _countdown(self, rows: int) -> list[Line]:
        ends_at = self._approver.ends_at
        if ends_at is None or rows < _LEAST_ROWS:
            return []
        seconds = max(math.ceil(ends_at - time.monotonic()), 0)
        return [line(Span(f"  without a key, the demo says yes in {seconds} s", "faint"))]
