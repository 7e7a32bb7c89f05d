"""The tool ``run_command``: each command needs an approval, and is bounded in time and output."""

import asyncio
import codecs
import math
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
import anyio.lowlevel

from argstream.agent.toolkits._folder import Folder
from argstream.agent.tools import Tool, ToolContext, run_in_thread, tool
from argstream.agent.tools._execute import noted, signal_group, wait_without_reaping
from argstream.errors import ToolError, UsageError
from argstream.models._http import PROVIDERS

_FIRST: Final = 10_000  # characters that a model gets of the beginning,
_LAST: Final = 20_000  # and of the end
_MOST_TOLD: Final = 1_000_000  # characters that are streamed, since a log keeps them
_CHUNK: Final = 64 * 1024
_MOST_LEFT: Final = 1024 * 1024  # bytes that a pipe may hold when its writers are gone
_GRACE: Final = 1.0  # seconds to end after being asked to
_PATIENCE: Final = 0.2  # seconds for those that were killed to be gone
_KEYS: Final = frozenset(
    {
        "ARGSTREAM_TOKEN",
        "ARGSTREAM_STORE",  # which may have a password in it
        *(
            name
            for provider in PROVIDERS.values()
            for name in (*provider.key_variables, provider.token_variable)
        ),
    }
)


def shell_tool(root: Path | str, *, timeout: float = 120.0) -> Tool:
    """Make the tool ``run_command``, which runs a command in a folder after a person approved it.

    It is not a sandbox: a command may do what you may do. After ``timeout`` seconds, or when the
    run is stopped, the command is ended with all that it has started.
    """
    if os.name != "posix":
        raise UsageError("run_command needs /bin/sh and process groups, which this system has not")
    if isinstance(timeout, bool) or not 0 < timeout < math.inf:
        raise UsageError(f"shell_tool: timeout must be seconds greater than 0, not {timeout!r}")
    folder = Folder(root)

    async def run_command(command: str, context: ToolContext | None = None) -> str:
        """Run a command.

        :param command: what /bin/sh is given, such as pytest -q
        """
        transcript = _Transcript(context)
        folder.require_same()
        status = await _run_in_shell(command, folder.root, transcript, timeout)
        said = transcript.text()
        if status is None:
            raise TimeoutError(
                f"the command was stopped: it took longer than {timeout:g} s"
                + (f"; it said:\n{said}" if said else "; it said nothing")
            )
        return f"{_words(status)}\n{said}" if said else f"{_words(status)}, no output"

    description = (
        "Run a command in a shell (/bin/sh), in the root of the project. The answer has its exit "
        "status and what it printed. Standard input is empty. It "
        f"may take {timeout:g} seconds; what it leaves in the background ends with it."
    )
    return tool(requires_confirmation=True, description=description)(run_command)


def _words(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


class _Transcript:
    """Decodes the output of a command, passes it on while it runs, and keeps both ends of it."""

    def __init__(self, context: ToolContext | None) -> None:
        self._context = context
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._first = ""
        self._last = ""
        self._total = 0

    def take(self, data: bytes) -> None:
        """Add the next bytes; empty ones are the end."""
        text = self._decoder.decode(data, final=not data)
        room = _MOST_TOLD - self._total
        if room > 0 and text:
            self._tell(text[:room])
            if len(text) > room:
                self._tell("\n… more is not shown while it runs\n")
        self._total += len(text)
        taken = text[: _FIRST - len(self._first)]
        self._first += taken
        self._last = (self._last + text[len(taken) :])[-_LAST:]

    def text(self) -> str:
        left_out = self._total - len(self._first) - len(self._last)
        middle = f"\n… ({left_out} characters left out) …\n" if left_out else ""
        return f"{self._first}{middle}{self._last}"

    async def wait_for_room(self) -> None:
        if self._context is not None:
            await self._context.wait_for_room()

    def _tell(self, text: str) -> None:
        if self._context is not None:
            self._context.output(text)


async def _run_in_shell(
    command: str, directory: Path, transcript: _Transcript, timeout: float
) -> int | None:
    """Run a command and return its exit status; None if it took too long.

    A negative status is the signal that killed it. When it is over, all that it started is killed.
    """
    reading, writing = os.pipe()
    try:
        try:
            process = _start(command, directory, writing)
        finally:
            os.close(writing)
        with noted(process), anyio.move_on_after(timeout) as in_time:
            os.set_blocking(reading, False)
            async with _Running(process, reading, transcript) as running:
                await running.until_it_ends()
    finally:
        os.close(reading)
    return None if in_time.cancelled_caught else process.returncode


class _Running:
    def __init__(
        self, process: "subprocess.Popen[bytes]", pipe: int, transcript: _Transcript
    ) -> None:
        self._process = process
        self._pipe = pipe
        self._transcript = transcript
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
            self._kill()  # the program ends, and may not resume this coroutine
            return
        with anyio.CancelScope(shield=True):
            try:
                await self._end()
            except BaseException:  # so it is to end sooner than that
                self._kill()
                raise

    async def until_it_ends(self) -> None:
        """Read until the shell ends, and no longer: other processes may hold the pipe."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._hear)
            await run_in_thread(partial(wait_without_reaping, self._process), "a command")
            signal_group(self._process, signal.SIGKILL)  # what it left in the background
            tasks.cancel_scope.cancel()
        self._has_ended = True
        await self._hear_rest(self._transcript.wait_for_room)

    async def _end(self) -> None:
        """Terminate it with all that it has started, and kill what is left."""
        if not self._has_ended:
            signal_group(self._process, signal.SIGTERM)
            with anyio.move_on_after(_GRACE):
                await self._hear(has_room=True)  # until all writers have ended
            signal_group(self._process, signal.SIGKILL)
            await self._hear_rest(anyio.lowlevel.checkpoint)
        await run_in_thread(self._process.wait, "a command")

    def _kill(self) -> None:
        """Kill it with all that it has started, without ``await``."""
        signal_group(self._process, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # a disk that does not answer holds it up
            self._process.wait(_PATIENCE)

    async def _hear(self, *, has_room: bool = False) -> None:
        while True:
            await anyio.wait_readable(self._pipe)
            data = os.read(self._pipe, _CHUNK)
            if not data:
                return
            self._transcript.take(data)
            if not has_room:
                await self._transcript.wait_for_room()

    async def _hear_rest(self, wait_for_room: Callable[[], Awaitable[object]]) -> None:
        """Read what the pipe still holds, now that the process group is gone."""
        left = _MOST_LEFT
        while left > 0:
            with anyio.move_on_after(_PATIENCE) as waiting:
                await anyio.wait_readable(self._pipe)
            if waiting.cancelled_caught:
                break  # a process that has left the group holds it
            data = os.read(self._pipe, _CHUNK)
            if not data:
                break
            self._transcript.take(data)
            left -= len(data)
            await wait_for_room()
        self._transcript.take(b"")


def _start(command: str, directory: Path, output: int) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(  # noqa: S603 - a person has approved of it
            ["/bin/sh", "-c", command],
            cwd=directory,
            env=_without_keys(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # too long, a NUL, no folder any more
        raise ToolError(f"the command could not be started: {error}") from error


def _without_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that hold keys, tokens and passwords."""
    return {name: value for name, value in environment.items() if name not in _KEYS}
