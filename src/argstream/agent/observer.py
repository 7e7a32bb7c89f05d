"""Runs of agents that run their tools themselves, in logs like those of ``Agent``."""

import asyncio
import logging
import time
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from argstream import events as ev
from argstream.agent._agent_run import NOT_FOLLOWED, AsyncClosing, FollowedRun, LoopThread
from argstream.agent._driver import Inbox, Outbox
from argstream.agent._lease import RunLog, RunPosition, check_seconds
from argstream.agent._loop import denied_words, read_arguments, written
from argstream.agent.approvals import (
    EXPIRED,
    Approval,
    Approver,
    ApproverTasks,
    Decisions,
    Deny,
    approver_failure_message,
    digest_of,
    is_cancelled,
    is_expired,
)
from argstream.agent.result import RunResult, ToolUse
from argstream.agent.tools import parsed_anew
from argstream.errors import ArgstreamError, RunBusyError, RunError, StoreError, UsageError
from argstream.models import ModelRequest, as_model
from argstream.providers import AGENTS, ProtocolName
from argstream.runs import open_store
from argstream.runs._records import Commands, Record, coalesced
from argstream.runs._state import Call, RunState, TextBlock
from argstream.runs._store import Store
from argstream.streaming import AsyncEventStream, stream
from argstream.streaming._input import awaited

if TYPE_CHECKING:
    from claude_agent_sdk import PermissionResult, ToolPermissionContext

__all__ = ["Observed", "ObservedRun", "Observer", "is_observed", "last_events", "observe"]


_STOPPED: Final = "the run was stopped"
_CUT: Final = ev.RunFailed("truncated", "the stream ended before the run did")
_INTERRUPTED: Final = ev.RunFailed("interrupted", "the run was interrupted")

_UNHEARD: Final = 30.0  # seconds in which an agent must report a call that it wants to run
_CLOSING: Final = 0.5
"""Seconds that the stream may take to complete a call that is to run.

A call without arguments is completed at the end of the turn, which may be after it has run."""
_GRACE: Final = 5.0  # seconds that an agent may take to end when it was told to
_LEAVING: Final = 5.0  # seconds to write the end of a run that is cut off

logger: Final = logging.getLogger("argstream.agent")

_inside: ContextVar[tuple["_Drive", ...]] = ContextVar("argstream_observed_runs", default=())
"""The runs that the current task is a part of: as an agent, or as an approver."""


def observe(
    source: object,
    *,
    store: Store,
    prompt: str = "",
    agent: str = "claude-code",
    conversation_id: str = "",
    protocol: ProtocolName = "auto",
    user: str = "",
) -> "ObservedRun":
    """Observe a run of an agent that runs its tools itself, and keep it in a store.

    ``source`` is the result of ``query()`` of the Claude Agent SDK, a ``ClaudeSDKClient`` that was
    asked something, a run of pydantic-ai or openai-agents, or the lines of
    ``claude --output-format stream-json``. ``prompt`` and ``agent`` are for the log. Runs with the
    same ``conversation_id`` and ``user`` are one conversation.
    """
    given: object = store
    if isinstance(given, str | Path):
        raise UsageError(
            "store must be open, not a path: pass open_store(…), and close it yourself"
        )
    observer = Observer(store=store, agent=agent)
    return observer.observe(
        source, prompt, conversation_id=conversation_id, protocol=protocol, user=user
    )


