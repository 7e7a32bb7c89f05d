"""Uses of stream() for type checkers: each type must be as precise as stated.

mypy and pyright check this file (``tests.test_types``). It is never run.
"""

from collections.abc import AsyncIterator, Iterator
from http.client import HTTPResponse
from io import BytesIO
from typing import Any, assert_type

import aiohttp
import anthropic
import httpx
import httpx2
import openai
import requests
from agents import RunResultStreaming
from pydantic_ai import Agent as PydanticAgent

from argstream import AsyncEventStream, Event, EventStream, feed, stream
from argstream import events as ev
from argstream.assembly import Call
from argstream.errors import StreamError
from argstream.jsonstream import JsonPath
from argstream.streaming import AsyncCallReader, CallReader

MESSAGE: Any = {"role": "user", "content": "hi"}


def sync_sources(
    chunks: Iterator[bytes],
    payloads: list[dict[str, Any]],
    response: httpx.Response | httpx2.Response | requests.Response | HTTPResponse,
) -> None:
    assert_type(stream(b"data: {}"), EventStream)
    assert_type(stream(chunks), EventStream)
    assert_type(stream(payloads), EventStream)
    assert_type(stream(["data: {}"]), EventStream)
    assert_type(stream(BytesIO(), protocol="anthropic"), EventStream)
    assert_type(stream(response), EventStream)


def sync_sdks(claude: anthropic.Anthropic, gpt: openai.OpenAI) -> None:
    raw = claude.messages.create(model="m", max_tokens=1, messages=[MESSAGE], stream=True)
    assert_type(stream(raw), EventStream)
    manager = claude.messages.stream(model="m", max_tokens=1, messages=[MESSAGE])
    assert_type(stream(manager), EventStream)
    with manager as entered:
        assert_type(stream(entered), EventStream)
    completions = gpt.chat.completions
    chunks = completions.create(model="m", messages=[MESSAGE], stream=True)
    assert_type(stream(chunks), EventStream)
    assert_type(stream(completions.stream(model="m", messages=[MESSAGE])), EventStream)
    assert_type(stream(gpt.responses.create(model="m", input="hi", stream=True)), EventStream)
    assert_type(stream(gpt.responses.stream(model="m", input="hi")), EventStream)
    response = completions.with_raw_response.create(model="m", messages=[MESSAGE], stream=True)
    assert_type(stream(response), EventStream)


async def async_sources(
    chunks: AsyncIterator[bytes], response: httpx.Response, other: aiohttp.ClientResponse
) -> None:
    assert_type(stream(chunks), AsyncEventStream)
    assert_type(stream(response.aiter_bytes()), AsyncEventStream)
    assert_type(stream(response.aiter_lines()), AsyncEventStream)
    assert_type(stream(other), AsyncEventStream)
    assert_type(stream(other.content), AsyncEventStream)
    async with aiohttp.ClientSession() as session, httpx.AsyncClient() as client:
        assert_type(stream(session.post("http://127.0.0.1")), AsyncEventStream)
        assert_type(stream(client.stream("POST", "http://127.0.0.1")), AsyncEventStream)


async def frameworks(agent: PydanticAgent, run: RunResultStreaming, items: list[feed.Item]) -> None:
    assert_type(stream(agent.run_stream_events("hi")), AsyncEventStream)
    async with agent.run_stream_events("hi") as events:
        assert_type(stream(events), AsyncEventStream)
    assert_type(stream(run), AsyncEventStream)
    assert_type(stream(run.stream_events()), AsyncEventStream)
    assert_type(stream(items), EventStream)
    assert_type(stream([feed.CallStarted("1", "write"), feed.TurnEnded("stop")]), EventStream)


async def async_sdks(claude: anthropic.AsyncAnthropic, gpt: openai.AsyncOpenAI) -> None:
    request = claude.messages.create(model="m", max_tokens=1, messages=[MESSAGE], stream=True)
    assert_type(stream(request), AsyncEventStream)
    assert_type(stream(await request), AsyncEventStream)
    manager = claude.messages.stream(model="m", max_tokens=1, messages=[MESSAGE])
    assert_type(stream(manager), AsyncEventStream)
    chunks = await gpt.chat.completions.create(model="m", messages=[MESSAGE], stream=True)
    assert_type(stream(chunks), AsyncEventStream)
    events = await gpt.responses.create(model="m", input="hi", stream=True)
    async with assert_type(stream(events), AsyncEventStream) as found:
        async for event in found:
            assert_type(event, Event)
        assert_type(found.calls, list[Call])
        list(found)  # type: ignore[call-overload]  # an async stream needs "async for"


def events(found: EventStream) -> None:
    assert_type(found.usage, ev.Usage)
    for event in found:
        assert_type(event, Event)
        match event:
            case ev.ToolCallStarted(call_id, index):
                assert_type(call_id, str)
                assert_type(index, int)
            case ev.ArgumentDelta(path=path, text=text):
                assert_type(path, JsonPath)
                assert_type(text, str)
            case ev.ToolArgsCompleted(arguments=arguments):
                assert_type(arguments, dict[str, Any] | str)
            case _:
                pass
        if event.type == "turn_completed":
            assert_type(event.usage.input_tokens, int | None)
        if event.type == "tool_args_completed":
            assert_type(event.policy_decision, ev.PolicyDecision | None)


def readers(found: EventStream) -> None:
    assert_type(found.live_call("toolu_1"), CallReader)
    for call in found.live_calls():
        assert_type(call, CallReader)
        assert_type(call.name, str)
        assert_type(call.call, Call)
        assert_type(call.call.path, JsonPath)
        assert_type(call.call.in_doubt, bool)
        assert_type(call.argument("edits", 0, "path"), Any)
        assert_type(call.argument("path", type=str), str)
        assert_type(call.argument("count", type=int), int)
        for piece in call.text("content"):
            assert_type(piece, str)
        for item in call.items("edits"):
            assert_type(item, Any)
        assert_type(call.arguments(), dict[str, Any] | str)


async def async_readers(found: AsyncEventStream) -> None:
    assert_type(found.live_call("toolu_1"), AsyncCallReader)
    async for call in found.live_calls():
        assert_type(call, AsyncCallReader)
        assert_type(await call.argument("edits", 0, "path"), Any)
        assert_type(await call.argument("path", type=str), str)
        async for piece in call.text("content"):
            assert_type(piece, str)
        async for item in call.items("edits"):
            assert_type(item, Any)
        assert_type(await call.arguments(), dict[str, Any] | str)


def failures(error: StreamError) -> None:
    assert_type((error.code, error.message, error.retryable), tuple[str, str, bool])
