"""OpenAI Chat Completions: the protocol itself. Deviations of servers are in test_quirks.py."""

from typing import Any

from argstream.events import TextDelta, ThinkingCompleted, Usage
from argstream.history import TextPart, ThinkingPart
from tests import provider_streams as api
from tests.provider_streams import Payload, chat_call, chunk, entry, provider_failed, tool_calls
from tests.providers.tables import Tables, cases

READER = Tables("openai-chat")
assemble, completed = READER.assemble, READER.completed

DONE = b"[DONE]"
OPEN_CALL = chat_call('{"a":1}')[:-1]


def with_text(finish: str) -> list[Any]:
    return chat_call('{"a":1}', finish=finish)


def without_text(finish: str) -> list[Any]:
    return chat_call(finish=finish)


def given(arguments: Any) -> list[Any]:
    return [tool_calls(entry(arguments, id="a", name="tool")), chunk(finish="stop")]


WHOLE = ["tool_calls", "stop", "function_call"]
CUT = ["length", "content_filter", "error"]
TWO_CALLS = [
    tool_calls(entry('{"a":1}', index=0, id="a", name="first")),
    tool_calls(entry('{"b":1}', index=1, id="b", name="second")),
]
ENTRIES = [entry('{"a":1}', id="a", name="f"), entry("{}", id="b", name="f")]
MESSAGE = {"role": "assistant", "content": None, "tool_calls": ENTRIES}
CHOICE = {"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}
RESPONSE = {"object": "chat.completion", "choices": [CHOICE]}
PADDED = [{**payload, "p": "abc", "obfuscation": "xyz"} for payload in chat_call("{}")]
UNKNOWN = {"object": "brand.new", "choices": None}

test_outcomes = READER.test_outcomes(
    {
        **cases("text and", with_text, {"a": 1}, [*WHOLE, "new"]),
        **cases("text and", with_text, "truncated", CUT),
        **cases("no text and", without_text, {}, WHOLE),
        **cases("no text and", without_text, "truncated", [*CUT, "new"]),
        **cases("arguments are", given, {}, ["null", None, {}]),
        "[DONE] closes a call": ([*OPEN_CALL, DONE], [{"a": 1}]),
        "[DONE] does not close a call without text": ([*chat_call()[:-1], DONE], ["truncated"]),
        "no end": (OPEN_CALL, ["truncated"]),
        "cut after two calls": ([*TWO_CALLS, chunk(finish="length")], [{"a": 1}, "truncated"]),
        "whole response": ([RESPONSE], [{"a": 1}, {}]),
        "padding and unknown fields": ([PADDED[0], UNKNOWN, *PADDED[1:]], [{}]),
    }
)


def test_choices_are_separate() -> None:
    payloads = [
        *(tool_calls(entry('{"a":', id="ab"[n], name="tool"), choice=n) for n in range(2)),
        *(tool_calls(entry(f"{n}}}"), choice=n) for n in range(2)),
        chunk(finish="tool_calls", choice=0),
    ]
    calls, events = assemble(payloads)
    assert [call.verdict for call in calls] == ["complete", "truncated"]
    assert api.types(events)[-1] == "turn_completed"


def test_reasoning_is_thinking_and_a_refusal_is_text() -> None:
    _, events = assemble(
        [
            *(chunk(role="assistant", content=""), chunk(reasoning_content="hm")),
            *(chunk(reasoning="hmm"), chunk(content="so"), chunk(refusal="no", finish="stop")),
        ]
    )
    assert ThinkingCompleted("hmhmm", 0) in events
    assert api.of_type(events, TextDelta) == [TextDelta("so", 1), TextDelta("no", 1)]


def test_content_may_be_a_list_of_parts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    content = [thinking, {"type": "text", "text": "so"}, 3]
    _, events = assemble([chunk(content=content), chunk(finish="stop")])
    assert api.types(events)[:3] == ["thinking_started", "thinking_delta", "thinking_completed"]
    assert api.types(events)[3] == "text_delta"


def thought(field: str, text: str) -> Payload:
    fields: Payload = {field: text}
    return chunk(**fields)


EXTRAS = [{"extra_content": {"google": {"thought_signature": str(n)}}} for n in range(3)]
DETAILS: list[Any] = [
    {"type": "reasoning.text", "index": 0, "text": "a"},
    {"type": "reasoning.text", "index": 0, "text": "b", "signature": "s"},
    {"type": "reasoning.encrypted", "index": 1, "data": "x"},
]
JOINED = [{**DETAILS[1], "text": "ab"}, DETAILS[2]]


def test_parts_that_must_go_back_are_kept() -> None:
    so, text = chunk(content="so"), TextPart(text="so")
    for field in ("reasoning_content", "reasoning"):
        kept = ThinkingPart(text="hm", item={"field": field})
        payloads = [thought(field, "h"), thought(field, "m"), so, chunk(finish="stop")]
        assert READER.parts(payloads) == [kept, text]
    first = chunk(reasoning="a", reasoning_details=DETAILS[:1])
    second = chunk(reasoning="b", reasoning_details=DETAILS[1:])
    kept = ThinkingPart(text="ab", item={"reasoning_details": JOINED})
    assert READER.parts([first, second, so, chunk(finish="stop")]) == [kept, text]
    entries = [entry("{}", index=n, id=f"c{n}", name="f", **EXTRAS[n]) for n in range(3)]
    payloads = [thought("reasoning", "hm"), so, tool_calls(*entries), chunk(finish="tool_calls")]
    calls = [api.call_part(f"c{n}", "f", {}, "{}", item=EXTRAS[n]) for n in range(3)]
    kept = ThinkingPart(text="hm", item={"field": "reasoning"})
    assert READER.parts(payloads) == [kept, text, *calls]


def test_usage_comes_after_the_finish_reason() -> None:
    usage: Payload = {"prompt_tokens": 10, "completion_tokens": 5}
    usage["prompt_tokens_details"] = {"cached_tokens": 4}
    usage["completion_tokens_details"] = {"reasoning_tokens": 3}
    _, events = assemble([*chat_call("{}"), {"choices": [], "usage": usage}, DONE])
    assert events[-1].type == "turn_completed"
    assert events[-1].usage == Usage(10, 5, cache_read_tokens=4, reasoning_tokens=3)


def test_repeated_finish_reason_is_one_turn_and_a_new_turn_may_follow() -> None:
    _, events = assemble([*chat_call("{}"), chunk(finish="tool_calls"), DONE])
    assert len(api.turns(events)) == 1
    second = [{**payload, "id": "chatcmpl-2"} for payload in chat_call("{}")]
    for mark in ([DONE], []):
        calls, events = assemble([*chat_call("{}"), *mark, *second, *mark])
        assert [call.verdict for call in calls] == ["complete", "complete"]
        assert len(api.turns(events)) == 2


INVALID = {"message": "bad", "type": "invalid_request_error"}

test_error_truncates_the_call = READER.test_failures(
    OPEN_CALL,
    [
        ({"error": {"message": "no", "code": 429}}, provider_failed("429", "no", retryable=True)),
        ({"error": INVALID}, provider_failed("invalid_request_error", "bad")),
        (
            {"error": {"code": "server_error"}},
            provider_failed("server_error", "server_error", True),
        ),
        ({"error": "plain words"}, provider_failed("error", "plain words")),
    ],
)


def test_error_may_be_inside_a_choice() -> None:
    payload = chunk(finish="error")
    payload["choices"][0]["error"] = {"code": 502, "message": "upstream"}
    _, events = assemble([*chat_call('{"a"')[:-1], payload])
    assert provider_failed("502", "upstream", retryable=True) in events


def test_failure_of_groq_shows_the_refused_call() -> None:
    error = {"code": "tool_use_failed", "message": "no", "failed_generation": '{"name": "x"}'}
    (event,) = api.failures(assemble([{"error": error}])[1])
    assert '{"name": "x"}' in event.message
