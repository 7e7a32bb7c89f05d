"""``Agent``: a model, tools and rules, and runs of these on prompts."""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, overload
from uuid import uuid4

from argstream.agent._effects import Step
from argstream.agent._last_events import LastEvents
from argstream.agent._machine import Machine
from argstream.agent._setting import EventHook, Setting
from argstream.agent._state import LoopRules
from argstream.agent._toolbox import Toolbox
from argstream.agent.approvals import Approver, Decisions
from argstream.agent.conversation import Conversation
from argstream.agent.result import RunResult
from argstream.agent.run import AgentRun
from argstream.agent.tools import refuse_while_imported
from argstream.clients import Model, ModelSettings, as_model
from argstream.errors import UsageError
from argstream.events import Event, RunPaused
from argstream.policy import Policy

__all__ = ["Agent"]


class _Paused(NamedTuple):
    """A run that waits for decisions."""

    machine: Machine
    conversation: Conversation


class Agent:
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
    ) -> None:
        """Make an agent of a model and tools.

        ``model`` is a name such as ``openai:gpt-5``, what ``make_model`` gives, a
        ``ScriptedModel``, a function from a ``ModelRequest`` to an SDK's stream, or an async
        iterator of one. ``tools`` are functions, plain or with ``@tool``. ``on_event`` is given
        every event.

        If a person must be asked, ``approver`` does it while the run goes on; without one the run
        pauses, see ``resume``. What nobody has decided after ``approval_timeout`` seconds is
        denied. A run fails when the model has taken ``max_turns`` and wants another.
        """
        if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
            raise UsageError(f"tools is a list of functions, not {type(tools).__name__}")
        if not isinstance(settings, ModelSettings | None):
            raise UsageError(f"settings is a ModelSettings(…), not {type(settings).__name__}")
        if max_turns < 1:
            raise UsageError(f"max_turns is a number of 1 or more, not {max_turns}")
        if approval_timeout is not None and approval_timeout <= 0:
            raise UsageError(f"approval_timeout is seconds, more than 0, not {approval_timeout}")
        self.name = name
        self.model: Model = as_model(model)
        self._setting = Setting(
            self.model,
            Toolbox(tools, policy),
            instructions,
            settings or ModelSettings(),
            approver,
            on_event,
        )
        self._rules = LoopRules(max_turns, approver is not None, approval_timeout)
        self._paused: dict[str, _Paused] = {}
        self._last_events = LastEvents(on_event)

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

        def begin() -> Step:
            machine.state.numbering = conversation.numbering
            return machine.begin(prompt, conversation.messages)

        return AgentRun(machine, self._setting, conversation, begin, self)

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
        self, run: "str | RunPaused | RunResult | AgentRun", decisions: Decisions | None = None
    ) -> AgentRun:
        """Go on with a run that has paused, with what a person has decided, by the ids of calls.

        What is given can be followed like any run, with ``async for`` or ``for``, or waited for,
        with ``await`` or ``.wait()``. Calls without a decision stay pending: the run pauses again
        for these. Raises UsageError, and the run stays as it is, if a decision cannot be used.
        """
        if not isinstance(decisions, Mapping | None):
            raise UsageError("decisions are by the ids of their calls: {call_id: Approve()}")
        machine, conversation = self._waiting(run)
        given = dict(decisions or {})
        machine.check(given)

        def begin() -> Step:
            self._waiting(machine.state.run_id)  # it may have gone on meanwhile
            waiting = self._paused.pop(machine.state.run_id)
            try:
                return machine.resumed(given, time.time())
            except UsageError:
                self._paused[machine.state.run_id] = waiting
                raise

        return AgentRun(machine, self._setting, conversation, begin, self)

    def stop(self, run: "str | RunPaused | RunResult | AgentRun", reason: str = "") -> list[Event]:
        """End a run that has paused, and give its last events: its calls will not run.

        A run that is being followed is stopped by its own ``stop``.
        """
        machine, conversation = self._waiting(run)
        events = machine.stopped(reason).events
        self.rested(conversation, machine)
        self._last_events.show(events)
        return events

    async def aclose(self) -> None:
        """Close what the model keeps open for this event loop, such as connections."""
        await self._setting.close_model()

    def _waiting(self, run: "str | RunPaused | RunResult | AgentRun") -> _Paused:
        run_id = run if isinstance(run, str) else run.run_id
        if run_id not in self._paused:
            waiting = ", ".join(self._paused) or "none"
            raise UsageError(f"no run {run_id!r} waits for decisions; waiting are: {waiting}")
        return self._paused[run_id]

    def rested(self, conversation: Conversation, machine: Machine) -> None:
        """Keep a run that has paused, until it is over; for runs only."""
        run_id = machine.state.run_id
        if machine.is_paused:
            self._paused[run_id] = _Paused(machine, conversation)
            return
        self._paused.pop(run_id, None)
        if conversation.run_id == run_id:
            conversation.run_id = None
            conversation.messages = machine.final_messages

    def __repr__(self) -> str:
        return f"<Agent {self.name!r}, {self.model.name}>"
