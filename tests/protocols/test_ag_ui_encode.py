"""``ag_ui.encode``: streams without a server, read by the published clients 1.0 and 0.0.59."""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from argstream import events as ev
from argstream import stream
from argstream.protocols import ag_ui
from argstream.protocols.ag_ui import Version
from tests import provider_streams as api
from tests.agent.chance import JUDGE, Turn, turns
from tests.protocols.reading import read
from tests.server.nodes import examples_of, run_node_on

USER = {"id": "u1", "role": "user", "content": "Go"}
VERSIONS: tuple[Version, ...] = ("1.0", "0.0.59")
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOLS = [{"name": "write", "input_schema": SCHEMA}]
ANSWER = [
    *(api.message_start(), *api.thinking_block(0, "Hm."), *api.text_block(1, "I write ", "it.")),
    *(*api.call_block(2, '{"path": ', '"a"}'), *api.message_end()),
]


def events_of(payloads: list[Any]) -> Iterator[ev.Event]:
    return iter(stream(payloads, "anthropic", TOOLS))


def with_result() -> Iterator[ev.Event]:
    """The application runs the call and adds its result."""
    yield from events_of(ANSWER)
    yield ev.ToolCallCompleted("toolu_1", "write", {"path": "a"}, "written")


SOURCES: dict[str, list[ev.Event]] = {
    "answer": [*events_of(ANSWER)],
    "result": [*with_result()],
    "rejected": [*events_of(api.anthropic_call('{"path": ', "7}"))],
    "truncated": [*events_of(api.anthropic_call('{"path": ', '"a"}')[:3])],
}


def encoded(events: Iterable[ev.Event], version: Version = "1.0") -> bytes:
    return b"".join(ag_ui.encode(events, "thread", "ask", version))


def reading(events: Iterable[ev.Event], version: Version) -> dict[str, Any]:
    """What a published client is given: its messages, and the stream."""
    streams = [encoded(events, version).decode()]
    return {"version": version, "messages": [USER], "streams": streams}


@pytest.fixture(scope="module")
def results() -> dict[tuple[str, Version], Any]:
    """What the clients have of each stream, by its name and their version."""
    cases = list(product(SOURCES, VERSIONS))
    readings = [reading(SOURCES[name], version) for name, version in cases]
    return dict(zip(cases, run_node_on("ag_ui_streams.mjs", readings), strict=True))


class Clients(NamedTuple):
    results: dict[tuple[str, Version], Any]
    version: Version

    def read(self, name: str) -> Any:
        return self.results[name, self.version]

    def pending(self, *calls: str) -> list[str] | None:
        """What the client calls pending if these calls are; 0.0.59 has no such list."""
        return [*calls] if self.version == "1.0" else None


@pytest.fixture(params=VERSIONS)
def clients(request: pytest.FixtureRequest, results: dict[tuple[str, Version], Any]) -> Clients:
    return Clients(results, request.param)


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


def test_published_clients_read_random_streams() -> None:
    drawn: list[Turn] = examples_of(st.integers(1, 2).flatmap(turns))
    streams = [list(stream([*one.payloads], one.protocol, check=JUDGE)) for one in drawn]
    readings = [reading(events, version) for events in streams for version in VERSIONS]
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
    call = (ev.ToolCallStarted("s1", 0, "find", "server"), ev.ToolArgsCompleted("s1", "find", {}))
    [result] = [event for event in decoded(*call) if event["type"] == "TOOL_CALL_RESULT"]
    assert result["metadata"] == {"argstream": {"failed": True}}


def test_run_keeps_its_id_and_gives_each_call_a_result() -> None:
    call = (ev.ToolCallStarted("c1", 0, "send"), ev.ToolArgsCompleted("c1", "send", {}))
    start = ev.RunStarted("run_9", "Go")
    events = decoded(start, ev.TurnStarted(1), *call, ev.RunFailed("max_turns", "too many"))
    assert events[0]["metadata"] == {"argstream": {"runId": "run_9"}}
    kinds = [event["type"] for event in events]
    assert kinds[-3:] == ["TOOL_CALL_RESULT", "STEP_FINISHED", "RUN_ERROR"]
