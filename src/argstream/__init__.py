"""argstream reads a model's tool call while it is still being written.

Everything public can be imported from here and is loaded when it is first used, so that ``import
argstream`` is quick and needs no extra. The engine has a package of its own:
``argstream.jsonstream``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argstream.assembly import Assembler, Call
    from argstream.errors import (
        ArgstreamError,
        ArgumentUnavailable,
        MissingExtra,
        SchemaError,
        StreamFailure,
        UsageError,
    )
    from argstream.events import (
        ArgumentCompleted,
        ArgumentDelta,
        ArgumentsError,
        ArgumentStarted,
        Event,
        RunCompleted,
        RunFailed,
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
    "Decision",
    "Event",
    "EventStream",
    "MissingExtra",
    "Policy",
    "Recorder",
    "Recording",
    "Rule",
    "RunCompleted",
    "RunFailed",
    "Schema",
    "SchemaError",
    "SchemaLimits",
    "StreamFailed",
    "StreamFailure",
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
    "ToolFieldDelta",
    "ToolFieldEnd",
    "ToolFieldEvent",
    "ToolFieldStart",
    "ToolSpec",
    "TurnCompleted",
    "TypedArguments",
    "Usage",
    "UsageError",
    "make_judge",
    "read_recording",
    "record",
    "record_async",
    "stream",
    "typed",
]

_HOMES = {
    "argstream.assembly": ("Assembler", "Call"),
    "argstream.errors": (
        "ArgstreamError",
        "ArgumentUnavailable",
        "MissingExtra",
        "SchemaError",
        "StreamFailure",
        "UsageError",
    ),
    "argstream.events": (
        "ArgumentCompleted",
        "ArgumentDelta",
        "ArgumentStarted",
        "ArgumentsError",
        "Event",
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
