"""What users see: the one union of events.

Every event is frozen and says in ``type`` what it is, also as JSON. For one call they come in this
order: ``ToolCallStarted``; ``ToolArgsDelta`` and the ``Argument…`` events in the order of the
document; exactly one of ``ToolArgsCompleted`` and ``ToolArgsInvalid``; and, if the provider ran the
call itself, exactly one of ``ToolCallCompleted`` and ``ToolCallFailed``. Calls may interleave.

In a run of an agent there follow: ``ApprovalRequested`` and ``ApprovalDecided``, if a person is
asked; ``ToolExecutionStarted`` and ``ToolOutputDelta``, if it is run; and always exactly one of
``ToolCallCompleted`` and ``ToolCallFailed``, also for a call that was invalid or denied. Only the
execution of a tool with ``Streamed`` text begins before its arguments are whole. A run
begins with ``RunStarted`` and ends with one of ``RunCompleted``, ``RunFailed`` and ``RunStopped``;
``RunPaused`` says that nothing more can happen before a person has decided.
"""

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Struct

from argstream.deltas import CallKind
from argstream.history import Message, Verdict
from argstream.jsonstream import JsonPath, Kind

__all__ = [
    "ApprovalDecided",
    "ApprovalOutcome",
    "ApprovalRequested",
    "ArgumentCompleted",
    "ArgumentDelta",
    "ArgumentStarted",
    "ArgumentsError",
    "CallKind",
    "Event",
    "InvalidVerdict",
    "Remembered",
    "RunCompleted",
    "RunFailed",
    "RunPaused",
    "RunResumed",
    "RunStarted",
    "RunStopped",
    "StreamFailed",
    "TextDelta",
    "ThinkingCompleted",
    "ThinkingDelta",
    "ThinkingStarted",
    "ToolArgsCompleted",
    "ToolArgsDelta",
    "ToolArgsInvalid",
    "ToolCallCompleted",
    "ToolCallFailed",
    "ToolCallStarted",
    "ToolExecutionStarted",
    "ToolOutputDelta",
    "TurnCompleted",
    "Usage",
    "Verdict",
    "from_json",
    "to_json",
]

InvalidVerdict: TypeAlias = Literal["truncated", "malformed", "rejected", "aborted"]


class _Event(Struct, frozen=True, tag_field="type"):
    """What all events share: a tag."""


class TextDelta(_Event, frozen=True, gc=False, tag="text_delta"):
    """A piece of what the model says. Pieces of one block belong together."""

    type: ClassVar[Literal["text_delta"]] = "text_delta"
    text: str
    block: int
    parent_id: str | None = None


class ThinkingStarted(_Event, frozen=True, tag="thinking_started"):
    """The model thinks; whether it lets us see what is another matter."""

    type: ClassVar[Literal["thinking_started"]] = "thinking_started"
    block: int
    parent_id: str | None = None


class ThinkingDelta(_Event, frozen=True, gc=False, tag="thinking_delta"):
    """A piece of what it thinks."""

    type: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    text: str
    block: int
    parent_id: str | None = None


class ThinkingCompleted(_Event, frozen=True, tag="thinking_completed"):
    """It has thought; here is all of it, which may be nothing."""

    type: ClassVar[Literal["thinking_completed"]] = "thinking_completed"
    text: str
    block: int
    parent_id: str | None = None


class ToolCallStarted(_Event, frozen=True, tag="tool_call_started"):
    """The model calls a tool. Nothing is known of the arguments."""

    type: ClassVar[Literal["tool_call_started"]] = "tool_call_started"
    call_id: str
    index: int
    """How many calls came before it in this stream."""
    name: str
    kind: CallKind = "function"
    parent_id: str | None = None


class ToolArgsDelta(_Event, frozen=True, gc=False, tag="tool_args_delta"):
    """The next piece of the arguments' text, raw. Joined, these are all of it."""

    type: ClassVar[Literal["tool_args_delta"]] = "tool_args_delta"
    call_id: str
    name: str
    delta: str


class ArgumentStarted(_Event, frozen=True, gc=False, tag="argument_started"):
    """A value inside the arguments has begun."""

    type: ClassVar[Literal["argument_started"]] = "argument_started"
    call_id: str
    name: str
    path: JsonPath
    kind: Kind


class ArgumentDelta(_Event, frozen=True, gc=False, tag="argument_delta"):
    """A string inside the arguments has grown by this much, decoded."""

    type: ClassVar[Literal["argument_delta"]] = "argument_delta"
    call_id: str
    name: str
    path: JsonPath
    text: str


class ArgumentCompleted(_Event, frozen=True, tag="argument_completed"):
    """A value inside the arguments is settled, whatever comes after it."""

    type: ClassVar[Literal["argument_completed"]] = "argument_completed"
    call_id: str
    name: str
    path: JsonPath
    value: Any


class ToolArgsCompleted(_Event, frozen=True, tag="tool_args_completed"):
    """The provider closed the call and its arguments are whole."""

    type: ClassVar[Literal["tool_args_completed"]] = "tool_args_completed"
    call_id: str
    name: str
    arguments: dict[str, Any] | str
    """A dict; for calls of the kinds ``custom`` and ``code``, a str."""


class ArgumentsError(Struct, frozen=True):
    """Why arguments are not valid, in a form to act on."""

    reason: str
    message: str
    offset: int | None = None
    """Which character of the arguments' text it is about."""
    path: JsonPath = ()
    keyword: str | None = None
    """Which rule of a schema was broken, where it was one."""


