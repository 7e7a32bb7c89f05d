"""Anthropic Messages: the rules and details of wire.md, where no recording shows them alone."""

from typing import Any

import pytest

from argstream.events import (
    StreamFailed,
    TextDelta,
    ToolCallCompleted,
    ToolCallFailed,
    TurnCompleted,
    Usage,
)
from argstream.history import OpaquePart, ResultPart, TextPart, ThinkingPart
from tests.provider_streams import (
    HM_AND_SO,
    anthropic_call,
    assemble,
    block_delta,
    block_start,
    block_stop,
    call_part,
    completed,
    input_json,
    message_end,
    message_start,
    of_type,
    only_call,
    tool_use,
    types,
)


def turn(*payloads: Any, stop_reason: str = "end_turn") -> list[Any]:
    return [message_start(), *payloads, *message_end(stop_reason)]


@pytest.mark.parametrize(
    ("type_", "kind"),
    [("tool_use", "function"), ("server_tool_use", "server"), ("mcp_tool_use", "mcp")],
)
def test_calls_are_told_apart_by_kind(type_: str, kind: str) -> None:
    call = only_call(
        turn(
            block_start(0, type_, id="x", name="tool", input={}),
            input_json(0, '{"a":1}'),
            block_stop(0),
        )
    )
    assert (call.kind, call.arguments) == (kind, {"a": 1})


def test_the_input_of_a_block_start_is_a_placeholder_if_deltas_follow() -> None:
    call = only_call(turn(tool_use(0, input={"a": 0}), input_json(0, '{"b":1}'), block_stop(0)))
    assert call.arguments == {"b": 1}
    call = only_call(turn(tool_use(0, input={"a": 0}), input_json(0, ""), block_stop(0)))
    assert (call.arguments, call.raw) == ({"a": 0}, '{"a":0}')


def test_calls_may_sit_whole_inside_message_start() -> None:
    block = {"type": "tool_use", "id": "x", "name": "tool", "input": {}}
    payloads = [message_start(content=[block], stop_reason="tool_use"), {"type": "message_stop"}]
    calls, events = assemble(payloads)
    assert [call.arguments for call in calls] == [{}]
    assert types(events)[-1] == "turn_completed"


