"""A stream that ends early, by the program or by a denial, closes its connection and is quiet."""

import asyncio
import gc
import logging
import sys
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from argstream import AsyncEventStream, UsageError, stream
from argstream.events import ToolArgsInvalid
from argstream.policy import Glob, Policy, Rule
from argstream.recording import record_async
from argstream.testing import CallTool, MockProvider, Reply, Slow
from tests.provider_streams import anthropic_call
from tests.streaming.faces import collect, each
from tests.testing.test_mock_provider_clients import client_of

REPLY = Reply(
    CallTool("write", {"path": "/srv/.env", "content": "x" * 4_000}), faults=[Slow(between=0.01)]
)
NO_SECRETS = Policy([Rule("deny", argument="path", when=Glob("**/.env"))], default="allow")
MESSAGES: Any = [{"role": "user", "content": "go"}]
MESSAGE: Any = {"model": "m", "max_tokens": 10, "messages": MESSAGES}
CHAT: Any = {"model": "m", "messages": MESSAGES}
RESPONSE: Any = {"model": "m", "input": "go"}
HEADERS = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
REQUEST: Any = {"json": {**MESSAGE, "stream": True}, "headers": HEADERS}
TURN = anthropic_call('{"path": "a.py", ', '"content": "im', "port", ' os"}')


class LeftError(Exception):
    """Raised in the body of a loop."""


async def by_break(source: Any) -> None:
    async for _ in stream(source):
        break


async def by_break_with_a_variable(source: Any) -> AsyncEventStream:
    events: AsyncEventStream = stream(source)
    async for _ in events:
        break
    return events


async def by_exception(source: Any) -> None:
    async for _ in stream(source):
        raise LeftError


async def by_anext(source: Any) -> None:
    await anext(stream(source))


async def by_break_out_of_live_calls(source: Any) -> AsyncEventStream:
    events: AsyncEventStream = stream(source)
    async for _ in events.live_calls():
        break
    return events


Leave = Callable[[Any], Awaitable[object]]
WAYS: list[Leave] = [
    *(by_break, by_break_with_a_variable, by_exception, by_anext, by_break_out_of_live_calls)
]
every_way = pytest.mark.parametrize("leave", WAYS)
CLIENT_WAYS = [by_break, by_break_out_of_live_calls]  # with connections, which take longer


@pytest.fixture
def _silent(
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """Fail if Python or asyncio prints anything to stderr, also while it collects garbage.

    Garbage is collected by this thread only. If a thread of the provider collects it while the
    event loop closes the same generators, Python prints "async generator already executing". That
    race exists without argstream, for example with ``async with client.responses.stream(…)``.
    """
    gc.disable()
    gc.freeze()  # what the SDKs have loaded need not be looked at
    unraisable: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: unraisable.append(repr(what)))
    caplog.set_level(logging.WARNING)
    with warnings.catch_warnings():
        # Python hides these by default. The programs here end without closing their clients.
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()
    gc.enable()
    assert unraisable == []
    assert [record.getMessage() for record in caplog.records] == []
    assert capfd.readouterr().err == ""


silent = pytest.mark.usefixtures("_silent")


def leave_and_end(leave: Leave, open_source: Callable[[], Awaitable[Any]]) -> None:
    """Run a program that ends as soon as it has left the loop."""

    async def main() -> None:
        await leave(await open_source())

    with suppress(LeftError):
        asyncio.run(main())


def claude(provider: MockProvider, kind: str = "Async") -> Any:
    return client_of("anthropic", provider.url, kind).messages


def gpt(provider: MockProvider, kind: str = "Async") -> Any:
    return client_of("openai", provider.url, kind)


async def given(source: Any) -> Any:
    return source


Ask = Callable[[MockProvider], Awaitable[Any]]


async def httpx_bytes(at: MockProvider) -> Any:
    client = httpx.AsyncClient(verify=False)
    request = client.build_request("POST", f"{at.url}/v1/messages", **REQUEST)
    return (await client.send(request, stream=True)).aiter_bytes()


async def recorded(at: MockProvider) -> Any:
    return record_async(await httpx_bytes(at), "turn.rec", overwrite=True)


