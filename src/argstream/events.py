"""The public union of events.

Every event is a frozen struct, tagged with ``type`` in Python and in JSON. The events of one call
come in this order: ``ToolCallStarted``; ``ToolArgsDelta`` and the ``Argument…`` events in document
order; exactly one of ``ToolArgsCompleted`` and ``ToolArgsInvalid``; and, if the provider ran the
call itself, exactly one of ``ToolCallCompleted`` and ``ToolCallFailed``. Calls may interleave.

In a run, these follow: ``ApprovalRequested`` and ``ApprovalDecided`` if the call needs approval;
``ToolExecutionStarted`` and ``ToolOutputDelta`` if it runs; and always exactly one of
``ToolCallCompleted`` and ``ToolCallFailed``, also for a call that was invalid or denied. Only a
tool with ``Streamed`` text starts before its arguments are complete. A run begins with
``RunStarted`` and ends with one of ``RunCompleted``, ``RunFailed`` and ``RunStopped``. After
``RunPaused``, a run of an ``Agent`` emits nothing until it is resumed.
"""

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from argstream.history import CallKind, Message, Verdict
from argstream.jsonstream import JsonPath, Kind, Reason
from argstream.sanitise import warnings_about

RunStatus: TypeAlias = Literal["running", "completed", "paused", "failed", "stopped"]


class BaseEvent(Struct, frozen=True, tag_field="type"):
    """Base class of all events. The class attributes describe the kind of event."""

    is_delta: ClassVar[bool] = False
    """Whether it is a piece of a text. Neighbouring pieces of one text can be joined."""
    is_computed: ClassVar[bool] = False
    """Whether it follows from other events (``Argument…``), so that a log does not keep it."""
    ends_run: ClassVar[bool] = False
    run_status: ClassVar[RunStatus | None] = None
    """The status of the run after the event; None if it stays the same."""


InvalidVerdict: TypeAlias = Literal["truncated", "malformed", "rejected", "aborted"]
Action: TypeAlias = Literal["allow", "ask", "deny"]


class TextDelta(BaseEvent, frozen=True, gc=False, tag="text_delta"):
    """A piece of the model's text. Pieces with the same ``block`` belong together."""

    type: ClassVar[Literal["text_delta"]] = "text_delta"
    is_delta: ClassVar[bool] = True
    text: str
    block: int
    parent_id: str | None = None


class ThinkingStarted(BaseEvent, frozen=True, tag="thinking_started"):
    """The model started to think. Some providers do not send the text."""

    type: ClassVar[Literal["thinking_started"]] = "thinking_started"
    block: int
    parent_id: str | None = None


class ThinkingDelta(BaseEvent, frozen=True, gc=False, tag="thinking_delta"):
    """A piece of the model's thinking."""

    type: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    is_delta: ClassVar[bool] = True
    text: str
    block: int
    parent_id: str | None = None


class ThinkingCompleted(BaseEvent, frozen=True, tag="thinking_completed"):
    """A block of thinking is complete. The text may be empty."""

    type: ClassVar[Literal["thinking_completed"]] = "thinking_completed"
    text: str
    block: int
    parent_id: str | None = None


class ToolCallStarted(BaseEvent, frozen=True, tag="tool_call_started"):
    """The model calls a tool. No argument has arrived yet."""

    type: ClassVar[Literal["tool_call_started"]] = "tool_call_started"
    call_id: str
    index: int
    """The number of calls before it, including those of earlier turns of a run."""
    name: str
    kind: CallKind = "function"
    parent_id: str | None = None


class CallEvent(BaseEvent, frozen=True):
    """Base class of the events of a call that has started."""

    call_id: str
    name: str


class ToolArgsDelta(CallEvent, frozen=True, gc=False, tag="tool_args_delta"):
    """The next piece of the arguments' raw text.

    Joined, the pieces are the whole text, unless ``ToolArgsCompleted.text`` is set.
    """

    type: ClassVar[Literal["tool_args_delta"]] = "tool_args_delta"
    is_delta: ClassVar[bool] = True
    delta: str


class ArgumentStarted(CallEvent, frozen=True, gc=False, tag="argument_started"):
    """A value inside the arguments started."""

    type: ClassVar[Literal["argument_started"]] = "argument_started"
    is_computed: ClassVar[bool] = True
    path: JsonPath
    kind: Kind


