"""argstream reads a model's tool call while it is still being written.

Everything public can be imported from here and is loaded when it is first used, so that ``import
argstream`` is quick and needs no extra. The engine has a package of its own:
``argstream.jsonstream``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argstream.agent import (
        Agent,
        AgentRun,
        Approve,
        Conversation,
        Deny,
        RunResult,
        Streamed,
        Tool,
        ToolContext,
        ToolUse,
        tool,
    )
    from argstream.assembly import Assembler, Call, Numbering
    from argstream.clients import ModelRequest, ModelSettings, ScriptedModel, make_model
    from argstream.errors import (
        ArgstreamError,
        ArgumentUnavailable,
        MissingExtra,
        ProviderFailure,
        RunFailure,
        SchemaError,
        StreamFailure,
        TextInterrupted,
        ToolFailure,
        UsageError,
    )
    from argstream.events import (
        ApprovalDecided,
        ApprovalRequested,
        ArgumentCompleted,
        ArgumentDelta,
        ArgumentsError,
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
        Usage,
    )
    from argstream.jsonstream import (
        ToolArgStream,
        ToolFieldDelta,
        ToolFieldEnd,
        ToolFieldEvent,
        ToolFieldStart,
    )
    from argstream.judging import Decision
    from argstream.policy import Policy, Rule
    from argstream.readers import AsyncCallReader, CallReader
    from argstream.recording import Recorder, Recording, read_recording, record, record_async
    from argstream.streaming import AsyncEventStream, EventStream, make_judge, stream
    from argstream.validation import Schema, SchemaLimits, ToolSpec, TypedArguments, typed

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentRun",
    "ApprovalDecided",
    "ApprovalRequested",
    "Approve",
    "ArgstreamError",
    "ArgumentCompleted",
    "ArgumentDelta",
    "ArgumentStarted",
    "ArgumentUnavailable",
    "ArgumentsError",
    "Assembler",
    "AsyncCallReader",
    "AsyncEventStream",
    "Call",
    "CallReader",
    "Conversation",
    "Decision",
    "Deny",
    "Event",
    "EventStream",
    "MissingExtra",
    "ModelRequest",
    "ModelSettings",
    "Numbering",
    "Policy",
    "ProviderFailure",
    "Recorder",
    "Recording",
    "Rule",
    "RunCompleted",
    "RunFailed",
    "RunFailure",
    "RunPaused",
    "RunResult",
    "RunResumed",
    "RunStarted",
    "RunStopped",
    "Schema",
    "SchemaError",
    "SchemaLimits",
    "ScriptedModel",
    "StreamFailed",
    "StreamFailure",
    "Streamed",
    "TextDelta",
    "TextInterrupted",
    "ThinkingCompleted",
    "ThinkingDelta",
    "ThinkingStarted",
    "Tool",
    "ToolArgStream",
    "ToolArgsCompleted",
    "ToolArgsDelta",
    "ToolArgsInvalid",
    "ToolCallCompleted",
    "ToolCallFailed",
    "ToolCallStarted",
    "ToolContext",
    "ToolExecutionStarted",
    "ToolFailure",
    "ToolFieldDelta",
    "ToolFieldEnd",
    "ToolFieldEvent",
    "ToolFieldStart",
    "ToolOutputDelta",
    "ToolSpec",
    "ToolUse",
    "TurnCompleted",
    "TypedArguments",
    "Usage",
    "UsageError",
    "make_judge",
    "make_model",
    "read_recording",
    "record",
    "record_async",
    "stream",
    "tool",
    "typed",
]

_HOMES = {
    "argstream.agent": (
        "Agent",
        "AgentRun",
        "Approve",
        "Conversation",
        "Deny",
        "RunResult",
        "Streamed",
        "Tool",
        "ToolContext",
        "ToolUse",
        "tool",
    ),
    "argstream.assembly": ("Assembler", "Call", "Numbering"),
    "argstream.clients": ("ModelRequest", "ModelSettings", "ScriptedModel", "make_model"),
    "argstream.errors": (
        "ArgstreamError",
        "ArgumentUnavailable",
        "MissingExtra",
        "ProviderFailure",
        "RunFailure",
        "SchemaError",
        "StreamFailure",
        "TextInterrupted",
        "ToolFailure",
        "UsageError",
    ),
    "argstream.events": (
        "ApprovalDecided",
        "ApprovalRequested",
        "ArgumentCompleted",
        "ArgumentDelta",
        "ArgumentStarted",
        "ArgumentsError",
        "Event",
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
    ),
    "argstream.jsonstream": (
        "ToolArgStream",
        "ToolFieldDelta",
        "ToolFieldEnd",
        "ToolFieldEvent",
        "ToolFieldStart",
    ),
    "argstream.judging": ("Decision",),
    "argstream.policy": ("Policy", "Rule"),
    "argstream.readers": ("AsyncCallReader", "CallReader"),
    "argstream.recording": ("Recorder", "Recording", "read_recording", "record", "record_async"),
    "argstream.streaming": ("AsyncEventStream", "EventStream", "make_judge", "stream"),
    "argstream.validation": ("Schema", "SchemaLimits", "ToolSpec", "TypedArguments", "typed"),
}


if not TYPE_CHECKING:  # a visible __getattr__ would make every misspelt name valid

    def __getattr__(name: str) -> object:
        for home, names in _HOMES.items():
            if name in names:
                value = getattr(import_module(home), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
