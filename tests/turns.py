"""One call in pieces, as each protocol that streams arguments sends it.

For tests of behaviour that all protocols share. Payloads are minimal; recordings/ and the tests
of the adapters have real ones.
"""

import base64
import json
from collections.abc import Callable, Iterable
from struct import pack
from typing import Any, NamedTuple
from zlib import crc32

from argstream.providers import ProtocolName
from tests.provider_streams import (
    FUNCTION_CALL,
    Payload,
    anthropic_call,
    arguments_delta,
    arguments_done,
    chat_call,
    item_added,
    item_done,
    responses_call,
    sse,
)


class Streamed(NamedTuple):
    """How a protocol sends a call."""

    protocol: ProtocolName
    payloads: Callable[..., list[Payload]]  # from the pieces of the arguments' text
    wire: Callable[[Iterable[Payload]], bytes]

    def body(self, *pieces: str) -> bytes:
        return self.wire(self.payloads(*pieces))


def json_lines(payloads: Iterable[Payload]) -> bytes:
    return b"".join(json.dumps(payload).encode() + b"\n" for payload in payloads)


def aws_header(name: str, value: str) -> bytes:
    return pack(">B", len(name)) + name.encode() + pack(">BH", 7, len(value)) + value.encode()


def aws_message(headers: bytes, payload: bytes) -> bytes:
    prelude = pack(">II", 16 + len(headers) + len(payload), len(headers))
    body = prelude + pack(">I", crc32(prelude)) + headers + payload
    return body + pack(">I", crc32(body))


def aws_event(name: str, payload: bytes) -> bytes:
    headers = aws_header(":message-type", "event") + aws_header(":event-type", name)
    return aws_message(headers, payload)


def _bedrock(*pieces: str) -> list[Payload]:
    tool = {"toolUse": {"toolUseId": "tooluse_1", "name": "write"}}
    usage = {"inputTokens": 7, "outputTokens": 5, "totalTokens": 12}
    deltas = [{"contentBlockIndex": 0, "delta": {"toolUse": {"input": piece}}} for piece in pieces]
    return [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockStart": {"contentBlockIndex": 0, "start": tool}},
        *({"contentBlockDelta": delta} for delta in deltas),
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "tool_use"}},
        {"metadata": {"usage": usage, "metrics": {"latencyMs": 3}}},
    ]


def _bedrock_wire(payloads: Iterable[Payload]) -> bytes:
    return b"".join(
        aws_event(name, json.dumps(value).encode())
        for payload in payloads
        for name, value in payload.items()
    )


def _bedrock_invoke_wire(payloads: Iterable[Payload]) -> bytes:
    encoded = (base64.b64encode(json.dumps(payload).encode()).decode() for payload in payloads)
    return b"".join(aws_event("chunk", json.dumps({"bytes": text}).encode()) for text in encoded)


def _claude_agent(*pieces: str) -> list[Payload]:
    session: Payload = {"session_id": "s", "uuid": "u"}
    events = [
        {"type": "stream_event", "event": event, "parent_tool_use_id": None, **session}
        for event in anthropic_call(*pieces)
    ]
    result = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1}
    return [*events, {**result, "result": "done", **session}]


def _cohere(*pieces: str) -> list[Payload]:
    def call(type_: str, **fields: Any) -> Payload:
        return {"type": type_, "index": 0, "delta": {"message": {"tool_calls": fields}}}

    function = {"name": "write", "arguments": ""}
    end = {"finish_reason": "TOOL_CALL", "usage": {"tokens": {"input_tokens": 7}}}
    return [
        {"type": "message-start", "id": "m", "delta": {"message": {"role": "assistant"}}},
        call("tool-call-start", id="write_1", type="function", function=function),
        *(call("tool-call-delta", function={"arguments": piece}) for piece in pieces),
        {"type": "tool-call-end", "index": 0},
        {"type": "message-end", "delta": end},
    ]


