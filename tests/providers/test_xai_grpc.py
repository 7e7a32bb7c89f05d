"""xAI's own API: the rules and details of wire.md, where no recording shows them alone."""

import json
from importlib import import_module
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
from tests import provider_streams as providers
from tests.provider_streams import (
    Payload,
    Reader,
    call_part,
    of_type,
    types,
)

READER = Reader("xai-grpc")
assemble, only_call, completed = READER.assemble, READER.only_call, READER.completed

SEARCH = "TOOL_CALL_TYPE_WEB_SEARCH_TOOL"
COMPLETED = "TOOL_CALL_STATUS_COMPLETED"


def output(index: int = 0, finish: str | None = None, **delta: Any) -> Payload:
    found: Payload = {"delta": {"role": "ROLE_ASSISTANT", **delta}}
    if index:
        found["index"] = index
    return found if finish is None else {**found, "finish_reason": finish}


def chunk(*outputs: Payload, **fields: Any) -> Payload:
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "reasoning_tokens": 3}
    return {"id": "r1", "outputs": list(outputs), "model": "grok", "usage": usage, **fields}


def tool_call(arguments: str = "{}", id_: str = "call_1", **fields: str) -> Payload:
    return {"id": id_, "function": {"name": "write", "arguments": arguments}, **fields}


def called(*calls: Payload, index: int = 0, **delta: Any) -> Payload:
    return chunk(output(index, tool_calls=list(calls), **delta))


def answered(call: Payload, index: int = 1, **delta: Any) -> Payload:
    return chunk(output(index, role="ROLE_TOOL", tool_calls=[call], **delta), usage={})


def finished(reason: str = "REASON_STOP", index: int = 0, **fields: Any) -> Payload:
    return chunk(output(index, reason), **fields)


def searched(arguments: str = '{"q":1}', status: str = COMPLETED, **fields: str) -> list[Payload]:
    """A turn in which xAI runs a tool."""
    call = tool_call(arguments, type=SEARCH)
    return [
        called(call),
        finished("REASON_TOOL_CALLS"),
        answered({**call, "status": status, **fields}, content="found"),
        chunk(output(2, content="so")),
        finished(index=2),
    ]


def test_a_call_comes_whole_and_is_complete_at_once() -> None:
    calls, events = assemble([called(tool_call('{"a":1}'))])
    assert types(events)[0] == "tool_call_started"
    assert types(events)[-2:] == ["tool_args_completed", "stream_failed"]
    assert (calls[0].id, calls[0].kind, calls[0].arguments) == ("call_1", "function", {"a": 1})


def test_lines_and_dicts_say_the_same() -> None:
    payloads = searched()
    assert assemble([json.dumps(payload) for payload in payloads])[1] == assemble(payloads)[1]


def test_calls_are_told_apart_by_kind() -> None:
    for type_, kind in {
        "CLIENT_SIDE_TOOL": "function",
        "INVALID": "function",
        "WEB_SEARCH_TOOL": "server",
        "CODE_EXECUTION_TOOL": "server",
        "MCP_TOOL": "mcp",
        "SOMETHING_NEW": "server",
    }.items():
        assert only_call([called(tool_call(type=f"TOOL_CALL_TYPE_{type_}"))]).kind == kind


def test_calls_without_ids_get_ids_of_their_own() -> None:
    calls, _ = assemble([called(tool_call('{"a":1}', ""), tool_call('{"b":2}', "")), finished()])
    assert [call.arguments for call in calls] == [{"a": 1}, {"b": 2}]
    assert len({call.id for call in calls}) == 2
    # Nor is another call with the same id lost.
    calls, _ = assemble([called(tool_call('{"a":1}')), called(tool_call('{"b":2}')), finished()])
    assert [call.arguments for call in calls] == [{"a": 1}, {"b": 2}]


def test_no_text_means_no_arguments_or_cut_off_depending_on_the_reason() -> None:
    for reason in ("TOOL_CALLS", "STOP"):
        payloads = [called(tool_call("")), finished(f"REASON_{reason}")]
        assert only_call(payloads).arguments == {}, reason
    for reason in ("MAX_LEN", "MAX_CONTEXT", "TIME_LIMIT", "SOMETHING_NEW"):
        payloads = [called(tool_call("")), finished(f"REASON_{reason}")]
        assert only_call(payloads).verdict == "truncated", reason


def test_a_call_that_is_incomplete_is_truncated_even_if_it_parses() -> None:
    call = tool_call("{}", status="TOOL_CALL_STATUS_INCOMPLETE")
    assert only_call([called(call), finished()]).verdict == "truncated"


