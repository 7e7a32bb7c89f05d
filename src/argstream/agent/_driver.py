"""Drives a run: asks the model, runs tools and approvers, and hands out the events.

The loop decides what follows what. Here is everything that waits. Each turn of the model, tool and
approver is a task. It passes its news to the loop, hands out the events that follow, and starts the
effects. If the run has a log, events are written before they are handed out or acted on.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, get_args

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from anyio.lowlevel import RunVar
from msgspec import Struct

from argstream import events as ev
from argstream.agent._lease import RunLog, RunPosition
from argstream.agent._loop import (
    AgentLoop,
    AskModel,
    AskPerson,
    CancelTool,
    CloseStream,
    Effect,
    EndText,
    Execute,
    ReadAlong,
    Step,
    Toolbox,
    Withdraw,
)
from argstream.agent.approvals import Approver, Decider, approver_failure_message, is_cancelled
from argstream.agent.tools import Bound, TextFeed, Tool, ToolContext, failure_words
from argstream.assembly import Call
from argstream.errors import RunBusyError, RunError, StoreError, StreamError, UsageError
from argstream.history import Message
from argstream.models import Model, ModelRequest, ModelSettings
from argstream.providers import AGENTS
from argstream.runs._records import Record, coalesced
from argstream.runs._store import Store
from argstream.streaming import AsyncEventStream, stream

Item = TypeVar("Item")

_INBOX_ROOM: Final = 1024
_TIMES_AS_LONG: Final = 2.0  # pause between two writes, as a multiple of the time of the last one,
_LONGEST_WAIT: Final = 0.2  # but no longer than this, in seconds
_OUTBOX_ROOM: Final = 256
_SECONDS_PER_RUN: Final = 0.0003  # pause between two writes of a run, for each run of the loop,
_LONGEST: Final = 0.15  # at most this, in seconds,
_SHORTEST: Final = 0.005  # and none if it would be shorter than this
_GRACE: Final = 10.0  # seconds for a tool to undo what it did, before it is cancelled
_GRACE_AFTER_STOP: Final = 1.0
_LINGER: Final = 1.0  # seconds for a stream to end after its turn, so its connection can be reused
_CATCHING_UP: Final = 1.0  # seconds that a pause waits for the consumer to reach it
_LEAVING: Final = 5.0  # seconds to release a lease when all else is over: it expires anyway

logger = logging.getLogger("argstream.agent")

EventHook: TypeAlias = Callable[[Record], Awaitable[None] | None]
"""Called with each record just before the consumer of the run receives it. It may be async."""

_inside: ContextVar[tuple["Runner", ...]] = ContextVar("argstream_runs", default=())
"""The runs that the current task is a part of: as a tool, a model or an approver."""


class RunConfig(Struct, frozen=True):
    """Configuration that the runs of an agent share."""

    model: Model
    tools: Toolbox
    instructions: str
    settings: ModelSettings
    approver: Approver | None = None
    on_event: EventHook | None = None
    agent: str = "agent"  # the name of the agent
    store: Store | None = None  # where the logs of its runs are kept
    lease_seconds: float = 15.0  # for how long a run is ours, if we do not say that we live

    def position(self, run_id: str, conversation_id: str) -> RunPosition:
        return RunPosition(run_id, conversation_id, self.agent)

    def log(self, position: RunPosition) -> RunLog | None:
        if self.store is None:
            return None
        return RunLog(self.store, position, self.lease_seconds)

    async def close_model(self) -> None:
        """Close what the model keeps open for this event loop, such as connections."""
        close = getattr(self.model, "aclose", None)
        if close is not None:
            await close()


class Runner:
    """Drives one run from its start, or from a pause, to its end or the next pause."""

    def __init__(
        self,
        machine: AgentLoop,
        setting: RunConfig,
        on_rest: Callable[[AgentLoop], None],
        position: RunPosition,
        log: RunLog | None = None,
    ) -> None:
        self.machine = machine
        self.outbox = Outbox()
        self.failure: StreamError | None = None  # why the model could not answer, if it could not
        self._setting = setting
        self._on_rest = on_rest
        self._position = position
        self._log = log
        self._tasks: TaskGroup
        self._pace: Pace
        self._reading: anyio.CancelScope  # of the model's stream
        self._task: asyncio.Task[None] | None = None
        self.is_at_rest = False  # nothing more happens here: the run is over, or has paused
        self._inbox: Inbox[Step | ev.Event] = Inbox()  # for the task that holds all others
        self._error: BaseException | None = None  # raised when all events are consumed
        self._tools = ToolTasks(machine, setting.tools, self.act, self._tell, self._room)
        self.decider = Decider(machine, self.act, setting.approver, self._approver_failed, log)

    @property
    def has_begun(self) -> bool:
        return self._task is not None

    def start(self, step: Step) -> None:
        self._tasks = anyio.create_task_group()
        self._pace = pace_here()
        self._inbox.post(step)
        self._task = asyncio.create_task(self._supervise())

    def act(self, step: Step) -> None:
        """Carry out a step, in the order in which the loop returned it.

        In a callback of the event loop no task can be started, and a log is written first. Both
        are left to the supervising task.
        """
        is_in_callback = asyncio.current_task() is None and not self.is_at_rest
        if self._inbox or is_in_callback or self._log is not None:
            self._inbox.post(step)
        else:
            self._carry_out(step, self._stamped(step.events))

    def _stamped(self, events: Sequence[ev.Event]) -> list[Record]:
        records = self._position.stamp(events)
        self._position.advance(records)
        return records

    def _tell(self, event: ev.Event) -> None:
        """Hand out an event that changes no state, after the steps that were decided before."""
        if self._log is not None:
            self._inbox.post_soon(event, self._pace.pause)
        elif self._inbox:
            self._inbox.post(event)
        else:
            self.outbox.add_one(self._position.next(event))

    async def _room(self) -> None:
        await self.outbox.room()
        await self._inbox.room()

    async def close(self) -> bool:
        """Wait until the run is over. False if the caller is a part of it, and cannot wait."""
        self.outbox.leave()
        if self._task is None or self in _inside.get():
            return False
        with anyio.CancelScope(shield=True):
            await asyncio.wait([self._task])
        return True

    @property
    def is_stopped_with_another(self) -> bool:
        """Whether the consumer is a part of another run that is ending."""
        return any(runner.machine.is_ending for runner in _inside.get())

    async def abandon(self) -> None:
        """Leave a run that has a log to other processes."""
        if self._task is not None and not self.is_at_rest:
            self._task.cancel()
            await self.close()

    async def _supervise(self) -> None:
        _inside.set((*_inside.get(), self))
        try:
            async with self._tasks:
                await self._work_off()
                if self._log is not None:  # its beginning is written down, so others know of it
                    self._tasks.start_soon(self._log.keep_lease)
                    self._tasks.start_soon(self.decider.receive, self._log)
                with self._pace.running():
                    while not self.is_at_rest:
                        await self._inbox.wait()
                        if self._inbox:
                            await self._work_off()
                self._tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            self._error = _what_failed(group)
        finally:
            if self._log is not None:
                await self._leave(self._log)
            elif not self.is_at_rest:  # it was ended from outside, or something fell over
                step = self.machine.crashed("interrupted", "the run was interrupted")
                self._conclude(self._stamped(step.events))
            self.outbox.close(self._error)

    async def _leave(self, log: RunLog) -> None:
        """Release a run that was cut off here. Its log says how far it has come."""
        if self.is_at_rest:
            return
        self.is_at_rest = True
        run_id = self.machine.state.run_id
        if self._error is None:
            told = f"the run {run_id} was interrupted here: Agent.resume goes on with it"
            self._error = RunError("interrupted", told)
        if not log.has_begun:
            self._on_rest(self.machine)  # nothing of it is in the store
        with anyio.move_on_after(_LEAVING, shield=True):
            try:
                await log.release()
            except StoreError:
                logger.warning("the lease on the run %s lapses by itself", run_id, exc_info=True)

    async def _work_off(self) -> None:
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

    async def _log_first(self, log: RunLog, events: Sequence[ev.Event]) -> list[Record]:
        """Write a stop before what follows from it, and a decision after its request."""
        await self.decider.post_stop(log)
        records = await log.write(events)
        await self.decider.post_decisions(log)
        self._inbox.worked_off()
        return records

    async def _rest(self, log: RunLog, records: list[Record]) -> None:
        """Come to rest, unless a decision or a stop has come for a run that pauses."""
        if not (records and isinstance(records[-1].event, ev.RunPaused)):
            self._conclude(records)
            return
        *before, pause = records
        self.outbox.add(before)
        if self.machine.is_paused:
            await self.outbox.caught_up(_CATCHING_UP)  # the consumer may decide on a request
        going_on = await self.decider.after_pause(log)
        while going_on is None and self.decider.has_unsent and self.machine.is_paused:
            going_on = await self.decider.after_pause(log)
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
        """Hand out the last records. Their consumer finds the run at rest."""
        self.is_at_rest = True
        self._on_rest(self.machine)
        self.decider.give_up()
        self.decider.approver_tasks.withdraw_all()
        self.outbox.add(records)
        self._inbox.ring()

    def _do(self, effect: Effect) -> None:
        match effect:
            case AskModel(messages):
                self._reading = anyio.CancelScope()
                self._tasks.start_soon(self._read_turn, messages, self._reading)
            case AskPerson(request):
                self.decider.approver_tasks.ask(self._tasks, request)
            case Withdraw(call_id):
                self.decider.approver_tasks.withdraw(call_id)
            case Execute() | ReadAlong():
                self._tools.start(self._tasks, effect)
            case EndText():
                self._tools.end_text(effect)
            case CancelTool():
                self._tools.cancel(effect)
            case CloseStream():
                self._reading.cancel()

    def _approver_failed(self, error: BaseException) -> None:
        """End the run without running the call, and raise the error when it has ended."""
        if not self.machine.is_ending:
            self._error = error
        self.act(self.machine.failed("approver_failed", approver_failure_message(error)))

    async def _read_turn(self, messages: tuple[Message, ...], scope: anyio.CancelScope) -> None:
        events: AsyncEventStream | None = None
        listening = TurnReader(self._setting.tools)
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

    def _model_failed(self, error: BaseException, listening: "TurnReader") -> None:
        if listening.turn_is_over:  # all was said, so how the connection ends does not matter
            logger.info("the model failed after its turn", exc_info=error)
        elif isinstance(error, StreamError):
            self.failure = error
            listening.failure = _failure_of(error)
        else:
            if isinstance(error, Exception):
                self._error = error  # it is raised when the run has ended
            told = f"the model failed with {type(error).__name__}"
            listening.failure = ev.StreamFailed("model_failed", told)

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
            check=setting.tools.check,
            after=self.machine.state.numbering,
        )

    async def _read(
        self, events: AsyncEventStream, listening: "TurnReader", scope: anyio.CancelScope
    ) -> None:
        outbox, inbox, state = self.outbox, self._inbox, self.machine.state
        async for event in events:
            if scope.cancel_called or state.ending is not None:
                return  # it was stopped
            if event.is_delta or event.is_computed:  # nearly always
                self._tell(event)
                if listening.texts and (early := listening.grow(event)) is not None:
                    step = self.machine.begun_early(early.call.id)
                    if step.effects:
                        self._tools.early[early.call.id] = early
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
            if outbox.is_full or (inbox and inbox.is_full):
                await self._room()

    def _hear(self, events: list[ev.Event], listening: "TurnReader") -> None:
        if events:
            self.act(self.machine.heard(events, listening.text_of, time.time()))


def _steps(waiting: Iterable[Step | ev.Event]) -> list[Step]:
    """Wrap events that came without a step in steps, and coalesce their deltas."""
    steps: list[Step] = []
    alone: list[ev.Event] = []
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


def _failure_of(error: StreamError) -> ev.StreamFailed:
    known = {code: code for code in get_args(ev.FailureCode)}
    if error.code in known:
        return ev.StreamFailed(known[error.code], error.message, error.retryable)
    return ev.StreamFailed("provider_error", error.message, error.retryable, error.code)


def _what_failed(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the one error that matters: several tasks may see that the store is lost."""
    errors = group.exceptions
    lost = [error for error in errors if isinstance(error, RunBusyError | StoreError)]
    return lost[0] if lost else errors[0] if len(errors) == 1 else group


