"""What can be asked of a call: each question knows whether it can be answered, and the answer.

``ready`` changes nothing that matters and may be asked by anybody at any time; ``take`` is for the
one who asked, and only when it is ready. So whoever stops waiting, at whatever moment, loses
nothing: what was not taken is still there.
"""

import json
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from argstream.assembly import Call
from argstream.jsonstream import JsonPath
from argstream.readers._progress import CallProgress, End, Progress, stream_failure
from argstream.readers._wording import differs, incomplete, unavailable, wrong_kind
from argstream.settled import value_at

__all__ = ["Argument", "FreeText", "Items", "NextCall", "Question", "Text", "Whole"]

Answer_co = TypeVar("Answer_co", covariant=True)
Reader = TypeVar("Reader")


class Question(Protocol[Answer_co]):
    """Something that will have an answer: when enough has come, or at the end at the latest."""

    def ready(self) -> bool:
        """Say whether there is an answer now, be it an error."""

    def take(self) -> Answer_co:
        """Give it."""


class Argument:
    """The value at a path: known as soon as it is settled, or cannot come any more."""

    __slots__ = ("_path", "_progress", "_type")

    def __init__(self, progress: CallProgress, path: JsonPath, type_: type | None) -> None:
        self._progress = progress
        self._path = path
        self._type = type_

    def ready(self) -> bool:
        """Say whether the value is settled, or will never be."""
        return self._progress.stage(self._path) in ("settled", "never")

    def take(self) -> Any:
        """Give the value."""
        progress, path = self._progress, self._path
        if progress.stage(path) != "settled":
            raise unavailable(progress, path)
        value = value_at(progress.call.partial, path)
        if self._type is not None and not _fits(value, self._type):
            raise wrong_kind(progress, path, value, f"of type {self._type.__name__}")
        return value


class Whole:
    """All arguments: known when the call has its verdict."""

    __slots__ = ("_progress",)

    def __init__(self, progress: CallProgress) -> None:
        self._progress = progress

    def ready(self) -> bool:
        """Say whether the call has its verdict."""
        return self._progress.is_over

    def take(self) -> dict[str, Any] | str:
        """Give the arguments of a complete call."""
        call = self._progress.call
        if call.verdict != "complete" or call.arguments is None:
            raise incomplete(self._progress)
        return call.arguments


class Text:
    """What follows in the string at a path. The end is the string's, not the call's.

    Between two steps only the place of the string is held, never the string: as long as nothing
    else refers to it, it grows in place (invariant 6).
    """

    __slots__ = ("_container", "_key", "_offset", "_path", "_progress")

    def __init__(self, progress: CallProgress, path: JsonPath) -> None:
        self._progress = progress
        self._path = path
        self._container: Any = None  # of the string, once it is there
        self._key = path[-1]
        self._offset = 0

    def ready(self) -> bool:
        """Say whether there is more of it, or no more to come."""
        if self._progress.is_doubtful or (self._container is None and not self._begin()):
            return False
        return (
            self._container is None  # which is told
            or len(self._container[self._key]) > self._offset
            or self._progress.is_over
            or self._progress.is_settled(self._path)
        )

    def take(self) -> str | End:
        """Give all that has come since the last time."""
        progress, path = self._progress, self._path
        if self._container is None:
            raise _not_there(progress, path, "a string")
        if progress.is_over:
            self._compare()
        piece: str = self._container[self._key][self._offset :]
        if piece:
            self._offset += len(piece)
            return piece
        if progress.is_settled(path):
            return End.END
        raise unavailable(progress, path)

    def _begin(self) -> bool:
        """Find the string, and say whether anything was found, or that it cannot come."""
        if self._progress.stage(self._path) == "waiting":
            return False
        container, value = _found(self._progress.call, self._path)
        if isinstance(value, str):
            self._container = container
        return True

    def _compare(self) -> None:
        """Go on in the text that holds, if the call was read anew and the old is a part of it."""
        container, value = _found(self._progress.call, self._path)
        if container is self._container:
            return
        read = self._container[self._key][: self._offset]
        if not isinstance(value, str) or not value.startswith(read):
            raise differs(self._progress, self._path)
        self._container = container


