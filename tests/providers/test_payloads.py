"""Behaviour of all adapters, and detection of the protocol."""

import pytest

from argstream import stream
from argstream.providers import detect, make_decoder
from tests import provider_streams as providers
from tests.provider_streams import assemble, chunk, entry, tool_calls, types
from tests.turns import STREAMED, Streamed


@pytest.mark.parametrize("streamed", STREAMED, ids=lambda one: one.protocol)
def test_call_starts_at_once_and_its_arguments_grow(streamed: Streamed) -> None:
    events = stream([streamed.body("", '{"path": "/t', 'mp", "n": [1]}')], streamed.protocol)
    found = [type_ for type_ in types(events) if type_ not in ("turn_completed", "run_completed")]
    assert found == [
        *providers.ONE_ARGUMENT_IN_TWO_PIECES[:-1],
        *("argument_started", "argument_started", "argument_completed", "argument_completed"),
        "tool_args_completed",
    ]
    assert [call.arguments for call in events.calls] == [{"path": "/tmp", "n": [1]}]


def test_fields_that_an_sdk_does_not_know_are_read() -> None:
    from openai.types.chat import ChatCompletionChunk

    payload = {**chunk(reasoning_content="hm"), "created": 1, "model": "m"}
    deltas = make_decoder("openai-chat").feed(ChatCompletionChunk.model_validate(payload))
    assert [type(delta).__name__ for delta in deltas] == ["TurnOpened", "ThinkingPiece"]


def test_field_of_a_wrong_type_is_ignored() -> None:
    payload = b'{"id":5,"model":["m"],"usage":[],"choices":[{"index":"0","delta":{"content":"a"}}]}'
    _, events = assemble([payload, b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'])
    assert types(events) == ["text_delta", "turn_completed"]
    _, events = assemble([b'{"choices":[{"index":1e400,"delta":{"content":"a"}}]}'])
    assert types(events) == ["stream_failed"]


@pytest.mark.parametrize(
    ("payload", "protocol"),
    [
        ({"type": "message_start"}, "anthropic"),
        ({"type": "ping"}, "anthropic"),
        ({"type": "message"}, "anthropic"),
        ({"type": "error", "error": {"type": "x"}}, "anthropic"),
        ({"type": "error", "error": {"type": "x"}, "sequence_number": 1}, "openai-responses"),
        ({"type": "error", "message": "x"}, "openai-responses"),
        ({"type": "response.created"}, "openai-responses"),
        ({"object": "response", "output": []}, "openai-responses"),
        ({"choices": []}, "openai-chat"),
        (tool_calls(entry("{}")), "openai-chat"),
        ({"object": "chat.completion.chunk"}, "openai-chat"),
        ({"error": {"message": "x"}}, "openai-chat"),
        (b"[DONE]", "openai-chat"),
        ({"bytes": "e30="}, "bedrock-invoke"),
        ({"chunk": {"bytes": b"{}"}}, "bedrock-invoke"),
        ({"type": "unheard_of"}, None),
        (b"no json", None),
    ],
)
def test_protocol_is_detected_from_a_payload(payload: object, protocol: str | None) -> None:
    assert detect(payload) == protocol
