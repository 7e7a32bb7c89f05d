"""A command in a shell, heard while it runs, and gone when nobody waits for it any more.

It leads a session of its own: it has no terminal to ask at, and all that it starts is ended with
it.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

import anyio
import anyio.lowlevel

from argstream.agent.toolkits._environment import without_keys
from argstream.agent.tools import run_in_thread
from argstream.agent.tools.process_groups import noted, signal_group, wait_without_reaping
from argstream.errors import ToolFailure

__all__ = ["Listener", "run_command"]

_CHUNK: Final = 64 * 1024
_MOST_LEFT: Final = 1024 * 1024  # bytes that a pipe holds when all who wrote to it are gone
_GRACE: Final = 1.0  # seconds to end after being asked to
_PATIENCE: Final = 0.2  # seconds for those that were killed to be gone


class Listener(Protocol):
    """Hears what a command says."""

    def take(self, data: bytes) -> None:
        """Take the next piece; an empty one is the end."""
        ...

    async def wait_for_room(self) -> None:
        """Wait until there is room for more; the command waits, too."""
        ...


async def run_command(
    command: str, directory: Path, listener: Listener, timeout: float
) -> int | None:
    """Run a command to its end, and give its exit status; None if that took too long.

    A negative one is the signal that killed it. Whatever it started is killed when it is over.
    """
    reading, writing = os.pipe()
    try:
        try:
            process = _start(command, directory, writing)
        finally:
            os.close(writing)
        with noted(process), anyio.move_on_after(timeout) as in_time:
            os.set_blocking(reading, False)
            async with _Running(process, reading, listener) as running:
                await running.until_it_ends()
    finally:
        os.close(reading)
    return None if in_time.cancelled_caught else process.returncode


class _Running:
    """A command that runs, and the pipe that it writes to."""

    def __init__(self, process: "subprocess.Popen[bytes]", pipe: int, listener: Listener) -> None:
        self._process = process
        self._pipe = pipe
        self._listener = listener
        self._has_ended = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception | asyncio.CancelledError | None):
            self._kill()  # the program ends: there may be nobody who would go on with this
            return
        with anyio.CancelScope(shield=True):
            try:
                await self._end()
            except BaseException:  # so it is to end sooner than that
                self._kill()
                raise

    async def until_it_ends(self) -> None:
        """Hear all that is said until the shell ends, and no longer: others may hold the pipe."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._hear)
            await run_in_thread(partial(wait_without_reaping, self._process), "a command")
            signal_group(self._process, signal.SIGKILL)  # what it left in the background
            tasks.cancel_scope.cancel()
        self._has_ended = True
        await self._hear_rest(self._listener.wait_for_room)

    async def _end(self) -> None:
        """End it, with all that it has started: first it is asked to, then it is killed."""
        if not self._has_ended:
            signal_group(self._process, signal.SIGTERM)
            with anyio.move_on_after(_GRACE):
                await self._hear(has_room=True)  # until all who write have ended
            signal_group(self._process, signal.SIGKILL)
            await self._hear_rest(anyio.lowlevel.checkpoint)
        await run_in_thread(self._process.wait, "a command")

    def _kill(self) -> None:
        """End it, with all that it has started, without ``await``."""
        signal_group(self._process, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # a disk that does not answer holds it up
            self._process.wait(_PATIENCE)

    async def _hear(self, *, has_room: bool = False) -> None:
        while True:
            await anyio.wait_readable(self._pipe)
            data = os.read(self._pipe, _CHUNK)
            if not data:
                return
            self._listener.take(data)
            if not has_room:
                await self._listener.wait_for_room()

    async def _hear_rest(self, wait_for_room: Callable[[], Awaitable[object]]) -> None:
        """Hear what the pipe holds now that nobody of ours writes any more."""
        left = _MOST_LEFT
        while left > 0:
            with anyio.move_on_after(_PATIENCE) as waiting:
                await anyio.wait_readable(self._pipe)
            if waiting.cancelled_caught:
                break  # a process that has left the group holds it
            data = os.read(self._pipe, _CHUNK)
            if not data:
                break
            self._listener.take(data)
            left -= len(data)
            await wait_for_room()
        self._listener.take(b"")


def _start(command: str, directory: Path, output: int) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(  # noqa: S603 - a person has approved of it
            ["/bin/sh", "-c", command],
            cwd=directory,
            env=without_keys(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # too long, a NUL, no folder any more
        raise ToolFailure(f"the command could not be started: {error}") from error
