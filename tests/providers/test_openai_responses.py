"""OpenAI Responses: the rules and details of wire.md, where no recording shows them alone."""

from typing import Any

import pytest

from argstream.events import StreamFailed, ToolArgsDelta, ToolCallCompleted, TurnCompleted, Usage
from argstream.history import OpaquePart, TextPart, ThinkingPart
from tests.provider_streams import (
    FUNCTION_CALL,
    ONE_ARGUMENT_IN_TWO_PIECES,
    arguments_delta,
    arguments_done,
    assemble,
    call_part,
    item_added,
    item_done,
    of_type,
    only_call,
    response_created,
    response_ended,
    responses_call,
    types,
)


def turn(*payloads: Any, **ending: Any) -> list[Any]:
    return [response_created(), *payloads, response_ended(**ending)]


def test_a_call_is_known_at_once_and_its_arguments_grow() -> None:
    calls, events = assemble(responses_call('{"path": "/t', 'mp"}'))
    assert types(events) == [*ONE_ARGUMENT_IN_TWO_PIECES, "turn_completed"]
    assert (calls[0].id, calls[0].arguments) == ("call_1", {"path": "/tmp"})


def test_without_deltas_the_text_at_the_end_is_the_text() -> None:
    call = {**FUNCTION_CALL, "arguments": '{"a":1}'}
    for payloads in (
        turn(item_added(0, **FUNCTION_CALL), arguments_done(0, '{"a":1}')),
        turn(item_added(0, **FUNCTION_CALL), item_done(0, **call)),
        turn(item_done(0, **call)),
        turn(output=[call]),
    ):
        calls, events = assemble(payloads)
        assert calls[0].arguments == {"a": 1}
        assert [event.delta for event in of_type(events, ToolArgsDelta)] == ['{"a":1}']


@pytest.mark.parametrize(
    ("delta", "done", "arguments", "raw", "reading"),
    [
        ('{"a"', '{"a":1}', {"a": 1}, '{"a":1}', None),  # deltas stopped early
        ('{"a":1} ', '{"a":1}', {"a": 1}, '{"a":1} ', None),
        ('{"a":1}', '{"a":2}', {"a": 2}, '{"a":1}', "restated"),  # the provider's last word
        ('{"a":"x"', '{"a": "x"}', {"a": "x"}, '{"a":"x"', "restated"),
    ],
)
def test_the_text_at_the_end_is_compared_with_the_deltas(
    delta: str, done: str, arguments: Any, raw: str, reading: str | None
) -> None:
    begun = [item_added(0, **FUNCTION_CALL), arguments_delta(0, delta)]
    call = only_call(turn(*begun, arguments_done(0, done)))
    assert (call.arguments, call.raw, call.reinterpreted) == (arguments, raw, reading)
    cut = {**FUNCTION_CALL, "arguments": done, "status": "incomplete"}
    assert only_call(turn(*begun, item_done(0, **cut))).verdict == "truncated"


@pytest.mark.parametrize(
    ("status", "verdict"),
    [("completed", "complete"), ("incomplete", "truncated"), ("cancelled", "truncated")],
)
def test_no_text_means_no_arguments_or_cut_off_depending_on_the_status(
    status: str, verdict: str
) -> None:
    payloads = turn(item_added(0, **FUNCTION_CALL), arguments_done(0, ""), status=status)
    payloads[-1]["type"] = "response.completed"
    assert only_call(payloads).verdict == verdict


def test_an_incomplete_response_cuts_its_last_call() -> None:
    ended = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    calls, events = assemble(
        turn(item_added(0, **FUNCTION_CALL), arguments_delta(0, '{"a":1}'), **ended)
    )
    assert calls[0].verdict == "truncated"
    (event,) = of_type(events, TurnCompleted)
    assert event.stop_reason == "max_output_tokens"


def test_custom_tools_are_free_text() -> None:
    item = {"type": "custom_tool_call", "id": "ct", "call_id": "c1", "name": "sql", "input": ""}
    payloads = turn(
        item_added(0, **item),
        {"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": "sel"},
        {"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": "ect"},
        {"type": "response.custom_tool_call_input.done", "output_index": 0, "input": "select"},
    )
    call = only_call(payloads)
    assert (call.kind, call.arguments, call.id) == ("custom", "select", "c1")
    cut = only_call(payloads[:3])
    assert (cut.verdict, cut.arguments) == ("truncated", "sel")


