"""The loop of an agent: inputs go in, events and effects come out.

Performs no I/O; the clock is injected. The state is a ``RunState``, to which every event is applied
when it is emitted, and ``LocalCall`` for what no event shows. So a run is restored by applying the
records of its log. The loop alone decides what may follow what:

- A call runs when its arguments are complete, it is approved or needs no approval, and its turn has
  ended in a way that allows it (invariant 8). Tools with a ``Streamed`` parameter start earlier;
  so do read-only tools with ``start="when_complete"``.
- A turn is over when its stream is, and each of its calls has a result. Then the model receives the
  results, in order, or the run ends.
- When only a decision can continue the run, it pauses, unless there is an approver.
- The run ends when no tool is running any more.

The states of a call in its turn (``LocalCall.status``), and the events between them::

    =========  =========  ==========================================================================
    from       to         event
    =========  =========  ==========================================================================
    writing    ready      ToolArgsCompleted, if the call needs no approval
    writing    pending    ApprovalRequested, after ToolArgsCompleted
    writing    running    ToolExecutionStarted, if the tool has a ``Streamed`` parameter
    writing    done       ToolCallFailed: the arguments are not valid, or the policy denies the call
    pending    ready      ApprovalDecided: approved or edited
    pending    done       ApprovalDecided: denied, expired or withdrawn; then ToolCallFailed
    ready      running    ToolExecutionStarted
    ready      pending    ApprovalRequested, on RunResumed, if the rules have changed
    ready      done       ToolCallFailed: the run is stopped, the turn does not allow calls, the
                          rules deny it now, or its arguments were changed after the request
    running    ready      RunResumed after a crash, if the tool is idempotent
    running    done       ToolCallCompleted or ToolCallFailed
    =========  =========  ==========================================================================

The states of a run (``RunState.status``)::

    running ──RunPaused──▶ paused ──RunResumed──▶ running ──▶ completed, failed or stopped
                             └──▶ stopped
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from argstream import events as ev
from argstream.agent.approvals import (
    EXPIRED,
    Approval,
    Approve,
    Decisions,
    Deny,
    Grant,
    check_decision,
    digest_of,
    idempotency_key,
    is_expired,
)
from argstream.agent.result import RunResult, ToolUse, numbering_of
from argstream.agent.tools import Tool, as_tool, parse_arguments
from argstream.assembly import Call as StreamedCall
from argstream.assembly import Numbering
from argstream.checks import Check
from argstream.errors import AlreadyDecidedError, TextInterruptedError, UsageError
from argstream.history import NOTE, CallPart, Message, OpaquePart, Part, ResultPart, TextPart
from argstream.models import OfferedTool
from argstream.policy import Policy, Rule
from argstream.providers._deltas import RUN_BY_PROVIDER
from argstream.runs._records import Record, coalesced
from argstream.runs._state import Call, RunState, TextBlock
from argstream.streaming import make_check


class AskModel(NamedTuple):
    messages: tuple[Message, ...]


class AskPerson(NamedTuple):
    request: ev.ApprovalRequested


class Execute(NamedTuple):
    call_id: str
    name: str
    text: str | None  # None for a tool that reads its text while the model writes it
    idempotency_key: str


class EndText(NamedTuple):
    """Report the end of its text to a tool that started early, once the turn has ended."""

    call_id: str
    interruption: TextInterruptedError | None = None


class CancelTool(NamedTuple):
    call_id: str
    undoes: bool = False  # whether it is undoing what it did: then it has a moment for that


class CloseStream(NamedTuple):
    may_end_itself: bool = False  # the source has a moment to end by itself


class Answer(NamedTuple):
    """Pass the decision on a call to the observed agent that runs it."""

    call_id: str
    text: str | None  # the exact arguments to run it with; None if it must not run
    reason: str = ""  # why it must not
    always: ev.ApprovalScope = "call"


Effect: TypeAlias = AskModel | AskPerson | Execute | EndText | CancelTool | CloseStream | Answer


class Step(NamedTuple):
    """What follows from an input: first the events, then the effects."""

    events: list[ev.Event]
    effects: list[Effect]
    rests: bool = False  # the run is over or has paused


CallStatus: TypeAlias = Literal["writing", "pending", "ready", "running", "done"]
"""Any of these but the first and the last may be skipped."""

Times: TypeAlias = Mapping[str, float]  # when calls were decided on, by their ids
_LETS_CALLS_RUN: Final[frozenset[ev.StopKind]] = frozenset(
    {"end_turn", "tool_calls", "paused", "length", "rejected"}
)
NOT_RUN: Final[dict[ev.StopKind, str]] = {
    "content_filter": "the answer was refused",
    "malformed": "the provider reported a malformed answer. Try again",
    "error": "the provider stopped the answer",
    "unknown": "the provider did not report why the answer ended",
}
INTERRUPTED: Final = (
    "the call was interrupted: the program ended while it ran. It is not known what it has done; it"
    " was not run again"
)
LOST_TURN: Final = "the program ended before the model's answer was complete, so it is asked again"
_LOST_TOOLS: Final = (
    "[Your last answer was cut off before it was complete, and is lost. While you wrote it, these "
    "tools had begun to work: {}. It is not known what they have done; look before you call them "
    "again.]"
)
_EXPIRED = "the approval request expired"
_MOST_DEFERRED: Final = 128  # deltas and argument events


class LoopRules(Struct, frozen=True):
    max_turns: int = 50
    asks_in_place: bool = False  # there is an approver, so the run need not pause
    approval_seconds: float | None = None  # until a request expires
    max_parallel_calls: int = 32  # further calls wait, and start in order


class ApprovalReason(Struct, frozen=True):
    reason: str
    name: str | None = None  # the name of the rule that asks
    rule: Rule | None = None  # the rule that asks; None if it is no rule of a policy that is here

    @property
    def grant(self) -> Grant | None:
        """What ``always="rule"`` grants: this rule, not another one with the same name."""
        return None if self.rule is None else Grant("rule", self.name or "", self.rule)

    @property
    def rule_digest(self) -> str:
        return "" if self.rule is None else self.rule.digest


class Toolbox(dict[str, Tool]):
    """The tools of an agent by their names, and its policy."""

    def __init__(self, tools: Iterable[object], policy: Policy | None) -> None:
        super().__init__()
        for given in tools:
            found = as_tool(given)
            if found.name in self:
                raise UsageError(f"two tools are named {found.name!r}. Rename one: @tool(name=…)")
            self[found.name] = found
        self.policy = policy
        # "report": the agent requests approval itself, when the arguments are whole.
        specs = [found.spec for found in self.values()]
        self.check: Check | None = make_check(specs, policy, on_ask="report")
        self.offered: tuple[OfferedTool, ...] = tuple(found.offered for found in self.values())

    def approval_reasons(self, name: str, text: str) -> list[ApprovalReason] | ev.ArgumentsError:
        """Return why this call needs an approval, or the error if the policy denies it."""
        tool = self[name]
        wanted = tool.requires_confirmation
        found: list[ApprovalReason] = []
        for policy in (self.policy, wanted):
            if not isinstance(policy, Policy):
                continue
            decision = policy.decide(name, read_arguments(text))
            if decision.action == "deny":
                return ev.ArgumentsError("denied", decision.reason, path=decision.path)
            if decision.action == "ask":
                reason = decision.reason or "required by policy"
                rule = None if decision.rule is None else policy.find_rule(decision.rule)
                found.append(ApprovalReason(reason, decision.rule, rule))
        if wanted is True:
            found.append(ApprovalReason(f"{name} always needs approval"))
        elif self.policy is None and tool.asks_beside in self:
            reason = f"{name} needs approval while {tool.asks_beside} is enabled"
            found.append(ApprovalReason(reason))
        return found

    def refusal(self, name: str, text: str) -> ev.ArgumentsError | None:
        """Return why edited arguments must not be used, if so."""
        check = None if self.check is None else self.check.open(name, "function")
        if isinstance(check, ev.ArgumentsError):
            return check
        if check and (error := check.error or check.finish(read_arguments(text), as_read=False)):
            return error
        reasons = self.approval_reasons(name, text)
        return reasons if isinstance(reasons, ev.ArgumentsError) else None

    def may_start_early(self, call: StreamedCall) -> bool:
        """Return True if no rule can forbid this call, or ask about it, any more."""
        tool = self[call.name]
        if tool.requires_confirmation is not False:
            return False
        if self.policy is None:
            return tool.asks_beside not in self
        return call.policy_decision is not None and call.policy_decision.action == "allow"


def read_arguments(text: str) -> dict[str, Any]:
    """Parse the text of complete arguments into a value that is shared with nothing else."""
    return cast("dict[str, Any]", parse_arguments(text).value)


def written(arguments: object) -> str:
    """Write arguments as JSON. Raises TypeError or ValueError if that is not possible."""
    return json.dumps(arguments, ensure_ascii=False, allow_nan=False)


class LocalCall(Struct, eq=False):
    """A call that the agent runs: the call in the state of the run, and what no event shows."""

    call: Call
    comes_late: bool = False  # its arguments were not complete when its turn ended: it is not run
    request: ev.ApprovalRequested | None = None  # as it was shown; consumers could change it
    edited_text: str | None = None  # the arguments of a person, if they were edited
    started_as: str = ""  # its name when its tool was started
    # Whether its tool reads its text while it is written: no, still, to its end, or interrupted.
    reading: Literal["none", "open", "whole", "interrupted"] = "none"
    interruption: str = ""  # why its tool must undo what it did, if its reading was interrupted
    runs_again: bool = False  # a crash interrupted its tool, which is started again
    # What its tool has returned, and whether it failed. The model may still be writing its text.
    returned: tuple[Any, bool] | None = None

    @property
    def call_id(self) -> str:
        return self.call.call_id

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def status(self) -> CallStatus:
        call = self.call
        if call.outcome is not None:
            return "done"
        if call.attempts:
            return "ready" if self.runs_again else "running"
        if call.is_pending:
            return "pending"
        return "ready" if call.state in ("written", "approved") else "writing"

    @property
    def asked_text(self) -> str:
        """The exact text of the model's arguments, once they are complete."""
        return (self.call.raw or "{}") if self.call.text is None else self.call.text

    @property
    def text(self) -> str:
        """The exact text of the arguments that it is run with: the model's, or a person's."""
        return self.asked_text if self.edited_text is None else self.edited_text

    @property
    def starts_early(self) -> bool:
        return self.reading != "none"

    def result_part(self) -> ResultPart:
        note = ""
        if self.edited_text is not None:
            note = (
                "A person changed the arguments of this call before approving it. It was run with: "
                f"{self.edited_text}"
            )
        failed = self.call.outcome == "failed"
        return ResultPart(call_id=self.call_id, result=self.call.result, failed=failed, note=note)


