"""What one process does: it drives a run until that is over or has paused, or it is killed."""

import signal
from pathlib import Path

from msgspec import Struct

from argstream import Approve
from argstream.agent import Agent, AgentRun, Approval, Conversation
from argstream.errors import RunTaken, UsageError
from argstream.events import ApprovalRequested, Event, ToolExecutionStarted
from argstream.runs import RedisStore, SqliteStore, Store
from tests.surviving.outside import Ending, Outside
from tests.surviving.points import Points, watch_redis, watch_sqlite
from tests.surviving.stories import PROMPT, STORIES, USER, model, tools

CLAIM_SECONDS = 0.4


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
    """Where to leave what is to be seen outside."""
    number: int
    """Which process this is, of those that drive the run."""
    place: Place
    story: str
    run_id: str = ""
    """The run to resume; without one, another run begins."""
    decisions: dict[str, Approval] = {}
    wait: float = 0.0
    """For how many seconds to wait for the claim of another process to end."""
    at: int | None = None
    """The point at which the process sends itself a signal."""
    signal: int = signal.SIGKILL
    lives: float | None = None
    """After how many seconds it is killed from outside."""


async def play(part: Part) -> None:
    """Play a part, and leave outside how it ended."""
    outside = Outside(Path(part.directory), part.number)
    points = Points(part.at, part.signal, outside.reach)
    watch_sqlite(points)
    watch_redis(points)
    store = part.place.open()
    agent = Agent(
        model(STORIES[part.story], outside),
        tools(outside, points),
        store=store,
        claim_seconds=CLAIM_SECONDS,
    )
    if part.run_id:
        run = agent.resume(part.run_id, part.decisions, wait=part.wait)
    else:
        run = agent.run_stream(PROMPT, Conversation(user=USER))
        outside.begin(run.run_id)
    outcome = await _followed(run, part, store, outside)
    await store.aclose()
    outside.end(Ending(outcome, points.passed, run.result.messages, run.conversation.user))


async def _followed(run: AgentRun, part: Part, store: Store, outside: Outside) -> str:
    try:
        async for event in run:
            outside.tell(event)
            await _react(event, run.run_id, part, store, outside)
    except (RunTaken, UsageError) as error:
        return type(error).__name__
    return run.result.outcome


async def _react(event: Event, run_id: str, part: Part, store: Store, outside: Outside) -> None:
    """Do what somebody who follows the run would do."""
    match part.story, event:
        case "stopped", ToolExecutionStarted() if part.number == 1 and not outside.was_stopped:
            await store.stop(run_id, "enough")
            outside.stop()
        case "decided", ApprovalRequested(call_id=call_id):
            await store.decide(run_id, {call_id: Approve()})
            outside.decide(call_id)
        case _:
            pass