class ArgumentDelta(CallEvent, frozen=True, gc=False, tag="argument_delta"):
    """The next piece of a string inside the arguments, decoded."""

    type: ClassVar[Literal["argument_delta"]] = "argument_delta"
    is_computed: ClassVar[bool] = True
    path: JsonPath
    text: str


class ArgumentCompleted(CallEvent, frozen=True, tag="argument_completed"):
    """A value inside the arguments is complete: later text cannot change it."""

    type: ClassVar[Literal["argument_completed"]] = "argument_completed"
    is_computed: ClassVar[bool] = True
    path: JsonPath
    value: Any


class PolicyDecision(Struct, frozen=True):
    """The answer of a policy about a call."""

    action: Action
    reason: str = ""
    """An explanation for users and for the model."""
    rule: str | None = None
    """The name of the rule that decided. None if no rule matched and the default applies."""
    path: JsonPath = ()
    """The argument that decided; empty if the answer does not depend on an argument."""


class ToolArgsCompleted(CallEvent, frozen=True, tag="tool_args_completed", omit_defaults=True):
    """The provider closed the call and its arguments are complete.

    If ``policy_decision.action`` is ``ask``, the call needs approval before it runs.
    """

    type: ClassVar[Literal["tool_args_completed"]] = "tool_args_completed"
    arguments: dict[str, Any] | str
    """A dict; for calls of the kinds ``custom`` and ``code``, a str."""
    policy_decision: PolicyDecision | None = None
    """The answer of the policy that was passed to ``stream()``: ``allow``, or ``ask`` with
    ``on_ask="report"``. None without a policy, for a call that the provider runs itself, and in a
    run of an agent, which reports its approvals in ``ApprovalRequested``. JSON omits None."""
    text: str | None = None
    """The exact text of the arguments, if it differs from the joined ``ToolArgsDelta`` events."""


ErrorReason: TypeAlias = (
    Reason
    | Literal[
        "aborted",
        "contradicted",
        "denied",
        "invalid",
        "malformed",
        "no_name",
        "rejected",
        "schema",
        "unknown_tool",
    ]
)
"""Why arguments are not valid: docs/errors.md explains each value."""


class ArgumentsError(Struct, frozen=True):
    """Why arguments are not valid, in a form to act on."""

    reason: ErrorReason
    message: str
    offset: int | None = None
    """The position in the arguments' text, in characters."""
    path: JsonPath = ()
    keyword: str | None = None
    """The keyword of the schema that was violated, if a schema rejected the call."""


class ToolArgsInvalid(CallEvent, frozen=True, tag="tool_args_invalid"):
    """The arguments cannot become valid, or will not be completed. Do not run this call."""

    type: ClassVar[Literal["tool_args_invalid"]] = "tool_args_invalid"
    verdict: InvalidVerdict
    raw: str
    """The text so far."""
    error: ArgumentsError


