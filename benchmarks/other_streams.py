"""One call, as each of the other protocols sends it that stream arguments.

Fields and padding are those of recorded streams; names and ids are made up.
"""

import base64
import json
import random
from collections.abc import Iterable, Iterator

from big_streams import anthropic_payloads
from wire_events import TOOL, aws_message, compact, line, padding, server_sent
from workloads import chunks


def bedrock(_: str, pieces: Iterable[str]) -> Iterator[bytes]:
    """Write Bedrock's ConverseStream."""
    choose = random.Random(8)

    def event(name: str, **fields: object) -> bytes:
        return aws_message(name, {**fields, "p": padding(choose, 50)})

    tool = {"toolUse": {"toolUseId": "tooluse_WxP1qzQ3T0uR2zq4n7XJ1A", "name": TOOL}}
    yield event("messageStart", role="assistant")
    yield event("contentBlockStart", contentBlockIndex=0, start=tool)
    for piece in pieces:
        delta = {"toolUse": {"input": piece}}
        yield event("contentBlockDelta", contentBlockIndex=0, delta=delta)
    yield event("contentBlockStop", contentBlockIndex=0)
    yield event("messageStop", stopReason="tool_use")
    usage = {"inputTokens": 341, "outputTokens": 25_000, "totalTokens": 25_341}
    yield event("metadata", metrics={"latencyMs": 9_000}, usage=usage)


def bedrock_invoke(_: str, pieces: Iterable[str]) -> Iterator[bytes]:
    """Write Claude on Bedrock Invoke: Anthropic's payloads in base64."""
    choose = random.Random(9)
    for payload in anthropic_payloads(pieces):
        data = base64.b64encode(compact(payload).encode()).decode()
        yield aws_message("chunk", {"bytes": data, "p": padding(choose, 50)})


def claude_agent(arguments: str, pieces: Iterable[str]) -> Iterator[bytes]:
    """Write the lines of Claude Code: Anthropic's events, and each block once more in whole."""
    session = {
        "session_id": "3f1c2d64-58a1-4d0b-9a51-0f6f6c1d7c11",
        "parent_tool_use_id": None,
        "uuid": "9f0e9b7e-6f3f-4a39-8d64-7d3f3a0b1c22",
    }
    block: dict[str, object] = {}
    for payload in anthropic_payloads(pieces):
        if payload["type"] == "content_block_start":
            block = {**payload["content_block"], "input": json.loads(arguments)}
        if payload["type"] == "content_block_stop":
            message = {"id": "msg_01TDijN58DzXVn2WcXpw4fBW", "role": "assistant"}
            yield line({"type": "assistant", "message": {**message, "content": [block]}, **session})
        yield line({"type": "stream_event", "event": payload, **session})
    result = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1}
    yield line({**result, "result": "done", **session})


def cohere(_: str, pieces: Iterable[str]) -> Iterator[bytes]:
    """Write Cohere's chat, version 2."""

    def event(type_: str, **fields: object) -> bytes:
        return server_sent(compact({"type": type_, **fields}), type_)

    def call(type_: str, **fields: object) -> bytes:
        return event(type_, index=0, delta={"message": {"tool_calls": fields}})

    message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}
    yield event("message-start", id="2941521a", delta={"message": message})
    function = {"name": TOOL, "arguments": ""}
    yield call("tool-call-start", id="write_e8p4pn45zt0t", type="function", function=function)
    for piece in pieces:
        yield call("tool-call-delta", function={"arguments": piece})
    yield event("tool-call-end", index=0)
    usage = {"tokens": {"input_tokens": 341, "output_tokens": 25_000}}
    yield event("message-end", delta={"finish_reason": "TOOL_CALL", "usage": usage})


def gemini(arguments: str, _: Iterable[str]) -> Iterator[bytes]:
    """Write Gemini's partialArgs: no text, but leaves, each at its path, strings in pieces."""

    def event(call: dict[str, object], **candidate: object) -> bytes:
        content = {"role": "model", "parts": [{"functionCall": call}]}
        payload = {
            "candidates": [{"content": content, **candidate}],
            "usageMetadata": {"trafficType": "ON_DEMAND"},
            "modelVersion": "gemini-3.1-pro-preview",
            "createTime": "2026-04-02T17:03:50.399550Z",
            "responseId": "dqHOab6xGLzWodAPkPuViA4",
        }
        return server_sent(compact(payload))

    yield event({"name": TOOL, "willContinue": True})
    for name, value in json.loads(arguments).items():
        for piece in chunks(value):
            part = {"jsonPath": f"$.{name}", "stringValue": piece, "willContinue": True}
            yield event({"partialArgs": [part], "willContinue": True})
        last = {"jsonPath": f"$.{name}", "stringValue": ""}
        yield event({"partialArgs": [last], "willContinue": True})
    yield event({}, finishReason="STOP")


def gemini_interactions(_: str, pieces: Iterable[str]) -> Iterator[bytes]:
    """Write Gemini's Interactions."""

    def event(type_: str, **fields: object) -> bytes:
        return server_sent(compact({**fields, "event_type": type_}))

    interaction = {"id": "v1_ChdVbXNIYXVEUkVacmpx", "object": "interaction", "model": "gemini"}
    yield event("interaction.created", interaction={**interaction, "status": "in_progress"})
    step = {"id": "61nzpsv4", "type": "function_call", "name": TOOL, "arguments": {}}
    yield event("step.start", index=0, step=step)
    for piece in pieces:
        yield event("step.delta", index=0, delta={"arguments": piece, "type": "arguments_delta"})
    yield event("step.stop", index=0)
    yield event("interaction.completed", interaction={**interaction, "status": "requires_action"})


def openai_realtime(arguments: str, pieces: Iterable[str]) -> Iterator[bytes]:
    """Write a session of OpenAI Realtime, one event a line."""
    choose = random.Random(10)
    ids = {"response_id": "resp_E6U11oof93olA0JOwdA0H"}
    at = {**ids, "item_id": "item_E6U11H8XY7uk9uRetnwLK", "output_index": 0}

    def event(type_: str, **fields: object) -> bytes:
        return line({"type": type_, "event_id": f"event_{padding(choose, 21)}", **fields})

    def item(status: str, text: str) -> dict[str, object]:
        return {
            "id": at["item_id"],
            "object": "realtime.item",
            "type": "function_call",
            "status": status,
            "name": TOOL,
            "call_id": "call_uMNE0Myi2tDTPu0w",
            "arguments": text,
        }

    def response(status: str) -> dict[str, object]:
        return {"object": "realtime.response", "id": ids["response_id"], "status": status}

    call = {**at, "call_id": "call_uMNE0Myi2tDTPu0w"}
    yield event("session.created", session={"type": "realtime", "model": "gpt-realtime"})
    yield event("response.created", response=response("in_progress"))
    added = item("in_progress", "")
    yield event("response.output_item.added", **ids, output_index=0, item=added)
    for piece in pieces:
        type_ = "response.function_call_arguments.delta"
        yield event(type_, **call, delta=piece, obfuscation=padding(choose))
    yield event("response.function_call_arguments.done", **call, name=TOOL, arguments=arguments)
    done = item("completed", arguments)
    yield event("response.output_item.done", **ids, output_index=0, item=done)
    yield event("response.done", response=response("completed"))
