"""Running a tool once, with a timeout, and turning its result into JSON data.

Each text that a generator yields is output. All of them together are its result.
"""

import atexit
import contextvars
import inspect
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import partial
from types import GeneratorType
from typing import Any, Final, Generic, NamedTuple, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import msgspec

from argstream.agent.tools._streamed import TextFeed, ToolContext, encodable
from argstream.errors import ArgstreamError, TextInterruptedError, ToolError, UsageError

Result = TypeVar("Result")


class Bound:
    """What a function will be called with, for one execution."""

    def __init__(self, arguments: dict[str, Any], feed: TextFeed | None) -> None:
        self.arguments = arguments  # by the names of the parameters, validated; without the context
        self.feed = feed  # what writes its ``Streamed`` text, if it has one
        self._is_used = False

    def use(self) -> dict[str, Any]:
        """Return the arguments, once: their first user may have changed them."""
        if self._is_used:
            raise UsageError("what was bound has been executed: bind the text anew")
        self._is_used = True
        return self.arguments

    def __repr__(self) -> str:
        return f"<Bound arguments: {', '.join(self.arguments) or 'none'}>"


async def execute(
    function: Callable[..., Any],
    bound: Bound,
    context: ToolContext,
    *,
    context_parameter: str | None,
    timeout: float | None,
) -> Any:
    """Run a tool to its end, or until its timeout: in the event loop, or in a thread.

    At its timeout or when the run is stopped, an async tool is cancelled. A thread cannot be ended:
    its context and its ``Streamed`` text say that the result is no longer wanted.
    """
    arguments = bound.use()
    if bound.feed is not None:
        bound.feed.require_intact()  # nothing is begun that would have to be undone at once
    if context_parameter is not None:
        arguments[context_parameter] = context
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        running = finish(Unfinished(function(**arguments)), context)
    else:
        running = _call_in_thread(partial(call_sync, function, arguments, context), context)
    return await _in_time(running, bound, context, timeout)


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
    """Signal a thread, which cannot be ended, that its result is no longer needed."""
    context.cancel()
    if bound.feed is not None:
        told = f"{context.name} was stopped while it read its text"
        bound.feed.interrupt(TextInterruptedError(told, verdict="aborted"))


async def run_in_thread(function: Callable[[], Result], name: str) -> Result:
    """Run a function in a thread of its own, with the current context variables.

    If this is cancelled, the thread runs on, and its result is dropped. It is not a thread of a
    pool: one that never ends must keep neither other tools nor the program from ending.
    """
    work = _Work(function)
    threading.Thread(target=work.run, name=f"argstream: {name}", daemon=True).start()
    try:
        await work.done.wait()
    finally:
        work.is_wanted = False
    return work.outcome()


class _Work(Generic[Result]):
    def __init__(self, function: Callable[[], Result]) -> None:
        self._function = function
        self._variables = contextvars.copy_context()
        self._loop = anyio.lowlevel.current_token()
        self.done = anyio.Event()
        self.is_wanted = True
        self._results: list[Result] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._variables.run(_leave_event_loop)
            self._results.append(self._variables.run(self._function))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
            self._error = error
        if self.is_wanted:
            self._tell()

    def outcome(self) -> Result:
        if self._error is None:
            return self._results[0]
        try:
            raise self._error
        finally:
            self._error = None  # it refers to this frame, and this frame to it

    def _tell(self) -> None:
        try:
            anyio.from_thread.run_sync(self.done.set, token=self._loop)
        except RuntimeError:
            self.is_wanted = False  # the loop has ended meanwhile


def _leave_event_loop() -> None:
    """Make the context variables of a thread not state that it runs an event loop."""
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is not None:
        sniffio.current_async_library_cvar.set(None)


_LONGEST: Final = 4_000  # characters of an error: it is for a model, which pays for each
_MOST_CAUSES: Final = 8


def jsonable(result: object, name: str) -> Any:
    """Return a result as JSON data. Values that JSON does not have become their ``str()``.

    Raises ``ToolError`` if it is circular, too deep, or cannot be converted.
    """
    if isinstance(result, str):  # as of most tools
        return encodable(result)
    try:
        return json.loads(_json(result))
    except Exception as error:
        why = failure_words(error)
        raise ToolError(
            f"{name} has run, but its result cannot be encoded as JSON: {why}"
        ) from error


def failure_words(error: BaseException) -> str:
    """Return why a tool failed, worded for a model: what was raised, without the traceback."""
    return _shortened(_joined(*_failure_parts(error)))


def _failure_parts(error: BaseException) -> tuple[str | None, str]:
    """Return the kind of a failure, unless the message implies it, and the message."""
    try:
        message = str(error)
    except Exception as broken:  # noqa: BLE001 - a message that cannot be had must not hide the error
        message = f"(its message cannot be had: {type(broken).__name__})"
    if isinstance(error, BaseExceptionGroup):
        parts = [_joined(*_failure_parts(one)) for one in error.exceptions[:_MOST_CAUSES]]
        return None, encodable(f"{message}: {'; '.join(parts)}")
    kind: str | None = type(error).__name__
    if isinstance(error, ToolError):
        kind = error.kind
    elif isinstance(error, ArgstreamError | TimeoutError) and message:
        kind = None  # it says itself what is the case
    return kind, encodable(message)


