"""What the tests of models over HTTP share: a request, what comes of it, and an odd server."""

import asyncio
import re
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from argstream import stream
from argstream.errors import ProviderFailure
from argstream.events import Event
from argstream.history import Message, TextPart
from argstream.models import HttpModel, ModelRequest, ModelSettings, Retries, Timeouts, make_model
from argstream.testing import MockProvider

KEY = "sk-canary-4f9b1c77e2d04a6aa1b3"
PREFIXES = ["anthropic", "openai", "openai-responses"]

Result = TypeVar("Result")


def ask_for(text: str = "hi", **settings: Any) -> ModelRequest:
    message = Message(role="user", parts=(TextPart(text=text),))
    return ModelRequest(messages=(message,), settings=ModelSettings(**settings))


REQUEST = ask_for()


class Waits:
    """Time that passes at once, and chance that is none."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def retries(self, **options: Any) -> Retries:
        return Retries(sleep=self.sleep, random=lambda: 0.0, **options)


def model_of(
    provider: "MockProvider | str", prefix: str = "anthropic", **options: Any
) -> HttpModel:
    """A model that asks this provider, and does not wait for a second try."""
    address = provider if isinstance(provider, str) else provider.url
    options.setdefault("retries", Waits().retries())
    options.setdefault("timeout", Timeouts(connect=5, first_byte=10, idle=10))
    version = "" if prefix == "anthropic" else "/v1"
    return make_model(
        f"{prefix}:some-model", **{"base_url": address + version, "api_key": KEY, **options}
    )


class Outcome(NamedTuple):
    events: list[Event]
    failure: ProviderFailure | None

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]


async def outcome_async(model: HttpModel, request: ModelRequest = REQUEST) -> Outcome:
    events: list[Event] = []
    try:
        async with stream(model.stream(request), model.protocol) as reading:
            async for event in reading:
                events.append(event)  # noqa: PERF401 - it may fail in between
    except ProviderFailure as failure:
        return Outcome(events, failure)
    return Outcome(events, None)


def outcome(model: HttpModel, request: ModelRequest = REQUEST) -> Outcome:
    """Ask, and give what stream() says and what it raises."""
    return run(outcome_async(model, request))


def failure_of(model: HttpModel, request: ModelRequest = REQUEST) -> ProviderFailure:
    """Ask, and give why there was no answer."""
    events, failure = outcome(model, request)
    assert failure is not None
    assert events == []
    return failure


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    async def bounded() -> Result:
        return await asyncio.wait_for(coroutine, 20)

    return asyncio.run(bounded())


# A server for what the mock cannot do

Talk = Callable[[socket.socket], None]


def say(*pieces: bytes) -> Talk:
    """Write these, and close the connection."""

    def talk(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)

    return talk


def http(status: str, body: bytes = b"", **headers: str) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def reset(connection: socket.socket) -> None:
    """Break the connection off, so that the other side gets an error."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def hang(*pieces: bytes) -> Talk:
    """Write these, and then nothing, until the client goes away."""

    def talk(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)
        with suppress(OSError):
            connection.recv(1)

    return talk


class Served(NamedTuple):
    url: str
    requests: list[bytes]


@contextmanager
def serving(*talks: Talk) -> Iterator[Served]:
    """Serve one connection after the other; the last of these is for all that follow."""
    served: list[bytes] = []
    threads: list[threading.Thread] = []
    open_connections: list[socket.socket] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            request = _request(connection)
            if request:
                served.append(request)
                talks[min(len(served), len(talks)) - 1](connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            open_connections.append(connection)
            threads.append(threading.Thread(target=serve, args=(connection,)))
            threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield Served(f"http://127.0.0.1:{listener.getsockname()[1]}", served)
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for connection in open_connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return b""
        data += piece
    length = re.search(rb"(?i)content-length: (\d+)", data)
    head, _, body = data.partition(b"\r\n\r\n")
    while length and len(body) < int(length[1]):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
