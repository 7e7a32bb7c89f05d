"""What users see: the one union of events.

Every event is frozen and says in ``type`` what it is, also as JSON. For one call they come in this
order: ``ToolCallStarted``; ``ToolArgsDelta`` and the ``Argument…`` events in the order of the
document; exactly one of ``ToolArgsCompleted`` and ``ToolArgsInvalid``; and, if the provider ran the
call itself, exactly one of ``ToolCallCompleted`` and ``ToolCallFailed``. Calls may interleave.
"""

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Struct

from argstream.deltas import CallKind
from argstream.history import Message, Verdict
from argstream.jsonstream import JsonPath, Kind

__all__ = [
    "ArgumentCompleted",
    "ArgumentDelta",
    "ArgumentStarted",
    "ArgumentsError",
    "CallKind",
    "Event",
    "InvalidVerdict",
    "RunCompleted",
    "RunFailed",
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


class RunCompleted(_Event, frozen=True, tag="run_completed"):
    """An agent has made its last turn: here is what it answers."""

    type: ClassVar[Literal["run_completed"]] = "run_completed"
    result: Any
    usage: Usage = Usage()


class RunFailed(_Event, frozen=True, tag="run_failed"):
    """An agent has given up, or was stopped."""

    type: ClassVar[Literal["run_failed"]] = "run_failed"
    code: str
    message: str


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
    | ToolCallCompleted
    | ToolCallFailed
    | TurnCompleted
    | RunCompleted
    | RunFailed
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