class Observer(AsyncClosing):
    """Observes runs of an agent that runs its tools itself, and requests approvals of its calls.

    ::

        observer = Observer(store="runs.db")
        options = ClaudeAgentOptions(can_use_tool=observer.can_use_tool)
        async for event in observer.observe(query(prompt=prompt, options=options), prompt):
            ...

    One observer can observe any number of runs at once.
    """

    def __init__(
        self,
        *,
        store: Store | str | Path,
        agent: str = "claude-code",
        approver: Approver | None = None,
        approval_timeout: float | None = None,
        lease_seconds: float = 15.0,
    ) -> None:
        """Observe into a store: the path of an SQLite file, a URL, or an open store.

        ``approver`` is asked about each call that the agent wants a permission for. Others can
        decide in the store, with ``Store.decide``. The first decision counts. A request that is not
        decided after ``approval_timeout`` seconds is denied.
        """
        check_seconds("approval_timeout", approval_timeout)
        check_seconds("lease_seconds", lease_seconds)
        self.store: Store = open_store(store)
        self.agent = agent
        self._owns_store = isinstance(store, str | Path)
        self._approver = approver
        self._approval_seconds = approval_timeout
        self._lease_seconds = lease_seconds
        self._news = _News()
        self._drives: weakref.WeakSet[_Drive] = weakref.WeakSet()

    def observe(
        self,
        source: object,
        prompt: str = "",
        *,
        conversation_id: str = "",
        protocol: ProtocolName = "auto",
        user: str = "",
    ) -> "ObservedRun":
        """Observe a run: see the function ``observe``."""
        if protocol not in ("auto", "argstream", *AGENTS):
            raise _not_an_agent(protocol)
        run_id = f"run_{uuid4().hex}"
        course = _Course(
            source, protocol, prompt, self._news, self._approver, self._approval_seconds, user
        )
        drive = _Drive(course, Observed(run_id), self._log(run_id, conversation_id))
        self._drives.add(drive)
        return ObservedRun(drive)

    async def can_use_tool(
        self, name: str, arguments: dict[str, Any], context: "ToolPermissionContext"
    ) -> "PermissionResult":
        """Request an approval of a call: the callback for ``ClaudeAgentOptions``.

        Nothing runs without a decision. The agent receives a fresh parse of the text that was
        approved.
        """
        call_id = context.tool_use_id or ""
        text = _text_of_arguments(arguments)
        if text is None:
            problem = _not_run("its arguments are not a JSON object")
            return _permission(name, problem, interrupt=False)
        await self._news.until(lambda: self._drive_of(call_id, text) is not None, _UNHEARD)
        drive = self._drive_of(call_id, text)
        if drive is None:
            answer = _not_run("it is not clear which run makes this call")
        else:
            reason = context.decision_reason or context.title or f"{self.agent} asks"
            answer = await drive.ask(call_id, text, reason)
        return _permission(name, answer, interrupt=drive is not None and drive.observed.is_stopped)

    def _drive_of(self, call_id: str, text: str) -> "_Drive | None":
        """Return the run that makes a call: two observed runs may use the same IDs."""
        drives = [drive for drive in self._drives if not drive.observed.is_over]
        found = [drive for drive in drives if drive.observed.knows(call_id)]
        if len(drives) > 1:
            found = [drive for drive in found if drive.observed.has_told(call_id, text)]
        return found[0] if len(found) == 1 else None

    async def stop_async(self, run_id: str, reason: str = "") -> list[ev.Event]:
        """End a run, in whatever process it is observed.

        If that process has died, its last events are written here, and returned.
        """
        await self.store.stop(run_id, reason)
        log = self._log(run_id, "")
        try:
            records = await log.take_up(0)
        except RunBusyError:
            return []  # its observer ends it
        try:
            told = [record.event for record in records]
            if not is_observed(told):
                raise UsageError(f"the run {run_id} is not an observed run. Use Agent.stop_async()")
            commands = await self.store.commands(run_id)
            events = last_events(run_id, told, commands.stop_reason or reason)
            await log.write(events)
        finally:
            await log.release()
        return events

    async def aclose(self) -> None:
        """Close the store, if it was opened here."""
        if self._owns_store:
            await self.store.aclose()

    def _log(self, run_id: str, conversation_id: str) -> RunLog:
        conversation_id = conversation_id or f"conversation_{uuid4().hex}"
        position = RunPosition(run_id, conversation_id, self.agent)
        return RunLog(self.store, position, self._lease_seconds)


def _permission(name: str, answer: "_Answer", *, interrupt: bool) -> "PermissionResult":
    """Convert an answer to a type of the SDK, which is loaded if it asks."""
    from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny, PermissionUpdate
    from claude_agent_sdk.types import PermissionRuleValue

    if answer.text is None:
        return PermissionResultDeny(message=answer.reason, interrupt=interrupt)
    updates = None
    if answer.always == "conversation":
        rules = [PermissionRuleValue(tool_name=name)]
        updates = [
            PermissionUpdate("addRules", rules=rules, behavior="allow", destination="session")
        ]
    return PermissionResultAllow(
        updated_input=read_arguments(answer.text), updated_permissions=updates
    )


