"""What must not get across: other agents' runs, limits by a back door, what was forgotten."""

import asyncio
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from argstream.runs import MemoryStore
from argstream.server import AgentServer, Limits, Serving
from tests.agent.following import Effects, send
from tests.server.servers import serving
from tests.server.talking import Client, agent_for, eventually, paused, routes_of, served


def test_those_of_ones_own_are_listed_though_others_are_many() -> None:
    store = MemoryStore()
    one, _ = agent_for("Mine.", store=store, name="one")
    other, _ = agent_for(*["Not mine."] * 9, store=store, name="other")
    with served(one) as client, served(other) as busy:
        run_id = client.start()
        client.until(run_id, "completed")
        for _ in range(9):
            busy.until(busy.start(), "completed")
        listed = client.get("/api/runs?limit=2").json()["runs"]
    assert [run["run"] for run in listed] == [run_id]


class Neighbours(NamedTuple):
    """Two agents, or two users of one, with one store: what one was told, and clients of both."""

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
        """All ids of ``hr`` that a client of ``public`` could name."""
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
        completed = client.start("SALARY-OF-ADA?", "talk-completed")
        client.until(completed, "completed")
        paused = client.start("SALARY-OF-ADA!", "talk-paused")
        [asked] = client.until(paused, "paused")["pending"]
        yield Neighbours(request.param, client, other, server, effects, paused, completed, asked)


def answer_without(id_: str, answer: httpx.Response) -> tuple[int, str, dict[str, str]]:
    """The whole answer, with the id that the client itself had sent taken out."""
    kept = {name: value for name, value in answer.headers.items() if name != "date"}
    kept.pop("content-length", None)  # counts the id
    return answer.status_code, answer.text.replace(id_, "ID"), kept


class TestEveryRouteWithNeighbours:
    """The server answers for ids of another agent or user as for ids that never existed."""

    def test_get_routes(self, neighbours: Neighbours) -> None:
        paths = [path for method, path in routes_of(neighbours.public_server) if method == "GET"]
        assert len(paths) >= 10
        for path in paths:
            for query in QUERIES:
                address = re.sub(r"\{\w+(:path)?\}", "{id}", path) + query
                unknown = neighbours.public.get(address.format(id=UNKNOWN))
                for id_ in neighbours.ids:
                    answer = neighbours.public.get(address.format(id=id_))
                    assert answer_without(id_, answer) == answer_without(UNKNOWN, unknown), address
                    assert not any(secret in answer.text for secret in SECRETS), address

    def test_the_other_agent_itself_shows_them(self, neighbours: Neighbours) -> None:
        """Or the test above would compare nothing with nothing."""
        for path in ("chat/talk-completed", f"runs/{neighbours.completed_run}/log"):
            assert "SALARY-OF-ADA" in neighbours.hr.get(f"/api/{path}").text

    def test_routes_that_change_something(self, neighbours: Neighbours) -> None:
        call_id, digest = neighbours.request["call_id"], neighbours.request["digest"]
        decisions = {"decisions": {call_id: {"decision": "approve", "digest": digest}}}
        approval = {"id": digest, "approved": True}
        part = {"type": "dynamic-tool", "toolName": "send", "toolCallId": call_id, "input": {}}
        answered = {**part, "state": "approval-responded", "approval": approval}
        chat = {
            "trigger": "submit-message",
            "messages": [{"id": "m", "role": "assistant", "parts": [answered]}],
        }
        resume = {"interruptId": digest, "status": "resolved", "payload": {"approved": True}}
        ag_ui = {
            "runId": "r",
            "messages": [],
            "tools": [],
            "context": [],
            "state": {},
            "forwardedProps": {},
            "resume": [resume],
        }
        message = {"message": "Hi"}
        bodies: dict[tuple[str, str], Callable[[str], dict[str, Any]]] = {
            ("POST", "/api/runs"): lambda id_: {**message, "conversation": id_},
            ("POST", "/api/converse"): lambda id_: {**message, "conversation": id_},
            ("POST", "/api/chat"): lambda id_: {**chat, "id": id_},
            ("POST", "/api/ag-ui"): lambda id_: {**ag_ui, "threadId": id_},
            ("POST", "/api/runs/{run_id}/decisions"): lambda _: decisions,
            ("POST", "/api/runs/{run_id}/stop"): lambda _: {},
            ("POST", "/api/chat/{id:path}/stop"): lambda _: {},
            ("POST", "/api/ag-ui/{thread:path}/stop"): lambda _: {},
            ("DELETE", "/api/runs/{run_id}"): lambda _: {},
        }
        session = {("POST", "/api/session"), ("DELETE", "/api/session")}
        changing = {route for route in routes_of(neighbours.public_server) if route[0] != "GET"}
        assert changing == {*bodies, *session}, "a new route needs a body here"
        # A message would start a run: in a conversation of the other agent, that is refused.
        for path in ("/api/runs", "/api/converse"):
            body = bodies.pop(("POST", path))
            if neighbours.kind == "users":
                continue  # conversations of the same name are others
            for id_ in ("talk-paused", "talk-completed"):
                refused = neighbours.public.post(path, body(id_))
                assert refused.json()["type"] == "urn:argstream:other-agent"
                assert not any(secret in refused.text for secret in SECRETS), path
        ask = partial(neighbours.public.http.request, headers=neighbours.public.headers)
        for (method, path), body in bodies.items():
            address = re.sub(r"\{\w+(:path)?\}", "{id}", path)
            unknown = ask(method, address.format(id=UNKNOWN), json=body(UNKNOWN))
            assert unknown.status_code in (204, 404), unknown.text  # so the body was read
            for id_ in neighbours.ids:
                answer = ask(method, address.format(id=id_), json=body(id_))
                assert answer_without(id_, answer) == answer_without(UNKNOWN, unknown), path
                assert not any(secret in answer.text for secret in SECRETS), path
        assert neighbours.hr.show(neighbours.paused_run)["status"] == "paused"
        assert neighbours.hr.show(neighbours.paused_run)["pending"] == [neighbours.request]
        assert neighbours.hr.show(neighbours.completed_run)["status"] == "completed"
        assert neighbours.effects.seen == []


