"""Many runs in one event loop: what merely grows is written seldom, what matters at once."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from argstream.agent import Agent, AgentRun
from argstream.events import Event, TextDelta, ToolCallCompleted
from argstream.models import CallTool, ModelRequest, Reply, Say, ScriptedModel
from argstream.runs import Claim, MemoryStore, Record, is_durable

WORDS = "".join(f"word {number}, " for number in range(100))


class Counting(MemoryStore):
    """Counts what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[list[Event]] = []

    async def append(self, claim: Claim, records: Sequence[Record]) -> None:
        self.appends.append([record.event for record in records])
        await super().append(claim, records)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def _stuck(_: ModelRequest) -> AsyncIterator[object]:
    await asyncio.Event().wait()
    yield {}


async def _followed(run: AgentRun) -> list[Event]:
    return [event async for event in run]


async def _appends(others: int) -> Counting:
    """Run something while so many others go on; say what was written."""
    store = Counting()
    reply = Reply(Say(WORDS), CallTool("add", {"a": 1, "b": 2}), piece_size=10)
    agent = Agent(ScriptedModel(reply, "It is 3.", delay=0.002), [add], store=store)
    idle = [asyncio.create_task(_followed(Agent(_stuck).run_stream("Wait"))) for _ in range(others)]
    await asyncio.sleep(0)  # they have begun
    run = agent.run_stream("Go")
    events = await _followed(run)
    for task in idle:
        task.cancel()
    await asyncio.gather(*idle, return_exceptions=True)
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(texts) == WORDS + "It is 3."
    assert any(isinstance(event, ToolCallCompleted) for event in events)
    written = [record.event for record in await store.read(run.run_id)]
    assert [event for event in written if is_durable(event)] == [
        event for event in events if is_durable(event) and not event.type.startswith("argument_")
    ]
    return store


def _of_text(store: Counting) -> int:
    return sum(any(isinstance(event, TextDelta) for event in append) for append in store.appends)


def test_one_run_writes_each_piece_as_it_comes() -> None:
    assert _of_text(asyncio.run(_appends(others=0))) > 60


def test_among_many_pieces_are_collected() -> None:
    assert _of_text(asyncio.run(_appends(others=300))) < 30
