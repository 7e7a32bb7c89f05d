"""Drives a run: asks the model, runs tools, asks a person, and hands out the events.

What follows what is decided by the machine; here is all that waits. Each thing that takes time is a
task: a turn of the model, a tool, a question to a person. Whoever has news gives them to the
machine at once, tells the events that follow, and starts what it wants done. Events wait for who
fetches them; if these are many, the model's stream waits, too.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup

from argstream.adapters import AGENTS
from argstream.agent._effects import (
    AskModel,
    AskPerson,
    CancelTool,
    CloseStream,
    Effect,
    EndText,
    Execute,
    ReadAlong,
    Step,
    Withdraw,
)
from argstream.agent._listening import PASSING, EarlyStart, Listening
from argstream.agent._machine import Machine
from argstream.agent._setting import Setting
from argstream.agent.approvals import Approval, Approve, Deny
from argstream.agent.tools import Bound, ToolContext, failure_words
from argstream.clients import ModelRequest
from argstream.errors import StreamFailure, TextInterrupted, UsageError
from argstream.events import ApprovalRequested, Event, StreamFailed, ToolOutputDelta
from argstream.history import Message
from argstream.streaming import AsyncEventStream, stream

__all__ = ["NOBODY", "Runner"]

NOBODY: Final = "nobody follows the run any more"

_ROOM: Final = 256
"""How many events may wait to be fetched before the model's stream waits, too."""
_LINGER: Final = 1.0
"""How long a stream may take to end after its turn: then its connection can be used again."""
_GRACE: Final = 10.0
"""How long a tool may take to undo what it did, in seconds, before it is cancelled."""

logger = logging.getLogger("argstream.agent")


