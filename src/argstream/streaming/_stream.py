"""``stream()``: any kind of source → events, and readers of single calls."""

from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar, overload

from argstream.assembly import Assembler, Call, CallVerdict, Numbering, Quirk, StopOn
from argstream.checks import Check, OnAsk
from argstream.errors import UsageError
from argstream.events import ArgumentsError, Event, Usage
from argstream.history import CallKind
from argstream.jsonstream import JsonPath, Limits
from argstream.providers import ProtocolName
from argstream.providers._deltas import FREE_TEXT_KINDS
from argstream.streaming._input import (
    AsyncSource,
    InputDecoder,
    Source,
    close_source,
    is_async,
    items,
)
from argstream.streaming._pump import (
    OUTCOMES,
    AllArguments,
    Argument,
    Awaited,
    CallProgress,
    End,
    FreeTextPieces,
    Items,
    NextCall,
    Pump,
    StreamProgress,
    StringPieces,
    stream_failure,
)

if TYPE_CHECKING:
    from argstream.policy import Policy
    from argstream.streaming._async_pump import AsyncPump  # which loads asyncio

Value = TypeVar("Value")


@overload
def stream(
    source: AsyncSource,
    protocol: ProtocolName = "auto",
    tools: Iterable[object] | None = None,
    policy: "Policy | None" = None,
    *,
    on_ask: OnAsk | None = None,
    check: Check | None = None,
    quirks: Collection[Quirk] = (),
    stop_on: StopOn = "denied",
    after: Numbering | None = None,
    limits: Limits | None = None,
) -> "AsyncEventStream": ...
@overload
def stream(
    source: Source,
    protocol: ProtocolName = "auto",
    tools: Iterable[object] | None = None,
    policy: "Policy | None" = None,
    *,
    on_ask: OnAsk | None = None,
    check: Check | None = None,
    quirks: Collection[Quirk] = (),
    stop_on: StopOn = "denied",
    after: Numbering | None = None,
    limits: Limits | None = None,
) -> "EventStream": ...
def stream(
    source: Source | AsyncSource,
    protocol: ProtocolName = "auto",
    tools: Iterable[object] | None = None,
    policy: "Policy | None" = None,
    *,
    on_ask: OnAsk | None = None,
    check: Check | None = None,
    quirks: Collection[Quirk] = (),
    stop_on: StopOn = "denied",
    after: Numbering | None = None,
    limits: Limits | None = None,
) -> "EventStream | AsyncEventStream":
    """Return the events of a model's turn while it is written.

    ``source`` is an SDK's stream (of anthropic, openai, LangChain, pydantic-ai …; before or after
    entering its ``with``), its events, dicts, items of ``argstream.feed``, the bytes or lines of a
    response, a file, a recording, or an HTTP response (of httpx, requests, aiohttp, urllib). The
    result is an iterator for a sync source and an async one for an async source. With httpx's async
    client, pass ``response.aiter_bytes()``: type checkers then see that it is async.

    The protocol is detected from the first payload unless ``protocol`` names it. See ``Assembler``
    for ``quirks`` and ``after``.

    With ``tools``, a call is checked against its tool's schema while it is written. It is
    ``rejected`` at the first character after which it cannot be valid, or if its tool is unknown.
    Tools may have a provider's format, or be ``ToolSpec``, pydantic models or functions.
    With a ``policy``, its rules are applied to each argument as soon as it is complete. If the
    policy denies a call and no other call is being written, the source is closed and the turn ends
    as ``rejected``. ``stop_on`` changes that: ``rejected`` also stops for a call that violates its
    schema, ``never`` does not stop.

    ``on_ask`` is required if the policy can answer ``ask`` (the default action of a ``Policy``),
    because a stream has no approver. ``deny`` rejects the call as early as a denial would.
    ``report`` completes it, with the policy's answer in ``ToolArgsCompleted.policy_decision``.

    To read many streams, create the ``check`` once with ``make_check`` and pass it instead.

    Bad input does not raise. It becomes an event: ``ToolArgsInvalid`` for a call, ``StreamFailed``
    for the rest (see ``raise_for_failure``). An exception of the source is raised unchanged after
    every open call has its verdict.

    After an early exit from the loop, the source is closed when nothing refers to the stream any
    more. An async source is closed in a task. To close it at once, use ``with`` or ``async with``,
    or close the stream.

    >>> [event.type for event in stream([b'data: {"type": "message_start", "message": {}}'])]
    ['stream_failed']
    """
    if tools is not None or policy is not None or on_ask is not None:
        if check is not None:
            raise UsageError("pass check= alone, without tools=, policy= and on_ask=")
        check = make_check(tools, policy, on_ask=on_ask)
    assembler = Assembler(
        protocol, quirks=quirks, after=after, limits=limits, check=check, stop_on=stop_on
    )
    intake = InputDecoder(assembler)
    if is_async(source):
        return AsyncEventStream(source, intake)
    return EventStream(source, intake)


