"""``AgentServer`` as an app: its options, and inside apps of Starlette and FastAPI.

The FastAPI app is the example of docs/server.md.
"""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount

from argstream import Agent
from argstream.errors import UsageError
from argstream.models import ScriptedModel
from argstream.server import AgentServer
from argstream.testing import Reply
from tests.server.talking import Client, agent_for, hosted, problem, served
from tests.support.provider_rules import strict_provider

DOCS = Path(__file__).parents[2] / "docs" / "server.md"
FRONT_END = "http://localhost:3000"
ADA = {"cookie": "session=session-of-ada"}


def app_for(*replies: str, delay: float = 0.0, **options: Any) -> AgentServer:
    agent, _ = agent_for(*replies, delay=delay)
    return AgentServer(agent, token=None, hosts=None, **options)


def test_mounted_app_answers_its_own_problems() -> None:
    def by_the_host_app(_: Request, __: Exception) -> Response:
        return PlainTextResponse("by the host app", 404)

    handlers = dict.fromkeys((404, ValueError), by_the_host_app)
    app = Starlette(routes=[Mount("/agent", app_for("Hello."))], exception_handlers=handlers)
    with hosted(app, "/agent") as client:
        answer = client.post("/api/runs", {"message": "Hi"})
        run_id = answer.json()["run"]
        assert answer.headers["location"] == f"/agent/api/runs/{run_id}"
        assert client.until(run_id, "completed")
        assert client.get("/healthz").json() == {"status": "ok"}
        assert problem(client.get("/nothing")) == (404, "not-found")
        assert problem(client.get("/api/runs?status=nice")) == (422, "unusable")
        assert client.get(client.url.replace("/agent", "/other")).text == "by the host app"


def test_streams_are_live_inside_an_app_that_compresses() -> None:
    routes = [Mount("/", app_for("word " * 100, delay=0.003))]
    with hosted(Starlette(routes=routes, middleware=[Middleware(GZipMiddleware)])) as client:
        run_id = client.start()
        frames = client.frames(run_id)
        next(frames)
        assert client.show(run_id)["status"] == "running"
        assert list(frames)


def test_server_needs_a_store_and_a_token_or_a_user_function() -> None:
    with pytest.raises(UsageError, match="the agent has no store"):
        AgentServer(Agent(ScriptedModel("Hello.")), token=None)
    agent, _ = agent_for("Hello.")
    with pytest.raises(UsageError, match=r"needs token=… or user=….*Pass token=None"):
        AgentServer(agent)
    assert AgentServer(agent, token=None).access.token is None
    assert AgentServer(agent, user=lambda _: "ada").access.token is None
    assert AgentServer(agent, token="a-token-nobody-guesses").access.token is not None


def test_server_is_unhealthy_without_its_store() -> None:
    agent, _ = agent_for("Hello.")
    assert agent.store is not None
    with served(agent) as client:
        assert client.status("/healthz") == 200
        asyncio.run(agent.store.aclose())
        answer = client.get("/healthz")
        assert problem(answer) == (503, "store-failure")
        assert "Traceback" not in answer.text


# FastAPI


@pytest.fixture
def documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """The documented app; its model answers once. Its lifespan starts and ends the server."""
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    [code] = [block for block in blocks if "FastAPI(" in block]
    called: list[str] = []
    enter, leave = AgentServer.__aenter__, AgentServer.__aexit__

    async def entered(self: AgentServer) -> AgentServer:
        called.append("entered")
        return await enter(self)

    async def left(self: AgentServer, *error: Any) -> None:
        called.append("left")
        await leave(self, *error)

    monkeypatch.setattr(AgentServer, "__aenter__", entered)
    monkeypatch.setattr(AgentServer, "__aexit__", left)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-any")
    with strict_provider([Reply("Hello, Ada.")]) as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.anthropic_url)
        names: dict[str, Any] = {"__name__": "documented"}
        exec(compile(code, DOCS, "exec"), names)
        with hosted(names["app"], "/agent") as client:
            assert called == ["entered"]
            yield client
        assert called == ["entered", "left"]


def test_documented_app_serves_signed_in_users_and_its_front_end(documented: Client) -> None:
    assert documented.status("/healthz") == 200
    unknown = documented.get("/api/runs")
    assert problem(unknown)[0] == 401
    assert unknown.json()["detail"] == "sign in at /login"
    answer = documented.post("/api/converse", {"message": "Hi"}, **ADA)
    assert answer.status_code == 200
    assert "Hello, Ada." in "".join(re.findall(r'"text":"([^"]*)"', answer.text))
    listed = documented.get("/api/runs", origin=FRONT_END, **ADA)
    assert [run["status"] for run in listed.json()["runs"]] == ["completed"]
    assert listed.headers["access-control-allow-origin"] == FRONT_END


@pytest.mark.parametrize("origins", [(), (FRONT_END,)])
def test_origin_must_be_allowed_by_the_server_besides_cors(origins: tuple[str, ...]) -> None:
    app = FastAPI()
    app.add_middleware(CORSMiddleware, allow_origins=[FRONT_END])
    app.mount("/agent", app_for("Hello.", origins=origins))
    with hosted(app, "/agent") as client:
        answer = client.get("/api/runs", origin=FRONT_END)
    # The header is there once, and also on the refusal, so that the page can read that.
    assert answer.headers.get_list("access-control-allow-origin") == [FRONT_END]
    if origins:
        assert answer.status_code == 200
    else:
        assert problem(answer) == (403, "wrong-origin")
        assert f'origins=("{FRONT_END}",)' in answer.json()["detail"]
