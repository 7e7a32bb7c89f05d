"""``stream()``: any kind of source → events."""

from collections.abc import AsyncIterator, Collection, Generator, Iterable, Iterator
from contextlib import AsyncExitStack, suppress
from types import AsyncGeneratorType, TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, overload

from argstream.assembly import Assembler, Call, Numbering, Quirk, StopOn
from argstream.checks import Check, OnAsk
from argstream.errors import UsageError
from argstream.events import Event, Usage
from argstream.jsonstream import Limits
from argstream.providers import ProtocolName
from argstream.streaming._input import (
    AsyncSource,
    InputDecoder,
    Source,
    awaited,
    close_async_source,
    close_source,
    is_async,
    items,
    open_async_items,
)
from argstream.streaming._pump import OUTCOMES, CallProgress, Pump, StreamProgress, stream_failure
from argstream.streaming._readers import AsyncCallReader, CallReader, live_calls, live_calls_async

if TYPE_CHECKING:
    from argstream.policy import Policy


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
    """Read a model's turn while it is written, from any kind of source.

    That is: an SDK's stream (of anthropic, openai, google-genai, boto3, LangChain, the Claude Agent
    SDK …; entered or not), its events, dicts, the bytes or lines of a response, a file, a
    recording, or the HTTP response itself (of httpx, requests, aiohttp, urllib). A sync source
    gives an iterator, an async source an async iterator. With httpx's async client give
    ``response.aiter_bytes()``, so that type checkers see which one it is.

    The protocol is found out from the first payload unless ``protocol`` names it. ``quirks`` and
    ``after`` are those of ``Assembler``.

    With ``tools`` a call is checked by its tool's schema while it is written, and ``rejected`` at
    the first character after which it cannot be right; so is a call to a tool that is not among
    them. They may be as you give them to a provider, ``ToolSpec``, pydantic models or functions.
    With a ``policy``, its rules are applied to each argument as soon as it is complete. If the
    policy denies a call and no other call is being written, the source is closed and the turn ends
    as ``rejected``. ``stop_on`` changes that: ``rejected`` also stops for a call that violates its
    schema, ``never`` reads on.

    ``on_ask`` is required if the policy can answer ``ask``, its default action, because a stream
    has no approver. ``deny`` rejects the call as early as a denial would. ``report``
    completes it. ``ToolArgsCompleted.policy_decision`` has the policy's answer.

    To read many streams, make the ``check`` once with ``make_check`` and pass that instead.

    Bad input never raises: it becomes an event, ``StreamFailed`` if the stream as a whole failed
    (see ``raise_for_failure``). An exception of the source is raised unchanged after every open
    call has its verdict.

    A loop that is left early closes the source when nothing refers to the stream any more; an
    async source is closed in a task. To have it closed at a certain point, use ``with`` or
    ``async with``, or close the stream.

    >>> [event.type for event in stream([b'data: {"type": "message_start", "message": {}}'])]
    ['stream_failed']
    """
    if tools is not None or policy is not None or on_ask is not None:
        if check is not None:
            raise UsageError("pass either check= or tools=, policy= and on_ask=, not both")
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

    def __init__(self, source: object, intake: InputDecoder) -> None:
        self._source = source
        self._intake = intake
        self._progress = StreamProgress(intake.assembler.calls_from, intake.assembler.abort)

    def raise_for_failure(self) -> None:
        """Raise ``StreamError`` if the stream has failed, with the code and message of the event.

        A provider's error, a stream that was cut off and input that is not a provider's stream do
        not raise by themselves. They are ``StreamFailed`` events. Call this after the loop if you
        do not match that event. It covers what has been read so far, and returns None if there was
        no failure. A failure that is followed by ``RunCompleted`` does not count.

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
        """All calls so far, in order; each is live."""
        return self._intake.assembler.calls

    @property
    def numbering(self) -> Numbering:
        """The numbers used so far. Pass it as ``after`` to the stream of the next turn."""
        return self._intake.assembler.numbering

    @property
    def usage(self) -> Usage:
        """The usage that the provider has reported so far, summed over all turns.

        It is known also for a turn that was cut off, failed or closed early, for which no
        ``TurnCompleted`` comes. Counts that were not reported are None.
        """
        return self._intake.assembler.usage

    @property
    def protocol(self) -> str:
        """Which protocol is being read; ``auto`` until that is known."""
        return self._intake.assembler.protocol


class EventStream(_Reading, Iterator[Event]):
    """The events of one stream, and its calls so far. Use ``with`` or ``close()`` to end early."""

    def __init__(self, source: object, intake: InputDecoder) -> None:
        super().__init__(source, intake)
        self._pump = Pump(_read(source, intake, self._progress), self._progress)
        self._events = self._pump.events()

    def __iter__(self) -> Iterator[Event]:  # noqa: PYI034 - not self: a call less for each event
        return self._events

    def __next__(self) -> Event:
        return next(self._events)

    if not TYPE_CHECKING:  # type checkers already report this

        def __aiter__(self) -> NoReturn:
            raise TypeError('the source of this stream is not async: use "for", not "async for"')

    def live_calls(self) -> Iterator[CallReader]:
        """Iterate over the calls, each as soon as it starts, to read its arguments as they come.

        Those that have started before are given, too. What the model says besides is passed over,
        unless a loop over the events has begun: then it is kept for that.

        If the stream fails, by an error of the provider for instance, all calls that came are
        given; then ``StreamError`` is raised, unless that was told to a loop before.
        """
        return live_calls(self._pump)

    def live_call(self, call_id: str) -> CallReader:
        """Return a reader for a call that has started, for use in a loop over the events.

        What is fetched for it is kept for the loop, which gets every event once. A loop that was
        left by ``break`` may be taken up again, so for that one, too, everything is kept: if you
        do not mean to, read long calls by ``live_calls()``, without a loop over the events.
        """
        progress = self._pump.progress
        return CallReader(CallProgress(progress.named(call_id), progress), self._pump)

    def close(self) -> None:
        """Stop reading, end every open call as aborted, and close the source."""
        self._events.close()
        self._pump.close()
        _abandon(self._source, self._intake)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _read(
    source: object, intake: InputDecoder, progress: StreamProgress
) -> Generator[list[Event], None, None]:
    last: list[Event] = []  # those with which reading was stopped
    try:
        try:
            with items(source) as found:
                for item in found:
                    if events := intake.take(item):
                        for event in events:
                            if type(event) in OUTCOMES:  # hardly ever
                                progress.note(event)
                        if intake.assembler.stopped:
                            last = events
                            break
                        try:
                            yield events
                        except GeneratorExit:
                            intake.assembler.abort()  # whatever the source says to being closed
                            raise
            if last:
                _abandon(source, intake)  # before anybody is told: each moment costs
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
        with suppress(Exception):  # what ends the stream is what matters
            _abandon(source, intake)


def _abandon(source: object, intake: InputDecoder) -> None:
    """Close a source that was not read to its end, once."""
    if intake.abort():
        close_source(source)


class AsyncEventStream(_Reading, AsyncIterator[Event]):
    """The events of one async stream. Use ``async with`` or ``aclose()`` to end early."""

    def __init__(self, source: object, intake: InputDecoder) -> None:
        from argstream.streaming._async_pump import AsyncPump

        super().__init__(source, intake)
        batches = _AsyncBatches(source, intake, self._progress)
        self._pump = AsyncPump(batches, self._progress)
        self._events = self._pump.events()

    def __aiter__(self) -> AsyncIterator[Event]:  # noqa: PYI034 - as above
        return self._events

    async def __anext__(self) -> Event:
        return await anext(self._events)

    if not TYPE_CHECKING:  # type checkers already report this

        def __iter__(self) -> NoReturn:
            raise TypeError('the source of this stream is async: use "async for", not "for"')

    def live_calls(self) -> AsyncIterator[AsyncCallReader]:
        """Iterate over the calls, each as soon as it starts: see ``EventStream.live_calls``.

        Tasks may read several calls at once, and be cancelled. This needs asyncio: a task of its
        own fetches for all of them until the stream is over or closed, so use ``async with``.

        A loop over the events that began before fetches itself until a reader waits; then this task
        goes on. A source that must stay in one task, since it holds a cancel scope, a time limit or
        a context variable while it gives items, does not bear that. So call this before such a
        loop begins, also if only ``live_call`` is used.
        """
        self._pump.expect_readers()
        return live_calls_async(self._pump)

    def live_call(self, call_id: str) -> AsyncCallReader:
        """Return a reader for a call that has started: see ``EventStream.live_call``.

        See ``live_calls`` for what it does to the source.
        """
        progress = self._pump.progress
        return AsyncCallReader(CallProgress(progress.named(call_id), progress), self._pump)

    async def aclose(self) -> None:
        """Stop reading, end every open call as aborted, and close the source.

        A loop in another task ends, and so does all waiting.
        """
        await self._pump.close()
        self._events.stop()
        await _abandon_async(self._source, self._intake)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class _AsyncBatches:
    """Reads an async source and returns the events of each item.

    Not an async generator: see ``_async_pump``.
    """

    def __init__(self, source: object, intake: InputDecoder, progress: StreamProgress) -> None:
        self._source = source
        self._intake = intake
        self._progress = progress
        self._stack = AsyncExitStack()  # contexts of the source that were entered
        self._items: AsyncIterator[object] | None = None
        self._has_begun = False
        self._is_over = False
        self._error: Exception | None = None  # raised after the last events
        self.is_running = False  # the source is being read or closed at the moment

    async def __anext__(self) -> list[Event]:
        self.is_running = True
        try:
            if self._is_over:
                error, self._error = self._error, None
                raise error or StopAsyncIteration
            intake, items = self._intake, self._items
            if items is None:
                self._has_begun = True
                self._source = await awaited(self._source)
                items = self._items = aiter(await open_async_items(self._source, self._stack))
            while True:
                try:
                    item = await items.__anext__()
                except StopAsyncIteration:
                    return await self._end()
                if events := intake.take(item):
                    for event in events:
                        if type(event) in OUTCOMES:  # hardly ever
                            self._progress.note(event)
                    return await self._stop(events) if intake.assembler.stopped else events
                if intake.assembler.closed:  # by another task, while the source goes on
                    self._is_over = True
                    await self._close_source()
                    raise StopAsyncIteration
        except GeneratorExit:
            raise  # this coroutine is being closed: it must not await anything
        except BaseException as error:
            if self._is_over:
                raise
            return await self._fail(error)
        finally:
            self.is_running = False

    async def aclose(self) -> None:
        """Leave the source and close it, if it was opened.

        Raises what the contexts of the source raise when they are left.
        """
        if self.is_running:
            return  # called by the source while it is read: the stream ends after the current item
        was_over, self._is_over = self._is_over, True
        if was_over or not self._has_begun:
            return
        self._intake.assembler.abort()  # whatever the source raises when it is closed
        self.is_running = True
        try:
            await self._close_source(GeneratorExit())
        finally:
            self.is_running = False

    async def _end(self) -> list[Event]:
        """Leave a source that has no more items, and return the last events."""
        self._is_over = True
        try:
            await self._leave()
        except Exception as error:  # noqa: BLE001 - it is raised after the last events
            return await self._interrupt(error)
        return self._close()

    async def _stop(self, events: list[Event]) -> list[Event]:
        """Close the source because a call was rejected, then return the events that say so."""
        self._is_over = True
        try:
            await self._leave()
            await _abandon_async(self._source, self._intake)
        except Exception as error:  # noqa: BLE001 - it is raised after the last events
            self._progress.fail(error)
            self._error = error
        return events

    async def _fail(self, error: BaseException) -> list[Event]:
        """Leave a source that raised, and return the verdicts of the open calls."""
        self._is_over = True
        try:
            is_suppressed = await self._leave(error)
        except Exception as another:  # noqa: BLE001 - it is raised in place of the first
            return await self._interrupt(another)
        if is_suppressed:
            return self._close()
        if isinstance(error, Exception):
            return await self._interrupt(error)
        await self._abandon()
        raise error

    async def _interrupt(self, error: Exception) -> list[Event]:
        """Return the verdicts of the open calls. The error is raised after them."""
        self._progress.fail(error)
        events = self._intake.interrupt(error)
        await self._abandon()
        if not events:
            raise error
        self._error = error
        return events

    def _close(self) -> list[Event]:
        events = self._intake.close()
        if not events:
            raise StopAsyncIteration
        for event in events:
            self._progress.note(event)
        return events

    async def _leave(self, error: BaseException | None = None) -> bool:
        """Leave the contexts of the source, and return True if they suppress the error."""
        items, self._items = self._items, None
        stack = self._stack.pop_all()
        try:
            if isinstance(items, AsyncGeneratorType) and items is not self._source:
                with suppress(Exception):  # what ends the stream is what matters
                    await items.aclose()
        finally:
            traceback = None if error is None else error.__traceback__
            kind = None if error is None else type(error)
            is_suppressed = await stack.__aexit__(kind, error, traceback)
        return bool(is_suppressed)

    async def _close_source(self, error: BaseException | None = None) -> None:
        try:
            await self._leave(error)
        finally:
            await self._abandon()

    async def _abandon(self) -> None:
        with suppress(Exception):  # what ends the stream is what matters
            await _abandon_async(self._source, self._intake)


async def _abandon_async(source: object, intake: InputDecoder) -> None:
    if intake.abort():
        await close_async_source(source)
