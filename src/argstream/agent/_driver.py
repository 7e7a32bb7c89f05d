"""Drives a run: reads the model, runs tools and approvers, writes the log, passes events on.

The loop decides the next step, and the driver performs the I/O. The main task of a run writes
steps, receives commands and renews the lease. One task reads the stream of the model, and writes
deltas itself if none were written for a moment. Each tool and each question to the approver is a
task. Events are written to the log of the run before they are handed out or acted on.

The same driver serves an ``Agent`` and an ``Observer``. Each has a ``Source`` of its runs.
"""

import asyncio
import contextvars
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from msgspec import Struct

from argstream import events as ev
from argstream._asyncio import Notifier, cancel_until_done, shielded
from argstream.agent._lease import RunLog
from argstream.agent._loop import (
    AgentLoop,
    Answer,
    AskModel,
    AskPerson,
    CancelTool,
    CloseStream,
    Effect,
    EndText,
    Execute,
    Step,
    Toolbox,
)
from argstream.agent.approvals import Approver, Decider, is_cancelled
from argstream.agent.tools import BoundCall, TextFeed, Tool, ToolContext, failure_message
from argstream.assembly import Call, Numbering
from argstream.errors import (
    ArgstreamError,
    RunBusyError,
    RunError,
    StoreError,
    StreamError,
    UsageError,
)
from argstream.history import Message
from argstream.runs._records import Record, coalesced
from argstream.runs._state import RunState
from argstream.sanitise import visible_line
from argstream.streaming import AsyncEventStream

if TYPE_CHECKING:
    from argstream.agent.observer import ObserverLoop

    AnyLoop: TypeAlias = AgentLoop | ObserverLoop

_QUEUE_ROOM: Final = 512
_FLUSH_INTERVAL: Final = 0.03  # seconds between two writes that contain only deltas
_OUTBOX_ROOM: Final = 256
_GRACE: Final = 10.0  # seconds for a tool to undo what it did, before it is cancelled
_GRACE_AFTER_STOP: Final = 1.0
_INTERRUPT_GRACE: Final = 5.0  # seconds that a source may take to end when it was interrupted
_LINGER: Final = 1.0  # seconds for a stream to end after its turn, so its connection can be reused
_CATCHING_UP: Final = 1.0  # seconds that a pause waits for the consumer to reach it
_CANCEL_AGAIN: Final = 1.0  # seconds between two cancellations of a stream
_CLOSING: Final = 5.0  # seconds for a stream to close when the run ends
_LEAVING: Final = 5.0  # seconds to release a lease when all else is over: it expires anyway

logger = logging.getLogger("argstream.agent")

EventHook: TypeAlias = Callable[[Record], Awaitable[None] | None]
"""Called with each record just before the consumer of the run receives it. It may be async."""

_inside: ContextVar[tuple["Driver", ...]] = ContextVar("argstream_runs", default=())
"""The runs that the current task is a part of: as a tool, a model or an approver."""


class Source(ABC):
    """A run, as its driver and its handle see it: how it begins, and the origin of its events."""

    approver: Approver | None = None
    is_observed: bool = False  # another program runs the tools and decides when the run ends
    is_resumable: bool = True  # another process can resume a run that is cut off here
    interrupt: Callable[[], Awaitable[object]] | None = None  # asks it to end by itself, if it can

    @abstractmethod
    async def begin(self) -> Step:
        """Return the first step. Called with the first iteration."""

    @abstractmethod
    def open(self, messages: tuple[Message, ...], after: Numbering) -> AsyncEventStream: ...

    @abstractmethod
    def failure(self, error: BaseException) -> ev.Event:
        """Return the event that reports an exception of the stream."""

    @abstractmethod
    def check_protocol(self, protocol: str) -> None:
        """Raise UsageError if streams of this protocol cannot be read here."""

    def events_applied(self) -> None:  # noqa: B027 - an agent does not need it
        """Called after events of the stream were applied."""

    def answer(self, answer: Answer) -> None:  # noqa: B027 - as above
        """Pass on what was decided about a call that the source runs itself."""

    def rested(self) -> None:  # noqa: B027 - as above
        """Called when the run is over or has paused, or nothing of it could be written."""

    def dismiss(self) -> None:  # noqa: B027 - as above
        """Called when the run is not driven here any more."""

    async def load(self) -> RunState:
        """Read the log of a stored run, without resuming it."""
        raise UsageError("only a run that Agent.resume returned for a store can be loaded")

    async def stop(self, reason: str) -> list[ev.Event]:
        """End a run that has paused, and return its last events."""
        raise NotImplementedError

    async def aclose(self) -> None:  # noqa: B027 - most have nothing to close
        """Close what was opened for the event loop of the run."""


