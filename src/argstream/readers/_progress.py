"""How far each call has come: what is settled, what still grows, and what can no longer come.

Nothing is kept here: the live ``Call`` has the values and says where its text stands. So a reader
costs nothing beyond the value, and no string that still grows is held.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Literal, TypeAlias

from argstream.assembly import Call
from argstream.errors import UsageError
from argstream.events import ArgumentsError
from argstream.jsonstream import PENDING, JsonPath

__all__ = ["CallProgress", "End", "Progress", "Stage", "value_at"]


class End(Enum):
    """What stands for the end of an iteration."""

    END = "end"


Stage: TypeAlias = Literal["waiting", "open", "settled", "never"]
"""What is known of a value: it may come; it is there and grows; it is final; it cannot come."""


class Progress:
    """How far a stream has come."""

    def __init__(self, calls_from: Callable[[int], list[Call]]) -> None:
        self.calls_from = calls_from
        """Gives the calls so far, without the first ones."""
        self.ended = False
        """Whether nothing more comes."""
        self.failure: Exception | None = None
        """What the source raised, if it did."""
        self._victims: set[int] = set()

    def fail(self, failure: Exception) -> None:
        """Say that the source failed, before the calls that it cuts have their verdicts."""
        self.failure = failure
        self._victims = {call.index for call in self.calls_from(0) if call.verdict == "open"}

    def failure_of(self, call: Call) -> Exception | None:
        """Give what the source raised, if that is why the call is not complete."""
        return self.failure if call.index in self._victims else None

    def named(self, call_id: str) -> Call:
        """Give the call with this id, the last one of several."""
        calls = self.calls_from(0)
        for call in reversed(calls):
            if call.id == call_id:
                return call
        known = ", ".join(repr(call.id) for call in calls) or "none"
        raise UsageError(f"no call {call_id!r} has started; there are: {known}")


class CallProgress:
    """How far one call has come."""

    __slots__ = ("_stream", "call")

    def __init__(self, call: Call, stream: Progress) -> None:
        self.call = call
        self._stream = stream

    @property
    def is_over(self) -> bool:
        """Whether the call has its verdict."""
        return self.call.verdict != "open"

    @property
    def error(self) -> ArgumentsError | None:
        """Why the call is not valid, if it is not."""
        return self.call.error

    @property
    def failure(self) -> Exception | None:
        """What the source raised, if that is why the call is not complete."""
        return self._stream.failure_of(self.call)

    def stage(self, path: JsonPath) -> Stage:
        """Say what is to be said of the value at this path."""
        value = self.call.partial
        for depth, key in enumerate(path):
            if not _has(value, key):
                if self.is_over or not _may_have(value, key):
                    return "never"
                return "never" if depth and self.is_settled(path[:depth]) else "waiting"
            value = value[key]
        if self.is_settled(path):
            return "settled"
        return "never" if self.is_over else "open"

    def is_settled(self, path: JsonPath) -> bool:
        """Say whether a value that is there is final. The root is, with the call's verdict."""
        call = self.call
        if call.verdict == "complete":
            return True
        depth = len(path)
        if not path or call.path[:depth] == path:
            return False
        return call.error is None or call.error.path[:depth] != path

    def settled_items(self, path: JsonPath, items: list[Any]) -> int:
        """Say how many items of the array at this path are final."""
        if not self.is_settled(path) and len(place := self.call.path) > len(path):
            index = place[len(path)]
            assert isinstance(index, int)  # noqa: S101 - it lies in an array
            return index
        return len(items)


def value_at(root: Any, path: JsonPath) -> Any:
    """Give the value at a path; PENDING where there is none."""
    for key in path:
        if not _has(root, key):
            return PENDING
        root = root[key]
    return root


def _has(value: object, key: str | int) -> bool:
    if isinstance(value, dict):
        return key in value
    return isinstance(value, list) and isinstance(key, int) and key < len(value)


def _may_have(value: object, key: str | int) -> bool:
    """Say whether something may come at this key, as far as the kind of the value goes."""
    return value is PENDING or isinstance(value, dict if isinstance(key, str) else list)
