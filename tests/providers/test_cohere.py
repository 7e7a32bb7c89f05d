"""Cohere's chat, version 2: the rules and details of wire.md, where no recording shows them."""

import json
from importlib import import_module
from typing import Any

import pytest

from argstream import stream
from argstream.events import (
    StreamFailed,
    TextDelta,
    ThinkingCompleted,
    ThinkingDelta,
    ThinkingStarted,
    TurnCompleted,
    Usage,
)
from argstream.history import CallPart, OpaquePart, TextPart, ThinkingPart
from tests.provider_streams import (
    ONE_ARGUMENT_IN_TWO_PIECES,
    Payload,
    Reader,
    call_part,
    of_type,
    sse,
    types,
)

READER = Reader("cohere")
assemble, only_call, completed = READER.assemble, READER.only_call, READER.completed

START: Payload = {"type": "message-start", "id": "msg_1", "delta": {"message": {"content": []}}}
USAGE: Payload = {
    "billed_units": {"input_tokens": 2, "output_tokens": 1},
    "tokens": {"input_tokens": 70, "output_tokens": 5},
    "cached_tokens": 30,
}


def said(type_: str, index: int | None = 0, **message: Any) -> Payload:
    event: Payload = {"type": type_, "index": index, "delta": {"message": message}}
    return {name: value for name, value in event.items() if value is not None}


def call_start(index: int = 0, id_: str = "write_1", arguments: Any = "") -> Payload:
    function = {"name": "write", "arguments": arguments}
    call = {"id": id_, "type": "function", "function": function}
    return said("tool-call-start", index, tool_calls=call)


def arguments(index: int, text: Any) -> Payload:
    return said("tool-call-delta", index, tool_calls={"function": {"arguments": text}})


def call_end(index: int = 0) -> Payload:
    return {"type": "tool-call-end", "index": index}


def plan(text: str) -> Payload:
    return said("tool-plan-delta", None, tool_plan=text)


def content(kind: str, index: int, type_: str | None = None, **fields: str) -> Payload:
    given = {"type": type_, **fields} if type_ else fields
    return said(f"content-{kind}", index, content=given)


def message_end(reason: str = "TOOL_CALL", **fields: Any) -> Payload:
    return {"type": "message-end", "delta": {"finish_reason": reason, "usage": USAGE, **fields}}


def turn(*payloads: Payload, reason: str = "TOOL_CALL") -> list[Payload]:
    return [START, *payloads, message_end(reason)]


def one_call(*pieces: str, reason: str = "TOOL_CALL") -> list[Payload]:
    return turn(call_start(), *(arguments(0, piece) for piece in pieces), call_end(), reason=reason)


def test_a_call_is_known_at_once_and_its_arguments_grow() -> None:
    calls, events = assemble(one_call('{"path": "/t', 'mp"}'))
    assert types(events) == [*ONE_ARGUMENT_IN_TWO_PIECES, "turn_completed"]
    assert (calls[0].id, calls[0].arguments) == ("write_1", {"path": "/tmp"})


def test_arguments_may_begin_in_the_start_and_be_an_object() -> None:
    begun = turn(call_start(arguments='{"a":'), arguments(0, "1}"), call_end())
    assert only_call(begun).raw == '{"a":1}'
    debug: Payload = {"type": "debug", "prompt": "…", "index": "x", "delta": 3}  # is ignored
    assert only_call(turn(debug, call_start(arguments={"a": 1}), call_end())).arguments == {"a": 1}


def test_an_object_with_a_key_given_twice_is_not_guessed_at() -> None:
    twice = json.dumps(arguments(0, {"a": 1})).replace('{"a": 1}', '{"a": 1, "a": 2}')
    assert only_call([START, call_start(), twice, call_end(), message_end()]).verdict == "truncated"


def test_a_body_of_server_sent_events_with_a_mark_at_its_end_is_read() -> None:
    events = stream([sse(one_call('{"a":1}'), done=True)], protocol="cohere")
    assert types(events)[-1] == "turn_completed"
    assert events.calls[0].arguments == {"a": 1}


def test_no_text_means_no_arguments_or_cut_off_depending_on_the_finish_reason() -> None:
    for reason in ("TOOL_CALL", "COMPLETE", "STOP_SEQUENCE"):
        assert only_call(one_call("", reason=reason)).arguments == {}, reason
    for reason in ("MAX_TOKENS", "ERROR", "TIMEOUT", "SOMETHING_NEW"):
        assert only_call(one_call("", reason=reason)).verdict == "truncated", reason


@pytest.mark.parametrize(
    ("reason", "verdict"), [("TOOL_CALL", "complete"), ("MAX_TOKENS", "truncated")]
)
def test_a_call_that_was_not_ended_is_closed_by_the_finish_reason_alone(
    reason: str, verdict: str
) -> None:
    assert only_call(turn(call_start(), arguments(0, "{}"), reason=reason)).verdict == verdict


def test_calls_and_content_are_counted_apart() -> None:
    calls, events = assemble(
        turn(
            content("start", 0, "text", text=""),
            content("delta", 0, text="so"),
            {"type": "content-end", "index": 0},
            call_start(0, "a"),
            call_start(1, "b"),
            arguments(1, '{"b":2}'),
            arguments(0, '{"a":1}'),
            call_end(1),
            call_end(0),
        )
    )
    assert events[0] == TextDelta("so", 0)
    assert [(call.id, call.arguments) for call in calls] == [("a", {"a": 1}), ("b", {"b": 2})]


