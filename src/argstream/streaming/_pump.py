"""Fetching for the readers of a sync stream, and the questions that readers ask.

A batch is the events of one item of the source. Batches are fetched only while a reader or a loop
waits, so a slow reader slows the provider down, as a slow loop does. Events that were fetched for a
reader are kept for a loop over the events, if there is one.
"""

import json
from collections import deque
from collections.abc import Callable, Generator
from enum import Enum
from itertools import islice
from reprlib import Repr
from types import GeneratorType, TracebackType
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

from argstream.assembly import Call
from argstream.checks import is_settled, value_at, verdict_words
from argstream.errors import ArgumentUnavailableError, StreamError, UsageError
from argstream.events import Event, RunCompleted, RunFailed, StreamFailed
from argstream.jsonstream import PENDING, JsonPath
from argstream.jsonstream._fragments import KIND_WORDS, kind_of

_MOST_KEYS: Final = 20  # in a message
_short = Repr()
_short.maxstring = 80


class End(Enum):
    END = "end"


Stage: TypeAlias = Literal["waiting", "open", "settled", "never"]
"""What is known of a value: it may come; it is there and grows; it is final; it cannot come."""

OUTCOMES: Final = frozenset({StreamFailed, RunFailed, RunCompleted})
"""Events that set or clear the failure of a stream."""


class StreamProgress:
    def __init__(
        self, calls_from: Callable[[int], list[Call]], abort: Callable[[], object]
    ) -> None:
        self.calls_from = calls_from
        self.ended = False
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
        """Record that the source failed, and which calls did not end because of it."""
        if self.ended:
            return  # it was closed, and this is what it says to that
        self._failure = failure
        self._traceback = failure.__traceback__
        self._victims = {
            call.index for call in self.calls_from(0) if call.verdict in ("open", "aborted")
        }

    def stop(self) -> None:
        """End the stream. Every open call gets its verdict."""
        self.ended = True
        self._abort()

    @property
    def failure(self) -> BaseException | None:
        """What the source raised, if it did, with its own traceback."""
        return None if self._failure is None else self._failure.with_traceback(self._traceback)

    def failure_of(self, call: Call) -> BaseException | None:
        return self.failure if call.index in self._victims else None

    def named(self, call_id: str) -> Call:
        """Return the call with this ID, the last one if there are several."""
        calls = self.calls_from(0)
        for call in reversed(calls):
            if call.id == call_id:
                return call
        known = ", ".join(repr(call.id) for call in calls) or "none"
        raise UsageError(f"no call {call_id!r} has started; there are: {known}")


def stream_failure(event: StreamFailed | RunFailed) -> StreamError:
    if isinstance(event, RunFailed):
        return StreamError(event.code, event.message)
    return StreamError(event.specific_code, event.message, event.retryable)


class CallProgress:
    def __init__(self, call: Call, stream: StreamProgress) -> None:
        self.call = call
        self._stream = stream

    @property
    def is_over(self) -> bool:
        return self.call.verdict != "open"

    @property
    def is_doubtful(self) -> bool:
        """Whether only the verdict can tell which values are right."""
        return self.call.in_doubt and not self.is_over

    @property
    def failure(self) -> BaseException | None:
        """What the source raised, if that is why the call is not complete."""
        return self._stream.failure_of(self.call)

    def stage(self, path: JsonPath) -> Stage:
        if self.is_doubtful:
            return "waiting"
        value = self.call.partial
        for depth, key in enumerate(path):
            inner = value_at(value, (key,))
            if inner is PENDING:
                kind = dict if isinstance(key, str) else list
                if self.is_over or not (value is PENDING or isinstance(value, kind)):
                    return "never"
                return "never" if depth and is_settled(self.call, path[:depth]) else "waiting"
            value = inner
        if is_settled(self.call, path):
            return "settled"
        return "never" if self.is_over else "open"


Answer_co = TypeVar("Answer_co", covariant=True)
Reader = TypeVar("Reader")