def test_a_whole_response_is_read_like_a_stream() -> None:
    """Somebody asked without streaming."""
    call = {"type": "tool_use", "id": "x", "name": "tool", "input": {"a": 1}}
    message = {
        "type": "message",
        "id": "msg",
        "model": "claude",
        "content": [{"type": "text", "text": "hello"}, call],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    calls, events = assemble([message])
    assert [call.arguments for call in calls] == [{"a": 1}]
    assert events[0] == TextDelta("hello", 0)
    assert types(events)[-1] == "turn_completed"


def test_no_text_means_no_arguments_or_cut_off_depending_on_the_stop_reason() -> None:
    for reason in ("tool_use", "end_turn", "stop_sequence", "pause_turn"):
        assert only_call(anthropic_call("", stop_reason=reason)).arguments == {}, reason
    for reason in ("max_tokens", "model_context_window_exceeded", "refusal", "something_new"):
        call = only_call(anthropic_call("", stop_reason=reason))
        assert (call.verdict, call.arguments) == ("truncated", {"INVALID_JSON": ""}), reason


@pytest.mark.parametrize(
    ("stop_reason", "verdict"),
    [("tool_use", "complete"), ("something_new", "complete"), ("max_tokens", "truncated")],
)
def test_a_stop_reason_closes_a_block_that_was_not_stopped(stop_reason: str, verdict: str) -> None:
    payloads = turn(tool_use(0), input_json(0, '{"a":1}'), stop_reason=stop_reason)
    assert only_call(payloads).verdict == verdict


def test_a_block_that_was_stopped_is_complete_whatever_comes_after() -> None:
    assert only_call(anthropic_call('{"a":1}', stop_reason="refusal")).verdict == "complete"


def test_text_and_thinking_are_events_of_their_own() -> None:
    _, events = assemble(
        turn(
            block_start(0, "thinking", thinking="", signature=""),
            block_delta(0, "thinking_delta", thinking="hm"),
            block_delta(0, "signature_delta", signature="c2ln"),
            block_stop(0),
            block_start(1, "text", text=""),
            block_delta(1, "text_delta", text="so"),
            block_stop(1),
        )
    )
    assert events[:4] == HM_AND_SO


def test_what_must_go_back_is_kept_whole() -> None:
    citation = {"type": "web_search_result_location", "encrypted_index": "abc"}
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u"}]}
    event = completed(
        turn(
            block_start(0, "thinking", thinking="", signature=""),
            block_delta(0, "thinking_delta", thinking="hm"),
            block_delta(0, "signature_delta", signature="c2"),
            block_delta(0, "signature_delta", signature="ln"),
            block_stop(0),
            block_start(1, "redacted_thinking", data="xyz"),
            block_stop(1),
            block_start(2, "server_tool_use", id="s1", name="web_search", input={}),
            input_json(2, '{"q":1}'),
            block_stop(2),
            block_start(3, "web_search_tool_result", tool_use_id="s1", content=[{"url": "u"}]),
            block_stop(3),
            block_start(4, "text", text="", citations=[]),
            block_delta(4, "text_delta", text="fact"),
            block_delta(4, "citations_delta", citation=citation),
            block_stop(4),
            block_start(5, "compaction", content=""),
            block_delta(5, "compaction_delta", content="summary"),
            block_stop(5),
            tool_use(6, caller={"type": "code_execution"}),
            input_json(6, "{}"),
            block_stop(6),
        )
    )
    assert event.message.parts == (
        ThinkingPart(text="hm", item={"type": "thinking", "thinking": "hm", "signature": "c2ln"}),
        ThinkingPart(text="", item={"type": "redacted_thinking", "data": "xyz"}),
        call_part("s1", "web_search", {"q": 1}, '{"q":1}', kind="server"),
        ResultPart(call_id="s1", result=[{"url": "u"}], item=result),
        TextPart(text="fact", item={"type": "text", "text": "fact", "citations": [citation]}),
        OpaquePart(item={"type": "compaction", "content": "summary"}),
        call_part(
            "toolu_1",
            "write",
            {},
            "{}",
            item={
                "type": "tool_use",
                "id": "toolu_1",
                "name": "write",
                "input": {},
                "caller": {"type": "code_execution"},
            },
        ),
    )
    assert (event.message.id, event.message.model) == ("msg_1", "claude")


def test_the_container_that_the_next_request_must_name_is_kept() -> None:
    end = message_end()
    end[0]["delta"]["container"] = {"id": "container_1"}
    event = completed([message_start(), *end])
    assert event.message.parts == (OpaquePart(item={"container": {"id": "container_1"}}),)


@pytest.mark.parametrize(
    ("content", "failed"),
    [
        ([{"type": "web_search_result"}], False),
        ({"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}, True),
    ],
)
def test_the_result_of_a_call_that_the_provider_ran_completes_it(
    content: Any, failed: bool
) -> None:
    payloads = turn(
        block_start(0, "server_tool_use", id="s1", name="web_search", input={}),
        block_stop(0),
        block_start(1, "web_search_tool_result", tool_use_id="s1", content=content),
        block_stop(1),
    )
    _, events = assemble(payloads)
    done = (
        ToolCallFailed("s1", "web_search", content)
        if failed
        else ToolCallCompleted("s1", "web_search", {}, content)
    )
    assert types(events)[:2] == ["tool_call_started", "tool_args_completed"]
    assert events[2] == done


def test_an_error_in_the_middle_ends_every_open_call() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    calls, events = assemble([message_start(), tool_use(0), input_json(0, '{"a":1}'), error])
    assert calls[0].verdict == "truncated"
    assert events[-1] == StreamFailed("overloaded_error", "Overloaded", retryable=True)
    assert types(events)[-2:] == ["tool_args_invalid", "stream_failed"]
    error = {"type": "error", "error": {"type": "authentication_error", "message": "no key"}}
    assert assemble([error])[1] == [StreamFailed("authentication_error", "no key")]


def test_unknown_events_blocks_and_deltas_are_ignored() -> None:
    payloads = turn(
        {"type": "ping"},
        {"type": "brand_new", "index": "?", "delta": 3},
        block_start(0, "brand_new_block", text=1),
        block_delta(0, "brand_new_delta", thing=[1]),
        block_stop(0),
        block_stop(9),
        tool_use(1),
        input_json(1, "{}"),
        block_stop(1),
    )
    assert only_call(payloads).verdict == "complete"


def test_usage_counts_what_came_from_a_cache() -> None:
    usage = {
        "input_tokens": 7,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 10,
        "output_tokens": 1,
    }
    event = completed([message_start(usage=usage), *message_end()])
    assert event.usage == Usage(
        input_tokens=117, output_tokens=5, cache_read_tokens=100, cache_write_tokens=10
    )
    assert event.stop_reason == "tool_use"


def test_interleaved_calls_are_kept_apart() -> None:
    payloads = turn(
        tool_use(0, "first", "a"),
        tool_use(1, "second", "b"),
        input_json(1, '{"b"'),
        input_json(0, '{"a"'),
        input_json(1, ":2}"),
        block_stop(1),
        input_json(0, ":1}"),
        block_stop(0),
    )
    calls, _ = assemble(payloads)
    assert [(call.name, call.arguments) for call in calls] == [
        ("first", {"a": 1}),
        ("second", {"b": 2}),
    ]


def test_a_message_that_begins_before_the_last_has_ended_cuts_its_calls() -> None:
    payloads = [
        message_start(),
        tool_use(0, id_="a"),
        input_json(0, '{"a":1}'),
        *anthropic_call("{}"),
    ]
    calls, events = assemble(payloads)
    assert [call.verdict for call in calls] == ["truncated", "complete"]
    assert types(of_type(events, StreamFailed, TurnCompleted)) == [
        "stream_failed",
        "turn_completed",
    ]


def test_a_delta_without_a_block_start_is_not_lost() -> None:
    call = only_call(turn(input_json(0, '{"a":1}'), block_stop(0)))
    assert (call.name, call.verdict, call.raw) == ("", "malformed", '{"a":1}')


def test_a_message_without_an_end_is_ended_by_the_next_one() -> None:
    """A stop reason, but no message_stop: the turn is complete all the same."""
    first = anthropic_call("{}")[:-1]
    calls, events = assemble([*first, *anthropic_call("{}")])
    assert [call.verdict for call in calls] == ["complete", "complete"]
    assert len(of_type(events, TurnCompleted)) == 2


def test_a_message_that_stops_without_a_reason_closes_what_is_whole() -> None:
    for text, verdict in (('{"a":1}', "complete"), ('{"a', "truncated"), ("", "truncated")):
        payloads = [message_start(), tool_use(0), input_json(0, text), {"type": "message_stop"}]
        assert only_call(payloads).verdict == verdict


def test_a_stream_that_is_joined_in_the_middle_is_read_from_there() -> None:
    payloads = [block_delta(3, "text_delta", text="so"), tool_use(4), input_json(4, "{}")]
    calls, events = assemble([*payloads, block_stop(4), *message_end()])
    assert events[0] == TextDelta("so", 0)
    assert calls[0].verdict == "complete"


def test_a_block_that_is_started_twice_is_one() -> None:
    turn = anthropic_call('{"a": 1}')
    assert only_call([*turn[:2], *turn[1:]]).arguments == {"a": 1}
