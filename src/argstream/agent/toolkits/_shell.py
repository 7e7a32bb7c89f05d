"""The tool ``run_command``. Commands need approval, and their time and output are limited."""

import asyncio
import atexit
import codecs
import math
import os
import signal
import subprocess
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import IO, Final, TypeAlias

from argstream._asyncio import run_in_thread
from argstream.agent._lease import check_seconds
from argstream.agent.toolkits._folder import Folder
from argstream.agent.tools import Tool, ToolContext, tool
from argstream.errors import ToolError, UsageError
from argstream.models._providers import PROVIDERS

_FIRST: Final = 10_000  # characters of the result: from the beginning of the output
_LAST: Final = 20_000  # and from its end
_MOST_STREAMED: Final = 1_000_000  # characters that are streamed; a log stores them
_CHUNK: Final = 64 * 1024
_MOST_LEFT: Final = 1024 * 1024  # bytes that a pipe may hold when its writers are gone
_GRACE: Final = 1.0  # seconds between SIGTERM and SIGKILL
_PATIENCE: Final = 0.2  # seconds that killed processes may need to disappear
_Process: TypeAlias = "subprocess.Popen[bytes]"
_processes: set[_Process] = set()  # those of commands that run


def shell_tool(root: Path | str, *, timeout: float = 120.0) -> Tool:
    """Return the tool ``run_command``, which runs a shell command in a folder after approval.

    It is not a sandbox: a command can do whatever your user can do. After ``timeout`` seconds, or
    when the run is stopped, the command and the processes that it started are ended.
    """
    if os.name != "posix":
        raise UsageError("run_command needs /bin/sh and process groups. This system has neither.")
    check_seconds("timeout", timeout)
    folder = Folder(root)

    async def run_command(command: str, context: ToolContext | None = None) -> str:
        """Run a command.

        :param command: what /bin/sh is given, such as pytest -q
        """
        transcript = _Transcript(context)
        with folder.opened(()):
            pass  # raises if it was replaced by another one
        status = await _run_in_shell(command, folder.root, transcript, timeout)
        output = transcript.text()
        if status is None:
            late = f"the command was stopped: it took longer than {timeout:g} s"
            raise TimeoutError(f"{late}; it said:\n{output}" if output else f"{late}; no output")
        how = _ending(status)
        return f"{how}\n{output}" if output else f"{how}, no output"

    description = (
        "Run a command in a shell (/bin/sh), in the root of the project. The answer has its exit "
        "status and what it printed. Standard input is empty. It "
        f"may take {timeout:g} seconds; what it leaves in the background ends with it."
    )
    return tool(requires_confirmation=True, description=description)(run_command)


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


class _Transcript:
    """Decodes and streams the output of a command. Keeps its beginning and its end."""

    def __init__(self, context: ToolContext | None) -> None:
        self._context = context
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._first = ""
        self._last = ""
        self._total = 0

    def add(self, data: bytes) -> None:
        """Add the next bytes; empty ones are the end."""
        text = self._decoder.decode(data, final=not data)
        room = _MOST_STREAMED - self._total
        if room > 0 and self._context is not None:
            self._context.output(text[:room])
            if len(text) > room:
                self._context.output("\n… more is not shown while it runs\n")
        self._total += len(text)
        first = text[: _FIRST - len(self._first)]
        self._first += first
        self._last = (self._last + text[len(first) :])[-_LAST:]

    def text(self) -> str:
        left_out = self._total - len(self._first) - len(self._last)
        middle = f"\n… ({left_out} characters left out) …\n" if left_out else ""
        return f"{self._first}{middle}{self._last}"

    async def wait_for_room(self) -> None:
        if self._context is not None:
            await self._context.wait_for_room()


async def _run_in_shell(
    command: str, directory: Path, transcript: _Transcript, timeout: float
) -> int | None:
    """Run a command and return its exit status, or None if it took too long.

    A negative status is the signal that killed it. All processes of its group are killed then.
    """
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "wb") as output:
            process = _start(command, directory, output)
        os.set_blocking(reading, False)
        _processes.add(process)
        try:
            return await _Running(process, reading, transcript).run(timeout)
        finally:
            _processes.discard(process)
    finally:
        os.close(reading)


