"""Who makes runs go on: an ``Agent`` of ours, or another agent that is observed.

The server knows runs by their store. A driver begins them, goes on with those that have paused or
were cut off, and ends them. Whoever follows what it gives drives the run; to cancel who follows is
to leave the run to other processes, as far as these can go on with it.

A run of an agent pauses when a person must decide (``RunPaused``), and ``resume`` goes on with it.
An observed run does not pause: its status stays ``running`` while ``RunInfo.pending`` has the calls
that it waits for, whoever decides them in the store is heard, and ``resume`` gives None.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final, Protocol

from argstream.agent import Agent, Conversation
from argstream.agent.approvals import Grant
from argstream.decisions import Decisions
from argstream.errors import UsageError
from argstream.events import Event
from argstream.log import RunInfo, Store

__all__ = ["AgentDriver", "DrivenRun", "Driver"]

_REMEMBERED: Final = 10_000
"""Of how many conversations it is remembered what need not be asked about any more."""


class DrivenRun(Protocol):
    """A run that goes on while somebody asks it for its events."""

    @property
    def run_id(self) -> str:
        """What it is called, in events and in the store."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def aclose(self) -> None:
        """End it, if it has not ended or paused."""


class Driver(Protocol):
    """Begins runs, and goes on with them."""

    @property
    def name(self) -> str:
        """What its runs have as ``RunInfo.agent``; those of others it cannot go on with."""

    @property
    def store(self) -> Store:
        """Where its runs are."""

    def begin(self, prompt: str, conversation: Conversation) -> DrivenRun:
        """Give a run that begins when it is first asked for an event."""

    def resume(self, info: RunInfo) -> DrivenRun | None:
        """Go on with a run that has paused or was cut off, with what the store has of decisions.

        None if nobody can go on with such runs: if one was cut off, ``stop`` writes its end.
        """

    async def conversation(self, id: str, user: str) -> Conversation:  # noqa: A002 - what it is
        """Give a conversation as the store has it, or a fresh one.

        Its ``run_id`` is that of its newest run, if that is not over.
        """

    async def check(self, run_id: str, decisions: Decisions) -> None:
        """Raise ``UsageError`` if a decision could not be used; nothing changes."""

    async def stop(self, run_id: str, reason: str) -> None:
        """End a run: whoever drives it is told, and if nobody does, its end is written here."""

    async def aclose(self) -> None:
        """Close what it keeps open."""


class AgentDriver:
    """Drives the runs of an ``Agent`` that has a store."""

    def __init__(self, agent: Agent) -> None:
        if agent.store is None:
            raise UsageError(
                "the server finds its runs in a store: give the agent one, such as "
                'Agent(…, store="runs.db")'
            )
        self._agent = agent
        self._store = agent.store
        # What need not be asked about any more is not in the store: rules of the same name may be
        # others in another process.
        self._grants: OrderedDict[tuple[str, str], set[Grant]] = OrderedDict()

    @property
    def name(self) -> str:
        """The name of the agent."""
        return self._agent.name

    @property
    def store(self) -> Store:
        """The store of the agent."""
        return self._store

    def begin(self, prompt: str, conversation: Conversation) -> DrivenRun:
        """Give a run of the agent."""
        conversation.grants = self._grants_in(conversation)
        return self._agent.run_stream(prompt, conversation)

    def _grants_in(self, conversation: Conversation) -> set[Grant]:
        """Give what need not be asked about in a conversation; all of its runs share it."""
        name = (conversation.user, conversation.id)
        grants = self._grants.setdefault(name, conversation.grants)
        self._grants.move_to_end(name)
        if len(self._grants) > _REMEMBERED:
            self._grants.popitem(last=False)
        return grants

    def resume(self, info: RunInfo) -> DrivenRun | None:
        """Go on with a run, if no other process still drives it."""
        conversation = Conversation(id=info.session_id, user=info.user)
        conversation.grants = self._grants_in(conversation)
        return self._agent.resume(info.run_id, conversation=conversation)

    async def conversation(self, id: str, user: str) -> Conversation:  # noqa: A002 - what it is
        """Give a conversation, with what was said before.

        What need not be asked about any more in it is remembered in this process.
        """
        conversation = await self._agent.conversation(id, user=user)
        if conversation.is_fresh:  # whatever was there under this name is forgotten
            self._grants.pop((user, id), None)
        return conversation

    async def check(self, run_id: str, decisions: Decisions) -> None:
        """Have the agent look at decisions: its tools know which arguments they take."""
        await self._agent.check(run_id, decisions)

    async def stop(self, run_id: str, reason: str) -> None:
        """End a run."""
        await self._agent.stop_async(run_id, reason)

    async def aclose(self) -> None:
        """Close what the agent keeps open; its store, if that is its own."""
        await self._agent.aclose()
