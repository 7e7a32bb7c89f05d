"""Provider payloads that an SDK or an agent framework wraps in events of its own.

openai-agents and Strands do not install beside the pinned versions of websockets and mcp. Their
events are built here as openai-agents 0.24.0 and Strands 1.62.0 yield them; the payloads inside are
real objects of the OpenAI SDK, and dicts, as in Strands itself.
"""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from mistralai.client import Mistral
from mistralai.client.models import CompletionEvent
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from argstream import stream
from argstream.events import (
    Event,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    ToolCallStarted,
    TurnCompleted,
)
from argstream.providers import ProtocolName
from tests.answering import answering
from tests.provider_streams import (
    Payload,
    arguments_delta,
    arguments_done,
    chunk,
    entry,
    item_added,
    item_done,
    of_type,
    sse,
    tool_calls,
)


def read(source: Iterable[object], protocol: ProtocolName = "auto") -> tuple[Any, list[Event]]:
    """Return the stream after its end, for its calls and protocol, and its events."""
    found = stream(source, protocol=protocol)
    events = list(found)
    return found, events


# The Mistral SDK

HEAD: Payload = {
    "id": "cmpl-1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "mistral",
}
CALLS = [
    {"id": "D681PevKs", "function": {"name": "add", "arguments": '{"a": 1, "b": "é"}'}},
    {"id": "9fkPqRsTu", "function": {"name": "add", "arguments": '{"a": 2}'}},
]
MISTRAL: list[Payload] = [
    HEAD | chunk(role="assistant", content=""),
    HEAD | chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]),
    HEAD | chunk(content="Adding."),
    HEAD
    | chunk(tool_calls=CALLS, finish="tool_calls")
    | {"usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}},
]
MESSAGES: Any = [{"role": "user", "content": "1 + 2?"}]


def check_mistral(found: Any, events: list[Event]) -> None:
    assert found.protocol == "openai-chat"
    assert [(call.id, call.arguments, call.verdict) for call in found.calls] == [
        ("D681PevKs", {"a": 1, "b": "é"}, "complete"),
        ("9fkPqRsTu", {"a": 2}, "complete"),
    ]
    assert of_type(events, StreamFailed) == []
    assert [event.text for event in of_type(events, ThinkingDelta)] == ["hm"]
    assert [event.text for event in of_type(events, TextDelta)] == ["Adding."]
    (end,) = of_type(events, TurnCompleted)
    assert (end.usage.input_tokens, end.usage.output_tokens) == (7, 5)


def test_events_of_the_mistral_client_are_read() -> None:
    with (
        answering(sse(MISTRAL, done=True), content_type="text/event-stream") as url,
        Mistral(api_key="any", server_url=url) as client,
    ):
        check_mistral(*read(client.chat.stream(model="mistral", messages=MESSAGES)))


def test_events_of_the_async_mistral_client_are_read() -> None:
    async def main(url: str) -> None:
        async with Mistral(api_key="any", server_url=url) as client:
            found = stream(client.chat.stream_async(model="mistral", messages=MESSAGES))
            check_mistral(found, [event async for event in found])

    with answering(sse(MISTRAL, done=True), content_type="text/event-stream") as url:
        asyncio.run(main(url))


def mistral_event(payload: Payload) -> CompletionEvent:
    return CompletionEvent.model_validate({"data": HEAD | payload})


@pytest.mark.parametrize("protocol", ["auto", "openai-chat"])
def test_mistral_events_and_their_chunks_say_the_same(protocol: ProtocolName) -> None:
    events = [mistral_event(payload) for payload in MISTRAL]
    check_mistral(*read(events, protocol))
    check_mistral(*read([event.data for event in events], protocol))


def test_mistral_calls_without_an_id_are_told_apart_though_the_sdk_gives_both_index_0() -> None:
    payloads = [
        tool_calls(entry('{"a": 1}', index=None, name="add")),
        tool_calls(entry('{"a": 2}', index=None, name="add")),
        chunk(finish="tool_calls"),
    ]
    found, _ = read([mistral_event(payload) for payload in payloads])
    assert [call.arguments for call in found.calls] == [{"a": 1}, {"a": 2}]


# openai-agents


@dataclass
class RawResponsesStreamEvent:
    data: Any
    type: Literal["raw_response_event"] = "raw_response_event"


@dataclass
class RunItemStreamEvent:
    name: str
    item: Any
    type: Literal["run_item_stream_event"] = "run_item_stream_event"


@dataclass
class AgentUpdatedStreamEvent:
    new_agent: Any
    type: Literal["agent_updated_stream_event"] = "agent_updated_stream_event"


_event: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def response(id_: str, status: str) -> Payload:
    settings = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {
        "id": id_,
        "object": "response",
        "created_at": 1,
        "model": "gpt",
        "output": [],
        "status": status,
        **settings,
    }


def response_events(id_: str, call_id: str, arguments: str) -> list[object]:
    """The events of one response, as objects of the OpenAI SDK."""
    item = {"type": "function_call", "id": f"fc_{id_}", "call_id": call_id, "name": "add"}
    payloads: list[Payload] = [
        {"type": "response.created", "response": response(id_, "in_progress")},
        item_added(0, **item, arguments="", status="in_progress"),
        *(arguments_delta(0, piece, item_id=f"fc_{id_}") for piece in arguments),
        {**arguments_done(0, arguments), "item_id": f"fc_{id_}", "name": "add"},
        item_done(0, **item, arguments=arguments, status="completed"),
        {"type": "response.completed", "response": response(id_, "completed")},
    ]
    return [
        _event.validate_python({**payload, "sequence_number": number})
        for number, payload in enumerate(payloads)
    ]


