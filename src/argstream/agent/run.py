"""A run of an agent, to be followed with ``async for`` or ``for``, or to be waited for."""

import asyncio
import inspect
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import closing
from functools import partial
from typing import Final, NamedTuple, Protocol

import anyio
from msgspec.structs import replace

from argstream.agent._effects import Step
from argstream.agent._faces import FollowedRun
from argstream.agent._listening import PASSING
from argstream.agent._loop_thread import LoopThread
from argstream.agent._machine import Machine
from argstream.agent._run_log import RunLog, RunPosition
from argstream.agent._setting import EventHook, Setting
from argstream.agent.approvals import Approval
from argstream.agent.conversation import Conversation
from argstream.agent.result import RunResult
from argstream.agent.runner import Runner
from argstream.errors import RunFailure, UsageError
from argstream.events import ApprovalRequested, Event, RunFailed, RunPaused
from argstream.log import Record

__all__ = ["AgentRun", "Course"]

_NOBODY: Final = "nobody follows the run any more"
_LAST_WORDS: Final = 5.0
"""How long a hook may take for what happens when a run is left, in seconds."""


class Keeper(Protocol):
    """Who keeps runs that have paused: the agent."""

    def rested(self, conversation: Conversation, position: RunPosition, machine: Machine) -> None:
        """Take that a run is over, or has paused: before its last event is told."""

    def stop_soon(self, run_id: str, reason: str) -> None:
        """End a run that has paused."""

    async def catch_up(self, conversation: Conversation, run_id: str) -> None:
        """See whether another run of a conversation has ended meanwhile."""


class Course(NamedTuple):
    """How a run goes: its loop, how it begins, its position, and its log, if it has one."""

    machine: Machine
    begin: Callable[[], Awaitable[Step]]
    position: RunPosition
    log: RunLog | None = None


