"""The turns of a model: that one begins, how it ends."""

from operator import add
from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import astuple

from argstream.events._base import BaseEvent
from argstream.history import Message

__all__ = [
    "StreamFailed",
    "TurnCompleted",
    "TurnStarted",
    "Usage",
]


class Usage(Struct, frozen=True):
    """What a turn cost, in tokens, as far as the provider told."""

    input_tokens: int = 0
    """Everything that the model read, from a cache or not."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        """Give what both cost together."""
        return Usage(*map(add, astuple(self), astuple(other)))


class TurnStarted(BaseEvent, frozen=True, tag="turn_started"):
    """In a run of an agent: the model is asked for its next turn."""

    type: ClassVar[Literal["turn_started"]] = "turn_started"
    turn: int
    """Which turn of the run, from 1 on."""
    attempt: int = 1
    """How often it was begun. What came of the attempts before was lost: they were cut off."""


class TurnCompleted(BaseEvent, frozen=True, tag="turn_completed"):
    """The turn is over. Every call in it has its verdict."""

    type: ClassVar[Literal["turn_completed"]] = "turn_completed"
    stop_reason: str | None
    message: Message
    usage: Usage = Usage()
    parent_id: str | None = None
    """The call whose sub-agent took the turn."""
    characters_read: int | None = None
    """How much of it was read, if reading was stopped (``rejected``): then no usage is known."""


class StreamFailed(BaseEvent, frozen=True, tag="stream_failed"):
    """The provider reported an error, hung up, or sent what nobody can read."""

    type: ClassVar[Literal["stream_failed"]] = "stream_failed"
    code: str
    message: str
    retryable: bool = False
