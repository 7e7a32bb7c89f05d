"""Gemini's Interactions API: steps, their deltas, and tools that Google runs."""

import json
from typing import Any

import pytest

from argstream import stream
from argstream.assembly import Call
from argstream.events import Event, ToolCallCompleted, ToolCallFailed, Usage
from argstream.history import OpaquePart, Part, TextPart, ThinkingPart
from tests.answering import answering
from tests.provider_streams import call_part, provider_failed, results, turns, types
from tests.providers.tables import Tables, cases

READER = Tables("gemini-interactions")
CREATED: Any = {
    "event_type": "interaction.created",
    "interaction": {"id": "v1_x", "status": "in_progress", "model": "gemini"},
}
UPDATE: Any = {
    "event_type": "interaction.status_update",
    "interaction_id": "v1_x",
    "status": "in_progress",
}
INPUT = {"total_input_tokens": 53, "total_tool_use_tokens": 2, "total_cached_tokens": 3}
USAGE = {**INPUT, "total_output_tokens": 15, "total_thought_tokens": 65}


def start(index: int, type_: str, **fields: Any) -> Any:
    return {"event_type": "step.start", "index": index, "step": {"type": type_, **fields}}


def delta(index: int, type_: str, **fields: Any) -> Any:
    return {"event_type": "step.delta", "index": index, "delta": {"type": type_, **fields}}


def stop(index: int) -> Any:
    return {"event_type": "step.stop", "index": index}


def function(index: int = 0, **fields: Any) -> Any:
    return start(index, "function_call", **{"id": "f1", "name": "write", "arguments": {}, **fields})


def arguments(text: str, index: int = 0) -> Any:
    return delta(index, "arguments_delta", arguments=text)


def end(status: str = "completed", **fields: Any) -> Any:
    interaction = {"id": "v1_x", "status": status, "usage": USAGE, **fields}
    return {"event_type": "interaction.completed", "interaction": interaction}


def turn(*payloads: Any) -> list[Any]:
    return [CREATED, UPDATE, *payloads]


def assemble(*payloads: Any) -> tuple[list[Call], list[Event]]:
    return READER.assemble(turn(*payloads))


def parts_of(*payloads: Any) -> tuple[Part, ...]:
    return READER.completed(turn(*payloads, end())).message.parts


def unstopped(status: str) -> list[Any]:
    return turn(function(), arguments('{"a":1}'), end(status))


def placeholder(status: str) -> list[Any]:
    """A call that was cut at its start also has an empty object (invariant 8)."""
    return turn(function(), stop(0), end(status))


STEP = {"type": "function_call", "id": "f1", "name": "write", "arguments": {"a": 1}}
CUT = ["incomplete", "cancelled", "failed", "budget_exceeded", "requires_continuation"]
BEGUN = function(arguments={"a": 1})
ODD = delta(0, "arguments_delta", partial_arguments='{"a":1}')
UNKNOWN = [
    *({"event_type": "brand_new", "index": "?", "delta": 3}, function()),
    *(delta(0, "brand_new_delta", thing=1), arguments("{}"), stop(0), stop(7), b"[DONE]", end()),
]

test_outcomes = READER.test_outcomes(
    {
        "text, closed by its step": (turn(*unstopped("completed")[2:-1], stop(0)), [{"a": 1}]),
        "object at the start": (turn(BEGUN, arguments(""), stop(0), end("incomplete")), [{"a": 1}]),
        "object at the start, then text": (turn(BEGUN, arguments('{"b":1}'), stop(0)), [{"b": 1}]),
        "interleaved text": (
            turn(
                *(function(0, id="1"), function(1, id="2"), arguments('{"a":', 1)),
                *(arguments('{"b":', 0), arguments("1}", 1), arguments("2}", 0), stop(0), stop(1)),
            ),
            [{"b": 2}, {"a": 1}],
        ),
        "empty object and no end": (turn(function(), stop(0)), ["truncated"]),
        **cases("empty object and", placeholder, {}, ["requires_action"]),
        **cases("empty object and", placeholder, "truncated", ["incomplete"]),
        "arguments under another name": (turn(function(), ODD, stop(0), end()), ["truncated"]),
        **cases("not stopped and", unstopped, {"a": 1}, ["completed", "requires_action", "new"]),
        **cases("not stopped and", unstopped, "truncated", CUT),
        "steps repeated at the end": (
            turn(function(), arguments('{"a":1}'), stop(0), end(steps=[STEP])),
            [{"a": 1}],
        ),
        "unknown events and deltas": (turn(*UNKNOWN), [{}]),
    }
)


def test_parts_that_must_go_back_are_kept() -> None:
    summary = {"type": "text", "text": "hm"}
    picture = {"type": "image", "data": "aGk=", "mime_type": "image/png"}
    note = {"type": "url_citation", "url": "u"}
    call = {"type": "function_call", "id": "f1", "name": "write", "signature": "c2ln"}
    thought = {"type": "thought", "summary": [summary], "signature": "c2ln"}
    assert parts_of(
        *(start(0, "thought"), delta(0, "thought_summary", content=summary)),
        delta(0, "thought_signature", signature="c2"),
        *(delta(0, "thought_signature", signature="ln"), stop(0)),
        *(function(1, signature="c2ln"), stop(1)),
        *(start(2, "model_output"), delta(2, "text", text="so")),
        delta(2, "text_annotation_delta", annotations=[note]),
        *(delta(2, "image", data="aGk=", mime_type="image/png"), stop(2)),
        *(start(3, "brand_new", thing=1), stop(3)),
    ) == (
        ThinkingPart(text="hm", item=thought),
        call_part("f1", "write", {}, "", item=call),
        TextPart(text="so", item={"type": "model_output", "annotations": [note]}),
        *(OpaquePart(item=picture), OpaquePart(item={"type": "brand_new", "thing": 1})),
    )
    user_input = start(0, "user_input", content=[summary])
    result = start(1, "function_result", call_id="f0", result="x")
    assert parts_of(user_input, stop(0), result, stop(1)) == ()


