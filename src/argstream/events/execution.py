"""What becomes of a call: whether a person approves it, its run, its result."""

from typing import Any, ClassVar, Literal, TypeAlias

from argstream.events._base import BaseEvent

__all__ = [
    "ApprovalDecided",
    "ApprovalOutcome",
    "ApprovalRequested",
    "Remembered",
    "ToolCallCompleted",
    "ToolCallFailed",
    "ToolExecutionStarted",
    "ToolOutputDelta",
]

ApprovalOutcome: TypeAlias = Literal["approved", "edited", "denied", "expired", "withdrawn"]
"""What became of a request: ``edited`` is approved with other arguments than the model's; nobody
decided on one that is ``expired`` in time, and there is nothing left to decide if it is
``withdrawn``. Only what is approved or edited runs."""

Remembered: TypeAlias = Literal["session", "rule"]
"""For what an approval holds besides: all calls of this tool, or all that this rule asks about."""


class ApprovalRequested(BaseEvent, frozen=True, tag="approval_requested"):
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
    rule_digest: str = ""
    """SHA-256 of the rule's content; random if it has a Python function; empty if no rule asked."""


class ApprovalDecided(BaseEvent, frozen=True, tag="approval_decided"):
    """It was decided whether the call may run."""

    type: ClassVar[Literal["approval_decided"]] = "approval_decided"
    call_id: str
    name: str
    decision: ApprovalOutcome
    reason: str = ""
    edited_arguments: dict[str, Any] | None = None
    """What runs instead of the model's arguments."""
    always: Remembered | None = None


class ToolExecutionStarted(BaseEvent, frozen=True, tag="tool_execution_started"):
    """The tool is about to be run: from here on it may have had effects."""

    type: ClassVar[Literal["tool_execution_started"]] = "tool_execution_started"
    call_id: str
    name: str
    idempotency_key: str
    """The same whenever this call is run: a tool can see by it what it has done already."""
    attempt: int = 1
    """How often it was started; more than once only if it is idempotent, after a crash."""


class ToolOutputDelta(BaseEvent, frozen=True, gc=False, tag="tool_output_delta"):
    """The next piece of what a running tool says."""

    type: ClassVar[Literal["tool_output_delta"]] = "tool_output_delta"
    call_id: str
    name: str
    text: str


class ToolCallCompleted(BaseEvent, frozen=True, tag="tool_call_completed"):
    """The call was run: here is what came of it."""

    type: ClassVar[Literal["tool_call_completed"]] = "tool_call_completed"
    call_id: str
    name: str
    arguments: dict[str, Any] | str
    result: Any


class ToolCallFailed(BaseEvent, frozen=True, tag="tool_call_failed"):
    """The call was run, or was to be run, and failed."""

    type: ClassVar[Literal["tool_call_failed"]] = "tool_call_failed"
    call_id: str
    name: str
    error: Any
