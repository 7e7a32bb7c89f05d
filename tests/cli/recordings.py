"""What the tests of record, replay and inspect share: recordings with given times, processes."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from argstream.recording import Recorder
from tests.cli.test_cli import COMMAND, ENVIRONMENT
from tests.provider_streams import anthropic_call, sse

BODY = sse(anthropic_call('{"path": "é', '.txt", "edits": [{"old": 1}]}'))
KEY = "sk-ant-api03-CANARY-0123456789-abcdef"
MESSAGES: Any = [{"role": "user", "content": "hi"}]
ANTHROPIC: Any = {"model": "m", "max_tokens": 99, "messages": MESSAGES}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def timed(path: Path, *chunks: tuple[float, bytes], ending: Any = "orderly") -> str:
    """Write a recording with these times, which is over with its last chunk."""
    clock = Clock()
    recorder = Recorder(path, clock=clock)
    for at, data in chunks:
        clock.now = at
        recorder.write(data)
    recorder.close(ending, "" if ending == "orderly" else "it broke")
    return str(path)


class Process(subprocess.Popen[bytes]):
    """A process whose streams are all pipes."""

    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]


@contextmanager
def running(*arguments: str, **options: Any) -> Iterator[Process]:
    pipe = subprocess.PIPE
    with Process(
        [COMMAND, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, env=ENVIRONMENT, **options
    ) as process:
        try:
            yield process
        finally:
            process.kill()
