"""The loop of an agent: inputs go in, events and effects come out.

Performs no I/O and reads no clock. It alone decides what may follow what:

- A call runs when its arguments are complete, it is approved or needs no approval, and its turn has
  ended in a way that allows it (invariant 8). A tool with a ``Streamed`` text starts before that.
- A turn is over when its stream is, and each of its calls has a result. Then the model receives the
  results, in order, or the run ends.
- When only a decision can continue the run, it pauses, unless there is an approver.
- The run ends when no tool is running any more.
"""

import json
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

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
    digest_of,
    idempotency_key,
    is_expired,
)
from argstream.agent.result import RunOutcome, ToolUse, numbering_of
from argstream.agent.tools import Tool, as_tool, parsed_anew
from argstream.assembly import Call, Numbering
from argstream.checks import Check
from argstream.errors import TextInterruptedError, UsageError
from argstream.history import NOTE, CallPart, Message, OpaquePart, Part, ResultPart, TextPart
from argstream.models import OfferedTool
from argstream.policy import Policy, Rule
from argstream.providers._deltas import RUN_BY_PROVIDER
from argstream.streaming import make_check


class AskModel(NamedTuple):
    messages: tuple[Message, ...]


class AskPerson(NamedTuple):
    request: ev.ApprovalRequested


class Withdraw(NamedTuple):
    call_id: str


class Execute(NamedTuple):
    call_id: str
    name: str
    text: str
    idempotency_key: str


class ReadAlong(NamedTuple):
    """Run a tool that reads its text while the model writes it."""

    call_id: str
    name: str
    idempotency_key: str


class EndText(NamedTuple):
    """Report the end of its text to a tool that started early, once the turn has ended."""

    call_id: str
    interruption: TextInterruptedError | None = None


class CancelTool(NamedTuple):
    call_id: str
    undoes: bool = False  # whether it is undoing what it did: then it has a moment for that


class CloseStream(NamedTuple):
    """Stop reading what the model writes."""


Effect: TypeAlias = (
    AskModel | AskPerson | Withdraw | Execute | ReadAlong | EndText | CancelTool | CloseStream
)


class Step(NamedTuple):
    """What follows from an input: first the events, then the effects."""

    events: list[ev.Event]
    effects: list[Effect]
    rests: bool = False  # whether nothing follows: the run is over, or has paused


CallStatus: TypeAlias = Literal["writing", "pending", "ready", "running", "done"]
"""Any of these but the first and the last may be skipped."""

ReadingStatus: TypeAlias = Literal["none", "open", "whole", "interrupted"]
"""Whether its tool reads its text early. Once the text is whole, it is like any running tool."""

Times: TypeAlias = Mapping[str, float]  # when calls were decided on, by their ids
_LETS_CALLS_RUN: Final[frozenset[ev.StopKind]] = frozenset(
    {"end_turn", "tool_calls", "paused", "length", "rejected"}
)
NOT_RUN: Final[dict[ev.StopKind, str]] = {
    "content_filter": "the answer was refused",
    "malformed": "the provider says that the answer was malformed; try again",
    "error": "the provider stopped the answer",
    "unknown": "the provider did not say that the answer was finished",
}
INTERRUPTED: Final = (
    "the call was interrupted: the program ended while it ran. It is not known what it has done; it"
    " was not run again"
)
LOST_TURN: Final = "the program ended before the model's answer was complete, so it is asked again"
_EXPIRED = "the approval request expired"
_CHANGED = "its arguments changed after approval was requested"


class LoopRules(Struct, frozen=True):
    max_turns: int = 50
    asks_in_place: bool = False  # there is an approver, so the run need not pause
    approval_seconds: float | None = None  # until a request expires
    max_parallel_calls: int = 32  # further calls wait, and start in order


class ApprovalReason(Struct, frozen=True):
    """Why a call needs an approval."""

    reason: str
    name: str | None = None  # the name of the rule that asks
    rule: Rule | None = None  # the rule that asks; None if it is no rule of a policy that is here

    @property
    def grant(self) -> Grant | None:
        """What ``always="rule"`` grants: this rule, not another one with the same name."""
        return None if self.rule is None else Grant("rule", self.name or "", self.rule)

    def granted_by(self, grants: Container[Grant]) -> bool:
        return self.grant is not None and self.grant in grants


class Toolbox:
    def __init__(self, tools: Iterable[object], policy: Policy | None) -> None:
        self._tools: dict[str, Tool] = {}
        for given in tools:
            found = as_tool(given)
            if found.name in self._tools:
                raise UsageError(
                    f"there are two tools of the name {found.name!r}: give one another name, "
                    "@tool(name=…)"
                )
            self._tools[found.name] = found
        self.policy = policy
        # "report": the agent requests approval itself, when the arguments are whole.
        specs = [found.spec for found in self._tools.values()]
        self.check: Check | None = make_check(specs, policy, on_ask="report")
        self.offered: tuple[OfferedTool, ...] = tuple(
            OfferedTool(
                name=found.name,
                description=found.description,
                schema=found.schema,
                eager_input_streaming=found.eager_input_streaming,
            )
            for found in self._tools.values()
        )

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def approval_reasons(
        self, name: str, arguments: dict[str, Any]
    ) -> list[ApprovalReason] | ev.ArgumentsError:
        """Return why this call needs an approval, or the error if the policy denies it."""
        wanted = self._tools[name].requires_confirmation
        found: list[ApprovalReason] = []
        for policy in (self.policy, wanted):
            if not isinstance(policy, Policy):
                continue
            decision = policy.decide(name, arguments)
            if decision.action == "deny":
                return ev.ArgumentsError("denied", decision.reason, path=decision.path)
            if decision.action == "ask":
                reason = decision.reason or "required by policy"
                rule = None if decision.rule is None else policy.find_rule(decision.rule)
                found.append(ApprovalReason(reason, decision.rule, rule))
        if wanted is True:
            found.append(ApprovalReason(f"{name} always needs approval"))
        return found

    def refusal(self, name: str, arguments: dict[str, Any]) -> ev.ArgumentsError | None:
        """Return why edited arguments must not be used, if so."""
        check = None if self.check is None else self.check.open(name, "function")
        if isinstance(check, ev.ArgumentsError):
            return check
        error = None if check is None else check.error or check.finish(arguments, as_read=False)
        approval_reasons = self.approval_reasons(name, arguments)
        return error or (
            approval_reasons if isinstance(approval_reasons, ev.ArgumentsError) else None
        )

    def may_start_early(self, call: Call) -> bool:
        """Return True if no rule can forbid this call, or ask about it, any more."""
        found = self._tools.get(call.name)
        if found is None or found.streamed is None or found.requires_confirmation is not False:
            return False
        return self.policy is None or (
            call.policy_decision is not None and call.policy_decision.action == "allow"
        )