class AgentRun(FollowedRun):
    """One run: its events as they happen, and what came of it.

    It begins when it is first asked for an event, and ends with ``RunCompleted``, ``RunFailed`` or
    ``RunStopped``, or pauses with ``RunPaused``. To leave a loop over it stops it.
    """

    def __init__(
        self,
        course: Course,
        setting: Setting,
        conversation: Conversation,
        keeper: Keeper,
    ) -> None:
        machine, self._begin, position, log = course
        self.conversation = conversation
        self._machine = machine
        self._setting = setting
        self._keeper = keeper
        # Nothing that drives a run may refer to this: who drops it has left the run.
        on_rest = partial(keeper.rested, conversation, position)
        runner = Runner(machine, setting, on_rest, position, log)
        self._following = _Following(runner, setting.on_event, outlives=log is not None)
        self._is_logged = log is not None
        self._generator: weakref.ref[AsyncGenerator[Event | Record, None]] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_reason: str | None = None  # of a stop before it had begun

    @property
    def run_id(self) -> str:
        """What the run is called, in events and for ``Agent.resume``."""
        return self._machine.state.run_id

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
            tools=[replace(use) for use in state.uses.values()],
            usage=state.usage,
            stop_reason=state.stop_reason,
            pending=self.pending,
            messages=self._machine.final_messages,
        )

    def check(self, call_id: str, decision: Approval) -> None:
        """Raise UsageError if ``decide`` would, and change nothing: for who asks a person."""
        self._machine.check({call_id: decision})

    def decide(self, call_id: str, decision: Approval) -> None:
        """Decide on a call while the run goes on, be it that others are still being written.

        Raises UsageError, and changes nothing, if nobody was asked about the call, if it was
        decided already, or if edited arguments are not valid. May be called from any thread. If
        the run has a log, others may decide too: who is first counts.
        """
        loop, runner = self._home(), self._following.runner
        if _is_running_here(loop):
            runner.deciding.decide(call_id, decision)
        else:
            posting = runner.deciding.post(call_id, decision)
            try:
                asyncio.run_coroutine_threadsafe(posting, loop).result()
            except CancelledError:
                raise UsageError(f"the run {self._where()}") from None

    def stop(self, reason: str = "") -> None:
        """End the run: nothing more is read, tools that run are cancelled. From any thread."""
        if self._loop is None or not self._following.runner.has_begun:
            self._stop_reason = reason  # it will end as soon as it begins
        elif self._machine.is_paused and self._is_kept():
            self._keeper.stop_soon(self.run_id, reason)
        elif self._machine.is_paused:
            self._stop_in(self._loop, reason)  # it is told yet
        elif not self._machine.is_over:
            self._stop_in(self._home(), reason)

    def _is_kept(self) -> bool:
        """Say whether a run that has paused is out of our hands."""
        if self._is_logged:
            return self._following.runner.is_at_rest
        return self._following.has_told_pause

    def _home(self) -> asyncio.AbstractEventLoop:
        """Give the event loop that the run is in, if it goes on."""
        if self._loop is None or not self._following.runner.has_begun:
            raise UsageError("the run has not begun: follow it with 'for' or 'async for'")
        if self._following.runner.is_at_rest:
            raise UsageError(f"the run {self._where()}")
        return self._loop

    def _stop_in(self, loop: asyncio.AbstractEventLoop, reason: str) -> None:
        deciding = self._following.runner.deciding
        if _is_running_here(loop):
            deciding.stop(reason)
            return

        async def stopping() -> None:
            deciding.stop(reason)

        asyncio.run_coroutine_threadsafe(stopping(), loop).result()

    def _where(self) -> str:
        if self._machine.is_paused:
            return "has paused: use Agent.resume or Agent.stop"
        return "is over" if self._machine.is_over else "goes on in what Agent.resume gave"

    # In an event loop

    def _iterate_async(self, *, records: bool) -> AsyncGenerator[Event | Record, None]:
        self._following.yields_records = records
        generator = None if self._generator is None else self._generator()
        if generator is None:
            generator = self._following.items(self._start)
            self._generator = weakref.ref(generator)
        return generator

    async def begun(self) -> None:
        """Begin the run, and wait until its first record is in the store; then follow it.

        None of its events is told by that: who follows it gets all of them. Raises what keeps it
        from beginning, or from going on if ``Agent.resume`` gave it: then there is nothing to
        follow. To be called before anybody follows the run; who drops the run has left it.
        """
        if self._loop is not None:
            raise UsageError("somebody follows the run already: call begun() before")
        events = aiter(self)
        self._following.is_awaited = True
        try:
            await anext(events)
        except BaseException:
            self._generator = None  # it may be tried again, if it has not begun
            raise
        finally:
            self._following.is_awaited = False
        self._kept = events  # who holds the run is as one who follows it

    async def aclose(self) -> None:
        """End the run, if it has not ended, or paused and said so."""
        await self._following.close()

    async def _start(self) -> None:
        if self._loop is not None:
            return
        await self._keeper.catch_up(self.conversation, self.run_id)
        if self.conversation.run_id not in (None, self.run_id):
            raise UsageError(
                f"the conversation has a run that is not over ({self.conversation.run_id}): "
                "resume or stop that one first"
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
            self._following.runner.deciding.stop(self._stop_reason)

    def _outcome(self) -> RunResult:
        failure = self._following.failure
        if failure is not None:
            cause = self._following.runner.failure
            retryable = cause is not None and cause.retryable
            raise RunFailure(failure.code, failure.message, self.result, retryable) from cause
        return self.result

    # Without one

    def _iterate(self, *, records: bool) -> Iterator[Event | Record]:
        if self._loop is not None:
            raise UsageError("the run has been followed already: run_stream() makes another")
        return self._items(records=records)

    def _items(self, *, records: bool) -> Iterator[Event | Record]:
        if self._loop is not None:  # by another iterator, meanwhile
            raise UsageError("somebody follows this run already")
        following = self._following
        batch = following.batch
        with closing(LoopThread(self._leave_loop)) as loop:
            try:
                while loop.call(self._fetch):
                    while batch:
                        record = batch.popleft()
                        if following.minds(record.event):
                            answer = following.note(record)
                            if answer is not None:
                                loop.wait_for(answer)
                        yield record if records else record.event
            except KeyboardInterrupt:
                if self._is_logged:  # as a task that is cancelled leaves it
                    loop.call(following.runner.abandon)
                raise

    async def _fetch(self) -> bool:
        await self._start()
        return await self._following.fill()

    def wait(self) -> RunResult:
        """Wait until it has ended or paused, and give its result."""
        if self._loop is None:
            for _ in self:
                pass
        elif not self._following.runner.is_at_rest:
            raise UsageError("somebody follows this run already")
        return self._outcome()

    async def _leave_loop(self) -> None:
        try:
            await self.aclose()
        finally:
            await self._setting.close_model()  # what it keeps for this loop, which is to end


class _Following:
    """Whoever follows a run. It knows nothing of the ``AgentRun``: who drops that has left."""

    def __init__(self, runner: Runner, on_event: EventHook | None, *, outlives: bool) -> None:
        self.runner = runner
        self._outlives = outlives  # whether a run that has paused is kept, told or not
        self.failure: RunFailed | None = None
        self.batch: deque[Record] = deque()  # fetched, but not consumed yet
        self.yields_records = False  # instead of events
        self._on_event = on_event
        self.has_told_pause = False
        self._left_at_pause = False
        self._is_closed = False
        self.is_awaited = False
        """Whether somebody wants to know when it has begun, before he follows it."""

    async def items(
        self, start: Callable[[], Awaitable[None]]
    ) -> AsyncGenerator[Event | Record, None]:
        await start()
        del start  # it refers to who may be dropped
        try:
            batch = self.batch
            if self.is_awaited and await self.fill():
                yield batch[0]  # to say that it is there: it is told when that is asked for
            while batch or await self.fill():
                while batch:
                    record = batch.popleft()
                    if self.minds(record.event):
                        await self._shown(record)
                    yield record if self.yields_records else record.event
        except asyncio.CancelledError:
            if self._outlives and not self.runner.is_stopped_with_another:
                await self.runner.abandon()  # a program that shuts down should not end its runs
            raise
        finally:
            await self.close()

    def minds(self, event: Event) -> bool:
        """Say whether there is anything to note; there is not, of a delta that no hook sees."""
        return self._on_event is not None or type(event) not in PASSING

    async def fill(self) -> bool:
        """Fetch events; False if there are no more."""
        self.batch.extend(await self.runner.outbox.fetch())
        return bool(self.batch)

    async def close(self) -> None:
        """End the run, unless it has ended, or paused and said so; show the hook how."""
        machine, runner = self.runner.machine, self.runner
        if not runner.has_begun or self._is_closed:
            return
        is_kept = machine.is_paused and (self.has_told_pause or self._outlives)
        is_cut_off = runner.is_at_rest and not machine.is_paused
        if self._outlives and self._left_at_pause:  # it has gone on since: others may go on
            await runner.abandon()
        elif not (is_kept or is_cut_off):
            runner.deciding.stop(_NOBODY)
        if await runner.close():
            self._is_closed = True
            self.batch.extend(runner.outbox.take())
            with anyio.move_on_after(_LAST_WORDS, shield=True):
                while self.batch:
                    await self._shown(self.batch.popleft())

    def note(self, record: Record) -> Awaitable[None] | None:
        """Note a record that is about to be consumed, and call the hook with it."""
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
