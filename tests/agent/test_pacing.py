"""Many runs in one event loop: what merely grows is written seldom, what matters at once."""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack

from argstream.agent import Agent
from argstream.agent._inbox import Inbox
from argstream.agent._pacing import pace_here
from argstream.clients import CallTool, Reply, Say, ScriptedModel
from argstream.events import Event, TextDelta, ToolCallCompleted
from argstream.log import Claim, Record, is_durable
from argstream.stores import MemoryStore

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


async def _appends(others: int) -> Counting:
    """Run something while so many others go on; say what was written."""
    store = Counting()
    reply = Reply(Say(WORDS), CallTool("add", {"a": 1, "b": 2}), piece_size=10)
    agent = Agent(ScriptedModel(reply, "It is 3.", delay=0.002), [add], store=store)
    with ExitStack() as running:
        for _ in range(others):
            running.enter_context(pace_here().running())
        run = agent.run_stream("Go")
        events = [event async for event in run]
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


def test_what_can_wait_comes_with_what_cannot_in_its_order() -> None:
    async def course() -> None:
        inbox: Inbox[int] = Inbox()
        inbox.take()
        inbox.post_soon(1, 60.0)
        await asyncio.sleep(0)
        waiting = asyncio.create_task(inbox.wait())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        inbox.post(2)
        await waiting
        assert list(inbox.take()) == [1, 2]

    asyncio.run(course())


def test_where_work_takes_long_more_is_collected() -> None:
    async def course() -> None:
        inbox: Inbox[int] = Inbox()
        loop = asyncio.get_running_loop()
        inbox.take()
        began = loop.time()
        await asyncio.sleep(0.05)
        inbox.worked_off()
        inbox.post_soon(1, 0.001)
        await inbox.wait()
        assert loop.time() - began >= 0.1

    asyncio.run(course())