class Driver:
    """Drives one run from its start, or from a pause, to its end or the next pause."""

    def __init__(self, loop: "AnyLoop", source: Source, log: RunLog, tools: Toolbox) -> None:
        self.loop: AnyLoop = loop
        self.outbox: Outbox = Outbox()
        self.failure: StreamError | None = None  # why the model could not answer, if it could not
        self.begun: asyncio.Future[None] | None = None  # done when its start is in the store
        self.is_at_rest: bool = False  # nothing more happens here: the run is over, or has paused
        self.source = source
        self._log = log
        self._tools = ToolTasks(self, tools)
        self.decider: Decider = Decider(self, log)
        self._event_loop: asyncio.AbstractEventLoop  # finding it again costs a system call in 3.11
        self._task: asyncio.Task[Any] | None = None  # the main task
        self._children: set[asyncio.Task[None]] = set()
        self._variables: contextvars.Context  # of the main task
        self._crash: BaseException | None = None  # what a child failed with
        self._error: BaseException | None = None  # raised when all events are consumed
        self._reading: TurnReader | None = None
        # What is to be written, in order: steps, and lists of deltas.
        self._queue: list[Step | list[ev.Event]] = []
        self._unwritten: list[Step | list[ev.Event]] = []  # what the main task is writing
        self._reader_writes = False
        self._written = Notifier()  # of a write that is over
        self._flushed_at = 0.0
        self._timer: asyncio.TimerHandle | None = None  # of the next write of deltas
        self._wakeup: asyncio.Future[None] | None = None  # of the main task, while it waits
        self._is_woken = False

    @property
    def has_begun(self) -> bool:
        return self._task is not None

    async def drive(self) -> Record | None:
        """Drive a run that has no consumer, in the current task. Return the last record."""
        self.outbox.leave(discard=True)
        self.loop.defers = True
        self._task = asyncio.current_task()
        await self._drive()
        records = await self.outbox.fetch()
        return records[-1] if records else None

    async def close(self) -> bool:
        """Wait until the driver has finished.

        Return False if it was not started, or if the caller is one of its tasks.
        """
        self.outbox.leave()
        if self._task is None or self in _inside.get():
            return False
        await shielded(asyncio.wait([self._task]))
        return True

    @property
    def is_stopped_with_another(self) -> bool:
        """Whether the consumer is a part of another run that is ending."""
        return any(driver.loop.is_ending for driver in _inside.get())

    async def abandon(self) -> None:
        """Leave a run that has a log to other processes."""
        if self._task is not None and not self.is_at_rest:
            self._task.cancel()
            await self.close()

    def start(self) -> None:
        self._task = asyncio.create_task(self._drive())

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start a task that is a part of the run. What it raises ends the run."""
        # A decision or a stop may come from a task that is no part of the run.
        task = asyncio.create_task(work, context=self._variables.copy())
        self._children.add(task)
        task.add_done_callback(self._child_ended)
        return task

    def _child_ended(self, task: "asyncio.Task[None]") -> None:
        self._children.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._crash = self._crash or error
        self._wake()

    # Steps and deltas

    def act(self, step: Step) -> None:
        """Queue a step, which is carried out when it is written. Call it in the run's loop."""
        self._queue.append(step)
        self._wake()

    def write_soon(self) -> None:
        """Wake the main task, so that it sends unsent decisions."""
        self.act(Step([], []))

    def publish_deltas(self, deltas: list[ev.Event]) -> None:
        self._queue.append(deltas)
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is None and not self._is_woken:
            due = self._flushed_at + _FLUSH_INTERVAL
            self._timer = self._event_loop.call_at(due, self._wake)

    async def room(self) -> None:
        await self.outbox.room()
        while len(self._queue) >= _QUEUE_ROOM and not self.is_at_rest:
            self._wake()
            await self._written.wait()

    # The main task

    async def _drive(self) -> None:
        outside = _inside.set((*_inside.get(), self))
        self._variables = contextvars.copy_context()
        self._event_loop = asyncio.get_running_loop()
        log = self._log
        try:
            await self._flush()
            if self.begun is not None and not self.begun.done():
                self.begun.set_result(None)
            self.begun = None
            log.start(self._wake)  # its start is stored, so others may send commands
            while not self.is_at_rest:
                await log.renew_if_due()
                if log.may_have_commands:
                    await self.decider.receive(await log.commands())
                await self._woken()
                if self._queue:
                    await self._flush()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - raised when all events are consumed
            self._error = self._error or error
        finally:
            await shielded(self._end())
            _inside.reset(outside)

    def _wake(self) -> None:
        self._is_woken = True
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def _woken(self) -> None:
        if not self._is_woken:
            self._wakeup = self._event_loop.create_future()
            await self._wakeup
        self._is_woken = False
        if self._crash is not None:
            crash, self._crash = self._crash, None
            try:
                raise crash
            finally:
                del crash  # it refers to this frame, and this frame to it

    async def _end(self) -> None:
        await self._reader_has_written()  # what is being written must not be cut off
        if self._reading is not None and not self._reading.task.done():
            task = self._reading.task
            if not (self._reading.is_closing or task.cancelling()):
                task.cancel()
            await asyncio.wait([task], timeout=_CLOSING)  # its stream is closed in order
        await asyncio.gather(*map(cancel_until_done, self._children))
        await self._leave(self._log)
        self.decider.give_up()
        self.source.dismiss()
        self.source.events_applied()
        error, self._error = self._error, None
        self.outbox.close(error)

    async def _leave(self, log: RunLog) -> None:
        """Release a run that was cut off here. Its log says how far it has come."""
        log.close()
        if self.is_at_rest:
            return
        self.is_at_rest = True
        if self._error is None and self.source.is_resumable:
            message = f"run {self.loop.run_id} was interrupted. Use Agent.resume() to continue it"
            self._error = RunError("interrupted", message)
        if not log.has_begun:
            self.source.rested()  # nothing of it is in the store
        try:
            async with asyncio.timeout(_LEAVING):
                if not self.source.is_resumable:
                    await self._write_end(log)
                await log.release()
        except (ArgstreamError, TimeoutError) as error:
            if not isinstance(self._error, StoreError):  # which is raised, and says the same
                message = "could not release the lease of run %s, which will expire: %s"
                why = visible_line(str(error)) or "timed out"
                logger.warning(message, self.loop.run_id, why)

    async def _write_end(self, log: RunLog) -> None:
        """Write the end of a run that no other process can resume."""
        steps = _steps([*self._unwritten, *self._queue])
        rest = [event for step in steps for event in step.events]
        rest += self.loop.crashed("interrupted", "the run was interrupted").events
        if log.has_begun and not isinstance(self._error, RunBusyError | StoreError):
            self._conclude(await log.write(coalesced(rest)))

    # Writing

    async def _flush(self) -> None:
        """Write all that waits. Only the main task writes steps."""
        await self._reader_has_written()
        if self._queue:
            self._unwritten = self._take()
            await self._write(self._unwritten)
            self._unwritten = []

    async def _reader_has_written(self) -> None:
        while self._reader_writes:
            await self._written.wait()

    async def _pass_on(self, deltas: list[ev.Event], reading: "TurnReader") -> bool:
        """Hand out deltas that were read, and write them at once if none were for a moment.

        Return False if that failed, or reading was closed meanwhile.
        """
        self._queue.append(deltas)
        if self._unwritten or self._is_woken:
            return True
        if self._event_loop.time() < self._flushed_at + _FLUSH_INTERVAL:
            self._schedule()
            return True
        self._reader_writes = True
        try:
            await self._write_deltas(self._take())
        except Exception as error:  # noqa: BLE001 - of the store: the model has not failed
            self._fail(error)
            return False
        finally:
            self._reader_writes = False
            if self._written.waiting:
                self._written.notify()
        return not reading.is_closed

    def _take(self) -> "list[Step | list[ev.Event]]":
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._flushed_at = self._event_loop.time()
        taken, self._queue = self._queue, []
        return taken

    async def _write_deltas(self, taken: "list[Step | list[ev.Event]]") -> None:
        """Write what has come since the last write: lists of deltas, and no step."""
        given: Any = taken
        deltas = given[0] if len(given) == 1 else coalesced(e for one in given for e in one)
        records = await self._log.write_deltas(deltas, are_read=not self.outbox.discards)
        self.outbox.add(records, joined=len(taken) - 1)

    async def _write(self, taken: "list[Step | list[ev.Event]]") -> None:
        if not any(isinstance(item, Step) for item in taken):
            await self._write_deltas(taken)
            self._written.notify()
            return
        waiting = _steps(taken)
        await self.decider.post_stop()
        records = await self._log.write([event for step in waiting for event in step.events])
        self._written.notify()
        rests = [number for number, step in enumerate(waiting) if step.rests]
        last: list[Record] = []  # of the pause or the end
        end = 0
        for number, step in enumerate(waiting):
            start, end = end, end + len(step.events)
            if rests[-1:] == [number]:
                last = records[start:end]
                continue
            self.outbox.add(records[start:end])
            for effect in step.effects:
                self._do(effect)
            self.decider.withdraw_decided()
        self.outbox.add([], joined=max(0, len(taken) - len(records)))
        # The store is awaited last, because the lease may be lost meanwhile, and no effect may
        # follow that (invariant 11).
        if rests:
            await self._rest(last)
        await self.decider.post_decisions()

    async def _rest(self, records: list[Record]) -> None:
        """Finish after a pause or an end. Continue if a command came during the pause."""
        if not (records and records[-1].event.run_status == "paused"):
            self._conclude(records)
            return
        *before, pause = records
        self.outbox.add(before)
        if self.loop.is_paused:
            await self.outbox.caught_up(_CATCHING_UP)  # the consumer may decide on a request
        going_on = await self.decider.after_pause()
        while going_on is None and self.decider.unsent and self.loop.is_paused:
            going_on = await self.decider.after_pause()
        if going_on is not None:
            self._queue.append(going_on)
            self._wake()
        if going_on is not None or not self.loop.is_paused:
            self.outbox.add([pause])
        else:
            self._conclude([pause])

    def _conclude(self, records: list[Record]) -> None:
        """Hand out the last records. Their consumer finds the run at rest."""
        self.is_at_rest = True
        self.source.rested()
        self.decider.give_up()
        self.outbox.add(records)
        self._wake()

    def _do(self, effect: Effect) -> None:
        match effect:
            case AskModel(messages):
                self._reading = reading = TurnReader(self._tools.tools)
                reading.task = self.spawn(self._read_turn(messages, reading))
            case AskPerson(request):
                self.decider.ask(request)
            case Execute():
                self._tools.start(effect)
            case EndText():
                self._tools.end_text(effect)
            case CancelTool(call_id, undoes):
                self._tools.end(call_id, _GRACE_AFTER_STOP if undoes else 0)
            case CloseStream(may_end_itself):
                if self.source.interrupt is not None or may_end_itself:
                    _ = self.spawn(self._interrupt())
                else:
                    self._close_reading(self._reading)
            case Answer():
                self.source.answer(effect)

    def approver_failed(self, error: BaseException) -> None:
        """End the run without running the call, and raise the error when it has ended."""
        if not self.loop.is_ending:
            self._error = error
        message = f"the approver failed with {type(error).__name__}"
        message = str(error) if isinstance(error, UsageError) else message
        self.act(self.loop.failed("approver_failed", message))

    # Reading

    def _close_reading(self, reading: "TurnReader | None") -> None:
        """Read no more. What the reader is writing is not cut off."""
        if reading is not None and not reading.task.done():
            reading.is_closed = True
            if reading.has_started and not (self._reader_writes or reading.is_closing):
                reading.task.cancel()
                _ = self.spawn(self._cancel_again(reading))

    async def _cancel_again(self, reading: "TurnReader") -> None:
        while not (await asyncio.wait([reading.task], timeout=_CANCEL_AGAIN))[0]:
            if not reading.is_closing:
                reading.task.cancel()

    async def _interrupt(self) -> None:
        reading, interrupt = cast("TurnReader", self._reading), self.source.interrupt
        try:
            async with asyncio.timeout(_INTERRUPT_GRACE):
                if interrupt is not None:
                    await interrupt()
                await asyncio.wait([reading.task])
        except TimeoutError:
            pass
        except Exception as error:
            logger.info("the source could not be interrupted", exc_info=_shown(error))
        self._close_reading(reading)

    async def _read_turn(self, messages: tuple[Message, ...], reading: "TurnReader") -> None:
        events: AsyncEventStream | None = None
        reading.has_started = True
        try:
            if not reading.is_closed:
                events = self.source.open(messages, self.loop.numbering)
                await self._read(events, reading)
        except (Exception, asyncio.CancelledError) as error:
            if not is_cancelled(error):
                self._source_failed(error, reading)
            elif not reading.is_closed:
                raise
        finally:
            if events is not None:
                reading.is_closing = True  # by the task that has read it, and without being cut off
                await events.aclose()
        usage = None if events is None else events.usage
        self.act(self.loop.stream_ended(usage, reading.failure))
        self.source.events_applied()

    def _source_failed(self, error: BaseException, reading: "TurnReader") -> None:
        if reading.turn_is_over or self.loop.is_ending:
            # The turn is complete, or the run is stopped: errors of the connection do not matter.
            logger.info("the stream failed after its turn", exc_info=_shown(error))
            return
        if isinstance(error, StreamError) and not self.source.is_observed:
            self.failure = error
        elif isinstance(error, Exception):
            self._error = error  # it is raised when the run has ended
        reading.failure = self.source.failure(error)

    async def _read(self, events: AsyncEventStream, reading: "TurnReader") -> None:
        outbox, loop, is_observed = self.outbox, self.loop, self.source.is_observed
        is_checked = False
        async for first in events:
            batch = [first, *events.rest_of_batch()]
            if reading.is_closed or (loop.is_ending and not is_observed):
                return  # it was stopped
            if not is_checked:
                self.source.check_protocol(events.protocol)
                is_checked = events.protocol != "auto"
            if not reading.texts and _are_deltas(batch):  # nearly always
                if not await self._pass_on(loop.apply_deltas(batch), reading):
                    return
            else:
                self._apply_batch(batch, events.calls, reading)
                if reading.turn_is_over and not (is_observed or reading.lingers):
                    reading.lingers = True
                    self._event_loop.call_later(_LINGER, self._close_reading, reading)
            self.source.events_applied()
            if outbox.is_full or len(self._queue) >= _QUEUE_ROOM:
                await self.room()

    def _apply_batch(
        self, events: list[ev.Event], calls: Sequence[Call], reading: "TurnReader"
    ) -> None:
        is_observed, deltas = self.source.is_observed, list[ev.Event]()
        for event in events:
            if event.is_delta or event.is_computed:
                deltas.append(event)
                continue
            self._apply_deltas(deltas, reading)
            deltas = []
            if not is_observed:
                reading.note(event, calls)
            self.act(self.loop.events_received([event]))
        self._apply_deltas(deltas, reading)

    def _apply_deltas(self, deltas: list[ev.Event], reading: "TurnReader") -> None:
        if deltas:
            self.publish_deltas(self.loop.apply_deltas(deltas))
        if reading.texts:
            for event in deltas:
                if (early := reading.grow(event)) is not None:
                    self._tools.start_early(early)


