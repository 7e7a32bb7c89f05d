"""A run of an agent, to be followed with ``async for`` or ``for``, or to be waited for."""

import inspect
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel

from argstream.agent._effects import Step
from argstream.agent._machine import Machine
from argstream.agent._setting import Setting
from argstream.agent.approvals import Approval
from argstream.agent.conversation import Conversation
from argstream.agent.result import RunResult
from argstream.agent.runner import NOBODY, Runner
from argstream.errors import RunFailure, UsageError
from argstream.events import ApprovalRequested, Event, RunFailed, RunPaused

__all__ = ["AgentRun"]

Answer = TypeVar("Answer")


class AgentRun:
    """One run: its events as they happen, and what came of it.

    It begins when it is first asked for an event, and ends with ``RunCompleted``, ``RunFailed`` or
    ``RunStopped``, or pauses with ``RunPaused``. To leave it before that stops it: use ``with`` or
    ``async with``, or close it.
    """

    def __init__(
        self,
        machine: Machine,
        setting: Setting,
        conversation: Conversation,
        begin: Callable[[], Step],
        on_rest: Callable[["AgentRun"], None],
    ) -> None:
        self.conversation = conversation
        self._machine = machine
        self._setting = setting
        self._begin = begin
        self._on_event = setting.on_event
        self._on_rest = on_rest
        self._runner = Runner(machine, setting, self._rest)
        self._failure: RunFailed | None = None
        self._events: AsyncGenerator[Event, None] | None = None
        self._has_begun = False
        self._has_told_pause = False
        self._home: tuple[int, anyio.lowlevel.EventLoopToken] | None = None

    @property
    def run_id(self) -> str:
        """What the run is called, in events and for ``Agent.resume``."""
        return self._machine.state.run_id

    @property
    def machine(self) -> Machine:
        """What decides; for the agent only."""
        return self._machine

    @property
    def pending(self) -> tuple[ApprovalRequested, ...]:
        """What somebody must decide on, now."""
        return self._machine.pending

    @property
    def result(self) -> RunResult:
        """What has come of it so far; all of it when the events are over."""
        state = self._machine.state
        return RunResult(
            run_id=state.run_id,
            outcome=state.status,
            text=state.text,
            tools=state.uses,
            usage=state.usage,
            stop_reason=state.stop_reason,
            pending=self.pending,
            messages=self._machine.final_messages,
        )

    def decide(self, call_id: str, decision: Approval) -> None:
        """Decide on a call while the run goes on, be it that others are still being written.

        Raises UsageError, and changes nothing, if nobody was asked about the call, if it was
        decided already, or if edited arguments are not valid. May be called from any thread.
        """
        self._at_home(lambda: self._runner.decide(call_id, decision))

    def stop(self, reason: str = "") -> None:
        """End the run: nothing more is read, tools that run are cancelled. From any thread."""
        self._at_home(lambda: self._runner.stop(reason))

    # In an event loop

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        if self._events is None:
            self._events = self._follow()
        return self._events

    async def __anext__(self) -> Event:
        return await anext(aiter(self))

    async def aclose(self) -> None:
        """End the run, if it has not ended, or paused and said so."""
        if self._has_begun:
            if self._machine.is_paused and not self._has_told_pause:
                self._runner.stop(NOBODY)
            await self._runner.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __await__(self) -> Generator[Any, None, RunResult]:
        return self._wait().__await__()

    async def _wait(self) -> RunResult:
        async for _ in self:
            pass
        return self.outcome()

    async def _follow(self) -> AsyncGenerator[Event, None]:
        try:
            while events := await self._fetch():
                for event in events:
                    answer = self._note(event)
                    if inspect.isawaitable(answer):
                        await answer
                    yield event
        finally:
            await self.aclose()

    async def _fetch(self) -> list[Event]:
        if not self._has_begun:
            self._start()
        return await self._runner.fetch()

    def _note(self, event: Event) -> Awaitable[None] | None:
        """Take note of an event that is about to be told, and show it to the hook."""
        match event:
            case RunFailed():
                self._failure = event
            case RunPaused():
                self._has_told_pause = True
            case _:
                pass
        return None if self._on_event is None else self._on_event(event)

    def _start(self) -> None:
        if self.conversation.run_id not in (None, self.run_id):
            raise UsageError(
                f"the conversation has a run that is not over ({self.conversation.run_id}): "
                "resume or stop that one first"
            )
        self.conversation.run_id = self.run_id
        self._has_begun = True
        self._home = threading.get_ident(), anyio.lowlevel.current_token()
        self._runner.start(self._begin())

    def _rest(self) -> None:
        """Take that the run is over, or has paused: before its last event is told."""
        self._on_rest(self)
        if self._machine.is_over and self.conversation.run_id == self.run_id:
            self.conversation.run_id = None
            self.conversation.messages = self._machine.final_messages

    def abandon(self, reason: str) -> list[Event]:
        """End a run that has paused; for the agent only."""
        step = self._machine.stopped(reason)
        self._rest()
        return step.events

    def outcome(self) -> RunResult:
        """Give the result; raises ``RunFailure`` if the run failed."""
        if self._failure is not None:
            raise RunFailure(self._failure.code, self._failure.message, self.result)
        return self.result

    # Without one

    def __iter__(self) -> Iterator[Event]:
        """Follow the run in a thread that is not of an event loop: one of our own drives it."""
        with anyio.from_thread.start_blocking_portal("asyncio") as portal:
            try:
                while events := portal.call(self._fetch):
                    for event in events:
                        answer = self._note(event)
                        if inspect.isawaitable(answer):
                            portal.call(_awaited, answer)
                        yield event
            finally:
                portal.call(self.aclose)
                portal.call(self._leave_loop)

    def wait(self) -> RunResult:
        """Wait until it has ended or paused, and give its result."""
        for _ in self:
            pass
        return self.outcome()

    async def _leave_loop(self) -> None:
        """Close what the model keeps for this loop, which is about to end."""
        close = getattr(self._setting.model, "aclose", None)
        if close is not None:
            await close()

    def _at_home(self, act: Callable[[], None]) -> None:
        """Act in the thread of the event loop that the run is in."""
        if self._home is None:
            raise UsageError("the run has not begun: follow it with 'for' or 'async for'")
        thread, token = self._home
        if threading.get_ident() == thread:
            act()
        else:
            with suppress(anyio.RunFinishedError):  # it is over, so there is nothing to act on
                anyio.from_thread.run_sync(act, token=token)


async def _awaited(answer: Awaitable[Answer]) -> Answer:
    return await answer
