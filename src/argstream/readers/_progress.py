"""How far each call has come: what is settled, what still grows, and what can no longer come.

Nothing is kept here: the live ``Call`` has the values and says where its text stands. So a reader
costs nothing beyond the value, and no string that still grows is held.
"""

from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import Final, Literal, TypeAlias

from argstream.assembly import Call
from argstream.errors import StreamFailure, UsageError
from argstream.events import ArgumentsError, Event, RunCompleted, RunFailed, StreamFailed
from argstream.jsonstream import PENDING, JsonPath
from argstream.settled import is_settled, value_at

__all__ = ["OUTCOMES", "CallProgress", "End", "Progress", "Stage", "stream_failure"]


class End(Enum):
    """What stands for the end of an iteration."""

    END = "end"


Stage: TypeAlias = Literal["waiting", "open", "settled", "never"]
"""What is known of a value: it may come; it is there and grows; it is final; it cannot come."""


OUTCOMES: Final = frozenset({StreamFailed, RunFailed, RunCompleted})
"""Events that set or clear the failure of a stream."""


class Progress:
    """How far a stream has come."""

    def __init__(
        self, calls_from: Callable[[int], list[Call]], abort: Callable[[], object]
    ) -> None:
        self.calls_from = calls_from
        """Gives the calls so far, without the first ones."""
        self.ended = False
        """Whether nothing more comes."""
        self.failed: StreamFailed | RunFailed | None = None
        """The first failure that came as an event, unless the run was completed after it."""
        self.reported: StreamFailed | RunFailed | None = None
        """The same, but only if it came while there were readers, which see no events."""
        self.has_readers = False
        self._abort = abort
        self._failure: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._victims: set[int] = set()

    def note(self, event: Event) -> None:
        """Record the failure in an outcome event, or clear it."""
        if isinstance(event, RunCompleted):
            self.failed = self.reported = None
        elif isinstance(event, StreamFailed | RunFailed):
            self.failed = self.failed or event
            if self.has_readers:
                self.reported = self.reported or event

    def fail(self, failure: BaseException) -> None:
        """Say that the source failed, and that this is why calls have no proper end."""
        if self.ended:
            return  # it was closed, and this is what it says to that
        self._failure = failure
        self._traceback = failure.__traceback__
        self._victims = {
            call.index for call in self.calls_from(0) if call.verdict in ("open", "aborted")
        }

    def stop(self) -> None:
        """Say that nothing more comes: every call that is open has its verdict now."""
        self.ended = True
        self._abort()

    @property
    def failure(self) -> BaseException | None:
        """What the source raised, if it did, with its own traceback."""
        return None if self._failure is None else self._failure.with_traceback(self._traceback)

    def failure_of(self, call: Call) -> BaseException | None:
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


def stream_failure(event: StreamFailed | RunFailed) -> StreamFailure:
    """Return what the event says, as an exception."""
    return StreamFailure(event.code, event.message, getattr(event, "retryable", False))


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
    def is_doubtful(self) -> bool:
        """Whether only the verdict can say what holds."""
        return self.call.in_doubt and not self.is_over

    @property
    def error(self) -> ArgumentsError | None:
        """Why the call is not valid, if it is not."""
        return self.call.error

    @property
    def failure(self) -> BaseException | None:
        """What the source raised, if that is why the call is not complete."""
        return self._stream.failure_of(self.call)

    def stage(self, path: JsonPath) -> Stage:
        """Say what is to be said of the value at this path."""
        if self.is_doubtful:
            return "waiting"
        value = self.call.partial
        for depth, key in enumerate(path):
            inner = value_at(value, (key,))
            if inner is PENDING:
                if self.is_over or not _may_have(value, key):
                    return "never"
                return "never" if depth and self.is_settled(path[:depth]) else "waiting"
            value = inner
        if self.is_settled(path):
            return "settled"
        return "never" if self.is_over else "open"

    def is_settled(self, path: JsonPath) -> bool:
        """Say whether a value that is there is final."""
        return is_settled(self.call, path)


def _may_have(value: object, key: str | int) -> bool:
    """Say whether something may come at this key, as far as the kind of the value goes."""
    return value is PENDING or isinstance(value, dict if isinstance(key, str) else list)
