"""A run as far as it has come, in one event: for who joins late and then follows what comes."""

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct

from argstream.deltas import CallKind
from argstream.events._base import BaseEvent
from argstream.events.execution import ApprovalDecided, ApprovalRequested
from argstream.events.runs import RunEnd
from argstream.events.turns import Usage
from argstream.events.writing import ArgumentsError
from argstream.history import Message, Verdict

__all__ = [
    "RunSnapshot",
    "RunStatus",
    "SeenBlock",
    "SeenCall",
    "SeenText",
    "SeenThinking",
]

RunStatus: TypeAlias = Literal["running", "completed", "paused", "failed", "stopped"]


class SeenText(Struct, frozen=True, kw_only=True, tag="text"):
    """What the model said in one block, so far."""

    block: int
    text: str
    parent_id: str | None = None
    turn: int = 0
    """Which turn of the run it is of; 0 if the run does not say when turns begin."""
    is_lost: bool = False
    """Whether its turn was cut off and began again: the model does not know of it."""


class SeenThinking(Struct, frozen=True, kw_only=True, tag="thinking"):
    """What it thought in one block, so far."""

    block: int
    text: str
    is_over: bool = False
    parent_id: str | None = None
    turn: int = 0
    is_lost: bool = False


class SeenCall(Struct, frozen=True, kw_only=True, tag="call"):
    """A call, as far as it has come."""

    call_id: str
    index: int
    name: str
    kind: CallKind = "function"
    parent_id: str | None = None
    raw: str = ""
    """The text of its arguments, so far."""
    verdict: Verdict | None = None
    """None while it is written."""
    arguments: dict[str, Any] | str | None = None
    """Once they are complete: the model's; once it has run, those that it was run with."""
    error: ArgumentsError | None = None
    """Why it is not complete."""
    request: ApprovalRequested | None = None
    decision: ApprovalDecided | None = None
    attempts: int = 0
    """How often its tool was started."""
    output: str = ""
    """What its tool has said while it ran."""
    outcome: Literal["completed", "failed"] | None = None
    result: Any = None
    """What came of it; why, if it failed."""
    turn: int = 0
    is_lost: bool = False


SeenBlock: TypeAlias = SeenText | SeenThinking | SeenCall


class RunSnapshot(BaseEvent, frozen=True, tag="run_snapshot"):
    """All that was told of a run up to here. What follows goes on from it.

    It is never in a log, but made of one. In a ``Record`` it has the seq of the last event that it
    tells of.
    """

    type: ClassVar[Literal["run_snapshot"]] = "run_snapshot"
    run_id: str
    status: RunStatus
    prompt: str
    history: tuple[Message, ...]
    """What was said before the run."""
    blocks: tuple[SeenBlock, ...]
    """What the model has said, thought and called, in the order in which it began."""
    turns: int
    """How many turns have begun."""
    usage: Usage
    """Of the turns that are complete; of all turns when the run has failed or was stopped."""
    stop_reason: str | None = None
    """Why the last turn ended."""
    end: RunEnd | None = None
    """How the run ended, if it has."""
