"""``ag_ui.encode``: streams without a server, read by the published clients 1.0 and 0.0.59."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from argstream import events as ev
from argstream import stream
from argstream.protocols import ag_ui
from argstream.protocols.ag_ui import Version
from tests.agent.chance import JUDGE, Turn, turns
from tests.protocols.reading import read
from tests.provider_streams import (
    anthropic_call,
    block_delta,
    block_start,
    block_stop,
    input_json,
    message_end,
    message_start,
    tool_use,
)
from tests.server.nodes import examples_of, run_node_on

USER = {"id": "u1", "role": "user", "content": "Go"}
VERSIONS: tuple[Version, ...] = ("1.0", "0.0.59")
TOOLS = [
    {
        "name": "write",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
    }
]
ANSWER = [
    message_start(),
    block_start(0, "thinking", thinking="", signature=""),
    block_delta(0, "thinking_delta", thinking="Hm."),
    block_stop(0),
    block_start(1, "text", text=""),
    block_delta(1, "text_delta", text="I write "),
    block_delta(1, "text_delta", text="it."),
    block_stop(1),
    *(tool_use(2), input_json(2, '{"path": '), input_json(2, '"a"}'), block_stop(2)),
    *message_end(),
]
REJECTED = anthropic_call('{"path": ', "7}")
TRUNCATED = anthropic_call('{"path": ', '"a"}')[:3]
DONE = ev.ToolCallCompleted("toolu_1", "write", {"path": "a"}, "written")


def events_of(payloads: Sequence[object]) -> Iterator[ev.Event]:
    return iter(stream(list(payloads), "anthropic", TOOLS))


async def async_events_of(payloads: Sequence[object]) -> AsyncIterator[ev.Event]:
    async def source() -> AsyncIterator[object]:
        for payload in payloads:
            yield payload

    async for event in stream(source(), "anthropic", TOOLS):
        yield event


def encoded(events: Iterable[ev.Event], version: Version = "1.0") -> bytes:
    return b"".join(ag_ui.encode(events, "thread", "ask", version))


def encoded_async(events: AsyncIterator[ev.Event], version: Version = "1.0") -> bytes:
    async def collect() -> bytes:
        chunks = [chunk async for chunk in ag_ui.encode(events, "thread", "ask", version)]
        return b"".join(chunks)

    return asyncio.run(collect())


def with_result() -> Iterator[ev.Event]:
    """The application runs the call and adds its result."""
    yield from events_of(ANSWER)
    yield DONE


async def with_result_async() -> AsyncIterator[ev.Event]:
    async for event in async_events_of(ANSWER):
        yield event
    yield DONE


SOURCES: dict[
    str, tuple[Callable[[], Iterable[ev.Event]], Callable[[], AsyncIterator[ev.Event]]]
] = {
    "answer": (lambda: events_of(ANSWER), lambda: async_events_of(ANSWER)),
    "result": (with_result, with_result_async),
    "rejected": (lambda: events_of(REJECTED), lambda: async_events_of(REJECTED)),
    "truncated": (lambda: events_of(TRUNCATED), lambda: async_events_of(TRUNCATED)),
}


CASES = list(product(SOURCES, VERSIONS, (False, True)))


@pytest.fixture(scope="module")
def results() -> dict[tuple[str, Version, bool], Any]:
    """What the clients have of each stream, by its name, version and whether it is async."""
    readings = []
    for name, version, is_async in CASES:
        events, async_events = SOURCES[name]
        data = encoded_async(async_events(), version) if is_async else encoded(events(), version)
        readings.append({"version": version, "messages": [USER], "streams": [data.decode()]})
    return dict(zip(CASES, run_node_on("ag_ui_streams.mjs", readings), strict=True))


class Clients(NamedTuple):
    results: dict[tuple[str, Version, bool], Any]
    version: Version
    is_async: bool

    def read(self, name: str) -> Any:
        return self.results[name, self.version, self.is_async]

    def pending(self, *calls: str) -> list[str] | None:
        """What the client calls pending if these calls are; 0.0.59 has no such list."""
        return [*calls] if self.version == "1.0" else None


@pytest.fixture(params=list(product(VERSIONS, (False, True))))
def clients(
    request: pytest.FixtureRequest, results: dict[tuple[str, Version, bool], Any]
) -> Clients:
    return Clients(results, *request.param)


def messages(result: Any) -> list[tuple[str, str | None]]:
    assert (result["error"], result["warnings"]) == (None, [])
    user, *others = result["messages"]
    assert user == USER
    return [(message["role"], message.get("content")) for message in others]


def test_complete_call_is_left_to_the_application(clients: Clients) -> None:
    result = clients.read("answer")
    texts = [("reasoning", "Hm."), ("assistant", "I write it.")]
    assert messages(result) == [*texts, ("assistant", None)]
    [call] = result["messages"][-1]["toolCalls"]
    assert call["function"] == {"name": "write", "arguments": '{"path": "a"}'}
    [end] = result["ends"]
    assert (end["type"], end["outcome"]) == ("RUN_FINISHED", {"type": "success"})
    assert end["usage"] == [{"inputTokens": 7, "outputTokens": 5, "totalTokens": 12}]
    assert result["pending"] == clients.pending("toolu_1")


def test_result_of_the_application_is_shown(clients: Clients) -> None:
    result = clients.read("result")
    assert messages(result)[2:] == [("assistant", None), ("tool", "written")]
    assert result["pending"] == clients.pending()


def test_rejected_call_has_a_result_so_that_no_client_runs_it(clients: Clients) -> None:
    result = clients.read("rejected")
    [(_, nothing), (role, content)] = messages(result)
    assert (nothing, role) == (None, "tool")
    assert (content or "").startswith("the call was not run: 'path' ")
    [custom] = result["customs"]
    assert custom["name"] == "argstream.arguments_invalid"
    assert (custom["value"]["verdict"], custom["value"]["path"]) == ("rejected", ["path"])
    assert result["ends"][0]["outcome"] == {"type": "success"}
    assert result["pending"] == clients.pending()


def test_truncated_stream_ends_with_an_error(clients: Clients) -> None:
    result = clients.read("truncated")
    [end] = result["ends"]
    assert (end["type"], end["code"]) == ("RUN_ERROR", "truncated")
    assert result["customs"][0]["value"]["verdict"] == "truncated"
    assert [role for role, _ in messages(result)] == ["assistant", "tool"]


@pytest.mark.parametrize("name", SOURCES)
def test_sync_and_async_streams_are_the_same_bytes(name: str) -> None:
    sync_source, async_source = SOURCES[name]
    assert encoded(sync_source()) == encoded_async(async_source())


def random_stream(turn: Turn) -> list[ev.Event]:
    return list(stream(list(turn.payloads), turn.protocol, check=JUDGE))


def test_published_clients_read_random_streams() -> None:
    drawn: list[Turn] = examples_of(st.integers(1, 2).flatmap(turns))
    streams = [random_stream(turn) for turn in drawn]
    readings = [
        {"version": version, "messages": [USER], "streams": [encoded(events, version).decode()]}
        for events in streams
        for version in VERSIONS
    ]
    results = run_node_on("ag_ui_streams.mjs", readings)
    for number, result in enumerate(results):
        events = streams[number // 2]
        shown = messages(result)
        texts = "".join(event.text for event in events if isinstance(event, ev.TextDelta))
        contents = [content or "" for role, content in shown if role == "assistant"]
        assert sorted("".join(contents)) == sorted(texts)
        failed = any(isinstance(event, ev.StreamFailed) for event in events)
        assert result["ends"][-1]["type"] == ("RUN_ERROR" if failed else "RUN_FINISHED")
        answered = {one["toolCallId"] for one in result["messages"] if one["role"] == "tool"}
        assert answered == ids(events, ev.ToolCallStarted) - left_to_the_application(events)


def ids(events: Iterable[ev.Event], *kinds: type) -> set[str]:
    return {event.call_id for event in events if isinstance(event, kinds)}  # type: ignore[union-attr]


def left_to_the_application(events: Iterable[ev.Event]) -> set[str]:
    """The complete calls that neither have a result nor are run by the provider."""
    by_provider = {
        event.call_id
        for event in events
        if isinstance(event, ev.ToolCallStarted) and event.kind in ("server", "mcp", "code")
    }
    ended = ids(events, ev.ToolCallCompleted, ev.ToolCallFailed)
    return ids(events, ev.ToolArgsCompleted) - ended - by_provider


class Source:
    """Payloads that report whether they were closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def sync(self) -> Iterator[object]:
        try:
            yield from ANSWER
        finally:
            self.is_closed = True

    async def asynchronous(self) -> AsyncIterator[object]:
        try:
            for payload in ANSWER:
                yield payload
        finally:
            self.is_closed = True