class _Running(NamedTuple):
    scope: anyio.CancelScope
    context: ToolContext


class ToolTasks:
    """Starts and ends tools. ``act`` receives the steps that follow, ``tell`` their output."""

    def __init__(
        self,
        machine: AgentLoop,
        tools: Toolbox,
        act: Callable[[Step], None],
        tell: Callable[[ev.ToolOutputDelta], None],
        room: Callable[[], Awaitable[None]],
    ) -> None:
        self._machine = machine
        self._tools = tools
        self._act = act
        self._tell = tell
        self._room = room
        self._running: dict[str, _Running] = {}  # by call
        self.early: dict[str, EarlyStart] = {}  # those that read their text, by call

    def start(self, tasks: TaskGroup, effect: Execute | ReadAlong) -> None:
        call_id, name = effect.call_id, effect.name
        text = effect.text if isinstance(effect, Execute) else ""
        early = None if isinstance(effect, Execute) else self.early[call_id].bound
        run_id, key = self._machine.state.run_id, effect.idempotency_key
        said = partial(self._said, call_id, name)
        context = ToolContext(run_id, call_id, name, key, said, self._room)
        self._running[call_id] = running = _Running(anyio.CancelScope(), context)
        tasks.start_soon(self._execute, running, text, early)

    def end_text(self, effect: EndText) -> None:
        early = self.early.pop(effect.call_id, None)
        if early is None:
            return
        if effect.interruption is None:
            early.feed.finish()
            return
        early.feed.interrupt(effect.interruption)
        self._end(effect.call_id, _GRACE)

    def cancel(self, effect: CancelTool) -> None:
        self._end(effect.call_id, _GRACE_AFTER_STOP if effect.undoes else 0)

    def _end(self, call_id: str, grace: float) -> None:
        """Let a tool end by itself, and cancel it after so many seconds."""
        scope, context = self._running[call_id]
        context.cancel()
        scope.deadline = min(scope.deadline, anyio.current_time() + grace)
        if not grace:
            scope.cancel()

    async def _execute(self, running: _Running, text: str, early: Bound | None) -> None:
        scope, context = running
        tool = self._tools[context.name]
        result: Any = "it was stopped"
        failed = True
        with scope:
            try:
                if self._machine.is_ending:  # stopped while its start was written
                    scope.cancel()
                await anyio.lowlevel.checkpoint_if_cancelled()
                bound = tool.bind(text) if early is None else early
                result, failed = await tool.execute(bound, context), False
            except Exception as error:
                logger.info("the tool %s failed", tool.name, exc_info=error)
                result = failure_words(error)
        self._act(self._machine.tool_over(context.call_id, result, failed=failed))

    def _said(self, call_id: str, name: str, text: str) -> None:
        self._tell(ev.ToolOutputDelta(call_id, name, text))


