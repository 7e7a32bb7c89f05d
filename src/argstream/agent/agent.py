"""``Agent``: a model with tools and rules, its runs, and how they are resumed and stopped."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args, overload
from uuid import uuid4
from weakref import WeakValueDictionary

from argstream._asyncio import LoopThread, current_loop, shielded
from argstream.agent._driver import Driver, EventHook, Source
from argstream.agent._lease import RunLog, check_count, check_seconds
from argstream.agent._loop import AgentLoop, LoopRules, Step, Toolbox
from argstream.agent._run import AsyncClosing, Run
from argstream.agent.approvals import Approval, Approver, Grant, usable_decisions
from argstream.agent.observer import ObserverLoop
from argstream.agent.result import Conversation, RunResult
from argstream.assembly import Numbering
from argstream.errors import (
    AlreadyDecidedError,
    RunBusyError,
    RunNotFoundError,
    StreamError,
    UsageError,
)
from argstream.events import Event, FailureCode, RunPaused, StreamFailed
from argstream.history import Message
from argstream.models import Model, ModelRequest, ModelSettings, as_model
from argstream.policy import Policy
from argstream.providers import AGENTS
from argstream.runs import MemoryStore, open_store
from argstream.runs._records import Decisions, Launch
from argstream.runs._state import RunState
from argstream.runs._store import Store
from argstream.sanitise import replace_lone_surrogates
from argstream.streaming import AsyncEventStream, stream

AnyRun: TypeAlias = "str | RunPaused | RunResult | Run"
"""A run: its ID, or an object that has it."""


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
        show: bool = False,
        approver: Approver | None = None,
        approval_timeout: float | None = None,
        max_turns: int = 50,
        max_parallel_calls: int = 32,
        store: Store | str | Path | None = None,
        lease_seconds: float = 15.0,
        launch: Launch | None = None,
    ) -> None:
        """Create an agent.

        ``model`` is a name such as ``openai:gpt-5``, a model of ``make_model``, a
        ``ScriptedModel``, a function from a ``ModelRequest`` to an SDK's stream, or an async
        iterator of one. ``tools`` are functions, plain or with ``@tool``. ``on_event`` is called
        with each ``Record`` just before the consumer of the run receives it. ``show=True`` prints
        runs as they go, and needs the extra ``terminal``.

        If a call needs an approval, ``approver`` decides while the run continues. Without one the
        run pauses, see ``resume``. A request that is not decided after ``approval_timeout`` seconds
        is denied. A run fails if the model needs more than ``max_turns`` turns. At most
        ``max_parallel_calls`` tools of a run execute at once. Further calls wait, and start in
        order as others end.

        With a ``store`` (the path of an SQLite file, a ``redis://`` URL, or an open store) each run
        is a log that survives this process: any process that has the tools can ``resume`` it. The
        driver of a run renews its lease every few seconds. If the lease was not renewed for
        ``lease_seconds``, another process may take the run over. ``launch`` says how its runs can
        be resumed from a shell, and is stored with them.
        """
        if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
            raise UsageError(f"tools must be a list of functions, not {type(tools).__name__}")
        for option, is_right, given, kind in (
            ("instructions", isinstance(instructions, str), instructions, "a str"),
            ("settings", isinstance(settings, ModelSettings | None), settings, "a ModelSettings"),
            ("launch", isinstance(launch, Launch | None), launch, "a Launch"),
            ("approver", approver is None or callable(approver), approver, "a function"),
            ("on_event", on_event is None or callable(on_event), on_event, "a function"),
        ):
            if not is_right:
                raise UsageError(f"{option} must be {kind}, not {type(given).__name__}")
        check_count("max_turns", max_turns)
        check_count("max_parallel_calls", max_parallel_calls)
        if approval_timeout is not None:
            check_seconds("approval_timeout", approval_timeout)
        check_seconds("lease_seconds", lease_seconds)
        if show:  # the terminal is a layer above
            on_event = import_module("argstream.terminal").printing(on_event)
        self.name = name
        self.model: Model = as_model(model)
        self._runs = _AgentRuns(
            self.model,
            Toolbox(tools, policy),
            instructions,
            settings or ModelSettings(),
            approver,
            on_event,
            name,
            _ProcessStore() if store is None else open_store(store),
            store is not None,
            lease_seconds,
            launch,
            LoopRules(max_turns, approver is not None, approval_timeout, max_parallel_calls),
        )
        self._owns_store = isinstance(store, str | Path)

    @property
    def tools(self) -> list[str]:
        """The names of its tools."""
        return [tool.name for tool in self._runs.tools.offered]

    @property
    def store(self) -> Store | None:
        """The store of its runs, if it has one."""
        return self._runs.store if self._runs.survives else None

    def run_stream(self, prompt: str, conversation: Conversation | None = None) -> Run:
        """Return a run of a prompt: iterate over it with ``async for``, or await its result."""
        given: object = prompt
        if not isinstance(given, str) or not given.strip():
            raise UsageError(f"prompt must be a str that is not empty, not {prompt!r}")
        conversation = Conversation() if conversation is None else conversation
        if not isinstance(conversation, Conversation):
            raise UsageError(
                f"conversation must be a Conversation, not {type(conversation).__name__}"
            )
        run_id = f"run_{uuid4().hex}"
        self._runs.conversations[run_id] = conversation
        new = self._run_of(run_id)
        new.prompt = prompt
        # The newest run of a conversation has the latest time, even if the clock was set back.
        new.log.latest = math.nextafter(conversation.updated, math.inf)
        return new.handle()

    def _begun(self, run: AnyRun) -> "_AgentRun":
        run_id = _id_of(run)
        return self._run_of(run_id) if self._runs.survives else self._runs.waiting(run_id)

    def _run_of(self, run_id: str) -> "_AgentRun":
        runs = self._runs
        if run_id in runs.paused:
            return replace(runs.paused[run_id], prompt=None)
        conversation = runs.conversations.setdefault(run_id, Conversation())
        loop = runs.loop(run_id, conversation.grants)
        return _AgentRun(runs, conversation, loop, runs.log(run_id, conversation.id))

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
    ) -> Run:
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
        if not self._runs.survives:
            self._runs.waiting(run_id).loop.check(given)
        elif conversation is not None:
            self._runs.conversations[run_id] = conversation
        return replace(self._run_of(run_id), decisions=given, wait=wait).handle()

    async def check(self, run: AnyRun, decisions: Decisions) -> None:
        """Raise what ``resume`` would raise for these decisions, and change nothing.

        Arguments that do not fit, or ``AlreadyDecidedError``, can be reported before anything is
        decided, also while another process drives the run.
        """
        apart, given = Conversation(), _decisions_of(decisions)  # nothing changes
        await replace(self._begun(run), conversation=apart, decisions=given).check()

    async def conversation(self, id: str, *, user: str = "") -> Conversation:
        """Return a conversation from the store, or a new one if there is none.

        Its messages are those of its newest run. If that is not over, ``run_id`` is its ID, and the
        messages are those before it. Conversations of different users may have the same ID.
        """
        if not self._runs.survives:
            raise UsageError('the agent has no store. Pass store="runs.db" to load a conversation')
        if not id:
            raise UsageError("id must not be empty")
        store, conversation = self._runs.store, Conversation(id=id, user=user)
        while found := await store.runs(conversation_id=id, user=user, limit=1):
            run_id, conversation.updated = found[0].run_id, found[0].updated
            try:
                loop = await self._runs.restored(run_id)
            except RunNotFoundError:  # it was deleted meanwhile
                continue
            if not loop.is_over:
                conversation.run_id, conversation.messages = run_id, loop.state.history
            elif loop.state.mode == "observed":
                conversation.messages = tuple(loop.state.messages or ())
            else:
                conversation.messages = loop.final_messages
            break
        return conversation

    def stop(self, run: AnyRun, reason: str = "") -> list[Event]:
        """End a run that has paused, and return the last events that it wrote.

        Its calls will not run. ``on_event`` is not called with these events. Stop a run that is
        being followed with its own ``stop``. With a store, this also ends a run that was cut off.
        If another process drives the run, that process ends it, and the list is empty.
        """
        if self._runs.survives and current_loop() is not None:  # it would wait for the store
            raise UsageError("an event loop is running here: use await agent.stop_async(…)")
        with closing(LoopThread()) as loop:
            return loop.call(lambda: self.stop_async(run, reason))

    async def stop_async(self, run: AnyRun, reason: str = "") -> list[Event]:
        """Like ``stop``, in an event loop."""
        return await self._begun(run).stop(reason)

    async def aclose(self) -> None:
        """Close connections of the model, and the store if it was opened here."""
        await self._runs.close_model()
        if self._owns_store:
            await self._runs.store.aclose()

    def __repr__(self) -> str:
        return f"<Agent {self.name!r}, {self.model.name}>"


def _decisions_of(decisions: object) -> dict[str, Approval]:
    if not isinstance(decisions, Mapping):
        raise UsageError("decisions must be a dict by call ID: {call_id: Approve()}")
    return dict(decisions)


def _id_of(run: AnyRun) -> str:
    run_id = run if isinstance(run, str) else getattr(run, "run_id", None)
    if not isinstance(run_id, str):
        raise UsageError(f"run must be a run ID or a run, not {type(run).__name__}")
    return run_id.removeprefix("run:")  # as the command line has it


@dataclass(eq=False)
class _AgentRuns:
    model: Model
    tools: Toolbox
    instructions: str
    settings: ModelSettings
    approver: Approver | None
    on_event: EventHook | None
    agent: str  # the name of the agent
    store: Store  # keeps the logs of its runs
    survives: bool  # whether its runs survive this process
    lease_seconds: float  # for how long a lease is valid, if it is not renewed
    launch: Launch | None
    rules: LoopRules
    # Those that have paused and do not survive this process.
    paused: "dict[str, _AgentRun]" = field(default_factory=dict)
    conversations: WeakValueDictionary[str, Conversation] = field(
        default_factory=WeakValueDictionary
    )

    def loop(self, run_id: str, grants: set[Grant] | None = None) -> AgentLoop:
        return AgentLoop(run_id, self.tools, self.rules, grants)

    async def restored(self, run_id: str) -> AgentLoop:
        loop = self.loop(run_id)
        loop.restore(await self.store.read(run_id))
        return loop

    def log(self, run_id: str, conversation_id: str) -> RunLog:
        seconds = self.lease_seconds
        return RunLog(self.store, run_id, conversation_id, self.agent, seconds, self.launch)

    def waiting(self, run_id: str) -> "_AgentRun":
        if run_id not in self.paused:
            waiting = ", ".join(self.paused) or "none"
            raise UsageError(f"run {run_id!r} is not paused. Paused: {waiting}")
        return self.paused[run_id]

    async def close_model(self) -> None:
        close = getattr(self.model, "aclose", None)
        if close is not None:
            await close()


class _ProcessStore(MemoryStore):
    """The store of an agent that was given none. It forgets runs that are over."""

    def forget(self, run_id: str) -> None:
        with self._lock:
            run = self._kept.pop(run_id, None)
            if run is not None:
                self._rows.pop((run.state.user, run.state.conversation_id), None)
        self._report_deleted(run_id)


@dataclass(eq=False)
class _AgentRun(Source):
    runs: _AgentRuns
    conversation: Conversation
    loop: AgentLoop
    log: RunLog
    prompt: str | None = None  # of a new run
    decisions: Decisions = field(default_factory=dict)
    wait: float = 0.0  # seconds for another process to release the lease

    def __post_init__(self) -> None:
        self.approver, self.is_resumable = self.runs.approver, self.runs.survives

    @property
    def run_id(self) -> str:
        return self.loop.run_id

    def handle(self) -> Run:
        driver = Driver(self.loop, self, self.log, self.runs.tools)
        return Run(driver, self.conversation, self.runs.on_event)

    def open(self, messages: tuple[Message, ...], after: Numbering) -> AsyncEventStream:
        runs = self.runs
        request = ModelRequest(
            messages=messages,
            instructions=runs.instructions,
            tools=runs.tools.offered,
            settings=runs.settings,
        )
        source = runs.model.stream(request)
        return stream(source, runs.model.protocol, check=runs.tools.check, after=after)

    def check_protocol(self, protocol: str) -> None:
        if protocol in AGENTS:
            name = self.runs.model.name
            raise UsageError(f"{name} runs its tools itself: read it with stream()")

    def failure(self, error: BaseException) -> StreamFailed:
        if not isinstance(error, StreamError):
            return StreamFailed("model_failed", f"the model failed with {type(error).__name__}")
        if error.code in get_args(FailureCode):
            return StreamFailed(cast("FailureCode", error.code), error.message, error.retryable)
        return StreamFailed("provider_error", error.message, error.retryable, error.code)

    async def begin(self) -> Step:
        talk = self.conversation
        if talk.run_id != self.run_id:
            await _catch_up(self.runs, talk)
        if talk.run_id not in (None, self.run_id):
            raise UsageError(
                f"the conversation already has an active run ({talk.run_id}). "
                "Resume or stop that one first"
            )
        if self.prompt is None:
            return await self._resume()
        text = replace_lone_surrogates(str.__str__(self.prompt))
        return self.loop.begin(text, talk.messages, talk.user, talk.replaces)

    async def _resume(self) -> Step:
        """Acquire the lease and return the next step, with all decisions that were made."""
        if not self.runs.survives:
            self.runs.waiting(self.run_id)  # it may have been resumed meanwhile
        try:
            await self._acquire(self.wait)
            step = await self._next_step()
        except BaseException:
            await self._release()
            raise
        self.runs.paused.pop(self.run_id, None)
        return step

    async def load(self) -> RunState:
        """Read the records that are not known here, without acquiring the lease."""
        self.loop.restore(await self.log.read())
        state = self.loop.state
        if self.conversation.is_fresh:
            self.conversation.id = state.conversation_id
            self.conversation.user = state.user
            self.conversation.messages = state.history
        if self.loop.is_over:  # perhaps in another process
            self.conversation.finish_run(self.run_id, self.loop.final_messages)
        return state

    async def stop(self, reason: str) -> list[Event]:
        """End the run. If no process drives it, return its last events."""
        await self.log.store.stop(self.run_id, reason)
        try:
            await self._acquire()
            commands = await self.log.store.commands(self.run_id)  # the first reason counts
            events = self._loop_of_mode.abandoned(commands.stop_reason or reason).events
            await self.log.write(events)
        except RunBusyError:
            return []  # its driver ends it
        finally:
            await self._release()
        self.rested()
        return events

    async def check(self) -> None:
        await self.load()
        self._refuse_if_over()
        commands = await self.log.store.commands(self.run_id)
        for call_id, decision in self.decisions.items():
            call = self.loop.state.calls.get(call_id)
            is_decided = call is not None and call.decision is not None
            if is_decided or commands.decisions.get(call_id, decision) != decision:
                raise AlreadyDecidedError(call_id)
        self._loop_of_mode.check(self.decisions)
        self._loop_of_mode.require_tools({**commands.decisions, **self.decisions})

    @property
    def _loop_of_mode(self) -> AgentLoop | ObserverLoop:
        """The loop that checks decisions and ends the run: for an observed run, its observer's."""
        is_observed = self.loop.state.mode == "observed"
        return ObserverLoop(self.run_id, self.loop.state) if is_observed else self.loop

    async def _acquire(self, wait: float = 0.0) -> None:
        if await self.log.acquire(wait):
            await self.load()
        self._refuse_if_over()

    def _refuse_if_over(self) -> None:
        if self.loop.is_over:
            raise UsageError(f"the run {self.run_id!r} has ended ({self.loop.state.status})")

    async def _next_step(self) -> Step:
        loop, store, given = self.loop, self.log.store, self.decisions
        if self.loop.state.mode == "observed":
            raise UsageError(
                f"the run {self.run_id} was only observed: its source is gone, so it cannot be "
                "resumed. Agent.stop_async ends it"
            )
        loop.check(given)
        commands = await self.log.commands()
        loop.require_tools({**commands.decisions, **given})
        if commands.stop_reason is not None:
            return loop.abandoned(commands.stop_reason)
        posted = await usable_decisions(self.log, loop, commands.decisions)
        fresh = {id_: one for id_, one in given.items() if posted.get(id_) != one}
        if fresh:
            await store.decide(self.run_id, fresh)
        return loop.resumed({**posted, **given}, commands.decided_at)

    async def _release(self) -> None:
        self.log.close()
        await shielded(self.log.release())

    async def aclose(self) -> None:
        await self.runs.close_model()

    def rested(self) -> None:
        """Keep a paused run. Update the conversation of a run that is over."""
        if self.loop.is_paused:
            if not self.runs.survives:
                self.runs.paused[self.run_id] = self
        elif not self.loop.is_over:  # nothing of it could be written
            self.conversation.run_id = None
        else:
            self.runs.paused.pop(self.run_id, None)
            self.runs.conversations.pop(self.run_id, None)
            if isinstance(self.runs.store, _ProcessStore):
                self.runs.store.forget(self.run_id)
            self.conversation.finish_run(self.run_id, self.loop.final_messages)


async def _catch_up(runs: _AgentRuns, conversation: Conversation) -> None:
    """Continue a conversation after its run, if that has ended in another process."""
    run_id = conversation.run_id
    if run_id is None or not runs.survives:
        return
    try:
        if (await runs.store.info(run_id)).is_over:
            loop = await runs.restored(run_id)
            conversation.finish_run(run_id, loop.final_messages)
    except RunNotFoundError:  # it was deleted
        if conversation.run_id == run_id:
            conversation.run_id = None
