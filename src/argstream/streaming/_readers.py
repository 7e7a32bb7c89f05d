"""Readers of single calls: wait for an argument while the call is being written.

``docs/streaming.md`` has an example. There is no queue. A reader reads from the call itself, and
each step of ``text`` returns all text since the last one. Items are fetched only while a reader
waits.

``ArgumentUnavailableError`` is raised as soon as it is certain that a value cannot arrive, or that
the call is malformed, truncated or closed. The message lists what did arrive. Settled values stay
available. Only a call that is ``reinterpreted`` at its end can have values that differ from those
read before. As soon as its text is ambiguous, none of its values are settled.

If the provider reports an error or closes the connection, ``live_calls()`` raises ``StreamError``
after the last call. If the source itself raises, readers of missing values raise that exception.

A loop over the events gets all of them: ``events.live_call(call_id)`` returns a reader, and events
fetched for it are kept for the loop. Use a stream in one thread, or in one event loop.
"""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from argstream.assembly import Call
from argstream.assembly._call import CallVerdict
from argstream.errors import UsageError
from argstream.events import ArgumentsError
from argstream.history import CallKind
from argstream.jsonstream import JsonPath
from argstream.providers._deltas import FREE_TEXT_KINDS
from argstream.streaming._pump import (
    AllArguments,
    Argument,
    Awaited,
    CallProgress,
    End,
    FreeTextPieces,
    Items,
    NextCall,
    Pump,
    StringPieces,
)

if TYPE_CHECKING:
    from argstream.streaming._async_pump import AsyncPump  # which loads asyncio

Value = TypeVar("Value")

_TYPES: Final = (str, int, float, bool, dict, list)


class _CallReader:
    """Base class of the sync and async readers."""

    def __init__(self, progress: CallProgress) -> None:
        self._progress = progress

    @property
    def call(self) -> Call:
        """The call, which is updated while it is written."""
        return self._progress.call

    @property
    def id(self) -> str:
        """The call ID. The result of the call must have the same ID."""
        return self._progress.call.id

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self._progress.call.name

    @property
    def kind(self) -> CallKind:
        """The kind of the call."""
        return self._progress.call.kind

    @property
    def verdict(self) -> CallVerdict:
        """The verdict, or ``open`` while the call is written."""
        return self._progress.call.verdict

    @property
    def error(self) -> ArgumentsError | None:
        """Why the call is not valid, or None if it is valid or open."""
        return self._progress.call.error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self.id} {self.verdict}>"

    def _argument(self, path: JsonPath, type_: type | None) -> Argument:
        if type_ is not None and type_ not in _TYPES:
            known = ", ".join(known.__name__ for known in _TYPES)
            raise UsageError(f"type must be one of {known}, not {type_!r}")
        return Argument(self._progress, self._checked(path, "argument"), type_)

    def _text(self, path: JsonPath) -> StringPieces | FreeTextPieces:
        if not path and self.kind in FREE_TEXT_KINDS:
            return FreeTextPieces(self._progress)
        return StringPieces(self._progress, self._checked(path, "text"))

    def _items(self, path: JsonPath) -> Items:
        return Items(self._progress, self._checked(path, "items"))

    def _checked(self, path: JsonPath, method: str) -> JsonPath:
        if self.kind in FREE_TEXT_KINDS:
            raise UsageError(
                f"{self.name!r} takes free text and has no arguments. Use text() without a path"
            )
        if not path:
            raise UsageError(f'{method}() needs a path, such as {method}("edits", 0, "path")')
        for key in path:
            if isinstance(key, bool) or not isinstance(key, str | int):
                raise UsageError(
                    f"a path must consist of keys (str) and indexes (int), not {key!r}"
                )
            if isinstance(key, int) and key < 0:
                raise UsageError(f"an index must not be negative: {key}. The array may still grow")
        return path


