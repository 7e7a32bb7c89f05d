"""Helpers for tests of models over HTTP: a request, its outcome, and a scripted socket server."""

import asyncio
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from argstream import stream
from argstream.errors import ProviderError
from argstream.events import Event
from argstream.history import Message, TextPart
from argstream.models import HttpModel, ModelRequest, ModelSettings, Retries, Timeouts, make_model
from argstream.testing import MockProvider

KEY = "sk-canary-4f9b1c77e2d04a6aa1b3"
PREFIXES = ["anthropic", "openai", "openai-responses"]

Result = TypeVar("Result")


def request_for(text: str = "hi", **settings: Any) -> ModelRequest:
    message = Message(role="user", parts=(TextPart(text=text),))
    return ModelRequest(messages=(message,), settings=ModelSettings(**settings))


REQUEST = request_for()


class Waits:
    """Retries that do not sleep, and whose jitter is 0."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def retries(self, **options: Any) -> Retries:
        return Retries(sleep=self.sleep, random=lambda: 0.0, **options)


def model_of(provider: MockProvider | str, prefix: str = "anthropic", **options: Any) -> HttpModel:
    """Return a model of this provider. It does not wait before it retries."""
    address = provider if isinstance(provider, str) else provider.url
    options.setdefault("retries", Waits().retries())
    options.setdefault("timeout", Timeouts(connect=5, first_byte=10, idle=10))
    version = "" if prefix == "anthropic" else "/v1"
    return make_model(
        f"{prefix}:some-model", **{"base_url": address + version, "api_key": KEY, **options}
    )


class Outcome(NamedTuple):
    """What stream() yields and raises, and the requests that the socket server received."""

    events: list[Event]
    failure: ProviderError | None
    requests: Sequence[bytes] = ()

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    @property
    def is_complete(self) -> bool:
        return self.failure is None and self.types[-1] == "turn_completed"

    @property
    def error(self) -> ProviderError:
        assert self.failure is not None
        return self.failure


async def outcome_async(model: HttpModel, request: ModelRequest = REQUEST) -> Outcome:
    events: list[Event] = []
    try:
        async with stream(model.stream(request), model.protocol) as reading:
            async for event in reading:
                events.append(event)  # noqa: PERF401 - it may fail in between
    except ProviderError as failure:
        return Outcome(events, failure)
    return Outcome(events, None)


def outcome(model: HttpModel, request: ModelRequest = REQUEST) -> Outcome:
    return run(outcome_async(model, request))


def failure_of(model: HttpModel, request: ModelRequest = REQUEST) -> ProviderError:
    """Send a request that fails before any event, and return its failure."""
    found = outcome(model, request)
    assert found.events == []
    return found.error


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    async def bounded() -> Result:
        return await asyncio.wait_for(coroutine, 20)

    return asyncio.run(bounded())


Talk = Callable[[socket.socket], None]


def say(*pieces: bytes) -> Talk:
    """Send these, and close the connection."""

    def talk(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)

    return talk


def respond(status: str, body: bytes = b"", **headers: str) -> Talk:
    """Send a whole response, and close the connection."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return say("\r\n".join([*lines, "", ""]).encode() + body)


def reset(connection: socket.socket) -> None:
    """Reset the connection, so that the client gets an error."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def hang(*pieces: bytes) -> Talk:
    """Send these, and then nothing until the client closes the connection."""

    def talk(connection: socket.socket) -> None:
        say(*pieces)(connection)
        with suppress(OSError):
            connection.recv(1)

    return talk


class Served(NamedTuple):
    url: str
    requests: list[bytes]


def ask(
    *talks: Talk, prefix: str = "anthropic", request: ModelRequest = REQUEST, **options: Any
) -> Outcome:
    """Send a request to a socket server that answers so."""
    with serving(*talks) as served:
        found = outcome(model_of(served.url, prefix, **options), request)
    return Outcome(found.events, found.failure, served.requests)


@contextmanager
def serving(
    *talks: Talk, reads_bodies: bool = True, tls: ssl.SSLContext | None = None
) -> Iterator[Served]:
    """Serve a connection with each of these. The last one is for all connections that follow."""
    served: list[bytes] = []
    threads: list[threading.Thread] = []
    open_connections: list[socket.socket] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with (
            suppress(OSError),
            connection if tls is None else tls.wrap_socket(connection, server_side=True) as opened,
        ):
            request = _read_request(opened, with_body=reads_bodies)
            if request:
                served.append(request)
                talks[min(len(served), len(talks)) - 1](opened)

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
        scheme = "http" if tls is None else "https"
        yield Served(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", served)
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


def _read_request(connection: socket.socket, *, with_body: bool) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return b""
        data += piece
    length = re.search(rb"(?i)content-length: (\d+)", data)
    head, _, body = data.partition(b"\r\n\r\n")
    while with_body and length and len(body) < int(length[1]):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
