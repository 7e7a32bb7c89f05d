"""What an agent is measured on: a turn of a model as Anthropic's bytes, and ways to follow it."""

import asyncio
import gc
import json
import random
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from time import process_time
from typing import Protocol

from argstream import Event, RunCompleted, TextDelta, ToolArgsCompleted, ToolCallCompleted, stream
from argstream.agent import Agent, tool
from argstream.clients import ModelRequest
from argstream.log import Store
from argstream.streaming import make_judge
from big_streams import anthropic_bytes, anthropic_payloads, anthropic_text_payloads
from tables import size_name
from workloads import chunks, code, one_string

STREAM, AGENT = "async for, stream()", "async for, run_stream()"
SYNC_STREAM, SYNC_AGENT = "for, stream()", "for, run(stream=True)"

_PROMPT = "go"


@tool
def write_file(path: str, content: str) -> str:
    """Write a file, of which only the length is of interest here."""
    return f"{path}: {len(content)} characters"


@dataclass(frozen=True)
class Turn:
    """What a model writes: a call or a text, one network chunk for each event."""

    name: str
    written: str
    """The arguments, or the text."""
    deltas: int
    """Into how many pieces it was cut."""
    chunks: list[bytes]
    is_call: bool

    @classmethod
    def of_call(cls, size: int) -> "Turn":
        """Write a call with one long string."""
        arguments = one_string(size)
        pieces = chunks(arguments)
        sent = list(anthropic_bytes(anthropic_payloads(pieces, write_file.name)))
        return cls(f"a call, {size_name(size)}", arguments, len(pieces), sent, is_call=True)

    @classmethod
    def of_text(cls, size: int) -> "Turn":
        """Write a text, with which a run ends."""
        text = code(random.Random(2), size)
        pieces = chunks(text)
        sent = list(anthropic_bytes(anthropic_text_payloads(pieces)))
        return cls(f"a text, {size_name(size)}", text, len(pieces), sent, is_call=False)

    def is_in(self, events: list[Event]) -> bool:
        """Say whether these tell what was written."""
        if self.is_call:
            found = [event.arguments for event in events if isinstance(event, ToolArgsCompleted)]
            return found == [json.loads(self.written)]
        texts = [event.text for event in events if isinstance(event, TextDelta)]
        return "".join(texts) == self.written

    def is_done_in(self, events: list[Event]) -> bool:
        """Say whether these are of a run that came to its end, with the tool having run."""
        runs = sum(isinstance(event, ToolCallCompleted) for event in events)
        return isinstance(events[-1], RunCompleted) and runs == self.is_call


class Way(Protocol):
    """A way from the bytes of a turn to its events."""

    def events(self) -> list[Event]:
        """Give all of them."""
        ...

    def seconds(self, times: int) -> float:
        """Say how much CPU time it takes to follow them, again and again."""
        ...


class WithLoop:
    """Events that are followed with ``async for``."""

    def __init__(self, open_: Callable[[], AsyncIterable[Event]]) -> None:
        self._open = open_

    def events(self) -> list[Event]:
        """Give all of them."""

        async def gathered() -> list[Event]:
            return [event async for event in self._open()]

        return asyncio.run(gathered())

    def seconds(self, times: int) -> float:
        """Measure one after the other, in one event loop."""

        async def measured() -> float:
            gc.collect()  # nobody pays for what another has left behind
            began = process_time()
            for _ in range(times):
                await self._follow()
            return process_time() - began

        return asyncio.run(measured())

    def seconds_at_once(self, times: int) -> float:
        """Measure all at the same time, in one event loop."""

        async def measured() -> float:
            gc.collect()
            began = process_time()
            await asyncio.gather(*(self._follow() for _ in range(times)))
            return process_time() - began

        return asyncio.run(measured())

    async def _follow(self) -> None:
        async for _ in self._open():
            pass


class WithoutLoop:
    """Events that are followed with ``for``."""

    def __init__(self, open_: Callable[[], Iterable[Event]]) -> None:
        self._open = open_

    def events(self) -> list[Event]:
        """Give all of them."""
        return list(self._open())

    def seconds(self, times: int) -> float:
        """Measure one after the other; an agent has an event loop of its own for each."""
        gc.collect()
        began = process_time()
        for _ in range(times):
            for _ in self._open():
                pass
        return process_time() - began


def ways(turn: Turn) -> dict[str, Way]:
    """Give all ways to follow a turn. Schemas are compiled here."""
    judge = make_judge([write_file.spec])
    agent = agent_for(turn)
    return {
        STREAM: WithLoop(lambda: stream(_arriving(turn.chunks), judge=judge)),
        AGENT: runs_of(agent),
        SYNC_STREAM: WithoutLoop(lambda: stream(turn.chunks, judge=judge)),
        SYNC_AGENT: WithoutLoop(lambda: agent.run(_PROMPT, stream=True)),
    }


def agent_for(turn: Turn, *, store: Store | None = None, pause: float = 0.0) -> Agent:
    """Make an agent whose model takes this turn, with a pause before each of its chunks."""
    last = list(anthropic_bytes(anthropic_text_payloads(["Done."])))

    def answer(request: ModelRequest) -> AsyncIterator[bytes]:
        chunks = turn.chunks if len(request.messages) == 1 else last
        return _arriving_slowly(chunks, pause) if pause else _arriving(chunks)

    return Agent(answer, [write_file], store=store)


def runs_of(agent: Agent) -> WithLoop:
    """Give the way to follow runs of an agent that needs no more than a prompt."""
    return WithLoop(lambda: agent.run_stream(_PROMPT))


async def _arriving(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def _arriving_slowly(chunks: list[bytes], pause: float) -> AsyncIterator[bytes]:
    for chunk in chunks:
        await asyncio.sleep(pause)
        yield chunk
