"""``TerminalApprover``: asks the person at the terminal about each call that must be approved."""

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TextIO

from argstream.decisions import Approval, Deny
from argstream.events import ApprovalRequested
from argstream.terminal.approving._asking import Place
from argstream.terminal.approving._dialogue import Check, Dialogue
from argstream.terminal.approving._keyboard import Hangup, Keyboard, is_terminal
from argstream.terminal.approving._turns import Turn, turn
from argstream.terminal.looks import Looks
from argstream.terminal.opening import Terminal

__all__ = ["TerminalApprover"]


class TerminalApprover:
    """Asks with keys, one question at a time at a terminal, in the order in which they came.

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
        terminal: Terminal | Place | None,
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
        self.on_key: Callable[[], None] | None = None
        """Is called whenever somebody has pressed a key, whatever that means."""
        self._place = terminal if isinstance(terminal, Place) else None
        self._how_to_allow = how_to_allow
        self._looks = Looks() if looks is None else looks
        self._source = sys.stdin if source is None else source

    async def __call__(self, request: ApprovalRequested) -> Approval:
        """Ask; the question disappears if this is cancelled."""
        if self._place is None or not is_terminal(self._source):
            return Deny(f"nobody can be asked here: to allow it, {self._how_to_allow}")
        keyboard = os.fstat(self._source.fileno()).st_rdev
        async with turn(self._place, keyboard) as own:
            return await self._decision(request, self._place, own)

    async def _decision(self, request: ApprovalRequested, place: Place, own: Turn) -> Approval:
        keyboard = Keyboard(self._source, self.on_key)
        dialogue = Dialogue(
            request,
            place,
            keyboard,
            check=self.check,
            view=partial(self._looks.whole, call_id=request.call_id),
            turn=own,
        )
        try:
            with keyboard.listening(), dialogue:
                return await dialogue.decision()
        except Hangup:
            return Deny("nobody can be asked: the terminal was closed")
