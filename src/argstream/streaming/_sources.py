"""What people hold → an iterable of items, sync or async. All that is known of HTTP libraries."""

import inspect
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
)
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, Protocol, TypeAlias

from argstream.errors import UsageError

__all__ = [
    "AsyncSource",
    "Source",
    "async_items",
    "close_async_source",
    "close_source",
    "is_async",
    "items",
]


class _Response(Protocol):
    """A response of httpx, or of an SDK's ``with_streaming_response``."""

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]: ...


class _AsyncResponse(Protocol):
    """The same of an SDK's async client."""

    def iter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]: ...


class _Readable(Protocol):
    """A binary file, or a response of urllib."""

    def read1(self, size: int = ..., /) -> bytes: ...


class _StreamReader(Protocol):
    def iter_any(self) -> AsyncIterable[bytes]: ...


class _AiohttpResponse(Protocol):
    @property
    def content(self) -> _StreamReader: ...


_Held: TypeAlias = Iterable[object] | _Response | _Readable
_AsyncHeld: TypeAlias = AsyncIterable[object] | _AsyncResponse | _AiohttpResponse

Source: TypeAlias = _Held | AbstractContextManager[_Held]
"""What ``stream()`` reads with ``for``."""
AsyncSource: TypeAlias = (
    _AsyncHeld | AbstractAsyncContextManager[_AsyncHeld] | Awaitable[_AsyncHeld]
)
"""What ``stream()`` reads with ``async for``."""


def is_async(source: object) -> bool:
    """Say whether a source must be read with ``async for``."""
    if inspect.isawaitable(source):
        return True
    if hasattr(source, "__aiter__"):
        return not hasattr(source, "__iter__")
    if (read := getattr(source, "iter_bytes", None)) is not None:
        # One class of httpx serves both; what it reads from tells which it is.
        inner = getattr(source, "stream", None)
        only_async = hasattr(inner, "__aiter__") and not hasattr(inner, "__iter__")
        return only_async or inspect.isasyncgenfunction(read)
    if hasattr(getattr(source, "content", None), "iter_any"):  # aiohttp
        return True
    return hasattr(source, "__aenter__") and not hasattr(source, "__iter__")


@contextmanager
def items(source: Any) -> Iterator[Iterable[object]]:
    """Open a source: its items, one after the other."""
    if isinstance(source, str | bytes | bytearray | memoryview | dict) or _is_model(source):
        yield [source]
    elif (read := getattr(source, "iter_bytes", None)) is not None:  # httpx, SDKs
        yield read()
    elif (read := getattr(source, "iter_content", None)) is not None:  # requests
        yield read(chunk_size=None)
    elif (read := getattr(source, "read1", None)) is not None:  # files, urllib
        yield _reads(read)
    elif hasattr(source, "__iter__"):
        yield source
    elif hasattr(source, "__enter__"):
        with source as entered, items(entered) as found:
            yield found
    else:
        raise _unknown(source)


@asynccontextmanager
async def async_items(source: Any) -> AsyncIterator[AsyncIterable[object]]:
    """Open an async source: its items, one after the other."""
    if hasattr(source, "__aiter__"):
        yield source
    elif read := getattr(source, "aiter_bytes", None) or getattr(source, "iter_bytes", None):
        yield read()  # httpx, SDKs
    elif read := getattr(getattr(source, "content", None), "iter_any", None):
        yield read()  # aiohttp
    elif hasattr(source, "__aenter__"):
        async with source as entered, async_items(entered) as found:
            yield found
    elif inspect.isawaitable(source):
        async with async_items(await source) as found:
            yield found
    else:
        raise _unknown(source)


def close_source(source: Any) -> None:
    """Close what was not read to its end, if it can be closed."""
    if callable(close := getattr(source, "close", None)):
        close()


async def close_async_source(source: Any) -> None:
    """Close what was not read to its end, if it can be closed."""
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    if callable(close):
        waiting = close()
        if inspect.isawaitable(waiting):
            await waiting


def _reads(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while chunk := read(64 * 1024):
        yield chunk


def _is_model(source: object) -> bool:
    """Say whether it is a single object of an SDK: iterating over one gives its fields."""
    return hasattr(source, "model_dump")


def _unknown(source: object) -> UsageError:
    return UsageError(
        f"stream() cannot read a {type(source).__name__}: give it an SDK's stream, an HTTP "
        "response, or an iterable of bytes, lines, dicts or SDK events"
    )
