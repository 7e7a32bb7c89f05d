"""Who fetches, when several wait: the two drivers of readers.

What a source gives comes in batches, the events of one item. They are fetched only while somebody
waits whose question has no answer, so a slow reader holds the provider up, as a slow loop does.
Events that were fetched for a reader are kept for a loop over the events, if there is one, and for
nobody else.

Sync, whoever waits fetches. Async, that would not do: whoever waits may be cancelled, and to cancel
someone who waits for an async generator is to end that generator. So a task fetches, one and the
same from the first time that a reader waits to the end of the stream, and the others wait for it.
A loop over the events of a stream without readers needs no task, and no asyncio.
"""

import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, TypeVar, cast

from argstream.errors import UsageError
from argstream.events import Event
from argstream.readers._progress import Progress
from argstream.readers._questions import Question

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future, Task

__all__ = ["AsyncPump", "Pump"]

Answer = TypeVar("Answer")


class Pump:
    """Fetches for whoever waits."""

    def __init__(self, batches: Generator[list[Event], None, None], progress: Progress) -> None:
        self._batches = batches
        self.progress = progress
        self._held: deque[list[Event]] | None = None  # for a loop over the events, if there is one

    def events(self) -> Generator[Event, None, None]:
        """Give every event once, also those that were fetched for a reader in the meantime."""
        progress = self.progress
        held = self._held = deque()
        try:
            for batch in self._batches:
                yield from batch
                while held:
                    yield from held.popleft()
        finally:
            progress.ended = True
        if progress.failure is not None:  # it was raised to a reader
            raise progress.failure

    def answer(self, question: Question[Answer]) -> Answer:
        """Fetch until the question can be answered."""
        while not question.ready():
            self._fetch()
        return question.take()

    def close(self) -> None:
        """Fetch no more."""
        self._batches.close()
        self.progress.ended = True

    def _fetch(self) -> None:
        progress = self.progress
        if progress.ended:
            raise AssertionError("at the end of a stream every question has an answer")
        try:
            batch = next(self._batches, None)
        except BaseException:
            progress.ended = True
            raise
        if batch is None:
            progress.ended = True
            return
        if self._held is not None:
            self._held.append(batch)


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
        try:
            if not work.has_task():
                async for batch in work.batches:
                    work.wake()
                    for event in batch:
                        yield event
                    if work.has_task():  # readers have come
                        break
                else:
                    work.end()
            while held or not progress.ended:
                if not held:
                    await work.wait(lambda: bool(held))
                while held:
                    for event in held.popleft():
                        yield event
        finally:
            await work.close()
        if progress.failure is not None:
            raise progress.failure

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


def _cancel_soon(loop: "AbstractEventLoop", task: "Task[None]") -> None:
    """Cancel a task, from whatever thread collects garbage."""
    with suppress(RuntimeError):  # the loop is closed, and has cancelled all its tasks
        loop.call_soon_threadsafe(task.cancel)


class _Work:
    """What is fetched, for whom, and who does it."""

    def __init__(self, batches: AsyncGenerator[list[Event], None], progress: Progress) -> None:
        self.batches = cast("AsyncGeneratorType[list[Event], None]", batches)
        self._progress = progress
        self.held: deque[list[Event]] | None = None  # for a loop over the events, if there is one
        self._task: Task[None] | None = None
        self._is_closing = False
        self._waiting: dict[Future[None], Callable[[], bool]] = {}
        self._idle: Future[None] | None = None  # what the task waits at when it is not needed

    def has_task(self) -> bool:
        """Say whether there is a task that fetches."""
        return self._task is not None

    def start(self) -> "tuple[AbstractEventLoop, Task[None]]":
        """Start the task."""
        from asyncio import get_running_loop  # noqa: PLC0415 - not for those who do not wait

        try:
            loop = get_running_loop()
        except RuntimeError:
            raise UsageError("the readers of an async stream need asyncio") from None
        self._task = loop.create_task(self._run(loop), name="argstream reader")
        return loop, self._task

    async def wait(self, is_ready: Callable[[], bool]) -> None:
        """Wait until this is so, or until the end."""
        if self._progress.ended or self._task is None:
            raise AssertionError("at the end of a stream every question has an answer")
        future = self._task.get_loop().create_future()
        self._waiting[future] = is_ready
        self._rouse()
        try:
            await future
        finally:
            self._waiting.pop(future, None)

    async def close(self) -> None:
        """Fetch no more, and end all waiting."""
        self._is_closing = True
        task = self._task
        if task is not None:
            if not task.done():
                from asyncio import wait  # noqa: PLC0415 - as above

                task.cancel()
                await wait([task])
            if not task.cancelled():
                task.result()  # raises what the source says to being closed
        await self.batches.aclose()
        self.end()

    async def _run(self, loop: "AbstractEventLoop") -> None:
        """Fetch while somebody waits."""
        try:
            while not self._progress.ended and not self._is_closing:
                if not self._waiting or self.batches.ag_running:  # by a loop, before the task was
                    self._idle = loop.create_future()
                    await self._idle
                    continue
                batch = await anext(self.batches, None)
                if batch is None:
                    break
                if self.held is not None:
                    self.held.append(batch)
                if self.wake():
                    await _others()
        except Exception:  # noqa: BLE001, S110 - whoever asks is told
            pass
        finally:
            try:
                if not self.batches.ag_running:
                    await self.batches.aclose()  # what a task has entered, that task must leave
            finally:
                self.end()

    def wake(self) -> bool:
        """Wake those who have their answer by now, and say whether there are any."""
        answered = [future for future, is_ready in self._waiting.items() if is_ready()]
        for future in answered:
            del self._waiting[future]
            if not future.done():
                future.set_result(None)
        if self._waiting:
            self._rouse()
        return bool(answered)

    def _rouse(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def end(self) -> None:
        """End all waiting."""
        self._progress.ended = True
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()
        self._rouse()


class _others:  # noqa: N801 - reads like a function
    """Lets the others run before going on, so that what settled early is seen early."""

    def __await__(self) -> Generator[None, None, None]:
        yield
