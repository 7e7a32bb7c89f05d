"""OpenAI Realtime: a session of events, as OpenAI, Azure and xAI send them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.server import ServerConnection, serve

from argstream import events as ev
from argstream import stream
from argstream.assembly import Assembler
from argstream.history import OpaquePart, TextPart, ThinkingPart
from tests import provider_streams as api
from tests.provider_streams import Payload, failures, of_type, provider_failed, texts, turns, types
from tests.providers.tables import Tables, cases

READER = Tables("openai-realtime")
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


def event(type_: str, response: str = "resp_1", **fields: Any) -> Payload:
    return {"type": type_, "event_id": "e", "response_id": response, **fields}


def added(response: str = "resp_1", **item: Any) -> Payload:
    return event("response.output_item.added", response, output_index=0, item={**ITEM, **item})


def delta(text: str, item: str = "item_1", response: str = "resp_1") -> Payload:
    fields: Payload = {"item_id": item, "call_id": "call_1", "output_index": 0, "delta": text}
    return event(f"{ARGUMENTS}.delta", response, **fields)


def arguments_done(text: str, item: str = "item_1") -> Payload:
    fields: Payload = {"item_id": item, "call_id": "call_1", "name": "write", "output_index": 0}
    return event(f"{ARGUMENTS}.done", **fields, arguments=text)


def item_done(text: str, response: str = "resp_1", **item: Any) -> Payload:
    done = {**ITEM, "arguments": text, "status": "completed", **item}
    return event("response.output_item.done", response, output_index=0, item=done)


def done(id_: str = "resp_1", status: str = "completed", **fields: Any) -> Payload:
    response = {"id": id_, "object": "realtime.response", "status": status, **fields}
    return {"type": "response.done", "event_id": "e", "response": response}


def call(text: str = '{"a":1}', response: str = "resp_1", **item: str) -> list[Payload]:
    """A response with one call, in the form that OpenAI sends."""
    id_ = item.get("id", "item_1")
    return [
        *(created(response), added(response, **item), delta(text, id_, response)),
        *(item_done(text, response, **item), done(response)),
    ]


def numbered(number: int, text: str = '{"a":1}') -> list[Payload]:
    return call(text, f"resp_{number}", id=f"item_{number}", call_id=f"call_{number}")


def cancelled(reason: str = "turn_detected") -> Payload:
    return done(status="cancelled", status_details={"type": "cancelled", "reason": reason})


def conversation_item(item: Payload, what: str = "added") -> Payload:
    return {"type": f"conversation.item.{what}", "event_id": "e", "item": item}


def output(call_id: str = "call_1", text: str = "ok") -> Payload:
    return {"type": "function_call_output", "id": "o", "call_id": call_id, "output": text}


def interrupted(status: str) -> list[Payload]:
    return [created(), added(), delta("{}"), item_done("{}", status=status), cancelled()]


def empty(status: str) -> list[Payload]:
    return [created(), added(), item_done(""), done(status=status)]


WRITTEN = [created(), added(), delta('{"a":1}'), arguments_done('{"a":1}')]
NAMELESS = {name: value for name, value in arguments_done("{}").items() if name != "name"}
LOST = [*call("{}")[:3], *numbered(2)[:3], b"?", *numbered(2)[3:], *call("{}")[3:]]
ANSWERED = [created(), added(), arguments_done('{"a":1}'), conversation_item(output())]

test_outcomes = READER.test_outcomes(
    {
        # An interrupted call has its arguments done, too.
        "arguments done": (WRITTEN, ["truncated"]),
        "arguments done and response cancelled": ([*WRITTEN, cancelled()], ["truncated"]),
        "arguments done and response done": ([*WRITTEN, done()], [{"a": 1}]),
        **cases("item done in a cancelled response with status", interrupted, {}, ["completed"]),
        **cases("item is", interrupted, "truncated", ["incomplete", "in_progress"]),
        **cases("no text and", empty, {}, ["completed"]),
        **cases("no text and", empty, "truncated", ["new"]),
        "lost payload": (LOST, ["truncated", "truncated"]),
        "answered before its item is done": ([*ANSWERED, item_done('{"a":1}'), done()], [{"a": 1}]),
        # A client may answer that the call was interrupted.
        "answered before its arguments": (
            [created(), added(), conversation_item(output()), delta('{"a":1}'), done()],
            ["truncated"],
        ),
        "no name": ([created(), delta("{}"), NAMELESS, done()], ["malformed"]),
        "no name and no delta": ([created(), NAMELESS, done()], ["malformed"]),
        "no name and no end": ([created(), delta("{}"), done()], ["malformed"]),
    }
)


def test_items_are_identified_by_id() -> None:
    """xAI gives each of them the output index 0."""
    a, b = {"id": "a", "call_id": "c1"}, {"id": "b", "call_id": "c2"}
    payloads = [
        *(created(), added(**a), added(**b), delta('{"x":', "a"), delta('{"y":', "b")),
        *(delta("1}", "a"), delta("2}", "b"), item_done('{"x":1}', **a)),
        *(item_done('{"y":2}', **b), done()),
    ]
    for payload in payloads:
        payload.pop("output_index", None)
    calls, _ = assemble(payloads)
    assert [(one.id, one.arguments) for one in calls] == [("c1", {"x": 1}), ("c2", {"y": 2})]


@pytest.mark.parametrize(
    ("status", "details", "stop_reason"),
    [
        ("cancelled", {"type": "cancelled", "reason": "turn_detected"}, "turn_detected"),
        ("cancelled", "unimplemented", "cancelled"),
        ("incomplete", {"type": "incomplete", "reason": "max_output_tokens"}, "max_output_tokens"),
        ("incomplete", {"type": "incomplete", "reason": "content_filter"}, "content_filter"),
    ],
)
def test_cut_response_truncates_the_open_call(status: str, details: Any, stop_reason: str) -> None:
    first, second = {"id": "a", "call_id": "c1"}, {"id": "b", "call_id": "c2"}
    cut = {**ITEM, **second, "arguments": "{}", "status": "incomplete"}
    payloads = [
        *(created(), added(**first), delta("{}", "a"), item_done("{}", **first)),
        *(added(**second), delta("{}", "b")),
        done(status=status, status_details=details, output=[cut]),
    ]
    calls, events = assemble(payloads)
    assert [one.verdict for one in calls] == ["complete", "truncated"]
    assert [turn.stop_reason for turn in turns(events)] == [stop_reason]


def test_failed_response_is_a_failure_and_truncates_its_call() -> None:
    error = {"type": "server_error", "code": "server_error", "message": "oops"}
    end = done(status="failed", status_details={"type": "failed", "error": error})
    failed = provider_failed("server_error", "oops", retryable=True)
    calls, events = assemble([created(), added(), delta("{}"), end, *numbered(2)])
    assert [one.verdict for one in calls] == ["truncated", "complete"]
    assert (failures(events), len(turns(events))) == ([failed], 1)
    # An error event about the same failure is not a second one.
    _, events = assemble([created(), {"type": "error", "error": error}, end])
    assert of_type(events, ev.StreamFailed, ev.TurnCompleted) == [failed]


@pytest.mark.parametrize(
    "payloads",
    [
        [added(), arguments_done('{"a":1}'), done()],
        [added(), item_done('{"a":1}'), done()],
        [item_done('{"a":1}'), done()],
        [done(output=[{**ITEM, "arguments": '{"a":1}', "status": "completed"}])],
        [delta('{"a":1}'), added(), item_done('{"a":1}'), done()],
        [delta('{"a":1}'), arguments_done('{"a":1}'), done(output=None)],
    ],
)
def test_text_and_name_may_come_at_the_end(payloads: list[Payload]) -> None:
    calls, events = assemble([created(), *payloads])
    assert [(one.id, one.name, one.arguments) for one in calls] == [("call_1", "write", {"a": 1})]
    assert [event.delta for event in of_type(events, ev.ToolArgsDelta)] == ['{"a":1}']


test_unreadable_payload_truncates_the_call = READER.test_unreadable(
    [created(), added(), delta("{}")],
    [
        *({**delta("{}"), "delta": None}, {**delta("{}"), "delta": ["{"]}),
        *({**delta("{}"), "item_id": 7.5}, {**added(), "item": {**ITEM, "arguments": 7}}),
        *({"type": "response.done"}, b'{"type": "response.done", "response": "?"}'),
    ],
    [item_done("{}"), done()],
)


MESSAGE = {"type": "message", "id": "m", "role": "assistant"}


@pytest.mark.parametrize(
    "name", ["output_text", "text", "output_audio_transcript", "audio_transcript"]
)
def test_text_and_transcripts_are_read_once_under_each_name(name: str) -> None:
    payloads = [
        *(created(), event("response.output_item.added", item=MESSAGE)),
        event(f"response.{name}.delta", item_id="m", content_index=0, delta="It is "),
        event("response.output_audio.delta", item_id="m", content_index=0, delta="AAAA"),
        event(f"response.{name}.delta", item_id="m", content_index=0, delta="foggy."),
        event(f"response.{name}.done", item_id="m", content_index=0, text="It is foggy."),
        *(event("response.output_item.done", item=MESSAGE), done()),
    ]
    _, events = assemble(payloads)
    assert texts(events) == ["It is ", "foggy."]
    assert turns(events)[0].message.parts == (TextPart(text="It is foggy.", item=MESSAGE),)
    message = {**MESSAGE, "content": [{"type": "output_audio", "transcript": "Hello."}]}
    whole = event(f"response.{name}.done", item_id="m", transcript="Hello.")
    ends = [event("response.output_item.done", item=message), done(output=[message])]
    assert texts(assemble([created(), whole, *ends])[1]) == ["Hello."]


def test_thoughts_and_unknown_items_are_kept() -> None:
    item = {"type": "reasoning", "id": "rs", "summary": [{"text": "Hm."}], "encrypted_content": "x"}
    listed = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "docs", "tools": []}
    payloads = [
        *(created(), event("response.output_item.added", item={"type": "reasoning", "id": "rs"})),
        event("response.reasoning_summary_text.delta", item_id="rs", delta="Hm"),
        event("response.output_item.done", item=item),
        *(event("response.output_item.done", item=listed), done(output=[item])),
    ]
    _, events = assemble(payloads)
    thinking = ["thinking_started", "thinking_delta", "thinking_delta", "thinking_completed"]
    assert types(events) == [*thinking, "turn_completed"]
    kept = (ThinkingPart(text="Hm.", item=item), OpaquePart(item=listed))
    assert turns(events)[0].message.parts == kept


def test_each_response_of_a_session_is_a_turn() -> None:
    usage: Payload = {"input_tokens": 10, "output_tokens": 5}
    usage["input_token_details"] = {"cached_tokens": 4, "audio_tokens": 1}
    usage["output_token_details"] = {"reasoning_tokens": 3}
    first = call()
    first[-1]["response"]["usage"] = usage
    session = {"type": "session.created", "session": {"id": "s", "model": "gpt-realtime"}}
    limits = {"type": "rate_limits.updated", "rate_limits": []}
    calls, events = assemble([session, *first, limits, *numbered(2), limits])
    assert [one.id for one in calls] == ["call_1", "call_2"]
    found = [(turn.message.id, turn.message.model) for turn in turns(events)]
    assert found == [("resp_1", "gpt-realtime"), ("resp_2", "gpt-realtime")]
    assert turns(events)[0].usage == ev.Usage(10, 5, cache_read_tokens=4, reasoning_tokens=3)
    # xAI sends the usage beside the response and leaves it empty inside.
    end = {**done(usage={}, status_details="unimplemented"), "usage": {"output_tokens": 9}}
    assert turns(assemble([created(), end])[1])[0].usage == ev.Usage(output_tokens=9)


def test_session_may_end_after_a_response_but_not_within_one() -> None:
    assert types(assemble(call())[1])[-1] == "turn_completed"
    for end, expected in {1: ["complete"], 2: ["complete", "truncated"]}.items():
        calls, events = assemble([*call(), *numbered(2)[:end]])
        assert [one.verdict for one in calls] == expected
        assert failures(events)[0].code == "truncated"


def test_result_of_the_client_completes_its_call_once() -> None:
    items = [conversation_item(output(), what) for what in ("added", "done")]
    _, events = assemble([conversation_item(output("of another session")), *call(), *items])
    assert api.results(events) == [ev.ToolCallCompleted("call_1", "write", {"a": 1}, "ok")]
    assert failures(assemble([*ANSWERED, item_done('{"a":1}'), done()])[1]) == []


def test_error_of_the_client_is_reported_after_the_response() -> None:
    """The session continues and the open call gets its verdict."""
    error = {"type": "invalid_request_error", "code": "unknown_id", "message": "no such event"}
    payloads = call()
    sent = {"type": "error", "event_id": "e", "error": {**error, "event_id": "mine"}}
    calls, events = assemble([*payloads[:3], sent, *payloads[3:]])
    assert [one.verdict for one in calls] == ["complete"]
    assert types(events)[-2:] == ["turn_completed", "stream_failed"]
    assert events[-1] == provider_failed("unknown_id", "no such event")
    # If the session ends there, the error is the reason why.
    expired = {"type": "error", "error": {"type": "server_error", "message": "session expired"}}
    calls, events = assemble([*payloads[:3], expired])
    assert [one.verdict for one in calls] == ["truncated"]
    assert failures(events) == [provider_failed("server_error", "session expired", retryable=True)]


def test_error_between_two_responses_is_reported_at_once() -> None:
    assembler = Assembler("openai-realtime")
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
    assert assembler.feed(error) == [provider_failed("invalid_request_error", "no")]
    flat = {"type": "error", "code": "bad", "message": "no"}
    assert assembler.feed(flat) == [provider_failed("bad", "no")]


def test_concurrent_responses_are_separate_turns() -> None:
    """A client may request a response outside of the conversation at any time."""
    first, second = numbered(1), numbered(2, '{"b":2}')
    first[0] = created(conversation_id="conv_1")
    mixed = [payload for pair in zip(first, second, strict=True) for payload in pair]
    for payloads in (mixed, [*first[:3], *second, *first[3:]]):
        calls, events = assemble(payloads)
        found = [(one.id, one.arguments) for one in calls]
        assert found == [("call_1", {"a": 1}), ("call_2", {"b": 2})]
        parts = {turn.message.id: turn.message.parts for turn in turns(events)}
        assert [part.call_id for part in parts["resp_1"]] == ["call_1"]
        assert [part.call_id for part in parts["resp_2"]] == ["call_2"]
        assert failures(events) == []
        both = of_type(events, ev.ToolCallStarted, ev.TurnCompleted)[:2]
        assert types(both) == ["tool_call_started"] * 2


def test_new_response_in_the_same_conversation_ends_the_one_before() -> None:
    first = [created(conversation_id="conv_1"), *call()[1:3]]
    second = [created("resp_2", conversation_id="conv_1"), *numbered(2)[1:3]]
    assembler = Assembler("openai-realtime")
    for payload in [*first, *second]:
        assembler.feed(payload)
    assert [one.verdict for one in assembler.calls] == ["truncated", "open"]


def test_response_without_an_id_ends_when_another_begins() -> None:
    unnamed = [event("response.output_item.added", "", output_index=0, item=ITEM)]
    assert verdicts([*unnamed, *numbered(2)]) == ["truncated", "complete"]


def test_late_and_unknown_events_and_those_of_the_user_are_ignored() -> None:
    payloads, expected = call(), types(assemble(call())[1])
    name = "conversation.item.input_audio_transcription"
    spoken = [
        {"type": f"{name}.delta", "item_id": "u", "content_index": 0, "delta": "Hi"},
        {"type": f"{name}.completed", "item_id": "u", "transcript": "Hi"},
        {"type": f"{name}.failed", "item_id": "u", "error": {"message": "inaudible"}},
    ]
    assert types(assemble([*spoken, *payloads])[1]) == expected
    late = [delta("{}"), mcp("mcp_call.completed"), added(id="x"), done()]
    assert types(assemble([*payloads, *late])[1]) == expected
    odd = [{"type": "ping", "timestamp": 1}, {"type": "response.new", "delta": {"a": 1}}, {}]
    assert types(assemble([*payloads[:3], *odd, *payloads[3:]])[1]) == expected


def test_result_completes_its_call_while_other_responses_are_open() -> None:
    result = conversation_item(output("call_2"))
    first, third = call(), numbered(3, "{}")
    payloads = [*first[:3], *third[:3], *numbered(2), result, *first[3:], *third[3:]]
    calls, events = assemble(payloads)
    assert [one.id for one in calls] == ["call_1", "call_3", "call_2"]
    assert [one.verdict for one in calls] == ["complete"] * 3
    turn, done, *_ = of_type(events, ev.ToolCallCompleted, ev.TurnCompleted)
    assert (turn.message.id, done.call_id) == ("resp_2", "call_2")


def mcp(type_: str, **fields: Any) -> Payload:
    return {"type": f"response.{type_}", "event_id": "e", "item_id": "mcp_1", **fields}


MCP_ITEM: Payload = {"type": "mcp_call", "id": "mcp_1", "name": "ask", "server_label": "s"}
MCP_WHOLE = {**MCP_ITEM, "arguments": '{"q":1}'}
MCP_WRITTEN: list[Payload] = [
    *(created(), event("response.output_item.added", item={**MCP_ITEM, "arguments": ""})),
    mcp("mcp_call_arguments.delta", response_id="resp_1", delta='{"q":'),
    mcp("mcp_call_arguments.delta", response_id="resp_1", delta="1}"),
    mcp("mcp_call_arguments.done", response_id="resp_1", arguments='{"q":1}'),
    mcp("mcp_call.in_progress"),
]


@pytest.mark.parametrize(
    ("end", "fields", "expected"),
    [
        ("completed", {"output": "found"}, ev.ToolCallCompleted("mcp_1", "ask", {"q": 1}, "found")),
        ("failed", {"error": {"code": 500}}, ev.ToolCallFailed("mcp_1", "ask", {"code": 500})),
        ("failed", {"error": None}, ev.ToolCallFailed("mcp_1", "ask", "failed")),
    ],
)
def test_mcp_call_ends_with_its_result(end: str, fields: Payload, expected: Any) -> None:
    item = event("response.output_item.done", item={**MCP_WHOLE, "error": None, **fields})
    calls, events = assemble([*MCP_WRITTEN, mcp(f"mcp_call.{end}"), item, done()])
    assert (calls[0].kind, calls[0].name, calls[0].verdict) == ("mcp", "ask", "complete")
    assert api.results(events) == [expected]


def test_result_may_come_after_the_response() -> None:
    whole = {**MCP_WHOLE, "output": "found"}
    item = event("response.output_item.done", item=whole)
    for late in (item, conversation_item(whole, "done")):
        _, events = assemble([*MCP_WRITTEN, done(), late])
        assert types(events)[-2:] == ["turn_completed", "tool_call_completed"]


@contextmanager
def realtime_server(payloads: list[Payload], code: int = 1000) -> Iterator[str]:
    """Serve the payloads to each connection and close it."""

    def send(connection: ServerConnection) -> None:
        for payload in payloads:
            connection.send(json.dumps(payload))
        connection.close(code)

    with serve(send, "127.0.0.1", 0) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


async def test_connection_of_the_async_client_is_a_source() -> None:
    from openai import AsyncOpenAI

    with realtime_server(call()) as url:
        client = AsyncOpenAI(api_key="x", websocket_base_url=url)
        async with client.realtime.connect(model="gpt-realtime") as connection:
            events = stream(connection, protocol="openai-realtime")
            found = [event.type async for event in events]
    assert found == types(assemble(call())[1])
    assert [one.arguments for one in events.calls] == [{"a": 1}]


# The synchronous client of the SDK uses websockets in a deprecated way.
@pytest.mark.filterwarnings("ignore:connect.. must be used:DeprecationWarning")
def test_broken_connection_truncates_the_call_and_raises() -> None:
    from openai import OpenAI

    with realtime_server(call("{}")[:3], code=1011) as url:
        client = OpenAI(api_key="x", websocket_base_url=url)
        with client.realtime.connect(model="gpt-realtime") as connection:
            events = stream(connection, protocol="openai-realtime")
            with pytest.raises(ConnectionClosedError):
                list(events)
    assert [one.verdict for one in events.calls] == ["truncated"]