class Question(Protocol[Answer_co]):
    """A question about a stream. At the latest it has an answer when the stream ends."""

    def ready(self) -> bool:
        """Return True if there is an answer, which may be an error."""

    def take(self) -> Answer_co:
        """Return the answer, or raise it."""


Answer = TypeVar("Answer")


class Pump:
    """Fetches for a reader or a loop that waits."""

    def __init__(
        self, batches: Generator[list[Event], None, None], progress: StreamProgress
    ) -> None:
        self._batches = cast("GeneratorType[list[Event], None, None]", batches)
        self.progress = progress
        self._held: deque[list[Event]] | None = None  # for a loop over the events, if there is one

    def events(self) -> Generator[Event, None, None]:
        """Yield every event once, including those that were fetched for a reader."""
        progress = self.progress
        held = self._held = deque()
        try:
            for batch in self._batches:
                yield from batch
                while held:
                    yield from held.popleft()
        except ValueError:
            self._refuse_threads()
            raise
        finally:
            if not self._batches.gi_running:
                self.close()
        if (failure := progress.failure) is not None:  # it was raised to a reader
            raise failure

    def answer(self, question: Question[Answer]) -> Answer:
        while not question.ready():
            self._fetch()
        return question.take()

    def close(self) -> None:
        self._batches.close()
        self.progress.stop()

    def _fetch(self) -> None:
        progress = self.progress
        if progress.ended:
            raise AssertionError("at the end of a stream every question has an answer")
        try:
            batch = next(self._batches, None)
        except BaseException as error:
            if isinstance(error, ValueError):
                self._refuse_threads()
            progress.ended = True
            raise
        if batch is None:
            progress.ended = True
            return
        if self._held is not None:
            self._held.append(batch)

    def _refuse_threads(self) -> None:
        if self._batches.gi_frame is not None:  # not it has failed: it could not be asked
            raise UsageError("another thread fetches: read a stream in one thread") from None


class Argument:
    """The value at a path: known as soon as it is settled, or cannot come any more."""

    def __init__(self, progress: CallProgress, path: JsonPath, type_: type | None) -> None:
        self._progress = progress
        self._path = path
        self._type = type_

    def ready(self) -> bool:
        return self._progress.stage(self._path) in ("settled", "never")

    def take(self) -> Any:
        progress, path = self._progress, self._path
        if progress.stage(path) != "settled":
            raise unavailable(progress, path)
        value = value_at(progress.call.partial, path)
        if self._type is not None and not _fits(value, self._type):
            raise wrong_kind(progress, path, value, f"of type {self._type.__name__}")
        return value


class Whole:
    """All arguments: known when the call has its verdict."""

    def __init__(self, progress: CallProgress) -> None:
        self._progress = progress

    def ready(self) -> bool:
        return self._progress.is_over

    def take(self) -> dict[str, Any] | str:
        call = self._progress.call
        if call.verdict != "complete" or call.arguments is None:
            raise incomplete(self._progress)
        return call.arguments


class StringPieces:
    """What follows in the string at a path. The end is the string's, not the call's.

    Between two steps only the place of the string is held, never the string: as long as nothing
    else refers to it, it grows in place (invariant 6).
    """

    def __init__(self, progress: CallProgress, path: JsonPath) -> None:
        self._progress = progress
        self._path = path
        self._container: Any = None  # of the string, once it is there
        self._key = path[-1]
        self._offset = 0

    def ready(self) -> bool:
        if self._progress.is_doubtful or (self._container is None and not self._begin()):
            return False
        return (
            self._container is None  # which is told
            or len(self._container[self._key]) > self._offset
            or self._progress.is_over
            or is_settled(self._progress.call, self._path)
        )

    def take(self) -> str | End:
        progress, path = self._progress, self._path
        if self._container is None:
            raise _not_there(progress, path, "a string")
        if progress.is_over:
            self._compare()
        piece: str = self._container[self._key][self._offset :]
        if piece:
            self._offset += len(piece)
            return piece
        if is_settled(progress.call, path):
            return End.END
        raise unavailable(progress, path)

    def _begin(self) -> bool:
        """Find the string. Returns False while it may still come."""
        if self._progress.stage(self._path) == "waiting":
            return False
        container, value = _found(self._progress.call, self._path)
        if isinstance(value, str):
            self._container = container
        return True

    def _compare(self) -> None:
        """Continue in the final text, if the call was reinterpreted and that text goes on."""
        container, value = _found(self._progress.call, self._path)
        if container is self._container:
            return
        read = self._container[self._key][: self._offset]
        if not isinstance(value, str) or not value.startswith(read):
            raise differs(self._progress, self._path)
        self._container = container


