"""Commands that start at once: forked by a process that has imported all that they may need.

It is run as ``python -m tests.cli.prepared``, with a socket to hear from the tests. A command gets
pipes, an environment and a folder of its own, and ends as any other process does.
"""

import atexit
import functools
import gc
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import msgspec

from argstream.cli import main

__all__ = ["argstream"]

_ROOT = Path(__file__).parents[2]
_MOST_BYTES = 1 << 20  # of a request, with its environment


class _Request(msgspec.Struct):
    arguments: tuple[str, ...]
    environment: dict[str, str]
    folder: str


def argstream(
    *arguments: str, stdin: bytes = b"", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a command, as ``subprocess.run`` would in the folder of now, with more variables set."""
    pipes = [os.pipe() for _ in range(3)]
    (theirs_in, ours_in), (ours_out, theirs_out), (ours_err, theirs_err) = pipes
    theirs = [theirs_in, theirs_out, theirs_err]
    request = _Request(arguments, {**os.environ, **variables}, str(Path.cwd()))
    server = _server()
    socket.send_fds(server, [msgspec.json.encode(request)], theirs)
    for pipe in theirs:
        os.close(pipe)
    with (
        ThreadPoolExecutor(3) as threads,
        os.fdopen(ours_in, "wb") as to,
        os.fdopen(ours_out, "rb") as out,
        os.fdopen(ours_err, "rb") as err,
    ):
        threads.submit(_feed, to, stdin)
        said, complained = threads.submit(out.read), threads.submit(err.read)
        status = msgspec.json.decode(server.recv(64), type=int)
        return subprocess.CompletedProcess(
            arguments, status, stdout=said.result(), stderr=complained.result()
        )


def _feed(to: BinaryIO, data: bytes) -> None:
    try:
        with to:
            to.write(data)
    except BrokenPipeError:
        pass  # it has not read all of it, as others have not either


@functools.cache
def _server() -> socket.socket:
    """Start it; it ends with the tests, since then nobody holds the other end of its socket."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.prepared"],
        stdin=theirs.fileno(),
        stdout=subprocess.DEVNULL,
        cwd=_ROOT,
    )
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)  # the last that was registered is the first
    return ours


def _serve() -> None:
    """Fork commands until nobody asks for one: the forked ones return from here."""
    _import_all()
    asked = socket.socket(fileno=os.dup(0))
    while True:
        data, pipes, _, _ = socket.recv_fds(asked, _MOST_BYTES, 3)
        if not data:
            sys.exit()
        process = os.fork()
        if process == 0:
            asked.close()
            _become(msgspec.json.decode(data, type=_Request), pipes)
            return
        for pipe in pipes:
            os.close(pipe)
        _, status = os.waitpid(process, 0)
        asked.send(msgspec.json.encode(os.waitstatus_to_exitcode(status)))


def _import_all() -> None:
    for path in sorted((_ROOT / "src/argstream/cli").glob("*.py")):
        if path.stem != "__init__":
            __import__(f"argstream.cli.{path.stem}")
    __import__("typer._adapters")
    gc.collect()
    gc.freeze()


def _become(request: _Request, pipes: list[int]) -> None:
    """Be the process that was asked for."""
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    sys.argv = ["argstream", *request.arguments]
    # As Python does when it starts.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)


if __name__ == "__main__":
    _serve()
    main()