def _start(command: str, directory: Path, output: IO[bytes]) -> _Process:
    environment = {name: value for name, value in os.environ.items() if name not in _secrets()}
    try:
        return subprocess.Popen(  # noqa: S603 - it was approved
            ["/bin/sh", "-c", command],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # too long, with a NUL, the folder is gone
        raise ToolError(f"the command could not be started: {error}") from error


class _Running:
    def __init__(self, process: _Process, pipe: int, transcript: _Transcript) -> None:
        self._process = process
        self._pipe = pipe
        self._transcript = transcript
        self._has_ended = False
        self._waits_for_room = True  # in the transcript

    async def run(self, timeout: float) -> int | None:
        try:
            try:
                async with asyncio.timeout(timeout):
                    await self._read_until_exit()
            except TimeoutError:
                await self._terminate()
                return None
            except (Exception, asyncio.CancelledError):
                await self._terminate()
                raise
            await run_in_thread(self._process.wait, "a command")
        except BaseException:
            # After a second cancellation, or because the program ends and may not resume this
            # coroutine. After ``_terminate``, nothing is left to kill.
            _signal_group(self._process, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):  # it may wait for a disk
                self._process.wait(_PATIENCE)
            raise
        return self._process.returncode

    async def _read_until_exit(self) -> None:
        """Read until the shell exits, and no longer: other processes may hold the pipe."""
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(self._read())
            await run_in_thread(partial(_wait_without_reaping, self._process), "a command")
            _signal_group(self._process, signal.SIGKILL)  # what it left in the background
            reading.cancel()
        self._has_ended = True
        await self._read_rest()

    async def _terminate(self) -> None:
        self._waits_for_room = False
        if not self._has_ended:
            _signal_group(self._process, signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):
                    await self._read()  # until all writers have ended
            _signal_group(self._process, signal.SIGKILL)
            await self._read_rest()
        await run_in_thread(self._process.wait, "a command")

    async def _read_rest(self) -> None:
        """Read what the pipe still holds, now that the process group is gone."""
        # A process that left the group may hold the pipe, and even write to it.
        with suppress(TimeoutError):
            await self._read(_PATIENCE, _MOST_LEFT)
        self._transcript.add(b"")

    async def _read(self, patience: float | None = None, most: float = math.inf) -> None:
        """Read to the end. Raises TimeoutError if nothing arrives for ``patience`` seconds."""
        while most > 0:
            async with asyncio.timeout(patience):
                await _until_readable(self._pipe)
            data = os.read(self._pipe, _CHUNK)
            if not data:
                return
            self._transcript.add(data)
            most -= len(data)
            if self._waits_for_room:
                await self._transcript.wait_for_room()


async def _until_readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    loop.add_reader(descriptor, is_readable.set)
    try:
        await is_readable.wait()
    finally:
        loop.remove_reader(descriptor)


@atexit.register
def kill_commands() -> None:
    """Kill the commands that still run, with all processes of their groups."""
    for process in tuple(_processes):
        _signal_group(process, signal.SIGKILL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_processes.clear)  # they belong to the parent


def _wait_without_reaping(process: _Process) -> None:
    """Wait for the end, but keep the process ID reserved."""
    if hasattr(os, "waitid"):
        with suppress(ChildProcessError):  # it was reaped elsewhere
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()


def _signal_group(process: _Process, number: signal.Signals) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):  # no process of the group is left
            os.killpg(process.pid, number)


@cache
def _secrets() -> frozenset[str]:
    """Return the variables that a command does not see."""
    own = ("ARGSTREAM_TOKEN", "ARGSTREAM_STORE")  # a store may contain a password
    names = [(*one.key_variables, one.token_variable) for one in PROVIDERS.values()]
    return frozenset(own).union(*names)