class FreeText:
    """What follows in the text of a call that has no JSON in it."""

    __slots__ = ("_offset", "_progress")

    def __init__(self, progress: CallProgress) -> None:
        self._progress = progress
        self._offset = 0

    def ready(self) -> bool:
        """Say whether there is more of it, or no more to come."""
        return len(self._progress.call.raw) > self._offset or self._progress.is_over

    def take(self) -> str | End:
        """Give all that has come since the last time."""
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

    __slots__ = ("_items", "_next", "_path", "_progress")

    def __init__(self, progress: CallProgress, path: JsonPath) -> None:
        self._progress = progress
        self._path = path
        self._items: list[Any] | None = None  # once it is there
        self._next = 0

    def ready(self) -> bool:
        """Say whether there is one, or none to come."""
        progress, path = self._progress, self._path
        if self._items is None:
            if progress.stage(path) == "waiting":
                return False
            _, value = _found(progress.call, path)
            if not isinstance(value, list):
                return True  # which is told
            self._items = value
        return progress.is_over or self._has_next(self._items) or progress.is_settled(path)

    def take(self) -> Any | End:
        """Give the next one."""
        progress, path = self._progress, self._path
        if self._items is None:
            raise _not_there(progress, path, "an array")
        if progress.is_over:
            self._items = self._compare(self._items)
        if self._has_next(self._items):
            self._next += 1
            return self._items[self._next - 1]
        if progress.is_settled(path):
            return End.END
        raise unavailable(progress, path)

    def _has_next(self, items: list[Any]) -> bool:
        place = self._next
        return place < len(items) and self._progress.is_settled((*self._path, place))

    def _compare(self, read: list[Any]) -> list[Any]:
        """Give the array that holds, if the call was read anew and what was given is in it."""
        value: object = _found(self._progress.call, self._path)[1]
        if value is read:
            return read
        if isinstance(value, list) and _are_same(value[: self._next], read[: self._next]):
            return value
        raise differs(self._progress, self._path)


class NextCall(Generic[Reader]):
    """The next call that starts."""

    __slots__ = ("_found", "_make_reader", "_progress", "_seen")

    def __init__(self, progress: Progress, make_reader: Callable[[CallProgress], Reader]) -> None:
        self._progress = progress
        self._make_reader = make_reader
        self._found: deque[Call] = deque()
        self._seen = 0
        progress.has_readers = True

    def ready(self) -> bool:
        """Say whether there is one, or none to come."""
        if not self._found:
            self._found.extend(self._progress.calls_from(self._seen))
            self._seen += len(self._found)
        return bool(self._found) or self._progress.ended

    def take(self) -> Reader | End:
        """Give a reader for it."""
        progress = self._progress
        if self._found:
            return self._make_reader(CallProgress(self._found.popleft(), progress))
        if (failure := progress.failure) is not None:
            raise failure
        if (event := progress.reported) is not None:
            raise stream_failure(event)
        return End.END


def _found(call: Call, path: JsonPath) -> tuple[Any, Any]:
    """Give the container of a value and the value; PENDING where there is none."""
    container = value_at(call.partial, path[:-1])
    return container, value_at(container, path[-1:])


def _not_there(progress: CallProgress, path: JsonPath, wanted: str) -> BaseException:
    if progress.stage(path) == "never":
        return unavailable(progress, path)
    return wrong_kind(progress, path, value_at(progress.call.partial, path), wanted)


def _fits(value: object, type_: type) -> bool:
    """Say whether a value is of a type as JSON sees it: true is no number, 1 is a float."""
    if isinstance(value, bool):
        return type_ is bool
    return isinstance(value, type_) or (type_ is float and isinstance(value, int))


def _are_same(one: list[Any], other: list[Any]) -> bool:
    """Compare what is written, for in Python 1 equals True."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
