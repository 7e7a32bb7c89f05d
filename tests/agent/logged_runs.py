"""Stories of runs with a log, each played with a store that is open meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from argstream.agent import Agent, AgentRun, Approve
from argstream.events import (
    Event,
    RunPaused,
)
from argstream.log import Claim, Record, Store
from argstream.stores import MemoryStore

Story = Callable[[Store], Awaitable[None]]
Play = Callable[[Story], None]


async def logged(store: Store, run: AgentRun) -> list[Event]:
    return [record.event for record in await store.read(run.run_id)]


async def told(run: AgentRun) -> list[Event]:
    return [event async for event in run]


class Slow:
    """A tool that runs until it is let go, or ended."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()
        self.times = 0

    async def wait(self) -> str:
        """Wait for somebody."""
        self.times += 1
        self.started.set()
        await self.may_end.wait()
        return "waited"


@asynccontextmanager
async def cut_off(run: AgentRun, slow: Slow) -> AsyncIterator[str]:
    """Follow a run until its tool runs, and then have whoever drives it go away at once."""
    following = asyncio.create_task(told(run))
    await slow.started.wait()
    await drop(following)
    yield run.run_id


async def drop(following: "asyncio.Task[list[Event]]") -> None:
    """Cancel a task that follows a run, as a program does that shuts down."""
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following


def tools_of(agent: Agent) -> list[Any]:
    return list(agent._setting.tools._tools.values())


async def begun(store: Store, run: AgentRun) -> None:
    while run.run_id not in [info.run_id for info in await store.runs()]:
        await asyncio.sleep(0.005)


class Hasty(MemoryStore):
    """A store in which somebody decides at the very moment at which a run pauses."""

    async def append(self, claim: Claim, records: Sequence[Record]) -> None:
        await super().append(claim, records)
        for record in records:
            if isinstance(record.event, RunPaused):
                (call_id,) = (request.call_id for request in record.event.pending)
                await self.decide(claim.run_id, {call_id: Approve()})
