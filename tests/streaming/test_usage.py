"""Usage that the provider has reported is kept, however the turn ends. Unknown counts are None."""

import json
from typing import Any

import msgspec
import pytest

from argstream import stream
from argstream.events import StreamFailed, TurnCompleted, Usage
from argstream.policy import Glob, Policy, Rule
from argstream.providers import ProtocolName
from tests import provider_streams as api
from tests.provider_streams import Payload, of_type
from tests.streaming.faces import Source

# 472 tokens that were not cached, and 100 that were.
COUNTS = {"input_tokens": 472, "cache_read_input_tokens": 100, "output_tokens": 1}
STARTED = [api.message_start(usage=COUNTS), api.tool_use(0), api.input_json(0, '{"path": "/etc/x"')]
FINISHED = [*STARTED, api.input_json(0, "}"), api.block_stop(0), *api.message_end()]

CHAT_USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": None}
GEMINI_USAGE = {"promptTokenCount": 9, "thoughtsTokenCount": 3}
GEMINI_CHUNK = {"candidates": [{"content": {"parts": [{"text": "So"}]}}]}
LIVE_CHUNK = {"serverContent": {"modelTurn": {"parts": [{"text": "So"}]}}}
XAI_CHUNK = {"id": "r", "outputs": [{"delta": {"role": "ROLE_ASSISTANT", "content": "So"}}]}
XAI_USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "reasoning_tokens": 1}
LANGCHAIN_CHUNK = {"type": "AIMessageChunk", "content": "So"}
USAGE = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
BEDROCK_USAGE = {"inputTokens": 9, "outputTokens": 3}
THOUGHTS = Usage(9, 3, reasoning_tokens=3)
CLAUDE_LINES = [
    {"type": "system", "subtype": "init"},
    {"type": "stream_event", "parent_tool_use_id": None, "event": api.message_start(usage=COUNTS)},
]

NO_ETC = Policy([Rule("deny", argument="path", when=Glob("/etc/**"))], default="allow")
NUMBER = {"name": "write", "input_schema": {"properties": {"path": {"type": "integer"}}}}


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ({}, 5),
        ({"policy": NO_ETC}, 1),
        ({"tools": [NUMBER], "stop_on": "rejected"}, 1),
        ({"tools": [NUMBER], "stop_on": "never"}, 5),
    ],
)
def test_turn_has_the_usage_that_was_reported_when_it_ended(options: Any, written: int) -> None:
    events = stream(FINISHED, **options)
    (turn,) = of_type(list(events), TurnCompleted)
    assert turn.usage == events.usage == Usage(572, written, 100)


def test_usage_grows_while_the_stream_is_read_and_is_kept_when_it_is_closed() -> None:
    with stream(iter(FINISHED)) as events:
        assert events.usage == Usage()
        next(events)
        assert events.usage == Usage(572, 1, 100)
    assert events.usage == Usage(572, 1, 100)


def test_stream_whose_source_raises_keeps_its_usage() -> None:
    events = stream(Source(STARTED, ConnectionResetError()))
    with pytest.raises(ConnectionResetError):
        list(events)
    assert events.usage == Usage(572, 1, 100)


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
RESPONSE_FAILED = [
    api.response_created(),
    api.item_added(0, type="function_call", id="fc_1", call_id="call_1", name="write"),
    api.arguments_delta(0, '{"a'),
    api.response_ended("failed", error={"code": "server_error"}, usage=USAGE),
]
INTERACTION_USAGE = {"total_input_tokens": 9, "total_output_tokens": 3}
INTERACTION = {"id": "i", "status": "failed", "usage": INTERACTION_USAGE}
INTERACTION_FAILED = [
    {"event_type": "interaction.created", "interaction": {"id": "i"}},
    {"event_type": "interaction.completed", "interaction": INTERACTION},
]
BLOCKED = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": GEMINI_USAGE}


