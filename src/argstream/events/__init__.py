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

from typing import TypeAlias

import msgspec

from argstream.deltas import CallKind
from argstream.events.execution import (
    ApprovalDecided,
    ApprovalOutcome,
    ApprovalRequested,
    Remembered,
    ToolCallCompleted,
    ToolCallFailed,
    ToolExecutionStarted,
    ToolOutputDelta,
)
from argstream.events.runs import (
    RunCompleted,
    RunEnd,
    RunFailed,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStopped,
)
from argstream.events.snapshot import (
    RunSnapshot,
    RunStatus,
    SeenBlock,
    SeenCall,
    SeenText,
    SeenThinking,
)
from argstream.events.turns import StreamFailed, TurnCompleted, TurnStarted, Usage
from argstream.events.writing import (
    Action,
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentsError,
    ArgumentStarted,
    InvalidVerdict,
    PolicyDecision,
    TextDelta,
    ThinkingCompleted,
    ThinkingDelta,
    ThinkingStarted,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallStarted,
)
from argstream.history import Verdict

__all__ = [
    "Action",
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
    "PolicyDecision",
    "Remembered",
    "RunCompleted",
    "RunEnd",
    "RunFailed",
    "RunPaused",
    "RunResumed",
    "RunSnapshot",
    "RunStarted",
    "RunStatus",
    "RunStopped",
    "SeenBlock",
    "SeenCall",
    "SeenText",
    "SeenThinking",
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
    "Verdict",
    "from_json",
    "to_json",
]

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
    | TurnStarted
    | TurnCompleted
    | RunStarted
    | RunPaused
    | RunResumed
    | RunCompleted
    | RunFailed
    | RunStopped
    | RunSnapshot
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