def test_closing_early_closes_the_source() -> None:
    source = Source()
    chunks = ag_ui.encode(stream(source.sync()))
    assert b"RUN_STARTED" in next(chunks)
    assert not source.is_closed
    chunks.close()
    assert source.is_closed


def test_closing_early_closes_the_async_source() -> None:
    async def close_early() -> None:
        source = Source()
        chunks = ag_ui.encode(stream(source.asynchronous()))
        assert b"RUN_STARTED" in await anext(chunks)
        assert not source.is_closed
        await chunks.aclose()
        assert source.is_closed

    asyncio.run(close_early())


def test_sync_stream_can_be_encoded_in_a_coroutine() -> None:
    async def encode_sync() -> bytes:
        return encoded(stream(Source().sync()))

    assert b"RUN_FINISHED" in asyncio.run(encode_sync())


def test_async_stream_can_be_encoded_before_a_loop_runs() -> None:
    chunks = ag_ui.encode(stream(Source().asynchronous()))

    async def collect() -> bytes:
        return b"".join([chunk async for chunk in chunks])

    assert b"RUN_FINISHED" in asyncio.run(collect())


def test_exception_of_the_source_is_raised_after_the_client_was_told() -> None:
    def source() -> Iterator[object]:
        yield from TRUNCATED
        raise OSError("the password is 1234")

    written: list[bytes] = []
    with pytest.raises(OSError, match="1234"):
        written.extend(ag_ui.encode(stream(source())))  # raises after it was filled
    assert b"1234" not in b"".join(written)
    *_, result, error = (event.data for event in read(b"".join(written)))
    assert result["type"] == "TOOL_CALL_RESULT"
    assert (error["type"], error["code"]) == ("RUN_ERROR", "model_failed")
    assert error["message"] == "the model failed with OSError"