def test_code_is_free_text_and_its_outputs_are_its_result() -> None:
    item = {"type": "code_interpreter_call", "id": "ci", "code": "", "outputs": []}
    outputs = [{"type": "logs", "logs": "2"}]
    payloads = turn(
        item_added(0, **item),
        {"type": "response.code_interpreter_call_code.delta", "output_index": 0, "delta": "1+1"},
        {"type": "response.code_interpreter_call_code.done", "output_index": 0, "code": "1+1"},
        item_done(0, **{**item, "code": "1+1", "outputs": outputs}),
    )
    calls, events = assemble(payloads)
    assert (calls[0].kind, calls[0].name) == ("code", "code_interpreter")
    assert ToolCallCompleted("ci", "code_interpreter", "1+1", outputs) in events


@pytest.mark.parametrize(
    ("fields", "type_"),
    [
        ({"output": "found", "error": None}, "tool_call_completed"),
        ({"output": None, "error": {"type": "mcp_protocol_error"}}, "tool_call_failed"),
    ],
)
def test_an_mcp_call_ends_with_its_result(fields: dict[str, Any], type_: str) -> None:
    item = {"type": "mcp_call", "id": "mcp_1", "name": "ask", "server_label": "s", "arguments": ""}
    payloads = turn(
        item_added(0, **item),
        {"type": "response.mcp_call_arguments.delta", "output_index": 0, "delta": "{}"},
        {"type": "response.mcp_call_arguments.done", "output_index": 0, "arguments": "{}"},
        item_done(0, **{**item, "arguments": "{}", **fields}),
    )
    calls, events = assemble(payloads)
    assert calls[0].kind == "mcp"
    assert types(events)[-2] == type_


def test_a_patch_is_written_as_its_diff_grows() -> None:
    operation = {"type": "update_file", "path": "a.py", "diff": ""}
    item = {"type": "apply_patch_call", "id": "apc", "call_id": "c1", "operation": operation}
    diff = {"type": "response.apply_patch_call_operation_diff.delta", "output_index": 0}
    payloads = turn(
        item_added(0, **item),
        {**diff, "delta": '@@\n-"a'},
        {**diff, "delta": '"\n+b'},
        item_done(0, **{**item, "operation": {**operation, "diff": '@@\n-"a"\n+b'}}),
    )
    calls, events = assemble(payloads)
    assert (calls[0].kind, calls[0].name) == ("patch", "apply_patch")
    assert calls[0].arguments == {**operation, "diff": '@@\n-"a"\n+b'}
    grown = [
        event.text for event in events if event.type == "argument_delta" and event.path == ("diff",)
    ]
    assert grown == ['@@\n-"a', '"\n+b']


def test_what_must_go_back_is_kept_whole() -> None:
    reasoning = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}
    message = {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "hi", "annotations": []}],
    }
    search = {"type": "web_search_call", "id": "ws", "status": "completed"}
    call = {**FUNCTION_CALL, "arguments": "{}", "status": "completed"}
    _, events = assemble(
        turn(
            item_added(0, **{**reasoning, "encrypted_content": ""}),
            item_done(0, **reasoning),
            item_done(1, **message),
            item_done(2, **search),
            item_added(3, **FUNCTION_CALL),
            arguments_done(3, "{}"),
            item_done(3, **call),
        )
    )
    (event,) = of_type(events, TurnCompleted)
    kept = {name: value for name, value in call.items() if name != "arguments"}
    assert event.message.parts == (
        ThinkingPart(text="", item=reasoning),
        TextPart(text="hi", item=message),
        OpaquePart(item=search),
        call_part("call_1", "write", {}, "{}", item=kept),
    )


