"""Helpers for asyncio: loops and functions in threads, clients per loop, tasks that must end."""

import asyncio
import atexit
import contextvars
import math
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Generic, NamedTuple, TypeVar
from weakref import ReferenceType, ref

Result = TypeVar("Result")
Client = TypeVar("Client")
_CLEANUP: Final = 2.0  # seconds for a cancelled task to clean up; ending a command takes up to 1.5
_AT_EXIT: Final = 5.0  # seconds that the program's end waits for a loop that was left behind


def current_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Notifier:
    """Wakes tasks of one event loop."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def notify(self) -> None:
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def wait(self) -> "asyncio.Future[None]":
        """Return a future that the next ``notify`` completes."""
        # Finding the loop again would cost a system call in Python 3.11.
        self._loop = self._loop or asyncio.get_running_loop()
        waiting: asyncio.Future[None] = self._loop.create_future()
        self.waiting.append(waiting)
        return waiting

    async def until(self, is_so: Callable[[], bool], seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not is_so():
                    await self.wait()


class FirstLoop:
    """Remembers the event loop that first uses an object."""

    def __init__(self) -> None:
        self._loop: ReferenceType[asyncio.AbstractEventLoop] | None = None

    def is_current(self) -> bool:
        loop = asyncio.get_running_loop()
        self._loop = self._loop or ref(loop)
        return self._loop() is loop


class PerLoop(Generic[Client]):
    """A client for each event loop, because its connections belong to a loop.

    A client is closed when its loop ends, or when this is no longer referenced. Both rely on the
    async generator that keeps it: loops close those that are left.
    """

    def __init__(
        self,
        create: Callable[[], Client],
        close: Callable[[Client], Awaitable[None]],
        drop: Callable[[Client], None] = lambda _: None,
    ) -> None:
        """``drop`` is called for a client whose loop was closed without closing it."""
        self._create = create
        self._close = close
        self._drop = drop
        # Clients refer to their loops, so entries must be removed to free the loops.
        self._open: dict[asyncio.AbstractEventLoop, _Open[Client]] = {}

    def __del__(self) -> None:
        self._drop_closed()

    async def get(self) -> Client:
        loop = asyncio.get_running_loop()
        found = self._open.get(loop)
        if found is None:
            self._drop_closed()
            keeper = _keep(ref(self), loop, self._create(), self._close)
            # anext() does not suspend here, so no other task creates a second client.
            found = self._open[loop] = _Open(await anext(keeper), keeper)
        return found.client

    async def close(self) -> None:
        """Close the client of this event loop."""
        found = self._open.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.keeper.aclose()

    async def close_all(self) -> None:
        """Close all clients: that of this event loop now, others when their loops run."""
        self._drop_closed()
        here = asyncio.get_running_loop()
        for loop in list(self._open):
            if loop is not here and (found := self._open.pop(loop, None)) is not None:
                with suppress(RuntimeError):  # the loop may be closed by now
                    asyncio.run_coroutine_threadsafe(found.keeper.aclose(), loop)
        await self.close()

    def forget(self, loop: asyncio.AbstractEventLoop, client: Client) -> None:
        if (found := self._open.get(loop)) is not None and found.client is client:
            del self._open[loop]

    def _drop_closed(self) -> None:
        for loop in list(self._open):  # other threads may do the same
            if loop.is_closed() and (found := self._open.pop(loop, None)) is not None:
                self._drop(found.client)


class _Open(NamedTuple, Generic[Client]):
    client: Client
    keeper: AsyncGenerator[Client, None]


async def _keep(
    owner: ReferenceType[PerLoop[Client]],
    loop: asyncio.AbstractEventLoop,
    client: Client,
    close: Callable[[Client], Awaitable[None]],
) -> AsyncGenerator[Client, None]:
    try:
        yield client
    finally:
        if (clients := owner()) is not None:
            clients.forget(loop, client)
        await close(client)


async def shielded(work: Coroutine[Any, Any, Result]) -> Result:
    """Await work to its end, also if this is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await _until_done(task)
        return task.result()
    finally:
        del task  # it may refer to this frame, and this frame to it


