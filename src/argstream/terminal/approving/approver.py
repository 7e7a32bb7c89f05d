"""``TerminalApprover``: asks the person at the terminal about each call that must be approved."""

import asyncio
import sys
from typing import Final, TextIO

from argstream.decisions import Approval, Deny
from argstream.events import ApprovalRequested
from argstream.terminal.approving._dialogue import Check, Dialogue, Place
from argstream.terminal.approving._keyboard import Hangup, Keyboard, is_terminal
from argstream.terminal.looks import Looks

__all__ = ["TerminalApprover"]

_TURN_SECONDS: Final = 0.05


class TerminalApprover:
    """Asks with keys, one question at a time, in the order in which they came.

    ::

        with open_terminal() as terminal:
            approver = TerminalApprover(terminal)
            run = Agent(model, tools, approver=approver).run_stream("Make the tests pass")
            approver.check = run.check
            async for event in run:
                terminal.show(event)

    What was typed before a question could be seen never answers it. Where nobody can be asked,
    since standard input or the output is no terminal, each call is denied.
    """

    def __init__(
        self,
        terminal: object,
        *,
        check: Check | None = None,
        looks: Looks | None = None,
        source: TextIO | None = None,
        how_to_allow: str = "run it in a terminal",
    ) -> None:
        """Ask at a terminal; ``looks`` say how arguments look, ``source`` is standard input.

        ``how_to_allow`` begins with a verb, and is told where nobody can be asked.
        ``check`` is given the id of a call and a decision, and raises UsageError if edited
        arguments do not fit: then they can be edited again.
        """
        self.check = check
        self._place = terminal if isinstance(terminal, Place) else None
        self._how_to_allow = how_to_allow
        self._looks = Looks() if looks is None else looks
        self._source = sys.stdin if source is None else source
        self._waiting: list[object] = []
        self._asked = 0  # since the last time that nobody waited

    async def __call__(self, request: ApprovalRequested) -> Approval:
        """Ask; the question disappears if this is cancelled."""
        if self._place is None or not is_terminal(self._source):
            return Deny(f"nobody can be asked here: to allow it, {self._how_to_allow}")
        ticket = object()
        self._waiting.append(ticket)
        try:
            while self._waiting[0] is not ticket:  # others may be in another event loop
                await asyncio.sleep(_TURN_SECONDS)
            self._asked += 1
            return await self._decision(request, self._place)
        finally:
            self._waiting.remove(ticket)
            if not self._waiting:
                self._asked = 0

    async def _decision(self, request: ApprovalRequested, place: Place) -> Approval:
        keyboard = Keyboard(self._source)
        dialogue = Dialogue(
            request,
            place,
            keyboard,
            check=self.check,
            view=self._looks.whole,
            position=self._position,
        )
        try:
            with keyboard.listening(), dialogue:
                return await dialogue.decision()
        except Hangup:
            return Deny("nobody can be asked: the terminal was closed")

    def _position(self) -> str:
        total = self._asked - 1 + len(self._waiting)
        return f"{self._asked} of {total}" if total > 1 else ""