def _shown(error: BaseException) -> Exception:
    """Return an error for the log. Line breaks in its text could imitate other lines."""
    return Exception(visible_line(failure_message(error))).with_traceback(error.__traceback__)


def _are_deltas(events: list[ev.Event]) -> bool:
    for event in events:  # noqa: SIM110 - all() would cost a call per event
        if not (event.is_delta or event.is_computed):
            return False
    return True


def _steps(waiting: Iterable[Step | list[ev.Event]]) -> list[Step]:
    """Wrap events that came without a step in steps, and coalesce their deltas."""
    steps: list[Step] = []
    for is_step, some in groupby(waiting, key=lambda one: isinstance(one, Step)):
        if is_step:
            steps += cast("Iterator[Step]", some)
        else:
            events = chain.from_iterable(cast("Iterator[list[ev.Event]]", some))
            steps.append(Step(coalesced(events), []))
    return steps


class _Running(Struct):
    task: "asyncio.Task[None] | None"
    context: ToolContext
    has_started: bool = False
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True
        if self.has_started and self.task is not None:
            self.task.cancel()


class ToolTasks:
    def __init__(self, driver: Driver, tools: Toolbox) -> None:
        self._driver = driver
        self._loop = cast("AgentLoop", driver.loop)
        self.tools = tools
        self._running: dict[str, _Running] = {}  # by call
        self._early: dict[str, StreamedCall] = {}  # those that read their text, by call

    def start_early(self, early: "StreamedCall") -> None:
        step = self._loop.start_early(early.call.id)
        if step.effects:
            self._early[early.call.id] = early
        self._driver.act(step)

    def start(self, effect: Execute) -> None:
        call_id, name, text, key = effect

        def output(piece: str) -> None:
            delta: ev.Event = ev.ToolOutputDelta(call_id, name, piece)
            self._driver.publish_deltas(self._loop.apply_deltas([delta]))

        context = ToolContext(self._loop.run_id, call_id, name, key, output, self._driver.room)
        self._running[call_id] = running = _Running(None, context)
        running.task = self._driver.spawn(self._execute(running, text))

    def end_text(self, effect: EndText) -> None:
        feed = self._early[effect.call_id].feed
        if effect.interruption is None:
            feed.finish()
        else:
            feed.interrupt(effect.interruption)
            self.end(effect.call_id, _GRACE)

    def end(self, call_id: str, grace: float) -> None:
        """Let a tool end by itself, and cancel it after so many seconds."""
        running = self._running[call_id]
        running.context.cancel()
        if grace:
            asyncio.get_running_loop().call_later(grace, running.cancel)
        else:
            running.cancel()

    async def _execute(self, running: _Running, text: str | None) -> None:
        running.has_started = True
        context = running.context
        tool = self.tools[context.name]
        result: Any = "it was stopped"
        failed = True
        try:
            if not (running.is_cancelled or self._loop.is_ending):  # while its start was written
                early = self._early[context.call_id].bound if text is None else None
                result = await tool.execute(early or tool.bind(text or ""), context)
                failed = False
        except Exception as error:
            logger.info("the tool %r failed", tool.name, exc_info=_shown(error))
            result = failure_message(error)
        except asyncio.CancelledError:
            if not running.is_cancelled:
                raise
        self._driver.act(self._loop.tool_returned(context.call_id, result, failed=failed))


