"""argstream reads a model's tool call while it is still being written.

The names of everyday use can be imported from here. Each is loaded when it is first used, so that
``import argstream`` is fast and needs no extra. The other names are in the packages:
``argstream.jsonstream``, ``argstream.events``, ``argstream.errors``, ``argstream.agent`` and so on.
"""

from typing import TYPE_CHECKING

from argstream._lazy import lazy_exports

if TYPE_CHECKING:
    from argstream.agent import (
        Agent,
        Approve,
        Conversation,
        Deny,
        RunResult,
        Streamed,
        ToolContext,
        observe,
        tool,
    )
    from argstream.errors import ArgstreamError, RunError, StreamError, ToolError, UsageError
    from argstream.events import (
        ApprovalDecided,
        ApprovalRequested,
        ArgumentCompleted,
        ArgumentDelta,
        ArgumentStarted,
        Event,
        RunCompleted,
        RunFailed,
        RunPaused,
        RunResumed,
        RunStarted,
        RunStopped,
        StreamFailed,
        TextDelta,
        ThinkingCompleted,
        ThinkingDelta,
        ThinkingStarted,
        ToolArgsCompleted,
        ToolArgsDelta,
        ToolArgsInvalid,
        ToolCallCompleted,
        ToolCallFailed,
        ToolCallStarted,
        ToolExecutionStarted,
        ToolOutputDelta,
        TurnCompleted,
        TurnStarted,
    )
    from argstream.jsonstream import (
        ToolArgStream,
        ToolFieldDelta,
        ToolFieldEnd,
        ToolFieldEvent,
        ToolFieldStart,
    )
    from argstream.models import ModelRequest, ScriptedModel, make_model
    from argstream.policy import Policy
    from argstream.recording import read_recording, record
    from argstream.runs import MemoryStore, RunState, open_store
    from argstream.streaming import AsyncEventStream, EventStream, make_check, stream
    from argstream.validation import typed

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "ApprovalDecided",
    "ApprovalRequested",
    "Approve",
    "ArgstreamError",
    "ArgumentCompleted",
    "ArgumentDelta",
    "ArgumentStarted",
    "AsyncEventStream",
    "Conversation",
    "Deny",
    "Event",
    "EventStream",
    "MemoryStore",
    "ModelRequest",
    "Policy",
    "RunCompleted",
    "RunError",
    "RunFailed",
    "RunPaused",
    "RunResult",
    "RunResumed",
    "RunStarted",
    "RunState",
    "RunStopped",
    "ScriptedModel",
    "StreamError",
    "StreamFailed",
    "Streamed",
    "TextDelta",
    "ThinkingCompleted",
    "ThinkingDelta",
    "ThinkingStarted",
    "ToolArgStream",
    "ToolArgsCompleted",
    "ToolArgsDelta",
    "ToolArgsInvalid",
    "ToolCallCompleted",
    "ToolCallFailed",
    "ToolCallStarted",
    "ToolContext",
    "ToolError",
    "ToolExecutionStarted",
    "ToolFieldDelta",
    "ToolFieldEnd",
    "ToolFieldEvent",
    "ToolFieldStart",
    "ToolOutputDelta",
    "TurnCompleted",
    "TurnStarted",
    "UsageError",
    "make_check",
    "make_model",
    "observe",
    "open_store",
    "read_recording",
    "record",
    "stream",
    "tool",
    "typed",
]

_HOMES = {
    "agent": "Agent Approve Conversation Deny RunResult Streamed ToolContext observe tool",
    "errors": "ArgstreamError RunError StreamError ToolError UsageError",
    "events": "ApprovalDecided ApprovalRequested ArgumentCompleted ArgumentDelta ArgumentStarted "
    "Event RunCompleted RunFailed RunPaused RunResumed RunStarted RunStopped "
    "StreamFailed TextDelta ThinkingCompleted ThinkingDelta ThinkingStarted "
    "ToolArgsCompleted ToolArgsDelta ToolArgsInvalid ToolCallCompleted ToolCallFailed "
    "ToolCallStarted ToolExecutionStarted ToolOutputDelta TurnCompleted TurnStarted",
    "jsonstream": "ToolArgStream ToolFieldDelta ToolFieldEnd ToolFieldEvent ToolFieldStart",
    "models": "ModelRequest ScriptedModel make_model",
    "policy": "Policy",
    "recording": "read_recording record",
    "runs": "MemoryStore RunState open_store",
    "streaming": "AsyncEventStream EventStream make_check stream",
    "validation": "typed",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOMES)
