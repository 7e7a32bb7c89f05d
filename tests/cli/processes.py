"""Commands in processes of their own, and recordings with given times.

The processes are forked from a server that has imported argstream already. What depends on the
start of Python is tested with ``COMMAND``, the command as it is installed.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.context import ForkServerContext
from multiprocessing.reduction import DupFd
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from typing import IO, Any, Self, cast

from argstream.cli import main
from argstream.recording import Recorder
from argstream.testing import MockProvider
from tests.provider_streams import anthropic_call, sse

COMMAND = Path(sys.executable).parent / "argstream"
# As for most users: Python buffers its output and caches bytecode. COVERAGE_ is
# removed here too, because tests/conftest.py removes it later than this module is read.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "NO_COLOR", "FORCE_COLOR")
    and not name.startswith("COVERAGE_")
}

BODY = sse(anthropic_call('{"path": "é', '.txt", "edits": [{"old": 1}]}'))
KEY = "sk-ant-api03-CANARY-0123456789-abcdef"
MESSAGES: Any = [{"role": "user", "content": "hi"}]
ANTHROPIC: Any = {"model": "m", "max_tokens": 99, "messages": MESSAGES}


def fork_server() -> ForkServerContext:
    """Return the context of processes that are forked from one that has imported argstream."""
    context = multiprocessing.get_context("forkserver")
    ours = ("cli._commands", "cli._agents", "cli._inspect", "cli._serve", "cli.demo")
    tests = ("tests.server.program", "tests.surviving.attempts", "pytest")
    context.set_forkserver_preload([*(f"argstream.{name}" for name in ours), *tests])
    return context


class _Descriptor:
    """A file descriptor that is an argument of a process."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _detached, (DupFd(self._number),)


def _detached(descriptor: Any) -> int:
    return cast("int", descriptor.detach())


def _begin(
    streams: list[int], env: dict[str, str], cwd: str, ignored: tuple[int, ...], umask: int
) -> None:
    """Make a forked process what a started one is: its streams, environment and signals."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    os.umask(umask)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for one in ignored:
        signal.signal(one, signal.SIG_IGN)


def _run(target: Callable[..., object], arguments: tuple[Any, ...], *settings: Any) -> None:
    _begin(*settings)
    try:
        target(*arguments)
    finally:
        sys.stdout.flush()  # an error is reported, as at the end of Python


def _run_command(*arguments: str) -> None:
    sys.argv = ["argstream", *arguments]
    main()


class Process:
    """A forked process with the methods of a ``subprocess.Popen`` whose streams are pipes."""

    def __init__(
        self,
        target: Callable[..., object],
        *arguments: Any,
        stdin: int | None = None,
        stdout: int | None = None,
        env: Mapping[str, str] = ENVIRONMENT,
        cwd: Path | None = None,
        ignored: tuple[int, ...] = (),
        umask: int = 0o22,
    ) -> None:
        (reader, send), (read, writer), (read_error, error) = [os.pipe() for _ in range(3)]
        streams = [
            reader if stdin is None else stdin, writer if stdout is None else stdout, error
        ]  # fmt: skip
        settings = (dict(env), str(cwd or Path.cwd()), ignored, umask)
        given = (target, arguments, [_Descriptor(stream) for stream in streams], *settings)
        self._process = fork_server().Process(target=_run, args=given)
        self._process.start()
        for theirs in (reader, writer, error):
            os.close(theirs)
        self.stdin: IO[bytes] = os.fdopen(send, "wb", 0)
        self.stdout: IO[bytes] = os.fdopen(read, "rb")
        self.stderr: IO[bytes] = os.fdopen(read_error, "rb")
        self.pid = cast("int", self._process.pid)

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send(self, data: bytes) -> None:
        self.stdin.write(data)

    def send_signal(self, number: int) -> None:
        # The fork server reaps an ended process shortly before it reports the exit status.
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = 20) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise TimeoutExpired("the process", timeout)
        return self.returncode

    def communicate(self, data: bytes = b"", timeout: float = 20) -> tuple[bytes, bytes]:
        """Send these bytes and the end of the input, and return the whole output."""
        with ThreadPoolExecutor() as pool:
            output, errors = (pool.submit(file.read) for file in (self.stdout, self.stderr))
            with suppress(BrokenPipeError), self.stdin:
                self.stdin.write(data)
            self.wait(timeout)
            return output.result(), errors.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()
        for file in (self.stdin, self.stdout, self.stderr):
            file.close()


@contextmanager
def running(*arguments: str, **options: Any) -> Iterator[Process]:
    """Start a command, and kill it at the end of the block."""
    with Process(_run_command, *arguments, **options) as process:
        yield process


def run(*arguments: str, stdin: bytes = b"", **options: Any) -> CompletedProcess[bytes]:
    """Run a command in a process of its own."""
    with running(*arguments, **options) as process:
        output = process.communicate(stdin, 40)
        return CompletedProcess(arguments, process.wait(), *output)


def provided(provider: MockProvider) -> dict[str, str]:
    key = {"ANTHROPIC_BASE_URL": provider.anthropic_url, "ANTHROPIC_API_KEY": "sk-canary"}
    return {**key, "ARGSTREAM_MODEL": "anthropic:claude-any"}


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def timed(path: Path, *chunks: tuple[float, bytes], ending: Any = "orderly") -> str:
    """Write a recording whose chunks arrived at these times."""
    clock = Clock()
    recorder = Recorder(path, clock=clock)
    for at, data in chunks:
        clock.now = at
        recorder.write(data)
    recorder.close(ending, "" if ending == "orderly" else "it broke")
    return str(path)