@dataclass(eq=False)
class StreamedCall:
    """A call whose tool reads its text, or may read it, while the model writes it."""

    call: Call
    tool: Tool
    feed: TextFeed = field(default_factory=TextFeed)
    bound: BoundCall | None = None  # once its tool was started


@dataclass(eq=False)
class TurnReader:
    tools: Toolbox
    task: "asyncio.Task[None]" = field(init=False)
    has_started: bool = False
    is_closed: bool = False  # no more is to be read
    is_closing: bool = False  # the stream is being closed
    turn_is_over: bool = False  # whether the model has ended its turn; its stream may not have
    lingers: bool = False  # it is closed in a moment, because the turn is over
    failure: ev.Event | None = None
    texts: dict[str, StreamedCall] = field(default_factory=dict)  # by call

    def note(self, event: ev.Event, calls: Sequence[Call]) -> None:
        match event:
            case ev.ToolCallStarted(call_id=call_id, name=name, kind="function", parent_id=None):
                tool = self.tools.get(name)
                if tool is not None and tool.streamed is not None:
                    call = next(call for call in reversed(calls) if call.id == call_id)
                    self.texts[call_id] = StreamedCall(call, tool)
            case ev.ToolArgsCompleted() | ev.ToolArgsInvalid():
                self.texts.pop(event.call_id, None)
            case ev.TurnCompleted(parent_id=None):
                self.turn_is_over = True

    def grow(self, event: ev.Event) -> StreamedCall | None:
        """Pass a piece of text to its tool. Return the call if its tool can start now."""
        if not isinstance(event, ev.ArgumentEvent):
            return None
        text = self.texts.get(event.call_id)
        if text is None or len(event.path) != 1:
            return None
        if isinstance(event, ev.ArgumentDelta):
            if event.path[0] == text.tool.streamed:
                text.feed.add(event.text)
            return None
        call = text.call  # it may be further than the events
        if text.bound is None and call.name == text.tool.name and self.tools.may_start_early(call):
            text.bound = text.tool.bind_early(call, text.feed)
            return None if text.bound is None else text
        return None