class CallReader(_CallReader):
    """Reads one call of a sync stream while it is written.

    Each method waits for its value, and fetches from the source for all readers of the stream. Use
    all readers of a stream in one thread.
    """

    def __init__(self, progress: CallProgress, pump: Pump) -> None:
        super().__init__(progress)
        self._pump = pump

    @overload
    def argument(self, *path: str | int) -> Any: ...
    @overload
    def argument(self, *path: str | int, type: type[Value]) -> Value: ...
    def argument(self, *path: str | int, type: type | None = None) -> Any:
        """Return the value at this path as soon as it is settled, while the rest is being written.

        With ``type`` (str, int, float, bool, dict or list) it must be of this type. The value is
        final, but the call may still become invalid. Copy the value before you change it.

        Raises ``ArgumentUnavailableError`` as soon as it is certain that there is no such value.
        """
        return self._pump.value_of(self._argument(path, type))

    def text(self, *path: str | int) -> Iterator[str]:
        """Iterate over the string at this path while it grows, to its closing quote.

        Each step returns all text since the last one. After the text of a truncated string,
        ``ArgumentUnavailableError`` is raised. Without a path, iterate over the text of a call
        without JSON (the kinds ``custom`` and ``code``).
        """
        return _Iteration(self._text(path), self._pump)

    def items(self, *path: str | int) -> Iterator[Any]:
        """Iterate over the items of the array at this path, each when it is complete.

        After the items of a truncated array, ``ArgumentUnavailableError`` is raised.
        """
        return _Iteration(self._items(path), self._pump)

    def arguments(self) -> dict[str, Any] | str:
        """Return all arguments when the call is complete and may be run.

        For the kinds ``custom`` and ``code`` they are a str. Raises ``ArgumentUnavailableError``
        with the verdict if the call is not complete.
        """
        return self._pump.value_of(AllArguments(self._progress))


class AsyncCallReader(_CallReader):
    """Reads one call of an async stream while it is written.

    Any number of tasks can read calls, also the same one. Cancelling a task, for instance by a
    timeout, does not affect the others, and the value can be read again.
    """

    def __init__(self, progress: CallProgress, pump: "AsyncPump") -> None:
        super().__init__(progress)
        self._pump = pump

    @overload
    async def argument(self, *path: str | int) -> Any: ...
    @overload
    async def argument(self, *path: str | int, type: type[Value]) -> Value: ...
    async def argument(self, *path: str | int, type: type | None = None) -> Any:
        """Return the value at this path as soon as it is settled: see ``CallReader.argument``."""
        return await self._pump.value_of(self._argument(path, type))

    def text(self, *path: str | int) -> AsyncIterator[str]:
        """Iterate over the string at this path while it grows: see ``CallReader.text``."""
        return _AsyncIteration(self._text(path), self._pump)

    def items(self, *path: str | int) -> AsyncIterator[Any]:
        """Iterate over the items of the array at this path: see ``CallReader.items``."""
        return _AsyncIteration(self._items(path), self._pump)

    async def arguments(self) -> dict[str, Any] | str:
        """Return all arguments when the call is complete: see ``CallReader.arguments``."""
        return await self._pump.value_of(AllArguments(self._progress))


def live_calls(pump: Pump) -> Iterator[CallReader]:
    return _Iteration(NextCall(pump.progress, lambda call: CallReader(call, pump)), pump)


def live_calls_async(pump: "AsyncPump") -> AsyncIterator[AsyncCallReader]:
    return _AsyncIteration(NextCall(pump.progress, lambda call: AsyncCallReader(call, pump)), pump)


class _Iteration(Iterator[Value]):
    """An iterator that continues after an error or a timeout. A generator would be closed."""

    def __init__(self, awaited: Awaited[Value | End], pump: Pump) -> None:
        self._awaited = awaited
        self._pump = pump

    def __next__(self) -> Value:
        found = self._pump.value_of(self._awaited)
        if isinstance(found, End):
            raise StopIteration
        return found


class _AsyncIteration(AsyncIterator[Value]):
    def __init__(self, awaited: Awaited[Value | End], pump: "AsyncPump") -> None:
        self._awaited = awaited
        self._pump = pump

    async def __anext__(self) -> Value:
        found = await self._pump.value_of(self._awaited)
        if isinstance(found, End):
            raise StopAsyncIteration
        return found