def exact_text(event: ev.ToolArgsCompleted, streamed: str) -> str:
    """Return the exact text of complete arguments. ``streamed`` are the joined deltas."""
    return (streamed or "{}") if event.text is None else event.text


def read_arguments(text: str) -> dict[str, Any]:
    """Parse the text of complete arguments into a value that is shared with nothing else."""
    return cast("dict[str, Any]", parsed_anew(text).value)


def written(arguments: object) -> str:
    """Write arguments as JSON. Raises TypeError or ValueError if that is not possible."""
    return json.dumps(arguments, ensure_ascii=False, allow_nan=False)


class CallState(Struct):
    """A call that the agent runs."""

    call_id: str
    name: str
    status: CallStatus = "writing"
    asked_text: str = ""  # the exact text of the model's arguments, once they are complete
    text: str = ""
    """The exact text of the arguments that it is run with: the model's, or a person's."""
    request: ev.ApprovalRequested | None = None
    approval_reason: ApprovalReason | None = None  # why it needs an approval
    note: str = ""  # what the model should know besides the result
    reading: ReadingStatus = "none"
    interruption: str = ""
    """Why its tool must undo what it has done, if its reading was interrupted."""
    has_verdict: bool = False  # whether it is known what became of its arguments
    comes_late: bool = False  # whether it began after its turn had ended: it is not run
    attempts: int = 0  # how often its tool was started
    has_returned: bool = False  # whether its tool is over, though perhaps its text is not
    result: Any = None
    failed: bool = False

    @property
    def starts_early(self) -> bool:
        return self.reading != "none"


class LoopState(Struct):
    run_id: str
    grants: set[Grant]
    mode: ev.RunMode = "agent"
    history: tuple[Message, ...] = ()  # what was said before
    messages: list[Message] = []  # all that is said to the model
    calls: dict[str, CallState] = {}  # the calls of this turn, in their order
    provider_calls: dict[str, str] = {}
    """The names of calls of this turn that the provider runs, while they are being written."""
    uses: dict[str, ToolUse] = {}  # all calls of the run so far
    status: RunOutcome = "running"
    numbering: Numbering = Numbering()  # how much has come, so that what follows is numbered on
    usage: ev.Usage = ev.Usage()
    usage_before: ev.Usage = ev.Usage()  # the usage before this turn
    turns: int = 0
    attempt: int = 1  # how often this turn was begun
    is_reading: bool = False  # whether the model is taking its turn
    messages_before: int = 0  # how many there were before this turn
    stop_kind: ev.StopKind | None = None  # of this turn, once it has ended
    failure: ev.RunFailed | None = None  # of this turn: it ends the run
    ending: ev.RunFailed | ev.RunStopped | None = (
        None  # what ends the run when no tool runs any more
    )
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        for message in reversed(self.messages[len(self.history) :]):
            if message.role == "assistant":
                return "".join(part.text for part in message.parts if isinstance(part, TextPart))
        return ""

    @property
    def executing(self) -> int:
        return sum(not call.has_returned for call in self.with_status("running"))

    def open_calls(self) -> list[CallState]:
        return [call for call in self.calls.values() if call.status != "done"]

    def with_status(self, status: CallStatus) -> list[CallState]:
        return [call for call in self.calls.values() if call.status == status]

    def say(self, text: str, message_id: str = "") -> None:
        self.messages.append(Message(role="user", parts=(TextPart(text=text),), id=message_id))

    def begin_turn(self, turn: int, attempt: int) -> None:
        self.turns, self.attempt = turn, attempt
        self.calls.clear()
        self.provider_calls.clear()
        self.is_reading, self.stop_kind, self.failure = True, None, None
        self.messages_before = len(self.messages)
        self.usage_before = self.usage

    def open_call(self, event: ev.ToolCallStarted) -> None:
        """Register a call. Calls that the provider runs are kept apart."""
        self.uses[event.call_id] = ToolUse(event.call_id, event.name)
        if event.kind in RUN_BY_PROVIDER:
            self.provider_calls[event.call_id] = event.name
        else:
            comes_late = self.stop_kind is not None
            self.calls[event.call_id] = CallState(event.call_id, event.name, comes_late=comes_late)

    def is_ours(self, event: ev.ToolCallCompleted | ev.ToolCallFailed) -> bool:
        return event.call_id in self.calls

    def without_forged_results(self, event: ev.TurnCompleted) -> ev.TurnCompleted:
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

    def end_turn(self, event: ev.TurnCompleted) -> bool:
        """Add the message of the model. False if it does not count."""
        self.usage += event.usage
        self.stop_reason = event.stop_reason
        if self.stop_kind is not None or self.failure is not None:
            return False  # what was lost may be a part of any call
        self.stop_kind = event.stop
        parts = tuple(map(self._own_part, event.message.parts))
        self.messages.append(replace(event.message, parts=parts))
        return True

    def _own_part(self, part: Part) -> Part:
        """Return a part whose arguments cannot be changed by consumers of its event."""
        if not isinstance(part, CallPart) or not isinstance(part.arguments, dict):
            return part
        call = self.calls.get(part.call_id)
        text = "" if call is None else call.asked_text
        return replace(part, arguments=read_arguments(text) if text else deepcopy(part.arguments))

    def add_results(self) -> None:
        """Answer the calls of the last message, in their order, unless that was done."""
        last = self.messages[-1]
        if last.role != "assistant":
            return
        asked = [part.call_id for part in last.parts if isinstance(part, CallPart)]
        answered = [self.calls[call_id] for call_id in asked if call_id in self.calls]
        if answered:
            self.messages.append(Message(role="user", parts=tuple(map(_result, answered))))


