"""The other side of an isolated tool: what its subprocess does.

It is started with a socket, over which it is told what to call, and tells what came of it. Its
standard output belongs to the tool.
"""

import atexit
import io
import os
import signal
import socket
import sys
import threading
from typing import Any, Final, NoReturn

import msgspec

from argstream.agent.tools._binding import bind
from argstream.agent.tools._calling import Unfinished, call_async, call_sync, finish, is_async
from argstream.agent.tools._frames import Frame, FrameReader, encode
from argstream.agent.tools._origin import Origin, find_function
from argstream.agent.tools._outcomes import failure_parts, failure_words
from argstream.agent.tools._signature import read_function
from argstream.agent.tools.context import ToolContext
from argstream.errors import ToolFailure

__all__ = ["main"]

_CHUNK: Final = 256 * 1024


def main() -> NoReturn:
    """Do what the program wants, tell what came of it, and wait to be ended by it."""
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        channel.set_inheritable(False)
        request = _request(channel)
        program = threading.Thread(target=_end_with, args=(channel,), daemon=True)
        program.start()
        sending = threading.Lock()

        def tell(kind: str, content: Any) -> None:
            with sending:
                channel.sendall(encode(kind, content))

        _set_up(request)
        kind, content = _outcome(request, lambda text: tell("output", text))
        _close_output()
        tell(kind, content)
        # The program ends this process, with all that it has started, while its number is its own.
        program.join()
    os._exit(0)


def _request(channel: socket.socket) -> dict[str, Any]:
    reader = FrameReader()
    while data := channel.recv(_CHUNK):
        for frame in reader.feed(data):
            content: dict[str, Any] = frame.content
            return content
    os._exit(0)  # the program is gone


def _end_with(channel: socket.socket) -> None:
    """End this process, and what it has started, if the program ends."""
    while channel.recv(_CHUNK):
        pass
    os.killpg(0, signal.SIGKILL)


def _set_up(request: dict[str, Any]) -> None:
    sys.argv[:] = request["argv"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


def _outcome(request: dict[str, Any], emit: Any) -> Frame:
    try:
        return Frame("result", _result(request, emit))
    except BaseException as error:  # noqa: BLE001 - it is told to the program
        kind, message = failure_parts(error)
        return Frame("error", {"kind": kind, "message": message})


def _result(request: dict[str, Any], emit: Any) -> Any:
    context = ToolContext(**request["ids"], emit=emit)
    origin = msgspec.convert(request["origin"], Origin)
    try:
        face = read_function(function := find_function(origin))
    except BaseException as error:
        why = failure_words(error)
        raise ToolFailure(f"the subprocess of {context.name} cannot import it: {why}") from error
    arguments = bind(face, request["text"]).use()
    if face.context is not None:
        arguments[face.context] = context
    if is_async(function):
        return _run(call_async, function, arguments, context)
    returned = call_sync(function, arguments, context)
    return _run(finish, returned, context) if isinstance(returned, Unfinished) else returned


def _run(function: Any, *arguments: Any) -> Any:
    import anyio  # noqa: PLC0415 - most tools need no event loop

    return anyio.run(function, *arguments)


def _close_output() -> None:
    """Have the tool's modules put things in order, as at the end of a program."""
    atexit._run_exitfuncs()  # noqa: SLF001 - the process is killed, so nobody else would
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # the tool has closed it
