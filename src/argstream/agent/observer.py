"""Observes agents that run their own tools, and writes their runs to a store."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

from msgspec.structs import replace

from argstream import events as ev
from argstream._asyncio import Notifier
from argstream.agent._driver import Driver, Source
from argstream.agent._lease import RunLog, check_seconds
from argstream.agent._loop import (
    Answer,
    ApprovalReason,
    AskModel,
    CloseStream,
    RunLoop,
    Step,
    Toolbox,
    aborted,
    denied_message,
    read_arguments,
    written,
)
from argstream.agent._run import AsyncClosing, Run
from argstream.agent.approvals import (
    EXPIRED,
    Approval,
    Approve,
    Approver,
    Decisions,
    Deny,
    check_decision,
    is_expired,
)
from argstream.agent.result import Conversation, RunResult
from argstream.agent.tools import parse_arguments
from argstream.assembly import Numbering
from argstream.errors import RunBusyError, UsageError
from argstream.history import Message
from argstream.models import ModelRequest, as_model
from argstream.providers import AGENTS, ProtocolName
from argstream.runs import open_store
from argstream.runs._state import Call, RunState, TextBlock
from argstream.runs._store import Store
from argstream.streaming import AsyncEventStream, stream
from argstream.streaming._input import awaited

if TYPE_CHECKING:
    from claude_agent_sdk import PermissionResult, ToolPermissionContext

__all__ = ["Observer", "observe"]

_STOPPED: Final = "the run was stopped"
_CUT: Final = ev.RunFailed("truncated", "the stream ended before the run did")
_UNHEARD: Final = 30.0  # seconds in which an agent must report a call that it wants to run
# Seconds that the stream may take to complete a call that is to run. A call without arguments is
# completed at the end of the turn, which may be after it has run.
_CLOSING: Final = 0.5

logger: Final = logging.getLogger("argstream.agent")

_ARGUMENTS: Final = ev.ArgumentEvent | ev.ToolArgsDelta | ev.ToolArgsCompleted | ev.ToolArgsInvalid


def observe(
    source: object,
    *,
    store: Store,
    prompt: str = "",
    agent: str = "claude-code",
    conversation_id: str = "",
    protocol: ProtocolName = "auto",
    user: str = "",
) -> Run:
    """Observe a run of an agent that runs its tools itself, and keep it in a store.

    ``source`` is the result of ``query()`` of the Claude Agent SDK, a ``ClaudeSDKClient`` that was
    asked something, a run of pydantic-ai or openai-agents, or the lines of
    ``claude --output-format stream-json``. ``prompt`` and ``agent`` are for the log. Runs with the
    same ``conversation_id`` and ``user`` are one conversation.
    """
    given: object = store
    if isinstance(given, str | Path):
        raise UsageError("store must be open. Pass open_store(…), and close it yourself")
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
        if approval_timeout is not None:
            check_seconds("approval_timeout", approval_timeout)
        check_seconds("lease_seconds", lease_seconds)
        self.store: Store = open_store(store)
        self.agent = agent
        self._owns_store = isinstance(store, str | Path)
        self._approver = approver
        self._approval_seconds = approval_timeout
        self._lease_seconds = lease_seconds
        self._notifier = Notifier()
        self._observed: list[_ObservedRun] = []  # those that are not over

    def observe(
        self,
        source: object,
        prompt: str = "",
        *,
        conversation_id: str = "",
        protocol: ProtocolName = "auto",
        user: str = "",
    ) -> Run:
        """Observe a run: see the function ``observe``."""
        if protocol not in ("auto", "argstream", *AGENTS):
            raise _not_an_agent(protocol)
        run_id = f"run_{uuid4().hex}"
        conversation = Conversation(id=conversation_id, user=user)
        log = RunLog(self.store, run_id, conversation.id, self.agent, self._lease_seconds)
        loop = ObserverLoop(run_id)
        run = _ObservedRun(
            source, protocol, self._notifier, loop, log, prompt, user, self._approver
        )
        self._observed = [one for one in self._observed if not one.loop.is_over]
        self._observed.append(run)
        return Run(run.driver, conversation)

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
            problem = _not_run(call_id, "its arguments are not a JSON object")
            return _permission(name, problem, interrupt=False)
        await self._notifier.until(lambda: self._run_of(call_id, text) is not None, _UNHEARD)
        run = self._run_of(call_id, text)
        if run is None:
            answer = _not_run(call_id, "no single observed run has this call")
        else:
            reason = context.decision_reason or context.title or f"requested by {self.agent}"
            answer = await run.ask(call_id, text, reason, self._approval_seconds)
        return _permission(name, answer, interrupt=run is not None and run.loop.is_ending)

    def _run_of(self, call_id: str, text: str) -> "_ObservedRun | None":
        """Return the run that makes a call: two observed runs may use the same IDs."""
        runs = [run for run in self._observed if not run.loop.is_over]
        found = [run for run in runs if run.loop.open_call(call_id) is not None]
        if len(runs) > 1:
            found = [run for run in found if run.loop.may_have_arguments(call_id, text)]
        return found[0] if len(found) == 1 else None

    async def stop_async(self, run_id: str, reason: str = "") -> list[ev.Event]:
        """End a run, in whatever process it is observed.

        If that process has died, its last events are written here, and returned.
        """
        await self.store.stop(run_id, reason)
        log = RunLog(self.store, run_id, "", self.agent, self._lease_seconds)
        try:
            await log.acquire()
        except RunBusyError:
            return []  # its observer ends it
        try:
            state = RunState.from_records(await log.read(), arguments="off")
            if state.mode != "observed":
                raise UsageError(f"the run {run_id} is not an observed run. Use Agent.stop_async()")
            commands = await self.store.commands(run_id)
            events = ObserverLoop(run_id, state).abandoned(commands.stop_reason or reason).events
            await log.write(events)
        finally:
            await log.release()
        return events

    async def aclose(self) -> None:
        """Close the store, if it was opened here."""
        if self._owns_store:
            await self.store.aclose()


def _permission(name: str, answer: Answer, *, interrupt: bool) -> "PermissionResult":
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


@dataclass(eq=False)
class _ObservedRun(Source):
    """One observed run: the stream of its agent, and the calls that wait for an answer."""

    source: Any
    protocol: ProtocolName
    notifier: Notifier
    loop: "ObserverLoop"
    log: RunLog
    prompt: str
    user: str
    approver: Approver | None
    is_observed = True
    is_resumable = False

    def __post_init__(self) -> None:
        interrupt = getattr(self.source, "interrupt", None)
        self.interrupt = interrupt if callable(interrupt) else None
        self._answers: dict[str, asyncio.Future[Answer]] = {}  # by call
        self.driver = Driver(self.loop, self, self.log, Toolbox((), None))

    async def begin(self) -> Step:
        return self.loop.begin(self.prompt, self.user)

    def open(self, messages: tuple[Message, ...], after: Numbering) -> AsyncEventStream:
        receive = getattr(self.source, "receive_response", None)

        async def received(_: ModelRequest) -> object:
            return await awaited(receive() if callable(receive) else self.source)

        # It reads what is not async in threads, so that nothing holds up the event loop.
        asked = as_model(received).stream(ModelRequest(messages=()))
        return stream(asked, self.protocol)

    def check_protocol(self, protocol: str) -> None:
        if protocol not in AGENTS and protocol != "auto":
            raise _not_an_agent(protocol)

    def failure(self, error: BaseException) -> ev.RunFailed:
        if isinstance(error, UsageError):
            return ev.RunFailed("unusable_source", str(error))
        return ev.RunFailed("source_failed", f"the source failed with {type(error).__name__}")

    def events_applied(self) -> None:
        self.notifier.notify()

    def answer(self, answer: Answer) -> None:
        waiting = self._answers.get(answer.call_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def dismiss(self) -> None:
        for call_id in list(self._answers):
            self.answer(_not_run(call_id, _STOPPED))

    async def ask(self, call_id: str, text: str, reason: str, seconds: float | None) -> Answer:
        """Request an approval, and wait until it is decided."""
        loop = self.loop
        await self.notifier.until(lambda: loop.is_settled(call_id), _CLOSING)
        if (objection := loop.objection(call_id)) is not None:
            return _not_run(call_id, objection)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[call_id] = answer
        self.driver.act(loop.ask(call_id, text, reason, seconds))
        try:
            return await answer
        finally:  # also if the agent does not wait any more
            self._answers.pop(call_id, None)
            step = loop.withdrawn(call_id, "the agent cancelled the request")
            if step.events:
                self.driver.act(step)


def _not_an_agent(protocol: str) -> UsageError:
    return UsageError(
        f"observe() supports agents that run their own tools: {', '.join(sorted(AGENTS))}. Use "
        f"stream() to read {protocol}, or Agent to run its calls"
    )


def _not_run(call_id: str, why: str) -> Answer:
    """Refuse a call although no person has denied it."""
    return Answer(call_id, None, f"the call was not run: {why}")


class ObserverLoop(RunLoop):
    """The loop of an observed run."""

    is_paused = False  # while it waits for decisions, its process goes on
    numbering: Numbering = Numbering()  # nothing precedes its only stream

    def __init__(self, run_id: str, state: RunState | None = None) -> None:
        super().__init__(run_id, state)
        self.is_ending: bool = False  # it was stopped, and may still be read
        self._asked: dict[str, str] = {}  # the exact arguments of requests, by call ID
        self._reported_end: ev.RunEnd | None = None  # by the agent
        self._stop_reason = ""

    @property
    def result(self) -> RunResult:
        state, end = self.state, self.state.end
        texts = (block for block in reversed(state.blocks) if isinstance(block, TextBlock))
        said = (block.text for block in texts if block.parent_id is None and not block.is_thinking)
        text, usage = next(said, ""), state.usage
        if isinstance(end, ev.RunCompleted):
            text, usage = end.result if isinstance(end.result, str) else text, end.usage
        return self._result(text, usage, tuple(state.messages or ()))

    def open_call(self, call_id: str) -> Call | None:
        call = self.state.calls.get(call_id)
        return None if call is None or call.outcome is not None else call

    def begin(self, prompt: str, user: str = "") -> Step:
        self._emit(ev.RunStarted(self.run_id, prompt, user=user, mode="observed"))
        self._out.effects.append(AskModel(()))
        return self._step()

    def apply_deltas(self, deltas: list[ev.Event]) -> list[ev.Event]:
        kept = [event for event in deltas if not self._is_late(event)]
        for event in kept:
            if isinstance(event, ev.TextDelta) and event.parent_id is None:
                self._reported_end = None  # the agent continued after it had reported its end
        return super().apply_deltas(kept)

    def _is_late(self, event: ev.Event) -> bool:
        """Return True for an event about arguments that were already complete."""
        if not isinstance(event, _ARGUMENTS):
            return False
        call = self.open_call(event.call_id)
        return call is None or call.verdict is not None

    def events_received(self, events: Sequence[ev.Event]) -> Step:
        for event in events:
            if not self._is_late(event):
                self._receive(event)
        return self._step()

    def _receive(self, event: ev.Event) -> None:
        if isinstance(event, ev.RunEnd):
            self._reported_end = event  # emitted if nothing follows
            return
        if isinstance(event, ev.CallEnd):
            self._withdraw(event.call_id, "the call is over")
        match event:
            case ev.ThinkingStarted(parent_id=None) | ev.ToolCallStarted(parent_id=None):
                self._reported_end = None  # the agent continued after it had reported its end
            case ev.ToolCallCompleted(call_id=call_id):
                decision = call.decision if (call := self.open_call(call_id)) else None
                if decision is not None and decision.edited_arguments is not None:
                    event = replace(event, arguments=decision.edited_arguments)
        self._emit(event)

    def may_have_arguments(self, call_id: str, text: str) -> bool:
        """Return False only if the call's complete arguments differ from ``text``."""
        came = parse_arguments(self.state.calls[call_id].raw)
        return came.verdict != "complete" or written(came.value) == written(read_arguments(text))

    def is_settled(self, call_id: str) -> bool:
        """Return True if no more is expected of the arguments of a call."""
        call = self.open_call(call_id)
        return call is None or call.verdict is not None

    def objection(self, call_id: str) -> str | None:
        """Return why no approval can be requested for a call, if so."""
        if self.is_ending or self.is_over:
            return _STOPPED if self.is_ending else "the run is over"
        if (call := self.open_call(call_id)) is None:
            return "it is over"
        if call.verdict not in (None, "complete"):
            return f"its arguments are {call.verdict}"
        return None if call.request is None else "its approval was already requested"

    def ask(self, call_id: str, text: str, reason: str, seconds: float | None) -> Step:
        """Request an approval of a call with exactly these arguments."""
        call = self.state.calls[call_id]
        name = call.name
        self._asked[call_id] = text
        if call.verdict is None:  # the agent has all of its arguments
            exact = None if text == call.raw else text
            self._emit(ev.ToolArgsCompleted(call_id, name, read_arguments(text), text=exact))
        self._request(call_id, name, text, ApprovalReason(reason), seconds)
        self._pause()
        return self._step()

    def _pause(self) -> None:
        if self.pending and not self.is_ending:
            self._emit(ev.RunPaused(self.run_id, self.pending, keeps_lease=True))

    def _decided(self, *decisions: ev.ApprovalDecided) -> None:
        if decisions and self.state.status == "paused":
            self._emit(ev.RunResumed(self.run_id))
        for decision in decisions:
            self._emit(decision)
        self._pause()

    def check(self, decisions: Decisions) -> None:
        waiting = {request.call_id: request for request in self.pending}
        for call_id, decision in decisions.items():
            if call_id not in waiting:
                raise UsageError(f"no pending approval for call {call_id!r} in {self.run_id}")
            check_decision(waiting[call_id], decision)
            edited = decision.arguments if isinstance(decision, Approve) else None
            # The agent itself validates edited arguments.
            if edited is not None and _text_of_arguments(edited) is None:
                raise UsageError("the edited arguments are not a valid JSON object")

    def decided(self, call_id: str, decision: Approval, when: float) -> Step:
        call = self.state.calls[call_id]
        if is_expired(call.request, when):
            event = self._denial(call_id, "expired", EXPIRED)
            answer = _not_run(call_id, EXPIRED)
        elif isinstance(decision, Deny):
            event = self._denial(call_id, "denied", decision.reason)
            answer = Answer(call_id, None, denied_message(decision.reason))
        else:
            edit = decision.arguments
            text = self._asked[call_id] if edit is None else _text_of_arguments(edit)
            edited = None if edit is None or text is None else read_arguments(text)
            outcome: ev.ApprovalOutcome = "approved" if edit is None else "edited"
            facts = (call_id, call.name, outcome, decision.reason, edited, decision.always)
            event = ev.ApprovalDecided(*facts)
            answer = Answer(call_id, text, always=decision.always)
        self._decided(event)
        self._out.effects.append(answer)
        return self._step()

    def withdrawn(self, call_id: str, why: str) -> Step:
        self._withdraw(call_id, why)
        return self._step()

    def _withdraw(self, call_id: str, why: str) -> None:
        if self.is_pending(call_id):
            self._decided(self._denial(call_id, "withdrawn", why))

    def _denial(self, call_id: str, outcome: ev.ApprovalOutcome, why: str) -> ev.ApprovalDecided:
        return ev.ApprovalDecided(call_id, self.state.calls[call_id].name, outcome, why)

    def stopped(self, reason: str) -> Step:
        """Mark the run as stopped, and withdraw its requests."""
        if not (self.is_ending or self.is_over):
            self.is_ending, self._stop_reason = True, reason
            was_asked = self._refuse_pending(_STOPPED)
            # An agent whose calls were denied may end by itself.
            self._out.effects.append(CloseStream(was_asked))
        return self._step()

    def _refuse_pending(self, why: str) -> bool:
        """Withdraw all requests. Return False if there are none."""
        pending = [request.call_id for request in self.pending]
        self._decided(*(self._denial(call_id, "withdrawn", why) for call_id in pending))
        self._out.effects.extend(_not_run(call_id, why) for call_id in pending)
        return bool(pending)

    def failed(self, code: str, message: str) -> Step:
        return self.stopped(message)

    def stream_ended(self, usage: ev.Usage | None = None, failure: ev.Event | None = None) -> Step:
        """End every open call and the run. ``failure`` is that of the source, if it failed.

        ``usage`` is what the stream has reported, also for turns that did not complete.
        """
        if self.is_over:
            return self._step()
        why = _STOPPED if self.is_ending else "the run is over"
        self._refuse_pending(why)
        calls = [call for call in self.state.calls.values() if call.outcome is None]
        for call in reversed(calls):  # calls of a sub-agent end before the call that started it
            if call.verdict is None:
                self._emit(aborted(call, why))
            self._emit(ev.ToolCallFailed(call.call_id, call.name, _no_result(call, why)))
        end = self._ending(failure if isinstance(failure, ev.RunEnd) else None)
        if usage is not None and end.usage == ev.Usage():
            end = replace(end, usage=usage)
        self._emit(replace(end, run_id=self.run_id))
        return self._step()

    def abandoned(self, reason: str) -> Step:
        """End a run whose process has died, as its log says."""
        return Step(self.stopped(reason).events + self.stream_ended().events, [])

    def crashed(self, code: str, message: str) -> Step:
        return self.stream_ended(failure=ev.RunFailed(code, message))

    def _ending(self, failure: ev.RunEnd | None) -> ev.RunEnd:
        if self.is_ending:
            return ev.RunStopped(self._stop_reason)
        if self._reported_end is not None:
            return self._reported_end
        if failure is None and self.state.failures:
            last = cast("ev.StreamFailed", self.state.failures[-1])  # the run has not failed yet
            return ev.RunFailed(last.specific_code, last.message)
        return failure or _CUT


def _text_of_arguments(arguments: Mapping[str, Any]) -> str | None:
    """Write arguments as one exact text, of which each use is a fresh parse; None if that fails.

    Strings become what can be encoded (invariant 4), as in any call.
    """
    try:
        parser = parse_arguments(written(dict(arguments)))
    except (TypeError, ValueError, RecursionError):
        return None
    return written(parser.value) if parser.verdict == "complete" else None


def _no_result(call: Call, why: str) -> str:
    if call.verdict != "complete":
        return f"the arguments were incomplete: {why}"
    if call.state == "denied" and call.decision is not None:
        return _not_run(call.call_id, call.decision.reason).reason
    return f"no result was reported: {why}. Its effects are unknown"
