"""argstream reads a model's tool call while it is still being written.

The most common names can be imported from here. Each is loaded when it is first used, so that
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
        Run,
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
    from argstream.recording import record
    from argstream.runs import MemoryStore, RunState, open_store
    from argstream.streaming import AsyncEventStream, EventStream, stream
    from argstream.terminal import show
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
    "Run",
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
    "make_model",
    "observe",
    "open_store",
    "record",
    "show",
    "stream",
    "tool",
    "typed",
]

_HOMES = {
    "agent": "Agent Approve Conversation Deny Run RunResult Streamed ToolContext observe tool",
    "errors": "ArgstreamError RunError StreamError ToolError UsageError",
    "events": "ApprovalDecided ApprovalRequested ArgumentCompleted ArgumentDelta ArgumentStarted "
    "Event RunCompleted RunFailed RunPaused RunResumed RunStarted RunStopped "
    "StreamFailed TextDelta ThinkingCompleted ThinkingDelta ThinkingStarted "
    "ToolArgsCompleted ToolArgsDelta ToolArgsInvalid ToolCallCompleted ToolCallFailed "
    "ToolCallStarted ToolExecutionStarted ToolOutputDelta TurnCompleted TurnStarted",
    "jsonstream": "ToolArgStream ToolFieldDelta ToolFieldEnd ToolFieldEvent ToolFieldStart",
    "models": "ModelRequest ScriptedModel make_model",
    "policy": "Policy",
    "recording": "record",
    "runs": "MemoryStore RunState open_store",
    "streaming": "AsyncEventStream EventStream stream",
    "terminal": "show",
    "validation": "typed",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOMES)