def in_a_moment(ask: Callable[[], httpx.Response], status: int) -> Any:
    """Ask until it is so: that a run pauses is told a moment before it no longer counts."""
    return eventually(lambda: answer if (answer := ask()).status_code == status else None)


class TestLimits:
    def test_runs_that_go_on_after_a_pause_count_as_well(self) -> None:
        agent, effects = agent_for(send("ada"), send("bob"), "word " * 500, "Done.", delay=0.01)
        with served(agent, limits=Limits(max_running=1)) as client:
            one = client.start()
            client.until(one, "paused")
            begun = in_a_moment(lambda: client.post("/api/runs", {"message": "Go"}), 201)
            other = begun.json()["run"]
            client.until(other, "paused")
            in_a_moment(lambda: client.decide(one, decision="approve"), 202)
            eventually(lambda: effects.seen)
            refused = client.decide(other, decision="approve")
            assert (refused.status_code, refused.json()["type"]) == (
                503,
                "urn:argstream:too-many-runs",
            )
            assert client.show(other)["status"] == "paused"
            client.post(f"/api/runs/{one}/stop")
            client.until(one, "stopped")
            in_a_moment(lambda: client.decide(other, decision="approve"), 202)

    def test_reasons_and_ids_are_short(self) -> None:
        with paused() as (client, run_id, _):
            long = "x" * 20_000
            assert client.decide(run_id, decision="deny", reason=long).status_code == 422
            assert client.post(f"/api/runs/{run_id}/stop", {"reason": long}).status_code == 422
            odd = client.post("/api/runs", {"message": "Hi", "conversation": "a\nb"})
            assert odd.status_code == 422


def test_what_was_always_approved_is_forgotten_with_its_conversation() -> None:
    agent, effects = agent_for(send("ada"), "Sent.", send("bob"), "Sent.")
    with served(agent) as client:
        run_id = client.start(conversation="talk")
        client.until(run_id, "paused")
        client.decide(run_id, decision="approve", always="session")
        client.until(run_id, "completed")
        assert client.delete(f"/api/runs/{run_id}").status_code == 204
        client.until(client.start(conversation="talk"), "paused")
    assert effects.seen == [("send", {"to": "ada"})]


class SlowStore(MemoryStore):
    """Takes a while to begin a run."""

    async def begin(self, *arguments: Any) -> Any:
        await asyncio.sleep(0.4)
        return await super().begin(*arguments)


def test_who_leaves_while_his_run_is_begun_leaves_a_run_that_counts() -> None:
    agent, _ = agent_for(*["word " * 300] * 4, store=SlowStore(), delay=0.01)
    server = AgentServer(agent, token=None, hosts=None, limits=Limits(max_running=1))
    with serving(_impatient(server)) as url, httpx.Client(base_url=url, timeout=10) as http:
        client = Client(http)
        body = {"message": "Go", "conversation": "talk"}
        assert client.post("/api/runs", body, patience="0.1").status_code == 504
        eventually(lambda: client.get("/api/runs").json()["runs"])
        assert client.post("/api/runs", body).status_code == 409  # the conversation is busy
        assert (
            client.post("/api/runs", {"message": "Go"}).status_code == 503
        )  # and so is the server
        assert len(client.get("/api/runs").json()["runs"]) == 1


def _impatient(app: ASGIApp) -> ASGIApp:
    """An app that gives up on requests, as some do."""

    async def gives_up(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        try:
            async with asyncio.timeout(float(headers.get(b"patience", b"60"))):
                await app(scope, receive, send)
        except TimeoutError:
            await send({"type": "http.response.start", "status": 504, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    return gives_up
