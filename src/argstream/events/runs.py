"""A run of an agent: its beginning, its pauses, its end."""

from typing import Any, ClassVar, Literal, TypeAlias

from argstream.events._base import BaseEvent
from argstream.events.execution import ApprovalRequested
from argstream.events.turns import Usage
from argstream.history import Message

__all__ = [
    "RunCompleted",
    "RunEnd",
    "RunFailed",
    "RunPaused",
    "RunResumed",
    "RunStarted",
    "RunStopped",
]


class RunStarted(BaseEvent, frozen=True, tag="run_started"):
    """An agent begins to work on a prompt."""

    type: ClassVar[Literal["run_started"]] = "run_started"
    run_id: str
    prompt: str
    history: tuple[Message, ...] = ()
    """What was said before."""
    user: str = ""
    """Whose run it is; empty if it is nobody's in particular."""


class RunPaused(BaseEvent, frozen=True, tag="run_paused"):
    """Nothing more can happen until a person has decided on these calls."""

    type: ClassVar[Literal["run_paused"]] = "run_paused"
    run_id: str
    pending: tuple[ApprovalRequested, ...]


class RunResumed(BaseEvent, frozen=True, tag="run_resumed"):
    """A run goes on that had paused, or was cut off by a crash."""

    type: ClassVar[Literal["run_resumed"]] = "run_resumed"
    run_id: str
    cause: Literal["pause", "crash"] = "pause"
    """What had kept it from going on."""
    interrupted: tuple[str, ...] = ()
    """The calls that were running when it was cut off: nobody knows what they have done."""
    note: str = ""
    """What the model is told of it, if its turn must begin again and tools had begun in it."""


class RunCompleted(BaseEvent, frozen=True, tag="run_completed"):
    """An agent has made its last turn: here is what it answers."""

    type: ClassVar[Literal["run_completed"]] = "run_completed"
    result: Any
    usage: Usage = Usage()
    stop_reason: str | None = None
    """Why the last turn ended: in the provider's words, such as ``end_turn`` or ``refusal``."""
    run_id: str = ""
    """Of a run of ours; others have none."""


class RunFailed(BaseEvent, frozen=True, tag="run_failed"):
    """An agent has given up."""

    type: ClassVar[Literal["run_failed"]] = "run_failed"
    code: str
    message: str
    run_id: str = ""
    usage: Usage = Usage()
    """The usage of all turns, including one that did not complete."""


class RunStopped(BaseEvent, frozen=True, tag="run_stopped"):
    """Somebody stopped the run."""

    type: ClassVar[Literal["run_stopped"]] = "run_stopped"
    reason: str = ""
    run_id: str = ""
    usage: Usage = Usage()
    """The usage of all turns, including one that did not complete."""


RunEnd: TypeAlias = RunCompleted | RunFailed | RunStopped
"""What ends a run: nothing follows it."""