def test_thinking_comes_from_summaries_and_from_reasoning_text() -> None:
    part = {"type": "response.reasoning_summary_part.added", "output_index": 0}
    text = {"type": "response.reasoning_summary_text.delta", "output_index": 0}
    _, events = assemble(
        turn(
            item_added(0, type="reasoning", id="rs"),
            {**part, "summary_index": 0},
            {**text, "delta": "one"},
            {**part, "summary_index": 1},
            {**text, "delta": "two"},
            item_done(0, type="reasoning", id="rs"),
            item_done(1, type="reasoning", id="rt", content=[{"type": "x", "text": "three"}]),
        )
    )
    assert [event.text for event in events if event.type == "thinking_completed"] == [
        "one\n\ntwo",
        "three",
    ]


def test_an_error_and_the_failed_response_after_it_are_one_failure() -> None:
    error = {"code": "server_error", "message": "oops"}
    payloads = [
        response_created(),
        item_added(0, **FUNCTION_CALL),
        {"type": "error", "error": error, "sequence_number": 3},
        response_ended("failed", error=error),
    ]
    calls, events = assemble(payloads)
    assert of_type(events, StreamFailed, TurnCompleted) == [
        StreamFailed("server_error", "oops", retryable=True)
    ]
    assert calls[0].verdict == "truncated"


def test_an_error_may_have_its_fields_at_the_top() -> None:
    error = {"type": "error", "code": "ERR", "message": "no", "param": None, "sequence_number": 1}
    assert assemble([error])[1] == [StreamFailed("ERR", "no")]


def test_a_whole_response_is_read_like_a_stream() -> None:
    response = {
        "object": "response",
        "id": "resp_1",
        "status": "completed",
        "output": [{**FUNCTION_CALL, "arguments": '{"a":1}'}],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 3},
        },
    }
    calls, events = assemble([response])
    assert calls[0].arguments == {"a": 1}
    (event,) = of_type(events, TurnCompleted)
    assert event.usage == Usage(
        input_tokens=10, output_tokens=5, cache_read_tokens=4, reasoning_tokens=3
    )


def test_several_responses_in_one_stream_are_several_turns() -> None:
    calls, events = assemble([*responses_call('{"a":1}'), *responses_call('{"a":2}')])
    assert [call.arguments for call in calls] == [{"a": 1}, {"a": 2}]
    assert len(of_type(events, TurnCompleted)) == 2


def test_unknown_events_are_ignored() -> None:
    payloads = turn({"type": "response.brand_new", "delta": {"a": 1}}, {"type": "keepalive"})
    assert types(assemble(payloads)[1]) == ["turn_completed"]


def test_a_patch_without_deltas_gives_its_diff_at_the_end() -> None:
    operation = {"type": "create_file", "path": "a.py", "diff": "+b"}
    item = {"type": "apply_patch_call", "id": "apc", "call_id": "c1", "operation": operation}
    call = only_call(turn(item_done(0, **item)))
    assert (call.verdict, call.arguments) == ("complete", operation)


def test_done_means_nothing_here() -> None:
    """Some gateways end every stream with OpenAI's mark for Chat."""
    assert types(assemble([*responses_call("{}"), b"[DONE]"])[1])[-1] == "turn_completed"


def test_a_status_that_is_new_closes_what_is_whole_and_nothing_else() -> None:
    for text, verdict in (('{"a":1}', "complete"), ("", "truncated")):
        payloads = turn(item_added(0, **FUNCTION_CALL), arguments_delta(0, text))
        payloads[-1]["response"]["status"] = "brand_new"
        assert only_call(payloads).verdict == verdict


def test_a_server_that_sends_no_items_says_the_name_at_the_end() -> None:
    done = {**arguments_done(0, '{"a": 1}'), "name": "write", "item_id": "fc_1"}
    turn = [response_created(), arguments_delta(0, '{"a"'), arguments_delta(0, ": 1}")]
    call = only_call([*turn, done, response_ended(output=[])])
    assert (call.name, call.arguments) == ("write", {"a": 1})


def test_arguments_of_nothing_are_told_as_a_call_without_a_name() -> None:
    turn = [response_created(), arguments_delta(0, '{"a": 1}'), arguments_done(0, '{"a": 1}')]
    call = only_call([*turn, response_ended(output=[])])
    assert (call.raw, call.verdict) == ('{"a": 1}', "malformed")


def test_an_item_that_is_added_twice_is_one() -> None:
    turn = responses_call('{"a": 1}')
    assert only_call([*turn[:2], *turn[1:]]).arguments == {"a": 1}