def make_check(
    tools: Iterable[object] | None = None,
    policy: "Policy | None" = None,
    *,
    on_ask: OnAsk | None = None,
) -> Check | None:
    """Return the check of calls to these tools under this policy, for use by many streams.

    Schemas are compiled here. Pass the result as ``check`` to ``stream()`` or ``Assembler``. A
    policy that can answer ``ask`` needs ``on_ask``: see ``stream()``. Returns None without tools
    and policy.
    """
    from argstream.streaming._checks import combine_checks

    return combine_checks(tools, policy, on_ask)


class _Reading:
    """What both kinds of stream share."""

    def __init__(self, intake: InputDecoder) -> None:
        self._intake = intake
        self._progress = StreamProgress(intake.assembler)

    def raise_for_failure(self) -> None:
        """Raise ``StreamError`` if the stream has failed, with the code and message of the event.

        A provider's error, a truncated stream and input that is not a provider's stream do not
        raise. They are ``StreamFailed`` events. Call this after the loop if you do not match that
        event. A failure that is followed by ``RunCompleted`` is ignored.

        >>> events = stream([])
        >>> [event.type for event in events]
        ['stream_failed']
        >>> events.raise_for_failure()
        Traceback (most recent call last):
        argstream.errors.StreamError: the stream ended before a message began (empty)
        """
        if (event := self._progress.failed) is not None:
            raise stream_failure(event)

    @property
    def calls(self) -> list[Call]:
        """All calls so far, in order. Open calls are updated while they are written."""
        return self._intake.assembler.calls

    @property
    def numbering(self) -> Numbering:
        """The numbers used so far. Pass it as ``after`` to the stream of the next turn."""
        return self._intake.assembler.numbering

    @property
    def usage(self) -> Usage:
        """The usage that the provider has reported so far, summed over all turns.

        It includes turns without ``TurnCompleted``, which were truncated, failed or closed early.
        Counts that were not reported are None.
        """
        return self._intake.assembler.usage

    @property
    def protocol(self) -> str:
        """The protocol, or ``auto`` until it is detected."""
        return self._intake.assembler.protocol


