"""A loop over an async stream that is left early: nothing is printed, and the source is closed."""

import asyncio
import gc
import logging
import subprocess
import sys
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import httpx
import openai
import pytest
from claude_agent_sdk import query
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langgraph.graph import MessagesState, StateGraph

from argstream import AsyncEventStream, UsageError, stream
from argstream.recording import record_async
from argstream.testing import CallTool, MockProvider, Reply, Slow
from tests.agent.observing import FakeClaude
from tests.claude_agent import assistant, init, use
from tests.provider_streams import anthropic_call

REPLY = Reply(CallTool("write", {"content": "x" * 4_000}), faults=[Slow(between=0.02)])
MESSAGES: Any = [{"role": "user", "content": "go"}]
MESSAGE: Any = {"model": "m", "max_tokens": 10, "messages": MESSAGES}
CHAT: Any = {"model": "m", "messages": MESSAGES}
HEADERS = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
REQUEST: Any = {"json": {**MESSAGE, "stream": True}, "headers": HEADERS}
TURN = anthropic_call('{"path": "a.py", ', '"content": "im', "port", ' os"}')


class LeftError(Exception):
    """Raised in the body of a loop."""


# Ways to leave a loop


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


async def by_break_out_of_live_calls(source: Any) -> None:
    async for _ in stream(source).live_calls():
        break


Leave = Callable[[Any], Awaitable[object]]
WAYS: list[Leave] = [
    by_break,
    by_break_with_a_variable,
    by_exception,
    by_anext,
    by_break_out_of_live_calls,
]


# What is printed


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
    unraisable: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda said: unraisable.append(repr(said)))
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


def leave_and_end(leave: Leave, open_source: Callable[[], Awaitable[Any]]) -> None:
    """Run a program that ends as soon as it has left the loop."""

    async def main() -> None:
        await leave(await open_source())

    with suppress(LeftError):
        asyncio.run(main())


# Clients of a provider


def no_tls(library: Any) -> dict[str, Any]:
    """Options for an SDK's client that does not load certificates, which takes long."""
    return {"http_client": library.DefaultAsyncHttpxClient(verify=False), "api_key": "any"}


def claude(provider: MockProvider) -> Any:
    return anthropic.AsyncAnthropic(base_url=provider.anthropic_url, **no_tls(anthropic)).messages


def gpt(provider: MockProvider) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=provider.openai_url, **no_tls(openai))


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
    "responses.stream": lambda at: given(gpt(at).responses.stream(model="m", input="go")),
    "responses.create": lambda at: gpt(at).responses.create(model="m", input="go", stream=True),
    "httpx": lambda at: given(
        httpx.AsyncClient(verify=False).stream("POST", f"{at.url}/v1/messages", **REQUEST)
    ),
    "httpx bytes": httpx_bytes,
    "recorded": recorded,
}
every_client = pytest.mark.parametrize("ask", CLIENTS.values(), ids=CLIENTS)


def hangs_up(provider: MockProvider, count: int) -> bool:
    """Wait until the provider has noticed; it would take minutes to send the rest."""
    deadline = time.monotonic() + 5
    while len(provider.hang_ups) < count and time.monotonic() < deadline:
        time.sleep(0.005)
    return len(provider.hang_ups) == count


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_silent")
@every_client
def test_connection_is_closed_while_the_program_goes_on(ask: Ask) -> None:
    async def main(provider: MockProvider) -> None:
        for count, leave in enumerate(WAYS, 1):
            with suppress(LeftError):
                await leave(await ask(provider))
            assert await asyncio.to_thread(hangs_up, provider, count), leave
            gc.collect()

    with MockProvider([REPLY] * len(WAYS)) as provider:
        asyncio.run(main(provider))


@pytest.mark.usefixtures("_silent")
@every_client
def test_connection_is_closed_when_the_program_ends(ask: Ask) -> None:
    with MockProvider([REPLY] * len(WAYS)) as provider:
        for count, leave in enumerate(WAYS, 1):
            leave_and_end(leave, lambda: ask(provider))
            gc.collect()
            assert hangs_up(provider, count), leave


@pytest.mark.usefixtures("_silent")
@pytest.mark.parametrize("is_response", [False, True], ids=["request", "response"])
def test_connection_of_aiohttp_is_closed(is_response: bool) -> None:
    async def main(provider: MockProvider) -> None:
        async with aiohttp.ClientSession() as session:
            for count, leave in enumerate(WAYS, 1):
                request = session.post(f"{provider.url}/v1/messages", **REQUEST)
                with suppress(LeftError):
                    await leave(await request if is_response else request)
                assert await asyncio.to_thread(hangs_up, provider, count), leave

    with MockProvider([REPLY] * len(WAYS)) as provider:
        asyncio.run(main(provider))


# Frameworks and generators


async def generator(closed: list[str]) -> AsyncIterator[Any]:
    try:
        for item in TURN:
            await asyncio.sleep(0)
            yield item
    finally:
        for _ in range(3):
            await asyncio.sleep(0)
        closed.append("generator")


async def open_generator_of_generators(closed: list[str]) -> Any:
    async def outer() -> AsyncIterator[Any]:
        inner: Any = generator(closed)
        try:
            async for item in inner:
                yield item
        finally:
            await inner.aclose()

    return outer()