class FreeTextPieces:
    """What follows in the text of a call that has no JSON in it."""

    def __init__(self, progress: CallProgress) -> None:
        self._progress = progress
        self._offset = 0

    def ready(self) -> bool:
        return len(self._progress.call.raw) > self._offset or self._progress.is_over

    def take(self) -> str | End:
        call, offset = self._progress.call, self._offset
        if call.verdict == "complete":
            text: str = call.partial
            if not text.startswith(call.raw[:offset]):
                raise differs(self._progress, ())
            piece = text[offset:]
        else:
            piece = call.raw[offset:]
        if piece:
            self._offset += len(piece)
            return piece
        if call.verdict == "complete":
            return End.END
        raise incomplete(self._progress)


class Items:
    """The next item of the array at a path that is whole."""

    def __init__(self, progress: CallProgress, path: JsonPath) -> None:
        self._progress = progress
        self._path = path
        self._items: list[Any] | None = None  # once it is there
        self._next = 0

    def ready(self) -> bool:
        progress, path = self._progress, self._path
        if self._items is None:
            if progress.stage(path) == "waiting":
                return False
            _, value = _found(progress.call, path)
            if not isinstance(value, list):
                return True  # which is told
            self._items = value
        has_next = self._has_next(self._items)
        return progress.is_over or has_next or is_settled(progress.call, path)

    def take(self) -> Any | End:
        progress, path = self._progress, self._path
        if self._items is None:
            raise _not_there(progress, path, "an array")
        if progress.is_over:
            self._items = self._compare(self._items)
        if self._has_next(self._items):
            self._next += 1
            return self._items[self._next - 1]
        if is_settled(progress.call, path):
            return End.END
        raise unavailable(progress, path)

    def _has_next(self, items: list[Any]) -> bool:
        place = self._next
        return place < len(items) and is_settled(self._progress.call, (*self._path, place))

    def _compare(self, read: list[Any]) -> list[Any]:
        """Return the final array, if the call was reinterpreted and the items given are in it."""
        value: object = _found(self._progress.call, self._path)[1]
        if value is read:
            return read
        if isinstance(value, list) and _are_same(value[: self._next], read[: self._next]):
            return value
        raise differs(self._progress, self._path)


class NextCall(Generic[Reader]):
    def __init__(
        self, progress: StreamProgress, make_reader: Callable[[CallProgress], Reader]
    ) -> None:
        self._progress = progress
        self._make_reader = make_reader
        self._found: deque[Call] = deque()
        self._seen = 0
        progress.has_readers = True

    def ready(self) -> bool:
        if not self._found:
            self._found.extend(self._progress.calls_from(self._seen))
            self._seen += len(self._found)
        return bool(self._found) or self._progress.ended

    def take(self) -> Reader | End:
        progress = self._progress
        if self._found:
            return self._make_reader(CallProgress(self._found.popleft(), progress))
        if (failure := progress.failure) is not None:
            raise failure
        if (event := progress.reported) is not None:
            raise stream_failure(event)
        return End.END


def _found(call: Call, path: JsonPath) -> tuple[Any, Any]:
    """Return the container and the value at a path; PENDING where there is none."""
    container = value_at(call.partial, path[:-1])
    return container, value_at(container, path[-1:])


