"""ConverseStream and InvokeModelWithResponseStream: rules that no recording shows alone."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from argstream import stream
from argstream.assembly import Assembler
from argstream.events import Event, ToolCallCompleted, ToolCallFailed, Usage
from argstream.history import OpaquePart, ResultPart, TextPart, ThinkingPart
from argstream.testing import chunkings
from tests import provider_streams as providers
from tests.answering import answering
from tests.provider_streams import Payload, call_part, provider_failed, results, turns, types
from tests.providers.tables import Tables, cases
from tests.turns import aws_event, aws_header, aws_message

READER = Tables("bedrock")
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


def turn(*payloads: Any, stop_reason: str = "end_turn") -> list[Any]:
    return [START, *payloads, *end(stop_reason)]


def one_call(*pieces: Any, stop_reason: str = "tool_use") -> list[Payload]:
    inputs = (tool_input(0, piece) for piece in pieces)
    return turn(tool_use(), *inputs, stop(0), stop_reason=stop_reason)


def on_the_wire(payloads: list[Payload]) -> bytes:
    """Encode the events with their names in headers and padding in their bodies."""
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


OPEN_CALL = [START, tool_use(), tool_input(0, "{}")]
DUPLICATE = json.dumps(tool_input(0, {"a": 1})).replace('{"a": 1}', '{"a": 1, "a": 2}').encode()


def empty(stop_reason: str) -> list[Payload]:
    return one_call("", stop_reason=stop_reason)


def unstopped(stop_reason: str) -> list[Payload]:
    return turn(tool_use(), tool_input(0, '{"a":1}'), stop_reason=stop_reason)


CUT = ["max_tokens", "model_context_window_exceeded", "guardrail_intervened"]
MALFORMED = ["content_filtered", "malformed_model_output", "malformed_tool_use"]
UNKNOWN = [{"brandNew": {"delta": 3}}, delta(0, brandNew=1)]

test_outcomes = READER.test_outcomes(
    {
        "input is an object": (one_call({"a": [1, None]}), [{"a": [1, None]}]),
        "duplicate key": (turn(tool_use(), DUPLICATE, stop(0)), ["truncated"]),
        **cases("no input and", empty, {}, ["tool_use", "end_turn", "stop_sequence"]),
        **cases("no input and", empty, "truncated", [*CUT, *MALFORMED, "new"]),
        **cases("block is not stopped and", unstopped, {"a": 1}, ["tool_use", "new"]),
        **cases("block is not stopped and", unstopped, "truncated", ["max_tokens"]),
        "no stop reason": ([*OPEN_CALL, stop(0), tool_use(1, "b")], [{}, "truncated"]),
        "unknown event and delta": (turn(*UNKNOWN, tool_use(1), stop(1)), [{}]),
    }
)


def test_bytes_and_dicts_give_the_same_events() -> None:
    payloads = one_call({"a": [1, None]})
    calls, expected = assemble(payloads)
    assert calls[0].raw == '{"a":[1,null]}'
    assert assemble([json.dumps(payload).encode() for payload in payloads])[1] == expected
    payloads = one_call('{"a":', "1}")
    for name, chunks in chunkings(on_the_wire(payloads)):
        assert list(stream(chunks, protocol="bedrock")) == assemble(payloads)[1], name


@pytest.mark.parametrize("status", ["success", "error"])
def test_call_that_bedrock_runs_ends_with_its_result(status: str) -> None:
    content = [{"json": {"stdOut": "4"}}, {"text": "done"}]
    calls, events = assemble(
        turn(
            *(tool_use(0, type="server_tool_use"), tool_input(0, '{"snippet":"2+2"}'), stop(0)),
            block_start(1, "toolResult", toolUseId="tooluse_1", type="result", status=status),
            *(delta(1, toolResult=content[:1]), delta(1, toolResult=content[1:]), stop(1)),
        )
    )
    assert calls[0].kind == "server"
    done = ToolCallCompleted("tooluse_1", "write", {"snippet": "2+2"}, content)
    failed = ToolCallFailed("tooluse_1", "write", content)
    assert results(events) == [failed if status == "error" else done]


CITATION = {"title": "t", "location": {"web": {"url": "u"}}}
CITED = {"content": [{"text": "fact"}], "citations": [CITATION]}
RESULT = {"toolUseId": "tooluse_1", "status": "success", "content": [{"text": "4"}]}
SERVER_CALL = {"toolUseId": "tooluse_1", "name": "write", "type": "server_tool_use", "input": {}}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}
CACHE_POINT = {"cachePoint": {"type": "default"}}
NO_IMAGE = {"error": {"message": "no"}}


def redacted(data: Any) -> Payload:
    return {"reasoningContent": {"redactedContent": data}}


def image(*data: bytes) -> Payload:
    encoded = base64.b64encode(b"".join(data)).decode()
    return {"image": {"format": "png", "source": {"bytes": encoded}}}


def test_parts_keep_the_form_of_converse() -> None:
    payloads = turn(
        delta(0, reasoningContent={"text": "h"}),
        delta(0, reasoningContent={"text": "m"}),
        *(delta(0, reasoningContent={"signature": "c2ln"}), stop(0)),
        *(delta(1, **redacted(b"secret")), stop(1)),
        *(tool_use(2, type="server_tool_use"), tool_input(2, "{}"), stop(2)),
        block_start(3, "toolResult", toolUseId="tooluse_1", status="success"),
        *(delta(3, toolResult=[{"text": "4"}]), stop(3)),
        *(delta(4, text="fa"), delta(4, text="ct"), delta(4, citation=CITATION), stop(4)),
        block_start(5, "image", format="png"),
        *(delta(5, image={"source": {"bytes": piece}}) for piece in (b"1st", b"second")),
        stop(5),
        *(tool_use(6, "tooluse_2"), tool_input(6, "{}"), stop(6)),
    )
    assert READER.parts(payloads) == [
        ThinkingPart(text="hm", item=THOUGHT),
        ThinkingPart(text="", item=redacted(base64.b64encode(b"secret").decode())),
        call_part("tooluse_1", "write", {}, "{}", kind="server", item={"toolUse": SERVER_CALL}),
        ResultPart(call_id="tooluse_1", result=RESULT["content"], item={"toolResult": RESULT}),
        TextPart(text="fact", item={"citationsContent": CITED}),
        OpaquePart(item=image(b"1st", b"second")),
        call_part("tooluse_2", "write", {}, "{}"),
    ]
    assert READER.parts(
        turn(block_start(0, "image", format="png"), delta(0, image=NO_IMAGE), stop(0))
    ) == [OpaquePart(item={"image": {"format": "png", **NO_IMAGE}})]
    assert READER.parts(turn(delta(0, **redacted("a-")), delta(0, **redacted("_b")))) == [
        ThinkingPart(text="", item=redacted("a-_b"))
    ]


def test_text_may_have_an_empty_start() -> None:
    empty_start: Payload = {"contentBlockStart": {"contentBlockIndex": 0, "start": {}}}
    _, events = assemble(turn(empty_start, delta(0, text="so"), stop(0)))
    assert types(events) == ["text_delta", "turn_completed"]
    assert turns(events)[0].usage == Usage(input_tokens=7, output_tokens=5)


def test_usage_includes_cached_tokens_and_may_come_before_the_stop_reason() -> None:
    event = completed([START, *end(cacheReadInputTokens=100, cacheWriteInputTokens=20)])
    assert (event.usage, event.stop_reason) == (Usage(127, 5, 100, 20), "tool_use")
    event = completed([*OPEN_CALL, stop(0), *reversed(end())])
    assert (event.usage.output_tokens, event.stop_reason) == (5, "tool_use")
    assert completed([*OPEN_CALL, stop(0), end()[0]]).usage == Usage()


test_unreadable_payload_truncates_the_call = READER.test_unreadable(
    OPEN_CALL,
    [
        {"contentBlockDelta": {"delta": {"toolUse": {"input": "x"}}}},
        {"contentBlockDelta": {"contentBlockIndex": 0}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": 1}},
        {"contentBlockDelta": {"contentBlockIndex": "x", "delta": {"toolUse": {"input": "x"}}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": "x"}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": 1}}}},
        {"contentBlockStart": {"start": {"toolUse": {}}}},
        *({"contentBlockStop": "x"}, b"[]", b"{"),
        {"output": {"message": {"content": [1]}}, "stopReason": "end_turn"},
    ],
    [stop(0), *end()],
)

EXCEPTIONS = [
    ({name: {"message": "sorry"}}, provider_failed(name, "sorry", retryable))
    for name, retryable in {
        "throttlingException": True,
        "serviceUnavailableException": True,
        "internalServerException": True,
        "modelStreamErrorException": True,
        "validationException": False,
    }.items()
]

test_exception_is_a_failure = READER.test_failures(
    OPEN_CALL, [*EXCEPTIONS, (b'{"message": "Bad token"}', provider_failed("error", "Bad token"))]
)


def test_exception_on_the_wire_is_named_by_its_event() -> None:
    for payload, failed in EXCEPTIONS:
        body = on_the_wire([*OPEN_CALL, payload])
        assert list(stream([body], protocol="bedrock"))[-1] == failed
        (name,) = payload
        assert Assembler().feed(b'{"message": "sorry"}', name) == [failed]
    for name, body, message in (
        ("InternalServerError", b"", "InternalServerError"),  # of the connection
        ("modelStreamErrorException", b'{"originalMessage": "no"}', "no"),
    ):
        failed = provider_failed(name, message, retryable=True)
        assert Assembler("bedrock").feed(body, name) == [failed]
    assert Assembler("bedrock").feed(b'{"delta": 3}', "brandNew") == []


# InvokeModel: the payloads of the model in another envelope


def in_bytes(payload: Payload) -> bytes:
    inner = base64.b64encode(json.dumps(payload).encode()).decode()
    return json.dumps({"bytes": inner, "p": "abcd"}).encode()


def from_boto3(payload: Payload) -> Payload:
    return {"chunk": {"bytes": json.dumps(payload).encode()}}


@pytest.mark.parametrize("wrapped", [in_bytes, from_boto3])
def test_payloads_of_an_invoked_model_are_unwrapped(wrapped: Any) -> None:
    claude = providers.only_call([*map(wrapped, providers.anthropic_call('{"a":1}'))])
    assert claude.arguments == {"a": 1}
    usage = {"inputTokens": 7, "outputTokens": 5, "cacheReadInputTokenCount": 100}
    nova: list[Payload] = [*one_call('{"a":', "1}")[:-1], {"metadata": {"usage": usage}}]
    calls, events = providers.assemble(map(wrapped, nova), protocol="bedrock-invoke")
    assert calls[0].arguments == {"a": 1}
    assert turns(events)[0].usage == Usage(107, 5, cache_read_tokens=100)


def test_invalid_base64_is_a_failure_and_a_payload_without_bytes_is_ignored() -> None:
    _, events = providers.assemble([b'{"bytes": "?"}'])
    assert [failed.code for failed in providers.failures(events)] == ["bad_payload"]
    begun = in_bytes(providers.anthropic_call()[0])
    assert providers.assemble([begun, b"{}"], protocol="bedrock-invoke")[0] == []


@contextmanager
def bedrock(body: bytes, content_type: str = "application/vnd.amazon.eventstream") -> Iterator[Any]:
    """Yield a client of boto3 whose requests get this response."""
    import boto3  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]

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


REQUEST: Payload = {
    "modelId": "amazon.nova-lite-v1:0",
    "messages": [{"role": "user", "content": [{"text": "hello"}]}],
}


def test_stream_of_boto3_is_read() -> None:
    secret = redacted(base64.b64encode(b"secret").decode())
    pieces = (tool_input(1, '{"a":'), tool_input(1, "1}"))
    payloads = turn(delta(0, **secret), stop(0), tool_use(1), *pieces, stop(1))
    with bedrock(on_the_wire(payloads)) as client:
        events = stream(client.converse_stream(**REQUEST)["stream"], protocol="bedrock")
        assert list(events) == assemble(payloads)[1]
    assert events.calls[0].arguments == {"a": 1}


def test_exception_of_boto3_is_raised_after_the_verdicts() -> None:
    from botocore.exceptions import EventStreamError  # type: ignore[import-untyped]

    payloads = [*OPEN_CALL, {"throttlingException": {"message": "too much"}}]
    found: list[Event] = []

    def read_all() -> None:
        for event in events:
            found.append(event)  # noqa: PERF402 - the loop ends with an exception

    with bedrock(on_the_wire(payloads)) as client:
        events = stream(client.converse_stream(**REQUEST)["stream"], protocol="bedrock")
        with pytest.raises(EventStreamError, match="too much"):
            read_all()
    assert types(found)[-1] == "tool_args_invalid"
    assert events.calls[0].verdict == "truncated"


def test_response_that_was_not_streamed_is_refused() -> None:
    body = json.dumps({"output": {"message": {"content": [{"text": "Hi"}]}}}).encode()
    with bedrock(body, "application/json") as client:
        events = list(stream(client.converse(**REQUEST), protocol="bedrock"))
    assert types(events) == ["stream_failed"]