class Usage(Struct, frozen=True):
    """The tokens that a turn or a run used, as reported by the provider.

    A count is None if the provider did not report it, and 0 if it reported zero. The sum of two
    usages adds the counts that are known.

    >>> Usage(input_tokens=3) + Usage(input_tokens=4, output_tokens=2) == Usage(7, 2)
    True
    """

    input_tokens: int | None = None
    """All input, including tokens read from or written to a cache."""
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        """The sum of input and output tokens, as far as they are known."""
        return _sum(self.input_tokens, self.output_tokens)

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum, count by count."""
        return Usage(*map(_sum, astuple(self), astuple(other)))


def _sum(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


class TurnStarted(BaseEvent, frozen=True, tag="turn_started"):
    """In a run: the agent asks the model for its next turn."""

    type: ClassVar[Literal["turn_started"]] = "turn_started"
    turn: int
    """The number of the turn, starting at 1."""
    attempt: int = 1
    """How often the turn was started. Earlier attempts were cut off, and their output is lost."""


StopKind: TypeAlias = Literal[
    "end_turn",
    "tool_calls",
    "paused",
    "length",
    "content_filter",
    "malformed",
    "error",
    "rejected",
    "unknown",
]
"""Why a turn ended, for all providers: docs/errors.md explains each value."""


class TurnCompleted(BaseEvent, frozen=True, tag="turn_completed"):
    """The turn is over. Every call in it has its verdict."""

    type: ClassVar[Literal["turn_completed"]] = "turn_completed"
    stop_reason: str | None
    """As reported by the provider. ``stop`` has its meaning."""
    message: Message
    usage: Usage = Usage()
    parent_id: str | None = None
    """The call whose sub-agent took this turn."""
    characters_read: int | None = None
    """How many characters were read, if reading was stopped (``rejected``).

    ``usage`` then has the counts that the provider had reported by that time.
    """
    stop: StopKind = "unknown"


FailureCode: TypeAlias = Literal[
    "provider_error",
    "truncated",
    "empty",
    "bad_payload",
    "broken_stream",
    "unreadable",
    "unknown_protocol",
    "not_a_stream",
    "late_text",
    "aborted",
    "model_failed",
    "timeout",
    "connection_failed",
    "connection_lost",
]
"""Why a stream failed: docs/errors.md explains each value."""


class StreamFailed(BaseEvent, frozen=True, tag="stream_failed"):
    """The provider reported an error, closed the connection too early, or sent unreadable data.

    It is not raised. Call ``events.raise_for_failure()`` after the loop to raise it.
    """

    type: ClassVar[Literal["stream_failed"]] = "stream_failed"
    code: FailureCode
    message: str
    retryable: bool = False
    provider_code: str | None = None
    """The provider's own code, if it sent one."""

    @property
    def specific_code(self) -> str:
        """The provider's own code; without one, ``code``."""
        return self.provider_code or self.code


ApprovalOutcome: TypeAlias = Literal["approved", "edited", "denied", "expired", "withdrawn"]
"""The outcome of an approval request. ``edited``: approved with other arguments than the model's.
``expired``: no decision came in time. ``withdrawn``: the request no longer applies. Only approved
and edited calls run."""

ApprovalScope: TypeAlias = Literal["call", "rule", "conversation"]
"""What an approval covers: this call; all later calls that the same rule asks about; or all later
calls of this tool in the conversation."""


class ApprovalRequested(CallEvent, frozen=True, tag="approval_requested"):
    """A person must decide whether this call may run."""

    type: ClassVar[Literal["approval_requested"]] = "approval_requested"
    arguments: dict[str, Any]
    digest: str
    """SHA-256 over run, call, tool and the exact argument text: a decision applies to this."""
    reason: str
    """Why the call needs approval."""
    rule: str | None = None
    """The name of the policy rule that asks; None if no rule does."""
    expires_at: float | None = None
    """When the request expires, as Unix time. After that the call is denied."""
    rule_digest: str = ""
    """SHA-256 of the rule's content; random if it has a Python function; empty if no rule asked."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person cannot see in the arguments: mixed scripts, stacks of combining marks."""
        return warnings_about(self.arguments)


class ApprovalDecided(CallEvent, frozen=True, tag="approval_decided"):
    """The approval request has a decision."""

    type: ClassVar[Literal["approval_decided"]] = "approval_decided"
    decision: ApprovalOutcome
    reason: str = ""
    edited_arguments: dict[str, Any] | None = None
    """The arguments that run instead of the model's."""
    always: ApprovalScope = "call"


class ToolExecutionStarted(CallEvent, frozen=True, tag="tool_execution_started"):
    """The tool is about to run. From here on it may have had effects."""

    type: ClassVar[Literal["tool_execution_started"]] = "tool_execution_started"
    idempotency_key: str
    """The same each time this call runs, so a tool can detect what it has already done."""
    attempt: int = 1
    """How often the tool was started: more than once only after a crash, if it is idempotent."""


class ToolOutputDelta(CallEvent, frozen=True, gc=False, tag="tool_output_delta"):
    """The next piece of the output of a running tool."""

    type: ClassVar[Literal["tool_output_delta"]] = "tool_output_delta"
    is_delta: ClassVar[bool] = True
    text: str


class ToolCallCompleted(CallEvent, frozen=True, tag="tool_call_completed"):
    """The call ran and returned ``result``."""

    type: ClassVar[Literal["tool_call_completed"]] = "tool_call_completed"
    arguments: dict[str, Any] | str
    result: Any