def _result(call: CallState) -> ResultPart:
    return ResultPart(call_id=call.call_id, result=call.result, failed=call.failed, note=call.note)


class AgentLoop:
    """The loop of one run. Each method takes an input and returns the step that follows."""

    def __init__(
        self,
        run_id: str,
        tools: Toolbox,
        rules: LoopRules,
        grants: set[Grant] | None = None,
    ) -> None:
        self.state: LoopState = LoopState(run_id, set() if grants is None else grants)
        self._out = Step([], [])
        self._calls = Calls(self.state, tools, self._out, rules.approval_seconds)
        self._tools = tools
        self._rules = rules

    @property
    def is_over(self) -> bool:
        return self.state.status not in ("running", "paused")

    @property
    def is_paused(self) -> bool:
        return self.state.status == "paused"

    @property
    def is_at_rest(self) -> bool:
        return self.is_over or self.is_paused

    @property
    def is_ending(self) -> bool:
        return self.state.ending is not None

    @property
    def pending(self) -> tuple[ev.ApprovalRequested, ...]:
        asking = self.state.with_status("pending")
        return tuple(call.request for call in asking if call.request is not None)

    @property
    def final_messages(self) -> tuple[Message, ...]:
        """The conversation after the run. A refusal is dropped: the model would refuse again."""
        messages = self.state.messages
        if self.state.stop_kind != "content_filter":
            return tuple(messages)
        is_first_turn = self.state.turns == 1
        return (
            self.state.history if is_first_turn else tuple(messages[: self.state.messages_before])
        )

    def begin(self, prompt: str, history: Sequence[Message] = (), user: str = "") -> Step:
        self.state.history, self.state.messages = tuple(history), list(history)
        self._out.events.append(ev.RunStarted(self.state.run_id, prompt, self.state.history, user))
        self.state.say(prompt)
        self._ask_model()
        return self._step()

    def heard(self, events: Sequence[ev.Event], text_of: Callable[[str], str], now: float) -> Step:
        for heard in events:
            if isinstance(heard, ev.ToolCallCompleted | ev.ToolCallFailed) and self.state.is_ours(
                heard
            ):
                continue  # only the agent has results of calls that it runs (invariant 14)
            event = _without_policy_decision(heard)
            if isinstance(event, ev.TurnCompleted):
                event = self.state.without_forged_results(event)
            self._out.events.append(event)
            match event:
                case ev.ToolCallStarted(parent_id=None):
                    self.state.open_call(event)
                case ev.ToolArgsCompleted() if self.state.ending is not None:
                    self._calls.too_late(event, self._why_not())
                case ev.ToolArgsCompleted():
                    self._calls.settled(event, text_of, now)
                case ev.ToolArgsInvalid():
                    self._calls.invalid(event)
                case ev.ToolCallCompleted() | ev.ToolCallFailed():
                    self._calls.ran_elsewhere(event)
                case ev.TurnCompleted(parent_id=None):
                    self._turn_completed(event)
                case ev.StreamFailed(message=message):
                    self._fail_turn(event.specific_code, message)
                case _:
                    pass
        return self._advance()

    def stream_over(self) -> Step:
        self.state.is_reading = False
        if self.state.stop_kind is None:
            self._fail_turn("truncated", "the model's answer has no end")
        self.state.ending = self.state.ending or self.state.failure
        if self.state.ending is not None:
            self._calls.call_off(self._why_not())
        return self._advance()

    def begun_early(self, call_id: str) -> Step:
        """Start a ``Streamed`` tool if fewer than ``max_parallel_calls`` tools run.

        Otherwise it starts after the turn.
        """
        if self.state.ending is None and self.state.executing < self._rules.max_parallel_calls:
            self._calls.start_early(call_id)
        return self._step()

    def tool_over(self, call_id: str, result: Any, *, failed: bool) -> Step:
        self._calls.over(call_id, result, failed=failed)
        return self._advance()

    def decided(self, call_id: str, decision: Approval, now: float) -> Step:
        """Use a decision. Raises UsageError, and changes nothing, if that is not possible."""
        self._refuse_if_paused()
        self._calls.decide(undecided(self.state.calls, call_id), decision, now)
        return self._advance()

    def expired(self, call_id: str) -> Step:
        self._refuse_if_paused()
        self._calls.expire(undecided(self.state.calls, call_id))
        return self._advance()

    def check(self, decisions: Decisions) -> None:
        for call_id, decision in decisions.items():
            call = undecided(self.state.calls, call_id)
            checked_edit(self.state.run_id, call, decision, self._tools)

    def asked_again(self, call_id: str) -> Step:
        """Ask the approver again about a call whose decision could not be used."""
        again = [request for request in self.pending if request.call_id == call_id]
        return Step([], [AskPerson(request) for request in again])

    def unchanged(self) -> Step:
        """Return an empty step: it makes the driver post what was decided, also at a pause."""
        return Step([], [])

    def check_now(self, decisions: Decisions) -> None:
        """Raise UsageError if a decision cannot be used, or the run has paused."""
        self._refuse_if_paused()
        self.check(decisions)

    def resumed(self, decisions: Decisions, now: float, times: Times | None = None) -> Step:
        """Continue after a pause. All decisions count or none; ``times`` is when they were made."""
        self.check(decisions)
        self.require_tools(decisions)
        self.state.status = "running"
        self._out.events.append(ev.RunResumed(self.state.run_id))
        self._take_up(decisions, now, times or {})
        return self._advance()

    def stopped(self, reason: str) -> Step:
        return self._end_soon(ev.RunStopped(reason, self.state.run_id))

    def failed(self, code: str, message: str) -> Step:
        return self._end_soon(self._failed(code, message))

    def _end_soon(self, ending: ev.RunFailed | ev.RunStopped) -> Step:
        """Start nothing more, cancel what runs, and end the run when that is over."""
        if self.is_over or self.state.ending is not None:
            return self._step()
        self.state.status, self.state.ending = "running", ending
        if self.state.is_reading:
            self._out.effects.append(CloseStream())
        self._calls.call_off(self._why_not())
        for call in self.state.with_status("running"):
            if not call.has_returned:
                self._out.effects.append(CancelTool(call.call_id, call.reading == "interrupted"))
        return self._advance()

    def crashed(self, code: str, message: str) -> Step:
        """End everything that is open, because the driver cannot continue."""
        if self.is_over:
            return self._step()
        return self._give_up(self._failed(code, message), message)

    def restore(self, events: Iterable[ev.Event]) -> None:
        """Bring the state to where the log of the run ends."""
        fresh = LoopState(self.state.run_id, self.state.grants)
        for field in LoopState.__struct_fields__:  # other objects refer to this state
            setattr(self.state, field, getattr(fresh, field))
        restoring = _Restoring(self.state, self._tools)
        for event in events:
            restoring.take(event)
        self.state.numbering = restoring.numbering

    def recovered(self, decisions: Decisions, now: float, times: Times | None = None) -> Step:
        """Continue after a crash. All decisions count or none.

        Raises UsageError, and changes nothing, if one cannot be used, or a tool is missing.
        """
        self.check(decisions)
        self.require_tools(decisions)
        running = self.state.with_status("running")
        note = ""
        if self.state.is_reading and running:
            note = lost_turn_note([call.name for call in running])
        interrupted = tuple(call.call_id for call in running)
        self._out.events.append(ev.RunResumed(self.state.run_id, "crash", interrupted, note))
        if self.state.is_reading:
            self._begin_turn_again(note)
        else:
            for call in running:
                self._calls.interrupted(call)
            self._take_up(decisions, now, times or {})
        return self._advance()

    def abandoned(self, reason: str) -> Step:
        """End a run that no process drives: it had paused, or was cut off."""
        if self.is_over:
            return self._step()
        self.state.status = "running"
        why = "the run was stopped"
        for call in self.state.with_status("running"):
            call.interruption = INTERRUPTED
        return self._give_up(ev.RunStopped(reason, self.state.run_id), why)

    def _give_up(self, ending: ev.RunFailed | ev.RunStopped, why: str) -> Step:
        self.state.is_reading, self.state.ending = False, ending
        self._calls.give_up(why)
        return self._advance()

    def _begin_turn_again(self, note: str) -> None:
        self._calls.give_up(LOST_TURN)
        if note:
            self.state.say(note, NOTE)
        self._start_turn(self.state.turns, self.state.attempt + 1)

    def _take_up(self, decisions: Decisions, now: float, times: Times) -> None:
        """Use decisions, ask about the rest, and check again what may run."""
        for call in self.state.with_status("pending"):
            if call.call_id in decisions:
                when = times.get(call.call_id, now)
                self._calls.decide(call, decisions[call.call_id], when)
            elif is_expired(call.request, now):
                self._calls.expire(call)
            elif self._rules.asks_in_place:
                self._calls.ask_again(call)
        for call in self.state.with_status("ready"):
            self._calls.reconsider(call, now)

    def has_tool(self, call_id: str) -> bool:
        call = self.state.calls.get(call_id)
        return call is not None and self._tools.get(call.name) is not None

    def require_tools(self, decisions: Decisions) -> None:
        """Raise UsageError if a call is to run whose tool this agent does not have."""
        waiting = self.state.with_status("ready")
        for call in self.state.with_status("pending"):
            if isinstance(decisions.get(call.call_id), Approve):
                waiting.append(call)
        missing = {call.name for call in waiting if self._tools.get(call.name) is None}
        if missing and not self.state.is_reading:
            raise UsageError(
                f"the run {self.state.run_id} waits for tools that this agent does not have: "
                f"{', '.join(sorted(missing))}. Give them to the agent to go on with it"
            )

    def _refuse_if_paused(self) -> None:
        if self.is_paused:
            raise UsageError("the run has paused: give decisions to Agent.resume")

    def _ask_model(self) -> None:
        if self.state.turns >= self._rules.max_turns:
            self._end(self._failed("max_turns", max_turns_words(self.state.turns)))
            return
        self._start_turn(self.state.turns + 1, 1)

    def _start_turn(self, turn: int, attempt: int) -> None:
        self.state.begin_turn(turn, attempt)
        self._out.events.append(ev.TurnStarted(turn, attempt))
        self._out.effects.append(AskModel(tuple(self.state.messages)))

    def _why_not(self) -> str:
        ending = self.state.ending
        return ending.message if isinstance(ending, ev.RunFailed) else "the run was stopped"

    def _failed(self, code: str, message: str) -> ev.RunFailed:
        return ev.RunFailed(code, message, self.state.run_id)

    def _fail_turn(self, code: str, message: str) -> None:
        if self.state.stop_kind is None and self.state.failure is None:
            self.state.failure = self._failed(code, message)

    def _turn_completed(self, event: ev.TurnCompleted) -> None:
        if not self.state.end_turn(event):
            return
        kind = self.state.stop_kind
        if kind is not None and kind not in _LETS_CALLS_RUN:
            self._calls.call_off(NOT_RUN[kind])
        for call in self.state.with_status("running"):
            self._calls.finish_text(call)

    def _advance(self) -> Step:
        """Start the calls that may run now. When none is left, go on with the next turn."""
        if self.state.stop_kind in _LETS_CALLS_RUN and self.state.ending is None:
            free = self._rules.max_parallel_calls - self.state.executing
            for call in self.state.with_status("ready"):
                if free <= 0:
                    break
                self._calls.start(call)
                free -= call.status == "running"  # or it was refused
        if not (self.is_over or self.state.is_reading or self.state.with_status("running")):
            self._go_on()
        return self._step()

    def _go_on(self) -> None:
        kind, reason = self.state.stop_kind, self.state.stop_reason
        if self.state.ending is not None:
            self._end(self.state.ending)
        elif self.pending:
            if not self._rules.asks_in_place:
                self.state.status = "paused"
                self._out.events.append(ev.RunPaused(self.state.run_id, self.pending))
        elif kind == "error" or (kind == "malformed" and not self.state.calls):
            self._end(self._failed(reason or "", f"{NOT_RUN[kind]} ({reason})"))
        elif kind == "content_filter":
            self._complete()
        elif self.state.calls:
            self.state.add_results()
            self._ask_model()
        elif kind == "paused":
            self._ask_model()
        else:
            self._complete()

    def _complete(self) -> None:
        state = self.state
        self._end(ev.RunCompleted(state.text, stop_reason=state.stop_reason, run_id=state.run_id))

    def _end(self, event: ev.RunCompleted | ev.RunFailed | ev.RunStopped) -> None:
        state = self.state
        match event:
            case ev.RunCompleted():
                state.status = "completed"
            case ev.RunFailed():
                state.status = "failed"
            case ev.RunStopped():
                state.status = "stopped"
        state.add_results()
        self._out.events.append(replace(event, usage=state.usage))

    def _step(self) -> Step:
        step = Step(self._out.events[:], self._out.effects[:], self.is_at_rest)
        self._out.events.clear()
        self._out.effects.clear()
        return step


