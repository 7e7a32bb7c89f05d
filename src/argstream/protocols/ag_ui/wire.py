"""The events of AG-UI as they are written; what is not known is left out, since null is refused."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from argstream.events import ApprovalRequested, Usage
from argstream.protocols.sse import frame

__all__ = [
    "AgUiEvent",
    "Version",
    "custom",
    "frames",
    "interrupt",
    "note",
    "run_error",
    "run_finished",
    "run_started",
    "usage_of",
]

AgUiEvent: TypeAlias = dict[str, Any]

Version: TypeAlias = Literal["0.0.59", "1.0"]
"""What the client speaks. The older one refuses what it does not know."""

_OURS: Final = "argstream"
"""The key of what is ours in metadata, and the start of the names of our own events."""
_FIELDS: Final = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "reasoningTokens": "reasoning_tokens",
    "cachedInputTokens": "cache_read_tokens",
    "totalTokens": "total_tokens",
}


def frames(events: Iterable[AgUiEvent]) -> bytes:
    """Write events for the wire."""
    return b"".join(map(frame, events))


def custom(name: str, value: dict[str, Any]) -> AgUiEvent:
    """Say what the protocol has no event for; clients that do not know it let it be."""
    return {"type": "CUSTOM", "name": f"{_OURS}.{name}", "value": value}


def note(**facts: Any) -> dict[str, Any]:
    """Say something of an event or a message, beside what the protocol has for it."""
    return {"metadata": {_OURS: facts}}


def run_started(thread_id: str, run_id: str, version: Version, ours: str) -> AgUiEvent:
    """Begin a stream. Ours is the id of the run in the log: by that it can be stopped."""
    event = {"type": "RUN_STARTED", "threadId": thread_id, "runId": run_id, **note(runId=ours)}
    return event if version == "0.0.59" else {**event, "protocolVersion": version}


def run_finished(thread_id: str, run_id: str, outcome: dict[str, Any], **more: Any) -> AgUiEvent:
    """End a stream of a run that has not failed."""
    event = {"type": "RUN_FINISHED", "threadId": thread_id, "runId": run_id, "outcome": outcome}
    return {**event, **more}


def run_error(code: str, message: str) -> AgUiEvent:
    """End a stream otherwise; it may come at any time, even first."""
    return {"type": "RUN_ERROR", "message": message, "code": code}


def usage_of(usage: Usage, version: Version) -> dict[str, int]:
    """Return the usage of a run as the protocol has it. Unknown counts are left out."""
    counts = {field: getattr(usage, ours) for field, ours in _FIELDS.items()}
    if version != "0.0.59":
        counts["cacheWriteInputTokens"] = usage.cache_write_tokens
    return {field: number for field, number in counts.items() if number is not None}


def interrupt(
    request: ApprovalRequested, call_id: str, tag: Mapping[str, str], version: Version
) -> dict[str, Any]:
    """Say what a person must decide on; the id stands for exactly these arguments.

    How to answer is in the schema: what is edited begins as what the model wrote.
    """
    expires_at = request.expires_at and datetime.fromtimestamp(request.expires_at, UTC).isoformat()
    answer = {
        "type": "object",
        "properties": {
            "approved": {"type": "boolean"},
            "editedArgs": {"type": "object", "default": request.arguments},
            "reason": {"type": "string"},
        },
        "required": ["approved"],
        "additionalProperties": False,
    }
    told: dict[str, Any] = {
        "id": request.digest,
        "reason": "tool_call",
        "message": f"May {request.name} be run? {request.reason}".rstrip(),
        "toolCallId": call_id,
        "responseSchema": answer,
        **tag,
        **note(
            toolName=request.name,
            arguments=request.arguments,
            rule=request.rule,
            expiresAt=expires_at,
        ),
    }
    if expires_at and version != "0.0.59":  # which could not even cancel what has expired
        told["expiresAt"] = expires_at
    return told
