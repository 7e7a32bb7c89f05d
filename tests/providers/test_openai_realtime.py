"""OpenAI Realtime: a session of events, as OpenAI, Azure and xAI send them."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI
from websockets.exceptions import ConnectionClosedError
from websockets.sync.server import ServerConnection, serve

from argstream import stream
from argstream.assembly import Assembler, Call
from argstream.events import (
    StreamFailed,
    TextDelta,
    ToolArgsDelta,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    TurnCompleted,
    Usage,
)
from argstream.history import OpaquePart, TextPart, ThinkingPart
from tests.provider_streams import Payload, Reader, of_type, types

READER = Reader("openai-realtime")
assemble, verdicts = READER.assemble, READER.verdicts

ITEM: Payload = {
    "type": "function_call",
    "id": "item_1",
    "call_id": "call_1",
    "name": "write",
    "arguments": "",
    "status": "in_progress",
}
ARGUMENTS = "response.function_call_arguments"


def created(id_: str = "resp_1", **fields: Any) -> Payload:
    response = {"id": id_, "object": "realtime.response", "status": "in_progress", **fields}
    return {"type": "response.created", "event_id": "e", "response": response}


def happened(type_: str, response: str = "resp_1", **fields: Any) -> Payload:
    return {"type": type_, "event_id": "e", "response_id": response, **fields}


def added(response: str = "resp_1", **item: Any) -> Payload:
    return happened("response.output_item.added", response, output_index=0, item={**ITEM, **item})


def delta(text: str, item: str = "item_1", response: str = "resp_1") -> Payload:
    fields: Payload = {"item_id": item, "call_id": "call_1", "output_index": 0, "delta": text}
    return happened(f"{ARGUMENTS}.delta", response, **fields)


def arguments_done(text: str, item: str = "item_1") -> Payload:
    fields: Payload = {"item_id": item, "call_id": "call_1", "name": "write", "output_index": 0}
    return happened(f"{ARGUMENTS}.done", **fields, arguments=text)


def item_done(text: str, response: str = "resp_1", **item: Any) -> Payload:
    done = {**ITEM, "arguments": text, "status": "completed", **item}
    return happened("response.output_item.done", response, output_index=0, item=done)


def done(id_: str = "resp_1", status: str = "completed", **fields: Any) -> Payload:
    response = {"id": id_, "object": "realtime.response", "status": status, **fields}
    return {"type": "response.done", "event_id": "e", "response": response}


def call(text: str = '{"a":1}', response: str = "resp_1", **item: str) -> list[Payload]:
    """A response with one call, as OpenAI writes it."""
    id_ = item.get("id", "item_1")
    return [
        created(response),
        added(response, **item),
        delta(text, id_, response),
        item_done(text, response, **item),
        done(response),
    ]


def cancelled(reason: str = "turn_detected") -> Payload:
    return done(status="cancelled", status_details={"type": "cancelled", "reason": reason})


# Calls and their verdicts


def test_a_call_is_known_at_once_and_complete_when_its_item_is_done() -> None:
    events = []
    assembler = Assembler("openai-realtime")
    for payload in call('{"path": "/tmp"}')[:-1]:
        events += assembler.feed(payload)
    assert types(events) == [
        "tool_call_started",
        "tool_args_delta",
        "argument_started",
        "argument_delta",
        "argument_completed",
        "tool_args_completed",
    ]
    assert (assembler.calls[0].id, assembler.calls[0].arguments) == ("call_1", {"path": "/tmp"})


def test_items_are_told_apart_by_their_id_though_xai_counts_each_as_the_first() -> None:
    payloads = [
        created(),
        added(id="a", call_id="c1"),
        added(id="b", call_id="c2"),
        delta('{"x":', "a"),
        delta('{"y":', "b"),
        delta("1}", "a"),
        delta("2}", "b"),
        item_done('{"x":1}', id="a", call_id="c1"),
        item_done('{"y":2}', id="b", call_id="c2"),
        done(),
    ]
    for payload in payloads:
        payload.pop("output_index", None)
    calls, _ = assemble(payloads)
    assert [(one.id, one.arguments) for one in calls] == [("c1", {"x": 1}), ("c2", {"y": 2})]


def test_the_arguments_done_closes_nothing_because_an_interrupted_call_has_it_too() -> None:
    written = [created(), added(), delta('{"a":1}'), arguments_done('{"a":1}')]
    assert verdicts(written) == ["truncated"]
    assert verdicts([*written, cancelled()]) == ["truncated"]
    assert verdicts([*written, done()]) == ["complete"]


@pytest.mark.parametrize(
    ("status", "verdict"),
    [("completed", "complete"), ("incomplete", "truncated"), ("in_progress", "truncated")],
)
def test_the_status_of_a_done_item_tells_whether_it_was_interrupted(
    status: str, verdict: str
) -> None:
    written = [created(), added(), delta('{"a":1}'), item_done('{"a":1}', status=status)]
    assert verdicts([*written, cancelled()]) == [verdict]


@pytest.mark.parametrize(
    ("status", "details", "stop_reason"),
    [
        ("cancelled", {"type": "cancelled", "reason": "turn_detected"}, "turn_detected"),
        ("cancelled", "unimplemented", "cancelled"),
        ("incomplete", {"type": "incomplete", "reason": "max_output_tokens"}, "max_output_tokens"),
        ("incomplete", {"type": "incomplete", "reason": "content_filter"}, "content_filter"),
    ],
)
def test_a_response_that_was_cut_closes_nothing_but_what_was_done_before(
    status: str, details: Any, stop_reason: str
) -> None:
    first, second = {"id": "a", "call_id": "c1"}, {"id": "b", "call_id": "c2"}
    cut = {**ITEM, **second, "arguments": "{}", "status": "incomplete"}
    payloads = [
        created(),
        added(**first),
        delta("{}", "a"),
        item_done("{}", **first),
        added(**second),
        delta("{}", "b"),
        done(status=status, status_details=details, output=[cut]),
    ]
    calls, events = assemble(payloads)
    assert [one.verdict for one in calls] == ["complete", "truncated"]
    assert [event.stop_reason for event in of_type(events, TurnCompleted)] == [stop_reason]


@pytest.mark.parametrize(("status", "verdict"), [("completed", "complete"), ("new", "truncated")])
def test_no_text_means_no_arguments_only_if_the_response_is_complete(
    status: str, verdict: str
) -> None:
    assert verdicts([created(), added(), item_done(""), done(status=status)]) == [verdict]


def test_a_failed_response_is_a_failure_and_cuts_its_call() -> None:
    error = {"type": "server_error", "code": "server_error", "message": "oops"}
    payloads = [created(), added(), delta("{}"), done(status="failed", status_details={"e": 1})]
    payloads[-1]["response"]["status_details"] = {"type": "failed", "error": error}
    calls, events = assemble([*payloads, *call(response="resp_2", id="item_2", call_id="c2")])
    assert [one.verdict for one in calls] == ["truncated", "complete"]
    assert of_type(events, StreamFailed) == [StreamFailed("server_error", "oops", retryable=True)]
    assert len(of_type(events, TurnCompleted)) == 1


def test_text_that_is_only_said_at_the_end_is_the_text() -> None:
    whole = {**ITEM, "arguments": '{"a":1}', "status": "completed"}
    for payloads in (
        [created(), added(), arguments_done('{"a":1}'), done()],
        [created(), added(), item_done('{"a":1}'), done()],
        [created(), item_done('{"a":1}'), done()],
        [created(), done(output=[whole])],
        [created(), delta('{"a":1}'), added(), item_done('{"a":1}'), done()],
    ):
        calls, events = assemble(payloads)
        assert [(one.id, one.arguments) for one in calls] == [("call_1", {"a": 1})]
        assert [event.delta for event in of_type(events, ToolArgsDelta)] == ['{"a":1}']


def test_a_server_that_sends_no_items_names_the_call_when_its_arguments_are_done() -> None:
    payloads = [created(), delta('{"a":1}'), arguments_done('{"a":1}'), done(output=None)]
    (found,), _ = assemble(payloads)
    assert (found.id, found.name, found.arguments) == ("call_1", "write", {"a": 1})


@pytest.mark.parametrize(
    "bad",
    [
        {**delta("{}"), "delta": None},
        {**delta("{}"), "delta": ["{"]},
        {**delta("{}"), "item_id": 7.5},
        {**added(), "item": {**ITEM, "arguments": 7}},
        {"type": "response.done"},
        b'{"type": "response.done", "response": "?"}',
    ],
)
def test_a_payload_of_a_wrong_form_cuts_what_is_open(bad: object) -> None:
    calls, events = assemble([created(), added(), delta("{}"), bad, item_done("{}"), done()])
    assert [one.verdict for one in calls] == ["truncated"]
    assert "bad_payload" in [event.code for event in of_type(events, StreamFailed)]


# What the model says


@pytest.mark.parametrize(
    "name",
    [
        "response.output_text",
        "response.text",
        "response.output_audio_transcript",
        "response.audio_transcript",
    ],
)
def test_what_the_model_writes_or_speaks_is_text_under_its_old_and_new_name(name: str) -> None:
    message = {"type": "message", "id": "m", "role": "assistant"}
    payloads = [
        created(),
        happened("response.output_item.added", item=message),
        happened(f"{name}.delta", item_id="m", content_index=0, delta="It is "),
        happened("response.output_audio.delta", item_id="m", content_index=0, delta="AAAA"),
        happened(f"{name}.delta", item_id="m", content_index=0, delta="foggy."),
        happened(f"{name}.done", item_id="m", content_index=0, text="It is foggy."),
        happened("response.output_item.done", item=message),
        done(),
    ]
    _, events = assemble(payloads)
    assert [event.text for event in of_type(events, TextDelta)] == ["It is ", "foggy."]
    (turn,) = of_type(events, TurnCompleted)
    assert turn.message.parts == (TextPart(text="It is foggy.", item=message),)


def test_a_transcript_without_deltas_is_said_once() -> None:
    content = [{"type": "output_audio", "transcript": "Hello."}]
    message = {"type": "message", "id": "m", "role": "assistant", "content": content}
    payloads = [
        created(),
        happened("response.output_audio_transcript.done", item_id="m", transcript="Hello."),
        happened("response.output_item.done", item=message),
        done(output=[message]),
    ]
    assert [event.text for event in of_type(assemble(payloads)[1], TextDelta)] == ["Hello."]


def test_what_the_user_says_is_no_text_of_the_model() -> None:
    name = "conversation.item.input_audio_transcription"
    payloads = [
        {"type": f"{name}.delta", "item_id": "u", "content_index": 0, "delta": "Hi"},
        {"type": f"{name}.completed", "item_id": "u", "transcript": "Hi"},
        {"type": f"{name}.failed", "item_id": "u", "error": {"message": "inaudible"}},
        *call(),
    ]
    assert of_type(assemble(payloads)[1], TextDelta, StreamFailed) == []


def test_a_thought_is_thinking_and_goes_back_as_it_came() -> None:
    item = {"type": "reasoning", "id": "rs", "summary": [{"text": "Hm."}], "encrypted_content": "x"}
    payloads = [
        created(),
        happened("response.output_item.added", item={"type": "reasoning", "id": "rs"}),
        happened("response.reasoning_summary_text.delta", item_id="rs", delta="Hm"),
        happened("response.output_item.done", item=item),
        done(output=[item]),
    ]
    _, events = assemble(payloads)
    assert types(events) == [
        "thinking_started",
        "thinking_delta",
        "thinking_delta",
        "thinking_completed",
        "turn_completed",
    ]
    (turn,) = of_type(events, TurnCompleted)
    assert turn.message.parts == (ThinkingPart(text="Hm.", item=item),)


def test_an_item_that_nobody_else_can_read_is_kept_as_it_came() -> None:
    listed = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "docs", "tools": []}
    payloads = [created(), happened("response.output_item.done", item=listed), done()]
    (turn,) = of_type(assemble(payloads)[1], TurnCompleted)
    assert turn.message.parts == (OpaquePart(item=listed),)


# A session


def test_a_session_has_many_responses_and_each_is_a_turn() -> None:
    usage = {
        "input_tokens": 10,
        "input_token_details": {"cached_tokens": 4, "audio_tokens": 1},
        "output_tokens": 5,
        "output_token_details": {"reasoning_tokens": 3},
    }
    first, second = call(), call(response="resp_2", id="item_2", call_id="call_2")
    first[-1]["response"]["usage"] = usage
    session = {"type": "session.created", "session": {"id": "s", "model": "gpt-realtime"}}
    limits = {"type": "rate_limits.updated", "rate_limits": []}
    calls, events = assemble([session, *first, limits, *second, limits])
    assert [one.id for one in calls] == ["call_1", "call_2"]
    turns = of_type(events, TurnCompleted)
    assert [(turn.message.id, turn.message.model) for turn in turns] == [
        ("resp_1", "gpt-realtime"),
        ("resp_2", "gpt-realtime"),
    ]
    assert turns[0].usage == Usage(10, 5, cache_read_tokens=4, reasoning_tokens=3)
    # xAI says it beside the response, and leaves it empty inside.
    end = {**done(usage={}, status_details="unimplemented"), "usage": {"output_tokens": 9}}
    (turn,) = of_type(assemble([created(), end])[1], TurnCompleted)
    assert turn.usage == Usage(output_tokens=9)


def test_a_session_may_end_after_a_response_and_not_within_one() -> None:
    second = call(response="resp_2", id="item_2", call_id="call_2")
    assert types(assemble(call())[1])[-1] == "turn_completed"
    for end in (1, 2, 3):
        calls, events = assemble([*call(), *second[:end]])
        assert {one.id: one.verdict for one in calls} in (
            {"call_1": "complete"},
            {"call_1": "complete", "call_2": "truncated"},
        )
        assert of_type(events, StreamFailed)[0].code == "truncated"


def test_what_the_client_says_came_of_a_call_completes_it_once() -> None:
    output = {"type": "function_call_output", "id": "o", "call_id": "call_1", "output": "ok"}
    foreign = {**output, "call_id": "of another session"}
    payloads = [
        {"type": "conversation.item.added", "item": foreign},
        *call(),
        {"type": "conversation.item.added", "item": output},
        {"type": "conversation.item.done", "item": output},
    ]
    assert of_type(assemble(payloads)[1], ToolCallCompleted) == [
        ToolCallCompleted("call_1", "write", {"a": 1}, "ok")
    ]


def test_an_error_of_the_client_costs_no_open_call_its_verdict() -> None:
    """The session goes on: it is told when the response is over."""
    error = {"type": "invalid_request_error", "code": "unknown_id", "message": "no such event"}
    event = {"type": "error", "event_id": "e", "error": {**error, "event_id": "mine"}}
    payloads = call()
    calls, events = assemble([*payloads[:3], event, *payloads[3:]])
    assert [one.verdict for one in calls] == ["complete"]
    assert types(events)[-2:] == ["turn_completed", "stream_failed"]
    assert events[-1] == StreamFailed("unknown_id", "no such event")


def test_an_error_between_two_responses_is_told_at_once() -> None:
    event = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
    assembler = Assembler("openai-realtime")
    assert assembler.feed(event) == [StreamFailed("invalid_request_error", "no")]
    flat = {"type": "error", "code": "bad", "message": "no"}
    assert assembler.feed(flat) == [StreamFailed("bad", "no")]
    # In a response, it is told at the end, where it may be the reason why nothing more came.
    expired = {"type": "error", "error": {"type": "server_error", "message": "session expired"}}
    calls, events = assemble([*call()[:3], expired])
    assert [one.verdict for one in calls] == ["truncated"]
    assert of_type(events, StreamFailed) == [
        StreamFailed("server_error", "session expired", retryable=True)
    ]


def test_an_error_that_fails_the_response_is_told_once() -> None:
    error = {"type": "server_error", "message": "oops"}
    end = done(status="failed", status_details={"type": "failed", "error": error})
    _, events = assemble([created(), {"type": "error", "error": error}, end])
    assert of_type(events, StreamFailed, TurnCompleted) == [
        StreamFailed("server_error", "oops", retryable=True)
    ]


def test_a_response_beside_another_is_told_as_it_comes() -> None:
    """A client may ask for one outside of the conversation at any time."""
    first = call(id="item_1", call_id="call_1")
    second = call('{"b":2}', "resp_2", id="item_2", call_id="call_2")
    first[0] = created(conversation_id="conv_1")
    mixed = [payload for pair in zip(first, second, strict=True) for payload in pair]
    for payloads in (mixed, [*first[:3], *second, *first[3:]]):
        calls, events = assemble(payloads)
        assert [(one.id, one.arguments) for one in calls] == [
            ("call_1", {"a": 1}),
            ("call_2", {"b": 2}),
        ]
        turns = {turn.message.id: turn for turn in of_type(events, TurnCompleted)}
        assert [part.call_id for part in turns["resp_1"].message.parts] == ["call_1"]
        assert [part.call_id for part in turns["resp_2"].message.parts] == ["call_2"]
        assert of_type(events, StreamFailed) == []
        first_two = of_type(events, ToolCallStarted, TurnCompleted)[:2]
        assert [event.type for event in first_two] == ["tool_call_started"] * 2


def test_a_lost_payload_cuts_the_calls_of_all_responses() -> None:
    second = call("{}", "resp_2", id="item_2", call_id="call_2")
    payloads = [*call("{}")[:3], *second[:3], b"?", *second[3:], *call("{}")[3:]]
    assert verdicts(payloads) == ["truncated", "truncated"]


def test_a_new_response_in_the_same_conversation_means_that_the_last_one_is_over() -> None:
    first = [created(conversation_id="conv_1"), *call()[1:3]]
    second = call(response="resp_2", id="item_2", call_id="call_2")
    second[0] = created("resp_2", conversation_id="conv_1")
    assembler = Assembler("openai-realtime")
    for payload in [*first, *second[:3]]:
        assembler.feed(payload)
    assert [one.verdict for one in assembler.calls] == ["truncated", "open"]


def test_what_comes_of_a_response_after_its_end_is_nothing_new() -> None:
    late = [delta("{}"), mcp("mcp_call.completed"), added(id="x"), done()]
    assert types(assemble([*call(), *late])[1]) == types(assemble(call())[1])


def test_a_result_completes_its_call_while_other_responses_go_on() -> None:
    second = call("{}", "resp_2", id="item_2", call_id="call_2")
    output = {"type": "function_call_output", "call_id": "call_2", "output": "ok"}
    result = {"type": "conversation.item.added", "item": output}
    third = call("{}", "resp_3", id="item_3", call_id="call_3")
    payloads = [*call()[:3], *third[:3], *second, result, *call()[3:], *third[3:]]
    calls, events = assemble(payloads)
    assert [one.id for one in calls] == ["call_1", "call_3", "call_2"]
    assert [one.verdict for one in calls] == ["complete"] * 3
    turn, result, *_ = of_type(events, ToolCallCompleted, TurnCompleted)
    assert (turn.message.id, result.call_id) == ("resp_2", "call_2")


def test_events_that_are_not_known_are_ignored() -> None:
    payloads = call()
    odd = [{"type": "ping", "timestamp": 1}, {"type": "response.new", "delta": {"a": 1}}, {}]
    assert types(assemble([*payloads[:3], *odd, *payloads[3:]])[1]) == types(assemble(payloads)[1])


# MCP: the provider runs the call


def mcp(type_: str, **fields: Any) -> Payload:
    return {"type": f"response.{type_}", "event_id": "e", "item_id": "mcp_1", **fields}


MCP_ITEM: Payload = {"type": "mcp_call", "id": "mcp_1", "name": "ask", "server_label": "s"}
MCP_WRITTEN: list[Payload] = [
    created(),
    happened("response.output_item.added", item={**MCP_ITEM, "arguments": ""}),
    mcp("mcp_call_arguments.delta", response_id="resp_1", delta='{"q":'),
    mcp("mcp_call_arguments.delta", response_id="resp_1", delta="1}"),
    mcp("mcp_call_arguments.done", response_id="resp_1", arguments='{"q":1}'),
    mcp("mcp_call.in_progress"),
]


@pytest.mark.parametrize(
    ("end", "fields", "expected"),
    [
        ("completed", {"output": "found"}, ToolCallCompleted("mcp_1", "ask", {"q": 1}, "found")),
        ("failed", {"error": {"code": 500}}, ToolCallFailed("mcp_1", "ask", {"code": 500})),
        ("failed", {"error": None}, ToolCallFailed("mcp_1", "ask", "failed")),
    ],
)
def test_an_mcp_call_ends_with_its_result(end: str, fields: Payload, expected: Any) -> None:
    whole = {**MCP_ITEM, "arguments": '{"q":1}', "error": None, **fields}
    item = happened("response.output_item.done", item=whole)
    calls, events = assemble([*MCP_WRITTEN, mcp(f"mcp_call.{end}"), item, done()])
    assert (calls[0].kind, calls[0].name, calls[0].verdict) == ("mcp", "ask", "complete")
    assert of_type(events, ToolCallCompleted, ToolCallFailed) == [expected]


def test_a_result_may_come_after_the_response() -> None:
    whole = {**MCP_ITEM, "arguments": '{"q":1}', "output": "found"}
    for late in (
        happened("response.output_item.done", item=whole),
        {"type": "conversation.item.done", "item": whole},
    ):
        _, events = assemble([*MCP_WRITTEN, done(), late])
        assert types(events)[-2:] == ["turn_completed", "tool_call_completed"]


# The SDK's own objects, and its client


@contextmanager
def realtime_server(payloads: list[Payload], code: int = 1000) -> Iterator[str]:
    """A server that says this to whoever connects, and hangs up."""

    def speak(connection: ServerConnection) -> None:
        for payload in payloads:
            connection.send(json.dumps(payload))
        connection.close(code)

    with serve(speak, "127.0.0.1", 0) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


# The SDK's synchronous client connects in a way that websockets wants to get rid of.
sdk_warns = pytest.mark.filterwarnings("ignore:connect.. must be used:DeprecationWarning")


def test_a_connection_of_the_async_client_is_a_stream() -> None:
    async def read(url: str) -> tuple[list[str], list[Call]]:
        client = AsyncOpenAI(api_key="x", websocket_base_url=url)
        async with client.realtime.connect(model="gpt-realtime") as connection:
            events = stream(connection, protocol="openai-realtime")
            return [event.type async for event in events], events.calls

    with realtime_server(call()) as url:
        found, calls = asyncio.run(read(url))
    assert found == types(assemble(call())[1])
    assert [one.arguments for one in calls] == [{"a": 1}]


@sdk_warns
def test_a_connection_that_breaks_leaves_its_call_truncated_and_raises() -> None:
    with realtime_server(call("{}")[:3], code=1011) as url:
        client = OpenAI(api_key="x", websocket_base_url=url)
        with client.realtime.connect(model="gpt-realtime") as connection:
            events = stream(connection, protocol="openai-realtime")
            with pytest.raises(ConnectionClosedError):
                list(events)
    assert [one.verdict for one in events.calls] == ["truncated"]


def test_a_call_that_is_answered_before_its_item_is_done_is_whole() -> None:
    """A client may answer as soon as it has the arguments."""
    output = {"type": "function_call_output", "call_id": "call_1", "output": "ok"}
    answer = {"type": "conversation.item.added", "event_id": "e", "item": output}
    text = '{"a":1}'
    calls, events = assemble(
        [created(), added(), arguments_done(text), answer, item_done(text), done()]
    )
    assert [one.arguments for one in calls] == [{"a": 1}]
    assert of_type(events, StreamFailed) == []


def test_arguments_of_nothing_are_told_as_a_call_without_a_name() -> None:
    said = {name: value for name, value in arguments_done("{}").items() if name != "name"}
    for payloads in ([delta("{}"), said], [said], [delta("{}")]):
        assert verdicts([created(), *payloads, done()]) == ["malformed"]


def test_a_call_that_is_answered_before_its_arguments_came_was_not_run() -> None:
    """A client may answer anything, for instance that it was interrupted."""
    output = {"type": "function_call_output", "call_id": "call_1", "output": "cancelled"}
    answer = {"type": "conversation.item.added", "event_id": "e", "item": output}
    assert verdicts([created(), added(), answer, delta('{"a":1}'), done()]) == ["truncated"]