async def open_iterable(closed: list[str]) -> Any:
    class Iterable:
        async def __aiter__(self) -> AsyncIterator[Any]:
            for item in TURN:
                await asyncio.sleep(0)
                yield item

        async def aclose(self) -> None:
            await asyncio.sleep(0)
            closed.append("iterable")

    return Iterable()


async def open_context(closed: list[str]) -> Any:
    class Context:
        async def __aenter__(self) -> Any:
            return generator([])

        async def __aexit__(self, *_: object) -> None:
            await asyncio.sleep(0)
            closed.append("context")

    return Context()


class Model(GenericFakeChatModel):
    """A chat model that writes one tool call in many pieces."""

    closed: Callable[[], None]

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        try:
            for piece in ['{"path": "a', *["x"] * 50]:
                await asyncio.sleep(0)
                part = tool_call_chunk(index=0, id="call_1", name="write", args=piece)
                message = AIMessageChunk(content="", tool_call_chunks=[part])
                yield ChatGenerationChunk(message=message)
        finally:
            self.closed()


def model(closed: list[str]) -> Model:
    return Model(messages=iter([]), closed=lambda: closed.append("model"))


async def open_langgraph(closed: list[str]) -> Any:
    async def node(state: MessagesState) -> Any:
        return {"messages": [await model(closed).ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", node)
    graph.set_entry_point("model")
    question: Any = {"messages": [("user", "go")]}
    return graph.compile().astream(question, stream_mode="messages")


async def open_claude_agent_sdk(closed: list[str]) -> Any:
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
    "generator of generators": open_generator_of_generators,
    "iterable": open_iterable,
    "context": open_context,
    "LangChain": lambda closed: given(model(closed).astream("go")),
    "LangGraph": open_langgraph,
    "Claude Agent SDK": open_claude_agent_sdk,
}
every_source = pytest.mark.parametrize("open_source", SOURCES.values(), ids=SOURCES)


@pytest.mark.usefixtures("_silent")
@pytest.mark.parametrize("leave", WAYS, ids=lambda way: str(getattr(way, "__name__", way)))
@every_source
def test_source_is_closed_while_the_program_goes_on(open_source: OpenSource, leave: Leave) -> None:
    async def main() -> None:
        closed: list[str] = []
        source = await open_source(closed)  # this reference does not keep it open
        with suppress(LeftError):
            await leave(source)
        async with asyncio.timeout(10):
            while not closed:
                await asyncio.sleep(0)

    asyncio.run(main())


@pytest.mark.usefixtures("_silent")
@pytest.mark.parametrize("leave", WAYS, ids=lambda way: str(getattr(way, "__name__", way)))
@every_source
def test_source_is_left_quietly_when_the_program_ends(
    open_source: OpenSource, leave: Leave
) -> None:
    closed: list[str] = []
    leave_and_end(leave, lambda: open_source(closed))
    gc.collect()
    assert closed


@pytest.mark.parametrize("goes_on", [True, False])
def test_program_that_breaks_prints_nothing(goes_on: bool) -> None:
    program = f"""
import asyncio, anthropic, sys
from argstream import stream

async def main():
    client = anthropic.AsyncAnthropic(base_url=sys.argv[1], api_key="any")
    async for event in stream(client.messages.stream(**{MESSAGE})):
        break
    if {goes_on}:
        await asyncio.sleep(0.1)
    print(event.type)

asyncio.run(main())
"""
    with MockProvider(REPLY) as provider:
        done = subprocess.run(
            [sys.executable, "-c", program, provider.anthropic_url],
            capture_output=True,
            text=True,
            check=True,
        )
        assert hangs_up(provider, 1)
    assert (done.stdout, done.stderr) == ("tool_call_started\n", "")


@pytest.mark.usefixtures("_silent")
def test_source_is_closed_when_another_thread_drops_the_stream() -> None:
    async def main() -> None:
        closed: list[str] = []
        held = [await by_break_with_a_variable(generator(closed))]
        await asyncio.to_thread(held.clear)
        async with asyncio.timeout(10):
            while not closed:
                await asyncio.sleep(0)

    asyncio.run(main())


@pytest.mark.usefixtures("_silent")
def test_calls_of_a_stream_that_outlives_its_event_loop_are_aborted() -> None:
    events = asyncio.run(by_break_with_a_variable(generator([])))
    (call,) = events.calls
    verdicts = [call.verdict]
    del events
    verdicts.append(call.verdict)
    assert verdicts == ["open", "aborted"]


@pytest.mark.usefixtures("_silent")
def test_loop_that_was_left_can_be_continued_while_the_stream_is_held() -> None:
    async def main() -> None:
        closed: list[str] = []
        whole = [event async for event in stream(generator([]))]
        events = stream(generator(closed))
        seen: list[object] = []
        for count in (1, 3, None):
            async for event in events:
                seen.append(event)
                if len(seen) == count:
                    break
        assert seen == whole
        assert closed == ["generator"]

    asyncio.run(main())


@pytest.mark.usefixtures("_silent")
def test_second_task_that_reads_the_events_is_refused_and_the_first_goes_on() -> None:
    async def main() -> None:
        events = stream(generator([]))

        async def read() -> list[object]:
            return [event async for event in events]

        first, second = await asyncio.gather(read(), read(), return_exceptions=True)
        assert isinstance(second, UsageError)
        assert first == [event async for event in stream(generator([]))]

    asyncio.run(main())