def run_of_openai_agents() -> list[object]:
    def item(kind: str) -> SimpleNamespace:
        return SimpleNamespace(type=kind, raw_item={"type": kind}, agent=None)

    def wrapped(*response: str) -> list[object]:
        return [RawResponsesStreamEvent(event) for event in response_events(*response)]

    return [
        AgentUpdatedStreamEvent(SimpleNamespace(name="adder")),
        *wrapped("resp_1", "call_1", '{"a":1}'),
        RunItemStreamEvent("tool_called", item("tool_call_item")),
        RunItemStreamEvent("tool_output", item("tool_call_output_item")),
        *wrapped("resp_2", "call_2", '{"a":2}'),
        RunItemStreamEvent("tool_called", item("tool_call_item")),
    ]


@pytest.mark.parametrize("protocol", ["auto", "openai-responses"])
def test_raw_events_of_openai_agents_are_read_and_its_own_events_are_ignored(
    protocol: ProtocolName,
) -> None:
    found, events = read(run_of_openai_agents(), protocol)
    assert found.protocol == "openai-responses"
    assert [(call.id, call.arguments, call.verdict) for call in found.calls] == [
        ("call_1", {"a": 1}, "complete"),
        ("call_2", {"a": 2}, "complete"),
    ]
    assert len(of_type(events, TurnCompleted)) == 2
    bare = [*response_events("resp_1", "call_1", '{"a":1}')]
    bare += response_events("resp_2", "call_2", '{"a":2}')
    assert events == list(stream(bare))


# Strands


def strands_message(*blocks: list[Payload], stop: str, indexed: bool) -> list[Payload]:
    """Converse events as Strands yields them; its OpenAI model leaves out the indexes."""
    found: list[Payload] = [{"messageStart": {"role": "assistant"}}]
    for index, block in enumerate(blocks):
        place = {"contentBlockIndex": index} if indexed else {}
        found += [{name: {**place, **body}} for event in block for name, body in event.items()]
    usage = {"inputTokens": 7, "outputTokens": 5, "totalTokens": 12}
    return [*found, {"messageStop": {"stopReason": stop}}, {"metadata": {"usage": usage}}]


def strands_text(text: str) -> list[Payload]:
    return [
        {"contentBlockStart": {"start": {}}},
        {"contentBlockDelta": {"delta": {"text": text}}},
        {"contentBlockStop": {}},
    ]


def strands_call(id_: str, arguments: str) -> list[Payload]:
    return [
        {"contentBlockStart": {"start": {"toolUse": {"name": "add", "toolUseId": id_}}}},
        *({"contentBlockDelta": {"delta": {"toolUse": {"input": piece}}}} for piece in arguments),
        {"contentBlockStop": {}},
    ]


def run_of_strands(*, indexed: bool) -> list[Payload]:
    """What ``stream_async`` yields: each model event, and callback events about the same."""
    first = strands_message(
        strands_text("I add."),
        strands_call("tooluse_1", '{"a": 1}'),
        strands_call("tooluse_2", '{"a": 2}'),
        stop="tool_use",
        indexed=indexed,
    )
    second = strands_message(strands_text("Done."), stop="end_turn", indexed=indexed)
    loop = {"agent": SimpleNamespace(), "request_state": {}, "messages": [{"role": "user"}]}
    found: list[Payload] = [{"init_event_loop": True}]
    for message in (first, second):
        found += [{"start": True}, {"start_event_loop": True}]
        for event in message:
            found.append({"event": event})
            match event:
                case {"contentBlockDelta": {"delta": {"text": text} as delta}}:
                    found.append({"data": text, "delta": delta, **loop})
                case {"contentBlockDelta": {"delta": delta}}:
                    tool = {"name": "add", "input": {}}
                    kind = {"type": "tool_use_stream", "current_tool_use": tool}
                    found.append({**kind, "delta": delta, **loop})
        found.append({"message": {"role": "assistant", "content": [{"text": "I add."}]}})
    return [*found, {"result": SimpleNamespace(stop_reason="end_turn")}]


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("protocol", ["auto", "bedrock"])
def test_model_events_of_strands_are_read_and_its_other_events_are_ignored(
    protocol: ProtocolName, indexed: bool
) -> None:
    found, events = read(run_of_strands(indexed=indexed), protocol)
    assert found.protocol == "bedrock"
    assert [(call.id, call.arguments, call.verdict) for call in found.calls] == [
        ("tooluse_1", {"a": 1}, "complete"),
        ("tooluse_2", {"a": 2}, "complete"),
    ]
    assert [event.text for event in of_type(events, TextDelta)] == ["I add.", "Done."]
    assert [event.call_id for event in of_type(events, ToolCallStarted)] == [
        "tooluse_1",
        "tooluse_2",
    ]
    assert [event.stop_reason for event in of_type(events, TurnCompleted)] == [
        "tool_use",
        "end_turn",
    ]
    assert of_type(events, StreamFailed) == []


def test_model_events_of_strands_are_read_from_json_lines() -> None:
    lines = [
        json.dumps(item).encode() + b"\n"
        for item in run_of_strands(indexed=False)
        if "event" in item or "start" in item
    ]
    found, _ = read(lines)
    assert [call.arguments for call in found.calls] == [{"a": 1}, {"a": 2}]


def test_text_that_looks_like_a_payload_is_not_unwrapped() -> None:
    inner = json.dumps(tool_calls(entry("{}", id="call_a", name="tool")))
    found, events = read([{"data": inner}, {"event": inner}])
    assert found.calls == []
    assert [event.code for event in of_type(events, StreamFailed)] == ["unknown_protocol"]