def test_usage_counts_thoughts_as_output() -> None:
    event = READER.completed(turn(end()))
    assert event.usage == Usage(55, 80, cache_read_tokens=3, reasoning_tokens=65)
    assert (event.message.id, event.message.model) == ("v1_x", "gemini")


@pytest.mark.parametrize("failed", [False, True])
def test_google_search_is_a_call_with_its_result(failed: bool) -> None:
    calls, events = assemble(
        start(0, "google_search_call", id="s1", arguments={}, signature="c2ln"),
        *(delta(0, "google_search_call", arguments={"queries": ["x"]}), stop(0)),
        start(1, "google_search_result", call_id="s1", result=[]),
        delta(1, "google_search_result", result=[{"title": "a"}], is_error=failed),
        *(delta(1, "google_search_result", result=[{"title": "b"}]), stop(1), end()),
    )
    (call,) = calls
    assert (call.kind, call.name, call.arguments) == ("server", "google_search", {"queries": ["x"]})
    result = [{"title": "a"}, {"title": "b"}]
    done = ToolCallCompleted("s1", "google_search", {"queries": ["x"]}, result)
    assert results(events) == [ToolCallFailed("s1", "google_search", result) if failed else done]
    assert turns(events)[0].message.parts[1].item["type"] == "google_search_result"


def test_code_and_mcp_calls_have_their_results() -> None:
    code = {"code": "print(1)", "language": "python"}
    mcp = {"id": "m1", "name": "ask", "server_name": "wiki", "arguments": {"q": 1}}
    calls, events = assemble(
        start(0, "code_execution_call", id="c1", arguments={}),
        *(delta(0, "code_execution_call", arguments=code), stop(0)),
        start(1, "code_execution_result", call_id="c1", result=""),
        *(delta(1, "code_execution_result", result="1\n"), stop(1)),
        *(start(2, "mcp_server_tool_call", **mcp), stop(2)),
        *(start(3, "mcp_server_tool_result", call_id="m1", result="yes"), stop(3), end()),
    )
    found = [(call.kind, call.name, call.arguments) for call in calls]
    assert found == [("code", "code_execution", "print(1)"), ("mcp", "ask", {"q": 1})]
    assert [done.result for done in results(events)] == ["1\n", "yes"]
    assert turns(events)[0].message.parts[2].item["server_name"] == "wiki"


ERROR = {"event_type": "error", "error": {"code": "unavailable", "message": "later"}}

test_error_truncates_the_call = READER.test_failures(
    turn(function(), arguments('{"a":1}')),
    [(ERROR, provider_failed("unavailable", "later", retryable=True))],
)


def test_failed_interaction_is_a_failure() -> None:
    assert types(assemble(end("failed"))[1]) == ["stream_failed"]
    error = {"code": 13, "message": "no picture"}
    _, events = assemble(start(0, "model_output", error=error), stop(0), end("failed"))
    assert events[0] == provider_failed("13", "no picture", retryable=True)


test_unreadable_payload_truncates_the_call = READER.test_unreadable(
    turn(function(), arguments('{"a":1}')),
    [
        *(b"nonsense", b'{"event_type":"step.delta","index":0}'),
        b'{"event_type":"step.delta","delta":{"type":"arguments_delta","arguments":"x"}}',
        b'{"event_type":"step.delta","index":0,"delta":{"type":"arguments_delta","arguments":7}}',
        b'{"event_type":"step.delta","index":0,"delta":{"type":"arguments_delta","arguments":{}}}',
        *(b'{"event_type":"step.start","index":1}', b'{"event_type":"step.stop"}'),
        b'{"event_type":"step.start","index":1,"step":{"type":"function_call","type":"x"}}',
    ],
    [stop(0), end()],
)


TURN = turn(
    *(start(0, "thought"), delta(0, "thought_summary", content={"type": "text", "text": "hm"})),
    *(delta(0, "thought_signature", signature="+/+/"), stop(0)),
    *(start(1, "google_search_call", id="s1", arguments={"queries": ["x"]}), stop(1)),
    start(2, "google_search_result", call_id="s1", result=[{"search_suggestions": "a"}]),
    *(stop(2), start(3, "model_output"), delta(3, "text", text="so"), stop(3)),
    *(function(4), arguments('{"a":', 4), arguments("1}", 4), stop(4), end("requires_action")),
)


async def test_stream_of_the_async_client_is_read() -> None:
    from google import genai

    body = "".join(f"event: {one['event_type']}\ndata: {json.dumps(one)}\n\n" for one in TURN)
    with answering(body.encode()) as address:
        async with genai.Client(api_key="any", http_options={"base_url": address}).aio as models:
            source: Any = models.interactions.create(model="gemini", input="hi", stream=True)
            events = [event async for event in stream(source, "gemini-interactions")]
    assert events == READER.assemble(TURN)[1]
