"""Processes that are made quickly: by one that has imported everything, and has no threads.

It is run as ``python -m tests.surviving.zygote``. For each line that it is given, a ``Part``, it
forks a process that plays it, says the id of that, and then how it ended.
"""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

import msgspec

from argstream.agent import Agent
from tests.surviving.outside import Outside
from tests.surviving.parts import Part, play
from tests.surviving.points import Points
from tests.surviving.stories import PROMPT, letters, model, tools

MOST_SECONDS = 25
"""After which a process is ended by the system, whatever it does: so nothing is left behind."""


class Zygote:
    """For the tests: a process that makes others, one after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.surviving.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(2 * MOST_SECONDS)
        self._process.stdout.close()

    def start(self, part: Part) -> int:
        """Start a process that plays a part, and give its id."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(part) + b"\n")
        self._process.stdin.flush()
        return self._said()

    def wait(self) -> int:
        """Wait for its end, and give its exit code: below 0 the signal that has killed it."""
        return os.waitstatus_to_exitcode(self._said())

    def play(self, part: Part) -> int:
        """Have a part played, and give the exit code."""
        self.start(part)
        return self.wait()

    def _said(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "it could not be started, or took too long for what it does first"
        return int(line)


def _fork(part: Part) -> int:
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        signal.alarm(MOST_SECONDS)
        asyncio.run(play(part))
        code = 0
    except BaseException:  # noqa: BLE001 - it must not go on as the one that forks
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


async def _rehearse() -> None:
    """Do most of what is done in a part, so that all that is loaded for it is there already."""
    with TemporaryDirectory() as directory:
        outside = Outside(Path(directory))
        agent = Agent(model(letters, outside), tools(outside, Points()))
        await agent.run_async(PROMPT)


def main() -> None:
    signal.alarm(MOST_SECONDS)
    asyncio.run(_rehearse())
    signal.alarm(0)
    assert threading.active_count() == 1, "who forks must not have threads"
    gc.freeze()  # what is there is not looked at, and so not copied, in each process
    for line in sys.stdin:
        part = msgspec.json.decode(line, type=Part)
        process = _fork(part)
        print(process, flush=True)  # noqa: T201 - that is how it speaks
        if part.lives is not None:
            time.sleep(part.lives)
            os.kill(process, signal.SIGKILL)  # its end was not waited for: the id is no other's
        _, status = os.waitpid(process, 0)
        print(status, flush=True)  # noqa: T201 - as above


if __name__ == "__main__":
    main()
