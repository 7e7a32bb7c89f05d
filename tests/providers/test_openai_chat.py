"""OpenAI Chat Completions: what is not a quirk but the protocol."""

from typing import Any

import pytest

from argstream.events import StreamFailed, TextDelta, ThinkingCompleted, TurnCompleted, Usage
from argstream.history import TextPart, ThinkingPart
from tests.provider_streams import (
    assemble,
    call_part,
    chat_call,
    chunk,
    completed,
    entry,
    of_type,
    only_call,
    tool_calls,
    types,
)

DONE = b"[DONE]"


@pytest.mark.parametrize(
    ("finish", "with_text", "without"),
    [
        ("tool_calls", "complete", "complete"),
        ("stop", "complete", "complete"),
        ("function_call", "complete", "complete"),
        ("something_new", "complete", "truncated"),
        ("length", "truncated", "truncated"),
        ("content_filter", "truncated", "truncated"),
        ("error", "truncated", "truncated"),
    ],
)
def test_a_call_is_complete_unless_the_finish_reason_says_cut(
    finish: str, with_text: str, without: str
) -> None:
    assert only_call(chat_call('{"a":1}', finish=finish)).verdict == with_text
    assert only_call(chat_call(finish=finish)).verdict == without
    no_arguments: list[Any] = ["null", None, {}]
    for given in no_arguments:
        call = [tool_calls(entry(given, id="a", name="tool")), chunk(finish="stop")]
        assert only_call(call).arguments == {}


def test_an_orderly_done_closes_a_call_but_not_one_without_text() -> None:
    assert only_call([*chat_call('{"a":1}')[:-1], DONE]).verdict == "complete"
    assert only_call([*chat_call()[:-1], DONE]).verdict == "truncated"
    assert only_call(chat_call('{"a":1}')[:-1]).verdict == "truncated"


def test_a_cut_turn_cuts_only_its_last_call() -> None:
    payloads = [
        tool_calls(entry('{"a":1}', index=0, id="a", name="first")),
        tool_calls(entry('{"b":1}', index=1, id="b", name="second")),
        chunk(finish="length"),
    ]
    calls, _ = assemble(payloads)
    assert [call.verdict for call in calls] == ["complete", "truncated"]


def test_choices_are_kept_apart() -> None:
    payloads = [
        tool_calls(entry('{"a":', id="a", name="tool"), choice=0),
        tool_calls(entry('{"a":', id="b", name="tool"), choice=1),
        tool_calls(entry("1}"), choice=0),
        tool_calls(entry("2}"), choice=1),
        chunk(finish="tool_calls", choice=0),
    ]
    calls, events = assemble(payloads)
    assert [call.verdict for call in calls] == ["complete", "truncated"]
    assert types(events)[-1] == "turn_completed"


def test_text_thinking_and_refusals_are_told_in_order() -> None:
    _, events = assemble(
        [
            chunk(role="assistant", content=""),
            chunk(reasoning_content="hm"),
            chunk(reasoning="hmm"),
            chunk(content="so"),
            chunk(refusal="no", finish="stop"),
        ]
    )
    assert ThinkingCompleted("hmhmm", 0) in events
    assert of_type(events, TextDelta) == [TextDelta("so", 1), TextDelta("no", 1)]


def test_content_may_be_a_list_of_parts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    _, events = assemble(
        [chunk(content=[thinking, {"type": "text", "text": "so"}, 3]), chunk(finish="stop")]
    )
    assert types(events)[:4] == [
        "thinking_started",
        "thinking_delta",
        "thinking_completed",
        "text_delta",
    ]


def test_what_must_go_back_is_kept_whole() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    pieces = [
        {"type": "reasoning.text", "index": 0, "text": "a"},
        {"type": "reasoning.text", "index": 0, "text": "b", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "x"},
    ]
    _, events = assemble(
        [
            chunk(reasoning="a", reasoning_details=pieces[:1]),
            chunk(reasoning="b", reasoning_details=pieces[1:]),
            chunk(content="so"),
            tool_calls(entry("{}", id="a", name="tool", extra_content=extra)),
            chunk(finish="tool_calls"),
        ]
    )
    (event,) = of_type(events, TurnCompleted)
    details = [
        {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "x"},
    ]
    assert event.message.parts == (
        ThinkingPart(text="ab", item={"reasoning_details": details}),
        TextPart(text="so"),
        call_part("a", "tool", {}, "{}", item={"extra_content": extra}),
    )