class EventStream(_Reading, Iterator[Event]):
    """The events of one stream, and its calls so far. Use ``with`` or ``close()`` to end early."""

    def __init__(self, source: object, intake: InputDecoder) -> None:
        super().__init__(intake)
        self._source = source
        self._pump = Pump(_read(source, intake, self._progress), self._progress)
        self._events = self._pump.events()

    def __iter__(self) -> Iterator[Event]:  # noqa: PYI034 - not self: saves a call for each event
        return self._events

    def __next__(self) -> Event:
        return next(self._events)

    if not TYPE_CHECKING:  # type checkers already report this

        def __aiter__(self) -> NoReturn:
            raise TypeError('the source of this stream is not async: use "for", not "async for"')

    def live_calls(self) -> "Iterator[CallReader]":
        """Iterate over the calls, each as soon as it starts, to read its arguments as they arrive.

        Calls that started earlier are included. Events that are fetched are dropped, unless a loop
        over the events has started: then they are kept for the loop.

        If the stream fails, ``StreamError`` is raised after the last call, unless the stream had
        failed before ``live_calls()`` was first called.
        """
        pump = self._pump
        return _Iteration(NextCall(self._progress, lambda call: CallReader(call, pump)), pump)

    def live_call(self, call_id: str) -> "CallReader":
        """Return a reader for a call that has started, for use in a loop over the events.

        Events that are fetched for it are kept for the loop, which gets every event once. They are
        also kept after ``break``, because a loop can be continued. To avoid that, read long calls
        with ``live_calls()``, without a loop over the events.
        """
        return CallReader(self._progress.call_progress(call_id), self._pump)

    def close(self) -> None:
        """Stop reading, end every open call as aborted, and close the source."""
        self._events.close()
        self._pump.close()
        _abandon(self._source, self._intake)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read(
    source: object, intake: InputDecoder, progress: StreamProgress
) -> Generator[list[Event], None, None]:
    last: list[Event] = []  # the events of the item at which reading stopped
    try:
        try:
            with items(source) as found:
                for item in found:
                    if events := intake.feed(item):
                        for event in events:
                            if type(event) in OUTCOMES:  # rare
                                progress.note(event)
                        if intake.assembler.stopped:
                            last = events
                            break
                        try:
                            yield events
                        except GeneratorExit:
                            intake.assembler.abort()  # even if closing the source fails
                            raise
            if last:
                _abandon(source, intake)  # close before yielding: each token costs money
        except Exception:
            if last:
                yield last
            raise
        if last:
            yield last
        elif events := intake.close():
            for event in events:
                progress.note(event)
            yield events
    except Exception as error:
        progress.fail(error)
        if events := intake.interrupt(error):
            yield events
        raise
    finally:
        with suppress(Exception):  # do not hide the reason why the stream ended
            _abandon(source, intake)


def _abandon(source: object, intake: InputDecoder) -> None:
    """Close a source that was not read to its end, once."""
    if intake.abort():
        close_source(source)


class AsyncEventStream(_Reading, AsyncIterator[Event]):
    """The events of one async stream. Use ``async with`` or ``aclose()`` to end early."""

    def __init__(self, source: object, intake: InputDecoder) -> None:
        from argstream.streaming._async_pump import AsyncBatches, AsyncEvents, AsyncPump

        super().__init__(intake)
        self._batches = AsyncBatches(source, intake, self._progress)
        self._pump = AsyncPump(self._batches, self._progress)
        self._events = AsyncEvents(self._pump)
        self.rest_of_batch: Callable[[], list[Event]] = self._events.rest_of_batch

    def __aiter__(self) -> AsyncIterator[Event]:  # noqa: PYI034 - as above
        return self._events

    async def __anext__(self) -> Event:
        return await anext(self._events)

    if not TYPE_CHECKING:  # type checkers already report this

        def __iter__(self) -> NoReturn:
            raise TypeError('the source of this stream is async: use "async for", not "for"')

    def live_calls(self) -> "AsyncIterator[AsyncCallReader]":
        """Iterate over the calls, each as soon as it starts: see ``EventStream.live_calls``.

        Several tasks may read calls at once, and be cancelled. This needs asyncio: one task fetches
        for all of them until the stream ends or is closed, so use ``async with``.

        A loop over the events that started before fetches items itself until a reader waits. Then
        the task takes over. Some sources must stay in one task, because they hold a cancel scope, a
        timeout or a context variable between items. For these, call this method before the loop
        starts, also if you only use ``live_call``.
        """
        pump = self._pump
        if not pump.work.has_begun:  # otherwise the loop fetches until a reader waits
            pump.work.is_direct = False
        calls = NextCall(self._progress, lambda call: AsyncCallReader(call, pump))
        return _AsyncIteration(calls, pump)

    def live_call(self, call_id: str) -> "AsyncCallReader":
        """Return a reader for a call that has started: see ``EventStream.live_call``.

        See ``live_calls`` for sources that must stay in one task.
        """
        return AsyncCallReader(self._progress.call_progress(call_id), self._pump)

    async def aclose(self) -> None:
        """Stop reading, end every open call as aborted, and close the source.

        Loops and readers in other tasks end.
        """
        await self._pump.work.close()
        self._events.stop()
        await self._batches.abandon()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


_TYPES: Final = (str, int, float, bool, dict, list)


class _CallReader:
    """Base class of the sync and async readers.

    There is no queue. A reader reads from the call itself. Only a call that is ``reinterpreted`` at
    its end can have values that differ from those read before. As soon as its text is ambiguous,
    none of its values are settled. If the source itself raises, readers of missing values raise
    that exception.
    """

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
