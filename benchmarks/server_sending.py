"""What it costs to send a frame: ours, sse-starlette's, and the least that ASGI allows.

``python server_sending.py host LOOP HTTP`` serves all three; each sends the same texts to all who
watch, at the same pace. Nothing is written, judged or stored that would not be for one viewer.
"""

import asyncio
import json
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict, dataclass

import msgspec
import uvicorn
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from argstream.events import RunStarted, TextDelta
from argstream.log import Record
from argstream.protocols.native import NativeEncoder
from argstream.protocols.sse import frame
from argstream.server.channels import Channels
from argstream.server.streams import EventStream
from argstream.stores import MemoryStore
from server_host import Usage
from server_results import hosting

__all__ = ["BARE", "LOOPS", "OURS", "THEIRS", "WAYS", "Sent", "dearer", "sent"]

OURS, THEIRS, BARE = "argstream", "sse-starlette", "starlette, written before"
WAYS = [OURS, THEIRS, BARE]
LOOPS = ["uvloop", "asyncio"]
"""With httptools, and with h11."""
_MOST_OF_THEIRS = 0.9
_PATHS = {OURS: "/ours", THEIRS: "/theirs", BARE: "/bare"}
_RUN = "run_1"
_PER_SECOND = 20
_TEXT = "The quick brown fox jumps over the lazy dog. " * 4


@dataclass(frozen=True)
class Sent:
    """What was sent, and what it took."""

    way: str
    loop: str
    frames: int
    cpu_seconds: float
    """Of the server."""

    @property
    def cpu_per_frame(self) -> float:
        """Seconds."""
        return self.cpu_seconds / self.frames


class _Source:
    """A run that goes on and on, as a log and as frames that are there already."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.channels = Channels(self.store)
        self.number = 1
        self.told = {"seq": 1}
        self.written = b""
        self._news = asyncio.Event()

    async def go_on(self) -> None:
        record = Record(1, time.time(), _RUN, "", "", RunStarted(_RUN, "Go"))
        claim = await self.store.begin([record], "me", 1_000.0)
        while True:
            await asyncio.sleep(1 / _PER_SECOND)
            self.number += 1
            record = Record(self.number, time.time(), _RUN, "", "", TextDelta(_TEXT, 0))
            await self.store.append(claim, [record])
            self.told = msgspec.to_builtins(record)
            self.written = frame(self.told, self.number)
            news, self._news = self._news, asyncio.Event()
            news.set()

    async def ours(self, _: Request) -> Response:
        return EventStream(await self.channels.watch(_RUN, "native", NativeEncoder, after=1))

    async def theirs(self, _: Request) -> Response:
        async def events() -> AsyncGenerator[ServerSentEvent, None]:
            while True:
                await self._news.wait()
                yield ServerSentEvent(json.dumps(self.told), id=str(self.number))

        return EventSourceResponse(events())

    async def bare(self, _: Request) -> Response:
        async def pieces() -> AsyncGenerator[bytes, None]:
            while True:
                await self._news.wait()
                yield self.written

        return StreamingResponse(pieces(), media_type="text/event-stream")


async def _serve(loop: str, http: str) -> None:
    source = _Source()
    routes = [
        Route("/ours", source.ours),
        Route("/theirs", source.theirs),
        Route("/bare", source.bare),
    ]
    config = uvicorn.Config(
        Starlette(routes=routes),
        port=0,
        loop=loop,
        http=http,
        log_level="error",
        timeout_graceful_shutdown=1,
        backlog=2_048,
    )
    server = uvicorn.Server(config)
    going_on = asyncio.create_task(source.go_on())
    threading.Thread(target=_answer, args=(server,), daemon=True).start()
    await server.serve()
    going_on.cancel()


def _answer(server: uvicorn.Server) -> None:
    while not server.started:
        time.sleep(0.01)
    [listener] = server.servers[0].sockets
    print(listener.getsockname()[1], flush=True)
    for _ in sys.stdin:
        print(json.dumps(asdict(Usage.here())), flush=True)
    server.should_exit = True


def sent(way: str, loop: str, *, viewers: int, seconds: float) -> Sent:
    """Measure one way to send frames."""
    http = "httptools" if loop == "uvloop" else "h11"
    with hosting("server_sending.py", "host", loop, http) as host:
        poll = select.epoll()
        connections: dict[int, socket.socket] = {}
        for _ in range(viewers):
            connection = socket.create_connection(("127.0.0.1", host.port))
            connection.sendall(f"GET {_PATHS[way]} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
            connections[connection.fileno()] = connection
            poll.register(connection, select.EPOLLIN)
        _read(poll, connections, 1.5)
        before = host.usage()
        frames = _read(poll, connections, seconds)
        used = host.usage().cpu_seconds - before.cpu_seconds
        for connection in connections.values():
            connection.close()
    return Sent(way, loop, frames, used)


def dearer(found: Sequence[Sent]) -> list[str]:
    """Say where our way costs more than it may, beside sse-starlette's."""
    cost = {(one.way, one.loop): one.cpu_per_frame for one in found}
    return [
        f"sending, {loop}: {cost[OURS, loop] / cost[THEIRS, loop]:.2f} of what sse-starlette takes"
        for loop in LOOPS
        if (OURS, loop) in cost and cost[OURS, loop] > _MOST_OF_THEIRS * cost[THEIRS, loop]
    ]


def _read(poll: select.epoll, connections: dict[int, socket.socket], seconds: float) -> int:
    """Read for some seconds, and say how many frames there were."""
    frames = 0
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        for number, _ in poll.poll(left):
            frames += connections[number].recv(65_536).count(b"data: ")
    return frames


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.Runner(loop_factory=uvicorn.Config("", loop=sys.argv[2]).get_loop_factory()).run(
        _serve(sys.argv[2], sys.argv[3])
    )
