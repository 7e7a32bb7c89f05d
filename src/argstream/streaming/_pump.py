"""The sync pump, which fetches items from the source, and the values that readers wait for.

A batch is the events of one item of the source. Batches are fetched only while a reader or a loop
waits, so a slow consumer slows the provider down. Batches that were fetched for a reader are kept
for a loop over the events, if there is one.
"""

import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Generator
from enum import Enum
from itertools import islice
from reprlib import Repr
from types import GeneratorType, TracebackType
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

from argstream.assembly import Assembler, Call
from argstream.checks import is_settled, value_at, verdict_words
from argstream.errors import ArgumentUnavailableError, StreamError, UsageError
from argstream.events import Event, RunCompleted, RunFailed, StreamFailed
from argstream.jsonstream import PENDING, JsonPath
from argstream.jsonstream._fragments import kind_words

_MAX_KEYS: Final = 20  # in a message
_short = Repr()
_short.maxstring = 80


class End(Enum):
    END = "end"


# waiting: may still arrive. open: growing. settled: final. never: cannot arrive.
Stage: TypeAlias = Literal["waiting", "open", "settled", "never"]
# Events that set or clear the failure of a stream.
OUTCOMES: Final = frozenset({StreamFailed, RunFailed, RunCompleted})


class StreamProgress:
    def __init__(self, assembler: Assembler) -> None:
        self.assembler = assembler
        self.ended: bool = False
        self.failed: StreamFailed | RunFailed | None = None  # the first one; RunCompleted clears it
        # The first failure since the first reader was created. Readers do not receive events.
        self.reported: StreamFailed | RunFailed | None = None
        self.has_readers = False
        self._failure: BaseException | None = None
        self._traceback: TracebackType | None = None
        self.failed_calls: Collection[int] = ()  # by index

    def note(self, event: Event) -> None:
        """Record the failure in an outcome event, or clear it."""
        if isinstance(event, RunCompleted):
            self.failed = self.reported = None
        elif isinstance(event, StreamFailed | RunFailed):
            self.failed = self.failed or event
            if self.has_readers:
                self.reported = self.reported or event

    def fail(self, failure: BaseException) -> None:
        """Record that the source failed, and which calls are incomplete because of it."""
        if self.ended:
            return  # the error comes from closing the source
        self._failure = failure
        self._traceback = failure.__traceback__
        calls, cut_off = self.assembler.calls_from(0), ("open", "aborted")
        self.failed_calls = {call.index for call in calls if call.verdict in cut_off}

    def stop(self) -> None:
        """End the stream. Every open call gets its verdict."""
        self.ended = True
        self.assembler.abort()

    @property
    def failure(self) -> BaseException | None:
        """The exception of the source, if any, with its original traceback."""
        return None if self._failure is None else self._failure.with_traceback(self._traceback)

    def call_progress(self, call_id: str) -> "CallProgress":
        calls = self.assembler.calls_from(0)
        for call in reversed(calls):
            if call.id == call_id:
                return CallProgress(call, self)
        known = ", ".join(repr(call.id) for call in calls) or "none"
        raise UsageError(f"no call {call_id!r} has started. Started calls: {known}")


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
    def is_ambiguous(self) -> bool:
        """Whether values are uncertain until the verdict."""
        return self.call.in_doubt and not self.is_over

    @property
    def failure(self) -> BaseException | None:
        """The exception of the source, if the call is incomplete because of it."""
        stream = self._stream
        return stream.failure if self.call.index in stream.failed_calls else None

    def stage(self, path: JsonPath) -> Stage:
        if self.is_ambiguous:
            return "waiting"
        place, value = _nearest(self.call.partial, path)
        if place == path and is_settled(self.call, path):
            return "settled"
        if self.is_over or (place and is_settled(self.call, place)):
            return "never"
        if place == path:
            return "open"
        kind = dict if isinstance(path[len(place)], str) else list
        return "waiting" if value is PENDING or isinstance(value, kind) else "never"


Value_co = TypeVar("Value_co", covariant=True)
Reader = TypeVar("Reader")


class Awaited(Protocol[Value_co]):
    """A value that a reader waits for. It is ready at the latest when the stream ends."""

    def ready(self) -> bool: ...
    def result(self) -> Value_co:
        """Return the value, or raise an error."""


Value = TypeVar("Value")


