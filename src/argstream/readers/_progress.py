"""How far each call has come: what is settled, what still grows, and what can no longer come.

It is told the events that somebody fetched, and asks the live ``Call`` for the values: nothing is
copied and no string that still grows is held, so that a reader costs nothing beyond the value. Of
all events of a call only the latest that tells of its structure is kept. It says where the document
stands, and so which of the values that are there may still change: those on the way to it.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from argstream.assembly import Call
from argstream.errors import UsageError
from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentsError,
    ArgumentStarted,
    Event,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallStarted,
)
from argstream.jsonstream import PENDING, JsonPath

__all__ = ["CallProgress", "End", "Progress", "Stage", "value_at"]


class End(Enum):
    """What stands for the end of an iteration."""

    END = "end"


Stage: TypeAlias = Literal["waiting", "open", "settled", "never"]
"""What is known of a value: it may come; it is there and grows; it is final; it cannot come."""

_OPEN: Final = "open"


class CallProgress:
    """How far one call has come."""

    __slots__ = (
        "_call",
        "_calls",
        "_index",
        "changes",
        "error",
        "failure",
        "has_namesake",
        "latest",
    )

    def __init__(self, calls: Callable[[], list[Call]], index: int) -> None:
        self._calls = calls
        self._index = index
        self._call: Call | None = None  # until somebody asks: to list all calls at each is too much
        self.latest: ArgumentStarted | ArgumentCompleted | None = None
        self.changes = 0
        """Counts what may have settled something, so that one who waits need not look again."""
        self.error: ArgumentsError | None = None
        self.failure: Exception | None = None
        """What the source raised, if that is why the call is not complete."""
        self.has_namesake = False
        """Whether another call has the same id, so that their events cannot be told apart."""

    @property
    def call(self) -> Call:
        """The call itself."""
        if self._call is None:
            self._call = self._calls()[self._index]
        return self._call

    @property
    def is_over(self) -> bool:
        """Whether the call has its verdict."""
        return self.call.verdict != _OPEN

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
        if self.call.verdict == "complete":
            return True
        latest = self.latest
        if latest is None or not path or self.has_namesake:
            return False
        if latest.path[: len(path)] != path:
            return True
        return latest.path == path and type(latest) is ArgumentCompleted

    def settled_items(self, path: JsonPath, items: list[Any]) -> int:
        """Say how many items of the array at this path are final."""
        if self.is_settled(path):
            return len(items)
        latest = self.latest
        depth = len(path)
        if latest is None or self.has_namesake or len(latest.path) == depth:
            return 0
        item = latest.path[: depth + 1]
        index = item[depth]
        assert isinstance(index, int)  # noqa: S101 - it lies in an array
        return index + 1 if self.is_settled(item) else index


class Progress:
    """How far all calls of a stream have come."""

    def __init__(self, calls: Callable[[], list[Call]]) -> None:
        self._calls = calls
        self._by_id: dict[str, CallProgress] = {}
        self.started: list[CallProgress] = []
        self.ended = False
        """Whether nothing more comes."""
        self.failure: Exception | None = None
        """What the source raised, if it did."""

    def take(self, batch: Iterable[Event]) -> None:
        """Take what was just fetched."""
        for event in batch:
            kind = type(event)
            if kind is ToolArgsDelta or kind is ArgumentDelta:  # nearly always
                continue
            if type(event) is ArgumentStarted or type(event) is ArgumentCompleted:
                progress = self._by_id[event.call_id]
                progress.latest = event
                progress.changes += 1
            elif type(event) is ToolCallStarted:
                self._start(event)
            elif type(event) is ToolArgsCompleted:
                self._by_id[event.call_id].changes += 1
            elif type(event) is ToolArgsInvalid:
                progress = self._by_id[event.call_id]
                progress.changes += 1
                progress.error = event.error
                progress.failure = self.failure

    def named(self, call_id: str) -> CallProgress:
        """Give the call with this id, the last one of several."""
        try:
            return self._by_id[call_id]
        except KeyError:
            known = ", ".join(map(repr, self._by_id)) or "none"
            raise UsageError(f"no call {call_id!r} has started; there are: {known}") from None

    def _start(self, event: ToolCallStarted) -> None:
        progress = CallProgress(self._calls, event.index)
        before = self._by_id.get(event.call_id)
        if before is not None and not before.is_over:
            before.has_namesake = progress.has_namesake = True
        self._by_id[event.call_id] = progress
        self.started.append(progress)


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
