"""Invariants 8 to 10: every call ends with a true verdict, and nothing else makes it complete."""

from typing import Any

import pytest

from argstream.assembly import Assembler
from argstream.events import ArgumentsError, StreamFailed, ToolArgsCompleted, ToolArgsInvalid
from argstream.jsonstream import Limits
from tests.provider_streams import (
    anthropic_call,
    assemble,
    block_stop,
    chat_call,
    input_json,
    message_end,
    message_start,
    of_type,
    only_call,
    responses_call,
    tool_use,
    types,
)

TURNS = [anthropic_call, chat_call, responses_call]


@pytest.mark.parametrize("turn", TURNS)
def test_the_events_of_one_call_come_in_this_order(turn: Any) -> None:
    _, events = assemble(turn('{"path": "/t', 'mp", "n": [1]}'))
    assert types(events) == [
        *("tool_call_started", "tool_args_delta", "argument_started", "argument_delta"),
        *("tool_args_delta", "argument_delta", "argument_completed", "argument_started"),
        *("argument_started", "argument_completed", "argument_completed", "tool_args_completed"),
        "turn_completed",
    ]


@pytest.mark.parametrize("turn", TURNS)
def test_a_malformed_call_is_refused_at_its_first_bad_character(turn: Any) -> None:
    payloads = turn('{"a": 0', "1", ', "b": 2}')
    calls, events = assemble(payloads)
    (invalid,) = of_type(events, ToolArgsInvalid)
    assert (invalid.verdict, invalid.raw) == ("malformed", '{"a": 01')
    assert (invalid.error.reason, invalid.error.offset) == ("bad_number", 7)
    assert invalid.error.path == ("a",)
    # What comes later is kept for the record, but makes no events.
    assert calls[0].raw == '{"a": 01, "b": 2}'
    assert calls[0].arguments == {"INVALID_JSON": '{"a": 01, "b": 2}'}
    after = events[events.index(invalid) + 1 :]
    assert types(after) == ["turn_completed"]


@pytest.mark.parametrize("turn", TURNS)
def test_a_duplicate_key_makes_a_call_malformed(turn: Any) -> None:
    call = only_call(turn('{"path": "/tmp/a", "path": "/etc/passwd"}'))
    assert call.verdict == "malformed"


@pytest.mark.parametrize("text", ['["x", {"a": 1}]', "1", "true", "-"])
@pytest.mark.parametrize("turn", TURNS)
def test_arguments_that_are_no_object_are_malformed_at_once(turn: Any, text: str) -> None:
    _, events = assemble(turn(text))
    (invalid,) = of_type(events, ToolArgsInvalid)
    assert (invalid.verdict, invalid.error.reason) == ("malformed", "not_an_object")
    assert types(events) == [
        "tool_call_started",
        "tool_args_delta",
        "tool_args_invalid",
        "turn_completed",
    ]


@pytest.mark.parametrize("text", ["[0, {}]", '{"a": 1e999, "b": "c"}'])
@pytest.mark.parametrize("turn", TURNS)
def test_nothing_is_told_of_what_may_be_misread(turn: Any, text: str) -> None:
    """White space, then the same with more: the second piece may be the whole text again."""
    _, whole = assemble(turn("  " + text))
    _, events = assemble(turn(" ", " " + text))
    told = [name for name in types(events) if name != "tool_args_delta"]
    assert told == [name for name in types(whole) if name != "tool_args_delta"]
    assert of_type(events, ToolArgsInvalid) == of_type(whole, ToolArgsInvalid)


@pytest.mark.parametrize("turn", TURNS)
def test_a_limit_that_is_passed_makes_a_call_malformed(turn: Any) -> None:
    call = only_call(turn('{"a": [[[[1]]]]}'), limits=Limits(max_depth=3))
    assert call.verdict == "malformed"


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("text", ["", "{", '{"a', '{"a": 1', '{"a": {}'])
def test_a_stream_that_ends_too_early_truncates_what_is_open(turn: Any, text: str) -> None:
    payloads = turn(text) if text else turn()
    opened = next(n for n in range(len(payloads)) if assemble(payloads[: n + 1])[0])
    for end in range(opened + 1, opened + 2 + bool(text)):
        calls, events = assemble(payloads[:end])
        assert calls[0].verdict == "truncated"
        assert types(events)[-2:] == ["tool_args_invalid", "stream_failed"]
        assert events[-1] == StreamFailed(
            "truncated", "the stream ended before the model did", retryable=True
        )


@pytest.mark.parametrize("turn", TURNS)
def test_a_closed_call_that_is_not_whole_is_truncated(turn: Any) -> None:
    calls, events = assemble(turn('{"a": "b'))
    (invalid,) = of_type(events, ToolArgsInvalid)
    assert (invalid.verdict, invalid.error.reason) == ("truncated", "truncated")
    assert (invalid.error.path, invalid.error.offset) == (("a",), 8)
    assert calls[0].arguments == {"INVALID_JSON": '{"a": "b'}