def _not_there(progress: CallProgress, path: JsonPath, wanted: str) -> BaseException:
    if progress.stage(path) == "never":
        return unavailable(progress, path)
    return wrong_kind(progress, path, value_at(progress.call.partial, path), wanted)


def _fits(value: object, type_: type) -> bool:
    """Compare types as JSON has them: true is no number, and 1 is a float."""
    if isinstance(value, bool):
        return type_ is bool
    return isinstance(value, type_) or (type_ is float and isinstance(value, int))


def _are_same(one: list[Any], other: list[Any]) -> bool:
    """Compare as JSON: in Python, 1 equals True."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def unavailable(progress: CallProgress, path: JsonPath) -> BaseException:
    """Return the error for a value that does not come, or not completely."""
    if (failure := progress.failure) is not None:
        return failure
    call = progress.call
    place, value, is_whole_path = _nearest(call.partial, path)
    asked = f"{_spelt(path)} of {_name(progress)}"
    if is_whole_path:
        return _error(progress, path, f"{asked} is not whole: {verdict_words(call)}")
    came = _contents(place, value)
    if progress.is_over and call.verdict != "complete":
        return _error(progress, path, f"{asked} did not come: {verdict_words(call)}; {came}")
    return _error(progress, path, f"{asked} did not come: {came}")


def incomplete(progress: CallProgress) -> BaseException:
    """Return the error for a call that is not complete."""
    if (failure := progress.failure) is not None:
        return failure
    came = _contents((), progress.call.partial)
    why = verdict_words(progress.call)
    message = f"the arguments of {_name(progress)} are not complete: {why}; {came}"
    return _error(progress, (), message)


def wrong_kind(progress: CallProgress, path: JsonPath, value: object, wanted: str) -> Exception:
    message = f"{_spelt(path)} of {_name(progress)} is {_kind_words(value)}, not {wanted}"
    return _error(progress, path, message)


def differs(progress: CallProgress, path: JsonPath) -> Exception:
    """Return the error for a value that is not what was read before the call ended."""
    asked = f"{_spelt(path)} of {_name(progress)}" if path else f"the text of {_name(progress)}"
    reason = progress.call.reinterpreted
    message = (
        f"{asked} is not what was read while it came: the call was reinterpreted at its end "
        f"({reason}); arguments() has what holds"
    )
    return _error(progress, path, message)


def _kind_words(value: object) -> str:
    kind = kind_of(value)
    return "nothing" if kind is None else KIND_WORDS[kind]


def _error(progress: CallProgress, path: JsonPath, message: str) -> ArgumentUnavailableError:
    return ArgumentUnavailableError(
        message, path=path, verdict=progress.call.verdict, error=progress.call.error
    )


def _nearest(root: Any, path: JsonPath) -> tuple[JsonPath, Any, bool]:
    """Follow a path as far as there are values. Returns the place, the value, whether it is all."""
    for depth in range(len(path)):
        value = value_at(root, path[depth : depth + 1])
        if value is PENDING:
            return path[:depth], root, False
        root = value
    return path, root, True


def _contents(place: JsonPath, value: Any) -> str:
    whose = f"{_spelt(place)} " if place else "it "
    if isinstance(value, dict):
        return f"{whose}has {_keys(value)}"
    if isinstance(value, list):
        return f"{whose}has {len(value)} item{'' if len(value) == 1 else 's'}"
    return f"{whose}is {_kind_words(value)}" if place else "nothing came"


def _keys(found: dict[str, Any]) -> str:
    if not found:
        return "nothing in it"
    shown = [_short.repr(key) for key in islice(found, _MOST_KEYS)]
    more = len(found) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _spelt(path: JsonPath) -> str:
    return ", ".join(map(_short.repr, path))


def _name(progress: CallProgress) -> str:
    return _short.repr(progress.call.name)