CLIENTS: dict[str, Ask] = {
    "messages.stream": lambda at: given(claude(at).stream(**MESSAGE)),
    "messages.create": lambda at: claude(at).create(**MESSAGE, stream=True),
    "messages.create, not awaited": lambda at: given(claude(at).create(**MESSAGE, stream=True)),
    "chat.stream": lambda at: given(gpt(at).chat.completions.stream(**CHAT)),
    "chat.create": lambda at: gpt(at).chat.completions.create(**CHAT, stream=True),
    "responses.stream": lambda at: given(gpt(at).responses.stream(**RESPONSE)),
    "responses.create": lambda at: gpt(at).responses.create(**RESPONSE, stream=True),
    "httpx": lambda at: given(
        httpx.AsyncClient(verify=False).stream("POST", f"{at.url}/v1/messages", **REQUEST)
    ),
    "httpx bytes": httpx_bytes,
    "recorded": recorded,
}
every_client = pytest.mark.parametrize("ask", CLIENTS.values(), ids=CLIENTS)


def hangs_up(provider: MockProvider, count: int = 1) -> bool:
    """Wait until the provider has noticed; it would take minutes to send the rest."""
    deadline = time.monotonic() + 30
    while len(provider.hang_ups) < count and time.monotonic() < deadline:
        time.sleep(0.005)
    return len(provider.hang_ups) == count


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@silent
@every_client
async def test_connection_is_closed_while_the_program_goes_on(ask: Ask) -> None:
    with MockProvider([REPLY] * len(CLIENT_WAYS)) as provider:
        for count, leave in enumerate(CLIENT_WAYS, 1):
            await leave(await ask(provider))
            assert await asyncio.to_thread(hangs_up, provider, count), leave
            gc.collect()


@silent
@every_client
def test_connection_is_closed_when_the_program_ends(ask: Ask) -> None:
    with MockProvider([REPLY] * len(CLIENT_WAYS)) as provider:
        for count, leave in enumerate(CLIENT_WAYS, 1):
            leave_and_end(leave, lambda: ask(provider))
            gc.collect()
            assert hangs_up(provider, count), leave


@silent
@pytest.mark.parametrize("is_response", [False, True], ids=["request", "response"])
async def test_connection_of_aiohttp_is_closed(is_response: bool) -> None:
    with MockProvider([REPLY] * len(CLIENT_WAYS)) as provider:
        async with aiohttp.ClientSession() as session:
            for count, leave in enumerate(CLIENT_WAYS, 1):
                request = session.post(f"{provider.url}/v1/messages", **REQUEST)
                await leave(await request if is_response else request)
                assert await asyncio.to_thread(hangs_up, provider, count), leave


@every_client
async def test_denied_call_closes_the_connection_of_async_clients(ask: Ask) -> None:
    with MockProvider(REPLY) as provider:
        async with stream(await ask(provider), policy=NO_SECRETS) as events:
            while not isinstance(await anext(events), ToolArgsInvalid):
                pass
            assert await asyncio.to_thread(hangs_up, provider)


@pytest.mark.parametrize(
    "ask",
    [
        lambda at: claude(at, "").stream(**MESSAGE),
        lambda at: claude(at, "").create(**MESSAGE, stream=True),
        lambda at: chat(at).stream(**CHAT),
        lambda at: chat(at).create(**CHAT, stream=True),
        lambda at: gpt(at, "").responses.create(**RESPONSE, stream=True),
        lambda at: chat(at).with_streaming_response.create(**CHAT, stream=True),
        lambda at: chat(at).with_raw_response.create(**CHAT, stream=True),
        lambda at: httpx.stream("POST", f"{at.url}/v1/messages", verify=False, **REQUEST),
    ],
    ids=["messages.stream", "messages.create", "chat.stream", "chat.create", "responses",
         "streaming response", "raw response", "httpx"],
)  # fmt: skip
def test_denied_call_closes_connections_of_sync_clients(ask: Callable[[MockProvider], Any]) -> None:
    with MockProvider(REPLY) as provider:
        events = stream(ask(provider), policy=NO_SECRETS)
        assert any(isinstance(event, ToolArgsInvalid) for event in events)
        assert hangs_up(provider)  # before the events are read to their end


