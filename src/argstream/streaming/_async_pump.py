"""Fetches items for the readers of an async stream, in one task.

Readers cannot fetch as they do in ``_pump``. They may be cancelled, and cancelling a task that
waits for an async generator ends the generator. So one task fetches, from the first time that a
reader waits until the stream ends. A loop over the events of a stream without readers fetches
itself. It needs no task and no asyncio.

These are plain classes, not async generators, because Python closes abandoned generators in
separate tasks, and all at once when the event loop ends. Generators that close each other then
fail. ``AsyncPump.__del__`` closes the source in one task instead.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import AsyncExitStack, suppress
from functools import partial
from types import AsyncGeneratorType
from typing import Any, TypeVar

from argstream.errors import UsageError
from argstream.events import Event
from argstream.streaming._input import (
    InputDecoder,
    awaited,
    close_async_source,
    open_async_items,
)
from argstream.streaming._pump import OUTCOMES, Awaited, StreamProgress

Value = TypeVar("Value")


class AsyncBatches:
    """Reads an async source and returns the events of each item.

    Not an async generator: see above.
    """

    def __init__(self, source: object, intake: InputDecoder, progress: StreamProgress) -> None:
        self._source = source
        self._intake = intake
        self._progress = progress
        # Of the source. Most have none, and a stack takes 800 bytes of each open stream.
        self._contexts: AsyncExitStack | None = None
        self._items: AsyncIterator[object] | None = None
        self._has_begun = False
        self._is_over = False
        self._error: Exception | None = None  # raised after the last events
        self.is_running: bool = False  # the source is being read or closed at the moment

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
                items = self._items = aiter(await open_async_items(self._source, self._enter))
            while True:
                try:
                    item = await items.__anext__()
                except StopAsyncIteration:
                    return await self._finish()
                if events := intake.feed(item):
                    for event in events:
                        if type(event) in OUTCOMES:  # rare
                            self._progress.note(event)
                    return await self._stop(events) if intake.assembler.stopped else events
                if intake.assembler.closed:  # by another task
                    self._is_over = True
                    await self._close_source()
                    raise StopAsyncIteration
        except GeneratorExit:
            raise  # this coroutine is being closed: it must not await anything
        except BaseException as error:
            if self._is_over:
                raise
            return await self._finish(error)
        finally:
            self.is_running = False

    async def aclose(self) -> None:
        """Leave the source and close it, if it was opened.

        Exceptions of the source's contexts are raised.
        """
        if self.is_running:
            return  # called by the source while it is read: the stream ends after the current item
        was_over, self._is_over = self._is_over, True
        if was_over or not self._has_begun:
            return
        self._intake.assembler.abort()  # even if closing the source fails
        self.is_running = True
        try:
            await self._close_source(GeneratorExit())
        finally:
            self.is_running = False

    async def abandon(self) -> None:
        """Close a source that was not read to its end, once."""
        if self._intake.abort():
            await close_async_source(self._source)

    async def _enter(self, context: Any) -> object:
        self._contexts = self._contexts or AsyncExitStack()
        return await self._contexts.enter_async_context(context)

    async def _stop(self, events: list[Event]) -> list[Event]:
        """Close the source because a call was rejected, then return the last events."""
        self._is_over = True
        try:
            await self._leave()
            await self.abandon()
        except Exception as error:  # noqa: BLE001 - it is raised after the last events
            self._progress.fail(error)
            self._error = error
        return events

    async def _finish(self, error: BaseException | None = None) -> list[Event]:
        """Leave a source that has ended or raised, and return the last events."""
        self._is_over = True
        try:
            is_suppressed = await self._leave(error)
        except Exception as another:  # noqa: BLE001 - it is raised in place of the first
            return await self._interrupt(another)
        if error is None or is_suppressed:
            events = self._intake.close()
            if not events:
                raise StopAsyncIteration
            for event in events:
                self._progress.note(event)
            return events
        if isinstance(error, Exception):
            return await self._interrupt(error)
        await self._abandon_quietly()
        raise error

    async def _interrupt(self, error: Exception) -> list[Event]:
        """Return the verdicts of the open calls. The error is raised after them."""
        self._progress.fail(error)
        events = self._intake.interrupt(error)
        await self._abandon_quietly()
        if not events:
            raise error
        self._error = error
        return events

    async def _leave(self, error: BaseException | None = None) -> bool:
        """Leave the contexts of the source, and return True if they suppress the error."""
        items, self._items = self._items, None
        try:
            if isinstance(items, AsyncGeneratorType) and items is not self._source:
                with suppress(Exception):  # do not hide the reason why the stream ended
                    await items.aclose()
        finally:
            contexts, self._contexts = self._contexts or AsyncExitStack(), None
            kind = None if error is None else type(error)
            traceback = None if error is None else error.__traceback__
            is_suppressed = bool(await contexts.__aexit__(kind, error, traceback))
        return is_suppressed

    async def _close_source(self, error: BaseException | None = None) -> None:
        try:
            await self._leave(error)
        finally:
            await self._abandon_quietly()

    async def _abandon_quietly(self) -> None:
        with suppress(Exception):  # do not hide the reason why the stream ended
            await self.abandon()


class AsyncPump:
    """Fetches in a task while readers wait.

    The stream, its readers and the iterator over its events refer to this object. The task and the
    source do not. When the last reference is gone, the source is closed.
    """

    def __init__(self, batches: AsyncBatches, progress: StreamProgress) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None  # set by the first fetch
        self.progress = progress
        self.work: _Fetching = _Fetching(batches, progress)

    def __del__(self) -> None:
        # Not a weakref.finalize: that would refer to the loop, which may refer to this object.
        if self.loop is not None and not self.progress.ended:  # in any thread
            try:
                self.loop.call_soon_threadsafe(self.work.close_soon, self.loop)
            except RuntimeError:  # the loop is closed, so nothing can be awaited
                self.progress.stop()

    async def value_of(self, awaited: Awaited[Value]) -> Value:
        """Wait until the value is ready. Cancelling this does not affect others."""
        while not awaited.ready():
            await self.wait(awaited.ready)
        return awaited.result()

    async def wait(self, is_ready: Callable[[], bool]) -> None:
        work = self.work
        if work.task is None:
            self.loop = work.start()
        await work.wait(is_ready)


class AsyncEvents(AsyncIterator[Event]):
    """Iterates over all events once, including those that were fetched for a reader."""

    def __init__(self, pump: AsyncPump) -> None:
        self._pump = pump
        self._work = pump.work
        self._batch: Iterator[Event] = iter(())
        self._is_over = False
        self._is_running = False
        self._current_task: Callable[[], asyncio.Task[Any] | None] = lambda: None

    async def __anext__(self) -> Event:
        for event in self._batch:
            return event
        if self._is_over:
            raise StopAsyncIteration
        if self._is_running:
            raise UsageError("another task reads the events of this stream. Read them in one task")
        self._is_running = True
        work = self._work
        try:
            if not work.has_begun:
                work.has_begun = True
                with suppress(RuntimeError):  # another event loop than asyncio's
                    self._pump.loop = loop = asyncio.get_running_loop()
                    # Finding the loop again would cost a system call in Python 3.11.
                    self._current_task = partial(asyncio.current_task, loop)
            while work.is_direct:
                work.fetcher = self._current_task()
                try:
                    batch = await work.batches.__anext__()
                except StopAsyncIteration:
                    work.finish_fetch()
                    work.end()
                    break
                except BaseException as error:
                    if not work.finish_fetch(error):
                        raise
                    break
                if work.waiting or work.interruption:
                    work.finish_fetch()
                work.fetcher = None
                self._batch = iter(batch)
                for event in self._batch:
                    return event
            return await self._next_held()
        except GeneratorExit:
            raise  # this coroutine is being closed: it must not await anything
        except BaseException:
            self._is_over = True
            await work.close()
            raise
        finally:
            self._is_running = False

    def rest_of_batch(self) -> list[Event]:
        """Return the other events of the item that the last event came from."""
        return list(self._batch)

    def stop(self) -> None:
        """End the iteration because the stream was closed. This does not wake a waiting task."""
        if not self._is_running:
            self._is_over = True
            self._batch = iter(())

    async def _next_held(self) -> Event:
        work, progress = self._work, self._pump.progress
        while work.held or not progress.ended:
            if not work.held:
                await self._pump.wait(lambda: bool(work.held))
            while work.held:
                self._batch = iter(work.held.popleft())
                for event in self._batch:
                    return event
        if (failure := progress.failure) is not None:
            raise failure
        raise StopAsyncIteration


_closing: set[asyncio.Task[None]] = set()  # the event loop has only weak references to its tasks


class _Closing(Coroutine[Any, Any, None]):
    """A coroutine that runs even if its task is cancelled before the first step.

    ``asyncio.run`` cancels all tasks when its main task ends, and waits for them. A stream that is
    abandoned just before that must still be closed. A plain coroutine would not start.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._coroutine = coroutine
        self._has_begun = False

    def send(self, value: Any, /) -> Any:
        self._has_begun = True
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error) if self._has_begun else self.send(None)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._coroutine.__await__()


