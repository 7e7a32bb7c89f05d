"""What people hold → an iterable of items, sync or async. All that is known of HTTP libraries."""

import inspect
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    contextmanager,
)
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

from argstream.errors import UsageError

__all__ = [
    "AsyncSource",
    "Source",
    "close_async_source",
    "close_source",
    "is_async",
    "items",
    "open_async_items",
]


class _Response(Protocol):
    """A response of httpx, or of an SDK's ``with_streaming_response``."""

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]: ...


class _AsyncResponse(Protocol):
    """The same of an SDK's async client."""

    def iter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]: ...


class _EitherResponse(Protocol):
    """A response of httpx, which has one class for both; where it comes from tells which."""

    def aiter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]: ...


class _RawResponse(Protocol):
    """What openai's ``with_raw_response`` gives."""

    @property
    def http_response(self) -> _Response: ...


class _Readable(Protocol):
    """A binary file, or a response of urllib."""

    def read1(self, size: int = ..., /) -> bytes: ...


class _StreamReader(Protocol):
    def iter_any(self) -> AsyncIterable[bytes]: ...


class _AiohttpResponse(Protocol):
    @property
    def content(self) -> _StreamReader: ...


_Held: TypeAlias = Iterable[object] | _Response | _RawResponse | _Readable
_AsyncHeld: TypeAlias = AsyncIterable[object] | _AsyncResponse | _AiohttpResponse

Source: TypeAlias = _Held | AbstractContextManager[_Held]
"""What ``stream()`` reads with ``for``."""
AsyncSource: TypeAlias = (
    _AsyncHeld | AbstractAsyncContextManager[_AsyncHeld | _EitherResponse] | Awaitable[_AsyncHeld]
)
"""What ``stream()`` reads with ``async for``."""


def is_async(source: object) -> bool:
    """Say whether a source must be read with ``async for``. Nothing is read to find out."""
    source = _stream_of_boto3(source) or source
    if inspect.isawaitable(source):
        return True
    if hasattr(source, "__aiter__"):
        return not _can_iterate(source)
    if hasattr(source, "__iter__"):
        return False
    if (read := getattr(source, "iter_bytes", None)) is not None:
        # One class of httpx serves both; what it reads from tells which it is.
        inner = getattr(source, "stream", None)
        only_async = hasattr(inner, "__aiter__") and not hasattr(inner, "__iter__")
        return only_async or inspect.isasyncgenfunction(read)
    if hasattr(source, "http_response"):
        return is_async(source.http_response)
    return _stream_reader(source) is not None or hasattr(source, "__aenter__")


def _can_iterate(source: Any) -> bool:
    """Return True if it can be read with ``for``. aiobotocore's streams only seem so."""
    if not hasattr(source, "__iter__"):
        return False
    try:
        iter(source)
    except (NotImplementedError, TypeError):
        return False
    return True


def _stream_reader(source: object) -> Any:
    """Give the reader of an aiohttp response. Elsewhere, to ask for the content is to fetch it."""
    content = inspect.getattr_static(source, "content", None)
    return content if hasattr(content, "iter_any") else None


@contextmanager
def items(source: Any) -> Iterator[Iterable[object]]:
    """Open a source: its items, one after the other."""
    if (inner := _stream_of_boto3(source)) is not None:
        yield inner
    elif isinstance(source, str | bytes | bytearray | memoryview | Mapping) or _is_model(source):
        yield [source]
    elif (read := getattr(source, "iter_bytes", None)) is not None:  # httpx, SDKs
        yield read()
    elif hasattr(source, "http_response"):  # openai's raw responses
        with items(source.http_response) as found:
            yield found
    elif (read := getattr(source, "iter_content", None)) is not None:  # requests
        raw: Any = getattr(source, "raw", None)
        if getattr(raw, "chunked", True) or not hasattr(raw, "read1"):
            yield read(chunk_size=None)
        else:  # where requests would wait for all of it
            yield _reads(partial(raw.read1, decode_content=True))
    elif (read := getattr(source, "read1", None)) is not None:  # files, urllib
        yield _reads(read)
    elif hasattr(source, "__iter__"):
        yield source
    elif hasattr(source, "__enter__"):
        with source as entered, items(entered) as found:
            yield found
    else:
        raise _unknown(source)


async def open_async_items(source: Any, stack: AsyncExitStack) -> AsyncIterable[object]:
    """Open an async source and return its items. What has to be left again is on the stack."""
    source = _stream_of_boto3(source) or source
    if hasattr(source, "__aiter__"):
        return cast("AsyncIterable[object]", source)
    if _is_model(source):
        return _only(source)
    if read := getattr(source, "aiter_bytes", None) or getattr(source, "iter_bytes", None):
        return cast("AsyncIterable[object]", read())  # httpx, SDKs
    if hasattr(source, "http_response"):  # openai's raw responses
        return await open_async_items(source.http_response, stack)
    if (reader := _stream_reader(source)) is not None:
        return cast("AsyncIterable[object]", reader.iter_any())  # aiohttp
    if hasattr(source, "__aenter__"):
        return await open_async_items(await stack.enter_async_context(source), stack)
    raise _unknown(source)


async def awaited(source: Any) -> Any:
    """Give the source that a client's answer is, where that has to be awaited."""
    if hasattr(source, "__aiter__") or hasattr(source, "__aenter__"):
        return source
    return await source if inspect.isawaitable(source) else source


def close_source(source: Any) -> None:
    """Close what was not read to its end, if it can be closed."""
    source = _held_by(source)
    if callable(close := getattr(source, "close", None)):
        close()


async def close_async_source(source: Any) -> None:
    """Close what was not read to its end, if it can be closed."""
    source = _held_by(source)
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    if callable(close):
        waiting = close()
        if inspect.isawaitable(waiting):
            await waiting


def _held_by(source: Any) -> Any:
    """Give what has the connection: of a raw response, that is the response inside."""
    source = _stream_of_boto3(source) or source
    return source if hasattr(source, "close") else getattr(source, "http_response", source)


def _stream_of_boto3(source: object) -> Any:
    """Give the stream that is in a response of boto3: of ConverseStream, or of Invoke."""
    if isinstance(source, Mapping) and "ResponseMetadata" in source:
        return source.get("stream") or source.get("body")
    return None


def _reads(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while chunk := read(64 * 1024):
        yield chunk


async def _only(item: object) -> AsyncIterator[object]:
    yield item


def _is_model(source: object) -> bool:
    """Say whether it is a single object of an SDK: iterating over one gives its fields."""
    return hasattr(source, "model_dump")


def _unknown(source: object) -> UsageError:
    return UsageError(
        f"stream() cannot read a {type(source).__name__}: give it an SDK's stream, an HTTP "
        "response, or an iterable of bytes, lines, dicts or SDK events"
    )
