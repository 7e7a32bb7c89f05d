"""A run of an agent: iterate over it with ``async for`` or ``for``, or await its result."""

import asyncio
import inspect
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import CancelledError
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self, cast

from argstream._asyncio import LoopThread, current_loop, shielded
from argstream.agent._driver import Driver, EventHook
from argstream.agent.approvals import Approval, Decisions, Grant
from argstream.agent.result import Conversation, RunResult
from argstream.errors import RunError, UsageError
from argstream.events import ApprovalRequested, Event, RunFailed, RunPaused
from argstream.runs._records import Record
from argstream.runs._state import RunState

_HAS_CONSUMER: Final = "the run already has a consumer. Start another run"
_HOOK_TIMEOUT: Final = 5.0  # seconds for the hook to receive the rest of a run that was left
NOT_FOLLOWED: Final = "the consumer stopped reading the run"


class AsyncClosing(ABC):
    @abstractmethod
    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Run(AsyncClosing):
    """One run: its events as they happen, its state and its result.

    It begins with the first iteration, and ends with ``RunCompleted``, ``RunFailed`` or
    ``RunStopped``, or pauses with ``RunPaused``. Iterate over it with ``async for`` or ``for``, or
    await its result. Leaving a loop over it stops it.
    """

    def __init__(
        self, driver: Driver, conversation: Conversation, on_event: EventHook | None = None
    ) -> None:
        self.conversation = conversation
        self._source = driver.source
        self._run_loop = driver.loop
        # Nothing that drives a run may refer to this: dropping it stops the run.
        self._consumer = _Consumer(driver, on_event)
        self._generator: weakref.ref[AsyncGenerator[Event | Record, None]] | None = None
        self._kept: AsyncIterator[Event] | None = None
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._is_in_thread = False  # it is iterated without an event loop
        self._stop_reason: str | None = None  # of a stop before it had begun

    @property
    def run_id(self) -> str:
        """The ID of the run, as in its events and for ``Agent.resume``."""
        return self._run_loop.run_id

    @property
    def state(self) -> RunState:
        """The state of the run. It may be ahead of the events that were consumed."""
        return self._run_loop.state

    @property
    def pending(self) -> tuple[ApprovalRequested, ...]:
        """The requests that can be decided now."""
        return self._run_loop.pending

    @property
    def result(self) -> RunResult:
        """The result so far; complete when the events are over."""
        return self._run_loop.result

    async def load(self, grants: Callable[[Conversation], set[Grant]]) -> RunState:
        """Return the state of a stored run without resuming it. For the server.

        ``grants`` returns the set that the runs of a conversation share.
        """
        state = await self._source.load()
        self.conversation.grants = self._run_loop.grants = grants(self.conversation)
        return state

    def check_all(self, decisions: Decisions) -> None:
        """Raise UsageError if the run cannot be resumed with these decisions. For the server."""
        self._run_loop.check(decisions)
        self._run_loop.require_tools(decisions)

    def check(self, call_id: str, decision: Approval) -> None:
        """Raise UsageError if ``decide`` would, and change nothing."""
        self._run_loop.check({call_id: decision})

    def decide(self, call_id: str, decision: Approval) -> None:
        """Decide on a call while the run continues. May be called from any thread.

        Raises UsageError, and changes nothing, if the call is not pending or edited arguments are
        not valid. If the run has a log, others may decide too. The first decision counts.
        """
        loop, decider = self._running_loop(), self._consumer.driver.decider
        if not loop.is_running():
            raise UsageError("the event loop of the run is not running")
        try:
            _call_in(loop, partial(decider.decide, call_id, decision))
        except CancelledError:
            raise UsageError(f"the run {self._where()}") from None

    def stop(self, reason: str = "") -> list[Event]:
        """End the run from any thread: read no more, and cancel its tools.

        If the run has paused and no process drives it, return the last events that it wrote.
        Otherwise the list is empty: the consumer of the run receives them.
        """
        run, stop = self._run_loop, partial(self._consumer.driver.decider.stop, reason)
        self._stop_reason = reason  # set before the check: the run may begin in another thread
        if self._event_loop is None or not self._consumer.driver.has_begun:
            return []  # it will end as soon as it begins
        if run.is_paused and self._consumer.driver.is_at_rest:
            with closing(LoopThread()) as loop:  # a loop that runs in this thread cannot wait
                return loop.call(partial(self._source.stop, reason))
        elif run.is_paused:
            _call_in(self._event_loop, stop)  # its consumer has not reached the pause
        elif not run.is_over:
            _call_in(self._running_loop(), stop)
        return []

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._event_loop is None or not self._consumer.driver.has_begun:
            raise UsageError("the run has not started. Iterate over it first")
        if self._consumer.driver.is_at_rest:
            raise UsageError(f"the run {self._where()}")
        return self._event_loop

    def _where(self) -> str:
        if self._run_loop.is_paused:
            return "has paused: use Agent.resume or Agent.stop"
        return "is over" if self._run_loop.is_over else "is no longer driven by this object"

    def __aiter__(self) -> AsyncGenerator[Event, None]:  # noqa: PYI058 - so that it can be closed
        """Iterate over the events. Dropping the iterator, by leaving a loop, stops the run."""
        return cast("AsyncGenerator[Event, None]", self._iterate_async(records=False))

    def __iter__(self) -> Iterator[Event]:
        """Iterate without an event loop. The run is driven by a loop of its own, in a thread."""
        return cast("Iterator[Event]", self._iterate(records=False))

    def records(self) -> "RunRecords":
        """Iterate over the same events as ``Record``s, with ``async for`` or ``for``.

        A record adds the run, the conversation, the agent, the time and ``seq``, the position in
        the run's log. With a store, ``Store.follow(run_id, after=seq)`` continues after a record.
        Argument events are not kept in a log: they carry the ``seq`` of the record that they were
        computed from.
        """
        return RunRecords(self._iterate_async, self._iterate)

    async def __anext__(self) -> Event:
        self._kept = aiter(self)  # the run keeps the iterator of ``anext``
        return await anext(self._kept)

    def __await__(self) -> Generator[Any, None, RunResult]:
        return self._wait().__await__()

    async def _wait(self) -> RunResult:
        async for _ in self:
            pass
        return self._outcome()

    def _iterate_async(self, *, records: bool) -> AsyncGenerator[Event | Record, None]:
        generator = None if self._generator is None else self._generator()
        if generator is not None and (
            getattr(generator, "ag_running", False) or self._consumer.yields_records != records
        ):
            raise UsageError(_HAS_CONSUMER)
        if generator is None:
            if self._is_in_thread and not self._consumer.is_closed:
                raise UsageError(_HAS_CONSUMER)
            self._consumer.yields_records = records
            generator = self._consumer.items(self._start)
            self._generator = weakref.ref(generator)
        return generator

    async def begun(self) -> None:
        """Begin the run, and wait until its first record is in the store; then follow it.

        Its consumer still receives all events. Raises what keeps the run from beginning or
        resuming. Call it before iterating over the run. Dropping the run stops it.
        """
        if self._event_loop is not None:
            raise UsageError("the run already has a consumer. Call begun() before you iterate")
        events = aiter(self)
        self._consumer.is_awaited = True
        try:
            await anext(events)
        except BaseException:
            self._generator = None  # it may be tried again, if it has not begun
            raise
        finally:
            self._consumer.is_awaited = False
        self._kept = events  # dropping the run drops the iterator

    async def finished(self, begun: "asyncio.Future[None] | None") -> Event | None:
        """Wait until the run has ended or paused, for a process that only drives it.

        ``begun`` is done when the start of the run is in the store. Returns the last event.
        """
        consumer = self._consumer
        if consumer.outlives and not consumer.has_hook:
            consumer.driver.begun = begun
            await self._queue_first_step()
            record = await consumer.driver.drive()
            return None if record is None else record.event
        last: Event | None = None
        async for event in self:
            if begun is not None and not begun.done():
                begun.set_result(None)
            last = event
        return last

    async def aclose(self) -> None:
        """Stop the run, unless it has ended, or its pause was consumed."""
        await self._consumer.close()

    async def _start(self) -> None:
        if self._event_loop is None:
            await self._queue_first_step()
            self._consumer.driver.start()

    async def _queue_first_step(self) -> None:
        self._event_loop, driver = asyncio.get_running_loop(), self._consumer.driver
        try:
            driver.act(await self._source.begin())
        except BaseException:
            self._event_loop = None
            raise
        self.conversation.run_id = self.run_id
        if self._stop_reason is not None:
            driver.decider.stop(self._stop_reason)

    def _outcome(self) -> RunResult:
        end = self.state.end
        if isinstance(end, RunFailed):
            cause = self._consumer.driver.failure
            retryable = cause is not None and cause.retryable
            raise RunError(end.code, end.message, self.result, retryable) from cause
        return self.result

    def _iterate(self, *, records: bool) -> Iterator[Event | Record]:
        if self._event_loop is not None and not self._consumer.is_closed:
            raise UsageError(_HAS_CONSUMER)
        self._is_in_thread = True
        following = self._consumer
        batch, has_hook = following.batch, following.has_hook
        with closing(LoopThread(self._leave_loop)) as loop:
            try:
                while loop.call(self._fetch):
                    while batch:
                        record = batch.pop()
                        event = record.event
                        if has_hook or not (event.is_delta or event.is_computed):
                            answer = following.note(record)
                            if answer is not None:
                                loop.wait_for(answer)
                        yield record if records else event
            except KeyboardInterrupt:
                if following.outlives:  # as a task that is cancelled leaves it
                    loop.call(following.driver.abandon)
                raise

    async def _fetch(self) -> bool:
        await self._start()
        return await self._consumer.fill()

    def wait(self) -> RunResult:
        """Wait until the run has ended or paused, and return its result."""
        if self._event_loop is None:
            for _ in self:
                pass
        elif not self._consumer.driver.is_at_rest:
            raise UsageError(_HAS_CONSUMER)
        return self._outcome()

    async def _leave_loop(self) -> None:
        try:
            await self.aclose()
        finally:
            await self._source.aclose()


