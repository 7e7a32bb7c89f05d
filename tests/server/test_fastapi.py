"""Inside FastAPI: the example of docs/server.md as it is written, and FastAPI's own CORS."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from argstream.server import AgentServer
from argstream.testing import Reply
from tests.server.servers import serving
from tests.server.talking import agent_for
from tests.support.provider_rules import strict_provider

DOCS = Path(__file__).parents[2] / "docs" / "server.md"
FRONT_END = "http://localhost:3000"


def documented() -> str:
    """The Python block of the page that makes a FastAPI app."""
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    [code] = [block for block in blocks if "FastAPI(" in block]
    return str(code)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names that the example defines; its model answers once."""
    monkeypatch.chdir(tmp_path)
    with strict_provider([Reply("Hello, Ada.")]) as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.anthropic_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-any")
        names: dict[str, Any] = {"__name__": "documented"}
        exec(compile(documented(), DOCS, "exec"), names)
        yield names


@pytest.fixture
def url(example: dict[str, Any]) -> Iterator[str]:
    """Where the example is served, by uvicorn."""
    with serving(example["app"]) as url:
        yield f"{url}/agent"


def test_documented_app_serves_a_signed_in_user(url: str) -> None:
    ada = {"cookie": "session=session-of-ada"}
    with httpx.Client(base_url=url, headers=ada, timeout=20) as http:
        answer = http.post("/api/converse", json={"message": "Hi"})
        assert answer.status_code == 200
        assert "Hello, Ada." in "".join(re.findall(r'"text":"([^"]*)"', answer.text))
        [run] = http.get("/api/runs").json()["runs"]
        assert run["status"] == "completed"


def test_documented_app_answers_401_to_others(url: str) -> None:
    answer = httpx.get(f"{url}/api/runs")
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] == "sign in at /login"


def test_documented_app_admits_its_front_end(url: str) -> None:
    headers = {"cookie": "session=session-of-ada", "origin": FRONT_END}
    answer = httpx.get(f"{url}/api/runs", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == FRONT_END


def test_documented_lifespan_starts_and_ends_the_server(
    example: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    enter, leave = AgentServer.__aenter__, AgentServer.__aexit__

    async def entered(self: AgentServer) -> AgentServer:
        said.append("entered")
        return await enter(self)

    async def left(self: AgentServer, *error: Any) -> None:
        said.append("left")
        await leave(self, *error)

    monkeypatch.setattr(AgentServer, "__aenter__", entered)
    monkeypatch.setattr(AgentServer, "__aexit__", left)
    with serving(example["app"]) as url:
        assert said == ["entered"]
        assert httpx.get(f"{url}/agent/healthz").status_code == 200
    assert said == ["entered", "left"]


@pytest.fixture
def cross_origin(request: pytest.FixtureRequest) -> Iterator[str]:
    """An app whose CORSMiddleware allows the front end; the parameter is for AgentServer."""
    agent, _ = agent_for("Hello.")
    app = FastAPI()
    app.add_middleware(CORSMiddleware, allow_origins=[FRONT_END])
    app.mount("/agent", AgentServer(agent, token=None, hosts=None, origins=request.param))
    with serving(app) as url:
        yield f"{url}/agent/api/runs"


@pytest.mark.parametrize("cross_origin", [()], indirect=True)
def test_origin_that_only_cors_middleware_admits_is_told_what_to_add(cross_origin: str) -> None:
    answer = httpx.get(cross_origin, headers={"origin": FRONT_END})
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:argstream:wrong-origin")
    assert f'origins=("{FRONT_END}",)' in answer.json()["detail"]
    assert answer.headers["access-control-allow-origin"] == FRONT_END  # so the page can read it


@pytest.mark.parametrize("cross_origin", [(FRONT_END,)], indirect=True)
def test_origin_that_both_admit_is_served(cross_origin: str) -> None:
    answer = httpx.get(cross_origin, headers={"origin": FRONT_END})
    assert answer.status_code == 200
    assert answer.headers.get_list("access-control-allow-origin") == [FRONT_END]
