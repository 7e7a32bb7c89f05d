"""The runs of a server: begun, gone on with and ended, whoever asks for it and in whatever process.

What is known of a run is in the store. Here are only the tasks that drive the runs of this process,
and a look-out for those that others have left: a process that ended in the midst of a run, or
between a decision and what follows from it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import anyio

from argstream.agent import Conversation
from argstream.decisions import Approve, Decisions
from argstream.errors import ArgstreamError, RunTaken, UnknownRun, UsageError
from argstream.events import Event, RunPaused
from argstream.log import RunInfo, Store
from argstream.server.drivers import DrivenRun, Driver
from argstream.server.problems import Problem

__all__ = ["Runs"]

_LOOK_OUT: Final = 5.0
"""How often runs are looked for that nobody drives, in seconds."""
_AT_ONCE: Final = 100
"""How many of them are looked at in one go."""

logger = logging.getLogger("argstream.server")


class Runs:
    """Starts runs, and sees to it that they go on."""

    def __init__(self, driver: Driver, *, look_out: float = _LOOK_OUT) -> None:
        self._driver = driver
        self._look_out_seconds = look_out
        self._tasks: dict[str, asyncio.Task[None]] = {}  # of the runs that are driven here
        self._look_out: asyncio.Task[None] | None = None
        self._is_closing = False

    @property
    def store(self) -> Store:
        """Where the runs are."""
        return self._driver.store

    @property
    def running(self) -> int:
        """How many are driven here."""
        return len(self._tasks)

    # What is known

    async def info(self, run_id: str, user: str) -> RunInfo:
        """Say what is known of a run; that of somebody else is as unknown as one that is not."""
        try:
            info = await self.store.info(run_id)
        except UsageError:  # nothing could have such an id
            raise _unknown(run_id) from None
        if info.user != user:
            raise _unknown(run_id)
        return info

    async def newest(self, conversation_id: str, user: str) -> RunInfo | None:
        """Give the newest run of a conversation."""
        found = await self.store.runs(session_id=conversation_id, user=user, limit=1)
        return found[0] if found else None

    async def conversation(self, conversation_id: str, user: str) -> Conversation:
        """Give a conversation that can go on."""
        conversation = await self._driver.conversation(conversation_id, user)
        if conversation.run_id is not None:
            raise Problem(
                409,
                "conversation-busy",
                f"the conversation has a run that is not over ({conversation.run_id}): wait for its "
                "end, decide what it waits for, or stop it",
            )
        return conversation

    # What is done

    async def start(self, prompt: str, conversation: Conversation) -> str:
        """Begin a run, and give its id when it is in the store; it goes on by itself."""
        run = self._driver.begin(prompt, conversation)
        begun = asyncio.get_running_loop().create_future()
        self._drive(run, begun)
        await begun
        return run.run_id

    async def decide(self, run_id: str, decisions: Decisions) -> None:
        """Decide on calls, and see to it that the run goes on.

        Each decision must say which request it is about, by its digest.
        """
        info = await self.store.info(run_id)
        for call_id, decision in decisions.items():
            _require_pending(info, call_id)
        await self._driver.check(run_id, decisions)
        await self.store.decide(run_id, decisions)
        await self._go_on(run_id)

    async def stop(self, run_id: str, reason: str = "") -> None:
        """End a run, in whatever process it is driven."""
        await self._driver.stop(run_id, reason)

    # Driving

    def _drive(self, run: DrivenRun, begun: "asyncio.Future[None] | None" = None) -> None:
        task = asyncio.create_task(self._driven(run, begun))
        self._tasks[run.run_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(run.run_id, None))
