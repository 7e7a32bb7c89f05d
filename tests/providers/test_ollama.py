"""Ollama's own chat: the rules and details of wire.md, where no recording shows them alone."""

import json
from importlib import import_module
from typing import Any

import pytest

from argstream import stream
from argstream.events import (
    StreamFailed,
    TextDelta,
    ThinkingCompleted,
    ThinkingDelta,
    ThinkingStarted,
    ToolArgsDelta,
    TurnCompleted,
    Usage,
)
from argstream.history import OpaquePart
from tests.provider_streams import (
    Payload,
    Reader,
    of_type,
    types,
)

READER = Reader("ollama")
assemble, only_call = READER.assemble, READER.only_call


def chunk(**message: Any) -> Payload:
    return {
        "model": "qwen",
        "created_at": "2026-03-06T14:53:02Z",
        "message": {"role": "assistant", "content": "", **message},
        "done": False,
    }


def entry(
    arguments: Any = None, *, index: Any = None, id_: str | None = None, name: str | None = "write"
) -> Payload:
    """An entry of tool_calls; what is None is left out."""
    function = {"index": index, "name": name, "arguments": arguments}
    found = {
        "id": id_,
        "function": {key: value for key, value in function.items() if value is not None},
    }
    return {key: value for key, value in found.items() if value is not None}


def called(*entries: Payload) -> Payload:
    return chunk(tool_calls=list(entries))


def done(reason: str | None = "stop", **message: Any) -> Payload:
    counts = {"prompt_eval_count": 7, "eval_count": 5, "total_duration": 1}
    ended = {**chunk(**message), "done": True, **counts}
    return ended if reason is None else {**ended, "done_reason": reason}


def test_a_call_comes_whole_and_is_complete_at_once() -> None:
    _, events = assemble([called(entry({"a": [1, None]}, index=0, id_="call_1"))])
    assert types(events)[:2] == ["tool_call_started", "tool_args_delta"]
    assert events[1] == ToolArgsDelta("call_1", "write", '{"a":[1,null]}')
    assert types(events)[-2:] == ["tool_args_completed", "stream_failed"]


def test_lines_and_dicts_say_the_same() -> None:
    payloads = [called(entry({"a": 1}, index=0, id_="call_1")), done()]
    body = "".join(json.dumps(payload) + "\n" for payload in payloads)
    assert list(stream([body], protocol="ollama")) == assemble(payloads)[1]


def test_without_done_the_turn_is_cut_but_not_a_call_that_was_whole() -> None:
    calls, events = assemble([called(entry({"a": 1})), chunk(content="and n")])
    assert calls[0].verdict == "complete"
    assert events[-1] == StreamFailed(
        "truncated", "the stream ended before the model did", retryable=True
    )
    assert types(assemble([{**done(), "done": "no"}])[1]) == ["stream_failed"]  # only true is


def test_without_index_and_id_each_entry_is_a_call_with_an_id_of_its_own() -> None:
    calls, _ = assemble([called(entry({"a": 1}), entry({"b": 2})), called(entry({"c": 3})), done()])
    assert [call.arguments for call in calls] == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert len({call.id for call in calls}) == 3


def test_the_same_index_in_several_chunks_means_several_calls() -> None:
    calls, _ = assemble(
        [called(entry({"a": 1}, index=0)), called(entry({"a": 1}, index=0)), done()]
    )
    assert [call.arguments for call in calls] == [{"a": 1}, {"a": 1}]
    assert [call.reinterpreted for call in calls] == [None, None]


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [("stop", "complete"), ("length", "truncated"), ("new", "truncated"), (None, "truncated")],
)
def test_no_arguments_at_all_mean_none_or_cut_off_depending_on_the_reason(
    reason: str | None, verdict: str
) -> None:
    assert only_call([called(entry()), done(reason)]).verdict == verdict
    assert only_call([called(entry({})), done(reason)]).arguments == {}  # an object is whole


@pytest.mark.parametrize(
    ("reason", "verdict"), [("stop", "complete"), ("length", "truncated"), (None, "complete")]
)
def test_arguments_in_text_are_closed_by_the_end_alone(reason: str | None, verdict: str) -> None:
    assert only_call([called(entry('{"a":1}')), done(reason)]).verdict == verdict
    assert only_call([called(entry('{"a":1}'))]).verdict == "truncated"


