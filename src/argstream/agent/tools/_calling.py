"""Calling a function, whatever kind it is, to its end: what it gives becomes JSON-able data.

Of a generator, each text that it yields is output, and all of them are the result.
"""

import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing
from types import GeneratorType
from typing import Any

import anyio

from argstream.agent.tools._outcomes import jsonable
from argstream.agent.tools.context import ToolContext, encodable
from argstream.errors import ToolFailure, UsageError

__all__ = ["Unfinished", "call_async", "call_sync", "finish", "is_async"]

logger = logging.getLogger("argstream.agent")

Function = Callable[..., Any]


class Unfinished:
    """What a function returned that has to be awaited: it was called where nothing can be."""

    def __init__(self, returned: Any) -> None:
        self.returned = returned


def is_async(function: Function) -> bool:
    """Say whether it is to be called in the event loop."""
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


async def call_async(function: Function, arguments: Mapping[str, Any], context: ToolContext) -> Any:
    """Call an async function or an async generator."""
    return await finish(Unfinished(function(**arguments)), context)


async def finish(unfinished: Unfinished, context: ToolContext) -> Any:
    """Await what was returned, up to its end.

    That is done in a task of its own, so a tool can cancel no other than itself, and whoever is
    cancelled here was cancelled by who runs the tool.
    """
    outcome = _Outcome()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outcome.keep, unfinished.returned, context, name=context.name)
    except* RuntimeError as group:  # what the tool raised is kept: this is anyio's complaint
        logger.warning("%s left a cancel scope open: %s", context.name, group.exceptions[0])
    return outcome.get(context)


class _Outcome:
    """What came of a tool in its task."""

    def __init__(self) -> None:
        self._result: Any = None
        self._error: BaseException | None = anyio.get_cancelled_exc_class()()  # until it has begun

    async def keep(self, returned: Any, context: ToolContext) -> None:
        try:
            self._result, self._error = await _awaited(returned, context), None
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is wanted
            self._error = error

    def get(self, context: ToolContext) -> Any:
        """Give the result, or raise what the tool raised.

        What would end the program, or look as if the run was cancelled, is a failure of the tool.
        Only Ctrl-C, which Python raises in whatever is being run, is what it says.
        """
        error, self._error = self._error, None
        try:
            if error is None:
                return self._result
            if isinstance(error, anyio.get_cancelled_exc_class()):
                raise ToolFailure(f"{context.name} was cancelled by something in it") from error
            if isinstance(error, Exception | KeyboardInterrupt):
                raise error
            raise _ending(error, context) from error
        finally:
            del error  # it refers to this frame, and this frame to it


def call_sync(function: Function, arguments: Mapping[str, Any], context: ToolContext) -> Any:
    """Call a function that is not async in this thread; it may return what is ``Unfinished``."""
    try:
        returned = function(**arguments)
        if isinstance(returned, GeneratorType):
            returned = _exhaust(returned, context)
        if inspect.isawaitable(returned) or inspect.isasyncgen(returned):
            return Unfinished(returned)
        return jsonable(returned, context.name)
    except StopIteration as error:  # no coroutine can raise it: that would be a RuntimeError
        raise ToolFailure(str(error), kind="StopIteration") from error
    except Exception:
        raise
    except BaseException as error:
        raise _ending(error, context) from error


async def _awaited(returned: Any, context: ToolContext) -> Any:
    if inspect.isawaitable(returned):
        returned = await returned
    if inspect.isasyncgen(returned):
        returned = await _exhaust_async(returned, context)
    return jsonable(returned, context.name)


async def _exhaust_async(generator: AsyncGenerator[Any, Any], context: ToolContext) -> str:
    pieces: list[str] = []
    async with aclosing(generator):
        async for piece in generator:
            pieces.append(_said(piece, context))
            await context.wait_for_room()
    return "".join(pieces)


def _exhaust(generator: Generator[Any, Any, Any], context: ToolContext) -> Any:
    """Take all that a generator yields; if it returns something, that is the result instead."""
    pieces: list[str] = []
    try:
        while not context.cancelled:
            pieces.append(_said(next(generator), context))
    except StopIteration as end:
        return "".join(pieces) if end.value is None else end.value
    finally:
        generator.close()
    return None  # nobody waits for it any more


def _said(piece: object, context: ToolContext) -> str:
    if not isinstance(piece, str):
        raise UsageError(
            f"{context.name} yielded {type(piece).__name__}, but what a tool yields is text: yield "
            "str, or return the result"
        )
    piece = encodable(piece)
    context.output(piece)
    return piece


def _ending(error: BaseException, context: ToolContext) -> ToolFailure:
    told = f"{type(error).__name__}({', '.join(map(repr, error.args))})"
    return ToolFailure(f"{context.name} tried to end the program: {told}")
