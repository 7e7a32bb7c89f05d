"""The two faces of a reader: ``CallReader``, and ``AsyncCallReader`` with ``await``."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from argstream.assembly import Call
from argstream.assembly.call import CallVerdict
from argstream.deltas import FREE_TEXT_KINDS
from argstream.errors import UsageError
from argstream.events import ArgumentsError, CallKind
from argstream.jsonstream import JsonPath
from argstream.readers._progress import CallProgress, End
from argstream.readers._pump import Pump
from argstream.readers._questions import (
    Argument,
    FreeText,
    Items,
    NextCall,
    Question,
    Text,
    Whole,
)

if TYPE_CHECKING:
    from argstream.readers._async_pump import AsyncPump  # which loads asyncio

__all__ = ["AsyncCallReader", "CallReader", "live_calls", "live_calls_async"]

Value = TypeVar("Value")

_TYPES: Final = (str, int, float, bool, dict, list)


class _CallReader:
    """What is known of the call now, and the questions that can be asked."""

    __slots__ = ("_progress",)

    def __init__(self, progress: CallProgress) -> None:
        self._progress = progress

    @property
    def call(self) -> Call:
        """The call itself, live."""
        return self._progress.call

    @property
    def id(self) -> str:
        """The call's id, to which its result goes back."""
        return self._progress.call.id

    @property
    def name(self) -> str:
        """The tool's name."""
        return self._progress.call.name

    @property
    def kind(self) -> CallKind:
        """What kind of call it is."""
        return self._progress.call.kind

    @property
    def verdict(self) -> CallVerdict:
        """What has become of the call; ``open`` while it is written."""
        return self._progress.call.verdict

    @property
    def error(self) -> ArgumentsError | None:
        """Why the call is not valid, if it is not and the provider's text told."""
        return self._progress.error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self.id} {self.verdict}>"

    def _argument(self, path: JsonPath, type_: type | None) -> Argument:
        if type_ is not None and type_ not in _TYPES:
            known = ", ".join(known.__name__ for known in _TYPES)
            raise UsageError(f"type must be one of {known}, not {type_!r}: JSON has no other")
        return Argument(self._progress, self._checked(path, "argument"), type_)

    def _text(self, path: JsonPath) -> Text | FreeText:
        if not path and self.kind in FREE_TEXT_KINDS:
            return FreeText(self._progress)
        return Text(self._progress, self._checked(path, "text"))

    def _items(self, path: JsonPath) -> Items:
        return Items(self._progress, self._checked(path, "items"))

    def _whole(self) -> Whole:
        return Whole(self._progress)

    def _checked(self, path: JsonPath, method: str) -> JsonPath:
        """Refuse at once what could never work, whatever the model writes."""
        if self.kind in FREE_TEXT_KINDS:
            raise UsageError(
                f"{self.name!r} has free text and no arguments: use text(), with no path"
            )
        if not path:
            raise UsageError(f'{method}() needs a path, key by key: {method}("edits", 0, "path")')
        for key in path:
            if isinstance(key, bool) or not isinstance(key, str | int):
                raise UsageError(f"a path has keys (str) and indexes (int), not {key!r}")
            if isinstance(key, int) and key < 0:
                raise UsageError(f"the index {key} counts from an end that has not come")
        return path


