"""Whatever can answer, as a model: a name, a function that asks a provider's SDK, an iterator.

::

    as_model("anthropic:claude-opus-4-7")
    as_model(lambda request: client.messages.create(..., stream=True))
    as_model(response.aiter_bytes())            # good for one turn

A function gives anything that ``stream()`` reads, or a coroutine for it. A sync function is called,
and a sync source is read, in threads: neither holds up the event loop, and neither can be
interrupted. One that is abandoned goes on until what it waits for has come.
"""

import inspect
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, aclosing
from threading import Lock
from types import ModuleType
from typing import Any, Final, TypeVar

from argstream.adapters import ProtocolName
from argstream.clients.request import Model, ModelRequest
from argstream.errors import MissingExtra, ProviderFailure, UsageError
from argstream.streaming.sources import (
    awaited,
    close_async_source,
    close_source,
    is_async,
    items,
    open_async_items,
)

__all__ = ["as_model"]

_Result = TypeVar("_Result")
_END: Final = object()


def as_model(given: object, *, protocol: ProtocolName = "auto", name: str = "") -> Model:
    """Make a model of what is given: a name, a model, a function, or an iterator of events.

    ``protocol`` and ``name`` are of a function or an iterator. By itself, the protocol is found out
    from what comes.
    """
    if isinstance(given, str):
        from argstream import clients  # noqa: PLC0415 - what it loads now needs an extra

        return clients.make_model(given)
    if _is_model(given):
        return given  # type: ignore[return-value] # as was just found out
    if hasattr(given, "__aiter__") or isinstance(given, Iterable):
        return _OneTurn(given, protocol, name or "an iterator")
    if callable(given):
        return _Asking(given, protocol, name or getattr(given, "__name__", "a function"))
    raise UsageError(
        f"a {type(given).__name__} is no model: give a name such as 'anthropic:claude-opus-4-7', a "
        "function of a ModelRequest that gives a provider's stream, or an iterator of its events"
    )


def _is_model(given: object) -> bool:
    """Say whether it has what a model has; an SDK's client has a stream, too, but no protocol."""
    has_names = all(isinstance(getattr(given, word, None), str) for word in ("name", "protocol"))
    return has_names and callable(getattr(given, "stream", None)) and not isinstance(given, type)


class _Asking:
    """A model that is a function."""

    def __init__(self, ask: Callable[..., Any], protocol: ProtocolName, name: str) -> None:
        self._ask = ask
        self.protocol = protocol
        self.name = name

    def __repr__(self) -> str:
        return f"<a model that asks {self.name}>"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[object, None]:
        """Call the function, and give what comes of it."""
        is_quick = inspect.iscoroutinefunction(self._ask) or inspect.isasyncgenfunction(self._ask)
        source = self._ask(request) if is_quick else await _in_thread(self._ask, request)
        async with aclosing(_read(source)) as reading:
            async for item in reading:
                yield item


class _OneTurn:
    """A model that is an iterator: it has one turn in it."""

    def __init__(self, source: object, protocol: ProtocolName, name: str) -> None:
        self._source = source
        self._is_used = False
        self.protocol = protocol
        self.name = name

    def __repr__(self) -> str:
        return f"<a model that is {self.name}>"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[object, None]:  # noqa: ARG002 - nobody can tell it
        """Give what comes of the iterator; once."""
        if self._is_used:
            raise ProviderFailure(
                "iterator_over",
                "an iterator is a model for one turn, and there is another: give a function that "
                "makes one for each request",
            )
        self._is_used = True
        async with aclosing(_read(self._source)) as reading:
            async for item in reading:
                yield item


async def _read(source: Any) -> AsyncGenerator[object, None]:
    """Give the items of anything that ``stream()`` reads, and close it at the end."""
    source = await awaited(source)
    if isinstance(source, list | tuple):
        for item in source:  # it is all there: nothing blocks
            yield item
    elif is_async(source):
        try:
            async with AsyncExitStack() as stack:
                async for item in await open_async_items(source, stack):
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
    """Reads a sync source, one call at a time, each in whatever thread."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._entered: AbstractContextManager[Iterable[object]] | None = None
        self._items: Iterator[object] | None = None
        self._lock = Lock()  # for what follows
        self._is_busy = False
        self._is_closed = False

    def next(self) -> object:
        """Give the next item; ``_END`` if there is none."""
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
            if is_closed:  # meanwhile, by who did not want to wait for this
                self._close()

    def close(self) -> None:
        """Close the source; if a thread that was abandoned still reads, that one does it."""
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
    with _anyio().CancelScope(shield=True):  # also when whoever reads has been cancelled
        await _anyio().to_thread.run_sync(reader.close)


def _anyio() -> ModuleType:
    try:
        import anyio  # noqa: PLC0415 - most models need no thread
    except ModuleNotFoundError:
        raise MissingExtra("http", "a model that is a sync function or iterator") from None
    return anyio
