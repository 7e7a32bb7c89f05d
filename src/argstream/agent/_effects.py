"""What the loop of an agent wants done: the machine says it, the runner does it."""

from typing import NamedTuple, TypeAlias

from argstream.errors import TextInterrupted
from argstream.events import ApprovalRequested, Event
from argstream.history import Message

__all__ = [
    "AskModel",
    "AskPerson",
    "CancelTool",
    "CloseStream",
    "Effect",
    "EndText",
    "Execute",
    "ReadAlong",
    "Step",
    "Withdraw",
]


class AskModel(NamedTuple):
    """Have the model take a turn."""

    messages: tuple[Message, ...]


class AskPerson(NamedTuple):
    """Have somebody decide on a call."""

    request: ApprovalRequested


class Withdraw(NamedTuple):
    """Nobody needs to decide on this call any more."""

    call_id: str


class Execute(NamedTuple):
    """Run a tool with exactly these arguments."""

    call_id: str
    name: str
    text: str
    idempotency_key: str


class ReadAlong(NamedTuple):
    """Run a tool that reads its text while that is written."""

    call_id: str
    name: str
    idempotency_key: str


class EndText(NamedTuple):
    """Tell a tool that reads its text while it is written how that has ended."""

    call_id: str
    interruption: TextInterrupted | None = None


class CancelTool(NamedTuple):
    """End a tool that is running, and say so when it has ended."""

    call_id: str
    undoes: bool = False
    """Whether it is undoing what it did: then it has a moment for that."""


class CloseStream(NamedTuple):
    """Stop reading what the model writes."""


Effect: TypeAlias = (
    AskModel | AskPerson | Withdraw | Execute | ReadAlong | EndText | CancelTool | CloseStream
)


class Step(NamedTuple):
    """What follows from something that has happened: tell these, then do these."""

    events: list[Event]
    effects: list[Effect]
    rests: bool = False
    """Whether nothing follows: the run is over, or has paused."""
