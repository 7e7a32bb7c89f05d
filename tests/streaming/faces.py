"""Sync and async streams behind one interface, so that each behaviour is tested once for both."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterable, Iterator
from typing import Any

from argstream import AsyncEventStream, stream
from argstream.events import Event


class _Items:
    def __init__(self, items: list[Any], error: BaseException | None = None) -> None:
        self.items = items
        self.error = error
        self.given = 0
        self.closed = False

    @property
    def unread(self) -> int:
        return len(self.items) - self.given

    def each(self) -> Iterator[Any]:
        for item in self.items:
            self.given += 1
            yield item
        if self.error is not None:
            raise self.error


class Source(_Items):
    """Yields items, then raises the error if there is one. Counts items and notes the close."""

    def __iter__(self) -> Iterator[Any]:
        return self.each()

    def close(self) -> None:
        self.closed = True


class AsyncSource(_Items):
    """The same, async: yields to the event loop before each item."""

    async def __aiter__(self) -> AsyncIterator[Any]:
        for item in self.each():
            await asyncio.sleep(0)
            yield item

    async def aclose(self) -> None:
        self.closed = True


class Face:
    """A stream of these items that is read synchronously, also if it is an async one."""

    def __init__(
        self, items: list[Any], error: BaseException | None = None, *, is_async: bool = False
    ) -> None:
        self._is_async = is_async
        self._runner = asyncio.Runner()
        self.source = AsyncSource(items, error) if is_async else Source(items, error)
        self._stream: Any = stream(self.source)

    def live_calls(self) -> Iterator[Any]:
        return map(self._reader, self.steps(self._stream.live_calls()))

    def live_call(self, call_id: str) -> Any:
        return self._reader(self._stream.live_call(call_id))

    def events(self) -> Iterator[Any]:
        return self.steps(self._stream)

    def close(self) -> None:
        if self._is_async:
            self.wait(self._stream.aclose())
        else:
            self._stream.close()

    def end(self) -> None:
        self.close()
        self._runner.close()

    def wait(self, awaitable: Awaitable[Any]) -> Any:
        async def run() -> Any:
            return await awaitable

        return self._runner.run(run())

    def steps(self, iterable: Any) -> Iterator[Any]:
        return self._async_steps(aiter(iterable)) if self._is_async else iter(iterable)

    def _async_steps(self, iterator: AsyncIterator[Any]) -> Iterator[Any]:
        while True:
            try:
                yield self.wait(anext(iterator))
            except StopAsyncIteration:
                return

    def _reader(self, reader: Any) -> Any:
        return _AwaitedReader(reader, self) if self._is_async else reader


class _AwaitedReader:
    def __init__(self, reader: Any, face: Face) -> None:
        self._reader = reader
        self._face = face

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._reader, name)
        if name in ("argument", "arguments"):
            return lambda *path, **options: self._face.wait(found(*path, **options))
        if name in ("text", "items"):
            return lambda *path: self._face.steps(found(*path))
        return found


async def settle() -> None:
    """Let all tasks run until they wait for something."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test, which must leave no task and no unhandled exception behind."""
    unhandled: list[dict[str, Any]] = []

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unhandled.append(context))
        await main
        gc.collect()
        await settle()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(watched())
    assert unhandled == []


async def collect(events: AsyncEventStream) -> list[Event]:
    return [event async for event in events]


async def each(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        await asyncio.sleep(0)
        yield item
