"""The tools of a run that are running: each is a task, which can be ended."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from argstream.agent._effects import CancelTool, EndText, Execute, ReadAlong, Step
from argstream.agent._listening import EarlyStart
from argstream.agent._machine import Machine
from argstream.agent._toolbox import Toolbox
from argstream.agent.tools import Bound, ToolContext, failure_words
from argstream.events import ToolOutputDelta

__all__ = ["ToolTasks"]

_GRACE: Final = 10.0
"""How long a tool may take to undo what it did, in seconds, before it is cancelled."""
_GRACE_AFTER_STOP: Final = 1.0

logger = logging.getLogger("argstream.agent")


class _Running(NamedTuple):
    scope: anyio.CancelScope
    context: ToolContext


class ToolTasks:
    """Starts tools and ends them. What follows is given to ``act``, what they say to ``tell``."""

    def __init__(
        self,
        machine: Machine,
        tools: Toolbox,
        act: Callable[[Step], None],
        tell: Callable[[ToolOutputDelta], None],
        room: Callable[[], Awaitable[None]],
    ) -> None:
        self._machine = machine
        self._tools = tools
        self._act = act
        self._tell = tell
        self._room = room
        self._running: dict[str, _Running] = {}  # by call
        self._early: dict[str, EarlyStart] = {}  # those that read their text, by call

    def expect(self, early: EarlyStart) -> None:
        """Take note of a tool that can read along, should it be started."""
        self._early[early.call.id] = early

    def start(self, tasks: TaskGroup, effect: Execute | ReadAlong) -> None:
        """Start a tool."""
        call_id, name = effect.call_id, effect.name
        bind: Callable[[], Bound]
        if isinstance(effect, Execute):
            bind = partial(self._tools[name].bind, effect.text)
        else:
            bound = self._early[call_id].bound
            bind = lambda: bound  # noqa: E731 - it was bound before
        run_id, key = self._machine.state.run_id, effect.idempotency_key
        said = partial(self._said, call_id, name)
        context = ToolContext(run_id, call_id, name, key, said, self._room)
        self._running[call_id] = running = _Running(anyio.CancelScope(), context)
        tasks.start_soon(self._execute, running, bind)

    def end_text(self, effect: EndText) -> None:
        """Tell a tool that reads its text how that has ended."""
        early = self._early.pop(effect.call_id, None)
        if early is None:
            return
        if effect.interruption is None:
            early.feed.finish()
            return
        early.feed.interrupt(effect.interruption)
        self._end(effect.call_id, _GRACE)

    def cancel(self, effect: CancelTool) -> None:
        """End a tool, at once or soon."""
        self._end(effect.call_id, _GRACE_AFTER_STOP if effect.undoes else 0)

    def _end(self, call_id: str, grace: float) -> None:
        """Have a tool end by itself in so many seconds, or be cancelled then."""
        scope, context = self._running[call_id]
        context.cancel()
        scope.deadline = min(scope.deadline, anyio.current_time() + grace)
        if not grace:
            scope.cancel()

    async def _execute(self, running: _Running, bind: Callable[[], Bound]) -> None:
        scope, context = running
        call_id, tool = context.call_id, self._tools[context.name]
        step: Callable[[], Step] = partial(self._machine.raised, call_id, "it was stopped")
        with scope:
            try:
                if self._machine.is_ending:  # stopped while it was written down that it starts
                    scope.cancel()
                await anyio.lowlevel.checkpoint_if_cancelled()
                result = await tool.execute(bind(), context)
                step = partial(self._machine.returned, call_id, result)
            except Exception as error:
                logger.info("the tool %s failed", tool.name, exc_info=error)
                step = partial(self._machine.raised, call_id, failure_words(error))
        self._act(step())

    def _said(self, call_id: str, name: str, text: str) -> None:
        self._tell(ToolOutputDelta(call_id, name, text))
