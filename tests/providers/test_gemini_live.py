"""Gemini's live sessions: whole calls inside turns, transcriptions and cancelled calls."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from argstream import stream
from argstream.assembly import Assembler, Call
from argstream.events import Event, TextDelta, ToolCallFailed, Usage
from argstream.history import CallPart, TextPart
from tests import provider_streams as providers
from tests.provider_streams import failures, joined, of_type, provider_failed, texts, turns, types

SETUP: Any = {"setupComplete": {}}
USAGE = {"promptTokenCount": 7, "responseTokenCount": 5, "thoughtsTokenCount": 2}
DONE: Any = {"serverContent": {"turnComplete": True}, "usageMetadata": USAGE}
AUDIO: Any = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "QgBK"}}


def tool_call(*calls: Any) -> Any:
    return {"toolCall": {"functionCalls": list(calls)}}


def function(name: str = "write", id_: str = "fc_1", **fields: Any) -> Any:
    return {"name": name, "id": id_, **fields}


def cancelled(*ids: str) -> Any:
    return {"toolCallCancellation": {"ids": list(ids)}}


def says(text: str) -> Any:
    return {"serverContent": {"outputTranscription": {"text": text}}}


def parts(*found: Any) -> Any:
    return {"serverContent": {"modelTurn": {"parts": list(found)}}}


def assemble(*payloads: Any) -> tuple[list[Call], list[Event]]:
    return providers.assemble(payloads, protocol="gemini-live")


@pytest.mark.parametrize("arguments", [{"args": {}}, {}, {"args": {"a": 1}}])
def test_call_is_complete_at_once(arguments: Any) -> None:
    """Gemini waits for the result, so no payload can follow that closes the call."""
    assembler = Assembler("gemini-live")
    assembler.feed(SETUP)
    events = assembler.feed(tool_call(function(**arguments)))
    assert types(events)[-1] == "tool_args_completed"
    assert assembler.calls[0].arguments == arguments.get("args", {})
    assert assembler.calls[0].id == "fc_1"


def test_turn_continues_after_a_call_or_another_one_starts() -> None:
    _, events = assemble(SETUP, tool_call(function(args={"a": 1})), says("It"), says(" is"), DONE)
    (turn,) = turns(events)
    assert [type(part) for part in turn.message.parts] == [CallPart, TextPart]
    assert (turn.stop_reason, turn.usage) == ("turnComplete", Usage(7, 7, reasoning_tokens=2))
    found = turns(assemble(SETUP, tool_call(function()), DONE, says("It is"), DONE)[1])
    assert [type(part) for turn in found for part in turn.message.parts] == [CallPart, TextPart]


def test_output_transcription_is_text_and_audio_is_not_kept() -> None:
    content = {"modelTurn": {"parts": [AUDIO]}, "outputTranscription": {"text": "!"}}
    _, events = assemble(says("hello"), parts(AUDIO), {"serverContent": content}, DONE)
    assert joined(events)[0] == TextDelta("hello!", 0)
    assert turns(events)[0].message.parts == (TextPart(text="hello!"),)


def test_cancelled_call_has_failed() -> None:
    interrupted = {"serverContent": {"interrupted": True}}
    taken_back = [interrupted, cancelled("fc_1", "unknown"), DONE]
    calls, events = assemble(tool_call(function()), *taken_back, says("ok"), DONE)
    (failed,) = of_type(events, ToolCallFailed)
    assert (failed.call_id, failed.name) == ("fc_1", "write")
    assert "cancelled" in failed.error
    assert calls[0].verdict == "complete"
    assert [turn.stop_reason for turn in turns(events)] == ["interrupted", "turnComplete"]
    _, events = assemble(tool_call(function()), DONE, cancelled("fc_1"))
    assert types(events)[-1] == "tool_call_failed"
    snake = {"tool_call": {"function_calls": [{"id": "x", "name": "f", "args": {}}]}}
    _, events = assemble(json.dumps(snake), json.dumps({"tool_call_cancellation": {"ids": ["x"]}}))
    assert "tool_call_failed" in types(events)


def test_reason_of_a_complete_turn_is_its_stop_reason() -> None:
    content = {"turnComplete": True, "turnCompleteReason": "MALFORMED_FUNCTION_CALL"}
    _, events = assemble(says("hm"), {"serverContent": content})
    assert turns(events)[0].stop_reason == "MALFORMED_FUNCTION_CALL"


def test_messages_about_the_session_and_the_user_are_ignored() -> None:
    about = [
        {"goAway": {"timeLeft": "10s"}},
        {"sessionResumptionUpdate": {"newHandle": "h", "resumable": True}},
        {"serverContent": {}},
        {"serverContent": {"generationComplete": True}},
        {"serverContent": {"outputTranscription": {"finished": True}}},
        {"serverContent": {"inputTranscription": {"text": "what time is it"}}},
        {"brandNew": {"text": 7}},
    ]
    _, events = assemble(SETUP, *about, says("noon"), *about, DONE, *about)
    assert types(events) == ["text_delta", "turn_completed"]
    assert texts(events) == ["noon"]


def test_error_is_a_failure() -> None:
    error = {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
    _, events = assemble(says("hi"), error)
    assert events[-1] == provider_failed("RESOURCE_EXHAUSTED", "slow down", retryable=True)


DUPLICATE = json.dumps(tool_call(function(args={"a": 1, "b": 2}))).replace('"b"', '"a"').encode()


@pytest.mark.parametrize(
    "payload",
    [b"nonsense", b"[]", b'{"toolCall":{"functionCalls":7}}', b'{"serverContent":7}', DUPLICATE],
)
def test_unreadable_message_is_a_failure(payload: bytes) -> None:
    calls, events = assemble(says("hi"), payload, DONE)
    assert calls == []
    assert [event.code for event in failures(events)] == ["bad_payload"]


SESSION = [
    *(SETUP, parts({"text": "hm", "thought": True}), tool_call(function(args={"myKey": [1]}))),
    *(says("so"), parts(AUDIO), {"serverContent": {"generationComplete": True}}, DONE),
    *(tool_call(function("other", "fc_2")), cancelled("fc_2"), DONE),
]


async def test_bytes_text_and_messages_of_the_sdk_give_the_same_events() -> None:
    from google.genai import types as google

    async def receive() -> AsyncIterator[google.LiveServerMessage]:
        for payload in SESSION:
            yield google.LiveServerMessage.model_validate(payload)

    expected = assemble(*SESSION)[1]
    assert [event async for event in stream(receive(), "gemini-live")] == expected
    assert assemble(*(json.dumps(payload) for payload in SESSION))[1] == expected
    assert assemble(*(json.dumps(payload).encode() for payload in SESSION))[1] == expected


def test_usage_after_the_end_of_a_turn_is_not_that_of_the_next() -> None:
    late = {"usageMetadata": {"promptTokenCount": 99}}
    done = {"serverContent": {"turnComplete": True}}
    _, events = assemble(says("a"), done, late, says("b"), done)
    assert [turn.usage.input_tokens for turn in turns(events)] == [None, None]