async def cancel_until_done(task: "asyncio.Task[Any]") -> None:
    """Cancel a task, and cancel it again every two seconds, until it is done.

    A task may ignore a cancellation, for example with ``except BaseException``. The two seconds
    are for cleaning up, also if this is cancelled meanwhile.
    """
    await _until_done(task, cancels=True)


async def _until_done(task: "asyncio.Future[Any]", *, cancels: bool = False) -> None:
    """Wait for a task. A cancellation of this meanwhile is raised at the end."""
    clock = asyncio.get_running_loop().time
    cancellation: asyncio.CancelledError | None = None
    again_at = -math.inf if cancels else math.inf
    while not task.done():
        if clock() >= again_at:
            task.cancel()
            again_at = clock() + _CLEANUP
        try:
            await asyncio.wait([task], timeout=again_at - clock() if cancels else None)
        except asyncio.CancelledError as error:
            cancellation = error
    try:
        if cancellation is not None:
            raise cancellation
    finally:
        del cancellation  # it refers to this frame, and this frame to it


async def run_in_thread(function: Callable[[], Result], name: str) -> Result:
    """Run a function in a thread of its own, with the current context variables.

    If this is cancelled, the thread goes on, and its result is dropped. The thread does not belong
    to a pool, because one that never ends must not block other tools or the end of the program.
    """
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    variables = contextvars.copy_context()
    results: list[Result] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            if (sniffio := sys.modules.get("sniffio")) is not None:  # no loop runs in the thread
                variables.run(sniffio.current_async_library_cvar.set, None)
            results.append(variables.run(function))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            errors.append(error)
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=work, name=f"argstream: {name}", daemon=True).start()
    await done.wait()
    if errors:
        raise errors.pop()  # not kept here: it refers to this frame
    return results[0]


class LoopThread:
    """Runs coroutines for one thread that waits for them.

    The thread is a daemon: a loop that was left behind must not keep the program from ending. At
    exit it gets a few seconds to end in order.
    """

    def __init__(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """``last`` is awaited in the loop before it ends."""
        self._last = last
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="argstream: run", daemon=True)
        self._thread.start()
        atexit.register(self._close_at_exit)

    def call(self, work: Callable[[], Awaitable[Result]]) -> Result:
        future = self._begin(work)
        try:
            answer = future.result()
        except BaseException:
            future.cancel()  # if the waiting thread is interrupted
            raise
        if isinstance(answer, _Exit):
            raise answer.error
        return answer

    def wait_for(self, answer: Awaitable[Result]) -> Result:
        return self.call(lambda: answer)

    def close(self) -> None:
        """Await ``last`` and end the loop. Later calls do nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self._close_at_exit)
        if threading.current_thread() is self._thread:  # a garbage collection that came there
            self._begin(self._finish)
            return
        try:
            self.call(self._finish)
        finally:
            self._thread.join()

    def _close_at_exit(self) -> None:
        self._is_closed = True
        try:
            self._begin(self._finish).result(_AT_EXIT)
        except TimeoutError:
            return  # the thread ends with the program
        self._thread.join(_AT_EXIT)

    async def _finish(self) -> None:
        try:
            if self._last is not None:
                await self._last()
        finally:
            self._loop.call_soon(self._loop.stop)

    def _begin(self, work: Callable[[], Awaitable[Result]]) -> "Future[Result | _Exit]":
        return asyncio.run_coroutine_threadsafe(_awaited(work), self._loop)

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()  # it does not wait for threads that a tool has left behind


class _Exit(NamedTuple):
    """Carries SystemExit or KeyboardInterrupt to the thread that waits for the coroutine."""

    error: SystemExit | KeyboardInterrupt


async def _awaited(work: Callable[[], Awaitable[Result]]) -> Result | _Exit:
    try:
        return await work()
    except (SystemExit, KeyboardInterrupt) as error:
        return _Exit(error)  # raised in a task, it would end the loop and not the program