def test_exception_of_an_async_source_is_raised_after_the_client_was_told() -> None:
    async def source() -> AsyncIterator[object]:
        for payload in TRUNCATED:
            yield payload
        raise OSError("the password is 1234")

    written: list[bytes] = []

    async def collect() -> None:
        chunks = ag_ui.encode(stream(source()))
        while chunk := await anext(chunks, None):
            written.append(chunk)

    with pytest.raises(OSError, match="1234"):
        asyncio.run(collect())
    assert read(b"".join(written))[-1].data["code"] == "model_failed"


def decoded(*events: ev.Event) -> list[Any]:
    return [event.data for event in read(encoded(events))]


def test_ids_are_random_unless_they_are_given() -> None:
    first, second = (read(b"".join(ag_ui.encode([])))[0].data for _ in range(2))
    assert first["threadId"] != second["threadId"]
    assert first["runId"] != second["runId"]
    started, finished = decoded()
    assert (started["threadId"], started["runId"]) == ("thread", "ask")
    assert finished["outcome"] == {"type": "success"}


def test_call_that_the_provider_runs_is_not_left_to_the_application() -> None:
    call = (
        ev.ToolCallStarted("s1", 0, "search", "server"),
        ev.ToolArgsCompleted("s1", "search", {}),
    )
    [result] = [event for event in decoded(*call) if event["type"] == "TOOL_CALL_RESULT"]
    assert result["metadata"] == {"argstream": {"failed": True}}


def test_run_keeps_its_id_and_gives_each_call_a_result() -> None:
    call = (ev.ToolCallStarted("c1", 0, "send"), ev.ToolArgsCompleted("c1", "send", {}))
    start = ev.RunStarted("run_9", "Go")
    events = decoded(start, ev.TurnStarted(1), *call, ev.RunFailed("max_turns", "too many"))
    assert events[0]["metadata"] == {"argstream": {"runId": "run_9"}}
    kinds = [event["type"] for event in events]
    assert kinds[-3:] == ["TOOL_CALL_RESULT", "STEP_FINISHED", "RUN_ERROR"]
