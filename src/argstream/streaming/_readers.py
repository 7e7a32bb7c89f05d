r"""Readers of single calls: ask for an argument, and wait for the answer.

::

    async with stream(source) as events:
        async for call in events.live_calls():                 # as soon as a call starts
            if call.name == "write":
                path = await call.argument("path", type=str)   # settled, though the call goes on
                async for piece in call.text("content"):       # grows on the screen
                    editor.append(path, piece)
            elif call.name == "edit":
                async for edit in call.items("edits"):         # each when it is whole
                    preview(edit)
            run(call.name, await call.arguments())             # complete, or an error

With a sync source the same names are there without ``await``:

>>> from argstream import stream
>>> head = '{"choices": [{"delta": {"tool_calls": [{"index": 0, '
>>> chunks = [
...     head + r'"id": "c1", "function": {"name": "write", "arguments": "{\"path\": \"a.p"}}]}}]}',
...     head + r'"function": {"arguments": "y\", \"content\": \"import"}}]}}]}',
...     head + r'"function": {"arguments": " os\"}"}}]}}]}',
...     '{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}',
... ]
>>> for call in stream(chunks).live_calls():
...     print(call.name, call.argument("path"), call.verdict)
...     print(list(call.text("content")), call.verdict)
...     print(call.arguments(), call.verdict)
write a.py open
['import', ' os'] open
{'path': 'a.py', 'content': 'import os'} complete
>>> call.argument("mode")
Traceback (most recent call last):
argstream.errors.ArgumentUnavailableError: 'mode' of 'write' did not come: it has 'path', 'content'

Nothing is queued. A reader looks into the value that the call has anyway, and a step of ``text``
returns all that has come since the last one. Items are fetched only while a reader waits.

``ArgumentUnavailableError`` is raised as soon as it is certain that a value cannot come, or that
the call is malformed, cut off or closed. Its message says what did come. Values that have settled
stay available. Only a call that is ``reinterpreted`` at its end may have other values than before;
as soon as its text may be meant in another way, nothing of it is settled.

If the provider reports an error, or hangs up, ``live_calls()`` raises ``StreamError`` after the
last call. If the source itself raises, readers that miss something get that exception, unchanged.

A loop over the events gets all of them: ``events.live_call(call_id)`` returns a reader, and what is
fetched for it is kept for the loop. Use a stream in one thread, or in one event loop.
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
    Argument,
    CallProgress,
    End,
    FreeTextPieces,
    Items,
    NextCall,
    Pump,
    Question,
    StringPieces,
    Whole,
)

if TYPE_CHECKING:
    from argstream.streaming._async_pump import AsyncPump  # which loads asyncio

Value = TypeVar("Value")

_TYPES: Final = (str, int, float, bool, dict, list)


class _CallReader:
    """The state of the call, and the questions that can be asked about it."""

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
        """Why the call is not valid; None if it is valid or open."""
        return self._progress.call.error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self.id} {self.verdict}>"

    def _argument(self, path: JsonPath, type_: type | None) -> Argument:
        if type_ is not None and type_ not in _TYPES:
            known = ", ".join(known.__name__ for known in _TYPES)
            raise UsageError(f"type must be one of {known}, not {type_!r}: JSON has no other")
        return Argument(self._progress, self._checked(path, "argument"), type_)

    def _text(self, path: JsonPath) -> StringPieces | FreeTextPieces:
        if not path and self.kind in FREE_TEXT_KINDS:
            return FreeTextPieces(self._progress)
        return StringPieces(self._progress, self._checked(path, "text"))

    def _items(self, path: JsonPath) -> Items:
        return Items(self._progress, self._checked(path, "items"))

    def _checked(self, path: JsonPath, method: str) -> JsonPath:
        """Reject paths that can never work, whatever the model writes."""
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

    def __init__(self, progress: CallProgress, pump: Pump) -> None:
        super().__init__(progress)
        self._pump = pump

    @overload
    def argument(self, *path: str | int) -> Any: ...
    @overload
    def argument(self, *path: str | int, type: type[Value]) -> Value: ...
    def argument(self, *path: str | int, type: type | None = None) -> Any:
        """Return the value at this path as soon as it is settled, while the rest is being written.

        With ``type`` (str, int, float, bool, dict or list) it must be of this type. What is settled
        is what the model wrote; whether the call will be complete is another question. The value is
        the call's own: copy it before you change it.

        Raises ``ArgumentUnavailableError`` as soon as it is certain that there is no such value.
        """
        return self._pump.answer(self._argument(path, type))

    def text(self, *path: str | int) -> Iterator[str]:
        """Iterate over the string at this path while it grows, to its closing quote.

        Each step gives all that has come since the last. A string that is cut off is given as far
        as it came; then ``ArgumentUnavailableError`` is raised. Without a path this is the text of
        a call that has no JSON (the kinds ``custom`` and ``code``).
        """
        return _Iteration(self._text(path), self._pump)

    def items(self, *path: str | int) -> Iterator[Any]:
        """Iterate over the items of the array at this path, each when it is whole.

        After those of an array that is cut off ``ArgumentUnavailableError`` is raised.
        """
        return _Iteration(self._items(path), self._pump)

    def arguments(self) -> dict[str, Any] | str:
        """Return all arguments when the call is complete and may be run.

        For the kinds ``custom`` and ``code`` they are a str. Raises ``ArgumentUnavailableError``
        with the verdict if the call is not complete.
        """
        return self._pump.answer(Whole(self._progress))


class AsyncCallReader(_CallReader):
    """Reads one call of an async stream while it is written.

    Any number of tasks may read, the same call or others. To cancel one of them, by a timeout for
    instance, harms nobody: what it waited for can be asked for again.
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
        return await self._pump.answer(self._argument(path, type))

    def text(self, *path: str | int) -> AsyncIterator[str]:
        """Iterate over the string at this path while it grows: see ``CallReader.text``."""
        return _AsyncIteration(self._text(path), self._pump)

    def items(self, *path: str | int) -> AsyncIterator[Any]:
        """Iterate over the items of the array at this path: see ``CallReader.items``."""
        return _AsyncIteration(self._items(path), self._pump)

    async def arguments(self) -> dict[str, Any] | str:
        """Return all arguments when the call is complete: see ``CallReader.arguments``."""
        return await self._pump.answer(Whole(self._progress))


def live_calls(pump: Pump) -> Iterator[CallReader]:
    return _Iteration(NextCall(pump.progress, lambda call: CallReader(call, pump)), pump)


def live_calls_async(pump: "AsyncPump") -> AsyncIterator[AsyncCallReader]:
    return _AsyncIteration(NextCall(pump.progress, lambda call: AsyncCallReader(call, pump)), pump)


class _Iteration(Iterator[Value]):
    """Asks one question repeatedly. Not a generator, so no error or timeout ends it."""

    def __init__(self, question: Question[Value | End], pump: Pump) -> None:
        self._question = question
        self._pump = pump

    def __next__(self) -> Value:
        found = self._pump.answer(self._question)
        if isinstance(found, End):
            raise StopIteration
        return found


class _AsyncIteration(AsyncIterator[Value]):
    def __init__(self, question: Question[Value | End], pump: "AsyncPump") -> None:
        self._question = question
        self._pump = pump

    async def __anext__(self) -> Value:
        found = await self._pump.answer(self._question)
        if isinstance(found, End):
            raise StopAsyncIteration
        return found
