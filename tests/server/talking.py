"""What the tests of the server share: an agent to serve, and a client that reads streams."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
from starlette.routing import Route, Router

from argstream import Agent, tool
from argstream.events import Event, RunSnapshot
from argstream.models import ScriptedModel
from argstream.protocols.native import Frame
from argstream.runs import MemoryStore, RunView, Store
from argstream.server import AgentServer, Limits, Serving
from tests.agent.following import Effects, add, send

_decode = msgspec.json.Decoder(Frame).decode


class Client:
    """One who uses the server as a page or a program would."""

    def __init__(self, http: httpx.Client, **headers: str) -> None:
        self.http = http
        self.headers = headers

    def named(self, user: str) -> "Client":
        """Give the same for a user, whom the host app knows by a header."""
        return Client(self.http, **{"x-user": user})

    def post(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        body = {} if body is None else body
        return self.http.post(path, json=body, headers=self.headers | headers)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.http.get(path, headers=self.headers | headers)

    def delete(self, path: str) -> httpx.Response:
        return self.http.delete(path, headers=self.headers)

    def start(self, message: str = "Go", conversation: str = "") -> str:
        """Begin a run, and give its id."""
        answer = self.post("/api/runs", {"message": message, "conversation": conversation})
        assert answer.status_code == 201, answer.text
        run_id: str = answer.json()["run"]
        return run_id

    def show(self, run_id: str) -> Any:
        return self.get(f"/api/runs/{run_id}").json()

    def decide(self, run_id: str, **decision: Any) -> httpx.Response:
        """Decide on all that a run waits for, with the right digest unless another is given."""
        pending = self.show(run_id)["pending"]
        decisions = {
            request["call_id"]: {"digest": request["digest"], **decision} for request in pending
        }
        return self.post(f"/api/runs/{run_id}/decisions", {"decisions": decisions})

    def frames(self, run_id: str, query: str = "", **headers: str) -> Iterator[Frame]:
        """Follow a run."""
        path = f"/api/runs/{run_id}/events{query}"
        with self.http.stream("GET", path, headers=self.headers | headers) as answer:
            assert answer.status_code == 200, answer.read()
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield _decode(line[6:])

    def events(self, run_id: str, query: str = "", **headers: str) -> list[Event]:
        """Follow a run to its end."""
        return [frame.event for frame in self.frames(run_id, query, **headers)]

    def until(self, run_id: str, status: str) -> Any:
        """Wait until a run has a status."""
        return eventually(lambda: told if (told := self.show(run_id))["status"] == status else None)

    def converse(self, message: str, **more: Any) -> list[Any]:
        """Send a message, and give the objects of the answer."""
        with self.http.stream("POST", "/api/converse", json={"message": message, **more}) as answer:
            assert answer.status_code == 200, answer.read()
            lines = [line for line in answer.iter_lines() if line]
        assert all(line.startswith("data: ") for line in lines)
        return [json.loads(line[6:]) for line in lines]


def eventually(look: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Give what is looked for as soon as it is there."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"it does not come: {found}"
        time.sleep(0.02)
    return found


def folded(events: list[Event]) -> RunSnapshot:
    """Give what a viewer has seen by then."""
    view = RunView()
    for event in events:
        view.take(event)
    return view.snapshot()


def agent_for(*replies: Any, store: Store | None = None, **options: Any) -> tuple[Agent, Effects]:
    """An agent whose tool ``send`` must be confirmed; ``write`` and ``add`` need not be."""
    effects = Effects()
    tools = [tool(requires_confirmation=True)(effects.send), effects.write, add]
    model = ScriptedModel(*replies, delay=options.pop("delay", 0.0))
    store = MemoryStore() if store is None else store
    return Agent(model, tools, store=store, **options), effects


@contextmanager
def served(agent: Agent, **doors: Any) -> Iterator[Client]:
    """Serve an agent, without a token unless one is given, and yield a client."""
    with (
        Serving(AgentServer(agent, **({"token": None} | doors))) as serving,
        httpx.Client(base_url=serving.url, timeout=10) as http,
    ):
        yield Client(http)


@contextmanager
def paused(*replies: Any, **options: Any) -> Iterator[tuple[Client, str, Effects]]:
    """Serve an agent whose run waits for an approval; yield a client, the run, and effects."""
    agent, effects = agent_for(*(replies or (send("ada"), "Sent.")), **options)
    with served(agent) as client:
        run_id = client.start()
        client.until(run_id, "paused")
        yield client, run_id, effects


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


GENEROUS = Limits(runs_per_minute=100_000, requests_per_minute=1_000_000)
