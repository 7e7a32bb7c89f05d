"""``Agent``: a model with tools and rules, its runs, and how they are resumed and stopped."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, overload
from uuid import uuid4
from weakref import WeakValueDictionary

import anyio

from argstream.agent._agent_run import AgentRun, AsyncClosing, Course, run_alone
from argstream.agent._driver import EventHook, RunConfig
from argstream.agent._lease import RunLog, RunPosition, check_seconds
from argstream.agent._loop import AgentLoop, LoopRules, Step, Toolbox
from argstream.agent.approvals import Approval, Approver, usable_decisions
from argstream.agent.observer import Observed, is_observed, last_events
from argstream.agent.result import Conversation, RunResult
from argstream.agent.tools import encodable
from argstream.errors import AlreadyDecidedError, RunBusyError, RunNotFoundError, UsageError
from argstream.events import ApprovalDecided, Event, RunPaused, RunStarted
from argstream.models import Model, ModelSettings, as_model
from argstream.policy import Policy
from argstream.runs import open_store
from argstream.runs._records import Decisions
from argstream.runs._store import Store

__all__ = ["Agent"]

AnyRun: TypeAlias = "str | RunPaused | RunResult | AgentRun"
"""A run: its ID, or an object that has it."""


class _Paused(NamedTuple):
    machine: AgentLoop
    conversation: Conversation
    position: RunPosition


class Agent(AsyncClosing):
    """Asks a model, runs the tools that it calls, and streams everything that happens.

    ::

        agent = Agent("anthropic:claude-opus-4-7", [read_file, write_file])
        async for event in agent.run_stream("Make the tests pass"):
            ...

    One agent can run any number of prompts at once. Of its runs it keeps only those that wait for
    decisions.
    """

    def __init__(
        self,
        model: object,
        tools: Iterable[object] = (),
        *,
        instructions: str = "",
        policy: Policy | None = None,
        settings: ModelSettings | None = None,
        name: str = "agent",
        on_event: EventHook | None = None,
        approver: Approver | None = None,
        approval_timeout: float | None = None,
        max_turns: int = 50,
        max_parallel_calls: int = 32,
        store: Store | str | Path | None = None,
        lease_seconds: float = 15.0,
    ) -> None:
        """Make an agent of a model and tools.

        ``model`` is a name such as ``openai:gpt-5``, a model of ``make_model``, a
        ``ScriptedModel``, a function from a ``ModelRequest`` to an SDK's stream, or an async
        iterator of one. ``tools`` are functions, plain or with ``@tool``. ``on_event`` is called
        with each ``Record`` just before the consumer of the run receives it.

        If a call needs an approval, ``approver`` decides while the run continues. Without one the
        run pauses, see ``resume``. A request that is not decided after ``approval_timeout`` seconds
        is denied. A run fails when the model has taken ``max_turns`` and wants another. At most
        ``max_parallel_calls`` tools of a run execute at once. Further calls wait, and start in
        order as others end.

        With a ``store`` (the path of an SQLite file, a ``redis://`` URL, or an open store) each run
        is a log that survives this process: any process that has the tools can ``resume`` it. The
        driver of a run renews its lease every few seconds. If the lease was not renewed for
        ``lease_seconds``, another process may take the run over.
        """
        _check_options(tools, settings, max_turns, max_parallel_calls)
        check_seconds("approval_timeout", approval_timeout)
        check_seconds("lease_seconds", lease_seconds)
        self.name = name
        self.model: Model = as_model(model)
        self._setting = RunConfig(
            self.model,
            Toolbox(tools, policy),
            instructions,
            settings or ModelSettings(),
            approver,
            on_event,
            name,
            None if store is None else open_store(store),
            lease_seconds,
        )
        self._owns_store = isinstance(store, str | Path)
        self._rules = LoopRules(
            max_turns, approver is not None, approval_timeout, max_parallel_calls
        )
        self._paused: dict[str, _Paused] = {}  # without a store
        self._conversations: WeakValueDictionary[str, Conversation] = WeakValueDictionary()

    @property
    def store(self) -> Store | None:
        """The store of its runs, if it has one."""
        return self._setting.store

    def run_stream(self, prompt: str, conversation: Conversation | None = None) -> AgentRun:
        """Return a run of a prompt: iterate over it with ``async for``, or await its result."""
        given: object = prompt
        if not isinstance(given, str) or not given.strip():
            raise UsageError("a prompt is a text that is not empty")
        conversation = Conversation() if conversation is None else conversation
        if not isinstance(conversation, Conversation):
            raise UsageError(
                f"a conversation is a Conversation(), not {type(conversation).__name__}"
            )
        run_id = f"run_{uuid4().hex}"
        machine = AgentLoop(run_id, self._setting.tools, self._rules, conversation.grants)

        position = self._setting.position(run_id, conversation.id)
        log = self._setting.log(position)
        if log is not None:
            # The newest run of a conversation is found by its time, whatever the clock says.
            position.latest = math.nextafter(conversation.updated, math.inf)
            self._conversations[run_id] = conversation

        async def begin() -> Step:
            machine.state.numbering = conversation.numbering
            return machine.begin(encodable(prompt), conversation.messages, conversation.user)

        return AgentRun(Course(machine, begin, position, log), self._setting, conversation, self)

    @overload
    def run(
        self, prompt: str, conversation: Conversation | None = None, *, stream: Literal[False] = ...
    ) -> RunResult: ...
    @overload
    def run(
        self, prompt: str, conversation: Conversation | None = None, *, stream: Literal[True]
    ) -> Iterator[Event]: ...
    @overload
    def run(
        self, prompt: str, conversation: Conversation | None = None, *, stream: bool
    ) -> RunResult | Iterator[Event]: ...
    def run(
        self, prompt: str, conversation: Conversation | None = None, *, stream: bool = False
    ) -> RunResult | Iterator[Event]:
        """Run a prompt without an event loop: to its end, or with ``stream`` event by event."""
        run = self.run_stream(prompt, conversation)
        return iter(run) if stream else run.wait()

    async def run_async(self, prompt: str, conversation: Conversation | None = None) -> RunResult:
        """Run a prompt until it ends or pauses. Raises ``RunError`` if it fails."""
        return await self.run_stream(prompt, conversation)

    def resume(
        self,
        run: AnyRun,
        decisions: Decisions | None = None,
        *,
        wait: float = 0.0,
        conversation: Conversation | None = None,
    ) -> AgentRun:
        """Resume a run that has paused or was cut off, with decisions by call ID.

        Iterate over the result or await it, like any run. Calls without a decision stay pending,
        and the run pauses again for them. Raises UsageError, and changes nothing, if a decision
        cannot be used.

        With a store, any process can resume the run. A tool that had begun and has no result is not
        run again, unless it is idempotent. A turn that was cut off begins again. Errors are raised
        when the run is followed: ``RunBusyError`` if another process holds its lease, after
        ``wait`` seconds. Grants are those of ``conversation``, or those that this process
        remembers.
        """
        run_id, given = _id_of(run), _decisions_of({} if decisions is None else decisions)
        if self._setting.store is not None:
            if conversation is not None:
                self._conversations[run_id] = conversation
            return self._resume_logged(self._setting.store, run_id, given, wait)
        machine, waiting_conversation, position = self._waiting(run_id)
        machine.check(given)

        async def begin() -> Step:
            self._waiting(run_id)  # it may have been resumed meanwhile
            waiting = self._paused.pop(run_id)
            try:
                return machine.resumed(given, time.time())
            except UsageError:
                self._paused[run_id] = waiting
                raise

        return AgentRun(Course(machine, begin, position), self._setting, waiting_conversation, self)

    def _resume_logged(self, store: Store, run_id: str, given: Decisions, wait: float) -> AgentRun:
        conversation = self._conversations.setdefault(run_id, Conversation())
        machine = AgentLoop(run_id, self._setting.tools, self._rules, conversation.grants)
        position = self._setting.position(run_id, conversation.id)
        log = RunLog(store, position, self._setting.lease_seconds)

        async def begin() -> Step:
            return await _resume_from_log(log, machine, conversation, given, wait)

        return AgentRun(Course(machine, begin, position, log), self._setting, conversation, self)

    async def check(self, run: AnyRun, decisions: Decisions) -> None:
        """Raise what ``resume`` would raise for these decisions, and change nothing.

        Arguments that do not fit, or ``AlreadyDecidedError``, can be reported before anything is
        decided, also while another process drives the run.
        """
        run_id, given = _id_of(run), _decisions_of(decisions)
        if self._setting.store is None:
            self._waiting(run_id).machine.check(given)
        else:
            await _check_decisions(self._setting.store, self._machine(run_id), given)

    async def conversation(self, id: str, *, user: str = "") -> Conversation:
        """Return a conversation from the store, or a new one if there is none.

        Its messages are those of its newest run. If that is not over, ``run_id`` is its ID, and the
        messages are those before it. Conversations of different users may have the same ID.
        """
        if self._setting.store is None:
            raise UsageError("the agent has no store, which could have a conversation: store=…")
        if not id:
            raise UsageError("a conversation is found by its id, which is not empty")
        fresh = Conversation(id=id, user=user)
        return await _find_conversation(self._setting.store, self._machine, fresh)

    def stop(self, run: AnyRun, reason: str = "") -> list[Event]:
        """End a run that has paused, and return the last events that it wrote.

        Its calls will not run. ``on_event`` is not called with these events. Stop a run that is
        being followed with its own ``stop``. With a store, this also ends a run that was cut off.
        If another process drives the run, that process ends it, and the list is empty.
        """
        if self._setting.store is not None:
            return run_alone(lambda: self.stop_async(run, reason), "await agent.stop_async(…)")
        machine, conversation, position = self._waiting(_id_of(run))
        events = machine.stopped(reason).events
        self.rested(conversation, position, machine)
        return events

    async def stop_async(self, run: AnyRun, reason: str = "") -> list[Event]:
        """Like ``stop``, in an event loop."""
        run_id, store = _id_of(run), self._setting.store
        if store is None:
            return self.stop(run_id, reason)
        conversation = self._conversations.setdefault(run_id, Conversation())
        try:
            await store.stop(run_id, reason)
        except UsageError:  # it is over, or not there
            await self.catch_up(conversation, "")
            raise
        machine = self._machine(run_id)
        position = self._setting.position(run_id, conversation.id)
        log = RunLog(store, position, self._setting.lease_seconds)
        try:
            events = await _end_by_log(log, machine, conversation, reason)
        except RunBusyError:
            return []  # its driver ends it
        self.rested(conversation, position, machine)
        return events

    async def catch_up(self, conversation: Conversation, run_id: str) -> None:
        """Update a conversation whose run has ended in another process. For runs only."""
        store, other = self._setting.store, conversation.run_id
        if store is not None and other not in (None, run_id):
            await _catch_up(store, self._machine(other or ""), conversation)

    def _machine(self, run_id: str) -> AgentLoop:
        return AgentLoop(run_id, self._setting.tools, self._rules)

    async def aclose(self) -> None:
        """Close connections of the model, and the store if it was opened here."""
        await self._setting.close_model()
        if self._owns_store and self._setting.store is not None:
            await self._setting.store.aclose()

    def _waiting(self, run_id: str) -> _Paused:
        if run_id not in self._paused:
            waiting = ", ".join(self._paused) or "none"
            raise UsageError(f"no run {run_id!r} waits for decisions; waiting are: {waiting}")
        return self._paused[run_id]

    def rested(self, conversation: Conversation, position: RunPosition, machine: AgentLoop) -> None:
        """Keep a run that has paused, until it is over. For runs only."""
        run_id = machine.state.run_id
        if machine.is_paused:
            if self._setting.store is None:
                self._paused[run_id] = _Paused(machine, conversation, position)
            return
        if not machine.is_over:  # nothing of it could be written
            conversation.run_id = None
            return
        self._paused.pop(run_id, None)
        self._conversations.pop(run_id, None)
        conversation.go_on_after(run_id, machine.final_messages)

    def __repr__(self) -> str:
        return f"<Agent {self.name!r}, {self.model.name}>"


def _check_options(
    tools: object, settings: object, max_turns: int, max_parallel_calls: object
) -> None:
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise UsageError(f"tools is a list of functions, not {type(tools).__name__}")
    if not isinstance(settings, ModelSettings | None):
        raise UsageError(f"settings is a ModelSettings(…), not {type(settings).__name__}")
    if max_turns < 1:
        raise UsageError(f"max_turns must be an int of at least 1, not {max_turns}")
    limit = max_parallel_calls
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise UsageError(f"max_parallel_calls must be an int of at least 1, not {limit!r}")


def _decisions_of(decisions: object) -> dict[str, Approval]:
    if not isinstance(decisions, Mapping):
        raise UsageError("decisions are by the ids of their calls: {call_id: Approve()}")
    return dict(decisions)


def _id_of(run: AnyRun) -> str:
    run_id = run if isinstance(run, str) else getattr(run, "run_id", None)
    if not isinstance(run_id, str):
        raise UsageError(f"run must be a run ID or a run, not {type(run).__name__}")
    return run_id.removeprefix("run:")  # as the command line has it


async def _resume_from_log(
    log: RunLog, machine: AgentLoop, conversation: Conversation, given: Decisions, wait: float
) -> Step:
    """Acquire the lease of a run and return its next step, with all decisions that were made."""
    try:
        await _acquire_and_read(log, machine, conversation, wait)
        return await _next_step(log, machine, given)
    except BaseException:
        await _release(log)
        raise


async def _end_by_log(
    log: RunLog, machine: AgentLoop, conversation: Conversation, reason: str
) -> list[Event]:
    """End a run that no process drives, and return its last events."""
    try:
        told = await _acquire_and_read(log, machine, conversation, wait=0)
        run_id = machine.state.run_id
        events = (
            last_events(run_id, told, reason)
            if is_observed(told)
            else machine.abandoned(reason).events
        )
        await log.write(events)
    finally:
        await _release(log)
    return events


async def _acquire_and_read(
    log: RunLog, machine: AgentLoop, conversation: Conversation, wait: float
) -> list[Event]:
    try:
        records = await log.take_up(wait)
    except RunNotFoundError:
        conversation.forget(machine.state.run_id)
        raise
    told = [record.event for record in records]
    machine.restore(told)
    if conversation.is_fresh:
        conversation.id, conversation.user = records[-1].conversation_id, _user_of(told)
        conversation.messages = machine.state.history
    if machine.is_over:  # perhaps in another process
        conversation.go_on_after(machine.state.run_id, machine.final_messages)
    _refuse_if_over(machine)
    return told


def _refuse_if_over(machine: AgentLoop) -> None:
    if machine.is_over:
        outcome = machine.state.status
        raise UsageError(f"the run {machine.state.run_id!r} has ended ({outcome})")


def _user_of(told: Iterable[Event]) -> str:
    return next((event.user for event in told if isinstance(event, RunStarted)), "")


async def _find_conversation(
    store: Store, make: Callable[[str], AgentLoop], conversation: Conversation
) -> Conversation:
    """Fill an empty conversation with the messages of its newest run in the store."""
    conversation_id, user = conversation.id, conversation.user
    while runs := await store.runs(conversation_id=conversation_id, user=user, limit=1):
        run_id, conversation.updated = runs[0].run_id, runs[0].updated
        try:
            told = [record.event for record in await store.read(run_id)]
        except RunNotFoundError:  # it was deleted meanwhile
            continue
        machine = make(run_id)
        machine.restore(told)
        if not machine.is_over:
            conversation.run_id, conversation.messages = run_id, machine.state.history
        elif is_observed(told):
            conversation.messages = Observed.of(run_id, told).result.messages
        else:
            conversation.messages = machine.final_messages
        break
    return conversation


async def _catch_up(store: Store, machine: AgentLoop, conversation: Conversation) -> None:
    """Continue a conversation after its run, if that has ended in another process."""
    run_id = machine.state.run_id
    try:
        info = await store.info(run_id)
        records = await store.read(run_id) if info.is_over else []
    except RunNotFoundError:
        conversation.forget(run_id)
        return
    if records:
        machine.restore(record.event for record in records)
        conversation.go_on_after(run_id, machine.final_messages)


async def _next_step(log: RunLog, machine: AgentLoop, given: Decisions) -> Step:
    if machine.state.mode == "observed":
        raise UsageError(
            f"the run {machine.state.run_id} was only observed: its source is gone, so it cannot "
            "be resumed. Agent.stop_async ends it"
        )
    machine.check(given)
    commands = await log.store.commands(log.run_id)
    machine.require_tools({**commands.decisions, **given})
    if commands.stop_reason is not None:
        return machine.abandoned(commands.stop_reason)
    posted = await usable_decisions(log, machine, commands.decisions)
    fresh = {
        call_id: decision for call_id, decision in given.items() if posted.get(call_id) != decision
    }
    if fresh:
        await log.store.decide(log.run_id, fresh)
    decisions = {**posted, **given}
    now = time.time()
    if machine.is_paused:
        return machine.resumed(decisions, now, commands.decided_at)
    return machine.recovered(decisions, now, commands.decided_at)


async def _release(log: RunLog) -> None:
    with anyio.CancelScope(shield=True):
        await log.release()


async def _check_decisions(store: Store, machine: AgentLoop, decisions: Decisions) -> None:
    """Raise what resuming a run with these decisions would raise, by its log and the commands.

    An observed run cannot be resumed. Its decisions are checked as its observer would.
    """
    run_id = machine.state.run_id
    told = [record.event for record in await store.read(run_id)]
    machine.restore(told)
    _refuse_if_over(machine)
    observed = Observed.of(run_id, told) if is_observed(told) else None
    pending = machine.pending if observed is None else observed.pending
    posted = (await store.commands(run_id)).decisions
    decided = {event.call_id for event in told if isinstance(event, ApprovalDecided)}
    decided -= {request.call_id for request in pending}  # it was asked again
    for call_id, decision in decisions.items():
        if call_id in decided or posted.get(call_id, decision) != decision:
            raise AlreadyDecidedError(call_id)
    if observed is not None:
        observed.check(decisions)
    else:
        machine.check(decisions)
        machine.require_tools({**posted, **decisions})
