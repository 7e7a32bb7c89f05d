"""Gemini's live sessions: whole calls amid turns, transcriptions, and calls that are taken back."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.genai import types as google

from argstream import stream
from argstream.assembly import Assembler, Call
from argstream.events import (
    Event,
    StreamFailed,
    TextDelta,
    ToolCallFailed,
    TurnCompleted,
    Usage,
)
from argstream.history import CallPart, TextPart
from tests import provider_streams as providers
from tests.provider_streams import (
    joined,
    of_type,
    types,
)

SETUP: Any = {"setupComplete": {}}
USAGE = {"promptTokenCount": 7, "responseTokenCount": 5, "thoughtsTokenCount": 2}
DONE: Any = {"serverContent": {"turnComplete": True}, "usageMetadata": USAGE}
AUDIO: Any = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "QgBK"}}


def tool_call(*calls: Any) -> Any:
    return {"toolCall": {"functionCalls": list(calls)}}


def function(name: str = "write", id_: str = "fc_1", **fields: Any) -> Any:
    return {"name": name, "id": id_, **fields}


def says(text: str) -> Any:
    return {"serverContent": {"outputTranscription": {"text": text}}}


def parts(*found: Any) -> Any:
    return {"serverContent": {"modelTurn": {"parts": list(found)}}}


def assemble(*payloads: Any) -> tuple[list[Call], list[Event]]:
    return providers.assemble(payloads, protocol="gemini-live")


@pytest.mark.parametrize("arguments", [{"args": {}}, {}, {"args": {"a": 1}}])
def test_a_call_is_complete_when_it_comes(arguments: Any) -> None:
    """Gemini waits for its result, so nothing more can come to say that it is whole."""
    assembler = Assembler("gemini-live")
    assembler.feed(SETUP)
    events = assembler.feed(tool_call(function(**arguments)))
    assert types(events)[-1] == "tool_args_completed"
    assert assembler.calls[0].arguments == arguments.get("args", {})
    assert assembler.calls[0].id == "fc_1"


def test_a_turn_may_go_on_after_the_result_of_its_call() -> None:
    _, events = assemble(SETUP, tool_call(function(args={"a": 1})), says("It"), says(" is"), DONE)
    (turn,) = of_type(events, TurnCompleted)
    assert [type(part) for part in turn.message.parts] == [CallPart, TextPart]
    assert turn.stop_reason == "turnComplete"
    assert turn.usage == Usage(input_tokens=7, output_tokens=7, reasoning_tokens=2)


def test_or_the_result_may_begin_another_turn() -> None:
    _, events = assemble(SETUP, tool_call(function()), DONE, says("It is"), DONE)
    turns = of_type(events, TurnCompleted)
    assert [[type(part) for part in turn.message.parts] for turn in turns] == [
        [CallPart],
        [TextPart],
    ]


def test_what_is_said_aloud_is_shown_and_its_audio_is_not_kept() -> None:
    both = {
        "serverContent": {"modelTurn": {"parts": [AUDIO]}, "outputTranscription": {"text": "!"}}
    }
    _, events = assemble(says("hello"), parts(AUDIO), both, DONE)
    assert joined(events)[0] == TextDelta("hello!", 0)
    assert of_type(events, TurnCompleted)[0].message.parts == (TextPart(text="hello!"),)


def test_what_the_user_says_is_not_shown_as_the_models_words() -> None:
    heard = {"serverContent": {"inputTranscription": {"text": "what time is it"}}}
    _, events = assemble(heard, says("noon"), DONE)
    assert of_type(events, TextDelta) == [TextDelta("noon", 0)]


def test_a_call_that_is_taken_back_has_failed() -> None:
    interrupted = {"serverContent": {"interrupted": True}}
    cancelled = {"toolCallCancellation": {"ids": ["fc_1", "unknown"]}}
    calls, events = assemble(tool_call(function()), interrupted, cancelled, DONE, says("ok"), DONE)
    (failed,) = of_type(events, ToolCallFailed)
    assert (failed.call_id, failed.name) == ("fc_1", "write")
    assert "cancelled" in failed.error
    assert calls[0].verdict == "complete"  # it was; what became of it is another matter
    assert [turn.stop_reason for turn in of_type(events, TurnCompleted)] == [
        "interrupted",
        "turnComplete",
    ]


def test_a_call_may_be_taken_back_after_its_turn() -> None:
    _, events = assemble(tool_call(function()), DONE, {"toolCallCancellation": {"ids": ["fc_1"]}})
    assert types(events)[-1] == "tool_call_failed"


def test_a_turn_that_is_complete_for_a_bad_reason_says_so() -> None:
    content = {"turnComplete": True, "turnCompleteReason": "MALFORMED_FUNCTION_CALL"}
    _, events = assemble(says("hm"), {"serverContent": content})
    assert of_type(events, TurnCompleted)[0].stop_reason == "MALFORMED_FUNCTION_CALL"


def test_messages_about_the_session_are_nothing_the_model_said() -> None:
    about = [
        {"goAway": {"timeLeft": "10s"}},
        {"sessionResumptionUpdate": {"newHandle": "h", "resumable": True}},
        {"serverContent": {}},
        {"serverContent": {"generationComplete": True}},
        {"serverContent": {"outputTranscription": {"finished": True}}},
        {"brandNew": {"text": 7}},
    ]
    _, events = assemble(SETUP, *about, says("hi"), *about, DONE, *about)
    assert types(events) == ["text_delta", "turn_completed"]


def test_an_error_is_a_failure() -> None:
    error = {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
    _, events = assemble(says("hi"), error)
    assert events[-1] == StreamFailed("RESOURCE_EXHAUSTED", "slow down", retryable=True)


def test_a_key_given_twice_is_not_chosen_from() -> None:
    payload = json.dumps(tool_call(function(args={"a": 1, "b": 2}))).replace('"b"', '"a"')
    calls, events = assemble(payload.encode())
    assert not calls
    assert types(events)[0] == "stream_failed"


@pytest.mark.parametrize(
    "payload", [b"nonsense", b"[]", b'{"toolCall":{"functionCalls":7}}', b'{"serverContent":7}']
)
def test_a_message_of_a_wrong_form_is_told(payload: bytes) -> None:
    _, events = assemble(says("hi"), payload, DONE)
    assert [event.code for event in of_type(events, StreamFailed)] == ["bad_payload"]


SESSION = [
    SETUP,
    parts({"text": "hm", "thought": True}),
    tool_call(function(args={"myKey": [1]})),
    says("so"),
    parts(AUDIO),
    {"serverContent": {"generationComplete": True}},
    DONE,
    tool_call(function("other", "fc_2")),
    {"toolCallCancellation": {"ids": ["fc_2"]}},
    DONE,
]


def test_messages_of_the_sdk_mean_the_same() -> None:
    async def receive() -> AsyncIterator[google.LiveServerMessage]:
        for payload in SESSION:
            yield google.LiveServerMessage.model_validate(payload)

    async def read() -> list[Event]:
        return [event async for event in stream(receive(), "gemini-live")]

    assert asyncio.run(read()) == assemble(*SESSION)[1]


def test_bytes_and_text_mean_the_same() -> None:
    expected = assemble(*SESSION)[1]
    assert assemble(*(json.dumps(payload) for payload in SESSION))[1] == expected
    assert assemble(*(json.dumps(payload).encode() for payload in SESSION))[1] == expected


def test_a_cancellation_in_snake_case_is_seen() -> None:
    calls = {"tool_call": {"function_calls": [{"id": "x", "name": "f", "args": {}}]}}
    cancelled = {"tool_call_cancellation": {"ids": ["x"]}}
    _, events = assemble(json.dumps(calls), json.dumps(cancelled))
    assert "tool_call_failed" in types(events)


def test_usage_after_the_end_of_a_turn_is_not_that_of_the_next() -> None:
    late = {"usageMetadata": {"promptTokenCount": 99}}
    done = {"serverContent": {"turnComplete": True}}
    _, events = assemble(says("a"), done, late, says("b"), done)
    assert [turn.usage.input_tokens for turn in of_type(events, TurnCompleted)] == [None, None]
