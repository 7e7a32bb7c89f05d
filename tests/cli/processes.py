"""Commands that are started as a user starts them, and recordings with given times."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from argstream.recording import Recorder
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


class Process(subprocess.Popen[bytes]):
    """A process whose streams are all pipes."""

    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]

    def send(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()


@contextmanager
def running(*arguments: str, **options: Any) -> Iterator[Process]:
    """Start a command, and kill it at the end of the block."""
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    options = {**streams, "env": ENVIRONMENT, **options}
    with Process([COMMAND, *arguments], **options) as process:
        try:
            yield process
        finally:
            process.kill()


def run(*arguments: str, stdin: bytes = b"", **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own."""
    options = {"env": ENVIRONMENT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run([COMMAND, *arguments], input=stdin, check=False, timeout=40, **options)


def in_shell(line: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a line of shell in which ``argstream`` is the command."""
    environment = ENVIRONMENT | {"PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
    command = ["sh", "-c", line]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, env=environment)


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
