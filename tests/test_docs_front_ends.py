"""The programs of the pages on front ends run as they are, and the published clients read them."""

import asyncio
from typing import Any, Self

import httpx
import pytest
from fastapi import FastAPI
from openai import AsyncOpenAI

from argstream.testing import CallTool, ErrorEvent, MockProvider, Reply
from tests.documents import Document
from tests.server.nodes import run_node_on
from tests.support.provider_rules import strict_provider

AG_UI = Document("docs/front-ends.md")
AG_UI_APP = AG_UI.block("ag_ui.encode(", "FastAPI(")
USER = {"id": "u1", "role": "user", "content": "Paint it red."}
TOOL = {
    "name": "set_color",
    "description": "Set the color of the page.",
    "parameters": {
        "type": "object",
        "properties": {"color": {"enum": ["red", "blue"]}},
        "required": ["color"],
    },
}


class AgUiPage:
    """A page that asks the documented app. The published client reads the answer."""

    def __init__(self, provider: MockProvider, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        names: dict[str, Any] = {"__name__": "documented"}
        exec(compile(AG_UI_APP, "docs/front-ends.md", "exec"), names)
        self._app: FastAPI = names["app"]
        self._client: AsyncOpenAI = names["client"]
        self._runner = asyncio.Runner()
        self.messages: list[Any] = [USER]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.run(self._client.close())
        self._runner.close()

    def ask(self, version: str, **fields: Any) -> Any:
        body: dict[str, Any] = {"threadId": "talk-1", "runId": "ask", "messages": self.messages}
        body |= {"state": {}, "tools": [TOOL], "context": [], "forwardedProps": {}, **fields}
        if version == "1.0":
            body["protocolVersion"] = "1.0"
        response = self._runner.run(self._post(body))
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        reading = {"version": version, "messages": self.messages, "streams": [response.text]}
        [result] = run_node_on("ag_ui_streams.mjs", [reading])
        assert (result["error"], result["warnings"]) == (None, [])
        self.messages = result["messages"]
        return result

    async def _post(self, body: dict[str, Any]) -> httpx.Response:
        # The exceptions of the SDK are raised in the app, after the response has started.
        transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
            return await client.post("/agent", json=body)


@pytest.mark.parametrize("version", ["1.0", "0.0.59"])
def test_front_end_runs_the_call_and_sends_its_result(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Reply("Sure.", CallTool("set_color", {"color": "red"}))
    replies = [call, Reply("It is red.")]
    with strict_provider(replies) as provider, AgUiPage(provider, monkeypatch) as page:
        [end] = page.ask(version)["ends"]
        assert (end["threadId"], end["runId"]) == ("talk-1", "ask")
        assert [one["role"] for one in page.messages] == ["user", "assistant", "assistant"]
        [written] = page.messages[-1]["toolCalls"]
        assert written["function"]["name"] == "set_color"
        result = {"role": "tool", "toolCallId": written["id"], "content": "done"}
        page.messages.append({"id": "t1", **result})
        second = page.ask(version, runId="ask again")
        sent = (provider.requests[1].body or {})["messages"]
    assert second["messages"][-1]["content"] == "It is red."
    assert [one["role"] for one in sent] == ["user", "assistant", "assistant", "tool"]


def test_front_end_does_not_run_an_invalid_call(monkeypatch: pytest.MonkeyPatch) -> None:
    reply = Reply(CallTool("set_color", {"color": "green"}))
    with strict_provider(reply) as provider, AgUiPage(provider, monkeypatch) as page:
        result = page.ask("1.0")
    assert [one["role"] for one in result["messages"]] == ["user", "assistant", "tool"]
    assert result["pending"] == []
    [custom] = result["customs"]
    assert (custom["value"]["verdict"], custom["value"]["path"]) == ("rejected", ["color"])


def test_error_of_the_provider_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    reply = Reply("Sure, I will.", faults=[ErrorEvent(at=2)])
    with strict_provider(reply) as provider, AgUiPage(provider, monkeypatch) as page:
        result = page.ask("1.0", tools=[])
        assert "tools" not in (provider.requests[0].body or {})
    end = result["ends"][-1]
    assert (end["type"], end["message"]) == ("RUN_ERROR", "the model failed with APIError")