def _joined(kind: str | None, message: str) -> str:
    return ": ".join(part for part in (kind, message) if part)


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    left_out = len(text) - _LONGEST
    half = _LONGEST // 2
    return f"{text[:half]} … ({left_out} characters left out) … {text[-half:]}"


def _json(result: object) -> bytes:
    from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

    try:
        # Bytes are text if they can be.
        return to_json(result, inf_nan_mode="strings", fallback=_plain)
    except PydanticSerializationError:
        dump = partial(
            to_jsonable_python, inf_nan_mode="strings", bytes_mode="base64", fallback=_plain
        )
    try:
        plain = dump(result)
    except UnicodeEncodeError:  # in a key
        plain = dump(_encodable(result))
    return to_json(_encodable(plain), inf_nan_mode="strings")


def _plain(value: Any) -> Any:
    """Convert what pydantic cannot serialise."""
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if callable(getattr(value, "tolist", None)):  # arrays and numbers of numpy
        return value.tolist()
    return str(value)


def _encodable(plain: Any) -> Any:
    match plain:
        case str():
            return encodable(plain)
        case list():
            return [_encodable(item) for item in plain]
        case dict():
            return {_encodable(key): _encodable(item) for key, item in plain.items()}
        case _:
            return plain


logger = logging.getLogger("argstream.agent")


class Unfinished(NamedTuple):
    """An awaitable that a sync function returned, in a thread that cannot await it."""

    returned: Any


async def finish(unfinished: Unfinished, context: ToolContext) -> Any:
    """Await what was returned, in a task of its own, so that a tool can only cancel itself."""
    outcome = _Outcome()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outcome.keep, unfinished.returned, context, name=context.name)
    except* RuntimeError as group:  # what the tool raised is kept: this is anyio's complaint
        logger.warning("%s left a cancel scope open: %s", context.name, group.exceptions[0])
    return outcome.get(context)


class _Outcome:
    def __init__(self) -> None:
        self._result: Any = None
        self._error: BaseException | None = anyio.get_cancelled_exc_class()()  # until it has begun

    async def keep(self, returned: Any, context: ToolContext) -> None:
        try:
            self._result, self._error = await _awaited(returned, context), None
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is wanted
            self._error = error

    def get(self, context: ToolContext) -> Any:
        """Return the result, or raise what the tool raised.

        What would end the program, or look like a cancelled run, is a failure of the tool. Only
        Ctrl-C, which Python raises in any code that runs, is raised unchanged.
        """
        error, self._error = self._error, None
        try:
            if error is None:
                return self._result
            if isinstance(error, anyio.get_cancelled_exc_class()):
                raise ToolError(f"{context.name} was cancelled by something in it") from error
            if isinstance(error, Exception | KeyboardInterrupt):
                raise error
            raise _ending(error, context) from error
        finally:
            del error  # it refers to this frame, and this frame to it


def call_sync(
    function: Callable[..., Any], arguments: Mapping[str, Any], context: ToolContext
) -> Any:
    """Call a sync function in this thread. It may return ``Unfinished``."""
    try:
        returned = function(**arguments)
        if isinstance(returned, GeneratorType):
            returned = _exhaust(returned, context)
        if inspect.isawaitable(returned) or inspect.isasyncgen(returned):
            return Unfinished(returned)
        return jsonable(returned, context.name)
    except StopIteration as error:  # no coroutine can raise it: that would be a RuntimeError
        raise ToolError(str(error), kind="StopIteration") from error
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
    """Consume a generator. What it returns, if anything, is the result instead of its text."""
    pieces: list[str] = []
    try:
        while not context.cancelled:
            pieces.append(_said(next(generator), context))
    except StopIteration as end:
        return "".join(pieces) if end.value is None else end.value
    finally:
        generator.close()
    return None  # its result is not wanted any more


def _said(piece: object, context: ToolContext) -> str:
    if not isinstance(piece, str):
        raise UsageError(
            f"{context.name} yielded {type(piece).__name__}, but what a tool yields is text: yield "
            "str, or return the result"
        )
    piece = encodable(piece)
    context.output(piece)
    return piece


def _ending(error: BaseException, context: ToolContext) -> ToolError:
    told = f"{type(error).__name__}({', '.join(map(repr, error.args))})"
    return ToolError(f"{context.name} tried to end the program: {told}")


_noted: "set[subprocess.Popen[bytes]]" = set()


@contextmanager
def noted(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Kill a process group at the end of the program, if it is still running then."""
    _noted.add(process)
    try:
        yield
    finally:
        _noted.discard(process)


@atexit.register
def kill_noted() -> None:
    for process in tuple(_noted):
        signal_group(process, signal.SIGKILL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_noted.clear)  # they are its parent's


def wait_without_reaping(process: "subprocess.Popen[bytes]") -> None:
    """Wait for the end, but keep the process ID reserved."""
    if not hasattr(os, "waitid"):
        process.wait()
        return
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return  # it was reaped elsewhere


def signal_group(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    if process.returncode is None:
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # none of them is left
