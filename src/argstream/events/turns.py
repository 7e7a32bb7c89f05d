"""The turns of a model: that one begins, how it ends."""

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
    """The tokens that a turn or a run used, as reported by the provider.

    A count is None if the provider did not report it, and 0 if it reported zero. The sum of two
    usages adds the counts that are known.

    >>> Usage(input_tokens=3) + Usage(input_tokens=4, output_tokens=2) == Usage(7, 2)
    True
    """

    input_tokens: int | None = None
    """All input, including tokens read from or written to a cache."""
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        """Input and output together, as far as they are known."""
        return _sum(self.input_tokens, self.output_tokens)

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum, count by count."""
        return Usage(*map(_sum, astuple(self), astuple(other)))


def _sum(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


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
    """How many characters were read, if reading was stopped (``rejected``).

    ``usage`` then has the counts that the provider had reported by that time.
    """


class StreamFailed(BaseEvent, frozen=True, tag="stream_failed"):
    """The provider reported an error, closed the connection too early, or sent unreadable data.

    It is not raised. Call ``events.raise_for_failure()`` after the loop to raise it.
    """

    type: ClassVar[Literal["stream_failed"]] = "stream_failed"
    code: str
    message: str
    retryable: bool = False
