"""Who fetches for the readers of an async stream, when several wait: a task of its own.

That whoever waits fetches, as in ``_pump``, would not do: they may be cancelled, and to cancel
someone who waits for an async generator is to end that generator. So a task fetches, one and the
same from the first time that a reader waits to the end of the stream, and the others wait for it.
A loop over the events of a stream without readers needs no task, and no asyncio: it fetches itself.
"""

import weakref
from asyncio import (
    AbstractEventLoop,
    CancelledError,
    Future,
    Lock,
    Task,
    current_task,
    get_running_loop,
    sleep,
    wait,
)
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from types import AsyncGeneratorType
from typing import Any, TypeVar, cast

from argstream.errors import UsageError
from argstream.events import Event
from argstream.readers._progress import Progress
from argstream.readers._questions import Question

__all__ = ["AsyncPump"]

Answer = TypeVar("Answer")


class AsyncPump:
    """Has a task fetch for those who wait.

    The task knows only what it works on, not this. So when neither the stream nor any of its
    readers is left, the task is told to stop, as a generator would be.
    """

    def __init__(self, batches: AsyncGenerator[list[Event], None], progress: Progress) -> None:
        self.progress = progress
        self._work = _Work(batches, progress)

    async def events(self) -> AsyncGenerator[Event, None]:
        """Give every event once, also those that were fetched for a reader in the meantime."""
        progress, work = self.progress, self._work
        held = work.held = deque()
        fetch, running_task = work.batches.__anext__, _task_teller()
        try:
            while work.is_direct:
                work.fetcher = running_task()
                try:
                    batch = await fetch()
                except StopAsyncIteration:
                    work.has_fetched()
                    work.end()
                    break
                except BaseException as error:
                    if not work.has_fetched(error):
                        raise
                    break
                if work.waiting or work.interruption:
                    work.has_fetched()
                work.fetcher = None
                for event in batch:
                    yield event
            while held or not progress.ended:
                if not held:
                    await self._wait(lambda: bool(held))
                while held:
                    for event in held.popleft():
                        yield event
        finally:
            await work.close()
        if (failure := progress.failure) is not None:
            raise failure

    def expect_readers(self) -> None:
        """Have the task fetch from the first item on, unless a loop has begun to."""
        if self._work.held is None:
            self._work.is_direct = False

    async def answer(self, question: Question[Answer]) -> Answer:
        """Wait until the question can be answered. To give up waiting harms nobody."""
        while not question.ready():
            await self._wait(question.ready)
        return question.take()

    async def close(self) -> None:
        """Fetch no more, and end all waiting."""
        await self._work.close()

    async def _wait(self, is_ready: Callable[[], bool]) -> None:
        work = self._work
        if not work.has_task():
            loop, task = work.start()
            weakref.finalize(self, _cancel_soon, loop, task).atexit = False
        await work.wait(is_ready)


def _cancel_soon(loop: AbstractEventLoop, task: Task[None]) -> None:
    """Cancel a task, from whatever thread collects garbage."""
    with suppress(RuntimeError):  # the loop is closed, and has cancelled all its tasks
        loop.call_soon_threadsafe(task.cancel)


def _task_teller() -> Callable[[], Task[Any] | None]:
    """Give what tells which task runs; without asyncio there is none."""
    try:
        get_running_loop()
    except RuntimeError:
        return lambda: None
    return current_task


