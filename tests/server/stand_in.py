"""A small app behind real doors, and a client that sends whatever it is told to."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from argstream.errors import StoreFailure
from argstream.server.bodies import read_json
from argstream.server.doors import Doors
from argstream.server.guarding import Guard
from argstream.server.limits import Limits
from argstream.server.rates import Rates
from argstream.server.serving import Serving

__all__ = ["LARGE", "Answer", "StandIn", "ask", "call", "connect", "serving"]


LARGE = 32 * 1024 * 1024
"""More than the system takes for one who does not read."""


class Decision(msgspec.Struct):
    """What a client posts."""

    approve: bool
    note: str = ""
    data: Any = None


class StandIn:
    """Answers a few paths, and keeps what it was told."""

    def __init__(self, doors: Doors | None = None, limits: Limits | None = None) -> None:
        self.doors = doors or Doors()
        self.limits = limits or Limits()
        self.decided: list[Decision] = []
        self.said: list[str] = []
        self.watching = 0
        self._leave = asyncio.Event()
        router = Router(
            [
                Route("/healthz", self._health),
                Route("/decisions", self._decide, methods=["POST"]),
                Route("/runs/{run_id}", self._show, methods=["GET"]),
                Route("/runs/{run_id}", self._show, methods=["DELETE"]),
                Route("/events", self._events),
                Route("/fails", self._fail),
                Route("/store-fails", self._fail_to_store),
                Route("/slow", self._slow),
                Route("/large", self._large),
                Route("/splits", self._split),
            ]
        )
        self.rates = Rates(self.limits)
        self._app = Guard(router, self.doors, self.rates)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def __aenter__(self) -> Self:
        self.said.append("entered")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.said.append("left")

    async def drain(self) -> None:
        self.said.append(f"drained with {self.watching} watching")
        self._leave.set()

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _decide(self, request: Request) -> Response:
        decision = await read_json(request, Decision, self.limits, incoming=self.rates.incoming)
        self.decided.append(decision)
        return JSONResponse({"taken": True})

    async def _show(self, request: Request) -> Response:
        return JSONResponse(
            {
                "run": request.path_params["run_id"],
                "user": request.scope["argstream.user"],
                "client": request.scope["client"][0],
                "scheme": request.scope["scheme"],
                "after": request.headers.get("last-event-id"),
            },
            headers={"cache-control": "max-age=5"},
        )

    async def _events(self, _: Request) -> Response:
        return StreamingResponse(self._watch(), media_type="text/event-stream")

    async def _watch(self) -> AsyncIterator[bytes]:
        self.watching += 1
        try:
            yield b"data: hello\n\n"
            await self._leave.wait()
            yield b"event: come-again\ndata:\n\n"
        finally:
            self.watching -= 1

    async def _fail(self, request: Request) -> Response:
        raise ValueError(f"failed with {request.headers.raw} at {request.url}")

    async def _fail_to_store(self, request: Request) -> Response:
        raise StoreFailure(f"cannot write\nto /srv/canary.db at {request.url.query}")

    async def _slow(self, _: Request) -> Response:
        await asyncio.sleep(30)
        return Response()

    async def _large(self, _: Request) -> Response:
        return Response(bytes(LARGE))

    async def _split(self, request: Request) -> Response:
        return Response(headers={"x-run": request.query_params["run"]})


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def detail(self) -> str:
        """What it says is wrong."""
        return str(json.loads(self.body)["detail"])

    @property
    def problem(self) -> str:
        """The code of the problem that it tells."""
        assert self.headers["content-type"] == "application/problem+json"
        told = json.loads(self.body)
        assert told["status"] == self.status
        return str(told["type"].removeprefix("urn:argstream:"))


@contextmanager
def serving(
    doors: Doors | None = None, limits: Limits | None = None, **settings: Any
) -> Iterator[tuple[StandIn, int]]:
    """Serve a stand-in in a thread; give it and its port."""
    app = StandIn(doors, limits)
    with Serving(app, **settings) as server:
        yield app, server.port


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def ask(port: int, request: bytes) -> Answer:
    """Send bytes as they are, and read until the server hangs up."""
    with connect(port) as connection:
        connection.sendall(request)
        return read_answer(connection)


def read_answer(connection: socket.socket) -> Answer:
    received = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(first.split()[1]), headers, body)


def call(
    port: int, method: str = "GET", path: str = "/runs/one", body: Any = None, **headers: str | None
) -> Answer:
    """Make a request as a client would; a header that is None is left out."""
    sent: dict[str, str | None] = {"host": f"127.0.0.1:{port}", "connection": "close"}
    content = b""
    if body is not None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent |= {"content-type": "application/json", "content-length": str(len(content))}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}\r\n" for name, value in sent.items() if value is not None]
    return ask(
        port, f"{method} {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode("latin-1") + content
    )


if __name__ == "__main__":  # as a process, for signals
    stand_in = StandIn(limits=Limits(grace_seconds=float(sys.argv[1])))
    server = Serving(stand_in)
    server.run(lambda url: print(url, flush=True))  # noqa: T201 - the test reads it
    print(stand_in.said, flush=True)  # noqa: T201 - as above
