"""xAI's own API: rules that no recording shows alone."""

import json
from importlib import import_module
from typing import Any

import pytest

from argstream.events import ToolCallCompleted, ToolCallFailed, Usage
from argstream.history import OpaquePart, ResultPart, TextPart, ThinkingPart
from tests.provider_streams import Payload, call_part, provider_failed, results, texts, turns, types
from tests.providers.tables import Tables, cases

READER = Tables("xai-grpc")
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


def called(*calls: Any, index: int = 0, **delta: Any) -> Payload:
    return chunk(output(index, tool_calls=list(calls), **delta))


def answered(call: Payload, index: int = 1, **delta: Any) -> Payload:
    return chunk(output(index, role="ROLE_TOOL", tool_calls=[call], **delta), usage={})


def finished(reason: str = "REASON_STOP", index: int = 0, **fields: Any) -> Payload:
    return chunk(output(index, reason), **fields)


def searched(arguments: str = '{"q":1}', status: str = COMPLETED, **fields: str) -> list[Payload]:
    """A turn in which xAI runs a tool."""
    call = tool_call(arguments, type=SEARCH)
    return [
        *(called(call), finished("REASON_TOOL_CALLS")),
        answered({**call, "status": status, **fields}, content="found"),
        *(chunk(output(2, content="so")), finished(index=2)),
    ]


def empty(reason: str) -> list[Payload]:
    return [called(tool_call("")), finished(f"REASON_{reason}")]


A, B = '{"a":1}', '{"b":2}'
TWO_OUTPUTS = chunk(*(output(n, tool_calls=[tool_call("", "ab"[n])]) for n in range(2)))
INCOMPLETE = tool_call("{}", status="TOOL_CALL_STATUS_INCOMPLETE")

test_outcomes = READER.test_outcomes(
    {
        "no IDs": ([called(tool_call(A, ""), tool_call(B, "")), finished()], [{"a": 1}, {"b": 2}]),
        "same ID": ([called(tool_call(A)), called(tool_call(B)), finished()], [{"a": 1}, {"b": 2}]),
        **cases("no text and", empty, {}, ["TOOL_CALLS", "STOP"]),
        **cases("no text and", empty, "truncated", ["MAX_LEN", "MAX_CONTEXT", "TIME_LIMIT", "NEW"]),
        "status is incomplete": ([called(INCOMPLETE), finished()], ["truncated"]),
        "server call without arguments": (searched(""), [{}]),
        "reason of another output": (
            [TWO_OUTPUTS, finished("REASON_MAX_LEN"), finished("REASON_TOOL_CALLS", index=1)],
            ["truncated", {}],
        ),
    }
)


def test_call_is_complete_at_once() -> None:
    calls, events = assemble([called(tool_call('{"a":1}'))])
    assert types(events)[0] == "tool_call_started"
    assert types(events)[-2:] == ["tool_args_completed", "stream_failed"]
    assert (calls[0].id, calls[0].kind, calls[0].arguments) == ("call_1", "function", {"a": 1})


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        *(("CLIENT_SIDE_TOOL", "function"), ("INVALID", "function"), ("MCP_TOOL", "mcp")),
        *((name, "server") for name in ("WEB_SEARCH_TOOL", "CODE_EXECUTION_TOOL", "NEW")),
    ],
)
def test_type_is_the_kind_of_the_call(type_: str, kind: str) -> None:
    assert only_call([called(tool_call(type=f"TOOL_CALL_TYPE_{type_}"))]).kind == kind


def test_call_that_xai_runs_is_sent_twice_and_is_one_call() -> None:
    calls, events = assemble(searched())
    found = [(call.kind, call.verdict, call.reinterpreted) for call in calls]
    assert found == [("server", "complete", None)]
    assert types(events)[-4:-2] == ["tool_args_completed", "tool_call_completed"]
    assert types(events)[-2:] == ["text_delta", "turn_completed"]
    assert results(events) == [ToolCallCompleted("call_1", "write", {"q": 1}, "found")]
    # The arguments may come only with the result.
    assert assemble([called(tool_call("", type=SEARCH)), *searched()[1:]])[1] == events
    failed = searched(status="TOOL_CALL_STATUS_FAILED", error_message="no network")
    assert results(assemble(failed)[1]) == [ToolCallFailed("call_1", "write", "no network")]


def test_all_outputs_are_one_turn_with_the_last_reason_and_usage() -> None:
    payloads = searched()
    counts = {"prompt_tokens": 70, "completion_tokens": 50, "reasoning_tokens": 30}
    cached = {"cached_prompt_text_tokens": 40, "cost_in_usd_ticks": "22540000"}
    payloads[-1]["usage"] = {**counts, **cached}
    event = completed(payloads)
    found = (event.stop_reason, event.message.id, event.message.model)
    assert found == ("REASON_STOP", "r1", "grok")
    assert event.usage == Usage(70, 80, cache_read_tokens=40, reasoning_tokens=30)
    another = chunk(output(0, "REASON_STOP", content="hi"), id="r2")
    ended = turns(assemble([*payloads, another])[1])
    assert [event.message.id for event in ended] == ["r1", "r2"]


@pytest.mark.parametrize("kept", [1, 2, 3, 4])
def test_turn_that_ends_between_two_outputs_is_cut(kept: int) -> None:
    calls, events = assemble(searched()[:kept])
    assert (calls[0].verdict, types(events)[-1]) == ("complete", "stream_failed")