# Several outputs


def test_a_call_that_xai_runs_is_announced_and_said_again_but_is_one_call() -> None:
    calls, events = assemble(searched())
    assert [(call.kind, call.verdict, call.reinterpreted) for call in calls] == [
        ("server", "complete", None)
    ]
    assert types(events)[-4:] == [
        "tool_args_completed",
        "tool_call_completed",
        "text_delta",
        "turn_completed",
    ]
    assert of_type(events, ToolCallCompleted) == [
        ToolCallCompleted("call_1", "write", {"q": 1}, "found")
    ]


def test_a_result_may_be_a_failure() -> None:
    payloads = searched(status="TOOL_CALL_STATUS_FAILED", error_message="no network")
    _, events = assemble(payloads)
    assert of_type(events, ToolCallFailed) == [ToolCallFailed("call_1", "write", "no network")]


def test_arguments_may_come_only_when_the_call_is_over() -> None:
    announced = called(tool_call("", type=SEARCH))
    calls, events = assemble([announced, *searched()[1:]])
    assert (calls[0].verdict, calls[0].arguments) == ("complete", {"q": 1})
    assert len(of_type(events, ToolCallCompleted)) == 1
    assert only_call(searched("")).arguments == {}


def test_all_outputs_are_one_turn_with_the_last_reason_and_usage() -> None:
    payloads = searched()
    payloads[-1]["usage"] = {
        "prompt_tokens": 70,
        "completion_tokens": 50,
        "reasoning_tokens": 30,
        "cached_prompt_text_tokens": 40,
        "cost_in_usd_ticks": "22540000",
    }
    event = completed(payloads)
    assert (event.stop_reason, event.message.id, event.message.model) == (
        "REASON_STOP",
        "r1",
        "grok",
    )
    assert event.usage == Usage(
        input_tokens=70, output_tokens=80, cache_read_tokens=40, reasoning_tokens=30
    )


@pytest.mark.parametrize("kept", [1, 2, 3, 4])
def test_a_turn_that_breaks_off_between_two_outputs_is_cut(kept: int) -> None:
    calls, events = assemble(searched()[:kept])
    assert calls[0].verdict == "complete"
    assert types(events)[-1] == "stream_failed"


def test_an_output_that_only_calls_what_xai_runs_may_end_without_a_word() -> None:
    payloads = searched()
    del payloads[1]
    assert completed(payloads).stop_reason == "REASON_STOP"
    mixed = called(tool_call(id_="a", type=SEARCH), tool_call(id_="b"))  # one is the client's
    assert completed([mixed, finished("REASON_TOOL_CALLS")]).stop_reason == "REASON_TOOL_CALLS"


def test_of_several_answers_all_must_end() -> None:
    both = chunk(output(0, content="one"), output(1, content="two"))
    calls, events = assemble([both, finished(), finished(index=1)])
    assert calls == []
    assert [event.text for event in of_type(events, TextDelta)] == ["one", "two"]
    assert types(events)[-1] == "turn_completed"
    assert types(assemble([both, finished()])[1])[-1] == "stream_failed"


def test_the_reason_of_one_answer_does_not_close_the_calls_of_another() -> None:
    calls, _ = assemble(
        [
            chunk(
                output(0, tool_calls=[tool_call("", "a")]),
                output(1, tool_calls=[tool_call("", "b")]),
            ),
            finished("REASON_MAX_LEN"),
            finished("REASON_TOOL_CALLS", index=1),
        ]
    )
    assert [call.verdict for call in calls] == ["truncated", "complete"]


def test_another_id_is_another_turn() -> None:
    first, second = searched(), [chunk(output(0, "REASON_STOP", content="hi"), id="r2")]
    ended = of_type(assemble([*first, *second])[1], TurnCompleted)
    assert [event.message.id for event in ended] == ["r1", "r2"]


# Thinking, and what goes back


def test_encrypted_thinking_still_shows_that_it_happens() -> None:
    _, events = assemble([chunk(output(content="so", encrypted_content="xyz")), finished()])
    assert types(events)[:3] == ["thinking_started", "thinking_completed", "text_delta"]