def _without_policy_decision(event: ev.Event) -> ev.Event:
    """Return the event without ``policy_decision``.

    The agent evaluates the policies again on the exact text that runs, and reports approvals in
    ``ApprovalRequested``.
    """
    if isinstance(event, ev.ToolArgsCompleted) and event.policy_decision is not None:
        return replace(event, policy_decision=None)
    return event


class Calls:
    """Changes the state of calls. Events and effects that follow are added to ``out``."""

    def __init__(
        self, state: LoopState, tools: Toolbox, out: Step, approval_seconds: float | None
    ) -> None:
        self._state = state
        self._tools = tools
        self._out = out
        self._approval_seconds = approval_seconds

    def ran_elsewhere(self, event: ev.ToolCallCompleted | ev.ToolCallFailed) -> None:
        if (use := self._state.uses.get(event.call_id)) is None:
            return
        if isinstance(event, ev.ToolCallCompleted):
            use.tool_args, use.result = event.arguments, event.result
        else:
            use.error = event.error

    def invalid(self, event: ev.ToolArgsInvalid) -> None:
        self._state.provider_calls.pop(event.call_id, None)
        if (use := self._state.uses.get(event.call_id)) is not None:
            use.verdict, use.tool_name = event.verdict, event.name
        if (call := self._state.calls.get(event.call_id)) is not None:
            call.has_verdict, call.name = True, event.name
            self._turn_down(call, invalid_words(event), event.verdict, event.error)

    def too_late(self, event: ev.ToolArgsCompleted, why: str) -> None:
        self._state.provider_calls.pop(event.call_id, None)
        if (call := self._state.calls.get(event.call_id)) is not None:
            call.has_verdict = True
            self._turn_down(call, why, "aborted")

    def settled(
        self, event: ev.ToolArgsCompleted, text_of: Callable[[str], str], now: float
    ) -> None:
        self._state.provider_calls.pop(event.call_id, None)
        call = self._state.calls.get(event.call_id)
        if call is None:
            return
        call.has_verdict = True
        problem = self._problem(call, event, text_of)
        if problem is None:
            self._take_up(call, now)
        else:
            self._turn_down(call, problem, "malformed")

    def _problem(
        self, call: CallState, event: ev.ToolArgsCompleted, text_of: Callable[[str], str]
    ) -> str | None:
        """Set name and text of a complete call, and return what is wrong with it."""
        if call.comes_late:
            return "it came after the end of the turn"
        if call.starts_early and call.name != event.name:
            return "the provider closed it under another name"
        # A few servers send a name in pieces, of which the call was started with the first.
        call.name = self._state.uses[call.call_id].tool_name = event.name
        tool = self._tools.get(call.name)
        if tool is None:
            return f"this agent has no tool {call.name!r}"
        if not isinstance(event.arguments, dict):
            return f"there is no tool {call.name!r} that takes it"
        call.text = call.asked_text = exact_text(event, text_of(event.call_id))
        self._state.uses[call.call_id].tool_args = read_arguments(call.text)
        if call.starts_early and event.text is not None:
            return "the provider closed it with other arguments"
        return tool.problem(call.text)

    def _take_up(self, call: CallState, now: float) -> None:
        if call.starts_early:
            return  # nothing could forbid it any more when it was started
        approval_reasons = self._tools.approval_reasons(call.name, read_arguments(call.text))
        if isinstance(approval_reasons, ev.ArgumentsError):
            self._refuse(call, approval_reasons.message)
        elif approval_reasons and not self._is_granted(call, approval_reasons):
            self._ask(call, approval_reasons, now)
        else:
            call.status = "ready"

    def _is_granted(self, call: CallState, approval_reasons: list[ApprovalReason]) -> bool:
        grants = self._state.grants
        return self._conversation_grant(call) in grants or all(
            asking.granted_by(grants) for asking in approval_reasons
        )

    def _conversation_grant(self, call: CallState) -> Grant:
        return Grant("conversation", call.name, self._tools[call.name].function)

    def _ask(self, call: CallState, approval_reasons: list[ApprovalReason], now: float) -> None:
        seconds = self._approval_seconds
        asking = next(one for one in approval_reasons if not one.granted_by(self._state.grants))
        call.approval_reason = asking
        call.request = ev.ApprovalRequested(
            call.call_id,
            call.name,
            read_arguments(call.text),
            digest_of(self._state.run_id, call.call_id, call.name, call.text),
            asking.reason,
            asking.name,
            None if seconds is None else now + seconds,
            "" if asking.rule is None else asking.rule.digest,
        )
        call.status = "pending"
        self._out.events.append(call.request)
        self._out.effects.append(AskPerson(call.request))

    def decide(self, call: CallState, decision: Approval, now: float) -> None:
        edit = checked_edit(self._state.run_id, call, decision, self._tools)
        if is_expired(call.request, now):
            self.expire(call)
            return
        self._out.effects.append(Withdraw(call.call_id))  # an approver may still be deciding
        if isinstance(decision, Deny):
            self._tell_decision(call, "denied", decision.reason)
            self._refuse(call, denied_words(decision.reason))
        else:
            self._approve(call, decision, edit)

    def _approve(self, call: CallState, decision: Approve, edit: str | None) -> None:
        grant = self._wanted_grant(call, decision.always)
        if grant is not None:
            self._state.grants.add(grant)
        always = "call" if grant is None else grant.scope
        if edit is None:
            self._tell_decision(call, "approved", decision.reason, always=always)
        else:
            edited = read_arguments(edit)
            self._tell_decision(call, "edited", decision.reason, edited, always)
            call.text, call.note = edit, edited_note(edit)
            self._state.uses[call.call_id].tool_args = read_arguments(edit)
        call.status = "ready"

    def _wanted_grant(self, call: CallState, always: ev.ApprovalScope) -> Grant | None:
        """Return the grant, or None if the rule that was shown no longer exists."""
        if always == "conversation":
            return self._conversation_grant(call)
        return (
            None if always == "call" or call.approval_reason is None else call.approval_reason.grant
        )

    def _tell_decision(
        self,
        call: CallState,
        outcome: ev.ApprovalOutcome,
        reason: str,
        edited: dict[str, Any] | None = None,
        always: ev.ApprovalScope = "call",
    ) -> None:
        self._out.events.append(
            ev.ApprovalDecided(call.call_id, call.name, outcome, reason, edited, always)
        )

    def expire(self, call: CallState) -> None:
        self._out.effects.append(Withdraw(call.call_id))
        self._tell_decision(call, "expired", EXPIRED)
        self._refuse(call, _EXPIRED)

    def start(self, call: CallState) -> None:
        """Run a call: exactly what was approved, if it was asked about."""
        key = idempotency_key(self._state.run_id, call.call_id)
        if not is_untouched(self._state.run_id, call):
            self._refuse(call, _CHANGED)
            return
        call.status = "running"
        call.attempts += 1
        started = ev.ToolExecutionStarted(call.call_id, call.name, key, call.attempts)
        self._out.events.append(started)
        if call.starts_early:
            self._out.effects.append(ReadAlong(call.call_id, call.name, key))
        else:
            self._out.effects.append(Execute(call.call_id, call.name, call.text, key))

    def start_early(self, call_id: str) -> None:
        call = self._state.calls[call_id]
        if not call.comes_late:
            call.reading = "open"
            self.start(call)

    def finish_text(self, call: CallState) -> None:
        if call.reading == "open":
            call.reading = "whole"
            self._out.effects.append(EndText(call.call_id))
            self._conclude(call)

    def _interrupt(
        self, call: CallState, why: str, verdict: str, error: ev.ArgumentsError | None = None
    ) -> None:
        if call.reading == "open":
            call.reading, call.interruption = "interrupted", why
            told = TextInterruptedError(why, verdict=verdict, error=error)
            self._out.effects.append(EndText(call.call_id, told))
        self._conclude(call)

    def over(self, call_id: str, result: Any, *, failed: bool) -> None:
        call = self._state.calls[call_id]
        call.result, call.failed, call.has_returned = result, failed, True
        self._conclude(call)

    def _conclude(self, call: CallState) -> None:
        """End a call, once its tool has returned and its text is over."""
        if not (call.has_returned and call.has_verdict) or call.reading == "open":
            return
        if call.reading == "interrupted":
            self._fail(call, f"the call was interrupted: {call.interruption}")
            return
        if call.failed:
            self._fail(call, call.result)
            return
        call.status = "done"
        self._state.uses[call.call_id].result = call.result
        arguments = read_arguments(call.text)
        self._out.events.append(
            ev.ToolCallCompleted(call.call_id, call.name, arguments, call.result)
        )

    def call_off(self, why: str) -> None:
        """Refuse all calls that are not running."""
        for call in self._state.open_calls():
            if call.status == "pending":
                self._out.effects.append(Withdraw(call.call_id))
                self._tell_decision(call, "withdrawn", why)
            if call.status in ("pending", "ready"):
                self._refuse(call, why)
            elif call.reading == "open":
                self._interrupt(call, why, "aborted")

    def interrupted(self, call: CallState) -> None:
        """Run a tool that was running at a crash again if it is idempotent; fail it otherwise."""
        tool = self._tools.get(call.name)
        if tool is not None and tool.idempotent and not self._is_questionable(call):
            call.status, call.reading = "ready", "none"
        else:
            self._fail(call, INTERRUPTED)

    def _is_questionable(self, call: CallState) -> bool:
        """Return True if the current rules forbid a call, or ask about it."""
        approval_reasons = self._tools.approval_reasons(call.name, read_arguments(call.text))
        if isinstance(approval_reasons, ev.ArgumentsError):
            return True
        return (
            call.request is None
            and bool(approval_reasons)
            and not self._is_granted(call, approval_reasons)
        )

    def reconsider(self, call: CallState, now: float) -> None:
        """Check a call that was ready against the current rules, which may have changed."""
        problem = self._tools[call.name].problem(call.text)
        if problem is not None:
            self._refuse(call, problem)
        elif call.request is None:
            self._take_up(call, now)
        else:
            approval_reasons = self._tools.approval_reasons(call.name, read_arguments(call.text))
            if isinstance(approval_reasons, ev.ArgumentsError):
                self._refuse(call, approval_reasons.message)

    def ask_again(self, call: CallState) -> None:
        if call.request is not None:
            self._out.effects.append(AskPerson(call.request))

    def give_up(self, why: str) -> None:
        """End all calls, whatever their state."""
        self.call_off(why)
        for call_id, name in self._state.provider_calls.items():
            self._abort(call_id, name, why)
        for call in self._state.open_calls():
            if not call.has_verdict:
                self._abort(call.call_id, call.name, why)
            self._fail(call, call.interruption or f"the call was cancelled: {why}")

    def _abort(self, call_id: str, name: str, why: str) -> None:
        self._state.uses[call_id].verdict = "aborted"
        error = ev.ArgumentsError("aborted", why)
        self._out.events.append(ev.ToolArgsInvalid(call_id, name, "aborted", "", error))

    def _turn_down(
        self, call: CallState, why: str, verdict: str, error: ev.ArgumentsError | None = None
    ) -> None:
        """End a call with a verdict. A tool that reads its text is interrupted."""
        if call.starts_early:
            self._interrupt(call, why, verdict, error)
        else:
            self._refuse(call, why)

    def _refuse(self, call: CallState, why: str) -> None:
        self._fail(call, f"the call was not run: {why}")

    def _fail(self, call: CallState, error: str) -> None:
        call.status, call.result, call.failed = "done", error, True
        self._state.uses[call.call_id].error = error
        self._out.events.append(ev.ToolCallFailed(call.call_id, call.name, error))


