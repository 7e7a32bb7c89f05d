"""Drives a run: asks the model, runs tools, asks a person, and hands out the events.

What follows what is decided by the machine; here is all that waits. Each thing that takes time is a
task: a turn of the model, a tool, a question to a person. Whoever has news gives them to the
machine at once, tells the events that follow, and starts what it wants done. If the run has a log,
the events are written before they are told, and before anything is done that follows from them.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Final

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from argstream.adapters import AGENTS
from argstream.agent._deciding import Deciding
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
from argstream.agent._inbox import Inbox
from argstream.agent._listening import PASSING, Listening
from argstream.agent._machine import Machine
from argstream.agent._outbox import Outbox
from argstream.agent._pacing import Pace, pace_here
from argstream.agent._questions import failure_message, is_cancelled
from argstream.agent._run_log import RunLog, RunPosition
from argstream.agent._setting import Setting
from argstream.agent._tool_tasks import ToolTasks
from argstream.clients import ModelRequest
from argstream.errors import (
    RunFailure,
    RunTaken,
    StoreFailure,
    StreamFailure,
    UsageError,
)
from argstream.events import Event, RunPaused, StreamFailed
from argstream.history import Message
from argstream.log import Record, coalesced
from argstream.streaming import AsyncEventStream, stream

__all__ = ["Runner"]

_LINGER: Final = 1.0
"""How long a stream may take to end after its turn: then its connection can be used again."""
_CATCHING_UP: Final = 1.0
"""How long a pause waits for who follows the run to hear of what came before it, in seconds."""
_LEAVING: Final = 5.0
"""How long it may take to give up a claim, in seconds, when all else is over: it lapses anyway."""

_inside: ContextVar[tuple["Runner", ...]] = ContextVar("argstream_runs", default=())
"""The runs that whoever asks is a part of: as a tool, a model, or somebody who is asked."""

logger = logging.getLogger("argstream.agent")


class Runner:
    """One run from its start, or from where it had paused, to its end or the next pause."""

    def __init__(
        self,
        machine: Machine,
        setting: Setting,
        on_rest: Callable[[Machine], None],
        position: RunPosition,
        log: RunLog | None = None,
    ) -> None:
        self.machine = machine
        self.outbox = Outbox()
        self.failure: StreamFailure | None = None
        """Why the model could not answer, if it could not."""
        self._setting = setting
        self._on_rest = on_rest
        self._position = position
        self._log = log
        self._tasks: TaskGroup
        self._pace: Pace
        self._reading: anyio.CancelScope  # of the model's stream
        self._task: asyncio.Task[None] | None = None
        self._is_at_rest = False
        self._inbox: Inbox[Step | Event] = Inbox()  # for the task that holds all others
        self._error: BaseException | None = None  # to be raised when all events are told
        self._tools = ToolTasks(machine, setting.tools, self.act, self._tell, self._room)
        self.deciding = Deciding(machine, self.act, setting.approver, self._approver_failed, log)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing more happens here: the run is over, or has paused."""
        return self._is_at_rest

    @property
    def has_begun(self) -> bool:
        """Whether it was started."""
        return self._task is not None

    def start(self, step: Step) -> None:
        """Begin with what the machine said first. Needs a running event loop."""
        self._tasks = anyio.create_task_group()
        self._pace = pace_here()
        self._inbox.post(step)
        self._task = asyncio.create_task(self._supervise())

    def act(self, step: Step) -> None:
        """Do what follows from something: in the order in which it was decided.

        It may have come in a callback of the event loop, in which no task can be started; and it
        may have to be written first.
        """
        is_in_callback = asyncio.current_task() is None and not self._is_at_rest
        if self._inbox or is_in_callback or self._log is not None:
            self._inbox.post(step)
        else:
            self._carry_out(step, self._stamped(step.events))

    def _stamped(self, events: Sequence[Event]) -> list[Record]:
        """Assign numbers to the events of a run without a log."""
        records = self._position.stamp(events)
        self._position.advance(records)
        return records

    def _tell(self, event: Event) -> None:
        """Tell an event from which nothing follows; what was decided before comes first."""
        if self._log is not None:
            self._inbox.post_soon(event, self._pace.pause)
        elif self._inbox:
            self._inbox.post(event)
        else:
            self.outbox.add(self._stamped([event]))

    async def _room(self) -> None:
        """Wait while so much is held that who can wait should."""
        await self.outbox.room()
        await self._inbox.room()

    async def close(self) -> bool:
        """Wait until nothing of the run is going on.

        False for who is a part of it himself: he cannot wait for that.
        """
        self.outbox.leave()
        if self._task is None or self in _inside.get():
            return False
        with anyio.CancelScope(shield=True):
            await asyncio.wait([self._task])
        return True

    @property
    def is_stopped_with_another(self) -> bool:
        """Whether whoever follows it is a part of a run that is ending."""
        return any(runner.machine.is_ending for runner in _inside.get())

    async def abandon(self) -> None:
        """Leave a run that has a log to others: nothing more is done for it here."""
        if self._task is not None and not self._is_at_rest:
            self._task.cancel()
            await self.close()

    async def _supervise(self) -> None:
        _inside.set((*_inside.get(), self))
        try:
            async with self._tasks:
                await self._work_off()
                if self._log is not None:  # its beginning is written down, so others know of it
                    self._tasks.start_soon(self._log.keep)
                    self._tasks.start_soon(self.deciding.hear, self._log)
                with self._pace.running():
                    while not self._is_at_rest:
                        await self._inbox.wait()
                        if self._inbox:
                            await self._work_off()
                self._tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            self._error = _what_failed(group)
        finally:
            if self._log is not None:
                await self._leave(self._log)
            elif not self._is_at_rest:  # it was ended from outside, or something fell over
                step = self.machine.crashed("interrupted", "the run was interrupted")
                self._conclude(self._stamped(step.events))
            self.outbox.close(self._error)

    async def _leave(self, log: RunLog) -> None:
        """Let others go on with a run that was cut off here: its log says how far it has come."""
        if self._is_at_rest:
            return
        self._is_at_rest = True
        run_id = self.machine.state.run_id
        if self._error is None:
            told = f"the run {run_id} was interrupted here: Agent.resume goes on with it"
            self._error = RunFailure("interrupted", told)
        if not log.has_begun:
            self._on_rest(self.machine)  # there is nothing that anybody could go on with
        with anyio.move_on_after(_LEAVING, shield=True):
            try:
                await log.release()
            except StoreFailure:
                logger.warning("the claim on the run %s lapses by itself", run_id, exc_info=True)

    # What the machine says

    async def _work_off(self) -> None:
        """Take what has come; write it first, if there is a log."""
        taken = self._inbox.take()
        waiting = _steps(taken)
        events = [event for step in waiting for event in step.events]
        if self._log is None:
            records = self._stamped(events)
        else:
            records = await self._log_first(self._log, events)
        rests = [step for step in waiting if step.rests]
        end = 0
        for step in waiting:
            start, end = end, end + len(step.events)
            told = records[start:end]
            if self._log is not None and rests[-1:] == [step]:
                await self._rest(self._log, told)
            else:
                self._carry_out(step, told)
        self.outbox.add([], joined=max(0, len(taken) - len(records)))

    async def _log_first(self, log: RunLog, events: Sequence[Event]) -> list[Record]:
        """Write what has come; a stop before what follows from it, a decision after its request."""
        await self.deciding.post_stop(log)
        records = await log.write(events)
        await self.deciding.post_decisions(log)
        self._inbox.worked_off()
        return records

    async def _rest(self, log: RunLog, records: list[Record]) -> None:
        """Come to rest, unless somebody has something to say to a run that pauses."""
        if not (records and isinstance(records[-1].event, RunPaused)):
            self._conclude(records)
            return
        *before, pause = records
        self.outbox.add(before)
        if self.machine.is_paused:
            await self.outbox.caught_up(_CATCHING_UP)  # who is told of a request may decide on it
        going_on = await self.deciding.after_pause(log)
        while going_on is None and self.deciding.has_unposted and self.machine.is_paused:
            going_on = await self.deciding.after_pause(log)
        if going_on is not None:
            self._inbox.post(going_on)
        if going_on is not None or not self.machine.is_paused:
            self.outbox.add([pause])
        else:
            self._conclude([pause])

    def _carry_out(self, step: Step, records: list[Record]) -> None:
        if step.rests and self._log is None:
            self._conclude(records)
            return
        self.outbox.add(records)
        for effect in step.effects:
            self._do(effect)

    def _conclude(self, records: list[Record]) -> None:
        """Hand out the last records; their consumer finds the run at rest."""
        self._is_at_rest = True
        self._on_rest(self.machine)
        self.deciding.give_up()
        self.deciding.withdraw_all()
        self.outbox.add(records)
        self._inbox.ring()

    def _do(self, effect: Effect) -> None:
        match effect:
            case AskModel(messages):
                self._reading = anyio.CancelScope()
                self._tasks.start_soon(self._read_turn, messages, self._reading)
            case AskPerson(request):
                self.deciding.ask(self._tasks, request)
            case Withdraw(call_id):
                self.deciding.withdraw(call_id)
            case Execute() | ReadAlong():
                self._tools.start(self._tasks, effect)
            case EndText():
                self._tools.end_text(effect)
            case CancelTool():
                self._tools.cancel(effect)
            case CloseStream():
                self._reading.cancel()

    def _approver_failed(self, error: BaseException) -> None:
        """End the run, without running the call, and raise the error when it has ended."""
        if not self.machine.is_ending:
            self._error = error
        self.act(self.machine.failed("approver_failed", failure_message(error)))

    # The model

    async def _read_turn(self, messages: tuple[Message, ...], scope: anyio.CancelScope) -> None:
        events: AsyncEventStream | None = None
        listening = Listening(self._setting.tools)
        with scope:
            try:
                events = self._open(messages)
                await self._read(events, listening, scope)
            except (Exception, asyncio.CancelledError) as error:
                if is_cancelled(error):
                    raise
                self._model_failed(error, listening)
            finally:
                if events is not None:
                    with anyio.CancelScope(shield=True):
                        await events.aclose()
                    state = self.machine.state
                    state.numbering = events.numbering
                    state.usage = state.usage_before + events.usage
        self._hear(listening.last_words(), listening)
        self.act(self.machine.stream_over())

    def _model_failed(self, error: BaseException, listening: Listening) -> None:
        if listening.turn_is_over:  # all was said, so how the connection ends does not matter
            logger.info("the model failed after its turn", exc_info=error)
        elif isinstance(error, StreamFailure):
            self.failure = error
            listening.fail(StreamFailed(error.code, error.message, error.retryable))
        else:
            if isinstance(error, Exception):
                self._error = error  # it is raised when the run has ended
            told = f"the model failed with {type(error).__name__}"
            listening.fail(StreamFailed("model_failed", told))

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
        outbox = self.outbox
        async for event in events:
            if scope.cancel_called or self.machine.is_ending:
                return  # what had come when somebody stopped it
            if type(event) in PASSING:  # nearly always
                self._tell(event)
                if listening.has_texts and (early := listening.grow(event)) is not None:
                    step = self.machine.begun_early(early.call.id)
                    if step.effects:
                        self._tools.expect(early)
                    self.act(step)
            else:
                if events.protocol in AGENTS:
                    raise UsageError(
                        f"{self._setting.model.name} runs its tools itself: read it with stream()"
                    )
                listening.note(event, events.calls)
                self._hear([event], listening)
                if listening.turn_is_over:
                    scope.deadline = anyio.current_time() + _LINGER
            if outbox.is_full or self._inbox.is_full:
                await self._room()

    def _hear(self, events: list[Event], listening: Listening) -> None:
        if events:
            self.act(self.machine.heard(events, listening.facts, time.time()))


def _steps(waiting: Iterable[Step | Event]) -> list[Step]:
    """Wrap events that came without a step in steps, and coalesce their deltas."""
    steps: list[Step] = []
    alone: list[Event] = []
    for what in waiting:
        if not isinstance(what, Step):
            alone.append(what)
            continue
        if alone:
            steps.append(Step(coalesced(alone), []))
            alone = []
        steps.append(what)
    if alone:
        steps.append(Step(coalesced(alone), []))
    return steps


def _what_failed(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Give the one thing that went wrong; that the store is lost may be seen by several."""
    errors = group.exceptions
    lost = [error for error in errors if isinstance(error, RunTaken | StoreFailure)]
    return lost[0] if lost else errors[0] if len(errors) == 1 else group