def test_what_goes_back_with_a_call_is_not_mixed_up_with_a_block_of_text() -> None:
    extras = [{"google": {"thought_signature": str(n)}} for n in range(3)]
    entries = [
        entry("{}", index=n, id=f"c{n}", name="f", extra_content=extras[n]) for n in range(3)
    ]
    payloads = [chunk(reasoning="hm"), chunk(content="so"), tool_calls(*entries)]
    _, events = assemble([*payloads, chunk(finish="tool_calls")])
    (event,) = of_type(events, TurnCompleted)
    items = [part.item for part in event.message.parts]
    kept = ({"extra_content": extra} for extra in extras)
    assert items == [{"field": "reasoning"}, None, *kept]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_the_field_of_a_thought_is_kept_since_it_goes_back_in_it(field: str) -> None:
    pieces: list[dict[str, Any]] = [{field: "h"}, {field: "m"}, {"content": "so"}]
    event = completed([*(chunk(**piece) for piece in pieces), chunk(finish="stop")])
    assert event.message.parts == (
        ThinkingPart(text="hm", item={"field": field}),
        TextPart(text="so"),
    )


def test_usage_comes_after_the_finish_reason_and_is_waited_for() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    _, events = assemble([*chat_call("{}"), {"choices": [], "usage": usage}, DONE])
    assert events[-1].type == "turn_completed"
    assert events[-1].usage == Usage(
        input_tokens=10, output_tokens=5, cache_read_tokens=4, reasoning_tokens=3
    )


def test_a_finish_reason_that_comes_twice_is_one_end() -> None:
    _, events = assemble([*chat_call("{}"), chunk(finish="tool_calls"), DONE])
    assert len(of_type(events, TurnCompleted)) == 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"message": "slow down", "code": 429}, StreamFailed("429", "slow down", retryable=True)),
        (
            {"message": "bad", "type": "invalid_request_error"},
            StreamFailed("invalid_request_error", "bad"),
        ),
        ({"code": "server_error"}, StreamFailed("server_error", "server_error", retryable=True)),
        ("plain words", StreamFailed("error", "plain words")),
    ],
)
def test_errors_are_told_and_cut_what_is_open(error: Any, expected: StreamFailed) -> None:
    calls, events = assemble([*chat_call('{"a":1}')[:-1], {"error": error}])
    assert calls[0].verdict == "truncated"
    assert events[-1] == expected
    assert assemble([{"error": error}])[1] == [expected]


def test_an_error_may_sit_in_a_choice() -> None:
    payload = chunk(finish="error")
    payload["choices"][0]["error"] = {"code": 502, "message": "upstream"}
    _, events = assemble([*chat_call('{"a"')[:-1], payload])
    assert StreamFailed("502", "upstream", retryable=True) in events


def test_groq_shows_the_call_that_it_refused() -> None:
    error = {"code": "tool_use_failed", "message": "no", "failed_generation": '{"name": "x"}'}
    (event,) = of_type(assemble([{"error": error}])[1], StreamFailed)
    assert '{"name": "x"}' in event.message


def test_a_whole_response_is_read_like_a_stream() -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": "b", "type": "function", "function": {"name": "f", "arguments": '{"a":2}'}},
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    response = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
    }
    found, events = assemble([response])
    assert [call.arguments for call in found] == [{"a": 1}, {"a": 2}]
    assert types(events)[-1] == "turn_completed"


def test_a_new_turn_may_follow_done() -> None:
    calls, events = assemble([*chat_call("{}"), DONE, *chat_call("{}"), DONE])
    assert [call.verdict for call in calls] == ["complete", "complete"]
    assert len(of_type(events, TurnCompleted)) == 2


def test_padding_and_unknown_fields_are_ignored() -> None:
    payloads = [{**payload, "p": "abc", "obfuscation": "xyz"} for payload in chat_call("{}")]
    payloads.insert(1, {"object": "brand.new", "choices": None})
    assert only_call(payloads).verdict == "complete"
