"""Agents and users cannot reach each other's runs, and no path avoids the limits."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from argstream.runs import MemoryStore
from argstream.server import AgentServer, Limits, Serving
from tests.agent.following import Effects, send
from tests.server.talking import (
    Client,
    agent_for,
    eventually,
    hosted,
    problem,
    routes_of,
    served,
    talking,
)


class Neighbours(NamedTuple):
    """Two agents, or two users of one, with one store; ``hr`` has the secrets."""

    kind: str
    hr: Client
    public: Client
    public_server: AgentServer
    effects: Effects
    paused_run: str
    completed_run: str
    request: dict[str, Any]

    @property
    def ids(self) -> tuple[str, ...]:
        """All IDs of ``hr`` that a client of ``public`` could name."""
        return (self.paused_run, self.completed_run, "talk-paused", "talk-completed")


SECRETS = ("SALARY-OF-ADA", "IT-IS-A-LOT", "mail-to-ada")
UNKNOWN = "never-seen"
QUERIES = ("", "?conversation={id}", "?ended=true", "?after=0&history=false")


@pytest.fixture(params=["agents", "users"])
def neighbours(request: pytest.FixtureRequest) -> Iterator[Neighbours]:
    store = MemoryStore()
    hr, hr_effects = agent_for("IT-IS-A-LOT", send("mail-to-ada"), "Sent.", store=store, name="hr")
    public, effects = agent_for(*["I am public."] * 20, store=store, name="public")
    if request.param == "users":
        server = AgentServer(hr, user=lambda asked: asked.headers["x-user"])
        effects = hr_effects
    else:
        server = AgentServer(public, token=None)
    with (
        served(hr) as alone,
        Serving(server) as serving,
        httpx.Client(base_url=serving.url, timeout=10) as http,
    ):
        client, other = Client(http).named("ada"), Client(http).named("eve")
        if request.param == "agents":
            client = alone
        completed = client.run("SALARY-OF-ADA?", "talk-completed")
        paused = client.run("SALARY-OF-ADA!", "talk-paused", until="paused")
        [asked] = client.show(paused)["pending"]
        yield Neighbours(request.param, client, other, server, effects, paused, completed, asked)


def answer_without(id_: str, answer: httpx.Response) -> tuple[int, str, dict[str, str]]:
    """The whole answer, without the ID that the client itself had sent."""
    counts = ("date", "content-length")  # the length counts the ID
    kept = {name: value for name, value in answer.headers.items() if name not in counts}
    return answer.status_code, answer.text.replace(id_, "ID"), kept


def check_like_unknown(
    neighbours: Neighbours, method: str, path: str, body: dict[str, Any] | None, id_name: str = ""
) -> None:
    """Check that IDs of the neighbour are answered as IDs that never existed."""
    address = re.sub(r"\{\w+(:path)?\}", "{id}", path)

    def ask(id_: str) -> httpx.Response:
        content = None if body is None else body | ({id_name: id_} if id_name else {})
        return neighbours.public.http.request(
            method, address.format(id=id_), json=content, headers=neighbours.public.headers
        )

    unknown = ask(UNKNOWN)
    if method != "GET":
        assert unknown.status_code in (204, 404), unknown.text  # so the body was read
    for id_ in neighbours.ids:
        answer = ask(id_)
        assert answer_without(id_, answer) == answer_without(UNKNOWN, unknown), path
        assert not any(secret in answer.text for secret in SECRETS), path


def test_get_routes_hide_the_runs_of_neighbours(neighbours: Neighbours) -> None:
    paths = [path for method, path in routes_of(neighbours.public_server) if method == "GET"]
    assert len(paths) >= 10
    for path in paths:
        for query in QUERIES:
            check_like_unknown(neighbours, "GET", path + query, None)
    for path in ("chat/talk-completed", f"runs/{neighbours.completed_run}/log"):
        assert "SALARY-OF-ADA" in neighbours.hr.get(f"/api/{path}").text  # their owner sees them


def test_changing_routes_do_not_reach_the_runs_of_neighbours(neighbours: Neighbours) -> None:
    call_id, digest = neighbours.request["call_id"], neighbours.request["digest"]
    decisions = {"decisions": {call_id: {"decision": "approve", "digest": digest}}}
    part = {"type": "dynamic-tool", "toolName": "send", "toolCallId": call_id, "input": {}}
    approval = {"state": "approval-responded", "approval": {"id": digest, "approved": True}}
    answer = {"id": "m", "role": "assistant", "parts": [part | approval]}
    chat = {"trigger": "submit-message", "messages": [answer]}
    resume = {"interruptId": digest, "status": "resolved", "payload": {"approved": True}}
    ag_ui = {"runId": "r", "messages": [], "tools": [], "context": [], "resume": [resume]}
    starting = ["/api/runs", "/api/converse"]
    bodies: dict[tuple[str, str], tuple[dict[str, Any], str]] = {
        ("POST", "/api/chat"): (chat, "id"),
        ("POST", "/api/ag-ui"): (ag_ui, "threadId"),
        ("POST", "/api/runs/{run_id}/decisions"): (decisions, ""),
        ("POST", "/api/runs/{run_id}/stop"): ({}, ""),
        ("POST", "/api/chat/{id:path}/stop"): ({}, ""),
        ("POST", "/api/ag-ui/{id:path}/stop"): ({}, ""),
        ("DELETE", "/api/runs/{run_id}"): ({}, ""),
        ("PATCH", "/api/conversations/{id:path}"): ({"title": "Mine"}, ""),
        ("DELETE", "/api/conversations/{id:path}"): ({}, ""),
        ("POST", "/api/conversations/{id:path}/restore"): ({}, ""),
    }
    others = {("POST", "/api/session"), ("DELETE", "/api/session")}
    changing = {route for route in routes_of(neighbours.public_server) if route[0] != "GET"}
    expected = {*bodies, *others, *(("POST", path) for path in starting)}
    assert changing == expected, "a new route needs a body here"
    if neighbours.kind == "agents":  # users have conversations of the same name
        for path in starting:
            for id_ in ("talk-paused", "talk-completed"):
                refused = neighbours.public.post(path, {"message": "Hi", "conversation": id_})
                assert problem(refused)[1] == "other-agent"
                assert not any(secret in refused.text for secret in SECRETS), path
    for (method, path), (body, id_name) in bodies.items():
        check_like_unknown(neighbours, method, path, body, id_name)
    paused = neighbours.hr.show(neighbours.paused_run)
    assert (paused["status"], paused["pending"]) == ("paused", [neighbours.request])
    assert neighbours.hr.show(neighbours.completed_run)["status"] == "completed"
    assert neighbours.effects.seen == []


def test_own_runs_are_listed_among_many_of_another_agent() -> None:
    store = MemoryStore()
    with (
        talking("Mine.", store=store, name="one") as client,
        talking(*["Not mine."] * 9, store=store, name="other") as other,
    ):
        run_id = client.run()
        for _ in range(9):
            other.run()
        assert [run["run"] for run in client.listed("?limit=2")] == [run_id]


def test_resumed_run_counts_as_running() -> None:
    replies = (send("ada"), send("bob"), "word " * 500, "Done.")
    with talking(*replies, delay=0.01, limits=Limits(max_running=1)) as client:

        def started() -> Any:
            return client.post("/api/runs", {"message": "Go"}).json().get("run")

        def approved(run_id: str) -> bool:
            return client.approve(run_id).status_code == 202

        one = client.run(until="paused")
        other = eventually(started)  # a run counts for a moment after its pause was sent
        client.until(other, "paused")
        eventually(lambda: approved(one))
        eventually(lambda: client.effects.seen)
        assert problem(client.approve(other)) == (503, "too-many-runs")
        assert client.show(other)["status"] == "paused"
        client.stop(one)
        client.until(one, "stopped")
        eventually(lambda: approved(other))


class SlowStore(MemoryStore):
    async def create(self, *arguments: Any) -> Any:
        await asyncio.sleep(0.4)
        return await super().create(*arguments)


def impatient(app: ASGIApp) -> ASGIApp:
    """An app that gives up on requests after the seconds that a header names."""

    async def give_up(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        try:
            async with asyncio.timeout(float(headers.get(b"patience", b"60"))):
                await app(scope, receive, send)
        except TimeoutError:
            await send({"type": "http.response.start", "status": 504, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    return give_up


def test_run_whose_client_left_while_it_began_counts() -> None:
    agent, _ = agent_for(*["word " * 300] * 4, store=SlowStore(), delay=0.01)
    server = AgentServer(agent, token=None, hosts=None, limits=Limits(max_running=1))
    with hosted(impatient(server)) as client:
        body = {"message": "Go", "conversation": "talk"}
        assert client.post("/api/runs", body, patience="0.1").status_code == 504
        eventually(client.listed)
        assert client.post("/api/runs", body).status_code == 409  # the conversation is busy
        assert client.post("/api/runs", {"message": "Go"}).status_code == 503  # and the server
        assert len(client.listed()) == 1