def undecided(calls: dict[str, CallState], call_id: str) -> CallState:
    """Return the pending call. Each decision is used once."""
    call = calls.get(call_id)
    if call is not None and call.status == "pending":
        return call
    waiting = [other.call_id for other in calls.values() if other.status == "pending"]
    if call is not None and call.request is not None:
        raise UsageError(f"it was decided already on the call {call_id}")
    raise UsageError(
        f"no pending approval for call {call_id!r}. Pending: {', '.join(waiting) or 'none'}"
    )


def checked_edit(run_id: str, call: CallState, decision: Approval, tools: Toolbox) -> str | None:
    """Return the text of edited arguments, if any. Raises UsageError for a bad decision."""
    if isinstance(decision, Deny):
        return None
    if not isinstance(decision, Approve):
        raise UsageError(f"a decision is Approve(…) or Deny(…), not {type(decision).__name__}")
    request = call.request
    if request is None or not is_untouched(run_id, call):
        raise UsageError(
            "the arguments of the request were changed: to run others, use Approve(arguments=…)"
        )
    if decision.digest and decision.digest != request.digest:
        raise UsageError(f"the digest is not that of the call {call.call_id}: ask again")
    if decision.always not in get_args(ev.ApprovalScope):
        raise UsageError(
            f'always must be "call", "rule" or "conversation", not {decision.always!r}'
        )
    if decision.always == "rule" and request.rule is None:
        raise UsageError('no rule asks about this call: use Approve(always="conversation")')
    return None if decision.arguments is None else _edited(call, decision.arguments, tools)


