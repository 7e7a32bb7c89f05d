"""Payloads in every form: bytes, text, dicts and SDK objects give the same struct."""

from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.types import RawContentBlockDeltaEvent
from msgspec import Struct
from openai.types.chat import ChatCompletionChunk

from argstream.adapters import detect, make_adapter
from argstream.adapters._payloads import PayloadReader, UnreadableError, plain
from argstream.errors import UsageError
from tests.providers import chunk, entry, tool_calls


class Inner(Struct):
    text: str | None = None


class Outer(Struct):
    name: str = ""
    number: int | None = None
    inner: Inner | None = None
    inners: list[Inner] | None = None
    anything: Any = None
    mapping: dict[str, Any] | None = None
    either: str | dict[str, Any] | None = None


read = PayloadReader(Outer)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"name":"a","number":"7","inner":{"text":"x"},"inners":[{"text":"y"}],"unknown":1}',
        '{"name":"a","number":7,"inner":{"text":"x"},"inners":[{"text":"y"}]}',
        {"name": "a", "number": "7", "inner": {"text": "x"}, "inners": [{"text": "y"}]},
        SimpleNamespace(
            name="a",
            number=7,
            inner=SimpleNamespace(text="x"),
            inners=[SimpleNamespace(text="y")],
        ),
    ],
)
def test_every_form_gives_the_same(payload: object) -> None:
    assert read(payload) == Outer("a", 7, Inner("x"), [Inner("y")])


def test_what_does_not_fit_is_left_out_and_the_rest_is_kept() -> None:
    payload = b'{"name":5,"number":"many","inner":"text","inners":{},"mapping":[],"anything":[1]}'
    assert read(payload) == Outer(anything=[1])
    assert read(b'{"either":3,"number":1e400}') == Outer()
    assert read(b'{"either":{"a":1},"name":"\\ud83d"}') == Outer("\ud83d", either={"a": 1})


@pytest.mark.parametrize("payload", [b"{", b"[]", b"3", "text", b"\xff{}", b"", b"[" * 100_000])
def test_what_is_no_object_is_unreadable(payload: bytes) -> None:
    with pytest.raises(UnreadableError):
        read(payload)


def test_fields_that_an_sdk_does_not_know_are_read_too() -> None:
    payload = {**chunk(reasoning_content="hm"), "created": 1, "model": "m"}
    found = ChatCompletionChunk.model_validate(payload)
    adapter = make_adapter("openai-chat")
    assert [type(delta).__name__ for delta in adapter.feed(found)] == [
        "TurnOpened",
        "ThinkingPiece",
    ]


def test_sdk_objects_become_plain_json_where_they_are_kept() -> None:
    event = RawContentBlockDeltaEvent.model_validate(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "x", "new": 1},
        }
    )
    assert plain(event)["delta"] == {"type": "text_delta", "text": "x", "new": 1}
    assert plain(SimpleNamespace(a=(1, {"b": None}))) == {"a": [1, {"b": None}]}
    assert plain(object()) is None


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
