"""A tool in a process of its own, which can be killed: fresh for each call.

It leads a process group, so what it starts is killed with it: at a time-out, at a stop, and when it
is over. What it prints is output; what it returns comes over a private socket, so nothing that it
prints can be taken for a result.
"""

import codecs
import json
import os
import signal
import socket
import subprocess
import sys
from functools import partial
from typing import Any, Final

import anyio
import msgspec

from argstream.agent.tools._frames import Frame, FrameReader, encode
from argstream.agent.tools._origin import Origin, refuse_while_imported
from argstream.agent.tools._threads import run_in_thread
from argstream.agent.tools.context import Room, ToolContext
from argstream.agent.tools.process_groups import signal_group, wait_without_reaping
from argstream.errors import ToolFailure, UsageError

__all__ = ["run_isolated"]

_CHUNK: Final = 256 * 1024
_GRACE: Final = 2.0  # seconds for what escaped the process group to let go of our pipes
_LAST_WORDS: Final = 500  # characters of what it printed, for the error of one that dies
# The path comes first: with it, the same argstream is found as here.
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from argstream.agent.tools._isolated_child import main; main()"
)


async def run_isolated(origin: Origin, text: str, context: ToolContext) -> Any:
    """Call a function with the arguments of this text, in a subprocess. It is gone afterwards."""
    refuse_while_imported()
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = _start(theirs, context.name)
        ours.settimeout(0)
        conversation = _Conversation(process, ours, context)
        try:
            reply = await conversation.hold(_request(origin, text, context))
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
    if reply is None:
        raise ToolFailure(_death(process.returncode, context.name, conversation.last_words))
    if reply.kind == "error":
        raise ToolFailure(reply.content["message"], kind=reply.content["kind"])
    return reply.content


class _Conversation:
    """What is said between here and the subprocess."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", channel: socket.socket, context: ToolContext
    ) -> None:
        self._process = process
        self._channel = channel
        self._context = context
        self._room = Room(context.wait_for_room)
        self._has_ended = anyio.Event()
        self.last_words = ""

    async def hold(self, request: bytes) -> Frame | None:
        """Tell it what to do, and hear what came of it; None if it dies."""
        reply: Frame | None = None
        async with anyio.create_task_group() as tasks:
            hearing = anyio.CancelScope()
            tasks.start_soon(self._watch, hearing)
            printed = anyio.Event()
            tasks.start_soon(self._pass_on, printed)
            with hearing:
                await self._say(request)
                reply = await self._hear()
            self._room.give_up()  # what is left is no more than pipes hold
            with anyio.move_on_after(_GRACE):
                if reply is None:
                    await self._has_ended.wait()  # to hear how
                signal_group(self._process, signal.SIGKILL)  # so that nothing is printed any more
                await printed.wait()
            tasks.cancel_scope.cancel()
        return reply

    async def _watch(self, hearing: anyio.CancelScope) -> None:
        """Wait until the process has ended by itself: it is not to, so it died."""
        await run_in_thread(partial(wait_without_reaping, self._process), "waiting for a tool")
        self._has_ended.set()
        self._room.give_up()
        signal_group(self._process, signal.SIGKILL)  # what it started may keep our socket open
        await anyio.sleep(_GRACE)
        hearing.cancel()

    async def _say(self, request: bytes) -> None:
        rest = memoryview(request)
        try:
            while rest:
                await anyio.wait_writable(self._channel)
                rest = rest[self._channel.send(rest) :]
        except ConnectionError:
            return  # it has died: hearing nothing of it will tell

    async def _hear(self) -> Frame | None:
        reader = FrameReader()
        while True:
            await anyio.wait_readable(self._channel)
            try:
                data = self._channel.recv(_CHUNK)
            except ConnectionError:
                return None
            if not data:
                return None
            for frame in reader.feed(data):
                if frame.kind != "output":
                    return frame
                self._context.output(frame.content)
                await self._room.wait()

    async def _pass_on(self, printed: anyio.Event) -> None:
        """Make output of what it prints, up to the end of it."""
        pipe = self._process.stdout
        if pipe is None:  # it was asked for
            return
        os.set_blocking(pipe.fileno(), False)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            await anyio.wait_readable(pipe.fileno())
            data = os.read(pipe.fileno(), _CHUNK)
            text = decoder.decode(data, final=not data)
            self.last_words = (self.last_words + text)[-_LAST_WORDS:]
            self._context.output(text)
            if not data:
                printed.set()
                return
            await self._room.wait()


def _start(theirs: socket.socket, name: str) -> "subprocess.Popen[bytes]":
    if not sys.executable or getattr(sys, "frozen", False):
        raise UsageError(f"{name} cannot be isolated: nothing says where Python is")
    number = theirs.fileno()
    return subprocess.Popen(  # noqa: S603 - it is this very Python
        [sys.executable, "-c", _START, str(number), json.dumps(sys.path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(number,),
        start_new_session=True,
    )


def _request(origin: Origin, text: str, context: ToolContext) -> bytes:
    names = ("run_id", "call_id", "name", "idempotency_key")
    ids = {name: getattr(context, name) for name in names}
    content = {
        "origin": msgspec.to_builtins(origin),
        "text": text,
        "ids": ids,
        "argv": sys.argv,
    }
    return encode("call", content)


async def _end(process: "subprocess.Popen[bytes]") -> None:
    signal_group(process, signal.SIGKILL)
    await run_in_thread(process.wait, "waiting for a tool")
    if process.stdout is not None:
        process.stdout.close()


def _death(code: int, name: str, last_words: str) -> str:
    if code < 0:
        try:
            told = signal.Signals(-code).name
        except ValueError:
            told = f"signal {-code}"
        hint = " (was there too little memory?)" if -code == signal.SIGKILL else ""
        died = f"was killed by {told}{hint}"
    else:
        died = f"ended with exit code {code}"
    said = f"; it said last: {last_words.strip()}" if last_words.strip() else ""
    return f"the process of {name} {died} before it had a result{said}"
