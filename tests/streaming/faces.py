"""Both faces of the readers behind one, so that each behaviour is tested once and for both."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from argstream import AsyncEventStream, EventStream, stream
from argstream.assembly import Call
from argstream.events import Event
from argstream.streaming import AsyncCallReader, CallReader

Value = TypeVar("Value")


class Source:
    """Gives items one by one, counts them, notes whether it was closed, and fails if told to."""

    def __init__(self, items: list[Any], error: BaseException | None = None) -> None:
        self.items = items
        self.error = error
        self.given = 0
        self.closed = False

    def __iter__(self) -> Iterator[Any]:
        for item in self.items:
            self.given += 1
            yield item
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.closed = True


class AsyncSource:
    """The same, async: each item takes a moment."""

    def __init__(self, items: list[Any], error: BaseException | None = None) -> None:
        self._source = Source(items, error)
        self.closed = False

    @property
    def given(self) -> int:
        return self._source.given

    async def __aiter__(self) -> AsyncIterator[Any]:
        for item in self._source:
            await asyncio.sleep(0)
            yield item

    async def aclose(self) -> None:
        self.closed = True


class Reader(Protocol):
    """What the tests use of a reader, sync."""

    @property
    def name(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def error(self) -> Any: ...
    @property
    def call(self) -> Call: ...
    def argument(self, *path: Any, **options: Any) -> Any: ...
    def text(self, *path: Any) -> Iterator[str]: ...
    def items(self, *path: Any) -> Iterator[Any]: ...
    def arguments(self) -> Any: ...


class Face(Protocol):
    """A stream that is read, sync or async."""

    @property
    def source(self) -> Source | AsyncSource: ...
    def live_calls(self) -> Iterator[Reader]: ...
    def live_call(self, call_id: str) -> Reader: ...
    def events(self) -> Iterator[Any]: ...
    def close(self) -> None: ...


class SyncFace:
    """The sync face as it is."""

    def __init__(self, items: list[Any], error: BaseException | None = None) -> None:
        self.source = Source(items, error)
        self._stream: EventStream = stream(self.source)

    def live_calls(self) -> Iterator[CallReader]:
        return self._stream.live_calls()

    def live_call(self, call_id: str) -> CallReader:
        return self._stream.live_call(call_id)

    def events(self) -> Iterator[Any]:
        return iter(self._stream)

    def close(self) -> None:
        self._stream.close()


class AsyncFace:
    """The async face, each step of it waited for."""

    def __init__(self, items: list[Any], error: BaseException | None = None) -> None:
        self._runner = asyncio.Runner()
        self.source = AsyncSource(items, error)
        self._stream: AsyncEventStream = stream(self.source)

    def live_calls(self) -> Iterator["Waiting"]:
        for reader in self._each(self._stream.live_calls()):
            yield Waiting(reader, self)

    def live_call(self, call_id: str) -> "Waiting":
        return Waiting(self._stream.live_call(call_id), self)

    def events(self) -> Iterator[Any]:
        return self._each(aiter(self._stream))

    def close(self) -> None:
        self.wait(self._stream.aclose())

    def end(self) -> None:
        self.close()
        self._runner.close()

    def wait(self, awaitable: Awaitable[Value]) -> Value:
        async def run() -> Value:
            return await awaitable

        return self._runner.run(run())

    def _each(self, iterator: AsyncIterator[Value]) -> "Stepping[Value]":
        return Stepping(iterator, self)


class Stepping(Iterator[Value]):
    """An async iterator, each step of it waited for."""

    def __init__(self, iterator: AsyncIterator[Value], face: AsyncFace) -> None:
        self._iterator = iterator
        self._face = face

    def __next__(self) -> Value:
        try:
            return self._face.wait(anext(self._iterator))
        except StopAsyncIteration:
            raise StopIteration from None


class Waiting:
    """An async reader, each answer of it waited for."""

    def __init__(self, reader: AsyncCallReader, face: AsyncFace) -> None:
        self._reader = reader
        self._face = face

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def argument(self, *path: Any, **options: Any) -> Any:
        return self._face.wait(self._reader.argument(*path, **options))

    def text(self, *path: Any) -> Iterator[str]:
        return Stepping(self._reader.text(*path), self._face)

    def items(self, *path: Any) -> Iterator[Any]:
        return Stepping(self._reader.items(*path), self._face)

    def arguments(self) -> Any:
        return self._face.wait(self._reader.arguments())


async def settle() -> None:
    """Let all tasks run until they wait for something."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test, which must leave no task and no complaint behind."""
    complaints: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(said))
        await main
        gc.collect()
        await settle()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(watched())
    assert complaints == []


async def collect(events: AsyncEventStream) -> list[Event]:
    return [event async for event in events]


async def each(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        await asyncio.sleep(0)
        yield item