class RunLoop:
    """Decides what follows in a run. Each input returns a step. Performs no I/O."""

    def __init__(
        self, run_id: str, state: RunState | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.run_id = run_id
        self._state = state or RunState()
        self.defers: bool = False  # apply deltas together, when the state is read
        self._deferred: list[ev.Event] = []
        self.grants: set[Grant] = set()
        self._clock = clock
        self._out = Step([], [])  # what follows from the present input

    @property
    def state(self) -> RunState:
        if self._deferred:
            deltas, self._deferred = coalesced(self._deferred), []
            self._state.apply_all(deltas, self._clock())
        return self._state

    def apply_deltas(self, deltas: list[ev.Event]) -> list[ev.Event]:
        if not self.defers:
            self._state.apply_all(deltas, self._clock())
        else:
            self._deferred += deltas
            if len(self._deferred) >= _MOST_DEFERRED:
                _ = self.state
        return deltas

    @property
    def is_over(self) -> bool:
        return self._state.end is not None

    @property
    def is_paused(self) -> bool:
        """Whether it has paused, and this process need not go on with it."""
        return self.state.status == "paused"

    @property
    def is_at_rest(self) -> bool:
        return self.is_over or self.is_paused

    @property
    def pending(self) -> tuple[ev.ApprovalRequested, ...]:
        return self.state.pending

    def _result(self, text: str, usage: ev.Usage, messages: tuple[Message, ...]) -> RunResult:
        return RunResult(
            run_id=self.run_id,
            outcome=self.state.status,
            text=text,
            tools=[ToolUse.of(block) for block in self.state.blocks if isinstance(block, Call)],
            usage=usage,
            stop_reason=self.state.stop_reason,
            pending=self.pending,
            messages=messages,
        )

    def is_pending(self, call_id: str) -> bool:
        return any(request.call_id == call_id for request in self.pending)

    def require_tools(self, decisions: Decisions) -> None:
        """Raise UsageError if a call is to run whose tool is not here."""

    def has_tool(self, call_id: str) -> bool:
        return True

    def _request(
        self, call_id: str, name: str, text: str, why: ApprovalReason, seconds: float | None
    ) -> None:
        shown, digest = read_arguments(text), digest_of(self.run_id, call_id, name, text)
        expires_at = None if seconds is None else self._clock() + seconds
        facts = (call_id, name, shown, digest, why.reason, why.name, expires_at, why.rule_digest)
        request = ev.ApprovalRequested(*facts)
        self._emit(request)
        self._out.effects.append(AskPerson(request))

    def _emit(self, event: ev.Event) -> None:
        self._apply(event)
        self._out.events.append(event)

    def _apply(self, event: ev.Event, record: Record | None = None) -> None:
        """Apply an event, live or from the log. All that a log can restore changes here."""
        if record is None:
            self.state.apply(event, self._clock())
        else:
            self.state.apply_record(record)

    def _step(self) -> Step:
        step = Step(*self._out[:2], rests=self.is_at_rest)
        self._out = Step([], [])
        return step


class AgentLoop(RunLoop):
    def __init__(
        self,
        run_id: str,
        tools: Toolbox,
        rules: LoopRules,
        grants: set[Grant] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(run_id, clock=clock)
        self.grants: set[Grant] = set() if grants is None else grants
        self.messages: list[Message] = []  # of the next request
        self.calls: dict[str, LocalCall] = {}  # the calls of this turn that the agent runs
        self.usage: ev.Usage = ev.Usage()
        self.is_reading: bool = False  # the stream of this turn is open
        self.stop_kind: ev.StopKind | None = None  # of this turn, once it has ended
        self.ending: ev.RunFailed | ev.RunStopped | None = None
        """What ends the run when no tool runs any more."""
        self._usage_before: ev.Usage = ev.Usage()  # the usage before this turn
        self._attempts = 0  # how many turns were begun, with those that were begun again
        self._attempt = 1  # how often this turn was begun
        self._messages_before = 0  # how many there were before this turn
        self._failure: ev.RunFailed | None = None  # of this turn: it ends the run
        self._tools = tools
        self._rules = rules

    @property
    def is_ending(self) -> bool:
        return self.ending is not None

    @property
    def pending(self) -> tuple[ev.ApprovalRequested, ...]:
        asking = self._with_status("pending")
        return tuple(call.request for call in asking if call.request is not None)

    @property
    def text(self) -> str:
        for message in reversed(self.messages[len(self.state.history) :]):
            if message.role == "assistant":
                return "".join(part.text for part in message.parts if isinstance(part, TextPart))
        return ""

    @property
    def final_messages(self) -> tuple[Message, ...]:
        """The conversation after the run. A refusal is dropped: the model would refuse again."""
        if self.stop_kind != "content_filter":
            return tuple(self.messages)
        if self.state.turns == 1:
            return self.state.history
        return tuple(self.messages[: self._messages_before])

    @property
    def result(self) -> RunResult:
        return self._result(self.text, self.usage, self.final_messages)

    @property
    def numbering(self) -> Numbering:
        before, state = numbering_of(self.state.history), self.state
        texts = [block.block + 1 for block in state.blocks if isinstance(block, TextBlock)]
        calls = [call.index + 1 for call in state.calls.values() if call.parent_id is None]
        return Numbering(
            before.turns + self._attempts,
            max([before.blocks, *texts]),
            max([before.calls, *calls]),
            before.call_ids | state.calls.keys(),
        )

    # Inputs

    def begin(
        self, prompt: str, history: Sequence[Message] = (), user: str = "", replaces: str = ""
    ) -> Step:
        self._emit(ev.RunStarted(self.run_id, prompt, tuple(history), user, replaces=replaces))
        self._ask_model()
        return self._step()

    def events_received(self, events: Sequence[ev.Event]) -> Step:
        self._receive(events)
        return self._advance()

    def _receive(self, events: Iterable[ev.Event]) -> None:
        for heard in events:
            event = self._admitted(heard)
            if event is None:
                continue
            self._emit(event)
            match event:
                case ev.ToolArgsCompleted(call_id=call_id) if call_id in self.calls:
                    self._settled(self.calls[call_id], event)
                case ev.ToolArgsInvalid(call_id=call_id) if call_id in self.calls:
                    words = invalid_message(event)
                    self._reject(self.calls[call_id], words, event.verdict, event.error)
                case ev.TurnCompleted(parent_id=None):
                    self._turn_completed()

    def stream_ended(self, usage: ev.Usage | None = None, failure: ev.Event | None = None) -> Step:
        self._receive(self._aborted("reading was stopped"))
        self.is_reading = False
        if failure is not None:
            self._emit(failure)
        if usage is not None:
            self.usage = self._usage_before + usage
        if self.stop_kind is None and self._failure is None:
            self._failure = self._failed("truncated", "the stream ended before the turn did")
        self.ending = self.ending or self._failure
        if self.ending is not None:
            self._cancel_calls(self._why_not())
        return self._advance()

    def start_early(self, call_id: str) -> Step:
        """Start a ``Streamed`` tool if fewer than ``max_parallel_calls`` tools run.

        Otherwise it starts after the turn.
        """
        call = self.calls[call_id]
        if self.ending is None and self._free and not call.comes_late:
            call.reading = "open"
            self._start(call)
        return self._step()

    def tool_returned(self, call_id: str, result: Any, *, failed: bool) -> Step:
        call = self.calls[call_id]
        call.returned = result, failed
        self._conclude(call)
        return self._advance()

    def decided(self, call_id: str, decision: Approval, when: float) -> Step:
        self._decide(self._undecided(call_id), decision, when)
        return self._advance()

    def check(self, decisions: Decisions) -> None:
        for call_id, decision in decisions.items():
            self._checked_edit(self._undecided(call_id), decision)

    def stopped(self, reason: str) -> Step:
        return self._end_soon(ev.RunStopped(reason, self.run_id))

    def failed(self, code: str, message: str) -> Step:
        return self._end_soon(self._failed(code, message))

    def crashed(self, code: str, message: str) -> Step:
        if self.is_over:
            return self._step()
        return self._abort(self._failed(code, message), message)

    def restore(self, records: Iterable[Record]) -> None:
        for record in records:
            if not self._is_forged(record.event):
                self._apply(record.event, record)

    def resumed(self, decisions: Decisions, times: Times | None = None) -> Step:
        """Continue after a pause or a crash. ``times`` is when the decisions were made.

        Raises UsageError, and changes nothing, if a decision cannot be used, or a tool is missing.
        """
        self.check(decisions)
        self.require_tools(decisions)
        running, was_reading = self._with_status("running"), self.is_reading
        if self.is_paused:
            self._emit(ev.RunResumed(self.run_id))
        else:
            tools = {call.name: self._tools.get(call.name) for call in running if was_reading}
            lost = [name for name, found in tools.items() if found is None or not found.read_only]
            interrupted = tuple(call.call_id for call in running)
            note = _LOST_TOOLS.format(", ".join(lost)) if lost else ""
            self._emit(ev.RunResumed(self.run_id, "crash", interrupted, note))
        if was_reading:
            self._abort_calls(LOST_TURN)
            self._start_turn(self.state.turns, self._attempt + 1)
        else:
            for call in running:
                self._interrupted(call)
            self._resume_calls(decisions, times or {})
        return self._advance()

    def abandoned(self, reason: str) -> Step:
        """End a run that no process drives: it had paused, or was cut off."""
        for call in self._with_status("running"):
            call.interruption = INTERRUPTED
        return self._abort(ev.RunStopped(reason, self.run_id), "the run was stopped")

    def has_tool(self, call_id: str) -> bool:
        call = self.calls.get(call_id)
        return call is not None and self._tools.get(call.name) is not None

    def require_tools(self, decisions: Decisions) -> None:
        waiting = self._with_status("ready")
        for call in self._with_status("pending"):
            if isinstance(decisions.get(call.call_id), Approve):
                waiting.append(call)
        missing = {call.name for call in waiting if self._tools.get(call.name) is None}
        if missing and not self.is_reading:
            raise UsageError(
                f"the run {self.run_id} waits for tools that this agent does not have: "
                f"{', '.join(sorted(missing))}. Pass them to the agent to resume the run"
            )

    # Events

    def _apply(self, event: ev.Event, record: Record | None = None) -> None:
        if isinstance(event, ev.TurnStarted) and event.attempt == 1:
            self._add_results()
        super()._apply(event, record)
        match event:
            case ev.RunStarted(prompt=prompt, history=history):
                self.messages = list(history)
                self._say(prompt)
            case ev.RunResumed(note=note) if note:
                self._say(note, NOTE)
            case ev.TurnStarted(attempt=attempt):
                self._attempt = attempt
                self._attempts += 1
                self.calls.clear()
                self.is_reading, self.stop_kind, self._failure = True, None, None
                self._messages_before = len(self.messages)
                self._usage_before = self.usage
            case ev.ToolCallStarted(call_id=call_id, kind=kind, parent_id=None):
                if kind not in RUN_BY_PROVIDER:
                    late = self.stop_kind is not None
                    self.calls[call_id] = LocalCall(self.state.calls[call_id], late)
            case ev.ApprovalRequested(call_id=call_id) if call_id in self.calls:
                self.calls[call_id].request = event
            case ev.ApprovalDecided(call_id=call_id, edited_arguments=edited):
                if edited is not None and call_id in self.calls:
                    self.calls[call_id].edited_text = written(edited)
            case ev.ToolExecutionStarted(call_id=call_id) if call_id in self.calls:
                call = self.calls[call_id]
                call.runs_again = False
                if record is not None and call.call.verdict is None:
                    call.reading = "interrupted"  # its reader is gone
            case ev.TurnCompleted(parent_id=None):
                self._apply_turn(event)
                self.is_reading = self.is_reading and (record is None or self.stop_kind is None)
            case ev.StreamFailed(message=message):
                if self.stop_kind is None and self._failure is None:
                    self._failure = self._failed(event.specific_code, message)
            case ev.RunCompleted() | ev.RunFailed() | ev.RunStopped():
                self.is_reading = False
                self.usage = self.usage if event.usage == ev.Usage() else event.usage
                self._add_results()

    def _apply_turn(self, event: ev.TurnCompleted) -> None:
        self.usage += event.usage
        if self.stop_kind is not None or self._failure is not None:
            return  # what was lost may be a part of any call
        self.stop_kind = event.stop
        for call in self.calls.values():
            call.comes_late = call.comes_late or call.call.verdict is None
        parts = tuple(map(self._own_part, event.message.parts))
        self.messages.append(replace(event.message, parts=parts))

    def _own_part(self, part: Part) -> Part:
        """Return a part whose arguments cannot be changed by consumers of its event."""
        if not isinstance(part, CallPart) or not isinstance(part.arguments, dict):
            return part
        call = self.calls.get(part.call_id)
        if call is None or not isinstance(call.call.arguments, dict):
            return replace(part, arguments=deepcopy(part.arguments))
        return replace(part, arguments=read_arguments(call.asked_text))

    def _say(self, text: str, message_id: str = "") -> None:
        self.messages.append(Message(role="user", parts=(TextPart(text=text),), id=message_id))

    def _add_results(self) -> None:
        """Answer the calls of the last message, in their order, unless that was done."""
        if not self.messages or self.messages[-1].role != "assistant":
            return
        asked = [part.call_id for part in self.messages[-1].parts if isinstance(part, CallPart)]
        results = [self.calls[call_id].result_part() for call_id in asked if call_id in self.calls]
        if results:
            self.messages.append(Message(role="user", parts=tuple(results)))

    def _is_forged(self, event: ev.Event) -> bool:
        """Return True if an event ends a call of ours that cannot have ended (invariant 14)."""
        if not isinstance(event, ev.ToolCallCompleted | ev.ToolCallFailed):
            return False
        if self.state.mode == "observed":
            return False
        call = self.calls.get(event.call_id)
        if call is None or call.call.attempts:
            return False
        is_open = call.status == "pending" or call.call.verdict is None
        return is_open or isinstance(event, ev.ToolCallCompleted)

    def _admitted(self, event: ev.Event) -> ev.Event | None:
        """Return an event of the model as the log keeps it; None if it is ignored."""
        match event:
            case ev.ToolCallCompleted() | ev.ToolCallFailed():
                # Only the agent has results of calls that it runs (invariant 14).
                return None if event.call_id in self.calls else event
            case ev.ToolArgsCompleted(policy_decision=decision) if decision is not None:
                # The policies decide again on the exact text that runs: see ApprovalRequested.
                return replace(event, policy_decision=None)
            case ev.TurnCompleted():
                return self._without_forged_results(event)
            case _:
                return event

    def _without_forged_results(self, event: ev.TurnCompleted) -> ev.TurnCompleted:
        """Remove results that the provider sent for calls of the agent (invariant 14).

        The raw block is kept as an ``OpaquePart``.
        """
        parts = event.message.parts
        if not any(isinstance(part, ResultPart) for part in parts):
            return event
        said = [*(part for message in self.messages for part in message.parts), *parts]
        calls = [part for part in said if isinstance(part, CallPart)]
        ours = {call.call_id for call in calls if call.kind not in RUN_BY_PROVIDER}
        kept = [
            OpaquePart(item=part.item or {})
            if isinstance(part, ResultPart) and part.call_id in ours
            else part
            for part in parts
        ]
        return replace(event, message=replace(event.message, parts=tuple(kept)))

    # Turns and the run

    @property
    def _free(self) -> int:
        """How many more tools may be started."""
        running = sum(call.returned is None for call in self._with_status("running"))
        return self._rules.max_parallel_calls - running

    def _with_status(self, status: CallStatus) -> list[LocalCall]:
        return [call for call in self.calls.values() if call.status == status]

    def _ask_model(self) -> None:
        if self.state.turns >= self._rules.max_turns:
            limit = f"turn limit reached ({self.state.turns})"
            fix = "Raise --max-turns (Python: max_turns=…), or send another prompt to continue"
            self._end(self._failed("max_turns", f"{limit}. {fix}"))
            return
        self._start_turn(self.state.turns + 1, 1)

    def _start_turn(self, turn: int, attempt: int) -> None:
        self._emit(ev.TurnStarted(turn, attempt))
        self._out.effects.append(AskModel(tuple(self.messages)))

    def _turn_completed(self) -> None:
        kind = self.stop_kind
        if kind is not None and kind not in _LETS_CALLS_RUN:
            self._cancel_calls(NOT_RUN[kind])
        for call in self._with_status("running"):
            if call.reading == "open":
                call.reading = "whole"
                self._out.effects.append(EndText(call.call_id))
                self._conclude(call)

    def _advance(self) -> Step:
        """Start the calls that may run now. When none is left, go on with the next turn."""
        if self.ending is None:
            for call in self._with_status("ready"):
                if self._free <= 0:
                    break
                if self.stop_kind in _LETS_CALLS_RUN or self._starts_when_complete(call):
                    self._start(call)
        if not (self.is_over or self.is_reading or self._with_status("running")):
            self._after_turn()
        return self._step()

    def _starts_when_complete(self, call: LocalCall) -> bool:
        """Return True for a call that need not wait for the end of its turn."""
        if self.stop_kind is not None or call.request is not None:
            return False
        tool = self._tools.get(call.name)
        return tool is not None and tool.start == "when_complete"

    def _after_turn(self) -> None:
        kind, reason = self.stop_kind, self.state.stop_reason
        if self.ending is not None:
            self._end(self.ending)
        elif self.pending:
            if not (self._rules.asks_in_place or self.is_paused):
                self._emit(ev.RunPaused(self.run_id, self.pending))
        elif kind == "error" or (kind == "malformed" and not self.calls):
            self._end(self._failed(reason or "", f"{NOT_RUN[kind]} ({reason})"))
        elif kind == "content_filter" or not (self.calls or kind == "paused"):
            self._end(ev.RunCompleted(self.text, stop_reason=reason, run_id=self.run_id))
        else:
            self._ask_model()

    def _end(self, event: ev.RunCompleted | ev.RunFailed | ev.RunStopped) -> None:
        self._emit(replace(event, usage=self.usage))

    def _end_soon(self, ending: ev.RunFailed | ev.RunStopped) -> Step:
        """Start nothing more, cancel what runs, and end the run when that is over."""
        if self.is_over or self.ending is not None:
            return self._step()
        self.ending = ending
        if self.is_reading:
            self._out.effects.append(CloseStream())
        self._cancel_calls(self._why_not())
        for call in self._with_status("running"):
            if call.returned is None:
                self._out.effects.append(CancelTool(call.call_id, call.reading == "interrupted"))
        return self._advance()

    def _abort(self, ending: ev.RunFailed | ev.RunStopped, why: str) -> Step:
        self.is_reading, self.ending = False, ending
        self._abort_calls(why)
        return self._advance()

    def _resume_calls(self, decisions: Decisions, times: Times) -> None:
        """Apply the decisions, ask about the other pending calls, and check ready calls again."""
        for call in self._with_status("pending"):
            if call.call_id in decisions:
                when = times.get(call.call_id, self._clock())
                self._decide(call, decisions[call.call_id], when)
            elif is_expired(call.request, self._clock()):
                self._deny(call, "expired", EXPIRED, _EXPIRED)
            elif self._rules.asks_in_place and call.request is not None:
                self._out.effects.append(AskPerson(call.request))
        for call in self._with_status("ready"):  # the rules may have changed
            problem = self._tools[call.name].problem(call.text)
            if problem is not None:
                self._refuse(call, problem)
            else:
                self._consider(call)

    def _why_not(self) -> str:
        ending = self.ending
        return ending.message if isinstance(ending, ev.RunFailed) else "the run was stopped"

    def _failed(self, code: str, message: str) -> ev.RunFailed:
        return ev.RunFailed(code, message, self.run_id)

    # Calls

    def _settled(self, call: LocalCall, event: ev.ToolArgsCompleted) -> None:
        if self.ending is not None:
            self._reject(call, self._why_not(), "aborted")
        elif (problem := self._problem(call, event)) is not None:
            self._reject(call, problem, "malformed")
        elif not call.starts_early:  # otherwise nothing could forbid it any more
            self._consider(call)

    def _problem(self, call: LocalCall, event: ev.ToolArgsCompleted) -> str | None:
        """Return what is wrong with a call whose arguments are complete."""
        if call.comes_late:
            return "it came after the end of the turn"
        if call.starts_early and call.started_as != event.name:
            return "the provider closed it under another name"
        tool = self._tools.get(call.name)
        if tool is None:
            return f"this agent has no tool {call.name!r}"
        if not isinstance(event.arguments, dict):
            return f"tool {call.name!r} does not accept free text"
        if call.starts_early and event.text is not None:
            return "the provider closed it with other arguments"
        return tool.problem(call.text)

    def _consider(self, call: LocalCall) -> None:
        """Request an approval of a call, if it needs one. Refuse a call that is denied."""
        reason = self._objection(call)
        if isinstance(reason, str):
            self._refuse(call, reason)
        elif reason is not None:
            seconds = self._rules.approval_seconds
            self._request(call.call_id, call.name, call.text, reason, seconds)

    def _objection(self, call: LocalCall) -> str | ApprovalReason | None:
        """Return why a call is denied, or why a person must be asked first, if so."""
        reasons = self._tools.approval_reasons(call.name, call.text)
        if isinstance(reasons, ev.ArgumentsError):
            return reasons.message
        if call.request is not None or self._conversation_grant(call) in self.grants:
            return None
        return next((reason for reason in reasons if reason.grant not in self.grants), None)

    def _conversation_grant(self, call: LocalCall) -> Grant:
        return Grant("conversation", call.name, self._tools[call.name].function)

    def _undecided(self, call_id: str) -> LocalCall:
        """Return the pending call. Each decision is used once."""
        call = self.calls.get(call_id)
        if call is not None and call.status == "pending":
            return call
        if call is not None and call.request is not None:
            raise AlreadyDecidedError(call_id)
        waiting = ", ".join(repr(other.call_id) for other in self._with_status("pending"))
        raise UsageError(f"no pending approval for call {call_id!r}. Pending: {waiting or 'none'}")

    def _checked_edit(self, call: LocalCall, decision: Approval) -> str | None:
        """Return the text of edited arguments, if any. Raises UsageError for a bad decision."""
        if call.request is not None:
            check_decision(call.request, decision)
        if not isinstance(decision, Approve):
            return None
        if decision.arguments is not None:
            return self._edited(call.name, decision.arguments)
        if not self._is_untouched(call):
            raise UsageError(
                "the arguments of the request were changed: to run others, use Approve(arguments=…)"
            )
        return None

    def _edited(self, name: str, arguments: Mapping[str, Any]) -> str:
        if not isinstance(arguments, Mapping):
            raise UsageError(f"the edited arguments must be a dict, not {arguments!r}")
        try:
            text = written(dict(arguments))
        except (TypeError, ValueError) as error:
            raise UsageError(f"the edited arguments are not valid JSON: {error}") from None
        tool = self._tools.get(name)
        if tool is None:
            raise UsageError(f"cannot check the edited arguments: this agent has no tool {name!r}")
        refusal = self._tools.refusal(name, text)
        problem = refusal.message if refusal is not None else tool.problem(text)
        if problem is not None:
            raise UsageError(f"the edited arguments of {name} are not valid: {problem}")
        return text

    def _is_untouched(self, call: LocalCall) -> bool:
        """Return True if the arguments that were shown still equal the exact text.

        If a person edited them, those that were shown do not matter any more.
        """
        request = call.request
        if request is None:
            return True
        if request.digest != digest_of(self.run_id, call.call_id, call.name, call.asked_text):
            return False
        if call.edited_text is not None:
            return True
        try:
            shown = written(request.arguments)  # as text: in Python, 1 equals True
        except (TypeError, ValueError):
            return False
        return shown == written(read_arguments(call.asked_text))

    def _decide(self, call: LocalCall, decision: Approval, when: float) -> None:
        edit = self._checked_edit(call, decision)
        if is_expired(call.request, when):
            self._deny(call, "expired", EXPIRED, _EXPIRED)
            return
        if isinstance(decision, Deny):
            self._deny(call, "denied", decision.reason, denied_message(decision.reason))
            return
        grant = self._wanted_grant(call, decision.always)
        if grant is not None:
            self.grants.add(grant)
        always = "call" if grant is None else grant.scope
        edited = None if edit is None else read_arguments(edit)
        outcome: ev.ApprovalOutcome = "approved" if edit is None else "edited"
        facts = (call.call_id, call.name, outcome, decision.reason, edited, always)
        self._emit(ev.ApprovalDecided(*facts))

    def _deny(self, call: LocalCall, outcome: ev.ApprovalOutcome, reason: str, why: str) -> None:
        self._emit(ev.ApprovalDecided(call.call_id, call.name, outcome, reason))
        self._refuse(call, why)

    def _wanted_grant(self, call: LocalCall, always: ev.ApprovalScope) -> Grant | None:
        """Return the grant; None for ``"call"``, or if the rule that was shown no longer exists."""
        if always == "conversation":
            return self._conversation_grant(call)
        if always == "call" or call.request is None:
            return None
        # The rule that asked is found by its content, because the policy may have changed.
        reasons = self._tools.approval_reasons(call.name, call.text)
        known = [] if isinstance(reasons, ev.ArgumentsError) else reasons
        shown = call.request.rule_digest
        return next((reason.grant for reason in known if reason.rule_digest == shown), None)

    def _start(self, call: LocalCall) -> None:
        """Run a call: exactly what was approved, if it was asked about."""
        if not self._is_untouched(call):
            self._refuse(call, "its arguments changed after approval was requested")
            return
        key = idempotency_key(self.run_id, call.call_id)
        call.started_as = call.name
        self._emit(ev.ToolExecutionStarted(call.call_id, call.name, key, call.call.attempts + 1))
        text = None if call.starts_early else call.text
        self._out.effects.append(Execute(call.call_id, call.name, text, key))

    def _conclude(self, call: LocalCall) -> None:
        """End a call, once its tool has returned and its text is over."""
        if call.returned is None or call.call.verdict is None or call.reading == "open":
            return
        result, failed = call.returned
        if call.reading == "interrupted":
            self._fail(call, f"the call was interrupted: {call.interruption}")
        elif failed:
            self._fail(call, result)
        else:
            arguments = read_arguments(call.text)
            self._emit(ev.ToolCallCompleted(call.call_id, call.name, arguments, result))

    def _cancel_calls(self, why: str) -> None:
        """Refuse calls that have not started, and interrupt tools whose text is still open."""
        for call in list(self.calls.values()):
            status = call.status
            if status == "pending":
                self._deny(call, "withdrawn", why, why)
            elif status == "ready":
                self._refuse(call, why)
            elif status != "done" and call.reading == "open":
                self._reject(call, why, "aborted")

    def _abort_calls(self, why: str) -> None:
        """End all calls of this turn, whatever their state."""
        self._cancel_calls(why)
        for invalid in self._aborted(why):
            self._emit(invalid)
        for call in self.calls.values():
            if call.status != "done":
                self._fail(call, call.interruption or f"the call was cancelled: {why}")

    def _aborted(self, why: str) -> list[ev.ToolArgsInvalid]:
        """Return a verdict for each call of this turn that has none."""
        of_turn = [call for call in self.state.calls.values() if call.turn == self.state.turns]
        return [aborted(call, why) for call in of_turn if not (call.is_lost or call.verdict)]

    def _interrupted(self, call: LocalCall) -> None:
        """Run a tool that was running at a crash again if it is idempotent; fail it otherwise."""
        tool = self._tools.get(call.name)
        if tool is not None and tool.idempotent and self._objection(call) is None:
            call.runs_again, call.reading = True, "none"
        else:
            self._fail(call, INTERRUPTED)

    def _reject(
        self, call: LocalCall, why: str, verdict: str, error: ev.ArgumentsError | None = None
    ) -> None:
        """End a call with a verdict. A tool that reads its text is interrupted."""
        if not call.starts_early:
            self._refuse(call, why)
            return
        if call.reading == "open":
            call.reading, call.interruption = "interrupted", why
            told = TextInterruptedError(why, verdict=verdict, error=error)
            self._out.effects.append(EndText(call.call_id, told))
        self._conclude(call)

    def _refuse(self, call: LocalCall, why: str) -> None:
        self._fail(call, f"the call was not run: {why}")

    def _fail(self, call: LocalCall, error: str) -> None:
        self._emit(ev.ToolCallFailed(call.call_id, call.name, error))


def aborted(call: Call, why: str) -> ev.ToolArgsInvalid:
    error = ev.ArgumentsError("aborted", why)
    return ev.ToolArgsInvalid(call.call_id, call.name, "aborted", call.raw, error)


def invalid_message(event: ev.ToolArgsInvalid) -> str:
    error = event.error
    place = "" if error.offset is None else f", at character {error.offset}"
    hint = {
        "truncated": "; its arguments must be written shorter, or in several calls",
        "malformed": "; arguments must be a JSON object",
    }.get(event.verdict, "")
    return f"its arguments are {event.verdict}: {error.message}{place}{hint}"


def denied_message(reason: str) -> str:
    return f"it was denied{f': {reason}' if reason else ''}"
