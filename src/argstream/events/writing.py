"""What a model writes: text, thoughts, and calls of tools with their arguments."""

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct

from argstream.deltas import CallKind
from argstream.events._base import BaseEvent
from argstream.jsonstream import JsonPath, Kind

__all__ = [
    "Action",
    "ArgumentCompleted",
    "ArgumentDelta",
    "ArgumentStarted",
    "ArgumentsError",
    "InvalidVerdict",
    "PolicyDecision",
    "TextDelta",
    "ThinkingCompleted",
    "ThinkingDelta",
    "ThinkingStarted",
    "ToolArgsCompleted",
    "ToolArgsDelta",
    "ToolArgsInvalid",
    "ToolCallStarted",
]

InvalidVerdict: TypeAlias = Literal["truncated", "malformed", "rejected", "aborted"]
Action: TypeAlias = Literal["allow", "ask", "deny"]


class TextDelta(BaseEvent, frozen=True, gc=False, tag="text_delta"):
    """A piece of what the model says. Pieces of one block belong together."""

    type: ClassVar[Literal["text_delta"]] = "text_delta"
    text: str
    block: int
    parent_id: str | None = None


class ThinkingStarted(BaseEvent, frozen=True, tag="thinking_started"):
    """The model thinks; whether it lets us see what is another matter."""

    type: ClassVar[Literal["thinking_started"]] = "thinking_started"
    block: int
    parent_id: str | None = None


class ThinkingDelta(BaseEvent, frozen=True, gc=False, tag="thinking_delta"):
    """A piece of what it thinks."""

    type: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    text: str
    block: int
    parent_id: str | None = None


class ThinkingCompleted(BaseEvent, frozen=True, tag="thinking_completed"):
    """It has thought; here is all of it, which may be nothing."""

    type: ClassVar[Literal["thinking_completed"]] = "thinking_completed"
    text: str
    block: int
    parent_id: str | None = None


class ToolCallStarted(BaseEvent, frozen=True, tag="tool_call_started"):
    """The model calls a tool. Nothing is known of the arguments."""

    type: ClassVar[Literal["tool_call_started"]] = "tool_call_started"
    call_id: str
    index: int
    """How many calls came before it in this stream."""
    name: str
    kind: CallKind = "function"
    parent_id: str | None = None


class ToolArgsDelta(BaseEvent, frozen=True, gc=False, tag="tool_args_delta"):
    """The next piece of the arguments' text, raw. Joined, these are all of it."""

    type: ClassVar[Literal["tool_args_delta"]] = "tool_args_delta"
    call_id: str
    name: str
    delta: str


class ArgumentStarted(BaseEvent, frozen=True, gc=False, tag="argument_started"):
    """A value inside the arguments has begun."""

    type: ClassVar[Literal["argument_started"]] = "argument_started"
    call_id: str
    name: str
    path: JsonPath
    kind: Kind


class ArgumentDelta(BaseEvent, frozen=True, gc=False, tag="argument_delta"):
    """A string inside the arguments has grown by this much, decoded."""

    type: ClassVar[Literal["argument_delta"]] = "argument_delta"
    call_id: str
    name: str
    path: JsonPath
    text: str


class ArgumentCompleted(BaseEvent, frozen=True, tag="argument_completed"):
    """A value inside the arguments is settled, whatever comes after it."""

    type: ClassVar[Literal["argument_completed"]] = "argument_completed"
    call_id: str
    name: str
    path: JsonPath
    value: Any


class PolicyDecision(Struct, frozen=True):
    """The answer of a policy about a call."""

    action: Action
    reason: str = ""
    """Explains the answer, for a person or a model."""
    rule: str | None = None
    """The name of the rule that decided. None if no rule matched and the default applies."""
    path: JsonPath = ()
    """The argument that decided; empty if the answer does not depend on an argument."""


class ToolArgsCompleted(BaseEvent, frozen=True, tag="tool_args_completed", omit_defaults=True):
    """The provider closed the call and its arguments are whole.

    If ``policy_decision.action`` is ``ask``, the call needs approval before it runs.
    """

    type: ClassVar[Literal["tool_args_completed"]] = "tool_args_completed"
    call_id: str
    name: str
    arguments: dict[str, Any] | str
    """A dict; for calls of the kinds ``custom`` and ``code``, a str."""
    policy_decision: PolicyDecision | None = None
    """The answer of the policy that was passed to ``stream()``: ``allow``, or ``ask`` with
    ``on_ask="report"``. None without a policy, for a call that the provider runs itself, and in a
    run of an agent, which reports its approvals in ``ApprovalRequested``. JSON omits None."""


class ArgumentsError(Struct, frozen=True):
    """Why arguments are not valid, in a form to act on."""

    reason: str
    message: str
    offset: int | None = None
    """Which character of the arguments' text it is about."""
    path: JsonPath = ()
    keyword: str | None = None
    """Which rule of a schema was broken, where it was one."""


class ToolArgsInvalid(BaseEvent, frozen=True, tag="tool_args_invalid"):
    """The arguments can no longer become valid, or will not come any more. Do not run this."""

    type: ClassVar[Literal["tool_args_invalid"]] = "tool_args_invalid"
    call_id: str
    name: str
    verdict: InvalidVerdict
    raw: str
    """The text that has come so far."""
    error: ArgumentsError
