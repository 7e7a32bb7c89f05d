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
        ObservedRun,
        Observer,
        RunResult,
        Streamed,
        Tool,
        ToolContext,
        ToolUse,
        observe,
        tool,
    )
    from argstream.assembly import (
        Assembler,
        Call,
        Numbering,
    )
    from argstream.clients import (
        ModelRequest,
        ModelSettings,
        ScriptedModel,
        make_model,
    )
    from argstream.errors import (
        AlreadyDecided,
        ArgstreamError,
        ArgumentUnavailable,
        MissingExtra,
        ProviderFailure,
        RunFailure,
        RunTaken,
        SchemaError,
        StoreFailure,
        StreamFailure,
        TextInterrupted,
        ToolFailure,
        UnknownRun,
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
        RunSnapshot,
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
        Usage,
    )
    from argstream.jsonstream import (
        ToolArgStream,
        ToolFieldDelta,
        ToolFieldEnd,
        ToolFieldEvent,
        ToolFieldStart,
    )
    from argstream.judging import (
        Decision,
    )
    from argstream.log import (
        Record,
        RunInfo,
        Store,
    )
    from argstream.policy import (
        Policy,
        Rule,
    )
    from argstream.readers import (
        AsyncCallReader,
        CallReader,
    )
    from argstream.recording import (
        Recorder,
        Recording,
        read_recording,
        record,
        record_async,
    )
    from argstream.stores import (
        MemoryStore,
        RedisStore,
        SqliteStore,
        open_store,
    )
    from argstream.streaming import (
        AsyncEventStream,
        EventStream,
        make_judge,
        stream,
    )
    from argstream.validation import (
        Schema,
        SchemaLimits,
        ToolSpec,
        TypedArguments,
        typed,
    )

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentRun",
    "AlreadyDecided",
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
    "MemoryStore",
    "MissingExtra",
    "ModelRequest",
    "ModelSettings",
    "Numbering",
    "ObservedRun",
    "Observer",
    "Policy",
    "ProviderFailure",
    "Record",
    "Recorder",
    "Recording",
    "RedisStore",
    "Rule",
    "RunCompleted",
    "RunFailed",
    "RunFailure",
    "RunInfo",
    "RunPaused",
    "RunResult",
    "RunResumed",
    "RunSnapshot",
    "RunStarted",
    "RunStopped",
    "RunTaken",
    "Schema",
    "SchemaError",
    "SchemaLimits",
    "ScriptedModel",
    "SqliteStore",
    "Store",
    "StoreFailure",
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
    "TurnStarted",
    "TypedArguments",
    "UnknownRun",
    "Usage",
    "UsageError",
    "make_judge",
    "make_model",
    "observe",
    "open_store",
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
        "ObservedRun",
        "Observer",
        "RunResult",
        "Streamed",
        "Tool",
        "ToolContext",
        "ToolUse",
        "observe",
        "tool",
    ),
    "argstream.assembly": (
        "Assembler",
        "Call",
        "Numbering",
    ),
    "argstream.clients": (
        "ModelRequest",
        "ModelSettings",
        "ScriptedModel",
        "make_model",
    ),
    "argstream.errors": (
        "AlreadyDecided",
        "ArgstreamError",
        "ArgumentUnavailable",
        "MissingExtra",
        "ProviderFailure",
        "RunFailure",
        "RunTaken",
        "SchemaError",
        "StoreFailure",
        "StreamFailure",
        "TextInterrupted",
        "ToolFailure",
        "UnknownRun",
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
        "RunSnapshot",
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
        "TurnStarted",
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
    "argstream.log": (
        "Record",
        "RunInfo",
        "Store",
    ),
    "argstream.policy": (
        "Policy",
        "Rule",
    ),
    "argstream.readers": (
        "AsyncCallReader",
        "CallReader",
    ),
    "argstream.recording": (
        "Recorder",
        "Recording",
        "read_recording",
        "record",
        "record_async",
    ),
    "argstream.stores": (
        "MemoryStore",
        "RedisStore",
        "SqliteStore",
        "open_store",
    ),
    "argstream.streaming": (
        "AsyncEventStream",
        "EventStream",
        "make_judge",
        "stream",
    ),
    "argstream.validation": (
        "Schema",
        "SchemaLimits",
        "ToolSpec",
        "TypedArguments",
        "typed",
    ),
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