def test_a_plan_is_thinking_that_ends_where_something_else_begins() -> None:
    _, events = assemble(turn(plan("I will"), plan(" write"), call_start(), call_end()))
    assert events[:5] == [
        ThinkingStarted(0),
        ThinkingDelta("I will", 0),
        ThinkingDelta(" write", 0),
        ThinkingCompleted("I will write", 0),
        events[4],
    ]
    assert types(events)[4] == "tool_call_started"


def test_what_goes_back_is_kept_in_cohere_s_own_form() -> None:
    citation = {"start": 0, "end": 2, "text": "so", "sources": [{"type": "tool", "id": "x"}]}
    event = completed(
        turn(
            content("start", 0, "thinking", thinking="h"),
            content("delta", 0, thinking="m"),
            {"type": "content-end", "index": 0},
            content("delta", 1, text="so"),
            said("citation-start", 0, citations=citation),
            {"type": "citation-end", "index": 0},
            plan("I will write"),
            call_start(arguments="{}"),
            call_end(),
        )
    )
    assert event.message.id == "msg_1"
    assert event.message.parts == (
        ThinkingPart(text="hm", item={"type": "thinking", "thinking": "hm"}),
        TextPart(text="so"),
        ThinkingPart(text="I will write", item={"tool_plan": "I will write"}),
        call_part("write_1", "write", {}, "{}"),
        OpaquePart(item={"citations": [citation]}),
    )


def test_usage_is_what_was_read_and_not_what_is_billed() -> None:
    assert completed(one_call("{}")).usage == Usage(
        input_tokens=70, output_tokens=5, cache_read_tokens=30
    )
    end = message_end(usage={"billed_units": {"input_tokens": 2.0}})
    assert completed([START, end]).usage == Usage(input_tokens=2)  # all that is known


@pytest.mark.parametrize(
    ("end", "failed"),
    [
        (message_end("ERROR", error="oh no"), StreamFailed("ERROR", "oh no", retryable=True)),
        (
            message_end("TIMEOUT"),
            StreamFailed("TIMEOUT", "the provider took too long", retryable=True),
        ),
        ({"message": "no such key"}, StreamFailed("error", "no such key")),
        ({"type": "error", "delta": {"error": "bad"}}, StreamFailed("error", "bad")),
    ],
)
def test_a_failure_cuts_the_open_call(end: Payload, failed: StreamFailed) -> None:
    calls, events = assemble([START, call_start(), arguments(0, "{}"), end])
    assert calls[0].verdict == "truncated"
    assert events[-1] == failed


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "tool-call-delta", "delta": {"message": {}}},
        {"type": "tool-call-delta", "index": [], "delta": {"message": {}}},
        {"type": "tool-call-delta", "index": 0, "delta": 1},
        said("tool-call-delta", 0, tool_calls="x"),
        said("tool-call-delta", 0, tool_calls=[{}, {}]),
        arguments(0, 1),
        {"type": "tool-call-end"},
        b"[]",
        b"{",
    ],
)
def test_what_cannot_be_read_cuts_the_open_call(payload: Any) -> None:
    payloads = [START, call_start(), arguments(0, "{}"), payload, call_end(), message_end()]
    calls, events = assemble(payloads)
    assert calls[0].verdict == "truncated"
    assert of_type(events, StreamFailed)[0].code == "bad_payload"


def response(reason: str = "TOOL_CALL", **message: Any) -> Payload:
    return {
        "id": "msg_1",
        "finish_reason": reason,
        "message": {"role": "assistant", **message},
        "usage": USAGE,
    }


def tool_call(id_: str, text: str) -> Payload:
    return {"id": id_, "type": "function", "function": {"name": "write", "arguments": text}}


def test_a_whole_response_is_read_like_a_stream() -> None:
    thought = {"type": "thinking", "thinking": "hm"}
    calls, events = assemble(
        [
            response(
                tool_plan="I will",
                content=[thought, {"type": "text", "text": "so"}],
                tool_calls=[tool_call("a", '{"a":1}'), tool_call("b", "")],
                citations=[{"text": "so"}],
            )
        ]
    )
    assert [(call.id, call.arguments) for call in calls] == [("a", {"a": 1}), ("b", {})]
    ended = events[-1]
    assert isinstance(ended, TurnCompleted)
    assert ended.usage.output_tokens == 5
    assert [type(part) for part in ended.message.parts] == [
        ThinkingPart,
        ThinkingPart,
        TextPart,
        CallPart,
        CallPart,
        OpaquePart,
    ]


def test_the_last_call_of_a_response_that_was_cut_is_truncated() -> None:
    whole = [tool_call("a", "{}"), tool_call("b", "{}")]
    calls, _ = assemble([response("MAX_TOKENS", tool_calls=whole)])
    assert [call.verdict for call in calls] == ["complete", "truncated"]


def test_objects_of_the_sdk_say_the_same() -> None:
    """As the client makes them: of lines whose types are looked up, and nothing is checked."""
    utilities = import_module("cohere.core.unchecked_base_model")
    types_ = import_module("cohere.v2.types.v2chat_stream_response")
    payloads = turn(
        plan("I will"),
        content("start", 0, "text", text=""),
        content("delta", 0, text="so"),
        {"type": "content-end", "index": 0},
        call_start(),
        arguments(0, '{"a":'),
        arguments(0, "1}"),
        call_end(),
    )
    objects = [
        utilities.construct_type(type_=types_.V2ChatStreamResponse, object_=payload)
        for payload in payloads
    ]
    assert type(objects[0]).__name__ == "MessageStartV2ChatStreamResponse"
    assert assemble(objects)[1] == assemble(payloads)[1]