class Pump:
    """Fetches batches while a reader or a loop waits."""

    def __init__(
        self, batches: Generator[list[Event], None, None], progress: StreamProgress
    ) -> None:
        self._batches = cast("GeneratorType[list[Event], None, None]", batches)
        self.progress = progress
        self._held: deque[list[Event]] | None = None  # batches for a loop over the events

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
        if (failure := progress.failure) is not None:  # a reader has raised it already
            raise failure

    def value_of(self, awaited: Awaited[Value]) -> Value:
        while not awaited.ready():
            self._fetch()
        return awaited.result()

    def close(self) -> None:
        self._batches.close()
        self.progress.stop()

    def _fetch(self) -> None:
        progress = self.progress
        if progress.ended:
            raise AssertionError("a reader still waits after the end of the stream")
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
        if self._batches.gi_frame is not None:  # the generator is running; it did not fail
            raise UsageError("another thread reads this stream. Read it in one thread") from None


class Argument:
    """The value at a path. Ready when it is settled or can no longer arrive."""

    def __init__(self, progress: CallProgress, path: JsonPath, type_: type | None) -> None:
        self._progress = progress
        self._path = path
        self._type = type_

    def ready(self) -> bool:
        return self._progress.stage(self._path) in ("settled", "never")

    def result(self) -> Any:
        progress, path = self._progress, self._path
        if progress.stage(path) != "settled":
            raise unavailable(progress, path)
        value = value_at(progress.call.partial, path)
        if self._type is not None and not _has_json_type(value, self._type):
            raise wrong_kind(progress, path, value, f"of type {self._type.__name__}")
        return value


class AllArguments:
    """All arguments. Ready when the call has its verdict."""

    def __init__(self, progress: CallProgress) -> None:
        self._progress = progress

    def ready(self) -> bool:
        return self._progress.is_over

    def result(self) -> dict[str, Any] | str:
        call = self._progress.call
        if call.verdict != "complete" or call.arguments is None:
            raise incomplete(self._progress)
        return call.arguments


class _Growing(ABC):
    """The next part of the string or array at a path, until it ends.

    It keeps the container and key of the value, never a string itself. While nothing else refers to
    a string, it grows in place (invariant 6).
    """

    _type: type
    _wanted: str

    def __init__(self, progress: CallProgress, path: JsonPath) -> None:
        self._progress = progress
        self._path = path
        self._container: Any = None  # of the value, once it has started
        self._read = 0  # how many characters or items

    def ready(self) -> bool:
        progress, path = self._progress, self._path
        if progress.is_ambiguous:
            return False
        if self._container is None:
            if progress.stage(path) == "waiting":
                return False
            container, value = _container_and_value(progress.call, path)
            if not isinstance(value, self._type):
                return True  # there is no such value: result() raises
            self._container = container
        return progress.is_over or self._has_next() or is_settled(progress.call, path)

    def result(self) -> Any | End:
        progress, path = self._progress, self._path
        if self._container is None:
            if progress.stage(path) == "never":
                raise unavailable(progress, path)
            value = value_at(progress.call.partial, path)
            raise wrong_kind(progress, path, value, self._wanted)
        if progress.is_over:
            self._use_final_value()
        if self._has_next():
            return self._take()
        if is_settled(progress.call, path):
            return End.END
        raise unavailable(progress, path)

    def _use_final_value(self) -> None:
        """Continue in the final value if the call was reinterpreted."""
        container, value = _container_and_value(self._progress.call, self._path)
        if container is self._container:
            return
        if not isinstance(value, self._type) or not self._continues(value):
            raise differs(self._progress, self._path)
        self._container = container

    @property
    def _value(self) -> Any:
        return self._container[self._path[-1]]

    @abstractmethod
    def _has_next(self) -> bool: ...
    @abstractmethod
    def _take(self) -> Any: ...
    @abstractmethod
    def _continues(self, final: Any) -> bool:
        """Return True if the final value begins with what was read."""


class StringPieces(_Growing):
    _type = str
    _wanted = "a string"

    def _has_next(self) -> bool:
        return len(self._value) > self._read

    def _take(self) -> str:
        piece: str = self._value[self._read :]
        self._read += len(piece)
        return piece

    def _continues(self, final: str) -> bool:
        return final.startswith(self._value[: self._read])