class ObservedRun(FollowedRun):
    """One run of another agent: its events as they happen, and its result.

    It begins with the first iteration, and ends with ``RunCompleted``, ``RunFailed`` or
    ``RunStopped``. Leaving a loop over it stops it. Any number of viewers can follow it in the
    store.
    """

    def __init__(self, drive: "_Drive") -> None:
        self._drive = drive
        self._batch: deque[Record] = deque()  # fetched, but not consumed yet
        # Nothing that drives the run may refer to this: dropping it stops the run.
        self._generator: weakref.ref[AsyncGenerator[ev.Event | Record, None]] | None = None

    @property
    def run_id(self) -> str:
        """The ID of the run, as in its events and in the store."""
        return self._drive.observed.run_id

    @property
    def pending(self) -> tuple[ev.ApprovalRequested, ...]:
        """The requests that can be decided now, with ``Store.decide``, from any process."""
        return self._drive.asking.pending

    @property
    def result(self) -> RunResult:
        """The result so far; complete when the events are over."""
        return self._drive.observed.result

    def stop(self, reason: str = "") -> None:
        """End the run, from any thread. The agent is interrupted, if possible."""
        self._drive.stop_soon(reason)

    def iterate_async(self, *, records: bool) -> AsyncGenerator[ev.Event | Record, None]:
        """Iterate over events or records: see ``__aiter__`` and ``records``."""
        generator = None if self._generator is None else self._generator()
        if generator is None:
            generator = _items(self._drive, self._batch, records=records)
            self._generator = weakref.ref(generator)
        return generator

    async def aclose(self) -> None:
        """End the run, if it has not ended."""
        await self._drive.close(NOT_FOLLOWED)

    def _outcome(self) -> RunResult:
        failure = self._drive.observed.failure
        if failure is not None:
            raise RunError(failure.code, failure.message, self.result)
        return self.result

    def iterate(self, *, records: bool) -> Iterator[ev.Event | Record]:
        """Iterate without an event loop."""
        if self._drive.has_begun:
            raise UsageError("the run already has a consumer. Start another with observe()")
        with closing(LoopThread(self.aclose)) as loop:
            while loop.call(partial(_fetch, self._drive, self._batch)):
                while self._batch:
                    record = self._batch.popleft()
                    yield record if records else record.event

    def wait(self) -> RunResult:
        """Wait until the run has ended, and return its result."""
        for _ in self:
            pass
        return self._outcome()


async def _items(
    drive: "_Drive", batch: deque[Record], *, records: bool
) -> AsyncGenerator[ev.Event | Record, None]:
    try:
        while await _fetch(drive, batch):
            while batch:
                record = batch.popleft()
                yield record if records else record.event
    finally:
        await drive.close(NOT_FOLLOWED)


async def _fetch(drive: "_Drive", batch: deque[Record]) -> bool:
    drive.start()
    batch.extend(await drive.outbox.fetch())
    return bool(batch)


class _Course(NamedTuple):
    source: object
    protocol: ProtocolName
    prompt: str
    news: "_News"
    approver: Approver | None
    approval_seconds: float | None
    user: str


class _Post(NamedTuple):
    events: list[ev.Event]
    then: Callable[[], None] | None


