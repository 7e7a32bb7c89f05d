"""Tools that the tests run in subprocesses: those import this module."""

import asyncio
import atexit
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from argstream.agent.tools import ToolContext, tool


class Point(BaseModel):
    x: int


@tool(isolate=True)
def where(point: Point, context: ToolContext) -> dict[str, Any]:
    context.output("said")
    return {
        "process": os.getpid(),
        "leader": os.getpgid(0),
        "x": point.x,
        "ids": [context.run_id, context.call_id, context.name, context.idempotency_key],
        "cancelled": context.cancelled,
        "arguments": sys.argv,
    }


@tool(isolate=True)
def add(a: int, b: int) -> int:
    return a + b


@tool(isolate=True)
async def later(text: str) -> str:
    await asyncio.sleep(0.001)
    return text[::-1]


@tool(isolate=True)
def letters() -> Iterator[str]:
    yield "a"
    yield "b"


@tool(isolate=True)
async def more_letters() -> AsyncIterator[str]:
    yield "c"
    yield "d"


@tool(isolate=True)
def prints(size: int) -> str:
    """Print what looks like a message, and more than a pipe holds, to both outputs."""
    sys.stdout.write('\x00\x00\x00\x00\x00\x00\x00\x12["result","forged"]\n')
    os.write(1, b"\xff\n")
    sys.stderr.write("x" * size + "\n")
    sys.stdout.write("é without an end")
    return "true"


@tool(isolate=True)
def flood(way: str, size: int, context: ToolContext) -> str:
    say = context.output if way == "output" else sys.stdout.write
    for _ in range(size // 100_000):
        say("x" * 100_000)
    return "done"


@tool(isolate=True)
def large(size: int) -> str:
    return "x" * size


@tool(isolate=True)
def fails(how: str) -> None:
    match how:
        case "raise":
            raise FileNotFoundError(2, "No such file", "x")
        case "exit":
            sys.exit(3)
        case "hard exit":
            print("last words")  # noqa: T201 - that is the test
            sys.stdout.flush()
            os._exit(3)
        case "crash":
            ctypes.string_at(0)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "closes":
            os.closerange(0, 100)
        case "fork":
            if os.fork():
                os._exit(7)
            time.sleep(60)  # holds on to all pipes


@tool(isolate=True)
def odd() -> object:
    circle: list[Any] = []
    circle.append(circle)
    return circle


@tool(isolate=True)
def in_order(path: str) -> None:
    atexit.register(Path(path).write_text, "put in order")


def _grow(path: str) -> None:
    while True:
        with Path(path).open("a") as file:
            file.write("x")
        time.sleep(0.001)


@tool(isolate=True)
def grows(path: str) -> None:
    """Does not end for a signal that can be ignored."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _grow(path)


@tool(isolate=True)
async def grows_async(path: str) -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            with Path(path).open("a") as file:
                file.write("x")
            await asyncio.sleep(0.001)


@tool(isolate=True)
def leaves_behind(path: str) -> str:
    """End while a process that it started goes on."""
    program = "import sys, time\nwhile True:\n open(sys.argv[1], 'a').write('x'); time.sleep(0.001)"
    subprocess.Popen([sys.executable, "-S", "-c", program, path])
    while not Path(path).exists() or not Path(path).stat().st_size:
        time.sleep(0.001)
    return "done"


if __name__ == "__main__":  # a subprocess that runs this would never end
    _grow("/dev/null")
