"""``AgentServer`` as an app: alone, inside another, with a store that fails."""

import asyncio

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount

from argstream import Agent
from argstream.errors import UsageError
from argstream.models import ScriptedModel
from argstream.server import AgentServer
from tests.server.servers import serving
from tests.server.talking import Client, agent_for, served


def test_it_can_be_mounted_into_another_app() -> None:
    agent, _ = agent_for("Hello.")
    inner = AgentServer(agent, token=None, hosts=None)
    with (
        serving(Starlette(routes=[Mount("/agent", inner)])) as url,
        httpx.Client(base_url=f"{url}/agent") as http,
    ):
        client = Client(http)
        answer = client.post("/api/runs", {"message": "Hi"})
        run_id = answer.json()["run"]
        assert answer.headers["location"] == f"/agent/api/runs/{run_id}"
        assert client.until(run_id, "completed")
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/nothing").json()["type"] == "urn:argstream:not-found"


def test_streams_are_live_also_where_the_other_app_compresses() -> None:
    agent, _ = agent_for("word " * 100, delay=0.003)
    inner = AgentServer(agent, token=None, hosts=None)
    outer = Starlette(routes=[Mount("/", inner)], middleware=[Middleware(GZipMiddleware)])
    with serving(outer) as url, httpx.Client(base_url=url) as http:
        client = Client(http)
        run_id = client.start()
        frames = client.frames(run_id)
        next(frames)
        assert client.show(run_id)["status"] == "running"
        assert list(frames)


def test_an_agent_without_a_store_cannot_be_served() -> None:
    with pytest.raises(UsageError, match="give the agent one"):
        AgentServer(Agent(ScriptedModel("Hello.")), token=None)


def test_a_server_needs_a_token_or_a_user_function() -> None:
    agent, _ = agent_for("Hello.")
    with pytest.raises(UsageError, match=r"needs token=… or user=….*Pass token=None"):
        AgentServer(agent)
    assert AgentServer(agent, token=None).doors.token is None
    assert AgentServer(agent, user=lambda _: "ada").doors.token is None
    assert AgentServer(agent, token="a-token-nobody-guesses").doors.token is not None


def test_without_its_store_the_server_is_not_healthy_and_says_so_without_details() -> None:
    agent, _ = agent_for("Hello.")
    store = agent.store
    assert store is not None
    with served(agent) as client:
        assert client.get("/healthz").status_code == 200
        asyncio.run(store.aclose())
        answer = client.get("/healthz")
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:argstream:store-failure"
        assert "Traceback" not in answer.text