class _Drive:
    """Drives one observed run, from its first event to its last."""

    def __init__(self, course: _Course, observed: "Observed", log: RunLog) -> None:
        self.observed = observed
        self.outbox: Outbox = Outbox()
        self._course = course
        self._log = log
        self.asking: _Asking = _Asking(
            observed,
            log,
            self._post,
            approver_failed=self._approver_failed,
            approver=course.approver,
            seconds=course.approval_seconds,
        )
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
        self._usage = ev.Usage()  # that the stream has reported
        self._error: BaseException | None = None  # raised when all events are consumed

    @property
    def has_begun(self) -> bool:
        return self._task is not None

    def start(self) -> None:
        """Begin, unless it has begun. Needs a running event loop."""
        if self._task is None:
            self._tasks, self._reading = anyio.create_task_group(), anyio.CancelScope()
            self._post(self.observed.begin(self._course.prompt, self._course.user))
            self._loop = asyncio.get_running_loop()
            self._task = asyncio.create_task(self._supervise())
            if self._early_stop is not None:
                self.stop(self._early_stop)

    def stop_soon(self, reason: str) -> None:
        """End it, from any thread. If it has not begun, end it as soon as it begins."""
        if self._loop is None:
            self._early_stop = reason
        elif not self.observed.is_over:
            self._loop.call_soon_threadsafe(self.stop, reason)

    def stop(self, reason: str) -> None:
        """Ask the agent to end, and read only until it has."""
        if not (self.observed.is_stopped or self.observed.is_over):
            self._may_end_itself = self.asking.is_waiting  # its pending calls will be denied
            self._post(self.observed.stop(reason), self.asking.dismiss)
            self._is_stopping.set()

    def _approver_failed(self, error: BaseException) -> None:
        """Stop the agent, without running the call, and raise the error when the run has ended."""
        if not self.observed.is_stopped:
            self._error = error
        self.stop(approver_failure_message(error))

    async def close(self, reason: str) -> None:
        """End it and wait for that, unless the caller is a part of the run."""
        if self._task is None:
            return
        self.stop(reason)
        self.outbox.leave()
        if self not in _inside.get():
            with anyio.CancelScope(shield=True):
                await asyncio.wait([self._task])

    async def ask(self, call_id: str, text: str, reason: str) -> "_Answer":
        return await self.asking.ask(self._tasks, self._course.news, call_id, text, reason)

    async def _supervise(self) -> None:
        _inside.set((*_inside.get(), self))
        try:
            async with self._tasks:
                await self._work_off()  # viewers can follow the run once its start is stored
                for work in (self._log.keep_lease, self._hear, self._read, self._end_agent):
                    self._tasks.start_soon(work)
                while not self._is_over:
                    await self._inbox.wait()
                    while self._inbox:
                        await self._work_off()
                self._tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            self._error = group.exceptions[0]  # several tasks fail with the same error of the store
        finally:
            if not self._is_over:
                await self._leave()
            self.asking.dismiss()
            self._course.news.tell()
            self.outbox.close(self._error)

    async def _leave(self) -> None:
        """Write the end of a run that was cut off here: it cannot be resumed."""
        rest = [event for post in (*self._unwritten, *self._inbox.take()) for event in post.events]
        if not self.observed.is_over:
            rest += self.observed.over(_INTERRUPTED, self._usage)
        with anyio.move_on_after(_LEAVING, shield=True):
            try:
                if self._log.has_begun and not isinstance(self._error, RunBusyError | StoreError):
                    self.outbox.add(await self._log.write(coalesced(rest)))
                await self._log.release()
            except ArgstreamError:
                logger.warning(
                    "could not log the end of run %s",
                    self.observed.run_id,
                    exc_info=True,
                )

    def _post(self, events: list[ev.Event], then: Callable[[], None] | None = None) -> None:
        if events or then is not None:
            self._inbox.post(_Post(events, then))

    async def _work_off(self) -> None:
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
        await self.outbox.room()
        await self._inbox.room()

    async def _hear(self) -> None:
        async with aclosing(self._log.store.watch_commands(self._log.run_id)) as heard:
            async for commands in heard:
                await self.asking.take(commands)
                if commands.stop_reason is not None:
                    self.stop(commands.stop_reason)

    async def _end_agent(self) -> None:
        """Once it is stopped, interrupt the agent, if possible. Then read no more."""
        await self._is_stopping.wait()
        interrupt = getattr(self._course.source, "interrupt", None)
        if callable(interrupt) or self._may_end_itself:
            with anyio.move_on_after(_GRACE):
                if callable(interrupt):
                    await _interrupted(interrupt)
                await self._is_read.wait()
        self._reading.cancel()

    async def _read(self) -> None:
        failure: ev.RunFailed | None = None
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
                    raise _not_an_agent(events.protocol)
                self._post(self.observed.heard(event))
                self._course.news.tell()
                if self.outbox.is_full or self._inbox.is_full:
                    await self._room()
        finally:
            with anyio.CancelScope(shield=True):
                await events.aclose()
            self._usage = events.usage

    def _failed(self, error: BaseException) -> ev.RunFailed:
        if self.observed.is_stopped:
            logger.info("the agent failed when it was stopped", exc_info=error)
        elif isinstance(error, Exception):
            self._error = error  # raised when all events are consumed
        if isinstance(error, UsageError):
            return ev.RunFailed("unusable_source", str(error))
        return ev.RunFailed("source_failed", f"the source failed with {type(error).__name__}")


