"""A run of an agent: iterate over it with ``async for`` or ``for``, or await its result."""

import asyncio
import atexit
import contextvars
import inspect
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import closing
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar, cast

import anyio
from msgspec.structs import replace

from argstream.agent._driver import EventHook, RunConfig, Runner
from argstream.agent._lease import RunLog, RunPosition
from argstream.agent._loop import AgentLoop, Step
from argstream.agent.approvals import Approval
from argstream.agent.result import Conversation, RunResult
from argstream.errors import RunError, UsageError
from argstream.events import ApprovalRequested, Event, RunFailed, RunPaused
from argstream.runs._records import Record

if TYPE_CHECKING:
    from argstream.agent.agent import Agent

Answer = TypeVar("Answer")
_HAS_CONSUMER: Final = "the run already has a consumer. Start another with run_stream()"
_AT_EXIT: Final = 5.0  # seconds that the program's end waits for a run that was left behind
_LAST_WORDS: Final = 5.0  # seconds that a hook may take for the last events of a run that was left
NOT_FOLLOWED: Final = "the run is not followed any more"


class AsyncClosing(ABC):
    @abstractmethod
    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class FollowedRun(AsyncClosing):
    """A run to iterate over with ``async for`` or ``for``, or to await."""

    _kept: AsyncIterator[Event]

    @abstractmethod
    def iterate_async(self, *, records: bool) -> AsyncGenerator[Event | Record, None]: ...

    @abstractmethod
    def iterate(self, *, records: bool) -> Iterator[Event | Record]: ...

    def __aiter__(self) -> AsyncGenerator[Event, None]:  # noqa: PYI058 - so that it can be closed
        """Iterate over the events. Dropping the iterator, by leaving a loop, stops the run."""
        return cast("AsyncGenerator[Event, None]", self.iterate_async(records=False))

    def __iter__(self) -> Iterator[Event]:
        """Iterate without an event loop. The run is driven by a loop of its own, in a thread."""
        return cast("Iterator[Event]", self.iterate(records=False))

    def records(self) -> "RunRecords":
        """Iterate over the same events as ``Record``s, with ``async for`` or ``for``.

        A record adds the run, the conversation, the agent, the time and ``seq``, the position in
        the run's log. With a store, ``Store.follow(run_id, after=seq)`` continues after a record.
        Argument events are not kept in a log: they carry the ``seq`` of the record that they were
        computed from.
        """
        return RunRecords(self)

    @abstractmethod
    def _outcome(self) -> RunResult: ...

    async def __anext__(self) -> Event:
        self._kept = aiter(self)  # the run keeps the iterator of ``anext``
        return await anext(self._kept)

    def __await__(self) -> Generator[Any, None, RunResult]:
        return self._wait().__await__()

    async def _wait(self) -> RunResult:
        async for _ in self:
            pass
        return self._outcome()


class RunRecords:
    """The records of a run, to iterate over once."""

    def __init__(self, run: FollowedRun) -> None:
        self._run = run

    def __aiter__(self) -> AsyncIterator[Record]:
        return cast("AsyncGenerator[Record, None]", self._run.iterate_async(records=True))

    def __iter__(self) -> Iterator[Record]:
        return cast("Iterator[Record]", self._run.iterate(records=True))


class Course(NamedTuple):
    machine: AgentLoop
    begin: Callable[[], Awaitable[Step]]
    position: RunPosition
    log: RunLog | None = None


