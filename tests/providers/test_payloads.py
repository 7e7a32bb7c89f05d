"""What all adapters do with a payload, and which protocol it is taken for."""

import pytest
from openai.types.chat import ChatCompletionChunk

from argstream.errors import UsageError
from argstream.providers import UnreadableError, detect, make_adapter
from tests.provider_streams import assemble, chunk, entry, tool_calls, types


def test_fields_that_an_sdk_does_not_know_are_read_too() -> None:
    payload = {**chunk(reasoning_content="hm"), "created": 1, "model": "m"}
    found = ChatCompletionChunk.model_validate(payload)
    adapter = make_adapter("openai-chat")
    assert [type(delta).__name__ for delta in adapter.feed(found)] == [
        "TurnOpened",
        "ThinkingPiece",
    ]


@pytest.mark.parametrize("payload", [b"{", b"[]", b"3", "text", b"\xff{}", b"", b"[" * 100_000])
def test_what_is_no_object_is_unreadable(payload: bytes) -> None:
    with pytest.raises(UnreadableError):
        make_adapter("cohere").feed(payload)


def test_a_field_of_a_wrong_type_is_left_out_and_the_rest_is_kept() -> None:
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
def test_the_protocol_is_found_out_from_a_payload(payload: object, protocol: str | None) -> None:
    assert detect(payload) == protocol


def test_a_protocol_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(UsageError, match="no protocol is called 'openai'; there are: auto, anth"):
        make_adapter("openai")