class Runner:
    """One run from its start, or from where it had paused, to its end or the next pause."""

    def __init__(
        self,
        machine: Machine,
        setting: Setting,
        on_rest: Callable[[], None],
    ) -> None:
        self.machine = machine
        self._setting = setting
        self._on_rest = on_rest
        self._tasks: TaskGroup
        self._rest: anyio.Event  # it is over, or has paused
        self._reading: anyio.CancelScope  # of the model's stream
        self._task: asyncio.Task[None] | None = None
        self._held: list[Event] = []  # not fetched yet
        self._news: anyio.Event | None = None  # somebody waits for these
        self._room: anyio.Event | None = None  # somebody waits until they are fetched
        self._has_ended = False
        self._error: BaseException | None = None  # to be raised when all events are told
        self._scopes: dict[str, anyio.CancelScope] = {}  # of tools that run, by call
        self._questions: dict[str, anyio.CancelScope] = {}  # to a person, by call
        self._early: dict[str, EarlyStart] = {}  # tools that read their text, by call

    def start(self, step: Step) -> None:
        """Begin with what the machine said first. Needs a running event loop."""
        self._tasks, self._rest = anyio.create_task_group(), anyio.Event()
        self._task = asyncio.create_task(self._supervise(step))

    async def fetch(self) -> list[Event]:
        """Give the next events, at least one; none when there are no more."""
        while not self._held:
            if self._has_ended:
                error, self._error = self._error, None
                if error is not None:
                    raise error
                return []
            self._news = news = anyio.Event()
            await news.wait()
        events, self._held = self._held, []
        if self._room is not None:
            self._room.set()
        return events

    def decide(self, call_id: str, decision: Approval) -> None:
        """Decide on a call; raises UsageError if nobody was asked about it."""
        step = self.machine.decided(call_id, decision, time.time())
        if (question := self._questions.pop(call_id, None)) is not None:
            question.cancel()
        self._take(step)

    def stop(self, reason: str) -> None:
        """End the run: what is written is aborted, tools are cancelled."""
        self._take(self.machine.stopped(reason))

    async def close(self) -> None:
        """End the run, if it has not ended, and wait until nothing of it is going on."""
        if self._task is not None:
            if not self._rest.is_set():
                self.stop(NOBODY)
            if self._room is not None:
                self._room.set()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([self._task])

    async def _supervise(self, step: Step) -> None:
        try:
            async with self._tasks:
                self._take(step)
                await self._rest.wait()
                self._tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            self._error = group.exceptions[0] if len(group.exceptions) == 1 else group
        finally:
            self._has_ended = True
            self._wake()

    # What the machine says

    def _take(self, step: Step) -> None:
        if self.machine.is_over or self.machine.is_paused:
            self._on_rest()  # before anybody is told
        self._tell(step.events)
        for effect in step.effects:
            self._do(effect)
        if self.machine.is_over or self.machine.is_paused:
            self._rest.set()

    def _tell(self, events: list[Event]) -> None:
        if events:
            self._held += events
            self._wake()

    def _wake(self) -> None:
        """Let somebody who waits for events fetch them: once for each wait."""
        if self._news is not None:
            self._news.set()
            self._news = None

    def _do(self, effect: Effect) -> None:
        match effect:
            case AskModel(messages):
                self._reading = anyio.CancelScope()
                self._tasks.start_soon(self._read_turn, messages, self._reading)
            case AskPerson(request):
                if self._setting.approver is not None:
                    self._questions[request.call_id] = scope = anyio.CancelScope()
                    self._tasks.start_soon(self._ask, request, scope)
            case Withdraw(call_id):
                if call_id in self._questions:
                    self._questions.pop(call_id).cancel()
            case Execute(call_id, name, text, key):
                bind = partial(self._setting.tools[name].bind, text)
                self._run(call_id, name, key, bind)
            case ReadAlong(call_id, name, key):
                bound = self._early[call_id].bound
                self._run(call_id, name, key, lambda: bound)
            case EndText(call_id, interruption):
                self._end_text(call_id, interruption)
            case CancelTool(call_id):
                self._scopes[call_id].cancel()
            case CloseStream():
                self._reading.cancel()

    # The model

    async def _read_turn(self, messages: tuple[Message, ...], scope: anyio.CancelScope) -> None:
        events: AsyncEventStream | None = None
        listening = Listening(self._setting.tools)
        with scope:
            try:
                events = self._open(messages)
                await self._read(events, listening, scope)
            except StreamFailure as error:
                listening.fail(StreamFailed(error.code, error.message, error.retryable))
            except Exception as error:  # noqa: BLE001 - it is raised when the run has ended
                self._error = error
                told = f"the model failed with {type(error).__name__}"
                listening.fail(StreamFailed("model_failed", told))
            finally:
                if events is not None:
                    with anyio.CancelScope(shield=True):
                        await events.aclose()
                    self.machine.state.numbering = events.numbering
        self._hear(listening.last_words(), listening)
        self._take(self.machine.stream_over())

    def _open(self, messages: tuple[Message, ...]) -> AsyncEventStream:
        setting = self._setting
        request = ModelRequest(
            messages=messages,
            instructions=setting.instructions,
            tools=setting.tools.offered,
            settings=setting.settings,
        )
        return stream(
            setting.model.stream(request),
            setting.model.protocol,
            judge=setting.tools.judge,
            after=self.machine.state.numbering,
        )

    async def _read(
        self, events: AsyncEventStream, listening: Listening, scope: anyio.CancelScope
    ) -> None:
        async for event in events:
            if events.protocol in AGENTS:
                raise UsageError(
                    f"{self._setting.model.name} runs its tools itself: read it with stream()"
                )
            if type(event) in PASSING:  # nearly always
                self._held.append(event)
                if self._news is not None:
                    self._wake()
                if listening.has_texts and (early := listening.grow(event)) is not None:
                    self._early[early.call.id] = early
                    self._take(self.machine.begun_early(early.call.id))
            else:
                listening.note(event, events.calls)
                self._hear([event], listening)
                if listening.turn_is_over:
                    scope.deadline = anyio.current_time() + _LINGER
            if len(self._held) >= _ROOM:
                self._room = anyio.Event()
                await self._room.wait()
                self._room = None

    def _hear(self, events: list[Event], listening: Listening) -> None:
        if events:
            self._take(self.machine.heard(events, listening.facts, time.time()))

    # Tools

    def _end_text(self, call_id: str, interruption: TextInterrupted | None) -> None:
        early = self._early.pop(call_id, None)
        if early is None:
            return
        if interruption is None:
            early.feed.finish()
        else:
            early.feed.interrupt(interruption)
            self._scopes[call_id].deadline = anyio.current_time() + _GRACE

    def _run(self, call_id: str, name: str, key: str, bind: Callable[[], Bound]) -> None:
        self._scopes[call_id] = scope = anyio.CancelScope()
        said = partial(self._said, call_id, name)
        context = ToolContext(self.machine.state.run_id, call_id, name, key, said)
        self._tasks.start_soon(self._execute, context, bind, scope)

    async def _execute(
        self, context: ToolContext, bind: Callable[[], Bound], scope: anyio.CancelScope
    ) -> None:
        call_id, tool = context.call_id, self._setting.tools[context.name]
        step: Callable[[], Step] = partial(self.machine.raised, call_id, "it was stopped")
        with scope:
            try:
                await anyio.lowlevel.checkpoint_if_cancelled()
                result = await tool.execute(bind(), context)
                step = partial(self.machine.returned, call_id, result)
            except Exception as error:
                logger.info("the tool %s failed", tool.name, exc_info=error)
                step = partial(self.machine.raised, call_id, failure_words(error))
        self._take(step())

    def _said(self, call_id: str, name: str, text: str) -> None:
        self._tell([ToolOutputDelta(call_id, name, text)])

    # The person

    async def _ask(self, request: ApprovalRequested, scope: anyio.CancelScope) -> None:
        if request.expires_at is not None:
            scope.deadline = anyio.current_time() + request.expires_at - time.time()
        decision: Approval | None = None
        with scope:
            try:
                decision = await self._decision(request)
            except Exception as error:
                logger.exception("the approver failed, so the call %s is denied", request.call_id)
                decision = Deny(f"nobody could be asked ({type(error).__name__})")
        if self._questions.pop(request.call_id, None) is None:
            return  # somebody else has decided, or it does not matter any more
        self._take(self._decided(request.call_id, decision))

    async def _decision(self, request: ApprovalRequested) -> Approval:
        approver: Callable[[ApprovalRequested], Any] | None = self._setting.approver
        assert approver is not None, "only those who can be asked are asked"  # noqa: S101
        if inspect.iscoroutinefunction(approver):
            answer = await approver(request)
        else:
            answer = await anyio.to_thread.run_sync(approver, request, abandon_on_cancel=True)
            answer = await answer if inspect.isawaitable(answer) else answer
        if not isinstance(answer, Approve | Deny):
            raise UsageError(f"an approver gives Approve(…) or Deny(…), not {answer!r}")
        return answer

    def _decided(self, call_id: str, decision: Approval | None) -> Step:
        if decision is None:
            return self.machine.expired(call_id)
        try:
            return self.machine.decided(call_id, decision, time.time())
        except UsageError as error:
            return self.machine.decided(call_id, Deny(str(error)), time.time())