class ToolCallFailed(CallEvent, frozen=True, tag="tool_call_failed"):
    """The call failed, or did not run."""

    type: ClassVar[Literal["tool_call_failed"]] = "tool_call_failed"
    error: Any


RunMode: TypeAlias = Literal["agent", "observed"]
"""What runs the tools: an ``Agent``, or another program whose events are observed."""


class RunStarted(BaseEvent, frozen=True, tag="run_started"):
    """A run started."""

    type: ClassVar[Literal["run_started"]] = "run_started"
    run_status: ClassVar[RunStatus | None] = "running"
    run_id: str
    prompt: str
    history: tuple[Message, ...] = ()
    """The messages before this run."""
    user: str = ""
    """The user that the run belongs to; empty if there is none."""
    mode: RunMode = "agent"
    replaces: str = ""
    """The ID of the run of the conversation that this one takes the place of, if any."""


class RunPaused(BaseEvent, frozen=True, tag="run_paused"):
    """The run waits for decisions on these calls.

    A run of an ``Agent`` does nothing until it is resumed. An observed run keeps its process and
    its lease. Other parts of it may continue: sub-agents, or calls that need no decision.
    """

    type: ClassVar[Literal["run_paused"]] = "run_paused"
    run_status: ClassVar[RunStatus | None] = "paused"
    run_id: str
    pending: tuple[ApprovalRequested, ...]
    keeps_lease: bool = False
    """True in an observed run: its process waits for the decisions, and then continues the run."""


class RunResumed(BaseEvent, frozen=True, tag="run_resumed"):
    """The run continues after a pause or a crash."""

    type: ClassVar[Literal["run_resumed"]] = "run_resumed"
    run_status: ClassVar[RunStatus | None] = "running"
    run_id: str
    cause: Literal["pause", "crash"] = "pause"
    interrupted: tuple[str, ...] = ()
    """The calls that were running at the crash. Their effects are unknown."""
    note: str = ""
    """A message for the model, if its turn must be repeated and tools had already started."""


class RunCompleted(BaseEvent, frozen=True, tag="run_completed"):
    """The run ended normally. ``result`` is the answer."""

    type: ClassVar[Literal["run_completed"]] = "run_completed"
    run_status: ClassVar[RunStatus | None] = "completed"
    ends_run: ClassVar[bool] = True
    result: Any
    usage: Usage = Usage()
    stop_reason: str | None = None
    """Why the last turn ended, as reported by the provider."""
    run_id: str = ""
    """Empty in a stream that has no run of argstream."""


class RunFailed(BaseEvent, frozen=True, tag="run_failed"):
    """The run failed."""

    type: ClassVar[Literal["run_failed"]] = "run_failed"
    run_status: ClassVar[RunStatus | None] = "failed"
    ends_run: ClassVar[bool] = True
    code: str
    message: str
    run_id: str = ""
    usage: Usage = Usage()
    """The usage of all turns, including one that did not complete."""


class RunStopped(BaseEvent, frozen=True, tag="run_stopped"):
    """The run was stopped."""

    type: ClassVar[Literal["run_stopped"]] = "run_stopped"
    run_status: ClassVar[RunStatus | None] = "stopped"
    ends_run: ClassVar[bool] = True
    reason: str = ""
    run_id: str = ""
    usage: Usage = Usage()
    """The usage of all turns, including one that did not complete."""


RunEnd: TypeAlias = RunCompleted | RunFailed | RunStopped
"""The events that end a run."""


CallEnd: TypeAlias = ToolCallCompleted | ToolCallFailed
"""The events that end a call of a run."""


ArgumentEvent: TypeAlias = ArgumentStarted | ArgumentDelta | ArgumentCompleted


class TextSnapshot(Struct, frozen=True, kw_only=True, tag="text"):
    """A block of text, so far."""

    block: int
    text: str
    parent_id: str | None = None
    turn: int = 0
    """The number of its turn; 0 if the run has no ``TurnStarted`` events."""
    is_lost: bool = False
    """Whether its turn was cut off and repeated. The model does not see such a block."""
    started_at: float | None = None
    """Times of snapshots are Unix times."""
    last_text_at: float | None = None


