"""``as_model``: a model from a name, a function that calls a provider's SDK, or an iterator.

::

    as_model("anthropic:claude-opus-4-7")
    as_model(lambda request: client.messages.create(..., stream=True))
    as_model(response.aiter_bytes())            # for one turn

A function returns any source that ``stream()`` reads, or a coroutine for one. Sync functions and
sync sources run in threads, so they do not block the event loop, but they cannot be interrupted: an
abandoned one continues until its current call returns.
"""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from threading import Lock
from types import ModuleType
from typing import Any, Final, TypeGuard, TypeVar

from argstream.errors import MissingExtraError, ProviderError, UsageError
from argstream.providers import ProtocolName
from argstream.providers._requests import Model, ModelRequest
from argstream.streaming._input import (
    SourceContexts,
    awaited,
    close_async_source,
    close_source,
    is_async,
    items,
    open_async_items,
)

_Result = TypeVar("_Result")
_END: Final = object()


def as_model(given: object, *, protocol: ProtocolName = "auto", name: str = "") -> Model:
    """Return a model for a name, a model, a function or an iterator of events.

    ``protocol`` and ``name`` apply to a function or an iterator. By default, the protocol is
    detected from the first payload.
    """
    if isinstance(given, str):
        from argstream import models

        return models.make_model(given)
    if _is_model(given):
        return given
    if hasattr(given, "__aiter__") or isinstance(given, Iterable):
        return _FunctionModel(_once(given), protocol, name or "an iterator")
    if callable(given):
        return _FunctionModel(given, protocol, name or getattr(given, "__name__", "a function"))
    raise UsageError(
        f"{type(given).__name__} is not a model. Pass a name such as 'anthropic:claude-opus-4-7', "
        "a function that returns a provider's stream for a ModelRequest, or an iterator of events"
    )


def _is_model(given: object) -> TypeGuard[Model]:
    """Return True for an object with the attributes of a model. An SDK's client has no protocol."""
    has_names = all(isinstance(getattr(given, word, None), str) for word in ("name", "protocol"))
    return has_names and callable(getattr(given, "stream", None)) and not isinstance(given, type)


def _once(source: object) -> Callable[[ModelRequest], Awaitable[object]]:
    is_used = False

    async def return_source(_: ModelRequest) -> object:
        nonlocal is_used
        if is_used:
            raise ProviderError(
                "iterator_over",
                "an iterator can serve as a model for one turn only. Pass a function that returns "
                "an iterator for each request",
            )
        is_used = True
        return source

    return return_source


class _FunctionModel:
    def __init__(self, function: Callable[..., Any], protocol: ProtocolName, name: str) -> None:
        self._function = function
        self.protocol = protocol
        self.name = name

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    def stream(self, request: ModelRequest) -> AsyncGenerator[object, None]:
        return _read(self._function, request)


async def _read(
    function: Callable[..., Any], request: ModelRequest
) -> AsyncGenerator[object, None]:
    """Yield the items of anything that ``stream()`` reads, and close it at the end."""
    is_async_function = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(
        function
    )
    source = await awaited(
        function(request) if is_async_function else await _in_thread(function, request)
    )
    del function, request
    if isinstance(source, list | tuple):
        for item in source:  # does not block
            yield item
    elif is_async(source):
        try:
            async with SourceContexts() as contexts:
                async for item in await open_async_items(source, contexts):
                    yield item
        finally:
            await close_async_source(source)
    else:
        reader = _ThreadReader(source)
        try:
            while (item := await _in_thread(reader.next)) is not _END:
                yield item
        finally:
            await _close_in_thread(reader)


class _ThreadReader:
    """Reads a sync source, one item at a time, each in any thread."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._entered: AbstractContextManager[Iterable[object]] | None = None
        self._items: Iterator[object] | None = None
        self._lock = Lock()  # guards the two flags
        self._is_busy = False
        self._is_closed = False

    def next(self) -> object:
        with self._lock:
            self._is_busy = True
        try:
            if self._items is None:
                self._entered = items(self._source)
                self._items = iter(self._entered.__enter__())
            return next(self._items, _END)
        finally:
            with self._lock:
                self._is_busy = False
                is_closed = self._is_closed
            if is_closed:  # by another thread, which does not wait for this one
                self._close()

    def close(self) -> None:
        """Close the source. If an abandoned thread still reads it, that thread closes it."""
        with self._lock:
            is_busy, self._is_closed = self._is_busy, True
        if not is_busy:
            self._close()

    def _close(self) -> None:
        try:
            if self._entered is not None:
                self._entered.__exit__(None, None, None)
        finally:
            close_source(self._source)


async def _in_thread(function: Callable[..., _Result], *arguments: object) -> _Result:
    result: _Result = await _anyio().to_thread.run_sync(
        function, *arguments, abandon_on_cancel=True
    )
    return result


async def _close_in_thread(reader: _ThreadReader) -> None:
    with _anyio().CancelScope(shield=True):  # also after cancellation
        await _anyio().to_thread.run_sync(reader.close)


def _anyio() -> ModuleType:
    try:
        import anyio
    except ModuleNotFoundError:
        raise MissingExtraError("http", "a model that is a sync function or iterator") from None
    return anyio