@pytest.mark.parametrize("turn", TURNS)
def test_white_space_is_no_text(turn: Any) -> None:
    assert only_call(turn(" \n")).arguments == {}
    assert only_call(turn(' {"a":1}\n ')).arguments == {"a": 1}


@pytest.mark.parametrize("turn", TURNS)
def test_a_payload_that_cannot_be_read_costs_the_calls_that_are_open(turn: Any) -> None:
    """A piece may be missing: what is left may even parse."""
    payloads: list[Any] = turn('{"path": "/srv', '/keep"}')
    pieces = [n for n, payload in enumerate(payloads) if "/srv" in str(payload)]
    payloads[pieces[0] + 1] = b'{"broken'
    calls, events = assemble(payloads)
    assert calls[0].verdict == "truncated"
    (failed,) = of_type(events, StreamFailed)
    assert failed.code == "bad_payload"
    assert types(events)[-1] == "turn_completed"  # and the rest goes on


@pytest.mark.parametrize(
    "payload", [b"[1]", b'"text"', b"null", b"\xff", b"", "x" * 5000, b"[" * 5000, 3, None, [1]]
)
def test_no_payload_makes_it_raise(payload: Any) -> None:
    """Invariant 9."""
    for protocol in ("auto", "anthropic", "openai-chat", "openai-responses", "bedrock-invoke"):
        _, events = assemble([payload], protocol=protocol)
        assert types(events) == ["stream_failed"]


def test_an_abort_ends_every_open_call() -> None:
    assembler = Assembler()
    for payload in anthropic_call('{"a":1}')[:3]:
        assembler.feed(payload)
    (event,) = assembler.abort()
    assert isinstance(event, ToolArgsInvalid)
    assert event.verdict == "aborted"
    assert assembler.calls[0].verdict == "aborted"
    assert assembler.close() == assembler.abort() == []


def test_a_call_is_live() -> None:
    assembler = Assembler()
    turn = anthropic_call('{"path": "/t', "mp", '"}')
    seen: list[Any] = []
    for payload in turn:
        assembler.feed(payload)
        if assembler.calls:
            (call,) = assembler.calls
            seen.append((call.verdict, call.raw, repr(call.partial), call.arguments))
    done = {"path": "/tmp"}
    assert seen == [
        ("open", "", "PENDING", None),
        ("open", '{"path": "/t', "{'path': '/t'}", None),
        ("open", '{"path": "/tmp', "{'path': '/tmp'}", None),
        ("open", '{"path": "/tmp"}', "{'path': '/tmp'}", None),
        ("complete", '{"path": "/tmp"}', "{'path': '/tmp'}", done),
        ("complete", '{"path": "/tmp"}', "{'path': '/tmp'}", done),
        ("complete", '{"path": "/tmp"}', "{'path': '/tmp'}", done),
    ]
    assert repr(assembler.calls[0]) == "<Call 'write' toolu_1 complete, 16 characters>"


def test_a_call_says_nothing_more_after_its_verdict() -> None:
    late = [input_json(0, '{"a":1}'), block_stop(0), input_json(0, "more"), block_stop(0)]
    calls, events = assemble([message_start(), tool_use(0), *late, *message_end()])
    assert len(of_type(events, ToolArgsCompleted, ToolArgsInvalid)) == 1
    assert (calls[0].verdict, calls[0].arguments) == ("complete", {"a": 1})


def test_every_call_of_a_failed_turn_has_a_verdict_and_no_turn_completes() -> None:
    error = {"type": "error", "error": {"type": "api_error", "message": "oops"}}
    _, events = assemble([message_start(), tool_use(0), tool_use(1, id_="b"), error])
    assert types(events) == [
        *("tool_call_started", "tool_call_started", "tool_args_invalid", "tool_args_invalid"),
        "stream_failed",
    ]


def test_an_error_says_in_words_what_happened() -> None:
    _, events = assemble(anthropic_call("", stop_reason="max_tokens"))
    (invalid,) = of_type(events, ToolArgsInvalid)
    assert invalid.error == ArgumentsError(
        "truncated", "no arguments had come when the turn ended (max_tokens)", 0
    )


def test_nothing_at_all_is_told() -> None:
    assert assemble([])[1] == [
        StreamFailed("empty", "the stream ended before a message began", retryable=True)
    ]


def test_what_no_protocol_begins_with_is_told() -> None:
    (event,) = assemble([{"hello": "world"}, {"type": "nothing"}])[1]
    assert isinstance(event, StreamFailed)
    assert event.code == "unknown_protocol"
    assert "hello" in event.message


def test_payloads_before_the_protocol_is_known_are_not_lost() -> None:
    unknown: Any = {"type": "keepalive"}
    calls, events = assemble([unknown, unknown, *anthropic_call("{}")])
    assert [call.verdict for call in calls] == ["complete"]
    assert "stream_failed" not in types(events)