class CallReader(_CallReader):
    """Reads one call of a sync stream while it is written; each method waits as long as it must.

    Whoever waits fetches from the source, for all readers of the stream. Use them in one thread.
    """

    __slots__ = ("_pump",)

    def __init__(self, progress: CallProgress, pump: Pump) -> None:
        super().__init__(progress)
        self._pump = pump

    @overload
    def argument(self, *path: str | int) -> Any: ...
    @overload
    def argument(self, *path: str | int, type: type[Value]) -> Value: ...
    def argument(self, *path: str | int, type: type | None = None) -> Any:  # noqa: A002 - says it best
        """Give the value at this path as soon as it is settled, while the rest is being written.

        With ``type`` (str, int, float, bool, dict or list) it must be of this type. What is settled
        is what the model wrote; whether the call will be complete is another question. The value is
        the call's own: copy it before you change it.

        Raises ``ArgumentUnavailable`` as soon as it is certain that there is no such value.
        """
        return self._pump.answer(self._argument(path, type))

    def text(self, *path: str | int) -> Iterator[str]:
        """Iterate over the string at this path while it grows, to its closing quote.

        Each step gives all that has come since the last. A string that is cut off is given as far
        as it came; then ``ArgumentUnavailable`` is raised. Without a path this is the text of a
        call that has no JSON (the kinds ``custom`` and ``code``).
        """
        return _Iteration(self._text(path), self._pump)

    def items(self, *path: str | int) -> Iterator[Any]:
        """Iterate over the items of the array at this path, each when it is whole.

        After those of an array that is cut off ``ArgumentUnavailable`` is raised.
        """
        return _Iteration(self._items(path), self._pump)

    def arguments(self) -> dict[str, Any] | str:
        """Give all arguments when the call is complete: then it may be run.

        For the kinds ``custom`` and ``code`` they are a str. Raises ``ArgumentUnavailable`` with
        the verdict if the call is not complete.
        """
        return self._pump.answer(self._whole())


class AsyncCallReader(_CallReader):
    """Reads one call of an async stream while it is written.

    Any number of tasks may read, the same call or others. To cancel one of them, by a timeout for
    instance, harms nobody: what it waited for can be asked for again.
    """

    __slots__ = ("_pump",)

    def __init__(self, progress: CallProgress, pump: "AsyncPump") -> None:
        super().__init__(progress)
        self._pump = pump

    @overload
    async def argument(self, *path: str | int) -> Any: ...
    @overload
    async def argument(self, *path: str | int, type: type[Value]) -> Value: ...
    async def argument(self, *path: str | int, type: type | None = None) -> Any:  # noqa: A002 - says it best
        """Give the value at this path as soon as it is settled: see ``CallReader.argument``."""
        return await self._pump.answer(self._argument(path, type))

    def text(self, *path: str | int) -> AsyncIterator[str]:
        """Iterate over the string at this path while it grows: see ``CallReader.text``."""
        return _AsyncIteration(self._text(path), self._pump)

    def items(self, *path: str | int) -> AsyncIterator[Any]:
        """Iterate over the items of the array at this path: see ``CallReader.items``."""
        return _AsyncIteration(self._items(path), self._pump)

    async def arguments(self) -> dict[str, Any] | str:
        """Give all arguments when the call is complete: see ``CallReader.arguments``."""
        return await self._pump.answer(self._whole())


def live_calls(pump: Pump) -> Iterator[CallReader]:
    """Give a reader for each call, as it starts."""
    return _Iteration(NextCall(pump.progress, lambda call: CallReader(call, pump)), pump)


def live_calls_async(pump: "AsyncPump") -> AsyncIterator[AsyncCallReader]:
    """Give a reader for each call, as it starts."""
    return _AsyncIteration(NextCall(pump.progress, lambda call: AsyncCallReader(call, pump)), pump)


class _Iteration(Iterator[Value]):
    """Asks one question again and again. No generator, so that no error or timeout ends it."""

    __slots__ = ("_pump", "_question")

    def __init__(self, question: Question[Value | End], pump: Pump) -> None:
        self._question = question
        self._pump = pump

    def __next__(self) -> Value:
        found = self._pump.answer(self._question)
        if isinstance(found, End):
            raise StopIteration
        return found


class _AsyncIteration(AsyncIterator[Value]):
    """The same with ``async for``."""

    __slots__ = ("_pump", "_question")

    def __init__(self, question: Question[Value | End], pump: "AsyncPump") -> None:
        self._question = question
        self._pump = pump

    async def __anext__(self) -> Value:
        found = await self._pump.answer(self._question)
        if isinstance(found, End):
            raise StopAsyncIteration
        return found
