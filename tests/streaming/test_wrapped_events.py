"""Provider payloads that an SDK or an agent framework wraps in events of its own.

Strands does not install beside the pinned version of mcp. Its events are built here as Strands
1.62.0 yields them. openai-agents has its own tests.
"""

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from argstream import stream
from argstream.events import Event, StreamFailed, TextDelta, ThinkingDelta, TurnCompleted
from argstream.providers import ProtocolName
from tests import provider_streams as api
from tests.answering import answering
from tests.provider_streams import Payload, of_type, outcomes, sse


def read(source: Iterable[object], protocol: ProtocolName = "auto") -> tuple[Any, list[Event]]:
    """Return the stream after its end, for its calls and protocol, and its events."""
    found = stream(source, protocol=protocol)
    events = list(found)
    return found, events


def texts(events: list[Event], kind: type = TextDelta) -> list[str]:
    return [event.text for event in of_type(events, kind)]


def complete_calls(found: Any) -> list[tuple[str, Any]]:
    return [(call.id, call.arguments) for call in found.calls if call.verdict == "complete"]


HEAD = {"id": "cmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mistral"}
CALLS = [
    {"id": "D681PevKs", "function": {"name": "add", "arguments": '{"a": 1, "b": "é"}'}},
    {"id": "9fkPqRsTu", "function": {"name": "add", "arguments": '{"a": 2}'}},
]
USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
MISTRAL: list[Payload] = [
    HEAD | api.chunk(role="assistant", content=""),
    HEAD | api.chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]),
    HEAD | api.chunk(content="Adding."),
    HEAD | api.chunk(tool_calls=CALLS, finish="tool_calls") | {"usage": USAGE},
]
REQUEST: Any = {"model": "mistral", "messages": [{"role": "user", "content": "1 + 2?"}]}


def check_mistral(found: Any, events: list[Event]) -> None:
    assert found.protocol == "openai-chat"
    assert complete_calls(found) == [("D681PevKs", {"a": 1, "b": "é"}), ("9fkPqRsTu", {"a": 2})]
    assert of_type(events, StreamFailed) == []
    assert (texts(events, ThinkingDelta), texts(events)) == (["hm"], ["Adding."])
    (end,) = of_type(events, TurnCompleted)
    assert (end.usage.input_tokens, end.usage.output_tokens) == (7, 5)


async def test_events_of_the_mistral_clients_are_read() -> None:
    from mistralai.client import Mistral

    with answering(sse(MISTRAL, done=True), content_type="text/event-stream") as url:
        with Mistral(api_key="any", server_url=url) as client:
            check_mistral(*read(client.chat.stream(**REQUEST)))
        async with Mistral(api_key="any", server_url=url) as client:
            found = stream(client.chat.stream_async(**REQUEST))
            check_mistral(found, [event async for event in found])


def mistral_events(payloads: list[Payload]) -> list[Any]:
    from mistralai.client.models import CompletionEvent

    return [CompletionEvent.model_validate({"data": HEAD | payload}) for payload in payloads]


@pytest.mark.parametrize("protocol", ["auto", "openai-chat"])
def test_mistral_events_and_their_chunks_are_read_alike(protocol: ProtocolName) -> None:
    events = mistral_events(MISTRAL)
    check_mistral(*read(events, protocol))
    check_mistral(*read([event.data for event in events], protocol))


def test_mistral_calls_without_id_are_separate_although_both_have_index_0() -> None:
    calls = [api.tool_calls(api.entry(f'{{"a": {n}}}', index=None, name="add")) for n in (1, 2)]
    found, _ = read(mistral_events([*calls, api.chunk(finish="tool_calls")]))
    assert outcomes(found.calls) == [{"a": 1}, {"a": 2}]


def strands_message(*blocks: list[Payload], stop: str, indexed: bool) -> list[Payload]:
    """Converse events as Strands yields them; its OpenAI model leaves out the indexes."""
    found: list[Payload] = [{"messageStart": {"role": "assistant"}}]
    for index, block in enumerate(blocks):
        place = {"contentBlockIndex": index} if indexed else {}
        found += [{name: {**place, **body}} for event in block for name, body in event.items()]
    usage = {"inputTokens": 7, "outputTokens": 5, "totalTokens": 12}
    return [*found, {"messageStop": {"stopReason": stop}}, {"metadata": {"usage": usage}}]


def strands_block(start: Payload, *deltas: Payload) -> list[Payload]:
    pieces = [{"contentBlockDelta": {"delta": delta}} for delta in deltas]
    return [{"contentBlockStart": {"start": start}}, *pieces, {"contentBlockStop": {}}]


def strands_call(id_: str, arguments: str) -> list[Payload]:
    start = {"toolUse": {"name": "add", "toolUseId": id_}}
    return strands_block(start, *({"toolUse": {"input": piece}} for piece in arguments))


def run_of_strands(*, indexed: bool) -> list[Payload]:
    """What ``stream_async`` yields: each model event, and callback events about the same."""
    calls = strands_call("tooluse_1", '{"a": 1}'), strands_call("tooluse_2", '{"a": 2}')
    text, done = strands_block({}, {"text": "I add."}), strands_block({}, {"text": "Done."})
    loop = {"agent": SimpleNamespace(), "request_state": {}, "messages": [{"role": "user"}]}
    found: list[Payload] = [{"init_event_loop": True}]
    for message in (
        strands_message(text, *calls, stop="tool_use", indexed=indexed),
        strands_message(done, stop="end_turn", indexed=indexed),
    ):
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
def test_only_the_model_events_of_strands_are_read(protocol: ProtocolName, indexed: bool) -> None:
    found, events = read(run_of_strands(indexed=indexed), protocol)
    assert found.protocol == "bedrock"
    assert complete_calls(found) == [("tooluse_1", {"a": 1}), ("tooluse_2", {"a": 2})]
    assert texts(events) == ["I add.", "Done."]
    assert len([event for event in events if event.type == "tool_call_started"]) == 2
    stops = [event.stop_reason for event in of_type(events, TurnCompleted)]
    assert stops == ["tool_use", "end_turn"]
    assert of_type(events, StreamFailed) == []


def test_model_events_of_strands_are_read_from_json_lines() -> None:
    items = [item for item in run_of_strands(indexed=False) if "event" in item or "start" in item]
    found, _ = read([json.dumps(item).encode() + b"\n" for item in items])
    assert outcomes(found.calls) == [{"a": 1}, {"a": 2}]


def test_text_that_looks_like_a_payload_is_not_unwrapped() -> None:
    inner = json.dumps(api.tool_calls(api.entry("{}", id="call_a", name="tool")))
    found, events = read([{"data": inner}, {"event": inner}])
    assert found.calls == []
    assert [event.code for event in of_type(events, StreamFailed)] == ["unknown_protocol"]
