"""Helpers for the server tests: an agent to serve, ways to serve it, and a client."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
import uvicorn
from msgspec.structs import replace
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from argstream import Agent
from argstream.events import Event, RunSnapshot
from argstream.protocols.native import Frame
from argstream.runs import MemoryStore, RunState, Store
from argstream.server import AgentServer, Limits, Serving
from tests.agent.following import Effects, add, mailing, send
from tests.runs.records import timeless

GENEROUS = Limits(runs_per_minute=100_000, requests_per_minute=1_000_000)
_AGENT_OPTIONS = ("approval_timeout", "lease_seconds", "delay", "name", "store")
decode = msgspec.json.Decoder(Frame).decode


class Client:
    """A client of a server, with the effects of the tools that the server runs."""

    def __init__(self, http: httpx.Client, **headers: str) -> None:
        self.http = http
        self.headers = headers
        self.effects = Effects()

    @property
    def url(self) -> str:
        return str(self.http.base_url).rstrip("/")

    def named(self, user: str) -> "Client":
        """Return a client that sends the name of a user in a header."""
        return Client(self.http, **{"x-user": user})

    def post(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        body = {} if body is None else body
        return self.http.post(path, json=body, headers=self.headers | headers)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.http.get(path, headers=self.headers | headers)

    def status(self, path: str, **headers: str) -> int:
        return self.get(path, **headers).status_code

    def delete(self, path: str) -> httpx.Response:
        return self.http.delete(path, headers=self.headers)

    def start(self, message: str = "Go", conversation: str = "") -> str:
        answer = self.post("/api/runs", {"message": message, "conversation": conversation})
        assert answer.status_code == 201, answer.text
        run_id: str = answer.json()["run"]
        return run_id

    def run(self, message: str = "Go", conversation: str = "", *, until: str = "completed") -> str:
        """Start a run, wait until it has a status, and return its ID."""
        run_id = self.start(message, conversation)
        self.until(run_id, until)
        return run_id

    def show(self, run_id: str) -> Any:
        return self.get(f"/api/runs/{run_id}").json()

    def listed(self, query: str = "") -> list[Any]:
        runs: list[Any] = self.get(f"/api/runs{query}").json()["runs"]
        return runs

    def decide(self, run_id: str, **decision: Any) -> httpx.Response:
        """Decide all pending calls of a run, with the right digest unless another is given."""
        pending = self.show(run_id)["pending"]
        decisions = {one["call_id"]: {"digest": one["digest"], **decision} for one in pending}
        return self.post(f"/api/runs/{run_id}/decisions", {"decisions": decisions})

    def approve(self, run_id: str, **decision: Any) -> httpx.Response:
        return self.decide(run_id, decision="approve", **decision)

    def stop(self, run_id: str, **body: str) -> httpx.Response:
        return self.post(f"/api/runs/{run_id}/stop", body)

    def frames(self, run_id: str, query: str = "", **headers: str) -> Iterator[Frame]:
        path = f"/api/runs/{run_id}/events{query}"
        with self.http.stream("GET", path, headers=self.headers | headers) as answer:
            assert answer.status_code == 200, answer.read()
            yield from frames_in(answer.iter_lines())

    def events(self, run_id: str, query: str = "", **headers: str) -> list[Event | RunSnapshot]:
        return [content(frame) for frame in self.frames(run_id, query, **headers)]

    def until(self, run_id: str, status: str) -> Any:
        """Wait until a run has a status, and return what the server shows of it."""
        return eventually(lambda: info if (info := self.show(run_id))["status"] == status else None)

    def converse(self, message: str, **more: Any) -> list[Any]:
        with self.http.stream("POST", "/api/converse", json={"message": message, **more}) as answer:
            assert answer.status_code == 200, answer.read()
            lines = [line for line in answer.iter_lines() if line]
        assert all(line.startswith("data: ") for line in lines)
        return [json.loads(line[6:]) for line in lines]


def frames_in(lines: Iterable[str]) -> Iterator[Frame]:
    return (decode(line[6:]) for line in lines if line.startswith("data: "))


def problem(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["type"].removeprefix("urn:argstream:")


def eventually(look: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Return the first true result of a function that is called again and again."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"timed out: {found}"
        time.sleep(0.01)
    return found


def content(frame: Frame) -> Event | RunSnapshot:
    """Return the event or the snapshot of a frame."""
    if frame.snapshot is not None:
        return frame.snapshot
    assert frame.event is not None
    return frame.event


def folded(contents: Iterable[Event | RunSnapshot]) -> RunSnapshot:
    """Return the state after events, of which a snapshot may be the first."""
    state = RunState()
    for one in contents:
        if isinstance(one, RunSnapshot):
            state = RunState.from_snapshot(one)
        else:
            state.apply(one)
    known = replace(state.snapshot(), seq=0, started_at=None, conversation_id="", agent="")
    return timeless(known)


def agent_for(*replies: Any, store: Store | None = None, **options: Any) -> tuple[Agent, Effects]:
    """An agent whose tool ``send`` needs approval; ``write`` and ``add`` do not."""
    store = MemoryStore() if store is None else store
    return mailing(*replies, more=[add], store=store, **options)


@contextmanager
def served(agent: Agent, **options: Any) -> Iterator[Client]:
    """Serve an agent, without a token unless one is given, and yield a client."""
    with (
        Serving(AgentServer(agent, **({"token": None} | options))) as serving,
        httpx.Client(base_url=serving.url, timeout=10) as http,
    ):
        yield Client(http)


@contextmanager
def talking(*replies: Any, **options: Any) -> Iterator[Client]:
    """Serve the agent of ``agent_for``, with options for the agent and the server."""
    for_agent = {name: options.pop(name) for name in _AGENT_OPTIONS if name in options}
    agent, effects = agent_for(*replies, **for_agent)
    with served(agent, **options) as client:
        client.effects = effects
        yield client


@contextmanager
def paused(*replies: Any, **options: Any) -> Iterator[tuple[Client, str]]:
    """Serve an agent whose run waits for an approval; yield a client and the ID of the run."""
    with talking(*(replies or (send("ada"), "Sent.")), **options) as client:
        yield client, client.run(until="paused")


@contextmanager
def hosted(app: ASGIApp, path: str = "") -> Iterator[Client]:
    """Serve an app with plain uvicorn, in a thread, and yield a client of a path of it."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            eventually(lambda: server.started or not thread.is_alive())
            assert server.started, "the server does not start"
            url = f"http://127.0.0.1:{listener.getsockname()[1]}{path}"
            with httpx.Client(base_url=url, timeout=20) as http:
                yield Client(http)
        finally:
            server.should_exit = True
            thread.join(5)
            server.force_exit = True  # for clients that left a stream open
            thread.join(5)
            assert not thread.is_alive(), "the server does not end"


def routes_of(server: AgentServer) -> list[tuple[str, str]]:
    """List all routes of a server as method and path; HEAD is part of GET."""
    router = server._app._app
    assert isinstance(router, Router)
    return [
        (method, route.path)
        for route in router.routes
        if isinstance(route, Route)
        for method in sorted((route.methods or set()) - {"HEAD"})
    ]
