"""Helpers for tests that follow the run of an agent."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import pytest
from msgspec.structs import replace

from argstream import events as ev
from argstream.agent import Agent, Approval, Approve, Conversation, Run, RunResult, tool
from argstream.events import Event, TextDelta, ThinkingDelta, ToolArgsDelta, ToolOutputDelta
from argstream.models import CallTool, HttpModel, ScriptedModel, make_model
from argstream.runs import Lease, MemoryStore, Record, Store
from argstream.testing import MockProvider

# Events that never change the state of a run or a call.
PASSING: Final = frozenset(
    {
        *(TextDelta, ThinkingDelta, ev.ThinkingStarted, ev.ThinkingCompleted, ToolArgsDelta),
        *(ev.ArgumentStarted, ev.ArgumentDelta, ev.ArgumentCompleted),
    }
)

Wanted = TypeVar("Wanted")
Answer = TypeVar("Answer")


def complete(work: Callable[[], Awaitable[Answer]]) -> Answer:
    """Run a coroutine function in a new event loop, for at most 30 seconds."""

    async def limited() -> Answer:
        return await asyncio.wait_for(work(), 30)

    return asyncio.run(limited())


async def collect(
    run: Run,
    at: type[Wanted] | None = None,
    act: Callable[[Wanted], Awaitable[None] | object] = lambda _: None,
) -> list[Event]:
    """Return all events of a run. Call ``act`` with each event of the type ``at``."""
    events: list[Event] = []
    async for event in run:
        events.append(event)
        if at is not None and isinstance(event, at):
            acting = act(event)
            if isinstance(acting, Awaitable):
                await acting
    return events


def follow(run: Run) -> list[Event]:
    return complete(lambda: collect(run))


def events_of(
    agent: Agent, prompt: str = "Go", conversation: Conversation | None = None
) -> list[Event]:
    return follow(agent.run_stream(prompt, conversation))


def stopped_at(run: Run, kind: type[Event]) -> list[Event]:
    return complete(lambda: collect(run, kind, lambda _: run.stop("enough")))


def served(name: str, provider: MockProvider, **options: Any) -> HttpModel:
    is_anthropic = name.startswith("anthropic:")
    url = provider.anthropic_url if is_anthropic else provider.openai_url
    return make_model(name, base_url=url, **{"api_key": "any", **options})


def steps(events: Iterable[Event]) -> list[str]:
    """Return the types of the events, without those in PASSING."""
    return [event.type for event in events if type(event) not in PASSING]


def merged(events: Iterable[Event]) -> list[Event]:
    """Join adjacent deltas and drop argument events, as a log may do."""
    found: list[Event] = []
    for event in (event for event in events if not event.is_computed):
        if isinstance(event, TextDelta | ThinkingDelta | ToolArgsDelta | ToolOutputDelta) and found:
            field, last = "delta" if isinstance(event, ToolArgsDelta) else "text", found[-1]
            is_same = type(last) is type(event)
            if is_same and replace(last, **{field: ""}) == replace(event, **{field: ""}):
                found[-1] = replace(last, **{field: getattr(last, field) + getattr(event, field)})
                continue
        found.append(event)
    return found


def only(events: Iterable[object], wanted: type[Wanted]) -> list[Wanted]:
    return [event for event in events if isinstance(event, wanted)]


def one(events: Iterable[object], wanted: type[Wanted]) -> Wanted:
    (found,) = only(events, wanted)
    return found


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Effects:
    """Tools that record their calls in ``seen``."""

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


def mailing(
    *replies: Any, more: Iterable[object] = (), delay: float = 0.0, **options: Any
) -> tuple[Agent, Effects]:
    """Return an agent whose tool ``send`` needs approval; ``write`` and ``more`` do not."""
    effects = Effects()
    tools = [tool(requires_confirmation=True)(effects.send), effects.write, *more]
    return Agent(ScriptedModel(*replies, delay=delay), tools, **options), effects


def resumed(
    agent: Agent, paused: RunResult | ev.RunPaused | Run, decision: Approval | None = None
) -> Run:
    """Resume a paused run with a decision on its first pending call: by default, approve it."""
    return agent.resume(paused, {paused.pending[0].call_id: decision or Approve()})


def send(to: str = "ada") -> CallTool:
    return CallTool("send", {"to": to})


async def logged(store: Store, run: Run) -> list[Event]:
    return [record.event for record in await store.read(run.run_id)]


class Slow:
    """A tool that runs until ``may_end`` is set, or until it is cancelled."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()
        self.times = self.cancelled = 0

    async def wait(self) -> str:
        """Wait."""
        self.times += 1
        self.started.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return "waited"


async def driven(run: Run, slow: Slow) -> "asyncio.Task[list[Event]]":
    driving = asyncio.create_task(collect(run))
    await slow.started.wait()
    return driving


async def crash(run: Run, slow: Slow) -> str:
    """Follow a run until its slow tool runs, then cancel the driver. Return the run ID."""
    await cancel(await driven(run, slow))
    return run.run_id


async def cancel(driving: "asyncio.Task[list[Event]]") -> None:
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving


class ApprovesPauses(MemoryStore):
    """A store in which each call is approved while the pause is being written."""

    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        await super().append(lease, records)
        for record in records:
            if isinstance(record.event, ev.RunPaused):
                (request,) = record.event.pending
                await self.decide(lease.run_id, {request.call_id: Approve()})