class _Text:
    def __init__(self, call: Call, tool: Tool) -> None:
        self.call = call
        self.tool = tool
        self.feed = TextFeed()
        self.told: set[str | int] = set()  # the arguments whose events were emitted
        self.has_started = False


class EarlyStart(NamedTuple):
    call: Call
    bound: Bound
    feed: TextFeed


class TurnReader:
    """What the driver knows of a turn beside its events."""

    def __init__(self, tools: Toolbox) -> None:
        self._tools = tools
        self._calls: dict[str, Call] = {}
        self._unsettled: dict[str, Call] = {}
        self.texts: dict[str, _Text] = {}
        """By call: what a tool reads, or may read, while it is written."""
        self.failure: ev.StreamFailed | None = None
        self.turn_is_over = False  # whether the model has ended its turn; its stream may not have

    def note(self, event: ev.Event, calls: Sequence[Call]) -> None:
        match event:
            case ev.ToolCallStarted(call_id=call_id, name=name, kind=kind, parent_id=parent_id):
                call = next(call for call in reversed(calls) if call.id == call_id)
                self._calls[call_id] = self._unsettled[call_id] = call
                tool = self._tools.get(name)
                is_ours = parent_id is None and kind == "function"
                if is_ours and tool is not None and tool.streamed is not None:
                    self.texts[call_id] = _Text(call, tool)
            case ev.ToolArgsCompleted(call_id=call_id) | ev.ToolArgsInvalid(call_id=call_id):
                self._unsettled.pop(call_id, None)
                self.texts.pop(call_id, None)
            case ev.TurnCompleted(parent_id=None):
                self.turn_is_over = True
            case _:
                pass

    def text_of(self, call_id: str) -> str:
        """Return the text of a call's arguments, as it was streamed."""
        return self._calls[call_id].raw

    def grow(self, event: ev.Event) -> EarlyStart | None:
        """Pass a piece of text to its tool. Return the tool if it can start now."""
        if not isinstance(event, ev.ArgumentDelta | ev.ArgumentStarted | ev.ArgumentCompleted):
            return None
        text = self.texts.get(event.call_id)
        if text is None or len(event.path) != 1:
            return None
        if isinstance(event, ev.ArgumentDelta):
            if event.path[0] == text.tool.streamed:
                text.feed.add(event.text)
            return None
        if isinstance(event, ev.ArgumentCompleted):
            text.told.add(event.path[0])
        return None if text.has_started else self._start(text)

    def _start(self, text: _Text) -> EarlyStart | None:
        call = text.call  # it may be further than the events, and then it is about to be checked
        if call.verdict != "open" or call.name != text.tool.name or call.reinterpreted is not None:
            return None
        if not self._tools.may_start_early(call):
            return None
        bound = text.tool.bind_early(call, text.feed)
        if bound is None or not bound.arguments.keys() - {text.tool.streamed} <= text.told:
            return None
        text.has_started = True
        return EarlyStart(call, bound, text.feed)

    def last_words(self) -> list[ev.Event]:
        """Return the events that a cancelled stream could not send: each call gets a verdict."""
        aborted: list[ev.Event] = [_aborted(call) for call in self._unsettled.values()]
        self._unsettled.clear()
        return aborted if self.failure is None else [*aborted, self.failure]