class Items(_Growing):
    _type = list
    _wanted = "an array"

    def _has_next(self) -> bool:
        index = self._read
        return index < len(self._value) and is_settled(self._progress.call, (*self._path, index))

    def _take(self) -> Any:
        self._read += 1
        return self._value[self._read - 1]

    def _continues(self, final: list[Any]) -> bool:
        # As JSON, because in Python 1 equals True.
        read, same = self._value[: self._read], final[: self._read]
        return json.dumps(read, sort_keys=True) == json.dumps(same, sort_keys=True)


class FreeTextPieces:
    """The next piece of the text of a call without JSON."""

    def __init__(self, progress: CallProgress) -> None:
        self._progress = progress
        self._offset = 0

    def ready(self) -> bool:
        return len(self._progress.call.raw) > self._offset or self._progress.is_over

    def result(self) -> str | End:
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
            self._found.extend(self._progress.assembler.calls_from(self._seen))
            self._seen += len(self._found)
        return bool(self._found) or self._progress.ended

    def result(self) -> Reader | End:
        progress = self._progress
        if self._found:
            return self._make_reader(CallProgress(self._found.popleft(), progress))
        if (failure := progress.failure) is not None:
            raise failure
        if (event := progress.reported) is not None:
            raise stream_failure(event)
        return End.END


def _container_and_value(call: Call, path: JsonPath) -> tuple[Any, Any]:
    """Return the container and the value at a path, or PENDING where there is none."""
    container = value_at(call.partial, path[:-1])
    return container, value_at(container, path[-1:])


def _has_json_type(value: object, type_: type) -> bool:
    """Compare types as in JSON: true is not a number, and 1 is a float."""
    if isinstance(value, bool):
        return type_ is bool
    return isinstance(value, type_) or (type_ is float and isinstance(value, int))


def unavailable(progress: CallProgress, path: JsonPath) -> BaseException:
    if (failure := progress.failure) is not None:
        return failure
    call = progress.call
    place, value = _nearest(call.partial, path)
    if place == path:
        return _error(progress, path, f"is incomplete: {verdict_words(call)}")
    contents = _contents(place, value)
    if progress.is_over and call.verdict != "complete":
        contents = f"{verdict_words(call)}; {contents}"
    return _error(progress, path, f"is missing: {contents}")


def incomplete(progress: CallProgress) -> BaseException:
    if (failure := progress.failure) is not None:
        return failure
    call = progress.call
    # A call without JSON has no parts to list.
    contents = "" if call.partial is PENDING else f"; {_contents((), call.partial)}"
    return _error(progress, (), f"are unavailable: {verdict_words(call)}{contents}")


def wrong_kind(progress: CallProgress, path: JsonPath, value: object, wanted: str) -> Exception:
    return _error(progress, path, f"is {kind_words(value)}, not {wanted}")


def differs(progress: CallProgress, path: JsonPath) -> Exception:
    """Return the error for a value that differs from what was read before."""
    problem = (
        "differs from what was read before: the call was reinterpreted at its end "
        f"({progress.call.reinterpreted}). Use arguments() for the final values"
    )
    return _error(progress, path, problem, whole="the text")


def _error(
    progress: CallProgress, path: JsonPath, problem: str, *, whole: str = "the arguments"
) -> ArgumentUnavailableError:
    call = progress.call
    message = f"{_format_path(path) or whole} of {_short.repr(call.name)} {problem}"
    return ArgumentUnavailableError(message, path=path, verdict=call.verdict, error=call.error)


def _nearest(root: Any, path: JsonPath) -> tuple[JsonPath, Any]:
    """Return the existing part of a path, and its value."""
    for depth in range(len(path)):
        value = value_at(root, path[depth : depth + 1])
        if value is PENDING:
            return path[:depth], root
        root = value
    return path, root


def _contents(place: JsonPath, value: Any) -> str:
    if not place and (value is PENDING or value == {}):
        return "the call has no arguments"
    owner = _format_path(place) if place else "the call"
    if isinstance(value, dict):
        return f"{owner} has {_keys(value)}"
    if isinstance(value, list):
        return f"{owner} has {len(value)} item{'' if len(value) == 1 else 's'}"
    return f"{owner} is {kind_words(value)}"


def _keys(found: dict[str, Any]) -> str:
    if not found:
        return "no keys"
    shown = [_short.repr(key) for key in islice(found, _MAX_KEYS)]
    more = len(found) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _format_path(path: JsonPath) -> str:
    return ", ".join(map(_short.repr, path))
