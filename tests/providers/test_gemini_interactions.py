"""Gemini's Interactions API: steps, their deltas, and what Google runs itself."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from google import genai
from google.genai import types as google

from argstream import stream
from argstream.assembly import Call
from argstream.events import (
    Event,
    StreamFailed,
    ToolCallCompleted,
    ToolCallFailed,
    TurnCompleted,
    Usage,
)
from argstream.history import OpaquePart, ResultPart, TextPart, ThinkingPart
from tests import provider_streams as providers
from tests.answering import answering
from tests.provider_streams import call_part, of_type, types

CREATED: Any = {
    "event_type": "interaction.created",
    "interaction": {"id": "v1_x", "status": "in_progress", "model": "gemini"},
}
UPDATE: Any = {
    "event_type": "interaction.status_update",
    "interaction_id": "v1_x",
    "status": "in_progress",
}
USAGE = {
    "total_input_tokens": 53,
    "total_tool_use_tokens": 2,
    "total_cached_tokens": 3,
    "total_output_tokens": 15,
    "total_thought_tokens": 65,
}


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


def assemble(*payloads: Any) -> tuple[list[Call], list[Event]]:
    return providers.assemble([CREATED, UPDATE, *payloads], protocol="gemini-interactions")


def only_call(*payloads: Any) -> Call:
    (call,) = assemble(*payloads)[0]
    return call


def completed(*payloads: Any) -> TurnCompleted:
    turn = [CREATED, UPDATE, *payloads]
    return providers.completed(turn, protocol="gemini-interactions")


def test_arguments_come_as_text_and_the_end_of_the_step_closes_the_call() -> None:
    call = only_call(function(), arguments('{"a'), arguments('":1}'), stop(0))
    assert (call.id, call.name, call.arguments) == ("f1", "write", {"a": 1})


def test_the_object_at_the_start_is_all_if_no_text_follows() -> None:
    begun = function(arguments={"a": 1})
    assert only_call(begun, arguments(""), stop(0), end("incomplete")).arguments == {"a": 1}
    assert only_call(begun, arguments('{"b":1}'), stop(0)).arguments == {"b": 1}
    calls, _ = assemble(
        *(function(0, id="1"), function(1, id="2"), arguments('{"a":', 1), arguments('{"b":', 0)),
        *(arguments("1}", 1), arguments("2}", 0), stop(0), stop(1)),
    )
    assert [call.arguments for call in calls] == [{"b": 2}, {"a": 1}]


def test_an_empty_object_at_the_start_waits_for_the_end() -> None:
    """It is a placeholder, also of a call that was cut at its very beginning (invariant 8)."""
    turn = [CREATED, function(arguments={}), stop(0)]
    assert only_call(*turn).verdict == "truncated"
    assert only_call(*turn, end("requires_action")).arguments == {}
    assert only_call(*turn, end("incomplete")).verdict == "truncated"


def test_a_piece_of_arguments_under_another_name_is_not_passed_over() -> None:
    odd = delta(0, "arguments_delta", partial_arguments='{"a":1}')
    assert only_call(function(), odd, stop(0), end("completed")).verdict == "truncated"


def test_a_step_that_was_not_stopped_is_closed_if_the_interaction_was_not_cut() -> None:
    begun = [function(), arguments('{"a":1}')]
    for status in ("completed", "requires_action", "something_new"):
        assert only_call(*begun, end(status)).verdict == "complete", status
    cut = ("incomplete", "cancelled", "failed", "budget_exceeded", "requires_continuation")
    for status in cut:
        assert only_call(*begun, end(status)).verdict == "truncated", status


def test_what_must_go_back_is_kept_whole() -> None:
    summary = {"type": "text", "text": "hm"}
    picture = {"type": "image", "data": "aGk=", "mime_type": "image/png"}
    note = {"type": "url_citation", "url": "u"}
    event = completed(
        start(0, "thought"),
        delta(0, "thought_summary", content=summary),
        delta(0, "thought_signature", signature="c2"),
        delta(0, "thought_signature", signature="ln"),
        stop(0),
        function(1, signature="c2ln"),
        stop(1),
        start(2, "model_output"),
        delta(2, "text", text="so"),
        delta(2, "text_annotation_delta", annotations=[note]),
        delta(2, "image", data="aGk=", mime_type="image/png"),
        stop(2),
        start(3, "brand_new", thing=1),
        stop(3),
        end(),
    )
    thought = {"type": "thought", "summary": [summary], "signature": "c2ln"}
    assert event.message.parts == (
        ThinkingPart(text="hm", item=thought),
        call_part(
            "f1",
            "write",
            {},
            "",
            item={"type": "function_call", "id": "f1", "name": "write", "signature": "c2ln"},
        ),
        TextPart(text="so", item={"type": "model_output", "annotations": [note]}),
        OpaquePart(item=picture),
        OpaquePart(item={"type": "brand_new", "thing": 1}),
    )
    assert (event.message.id, event.message.model) == ("v1_x", "gemini")


def test_usage_counts_thoughts_as_output() -> None:
    assert completed(end()).usage == Usage(
        input_tokens=55, output_tokens=80, cache_read_tokens=3, reasoning_tokens=65
    )


@pytest.mark.parametrize("failed", [False, True])
def test_a_tool_of_googles_is_a_call_with_its_result(failed: bool) -> None:
    calls, events = assemble(
        start(0, "google_search_call", id="s1", arguments={}, signature="c2ln"),
        delta(0, "google_search_call", arguments={"queries": ["x"]}),
        stop(0),
        start(1, "google_search_result", call_id="s1", result=[]),
        delta(1, "google_search_result", result=[{"title": "a"}], is_error=failed),
        delta(1, "google_search_result", result=[{"title": "b"}]),
        stop(1),
        end(),
    )
    (call,) = calls
    assert (call.kind, call.name, call.arguments) == ("server", "google_search", {"queries": ["x"]})
    result = [{"title": "a"}, {"title": "b"}]
    assert of_type(events, ToolCallCompleted, ToolCallFailed) == [
        ToolCallFailed("s1", "google_search", result)
        if failed
        else ToolCallCompleted("s1", "google_search", {"queries": ["x"]}, result)
    ]
    part = of_type(events, TurnCompleted)[0].message.parts[1]
    assert isinstance(part, ResultPart)
    assert part.item["type"] == "google_search_result"  # type: ignore[index]


def test_code_that_google_runs_is_free_text() -> None:
    calls, events = assemble(
        start(0, "code_execution_call", id="c1", arguments={}),
        delta(0, "code_execution_call", arguments={"code": "print(1)", "language": "python"}),
        stop(0),
        start(1, "code_execution_result", call_id="c1", result=""),
        delta(1, "code_execution_result", result="1\n"),
        stop(1),
        end(),
    )
    assert [(call.kind, call.name, call.arguments) for call in calls] == [
        ("code", "code_execution", "print(1)")
    ]
    (done,) = of_type(events, ToolCallCompleted)
    assert done.result == "1\n"


def test_a_tool_of_a_remote_server_is_a_call_with_its_result() -> None:
    calls, events = assemble(
        start(
            *(0, "mcp_server_tool_call"),
            id="m1",
            name="ask",
            server_name="wiki",
            arguments={"q": 1},
        ),
        stop(0),
        start(1, "mcp_server_tool_result", call_id="m1", result="yes"),
        stop(1),
        end(),
    )
    assert [(call.kind, call.name, call.arguments) for call in calls] == [("mcp", "ask", {"q": 1})]
    (done,) = of_type(events, ToolCallCompleted)
    assert done.result == "yes"
    item = of_type(events, TurnCompleted)[0].message.parts[0].item
    assert item["server_name"] == "wiki"


def test_what_the_user_said_is_not_shown_as_the_models_words() -> None:
    said = {"type": "text", "text": "hi"}
    event = completed(
        start(0, "user_input", content=[said]),
        stop(0),
        start(1, "function_result", call_id="f0", result="x"),
        stop(1),
        end(),
    )
    assert event.message.parts == ()


def test_an_error_is_a_failure() -> None:
    error = {"event_type": "error", "error": {"code": "unavailable", "message": "later"}}
    calls, events = assemble(function(), arguments('{"a":1}'), error)
    assert calls[0].verdict == "truncated"
    assert events[-1] == StreamFailed("unavailable", "later", retryable=True)


def test_an_interaction_that_failed_is_a_failure() -> None:
    _, events = assemble(end("failed"))
    assert types(events) == ["stream_failed"]
    error = {"code": 13, "message": "no picture"}
    _, events = assemble(start(0, "model_output", error=error), stop(0), end("failed"))
    assert events[0] == StreamFailed("13", "no picture")


@pytest.mark.parametrize("status", ["requires_action", "incomplete"])
def test_an_interaction_that_was_not_streamed_is_read_like_a_stream(status: str) -> None:
    steps = [
        {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "hm"}]},
        {"type": "model_output", "content": [{"type": "text", "text": "so"}]},
        {"type": "function_call", "id": "f1", "name": "write", "arguments": {"a": 1}},
    ]
    whole = {"id": "v1_x", "model": "gemini", "object": "interaction", "usage": USAGE}
    payload = {**whole, "status": status, "steps": steps}
    calls, events = providers.assemble([payload], protocol="gemini-interactions")
    assert types(events)[:4] == [
        "thinking_started",
        "thinking_delta",
        "thinking_completed",
        "text_delta",
    ]
    assert calls[0].verdict == ("truncated" if status == "incomplete" else "complete")
    assert of_type(events, TurnCompleted)[0].usage.input_tokens == 55


def test_steps_that_are_told_again_at_the_end_are_not_new() -> None:
    step = {"type": "function_call", "id": "f1", "name": "write", "arguments": {"a": 1}}
    calls, _ = assemble(function(), arguments('{"a":1}'), stop(0), end(steps=[step]))
    assert [call.arguments for call in calls] == [{"a": 1}]


def test_unknown_events_and_deltas_are_ignored() -> None:
    call = only_call(
        {"event_type": "brand_new", "index": "?", "delta": 3},
        function(),
        delta(0, "brand_new_delta", thing=1),
        arguments("{}"),
        stop(0),
        stop(7),
        b"[DONE]",
        end(),
    )
    assert call.verdict == "complete"


@pytest.mark.parametrize(
    "payload",
    [
        b"nonsense",
        b'{"event_type":"step.delta","index":0}',
        b'{"event_type":"step.delta","delta":{"type":"arguments_delta","arguments":"x"}}',
        b'{"event_type":"step.delta","index":0,"delta":{"type":"arguments_delta","arguments":7}}',
        b'{"event_type":"step.delta","index":0,"delta":{"type":"arguments_delta","arguments":{}}}',
        b'{"event_type":"step.start","index":1}',
        b'{"event_type":"step.start","index":1,"step":{"type":"function_call","type":"x"}}',
        b'{"event_type":"step.stop"}',
    ],
)
def test_a_payload_of_a_wrong_form_truncates_what_is_open(payload: bytes) -> None:
    call = only_call(function(), arguments('{"a":1}'), payload, stop(0), end())
    assert call.verdict == "truncated"


TURN = [
    CREATED,
    UPDATE,
    start(0, "thought"),
    delta(0, "thought_summary", content={"type": "text", "text": "hm"}),
    delta(0, "thought_signature", signature="+/+/"),
    stop(0),
    start(1, "google_search_call", id="s1", arguments={"queries": ["x"]}),
    stop(1),
    start(2, "google_search_result", call_id="s1", result=[{"search_suggestions": "a"}]),
    stop(2),
    start(3, "model_output"),
    delta(3, "text", text="so"),
    stop(3),
    function(4),
    arguments('{"a":', 4),
    arguments("1}", 4),
    stop(4),
    end("requires_action"),
]


@pytest.fixture
def client() -> Iterator[genai.Client]:
    body = b"".join(
        f"event: {payload['event_type']}\ndata: {json.dumps(payload)}\n\n".encode()
        for payload in TURN
    )
    with answering(body) as address:
        options = google.HttpOptions(base_url=address)
        yield genai.Client(api_key="any", http_options=options)


def test_the_stream_of_googles_async_client_is_read(client: genai.Client) -> None:
    async def read() -> list[Event]:
        async with client.aio as models:
            source: Any = models.interactions.create(model="gemini", input="hi", stream=True)
            return [event async for event in stream(source, "gemini-interactions")]

    expected = providers.assemble(TURN, protocol="gemini-interactions")[1]
    assert asyncio.run(read()) == expected


@pytest.mark.parametrize("status", ["in_progress", "queued"])
def test_an_interaction_that_is_not_over_closes_nothing(status: str) -> None:
    steps = [{"type": "function_call", "id": "a", "name": "rm", "arguments": {"path": "/"}}]
    whole = {"object": "interaction", "id": "i", "status": status, "steps": steps}
    assert only_call(whole).verdict == "truncated"