def _edited(call: CallState, arguments: Mapping[str, Any], tools: Toolbox) -> str:
    try:
        text = written(dict(arguments))
    except (TypeError, ValueError) as error:
        raise UsageError(f"the edited arguments are not valid JSON: {error}") from None
    if tools.get(call.name) is None:
        raise UsageError(
            f"whether edited arguments fit cannot be told here: there is no {call.name}"
        )
    refusal = tools.refusal(call.name, read_arguments(text))
    problem = refusal.message if refusal is not None else tools[call.name].problem(text)
    if problem is not None:
        raise UsageError(f"the edited arguments of {call.name} are not valid: {problem}")
    return text


def is_untouched(run_id: str, call: CallState) -> bool:
    """Return True if the arguments that were shown still equal the exact text."""
    request = call.request
    if request is None:
        return True
    if request.digest != digest_of(run_id, call.call_id, call.name, call.asked_text):
        return False
    try:
        shown = written(request.arguments)  # as text: in Python, 1 equals True
    except (TypeError, ValueError):
        return False
    return shown == written(read_arguments(call.asked_text))


def lost_turn_note(names: Sequence[str]) -> str:
    return (
        "[Your last answer was cut off before it was complete, and is lost. While you wrote it, "
        f"these tools had begun to work: {', '.join(names)}. It is not known what they have done; "
        "look before you call them again.]"
    )


