"""Running a tool once, with a timeout, and turning its result into JSON data.

Each text that a generator yields is output. All of them together are its result.
"""

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing
from functools import partial
from types import GeneratorType
from typing import Any, Final, NamedTuple

import msgspec
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from argstream._asyncio import cancel_until_done, run_in_thread
from argstream.agent.tools._streamed import TextFeed, ToolContext
from argstream.errors import ArgstreamError, TextInterruptedError, ToolError, UsageError
from argstream.sanitise import replace_lone_surrogates, replace_lone_surrogates_in_json

_LONGEST_MESSAGE: Final = 4_000  # characters of an error, which a model reads and pays for
_MOST_CAUSES: Final = 8


class BoundCall(NamedTuple):
    """The arguments of one execution. A tool may change them."""

    arguments: dict[str, Any]  # by the names of the parameters, without the context
    feed: TextFeed | None  # writes the ``Streamed`` text, if there is one


async def execute(
    call: "partial[Any]", feed: TextFeed | None, context: ToolContext, timeout: float | None
) -> Any:
    """Call a function, in the event loop or in a thread, until it ends or its time is up.

    At its timeout or when this is cancelled, an async tool is cancelled. A thread cannot be
    cancelled: its context and its ``Streamed`` text report that the result is not needed any more.
    """
    if feed is not None:
        feed.require_intact()  # otherwise the tool would have to undo its work at once
    # In a task of its own, a tool can cancel only itself.
    running = asyncio.create_task(_outcome(call, context), name=context.name)
    with closing(context):
        try:
            await asyncio.wait([running], timeout=timeout)
        finally:
            is_late = not running.done()
            if is_late:
                context.cancel()
                if feed is not None:
                    reason = f"{context.name} was stopped while it read its text"
                    feed.interrupt(TextInterruptedError(reason, verdict="aborted"))
                await cancel_until_done(running)
    # A task that was cancelled before it began has no result.
    result, error = (None, asyncio.CancelledError()) if running.cancelled() else running.result()
    try:
        if is_late:
            message = f"{context.name} was stopped: it took longer than {timeout:g} s"
            raise TimeoutError(message) from (error if isinstance(error, Exception) else None)
        if error is None:
            return result
        if isinstance(error, asyncio.CancelledError):
            raise ToolError(f"{context.name} was cancelled by something in it") from error
        # Python raises KeyboardInterrupt for Ctrl-C in any code that runs.
        if isinstance(error, Exception | KeyboardInterrupt):
            raise error
        raise _exit_error(error, context) from error
    finally:
        del error, running  # they refer to this frame, and this frame to them


async def _outcome(call: "partial[Any]", context: ToolContext) -> tuple[Any, BaseException | None]:
    """Call a function. Return its result as JSON data, or what it raised."""
    try:
        if inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call):
            return await _awaited(call(), context), None
        result = await run_in_thread(partial(_call_sync, call, context), context.name)
        return await _awaited(result, context) if _is_async(result) else result, None
    except BaseException as error:  # noqa: BLE001 - it is raised where the result is needed
        return None, error


def _is_async(returned: object) -> bool:
    return inspect.isawaitable(returned) or inspect.isasyncgen(returned)


async def _awaited(returned: Any, context: ToolContext) -> Any:
    if inspect.isawaitable(returned):
        returned = await returned
    if inspect.isasyncgen(returned):
        returned = await _exhaust_async(returned, context)
    return _jsonable(returned, context.name)


def _call_sync(call: "partial[Any]", context: ToolContext) -> Any:
    """Call a sync function in this thread. What it returns may have to be awaited."""
    try:
        returned = call()
        if isinstance(returned, GeneratorType):
            returned = _exhaust(returned, context)
        return returned if _is_async(returned) else _jsonable(returned, context.name)
    except StopIteration as error:  # no coroutine can raise it: that would be a RuntimeError
        raise ToolError(str(error), kind="StopIteration") from error
    except KeyboardInterrupt as error:  # of the tool: Ctrl-C is raised in the main thread
        raise _exit_error(error, context) from error


async def _exhaust_async(generator: AsyncGenerator[Any, Any], context: ToolContext) -> str:
    pieces: list[str] = []
    async with aclosing(generator):
        async for piece in generator:
            pieces.append(_written(piece, context))
            await context.wait_for_room()
    return "".join(pieces)


def _exhaust(generator: Generator[Any, Any, Any], context: ToolContext) -> Any:
    """Consume a generator. What it returns, if anything, is the result instead of its text."""
    pieces: list[str] = []
    try:
        while not context.cancelled:
            pieces.append(_written(next(generator), context))
    except StopIteration as end:
        return "".join(pieces) if end.value is None else end.value
    finally:
        generator.close()
    return None  # the result is not wanted any more


def _written(piece: object, context: ToolContext) -> str:
    if not isinstance(piece, str):
        raise UsageError(
            f"{context.name} yielded {type(piece).__name__}. Yield str, or return the result"
        )
    context.output(piece)
    return piece


def _exit_error(error: BaseException, context: ToolContext) -> ToolError:
    return ToolError(f"{context.name} tried to end the program: {error!r}")


def failure_message(error: BaseException) -> str:
    """Return why a tool failed, for a model: what was raised, without the traceback."""
    text = _described(error)
    if (left_out := len(text) - _LONGEST_MESSAGE) <= 0:
        return text
    half = _LONGEST_MESSAGE // 2
    return f"{text[:half]} … ({left_out} characters left out) … {text[-half:]}"


def _described(error: BaseException) -> str:
    """Return the type and the message of an error; without the type if the message implies it."""
    try:
        message = replace_lone_surrogates(str(error))
    except Exception as broken:  # noqa: BLE001 - an error whose str() fails must still be reported
        message = f"(its message cannot be had: {type(broken).__name__})"
    if isinstance(error, BaseExceptionGroup):
        return f"{message}: {'; '.join(map(_described, error.exceptions[:_MOST_CAUSES]))}"
    kind: str | None = type(error).__name__
    if isinstance(error, ToolError):
        kind = error.kind
    elif isinstance(error, ArgstreamError | TimeoutError) and message:
        kind = None
    return ": ".join(filter(None, (kind, message)))


def _jsonable(result: object, name: str) -> Any:
    """Return a result as JSON data. Values that JSON does not have become their ``str()``.

    Raises ``ToolError`` if it is circular, too deep, or cannot be converted.
    """
    if isinstance(result, str):  # as of most tools
        return replace_lone_surrogates(str.__str__(result))
    try:
        return json.loads(_json(result))
    except Exception as error:
        message = f"{name} has run, but its result cannot be encoded as JSON"
        raise ToolError(f"{message}: {failure_message(error)}") from error


def _json(result: object) -> bytes:
    try:
        return to_json(result, inf_nan_mode="strings", fallback=_plain)
    except PydanticSerializationError:  # bytes that are not UTF-8, or lone surrogates
        encodable = replace_lone_surrogates_in_json(result)
        plain = to_jsonable_python(
            encodable, inf_nan_mode="strings", bytes_mode="base64", fallback=_plain
        )
        return to_json(replace_lone_surrogates_in_json(plain), inf_nan_mode="strings")


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if callable(getattr(value, "tolist", None)):  # arrays and numbers of numpy
        return value.tolist()
    return str(value)