class Outbox:
    """Holds records until they are fetched. Producers of many wait for room."""

    def __init__(self) -> None:
        self._held: list[Record] = []
        self._joined = 0  # how many events were joined into the records that are held
        self._is_awaited = False  # the consumer has fetched all and waits for more
        self._is_left = False
        self.discards: bool = False  # keeps only the last record
        self._is_closed = False
        self._error: BaseException | None = None
        self._filled = Notifier()
        self._emptied = Notifier()

    def add(self, records: list[Record], joined: int = 0) -> None:
        """Add records. ``joined`` events were coalesced into them and count towards the limit."""
        if self.discards:
            self._held = records[-1:] or self._held
            return
        self._held += records
        self._joined += joined
        if records:
            self._filled.notify()

    @property
    def is_full(self) -> bool:
        return len(self._held) + self._joined >= _OUTBOX_ROOM and not self._is_left

    async def room(self) -> None:
        while self.is_full:
            await self._emptied.wait()

    async def fetch(self) -> list[Record]:
        """Return the next records, at least one; none when it is closed and all are fetched."""
        while not (self._held or self._is_closed):
            self._is_awaited = True
            if self._emptied.waiting:
                self._emptied.notify()
            await self._filled.wait()
        self._is_awaited = False
        if not self._held and self._error is not None:
            error, self._error = self._error, None
            raise error
        return self.take()

    def take(self) -> list[Record]:
        records, self._held, self._joined = self._held, [], 0
        if self._emptied.waiting:
            self._emptied.notify()
        return records

    def leave(self, *, discard: bool = False) -> None:
        """Mark that no more records are fetched, so producers need not wait for room."""
        self._is_left, self.discards = True, discard
        self._emptied.notify()

    def close(self, error: BaseException | None) -> None:
        """Mark the end of the records. The error is raised when all are fetched."""
        self._is_closed = True
        self._error = self._error or error
        self._filled.notify()

    async def caught_up(self, seconds: float) -> None:
        """Wait until the consumer has fetched all records or has left, at most ``seconds``."""
        await self._emptied.until(
            lambda: self._is_left or (self._is_awaited and not self._held), seconds
        )
