"""The apps of docs/front-ends.md run as they are, and the published clients talk to them."""

from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from argstream.testing import CallTool, ErrorEvent, MockProvider, Reply
from tests.documents import Document, keys_for
from tests.server.nodes import run_node, run_node_on
from tests.server.talking import hosted
from tests.support.provider_rules import strict_provider

PAGE = Document("docs/front-ends.md")
AI_SDK_APP = PAGE.block("ai_sdk.encode(", "FastAPI(")
AG_UI_APP = PAGE.block("ag_ui.encode(", "FastAPI(")
FIND = Reply("I look.", CallTool("find_place", {"name": "Berlin"}))
FOUND = Reply("There it is.")
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


@contextmanager
def documented(program: str, provider: MockProvider) -> Iterator[httpx.Client]:
    """Serve the app of a program on loopback. Close its client of the SDK at the end."""
    names: dict[str, Any] = {"__name__": "documented"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in keys_for(provider).items():
            patch.setenv(name, value)
        exec(compile(program, "docs/front-ends.md", "exec"), names)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> Any:
        async with names["client"]:
            yield

    outer = FastAPI(lifespan=lifespan)
    outer.mount("/", names["app"])
    with hosted(outer) as client:
        yield client.http


def talks_with(*replies: Reply) -> tuple[list[Any], list[Any]]:
    """Return the chats of both versions, and the messages that the model was sent."""
    with strict_provider([*replies, *replies]) as provider:
        with documented(AI_SDK_APP, provider) as client:
            chats = run_node("ai_sdk_app.mjs", str(client.base_url).rstrip("/"))
        return chats, [(request.body or {})["messages"] for request in provider.requests]


def test_page_runs_the_call_and_the_answer_continues_its_message() -> None:
    chats, sent = talks_with(FIND, FOUND)
    for chat in chats:
        assert (chat["status"], chat["ran"]) == ("ready", [{"name": "Berlin"}])
        assert chat["finished"] == ["tool-calls", "stop"]
        assert [message["role"] for message in chat["messages"]] == ["user", "assistant"]
        _, look, call, _, found = chat["messages"][-1]["parts"]
        assert (look["text"], found["text"]) == ("I look.", "There it is.")
        assert (call["state"], call["output"]) == ("output-available", {"at": [52.5, 13.4]})
    for second in sent[1::2]:
        assert [message["role"] for message in second] == ["user", "assistant", "user"]
        assert [part["type"] for part in second[1]["content"]] == ["text", "tool_use"]
        assert second[2]["content"][0]["content"] == '{"at": [52.5, 13.4]}'


def test_page_does_not_run_an_invalid_call() -> None:
    invalid = Reply(CallTool("find_place", {"place": "Berlin"}))
    chats, sent = talks_with(invalid, FOUND)
    for chat in chats:
        assert (chat["ran"], chat["finished"]) == ([], ["tool-calls", "stop"])
        call = chat["messages"][-1]["parts"][1]
        assert call["state"] == "output-error"
        assert call["errorText"].startswith("rejected: ")
    assert "rejected: " in sent[1][2]["content"][0]["content"]  # the model can correct itself


def test_error_of_the_provider_is_an_error_of_the_chat() -> None:
    chats, _ = talks_with(Reply("Sure, I will.", faults=[ErrorEvent(at=4)]))
    for chat in chats:
        assert (chat["status"], chat["ran"]) == ("error", [])
        assert chat["error"]


class AgUiPage:
    """A page that asks the documented app. The published client reads the answer."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.messages: list[Any] = [USER]

    def ask(self, version: str, **fields: Any) -> Any:
        body: dict[str, Any] = {"threadId": "talk-1", "runId": "ask", "messages": self.messages}
        body |= {"state": {}, "tools": [TOOL], "context": [], "forwardedProps": {}, **fields}
        if version == "1.0":
            body["protocolVersion"] = "1.0"
        pieces: list[str] = []
        # An exception of the SDK is raised in the app after the response has started.
        with (
            self._client.stream("POST", "/agent", json=body) as response,
            suppress(httpx.RemoteProtocolError),
        ):
            assert response.status_code == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            pieces.extend(response.iter_text())
        reading = {"version": version, "messages": self.messages, "streams": ["".join(pieces)]}
        [result] = run_node_on("ag_ui_streams.mjs", [reading])
        assert (result["error"], result["warnings"]) == (None, [])
        self.messages = result["messages"]
        return result


@pytest.mark.parametrize("version", ["1.0", "0.0.59"])
def test_front_end_runs_the_call_and_sends_its_result(version: str) -> None:
    call = Reply("Sure.", CallTool("set_color", {"color": "red"}))
    replies = [call, Reply("It is red.")]
    with strict_provider(replies) as provider, documented(AG_UI_APP, provider) as client:
        page = AgUiPage(client)
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


def test_front_end_does_not_run_an_invalid_call() -> None:
    reply = Reply(CallTool("set_color", {"color": "green"}))
    with strict_provider(reply) as provider, documented(AG_UI_APP, provider) as client:
        page = AgUiPage(client)
        result = page.ask("1.0")
    assert [one["role"] for one in result["messages"]] == ["user", "assistant", "tool"]
    assert result["pending"] == []
    [custom] = result["customs"]
    assert (custom["value"]["verdict"], custom["value"]["path"]) == ("rejected", ["color"])


def test_error_of_the_provider_ends_the_run() -> None:
    reply = Reply("Sure, I will.", faults=[ErrorEvent(at=2)])
    with strict_provider(reply) as provider, documented(AG_UI_APP, provider) as client:
        page = AgUiPage(client)
        result = page.ask("1.0", tools=[])
        assert "tools" not in (provider.requests[0].body or {})
    end = result["ends"][-1]
    assert (end["type"], end["message"]) == ("RUN_ERROR", "the model failed with APIError")