class _Fetching:
    """The state of fetching, which a loop over the events or the task performs."""

    def __init__(self, batches: AsyncBatches, progress: StreamProgress) -> None:
        self.batches = batches
        self.has_begun = False  # a loop over the events has started
        self.held: deque[list[Event]] | None = None  # batches that the task fetched for that loop
        self.is_direct: bool = True  # the loop fetches itself
        self.fetcher: asyncio.Task[Any] | None = None  # the task of the loop while it fetches
        self.waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}  # readers' conditions
        # Set while another task closes the stream during a fetch of the loop. Done after the fetch.
        self.interruption: asyncio.Future[None] | None = None
        self.progress = progress
        self.task: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[None] | None = None  # the task awaits it if no reader waits
        self._closing: asyncio.Lock | None = None

    def start(self) -> asyncio.AbstractEventLoop:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError("the readers of an async stream need asyncio") from None
        self.is_direct = False
        self.task = loop.create_task(self._run(loop), name="argstream reader")
        return loop

    async def wait(self, is_ready: Callable[[], bool]) -> None:
        if self.progress.ended or self.task is None:
            raise AssertionError("a reader still waits after the end of the stream")
        future = _loop_of(self.task).create_future()
        self.waiting[future] = is_ready
        self._wake_task()
        try:
            await future
        finally:
            self.waiting.pop(future, None)

    async def close(self) -> None:
        """Stop fetching, end all waiting, then close the source."""
        task = self.task
        for fetching in (task, self.fetcher):
            if fetching is not None and not fetching.done():
                _loop_of(fetching)
        self.end()
        if task is not None and not task.done():
            if is_first := not task.cancelling():
                task.cancel()
            await asyncio.wait([task])
            if is_first and not task.cancelled():
                task.result()  # raises an error of closing the source
        await self._close_source()

    def close_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close an abandoned stream in a task, and ignore errors."""
        if self.task is not None:
            self.task.cancel()
        else:
            task = loop.create_task(_Closing(self._close_quietly()), name="argstream closer")
            _closing.add(task)
            task.add_done_callback(_closing.discard)

    async def _close_quietly(self) -> None:
        with suppress(Exception):
            await self.close()

    def end(self) -> None:
        self.is_direct = False
        self.progress.stop()
        for future in self.waiting:
            if not future.done():
                future.set_result(None)
        self.waiting.clear()
        self._wake_task()

    def wake(self) -> bool:
        """Wake the readers whose condition is met. Returns True if there were any."""
        answered = [future for future, is_ready in self.waiting.items() if is_ready()]
        for future in answered:
            del self.waiting[future]
            if not future.done():
                future.set_result(None)
        if self.waiting:
            self._wake_task()
        return bool(answered)

    def finish_fetch(self, error: BaseException | None = None) -> bool:
        """End a fetch of a loop. Returns True if another task closes the stream."""
        task, self.fetcher = self.fetcher, None
        self.wake()
        if task is None:
            return False
        if (interruption := self.interruption) is None:
            self._record_cancellation(error, task)
            return False
        if isinstance(error, Exception):
            interruption.set_exception(error)  # an error of closing the source
        else:
            interruption.set_result(None)
        return task.uncancel() == 0

    async def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while not self.progress.ended:
                if not self.waiting or self.batches.is_running:  # by a loop, before the task was
                    self._idle = loop.create_future()
                    await self._idle
                    continue
                batch = await anext(self.batches, None)
                if batch is None:
                    break
                if self.has_begun:
                    self.held = deque() if self.held is None else self.held
                    self.held.append(batch)
                if self.wake():
                    await asyncio.sleep(0)  # lets readers see early values before the next fetch
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            self._record_cancellation(error, task)
        except Exception:
            if self.progress.ended:
                raise  # to the caller of close()
        finally:
            self.end()
            await self._close_source()  # contexts must be left in the task that entered them

    def _record_cancellation(self, error: BaseException | None, task: asyncio.Task[Any]) -> None:
        """Record a cancellation that the source itself raised."""
        if isinstance(error, asyncio.CancelledError) and not task.cancelling():
            self.progress.fail(error)

    async def _close_source(self) -> None:
        """Close the source, and end a loop in another task that waits for it."""
        if self.fetcher is not None:
            await self._interrupt(self.fetcher)
        self._closing = self._closing or asyncio.Lock()
        async with self._closing:
            await self.batches.aclose()

    async def _interrupt(self, fetcher: asyncio.Task[Any]) -> None:
        if fetcher is asyncio.current_task():
            return  # the source itself closes the stream
        if self.interruption is None:
            self.interruption = _loop_of(fetcher).create_future()
            fetcher.cancel()
        await asyncio.wait([self.interruption])
        self.interruption.result()

    def _wake_task(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)


def _loop_of(task: asyncio.Task[Any]) -> asyncio.AbstractEventLoop:
    loop = task.get_loop()
    if loop is not asyncio.get_running_loop():
        raise UsageError("another event loop reads this stream. Read a stream in one event loop")
    return loop
