"""A denied call closes the connection, whatever client holds it, before anybody is told."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, OpenAI

from argstream import stream
from argstream.events import ToolArgsInvalid
from argstream.policy import Glob, Policy, Rule
from argstream.testing import CallTool, MockProvider, Reply, Slow

POLICY = Policy([Rule("deny", argument="path", when=Glob("**/.env"))], default="allow")
REPLY = Reply(
    CallTool("write", {"path": "/srv/.env", "content": "x" * 40_000}), faults=[Slow(between=0.002)]
)
MESSAGES: Any = [{"role": "user", "content": "go"}]
MESSAGE: Any = {"model": "m", "max_tokens": 10, "messages": MESSAGES}
CHAT: Any = {"model": "m", "messages": MESSAGES}
HEADERS = {"x-api-key": "any", "anthropic-version": "2023-06-01"}


def is_closed(provider: MockProvider) -> bool:
    """Wait until the provider has noticed; it would take minutes to send the rest."""
    deadline = time.monotonic() + 5
    while not provider.hang_ups and time.monotonic() < deadline:
        time.sleep(0.005)
    return bool(provider.hang_ups)


@pytest.mark.parametrize(
    "ask",
    [
        lambda claude, _gpt, _url: claude.messages.stream(**MESSAGE),
        lambda claude, _gpt, _url: claude.messages.create(stream=True, **MESSAGE),
        lambda _claude, gpt, _url: gpt.chat.completions.stream(**CHAT),
        lambda _claude, gpt, _url: gpt.chat.completions.create(stream=True, **CHAT),
        lambda _claude, gpt, _url: gpt.responses.create(model="m", input="go", stream=True),
        lambda _claude, gpt, _url: gpt.chat.completions.with_streaming_response.create(
            stream=True, **CHAT
        ),
        lambda _claude, gpt, _url: gpt.chat.completions.with_raw_response.create(
            stream=True, **CHAT
        ),
        lambda _claude, _gpt, url: httpx.stream(
            "POST", f"{url}/v1/messages", json={**MESSAGE, "stream": True}, headers=HEADERS
        ),
    ],
    ids=["messages.stream", "messages.create", "chat.stream", "chat.create", "responses",
         "streaming response", "raw response", "httpx"],
)  # fmt: skip
def test_sync_clients(ask: Callable[..., Any]) -> None:
    with (
        MockProvider(REPLY) as provider,
        Anthropic(base_url=provider.anthropic_url, api_key="any") as claude,
        OpenAI(base_url=provider.openai_url, api_key="any") as gpt,
    ):
        for event in stream(ask(claude, gpt, provider.url), policy=POLICY):
            if isinstance(event, ToolArgsInvalid):
                assert is_closed(provider)  # while the loop goes on
                return
        pytest.fail("it was not denied")


@pytest.mark.parametrize(
    "ask",
    [
        lambda claude, _gpt: claude.messages.stream(**MESSAGE),
        lambda claude, _gpt: claude.messages.create(stream=True, **MESSAGE),
        lambda _claude, gpt: gpt.chat.completions.stream(**CHAT),
        lambda _claude, gpt: gpt.chat.completions.create(stream=True, **CHAT),
        lambda _claude, gpt: gpt.responses.create(model="m", input="go", stream=True),
    ],
    ids=["messages.stream", "messages.create", "chat.stream", "chat.create", "responses"],
)
def test_async_clients(ask: Callable[..., Any]) -> None:
    async def main(provider: MockProvider) -> bool:
        async with (
            AsyncAnthropic(base_url=provider.anthropic_url, api_key="any") as claude,
            AsyncOpenAI(base_url=provider.openai_url, api_key="any") as gpt,
            stream(ask(claude, gpt), policy=POLICY) as events,
        ):
            async for event in events:
                if isinstance(event, ToolArgsInvalid):
                    return await asyncio.to_thread(is_closed, provider)
        return False

    with MockProvider(REPLY) as provider:
        assert asyncio.run(main(provider))