@pytest.mark.parametrize(
    ("protocol", "payloads", "code", "usage"),
    [
        ("anthropic", [*STARTED, OVERLOADED], "overloaded_error", Usage(572, 1, 100)),
        ("openai-responses", RESPONSE_FAILED, "server_error", Usage(9, 3)),
        ("gemini-interactions", INTERACTION_FAILED, "failed", Usage(9, 3)),
        ("gemini", [BLOCKED], "SAFETY", THOUGHTS),
    ],
)
def test_turn_that_the_provider_fails_keeps_its_usage(
    protocol: ProtocolName, payloads: list[Payload], code: str, usage: Usage
) -> None:
    events = stream(payloads, protocol=protocol)
    assert of_type(list(events), StreamFailed)[0].specific_code == code
    assert events.usage == usage


def test_interrupted_turn_is_part_of_the_sum() -> None:
    events = stream([*STARTED, *FINISHED])
    (turn,) = of_type(list(events), TurnCompleted)
    assert turn.usage == Usage(572, 5, 100)
    assert events.usage == Usage(1144, 6, 200)


def test_usage_after_the_end_of_a_turn_is_ignored() -> None:
    late = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 99}}
    events = stream([*FINISHED, late])
    assert [event.type for event in events][-1] == "turn_completed"
    assert events.usage == Usage(572, 5, 100)
    (failed,) = list(stream([late], protocol="anthropic"))
    assert isinstance(failed, StreamFailed)
    assert failed.code == "empty"  # a stream of nothing but usage


@pytest.mark.parametrize(
    ("protocol", "payloads", "usage"),
    [
        ("anthropic", STARTED, Usage(572, 1, 100)),
        ("claude-agent", CLAUDE_LINES, Usage(572, 1, 100)),
        ("openai-chat", [{**api.chunk(content="So"), "usage": CHAT_USAGE}], Usage(9, 3)),
        ("bedrock", [{"messageStart": {}}, {"metadata": {"usage": BEDROCK_USAGE}}], Usage(9, 3)),
        ("gemini", [{**GEMINI_CHUNK, "usageMetadata": GEMINI_USAGE}], THOUGHTS),
        ("gemini-live", [{**LIVE_CHUNK, "usageMetadata": GEMINI_USAGE}], THOUGHTS),
        ("xai-grpc", [{**XAI_CHUNK, "usage": XAI_USAGE}], Usage(9, 3, 0, reasoning_tokens=1)),
        ("langchain", [{**LANGCHAIN_CHUNK, "usage_metadata": USAGE}], Usage(9, 3)),
    ],
)
def test_cut_stream_keeps_the_usage_reported_before(
    protocol: ProtocolName, payloads: list[Payload], usage: Usage
) -> None:
    events = stream(payloads, protocol=protocol)
    assert of_type(list(events), StreamFailed)[0].code == "truncated"
    assert events.usage == usage


def test_unknown_counts_are_none_and_reported_zeros_are_zero() -> None:
    events = stream(api.chat_call('{"path": 1}'))
    (turn,) = of_type(list(events), TurnCompleted)
    assert turn.usage == events.usage == Usage()
    usage = {**CHAT_USAGE, "prompt_tokens_details": {"cached_tokens": 0}}
    payloads = [*api.chat_call('{"path": 1}'), {"choices": [], "usage": usage}]
    (turn,) = of_type(list(stream(payloads)), TurnCompleted)
    assert (turn.usage.cache_read_tokens, turn.usage.cache_write_tokens) == (0, None)


def test_sum_and_encoding_keep_what_is_unknown() -> None:
    assert Usage() + Usage(3) == Usage(3)
    assert Usage(3, 1) + Usage(4, 0) == Usage(7, 1)
    assert Usage() + Usage() == Usage()
    encoded = msgspec.json.encode(Usage(3))
    assert json.loads(encoded)["output_tokens"] is None
    assert msgspec.json.decode(encoded, type=Usage) == Usage(3)
