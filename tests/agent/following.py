"""What the tests of the agent share: runs, followed to their end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import pytest
from msgspec.structs import replace

from argstream.agent import Agent, AgentRun, Approve, Conversation, tool
from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentStarted,
    Event,
    RunPaused,
    TextDelta,
    ThinkingCompleted,
    ThinkingDelta,
    ThinkingStarted,
    ToolArgsDelta,
    ToolOutputDelta,
)
from argstream.models import CallTool, HttpModel, ScriptedModel, make_model
from argstream.runs import Claim, MemoryStore, Record, Store, is_stored
from argstream.testing import MockProvider

PASSING: Final = frozenset(
    {
        *(TextDelta, ThinkingStarted, ThinkingDelta, ThinkingCompleted, ToolArgsDelta),
        *(ArgumentStarted, ArgumentDelta, ArgumentCompleted),
    }
)
"""Events that only make something grow."""

Wanted = TypeVar("Wanted")
Answer = TypeVar("Answer")


def complete(work: Callable[[], Awaitable[Answer]]) -> Answer:
    """Run something async, in at most the time that a test may take."""

    async def limited() -> Answer:
        return await asyncio.wait_for(work(), 30)

    return asyncio.run(limited())


def follow(run: AgentRun) -> list[Event]:
    """Give all events of a run."""

    async def collect() -> list[Event]:
        return [event async for event in run]

    return complete(collect)


def events_of(
    agent: Agent, prompt: str = "Go", conversation: Conversation | None = None
) -> list[Event]:
    return follow(agent.run_stream(prompt, conversation))


def stopped_at(run: AgentRun, kind: type[Event]) -> list[Event]:
    """Follow a run and stop it at the first event of this kind."""

    async def stopping() -> list[Event]:
        events: list[Event] = []
        async for event in run:
            if isinstance(event, kind) and not only(events, kind):
                run.stop("enough")
            events.append(event)
        return events

    return complete(stopping)


def served(name: str, provider: MockProvider, **options: Any) -> HttpModel:
    """A model of this name, over HTTP, at a provider of our own."""
    is_anthropic = name.startswith("anthropic:")
    url = provider.anthropic_url if is_anthropic else provider.openai_url
    return make_model(name, base_url=url, **{"api_key": "any", **options})


def steps(events: Iterable[Event]) -> list[str]:
    """The types of the events, without those that only grow something."""
    return [event.type for event in events if type(event) not in PASSING]


def merged(events: Iterable[Event]) -> list[Event]:
    """Join neighbouring deltas of one text, and leave out argument events, as a log may do."""
    found: list[Event] = []
    for event in filter(is_stored, events):
        if isinstance(event, TextDelta | ThinkingDelta | ToolArgsDelta | ToolOutputDelta) and found:
            field = "delta" if isinstance(event, ToolArgsDelta) else "text"
            last = found[-1]
            if type(last) is type(event) and replace(last, **{field: ""}) == replace(
                event, **{field: ""}
            ):
                found[-1] = replace(last, **{field: getattr(last, field) + getattr(event, field)})
                continue
        found.append(event)
    return found


def only(events: Iterable[Event], wanted: type[Wanted]) -> list[Wanted]:
    return [event for event in events if isinstance(event, wanted)]


def one(events: Iterable[Event], wanted: type[Wanted]) -> Wanted:
    (found,) = only(events, wanted)
    return found


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Effects:
    """Tools that can be seen to have been run."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []

    def write(self, path: str, content: str = "") -> str:
        """Write a file."""
        self.seen.append(("write", {"path": path, "content": content}))
        return f"wrote {path}"

    async def send(self, to: str) -> str:
        """Send a mail."""
        self.seen.append(("send", {"to": to}))
        return f"sent to {to}"


def mailing(*replies: Any, more: Iterable[object] = (), **options: Any) -> tuple[Agent, Effects]:
    """An agent whose tool ``send`` must be confirmed; ``write`` need not be, nor ``more``."""
    effects = Effects()
    tools = [tool(requires_confirmation=True)(effects.send), effects.write, *more]
    return Agent(ScriptedModel(*replies), tools, **options), effects


def send(to: str = "ada") -> CallTool:
    return CallTool("send", {"to": to})


# Runs with a log


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
