"""A server with a small agent, and requests as raw bytes or over ASGI."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message, Scope

from argstream import Agent
from argstream.history import said_by_user
from argstream.models import ModelRequest, ScriptedModel
from argstream.runs import MemoryStore, RunInfo
from argstream.server import AgentServer, Serving

BODY = {"message": "Hi"}


class TroubledStore(MemoryStore):
    """A store that raises ``error`` when a client lists runs."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None

    async def runs(self, **wanted: Any) -> list[RunInfo]:
        if self.error is not None and "user" in wanted:
            raise self.error
        return await super().runs(**wanted)


class Asked:
    """A server, and the prompts that its agent received."""

    def __init__(
        self,
        kind: type[AgentServer] = AgentServer,
        store: TroubledStore | None = None,
        **options: Any,
    ) -> None:
        self.prompts: list[str] = []
        self.store = TroubledStore() if store is None else store
        model = ScriptedModel(self._answer, repeat=True)
        agent = Agent(model, store=self.store, name="agent")
        if "user" not in options:
            options.setdefault("token", None)
        self.app = kind(agent, **options)

    def _answer(self, request: ModelRequest) -> str:
        self.prompts.append(said_by_user(request.messages[-1]) or "")
        return "Yes."

    @contextmanager
    def serving(self, **settings: Any) -> Iterator[int]:
        with Serving(self.app, **settings) as server:
            yield server.port


@contextmanager
def serving(**options: Any) -> Iterator[tuple[Asked, int]]:
    """Serve an agent with options of ``AgentServer``; yield both and the port."""
    asked = Asked(**options)
    with asked.serving() as port:
        yield asked, port


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def detail(self) -> str:
        return str(json.loads(self.body)["detail"])

    @property
    def problem(self) -> str:
        assert self.headers["content-type"] == "application/problem+json"
        body = json.loads(self.body)
        assert body["status"] == self.status
        return str(body["type"].removeprefix("urn:argstream:"))

    @property
    def refusal(self) -> tuple[int, str]:
        return self.status, self.problem


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def ask(port: int, request: bytes) -> Answer:
    """Send bytes and read until the server closes the connection."""
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
    port: int, method: str = "GET", path: str = "/api/runs", body: Any = None, **headers: str | None
) -> Answer:
    """Send a request; a header that is None is omitted."""
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


def scope_of(path: str, method: str = "GET", client: str = "127.0.0.1", **headers: str) -> Scope:
    """Return the scope of a request, as a server passes it to an app."""
    path, _, query = path.partition("?")
    given = {"host": "localhost", **headers}
    return {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": "",
        "query_string": query.encode(),
        "scheme": "http",
        "client": (client, 1),
        "headers": [(name.replace("_", "-").encode(), given[name].encode()) for name in given],
    }


def exchange(app: ASGIApp, scope: Scope, *received: Message) -> list[Message]:
    """Call an app without a server and return the messages that it sends."""
    sent: list[Message] = []
    waiting = list(received)

    async def receive() -> Message:
        return waiting.pop(0) if waiting else await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message)

    async def answer() -> None:
        await app(scope, receive, send)

    asyncio.run(answer())
    return sent


def statuses(app: ASGIApp, *scopes: Scope) -> list[int]:
    return [exchange(app, scope)[0]["status"] for scope in scopes]
