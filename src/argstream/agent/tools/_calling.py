"""Calling a function, whatever kind it is, to its end: what it gives becomes JSON-able data.

Of a generator, each text that it yields is output, and all of them are the result.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing
from types import GeneratorType
from typing import Any

import anyio

from argstream.agent.tools._outcomes import jsonable
from argstream.agent.tools.context import ToolContext, encodable
from argstream.errors import ToolFailure, UsageError

__all__ = ["Unfinished", "call_async", "call_sync", "finish", "is_async"]

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

    What would end the program, or look as if the run was cancelled, is a failure of the tool. Only
    Ctrl-C, which Python raises in whatever is being run, is what it says.
    """
    cancelled = anyio.get_cancelled_exc_class()
    try:
        return await _awaited(unfinished.returned, context)
    except cancelled as error:
        if _is_cancelled():
            raise
        raise ToolFailure(f"{context.name} was cancelled by something in it") from error
    except (Exception, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise _ending(error, context) from error


def call_sync(function: Function, arguments: Mapping[str, Any], context: ToolContext) -> Any:
    """Call a function that is not async in this thread; it may return what is ``Unfinished``."""
    try:
        returned = function(**arguments)
        if isinstance(returned, GeneratorType):
            returned = _exhaust(returned, context)
        if inspect.isawaitable(returned) or inspect.isasyncgen(returned):
            return Unfinished(returned)
        return jsonable(returned, context.name)
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
    async with aclosing(generator):
        return "".join([_said(piece, context) async for piece in generator])


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


def _is_cancelled() -> bool:
    """Say whether somebody cancelled this task, and not just something that it waited for."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # it runs in no event loop of asyncio
        return True
    return task is None or task.cancelling() > 0