def chat(provider: MockProvider) -> Any:
    return gpt(provider, "").chat.completions


async def generator(closed: list[str]) -> AsyncIterator[Any]:
    try:
        async for item in each(TURN):
            yield item
    finally:
        for _ in range(3):
            await asyncio.sleep(0)
        closed.append("generator")


def model(closed: list[str]) -> Any:
    """Return a chat model that writes one tool call in many pieces."""
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessageChunk
    from langchain_core.messages.tool import tool_call_chunk
    from langchain_core.outputs import ChatGenerationChunk

    class Model(GenericFakeChatModel):
        async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
            try:
                for piece in ['{"path": "a', *["x"] * 50]:
                    await asyncio.sleep(0)
                    part = tool_call_chunk(index=0, id="call_1", name="write", args=piece)
                    message = AIMessageChunk(content="", tool_call_chunks=[part])
                    yield ChatGenerationChunk(message=message)
            finally:
                closed.append("model")

    return Model(messages=iter([]))


async def open_langgraph(closed: list[str]) -> Any:
    from langgraph.graph import MessagesState, StateGraph

    async def node(state: Any) -> Any:
        return {"messages": [await model(closed).ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", node)
    graph.set_entry_point("model")
    question: Any = {"messages": [("user", "go")]}
    return graph.compile().astream(question, stream_mode="messages")


async def open_claude_agent_sdk(closed: list[str]) -> Any:
    from claude_agent_sdk import query

    from tests.agent.observing import FakeClaude
    from tests.claude_agent import assistant, init, use

    class Claude(FakeClaude):
        async def close(self) -> None:
            closed.append("transport")

    async def script(_: FakeClaude) -> Any:
        yield init()
        yield assistant(use({"path": "a"}))
        await asyncio.Event().wait()

    return query(prompt="go", transport=Claude(script))


OpenSource = Callable[[list[str]], Awaitable[Any]]
SOURCES: dict[str, OpenSource] = {
    "generator": lambda closed: given(generator(closed)),
    "LangChain": lambda closed: given(model(closed).astream("go")),
    "LangGraph": open_langgraph,
    "Claude Agent SDK": open_claude_agent_sdk,
}
every_source = pytest.mark.parametrize("open_source", SOURCES.values(), ids=SOURCES)


@silent
@every_way
@every_source
async def test_source_is_closed_while_the_program_goes_on(
    open_source: OpenSource, leave: Leave
) -> None:
    closed: list[str] = []
    source = await open_source(closed)  # this reference does not keep it open
    with suppress(LeftError):
        await leave(source)
    await until_closed(closed)


async def until_closed(closed: list[str]) -> None:
    async with asyncio.timeout(30):
        while not closed:
            await asyncio.sleep(0)


@silent
@every_way
@every_source
def test_source_is_closed_when_the_program_ends(open_source: OpenSource, leave: Leave) -> None:
    closed: list[str] = []
    leave_and_end(leave, lambda: open_source(closed))
    gc.collect()
    assert closed


@silent
async def test_source_is_closed_when_another_thread_drops_the_stream() -> None:
    closed: list[str] = []
    held = [await by_break_with_a_variable(generator(closed))]
    await asyncio.to_thread(held.clear)
    await until_closed(closed)


@silent
@pytest.mark.parametrize(
    ("leave", "verdict"),
    [(by_break_with_a_variable, "open"), (by_break_out_of_live_calls, "aborted")],
)
def test_calls_of_a_stream_that_outlives_its_event_loop_are_aborted(
    leave: Callable[[Any], Any], verdict: str
) -> None:
    events: AsyncEventStream = asyncio.run(leave(generator([])))
    (call,) = events.calls
    verdicts = [call.verdict]
    del events
    verdicts.append(call.verdict)
    assert verdicts == [verdict, "aborted"]


@silent
async def test_second_task_that_reads_the_events_raises_and_the_first_goes_on() -> None:
    events = stream(generator([]))
    one, other = await asyncio.gather(collect(events), collect(events), return_exceptions=True)
    assert isinstance(other, UsageError)
    assert one == await collect(stream(generator([])))