class AgentRun(FollowedRun):
    """One run: its events as they happen, and its result.

    It begins with the first iteration, and ends with ``RunCompleted``, ``RunFailed`` or
    ``RunStopped``, or pauses with ``RunPaused``. Leaving a loop over it stops it.
    """

    def __init__(
        self,
        course: Course,
        setting: RunConfig,
        conversation: Conversation,
        agent: "Agent",
    ) -> None:
        machine, self._begin, position, log = course
        self.conversation = conversation
        self._machine = machine
        self._setting = setting
        self._agent = agent
        # Nothing that drives a run may refer to this: dropping it stops the run.
        on_rest = partial(agent.rested, conversation, position)
        runner = Runner(machine, setting, on_rest, position, log)
        self._following = _Following(runner, setting.on_event, outlives=log is not None)
        self._is_logged = log is not None
        self._generator: weakref.ref[AsyncGenerator[Event | Record, None]] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_reason: str | None = None  # of a stop before it had begun

    @property
    def run_id(self) -> str:
        """The ID of the run, as in its events and for ``Agent.resume``."""
        return self._machine.state.run_id

    @property
    def pending(self) -> tuple[ApprovalRequested, ...]:
        """The requests that can be decided now."""
        return self._machine.pending

    @property
    def result(self) -> RunResult:
        """The result so far; complete when the events are over."""
        state = self._machine.state
        return RunResult(
            run_id=state.run_id,
            outcome=state.status,
            text=state.text,
            tools=[replace(use) for use in state.uses.values()],
            usage=state.usage,
            stop_reason=state.stop_reason,
            pending=self.pending,
            messages=self._machine.final_messages,
        )

    def check(self, call_id: str, decision: Approval) -> None:
        """Raise UsageError if ``decide`` would, and change nothing."""
        self._machine.check({call_id: decision})

    def decide(self, call_id: str, decision: Approval) -> None:
        """Decide on a call while the run continues. May be called from any thread.

        Raises UsageError, and changes nothing, if the call is not pending or edited arguments are
        not valid. If the run has a log, others may decide too. The first decision counts.
        """
        loop, runner = self._home(), self._following.runner
        if _is_running_here(loop):
            runner.decider.decide(call_id, decision)
        else:
            posting = runner.decider.post(call_id, decision)
            try:
                asyncio.run_coroutine_threadsafe(posting, loop).result()
            except CancelledError:
                raise UsageError(f"the run {self._where()}") from None

    def stop(self, reason: str = "") -> list[Event]:
        """End the run from any thread: read no more, and cancel its tools.

        If the run has paused and no process drives it, return the last events that it wrote.
        Otherwise the list is empty: the consumer of the run receives them.
        """
        if self._loop is None or not self._following.runner.has_begun:
            self._stop_reason = reason  # it will end as soon as it begins
        elif self._machine.is_paused and self._is_kept():
            with closing(LoopThread()) as loop:  # a loop that runs in this thread cannot wait
                return loop.call(lambda: self._agent.stop_async(self.run_id, reason))
        elif self._machine.is_paused:
            self._stop_in(self._loop, reason)  # its consumer has not reached the pause
        elif not self._machine.is_over:
            self._stop_in(self._home(), reason)
        return []

    def _is_kept(self) -> bool:
        """Return True if a paused run no longer belongs to this object."""
        if self._is_logged:
            return self._following.runner.is_at_rest
        return self._following.has_told_pause

    def _home(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or not self._following.runner.has_begun:
            raise UsageError("the run has not begun: follow it with 'for' or 'async for'")
        if self._following.runner.is_at_rest:
            raise UsageError(f"the run {self._where()}")
        return self._loop

    def _stop_in(self, loop: asyncio.AbstractEventLoop, reason: str) -> None:
        decider = self._following.runner.decider
        if _is_running_here(loop):
            decider.stop(reason)
            return

        async def stopping() -> None:
            decider.stop(reason)

        asyncio.run_coroutine_threadsafe(stopping(), loop).result()

    def _where(self) -> str:
        if self._machine.is_paused:
            return "has paused: use Agent.resume or Agent.stop"
        return "is over" if self._machine.is_over else "goes on in what Agent.resume gave"

    def iterate_async(self, *, records: bool) -> AsyncGenerator[Event | Record, None]:
        self._following.yields_records = records
        generator = None if self._generator is None else self._generator()
        if generator is None:
            generator = self._following.items(self._start)
            self._generator = weakref.ref(generator)
        return generator

    async def begun(self) -> None:
        """Begin the run, and wait until its first record is in the store; then follow it.

        Its consumer still receives all events. Raises what keeps the run from beginning or
        resuming. Call it before iterating over the run. Dropping the run stops it.
        """
        if self._loop is not None:
            raise UsageError("the run already has a consumer. Call begun() before you iterate")
        events = aiter(self)
        self._following.is_awaited = True
        try:
            await anext(events)
        except BaseException:
            self._generator = None  # it may be tried again, if it has not begun
            raise
        finally:
            self._following.is_awaited = False
        self._kept = events  # dropping the run drops the iterator

    async def aclose(self) -> None:
        """Stop the run, unless it has ended, or its pause was consumed."""
        await self._following.close()

    async def _start(self) -> None:
        if self._loop is not None:
            return
        await self._agent.catch_up(self.conversation, self.run_id)
        if self.conversation.run_id not in (None, self.run_id):
            raise UsageError(
                f"the conversation already has an active run ({self.conversation.run_id}). "
                "Resume or stop that one first"
            )
        self._loop = asyncio.get_running_loop()
        try:
            step = await self._begin()
        except BaseException:
            self._loop = None
            raise
        self.conversation.run_id = self.run_id
        self._following.runner.start(step)
        if self._stop_reason is not None:
            self._following.runner.decider.stop(self._stop_reason)

    def _outcome(self) -> RunResult:
        failure = self._following.failure
        if failure is not None:
            cause = self._following.runner.failure
            retryable = cause is not None and cause.retryable
            raise RunError(failure.code, failure.message, self.result, retryable) from cause
        return self.result

    def iterate(self, *, records: bool) -> Iterator[Event | Record]:
        if self._loop is not None:
            raise UsageError(_HAS_CONSUMER)
        return self._items(records=records)

    def _items(self, *, records: bool) -> Iterator[Event | Record]:
        if self._loop is not None:  # by another iterator, meanwhile
            raise UsageError(_HAS_CONSUMER)
        following = self._following
        batch, has_hook = following.batch, following.has_hook
        with closing(LoopThread(self._leave_loop)) as loop:
            try:
                while loop.call(self._fetch):
                    while batch:
                        record = batch.popleft()
                        event = record.event
                        if has_hook or not (event.is_delta or event.is_computed):
                            answer = following.note(record)
                            if answer is not None:
                                loop.wait_for(answer)
                        yield record if records else event
            except KeyboardInterrupt:
                if self._is_logged:  # as a task that is cancelled leaves it
                    loop.call(following.runner.abandon)
                raise

    async def _fetch(self) -> bool:
        await self._start()
        return await self._following.fill()

    def wait(self) -> RunResult:
        """Wait until the run has ended or paused, and return its result."""
        if self._loop is None:
            for _ in self:
                pass
        elif not self._following.runner.is_at_rest:
            raise UsageError(_HAS_CONSUMER)
        return self._outcome()

    async def _leave_loop(self) -> None:
        try:
            await self.aclose()
        finally:
            await self._setting.close_model()  # what it keeps for this loop, which is to end


class _Following:
    """The consumer of a run. It must not refer to the ``AgentRun``: dropping that stops the run."""

    def __init__(self, runner: Runner, on_event: EventHook | None, *, outlives: bool) -> None:
        self.runner = runner
        self._outlives = outlives  # whether a run that has paused is kept, told or not
        self.failure: RunFailed | None = None
        self.batch: deque[Record] = deque()  # fetched, but not consumed yet
        self.yields_records = False  # instead of events
        self._on_event = on_event
        self.has_hook = on_event is not None  # deltas are of no interest otherwise
        self.has_told_pause = False
        self._left_at_pause = False
        self._is_closed = False
        self.is_awaited = False  # by begun()

    async def items(
        self, start: Callable[[], Awaitable[None]]
    ) -> AsyncGenerator[Event | Record, None]:
        await start()
        del start  # it refers to the run, which may be dropped
        try:
            batch, has_hook = self.batch, self.has_hook
            if self.is_awaited and await self.fill():
                yield batch[0]  # for begun(): it is consumed later
            while batch or await self.fill():
                while batch:
                    record = batch.popleft()
                    event = record.event
                    if has_hook or not (event.is_delta or event.is_computed):
                        await self._shown(record)
                    yield record if self.yields_records else event
        except asyncio.CancelledError:
            if self._outlives and not self.runner.is_stopped_with_another:
                await self.runner.abandon()  # a program that shuts down should not end its runs
            raise
        finally:
            await self.close()

    async def fill(self) -> bool:
        self.batch.extend(await self.runner.outbox.fetch())
        return bool(self.batch)

    async def close(self) -> None:
        """Stop the run, unless it has ended, or its pause was consumed. Show the hook the rest."""
        machine, runner = self.runner.machine, self.runner
        if not runner.has_begun or self._is_closed:
            return
        is_kept = machine.is_paused and (self.has_told_pause or self._outlives)
        is_cut_off = runner.is_at_rest and not machine.is_paused
        if self._outlives and self._left_at_pause:  # it has gone on since: others may go on
            await runner.abandon()
        elif not (is_kept or is_cut_off):
            runner.decider.stop(NOT_FOLLOWED)
        if await runner.close():
            self._is_closed = True
            self.batch.extend(runner.outbox.take())
            with anyio.move_on_after(_LAST_WORDS, shield=True):
                while self.batch:
                    await self._shown(self.batch.popleft())

    def note(self, record: Record) -> Awaitable[None] | None:
        event = record.event
        match event:
            case RunFailed():
                self.failure = event
            case RunPaused():
                self.has_told_pause = True
            case _:
                pass
        self._left_at_pause = isinstance(event, RunPaused)
        if self._on_event is None:
            return None
        answer = self._on_event(record)
        return answer if inspect.isawaitable(answer) else None

    async def _shown(self, record: Record) -> None:
        answer = self.note(record)
        if answer is not None:
            await answer


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


class LoopThread:
    """Runs coroutines for one thread that waits for them.

    The thread is a daemon: a loop that was left behind must not keep the program from ending. At
    exit it gets a few seconds to end in order.
    """

    def __init__(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """``last`` is awaited in the loop before it ends."""
        self._last = last
        self._is_closed = False
        self._variables = contextvars.copy_context()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="argstream: run", daemon=True)
        self._thread.start()
        atexit.register(self._close_at_exit)

    def call(self, work: Callable[[], Awaitable[Answer]]) -> Answer:
        future = self._begin(work)
        try:
            answer = future.result()
        except BaseException:
            future.cancel()  # if the waiting thread is interrupted
            raise
        if isinstance(answer, _Exit):
            raise answer.error
        return answer

    def wait_for(self, answer: Awaitable[Answer]) -> Answer:
        return self.call(lambda: answer)

    def close(self) -> None:
        """Await ``last`` and end the loop. Later calls do nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self._close_at_exit)
        if threading.current_thread() is self._thread:  # a garbage collection that came there
            self._begin(self._finish)
            return
        try:
            self.call(self._finish)
        finally:
            self._thread.join()

    def _close_at_exit(self) -> None:
        self._is_closed = True
        try:
            self._begin(self._finish).result(_AT_EXIT)
        except TimeoutError:
            return  # the thread ends with the program
        self._thread.join(_AT_EXIT)

    async def _finish(self) -> None:
        try:
            if self._last is not None:
                await self._last()
        finally:
            self._loop.call_soon(self._loop.stop)

    def _begin(self, work: Callable[[], Awaitable[Answer]]) -> "Future[Answer | _Exit]":
        async def with_variables() -> Answer | _Exit:
            task = self._loop.create_task(_awaited(work), context=self._variables.copy())
            return await task

        return asyncio.run_coroutine_threadsafe(with_variables(), self._loop)

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()  # it does not wait for threads that a tool has left behind


def run_alone(work: Callable[[], Awaitable[Answer]], instead: str) -> Answer:
    """Run a coroutine to its end. ``instead`` names what to use inside an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with closing(LoopThread()) as loop:
            return loop.call(work)
    raise UsageError(f"an event loop is running here: use {instead}")


class _Exit(NamedTuple):
    """What ends a program, on its way to the thread that waits for the coroutine."""

    error: SystemExit | KeyboardInterrupt


async def _awaited(work: Callable[[], Awaitable[Answer]]) -> Answer | _Exit:
    try:
        return await work()
    except (SystemExit, KeyboardInterrupt) as error:
        return _Exit(error)  # raised in a task, it would end the loop and not the program
