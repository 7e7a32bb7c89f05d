"""Observes a run: reads what its agent says, writes it down, and then tells it.

What follows from an event is decided in ``_observed``; here is all that waits. Reading goes on
while the store writes: what has come meanwhile is written at once after that. Nothing is told
before it is written.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

import anyio
from anyio.abc import TaskGroup

from argstream.adapters import AGENTS, ProtocolName
from argstream.agent._inbox import Inbox
from argstream.agent._outbox import Outbox
from argstream.agent._questions import failure_message, is_cancelled
from argstream.agent._run_log import RunLog
from argstream.agent.approvals import Approver
from argstream.agent.observing._asking import ApproverOptions, Asking, News
from argstream.agent.observing._observed import Answer, Observed
from argstream.clients import ModelRequest, as_model
from argstream.errors import ArgstreamError, RunTaken, StoreFailure, UsageError
from argstream.events import Event, RunFailed, Usage
from argstream.log import coalesced
from argstream.streaming import AsyncEventStream, stream
from argstream.streaming.sources import awaited

__all__ = ["Course", "Drive"]

_GRACE: Final = 5.0
"""How long an agent that was told to end may take for it, in seconds."""
_LEAVING: Final = 5.0
"""How long it may take to write the end of a run that is cut off, in seconds."""
_INTERRUPTED: Final = RunFailed("interrupted", "the run was interrupted")

_inside: ContextVar[tuple["Drive", ...]] = ContextVar("argstream_observed_runs", default=())
"""The runs that whoever asks is a part of: as an agent, or as somebody who is asked."""

logger = logging.getLogger("argstream.agent")


class Course(NamedTuple):
    """What is observed, and how."""

    source: object
    protocol: ProtocolName
    prompt: str
    news: News
    approver: Approver | None
    approval_seconds: float | None
    user: str


class _Post(NamedTuple):
    """What is to be written, and what is to be done after that."""

    events: list[Event]
    then: Callable[[], None] | None


class Drive:
    """One observed run, from its first event to its last."""

    def __init__(self, course: Course, observed: Observed, log: RunLog) -> None:
        self.observed = observed
        self.outbox = Outbox()
        self._course = course
        self._log = log
        approving = ApproverOptions(course.approver, self._approver_failed, course.approval_seconds)
        self.asking = Asking(observed, log, self._post, approving)
        self._tasks: TaskGroup
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._early_stop: str | None = None  # before it had begun
        self._inbox: Inbox[_Post] = Inbox()  # for the task that writes
        self._unwritten: Iterable[_Post] = ()  # what was taken out of it, while it is written
        self._is_over = False  # the last event is in the log
        self._is_stopping = anyio.Event()
        self._may_end_itself = False  # when it is stopped
        self._is_read = anyio.Event()
        self._reading: anyio.CancelScope
        self._usage = Usage()  # that the stream has reported
        self._error: BaseException | None = None  # to be raised when all events are told

    @property
    def has_begun(self) -> bool:
        """Whether it was started."""
        return self._task is not None

    def start(self) -> None:
        """Begin, unless it has. Needs a running event loop."""
        if self._task is None:
            self._tasks, self._reading = anyio.create_task_group(), anyio.CancelScope()
            self._post(self.observed.begin(self._course.prompt, self._course.user))
            self._loop = asyncio.get_running_loop()
            self._task = asyncio.create_task(self._supervise())
            if self._early_stop is not None:
                self.stop(self._early_stop)

    def stop_soon(self, reason: str) -> None:
        """End it, from any thread; as soon as it begins, if it has not."""
        if self._loop is None:
            self._early_stop = reason
        elif not self.observed.is_over:
            self._loop.call_soon_threadsafe(self.stop, reason)

    def stop(self, reason: str) -> None:
        """End it: the agent is told, and what it says is read no longer than it needs for that."""
        if not (self.observed.is_stopped or self.observed.is_over):
            self._may_end_itself = self.asking.is_waiting  # it will be told that it may not
            self._post(self.observed.stop(reason), self.asking.dismiss)
            self._is_stopping.set()

    def _approver_failed(self, error: BaseException) -> None:
        """Stop the agent, without running the call, and raise the error when the run has ended."""
        if not self.observed.is_stopped:
            self._error = error
        self.stop(failure_message(error))

    async def close(self, reason: str) -> None:
        """End it, and wait for that; who is a part of it himself cannot wait."""
        if self._task is None:
            return
        self.stop(reason)
        self.outbox.leave()
        if self not in _inside.get():
            with anyio.CancelScope(shield=True):
                await asyncio.wait([self._task])

    async def ask(self, call_id: str, text: str, reason: str) -> Answer:
        """Have somebody decide whether a call may run with exactly these arguments."""
        return await self.asking.ask(self._tasks, self._course.news, call_id, text, reason)

    async def _supervise(self) -> None:
        _inside.set((*_inside.get(), self))
        try:
            async with self._tasks:
                await self._work_off()  # a run whose beginning is written is one for others, too
                for work in (self._log.keep, self._hear, self._read, self._end_agent):
                    self._tasks.start_soon(work)
                while not self._is_over:
                    await self._inbox.wait()
                    while self._inbox:
                        await self._work_off()
                self._tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            self._error = group.exceptions[0]  # several see the same: that the store is lost
        finally:
            if not self._is_over:
                await self._leave()
            self.asking.dismiss()
            self._course.news.tell()
            self.outbox.close(self._error)

    async def _leave(self) -> None:
        """Write the end of a run that was cut off here: nobody can go on with it."""
        rest = [event for post in (*self._unwritten, *self._inbox.take()) for event in post.events]
        if not self.observed.is_over:
            rest += self.observed.over(_INTERRUPTED, self._usage)
        with anyio.move_on_after(_LEAVING, shield=True):
            try:
                if self._log.has_begun and not isinstance(self._error, RunTaken | StoreFailure):
                    self.outbox.add(await self._log.write(coalesced(rest)))
                await self._log.release()
            except ArgstreamError:
                logger.warning(
                    "the end of the run %s is not in its log", self.observed.run_id, exc_info=True
                )

    # What is written

    def _post(self, events: list[Event], then: Callable[[], None] | None = None) -> None:
        if events or then is not None:
            self._inbox.post(_Post(events, then))

    async def _work_off(self) -> None:
        """Write what has come, and then tell it."""
        is_last, self._unwritten = self.observed.is_over, self._inbox.take()
        events = [event for post in self._unwritten for event in post.events]
        records = await self._log.write(coalesced(events))
        written, self._unwritten = self._unwritten, ()
        self._is_over = is_last  # so that a consumer of the last event finds it over
        self.outbox.add(records, joined=len(events) - len(records))
        for post in written:
            if post.then is not None:
                post.then()
        self._inbox.worked_off()

    async def _room(self) -> None:
        """Wait while so much is held that who can wait should."""
        await self.outbox.room()
        await self._inbox.room()

    # What others say

    async def _hear(self) -> None:
        async with aclosing(self._log.posts()) as heard:
            async for posts in heard:
                await self.asking.take(posts)
                if posts.stop_reason is not None:
                    self.stop(posts.stop_reason)

    async def _end_agent(self) -> None:
        """Once it is stopped, tell the agent, if there is a way; then read no more."""
        await self._is_stopping.wait()
        interrupt = getattr(self._course.source, "interrupt", None)
        if callable(interrupt) or self._may_end_itself:
            with anyio.move_on_after(_GRACE):
                if callable(interrupt):
                    await _interrupted(interrupt)
                await self._is_read.wait()
        self._reading.cancel()

    # What the agent says

    async def _read(self) -> None:
        failure: RunFailed | None = None
        with self._reading:
            try:
                if not self.observed.is_stopped:
                    await self._read_all(self._opened())
            except (Exception, asyncio.CancelledError) as error:
                if is_cancelled(error):
                    raise
                failure = self._failed(error)
        self._is_read.set()
        self._post(self.observed.over(failure, self._usage))

    def _opened(self) -> AsyncEventStream:
        source: Any = self._course.source
        receive = getattr(source, "receive_response", None)

        async def messages(_: ModelRequest) -> object:
            return await awaited(receive() if callable(receive) else source)

        # It reads what is not async in threads, so that nothing holds up the event loop.
        asked = as_model(messages).stream(ModelRequest(messages=()))
        return stream(asked, self._course.protocol)

    async def _read_all(self, events: AsyncEventStream) -> None:
        try:
            async for event in events:
                if events.protocol not in AGENTS and events.protocol != "auto":
                    raise not_an_agent(events.protocol)
                self._post(self.observed.heard(event))
                self._course.news.tell()
                if self.outbox.is_full or self._inbox.is_full:
                    await self._room()
        finally:
            with anyio.CancelScope(shield=True):
                await events.aclose()
            self._usage = events.usage

    def _failed(self, error: BaseException) -> RunFailed:
        if self.observed.is_stopped:
            logger.info("the agent failed when it was stopped", exc_info=error)
        elif isinstance(error, Exception):
            self._error = error  # it is raised when all events are told
        if isinstance(error, UsageError):
            return RunFailed("unusable_source", str(error))
        return RunFailed("source_failed", f"the source failed with {type(error).__name__}")


def not_an_agent(protocol: str) -> UsageError:
    """Say that something cannot be observed."""
    return UsageError(
        f"what a model says by {protocol} is one turn, whose calls somebody else must run: an "
        "Agent does that, with a store if it shall be logged; stream() reads it. Observed are "
        f"agents that run their tools themselves: {', '.join(sorted(AGENTS))}"
    )


async def _interrupted(interrupt: Any) -> None:
    try:
        await interrupt()
    except Exception as error:
        logger.info("the agent could not be interrupted", exc_info=error)
