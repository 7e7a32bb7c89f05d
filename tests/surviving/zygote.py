"""Processes that play their part in a run, made quickly: by a process that has imported everything.

It is started as ``python -m tests.surviving.zygote``. For each line that it is given, a ``Part``, it
forks a process that plays it, and says its id, and then how it ended.
"""

import asyncio
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct

from argstream.agent import Agent, AgentRun
from argstream.decisions import Approval
from argstream.errors import RunTaken, UsageError
from argstream.events import ToolExecutionStarted
from argstream.log import Store
from argstream.stores import RedisStore, SqliteStore
from tests.surviving.outside import Ending, Outside
from tests.surviving.points import Points, watch_redis, watch_sqlite
from tests.surviving.stories import PROMPT, STORIES, model, tools

CLAIM_SECONDS = 0.4
PATIENCE = 20.0


class Place(Struct, frozen=True):
    """Where a run is kept: in a file, or on a server under a prefix."""

    where: str
    prefix: str = ""

    def open(self) -> Store:
        if self.prefix:
            return RedisStore(self.where, prefix=self.prefix)
        return SqliteStore(self.where)


class Part(Struct, frozen=True, kw_only=True):
    """What a process has to do."""

    directory: str
    """Where to leave what is told outside."""
    number: int
    """Which process this is of those that drive the run."""
    place: Place
    story: str
    run_id: str = ""
    """The run to resume; a new one begins if there is none."""
    decisions: dict[str, Approval] = {}
    at: int | None = None
    """The point at which to send itself a signal."""
    signal: int = signal.SIGKILL


async def play(part: Part) -> None:
    """Drive a run for as long as it goes on."""
    outside = Outside(Path(part.directory), part.number)
    points = Points(part.at, signal.Signals(part.signal), outside.reach)
    watch_sqlite(points)
    watch_redis(points)
    store = part.place.open()
    agent = Agent(
        model(STORIES[part.story], outside),
        tools(outside, points),
        store=store,
        claim_seconds=CLAIM_SECONDS,
    )
    run = await _follow(part, agent, store, outside)
    outcome, messages = run.result.outcome, run.result.messages
    await store.aclose()
    outside.end(Ending(outcome, points.passed, messages))


async def _follow(part: Part, agent: Agent, store: Store, outside: Outside) -> AgentRun:
    if part.run_id:
        run = agent.resume(part.run_id, part.decisions, wait=PATIENCE)
    else:
        run = agent.run_stream(PROMPT)
        outside.begin(run.run_id)
    async for event in run:
        outside.tell(event)
        is_first = part.number == 1
        if is_first and part.story == "stopped" and isinstance(event, ToolExecutionStarted):
            await store.stop(run.run_id, "enough")
            outside.stop()
    return run
