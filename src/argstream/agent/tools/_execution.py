"""Running a tool once: in the event loop, in a thread or in a subprocess, and never too long."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple

import anyio

from argstream.agent.tools._binding import Bound
from argstream.agent.tools._calling import Unfinished, call_async, call_sync, finish, is_async
from argstream.agent.tools._isolation import run_isolated
from argstream.agent.tools._origin import Origin
from argstream.agent.tools._threads import run_in_thread
from argstream.agent.tools.context import ToolContext
from argstream.errors import TextInterrupted, UsageError

__all__ = ["Way", "execute"]


class Way(NamedTuple):
    """How a tool is run."""

    function: Callable[..., Any]
    receives_context_as: str | None
    timeout: float | None
    origin: Origin | None
    """Where a subprocess finds it, if it runs in one."""


async def execute(way: Way, bound: Bound, context: ToolContext) -> Any:
    """Run a tool to its end, but no longer than it may take.

    Whoever stops waiting, for time or because the run is stopped, has an async tool cancelled and a
    subprocess killed by then. A thread is told, by its context and its ``Streamed`` text.
    """
    arguments = bound.use()
    if bound.feed is not None:
        bound.feed.require_intact()  # nothing is begun that would have to be undone at once
    if way.receives_context_as is not None:
        arguments[way.receives_context_as] = context
    if way.origin is not None:
        running = run_isolated(way.origin, _text(bound), context)
    elif is_async(way.function):
        running = call_async(way.function, arguments, context)
    else:
        running = _call_in_thread(partial(call_sync, way.function, arguments, context), context)
    return await _in_time(running, bound, context, way.timeout)


async def _call_in_thread(call: Callable[[], Any], context: ToolContext) -> Any:
    returned = await run_in_thread(call, context.name)
    return await finish(returned, context) if isinstance(returned, Unfinished) else returned


async def _in_time(
    running: Coroutine[Any, Any, Any], bound: Bound, context: ToolContext, timeout: float | None
) -> Any:
    failure: Exception | None = None
    with anyio.move_on_after(timeout) as stopping:
        try:
            result = await running
            if not stopping.cancel_called:
                return result
        except anyio.get_cancelled_exc_class():
            _tell(bound, context)
            raise
        except Exception as error:
            if not stopping.cancel_called:
                raise
            failure = error  # of its cleaning up, or how it took being cancelled
        finally:
            context.close()
    raise TimeoutError(
        f"{context.name} was stopped: it took longer than {timeout:g} s"
    ) from failure


def _tell(bound: Bound, context: ToolContext) -> None:
    """Tell a tool that nobody can end that nobody waits for it."""
    context.cancel()
    if bound.feed is not None:
        told = f"{context.name} was stopped while it read its text"
        bound.feed.interrupt(TextInterrupted(told, verdict="aborted"))


def _text(bound: Bound) -> str:
    if bound.text is None:
        raise UsageError("an isolated tool needs its arguments as a whole")
    return bound.text