class _Work:
    """What is fetched, for whom, and who does it: a loop over the events, or the task."""

    def __init__(self, batches: AsyncGenerator[list[Event], None], progress: Progress) -> None:
        self.batches = cast("AsyncGeneratorType[list[Event], None]", batches)
        self.held: deque[list[Event]] | None = None
        """What was fetched for a loop over the events, if there is one."""
        self.is_direct = True
        """Whether such a loop fetches itself."""
        self.fetcher: Task[Any] | None = None
        """The task of such a loop while it fetches."""
        self.waiting: dict[Future[None], Callable[[], bool]] = {}
        """Those who wait for the task, and for what."""
        self.interruption: Future[None] | None = None
        """By somebody who closes the stream while such a loop fetches; done when that is over."""
        self._progress = progress
        self._task: Task[None] | None = None
        self._idle: Future[None] | None = None  # what the task waits at when it is not needed
        self._closing = Lock()

    def has_task(self) -> bool:
        """Say whether there is a task that fetches."""
        return self._task is not None

    def start(self) -> tuple[AbstractEventLoop, Task[None]]:
        """Start the task."""
        try:
            loop = get_running_loop()
        except RuntimeError:
            raise UsageError("the readers of an async stream need asyncio") from None
        self.is_direct = False
        self._task = loop.create_task(self._run(loop), name="argstream reader")
        return loop, self._task

    async def wait(self, is_ready: Callable[[], bool]) -> None:
        """Wait until this is so, or until the end."""
        if self._progress.ended or self._task is None:
            raise AssertionError("at the end of a stream every question has an answer")
        future = _loop_of(self._task).create_future()
        self.waiting[future] = is_ready
        self._rouse()
        try:
            await future
        finally:
            self.waiting.pop(future, None)

    async def close(self) -> None:
        """Fetch no more, and end all waiting; then close the source."""
        task = self._task
        for fetching in (task, self.fetcher):
            if fetching is not None and not fetching.done():
                _loop_of(fetching)
        self.end()
        if task is not None and not task.done():
            if is_first := not task.cancelling():
                task.cancel()
            await wait([task])
            if is_first and not task.cancelled():
                task.result()  # raises what the source says to being closed
        await self._leave()

    def end(self) -> None:
        """End all waiting."""
        self.is_direct = False
        self._progress.stop()
        for future in self.waiting:
            if not future.done():
                future.set_result(None)
        self.waiting.clear()
        self._rouse()

    def wake(self) -> bool:
        """Wake those who have their answer by now, and say whether there are any."""
        answered = [future for future, is_ready in self.waiting.items() if is_ready()]
        for future in answered:
            del self.waiting[future]
            if not future.done():
                future.set_result(None)
        if self.waiting:
            self._rouse()
        return bool(answered)

    def has_fetched(self, error: BaseException | None = None) -> bool:
        """Say that a loop's fetch is over. Gives whether that is because somebody else closes."""
        task, self.fetcher = self.fetcher, None
        self.wake()
        if task is None:
            return False
        if (interruption := self.interruption) is None:
            self._note(error, task)
            return False
        if isinstance(error, Exception):
            interruption.set_exception(error)  # what the source says to being closed
        else:
            interruption.set_result(None)
        return task.uncancel() == 0

    async def _run(self, loop: AbstractEventLoop) -> None:
        """Fetch while somebody waits."""
        try:
            while not self._progress.ended:
                if not self.waiting or self.batches.ag_running:  # by a loop, before the task was
                    self._idle = loop.create_future()
                    await self._idle
                    continue
                batch = await anext(self.batches, None)
                if batch is None:
                    break
                if self.held is not None:
                    self.held.append(batch)
                if self.wake():
                    await sleep(0)  # so that what settled early is seen early
        except CancelledError as error:
            if (task := current_task()) is None or task.cancelling():
                raise
            self._note(error, task)
        except Exception:
            if self._progress.ended:
                raise  # to the one who closes
        finally:
            self.end()
            await self._leave()  # what a task has entered, that task must leave

    def _note(self, error: BaseException | None, task: Task[Any]) -> None:
        """Tell everybody of a cancellation that nobody asked for: it is the source's own."""
        if isinstance(error, CancelledError) and not task.cancelling():
            self._progress.fail(error)

    async def _leave(self) -> None:
        """Close the source. A loop in another task that waits for it ends."""
        if self.fetcher is not None:
            await self._interrupt(self.fetcher)
        async with self._closing:
            await self.batches.aclose()

    async def _interrupt(self, fetcher: Task[Any]) -> None:
        if fetcher is current_task():
            return  # the source closes the stream that reads it
        if self.interruption is None:
            self.interruption = _loop_of(fetcher).create_future()
            fetcher.cancel()
        await wait([self.interruption])
        self.interruption.result()

    def _rouse(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)


def _loop_of(task: Task[Any]) -> AbstractEventLoop:
    loop = task.get_loop()
    if loop is not get_running_loop():
        raise UsageError("another event loop fetches: read a stream in one event loop")
    return loop
