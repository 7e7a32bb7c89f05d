"""Helpers for tests of observed runs: a scripted Claude Code, and the order of events."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing
from typing import Any

from claude_agent_sdk import Transport

from argstream import events as ev
from argstream.events import Event
from argstream.runs import Store
from tests.agent.ordering import CallOrder, RunOrder
from tests.provider_streams import Payload


class FakeClaude(Transport):
    """Plays a script to the SDK as if Claude Code wrote it.

    A script yields lines, asks for permission, and can wait until it is interrupted.
    """

    def __init__(self, script: "Script") -> None:
        self.was_interrupted = asyncio.Event()
        self.is_closed = asyncio.Event()
        self.given = 0  # lines that were read
        self._script = script
        self._lines: asyncio.Queue[Payload | None] = asyncio.Queue(maxsize=1)
        self._answers: dict[str, asyncio.Future[Payload]] = {}
        self._is_asked = asyncio.Event()

    async def ask(
        self, arguments: Payload, call_id: str | None = "toolu_1", **fields: Any
    ) -> Payload:
        request_id = f"ask_{len(self._answers)}"
        answer: asyncio.Future[Payload] = asyncio.get_running_loop().create_future()
        self._answers[request_id] = answer
        request: Payload = {"subtype": "can_use_tool", "tool_name": "write", "input": arguments}
        request |= {"tool_use_id": call_id, **fields}
        await self._control("control_request", request_id=request_id, request=request)
        return await answer

    async def withdraw(self) -> None:
        await self._control("control_cancel_request", request_id=list(self._answers)[-1])

    async def _control(self, type_: str, **fields: Any) -> None:
        await self._lines.put({"type": type_, **fields})

    # The interface of the SDK

    async def connect(self) -> None: ...

    async def write(self, data: str) -> None:
        match json.loads(data):
            case {"type": "control_request", "request_id": request_id, "request": request}:
                if request["subtype"] == "interrupt":
                    self.was_interrupted.set()
                answer = {"subtype": "success", "request_id": request_id, "response": {}}
                await self._control("control_response", response=answer)
            case {"type": "control_response", "response": response}:
                self._answers[response["request_id"]].set_result(response["response"])
            case _:
                self._is_asked.set()

    async def read_messages(self) -> AsyncIterator[Payload]:
        playing = asyncio.create_task(self._play())
        try:
            while (line := await self._lines.get()) is not None:
                yield line
        finally:
            playing.cancel()

    async def _play(self) -> None:
        await self._is_asked.wait()
        async with aclosing(self._script(self)) as lines:
            async for line in lines:
                self.given += 1
                await self._lines.put(line)
        await self._lines.put(None)

    async def close(self) -> None:
        self.is_closed.set()

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None: ...


Script = Callable[[FakeClaude], AsyncGenerator[Payload, None]]


def playing(lines: Iterable[Payload]) -> FakeClaude:

    async def script(_: FakeClaude) -> AsyncGenerator[Payload, None]:
        for line in lines:
            yield line

    return FakeClaude(script)


def stuck_after(lines: Iterable[Payload], *ending: Payload) -> FakeClaude:

    async def script(claude: FakeClaude) -> AsyncGenerator[Payload, None]:
        for line in lines:
            yield line
        await claude.was_interrupted.wait()
        for line in ending:
            yield line

    return FakeClaude(script)


class _ObservedCall(CallOrder):
    """A call that the observed agent runs. There is no event for its start."""

    def take(self, event: Event) -> None:
        assert not isinstance(event, ev.ToolExecutionStarted | ev.ToolOutputDelta)
        if isinstance(event, ev.ToolCallCompleted):
            assert self.verdict
            assert not self.outcome
            assert self.decision in ("approved", "edited") or not self.is_asked
            self.outcome = "completed"
        else:
            super().take(event)


class _ObservedOrder(RunOrder):
    """The order in an observed run. The calls of sub-agents count like any other."""

    def take(self, event: Event) -> None:
        assert not isinstance(event, ev.TurnStarted), "an observer asks for no turns"
        if isinstance(event, ev.ApprovalDecided | ev.RunEnd):
            assert not self._is_paused, "the run is resumed before a decision and before its end"
        super().take(event)
        if isinstance(event, ev.ToolCallStarted) and event.parent_id is not None:
            self._open(event)

    def _pause(self, pending: list[str]) -> None:
        assert pending, "a paused run has pending calls"
        assert pending == self.pending, "it names all pending calls, in order"
        self._is_paused = True  # also if it already was: another call waits, too

    def _open(self, event: ev.ToolCallStarted) -> None:
        assert event.call_id not in self.calls
        call = self.calls[event.call_id] = _ObservedCall(event.name, is_ours=True, is_early=False)
        if event.parent_id is None:
            self._turn.append(call)


def check_observed(events: Iterable[Event]) -> None:
    order = _ObservedOrder()
    for event in events:
        order.take(event)
    order.finish()


async def logged(store: Store, run_id: str) -> list[Event]:
    """Return the events of a log, and check that its records have no gaps."""
    records = await store.read(run_id)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    return [record.event for record in records]