def _not_an_agent(protocol: str) -> UsageError:
    return UsageError(
        f"observe() supports agents that run their own tools: {', '.join(sorted(AGENTS))}. Use "
        f"stream() to read {protocol}, or Agent to run its calls"
    )


async def _interrupted(interrupt: Any) -> None:
    try:
        await interrupt()
    except Exception as error:
        logger.info("the agent could not be interrupted", exc_info=error)


class _News:
    """Lets tasks wait until something has come."""

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def tell(self) -> None:
        if self._event is not None:
            self._event.set()
            self._event = None

    async def until(self, is_so: Callable[[], bool], seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while not is_so():
                if self._event is None:
                    self._event = anyio.Event()
                await self._event.wait()


class _Question:
    def __init__(self) -> None:
        self.is_shown = False  # it is in the log, so it can be decided
        self.answer: _Answer | None = None
        self.is_answered = anyio.Event()

    def give(self, answer: "_Answer") -> None:
        self.answer = answer
        self.is_answered.set()


class _Asking:
    def __init__(
        self,
        observed: "Observed",
        log: RunLog,
        post: Callable[..., None],
        *,
        approver_failed: Callable[[BaseException], None],
        approver: Approver | None,
        seconds: float | None,
    ) -> None:
        self._observed = observed
        self._log = log
        self._post = post
        self._seconds = seconds
        self._approvers = ApproverTasks(approver, self._answered, approver_failed)
        self._questions: dict[str, _Question] = {}

    @property
    def is_waiting(self) -> bool:
        return bool(self._questions)

    @property
    def pending(self) -> tuple[ev.ApprovalRequested, ...]:
        shown = {call_id for call_id, question in self._questions.items() if question.is_shown}
        return tuple(request for request in self._observed.pending if request.call_id in shown)

    async def ask(
        self, tasks: TaskGroup, news: _News, call_id: str, text: str, reason: str
    ) -> "_Answer":
        observed = self._observed
        await news.until(lambda: observed.is_settled(call_id), _CLOSING)
        if (objection := observed.objection(call_id)) is not None:
            return _not_run(objection)
        expires_at = None if self._seconds is None else time.time() + self._seconds
        question = self._questions[call_id] = _Question()
        events, request = observed.ask(call_id, text, reason, expires_at)
        self._post(events, partial(self._show, question, tasks, request))
        try:
            return await self._wait(request, question)
        finally:  # also if the agent does not wait any more
            self._approvers.withdraw(call_id)
            self._questions.pop(call_id, None)
            self._post(observed.withdraw(call_id, "the agent does not want to run it any more"))

    def _show(self, question: _Question, tasks: TaskGroup, request: ev.ApprovalRequested) -> None:
        question.is_shown = True
        if request.call_id in self._questions:  # it has not been taken back meanwhile
            self._approvers.ask(tasks, request)

    async def _wait(self, request: ev.ApprovalRequested, question: _Question) -> "_Answer":
        with anyio.move_on_after(self._seconds):
            await question.is_answered.wait()
        if question.answer is None:
            await self._answered(request, None)
            await question.is_answered.wait()
        return question.answer or _not_run(_STOPPED)

    async def _answered(self, request: ev.ApprovalRequested, decision: Approval | None) -> None:
        """Post the decision of the approver; None if the request expired."""
        decision = Deny(EXPIRED) if decision is None else decision
        if (problem := self._observed.problem(decision)) is not None:
            decision = Deny(problem)
        try:
            await self._log.store.decide(self._log.run_id, {request.call_id: decision})
        except UsageError as error:  # decided elsewhere, or withdrawn
            logger.info("decision ignored: %s", error)

    async def take(self, commands: Commands) -> None:
        waiting = {request.call_id for request in self._observed.pending}
        for call_id, decision in commands.decisions.items():
            if call_id not in waiting:
                continue
            if (problem := self._observed.problem(decision)) is not None:
                logger.warning("a decision on the call %s cannot be used: %s", call_id, problem)
                await self._log.reopen(call_id)
                continue
            when = commands.decided_at.get(call_id, time.time())
            events, answer = self._observed.decide(call_id, decision, when)
            question = self._questions[call_id]
            self._post(events, partial(question.give, answer))

    def dismiss(self) -> None:
        for question in self._questions.values():
            question.give(_not_run("the run was stopped"))


class _Answer(NamedTuple):
    """The answer to an agent that wants to run a call."""

    text: str | None  # the exact arguments to run it with; None if it must not run
    reason: str = ""  # why it must not
    always: ev.ApprovalScope = "call"


def _not_run(why: str) -> "_Answer":
    """Refuse a call although no person has denied it."""
    return _Answer(None, f"the call was not run: {why}")


class _Asked(NamedTuple):
    """What the agent wants to run, before the stream may have said that the call is complete."""

    text: str  # the exact arguments
    closes: bool  # whether the request was the end of the arguments


class Observed:
    """An observed run: a ``RunState``, and methods that return the events that follow."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.state: RunState = RunState(arguments="off")
        self.is_stopped: bool = False  # it was stopped, and may still be read
        self._asked: dict[str, _Asked] = {}  # by call ID
        self._said: ev.RunCompleted | ev.RunFailed | None = None  # how it ended, as the agent says
        self._failure: ev.StreamFailed | None = None  # of the stream, the last one
        self._stop_reason = ""

    @classmethod
    def of(cls, run_id: str, events: Iterable[ev.Event]) -> "Observed":
        """Restore the state from events."""
        observed = cls(run_id)
        for event in events:
            observed.state.apply(event)
        return observed

    @property
    def is_over(self) -> bool:
        """Whether its last event was emitted."""
        return self.state.end is not None

    @property
    def pending(self) -> tuple[ev.ApprovalRequested, ...]:
        """The requests without a decision."""
        return self.state.pending

    @property
    def result(self) -> RunResult:
        """The result so far."""
        state = self.state
        end = state.end
        return RunResult(
            run_id=self.run_id,
            outcome=state.status,
            text=_text_of(state),
            tools=[_use(block) for block in state.blocks if isinstance(block, Call)],
            usage=end.usage if isinstance(end, ev.RunCompleted) else state.usage,
            stop_reason=state.stop_reason,
            pending=state.pending,
            messages=tuple(state.messages or ()),
        )

    @property
    def failure(self) -> ev.RunFailed | None:
        """How the run failed, if it did."""
        return self.state.end if isinstance(self.state.end, ev.RunFailed) else None

    def _emit(self, *events: ev.Event) -> list[ev.Event]:
        for event in events:
            self.state.apply(event)
        return list(events)

    def _call(self, call_id: str) -> Call | None:
        """Return a call that has not ended."""
        call = self.state.calls.get(call_id)
        return None if call is None or call.outcome is not None else call

    def begin(self, prompt: str, user: str = "") -> list[ev.Event]:
        """Start the run with the prompt of the agent."""
        return self._emit(ev.RunStarted(self.run_id, prompt, user=user, mode="observed"))

    def heard(self, event: ev.Event) -> list[ev.Event]:
        """Apply the next event of the stream, and return the events to emit."""
        match event:
            case (
                ev.ToolArgsDelta(call_id=call_id)
                | ev.ArgumentStarted(call_id=call_id)
                | ev.ArgumentDelta(call_id=call_id)
                | ev.ArgumentCompleted(call_id=call_id)
                | ev.ToolArgsCompleted(call_id=call_id)
                | ev.ToolArgsInvalid(call_id=call_id)
            ):
                asked = self._asked.get(call_id)
                if self._call(call_id) is None or (asked is not None and asked.closes):
                    return []  # its arguments are complete
            case (
                ev.TextDelta(parent_id=None)
                | ev.ThinkingStarted(parent_id=None)
                | ev.ToolCallStarted(parent_id=None)
            ):
                self._said = None  # the agent goes on: something has woken it
            case ev.ToolCallCompleted() | ev.ToolCallFailed():
                return self._heard_end(event)
            case ev.RunCompleted() | ev.RunFailed():
                self._said = event  # emitted if nothing follows
                return []
            case ev.StreamFailed():
                self._failure = event
            case _:
                pass
        return self._emit(event)

    def _heard_end(self, event: ev.ToolCallCompleted | ev.ToolCallFailed) -> list[ev.Event]:
        call = self._call(event.call_id)
        withdrawn = self.withdraw(event.call_id, "the call is over")
        edited = None if call is None or call.decision is None else call.decision.edited_arguments
        if edited is not None and isinstance(event, ev.ToolCallCompleted):
            event = replace(event, arguments=edited)
        return withdrawn + self._emit(event)

    def knows(self, call_id: str) -> bool:
        """Return True if a call has started and not ended."""
        return self._call(call_id) is not None

    def has_told(self, call_id: str, text: str) -> bool:
        """Return True if a call has started and has these arguments, as far as they have come."""
        call = self._call(call_id)
        if call is None:
            return False
        came = parsed_anew(call.raw)
        return came.verdict != "complete" or written(came.value) == written(read_arguments(text))

    def is_settled(self, call_id: str) -> bool:
        """Return True if no more is expected of the arguments of a call."""
        call = self._call(call_id)
        return call is None or call.verdict is not None

    def objection(self, call_id: str) -> str | None:
        """Return why no approval can be requested for a call, if so."""
        if self.is_stopped or self.is_over:
            return _STOPPED if self.is_stopped else "the run is over"
        if (call := self._call(call_id)) is None:
            return "it is over"
        if call.verdict not in (None, "complete"):
            return f"its arguments are {call.verdict}"
        return None if call.request is None else "its approval was already requested"

    def ask(
        self, call_id: str, text: str, reason: str, expires_at: float | None
    ) -> tuple[list[ev.Event], ev.ApprovalRequested]:
        """Request an approval of a call with exactly these arguments."""
        call = self.state.calls[call_id]
        name, is_open = call.name, call.verdict is None
        self._asked[call_id] = _Asked(text, closes=is_open)
        completed: list[ev.Event] = []
        if is_open:  # the agent has all of its arguments
            arguments = read_arguments(text)
            exact = None if text == call.raw else text
            completed = self._emit(ev.ToolArgsCompleted(call_id, name, arguments, text=exact))
        digest = digest_of(self.run_id, call_id, name, text)
        shown = read_arguments(text)
        request = ev.ApprovalRequested(call_id, name, shown, digest, reason, None, expires_at)
        return [*completed, *self._emit(request), *self._pause()], request

    def _pause(self) -> list[ev.Event]:
        """Report that the run waits for decisions, if it does."""
        pending = self.state.pending
        is_waiting = bool(pending) and not self.is_stopped
        return (
            self._emit(ev.RunPaused(self.run_id, pending, keeps_lease=True)) if is_waiting else []
        )

    def _decided(self, *decisions: ev.ApprovalDecided) -> list[ev.Event]:
        events: list[ev.Event] = []
        if decisions and self.state.status == "paused":
            events = self._emit(ev.RunResumed(self.run_id))
        return [*events, *self._emit(*decisions), *self._pause()]

    def problem(self, decision: Approval) -> str | None:
        """Return why a decision cannot be used. The agent itself validates arguments."""
        if isinstance(decision, Deny):
            return None
        if decision.always == "rule":
            return 'no rule asks about this call: use Approve(always="conversation")'
        if decision.arguments is not None and _text_of_arguments(decision.arguments) is None:
            return "the edited arguments are not a valid JSON object"
        return None

    def check(self, decisions: Decisions) -> None:
        """Raise UsageError if a decision cannot be used."""
        waiting = {request.call_id: request.digest for request in self.pending}
        for call_id, decision in decisions.items():
            if call_id not in waiting:
                raise UsageError(f"no pending approval for call {call_id!r} in {self.run_id}")
            if not isinstance(decision, Approval):
                raise UsageError(f"a decision is Approve(…) or Deny(…), not {decision!r}")
            if getattr(decision, "digest", "") not in ("", waiting[call_id]):
                raise UsageError(f"the digest is not that of the call {call_id}: ask again")
            if (problem := self.problem(decision)) is not None:
                raise UsageError(problem)

    def decide(
        self, call_id: str, decision: Approval, when: float
    ) -> tuple[list[ev.Event], _Answer]:
        """Use a valid decision on a pending request, which was made at this time."""
        call = self.state.calls[call_id]
        if is_expired(call.request, when):
            return self._decided(self._denial(call_id, "expired", EXPIRED)), _not_run(EXPIRED)
        if isinstance(decision, Deny):
            denial = self._denial(call_id, "denied", decision.reason)
            return self._decided(denial), _Answer(None, denied_words(decision.reason))
        edited = decision.arguments
        text = self._asked[call_id].text if edited is None else _text_of_arguments(edited)
        decided = ev.ApprovalDecided(
            call_id,
            call.name,
            "approved" if edited is None else "edited",
            decision.reason,
            None if edited is None or text is None else read_arguments(text),
            decision.always,
        )
        return self._decided(decided), _Answer(text, always=decision.always)

    def withdraw(self, call_id: str, why: str) -> list[ev.Event]:
        """Withdraw a request that is not decided."""
        call = self._call(call_id)
        is_pending = call is not None and call.is_pending
        return self._decided(self._denial(call_id, "withdrawn", why)) if is_pending else []

    def _denial(self, call_id: str, outcome: ev.ApprovalOutcome, why: str) -> ev.ApprovalDecided:
        return ev.ApprovalDecided(call_id, self.state.calls[call_id].name, outcome, why)

    def stop(self, reason: str) -> list[ev.Event]:
        """Mark the run as stopped, and withdraw its requests."""
        self.is_stopped, self._stop_reason = True, reason
        pending = [request.call_id for request in self.state.pending]
        return self._decided(*(self._denial(id_, "withdrawn", _STOPPED) for id_ in pending))

    def over(
        self, failure: ev.RunFailed | None = None, usage: ev.Usage | None = None
    ) -> list[ev.Event]:
        """End every open call and the run. ``failure`` is that of the source, if it failed.

        ``usage`` is what the stream has reported, also for turns that did not complete.
        """
        why = _STOPPED if self.is_stopped else "the run is over"
        ended: list[ev.Event] = []
        calls = [call for call in self.state.calls.values() if call.outcome is None]
        pending = [call.call_id for call in calls if call.is_pending]
        ended += self._decided(*(self._denial(id_, "withdrawn", why) for id_ in pending))
        for call in reversed(calls):  # calls of a sub-agent end before the call that started it
            ended += self._end_call(call, why)
        end = self._ending(failure)
        if usage is not None and end.usage == ev.Usage():
            end = replace(end, usage=usage)
        return ended + self._emit(replace(end, run_id=self.run_id))

    def _ending(self, failure: ev.RunFailed | None) -> ev.RunEnd:
        if self.is_stopped:
            return ev.RunStopped(self._stop_reason)
        if self._said is not None:
            return self._said
        if failure is None and self._failure is not None:
            return ev.RunFailed(self._failure.specific_code, self._failure.message)
        return failure or _CUT

    def _end_call(self, call: Call, why: str) -> list[ev.Event]:
        ended: list[ev.Event] = []
        if call.verdict is None:
            error = ev.ArgumentsError("aborted", why)
            invalid = ev.ToolArgsInvalid(call.call_id, call.name, "aborted", call.raw, error)
            ended = self._emit(invalid)
        return ended + self._emit(ev.ToolCallFailed(call.call_id, call.name, _no_result(call, why)))


def is_observed(events: Sequence[ev.Event]) -> bool:
    """Return True for the log of an observed run."""
    return bool(events) and isinstance(events[0], ev.RunStarted) and events[0].mode == "observed"


def last_events(run_id: str, events: Iterable[ev.Event], reason: str) -> list[ev.Event]:
    """Return the last events of an observed run whose process has died, by its log."""
    observed = Observed.of(run_id, events)
    return observed.stop(reason) + observed.over()


def _text_of_arguments(arguments: Mapping[str, Any]) -> str | None:
    """Write arguments as one exact text, of which each use is a fresh parse; None if that fails.

    Strings become what can be encoded (invariant 4), as in any call.
    """
    try:
        parser = parsed_anew(written(dict(arguments)))
    except (TypeError, ValueError, RecursionError):
        return None
    return written(parser.value) if parser.verdict == "complete" else None


def _no_result(call: Call, why: str) -> str:
    if call.verdict != "complete":
        return f"the call was not whole: {why}"
    if call.state == "denied" and call.decision is not None:
        return _not_run(call.decision.reason).reason
    return f"no result of the call has come: {why}. It is not known what it has done"


def _text_of(state: RunState) -> str:
    if isinstance(state.end, ev.RunCompleted) and isinstance(state.end.result, str):
        return state.end.result
    texts = (block for block in reversed(state.blocks) if isinstance(block, TextBlock))
    return next(
        (block.text for block in texts if block.parent_id is None and not block.is_thinking), ""
    )


def _use(call: Call) -> ToolUse:
    failed = call.outcome == "failed"
    return ToolUse(
        call.call_id,
        call.name,
        call.arguments,
        call.verdict or "complete",
        None if failed else call.result,
        call.result if failed else None,
    )
