"""What the tests of the agent share: runs, followed to their end."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from argstream.agent import Agent, AgentRun, Conversation, tool
from argstream.agent._listening import PASSING
from argstream.clients import CallTool, HttpModel, ScriptedModel, make_model
from argstream.events import Event
from argstream.testing import MockProvider

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


def mailing(*replies: Any, **options: Any) -> tuple[Agent, Effects]:
    """An agent whose tool ``send`` must be confirmed; ``write`` need not be."""
    effects = Effects()
    tools = [tool(requires_confirmation=True)(effects.send), effects.write]
    return Agent(ScriptedModel(*replies), tools, **options), effects


def send(to: str = "ada") -> CallTool:
    return CallTool("send", {"to": to})