def _aborted(call: Call) -> ev.ToolArgsInvalid:
    error = call.error or ev.ArgumentsError("aborted", "reading was stopped")
    return ev.ToolArgsInvalid(call.id, call.name, "aborted", call.raw, error)


class Inbox(Generic[Item]):
    """Filled by many tasks, emptied by one. Tasks that add much wait until there is room."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._bell = asyncio.Event()  # for the one
        self._emptied: asyncio.Event | None = None  # for the many, if any of them waits
        self._taken_at = self._took = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._items)

    def post(self, item: Item) -> None:
        """Add an item. Also callable where no task can be started or awaited."""
        self._items.append(item)
        self._bell.set()

    def post_soon(self, item: Item, pause: float) -> None:
        """Add an item that can wait for more, until so many seconds after the last ones were taken.

        If those took long to work off, it waits longer: on a busy machine, seldom is cheaper.
        """
        self._items.append(item)
        if self._timer is not None or self._bell.is_set():
            return
        if not pause:
            self._bell.set()
            return
        loop = asyncio.get_running_loop()
        due = self._taken_at + max(pause, min(_TIMES_AS_LONG * self._took, _LONGEST_WAIT))
        if due <= loop.time():
            self._bell.set()
        else:
            self._timer = loop.call_at(due, self._bell.set)

    def ring(self) -> None:
        """Wake the task that empties it, though there is nothing to take."""
        self._bell.set()

    async def wait(self) -> None:
        await self._bell.wait()
        self._bell.clear()

    def take(self) -> deque[Item]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._taken_at = asyncio.get_running_loop().time()
        items, self._items = self._items, deque()
        return items

    def worked_off(self) -> None:
        self._took = asyncio.get_running_loop().time() - self._taken_at
        if self._emptied is not None:
            self._emptied.set()
            self._emptied = None

    @property
    def is_full(self) -> bool:
        return len(self._items) >= _INBOX_ROOM

    async def room(self) -> None:
        while self.is_full:
            self._bell.set()
            if self._emptied is None:
                self._emptied = asyncio.Event()
            await self._emptied.wait()


class Outbox:
    """Holds records until they are fetched. Producers of many wait for room."""

    def __init__(self) -> None:
        self._held: list[Record] = []
        self._joined = 0  # how many events were joined into the records that are held
        self._news: anyio.Event | None = None  # set while the consumer waits for records
        self._room: anyio.Event | None = None  # a producer waits for room
        self._return: anyio.Event | None = None  # a task waits for the consumer
        self._is_left = False
        self._is_closed = False
        self._error: BaseException | None = None

    def add(self, records: list[Record], joined: int = 0) -> None:
        """Add records. ``joined`` events were coalesced into them and count towards the limit."""
        self._held += records
        self._joined += joined
        if records and self._news is not None:
            self._wake()

    def add_one(self, record: Record) -> None:
        """Add one record. This is what a delta costs."""
        self._held.append(record)
        if self._news is not None:
            self._wake()

    @property
    def is_full(self) -> bool:
        return len(self._held) + self._joined >= _OUTBOX_ROOM and not self._is_left

    async def room(self) -> None:
        while self.is_full:
            if self._room is None:
                self._room = anyio.Event()
            await self._room.wait()

    async def fetch(self) -> list[Record]:
        """Return the next records, at least one; none when it is closed and all are fetched."""
        while not self._held:
            if self._is_closed:
                error, self._error = self._error, None
                if error is not None:
                    raise error
                return []
            self._news = news = anyio.Event()
            self._tell_return()
            await news.wait()
        return self.take()

    def take(self) -> list[Record]:
        records, self._held, self._joined = self._held, [], 0
        self._make_room()
        return records

    def leave(self) -> None:
        """Mark that no more records are fetched, so producers need not wait for room."""
        self._is_left = True
        self._make_room()
        self._tell_return()

    def close(self, error: BaseException | None) -> None:
        """Mark the end of the records. The error is raised when all are fetched."""
        self._is_closed = True
        self._error = self._error or error
        self._wake()

    async def caught_up(self, seconds: float) -> None:
        """Wait until the consumer has come back for more or has left, at most for so long."""
        with anyio.move_on_after(seconds):
            while (self._held or self._news is None) and not self._is_left:
                self._return = anyio.Event()
                await self._return.wait()

    def _tell_return(self) -> None:
        if self._return is not None:
            self._return.set()
            self._return = None

    def _make_room(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None


class Pace:
    """Counts the runs of one event loop. With many runs, each writes its deltas less often."""

    def __init__(self) -> None:
        self._runs = 0
        self.pause = 0.0  # the seconds between two writes of a run, if these can wait

    @contextmanager
    def running(self) -> Iterator[None]:
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        self._runs += change
        pause = min(self._runs * _SECONDS_PER_RUN, _LONGEST)
        self.pause = pause if pause >= _SHORTEST else 0.0


_pace: RunVar[Pace] = RunVar("argstream_pace")


def pace_here() -> Pace:
    try:
        return _pace.get()
    except LookupError:
        pace = Pace()
        _pace.set(pace)
        return pace
