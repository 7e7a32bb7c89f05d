"""What must not get across: other agents' runs, limits by a back door, what was forgotten."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from argstream.server import AgentServer, Limits
from argstream.stores import MemoryStore
from tests.agent.following import send
from tests.server.servers import serving
from tests.server.talking import Client, agent_for, eventually, served


class TestOtherAgents:
    """Several agents may use one store; what was approved for one is not run by another."""

    def test_a_run_of_another_agent_is_unknown(self) -> None:
        store = MemoryStore()
        mail, _ = agent_for(send("ada"), "Sent.", store=store, name="mail")
        wild, effects = agent_for("I am wild.", store=store, name="wild")
        with served(mail) as one, served(wild) as other:
            run_id = one.start(conversation="talk")
            [request] = one.until(run_id, "paused")["pending"]
            decision = {request["call_id"]: {"decision": "approve", "digest": request["digest"]}}
            tries = [
                other.get(f"/api/runs/{run_id}"),
                other.get(f"/api/runs/{run_id}/events"),
                other.post(f"/api/runs/{run_id}/decisions", {"decisions": decision}),
                other.post(f"/api/runs/{run_id}/stop"),
                other.delete(f"/api/runs/{run_id}"),
            ]
            assert {answer.status_code for answer in tries} == {404}
            assert other.get("/api/runs").json() == {"runs": []}
            busy = other.post("/api/runs", {"message": "Hi", "conversation": "talk"})
            assert (busy.status_code, busy.json()["type"]) == (409, "urn:argstream:other-agent")
            assert one.show(run_id)["status"] == "paused"
        assert effects.seen == []

    def test_those_of_ones_own_are_listed_though_others_are_many(self) -> None:
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


def in_a_moment(ask: Callable[[], httpx.Response], status: int) -> Any:
    """Ask until it is so: that a run pauses is told a moment before it no longer counts."""
    return eventually(lambda: answer if (answer := ask()).status_code == status else None)


class TestLimits:
    def test_a_message_that_nobody_could_watch_begins_no_run(self) -> None:
        agent, _ = agent_for("word " * 500, "Done.", delay=0.01)
        with served(agent, limits=Limits(max_viewers=1)) as client:
            first = client.start()
            with client.http.stream("GET", f"/api/runs/{first}/events"):
                answer = client.post("/api/converse", {"message": "Hi"})
                assert answer.status_code == 503
                assert len(client.get("/api/runs").json()["runs"]) == 1

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
        agent, _ = agent_for(send("ada"), "Sent.")
        with served(agent) as client:
            run_id = client.start()
            client.until(run_id, "paused")
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
    server = AgentServer(agent, hosts=None, limits=Limits(max_running=1))
    with (
        serving(_impatient(server)) as url,
        httpx.Client(base_url=url, timeout=10) as http,
    ):
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