@dataclass(eq=False)
class RunRecords:
    """The records of a run, to iterate over once."""

    _iterate_async: Callable[..., Any]
    _iterate: Callable[..., Any]

    def __aiter__(self) -> AsyncIterator[Record]:
        return cast("AsyncIterator[Record]", self._iterate_async(records=True))

    def __iter__(self) -> Iterator[Record]:
        return cast("Iterator[Record]", self._iterate(records=True))


class _Consumer:
    """The consumer of a run. It must not refer to the ``Run``: dropping that stops the run."""

    def __init__(self, driver: Driver, on_event: EventHook | None) -> None:
        self.driver = driver
        self.outlives = driver.source.is_resumable
        self.batch: list[Record] = []  # fetched, but not consumed yet; the next one is last
        self.yields_records = False  # instead of events
        self._on_event = on_event
        self.has_hook = on_event is not None  # deltas are of no interest otherwise
        self._left_at_pause = False
        self.is_closed: bool = False
        self.is_awaited = False  # by begun()

    async def items(
        self, start: Callable[[], Awaitable[None]]
    ) -> AsyncGenerator[Event | Record, None]:
        await start()
        del start  # it refers to the run, which may be dropped
        try:
            batch, has_hook = self.batch, self.has_hook
            if self.is_awaited and await self.fill():
                yield batch[-1]  # for begun(): it is consumed later
            while batch or await self.fill():
                while batch:
                    record = batch.pop()
                    event = record.event
                    if has_hook or not (event.is_delta or event.is_computed):
                        await self._shown(record)
                    yield record if self.yields_records else event
        except asyncio.CancelledError:
            # Leave the run to others: a program that shuts down should not end its runs.
            if self.outlives and not self.driver.is_stopped_with_another:
                await self.driver.abandon()
            raise
        finally:
            await self.close()

    async def fill(self) -> bool:
        self.batch += reversed(await self.driver.outbox.fetch())
        return bool(self.batch)

    async def close(self) -> None:
        """Stop the run, unless it has ended, or its pause was consumed. Show the hook the rest."""
        loop, driver = self.driver.loop, self.driver
        if not driver.has_begun or self.is_closed:
            return
        is_kept = loop.is_paused and (self._left_at_pause or self.outlives)
        is_cut_off = driver.is_at_rest and not loop.is_paused
        if self.outlives and self._left_at_pause:  # it has gone on since: others may go on
            await driver.abandon()
        elif not (is_kept or is_cut_off):
            if driver.is_at_rest:
                await driver.source.stop(NOT_FOLLOWED)
            else:
                driver.decider.stop(NOT_FOLLOWED)
        if await driver.close():
            self.is_closed = True
            self.batch[:0] = reversed(driver.outbox.take())
            await shielded(self._show_rest())

    async def _show_rest(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_HOOK_TIMEOUT):
                while self.batch:
                    await self._shown(self.batch.pop())

    def note(self, record: Record) -> Awaitable[None] | None:
        event = record.event
        self._left_at_pause = isinstance(event, RunPaused)
        if self._on_event is None:
            return None
        answer = self._on_event(record)
        return answer if inspect.isawaitable(answer) else None

    async def _shown(self, record: Record) -> None:
        answer = self.note(record)
        if answer is not None:
            await answer


def _call_in(
    loop: asyncio.AbstractEventLoop, function: Callable[[], Awaitable[None] | None]
) -> None:
    """Call a function in an event loop. In another thread, wait for what it returns.

    If the loop does not run, it calls the function when it runs again.
    """
    if current_loop() is loop:
        function()
        return

    async def called() -> None:
        answer = function()
        if answer is not None:
            await answer

    done = asyncio.run_coroutine_threadsafe(called(), loop)
    if loop.is_running():
        done.result()