def _gemini_interactions(*pieces: str) -> list[Payload]:
    step = {"type": "function_call", "id": "f1", "name": "write", "arguments": {}}
    interaction = {"id": "i1", "model": "gemini", "status": "in_progress"}
    completed = {**interaction, "status": "requires_action"}
    deltas = [{"type": "arguments_delta", "arguments": piece} for piece in pieces]
    return [
        {"event_type": "interaction.created", "interaction": interaction},
        {"event_type": "step.start", "index": 0, "step": step},
        *({"event_type": "step.delta", "index": 0, "delta": delta} for delta in deltas),
        {"event_type": "step.stop", "index": 0},
        {"event_type": "interaction.completed", "interaction": completed},
    ]


def _langchain(*pieces: str) -> list[Payload]:
    def chunk(**fields: Any) -> Payload:
        return {"type": "AIMessageChunk", "content": "", "id": "run--1", **fields}

    def call(args: str, **fields: Any) -> Payload:
        entry = {"name": None, "id": None, "index": 0, "args": args, "type": "tool_call_chunk"}
        return chunk(tool_call_chunks=[{**entry, **fields}])

    return [
        call("", name="write", id="call_1"),
        *(call(piece) for piece in pieces),
        chunk(response_metadata={"finish_reason": "tool_calls"}, chunk_position="last"),
    ]


def _openai_realtime(*pieces: str) -> list[Payload]:
    text = "".join(pieces)
    item = {**FUNCTION_CALL, "status": "in_progress"}
    done = {**FUNCTION_CALL, "status": "completed", "arguments": text}
    response = {"object": "realtime.response", "id": "resp_1", "output": []}
    payloads = [
        {"type": "session.created", "session": {"model": "gpt-realtime"}},
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        item_added(0, **item),
        *(arguments_delta(0, piece, item_id="fc_1", call_id="call_1") for piece in pieces),
        {**arguments_done(0, text), "item_id": "fc_1", "call_id": "call_1", "name": "write"},
        item_done(0, **done),
        {"type": "response.done", "response": {**response, "status": "completed"}},
    ]
    return [
        {"event_id": f"event_{number}", "response_id": "resp_1", **payload}
        for number, payload in enumerate(payloads)
    ]


def _openai_agents(*pieces: str) -> list[Payload]:
    return [{"type": "raw_response_event", "data": event} for event in responses_call(*pieces)]


def _pydantic_ai(*pieces: str) -> list[Payload]:
    part = {"part_kind": "tool-call", "tool_name": "write", "tool_call_id": "call_1"}
    delta = {"part_delta_kind": "tool_call", "tool_call_id": "call_1"}
    whole = {**part, "args": "".join(pieces)}
    return [
        {"event_kind": "part_start", "index": 0, "part": {**part, "args": None}},
        *(
            {"event_kind": "part_delta", "index": 0, "delta": {**delta, "args_delta": piece}}
            for piece in pieces
        ),
        {"event_kind": "part_end", "index": 0, "part": whole},
        {"event_kind": "function_tool_call", "part": whole, "args_valid": True},
    ]


STREAMED = [
    Streamed("anthropic", anthropic_call, sse),
    Streamed("bedrock", _bedrock, _bedrock_wire),
    Streamed("bedrock-invoke", anthropic_call, _bedrock_invoke_wire),
    Streamed("claude-agent", _claude_agent, json_lines),
    Streamed("cohere", _cohere, sse),
    Streamed("gemini-interactions", _gemini_interactions, sse),
    Streamed("langchain", _langchain, json_lines),
    Streamed("openai-agents", _openai_agents, json_lines),
    Streamed("openai-chat", chat_call, sse),
    Streamed("openai-realtime", _openai_realtime, json_lines),
    Streamed("openai-responses", responses_call, sse),
    Streamed("pydantic-ai", _pydantic_ai, json_lines),
]
