"""``Agent``: a model, tools and rules, and runs of these on prompts."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, overload
from uuid import uuid4
from weakref import WeakValueDictionary

from argstream.agent._checking import check_decisions
from argstream.agent._effects import Step
from argstream.agent._faces import AsyncClosing
from argstream.agent._last_events import LastEvents
from argstream.agent._loop_thread import LoopThread, run_alone
from argstream.agent._machine import Machine
from argstream.agent._run_log import RunLog, RunPosition
from argstream.agent._setting import EventHook, Setting
from argstream.agent._state import LoopRules
from argstream.agent._taking_up import caught_up, ended, found, taken_up
from argstream.agent._toolbox import Toolbox
from argstream.agent.approvals import Approval, Approver, Decisions
from argstream.agent.conversation import Conversation
from argstream.agent.result import RunResult
from argstream.agent.run import AgentRun, Course
from argstream.agent.tools import encodable, refuse_while_imported
from argstream.clients import Model, ModelSettings, as_model
from argstream.errors import RunTaken, UsageError
from argstream.events import Event, RunPaused
from argstream.log import Store
from argstream.policy import Policy
from argstream.stores import open_store

__all__ = ["Agent"]


AnyRun: TypeAlias = "str | RunPaused | RunResult | AgentRun"
"""What says which run is meant: its id, or what has one."""


class _Paused(NamedTuple):
    """A run that waits for decisions."""

    machine: Machine
    conversation: Conversation
    position: RunPosition


class Agent(AsyncClosing):
    """Asks a model, runs the tools that it calls, and tells all of it while it happens.

    ::

        agent = Agent("anthropic:claude-opus-4-7", [read_file, write_file])
        async for event in agent.run_stream("Make the tests pass"):
            ...

    One agent can run any number of prompts at once. It keeps nothing of them but the runs that wait
    for decisions.
    """

    def __init__(  # noqa: PLR0913 - by name, and once
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
        claim_seconds: float = 15.0,
    ) -> None:
        """Make an agent of a model and tools.

        ``model`` is a name such as ``openai:gpt-5``, what ``make_model`` gives, a
        ``ScriptedModel``, a function from a ``ModelRequest`` to an SDK's stream, or an async
        iterator of one. ``tools`` are functions, plain or with ``@tool``. ``on_event`` is called
        with the ``Record`` of every event, see ``AgentRun.records``.

        If a person must be asked, ``approver`` does it while the run goes on; without one the run
        pauses, see ``resume``. What nobody has decided after ``approval_timeout`` seconds is
        denied. A run fails when the model has taken ``max_turns`` and wants another. At most
        ``max_parallel_calls`` tools of a run execute at once. Further calls wait, and start in
        order as others end.

        With a ``store`` (the name of an SQLite file, a ``redis://`` address, or what ``open_store``
        gives) each run is a log that survives this process: any other that has the tools can go on
        with it, see ``resume``. Who drives a run says every few seconds that he lives; if nothing
        is heard of him for ``claim_seconds``, others may take the run over.
        """
        if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
            raise UsageError(f"tools is a list of functions, not {type(tools).__name__}")
        if not isinstance(settings, ModelSettings | None):
            raise UsageError(f"settings is a ModelSettings(…), not {type(settings).__name__}")
        if max_turns < 1:
            raise UsageError(f"max_turns is a number of 1 or more, not {max_turns}")
        limit: object = max_parallel_calls
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise UsageError(f"max_parallel_calls must be an integer of at least 1, not {limit!r}")
        if approval_timeout is not None and approval_timeout <= 0:
            raise UsageError(f"approval_timeout is seconds, more than 0, not {approval_timeout}")
        if claim_seconds <= 0:
            raise UsageError(f"claim_seconds is more than 0, not {claim_seconds}")
        self.name = name
        self.model: Model = as_model(model)
        self._setting = Setting(
            self.model,
            Toolbox(tools, policy),
            instructions,
            settings or ModelSettings(),
            approver,
            on_event,
            name,
            None if store is None else open_store(store),
            claim_seconds,
        )
        self._owns_store = isinstance(store, str | Path)
        self._rules = LoopRules(
            max_turns, approver is not None, approval_timeout, max_parallel_calls
        )
        self._paused: dict[str, _Paused] = {}  # without a store
        self._conversations: WeakValueDictionary[str, Conversation] = WeakValueDictionary()
        self._last_events = LastEvents(on_event)

    @property
    def store(self) -> Store | None:
        """Where the logs of its runs are kept."""
        return self._setting.store

    def run_stream(self, prompt: str, conversation: Conversation | None = None) -> AgentRun:
        """Run a prompt, to be followed with ``async for``, or waited for with ``await``."""
        refuse_while_imported()
        given: object = prompt
        if not isinstance(given, str) or not given.strip():
            raise UsageError("a prompt is a text that is not empty")
        conversation = Conversation() if conversation is None else conversation
        if not isinstance(conversation, Conversation):
            raise UsageError(
                f"a conversation is a Conversation(), not {type(conversation).__name__}"
            )
        run_id = f"run_{uuid4().hex}"
        machine = Machine(run_id, self._setting.tools, self._rules, conversation.grants)

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
        """Run a prompt to its end, or until it pauses.

        Raises ``RunFailure`` if it fails; what had come of it is in its ``result``.
        """
        return await self.run_stream(prompt, conversation)

    def resume(
        self,
        run: AnyRun,
        decisions: Decisions | None = None,
        *,
        wait: float = 0.0,
        conversation: Conversation | None = None,
    ) -> AgentRun:
        """Go on with a run that has paused, or was cut off, with what a person has decided.

        What is given can be followed like any run, with ``async for`` or ``for``, or waited for,
        with ``await`` or ``.wait()``. Decisions are by the ids of calls. Calls without one stay
        pending: the run pauses again for these. Raises UsageError, and the run stays as it is, if a
        decision cannot be used.

        With a store, this may be another process than the one that began the run. Its last events
        are then those in its log. A tool that had begun, and of which no result is there, is not
        run again; a turn of the model that was cut off begins again. Errors are raised when the run
        is followed: ``RunTaken`` if another process still drives it, or may; ``wait`` says for how
        many seconds to wait for the end of its claim. What need not be asked about any more is what
        this process knows of it, or ``conversation``, if one is given that goes on with the run.
        """
        run_id, given = _id_of(run), _decisions_of({} if decisions is None else decisions)
        if self._setting.store is not None:
            if conversation is not None:
                self._conversations[run_id] = conversation
            return self._resume_logged(self._setting.store, run_id, given, wait)
        machine, waiting_conversation, position = self._waiting(run_id)
        machine.check(given)

        async def begin() -> Step:
            self._waiting(run_id)  # it may have gone on meanwhile
            waiting = self._paused.pop(run_id)
            try:
                return machine.resumed(given, time.time())
            except UsageError:
                self._paused[run_id] = waiting
                raise

        return AgentRun(Course(machine, begin, position), self._setting, waiting_conversation, self)

    def _resume_logged(self, store: Store, run_id: str, given: Decisions, wait: float) -> AgentRun:
        conversation = self._conversations.setdefault(run_id, Conversation())
        machine = Machine(run_id, self._setting.tools, self._rules, conversation.grants)
        position = self._setting.position(run_id, conversation.id)
        log = RunLog(store, position, self._setting.claim_seconds)

        async def begin() -> Step:
            return await taken_up(log, machine, conversation, given, wait)

        return AgentRun(Course(machine, begin, position, log), self._setting, conversation, self)

    async def check(self, run: AnyRun, decisions: Decisions) -> None:
        """Raise what ``resume`` would say to these decisions, and change nothing.

        So one can be told at once that arguments do not fit, or that somebody was quicker
        (``AlreadyDecided``), before anything is decided: also while another process drives the run.
        """
        run_id, given = _id_of(run), _decisions_of(decisions)
        if self._setting.store is None:
            self._waiting(run_id).machine.check(given)
        else:
            await check_decisions(self._setting.store, self._machine(run_id), given)

    async def conversation(self, id: str, *, user: str = "") -> Conversation:  # noqa: A002 - what it is
        """Give a conversation as the store has it, to go on with it; a new one if there is none.

        What was said is what its newest run says. If that is not over, ``run_id`` says which it is,
        and what was said is that before it. Conversations of other users are others, though they
        may have the same id.
        """
        if self._setting.store is None:
            raise UsageError("the agent has no store, which could have a conversation: store=…")
        if not id:
            raise UsageError("a conversation is found by its id, which is not empty")
        fresh = Conversation(id=id, user=user)
        return await found(self._setting.store, self._machine, fresh)

    def stop(self, run: AnyRun, reason: str = "") -> list[Event]:
        """End a run that has paused, and give its last events: its calls will not run.

        A run that is being followed is stopped by its own ``stop``. With a store, also a run that
        was cut off; and of one that another process drives, that is told to end it.
        """
        if self._setting.store is not None:
            return run_alone(lambda: self.stop_async(run, reason), "await agent.stop_async(…)")
        machine, conversation, position = self._waiting(_id_of(run))
        events = machine.stopped(reason).events
        self.rested(conversation, position, machine)
        self._last_events.show(position.stamp(events))
        return events

    async def stop_async(self, run: AnyRun, reason: str = "") -> list[Event]:
        """Do what ``stop`` does, in an event loop."""
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
        log = RunLog(store, position, self._setting.claim_seconds)
        try:
            records = await ended(log, machine, conversation, reason)
        except RunTaken:
            return []  # who drives it has been told
        self.rested(conversation, position, machine)
        self._last_events.show(records)
        return [record.event for record in records]

    def stop_soon(self, run_id: str, reason: str) -> None:
        """End a run that has paused, without waiting for it in an event loop; for runs only."""
        if self._setting.store is None:
            self.stop(run_id, reason)
        else:
            store = self._setting.store
            with closing(LoopThread()) as loop:  # it counts, whatever becomes of this event loop
                loop.call(lambda: store.stop(run_id, reason))
            self._last_events.run(self._stop_quietly(run_id, reason))

    async def catch_up(self, conversation: Conversation, run_id: str) -> None:
        """See whether another run of a conversation has ended in another process; for runs only."""
        store, other = self._setting.store, conversation.run_id
        if store is not None and other not in (None, run_id):
            await caught_up(store, self._machine(other or ""), conversation)

    def _machine(self, run_id: str) -> Machine:
        """Make one that only says what is known of a run, or how it ends."""
        return Machine(run_id, self._setting.tools, self._rules)

    async def _stop_quietly(self, run_id: str, reason: str) -> None:
        await self.stop_async(run_id, reason)

    async def aclose(self) -> None:
        """Close what the model keeps open for this event loop; and the store, if it is our own."""
        await self._setting.close_model()
        if self._owns_store and self._setting.store is not None:
            await self._setting.store.aclose()

    def _waiting(self, run_id: str) -> _Paused:
        if run_id not in self._paused:
            waiting = ", ".join(self._paused) or "none"
            raise UsageError(f"no run {run_id!r} waits for decisions; waiting are: {waiting}")
        return self._paused[run_id]

    def rested(self, conversation: Conversation, position: RunPosition, machine: Machine) -> None:
        """Keep a run that has paused, until it is over; for runs only."""
        run_id = machine.state.run_id
        if machine.is_paused:
            if self._setting.store is None:
                self._paused[run_id] = _Paused(machine, conversation, position)
            return
        if not machine.is_over:  # nothing of it could be written: it has never been
            conversation.run_id = None
            return
        self._paused.pop(run_id, None)
        self._conversations.pop(run_id, None)
        conversation.go_on_after(run_id, machine.final_messages)

    def __repr__(self) -> str:
        return f"<Agent {self.name!r}, {self.model.name}>"


def _decisions_of(decisions: object) -> dict[str, Approval]:
    if not isinstance(decisions, Mapping):
        raise UsageError("decisions are by the ids of their calls: {call_id: Approve()}")
    return dict(decisions)


def _id_of(run: AnyRun) -> str:
    run_id = run if isinstance(run, str) else getattr(run, "run_id", None)
    if not isinstance(run_id, str):
        raise UsageError(f"which run is meant is said by its id, not by {type(run).__name__}")
    return run_id.removeprefix("run:")  # as the command line has it