def test_what_must_go_back_is_kept_whole() -> None:
    citation = {"id": "1", "web_citation": {"url": "u"}}
    call, answer, *_ = (tool_call('{"q":1}', type=SEARCH), {"status": COMPLETED})
    payloads = [
        called(call, encrypted_content="e1"),
        finished("REASON_TOOL_CALLS"),
        answered({**call, **answer}, encrypted_content="e2"),
        chunk(output(2, reasoning_content="hm", encrypted_content="e")),
        chunk(output(2, encrypted_content="3")),
        chunk(output(2, content="so", citations=[citation])),
        finished(index=2, citations=["u"], output_files=[{"file_id": "f"}]),
    ]
    said_again = {"error_message": "", **call, **answer}
    assert completed(payloads).message.parts == (
        ThinkingPart(text="", item={"encrypted_content": "e1"}),
        call_part("call_1", "write", {"q": 1}, '{"q":1}', kind="server", item={"type": SEARCH}),
        ResultPart(
            call_id="call_1",
            result=None,
            item={"role": "ROLE_TOOL", "tool_calls": [said_again], "encrypted_content": "e2"},
        ),
        ThinkingPart(text="hm", item={"encrypted_content": "e3"}),
        TextPart(text="so", item={"citations": [citation]}),
        OpaquePart(item={"citations": ["u"]}),
        OpaquePart(item={"output_files": [{"file_id": "f"}]}),
    )


# What is wrong, and what is whole


def test_an_error_is_a_failure() -> None:
    error = {"error": {"code": 14, "message": "try later"}}
    assert assemble([error])[1] == [StreamFailed("14", "try later", retryable=True)]
    assert assemble([{"error": "no"}])[1] == [StreamFailed("error", "no")]


@pytest.mark.parametrize(
    "payload",
    [
        {"id": "r1", "outputs": {}},
        chunk({"index": "x"}),
        chunk({"delta": 1}),
        called(1),  # type: ignore[arg-type]
        called({"id": "b", "function": 1}),
        called({"id": "b", "function": {"name": "write", "arguments": {"a": 1}}}),
        b"[]",
        b"{",
    ],
)
def test_what_cannot_be_read_cuts_the_open_call_and_makes_none(payload: Any) -> None:
    calls, events = assemble([called(tool_call("")), payload, finished()])
    assert [call.verdict for call in calls] == ["truncated"]
    assert of_type(events, StreamFailed)[0].code == "bad_payload"


# The SDK


def messages(payloads: list[Payload]) -> list[Any]:
    """The chunks as the client receives them."""
    chat = import_module("xai_sdk.proto").chat_pb2
    json_format = import_module("google.protobuf.json_format")
    return [json_format.ParseDict(payload, chat.GetChatCompletionChunk()) for payload in payloads]


def test_protobuf_messages_say_the_same() -> None:
    payloads = [
        called(tool_call(type=SEARCH), reasoning_content="hm", encrypted_content="e1"),
        *searched()[1:-1],
        finished(index=2, citations=["u"], output_files=[{"file_id": "f"}]),
    ]
    assert assemble(messages(payloads))[1] == assemble(payloads)[1]


def test_an_enumeration_that_the_sdk_does_not_know_is_its_number() -> None:
    payload = {**finished(), "outputs": [{**output(), "finish_reason": 99}]}
    assert completed(messages([payload])).stop_reason == "99"


def test_what_the_sdk_wraps_messages_in_is_unwrapped() -> None:
    """It gives the response so far and the latest chunk, or only somebody took the chunk."""
    found = messages(searched())
    chat = import_module("xai_sdk.chat")
    proto = import_module("xai_sdk.proto").chat_pb2
    so_far = chat.Response(proto.GetChatCompletionResponse(), None)
    chunks, pairs = [], []
    for message in found:
        so_far.process_chunk(message)
        chunks.append(chat.Chunk(message, None))
        pairs.append((so_far, chunks[-1]))
    _, expected = assemble(searched())
    assert assemble(chunks)[1] == expected
    assert assemble(pairs)[1] == expected
    assert types(assemble([so_far])[1])[-1] == "turn_completed"


def test_names_in_camel_case_mean_the_same() -> None:
    """As protobuf writes JSON unless it is told not to."""
    function = {"name": "f", "arguments": '{"a": 1}'}
    delta = {"role": "ROLE_ASSISTANT", "toolCalls": [{"id": "c", "function": function}]}
    chunk = {
        "id": "r",
        "outputs": [{"delta": delta, "finishReason": "REASON_TOOL_CALLS"}],
        "usage": {"promptTokens": 7},
    }
    for payload in (chunk, json.dumps(chunk), json.dumps(chunk).encode()):
        calls, events = providers.assemble([payload], protocol="xai-grpc")
        assert [call.arguments for call in calls] == [{"a": 1}]
        assert events[-1].usage.input_tokens == 7  # type: ignore[union-attr]
