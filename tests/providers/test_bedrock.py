"""ConverseStream: the rules and details of wire.md, where no recording shows them alone."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import EventStreamError  # type: ignore[import-untyped]

from argstream import stream
from argstream.assembly import Assembler
from argstream.events import (
    Event,
    StreamFailed,
    TextDelta,
    ToolCallCompleted,
    ToolCallFailed,
    TurnCompleted,
    Usage,
)
from argstream.history import OpaquePart, ResultPart, TextPart, ThinkingPart
from argstream.testing import chunkings
from tests import provider_streams as providers
from tests.answering import answering
from tests.provider_streams import (
    ONE_ARGUMENT_IN_TWO_PIECES,
    Payload,
    Reader,
    call_part,
    of_type,
    types,
)
from tests.turns import aws_event, aws_header, aws_message

READER = Reader("bedrock")
assemble, only_call, completed = READER.assemble, READER.only_call, READER.completed

START: Payload = {"messageStart": {"role": "assistant"}}
USAGE: Payload = {"inputTokens": 7, "outputTokens": 5, "totalTokens": 12}


def block_start(index: int, form: str, **fields: Any) -> Payload:
    return {"contentBlockStart": {"contentBlockIndex": index, "start": {form: fields}}}


def tool_use(index: int = 0, id_: str = "tooluse_1", **fields: Any) -> Payload:
    return block_start(index, "toolUse", toolUseId=id_, name="write", **fields)


def delta(index: int, **change: Any) -> Payload:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": change}}


def tool_input(index: int, value: Any) -> Payload:
    return delta(index, toolUse={"input": value})


def stop(index: int) -> Payload:
    return {"contentBlockStop": {"contentBlockIndex": index}}


def end(stop_reason: str = "tool_use", **usage: int) -> list[Payload]:
    metadata = {"usage": {**USAGE, **usage}, "metrics": {"latencyMs": 1}}
    return [{"messageStop": {"stopReason": stop_reason}}, {"metadata": metadata}]


def turn(*payloads: Payload, stop_reason: str = "end_turn") -> list[Payload]:
    return [START, *payloads, *end(stop_reason)]


def one_call(*pieces: Any, stop_reason: str = "tool_use") -> list[Payload]:
    inputs = (tool_input(0, piece) for piece in pieces)
    return turn(tool_use(), *inputs, stop(0), stop_reason=stop_reason)


def on_the_wire(payloads: list[Payload]) -> bytes:
    """The events as Bedrock sends them: their names in headers, and padding in their bodies."""
    body = b""
    for payload in payloads:
        ((name, inner),) = payload.items()
        data = json.dumps({**inner, "p": "abcdefgh"}).encode()
        if name.endswith("Exception"):
            kind = aws_header(":message-type", "exception")
            body += aws_message(kind + aws_header(":exception-type", name), data)
        else:
            body += aws_event(name, data)
    return body


# Calls


def test_a_call_is_known_at_once_and_its_arguments_grow() -> None:
    calls, events = assemble(one_call("", '{"path": "/t', 'mp"}'))
    assert types(events) == [*ONE_ARGUMENT_IN_TWO_PIECES, "turn_completed"]
    assert (calls[0].id, calls[0].arguments) == ("tooluse_1", {"path": "/tmp"})


def test_the_wire_says_the_same_in_headers_and_padding_means_nothing() -> None:
    payloads = one_call('{"a":', "1}")
    _, expected = assemble(payloads)
    for name, chunks in chunkings(on_the_wire(payloads)):
        assert list(stream(chunks, protocol="bedrock")) == expected, name


@pytest.mark.parametrize("encoded", [False, True])
def test_the_input_of_a_call_may_be_an_object(encoded: bool) -> None:
    payloads: list[Any] = one_call({"a": [1, None]})
    if encoded:
        payloads = [json.dumps(payload).encode() for payload in payloads]
    call = only_call(payloads)
    assert (call.arguments, call.raw) == ({"a": [1, None]}, '{"a":[1,null]}')


def test_an_object_with_a_key_given_twice_is_not_guessed_at() -> None:
    text = (
        b'{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"toolUse":{"input":{"a":1,"a":2}}}}}'
    )
    call = only_call([START, tool_use(), text, stop(0), *end()])
    assert call.verdict == "truncated"


def test_no_text_means_no_arguments_or_cut_off_depending_on_the_stop_reason() -> None:
    for reason in ("tool_use", "end_turn", "stop_sequence"):
        assert only_call(one_call("", stop_reason=reason)).arguments == {}, reason
    cut = ("max_tokens", "model_context_window_exceeded", "guardrail_intervened")
    malformed = ("content_filtered", "malformed_model_output", "malformed_tool_use")
    for reason in (*cut, *malformed, "something_new"):
        assert only_call(one_call("", stop_reason=reason)).verdict == "truncated", reason


@pytest.mark.parametrize(
    ("stop_reason", "verdict"),
    [("tool_use", "complete"), ("something_new", "complete"), ("max_tokens", "truncated")],
)
def test_a_stop_reason_closes_a_block_that_was_not_stopped(stop_reason: str, verdict: str) -> None:
    payloads = turn(tool_use(), tool_input(0, '{"a":1}'), stop_reason=stop_reason)
    assert only_call(payloads).verdict == verdict


@pytest.mark.parametrize(("status", "failed"), [("success", False), ("error", True)])
def test_a_call_that_bedrock_runs_is_completed_by_its_result(status: str, failed: bool) -> None:
    content = [{"json": {"stdOut": "4"}}, {"text": "done"}]
    calls, events = assemble(
        turn(
            tool_use(0, type="server_tool_use"),
            tool_input(0, '{"snippet":"2+2"}'),
            stop(0),
            block_start(1, "toolResult", toolUseId="tooluse_1", type="result", status=status),
            delta(1, toolResult=content[:1]),
            delta(1, toolResult=content[1:]),
            stop(1),
        )
    )
    assert calls[0].kind == "server"
    done = ToolCallCompleted("tooluse_1", "write", {"snippet": "2+2"}, content)
    expected = ToolCallFailed("tooluse_1", "write", content) if failed else done
    assert of_type(events, ToolCallCompleted, ToolCallFailed) == [expected]


# Text, thinking, and what goes back


def test_an_empty_start_of_a_text_block_means_nothing() -> None:
    start: Payload = {"contentBlockStart": {"contentBlockIndex": 0, "start": {}}}
    _, events = assemble(turn(start, delta(0, text="so"), stop(0)))
    assert types(events) == ["text_delta", "turn_completed"]


def test_what_must_go_back_is_kept_in_the_form_of_converse() -> None:
    citation = {"title": "t", "location": {"web": {"url": "u"}}}
    event = completed(
        turn(
            delta(0, reasoningContent={"text": "h"}),
            delta(0, reasoningContent={"text": "m"}),
            delta(0, reasoningContent={"signature": "c2ln"}),
            stop(0),
            delta(1, reasoningContent={"redactedContent": b"secret"}),
            stop(1),
            tool_use(2, type="server_tool_use"),
            tool_input(2, "{}"),
            stop(2),
            block_start(3, "toolResult", toolUseId="tooluse_1", status="success"),
            delta(3, toolResult=[{"text": "4"}]),
            stop(3),
            delta(4, text="fa"),
            delta(4, text="ct"),
            delta(4, citation=citation),
            stop(4),
            block_start(5, "image", format="png"),
            delta(5, image={"source": {"bytes": b"first"}}),
            delta(5, image={"source": {"bytes": b"second"}}),
            stop(5),
            tool_use(6, "tooluse_2"),
            tool_input(6, "{}"),
            stop(6),
        )
    )
    secret, image = (base64.b64encode(data).decode() for data in (b"secret", b"firstsecond"))
    text = {"text": "hm", "signature": "c2ln"}
    said = {"content": [{"text": "fact"}], "citations": [citation]}
    result = {"toolUseId": "tooluse_1", "status": "success", "content": [{"text": "4"}]}
    call = {"toolUseId": "tooluse_1", "name": "write", "type": "server_tool_use", "input": {}}
    assert event.message.parts == (
        ThinkingPart(text="hm", item={"reasoningContent": {"reasoningText": text}}),
        ThinkingPart(text="", item={"reasoningContent": {"redactedContent": secret}}),
        call_part("tooluse_1", "write", {}, "{}", kind="server", item={"toolUse": call}),
        ResultPart(call_id="tooluse_1", result=[{"text": "4"}], item={"toolResult": result}),
        TextPart(text="fact", item={"citationsContent": said}),
        OpaquePart(item={"image": {"format": "png", "source": {"bytes": image}}}),
        call_part("tooluse_2", "write", {}, "{}"),
    )


def test_an_image_that_could_not_be_made_is_kept_as_that() -> None:
    start, failed = block_start(0, "image", format="png"), {"error": {"message": "no"}}
    event = completed(turn(start, delta(0, image=failed), stop(0)))
    assert event.message.parts == (OpaquePart(item={"image": {"format": "png", **failed}}),)


def test_what_is_no_base64_goes_back_as_it_came() -> None:
    pieces = [delta(0, reasoningContent={"redactedContent": piece}) for piece in ("a-", "_b")]
    event = completed(turn(*pieces))
    item = {"reasoningContent": {"redactedContent": "a-_b"}}
    assert event.message.parts == (ThinkingPart(text="", item=item),)


# The end


def test_usage_comes_after_the_stop_reason_and_leaves_out_what_came_from_a_cache() -> None:
    last = end(cacheReadInputTokens=100, cacheWriteInputTokens=20)
    event = completed([START, *last])
    assert event.usage == Usage(
        input_tokens=127, output_tokens=5, cache_read_tokens=100, cache_write_tokens=20
    )
    assert event.stop_reason == "tool_use"
    event = completed([START, tool_use(), stop(0), *reversed(end())])
    assert (event.usage.output_tokens, event.stop_reason) == (5, "tool_use")
    event = completed([START, tool_use(), tool_input(0, "{}"), stop(0), end()[0]])
    assert event.usage == Usage()  # which never came


def test_without_a_stop_reason_the_turn_is_cut() -> None:
    calls, events = assemble([START, tool_use(), tool_input(0, "{}"), stop(0), tool_use(1, "b")])
    assert [call.verdict for call in calls] == ["complete", "truncated"]
    assert types(events)[-1] == "stream_failed"


def test_one_stream_may_have_several_turns() -> None:
    calls, events = assemble([*one_call('{"a":1}')[:-1], *one_call('{"b":2}')])
    assert [call.arguments for call in calls] == [{"a": 1}, {"b": 2}]
    assert len(of_type(events, TurnCompleted)) == 2


def test_unknown_events_and_deltas_are_tolerated() -> None:
    payloads = turn({"brandNew": {"delta": 3}}, delta(0, brandNew=1), tool_use(1), stop(1))
    calls, events = assemble(payloads)
    assert [call.verdict for call in calls] == ["complete"]
    assert of_type(events, StreamFailed) == []
    assert Assembler("bedrock").feed(b'{"delta": 3}', "brandNew") == []


@pytest.mark.parametrize(
    "payload",
    [
        {"contentBlockDelta": {"delta": {"toolUse": {"input": "x"}}}},
        {"contentBlockDelta": {"contentBlockIndex": 0}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": 1}},
        {"contentBlockDelta": {"contentBlockIndex": "x", "delta": {"toolUse": {"input": "x"}}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": "x"}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": 1}}}},
        {"contentBlockStart": {"start": {"toolUse": {}}}},
        {"contentBlockStop": "x"},
        b"[]",
        b"{",
    ],
)
def test_what_cannot_be_read_cuts_the_open_call(payload: Any) -> None:
    calls, events = assemble([START, tool_use(), tool_input(0, "{}"), payload, stop(0), *end()])
    assert calls[0].verdict == "truncated"
    assert of_type(events, StreamFailed)[0].code == "bad_payload"


# Failures


@pytest.mark.parametrize(
    ("name", "retryable"),
    [
        ("throttlingException", True),
        ("serviceUnavailableException", True),
        ("internalServerException", True),
        ("modelStreamErrorException", True),
        ("validationException", False),
    ],
)
def test_an_exception_in_the_midst_is_a_failure_in_either_form(name: str, retryable: bool) -> None:
    payloads = [START, tool_use(), tool_input(0, "{}"), {name: {"message": "sorry"}}]
    failed = StreamFailed(name, "sorry", retryable=retryable)
    calls, events = assemble(payloads)
    assert (calls[0].verdict, events[-1]) == ("truncated", failed)
    assert list(stream([on_the_wire(payloads)], protocol="bedrock"))[-1] == failed


def test_an_exception_may_only_have_what_the_model_said() -> None:
    said = b'{"originalMessage": "out of memory", "originalStatusCode": 500}'
    (event,) = Assembler("bedrock").feed(said, "modelStreamErrorException")
    assert event == StreamFailed("modelStreamErrorException", "out of memory", retryable=True)


def test_the_body_of_an_error_is_a_failure() -> None:
    (event,) = assemble([b'{"message": "The security token is invalid"}'])[1]
    assert event == StreamFailed("error", "The security token is invalid")


# Responses that were not streamed


def response(*content: Payload, stop_reason: str = "tool_use") -> Payload:
    message = {"role": "assistant", "content": list(content)}
    return {"output": {"message": message}, "stopReason": stop_reason, "usage": USAGE}


def test_a_whole_response_is_read_like_a_stream() -> None:
    thought = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}
    call = {"toolUse": {"toolUseId": "a", "name": "write", "input": {"a": 1}}}
    cached = {"cachePoint": {"type": "default"}}
    calls, events = assemble([response(thought, {"text": "so"}, cached, call)])
    assert [(call.id, call.arguments) for call in calls] == [("a", {"a": 1})]
    ended = events[-1]
    assert isinstance(ended, TurnCompleted)
    assert ended.usage == Usage(input_tokens=7, output_tokens=5)
    assert ended.message.parts[:3] == (
        ThinkingPart(text="hm", item=thought),
        TextPart(text="so"),
        OpaquePart(item=cached),
    )


def test_the_last_call_of_a_response_that_was_cut_is_truncated() -> None:
    first, second = (
        {"toolUse": {"toolUseId": id_, "name": "write", "input": {"a": 1}}} for id_ in "ab"
    )
    calls, _ = assemble([response(first, second, stop_reason="max_tokens")])
    assert [call.verdict for call in calls] == ["complete", "truncated"]


def test_a_whole_response_has_its_results_and_citations() -> None:
    result = {"toolUseId": "a", "content": [{"text": "4"}], "status": "success"}
    said = {"content": [{"text": "fact"}], "citations": [{"title": "t"}]}
    call = {"toolUseId": "a", "name": "run", "input": {}, "type": "server_tool_use"}
    _, events = assemble(
        [response({"toolUse": call}, {"toolResult": result}, {"citationsContent": said})]
    )
    assert of_type(events, ToolCallCompleted) == [
        ToolCallCompleted("a", "run", {}, [{"text": "4"}])
    ]
    assert of_type(events, TextDelta)[0].text == "fact"


def test_a_response_whose_blocks_are_none_cannot_be_read() -> None:
    (event,) = assemble([{"output": {"message": {"content": [1]}}, "stopReason": "end_turn"}])[1]
    assert isinstance(event, StreamFailed)


# Invoked: a model's own payloads, in another wrapping


def in_bytes(payload: Payload) -> bytes:
    inner = base64.b64encode(json.dumps(payload).encode()).decode()
    return json.dumps({"bytes": inner, "p": "abcd"}).encode()


def from_boto3(payload: Payload) -> Payload:
    return {"chunk": {"bytes": json.dumps(payload).encode()}}


@pytest.mark.parametrize("wrapped", [in_bytes, from_boto3])
def test_the_payloads_of_a_model_that_is_invoked_are_unwrapped(wrapped: Any) -> None:
    claude = providers.only_call([*map(wrapped, providers.anthropic_call('{"a":1}'))])
    assert claude.arguments == {"a": 1}
    usage = {"inputTokens": 7, "outputTokens": 5, "cacheReadInputTokenCount": 100}
    nova: list[Payload] = [*one_call('{"a":', "1}")[:-1], {"metadata": {"usage": usage}}]
    calls, events = providers.assemble(map(wrapped, nova), protocol="bedrock-invoke")
    assert calls[0].arguments == {"a": 1}
    ended = events[-1]
    assert isinstance(ended, TurnCompleted)
    assert ended.usage == Usage(input_tokens=107, output_tokens=5, cache_read_tokens=100)


@pytest.mark.parametrize(
    ("name", "body", "failed"),
    [
        ("throttlingException", "too much", StreamFailed("throttlingException", "too much", True)),
        ("validationException", "no", StreamFailed("validationException", "no")),
        # An error of the connection has no payload.
        (
            "InternalServerError",
            "",
            StreamFailed("InternalServerError", "InternalServerError", True),
        ),
    ],
)
def test_an_exception_of_the_event_stream_is_a_failure(
    name: str, body: str, failed: StreamFailed
) -> None:
    payload = json.dumps({"message": body}).encode() if body else b""
    assert Assembler().feed(payload, name) == [failed]


def test_what_is_no_base64_cannot_be_read_and_what_has_no_bytes_is_ignored() -> None:
    (event,) = providers.assemble([b'{"bytes": "?"}'])[1]
    assert isinstance(event, StreamFailed)
    assert event.code == "bad_payload"
    begun = in_bytes(providers.anthropic_call()[0])
    assert providers.assemble([begun, b"{}"], protocol="bedrock-invoke")[0] == []


# boto3 itself


@contextmanager
def bedrock(body: bytes, content_type: str = "application/vnd.amazon.eventstream") -> Iterator[Any]:
    """A client of boto3 that is answered with this."""
    with answering(body, content_type) as address:
        client = boto3.client(
            "bedrock-runtime",
            region_name="us-east-1",
            endpoint_url=address,
            aws_access_key_id="nobody",
            aws_secret_access_key="nothing",
            config=Config(retries={"total_max_attempts": 1}, proxies={}),
        )
        try:
            yield client
        finally:
            client.close()


ASKED: Payload = {
    "modelId": "amazon.nova-lite-v1:0",
    "messages": [{"role": "user", "content": [{"text": "hello"}]}],
}


def test_the_stream_of_boto3_is_read() -> None:
    payloads = turn(
        delta(0, reasoningContent={"redactedContent": base64.b64encode(b"secret").decode()}),
        stop(0),
        tool_use(1),
        tool_input(1, '{"a":'),
        tool_input(1, "1}"),
        stop(1),
        stop_reason="tool_use",
    )
    with bedrock(on_the_wire(payloads)) as client:
        events = stream(client.converse_stream(**ASKED)["stream"], protocol="bedrock")
        assert list(events) == assemble(payloads)[1]
    assert events.calls[0].arguments == {"a": 1}


def test_an_exception_of_boto3_is_raised_again_after_the_verdicts() -> None:
    payloads = [
        START,
        tool_use(),
        tool_input(0, "{}"),
        {"throttlingException": {"message": "too much"}},
    ]
    with bedrock(on_the_wire(payloads)) as client:
        events = stream(client.converse_stream(**ASKED)["stream"], protocol="bedrock")
        found: list[Event] = []

        def read_all() -> None:
            for event in events:
                found.append(event)  # noqa: PERF402 - one by one: the last one is an exception

        with pytest.raises(EventStreamError, match="too much"):
            read_all()
    assert types(found)[-1] == "tool_args_invalid"
    assert events.calls[0].verdict == "truncated"


def test_a_response_of_boto3_that_was_not_streamed_is_read() -> None:
    call = {"toolUse": {"toolUseId": "a", "name": "write", "input": {"a": 1}}}
    body = json.dumps({**response(call), "metrics": {"latencyMs": 1}}).encode()
    with bedrock(body, "application/json") as client:
        events = stream(client.converse(**ASKED), protocol="bedrock")
        assert types(events)[-1] == "turn_completed"
    assert events.calls[0].arguments == {"a": 1}
