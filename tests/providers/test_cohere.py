"""Cohere's chat API, version 2: rules that no recording shows alone."""

import json
from importlib import import_module
from typing import Any

from argstream import stream
from argstream.events import ThinkingCompleted, ThinkingDelta, ThinkingStarted, Usage
from argstream.history import OpaquePart, Part, TextPart, ThinkingPart
from tests.provider_streams import Payload, call_part, provider_failed, sse, texts, types
from tests.providers.tables import Tables, cases

READER = Tables("cohere")
assemble, only_call, completed = READER.assemble, READER.only_call, READER.completed

START: Payload = {"type": "message-start", "id": "msg_1", "delta": {"message": {"content": []}}}
USAGE: Payload = {
    "billed_units": {"input_tokens": 2, "output_tokens": 1},
    "tokens": {"input_tokens": 70, "output_tokens": 5},
    "cached_tokens": 30,
}


def event(type_: str, index: int | None = 0, **message: Any) -> Payload:
    fields: Payload = {"type": type_, "index": index, "delta": {"message": message}}
    return {name: value for name, value in fields.items() if value is not None}


def tool_call(id_: str, arguments: Any) -> Payload:
    return {"id": id_, "type": "function", "function": {"name": "write", "arguments": arguments}}


def call_start(index: int = 0, id_: str = "write_1", arguments: Any = "") -> Payload:
    return event("tool-call-start", index, tool_calls=tool_call(id_, arguments))


def arguments(index: int, text: Any) -> Payload:
    return event("tool-call-delta", index, tool_calls={"function": {"arguments": text}})


def call_end(index: int = 0) -> Payload:
    return {"type": "tool-call-end", "index": index}


def plan(text: str) -> Payload:
    return event("tool-plan-delta", None, tool_plan=text)


def content(kind: str, index: int, type_: str | None = None, **fields: str) -> Payload:
    given = {"type": type_, **fields} if type_ else fields
    return event(f"content-{kind}", index, content=given)


def message_end(reason: str = "TOOL_CALL", **fields: Any) -> Payload:
    return {"type": "message-end", "delta": {"finish_reason": reason, "usage": USAGE, **fields}}


def turn(*payloads: Any, reason: str = "TOOL_CALL") -> list[Any]:
    return [START, *payloads, message_end(reason)]


def one_call(*pieces: str, reason: str = "TOOL_CALL") -> list[Payload]:
    return turn(call_start(), *(arguments(0, piece) for piece in pieces), call_end(), reason=reason)


def empty(reason: str) -> list[Payload]:
    return one_call("", reason=reason)


def not_ended(reason: str) -> list[Payload]:
    return turn(call_start(), arguments(0, "{}"), reason=reason)


OPEN_CALL = [START, call_start(), arguments(0, "{}")]
DEBUG: Payload = {"type": "debug", "prompt": "…", "index": "x", "delta": 3}
DUPLICATE = json.dumps(arguments(0, {"a": 1})).replace('{"a": 1}', '{"a": 1, "a": 2}')
TEXT = [content("start", 0, "text", text=""), content("delta", 0, text="so")]
TEXT_END: Payload = {"type": "content-end", "index": 0}
TWO_CALLS = [tool_call("a", '{"a":1}'), tool_call("b", "")]

test_outcomes = READER.test_outcomes(
    {
        "start has text": (turn(call_start(arguments='{"a":'), arguments(0, "1}")), [{"a": 1}]),
        "start has an object": (
            turn(DEBUG, call_start(arguments={"a": 1}), call_end()),
            [{"a": 1}],
        ),
        "duplicate key": (turn(call_start(), DUPLICATE, call_end()), ["truncated"]),
        **cases("no text and", empty, {}, ["TOOL_CALL", "COMPLETE", "STOP_SEQUENCE"]),
        **cases("no text and", empty, "truncated", ["MAX_TOKENS", "ERROR", "TIMEOUT", "NEW"]),
        **cases("call has no end and", not_ended, {}, ["TOOL_CALL"]),
        **cases("call has no end and", not_ended, "truncated", ["MAX_TOKENS"]),
    }
)