def invalid_words(event: ev.ToolArgsInvalid) -> str:
    error = event.error
    place = "" if error.offset is None else f", at character {error.offset}"
    hint = {
        "truncated": "; its arguments must be written shorter, or in several calls",
        "malformed": "; arguments must be a JSON object",
    }.get(event.verdict, "")
    return f"its arguments are {event.verdict}: {error.message}{place}{hint}"


def denied_words(reason: str) -> str:
    return f"it was denied{f': {reason}' if reason else ''}"


def edited_note(text: str) -> str:
    return (
        f"A person changed the arguments of this call before approving it. It was run with: {text}"
    )


def max_turns_words(turns: int) -> str:
    return (
        f"turn limit reached ({turns}). Raise max_turns, or send another prompt in the conversation"
        " to continue"
    )


class _Restoring:
    def __init__(self, state: LoopState, tools: Toolbox) -> None:
        self._state = state
        self._tools = tools
        self._texts: dict[str, list[str]] = {}  # of the arguments of this turn's calls
        self._denied: set[str] = set()  # denied or withdrawn calls
        self._attempts = 0
        self._blocks = 0
        self._calls = 0

    @property
    def numbering(self) -> Numbering:
        before = numbering_of(self._state.history)
        return Numbering(
            before.turns + self._attempts,
            max(before.blocks, self._blocks),
            max(before.calls, self._calls),
            before.call_ids | self._state.uses.keys(),
        )

    def take(self, event: ev.Event) -> None:
        state = self._state
        match event:
            case ev.ToolArgsDelta(call_id=call_id, delta=delta):
                if call_id in self._texts:
                    self._texts[call_id].append(delta)
            case ev.TextDelta(block=block) | ev.ThinkingStarted(block=block):
                self._blocks = max(self._blocks, block + 1)
            case ev.RunStarted(prompt=prompt, history=history, mode=mode):
                state.history, state.messages, state.mode = history, list(history), mode
                state.say(prompt)
            case ev.RunPaused():
                state.status = "paused"
            case ev.RunResumed(note=note):
                state.status = "running"
                if note:
                    state.say(note, NOTE)
            case ev.RunCompleted(usage=usage):
                self._end("completed", usage)
            case ev.RunFailed(usage=usage):
                self._end("failed", usage)
            case ev.RunStopped(usage=usage):
                self._end("stopped", usage)
            case ev.StreamFailed(message=message):
                if state.stop_kind is None and state.failure is None:
                    state.failure = ev.RunFailed(event.specific_code, message, state.run_id)
            case _:
                self._take_turn(event)

    def _end(self, status: Any, usage: ev.Usage) -> None:
        self._state.status, self._state.is_reading = status, False
        if usage != ev.Usage():
            self._state.usage = usage  # with that of a turn that did not complete
        self._state.add_results()

    def _take_turn(self, event: ev.Event) -> None:
        state = self._state
        match event:
            case ev.TurnStarted(turn=number, attempt=attempt):
                self._attempts += 1
                if attempt == 1:
                    state.add_results()
                state.begin_turn(number, attempt)
                self._texts.clear()
            case ev.TurnCompleted(parent_id=None):
                turn = state.without_forged_results(event)
                state.is_reading = not state.end_turn(turn) and state.is_reading
            case ev.ToolCallStarted(parent_id=None):
                self._calls = max(self._calls, event.index + 1)
                self._texts[event.call_id] = []
                state.open_call(event)
            case _:
                self._take_call(event)

    def _take_call(self, event: ev.Event) -> None:
        match event:
            case ev.ToolArgsCompleted():
                self._settle(event)
            case ev.ToolArgsInvalid(call_id=call_id, name=name, verdict=verdict):
                self._name(call_id, name)
                if (use := self._state.uses.get(call_id)) is not None:
                    use.verdict = verdict
            case ev.ToolCallCompleted() | ev.ToolCallFailed() if self._is_forged(event):
                pass
            case ev.ToolCallCompleted(call_id=call_id, arguments=arguments, result=result):
                self._conclude(call_id, result, failed=False)
                if (use := self._state.uses.get(call_id)) is not None:
                    use.tool_args, use.result = arguments, result
            case ev.ToolCallFailed(call_id=call_id, error=error):
                self._conclude(call_id, error, failed=True)
                if (use := self._state.uses.get(call_id)) is not None:
                    use.error = error
            case ev.ApprovalRequested(call_id=call_id) if call_id in self._state.calls:
                self._ask(self._state.calls[call_id], event)
            case ev.ApprovalDecided(call_id=call_id) if call_id in self._state.calls:
                self._decide(self._state.calls[call_id], event)
            case ev.ToolExecutionStarted(call_id=call_id, attempt=attempt):
                call = self._state.calls[call_id]
                call.status, call.attempts = "running", attempt
                call.reading = "none" if call.has_verdict else "interrupted"  # its reader is gone
            case _:
                pass

    def _name(self, call_id: str, name: str) -> CallState | None:
        self._state.provider_calls.pop(call_id, None)
        call = self._state.calls.get(call_id)
        if call is not None:
            call.has_verdict, call.name = True, name
            self._state.uses[call_id].tool_name = name
        return call

    def _settle(self, event: ev.ToolArgsCompleted) -> None:
        call = self._name(event.call_id, event.name)
        if call is None or not isinstance(event.arguments, dict):
            return
        call.text = call.asked_text = exact_text(event, "".join(self._texts[event.call_id]))
        self._state.uses[call.call_id].tool_args = read_arguments(call.text)
        if call.status == "writing":
            call.status = "ready"

    def _ask(self, call: CallState, event: ev.ApprovalRequested) -> None:
        call.status, call.request = "pending", event
        call.approval_reason = self._approval_reason(call, event)

    def _approval_reason(self, call: CallState, event: ev.ApprovalRequested) -> ApprovalReason:
        """Find the rule that asked among the present ones, by its content.

        The name is not enough, because the policy may have changed.
        """
        if self._tools.get(call.name) is not None:
            approval_reasons = self._tools.approval_reasons(call.name, read_arguments(call.text))
            for asking in (
                [] if isinstance(approval_reasons, ev.ArgumentsError) else approval_reasons
            ):
                digest = "" if asking.rule is None else asking.rule.digest
                if digest == event.rule_digest:
                    return asking
        return ApprovalReason(event.reason, event.rule)

    def _decide(self, call: CallState, event: ev.ApprovalDecided) -> None:
        if event.edited_arguments is not None:
            call.text = written(event.edited_arguments)
            call.note = edited_note(call.text)
            self._state.uses[call.call_id].tool_args = read_arguments(call.text)
        if event.decision in ("approved", "edited"):
            call.status = "ready"
        else:
            self._denied.add(call.call_id)

    def _is_forged(self, event: ev.ToolCallCompleted | ev.ToolCallFailed) -> bool:
        """Return True if the event ends a call of ours that cannot have ended (invariant 14).

        Current versions never write such an event. Logs of older versions may contain one.
        """
        call = self._state.calls.get(event.call_id)
        if call is None or call.attempts:
            return False
        is_undecided = call.status == "pending" and call.call_id not in self._denied
        return isinstance(event, ev.ToolCallCompleted) or is_undecided or not call.has_verdict

    def _conclude(self, call_id: str, result: Any, *, failed: bool) -> None:
        call = self._state.calls.get(call_id)
        if call is not None:
            call.status, call.result, call.failed = "done", result, failed