def test_arguments_in_text_may_come_in_pieces() -> None:
    calls, _ = assemble(
        [
            called(entry('{"a"', index=0, id_="a"), entry('{"b"', index=1, id_="b")),
            called(entry(":1}", index=0, name=None)),
            called(entry(":2}", index=1, name=None)),
            done(),
        ]
    )
    assert [(call.id, call.arguments) for call in calls] == [("a", {"a": 1}), ("b", {"b": 2})]


def test_a_call_may_come_with_the_end() -> None:
    """A response that was not streamed is one chunk."""
    calls, events = assemble([done(content="so", tool_calls=[entry({"a": 1})])])
    assert calls[0].arguments == {"a": 1}
    assert types(events)[0] == "text_delta"
    assert types(events)[-1] == "turn_completed"


def test_text_and_thinking_are_events_of_their_own() -> None:
    _, events = assemble(
        [
            chunk(thinking="h"),
            chunk(thinking="m"),
            chunk(content="so"),
            chunk(thinking="no"),
            called(entry({})),
            chunk(content="there"),
            done(),
        ]
    )
    assert events[:7] == [
        ThinkingStarted(0),
        ThinkingDelta("h", 0),
        ThinkingDelta("m", 0),
        ThinkingCompleted("hm", 0),
        TextDelta("so", 1),
        ThinkingStarted(2),
        ThinkingDelta("no", 2),
    ]
    assert types(events)[7:9] == ["thinking_completed", "tool_call_started"]
    assert of_type(events, TextDelta)[-1] == TextDelta("there", 3)


def test_images_are_kept() -> None:
    _, events = assemble([chunk(images=["aW1hZ2U="]), done()])
    (event,) = of_type(events, TurnCompleted)
    assert event.message.parts == (OpaquePart(item={"images": ["aW1hZ2U="]}),)


def test_the_end_tells_the_model_the_reason_and_the_usage() -> None:
    (event,) = assemble([done()])[1]
    assert isinstance(event, TurnCompleted)
    assert (event.stop_reason, event.message.model) == ("stop", "qwen")
    assert event.usage == Usage(input_tokens=7, output_tokens=5)


def test_after_the_end_another_turn_may_begin() -> None:
    calls, events = assemble([called(entry({"a": 1})), done(), called(entry({"b": 2})), done()])
    assert [call.arguments for call in calls] == [{"a": 1}, {"b": 2}]
    assert len({call.id for call in calls}) == 2
    assert len(of_type(events, TurnCompleted)) == 2


@pytest.mark.parametrize(
    ("error", "message"),
    [("model runner has stopped", "model runner has stopped"), ({"message": "no"}, "no")],
)
def test_a_line_with_an_error_is_a_failure(error: Any, message: str) -> None:
    calls, events = assemble([called(entry('{"a":1}')), {"error": error}])
    assert calls[0].verdict == "truncated"
    assert events[-1] == StreamFailed("error", message)


@pytest.mark.parametrize(
    "payload",
    [
        {"message": "x", "done": False},
        chunk(content=1),
        chunk(tool_calls={"function": {}}),
        chunk(tool_calls=[1]),
        chunk(tool_calls=[{"function": "x"}]),
        called(entry({}, name=1)),  # type: ignore[arg-type]
        called(entry(["a"])),
        called(entry(1)),
        b'{"message":{"tool_calls":[{"function":{"name":"x","arguments":{"a":1,"a":2}}}]}}',
        b"[]",
        b"{",
    ],
)
def test_what_cannot_be_read_cuts_the_open_call_and_makes_none(payload: Any) -> None:
    calls, events = assemble([called(entry('{"a":1}')), payload, done()])
    assert [call.verdict for call in calls] == ["truncated"]
    assert of_type(events, StreamFailed)[0].code == "bad_payload"


def test_a_call_without_a_name_is_malformed() -> None:
    for nameless in (entry({}, name=None), {"id": "x"}):
        assert only_call([called(nameless), done()]).verdict == "malformed"


def test_objects_of_the_sdk_say_the_same() -> None:
    """Of a call, the SDK keeps the name and the arguments alone."""
    sdk = import_module("ollama")
    payloads = [
        chunk(thinking="hm"),
        chunk(content="so"),
        called(entry({"a": {"b": [1]}})),
        called(entry({})),
        done(),
    ]
    objects = [sdk.ChatResponse(**payload) for payload in payloads]
    assert assemble(objects)[1] == assemble(payloads)[1]
