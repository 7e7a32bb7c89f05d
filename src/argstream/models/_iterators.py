"""``as_model``: a model from a name, a function that calls a provider's SDK, or an iterator.

::

    as_model("anthropic:claude-opus-4-7")
    as_model(lambda request: client.messages.create(..., stream=True))
    as_model(response.aiter_bytes())            # for one turn

A function returns any source that ``stream()`` reads, or a coroutine for one. Sync functions and
sync sources run in threads, so they do not block the event loop, but they cannot be interrupted: an
abandoned one continues until its current call returns.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, AsyncExitStack
from contextvars import copy_context
from functools import partial
from typing import Any, Final, TypeGuard, TypeVar

from argstream._asyncio import shielded
from argstream.errors import ProviderError, UsageError
from argstream.providers import ProtocolName
from argstream.providers._requests import Model, ModelRequest
from argstream.streaming._input import (
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
    sources = [source]

    async def return_source(_: ModelRequest) -> object:
        if not sources:
            raise ProviderError(
                "iterator_over",
                "an iterator can serve as a model for one turn only. Pass a function that returns "
                "an iterator for each request",
            )
        return sources.pop()

    return return_source


class _FunctionModel:
    def __init__(self, function: Callable[..., Any], protocol: ProtocolName, name: str) -> None:
        self._function = function
        self.protocol = protocol
        self.name = name

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[object, None]:
        """Yield the items of anything that ``stream()`` reads, and close it at the end."""
        function = self._function
        is_async_function = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(
            function
        )
        with _Thread() as thread:
            source = await awaited(
                function(request) if is_async_function else await thread.call(function, request)
            )
            del function, request
            if isinstance(source, list | tuple):
                for item in source:  # does not block
                    yield item
            elif is_async(source):
                try:
                    async with AsyncExitStack() as contexts:
                        async for item in await open_async_items(
                            source, contexts.enter_async_context
                        ):
                            yield item
                finally:
                    await close_async_source(source)
            else:
                reading = _items_of(source)
                try:
                    while (item := await thread.call(next, reading, _END)) is not _END:
                        yield item
                finally:
                    await shielded(thread.call_last(_close, reading, source))


class _Thread(AbstractContextManager["_Thread"]):
    """A thread for sync functions, one after the other. It is started by the first one."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "argstream: model")
        self._is_abandoned = False

    async def call(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Run a function with the current context variables. If this is cancelled, it goes on."""
        call = partial(copy_context().run, function, *arguments)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, call)
        except asyncio.CancelledError:
            self._is_abandoned = True
            raise

    async def call_last(self, function: Callable[..., object], *arguments: object) -> None:
        """Run a function. If another one goes on, do not wait for it."""
        if self._is_abandoned:
            self._executor.submit(function, *arguments)
        else:
            await self.call(function, *arguments)

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(wait=False)


def _items_of(source: Any) -> Generator[object, None, None]:
    with items(source) as found:
        yield from found


def _close(reading: Generator[object, None, None], source: object) -> None:
    try:
        reading.close()
    finally:
        close_source(source)
