"""The app of docs/front-ends.md runs as it is, and the published clients talk to it."""

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import uvicorn
from anthropic import AsyncAnthropic
from fastapi import FastAPI

from argstream.testing import CallTool, ErrorEvent, Reply
from tests.documents import Document
from tests.server.nodes import run_node
from tests.support.provider_rules import strict_provider

PAGE = Document("docs/front-ends.md")
APP = PAGE.block("ai_sdk.encode(", "FastAPI(")
FIND = Reply("I look.", CallTool("find_place", {"name": "Berlin"}))
FOUND = Reply("There it is.")


@contextmanager
def hosted(app: FastAPI, client: AsyncAnthropic) -> Iterator[str]:
    """Serve the documented app on loopback, and yield its address. Close its client at the end."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with client:
            yield

    outer = FastAPI(lifespan=lifespan)
    outer.mount("/", app)
    server = uvicorn.Server(uvicorn.Config(outer, log_level="critical"))
    with socket.create_server(("127.0.0.1", 0)) as listening:  # so requests wait for the start
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)


def talks_with(monkeypatch: pytest.MonkeyPatch, *replies: Reply) -> tuple[list[Any], list[Any]]:
    """Return the chats of both versions, and the messages that the model was sent."""
    with strict_provider([*replies, *replies]) as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.anthropic_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
        names: dict[str, Any] = {"__name__": "documented"}
        exec(compile(APP, "docs/front-ends.md", "exec"), names)
        with hosted(names["app"], names["client"]) as address:
            chats = run_node("ai_sdk_app.mjs", address)
        return chats, [(request.body or {})["messages"] for request in provider.requests]


def test_every_python_block_is_run_and_no_line_is_long() -> None:
    assert PAGE.programs == {APP, PAGE.block("ag_ui.encode(", "FastAPI(")}
    assert [line for line in PAGE.text.splitlines() if len(line) > 120] == []


def test_page_runs_the_call_and_the_answer_continues_its_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chats, sent = talks_with(monkeypatch, FIND, FOUND)
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


def test_page_does_not_run_an_invalid_call(monkeypatch: pytest.MonkeyPatch) -> None:
    invalid = Reply(CallTool("find_place", {"place": "Berlin"}))
    chats, sent = talks_with(monkeypatch, invalid, FOUND)
    for chat in chats:
        assert (chat["ran"], chat["finished"]) == ([], ["tool-calls", "stop"])
        call = chat["messages"][-1]["parts"][1]
        assert call["state"] == "output-error"
        assert call["errorText"].startswith("rejected: ")
    assert "rejected: " in sent[1][2]["content"][0]["content"]  # the model can correct itself


def test_error_of_the_provider_is_an_error_of_the_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    chats, _ = talks_with(monkeypatch, Reply("Sure, I will.", faults=[ErrorEvent(at=4)]))
    for chat in chats:
        assert (chat["status"], chat["ran"]) == ("error", [])
        assert chat["error"]