class ThinkingSnapshot(Struct, frozen=True, kw_only=True, tag="thinking"):
    """A block of thinking, so far."""

    block: int
    text: str
    is_over: bool = False
    parent_id: str | None = None
    turn: int = 0
    is_lost: bool = False
    started_at: float | None = None
    last_text_at: float | None = None


class CallSnapshot(Struct, frozen=True, kw_only=True, tag="call"):
    """A call, so far."""

    call_id: str
    index: int
    name: str
    kind: CallKind = "function"
    parent_id: str | None = None
    raw: str = ""
    """The text of the arguments so far."""
    verdict: Verdict | None = None
    """None while it is written."""
    arguments: dict[str, Any] | str | None = None
    """The model's arguments once they are complete; after execution, those that ran."""
    error: ArgumentsError | None = None
    """Why the call is invalid."""
    request: ApprovalRequested | None = None
    decision: ApprovalDecided | None = None
    attempts: int = 0
    """How often the tool was started."""
    output: str = ""
    """The output of the running tool."""
    outcome: Literal["completed", "failed"] | None = None
    result: Any = None
    """The result, or the error if it failed."""
    turn: int = 0
    is_lost: bool = False
    interruptions: int = 0
    """Attempts that a crash ended."""
    started_at: float | None = None
    last_text_at: float | None = None
    """When its arguments grew last, or when it had its verdict."""
    completed_at: float | None = None
    """When it had its verdict."""
    requested_at: float | None = None
    decided_at: float | None = None
    executed_at: list[float] = []
    """One time per attempt."""
    ended_at: float | None = None


class Break(Struct):
    """A time in which a run was paused, or no process drove it."""

    cause: Literal["pause", "crash"]
    started_at: float
    ended_at: float | None
    call_ids: tuple[str, ...]
    """The pending calls, or those that were interrupted."""


BlockSnapshot: TypeAlias = TextSnapshot | ThinkingSnapshot | CallSnapshot


class RunSnapshot(Struct, frozen=True):
    """The state of a run up to a record. The records after ``seq`` continue from it.

    It is computed from a log and never stored in one.
    """

    run_id: str
    status: RunStatus
    prompt: str
    history: tuple[Message, ...]
    """The messages before the run."""
    blocks: tuple[BlockSnapshot, ...]
    """Text, thinking and calls, in the order in which they started."""
    turns: int
    """The number of turns that started."""
    usage: Usage
    """The usage of completed turns; of all turns if the run failed or was stopped."""
    stop_reason: str | None = None
    """Why the last turn ended."""
    end: RunEnd | None = None
    """The event that ended the run, if it is over."""
    mode: RunMode = "agent"
    replaces: str = ""
    seq: int = 0
    """The last record that is included."""
    time: float = 0.0
    """When that was written: Unix time."""
    started_at: float | None = None
    """When the run started: Unix time."""
    ended_at: float | None = None
    breaks: list[Break] = []
    conversation_id: str = ""
    agent: str = ""
    user: str = ""

    @property
    def pending(self) -> tuple[ApprovalRequested, ...]:
        """The requests that wait for a decision."""
        calls = (block for block in self.blocks if isinstance(block, CallSnapshot))
        open_calls = (one for one in calls if one.decision is None and one.outcome is None)
        return tuple(one.request for one in open_calls if one.request and not one.is_lost)


Event: TypeAlias = (
    TextDelta
    | ThinkingStarted
    | ThinkingDelta
    | ThinkingCompleted
    | ToolCallStarted
    | ToolArgsDelta
    | ArgumentStarted
    | ArgumentDelta
    | ArgumentCompleted
    | ToolArgsCompleted
    | ToolArgsInvalid
    | ApprovalRequested
    | ApprovalDecided
    | ToolExecutionStarted
    | ToolOutputDelta
    | ToolCallCompleted
    | ToolCallFailed
    | TurnStarted
    | TurnCompleted
    | RunStarted
    | RunPaused
    | RunResumed
    | RunCompleted
    | RunFailed
    | RunStopped
    | StreamFailed
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def to_json(event: Event) -> bytes:
    """Return an event as one line of JSON."""
    return _encoder.encode(event)


def from_json(line: bytes | str) -> Event:
    """Return the event that ``to_json`` encoded."""
    return _decoder.decode(line)