class ToolArgsInvalid(_Event, frozen=True, tag="tool_args_invalid"):
    """The arguments can no longer become valid, or will not come any more. Do not run this."""

    type: ClassVar[Literal["tool_args_invalid"]] = "tool_args_invalid"
    call_id: str
    name: str
    verdict: InvalidVerdict
    raw: str
    """The text that has come so far."""
    error: ArgumentsError


ApprovalOutcome: TypeAlias = Literal["approved", "edited", "denied", "expired", "withdrawn"]
"""What became of a request: ``edited`` is approved with other arguments than the model's; nobody
decided on one that is ``expired`` in time, and there is nothing left to decide if it is
``withdrawn``. Only what is approved or edited runs."""

Remembered: TypeAlias = Literal["session", "rule"]
"""For what an approval holds besides: all calls of this tool, or all that this rule asks about."""


class ApprovalRequested(_Event, frozen=True, tag="approval_requested"):
    """A person must decide whether this call may run."""

    type: ClassVar[Literal["approval_requested"]] = "approval_requested"
    call_id: str
    name: str
    arguments: dict[str, Any]
    digest: str
    """Of run, call, tool and the exact text of the arguments: what is decided on."""
    reason: str
    """Why somebody is asked."""
    rule: str | None = None
    """The name of the policy's rule that asks; None if it was no rule."""
    expires_at: float | None = None
    """Until when it can be decided, in seconds since 1970; after that it is denied."""


class ApprovalDecided(_Event, frozen=True, tag="approval_decided"):
    """It was decided whether the call may run."""

    type: ClassVar[Literal["approval_decided"]] = "approval_decided"
    call_id: str
    name: str
    decision: ApprovalOutcome
    reason: str = ""
    edited_arguments: dict[str, Any] | None = None
    """What runs instead of the model's arguments."""
    always: Remembered | None = None


class ToolExecutionStarted(_Event, frozen=True, tag="tool_execution_started"):
    """The tool is about to be run: from here on it may have had effects."""

    type: ClassVar[Literal["tool_execution_started"]] = "tool_execution_started"
    call_id: str
    name: str
    idempotency_key: str
    """The same whenever this call is run: a tool can see by it what it has done already."""


class ToolOutputDelta(_Event, frozen=True, gc=False, tag="tool_output_delta"):
    """The next piece of what a running tool says."""

    type: ClassVar[Literal["tool_output_delta"]] = "tool_output_delta"
    call_id: str
    name: str
    text: str


class ToolCallCompleted(_Event, frozen=True, tag="tool_call_completed"):
    """The call was run: here is what came of it."""

    type: ClassVar[Literal["tool_call_completed"]] = "tool_call_completed"
    call_id: str
    name: str
    arguments: dict[str, Any] | str
    result: Any


class ToolCallFailed(_Event, frozen=True, tag="tool_call_failed"):
    """The call was run, or was to be run, and failed."""

    type: ClassVar[Literal["tool_call_failed"]] = "tool_call_failed"
    call_id: str
    name: str
    error: Any


class Usage(Struct, frozen=True):
    """What a turn cost, in tokens, as far as the provider told."""

    input_tokens: int = 0
    """Everything that the model read, from a cache or not."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


class TurnCompleted(_Event, frozen=True, tag="turn_completed"):
    """The turn is over. Every call in it has its verdict."""

    type: ClassVar[Literal["turn_completed"]] = "turn_completed"
    stop_reason: str | None
    message: Message
    usage: Usage = Usage()
    parent_id: str | None = None
    """The call whose sub-agent took the turn."""
    characters_read: int | None = None
    """How much of it was read, if reading was stopped (``rejected``): then no usage is known."""


class RunStarted(_Event, frozen=True, tag="run_started"):
    """An agent begins to work on a prompt."""

    type: ClassVar[Literal["run_started"]] = "run_started"
    run_id: str
    prompt: str
    history: tuple[Message, ...] = ()
    """What was said before."""


class RunPaused(_Event, frozen=True, tag="run_paused"):
    """Nothing more can happen until a person has decided on these calls."""

    type: ClassVar[Literal["run_paused"]] = "run_paused"
    run_id: str
    pending: tuple[ApprovalRequested, ...]


class RunResumed(_Event, frozen=True, tag="run_resumed"):
    """A run that had paused goes on."""

    type: ClassVar[Literal["run_resumed"]] = "run_resumed"
    run_id: str


class RunCompleted(_Event, frozen=True, tag="run_completed"):
    """An agent has made its last turn: here is what it answers."""

    type: ClassVar[Literal["run_completed"]] = "run_completed"
    result: Any
    usage: Usage = Usage()
    stop_reason: str | None = None
    """Why the last turn ended: in the provider's words, such as ``end_turn`` or ``refusal``."""
    run_id: str = ""
    """Of a run of ours; others have none."""


class RunFailed(_Event, frozen=True, tag="run_failed"):
    """An agent has given up."""

    type: ClassVar[Literal["run_failed"]] = "run_failed"
    code: str
    message: str
    run_id: str = ""


class RunStopped(_Event, frozen=True, tag="run_stopped"):
    """Somebody stopped the run."""

    type: ClassVar[Literal["run_stopped"]] = "run_stopped"
    reason: str = ""
    run_id: str = ""


class StreamFailed(_Event, frozen=True, tag="stream_failed"):
    """The provider reported an error, hung up, or sent what nobody can read."""

    type: ClassVar[Literal["stream_failed"]] = "stream_failed"
    code: str
    message: str
    retryable: bool = False


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
    """Write an event as one line of JSON."""
    return _encoder.encode(event)


def from_json(line: bytes | str) -> Event:
    """Read an event that ``to_json`` wrote."""
    return _decoder.decode(line)