def test_body_of_server_sent_events_may_end_with_done() -> None:
    events = stream([sse(one_call('{"a":1}'), done=True)], protocol="cohere")
    assert types(events)[-1] == "turn_completed"
    assert events.calls[0].arguments == {"a": 1}


def test_calls_and_content_have_separate_indexes() -> None:
    started = [call_start(0, "a"), call_start(1, "b")]
    pieces = [arguments(1, '{"b":2}'), arguments(0, '{"a":1}'), call_end(1), call_end(0)]
    calls, events = assemble(turn(*TEXT, TEXT_END, *started, *pieces))
    assert texts(events) == ["so"]
    assert [(call.id, call.arguments) for call in calls] == [("a", {"a": 1}), ("b", {"b": 2})]


def test_plan_is_thinking_that_ends_where_a_call_starts() -> None:
    _, events = assemble(turn(plan("I will"), plan(" write"), call_start(), call_end()))
    thinking = [ThinkingStarted(0), ThinkingDelta("I will", 0), ThinkingDelta(" write", 0)]
    assert events[:4] == [*thinking, ThinkingCompleted("I will write", 0)]
    assert types(events)[4] == "tool_call_started"


CITATION = {"start": 0, "end": 2, "text": "so", "sources": [{"type": "tool", "id": "x"}]}
THOUGHT = {"type": "thinking", "thinking": "hm"}
PARTS: list[Part] = [
    *(ThinkingPart(text="hm", item=THOUGHT), TextPart(text="so")),
    ThinkingPart(text="I will", item={"tool_plan": "I will"}),
    call_part("write_1", "write", {}, "{}"),
    OpaquePart(item={"citations": [CITATION]}),
]


def test_parts_keep_the_form_of_cohere() -> None:
    payloads = turn(
        content("start", 0, "thinking", thinking="h"),
        *(content("delta", 0, thinking="m"), TEXT_END, content("delta", 1, text="so")),
        event("citation-start", 0, citations=CITATION),
        *({"type": "citation-end", "index": 0}, plan("I will")),
        *(call_start(arguments="{}"), call_end()),
    )
    assert READER.parts(payloads) == PARTS


def test_usage_is_read_tokens_and_billed_ones_if_no_others_are_known() -> None:
    assert completed(one_call("{}")).usage == Usage(70, 5, cache_read_tokens=30)
    end = message_end(usage={"billed_units": {"input_tokens": 2.0}})
    assert completed([START, end]).usage == Usage(input_tokens=2)


TIMEOUT = provider_failed("TIMEOUT", "the provider took too long", retryable=True)

test_failure_truncates_the_call = READER.test_failures(
    OPEN_CALL,
    [
        (message_end("ERROR", error="oh no"), provider_failed("ERROR", "oh no", retryable=True)),
        (message_end("TIMEOUT"), TIMEOUT),
        ({"message": "no such key"}, provider_failed("error", "no such key")),
        ({"type": "error", "delta": {"error": "bad"}}, provider_failed("error", "bad")),
    ],
)

test_unreadable_payload_truncates_the_call = READER.test_unreadable(
    OPEN_CALL,
    [
        {"type": "tool-call-delta", "delta": {"message": {}}},
        {"type": "tool-call-delta", "index": [], "delta": {"message": {}}},
        {"type": "tool-call-delta", "index": 0, "delta": 1},
        event("tool-call-delta", 0, tool_calls="x"),
        event("tool-call-delta", 0, tool_calls=[{}, {}]),
        *(arguments(0, 1), {"type": "tool-call-end"}, b"[]", b"{"),
    ],
    [call_end(), message_end()],
)


def test_objects_of_the_sdk_give_the_same_events() -> None:
    """The client constructs its models from the lines without validation."""
    construct = import_module("cohere.core.unchecked_base_model").construct_type
    response_type = import_module("cohere.v2.types.v2chat_stream_response").V2ChatStreamResponse
    pieces = [call_start(), arguments(0, '{"a":'), arguments(0, "1}"), call_end()]
    payloads = turn(plan("I will"), *TEXT, TEXT_END, *pieces)
    objects = [construct(type_=response_type, object_=payload) for payload in payloads]
    assert type(objects[0]).__name__ == "MessageStartV2ChatStreamResponse"
    assert assemble(objects)[1] == assemble(payloads)[1]