def test_output_that_only_calls_server_tools_needs_no_reason() -> None:
    payloads = searched()
    del payloads[1]
    assert completed(payloads).stop_reason == "REASON_STOP"
    mixed = called(tool_call(id_="a", type=SEARCH), tool_call(id_="b"))
    assert completed([mixed, finished("REASON_TOOL_CALLS")]).stop_reason == "REASON_TOOL_CALLS"


def test_turn_ends_when_all_outputs_have_ended() -> None:
    both = chunk(output(0, content="one"), output(1, content="two"))
    calls, events = assemble([both, finished(), finished(index=1)])
    assert (calls, texts(events)) == ([], ["one", "two"])
    assert types(events)[-1] == "turn_completed"
    assert types(assemble([both, finished()])[1])[-1] == "stream_failed"


def test_encrypted_thinking_has_events() -> None:
    _, events = assemble([chunk(output(content="so", encrypted_content="xyz")), finished()])
    assert types(events)[:3] == ["thinking_started", "thinking_completed", "text_delta"]


CITATION = {"id": "1", "web_citation": {"url": "u"}}
CALL = tool_call('{"q":1}', type=SEARCH)
ANSWER = {"error_message": "", **CALL, "status": COMPLETED}
LAST = finished(index=2, citations=["u"], output_files=[{"file_id": "f"}])


def test_parts_that_must_go_back_are_kept() -> None:
    payloads = [
        *(called(CALL, encrypted_content="e1"), finished("REASON_TOOL_CALLS")),
        answered({**CALL, "status": COMPLETED}, encrypted_content="e2"),
        chunk(output(2, reasoning_content="hm", encrypted_content="e")),
        chunk(output(2, encrypted_content="3")),
        *(chunk(output(2, content="so", citations=[CITATION])), LAST),
    ]
    result = {"role": "ROLE_TOOL", "tool_calls": [ANSWER], "encrypted_content": "e2"}
    assert completed(payloads).message.parts == (
        ThinkingPart(text="", item={"encrypted_content": "e1"}),
        call_part("call_1", "write", {"q": 1}, '{"q":1}', kind="server", item={"type": SEARCH}),
        ResultPart(call_id="call_1", result=None, item=result),
        ThinkingPart(text="hm", item={"encrypted_content": "e3"}),
        TextPart(text="so", item={"citations": [CITATION]}),
        OpaquePart(item={"citations": ["u"]}),
        OpaquePart(item={"output_files": [{"file_id": "f"}]}),
    )


test_error_truncates_the_call = READER.test_failures(
    [called(tool_call(""))],
    [
        ({"error": {"code": 14, "message": "no"}}, provider_failed("14", "no", retryable=True)),
        ({"error": "no"}, provider_failed("error", "no")),
    ],
)

test_unreadable_payload_truncates_the_call = READER.test_unreadable(
    [called(tool_call(""))],
    [
        *({"id": "r1", "outputs": {}}, chunk({"index": "x"}), chunk({"delta": 1}), called(1)),
        called({"id": "b", "function": 1}),
        called({"id": "b", "function": {"name": "write", "arguments": {"a": 1}}}),
        *(b"[]", b"{"),
    ],
    [finished()],
)


def messages(payloads: list[Payload]) -> list[Any]:
    """Return the chunks as the client receives them."""
    chat = import_module("xai_sdk.proto").chat_pb2
    json_format = import_module("google.protobuf.json_format")
    return [json_format.ParseDict(payload, chat.GetChatCompletionChunk()) for payload in payloads]


def test_lines_and_protobuf_messages_give_the_same_events() -> None:
    first = called(tool_call(type=SEARCH), reasoning_content="hm", encrypted_content="e1")
    payloads = [first, *searched()[1:-1], LAST]
    _, expected = assemble(payloads)
    assert assemble([json.dumps(payload) for payload in payloads])[1] == expected
    assert assemble(messages(payloads))[1] == expected
    unknown = {**finished(), "outputs": [{**output(), "finish_reason": 99}]}
    assert completed(messages([unknown])).stop_reason == "99"


def test_wrappers_of_the_sdk_are_unwrapped() -> None:
    """The SDK yields pairs of the response so far and the latest chunk. A user may pass either."""
    chat = import_module("xai_sdk.chat")
    proto = import_module("xai_sdk.proto").chat_pb2
    so_far = chat.Response(proto.GetChatCompletionResponse(), None)
    chunks, pairs = [], []
    for message in messages(searched()):
        so_far.process_chunk(message)
        chunks.append(chat.Chunk(message, None))
        pairs.append((so_far, chunks[-1]))
    _, expected = assemble(searched())
    assert assemble(chunks)[1] == expected
    assert assemble(pairs)[1] == expected
    assert types(assemble([so_far])[1])[-1] == "turn_completed"


def test_names_in_camel_case_are_read() -> None:
    """Protobuf writes JSON in camel case by default."""
    function = {"name": "f", "arguments": '{"a": 1}'}
    delta = {"role": "ROLE_ASSISTANT", "toolCalls": [{"id": "c", "function": function}]}
    outputs = [{"delta": delta, "finishReason": "REASON_TOOL_CALLS"}]
    payload = {"id": "r", "outputs": outputs, "usage": {"promptTokens": 7}}
    for form in (payload, json.dumps(payload), json.dumps(payload).encode()):
        assert only_call([form]).arguments == {"a": 1}
        assert completed([form]).usage.input_tokens == 7
